#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Names over crashes, for every interleaving: tests/models/table.pml, resume.pml.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

# ---- transactions of names
wrong='seen==left_by' # not what the commit left that is the snapshot
small=(-DLOOKUPS=1 -DCOMMITS=3 -DCRASHES=1)

holds table "${small[@]}"
broken "$wrong" table "${small[@]}" -DERASE_NEWER_FIRST
broken "$wrong" table "${small[@]}" -DNO_DROP
broken "$wrong" table "${small[@]}" -DCOMMIT_FIRST
broken "$wrong" table -DLOOKUPS=1 -DCRASHES=0 -DNO_SECOND_LOOK
broken "$wrong" table -DLOOKUPS=1 -DCRASHES=0 -DNO_LOOK_AT_COMMITTED
broken "$wrong" table -DLOOKUPS=1 -DCRASHES=0 -DNO_ZERO

# ---- sets of names: of two rounds, or of one
wrong='left_by' # not what the commit left that is the snapshot
set=(-DROUNDS=2 -DCOMMITS=3 -DCRASHES=0)

holds table "${set[@]}"
holds table -DROUNDS=1 -DCOMMITS=2 -DCRASHES=1
broken "$wrong" table "${set[@]}" -DNO_COMPARE
broken "$wrong" table "${set[@]}" -DNO_LOOK_AT_HELD
broken "$wrong" table "${set[@]}" -DNO_LOOK_AT_REMOVED
broken "$wrong" table "${set[@]}" -DLATE_NOTE
broken "$wrong" table -DROUNDS=1 -DCOMMITS=3 -DCRASHES=0 -DANY_LATER

# ---- requests over the death of servers
done='times_done[serial]==1' # done twice
wrong='times_done[got]==1'   # answered, and not done

holds resume
broken "$done" resume -DNO_COMPLETION
broken "$done" resume -DCOMPLETED_LATE
broken "$wrong" resume -DNO_DROP
broken "$done" resume -DFREED_WHEN_QUEUED
broken "$done" resume -DFREED_WHEN_NOTHING_IS_UNREAD
broken "$done" resume -DWATERMARK
broken "$done" resume -DRESENT_FIRST
broken "$done" resume -DRESENT_TO_ANY
broken "$done" resume -DANY_RESUME

if long; then
	holds table -DLOOKUPS=2 -DCOMMITS=3 -DCRASHES=2
	holds table -DROUNDS=2 -DCOMMITS=3 -DCRASHES=1
	holds table -DROUNDS=2 -DCOMMITS=4 -DCRASHES=0
	holds resume -DCRASHES=3
	holds resume -DREQUESTS=3
fi
finish
