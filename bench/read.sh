#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A second process reads a loaded file; see read.c. A daemon of its own, and a
# file of $TARN_BENCH_MIB (2048) that is no hole.

set -eu
export LC_ALL=C
size=$((${TARN_BENCH_MIB:-2048} * 1048576))
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-read.XXXXXX")
daemon=
trap '[ -z "$daemon" ] || { kill $daemon 2>/dev/null || :; wait; }
	rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
file=$folder/x.safetensors
# The header's length as 8 bytes, little-endian: it is less than 256.
header="{\"x\":{\"dtype\":\"U8\",\"shape\":[$size],\"data_offsets\":[0,$size]}}"
{
	printf '%b' "\\0$(printf '%o' ${#header})\\0\\0\\0\\0\\0\\0\\0"
	printf '%s' "$header"
	head -c "$size" /dev/urandom
} >"$file"
sync "$file"
# What is younger than two seconds is loaded for each who asks.
sleep 3
"${TARN_DAEMON:-daemon/tarnd}" --socket "$folder/sock" &
daemon=$!
while [ ! -S "$folder/sock" ]; do
	kill -0 $daemon
	sleep 0.05
done
bench/read "$folder/sock" "$file" | tee "$folder/lines"
echo "medians, of what is allowed (1.2 x warm memory + 60 ms per GiB):"
for how in 'by faults' '1 thread' '2 threads'; do
	sed -n "s/^$how.*map and read \([0-9.]*\).*/\1/p" "$folder/lines" |
		sort -n | awk -v how="$how" '{ v[NR] = $1 }
			END { printf "  %-10s %s\n", how, v[int((NR + 1) / 2)] }'
done
