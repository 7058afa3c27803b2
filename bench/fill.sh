#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The engines alone beside fio on the same file: five times each, in turns, so
# that a noisy neighbour hits both. Direct I/O on both sides: no cache to drop.
#
#	bench/fill.sh [PATH-OF-BENCH/FILL]

set -eu
export LC_ALL=C
program=${1:-bench/fill}
size=${TARN_BENCH_MIB:-2048}
file=$(mktemp "${TMPDIR:-.}/tarn-bench-fill.XXXXXX")
trap 'rm -f "$file" "$file".*' EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$(dirname "$0")/fio.sh"

# Not zeros: some disks do not read those.
head -c "${size}M" /dev/urandom >"$file"
sync "$file"

: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	[ $have_fio = no ] || run_fio | tee -a "$file.log"
	for engine in io_uring threads; do
		TARN_ENGINE=$engine "$program" "$file" | tee -a "$file.log" ||
			echo "TARN_ENGINE=$engine: cannot run here"
	done
done
echo "medians of five, $size MiB:"
summary io_uring threads
