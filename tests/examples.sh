#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The examples of the README and of tarn(7) do what is said of them: one process
# publishes, another follows, before and after.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/cli_kit.sh"
examples=$(dirname "$TARN")/../examples
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

matrices() { # N: until it has printed so many, ten seconds at most
	for _ in $(seq 1000); do
		[ "$(grep -c ']]$' followed)" -ge "$1" ] && break
		sleep 0.01
	done
	grep -c ']]$' followed
}

"$examples/follow" run/weights >followed 2>&1 &
follower=$!
run "$examples/publish" run/weights
is "0 run/weights version 1" "$status $out" "publish says the version"
is 1 "$(matrices 1)" "follow has it"
run "$examples/publish" run/weights
is "0 run/weights version 2" "$status $out" "published again"
is 2 "$(matrices 2)" "follow has that one, too"
run "$examples/quickstart" run/weights '[1, 2:4]'
is "[1.002 1.003]" "$out" "quickstart finds it by its name"
run "$examples/publish" ''
is 1 "$status" "no name is no success"
run "$TARN" stop
wait $follower
is 1 "$?" "follow ends with the daemon"
has "follow: 'run/weights': daemon at " "$(cat followed)" "and says why"
finish
