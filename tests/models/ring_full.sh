#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 600 s
#
# A producer that finds no slot free, and when it may spare itself a look:
# tests/models/ring_full.pml, as it is and with something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds ring_full
holds ring_full -DSILENT
holds ring_full -DTHREADS=2 -DLIVES=1

missed='before[i]' # it looked at no slot, and one was free
asleep='asleep[i]' # beside a free slot

broken "$missed" ring_full -DCOUNT_FIRST
broken "$missed" ring_full -DLOOK_FIRST
broken "$missed" ring_full -DNO_REAPER
broken "$missed" ring_full -DLATE_PLACES
broken "$missed" ring_full -DOLD_PLACES
broken "$missed" ring_full -DRESET_COUNT
broken "$asleep" ring_full -DSILENT -DNO_THOROUGH

finish
