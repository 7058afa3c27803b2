#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A socket that somebody removes is made anew: the daemon behind it lives, has
# everybody's tensors, and holds the lock, so that no other daemon can take its
# place. Where another daemon has got the path nevertheless, with its lock, the
# first one leaves it alone. So it does with whatever else somebody has put in
# the place of the folder: a link, or a folder of another user; and a daemon does
# not start in what was there before.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
folder=${TARN_SOCKET%/*}

instance() { # of the daemon that answers; starts none
	TARN_AUTOSTART=0 "$TARN" status --json 2>/dev/null |
		sed -n 's/.*"instance": *"\([0-9a-f]*\)".*/\1/p'
}

# answers INSTANCE: within seconds
answers() {
	SECONDS=0
	until [ "$(instance)" = "$1" ]; do
		[ $SECONDS -lt 60 ] || return 1
		sleep 0.05
	done
}

run "$TARN" put x f.st:a
is 0 "$status" "a daemon is started"
first=$(instance)
rm "$TARN_SOCKET"
run "$TARN" print x
is 0 "$status" "a client that comes after rm of the socket waits for it"
is "$first" "$(instance)" "a client finds the same daemon"

rm -r "$folder"
answers "$first"
is 0 $? "after rm of its folder the daemon is found again"
is 700 "$(stat -c %a "$folder")" "the folder is made again for the user alone"
run "$TARN" print x
has "0 1" "$out" "the daemon still has its tensors"

# Another daemon was faster: both files are its own.
keeper=$("$TARN" status --json | sed -n 's/.*"keeper_pid": *\([0-9]*\).*/\1/p')
kill -STOP "$keeper"
rm "$TARN_SOCKET" "$TARN_SOCKET.lock"
run "$TARN" put y f.st:a
is 0 "$status" "another daemon may serve a path without socket and lock"
second=$(instance)
kill -TERM "$keeper"
kill -CONT "$keeper"
SECONDS=0
while kill -0 "$keeper" 2>/dev/null && [ $SECONDS -lt 60 ]; do
	sleep 0.05
done
is "$second" "$(instance)" \
	"the first daemon ends and leaves the second one's socket"
run "$TARN" stop
is 0 "$status" "the second daemon stops when asked to"
is "" "$(ls "$folder")" "the second daemon leaves no file"

# Where everybody may write, a stranger may take the place of a folder that a
# cleaner has removed.
sticky=$XDG_RUNTIME_DIR/sticky
export TARN_SOCKET=$sticky/own/tarnd.sock
mkdir "$sticky" && chmod 1777 "$sticky" && cd "$sticky" || exit 1
"$TARN_DAEMON" --socket "$TARN_SOCKET" --mode 0600 2>"$TMPDIR/log" &
pid=$!
SECONDS=0
until first=$(instance) && [ "$first" ]; do
	[ $SECONDS -lt 60 ] || break
	sleep 0.05
done

# logs EVENT TIMES: within seconds
logs() {
	SECONDS=0
	until [ "$(grep -c "$1" "$TMPDIR/log")" -ge "$2" ]; do
		[ $SECONDS -lt 60 ] || return 1
		sleep 0.05
	done
}

