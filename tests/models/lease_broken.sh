#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The protocol of leases with something left out: tests/models/lease.pml.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

used='users[0]==0'     # freed while somebody uses it
leak='name[n]||'       # free for ever, and nobody frees it
other='made[s]==m'     # other bytes than the name led to

broken "$used" lease -DNO_ACQUIRE_FENCE
broken "$used" lease -DNO_FREE_FENCE -DLEAKS_DO_NOT_COUNT
broken "$leak" lease -DNO_FREE_FENCE
broken "$leak" lease -DNO_RELEASE_FENCE
broken "$leak" lease -DNO_BELL
broken "$leak" lease -DNO_BELL_OF_REFUSED
broken "$used" lease -DDROP_BEFORE_INSTALL
broken "$used" lease -DNO_CHECK_AT_HAND_OVER
broken "$leak" lease -DNO_RESCAN -DCLIENTS=1
broken "$leak" lease -DNO_RESCAN_OF_UNNAMED -DCLIENTS=1
broken "$leak" lease -DNO_SWEEP
broken "$used" lease -DBURY_EARLY
broken "$used" lease -DFORGET_PAGE
broken "$other" lease -DNO_GENERATION

finish
