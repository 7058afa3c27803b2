#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The ring of a channel, and how its participants sleep: tests/models/ring.pml,
# ring_cast.pml and ring_wait.pml, as they are and with something left out.
. "${top_srcdir:?set by tests/run}/tests/models_kit.sh"

holds ring
holds ring -DPRODUCERS=1 -DCONSUMERS=2 -DITEMS=2
holds ring_wait -DPAIRS=2 -DWATCHERS=1

lost='published['      # published and not delivered
stuck='state['         # a slot that nobody gives back

broken "$lost" ring -DFREE_OFFERED
broken "$stuck" ring -DKEEP_OFFERED
broken "$stuck" ring -DPLACE_FIRST
broken "$stuck" ring -DFREE_AT_PLACE
broken "$stuck" ring -DPRODUCERS=1 -DCONSUMERS=3 -DDEATHS=2 -DCRASHES=0 \
	-DITEMS=2 -DCLEAR_ANYHOW
broken "$stuck" ring -DPRODUCERS=1 -DCONSUMERS=2 -DSAY_ONLY_NEW

asleep='n_done'	       # asleep beside an item
broken "$asleep" ring_wait -DNO_SECOND_LOOK
broken "$asleep" ring_wait -DNO_SECOND_WAKE
broken "$asleep" ring_wait -DSAME_COUNT
broken "$asleep" ring_wait -DCLEAR_WHEN_WOKEN
broken "$asleep" ring_wait -DPAIRS=2 -DWATCHERS=1 -DWAKE_ANY
broken "$asleep" ring_wait -DPAIRS=2 -DWATCHERS=2 -DLEAVE_COUNT

holds ring_cast -DLIVES=1 -DDEATHS=0
holds ring_cast -DITEMS=1
holds ring_cast -DITEMS=2 -DLIVES=0 -DSLOTS=2 -DPRODUCERS_DIE
holds ring_cast -DITEMS=1 -DLIVES=0 -DSLOTS=2 -DPRODUCERS=2 -DDEATHS=0 \
	-DCLOSE_LAST

missed='at_<must'      # passed over what was for it
taken='tag[s]==at_'    # something else than was published
broken "$stuck" ring_cast -DITEMS=1 -DLIVES=1 -DNO_B2
broken "$stuck" ring_cast -DITEMS=1 -DLIVES=1 -DNO_L2
broken "$taken" ring_cast -DITEMS=1 -DJOIN_AT_TAIL
broken "$missed" ring_cast -DITEMS=1 -DLIVES=0 -DORDER_SHORT

if long; then
	holds ring_cast -DCLOSE_LAST
	holds ring_wait
	holds ring -DITEMS=2
	holds ring -DCONSUMERS=2 -DDEATHS=2
fi
finish
