#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# The oldest kernel that can be had. tarn promises to work from Linux 5.14 on;
# neither Debian nor Ubuntu keeps that version in its archive, so this is
# Ubuntu's 5.15, the first one of its long-term release, by its checksum.
# TARN_VM_OLDEST names a package or a file with another one, like Debian's
# linux-image-5.14.0-4-cloud-amd64 of snapshot.debian.org.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

programs=(tests/daemon/{pools,pages,populate,loads,restart}
	tests/lib/{fill,io_engine,io_mode,save}
	tests/store/{store,publish,mutable})
source='deb [trusted=yes] http://archive.ubuntu.com/ubuntu jammy main'
packages=(
	linux-image-5.15.0-25-generic@ad56f8c442a54d4f5ff2dff010d00321d53e32b543f3a92f3ba4e042d20a71da
	linux-modules-5.15.0-25-generic@d0ba4087d9e1d497925b3481d3531fba6c2a852855f8019d73b0b1385aa4da1f
)

inside() {
	local release

	release=$(uname -r)
	has "5.1" "$release" "the kernel is an old one: Linux $release"
	findings --
	finding kernel good "Linux $release"
	finding engine good io_uring
	findings -- /tmp
	finding direct good "works; offsets are multiples of 512" /tmp
	advice transparent
	serves /tmp
	end_daemon
	suite
}

need
if [ "$vm" ] && [ "${TARN_VM_OLDEST-}" ]; then
	use_kernel "$vm/oldest/${TARN_VM_OLDEST##*/}" '' "$TARN_VM_OLDEST"
elif [ "$vm" ]; then
	use_kernel "$vm/oldest" "$source" "${packages[@]}"
fi
guest
