#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The verbs that talk to a daemon, against a real one that the first of them
# starts: load, ls, info, print, rm, status, stop.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

safetensors m.st '{"a.w":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]},
"a.b":{"dtype":"U8","shape":[8],"data_offsets":[32,40]},
"e":{"dtype":"F32","shape":[0,3],"data_offsets":[40,40]},
"s":{"dtype":"U16","shape":[],"data_offsets":[40,42]}}' 42

# Starting.
run "$TARN" load none.st
is 1 "$status" "a file that is not there"
run "$TARN" status
is "1 tarn: no daemon is running at $TARN_SOCKET" \
	"$status $(head -n 1 <<<"$err")" "a failed command starts no daemon"
run "$TARN" ls
is "0 " "$status $out" "ls lists nothing without a daemon"
run "$TARN" status
is 1 "$status" "status fails without a daemon"
run bash -c '"$TARN" load m.st | cat'
is 0 "$status" "load starts one, which holds nothing of the caller's open"
has "m.st: 4 tensors, 42 B in " "$out" "load prints what it did"

# Somebody writes it: it is kept for nobody, which is said.
exec 5>>m.st
run "$TARN" load m.st
has "; not kept: the file is open for writing" "$out" \
	"load says which file is not cached, and why"
exec 5>&-
run "$TARN" load m.st
run "$TARN" load --fresh --json m.st
is "False" "$(json 'j["cached"]')" "load --fresh reads a cached file again"

# load and status.
run "$TARN" load m.st --name m --json
is 0 "$status" "load --name --json succeeds"
is "name bytes seconds cpu_seconds engine direct registered cached not_kept" \
	"$(json '*j')" "load --json has its keys"
is "m 42 float float True bool bool" "$(json 'j["name"], j["bytes"],
	type(j["seconds"]).__name__, type(j["cpu_seconds"]).__name__,
	j["engine"] in ("io_uring", "threads"), type(j["direct"]).__name__,
	type(j["registered"]).__name__' | tr -d "(),'")" \
		"load --json has its values"
is "m/a.b m/a.w m/e m/s" \
	"$(complete_line print m/ | tr ' ' '\n' | sort | paste -sd ' ')" \
	"published names complete"
run "$TARN" load ./m.st --json
is "None" "$(json 'j["name"]')" "load --json without a name has a null name"
run "$TARN" load m.st --name m// --json
is "m" "$(json 'j["name"]')" "load drops the slashes behind a name"
run "$TARN" load m.st --name /
is "2 " "$status $out" "load refuses an empty name"
run "$TARN" load m.st --name $'m\xff'
is "1 " "$status $out" "a name that is not UTF-8 is refused"
# The command of before may still be leaving.
for _ in {1..1200}; do
	run "$TARN" status --json
	[ "$(json 'len(j["clients"])')" = 1 ] && break
	sleep 0.05
done
is 0 "$status" "status --json succeeds"
is "$TARN_SOCKET True 4 True True" "$(json 'j["socket"], j["keeper_pid"] > 1,
	j["names"], 0 < j["used"] <= j["allocated"] <= j["budget"],
	len(j["instance"]) == 16' | tr -d "(),'")" \
	"status --json has its values"
for key in version server_pid clients loaders uptime_ms storages cached loads \
	loads_cached loads_active loads_failed bytes_loaded engine; do
	is True "$(json "'$key' in j")" "status has $key"
done
for key in protocol restarts n_clients evictions bytes pools running_loads; do
	is True "$(json "'$key' in j")" "status has $key"
done
is "uid:$(id -u) True 4 1" "$(json 'j["pools"][0]["name"],
	0 < j["pools"][0]["used"] <= j["pools"][0]["size"],
	j["pools"][0]["names"], len(j["clients"])' | tr -d "(),'")" \
	"status --json has the user's pool and its client"
is "$(id -u) True tarn [0]" "$(json '"%s %s %s %s" % (j["clients"][0]["uid"],
	j["clients"][0]["pid"] > 1, j["clients"][0]["command"][-4:],
	[c["leases"] for c in j["pools"][0]["clients"]])')" \
	"status --json lists itself as a client"
run "$TARN" status
has "4 names" "$out" "status prints the number of names"
has "uid:$(id -u)" "$out" "status prints the user's pool"
is "" "$(awk 'length > 80' <<<"$out")" "status fits in 80 columns"
run timeout 60 bash -c '"$TARN" status --watch 0.1 --json | head -n 3 | wc -l'
is "0 3" "$status $out" "status --watch prints the status again and again"
run timeout 60 bash -c '"$TARN" status --watch 3600 | head -n 1 | wc -l'
is "0 1" "$status $out" "status --watch ends when its reader has gone"
for signal in INT TERM; do
	: >watched
	env --default-signal=$signal "$TARN" status --watch 0.1 >watched &
	for _ in $(seq 6000); do
		[ -s watched ] && break
		sleep 0.01
	done
	kill -$signal $!
	wait $!
	is 0 "$?" "SIG$signal ends status --watch without an error"
	is "" "$(tail -n 1 watched)" "status --watch ends after a whole round"
