#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The link of a node is cut while ranks on three machines of a network, which are
# namespaces of the kernel, load a file together: it is down, or drops everything. All
# ranks end soon after their timeout, each node has the whole set or none, and with the
# link there again a load succeeds.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/mpi/kit.sh"
network=$top_srcdir/tests/kit/network.sh
name=tarn-test-$$
nodes=3
in_time=30 # s: 2 of the load, and some
seed=${TARN_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
echo "# TARN_TEST_SEED=$seed"
RANDOM=$seed
missing=$("$network" missing)
[ -n "$missing" ] || mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
	missing="there is no mpirun of Open MPI"
if [ -n "$missing" ]; then
	echo "1..0 # SKIP $missing"
	exit 0
fi
in_files
own_nodes
"$network" begin "$name" $nodes 200
trap 'end_nodes; [ "$BASHPID" != $$ ] || "$network" end "$name" $nodes' EXIT
header='{"a":{"dtype":"F32","shape":[700,1000],"data_offsets":[0,2800000]},
"c/d":{"dtype":"BF16","shape":[3,1000001],"data_offsets":[2800000,8800006]}}'
safetensors m.st "$header" 8800006

# strike AFTER MS: one load by a rank on each machine, of which the first one tells
# $cutter to cut after so many microseconds; in the background, as $job.
strike() {
	local hosts
	hosts=$(printf '10.99.0.%d,' $(seq $nodes))
	# shellcheck disable=SC2016 # of the shell that each rank is
	nsenter --net="/run/netns/$name" timeout 200 mpirun --allow-run-as-root \
		--bind-to none --mca plm_rsh_agent "$network enter $name" \
		--mca btl self,tcp --mca btl_tcp_if_include net0 \
		--mca oob_tcp_if_include 10.99.0.0/24 \
		-n $nodes --host "${hosts%,}" bash -c '
			export NODE=$OMPI_COMM_WORLD_RANK
			export TARN_SOCKET=$XDG_RUNTIME_DIR/n$NODE/tarnd.sock
			exec "$@"' strike "$programs/load" strike "$PWD/m.st" set \
		0 "$1" 10 "$cutter" "$2" </dev/null >"$TMPDIR/job" 2>&1 &
	job=$!
}

# Ranks tell in files, whatever their links do, and wait for the others there.
await_ranks() {
	local _
	for _ in $(seq 1800); do
		[ "$(find "$TMPDIR" -name 'late.[0-9]' | wc -l)" -lt $nodes ] ||
			return
		sleep 0.1
	done
}

states() { # of all nodes: whole, none, or what is there
	local i seen
	for i in $(seq 0 $((nodes - 1))); do
		seen=$(TARN_AUTOSTART=0 "$TARN" ls \
			--socket "$XDG_RUNTIME_DIR/n$i/tarnd.sock" set/ 2>/dev/null |
			awk '{ print $1 }' | sort | paste -sd ' ')
		case $seen in
		'') echo none ;;
		'set/.fields set/a set/c/d') echo whole ;;
		*) echo "a part: $seen" ;;
		esac
		TARN_AUTOSTART=0 "$TARN" rm \
			--socket "$XDG_RUNTIME_DIR/n$i/tarnd.sock" set/ \
			>/dev/null 2>&1
	done
}

# cut_load WAY AFTER: sets $said, each rank's line, $set, and $wrong. WAY none: no cut.
# AFTER -1: the load begins when the link has been cut.
cut_load() {
	local victim=$((RANDOM % nodes)) timeout_ms=2000
	[ "$1" != none ] || timeout_ms=60000
	rm -f "$TMPDIR"/late.*
	(
		trap '[ "$1" = none ] || "$network" cut "$name" $victim "$1"
			[ "$2" -ge 0 ] || : >"$TMPDIR/struck"
			exit' USR1
		while :; do sleep 0.005; done
	) &
	cutter=$!
	strike "$2" $timeout_ms
	await_ranks
	kill $cutter 2>/dev/null
	wait $cutter 2>/dev/null
	[ "$1" = none ] || "$network" mend "$name" $victim
	wait $job
	said=$(cat "$TMPDIR"/late.[0-9])
	rm -rf "$TMPDIR"/late.* "$TMPDIR"/ompi.* "$TMPDIR"/{ready.*,struck}
	set=$(states)
	wrong=$(awk -v most=$in_time '$3 > most { print "late: " $0 }' <<<"$said"
		grep -v 'none\|whole' <<<"$set"
		[ "$(wc -l <<<"$said")" -eq $nodes ] || echo "not all ranks have told")
	[ -z "$wrong" ] || sed 's/^/# /' "$TMPDIR/job"
}

loaded() { # how many ranks
	grep -c ': loaded$' <<<"$said"
}

cut_load none 0
is "$nodes whole whole whole" "$(loaded) $(paste -sd ' ' <<<"$set")" \
	"ranks on a network load a file"
for after in 30000 100000 200000 400000; do
	way=silent
	[ $((after % 200000)) -ne 0 ] || way=down
	cut_load $way $((after + RANDOM))
	is "" "$wrong" "$way after some $after us: all ranks end, no set is half there"
	sed 's/^/# /; s/\(.\{110\}\).*/\1/' <<<"$said"
done
cut_load down -1
is "" "$wrong" "down before the load: all ranks end, no set is half there"
is 0 "$(loaded)" "no rank loads a file when a link is cut"
cut_load none 0
is "$nodes whole whole whole" "$(loaded) $(paste -sd ' ' <<<"$set")" \
	"with the link there again a load succeeds"
rm -f "$TMPDIR/job"
finish
