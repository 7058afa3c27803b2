#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A cold load beside fio on the same file: five times each, in turns, so that
# a noisy neighbour hits both. Direct I/O on both sides: no cache to drop.
#
#	bench/fill.sh [PATH-OF-BENCH/FILL]

set -eu
export LC_ALL=C
program=${1:-bench/fill}
size=${TARN_BENCH_MIB:-2048}
file=$(mktemp "${TMPDIR:-.}/tarn-bench-fill.XXXXXX")
trap 'rm -f "$file" "$file".*' EXIT
trap 'exit 1' HUP INT TERM

# Not zeros: some disks do not read those.
head -c "${size}M" /dev/urandom >"$file"
sync "$file"

run_fio() {
	fio --name=fill --filename="$file" --readonly --rw=read \
		--ioengine=io_uring --direct=1 --bs=512k --iodepth=32 \
		--fixedbufs=1 --registerfiles=1 --size="${size}M" \
		--output-format=json >"$file.fio" 2>&1 || {
		echo "fio failed:"
		sed 's/^/  /' "$file.fio"
		return 1
	}
	# The numbers that follow the names, in the read part: KiB/s, and CPU
	# in percent of the run's milliseconds.
	tr -d ',' <"$file.fio" | awk -v mib="$size" '
	$1 == "\"bw\"" && !bw { bw = $3 }
	$1 == "\"runtime\"" && !ms { ms = $3 }
	$1 == "\"usr_cpu\"" { cpu += $3 }
	$1 == "\"sys_cpu\"" { cpu += $3 }
	END { printf "fio: %.3f GiB/s, %.1f ms of CPU per GiB\n",
		bw / 1048576, cpu / 100 * ms / (mib / 1024) }'
}

median() {
	sed -n "s/$1.*: \([0-9.]*\) GiB.*, \([0-9.]*\) ms.*/\\$2/p" "$file.log" |
		sort -n | awk '{ v[NR] = $1 } END {
			if (NR) print v[int((NR + 1) / 2)] }'
}

have_fio=yes
command -v fio >/dev/null || {
	have_fio=no
	echo "fio is not installed: no reference (install fio)"
}
: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	[ $have_fio = no ] || run_fio | tee -a "$file.log"
	for engine in uring threads; do
		TARN_IO=$engine "$program" "$file" | tee -a "$file.log" ||
			echo "TARN_IO=$engine: cannot run here"
	done
done

echo "medians of five, $size MiB:"
fio=$(median '^fio' 1)
for who in fio io_uring threads; do
	rate=$(median "^$who" 1)
	[ -n "$rate" ] || continue
	printf '  %-9s %s GiB/s, %s ms of CPU per GiB' "$who" "$rate" \
		"$(median "^$who" 2)"
	[ "$who" = fio ] || [ -z "$fio" ] ||
		echo "$rate $fio" | awk '{ printf ", %.2f of fio", $1 / $2 }'
	echo
done
