#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 900 s
#
# Views between ranks, of which there are 2 to 8: datatypes, broadcast, scatter,
# all-gather, and the errors of calls that do not agree.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/mpi/kit.sh"
in_files
own_daemon

# A program is one assertion here; what it does not like is shown.
program() { # N PROGRAM WHAT
	run ranks "$1" "$programs/$2"
	is "0 $(grep -c '^ok' <<<"$out") 0" "$status $(sed -n 's/^1\.\.//p' <<<"$out") $(
		grep -c '^not ok' <<<"$out")" "$3"
	[ "$status" -eq 0 ] || printf '%s\n' "$out" "$err" |
		grep -v '^ok' | head -n 30 | sed 's/^/# /'
}

program 1 types "layouts are datatypes"
for i in 2 3 4 5 6 7 8; do
	program "$i" moves "bcast, scatter and all-gather between $i ranks"
done
finish
