#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 600 s
#
# The ring of a channel as a broadcast, and its end: tests/models/ring_broadcast.pml,
# as it is and with something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds ring_broadcast -DLIVES=1 -DDEATHS=0
holds ring_broadcast -DITEMS=1
holds ring_broadcast -DITEMS=2 -DLIVES=0 -DSLOTS=2 -DPRODUCERS_DIE
holds ring_broadcast -DITEMS=1 -DLIVES=0 -DSLOTS=2 -DPRODUCERS=2 -DDEATHS=0 \
	-DCLOSE_LAST
if long; then
	holds ring_broadcast -DCLOSE_LAST
fi

stuck='state['         # a slot that nobody gives back
missed='at_<must'      # passed over what was for it
taken='tag[s]==at_'    # something else than was published

broken "$stuck" ring_broadcast -DITEMS=1 -DLIVES=1 -DNO_B2
broken "$stuck" ring_broadcast -DITEMS=1 -DLIVES=1 -DNO_L2
broken "$taken" ring_broadcast -DITEMS=1 -DJOIN_AT_TAIL
broken "$missed" ring_broadcast -DITEMS=1 -DLIVES=0 -DORDER_SHORT

finish
