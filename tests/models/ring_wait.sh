#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 600 s
#
# How participants of a ring sleep, and are woken:
# tests/models/ring_wait.pml, as it is and with something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds ring_wait -DPAIRS=2 -DWATCHERS=1
if long; then
	holds ring_wait
fi

asleep='n_done'	       # asleep beside an item

broken "$asleep" ring_wait -DNO_SECOND_LOOK
broken "$asleep" ring_wait -DNO_SECOND_WAKE
broken "$asleep" ring_wait -DSAME_COUNT
broken "$asleep" ring_wait -DCLEAR_WHEN_WOKEN
broken "$asleep" ring_wait -DPAIRS=2 -DWATCHERS=1 -DWAKE_ANY
broken "$asleep" ring_wait -DPAIRS=2 -DWATCHERS=2 -DLEAVE_COUNT

finish
