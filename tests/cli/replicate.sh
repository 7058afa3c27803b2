#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn replicate and tarn migrate where there is one node, as on most machines:
# what is there already, and what a client copies that may not ask where its
# memory lies. Also --node of the verbs that take memory. What lies where on a
# machine with several nodes: tests/vm/nodes2.sh.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

first() { head -n 1 <<<"$err"; }

# A node with memory, and one that has none.
node=$(sed 's/[^0-9].*//' /sys/devices/system/node/has_memory 2>/dev/null)
node=${node:-0}
none=63

safetensors m.st '{"a":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]},
"b":{"dtype":"U8","shape":[8],"data_offsets":[32,40]}}' 40

# ---- called wrongly; no daemon is started
run "$TARN" replicate x
is "2 tarn: replicate: --node N is needed: the node of the copies, or 'all'" \
	"$status $(first)" "replicate asks for the node"
run "$TARN" migrate x
is "2 tarn: migrate: --node N is needed: the node to which they move" \
	"$status $(first)" "migrate asks for the node"
run "$TARN" migrate x --node all
is "2 tarn: migrate: --node needs the number of a NUMA node, not 'all'" \
	"$status $(first)" "a tensor does not move to all nodes"
for line in "replicate x" "migrate x" "load m.st" "put x m.st:a"; do
	# shellcheck disable=SC2086 # words
	run "$TARN" $line --node 64
	is "2 tarn: ${line%% *}: there is no node 64; 0 to 63 are possible" \
		"$status $(first)" "${line%% *}: a node beyond all"
done
for word in -1 1x ' 1' '' 99999999999999999999; do
	run "$TARN" replicate x --node "$word"
	is "2 tarn: replicate: --node needs the number of a NUMA node, not '$word'" \
		"$status $(first)" "replicate: '$word' is no node"
	run "$TARN" load m.st --node "$word"
	is 2 "$status" "load: '$word' is no node"
	run "$TARN" put x m.st:a --node "$word"
	is 2 "$status" "put: '$word' is no node"
done
run "$TARN" replicate --node 0
is 2 "$status" "replicate without a name is called wrongly"
run "$TARN" migrate x y --node 0
is 2 "$status" "migrate takes one name"
for verb in replicate migrate; do
	run "$TARN" $verb x --node "$node"
	is "1 tarn: no daemon is running at $TARN_SOCKET" \
		"$status $(first)" "$verb starts no daemon"
done

# ---- memory of a node
run "$TARN" load m.st --name m --node $none
is 1 "$status" "load --node: a node without memory"
has "node $none has no memory; nodes with memory: " "$err" \
	"load --node: the sentence says which have"
run "$TARN" load m.st --name m --node "$node"
is 0 "$status" "load --node"
run "$TARN" put p m.st:a --node $none
is 1 "$status" "put --node: a node without memory"
has "node $none has no memory; nodes with memory: " "$err" \
	"put --node: the sentence says which have"
run "$TARN" put p m.st:a --node "$node"
is 0 "$status" "put --node"
run "$TARN" ls --long --json
known=$(json 'all(e.get("node") == int('"$node"') for e in j["tensors"])')

# ---- what is there
if [ "$known" = True ]; then
	is "[[$node], [$node], [$node]]" \
		"$(json '[e["nodes"] for e in j["tensors"]]')" \
		"ls -l --json has the nodes of each"
	for verb in replicate migrate; do
		run "$TARN" $verb p --node "$node"
		is "0 p: is on node $node already" "$status $out" \
			"$verb of a tensor that lies there"
		run "$TARN" $verb m/ --node "$node"
		is "0 m/: 2 tensors are on node $node already" \
			"$status $out" "$verb of a prefix that lies there"
	done
	run "$TARN" migrate m/ --node "$node" --json
	is "m/ 2 $node 0 True" "$(json 'j["name"], j["tensors"], j["node"],
		j["bytes"], 0 <= j["seconds"] < 60' | tr -d "(),'")" \
		"migrate --json"
	run "$TARN" replicate p --node "$node" --json
	is "p 1 [($node 0)]" "$(json 'j["name"], j["tensors"],
		[(e["node"], e["bytes"]) for e in j["nodes"]]' |
		tr -d ",'" | sed 's/^(//; s/)$//')" "replicate --json"
else
	skipped 7 "where memory lies is not known here"
fi
if [ "$known" = True ] && [ "$(cat /sys/devices/system/node/has_memory \
	2>/dev/null || echo 0)" = 0 ]; then
	run "$TARN" replicate p --node all
	is "0 p: is on node 0 already" "$status $out" "replicate on all nodes"
