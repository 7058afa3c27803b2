#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cold load, as a user has it: a client asks, the daemon reads, beside fio
# on the same file, nine times each in turns. Each load is of a file that was
# just touched, so that the daemon reads it again; its budget holds one copy,
# so that all loads land in the same memory, which two loads have warmed up.
#
# Wanted: at least 0.95 of fio's rate, at most 30 ms of CPU per GiB.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-load.XXXXXX")
file=$folder/load.safetensors
daemon=
clean_up() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || :
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$(dirname "$0")/fio.sh"

examples/make_checkpoint --size-mb "$size" "$file"
sync "$file"
# A short socket path, wherever the file is.
socket=$(mktemp -u /tmp/tarn-bench.XXXXXX)
daemon/tarnd --socket "$socket" --budget "$((size + 256))M" \
	2>"$folder/log" &
daemon=$!
while [ ! -S "$socket" ]; do
	kill -0 "$daemon" || exit 1
done

load() {
	touch "$file"
	bench/load "$socket" "$file"
}

echo "warming up"
load
load
: >"$file.log"
for round in 1 2 3 4 5 6 7 8 9; do
	echo "round $round"
	sleep 1 # the host throttles after a burst; let it recover
	[ $have_fio = no ] || run_fio | tee -a "$file.log"
	sleep 1
	load | tee -a "$file.log"
done
echo "medians of nine, $size MiB (wanted: 0.95 of fio, 30 ms):"
summary tarn
