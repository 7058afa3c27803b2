#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# No io_uring: as in a container, its system calls are refused to everything in
# the guest. The engine of threads reads, and says why. (This kernel has no
# sysctl kernel.io_uring_disabled, which came with 6.6.)
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=1G
programs=(tests/vm/without_uring tests/daemon/{pools,loader,loads}
	tests/lib/{fill,io_engine,save}
	tests/store/{store,publish})

inside() {
	switch=/proc/sys/kernel/io_uring_disabled
	findings --
	finding engine good io_uring
	if [ -e $switch ]; then
		echo 2 >$switch
		findings --
		finding engine costs "sysctl kernel.io_uring_disabled is 2"
		remedy engine "sysctl -w kernel.io_uring_disabled=0"
		echo 0 >$switch
	else
		skipped 1 "$(uname -r) has no $switch"
	fi
	as=(/tarn/tests/vm/without_uring)
	is 2 "$("${as[@]}" awk '$1 == "Seccomp:" { print $2 }' \
		/proc/self/status)" "a seccomp filter is in force"
	findings "${as[@]}" --
	finding engine costs \
		"refused with Operation not permitted: a seccomp filter"
	remedy engine "in the container's seccomp profile"
	advice engine transparent

	serves /tmp "${as[@]}"
	end_daemon
	suite
}

guest
