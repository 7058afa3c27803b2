#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The first load of a fresh daemon: a cold file, and no memory yet. Two things
# bound it: how fast the disk is read (fio), and how fast the system makes new
# memory (MADV_POPULATE_WRITE, with as many threads). All take turns, five times
# each, with a daemon each; and what the load after it takes, into memory that
# is there; and safetensors' load_file into memory of its own, followed by a
# look at each page.
#
# A guest gets its memory from the host at the first touch, which costs far more
# than all of this: so twice as much is touched before.
#
# TARN_BENCH_PAGES are the pages of the pool that is loaded into: 4k, thp or 2m;
# huge ones as they can be had (huge.sh). TARN_BENCH_PYTHON is the Python that
# has safetensors and numpy.
#
# Wanted: at least 0.9 of the smaller bound, and never slower than load_file.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
pages=${TARN_BENCH_PAGES:-4k}
python=${TARN_BENCH_PYTHON:-python3}
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-first.XXXXXX")
file=$folder/load.safetensors
daemon=
end_daemon() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || :
	daemon=
}
. "$here/huge.sh"
trap 'end_daemon; end_huge; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$here/fio.sh"
case $pages in
4k) ;;
thp) have_thp || exit 0 ;;
2m) have_huge "$((size + 256))" || exit 0 ;;
*)
	echo "TARN_BENCH_PAGES is '$pages'; 4k, thp or 2m is expected" >&2
	exit 2
	;;
esac


examples/make_checkpoint --size-mb "$size" "$file"
sync "$file"
# A short socket path, wherever the file is.
socket=$(mktemp -u /tmp/tarn-bench.XXXXXX)

printf '[pool bench]\npages = %s\n' "$pages" >"$folder/conf"
TARN_POOL=bench
export TARN_POOL

make_cold() {
	touch "$file"
	# Drops its pages, which are clean.
	dd if="$file" iflag=nocache count=0 2>/dev/null
}

load() { # NAME
	make_cold
	bench/load "$socket" "$file" | sed "s/^tarn/$1/"
}

# Its budget holds one copy: the next load lands in the same memory.
start_fresh() {
	daemon/tarnd --socket "$socket" --budget "$((size + 256))M" \
		--config "$folder/conf" 2>"$folder/log" &
	daemon=$!
	while [ ! -S "$socket" ]; do
		kill -0 "$daemon" || exit 1
		sleep 0.05
	done
}

have_reference=yes
"$python" -c 'import numpy, safetensors' 2>/dev/null || {
	have_reference=no
	echo "safetensors: skipped: $python has not both safetensors and numpy" \
		"(set TARN_BENCH_PYTHON)"
}

echo "warming up"
bench/populate $((2 * size)) >/dev/null
: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	sleep 1 # the host throttles after a burst; let it recover
	[ $have_fio = no ] || run_fio | tee -a "$file.log"
	bench/populate "$size" advice "$pages" | tee -a "$file.log"
	start_fresh
	load first | tee -a "$file.log"
	load next | tee -a "$file.log"
	end_daemon
	[ $have_reference = no ] || {
		make_cold
		"$python" "$here/first_load.py" "$file" | tee -a "$file.log"
	}
done
echo "medians of five, $size MiB, pages of $pages:"
summary populate first next safetensors
# Without fio the memory is the only bound that is known.
{ [ $have_fio = no ] || median fio 1; median populate 1; } | sort -n | head -1 |
	awk -v first="$(median first 1)" \
		'{ printf "first load: %.2f of the smaller bound (wanted: 0.90)\n",
			first / $1 }'
[ $have_reference = no ] ||
	echo "$(median first 1) $(median safetensors 1)" |
	awk '{ printf "first load: %.2f of load_file and a look (wanted: 1)\n",
		$1 / $2 }'
