#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The first load of a fresh daemon: a cold file, and no memory yet. Two things
# bound it: how fast the disk is read (fio), and how fast the system makes new
# memory (MADV_POPULATE_WRITE, with as many threads). All three in turns, five
# times each, a daemon each; and what the load after it takes, into memory that
# is there.
#
# A guest gets its memory from the host at the first touch, which costs far more
# than all of this: so twice as much is touched before.
#
# Wanted: at least 0.9 of the smaller bound.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-first.XXXXXX")
file=$folder/load.safetensors
daemon=
end_daemon() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || :
	daemon=
}
trap 'end_daemon; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$(dirname "$0")/fio.sh"

examples/make_checkpoint --size-mb "$size" "$file"
sync "$file"
# A short socket path, wherever the file is.
socket=$(mktemp -u /tmp/tarn-bench.XXXXXX)

load() { # NAME
	touch "$file"
	# Drops its pages, which are clean.
	dd if="$file" iflag=nocache count=0 2>/dev/null
	bench/load "$socket" "$file" | sed "s/^tarn/$1/"
}

# Its budget holds one copy: the next load lands in the same memory.
start_fresh() {
	daemon/tarnd --socket "$socket" --budget "$((size + 256))M" \
		2>"$folder/log" &
	daemon=$!
	while [ ! -S "$socket" ]; do
		kill -0 "$daemon" || exit 1
		sleep 0.05
	done
}

echo "warming up"
bench/populate $((2 * size)) >/dev/null
: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	sleep 1 # the host throttles after a burst; let it recover
	[ $have_fio = no ] || run_fio | tee -a "$file.log"
	bench/populate "$size" | tee -a "$file.log"
	start_fresh
	load first | tee -a "$file.log"
	load next | tee -a "$file.log"
	end_daemon
done
echo "medians of five, $size MiB:"
summary populate first next
# Without fio the memory is the only bound that is known.
{ [ $have_fio = no ] || median fio 1; median populate 1; } | sort -n | head -1 |
	awk -v first="$(median first 1)" \
		'{ printf "first load: %.2f of the smaller bound (wanted: 0.90)\n",
			first / $1 }'
