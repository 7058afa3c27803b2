#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 600 s
#
# The ring of a channel as a queue: tests/models/ring.pml, as it is and with
# something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds ring
holds ring -DPRODUCERS=1 -DCONSUMERS=2 -DITEMS=2
if long; then
	holds ring -DITEMS=2
	holds ring -DCONSUMERS=2 -DDEATHS=2
fi

lost='published['      # published and not delivered
stuck='state['         # a slot that nobody gives back

broken "$lost" ring -DFREE_OFFERED
broken "$stuck" ring -DKEEP_OFFERED
broken "$stuck" ring -DPLACE_FIRST
broken "$stuck" ring -DFREE_AT_PLACE
# 900 states, not 14 million.
from_the_end=yes broken "$stuck" ring -DPRODUCERS=1 -DCONSUMERS=3 -DDEATHS=2 \
	-DCRASHES=0 -DITEMS=2 -DCLEAR_ANYHOW
broken "$stuck" ring -DPRODUCERS=1 -DCONSUMERS=2 -DSAY_ONLY_NEW

finish