done
run "$TARN" status --watch 0
is 2 "$status" "status --watch refuses an interval of 0"

# check.
run "$TARN" check
has "0 4 names, " "$status $out" "check looks at all names"
has " bytes: no fault found" "$out" "check finds no fault"
run "$TARN" check --socket "$XDG_RUNTIME_DIR/nobody.sock"
is 1 "$status" "check of a socket without a daemon fails"

# ls and info.
run "$TARN" ls
is "m/a.b  U8   [8]      8 B
m/a.w  U8   [4, 8]  32 B
m/e    F32  [0, 3]   0 B
m/s    U16  []       2 B" "$out" "ls is sorted and aligned"
run "$TARN" ls -l m/a
is "m/a.b  U8  [8]      8 B  4 KiB 100 %  NODE
m/a.w  U8  [4, 8]  32 B  4 KiB 100 %  NODE" "$(sed -E "s| 2 MiB 100| 4 KiB 100|
	s,(node [0-9]+|several nodes|-)\$,NODE," <<<"$out")" \
	"ls -l has the pages and the node of each"
run "$TARN" ls --long --json m/a.b
is "True 8 8" "$(json 'j["tensors"][0]["page_size"] >= 4096') $(
	json 'j["tensors"][0]["reach"]') $(json 'j["tensors"][0]["covered"]')" \
	"ls -l --json has them, too"
run "$TARN" ls m/a --json
is '{"tensors":[{"name":"m/a.b","dtype":"U8","shape":[8],"bytes":8},{"name":"m/a.w","dtype":"U8","shape":[4,8],"bytes":32}]}' \
	"$out" "ls PREFIX --json lists the names with that prefix"
run "$TARN" ls nothing
is "1  tarn: there is no tensor whose name begins with 'nothing'" \
	"$status $out $err" "a script can tell that nothing has that prefix"
run "$TARN" ls nothing --json
is '1 {"tensors":[]}' "$status $out" "ls --json without names fails, too"
run "$TARN" channel ls nothing
is 1 "$status" "channel ls of a prefix without channels fails"
run "$TARN" info m --json
is "published {} ['m/a.b', 'm/a.w', 'm/e', 'm/s'] {None}" "$(json '"%s %s %s %s" % (
	j["format"], j["metadata"], [t["name"] for t in j["tensors"]],
	set(t["file_offset"] for t in j["tensors"]))')" \
		"info --json describes a folder of names"
run "$TARN" info m/a.b
has "m/a.b: published, 1 tensor, 8 B" "$out" "info describes a name"
run "$TARN" info m/a
is 1 "$status" "info of half a name fails"
has "did you mean 'm/a.b' or 'm/a.w'?" "$err" \
	"info of half a name suggests names near it"

# print.
run "$TARN" print m/a.w '[1:3, ::4]'
is "[[ 8 12]
 [16 20]]" "$out" "print prints a view of a published tensor"
run "$TARN" print m.st:a.w '.permute(1,0)[0]'
is "[ 0  8 16 24]" "$out" "print prints a view of FILE:TENSOR"
run "$TARN" print m.st:s
is 10536 "$out" "print prints a scalar"
run "$TARN" print m/e
is "0 []" "$status ${out%%,*}" "print prints a tensor without elements"
is "10 08 14 0c" "$("$TARN" print m/a.w '[1:3, ::4].permute(1,0).flip(1)' \
	--raw | od -An -v -tx1 | xargs)" "print --raw prints a view in C order"
is 0 "$("$TARN" print m/e --raw | wc -c)" \
	"print --raw of no elements prints no bytes"
run "$TARN" print m/a.w '[9]'
is "1 " "$status $out" "print of an index out of range fails"
has "tarn: " "$err" "the error of an index begins with tarn's name"
run "$TARN" print m.st
is "1 tarn: m.st is a file; say which of its 4 tensors, FILE:TENSOR" \
	"$status $(head -n 1 <<<"$err")" \
		"print of a file alone asks for a tensor"
has "  m.st:a.w" "$err" "print of a file lists its tensors"
run "$TARN" print m.st:aw
has "did you mean 'a.w'?" "$err" "a mistyped tensor gets a suggestion"
run "$TARN" print a.w
has "did you mean 'm/a.w'?" "$err" "a name without its folder gets a suggestion"
run "$TARN" print $'\e[2Jx'
is 1 "$status" "print of a name with control characters fails"
is "" "$(tr -d '\n[:print:]' <<<"$err" | tr -d '\n')" \
	"the error shows control characters escaped"
run bash -c '"$TARN" print m/a.w --raw >&-'
is "1 tarn: the output cannot be written: Bad file descriptor" \
	"$status $err" "print --raw without a stdout fails"
