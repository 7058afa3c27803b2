#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Who is wrongly taken for dead, and who has his place next:
# tests/models/ring_rest.pml, as it is and with something left out.
. "${top_srcdir:?set by tests/run}/tests/models_kit.sh"

holds ring_rest
holds ring_rest -DOTHERS=1 -DPLACES=7 -DREST=6
taken='filler==1' # the slot that he gives away is another's
broken "$taken" ring_rest -DREST=0 -DJOINS=1
broken "$taken" ring_rest -DREST=2 -DJOINS=3
broken "$taken" ring_rest -DNO_LOOK -DJOINS=8

finish
