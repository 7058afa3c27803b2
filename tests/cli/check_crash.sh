#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn check finds no fault in a store that is in use, nor after its server
# was killed in the middle of it, again and again.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

safetensors m.st '{"a.w":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]},
"a.b":{"dtype":"U8","shape":[8],"data_offsets":[32,40]}}' 40
run "$TARN" load m.st --name kept
is 0 "$status" "a tensor to begin with"

# Names come and go until the folder is left.
churn() {
	while [ -e going ]; do
		"$TARN" load m.st --name "$1" >/dev/null 2>&1
		"$TARN" rm "$1/" >/dev/null 2>&1
	done
}
touch going
churn x &
churn y &
for i in 1 2 3; do
	run "$TARN" check
	has ": no fault found" "$out" "check $i while names come and go"
	is 0 "$status" "check $i while names come and go succeeds"
done
for i in 1 2 3; do
	run "$TARN" status --json
	kill -9 "$(json 'j["server_pid"]')"
	# It is us, no reason to give up.
	kill -HUP "$(json 'j["keeper_pid"]')"
	run "$TARN" check
	has ": no fault found" "$out" "check after kill $i"
	is 0 "$status" "check after kill $i succeeds"
done
rm going
wait
run "$TARN" status --json
is 3 "$(json 'j["restarts"]')" "the server was started three times more"
run "$TARN" check
is "0" "$status" "check when all is quiet"
run "$TARN" print kept/a.b
is "[32 33 34 35 36 37 38 39]" "$out" "what was loaded first is there"
finish
