#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A participant that is wrongly taken for dead, and the next in its place:
# tests/models/ring_cooldown.pml, as it is and with something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds ring_cooldown
holds ring_cooldown -DOTHERS=1 -DPLACES=7 -DREST=6 -DGENS=1
holds ring_cooldown -DOTHERS=1 -DPLACES=3 -DREST=1 -DGENS=8
taken='filler==1' # the slot that late gives away is another's
broken "$taken" ring_cooldown -DREST=0 -DGENS=1 -DJOINS=1
broken "$taken" ring_cooldown -DREST=2 -DGENS=1 -DJOINS=3
broken "$taken" ring_cooldown -DREST=1 -DGENS=1 -DJOINS=3
broken "$taken" ring_cooldown -DREST=1 -DGENS=2 -DJOINS=4
broken "$taken" ring_cooldown -DOTHERS=1 -DPLACES=3 -DREST=1 -DGENS=8 -DJOINS=16
broken "$taken" ring_cooldown -DNO_LOOK -DJOINS=8

finish
