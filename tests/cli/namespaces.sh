#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A daemon and a command in different pid namespaces, as with a container that
# shares a socket: the pids of one mean nothing, or other processes, to the
# other. So none is shown, and tarn stop tells the daemon's end by the socket.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
export TARN_SOCKET=$PWD/sock

apart=(unshare --pid --fork --kill-child --mount-proc)
if ! "${apart[@]}" true 2>/dev/null; then
	skipped 11 "no pid namespaces to be had here"
	finish
	exit
fi

# begin COMMAND...: a daemon, until it answers
begin() {
	"$@" "$TARN_DAEMON" --socket "$TARN_SOCKET" &
	SECONDS=0
	until "$TARN" status >/dev/null 2>&1 || [ $SECONDS -gt 60 ]; do
		sleep 0.05
	done
}

begin "${apart[@]}"
run "$TARN" status
has "in another pid namespace" "$out" "status does not name foreign pids"
run "$TARN" status --json
is "None None" "$(json 'j["keeper_pid"], j["server_pid"]' | tr -d '(),')" \
	"status --json does not name foreign pids"
is "{None}" "$(json '{c["pid"] for c in j["clients"]}')" \
	"status --json has no pids of clients in another namespace"
run "$TARN" stop
is "0 " "$status $err" "stop tells the end of a daemon in another namespace"
wait

begin env
run "${apart[@]}" "$TARN" status
has "in another pid namespace" "$out" \
	"status in a namespace names no processes outside"
has " - " "$out" "a client without a pid has a dash"
run "$TARN" status --json
keeper=$(json 'j["keeper_pid"]')
is tarnd "$(cat "/proc/$keeper/comm")" \
	"status --json names the pids of its own namespace"
run "${apart[@]}" "$TARN" stop
is "0 " "$status $err" "a command in a namespace stops the daemon of the host"
is "" "$(ls sock sock.lock 2>/dev/null)" \
	"a daemon stopped from a namespace leaves no file"
wait

begin env
"$TARN" put x f.st:a >/dev/null
"$PYTHON" -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
print("in", flush=True)
s.recv(1)' "$TARN_SOCKET" >silent &
until [ -s silent ]; do
	sleep 0.05
done
run "$TARN" stop
is "0 " "$status $err" "a client that never sent a message does not delay stop"
is "" "$(ls sock sock.lock 2>/dev/null)" "stop leaves no socket and no lock then either"
wait
finish
