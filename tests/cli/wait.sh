#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn wait: before there is a daemon, for a name, for a newer version, in vain,
# and until the daemon ends.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

safetensors m.st '{"w":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]}}' 32

# await FILE: until it has something, a minute at most.
await() {
	for _ in $(seq 6000); do
		[ -s "$1" ] && break
		sleep 0.01
	done
	cat "$1"
}

# await_sleep PID: until it waits for a futex, a minute at most.
await_sleep() {
	local futex=202
	[ "$(uname -m)" != aarch64 ] || futex=98
	if ! grep -q . "/proc/$1/syscall" 2>/dev/null; then
		sleep 0.5 # not every kernel tells
		return
	fi
	for _ in $(seq 6000); do
		grep -q "^$futex " "/proc/$1/syscall" && break
		sleep 0.01
	done
}

# The line.
for bad in x -1 '' 1s nan; do
	run "$TARN" wait m/w --timeout="$bad"
	is 2 "$status" "a time-out of '$bad'"
done
has "--timeout needs a number of seconds, not 'nan'" "$err" "is said to be none"
for bad in x -1 '' 1.5 99999999999999999999; do
	run "$TARN" wait m/w --version="$bad"
	is 2 "$status" "a version of '$bad'"
done
run "$TARN" wait
is 2 "$status" "wait without a name is called wrongly"
run "$TARN" wait '' --timeout 1
is 1 "$status" "wait for an empty name fails"

# The waiting command starts before the name is published.
"$TARN" wait m/w >first 2>&1 &
waiter=$!
await_sleep $waiter
is "" "$(cat first)" "wait waits for a name that is not published"
run "$TARN" load m.st --name m
is "m/w version 1" "$(await first)" "until the name is there"
wait $waiter
is 0 "$?" "wait ends when the name is published"
run "$TARN" wait m/w --json --timeout 1e9
is '{"name":"m/w","version":1,"dtype":"U8","shape":[4,8],"bytes":32}' \
	"$out" "--json"

# Versions.
run "$TARN" wait m/w --version 0 --timeout 0
is "0 m/w version 1" "$status $out" "wait --newer 0 ends with version 1"
run "$TARN" wait m/w --version 1 --timeout 0.05
is 1 "$status" "wait --newer 1 times out"
is "tarn: 'm/w': it is at version 1, and nobody has published a newer one within 50 ms" \
	"$err" "the error names the present version"
"$TARN" wait m/w --version 1 >second 2>&1 &
run "$TARN" load m.st --name m
is "m/w version 2" "$(await second)" \
	"wait --newer 1 ends when version 2 is published"

# In vain.
run "$TARN" wait m/v --timeout 0.05
is 1 "$status" "a name that does not come"
has "tarn: 'm/v': nobody has published it within 50 ms" "$err" \
	"the error says that no version was published"
has "did you mean 'm/w'?" "$err" "a wait that timed out suggests a near name"
"$TARN" wait m/v >third 2>&1 &
waiter=$!
for _ in $(seq 6000); do # who comes after the end starts another daemon
	run "$TARN" status --json
	[ "$(json "$waiter in [c['pid'] for c in j['clients']]")" = True ] && break
	sleep 0.01
done
await_sleep $waiter
run "$TARN" stop
is 0 "$status" "the daemon ends without an error"
wait $waiter
is 1 "$?" "wait ends when the daemon ends"
has "it closed the connection" "$(cat third)" \
	"the error says why the wait ended"
finish
