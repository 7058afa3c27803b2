#!/bin/bash
# SPDX-License-Identifier: MIT
#
# How a storage is handed over to an item of a channel, and from it, for every
# interleaving: tests/models/channel.pml; and with something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds channel
holds channel -DCONSUMERS=2 -DCRASHES=0
holds channel -DDEATHS=2 -DCRASHES=2
if long; then
	holds channel -DCONSUMERS=2 -DDEATHS=2 -DITEMS=3
fi

used='users==0'   # freed while somebody has it
lost='word!=0'    # an item keeps what is free
leak='users>0'    # nobody has it, and it stays

broken "$used" channel -DNO_PUT_FENCE
broken "$used" channel -DNO_CHECK_OF_PUT
broken "$leak" channel -DNO_BELL_OF_CLEARED
broken "$lost" channel -DSLOT_BACK_BEFORE_TAKEN
broken "$used" channel -DNO_TAKE_FENCE
broken "$used" channel -DNO_FREE_FENCE
broken "$used" channel -DNO_LOOK_AT_ITEMS
broken "$leak" channel -DNO_LOOK_AFTER_REAP

finish
