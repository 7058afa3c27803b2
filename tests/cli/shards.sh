#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Sharded checkpoints through the command and a daemon: info, load, print, put
# of an index; names of all shards; one tensor loads its shard and no other; a
# shard that was replaced is seen.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
index=model.safetensors.index.json

safetensors 1.st '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
"extra":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}' 5
safetensors 2.st '{"b":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}' 6
cat >$index <<'END'
{"metadata": {"total_size": 10}, "weight_map": {"a": "1.st", "b": "2.st"}}
END
touch -d '10 seconds ago' ./*

# What is in it.
run "$TARN" info $index
is 0 "$status" "info of an index"
has "$index: safetensors index of 2 files, 2 tensors, 10 B" "$out" \
	"info prints the totals of an index"
has "  total_size: 10" "$out" "info shows the metadata of the index"
run "$TARN" info $index --json
is "safetensors index 2 a 1.st b 2.st" "$(json 'j["format"], j["shards"],
	*[t[k] for t in j["tensors"] for k in ("name", "file")]' | tr -d "(),'")" \
	"each tensor with its file"
run "$TARN" info 1.st --json
is "False False" "$(json '"shards" in j, "file" in j["tensors"][0]' |
	tr -d "(),'")" "info of other files has no shards"

# One tensor is one shard.
run "$TARN" print $index:b '[1]'
is "0 [3 4 5]" "$status $out" "a tensor by its index"
run "$TARN" status --json
is "1 6" "$(json 'j["loads"], j["bytes_loaded"]' | tr -d "(),'")" \
	"has loaded its shard alone"
run "$TARN" print $index:extra
is 1 "$status" "a tensor that the map does not name"
has "no tensor 'extra'; it has a, b" "$err" \
	"a tensor that the map does not name is missing"
run "$TARN" print $index
is 1 "$status" "an index is no tensor"
has "say which of its 2 tensors" "$err" "print of an index asks for a tensor"

# All of them.
run "$TARN" load $index --name m --json
is 0 "$status" "load of an index"
is "m 11 False" "$(json 'j["name"], j["bytes"], j["cached"]' | tr -d "(),'")" \
	"load of an index loads all of its shards"
is "m/a
m/b" "$("$TARN" ls m/ | cut -d ' ' -f 1)" \
	"load of an index publishes the tensors of its map"
run "$TARN" print m/a
is "0 [0 1 2 3]" "$status $out" "a name of one shard"
run "$TARN" print m/b
is "[[0 1 2]
 [3 4 5]]" "$out" "print of a tensor in another shard succeeds"
run "$TARN" put copy $index:b
is 0 "$status" "put of a tensor of an index"
is "0 [3 4 5]" "0 $("$TARN" print copy '[1]')" \
	"the copied tensor has its numbers"

# What was replaced.
safetensors new.st '{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1
mv new.st 2.st
run "$TARN" print $index:b
is "0 [0]" "$status $out" "a shard that was replaced"
rm 2.st
run "$TARN" load $index --name m
is 1 "$status" "a shard that is gone"
has "$index: 1 of its 2 shards is missing: 2.st" "$err" \
	"the error names the missing shard"
is "[0 1 2 3]" "$("$TARN" print m/a)" \
	"published names stay after a failed load"
finish
