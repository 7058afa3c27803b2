#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What handing a tensor over costs; see channel.c. A daemon of its own.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-channel.XXXXXX")
daemon=
trap '[ -z "$daemon" ] || { kill $daemon 2>/dev/null || :; wait; }
	rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
"${TARN_DAEMON:-daemon/tarnd}" --socket "$folder/sock" &
daemon=$!
while [ ! -S "$folder/sock" ]; do
	kill -0 $daemon
	sleep 0.05
done
bench/channel "$folder/sock"
