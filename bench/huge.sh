# shellcheck shell=sh disable=SC2154,SC2034 # shared with the script that sources it
# SPDX-License-Identifier: MIT
#
# Huge pages for the scripts beside it. They call
#
#	have_thp	does the system give shared memory transparent ones?
#	have_huge MIB	as many free pages of 2 MiB, from the reserve, or added
#			to it by root; else one line says why not
#	end_huge	what was added goes back: at the latest at the end

reserve=/proc/sys/vm/nr_hugepages
sizes=/sys/kernel/mm/hugepages/hugepages-2048kB
reserved= # before the script added some

have_thp() {
	thp=/sys/kernel/mm/transparent_hugepage/shmem_enabled
	case $(cat $thp 2>/dev/null) in
	*'[never]'* | *'[deny]'* | '')
		echo "thp: left out: shared memory gets none (advise in $thp)"
		return 1
		;;
	esac
}

have_huge() {
	free=$(cat $sizes/free_hugepages 2>/dev/null) || {
		echo "2m: this kernel has no huge pages"
		return 1
	}
	missing=$(($1 / 2 - free))
	[ "$missing" -gt 0 ] || return 0
	[ -w $reserve ] || {
		echo "2m: $missing more pages must be reserved: as root," \
			"sysctl vm.nr_hugepages=N"
		return 1
	}
	[ -n "$reserved" ] || reserved=$(cat $reserve)
	echo $(($(cat $reserve) + missing)) >$reserve
	[ "$(cat $sizes/free_hugepages)" -ge $(($1 / 2)) ] && return 0
	end_huge
	echo "2m: there is no memory for $missing more pages in one piece"
	return 1
}

end_huge() {
	[ -z "$reserved" ] || echo "$reserved" >$reserve
	reserved=
}
