#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 900 s
#
# Ranks and daemons are killed, or stopped, at random moments of tarn_mpi_load. The
# other ranks end in time, no process is left, and each node has the whole set that was
# loaded, or the whole one that was there before, or none.
#
# TARN_TEST_SEED and TARN_TEST_KILLS repeat a run, or make a longer one.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/mpi/kit.sh"
in_files
own_nodes
ranks=4 nodes=2 # two ranks each
in_time=60      # s: 2 of the load, 15 of a daemon that does not answer, and some
seed=${TARN_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
kills=${TARN_TEST_KILLS:-12}
echo "# TARN_TEST_SEED=$seed TARN_TEST_KILLS=$kills"
RANDOM=$seed

below() { # N: sets drawn; not in a subshell, which would draw the same again
	drawn=$(((RANDOM * 32768 + RANDOM) % $1))
}

# Two versions of a file, of random bytes.
header='{"a":{"dtype":"F32","shape":[700,1000],"data_offsets":[0,2800000]},
"b":{"dtype":"U8","shape":[13],"data_offsets":[2800000,2800013]},
"c/d":{"dtype":"BF16","shape":[3,1000001],"data_offsets":[2800013,8800019]},
"e":{"dtype":"I64","shape":[0,3],"data_offsets":[8800019,8800019]},
"s":{"dtype":"F64","shape":[],"data_offsets":[8800019,8800027]}}'
declare -A sum_of
for i in 0 1; do
	"$PYTHON" -c 'import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(8800027))' \
		"$seed $i" >bytes
	sum_of[$(md5sum <bytes)]=$i
	safetensors "m$i.st" "$header" 0
	cat bytes >>"m$i.st"
done
rm bytes
safetensors small.st '{}' 0

asked() { # NODE VERB...: of a daemon that is there
	local socket=$XDG_RUNTIME_DIR/n$1/tarnd.sock verb=$2
	shift 2
	TARN_AUTOSTART=0 "$TARN" "$verb" --socket "$socket" "$@" 2>/dev/null
}

state() { # NODE: the version of its set, none, or what is wrong
	local names sum
	names=$(asked "$1" ls set/ | awk '{ print $1 }' | sort | paste -sd ' ')
	case $names in
	'')
		echo none
		;;
	'set/.fields set/a set/b set/c/d set/e set/s')
		sum=$(for t in a b c/d e s; do
			asked "$1" print --raw "set/$t"
		done | md5sum)
		echo "${sum_of[$sum]:-other bytes}"
		;;
	*)
		echo "a part: $names"
		;;
	esac
}

start_killed() { # daemons, of which a load starts one
	local node
	for node in $(seq 0 $((nodes - 1))); do
		asked "$node" status >/dev/null || "$TARN" load small.st \
			--socket "$XDG_RUNTIME_DIR/n$node/tarnd.sock" >/dev/null
	done
}

daemon_pid() { # NODE WHICH
	local _ pid
	for _ in $(seq 600); do
		run asked "$1" status --json
		pid=$(json "j['$2']")
		[[ ! $pid =~ ^[1-9][0-9]*$ ]] || break
		sleep 0.1
	done
	echo "$pid"
}

# Processes of the job, by the file that is in their arguments. The brackets keep
# grep from finding itself.
job() {
	grep -laE "$TMPDIR/files/[m][01]" /proc/[0-9]*/cmdline 2>/dev/null
}

left() {
	local found
	for _ in $(seq 600); do
		found=$(job)
		[ -n "$found" ] || return
		sleep 0.1
	done
	for found in $found; do
		echo "left: $(tr '\0' ' ' <"$found")"
	done
}

# Draws $who, $what, $after, and what the program is told.
draw() {
	local power node
	below "$ranks"
	who=$drawn node=$((drawn / (ranks / nodes))) pid=0 signal=9
	below 16
	case $drawn in
	[0-7])
		what="rank $who"
		;;
	8)
		what="rank $who, which is stopped," signal=19
		;;
	9 | 1[0-2])
		what="the server of node $node" pid=$(daemon_pid $node server_pid)
		;;
	*)
		what="the daemon of node $node" pid=$(daemon_pid $node keeper_pid)
		;;
	esac
	# Half of them at any moment of a load, which takes some 100 ms; the others
	# from 0.1 to 400 ms, as many to each power of two.
	below 2
	if [ "$drawn" -eq 0 ]; then
		below 1500
		after=$((100 * drawn))
		return
	fi
	below 12
	power=$drawn
	below 100
	after=$(((100 << power) * (100 + drawn) / 100))
}

# What is wrong with what the ranks said, and with what the nodes have; or nothing.
judge() { # FILE
	local seen line i
	for i in $(seq 0 $((ranks - 1))); do
		line=$(cat "$TMPDIR/late.$i" 2>/dev/null)
		[ -n "$line" ] || [ "$pid" -eq 0 ] || echo "rank $i said nothing"
		[ -n "$line" ] || [ "$signal" -ne 19 ] || [ "$i" -eq "$who" ] ||
			echo "rank $i said nothing"
		line=${line#*: }
		[ -z "$line" ] || [ "${line%%.*}" -lt "$in_time" ] ||
			echo "rank $i took $line"
	done
	for i in $(seq 0 $((nodes - 1))); do
		seen=${states[i]}
		case $seen in
		none | [01]) ;;
		*) echo "node $i has $seen" ;;
		esac
		# The daemon of one node may have ended since.
		[ "$seen" = "$1" ] || [[ $what = "the daemon of node $i" ]] ||
			! grep -q ': loaded$' "$TMPDIR"/late.* 2>/dev/null ||
			echo "ranks have loaded m$1.st, and node $i has $seen"
	done
	left
}

# One without a signal, to have daemons.
on_nodes "$ranks" $((ranks / nodes)) "$programs/load" load "$PWD/m0.st" set \
	>/dev/null 2>&1
is "0 0" "$(state 0) $(state 1)" "the set is there"
loaded=0 gone=0
for i in $(seq "$kills"); do
	draw
	file=$((i % 2))
	run on_nodes "$ranks" $((ranks / nodes)) "$programs/load" strike \
		"$PWD/m$file.st" set "$who" "$after" "$signal" "$pid"
	states=("$(state 0)" "$(state 1)")
	wrong=$(judge "$file")
	is "" "$wrong" "$i: $what after $after us"
	[ -z "$wrong" ] || cat "$TMPDIR"/late.* 2>/dev/null | sed 's/^/# /'
	! grep -q ': loaded$' "$TMPDIR"/late.* 2>/dev/null ||
		loaded=$((loaded + 1))
	[ "${states[*]}" = "$file $file" ] || gone=$((gone + 1))
	rm -f "$TMPDIR"/late.*
	start_killed
done
echo "# $kills signals: $loaded loads succeeded, $gone sets were not replaced"

# Nothing of those that ended is kept.
for node in $(seq 0 $((nodes - 1))); do
	asked "$node" rm set/ >/dev/null
	for _ in $(seq 600); do
		run asked "$node" status --json
		used=$(json 'j["used"], j["names"]')
		[ "$used" != "0 0" ] || break
		sleep 0.1
	done
	is "0 0" "$used" "node $node has nothing left in memory"
	run asked "$node" check
	has ": no fault found" "$out" "node $node has no fault"
done
finish
