#!/bin/bash
# SPDX-License-Identifier: MIT
#
# In the guest: its first process, and what its script finds in place of kit.sh.
# The first process prepares the machine, runs the script's inside(), and turns
# the machine off, whatever came of it.
# shellcheck disable=SC1091,SC2034,SC2154 # the guest's script shares them

# ---- the first process ------------------------------------------------------

prepare() {
	local m

	export PATH=/bin HOME=/root LC_ALL=C.UTF-8
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	mount -t devtmpfs dev /dev
	mkdir -p /dev/shm /dev/pts
	mount -t devpts pts /dev/pts
	mount -t tmpfs -o mode=1777 shm /dev/shm
	mount -t tmpfs -o mode=755 run /run
	mount -t cgroup2 cgroup /sys/fs/cgroup
	ln -s /proc/self/fd /dev/fd
	ip link set lo up
	[ ! -e /vm/modules.list ] || while read -r m; do
		insmod "/vm/modules/$m"
	done </vm/modules.list
	mount -t ext4 /dev/vda /tmp
	chmod 1777 /tmp
	rmdir /tmp/lost+found
	# Or each end of a line would be two characters.
	stty -F /dev/hvc0 raw -echo
}

if [ $$ -eq 1 ]; then
	prepare
	export top_srcdir=/vm top_builddir=/tarn
	setsid bash /vm/guest.sh >/dev/hvc0 </dev/null
	echo "the guest's script ended with status $?"
	sync
	poweroff -f
fi

# ---- for the script ---------------------------------------------------------

vm='' # it is the host's
need() { :; }
make_disk() { :; }
export TARN=/tarn/cli/tarn TARN_DAEMON=/tarn/daemon/tarnd
# The processors are imitated, and the real ones may have other things to do.
export TARN_TEST_TIMEOUT=500 TARN_TEST_SAMPLE=211
export TMPDIR=/tmp XDG_RUNTIME_DIR=/run
. /vm/cli.sh

# One line of a test, as one of the guest's own; $planned, $made, $skips.
take_line() { # TEST LINE
	local rest

	case $2 in
	"ok "* | "not ok "*)
		made=$((made + 1)) n=$((n + 1))
		rest=${2#*ok }
		rest=${rest#"${rest%%[!0-9]*}"}
		case $rest in
		*"# SKIP"*)
			skips=$((skips + 1))
			echo "ok $n # SKIP $1: ${rest#*# SKIP }"
			;;
		*) echo "${2%%ok*}ok $n - $1: ${rest# - }" ;;
		esac
		;;
	"1..0 # SKIP"*)
		planned=0 skips=$((skips + 1)) n=$((n + 1))
		echo "ok $n # SKIP $1: ${2#*# SKIP }"
		;;
	1..*) planned=${2#1..} ;;
	"# took"*) echo "# $1 ${2#\# }" ;;
	"Bail out!"*) bailed=$2 ;;
	?*) echo "# $1: ${2#\# }" ;;
	esac
}

# tests TEST...: programs of the suite, run as the suite runs them; $as is a
# command to run them by.
as=()
tests() {
	local t line planned made bailed

	skips=0
	for t; do
		planned='' made=0 bailed=''
		while IFS= read -r line; do
			take_line "$t" "$line"
		done < <("${as[@]}" /tarn/tests/run "/tarn/tests/$t" 2>&1)
		is "$made" "$planned$bailed" "$t: makes all of its assertions"
	done
}

# Each finding's worth and key, then what is advised.
in_json() {
	sed -n 's/.*"key":"\([^"]*\)".*"worth":"\([^"]*\)".*/\2 \1/p' <<<"$doctor"
	sed -n 's/.*"remedy":"\([^"]*\)".*/> \1/p' <<<"$doctor"
}

in_text() {
	sed -nE 's/^  (good|costs|broken|unknown) +([^ ]+) .*/\1 \2/p' <<<"$out"
	sed -nE 's/^ +> /> /p' <<<"$out"
}

# findings [COMMAND...] -- [PATH...]: what tarn doctor says now, to programs and
# to people.
findings() {
	local before=()

	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		before+=("$1")
		shift
	done
	shift
	run "${before[@]}" "$TARN" doctor --json "$@"
	doctor=$(sed 's/},{/}\n{/g' <<<"$out")
	local json_status=$status
	run "${before[@]}" "$TARN" doctor "$@"
	is "$json_status $(in_json)" "$status $(in_text)" \
		"tarn doctor: what people read is what programs read"
}

# finding KEY WORTH PART [PATH]: it says that, and its value has that part.
finding() {
	local line value

	line=$(grep -F "\"key\":\"$1\",\"path\":${4:+\"$4\"}" <<<"$doctor" |
		head -n 1)
	value=${line#*\"value\":\"}
	value=${value%%\",\"cost\":*}
	case $line in
	*"\"worth\":\"$2\""*) has "$3" "$value" "tarn doctor: $1 is $2: $3" ;;
	*) is "$2" "${line:-no finding $1}" "tarn doctor: $1 is $2" ;;
	esac
}

# remedy KEY PART: it advises that.
remedy() {
	has "$2" "$(grep -F "\"key\":\"$1\"" <<<"$doctor" |
		sed -n 's/.*"remedy":"\([^"]*\)".*/\1/p')" \
		"tarn doctor: $1 says what to do: $2"
}

