#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Random rows of 264 bytes, of a table of 2 GiB in shared memory, or of
# TARN_BENCH_MIB: tarn_gather beside a bare loop with prefetch, numpy.take and
# torch.index_select, on the same memory, in turns, with one thread and with
# two; nanoseconds for each row, medians. Once with pages of 4 KiB, and with
# huge ones as they can be had: transparent ones where the system gives them to
# shared memory, and those of 2 MiB that are reserved; root reserves what is
# missing, and gives it back.
#
# TARN_BENCH_PYTHON is the Python that has numpy and torch; the figures of what
# is missing are left out. numpy has one thread.
#
# Wanted: at least 1.5 times as fast as the faster of both, and at least 0.9 of
# the loop.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
python=${TARN_BENCH_PYTHON:-python3}
rounds=${TARN_BENCH_ROUNDS:-15}
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-gather.XXXXXX")
. "$here/huge.sh"
clean_up() {
	exec 3>&- 4>&- 5>&-
	wait
	end_huge
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

for who in tarn numpy torch; do
	mkfifo "$folder/$who.in" "$folder/$who.out"
done

# The answer to one line: ask INPUT-FD OUTPUT-FD LINE.
ask() {
	eval "echo \"\$3\" >&$1 && read -r answer <&$2" || answer=
}

# A round of one number of threads: "PAGES THREADS WHO NS" for each.
one_round() {
	for who in tarn raw; do
		ask 3 6 "$who $2"
		echo "$1 $2 $who $answer"
	done
	for who in $there; do
		case $who in
		numpy) ask 4 7 "$2" ;;
		torch) ask 5 8 "$2" ;;
		esac
		[ -z "$answer" ] || echo "$1 $2 $who $answer"
	done
}

with_pages() { # 4k|thp|2m
	bench/gather "$1" "$size" <"$folder/tarn.in" >"$folder/tarn.out" &
	exec 3>"$folder/tarn.in" 6<"$folder/tarn.out"
	read -r _ pid fd <&6 || exit 1
	there=
	"$python" "$here/gather.py" numpy "$pid" "$fd" "$size" \
		<"$folder/numpy.in" >"$folder/numpy.out" 3>&- &
	exec 4>"$folder/numpy.in" 7<"$folder/numpy.out"
	! read -r _ <&7 || there=numpy
	"$python" "$here/gather.py" torch "$pid" "$fd" "$size" \
		<"$folder/torch.in" >"$folder/torch.out" 3>&- 4>&- &
	exec 5>"$folder/torch.in" 8<"$folder/torch.out"
	! read -r _ <&8 || there="$there torch"
	for round in $(seq "$rounds"); do
		echo "$1 pages, round $round" >&2
		one_round "$1" 1
		one_round "$1" 2
	done >>"$folder/log"
	exec 3>&- 4>&- 5>&-
	wait
}

: >"$folder/log"
with_pages 4k
! have_thp || with_pages thp
if have_huge "$size"; then
	with_pages 2m
fi

awk -v size="$size" '
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
	kind = $1 " " $2
	if (!seen[kind]++)
		kinds[++n_kinds] = kind
	key = kind " " $3
	v[key, ++count[key]] = $4
}
END {
	printf "rows of 264 bytes, a table of %d MiB, ns a row:\n", size
	for (i = 1; i <= n_kinds; i++) {
		split(kinds[i], part, " ")
		tarn = median(kinds[i] " tarn")
		raw = median(kinds[i] " raw")
		printf "%-3s pages, %d thread%s: tarn %6.1f, loop %6.1f (%.2f" \
			" x; wanted 0.9)", part[1], part[2],
			(part[2] > 1 ? "s" : " "), tarn, raw, raw / tarn
		least = 0
		split("numpy torch", names, " ")
		for (k = 1; k <= 2; k++) {
			ns = median(kinds[i] " " names[k])
			if (!ns)
				continue
			printf ", %s %6.1f", names[k], ns
			if (!least || ns < least)
				least = ns
		}
		if (least)
			printf " (%.2f x; wanted 1.5)", least / tarn
		print ""
	}
}' "$folder/log"
