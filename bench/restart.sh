#!/bin/sh
# SPDX-License-Identifier: MIT
#
# How long a killed server is missed; see restart.c. A daemon of its own, with
# as much memory as there is, up to 8 GiB.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-restart.XXXXXX")
daemon=
trap '[ -z "$daemon" ] || { kill $daemon 2>/dev/null || :; wait; }
	rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
"${TARN_DAEMON:-daemon/tarnd}" --socket "$folder/sock" 2>"$folder/log" &
daemon=$!
while [ ! -S "$folder/sock" ]; do
	kill -0 $daemon
	sleep 0.05
done
# A third of what is available: the daemon has half of it as its budget.
gib=$(awk '/^MemAvailable/ {
	g = $2 / 3 / 1048576; printf("%.1f", g < 8 ? g : 8) }' /proc/meminfo)
bench/restart "$folder/sock" "$folder" 100000 "$gib"
