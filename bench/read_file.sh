#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Loading every byte of a safetensors file, warm and cold, by one thread: tarn
# beside the reference library's load_file followed by a look at every byte,
# and beside fio for the cold one. All take turns, five times; each stays one
# process, so that its memory is warm. "tarn" copies all tensors into memory of
# its own through one stream, "load" is tarn_file_load and a look at every byte,
# which gets its memory as the reference does, anew each time. Cold, each goes
# twice in a row, and the second time counts: free memory that comes in other
# sizes than the one before had it is none that the host of a guest has ready.
#
# TARN_BENCH_PYTHON is the Python that has safetensors, numpy and torch; the
# lines of what is missing are left out.
#
# Wanted: never slower than the reference; cold at least 0.97 of fio and at
# most 20 ms of CPU per GiB.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
python=${TARN_BENCH_PYTHON:-python3}
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-read-file.XXXXXX")
file=$folder/all.safetensors
pids=
clean_up() {
	exec 3>&- 4>&- 5>&- 9>&-
	for pid in $pids; do
		wait "$pid" 2>/dev/null || :
	done
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$here/fio.sh"

examples/make_checkpoint --size-mb "$size" "$file"
sync "$file"

# Each is asked through a pipe, and answers through another.
for who in tarn load numpy torch; do
	mkfifo "$folder/$who.in" "$folder/$who.out"
done
bench/read_file "$file" <"$folder/tarn.in" >"$folder/tarn.out" 3>&- &
pids="$pids $!"
exec 3>"$folder/tarn.in" 6<"$folder/tarn.out"
"$python" "$here/read_file.py" "$file" numpy \
	<"$folder/numpy.in" >"$folder/numpy.out" 3>&- &
pids="$pids $!"
exec 4>"$folder/numpy.in" 7<"$folder/numpy.out"
"$python" "$here/read_file.py" "$file" torch \
	<"$folder/torch.in" >"$folder/torch.out" 3>&- 4>&- &
pids="$pids $!"
exec 5>"$folder/torch.in" 8<"$folder/torch.out"
"$python" "$here/read_file.py" "$file" load \
	<"$folder/load.in" >"$folder/load.out" 3>&- 4>&- 5>&- &
pids="$pids $!"
exec 9>"$folder/load.in"
exec <"$folder/load.out"
read -r load
read -r answer <&6
read -r numpy <&7
read -r torch <&8
for answer in "load: $load" "numpy: $numpy" "torch: $torch"; do
	case $answer in *missing*) echo "$answer" ;; esac
done

# ask WHO HOW: the answer is in $answer; fails where WHO is missing.
ask() {
	sleep 0.5 # the host throttles after a burst; let it recover
	case $1 in
	tarn)
		echo "$2" >&3
		read -r answer <&6
		;;
	load)
		[ "$load" = ready ] || return 1
		echo "$2" >&9
		read -r answer
		;;
	numpy)
		[ "$numpy" = ready ] || return 1
		echo "$2" >&4
		read -r answer <&7
		;;
	torch)
		[ "$torch" = ready ] || return 1
		echo "$2" >&5
		read -r answer <&8
		;;
	esac
}

log_answer() {
	ask "$@" || return 0
	echo "$answer" | tee -a "$file.log"
}

echo "warming up"
for how in cold cold touch; do
	log_answer tarn $how >/dev/null
done
log_answer load cold >/dev/null
: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	for how in warm cold; do
		for who in numpy tarn torch load; do
			[ $how = warm ] || ask $who $how || :
			log_answer $who $how
		done
	done
	log_answer tarn touch
	[ $have_fio = no ] || run_fio | tee -a "$file.log"
done

echo "medians of five, $size MiB (wanted: no reference faster; cold 0.97 of" \
	"fio, 20 ms):"
for who in fio 'tarn cold' 'tarn warm' 'tarn touch' 'load cold' \
	'load warm' 'numpy cold' 'numpy warm' 'torch cold' 'torch warm'; do
	rate=$(median "$who" 1)
	[ -n "$rate" ] || continue
	printf '  %-14s %s GiB/s, %s ms of CPU per GiB' "$who" "$rate" \
		"$(median "$who" 2)"
	case $who in
	'tarn cold') against='fio numpy torch' ;;
	tarn* | load*) against='numpy torch' ;;
	*) against= ;;
	esac
	for other in $against; do
		case $other:$who in
		fio:*) rival=$other ;;
		*cold) rival="$other cold" ;;
		*) rival="$other warm" ;;
		esac
		theirs=$(median "$rival" 1)
		[ -z "$theirs" ] || echo "$rate $theirs $rival" |
			awk '{ printf ", %.2f of %s %s", $1 / $2, $3, $4 }'
	done
	echo
done
