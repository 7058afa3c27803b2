#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What 100,000 tensors in one file cost beside one of their size; see many.c.
# A daemon of its own, whose budget holds one copy, so that all loads land in
# the same memory; files in $TARN_BENCH_DIR, or where temporary ones go.

set -eu
folder=$(mktemp -d "${TARN_BENCH_DIR:-${TMPDIR:-/tmp}}/tarn-bench-many.XXXXXX")
daemon=
trap '[ -z "$daemon" ] || { kill $daemon 2>/dev/null || :; wait; }
	rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
"${TARN_DAEMON:-daemon/tarnd}" --socket "$folder/sock" \
	--budget 160M 2>"$folder/log" &
daemon=$!
while [ ! -S "$folder/sock" ]; do
	kill -0 $daemon
	sleep 0.05
done
bench/many "$folder/sock" "$folder"
