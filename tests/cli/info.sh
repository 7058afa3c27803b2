#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn info of files: the table and the JSON of what is in them, without a
# daemon; names and metadata that would like to move the cursor; what is no
# file of ours.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1

safetensors two.st '{"__metadata__":{"format":"pt","by":"hand"},
"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
"a":{"dtype":"U8","shape":[],"data_offsets":[24,25]}}' 25
size=$(stat -c %s two.st)
run "$TARN" info two.st --json
is 0 "$status" "info --json is done"
is 1 "$(wc -l <<<"$out")" "info --json prints one line"
is "{\"format\":\"safetensors\",\"metadata\":{\"format\":\"pt\",\"by\":\"hand\"},\
\"tensors\":[{\"name\":\"b\",\"dtype\":\"F32\",\"shape\":[2,3],\"bytes\":24,\
\"file_offset\":$((size - 25))},{\"name\":\"a\",\"dtype\":\"U8\",\"shape\":[],\
\"bytes\":1,\"file_offset\":$((size - 1))}]}" \
	"$("$PYTHON" -c 'import json, sys
j = json.loads(sys.stdin.read())
j["metadata"] = {k: j["metadata"][k] for k in ("format", "by")}
print(json.dumps(j, separators=(",", ":")))' <<<"$out")" "as documented"
run "$TARN" info two.st
has "two.st: safetensors, 2 tensors, 25 B" "$out" "info prints the totals"
has "  by: hand" "$out" "info prints the metadata"
has "tensors:
  b  F32  [2, 3]  24 B
  a  U8   []       1 B" "$out" "the table is aligned"

safetensors none.st '{}' 0
run "$TARN" info none.st
is "none.st: safetensors, 0 tensors, 0 B" "$out" "a file without tensors"

printf '\x93NUMPY\x01\x00\x46\x00%-69s\n\1\2\3\4\5\6\7\10' \
	"{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2), }" >f.npy
run "$TARN" info f.npy --json
is "npy {} f U16 [2, 2] 8 80" "$(json 'j["format"], j["metadata"], *[
	j["tensors"][0][k] for k in "name dtype shape bytes file_offset".split()
]' | tr -d "(),'" | sed 's/\[2 2\]/[2, 2]/')" "info prints a .npy file"
cp f.npy $'\xff\x01.npy'
run "$TARN" info $'\xff\x01.npy' --json
is "'?\\x01'" "$(json 'ascii(j["tensors"][0]["name"])')" \
	"a name that is no UTF-8 is bent in JSON"
run "$TARN" info $'\xff\x01.npy'
has '\xff\x01.npy: npy' "$out" "info escapes the path"
has '  ?\x01  U16' "$out" "info escapes control characters of the name"

safetensors bad.st '{"__metadata__":{"k\u001b]0;x\u0007":"v\u009b\nw"},
"\u001b[2Jx\u202ey":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
"äöü":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' 2
run "$TARN" info bad.st
is "bad.st: safetensors, 2 tensors, 2 B
metadata:
  k\\x1b]0;x\\x07: v\\u009b\\x0aw
tensors:
  \\x1b[2Jx\\u202ey  U8  [1]  1 B
  äöü              U8  [1]  1 B" "$out" "hostile names move nothing"
run env LC_ALL=C "$TARN" info bad.st
is "" "$(tr -d '\n[:print:]' <<<"$out" | tr -d '\n')" \
	"in the C locale nothing but ASCII"
run "$TARN" info bad.st --json
is "'\\x1b[2Jx\\u202ey'" "$(json 'ascii(j["tensors"][0]["name"])')" \
	"JSON has the name as it is"
long=$(printf '%03000d' 7)
safetensors long.st "{\"__metadata__\":{\"a\":\"$long\"}}" 0
run "$TARN" info long.st
has "0... (3000 bytes in all)" "$out" "a long value is cut for people"
run "$TARN" info long.st --json
is "$long" "$(json 'j["metadata"]["a"]')" \
	"info --json prints the long value whole"

# The name is printed in a column that others define.
safetensors wide.st "{\"$(printf 'x%.0s' {1..200})\":
{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},
\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}" 2
run "$TARN" info wide.st
is 76 "$(tail -n 1 <<<"$out" | wc -L)" "one long name moves its own row only"

run "$TARN" info none
is "1 tarn: 'none' is no file, and nothing is published as that, or below it" \
	"$status $(head -n 1 <<<"$err")" "info of a missing file fails"
has "no daemon is running" "$err" "nobody was started to look"
run "$TARN" info .
is 1 "$status" "a folder is no file"
head -c 20 two.st >cut.st
run "$TARN" info cut.st
is "1 " "$status $out" "info of a damaged file fails"
has "tarn: cut.st" "$err" "the error names the damaged file"
mkfifo fifo
run timeout 60 "$TARN" info fifo
is "1 " "$status $out" "a fifo is not waited for"

data=${TARN_TEST_DATA:-}
if [ -r "$data/silero_vad_16k.safetensors" ]; then
	run "$TARN" info "$data/silero_vad_16k.safetensors" --json
	is "15 1238532" "$(json 'len(j["tensors"]),
		sum(t["bytes"] for t in j["tensors"])' | tr -d '(),')" \
		"silero has 15 tensors"
else
	skipped 1 "there is no silero_vad_16k.safetensors"
fi
finish
