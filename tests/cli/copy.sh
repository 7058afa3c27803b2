#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn copy: whole files, one tensor, a published one; what is kept, what is
# refused, and that damage is not copied on.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1

safetensors m.st '{"__metadata__":{"format":"pt","by":"hand"},
"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
"i":{"dtype":"I64","shape":[3],"data_offsets":[24,48]},
"w":{"dtype":"U8","shape":[4,8],"data_offsets":[48,80]},
"h":{"dtype":"F16","shape":[4],"data_offsets":[80,88]}}' 88
safetensors big.st \
	'{"x":{"dtype":"U8","shape":[3000,1000],"data_offsets":[0,3000000]}}' 3000000

# dtypes FILE, metadata FILE: on a line.
dtypes() {
	out=$("$TARN" info "$1" --json)
	json '*sorted(t["name"] + ":" + t["dtype"] for t in j["tensors"])'
}
metadata() {
	out=$("$TARN" info "$1" --json)
	json '*sorted(k + "=" + v for k, v in j["metadata"].items()
		if not k.startswith("xxh3:")),
		sum(k.startswith("xxh3:") for k in j["metadata"])' | tr -d "(),'"
}

# What is called wrongly.
for wrong in 'm.st' 'm.st [0] x.npy y' 'm.st x.pt' 'm.st [0:2]' \
	'm.st .flip(0)' 'm.st x.st --dtype F33' 'm.st x.st --scale x' \
	'm.st x.st --scale 1,' 'm.st x.st --scale 1/0' 'm.st x.st --bias nan' \
	'm.st x.st --scale 1,2 --bias 1,2,3' 'm.st x.st --channel 0' \
	'm.st x.st --scale 1,2 --channel 12' 'm.st x.st --io on'; do
	# shellcheck disable=SC2086 # the words are what is wrong
	run "$TARN" copy $wrong
	is "2 " "$status $out" "copy $wrong"
done
run "$TARN" copy m.st x.st --dtype BF61
has "did you mean 'BF16'?" "$err" "a dtype is guessed at"
run "$TARN" copy m.st:ww x.st
has "did you mean 'w'?" "$err" "a mistyped tensor is guessed at"
run "$TARN" copy none.st x.st
is 1 "$status" "copy of a missing file fails"
has "'none.st' is no file, and nothing is published as that" "$err" \
	"the error says that the file is missing"
has "no daemon is running" "$err" "the search for a name starts no daemon"
run "$TARN" copy m.st x.npy
is 1 "$status" "copy of four tensors to a .npy fails"
has "say which of its 4 tensors" "$err" \
	"the error asks for one of the four tensors"
run "$TARN" copy m.st x.st --name y
has "say which of its 4 tensors" "$err" "--name for four tensors is refused"
run "$TARN" copy m.st:w '[9]' x.st
is 1 "$status" "copy of an index out of range fails"
has "tensor 'w': " "$err" "the error of an index names the tensor"
is "big.st m.st" "$(echo *)" "no failure made a file"

# Whole files.
run "$TARN" copy m.st same.st
is 0 "$status" "copy of a whole file succeeds"
has "same.st: 4 tensors, 88 B in " "$out" "copy reports what was done"
for tensor in b i w h; do
	is "$("$TARN" print "m.st:$tensor" --raw | od -An -t x1)" \
		"$("$TARN" print "same.st:$tensor" --raw | od -An -t x1)" \
		"the bytes of $tensor"
done 2>/dev/null
is "by=hand format=pt 0" "$(metadata same.st)" "copy keeps the metadata"
run "$TARN" copy m.st half.st --dtype bf16 --metadata by=tarn --json
is "4 2 76" "$(json 'j["tensors"], j["converted"], j["bytes"]' | tr -d '(),')" \
	"as BF16: how many were converted"
is "file tensors bytes seconds cpu_seconds engine read written cached direct \
requests converted" "$(json '*j')" "the keys of --json"
is "b:BF16 h:BF16 i:I64 w:U8" "$(dtypes half.st)" \
	"integers of a whole file stay what they are"
is "by=tarn format=pt 0" "$(metadata half.st)" \
	"--metadata replaces a pair of the file"

# Each key compared with all the others would take minutes.
"$PYTHON" - <<-'END'
	import json
	head = json.dumps({"__metadata__": {f"key {i}": "" for i in range(200000)},
	                   "a": {"dtype": "U8", "shape": [1],
	                         "data_offsets": [0, 1]}}).encode()
	with open("keys.st", "wb") as f:
	    f.write(len(head).to_bytes(8, "little") + head + b"a")
END
run timeout 300 "$TARN" copy keys.st keys2.st --metadata 'key 7=seven'
is 0 "$status" "copy of a file with 200,000 metadata pairs succeeds"
out=$("$TARN" info keys2.st --json)
is "200000 seven" "$(json 'len(j["metadata"]), j["metadata"]["key 7"]' |
	tr -d "(),'")" "all metadata pairs are copied"
run "$TARN" copy m.st:i i.st --dtype F32
is "i:F32" "$(dtypes i.st)" "a single integer tensor is converted"
run "$TARN" copy m.st '[0:2]' cut.st
is "[2, 3] [2] [2, 8] [2]" "$(out=$("$TARN" info cut.st --json); json \
	'*(next(t["shape"] for t in j["tensors"] if t["name"] == n)
	for n in "biwh")')" "a view is taken of each tensor"
cp m.st self.st
run "$TARN" copy self.st self.st --dtype F64
is "0 b:F64 h:F64 i:I64 w:U8" "$status $(dtypes self.st)" \
	"a file is copied onto itself"

