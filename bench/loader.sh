#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Loaders: random windows of 4 and 16 KiB from a cold file, beside fio's random
# reads of that size and depth on the same file, five times each in turns; of
# memory, beside memcpy; the first batch; and ranks that share.
#
# Wanted: 0.9 of fio, 0.7 of memcpy, 50 ms until the first batch, and no growth of
# private memory with ranks.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-4096}
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-loader.XXXXXX")
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

tokens=$folder/tokens.bin
dd if=/dev/zero of="$tokens" bs=1M count="$size" conv=fsync 2>/dev/null
for kib in 4 16; do
	file=$tokens
	: >"$file.log"
	for round in 1 2 3 4 5; do
		echo "round $round"
		[ $have_fio = no ] || fio_line fio --readonly --rw=randread \
			--ioengine=io_uring --direct=1 --bs=${kib}k \
			--iodepth=32 --fixedbufs=1 --registerfiles=1 \
			--time_based --runtime=3 >>"$file.log"
		bench/loader cold "$tokens" $((kib * 256 - 1)) 3 | tee -a "$file.log"
	done
	echo "medians of five, random windows of $kib KiB (wanted: 0.9 of fio):"
	summary tarn
done
for kib in 4 16; do
	bench/loader memory $((kib * 256))
done
bench/loader first "$tokens"

socket=$(mktemp -u /tmp/tarn-bench.XXXXXX)
daemon/tarnd --socket "$socket" --budget 2G 2>"$folder/log" &
daemon=$!
while [ ! -S "$socket" ]; do
	kill -0 "$daemon" || exit 1
done
for world in 1 2 4; do
	echo "$world ranks, windows of 16 KiB:"
	rank=0
	pids=
	while [ $rank -lt $world ]; do
		bench/loader ranks "$socket" "$tokens" 4096 $rank $world 3 &
		pids="$pids $!"
		rank=$((rank + 1))
	done
	# shellcheck disable=SC2086 # a list of numbers
	wait $pids
done
