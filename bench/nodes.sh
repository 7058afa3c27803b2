#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A checkpoint on four nodes: each reads all of it, or each a quarter of it, with
# the rest from the others (load_file with group=). Nodes are network namespaces,
# with a daemon and a copy of the file each, at one switch. Their links and disks
# are as slow as is asked for:
#
#	own	each node has a disk of TARN_BENCH_DISK MB/s (100)
#	shared	all nodes together have one, as with a file server
#
# and a link of TARN_BENCH_LINK Mbit/s (1000) in each direction. All of it is cold,
# and the same memory is used again from the second round on, of which the median
# is shown beside the model: reading goes on while the links are busy, and the
# slower of both takes the time.
#
#	disk: bytes a node reads / its rate        link: (N - 1) / N of the file
#
# It needs root, ip, tc, the controller of block devices, and a Python with torch
# (TARN_BENCH_PYTHON).
#
# Wanted: within 1.15 of the model.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-256}
nodes=4
disk=${TARN_BENCH_DISK:-100}
link=${TARN_BENCH_LINK:-1000}
python=${TARN_BENCH_PYTHON:-python3}
here=$(dirname "$0")
name=tarn-bench-$$
groups=/sys/fs/cgroup/blkio

left_out() {
	echo "left out: $*"
	exit 0
}
[ "$(id -u)" = 0 ] || left_out "namespaces need root"
command -v ip >/dev/null && command -v tc >/dev/null ||
	left_out "there is no ip, or no tc (iproute2)"
[ -e $groups/blkio.throttle.read_bps_device ] ||
	left_out "there is no $groups/blkio.throttle.read_bps_device"
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
"$python" -c 'import torch, tarn' 2>/dev/null ||
	left_out "$python has no torch; name one with TARN_BENCH_PYTHON"

folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-nodes.XXXXXX")
folder=$(cd "$folder" && pwd)
sockets=$(mktemp -d /tmp/tarn-bench.XXXXXX) # their paths must be short
all=$(seq 0 $((nodes - 1)))
end() {
	for i in $all; do
		pkill -F "$sockets/pid$i" 2>/dev/null || :
	done
	sleep 0.2
	for i in $all; do
		ip netns del "$name-$i" 2>/dev/null || :
		rmdir "$groups/$name-$i" 2>/dev/null || :
	done
	ip netns del "$name" 2>/dev/null || :
	rmdir "$groups/$name" 2>/dev/null || :
	rm -rf "$folder" "$sockets"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

device=$(findmnt -n -o MAJ:MIN -T "$folder")
# Partitions are throttled as a whole disk.
[ ! -e "/sys/dev/block/$device/partition" ] ||
	device=$(cat "/sys/dev/block/$device/../dev")

# ---- the network --------------------------------------------------------------

shape() { # NAMESPACE INTERFACE
	ip netns exec "$1" tc qdisc add dev "$2" root tbf \
		rate "${link}mbit" burst 256kb latency 50ms
}
ip netns add "$name"
ip -n "$name" link add switch type bridge
ip -n "$name" link set switch up
for i in $all; do
	ip netns add "$name-$i"
	ip -n "$name" link add "port$i" type veth \
		peer name net0 netns "$name-$i"
	ip -n "$name" link set "port$i" master switch up
	ip -n "$name-$i" link set lo up
	ip -n "$name-$i" link set net0 up
	ip -n "$name-$i" address add "10.99.0.$((i + 1))/24" dev net0
	shape "$name" "port$i"
	shape "$name-$i" net0
done

# ---- the nodes ----------------------------------------------------------------

mkdir "$groups/$name"
for i in $all; do
	mkdir "$groups/$name-$i"
	echo "$device $((disk * 1000000))" \
		>"$groups/$name-$i/blkio.throttle.read_bps_device"
done
echo "$device $((disk * 1000000))" \
	>"$groups/$name/blkio.throttle.read_bps_device"
examples/make_checkpoint --size-mb "$size" "$folder/model.safetensors" \
	>/dev/null
for i in $all; do
	mkdir "$folder/$i"
	cp -p --reflink=never "$folder/model.safetensors" "$folder/$i/"
done
rm "$folder/model.safetensors"
sync

# $1: the group of block devices of a node, as printf's format.
run() {
	ranks=
	for i in $all; do
		# shellcheck disable=SC2059,SC2016
		# Not ip netns exec, which hides the groups.
		nsenter --net="/run/netns/$name-$i" sh -c '
			echo $$ >"$1/cgroup.procs"
			daemon/tarnd --socket "$2/s$3" 2>/dev/null &
			daemon=$!
			echo $daemon >"$2/pid$3"
			shift 3
			"$@"
			kill $daemon
			wait' node "$groups/$(printf "$1" "$i")" "$sockets" \
			"$i" env TARN_SOCKET="$sockets/s$i" \
			GLOO_SOCKET_IFNAME=net0 "$python" "$here/nodes.py" \
			"$i" "$nodes" "$folder/$i/model.safetensors" \
			"$2" "$disk" "$link" &
		ranks="$ranks $!"
	done
	for rank in $ranks; do
		wait "$rank"
	done
}
run "$name-%d" own
run "$name" shared
