#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# Little memory: 256 MiB in all. What does not fit is refused with the reason,
# and nothing is killed.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=256M cpus=1
programs=(tests/daemon/pools tests/store/{store,publish} tests/lib/save)

killed() { # by the kernel, since there was no memory
	awk '$1 == "oom_kill" { print $2 }' /proc/vmstat
}

# A cgroup with a limit: what it leaves counts, not what the machine has.
in_cgroup() {
	local groups=/sys/fs/cgroup

	mkdir $groups/limited
	echo +memory >$groups/cgroup.subtree_control
	echo 48M >$groups/limited/memory.max
	findings bash -c "echo \$\$ >$groups/limited/cgroup.procs"' && "$@"' \
		limited --
	finding cgroup costs "/limited leaves 4"
	finding cgroup costs " of 48.00 MiB"
	remedy cgroup "memory.max"
	finding budget good "half of what memory.max of /limited"
	advice cgroup transparent
	echo 1M >$groups/limited/memory.max
	rmdir $groups/limited
}

inside() {
	local mib

	mib=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo)
	is yes "$([ "$mib" -gt 128 ] && [ "$mib" -lt 256 ] && echo yes)" \
		"the machine has less than 256 MiB: $mib MiB"
	findings --
	finding machine good " available of "
	finding budget good "half of what MemAvailable"
	finding cpuset good "1 of 1 CPUs"
	advice transparent
	in_cgroup

	serves /tmp
	# A sparse file takes no memory where it lies, but where it is loaded.
	local large=/tmp/large.npy
	array_head 999999999 >$large
	truncate -s $((999999999 + 128)) $large
	run "$TARN" load $large --name large
	is 1 "$status" "a file larger than the machine is refused"
	has "do not fit" "$err" "with a sentence"
	rm $large
	# Nor do these all fit, but nobody holds any of them.
	for i in {1..6}; do
		array_head $((30 << 20)) >$large
		truncate -s $(((30 << 20) + 128)) $large
		run "$TARN" load $large --name once
		is "0 " "$status $err" "file $i of 30 MiB is loaded"
		"$TARN" rm once/
	done
	rm $large
	run "$TARN" ls
	has copied "$out" "what was published before is still there"
	end_daemon
	suite
	is 0 "$(killed)" "the kernel killed no process for its memory"
}

guest