else
	skipped 1 "there is more than node 0, or where memory lies is not known"
fi
run "$TARN" replicate p --drop
is "0 p: without replicas now" "$status $out" "replicate --drop"
run "$TARN" replicate m/ --drop --node "$node"
is "0 m/: 2 tensors without a replica on node $node now" "$status $out" \
	"replicate --drop --node"
run "$TARN" replicate m/ --drop --json
is "{'name': 'm/', 'tensors': 2, 'dropped': 'all'}" "$(json j)" \
	"replicate --drop --json"
run "$TARN" replicate p --drop --node "$node" --json
is "{'name': 'p', 'tensors': 1, 'dropped': $node}" "$(json j)" \
	"replicate --drop --node --json"

# ---- a copy
safetensors big.st '{"x":{"dtype":"U8","shape":[4194304],
"data_offsets":[0,4194304]}}' 4194304
run "$TARN" put t/big big.st
is 0 "$status" "a large tensor is published"
# blind COMMAND...: may not ask where its memory lies.
blind() { "$PYTHON" "$top_srcdir/tests/kit/blind.py" "$@"; }
run blind "$TARN" replicate t/big --node "$node"
if [ "$status" = 77 ] || [ "$known" != True ]; then
	skipped 8 "there is no seccomp, or memory is not placed here"
else
	has "t/big: 4.00 MiB copied to node $node in " "$status $out" \
		"replicate says what it copied"
	run "$TARN" ls t/big -l
	is "node $node" "${out##*  }" "ls -l has the node of the replica"
	run blind "$TARN" replicate t/ --node "$node"
	is "0 t/: 1 tensor is on node $node already" "$status $out" \
		"a replica that is there is not made again"
	run "$TARN" check
	has " bytes: no fault found" "$out" "check finds no fault with a replica"
	run blind "$TARN" replicate t/big --drop
	run blind "$TARN" replicate t/ --node "$node" --json
	is "4194304 1" "$(json 'j["nodes"][0]["bytes"], j["tensors"]' |
		tr -d '(),')" "replicate --json has the bytes"
	run blind "$TARN" replicate t/ --drop
	run blind "$TARN" migrate t/ --node "$node"
	has "0 t/: 1 tensor, 4.00 MiB moved to node $node in " \
		"$status $out" "migrate says what it moved"
	run "$TARN" wait t/big
	is "t/big version 2" "$out" "a tensor that moved is a new version"
	run "$TARN" put again big.st
	run blind "$TARN" migrate again --node "$node" --json
	is "again 1 $node 4194304" "$(json 'j["name"], j["tensors"], j["node"],
		j["bytes"]' | tr -d "(),'")" "migrate --json has the bytes"
fi

# ---- what cannot be
for line in "replicate --node $node" "migrate --node $node" "replicate --drop"; do
	# shellcheck disable=SC2086 # words
	run "$TARN" $line m/aa
	is "1 " "$status $out" "$line: a name that is not there"
	has "did you mean 'm/a'?" "$err" "$line: a mistyped name gets a suggestion"
	# shellcheck disable=SC2086
	run "$TARN" $line m
	is 1 "$status" "$line: a folder without its /"
	has "2 are below it; 'm/' stands for them" "$err" \
		"$line: the error says how the folder is named"
	# shellcheck disable=SC2086
	run "$TARN" $line n/
	is "1 tarn: no tensor is published below 'n/'" "$status $(first)" \
		"$line: a folder with nothing in it"
done
run "$TARN" replicate p --node $none
is 1 "$status" "replicate: a node without memory"
has "node $none has no memory; nodes with memory: " "$err" \
	"replicate: the sentence says which have"
run "$(dirname "$TARN")/../examples/producer" images 1
is 0 "$status" "a producer makes a channel"
for verb in replicate migrate; do
	run "$TARN" $verb images --node "$node"
	is "1 tarn: 'images' is a channel, whose items come and go" \
		"$status $(first)" "$verb of a channel"
done

# ---- completion
for verb in replicate migrate; do
	has "--node" "$(complete_line $verb --)" "$verb: its options"
	is "m/a m/b" "$(complete_line $verb --node 0 m/)" "$verb: names"
done
has "--drop" "$(complete_line replicate --d)" "replicate: --drop"
has "--node" "$(complete_line load --no)" "load: --node"
has "--node" "$(complete_line put --no)" "put: --node"

run "$TARN" stop
is 0 "$status" "the daemon stops after the copies"
finish