# suite: all tests among the guest's programs.
suite() {
	local p

	for p in "${programs[@]}"; do
		[[ $p == tests/vm/* ]] || tests "${p#tests/}"
	done
}

# advice KEY...: of all findings, these cost something, and no other does.
advice() {
	is "$*" "$(sed -nE '/"worth":"(good|unknown)"/d; s/.*"key":"([^"]*)".*/\1/p' \
		<<<"$doctor" | sort -u | paste -sd ' ')" \
		"tarn doctor: ${*:-nothing} is to be changed"
	is $(($# > 0)) "$status" "tarn doctor: the exit status says so"
}

# array_head BYTES: numpy's, of so many; 128 bytes.
array_head() {
	printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '|u1', $(
		)'fortran_order': False, 'shape': ($1,), }"
}

# array FILE MIB: no two pieces of 64 KiB are the same.
array() {
	local piece i

	piece=$(seq -s ' ' 1 20000 | head -c 65528)
	{
		array_head $(($2 << 20))
		for ((i = 0; i < $2 * 16; i++)); do
			printf '%08d%s' $i "$piece"
		done
	} >"$1"
}

begin_daemon() { # [COMMAND...]
	export TARN_AUTOSTART=1
	export TARN_SOCKET=$XDG_RUNTIME_DIR/own/tarnd.sock
	run "$@" "$TARN" load "$file" --name loaded
	is "0 " "$status $err" "a daemon is started, and loads a file of $MIB MiB"
}

end_daemon() { # [COMMAND...]
	run "$@" env TARN_AUTOSTART=0 "$TARN" stop
	is "0 " "$status $err" "the daemon ends"
	unset TARN_SOCKET
	unset TARN_AUTOSTART
}

# configured_daemon CONFIG [OPTION]...: one in the foreground, until stop_daemon.
configured_daemon() {
	local config=$1
	shift

	mkdir -m 700 "$XDG_RUNTIME_DIR/own"
	export TARN_SOCKET=$XDG_RUNTIME_DIR/own/tarnd.sock
	"$TARN_DAEMON" --config "$config" --socket "$TARN_SOCKET" "$@" \
		>"$TMPDIR/tarnd.log" 2>&1 &
	daemon=$!
	for _ in {1..600}; do
		! TARN_AUTOSTART=0 "$TARN" status >/dev/null 2>&1 || break
		sleep 0.1
	done
	run "$TARN" ls
	is "0 " "$status $err" "a daemon with a file of settings serves"
}

stop_daemon() {
	kill "$daemon"
	wait "$daemon"
	is 0 $? "the daemon ends"
	unset TARN_SOCKET
}

bytes() { # FILE: without its head
	tail -c $((MIB << 20)) "$1"
}

# spread PAGES NODE...: of the daemon's one segment, which has so many pages,
# each of these nodes has its share, give or take one, and no other has any. The
# kernel counts them where they are mapped.
spread() {
	local pages=$1 seen nodes
	shift

	seen=$(cat /proc/[0-9]*/numa_maps 2>/dev/null |
		grep -E '/memfd:tarn-[0-9]' | grep -oE '\<N[0-9]+=[0-9]+' |
		sort -u | paste -sd ' ')
	nodes=$(tr ' ' '\n' <<<"$seen" | awk -F = -v share=$((pages / $#)) '
		$2 < share - 1 || $2 > share + 1 { $1 = "N?" }
		{ print substr($1, 2) }' | paste -sd ' ')
	is "$*" "$nodes" "a segment of $pages pages lies on nodes $*: $seen"
}

# placed NODE...: the daemon's segments lie on these nodes and on no other, as
# the kernel counts them where they are mapped.
placed() {
	local seen

	seen=$(cat /proc/[0-9]*/numa_maps 2>/dev/null |
		grep -E '/memfd:tarn-[0-9]' | grep -oE '\<N[0-9]+=' |
		tr -d 'N=' | sort -un | paste -sd ' ')
	is "$*" "$seen" "the kernel has the segments on nodes $*"
}

# lies NAME WHERE SENTENCE: as tarn ls -l says.
lies() {
	run "$TARN" ls -l "$1"
	is "$2" "${out##*  }" "$3: $2"
}

# gets NAME NODE SENTENCE COMMAND...: the node of the bytes that a client reads.
gets() {
	local name=$1 node=$2 sentence=$3
	shift 3

	run "$@" "$TARN" ls -l --json "$name"
	has "\"node\":$node,\"nodes\":[" "$out" "$sentence: from node $node"
}

# loads FILE NAME WHERE SENTENCE [COMMAND...]: a file is loaded, and lies there.
loads() {
	local file=$1 name=$2 where=$3 sentence=$4
	shift 4

	run "$@" "$TARN" load "$file" --name "$name"
	is "0 " "$status $err" "a file is loaded: $name"
	lies "$name" "$where" "$sentence"
}

# serves FOLDER [COMMAND...]: a daemon is started, loads a file of that folder
# and publishes a copy of it; other processes see the same bytes. It runs on.
MIB=8
serves() {
	local file=$1/served.npy back=$1/back.npy
	shift

	array "$file" $MIB
	begin_daemon "$@"
	run "$@" "$TARN" put copied "$file"
	is "0 " "$status $err" "it publishes a copy of it"
	for name in loaded copied; do
		run "$@" "$TARN" save $name "$back"
		is "0 " "$status $err" "what was $name is saved by another"
		run cmp <(bytes "$file") <(bytes "$back")
		is "0 " "$status $out" "a loaded file has the bytes of the file"
	done
	rm -f "$back" "$file"
}

if [ $$ -ne 1 ]; then
	guest() {
		inside
		finish
	}
fi
