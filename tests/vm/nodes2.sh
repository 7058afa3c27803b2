#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# Two NUMA nodes, each with a processor and half of the memory. What the daemon
# takes lies where each pool's policy says, by its own account and by the
# kernel's; where it cannot, a sentence says why. Of replicas, clients on each
# node get their own.
# shellcheck disable=SC1091,SC2034,SC2054,SC2154 # shared
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=1G
machine=(
	-object memory-backend-ram,id=m0,size=512M
	-object memory-backend-ram,id=m1,size=512M
	-numa node,nodeid=0,cpus=0,memdev=m0
	-numa node,nodeid=1,cpus=1,memdev=m1
)
programs=(tests/base/nodes
	tests/daemon/{pools,pages,populate,loader,restart}
	tests/store/{node,store,publish,mutable})

newest() { # NAME: the process that began last
	grep -lx "$1" /proc/[0-9]*/comm 2>/dev/null | tr -dc '0-9\n' |
		sort -n | tail -n 1
}

# Each policy, for a client on the one node and on the other.
policies() {
	local file=/tmp/p.npy

	rm -rf "${XDG_RUNTIME_DIR:?}/own"
	array $file $MIB
	printf '%s\n' '[pool one]' 'node = 1' '[pool all]' 'node = interleave' \
		'[pool near]' 'node = local' '[pool none]' 'node = 5' \
		>/tmp/tarnd.conf
	configured_daemon /tmp/tarnd.conf --segment-size 16M
	loads $file a "node 0" "auto, from node 0" taskset 1
	placed 0
	run taskset 2 "$TARN" put b $file
	is "0 " "$status $err" "a client on node 1 publishes a copy"
	lies b "node 1" "auto, created on node 1"
	cp $file /tmp/q.npy
	loads /tmp/q.npy q "node 1" "auto, from node 1" taskset 2
	placed 1
	is 1 "$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' \
		"/proc/$(newest tarn-loader)"/task/*/status | sort -u)" \
		"the loader's threads run on the node that they fill"
	loads $file c "node 0" "a file that is there stays" taskset 2

	export TARN_POOL=one
	loads $file d "node 1" "bound to node 1, from node 0" taskset 1
	run taskset 1 "$TARN" put e $file
	lies e "node 1" "bound to node 1, created on node 0"
	TARN_POOL=near
	loads $file f "node 1" "local, from node 1" taskset 2
	loads /tmp/q.npy g "node 0" "local, from node 0" taskset 1
	TARN_POOL=all
	loads $file h "several nodes" "interleaved"
	run "$TARN" put i $file
	lies i "several nodes" "interleaved, created"
	TARN_POOL=none
	run "$TARN" load $file --name j
	is 1 "$status" "a pool bound to a node that is not there has no memory"
	has "node 5 has no memory; nodes with memory: 0 and 1" "$err" \
		"the sentence says which have"
	unset TARN_POOL

	run "$TARN" status
	has "uid:0          auto       node 0: 16.00 MiB, node 1: 16.00 MiB" \
		"$out" "tarn status: where the segments of each pool lie"
	has "one            1          node 1: 16.00 MiB" "$out" \
		"tarn status: a pool that is bound"
	has "all            interleave on several: 16.00 MiB" "$out" \
		"tarn status: a pool that is spread"
	goes_on
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own" /tmp/q.npy
}

# Another server, and then another program, know the nodes that there were.
goes_on() {
	kill -KILL "$(newest tarn-server)"
	run "$TARN" check
	is 0 "$status" "tarn check finds no fault after the death of a server"
	lies q "node 1" "known to the next server"
	loads /tmp/q.npy r "node 1" "a file that was there before it" taskset 1
	kill -USR2 "$daemon"
	for _ in {1..1200}; do
		run "$TARN" status --json
		[[ $out != *'"upgrades":1,'* ]] || break
		sleep 0.1
	done
	has '"upgrades":1,' "$out" "the daemon goes on as another program"
	lies q "node 1" "known after an upgrade"
	run taskset 1 "$TARN" load --fresh /tmp/q.npy --name s
	is "0 " "$status $err" "a file is loaded after an upgrade"
	lies s "node 0" "auto, after an upgrade"
	run "$TARN" check
	is 0 "$status" "tarn check finds no fault after an upgrade"
}

# copies WHAT SUMMARY NODES SENTENCE ARGUMENT...: a verb that copies, its summary
# in which TIME is any, and where the tensor lies afterwards.
copies() {
	local what=$1 summary=$2 nodes=$3 sentence=$4
	shift 4

	run "$TARN" "$@"
	is "0 $summary " \
		"$status $(sed 's/ in [0-9.]* s$/ in TIME/' <<<"$out") $err" \
		"$sentence"
	lies "$what" "$nodes" "$sentence"
}

