#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Names over crashes, for every interleaving: tests/models/table.pml, resume.pml.
. "${top_srcdir:?set by tests/run}/tests/models_kit.sh"

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

# ---- requests over the death of servers
twice='times_done[serial]==1' # done twice, or not at all and answered

holds resume
broken "$twice" resume -DNO_TOKEN
broken "$twice" resume -DNO_DOUBT
broken "$twice" resume -DNEW_SERIAL
holds resume -DREMOVE
broken "$twice" resume -DREMOVE -DNO_DOUBT
broken "$twice" resume -DREMOVE -DNEW_SERIAL
undone='times_done[serial])||(token[0]!=200)' # what others did
holds resume -DLOAD
broken "$undone" resume -DLOAD -DNO_DOUBT
broken "$undone" resume -DLOAD -DSTANDS_ONLY
broken "$undone" resume -DLOAD -DNEW_SERIAL

if long; then
	holds table -DLOOKUPS=2 -DCOMMITS=3 -DCRASHES=2
	holds resume -DCRASHES=3 -DOTHERS=4 -DREQUESTS=3
	holds resume -DREMOVE -DCRASHES=3 -DOTHERS=4 -DREQUESTS=3
	holds resume -DLOAD -DCRASHES=3 -DOTHERS=4 -DREQUESTS=3
fi
finish