# A folder with the same names in it, which the daemon may write.
mkdir victim
"$PYTHON" -c 'import socket
socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind("victim/tarnd.sock")'
echo precious >victim/tarnd.sock.lock
before=$(stat -c '%n %i %Z' victim victim/*)
# The daemon makes its folder again as soon as it finds it gone.
kill -STOP "$pid"
rm -r own && ln -s victim own
[ "$(id -u)" != 0 ] || chown -h 1001:1001 own 2>/dev/null
kill -CONT "$pid"
logs listener_lost 1
is 0 $? "a link in the place of the daemon's folder is refused and logged"
has "symbolic link" "$(grep listener_lost "$TMPDIR/log")" \
	"the log says that the folder's place was taken by a symbolic link"
is "$before" "$(stat -c '%n %i %Z' victim victim/*)" \
	"nothing was made or removed in the folder that the link leads to"
rm own
answers "$first"
is 0 $? "after rm of the link the daemon makes its folder and is found again"
is "directory 700" "$(stat -c '%F %a' own)" \
	"the daemon's folder is a folder again, for the user alone"

planted="a stranger's folder in the place of the daemon's is refused and logged"
empty="nothing was made in the stranger's folder"
if [ "$(id -u)" = 0 ] && chown 1001:1001 victim 2>/dev/null; then
	kill -STOP "$pid"
	rm -r own victim/* && chmod 777 victim && mv victim own
	kill -CONT "$pid"
	logs listener_lost 2
	is 0 $? "$planted"
	has "uid 1001" "$(grep listener_lost "$TMPDIR/log")" \
		"the log names the owner of the stranger's folder"
	is "" "$(ls own)" "$empty"
	rm -r own
	answers "$first"
	is 0 $? "after rm of the stranger's folder the daemon is found again"
else
	skipped 4 "$planted: needs root, to make another user's folder"
fi
kill -TERM $pid
wait $pid
is 0 $? "the daemon whose folder was replaced ends"
is "" "$(ls own)" "the daemon whose folder was replaced leaves no file"

# starts: a daemon at that path, which is told to end; or not, says $log why
starts() {
	# The shell behind & empties it too, but perhaps after the first look.
	: >"$TMPDIR/log"
	"$TARN_DAEMON" --socket "$TARN_SOCKET" --mode 0600 2>"$TMPDIR/log" &
	pid=$!
	SECONDS=0
	until grep -q ': start ' "$TMPDIR/log"; do
		kill -0 $pid 2>/dev/null && [ $SECONDS -lt 60 ] || break
		sleep 0.05
	done
	kill -TERM $pid 2>/dev/null
	wait $pid
	status=$?
	log=$(cat "$TMPDIR/log")
}

planted="a daemon does not start in a stranger's folder"
linked="a daemon does not follow a stranger's link when it starts"
if [ "$(id -u)" = 0 ] && mkdir theirs && chown 1001:1001 theirs 2>/dev/null; then
	rm -r own && mv theirs own && chmod 777 own
	starts
	is 1 "$status" "$planted"
	has "uid 1001" "$log" "it says whose folder that is"
	is "" "$(ls own)" "it has made nothing there"
	rm -r own && mkdir -m 700 target && ln -s target own &&
		chown -h 1001:1001 own
	starts
	is 1 "$status" "$linked"
	has "symbolic link of uid 1001" "$log" "it says whose link that is"
	is "" "$(ls target)" "it has made nothing where the link leads to"
	for path in own//tarnd.sock own/./tarnd.sock; do
		TARN_SOCKET=$sticky/$path starts
		is 1 "$status" "$linked, whose path is $path"
		is "" "$(ls target)" "it has made nothing by the path $path"
	done
	rm own && mkdir own
	run unshare --mount sh -c \
		'mount -t tmpfs none own && exec timeout -s KILL 60 "$@"' sh \
		"$TARN_DAEMON" --socket "$TARN_SOCKET" --mode 0600
	is 1 "$status" "a daemon does not start in what is mounted there"
	rmdir own && ln -s target own
else
	skipped 11 "$planted: needs root, to make another user's folder"
	rm -r own && mkdir -m 700 target && ln -s target own
fi
[ "$(id -u)" != 0 ] || chown -h 0:0 own
starts
is 0 "$status" "a daemon follows a link of its own user's when it starts"

# A daemon that gets SIGTERM early ends in order, or has not begun.
left=
read -r shell <"/proc/$$/comm"
for early in 0 1 2 3 4 6 8 10 15 20; do
	"$TARN_DAEMON" --socket "$TARN_SOCKET" --mode 0600 2>>"$TMPDIR/log" &
	pid=$!
	# A shell that has a trap loses a signal between fork and exec.
	while read -r name <"/proc/$pid/comm" && [ "$name" = "$shell" ]; do :; done
	sleep 0.0"$(printf %02d $early)"
	kill -TERM $pid
	wait $pid
	status=$?
	[[ $status == 0 || ($status == 143 && -z $(ls own)) ]] ||
		left+="after $early ms: status $status, and $(echo own/*); "
	rm -f own/*
done
is "" "$left" "a daemon that is told to end while it starts leaves nothing"
rm -r "$sticky" "$TMPDIR/log"
finish
