#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Machines of one network, as namespaces of the kernel, for tests and benchmarks of
# several nodes.
#
#	network.sh missing              why there can be none here; or nothing
#	network.sh begin NAME NODES [MBIT]
#	network.sh end NAME NODES
#	network.sh cut NAME NODE WAY    WAY: down, silent
#	network.sh mend NAME NODE
#	network.sh enter NAME ADDRESS COMMAND...
#
# NAME-0, NAME-1, ... are the namespaces, in /run/netns. Each has an interface net0
# with the address 10.99.0.1, 10.99.0.2, ..., at a switch in the namespace NAME, which
# has 10.99.0.254. With MBIT each link carries so many Mbit/s in each direction.
#
# What enters a machine by its address is a shell's command line, as with ssh, and
# has a host name of its own: mpirun starts ranks in this way.
#
# A link that is cut is down, as the node sees, or silent: nothing goes through, and
# nobody is told.
set -eu
PATH=$PATH:/usr/sbin:/sbin
word=${1:?missing, begin, end, cut, mend or enter}
name=${2:-}

missing() {
	local probe="tarn-probe-$$" tool
	if [ "$(id -u)" != 0 ]; then
		echo "namespaces of a network need root"
		return
	fi
	for tool in ip tc nsenter; do
		command -v $tool >/dev/null && continue
		echo "there is no $tool (iproute2, util-linux)"
		return
	done
	if ip netns add "$probe" 2>/dev/null &&
		ip -n "$probe" link add switch type bridge 2>/dev/null &&
		ip -n "$probe" link add port type veth peer name net0 2>/dev/null; then
		ip netns del "$probe"
		return
	fi
	ip netns del "$probe" 2>/dev/null || :
	echo "the kernel gives no namespace with a bridge and a pair of links"
}

shape() { # NAMESPACE INTERFACE MBIT
	tc -n "$1" qdisc add dev "$2" root tbf \
		rate "${3}mbit" burst 256kb latency 50ms
}

attach() { # NODE MBIT
	ip netns add "$name-$1"
	ip -n "$name" link add "port$1" type veth \
		peer name net0 netns "$name-$1"
	ip -n "$name" link set "port$1" master switch up
	ip -n "$name-$1" link set lo up
	ip -n "$name-$1" link set net0 up
	ip -n "$name-$1" address add "10.99.0.$(($1 + 1))/24" dev net0
	[ -n "$2" ] || return 0
	shape "$name" "port$1" "$2"
	shape "$name-$1" net0 "$2"
}

begin() { # NODES MBIT
	local i
	ip netns add "$name"
	ip -n "$name" link set lo up
	ip -n "$name" link add switch type bridge
	ip -n "$name" link set switch up
	ip -n "$name" address add 10.99.0.254/24 dev switch
	for i in $(seq 0 $(($1 - 1))); do
		attach "$i" "$2"
	done
}

end() { # NODES
	local i
	for i in $(seq 0 $(($1 - 1))); do
		ip netns del "$name-$i" 2>/dev/null || :
	done
	ip netns del "$name" 2>/dev/null || :
}

cut() { # NODE WAY
	case $2 in
	down) ip -n "$name-$1" link set net0 down ;;
	silent) ip -n "$name" link set "port$1" nomaster ;;
	*) echo "cut: $2; down or silent" >&2 && return 2 ;;
	esac
}

mend() { # NODE
	ip -n "$name" link set "port$1" master switch
	ip -n "$name-$1" link set net0 up
}

enter() { # ADDRESS COMMAND...
	local node=$((${1##*.} - 1))
	shift
	exec nsenter --net="/run/netns/$name-$node" unshare --uts \
		sh -c "hostname node$node; $*"
}

case $word in
missing) missing ;;
begin) begin "$3" "${4:-}" ;;
end) end "$3" ;;
cut) cut "$3" "$4" ;;
mend) mend "$3" ;;
enter)
	shift 2
	enter "$@"
	;;
*)
	echo "network.sh: $word; missing, begin, end, cut, mend or enter" >&2
	exit 2
	;;
esac
