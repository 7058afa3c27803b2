#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A hundred thousand small tensors of one file through one stream, beside one
# read of the same bytes; see stream.c. Wanted: at most 2 times as long.

set -eu
export LC_ALL=C
count=${TARN_BENCH_COUNT:-100000}
size=${TARN_BENCH_SIZE:-1024}
file=$(mktemp "${TMPDIR:-/tmp}/tarn-bench-stream.XXXXXX")
trap 'rm -f "$file"' EXIT
trap 'exit 1' HUP INT TERM
head -c "$((count * size))" /dev/urandom >"$file"
sync "$file"
for engine in io_uring threads; do
	TARN_ENGINE=$engine bench/stream "$file" "$count" "$size" || :
done
