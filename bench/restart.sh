#!/bin/sh
# SPDX-License-Identifier: MIT
#
# How long a killed server is missed; see restart.c. A daemon of its own, with
# as much memory as there is, up to 8 GiB.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-restart.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon 2>"$folder/log"
# A third of what is available: the daemon has half of it as its budget.
gib=$(awk '/^MemAvailable/ {
	g = $2 / 3 / 1048576; printf("%.1f", g < 8 ? g : 8) }' /proc/meminfo)
bench/restart "$folder/sock" "$folder" 100000 "$gib"
