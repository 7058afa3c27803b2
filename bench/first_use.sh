#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The first use of a tensor of 1 GiB, or TARN_BENCH_MIB, by a process that did
# not load it: a byte of each 4 KiB is read, in a pool of small pages beside one
# of huge ones as they can be had; five processes each, in turns, medians.
#
# Wanted: with huge pages at most a tenth of the time.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-1024}
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-use.XXXXXX")
daemon=
. "$(dirname "$0")/huge.sh"
clean_up() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || :
	end_huge
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# A file of one tensor, of which most is a hole.
{
	printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', $(
		)'fortran_order': False, 'shape': ($((size << 20)),), }"
} >"$folder/one.npy"
truncate -s $((128 + (size << 20))) "$folder/one.npy"

pools=4k
! have_thp || pools="$pools thp"
! have_huge $((size + 256)) || pools="$pools 2m"
for pool in $pools; do
	printf '[pool %s]\npages = %s\n' "$pool" "$pool"
done >"$folder/conf"
socket=$(mktemp -u /tmp/tarn-bench.XXXXXX)
daemon/tarnd --socket "$socket" --budget "$((4 * size + 1024))M" \
	--config "$folder/conf" 2>"$folder/log" &
daemon=$!
while [ ! -S "$socket" ]; do
	kill -0 "$daemon" || exit 1
	sleep 0.05
done
for pool in $pools; do
	cli/tarn load --socket "$socket" --pool "$pool" --name t \
		"$folder/one.npy"
	cli/tarn ls -l --socket "$socket" --pool "$pool"
done
name=$(cli/tarn ls --socket "$socket" --pool 4k | sed 's/  .*//')
for round in 1 2 3 4 5; do
	echo "round $round" >&2
	for pool in $pools; do
		bench/first_use "$socket" "$pool" "$name"
	done
done | tee "$folder/use"

median() { # POOL FIELD
	awk -v pool="$1" -v field="$2" '$1 == pool { print $field }' \
		"$folder/use" | sort -n | sed -n 3p
}
echo "medians of five, $size MiB:"
for pool in $pools; do
	echo "$(median "$pool" 4) $(median "$pool" 6) $(median 4k 4)" |
		awk -v pool="$pool" '{ printf "%-3s pages: %s ms, %s faults: " \
			"%.3f of the time with 4 KiB%s\n", pool, $1, $2,
			$1 / $3, pool == "4k" ? "" : " (wanted: 0.1 at most)" }'
done
