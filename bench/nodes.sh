#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A checkpoint on four nodes: each reads all of it, or each a quarter of it, with
# the rest from the others: by load_file with group=, whose ranks speak by gloo, and
# by mpirun tarn load. Nodes are network namespaces, with a daemon and a copy of the
# file each, at one switch. Their links and disks are as slow as is asked for:
#
#	own	each node has a disk of TARN_BENCH_DISK MB/s (100)
#	shared	all nodes together have one, as with a file server
#
# and a link of TARN_BENCH_LINK Mbit/s (1000) in each direction. All of it is cold.
# From the second round on the median is shown beside the model: reading goes on
# while the links are busy, and the slower of both takes the time.
#
#	disk: bytes a node reads / its rate
#	link: (N - 1) / N of the file, with the heads of its packets
#
# The kernel counts a packet of Ethernet, IPv4 and TCP with 1,514 bytes against the
# rate of a link, of which 1,448 are the file's. TCP connections that do nothing else
# take 1.00 to 1.02 of that time, one on each link.
#
# It needs root, ip, tc, the controller of block devices; for gloo a Python with torch
# (TARN_BENCH_PYTHON), for MPI Open MPI.
#
# Wanted: within 1.15 of the model.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-256}
nodes=4
rounds=${TARN_BENCH_ROUNDS:-4}
disk=${TARN_BENCH_DISK:-100}
link=${TARN_BENCH_LINK:-1000}
python=${TARN_BENCH_PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
network=$here/../tests/kit/network.sh
name=tarn-bench-$$
groups=/sys/fs/cgroup/blkio

left_out() {
	echo "left out: $*"
	exit 0
}
missing=$("$network" missing)
[ -z "$missing" ] || left_out "$missing"
[ -e $groups/blkio.throttle.read_bps_device ] ||
	left_out "there is no $groups/blkio.throttle.read_bps_device"
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH

folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-nodes.XXXXXX")
folder=$(cd "$folder" && pwd)
sockets=$(mktemp -d /tmp/tarn-bench.XXXXXX) # their paths must be short
all=$(seq 0 $((nodes - 1)))
# What was killed is in its group until the kernel has taken it out.
remove_group() {
	for _ in $(seq 200); do
		[ -n "$(cat "$1/cgroup.procs")" ] || break
		sleep 0.01
	done
	rmdir "$1" || :
}
end() {
	end_daemons
	"$network" end "$name" $nodes
	for group in $(seq -f "$groups/$name-%g" 0 $((nodes - 1))) "$groups/$name"; do
		[ ! -e "$group" ] || remove_group "$group"
	done
	rm -rf "$folder" "$sockets"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

device=$(findmnt -n -o MAJ:MIN -T "$folder")
# Partitions are throttled as a whole disk.
[ ! -e "/sys/dev/block/$device/partition" ] ||
	device=$(cat "/sys/dev/block/$device/../dev")

# ---- the nodes ----------------------------------------------------------------

"$network" begin "$name" $nodes "$link"
# shellcheck disable=SC2086 # numbers, one by one
for i in '' $(printf -- '-%d ' $all); do
	mkdir "$groups/$name$i"
	echo "$device $((disk * 1000000))" \
		>"$groups/$name$i/blkio.throttle.read_bps_device"
done
examples/make_checkpoint --size-mb "$size" "$folder/model.safetensors" \
	>/dev/null
bytes=$(stat -c %s "$folder/model.safetensors")
for i in $all; do
	mkdir "$folder/$i"
	cp -p --reflink=never "$folder/model.safetensors" "$folder/$i/"
done
rm "$folder/model.safetensors"
sync

# What a node reads, it reads in the group of its disk; not by ip netns exec, which
# hides the groups. It takes the place of this shell: DISKS NODE COMMAND...
on_node() {
	disks_of=$1
	node=$2
	shift 2
	group=$groups/$name
	[ "$disks_of" = shared ] || group=$group-$node
	# shellcheck disable=SC2016
	exec nsenter --net="/run/netns/$name-$node" sh -c '
		echo $$ >"$0/cgroup.procs"
		exec "$@"' "$group" "$@"
}

start_daemons() { # DISKS
	for i in $all; do
		on_node "$1" "$i" daemon/tarnd --socket "$sockets/s$i" \
			2>/dev/null &
		echo $! >"$sockets/pid$i"
	done
	for i in $all; do
		while [ ! -S "$sockets/s$i" ]; do
			kill -0 "$(cat "$sockets/pid$i")"
			sleep 0.05
		done
	done
}

end_daemons() {
	for i in $all; do
		[ ! -e "$sockets/pid$i" ] || {
			kill "$(cat "$sockets/pid$i")" 2>/dev/null || :
			wait "$(cat "$sockets/pid$i")" 2>/dev/null || :
			rm -f "$sockets/pid$i"
		}
	done
}

# ---- what is said -----------------------------------------------------------------

# Reads lines of a way and its seconds in a round; the first round is left out.
report() { # DISKS BY
	sort -s -k1,1 | awk -v disks="$1" -v by="$2" -v bytes="$bytes" \
		-v n=$nodes -v disk="$disk" -v link="$link" '
	function median(list, count,	i, j, t) {
		for (i = 2; i <= count; i++)
			for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
				t = list[j]
				list[j] = list[j - 1]
				list[j - 1] = t
			}
		return (list[int((count + 1) / 2)] + list[int(count / 2) + 1]) / 2
	}
	function model(way,	read, sent) {
		read = bytes / (disk * 1e6) * (disks == "shared" ? n : 1)
		if (way == "alone")
			return read
		read /= n
		sent = bytes * (n - 1) / n * 8 / (link * 1e6) * 1514 / 1448
		return read > sent ? read : sent
	}
	function tell(way, count,	seen) {
		if (count < 1)
			return
		seen = median(times, count)
		found[way] = seen
		printf "%-7s%-6s%-16s%7.2f s  model %6.2f s  %5.2f of it\n",
			disks, by, way == "alone" ? "each reads all" : way,
			seen, model(way), seen / model(way)
	}
	$1 != way { tell(way, count); way = $1; count = -1 }
	{ if (++count) times[count] = $2 }
	END {
		tell(way, count)
		if (found["alone"] && found["together"])
			printf "%-29s%7.2f times faster together\n", "",
				found["alone"] / found["together"]
	}'
}

# ---- gloo -------------------------------------------------------------------------

run_gloo() { # DISKS
	start_daemons "$1"
	ranks=
	for i in $all; do
		on_node "$1" "$i" env TARN_SOCKET="$sockets/s$i" \
			GLOO_SOCKET_IFNAME=net0 "$python" "$here/nodes.py" \
			"$i" $nodes "$folder/$i/model.safetensors" "$rounds" \
			>"$sockets/said$i" &
		ranks="$ranks $!"
	done
	for rank in $ranks; do
		wait "$rank"
	done
	report "$1" gloo <"$sockets/said0"
	end_daemons
}

# ---- MPI --------------------------------------------------------------------------

# The file is another one for tarn, the same on all nodes, and cold.
forget() { # ROUND
	for i in $all; do
		touch -d "@$((1100000000 + $1))" "$folder/$i/model.safetensors"
		dd if="$folder/$i/model.safetensors" iflag=nocache count=0 \
			status=none
		cli/tarn rm --socket "$sockets/s$i" group/ >/dev/null 2>&1 || :
	done
}

# Each host is a namespace, which mpirun enters in place of ssh. Prints the seconds of
# the slowest rank.
mpi_load() { # DISKS [OPTION]
	hosts=$(printf '10.99.0.%d,' $(seq $nodes))
	# shellcheck disable=SC2016
	nsenter --net="/run/netns/$name" mpirun --allow-run-as-root --bind-to none \
		--mca plm_rsh_agent "$network enter $name" \
		--mca btl self,tcp --mca btl_tcp_if_include net0 \
		--mca oob_tcp_if_include 10.99.0.0/24 \
		-x LD_LIBRARY_PATH="$PWD/mpi/.libs" \
		-n $nodes --host "${hosts%,}" sh -c '
			i=$OMPI_COMM_WORLD_RANK
			group=$1
			[ "$2" = shared ] || group=$1-$i
			echo $$ >"$group/cgroup.procs"
			export TARN_SOCKET=$3/s$i
			exec cli/tarn load --json --name group $5 \
				"$4/$i/model.safetensors"' \
		load "$groups/$name" "$1" "$sockets" "$folder" "${2:-}" |
		sed -n 's/.*"seconds": *\([0-9.e+-]*\).*/\1/p' | sort -g | tail -n 1
}

run_mpi() { # DISKS
	start_daemons "$1"
	for round in $(seq "$rounds"); do
		forget $((2 * round))
		echo "alone $(mpi_load "$1" --alone)"
		forget $((2 * round + 1))
		echo "together $(mpi_load "$1")"
	done >"$sockets/said"
	report "$1" MPI <"$sockets/said"
	end_daemons
}

if "$python" -c 'import torch, tarn' 2>/dev/null; then
	run_gloo own
	run_gloo shared
else
	echo "gloo is left out: $python has no torch; name one with" \
		"TARN_BENCH_PYTHON"
fi
if ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
	echo "MPI is left out: there is no mpirun of Open MPI"
elif [ ! -e mpi/libtarn-mpi.la ]; then
	echo "MPI is left out: libtarn-mpi was not built"
else
	run_mpi own
	run_mpi shared
fi
