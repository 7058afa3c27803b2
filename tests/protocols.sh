#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A command of the previous protocol and this daemon, and the reverse: what
# both know works, on the same tensors, at the same time.
# TARN_OLD_BUILD is the folder that scripts/build-protocol has made.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/cli_kit.sh"
old=${TARN_OLD_BUILD-}
if [ ! -x "$old/bin/tarn" ]; then
	skipped 1 "needs a build of the previous protocol in TARN_OLD_BUILD"
	finish
	exit
fi
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
new_tarn=$TARN old_tarn=$old/bin/tarn

safetensors m.st '{"a.w":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]},
"a.b":{"dtype":"U8","shape":[8],"data_offsets":[32,40]}}' 40
safetensors other.st \
	'{"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}' 8
sleep 2.2 # younger files are not shared

# common WHO DAEMON LOADER READER: what protocol 1 could do.
common() {
	local who=$1 loader=$3 reader=$4

	export TARN_DAEMON=$2
	run "$loader" load m.st --name m
	is "0 " "$status $err" "$who: load"
	run "$reader" load m.st --name n --json
	is "True" "$(json 'j["cached"]')" "$who: one load serves both"
	run "$reader" print m/a.b
	is "[32 33 34 35 36 37 38 39]" "$out" "$who: its bytes"
	run "$reader" print m/a.w '[1, ::2]'
	is "[ 8 10 12 14]" "$out" "$who: a view"
	run "$loader" ls
	is "4 0" "$(wc -l <<<"$out") $status" "$who: ls"
	run "$reader" info n
	has "n: published, 2 tensors, 40 B" "$out" "$who: info"
	run "$reader" rm n/a.b
	is "0 " "$status $err" "$who: rm"
	run "$loader" ls n
	is "n/a.w  U8  [4, 8]  32 B" "$out" "$who: it is gone for both"
	run "$reader" print other.st:x
	is "[0 1 2 3 4 5 6 7]" "$out" "$who: FILE:TENSOR"
	for t in "$loader" "$reader"; do
		run "$t" status --json
		is "0 3" "$status $(json 'j["names"]')" "$who: status"
	done
	run "$reader" stop
	is "0 " "$status $err" "$who: stop"
}

new_daemon=${top_builddir:?}/daemon/tarnd
for daemon in "$new_daemon" "$old/sbin/tarnd"; do
	which=$([ "$daemon" = "$new_daemon" ] && echo new || echo old)
	common "$which daemon, old loads, new reads" "$daemon" \
		"$old_tarn" "$new_tarn"
	common "$which daemon, new loads, old reads" "$daemon" \
		"$new_tarn" "$old_tarn"
done
finish
