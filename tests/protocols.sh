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

# What came later is refused by name, and nothing else is the worse for it.
refused() {
	local what=$1

	shift
	run "$new_tarn" "$@"
	is "1" "$status" "old daemon: $what fails"
	has "stop it, and the next open starts a" "$err" "and says what to do"
}

too_old() {
	export TARN_DAEMON=$old/sbin/tarnd
	run "$new_tarn" load m.st --name m
	is "0" "$status" "old daemon: load"
	refused put put p m.st:a.b
	refused "put of a large one" put p large.st:x
	refused metrics metrics
	refused check check
	refused "a pool with a name" ls --pool models
	run "$new_tarn" wait m/a.b --timeout 5
	is "0 m/a.b version 1" "$status $out" "old daemon: wait"
	run "$new_tarn" wait nobody --timeout 0.2
	is "1" "$status" "old daemon: a wait in vain"
	has "within 200 ms" "$err" "ends in time"
	run "$new_tarn" status --json
	is "0 2" "$status $(json 'j["names"]')" "old daemon: what it does say"
	run "$new_tarn" print m/a.b
	is "[32 33 34 35 36 37 38 39]" "$out" "old daemon: it serves on"
	run "$new_tarn" stop
}

# A large tensor that was put lies in memory of its own, of which protocol 1
# knows nothing.
too_new() {
	export TARN_DAEMON=$new_daemon
	run "$new_tarn" put large large.st:x
	is "0" "$status" "new daemon: put of a large one"
	run "$new_tarn" put small m.st:a.b
	run "$old_tarn" print large
	is "1" "$status" "new daemon: which the old command cannot read"
	has "'large': pool" "$err" "and says so"
	run "$old_tarn" print small
	is "[32 33 34 35 36 37 38 39]" "$out" "what lies in the pool it can"
	run "$old_tarn" ls
	has "large" "$out" "it lists both"
	run "$old_tarn" rm large
	is "0 " "$status $err" "and can remove it"
	run "$new_tarn" check
	is "0" "$status" "new daemon: it is well"
	run "$new_tarn" stop
}

new_daemon=${top_builddir:?}/daemon/tarnd
for daemon in "$new_daemon" "$old/sbin/tarnd"; do
	which=$([ "$daemon" = "$new_daemon" ] && echo new || echo old)
	common "$which daemon, old loads, new reads" "$daemon" \
		"$old_tarn" "$new_tarn"
	common "$which daemon, new loads, old reads" "$daemon" \
		"$new_tarn" "$old_tarn"
done

# What an old command published is there after an upgrade, for both, and both
# go on.
export TARN_DAEMON=$new_daemon
run "$old_tarn" load m.st --name m
is "0 " "$status $err" "upgrade: the old command loads"
kill -USR2 "$("$new_tarn" status --json |
	/usr/bin/python3 -c 'import json, sys
print(json.load(sys.stdin)["keeper_pid"])')"
for _ in {1..200}; do
	run "$new_tarn" status --json
	[ "$(json 'j["upgrades"]')" = 0 ] || break
	sleep 0.1
done
is 1 "$(json 'j["upgrades"]')" "upgrade: it comes about"
for t in "$old_tarn" "$new_tarn"; do
	run "$t" print m/a.b
	is "[32 33 34 35 36 37 38 39]" "$out" "upgrade: bytes of before"
	run "$t" load other.st --name "n$(basename "$(dirname "$t")")"
	is "0 " "$status $err" "upgrade: a load"
done
run "$old_tarn" ls
is "4 0" "$(wc -l <<<"$out") $status" "upgrade: ls"
run "$old_tarn" stop
is "0 " "$status $err" "upgrade: stop"
safetensors large.st \
	'{"x":{"dtype":"U8","shape":[4194304],"data_offsets":[0,4194304]}}' 4194304
too_old
too_new
finish
