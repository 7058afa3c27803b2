#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Registering 8 GiB, or TARN_BENCH_MIB, with io_uring: pages of 4 KiB beside
# huge ones as they can be had, medians of five. It takes that much memory, once
# for each kind.
#
# Wanted: with pages of 2 MiB at most a tenth of the time.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-8192}
log=$(mktemp "${TMPDIR:-/tmp}/tarn-bench-register.XXXXXX")
. "$(dirname "$0")/huge.sh"
trap 'end_huge; rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

bench/register 4k "$size" | tee -a "$log"
! have_thp || bench/register thp "$size" | tee -a "$log"
if have_huge "$size"; then
	bench/register 2m "$size" | tee -a "$log"
	end_huge
fi
awk '
$5 == "ms" { ms[$1] = $4 }
END {
	for (kind in ms)
		if (kind != "4k" && ms["4k"])
			printf "%s pages: %.3f of the time with 4 KiB " \
				"(wanted: 0.1 at most)\n", kind,
				ms[kind] / ms["4k"]
}' "$log"
