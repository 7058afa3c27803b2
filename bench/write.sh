#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Memory to a new file, beside fio that does the same in three ways: five times
# each in turns. tarn: by a stream that knows the memory beforehand (as fio does
# with its own, which is far less), and by tarn_copy, which does not.
#
# Wanted: at least 0.97 of the best of fio's rates, at most 40 ms of CPU per GiB.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-write.XXXXXX")
file=$folder/data
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$(dirname "$0")/fio.sh"

one() {
	"$@" | tee -a "$file.log"
	rm -f "$file"
	sleep 1 # the host throttles after a burst; let it recover
}

fio_write() {
	[ $have_fio = no ] || one fio_line "$@" --rw=write --direct=1 \
		--fallocate=native
}

echo "warming up"
bench/write "$file" "$size"
: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	fio_write fio-512k --ioengine=io_uring --bs=512k --iodepth=32 \
		--fixedbufs=1 --registerfiles=1
	one bench/write "$file" "$size"
	fio_write fio-2m --ioengine=io_uring --bs=2m --iodepth=8 \
		--fixedbufs=1 --registerfiles=1
	one bench/write "$file" "$size" --once
	fio_write fio-psync --ioengine=psync --bs=8m
done
echo "medians of five, $size MiB (wanted: 0.97 of fio's best, 40 ms):"
fio=$(for who in fio-512k fio-2m fio-psync; do median $who 1; done |
	sort -n | tail -1)
for who in fio-512k fio-2m fio-psync "[a-z_]* stream" "[a-z_]* once"; do
	rate=$(median "$who" 1)
	[ -n "$rate" ] || continue
	printf '  %-14s %s GiB/s, %s ms of CPU per GiB' "${who#* }" "$rate" \
		"$(median "$who" 2)"
	[ -z "$fio" ] || echo "$rate $fio" |
		awk '{ printf ", %.2f of the best", $1 / $2 }'
	echo
done
