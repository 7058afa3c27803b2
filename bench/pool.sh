#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Populating a pool of 2 GiB, or of TARN_BENCH_MIB, beside MADV_POPULATE_WRITE
# alone with as many threads: in turns, five times each, with pages of 4 KiB and
# with huge ones as they can be had.
#
# A guest gets its memory from the host at the first touch, which costs far more
# than all of this: so twice as much is touched before.
#
# Wanted: at least 0.95 of it.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
log=$(mktemp "${TMPDIR:-/tmp}/tarn-bench-pool.XXXXXX")
. "$(dirname "$0")/huge.sh"
trap 'end_huge; rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

with_pages() { # 4k|thp|2m
	for round in 1 2 3 4 5; do
		echo "round $round" >&2
		for who in advice pool; do
			bench/populate "$size" $who "$1" | tee -a "$log"
		done
	done
}

bench/populate $((2 * size)) >/dev/null
with_pages 4k
! have_thp || with_pages thp
if have_huge "$size"; then
	with_pages 2m
	end_huge
fi

median() { # WHO PAGES
	sed -n "s/^$1 $2 .*: \([0-9.]*\) GiB.*/\1/p" "$log" | sort -n |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

echo "medians of five, $size MiB:"
for pages in 4k thp 2m; do
	[ -n "$(median pool $pages)" ] || continue
	echo "$(median pool $pages) $(median populate $pages)" |
		awk -v pages="$pages" '{ printf "%-3s pages: pool %s GiB/s, " \
			"MADV_POPULATE_WRITE %s GiB/s: %.2f (wanted: 0.95)\n",
			pages, $1, $2, $1 / $2 }'
done