run bash -c '"$TARN" print m/a.w --raw >/dev/full'
is "1 tarn: the output cannot be written: No space left on device" \
	"$status $err" "print --raw to a full disk fails"

# Many chunks, and a reader that has enough after the first.
head -c 5000000 /dev/zero >zeroes
{
	printf '\x48\0\0\0\0\0\0\0%-72s' \
		'{"x":{"dtype":"U8","shape":[2500,2000],"data_offsets":[0,5000000]}}'
	cat zeroes
} >big.st
run bash -c '"$TARN" print big.st:x ".permute(1,0)" --raw | cmp - zeroes'
is "0  " "$status $out $err" \
	"print --raw prints five million bytes of a transposed view"
run bash -c '"$TARN" print big.st:x --raw | head -c 10 | wc -c'
is "10 " "$out $err" "print ends quietly with its reader"
run bash -c 'trap "" PIPE; "$TARN" print big.st:x --raw | head -c 1 | wc -c'
is "1 " "$out $err" \
	"print ends quietly with its reader when SIGPIPE is ignored"

# A terminal gets no bar for what is fast.
if command -v script >/dev/null; then
	began=${EPOCHREALTIME/[^0-9]/}
	out=$(script -qec '"$TARN" load big.st' /dev/null </dev/null)
	# QUIET_MS of cli/progress.c: a busy machine may take longer.
	if [ $((${EPOCHREALTIME/[^0-9]/} - began)) -lt 500000 ]; then
		is "" "${out//[!$'\e']/}" "a fast load draws no progress bar"
	else
		skipped 1 "the load of five million bytes was not fast"
	fi
else
	skipped 1 "there is no script(1) to make a terminal"
fi

# The data that the project is shown with.
data=${TARN_TEST_DATA:-}
if [ -r "$data/mnist_t10k_labels.npy" ]; then
	run "$TARN" print "$data/mnist_t10k_labels.npy:mnist_t10k_labels" '[0:10]'
	is "0 [7 2 1 0 4 1 4 9 5 9]" "$status $out" \
		"print prints the first ten labels of mnist"
else
	skipped 1 "there is no mnist_t10k_labels.npy"
fi
if [ -r "$data/silero_vad_16k.safetensors" ]; then
	run "$TARN" load "$data/silero_vad_16k.safetensors" --name silero
	is 15 "$("$TARN" ls silero/ | wc -l)" \
		"load --name publishes silero's 15 tensors"
else
	skipped 1 "there is no silero_vad_16k.safetensors"
fi

# rm.
run "$TARN" rm m/a.w nope m/s
is 1 "$status" "rm of a name that is not there is an error"
has "nope" "$err" "the error names the missing name"
is "m/a.b m/e" "$("$TARN" ls m/ | awk '{print $1}' | xargs)" \
	"rm removes the other names"
run "$TARN" rm m
is 1 "$status" "rm of a folder without its slash fails"
has "'tarn rm m/' removes them" "$err" "rm of a folder's name suggests the slash"
run "$TARN" rm m/
is "0 removed 2 tensors below m/" "$status $out" \
	"rm of a folder removes the names below it"
run "$TARN" rm m/
is 1 "$status" "rm of an empty folder fails"

# stop, also from another socket's point of view.
other=$XDG_RUNTIME_DIR/other.sock
"$TARN_DAEMON" --socket "$other" 2>/dev/null &
daemon=$!
for _ in {1..1200}; do
	"$TARN" status --socket "$other" >/dev/null 2>&1 && break
	sleep 0.05
done
run "$TARN" ls --socket "$other"
is "0 " "$status $out" "--socket asks another daemon"
run "$TARN" stop --socket "$other"
is "0 " "$status $err" "stop --socket stops that daemon"
kill -0 $daemon 2>/dev/null
wait $daemon
is 0 $? "the daemon ends without an error"
run "$TARN" status --json
pid=$(json 'j["keeper_pid"]')
# S, R, ...; nothing when it is gone, and Z when only its exit status is left.
state() {
	sed -n 's/.*) \([^ ]\) .*/\1/p' "/proc/$pid/stat" 2>/dev/null
}
is runs "$([[ $(state) == [RSD] ]] && echo runs)" "the daemon runs"
run "$TARN" stop
is "0  " "$status $out $err" "stop succeeds without a word"
# A sanitizer looks for leaks after the sockets are closed.
for _ in {1..1200}; do
	[[ $(state) == [RSDt] ]] || break
	sleep 0.05
done
is "" "$(state | grep -v Z)" "the daemon is gone after that"
is "" "$(complete_line rm m)" "without a daemon no names complete"
run "$TARN" status
is 1 "$status" "after stop no daemon answers"
run "$TARN" stop
is 1 "$status" "stop without a daemon fails"
finish
