#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Where /proc shows processes alone, as with systemd's ProcSubset=pid, a daemon is
# started, serves and ends. Without any /proc, as in a chroot that somebody made
# in haste, the file that is missing is named. (tests/store/autostart does without
# /dev/null.)
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2

# beside TYPE OPTIONS COMMAND...: with such a file system at /proc
beside() {
	# shellcheck disable=SC2016 # that is for the other shell
	unshare --mount sh -c 'mount -t "$0" -o "$1" none /proc && shift &&
		exec "$@"' "$@"
}

if ! beside proc subset=pid true 2>/dev/null; then
	skipped 8 "needs root and Linux 5.8, to have part of /proc"
	finish
	exit
fi
run beside proc subset=pid test -e /proc/meminfo
is 1 "$status" "a /proc of processes alone has no /proc/meminfo"
run beside proc subset=pid "$TARN" put x f.st:a
is "0 " "$status $err" "a daemon is started and serves without /proc/meminfo"
run "$TARN" print x
has "0 1" "$out" "other clients read what was published without /proc/meminfo"
run beside proc subset=pid "$TARN" status
is "0 " "$status $err" "status does not need /proc/meminfo"
run beside proc subset=pid "$TARN" stop
is "0 " "$status $err" "stop does not need /proc/meminfo"
run beside tmpfs ro "$TARN" put x f.st:a
is 1 "$status" "without /proc no daemon is started"
if nm -D "${top_builddir:?}/lib/.libs/libtarn.so" | grep -q __asan_init; then
	skipped 1 "AddressSanitizer itself needs /proc"
else
	has "/proc/self/fd/" "$err" \
		"the error names the file of /proc that is missing"
fi
run beside tmpfs ro timeout 300 "$TARN_DAEMON" --socket "$TMPDIR/by-hand"
is 1 "$status" "a daemon that is started by hand does not start without /proc"
finish
