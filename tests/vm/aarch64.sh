#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1800 s
#
# An ARM machine of 64 bits, whose programs are cross-compiled: the quick tests
# of what depends on the processor, and a daemon with its clients. The whole
# machine is imitated, not programs alone, so that the kernel's part (io_uring,
# sealed memfds, leases) is that of ARM, too.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"
[ -z "$vm" ] || . "$top_srcdir/tests/vm/arm64.sh"

memory=1G
programs=(
	tests/base/{close_from,cpus}
	tests/shm/{ring,table_readers,lease}
	tests/lib/{convert,move,layout_expr,io_engine,fill,save}
	tests/channel/{channel,threads}
	tests/store/{store,publish,mutable}
	tests/daemon/{pools,loads}
)

inside() {
	is aarch64 "$(uname -m)" "the machine is an ARM of 64 bits"
	findings --
	finding architecture good aarch64
	finding engine good io_uring
	finding cuda good "no driver"
	advice transparent
	serves /tmp
	end_daemon
	suite
}

guest