# One tensor.
run "$TARN" copy m.st:w '[1:3, ::4]' v.npy
is "0 v.npy: 1 tensor, 4 B in" "$status $(cut -d ' ' -f 1-6 <<<"$out")" \
	"a view of one tensor is copied to a .npy"
run "$TARN" copy v.npy v.st --name n/v --new
is "0 n/v:U8" "$status $(dtypes v.st)" \
	"a .npy is copied back under another name"
run "$TARN" copy v.npy v.st --new
is 1 "$status" "--new of an existing file fails"
has "v.st: there is something of that name" "$err" \
	"the error of --new says that the file exists"
run "$TARN" copy m.st:w s.npy --dtype I16 --scale 1/3 --bias 0.4 --round
is 0 "$status" "copy scales and rounds"
run "$TARN" copy m.st:w x.npy --scale 1,2,3 --dtype F32
is 1 "$status" "three scales without a dimension of three fail"
has "tensor 'w': no dimension has 3 elements" "$err" \
	"the error says that no dimension has 3 elements"
run "$TARN" copy m.st:w '[:, :4]' x.npy --scale 1,2,3,4 --dtype F32
has "more than one dimension has 4" "$err" \
	"four scales with two dimensions of four fail"
has "choose the dimension with --channel" "$err" "the error suggests --channel"
run "$TARN" copy m.st:w '[:, :4]' x.npy --scale 1,2,3,4 --dtype F32 --channel -1
is 0 "$status" "--channel selects the dimension"
run "$TARN" copy m.st:w x.st --scale 2 --align 4096 --io buffered
out=$("$TARN" info x.st --json)
is 4096 "$(json 'j["tensors"][0]["file_offset"]')" \
	"--align 4096 aligns the first tensor"

# Checksums.
run "$TARN" copy big.st sum.st --checksums
is "0 1" "$status $(metadata sum.st)" "copy --checksums writes one checksum"
run "$TARN" copy sum.st sum2.st
is "0 1" "$status $(metadata sum2.st)" "a copy keeps the checksum of its source"
is "$(md5sum <sum.st)" "$(md5sum <sum2.st)" \
	"a copy of a file with a checksum is the same file"
run "$TARN" copy sum.st '[::2]' sum3.st --dtype F16
run "$TARN" verify sum3.st
has "1 good, 0 differ" "$out" "a converted tensor gets a new checksum"
run "$TARN" copy sum.st sum.npy
is 0 "$status" "a copy to .npy drops the checksum"
printf X | dd of=sum.st bs=1 seek=1500000 conv=notrunc 2>/dev/null
run "$TARN" copy sum.st sum2.st
is 1 "$status" "copy of a damaged tensor fails"
has "tensor 'x' is damaged where it comes from" "$err" \
	"the error names the damaged tensor"
run "$TARN" verify sum2.st
is 0 "$status" "a failed copy leaves the old file"
run "$TARN" copy m.st plain.st --checksums --metadata format=np
is "by=hand format=np 4" "$(metadata plain.st)" \
	"metadata options and checksums are combined"

# A sharded checkpoint becomes one file.
run "$TARN" copy m.st:w one.safetensors --checksums
run "$TARN" copy big.st two.safetensors --metadata format=pt --metadata n=1
"$PYTHON" - <<'END'
import json
json.dump({"metadata": {"total_size": 3000032, "note": "x"}, "weight_map":
    {"w": "one.safetensors", "x": "two.safetensors"}},
    open("m.safetensors.index.json", "w"))
END
run "$TARN" copy m.safetensors.index.json joined.safetensors
is "0 w:U8 x:U8" "$status $(dtypes joined.safetensors)" \
	"a sharded checkpoint is copied with all its tensors"
is "by=hand format=pt n=1 note=x 2" "$(metadata joined.safetensors)" \
	"a joined file has the metadata of its parts"
run "$TARN" verify joined.safetensors
has "2 good, 0 differ" "$out" \
	"a joined file has checksums when a part of it had them"

# What is published.
own_daemon
run "$TARN" put run/w m.st:w
run "$TARN" copy run/w '.permute(1,0)' w.npy
is 0 "$status" "a published tensor is copied to a file"
is "$("$TARN" print m.st:w '.permute(1,0)')" "$("$TARN" print w.npy:w)" \
	"the published tensor is copied with its numbers"
run "$TARN" copy run w.npy
has "there is a tensor below it; 'tarn save run FILE' saves it" "$err" \
	"a folder of names is for tarn save"
run "$TARN" copy run/v w.npy
has "did you mean 'run/w'?" "$err" "the error suggests a name that is near"
run "$TARN" stop
is 0 "$status" "the daemon of the copies stops"

# A disk that is full: a small one of our own, where that may be had.
old=$(md5sum <x.st)
run bash -c 'ulimit -f 1000 && "$TARN" copy big.st x.st'
is "1 $old" "$status $(md5sum <x.st)" "a file that does not fit leaves the old"
mkdir disk
if unshare -Urm mount -t tmpfs -o size=1m none disk 2>/dev/null; then
	run unshare -Urm bash -c 'mount -t tmpfs -o size=1m none disk &&
		echo old >disk/x && ! "$TARN" copy big.st disk/x.st &&
		! "$TARN" copy big.st disk/x && cat disk/x && ls -A disk'
	is "0 old x" "$status $(echo $out)" \
		"a copy to a full disk leaves the old files"
	has "tarn: disk/x: no room for 3000080 bytes" "$err" \
		"the error of a full disk names the file and the size"
else
	skipped 2 "no file system may be mounted here"
fi
finish
