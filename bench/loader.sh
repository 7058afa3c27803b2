#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Loaders: random windows of 4 and 16 KiB from a cold file, beside fio's random
# reads of that size and depth on the same file, five times each in turns; of
# memory, beside memcpy; the first batch; and ranks that share.
#
# A window begins at any token, a disk's block at every 512 or 4,096 bytes: to have
# it takes a block more than its size, and often one of the disk's own more. So
# there are two references: reads of the size at multiples of the size, and, as
# "unaligned", those that windows take, of which the bytes of the windows count.
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

random() { # NAME ARGUMENTS...
	fio_line "$@" --readonly --rw=randread --ioengine=io_uring --direct=1 \
		--iodepth=32 --fixedbufs=1 --registerfiles=1 --time_based \
		--runtime=3
}

tokens=$folder/tokens.bin
dd if=/dev/zero of="$tokens" bs=1M count="$size" conv=fsync 2>/dev/null
for kib in 4 16; do
	file=$tokens
	: >"$file.log"
	for round in 1 2 3 4 5; do
		echo "round $round"
		[ $have_fio = no ] || {
			random fio --bs=${kib}k
			random unaligned --bs=$((kib * 1024 + 512)) \
				--blockalign=512 | awk -v n=$((kib * 1024)) '
				{ $2 = sprintf("%.3f", $2 * n / (n + 512)) }
				1'
		} >>"$file.log"
		bench/loader cold "$tokens" $((kib * 256 - 1)) 3 | tee -a "$file.log"
	done
	echo "medians of five, random windows of $kib KiB (wanted: 0.9 of fio):"
	summary unaligned tarn
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
