#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A second process reads a loaded file; see read.c. A daemon of its own, and a
# file of $TARN_BENCH_MIB (2048) that is no hole.

set -eu
export LC_ALL=C
size=$((${TARN_BENCH_MIB:-2048} * 1048576))
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-read.XXXXXX")
. "$(dirname "$0")/daemon.sh"
file=$folder/x.safetensors
# The header's length as 8 bytes, little-endian: it is less than 256.
header="{\"x\":{\"dtype\":\"U8\",\"shape\":[$size],\"data_offsets\":[0,$size]}}"
{
	printf '%b' "\\0$(printf '%o' ${#header})\\0\\0\\0\\0\\0\\0\\0"
	printf '%s' "$header"
	head -c "$size" /dev/urandom
} >"$file"
sync "$file"
# Some file systems stamp whole seconds: there a file younger than two seconds
# is read again for each process that asks.
sleep 3
start_daemon
bench/read "$folder/sock" "$file" | tee "$folder/lines"
echo "medians, of what is allowed (1.2 x warm memory + 60 ms per GiB):"
for how in 'by faults' '1 thread' '2 threads'; do
	sed -n "s/^$how.*map and read \([0-9.]*\).*/\1/p" "$folder/lines" |
		sort -n | awk -v how="$how" '{ v[NR] = $1 }
			END { printf "  %-10s %s\n", how, v[int((NR + 1) / 2)] }'
done
