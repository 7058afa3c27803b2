#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Is this not what mmap does? See mmap.c. A file of $TARN_BENCH_MIB (2048) that
# is no hole, and 4 processes. The daemon's memory comes from a
# load before, of a file that makes room: "fresh" is a daemon without it.

set -eu
export LC_ALL=C
size=$((${TARN_BENCH_MIB:-2048} * 1048576))
# In a folder of a disk: /tmp may be memory.
folder=$(mktemp -d "${TARN_BENCH_DIR:-${TMPDIR:-/tmp}}/tarn-bench-mmap.XXXXXX")
. "$(dirname "$0")/daemon.sh"
header="{\"x\":{\"dtype\":\"U8\",\"shape\":[$size],\"data_offsets\":[0,$size]}}"
make_file() {
	{
		# The header's length as 8 bytes, little-endian: below 256.
		printf '%b' "\\0$(printf '%o' ${#header})\\0\\0\\0\\0\\0\\0\\0"
		printf '%s' "$header"
		head -c "$size" /dev/urandom
	} >"$1"
	sync "$1"
}
make_file "$folder/x.safetensors"
make_file "$folder/before.safetensors"
# Some file systems stamp whole seconds: there a file younger than two seconds
# is read again for each process that asks.
sleep 3

echo "-- a daemon that has memory"
start_daemon --budget "$((size / 1048576 + 512))M"
cli/tarn load --socket "$folder/sock" "$folder/before.safetensors" >/dev/null
bench/mmap "$folder/sock" "$folder/x.safetensors" x 4
kill "$daemon" && wait "$daemon" || :
daemon=
echo "-- a fresh daemon"
rm -f "$folder/sock"
start_daemon --budget "$((size / 1048576 + 512))M"
bench/mmap "$folder/sock" "$folder/x.safetensors" x 4
