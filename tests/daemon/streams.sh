#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarnd that is started without stdin, stdout and stderr, as by a manager that
# closes them all: their numbers must not go to its lock, its socket or a
# client's, into which the log would then be written, which its children would
# keep, and which no other program could be told of in an upgrade.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
export TARN_AUTOSTART=0 TARN_SOCKET=$TMPDIR/files/sock
trap end_daemon EXIT
patience=60 # seconds, for what takes a moment

"$TARN_DAEMON" --socket "$TARN_SOCKET" <&- >&- 2>&- &
daemon=$!
until "$TARN" status >status 2>&1 || [ $SECONDS -gt $patience ]; do
	sleep 0.05
done
safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
run "$TARN" put x f.st:a
is 0 "$status" "the daemon serves"

kill -USR2 $daemon
SECONDS=0
upgraded=no
until [ $upgraded = yes ] || [ $SECONDS -gt $patience ]; do
	"$TARN" status --json | grep -q '"upgrades": *1\b' && upgraded=yes
	sleep 0.05
done
is yes $upgraded "the daemon is upgraded"
run "$TARN" print x
is "0 [0 1]" "$status $out" "what was published is there"
run "$TARN" stop
wait $daemon
is "0 0" "$status $?" "the daemon ends without an error"
finish
