#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# Huge pages reserved at boot: 2 MiB and 1 GiB. Pools take them, and give them
# back.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=2560M
linux=(hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=64)
programs=(tests/daemon/{pools,pages,populate}
	tests/store/{store,huge_mutable,publish_memory})
reserve=/sys/kernel/mm/hugepages

is_free() { # WANTED-OF-2M WANTED-OF-1G WHAT
	is "$1 $2" "$(cat $reserve/hugepages-{2048,1048576}kB/free_hugepages |
		paste -sd ' ')" "$3"
}

inside() {
	is_free 64 1 "64 huge pages of 2 MiB are free, and one of 1 GiB"
	findings --
	finding reserved_2M good "64 of 64 are free"
	finding reserved_1G good "1 of 1 are free"
	advice transparent

	cat >/tmp/tarnd.conf <<-END
		[daemon]
		idle = 1
		[pool two]
		pages = 2m
		segment-size = 32M
		[pool one]
		pages = 1g
		segment-size = 1G
	END
	configured_daemon /tmp/tarnd.conf --budget 1200M
	array /tmp/huge.npy 8
	for pool in two one; do
		run "$TARN" load /tmp/huge.npy --name huge --pool $pool
		is "0 " "$status $err" "a file is loaded into the pool $pool"
		run "$TARN" save huge /tmp/back.npy --pool $pool
		is "0 " "$status $err" "it is saved again"
		run cmp <(bytes /tmp/huge.npy) <(bytes /tmp/back.npy)
		is "0 " "$status $out" "a loaded file has the bytes of the file"
	done
	is_free 48 0 "the pools have taken a segment of each"
	run "$TARN" ls -l huge --pool two
	has " 2 MiB 100 %" "$out" "tarn ls -l: a tensor is in pages of 2 MiB"
	run "$TARN" ls -l huge --pool one
	has " 1 GiB 100 %" "$out" "tarn ls -l: a tensor is in pages of 1 GiB"
	pools=$("$TARN" status --json | sed 's/},{/}\n{/g')
	has '"huge":33554432,' "$(grep '"name":"two"' <<<"$pools")" \
		"tarn status: all of the pool two is in huge pages"
	has '"huge":1073741824,' "$(grep '"name":"one"' <<<"$pools")" \
		"tarn status: all of the pool one is in huge pages"
	findings --
	finding reserved_2M good "48 of 64 are free"
	finding reserved_1G costs "0 of 1 are free"
	advice reserved_1G transparent
	array_head $((128 << 20)) >/tmp/more.npy
	truncate -s $((128 + (128 << 20))) /tmp/more.npy
	run "$TARN" load /tmp/more.npy --name more --pool two
	is 1 "$status" "a file that needs more than is free is refused"
	has "huge pages of 2 MiB, and 48 of 64 in the reserve are free" \
		"$err" "the error says how many it needs and how many there were"
	for pool in two one; do
		run "$TARN" rm huge/ --pool $pool
		is "0 " "$status $err" "the tensor is removed from the pool $pool"
	done
	for _ in {1..300}; do
		[ "$(cat $reserve/hugepages-1048576kB/free_hugepages)" -eq 0 ] ||
			[ "$(cat $reserve/hugepages-2048kB/free_hugepages)" \
				-lt 64 ] || break
		sleep 0.1
	done
	is_free 64 1 "what became empty is given back while the daemon runs"
	stop_daemon
	is_free 64 1 "the ended daemon has nothing of the reserve"
	suite
}

guest
