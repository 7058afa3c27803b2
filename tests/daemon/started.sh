#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The daemon that the first client starts has that client's limits and umask,
# and serves all clients of that user. Limits that it cannot live with end it,
# with a sentence, rather than let it stay and fail every client; a umask takes
# no access from users whom its mode lets in.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
safetensors l.st \
	'{"a":{"dtype":"U8","shape":[3000000],"data_offsets":[0,3000000]}}' \
	3000000

run bash -c 'ulimit -f 1000 && exec "$TARN" put x f.st:a'
is 1 "$status" "no daemon starts where files may have 1 MB at most"
has "ulimit -f" "$err" "the error names ulimit -f"
run bash -c 'ulimit -n 24 && exec "$TARN" put x f.st:a'
is 1 "$status" "no daemon starts with 24 descriptors"
has "24 descriptors open (RLIMIT_NOFILE, ulimit -Hn), and needs 32" "$err" \
	"the error says how many descriptors are needed"
run bash -c 'ulimit -Sn 24 && exec "$TARN" put x f.st:a'
is 0 "$status" "a daemon raises its soft limit of descriptors"
run "$TARN" stop
run bash -c 'ulimit -n 32 && exec "$TARN" put x f.st:a'
is 0 "$status" "a daemon with 32 descriptors publishes"
run "$TARN" load l.st
is 0 "$status" "a daemon with 32 descriptors loads a file"
for i in {1..40}; do
	"$TARN" put "many/$i" l.st:a >/dev/null 2>&1 || break
done
run "$TARN" status
is 0 "$status" "a daemon with 32 descriptors reports after $i publications"
run "$TARN" stop
is 0 "$status" "a daemon with 32 descriptors can be stopped"
run "$TARN" put x f.st:a
is 0 "$status" "a client without the limit is served"
run bash -c 'ulimit -f 1000 && exec "$TARN" put x l.st:a'
is 1 "$status" "a command with a file size limit makes nothing larger"
has "ulimit -f" "$err" "the error names ulimit -f for the command, too"
run "$TARN" stop
is 0 "$status" "the daemon that a limited client met stops"

TARN_SOCKET=$PWD/new/sock
SECONDS=0
(umask 077 && exec "$TARN_DAEMON" --mode 0666 --socket "$TARN_SOCKET") &
until "$TARN" status >status 2>&1 || [ $SECONDS -gt 60 ]; do
	sleep 0.05
done
is "755 666" "$(stat -c %a new new/sock | xargs)" \
	"--mode 0666 lets all users in, whatever the umask"
run "$TARN" stop
wait $!
is "0 0" "$status $?" "the daemon with a strict umask ends without an error"
finish
