#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Releases that a full socket does not take: tests/models/notify.pml, whole and
# with something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds notify
holds notify -DROOM=2
holds notify -DRELEASES=2 -DROOM=3

lost='freed[n]==1' # free for ever, and nobody frees it

broken "$lost" notify -DNO_NOTIFY
broken "$lost" notify -DNO_CLIENT_FENCE
broken "$lost" notify -DNO_SERVER_FENCE
broken "$lost" notify -DNOTIFY_AFTER_TRY
broken "$lost" notify -DCLEAR_AFTER_LOOK
broken "$lost" notify -DNOTIFIED=1
broken "$lost" notify -DLOOKED_AT=1

finish
