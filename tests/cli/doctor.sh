#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn doctor on this machine, whatever it has: what it prints, its exit status,
# the daemon that would be started and the one that runs, files and folders, an
# ordinary user. What it finds on other machines is tested in doctor.c.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

# of KEY FIELD: of the first finding of that key
of() {
	json "[f['$2'] for f in j['findings'] if f['key'] == '$1'][0]"
}

run "$TARN" doctor --json
is "" "$err" "doctor --json prints nothing on stderr"
is "$(json 'int(j["costs"] + j["broken"] > 0)')" "$status" \
	"the exit status says whether there is advice"
is True "$(json 'all(set(f) == {"group", "key", "path", "worth", "value",
	"cost", "remedy"} for f in j["findings"])')" \
		"doctor --json gives each finding its keys"
is True "$(json 'all((f["cost"] is None) == (f["worth"] in ("good", "unknown"))
	and (f["remedy"] is None) == (f["cost"] is None)
	for f in j["findings"])')" \
		"only findings with advice have a cost and a remedy"
is True "$(json 'sum(j[w] for w in ("good", "costs", "broken", "unknown"))
	== len(j["findings"])')" "doctor --json counts all findings"
is "daemon system reading memory pages nodes gpu" \
	"$(json '" ".join(dict.fromkeys(f["group"] for f in j["findings"]))')" \
	"findings come in the order of their groups"
is good "$(of kernel worth)" "this machine's kernel is good"
has "none runs; one is started" "$(of socket value)" \
	"doctor says that no daemon runs and that one may be started"
has "$TARN_SOCKET" "$(of socket value)" \
	"doctor names the socket without a daemon"
is "$TARN_DAEMON good" "$(of program value) $(of program worth)" \
	"doctor names the program that would be started"
run "$TARN" ls
is "0 " "$status $out" "doctor starts no daemon"

# Other answers of the daemon.
run env TARN_DAEMON=/nonexistent "$TARN" doctor --json
is "1 broken" "$status $(of program worth)" \
	"a daemon program that does not exist is broken"
run env TARN_AUTOSTART=0 "$TARN" doctor --json
is "1 broken" "$status $(of socket worth)" \
	"no daemon with TARN_AUTOSTART=0 is broken"
run "$TARN" doctor --json --socket "$TMPDIR/files/none/at/all"
is "1 broken" "$status $(of socket worth)" "a socket without a folder is broken"
touch file
run "$TARN" doctor --json --socket file
is "1 broken" "$status $(of socket worth)" \
	"a regular file in the place of the socket is broken"
has "a regular file, not a socket" "$(of socket value)" \
	"doctor names the kind of file at the socket's path"
run env TARN_ENGINE=turbo "$TARN" doctor --json
is "1 broken" "$status $(of engine worth)" \
	"an engine that does not exist is broken"
run env TARN_ENGINE=threads "$TARN" doctor --json
is costs "$(of engine worth)" "TARN_ENGINE=threads costs speed"

safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
run "$TARN" put x f.st:a
run "$TARN" doctor --json
has "tarnd 0.1.0 of uid $(id -u), protocol " "$(of socket value)" \
	"doctor names a running daemon's version, user and protocol"
is good "$(of socket worth)" "a running daemon's socket is good"
is 0 "$(json 'sum(f["key"] == "program" for f in j["findings"])')" \
	"doctor names no program to start while a daemon runs"
run "$TARN" stop

# Files.
run "$TARN" doctor --json f.st . none
is "f.st . none" \
	"$(json '" ".join(dict.fromkeys(f["path"] for f in j["findings"]
		if f["path"]))')" "each path has its findings"
is broken "$(json '[f["worth"] for f in j["findings"]
	if f["path"] == "none"][0]')" "a path that does not exist is broken"
name=$(findmnt -no FSTYPE -T . 2>/dev/null)
[ -z "$name" ] || has "$name, " "$(of type value)" "the file system is named"
[ -n "$name" ] || skipped 1 "no findmnt to ask for the file system"
mkfifo pipe
run timeout 60 "$TARN" doctor pipe
is 1 "$status" "doctor does not wait for a pipe"
has "neither a file nor a folder" "$out" "doctor refuses a pipe"
is "./f.st ./file ./pipe" "$(find . ! -name . | sort | paste -sd ' ')" \
	"nothing is left in a folder that was tried"

run bash -c 'ulimit -f 0; "$TARN" doctor --json . 2>/dev/null | cat'
is unknown "$(of direct worth)" "where no file may be made a folder is unknown"

# People.
run "$TARN" doctor f.st
is "" "$(awk 'length > 80 && !/^ *> / && !/^files / && !/\//' <<<"$out")" \
	"doctor fits in 80 columns but for commands and paths"
has "files f.st" "$out" "doctor prints each path as a heading"
has " good, " "$(tail -n 1 <<<"$out")" "doctor's last line counts the findings"
is "" "$(grep -P '\e' <<<"$out")" "doctor prints no colours"
run "$TARN" doctor $'bad\e[31m'
has 'files bad\x1b[31m' "$out" "doctor escapes control characters of a path"

run "$TARN" doctor --paths
is "2 tarn: doctor: there is no option --paths" \
	"$status $(head -n 1 <<<"$err")" "doctor refuses an unknown option"
run "$TARN" doctor --socket
is 2 "$status" "doctor refuses an option without its value"

# An ordinary user: no capability, other limits, perhaps no way to this folder.
if [ "$(id -u)" = 0 ] && setpriv --reuid 65533 --clear-groups true \
	2>/dev/null && setpriv --reuid 65533 --clear-groups \
	test -x "$TARN" 2>/dev/null; then
	run bash -c 'ulimit -l 64
		exec setpriv --reuid 65533 --clear-groups --inh-caps=-all \
			env -u XDG_RUNTIME_DIR -u TARN_SOCKET "$TARN" \
			doctor --json "$1" /' user "$PWD/f.st"
	is "" "$err" "doctor of an ordinary user prints no error"
	is True "$(json 'j["good"] > 0')" \
		"doctor of an ordinary user has good findings"
	[ "$(of engine value)" != io_uring ] || has "64.00 KiB" \
		"$(of memlock value)" "a user's memlock limit counts"
	is True "$(json 'all(f["worth"] != "good" for f in j["findings"]
		if f["key"] == "direct" and f["path"] == "/")')" \
		"where no file can be made nothing is called good"
else
	skipped 3 "an ordinary user needs root and setpriv"
fi
finish
