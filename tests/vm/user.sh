#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# An ordinary user with little memory to lock: less is registered with io_uring,
# and all works.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=1G
programs=(tests/daemon/pools tests/lib/{fill,save}
	tests/store/{store,publish,autostart,socket_path})

inside() {
	user=(prlimit --memlock=65536 setpriv --reuid tester --regid tester
		--clear-groups --inh-caps=-all)
	mkdir -m 700 /tmp/tester /run/tester
	chown tester:tester /tmp/tester /run/tester
	export TMPDIR=/tmp/tester XDG_RUNTIME_DIR=/run/tester

	is "1000 64" "$("${user[@]}" bash -c 'echo $(id -u) $(ulimit -l)')" \
		"an ordinary user may lock 64 KiB"
	findings --
	finding memlock good "no limit: CAP_IPC_LOCK"
	findings "${user[@]}" --
	finding engine good io_uring
	finding memlock costs "64.00 KiB"
	remedy memlock "ulimit -Hl unlimited"
	remedy transparent "echo advise > /sys/kernel/mm"
	advice memlock transparent
	findings prlimit --memlock=unlimited "${user[@]:2}" --
	finding memlock good "no limit"

	serves /tmp/tester "${user[@]}"
	findings "${user[@]}" --
	finding memlock costs "64.00 KiB (of tarnd)"
	end_daemon "${user[@]}"
	as=("${user[@]}")
	suite
}

guest
