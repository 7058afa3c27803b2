#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# Four NUMA nodes: two with a processor and memory, one with a processor alone,
# one with memory alone. (Linux counts those with processors first.) A client
# beside no memory gets that of the nearest node; a node without processors is
# used where it is asked for.
# shellcheck disable=SC1091,SC2034,SC2054,SC2154 # shared
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=1280M cpus=3
machine=(
	-object memory-backend-ram,id=m0,size=512M
	-object memory-backend-ram,id=m1,size=384M
	-object memory-backend-ram,id=m2,size=384M
	-numa node,nodeid=0,cpus=0,memdev=m0
	-numa node,nodeid=1,cpus=1,memdev=m1
	-numa node,nodeid=2,cpus=2
	-numa node,nodeid=3,memdev=m2
	-numa dist,src=0,dst=1,val=20
	-numa dist,src=0,dst=2,val=40
	-numa dist,src=0,dst=3,val=40
	-numa dist,src=1,dst=2,val=20
	-numa dist,src=1,dst=3,val=20
	-numa dist,src=2,dst=3,val=40
)
programs=(tests/base/nodes tests/daemon/{pools,pages,populate}
	tests/store/{node,store,publish,mutable})

# Of each policy, what two nodes could not show.
policies() {
	local file=/tmp/p.npy

	rm -rf "${XDG_RUNTIME_DIR:?}/own"
	array $file $MIB
	printf '%s\n' '[pool three]' 'node = 3' '[pool all]' \
		'node = interleave' '[pool near]' 'node = local' '[pool two]' \
		'node = 2' >/tmp/tarnd.conf
	configured_daemon /tmp/tarnd.conf --segment-size 16M
	loads $file a "node 1" "auto, from the node without memory" taskset 4
	placed 1
	export TARN_POOL=near
	loads $file b "node 1" "local, from the node without memory" taskset 4
	run taskset 4 "$TARN" put c $file
	lies c "node 1" "local, created on the node without memory"
	TARN_POOL=three
	loads $file d "node 3" "bound to the node without a CPU"
	run taskset 1 "$TARN" put e $file
	lies e "node 3" "bound to the node without a CPU, created"
	TARN_POOL=two
	run "$TARN" load $file --name f
	is 1 "$status" "a pool bound to the node without memory refuses"
	has "node 2 has no memory; nodes with memory: 0, 1 and 3" "$err" \
		"the sentence says which have"
	unset TARN_POOL
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own"

	configured_daemon /tmp/tarnd.conf
	export TARN_POOL=all
	loads $file g "several nodes" "interleaved"
	spread 8192 0 1 3
	unset TARN_POOL
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own" $file
}

# One copy for each node that has memory; a client beside none has the nearest.
replicas() {
	local file=/tmp/p.npy

	array $file $MIB
	configured_daemon /tmp/tarnd.conf --segment-size 16M
	loads $file r "node 0" "auto, from node 0" taskset 1
	run "$TARN" replicate r/ --node all
	is 0 "$status" "there are replicas on all nodes with memory: $err"
	lies r "node 0, 1, 3" "with its replicas"
	gets r/ 0 "a client beside the tensor reads" taskset 1
	gets r/ 1 "a client beside a replica reads" taskset 2
	gets r/ 1 "a client beside no memory reads the nearest" taskset 4
	run "$TARN" replicate r/ --node 2
	is 1 "$status" "a node without memory has no replica"
	has "node 2 has no memory; nodes with memory: 0, 1 and 3" "$err" \
		"the sentence says which can"
	run "$TARN" replicate r/ --drop --node 1
	gets r/ 0 "without its replica a client reads the tensor" taskset 2
	run "$TARN" migrate r/ --node 3
	is 0 "$status" "it moves to the node without a CPU: $err"
	lies r "node 3" "the replicas of the old version are gone"
	run "$TARN" check
	is 0 "$status" "tarn check finds no fault"
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own" $file
}

# Reserved pages of node 3, and none of node 1.
huge() {
	local file=/tmp/p.npy reserve=/sys/devices/system/node/node3/hugepages

	reserve+=/hugepages-2048kB
	echo 12 >$reserve/nr_hugepages
	is 12 "$(cat $reserve/free_hugepages)" \
		"12 pages of 2 MiB are reserved on node 3"
	array $file $MIB
	printf '%s\n' '[pool three]' 'node = 3' 'pages = 2m' '[pool one]' \
		'node = 1' 'pages = 2m' >/tmp/tarnd.conf
	configured_daemon /tmp/tarnd.conf --segment-size 16M
	export TARN_POOL=three
	loads $file h "node 3" "reserved pages of the node" taskset 1
	has " 2 MiB 100 %" "$out" "all of it is in pages of 2 MiB"
	is 4 "$(cat $reserve/free_hugepages)" "they are taken on that node"
	TARN_POOL=one
	run "$TARN" load $file --name i
	is 1 "$status" "a pool bound to a node without reserved pages refuses"
	has "node 1" "$err" "the sentence names the node: $err"
	is 4 "$(cat $reserve/free_hugepages)" "no page of another is taken"
	unset TARN_POOL
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own" $file
	# With the last of the daemon's processes.
	for _ in {1..1200}; do
		[ "$(cat $reserve/free_hugepages)" != 12 ] || break
		sleep 0.1
	done
	is 12 "$(cat $reserve/free_hugepages)" "all are given back"
	echo 0 >$reserve/nr_hugepages
}

inside() {
	is 0-3 "$(cat /sys/devices/system/node/online)" "there are four nodes"
	is 0-1,3 "$(cat /sys/devices/system/node/has_memory)" \
		"three of them have memory"
	is 0-2 "$(cat /sys/devices/system/node/has_cpu)" \
		"three of them have a CPU"
	findings --
	finding numa costs "4 nodes; node 0: "
	finding numa costs "; node 2: no memory, CPUs 2; node 3: "
	finding numa costs ", no CPU"
	advice numa transparent
	finding cpuset good "3 of 3 CPUs and memory of 3 of 3 nodes"

	serves /tmp taskset 1
	placed 0
	end_daemon
	policies
	replicas
	huge
	suite
}

guest
