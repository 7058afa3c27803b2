#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# Transparent huge pages for shared memory: denied, on request alone (never), on
# advice, always.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=1G
programs=(tests/daemon/{pools,pages,populate} tests/store/store)
switch=/sys/kernel/mm/transparent_hugepage/shmem_enabled

# Of the daemon's segment, what is mapped as huge pages, in KiB.
shmem_huge() {
	cat /proc/[0-9]*/smaps 2>/dev/null | awk '
		/^[0-9a-f]+-[0-9a-f]+ / { ours = /memfd:tarn-[0-9]/ }
		ours && $1 == "ShmemPmdMapped:" && $2 > most { most = $2 }
		END { print most + 0 }'
}

# pool_pages POOL PAGES HUGE WHAT: what tarn status says of it.
pool_pages() {
	local line

	line=$("$TARN" status --json | sed 's/},{/}\n{/g' |
		grep -F "\"name\":\"$1\"")
	has "\"pages\":\"$2\"" "$line" "the pool $1 asks for $2: $4"
	has "\"huge\":$3," "$line" "tarn status: $3 bytes are huge: $4"
}

# One that takes what there is, one that wants none, one that wants them badly.
pools() { # WORD HUGE
	local pool

	printf '[pool %s]\npages = %s\n' a auto s 4k t thp >/tmp/tarnd.conf
	configured_daemon /tmp/tarnd.conf --budget 300M --segment-size 32M
	array /tmp/pool.npy 8
	for pool in a s t; do
		run "$TARN" load /tmp/pool.npy --name x --pool $pool
		is "0 " "$status $err" "a file is loaded into the pool $pool"
	done
	pool_pages a auto "$2" "shmem_enabled is $1"
	for pool in a s; do
		run "$TARN" ls -l x --pool $pool
		has " $([ $pool$2 = a0 ] || [ $pool = s ] && echo 4 KiB ||
			echo 2 MiB) 100 %" "$out" \
			"tarn ls -l: a tensor of $pool, shmem_enabled is $1"
	done
	pool_pages s 4k 0 "shmem_enabled is $1"
	pool_pages t thp "$2" "shmem_enabled is $1"
	if [ "$2" -eq 0 ]; then
		has 'pool_pages role=keeper pool="t" wanted="thp"' \
			"$(cat /tmp/tarnd.log)" "the log says what it lacks"
	else
		is 0 "$(grep -c pool_pages /tmp/tarnd.log)" \
			"the log has no complaint"
	fi
	stop_daemon
	rm -r "$XDG_RUNTIME_DIR/own"
}

inside() {
	for word in deny never advise always; do
		echo $word >$switch
		has "[$word]" "$(cat $switch)" "shmem_enabled is $word"
		findings --
		if [ $word = deny ]; then
			finding transparent costs "shmem_enabled is deny"
		elif [ $word = never ]; then
			finding transparent costs \
				"shmem_enabled is never, but pools ask for each"
		else
			finding transparent good "shmem_enabled is $word"
			advice
		fi
		serves /tmp
		pool_pages uid:0 auto \
			"$([ $word = deny ] && echo 0 || echo 33554432)" \
			"shmem_enabled is $word"
		if [ $word = deny ]; then
			is 0 "$(shmem_huge)" "its segment has no huge page"
		else
			is 32768 "$(shmem_huge)" \
				"all of its segment, 32 MiB, is in huge pages"
		fi
		end_daemon
		rm -rf "$XDG_RUNTIME_DIR/own"
		[ $word = advise ] || pools $word \
			"$([ $word = deny ] && echo 0 || echo 33554432)"
	done
	suite
}

guest
