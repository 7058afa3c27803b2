#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Permuting and normalising beside memcpy, numpy and PyTorch, one thread, in
# turns; run in the build folder. Times are of the thread's CPU, so that other
# programs count only for the memory that they use. TARN_BENCH_PYTHON names an
# interpreter that has numpy (and PyTorch).
#
# Wanted: matrix-f32 at least 0.5 of memcpy's rate, planes-u8 0.7, and
# normalise-f32 4 times that of numpy's fastest expression.

set -eu
export LC_ALL=C
python=${TARN_BENCH_PYTHON:-python3}
cases=${*:-matrix-f32 planes-u8 normalise-f32 normalise-f16 pixels-u8 \
matrix-u8 matrix-f16 matrix-f64}
log=$(mktemp "${TMPDIR:-/tmp}/tarn-bench.XXXXXX")
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

for round in 1 2 3 4 5; do
	echo "round $round" >&2
	for case in $cases; do
		bench/transpose "$case"
		"$python" "$(dirname "$0")/transpose.py" "$case" || :
	done
done | tr ',' ' ' >"$log"

awk '
function median(key,    n, i, j, t) {
	n = count[key]
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && v[key, j] < v[key, j - 1]; j--) {
			t = v[key, j]; v[key, j] = v[key, j - 1]
			v[key, j - 1] = t
		}
	return n ? v[key, int((n + 1) / 2)] : 0
}
{
	if (!seen[$1]++)
		names[++cases] = $1
	for (i = 2; i < NF; i += 2) {
		key = $1 " " $i
		v[key, ++count[key]] = $(i + 1)
	}
}
END {
	for (i = 1; i <= cases; i++) {
		tarn = median(names[i] " tarn")
		printf "%-16s %8.2f ms", names[i], tarn
		split("memcpy numpy torch", who, " ")
		for (j = 1; j <= 3; j++)
			if ((t = median(names[i] " " who[j])) > 0)
				printf ", %.2f x %s", t / tarn, who[j]
		print ""
	}
}' "$log"
