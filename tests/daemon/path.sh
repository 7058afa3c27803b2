#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A client starts the daemon that belongs to its own library, here the build
# tree's, whatever is installed elsewhere; TARN_DAEMON goes before.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
built=$(readlink -f "$TARN_DAEMON")

safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2

run env TARN_DAEMON="$PWD/none" "$TARN" print f.st:a
is 1 "$status" "TARN_DAEMON that is not there"
has "$PWD/none" "$err" "the error names the path"

run env -u TARN_DAEMON "$TARN" print f.st:a
is "0 [0 1]" "$status $out" "without it the build tree's is found"
run "$TARN" status --json
keeper=$(json 'j["keeper_pid"]')
if [ "$(id -u)" -eq 0 ]; then
	is "$built" "$(readlink "/proc/$keeper/exe")" \
		"the keeper runs that program"
else
	skipped 1 "the daemon hides its program from all but root"
fi
run "$TARN" stop
is 0 "$status" "the daemon ends without an error"
finish
