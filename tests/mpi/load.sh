#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 900 s
#
# A file that the nodes of an MPI job load together. Nodes are daemons of their own
# on this machine. All ranks find the file's tensors, each byte was read once; and
# what is wrong on one node is the same error on all ranks, and published nowhere.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/mpi/kit.sh"
in_files
own_nodes
load=$programs/load

load() { # RANKS PER WORD FILE [NAME]
	local many=$1 per=$2
	shift 2
	run on_nodes "$many" "$per" "$load" "$@"
}

# fails N PART... WHAT: each of N ranks has one error with all these parts.
fails() {
	local seen part what=${*: -1}
	seen=$(sed 's/^rank [0-9]*: //' <<<"$out" | sort | uniq -c | sed 's/^ *//')
	is "$1" "${seen%% *}" "$what: one error on all ranks"
	for part in "${@:2:$#-2}"; do
		has "$part" "$seen" "$what: '$part'"
	done
}

names() { # of the sets on all nodes
	for socket in "$XDG_RUNTIME_DIR"/n*/tarnd.sock; do
		TARN_AUTOSTART=0 "$TARN" ls --socket "$socket" "$@" 2>/dev/null
	done
}

# Some MiB, with tensors of all sizes, none at a round place; and one of nothing.
header='{"a":{"dtype":"F32","shape":[700,1000],"data_offsets":[0,2800000]},
"b":{"dtype":"U8","shape":[13],"data_offsets":[2800000,2800013]},
"c/d":{"dtype":"BF16","shape":[3,1000001],"data_offsets":[2800013,8800019]},
"e":{"dtype":"I64","shape":[0,3],"data_offsets":[8800019,8800019]},
"s":{"dtype":"F64","shape":[],"data_offsets":[8800019,8800027]}}'
safetensors m.st "$header" 8800027
safetensors small.st '{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' 3
safetensors none.st '{}' 0

# ---- what is loaded ----
while read -r many per nodes; do
	load "$many" "$per" fresh "$PWD/m.st" "set$many"
	is "$many 0 $nodes" "$(grep -c '0 differ of 5; 8800027 bytes' <<<"$out") \
$status $(sed -n 's/.*node \([0-9]*\) of.*/\1/p' <<<"$out" | sort -u | wc -l)" \
		"$many ranks on $nodes nodes get all tensors"
	[ "$status" -eq 0 ] || printf '%s\n' "$out" "$err" | head -n 20 | sed 's/^/# /'
	is 8800027 "$(($(sed -n 's/.* \([0-9]*\) read.*/+ \1/p' <<<"$out")))" \
		"each byte was read once by $many ranks"
done <<'END'
2 1 2
2 2 1
3 1 3
4 2 2
5 1 5
8 3 3
END
load 4 2 load "$PWD/m.st" set4
is "4" "$(grep -c '^rank .: 0 differ of 5; 8800027 bytes, 0 read, node . of 2, cached$' \
	<<<"$out")" "a set that all nodes have is not read again"
TARN_AUTOSTART=0 "$TARN" rm --socket "$XDG_RUNTIME_DIR/n1/tarnd.sock" set4/b \
	>/dev/null
load 4 2 load "$PWD/m.st" set4
is "4 8800027" "$(grep -c '0 differ of 5' <<<"$out") $((
	$(sed -n 's/.* \([0-9]*\) read.*/+ \1/p' <<<"$out")))" \
	"if one node lacks a tensor of it all read it again"
load 4 2 insists "$PWD/m.st" set4
is "4 8800027" "$(grep -c '0 differ of 5' <<<"$out") $((
	$(sed -n 's/.* \([0-9]*\) read.*/+ \1/p' <<<"$out")))" \
	"if one rank wants it fresh all read it again"
safetensors other.st '{"b":{"dtype":"U8","shape":[13],"data_offsets":[0,13]}}' 13
"$TARN" load --socket "$XDG_RUNTIME_DIR/n0/tarnd.sock" other.st --name set4 >/dev/null
load 4 2 load "$PWD/m.st" set4
is "4 8800027" "$(grep -c '0 differ of 5' <<<"$out") $((
	$(sed -n 's/.* \([0-9]*\) read.*/+ \1/p' <<<"$out")))" \
	"a set in which another tensor was published is read again"
load 3 1 load "$PWD/../files/./small.st"
is "${PWD#/}/small.st/x" "$(names "${PWD#/}/" | awk '{ print $1 }' | sort -u |
	grep -v fields)" "without a name the set is called after the path"
echo '{"weight_map":{"a":"m.st","s":"m.st","x":"small.st"}}' >index.json
load 3 1 load "$PWD/index.json" sharded
is 3 "$(grep -c '0 differ of 3; 8800030 bytes' <<<"$out")" \
	"the index of a sharded checkpoint is loaded as one set"
load 3 1 load "$PWD/none.st" none
is 3 "$(grep -c '0 differ of 0; 0 bytes, 0 read' <<<"$out")" \
	"a file without tensors is loaded, too"

