#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A column slice, [:, 1/8], of a matrix of F32 with rows of 16 KiB, cold: tarn
# beside fio reading the same bytes with the same pattern, and beside fio
# reading the whole file, in turns, five times. Seconds for all of it.
#
# Wanted: at most 1.3 of the quicker of the two.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-column.XXXXXX")
file=$folder/matrix.safetensors
pid=
clean_up() {
	exec 3>&-
	[ -z "$pid" ] || wait "$pid" 2>/dev/null || :
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$(dirname "$0")/fio.sh"

bytes=$((size * 1048576))
shape="[$((bytes / 16384)),4096]"
header="{\"x\":{\"dtype\":\"F32\",\"shape\":$shape,\"data_offsets\":[0,$bytes]}}"
{
	printf '%b' "\\0$(printf '%o' ${#header})\\0\\0\\0\\0\\0\\0\\0"
	printf '%s' "$header"
	head -c "$bytes" /dev/urandom
} >"$file"
sync "$file"

mkfifo "$folder/in" "$folder/out"
bench/read_file "$file" '[:, 0:512]' <"$folder/in" >"$folder/out" 3>&- &
pid=$!
exec 3>"$folder/in" 6<"$folder/out"
read -r answer <&6
[ "$answer" = ready ]

# Seconds: fio NAME ARGUMENTS.
fio_seconds() {
	name=$1
	shift
	fio --name=column --filename="$file" --readonly --ioengine=io_uring \
		--direct=1 --iodepth=32 --fixedbufs=1 --registerfiles=1 \
		--output-format=json "$@" >"$folder/fio" 2>&1 || {
		sed 's/^/  /' "$folder/fio"
		exit 1
	}
	tr -d ',' <"$folder/fio" | awk -v name="$name" '
	$1 == "\"runtime\"" && !ms { ms = $3 }
	END { printf "%s: %.3f s\n", name, ms / 1000 }'
}

tarn_seconds() {
	echo cold >&3
	read -r answer <&6
	echo "$answer" | awk -v gib="$((size / 8))" '{
		printf "tarn: %.3f s  (%s)\n", gib / 1024 / $3, $0 }'
}

middle() {
	sed -n "s/^$1: \([0-9.]*\) s.*/\1/p" "$folder/log" | sort -n |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

echo "warming up"
tarn_seconds >/dev/null
: >"$folder/log"
for round in 1 2 3 4 5; do
	echo "round $round"
	sleep 0.5 # the host throttles after a burst; let it recover
	tarn_seconds | tee -a "$folder/log"
	[ $have_fio = no ] || {
		sleep 0.5
		fio_seconds slice --rw=read:14k --bs=2k \
			--size="${size}M" --io_size="$((size / 8))M" |
			tee -a "$folder/log"
		sleep 0.5
		fio_seconds whole --rw=read --bs=512k --size="${size}M" |
			tee -a "$folder/log"
	}
done
echo "medians of five, $size MiB (wanted: at most 1.3 of the quicker fio):"
echo "  tarn $(middle tarn) s, fio slice $(middle slice) s," \
	"fio whole $(middle whole) s"
echo "$(middle tarn) $(middle slice) $(middle whole)" | awk 'NF == 3 {
	quick = $2 < $3 ? $2 : $3
	printf "  tarn is %.2f of the quicker\n", $1 / quick }'