# What both nodes have, what the other one has, and what follows from that.
replicas() {
	local file=/tmp/p.npy back=/tmp/back.npy name

	configured_daemon /tmp/tarnd.conf --segment-size 16M
	loads $file a "node 0" "auto, from node 0" taskset 1
	run taskset 1 "$TARN" put b/t $file
	lies b/t "node 0" "auto, created on node 0"
	copies a/ "a/: 1 tensor, 8.00 MiB copied to node 1 in TIME" \
		"node 0, 1" "a loaded file gets a replica" \
		replicate a/ --node 1
	copies b/t "b/t: is on node 0 already
b/t: 8.00 MiB copied to node 1 in TIME" "node 0, 1" \
		"a created tensor gets one on all nodes" \
		replicate b/t --node all
	for name in a/ b/t; do
		gets $name 0 "of $name, a client there reads" taskset 1
		gets $name 1 "of $name, a client there reads" taskset 2
		run taskset 2 "$TARN" save "${name%/}" $back
		is "0 " "$status $err" "the replica of $name is saved"
		run cmp <(bytes $file) <(bytes $back)
		is "0 " "$status $out" "the replica of $name has its bytes"
	done
	rm $back
	run "$TARN" metrics
	has 'tarn_pool_node_bytes{pool="uid:0",node="1"} 16777216' "$out" \
		"tarn metrics: the bytes on node 1"
	run "$TARN" check
	is 0 "$status" "tarn check finds no fault with replicas"
	kill -KILL "$(newest tarn-server)"
	gets a/ 1 "after the death of a server, a client there reads" taskset 2
	copies a/ "a/: 1 tensor is on node 1 already" "node 0, 1" \
		"the next server knows the replica" replicate a/ --node 1
	copies a/ "a/: 1 tensor without a replica on node 1 now" "node 0" \
		"a replica is dropped" replicate a/ --drop --node 1
	gets a/ 0 "without a replica, a client on node 1 reads" taskset 2
	run taskset 1 "$TARN" put b/t $file
	lies b/t "node 0" "a new version has no replica"

	copies a/ "a/: 1 tensor, 8.00 MiB moved to node 1 in TIME" "node 1" \
		"a loaded file moves" migrate a/ --node 1
	copies b/t "b/t: 8.00 MiB moved to node 1 in TIME" "node 1" \
		"a created tensor moves" migrate b/t --node 1
	run "$TARN" wait b/t
	is "b/t version 3" "$out" "what has moved is a new version"
	for name in a/ b/t; do
		gets $name 1 "of $name, a client on node 0 reads" taskset 1
	done
	placed_by_option $file
	run "$TARN" check
	is 0 "$status" "tarn check finds no fault with what has moved"
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own"
}

placed_by_option() { # FILE
	run taskset 1 "$TARN" load --node 1 "$1" --name c
	is "0 " "$status $err" "load --node"
	lies c/ "node 1" "load --node 1, from node 0"
	run taskset 2 "$TARN" put --node 0 d "$1"
	is "0 " "$status $err" "put --node"
	lies d "node 0" "put --node 0, from node 1"
	export TARN_POOL=one
	run "$TARN" load "$1" --name e
	run "$TARN" replicate e/ --node 0
	is 1 "$status" "a pool bound to node 1 has no replicas on node 0"
	has "node 0" "$err" "the sentence names the node"
	run "$TARN" load "$1" --name f --node 0
	is 1 "$status" "a pool bound to node 1 loads nothing on node 0"
	unset TARN_POOL
}

# Node 1 is filled by others, up to a little.
full() {
	local file=/tmp/p.npy other=/tmp/q.npy free

	cp $file $other
	configured_daemon /tmp/tarnd.conf --segment-size 8M
	TARN_POOL=one run "$TARN" load $file
	is "0 " "$status $err" "a pool bound to node 1 keeps a file"
	free=$(sed -n 's/.*MemFree: *\([0-9]*\) kB/\1/p' \
		/sys/devices/system/node/node1/meminfo)
	taskset 2 dd if=/dev/zero of=/dev/shm/hog bs=1M \
		count=$((free / 1024 - 30)) 2>/dev/null
	export TARN_POOL=one
	loads $other k "node 1" "in place of the file that was kept there"
	run "$TARN" load $file --name l
	is 1 "$status" "a pool bound to a full node refuses"
	has "node 1 for the pool one, and " "$err" "the sentence names node, pool"
	has "MiB can be had there; remove tensors" "$err" \
		"the sentence says what to do"
	TARN_POOL=near
	run taskset 2 "$TARN" load $file --name l
	is 1 "$status" "a pool of local memory refuses, too"
	unset TARN_POOL
	loads $file m "node 0" "auto, where node 1 is full" taskset 2
	rm /dev/shm/hog
	export TARN_POOL=one
	loads $file l "node 1" "bound to node 1, which has room again"
	unset TARN_POOL
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own" $other
}

# The daemon in a cpuset of node 0's memory.
forbidden() {
	local file=/tmp/p.npy group=/sys/fs/cgroup/half

	echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $group
	echo 0 >$group/cpuset.mems
	echo $$ >$group/cgroup.procs
	findings --
	finding cpuset costs "memory of 1 of 2 nodes"
	configured_daemon /tmp/tarnd.conf --segment-size 16M
	echo $$ >/sys/fs/cgroup/cgroup.procs
	loads $file m "node 0" "auto, where a cpuset forbids node 1" taskset 2
	TARN_POOL=one run "$TARN" load $file --name n
	is 1 "$status" "a pool bound to a forbidden node refuses"
	has "wants memory of node 1, which the daemon's cpuset forbids" "$err" \
		"the sentence says what forbids it"
	placed 0
	stop_daemon
	rmdir $group
	rm -r "$XDG_RUNTIME_DIR/own" $file
}

inside() {
	is 0-1 "$(cat /sys/devices/system/node/has_memory)" \
		"two nodes have memory"
	is 0-1 "$(cat /sys/devices/system/node/has_cpu)" "two nodes have CPUs"
	findings --
	finding numa good "2 nodes; node 0: "
	finding cpuset good "2 of 2 CPUs and memory of 2 of 2 nodes"
	advice transparent
	findings taskset 1 --
	finding cpuset costs "1 of 2 CPUs and memory of 2 of 2 nodes"

	serves /tmp taskset 2
	placed 1
	end_daemon
	policies
	replicas
	full
	forbidden
	suite
}

guest