# Whose data, were there any, would begin with a page.
safetensors empty.st "$(printf '{"e":{"dtype":"I64","shape":[0,3],"data_offsets":[0,0]}%4032s}' '')" 0
is 4096 "$(stat -c %s empty.st)" "a file of a page"
load 3 1 fresh "$PWD/empty.st" empty
is 3 "$(grep -c '0 differ of 1; 0 bytes, 0 read' <<<"$out")" \
	"a file of one tensor without elements is loaded, too"
load 1 1 fresh "$PWD/m.st" alone
is 1 "$(grep -c '0 differ of 5; 8800027 bytes, 8800027 read' <<<"$out")" \
	"one rank loads alone"

# ---- what is not ----
mkdir d0 d1 d2
cp -p m.st d0
cp -p m.st d2
safetensors d1/m.st "$header" 8800027
load 3 1 load "$PWD/d%/m.st" other
fails 3 "EINVAL: tarn_mpi_load: rank 1: node 1: it has another file than rank 0:" \
	"$PWD/d1/m.st with 8800" "; node 0 has $PWD/d0/m.st with 8800" \
	"another time of the last change on a node"
truncate -s -100 d1/m.st
load 6 2 load "$PWD/d%/m.st" other
fails 6 "EBADMSG: tarn_mpi_load: rank 2: node 1: $PWD/d1/m.st" \
	"a truncated file on a node"
rm d2/m.st
cp -p m.st d1
load 3 1 load "$PWD/d%/m.st" other
fails 3 "ENOENT: tarn_mpi_load: rank 2: node 2: $PWD/d2/m.st" \
	"no file on a node"
load 2 1 load "$PWD/m.st" ''
fails 2 "EINVAL: tarn_mpi_load: rank 0: node 0: the name of a set has 1 to" \
	"an empty name"
load 2 1 ended "$PWD/m.st"
fails 2 "EINVAL: tarn_mpi_load_world: MPI was finalised before" \
	"a program that has ended MPI"
for name in set4 other; do
	load 4 2 renames "$PWD/m.st" $name
	fails 4 "EINVAL: tarn_mpi_load: rank 3: node 1: it is to call the set renamed" \
		"a rank with another name than $name"
done
TARN_AUTOSTART=0 load 8 1 load "$PWD/m.st" other
fails 8 "rank 5: node 5:" "no daemon on a node"
load 3 1 flips "$PWD/m.st" other
fails 3 "EIO: tarn_mpi_load: rank 2: node 2: the bytes have digest" \
	", those on node 0 " "a bit that was lost on the way"
load 3 1 poor "$PWD/m.st" other
fails 3 "ENOMEM: tarn_mpi_load: rank 2: node 2: no memory, says the test" \
	"memory that runs out on a node"
cp -p m.st d2
load 3 1 shrinks "$PWD/d%/m.st" other
fails 3 "ENODATA: tarn_mpi_load: rank 2: node 2: copy: $PWD/d2/m.st ends at byte" \
	"a file that shrinks under way"
cp -p m.st d2
load 3 1 changes "$PWD/d%/m.st" other
fails 3 "ESTALE: tarn_mpi_load: rank 2: node 2:" "a file that changes under way"
load 4 1 stops "$PWD/m.st" gone
fails 4 "rank 3: node 3: " "a daemon that is gone"
"$TARN_DAEMON" --socket "$XDG_RUNTIME_DIR/small.sock" --budget 4M 2>"$TMPDIR/small" &
small=$!
until [ -S "$XDG_RUNTIME_DIR/small.sock" ] || ! kill -0 "$small"; do sleep 0.01; done
run on_nodes 3 1 bash -c "[ % -ne 1 ] || TARN_SOCKET=$XDG_RUNTIME_DIR/small.sock
	exec $load load $PWD/m.st other"
fails 3 "ENOSPC: tarn_mpi_load: rank 1: node 1: $PWD/m.st has 8800" \
	"has a budget of 4194304" "a node without room"
kill "$small" && wait "$small"
rm "$TMPDIR/small"
is "" "$(names other)" "after an error no node has the set"
load 3 1 late "$PWD/m.st" other
is "2" "$(grep -c '^rank [01]: ETIMEDOUT: .* did not answer within 1 s' \
	<<<"$out")" "a rank that does not come: the others give up in time"
rm "$TMPDIR"/late.[012]
for i in 1 2 3 4; do
	load 3 1 "sleeps$i" "$PWD/m.st" other
	is "3" "$(grep -c '^rank [012]: ETIMEDOUT: tarn_mpi_load: ' <<<"$out")" \
		"a rank that falls asleep after agreement $i: the others give up"
	rm -f "$TMPDIR"/late.[012]
done
load 3 1 hangs "$PWD/m.st" other
is "3" "$(grep -c '^rank [012]: ETIMEDOUT: tarn_mpi_load: ' <<<"$out")" \
	"a disk that answers no more after an error: all give up"
rm -f "$TMPDIR"/late.[012]
is "" "$(names other)" "no node has the set of those that gave up"
begun=$SECONDS
load 3 1 dies "$PWD/m.st" other
is "1 1" "$((status != 0)) $((SECONDS - begun < 60))" \
	"a rank that dies ends the job"
is "" "$(names other)" "no node has the set of a job that was ended"
rm -rf d0 d1 d2
finish
