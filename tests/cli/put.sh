#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn put: copies of tensors under names of their own.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

safetensors m.st '{"a.w":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]},
"a.b":{"dtype":"U8","shape":[8],"data_offsets":[32,40]}}' 40
safetensors one.st '{"x":{"dtype":"U16","shape":[2,3],"data_offsets":[0,12]}}' 12
safetensors big.st \
	'{"x":{"dtype":"U8","shape":[3000,1000],"data_offsets":[0,3000000]}}' 3000000

# What is wrong starts no daemon.
run "$TARN" put x none.st
is 1 "$status" "a file that is not there"
run "$TARN" put x m.st
is 1 "$status" "a file of two tensors"
has "say which of its 2 tensors" "$err" "the error asks for one of the tensors"
run "$TARN" put x m.st:aw
is 1 "$status" "put of a mistyped tensor fails"
has "did you mean 'a.w'?" "$err" "the error suggests the tensor's name"
run "$TARN" put x m.st:a.w '[9]'
is 1 "$status" "an index out of range"
run "$TARN" put x m.st:a.w --ttl now
is 2 "$status" "put refuses a --ttl that is no time"
run "$TARN" put x
is 2 "$status" "put without a file is called wrongly"
run "$TARN" status
has "no daemon is running" "$err" "wrong calls of put start no daemon"

run "$TARN" put run/w m.st:a.w
is "0 run/w: U8 [4, 8], 32 B, version 1" "$status $out" "put publishes a tensor"
is "$("$TARN" print m.st:a.w)" "$("$TARN" print run/w)" \
	"the published tensor has its numbers"
run "$TARN" put run/w m.st:a.w '[1:3, ::4]'
is "0 run/w: U8 [2, 2], 4 B, version 2" "$status $out" \
	"put replaces a tensor by a view"
is "[[ 8 12]
 [16 20]]" "$("$TARN" print run/w)" "the published view has its numbers"
run "$TARN" put run/w one.st --new
is 1 "$status" "--new refuses a name that is there"
has 'there is a tensor "run/w" already' "$err" \
	"the error says that the name exists"
run "$TARN" put run/one one.st --new
is "0 run/one: U16 [2, 3], 12 B, version 1" "$status $out" \
	"--new takes an unused name; a file's only tensor needs no name"
run "$TARN" put run/t big.st:x '.permute(1,0)'
is 0 "$status" "put publishes three million bytes of a transposed view"
is "$("$TARN" print big.st:x '.permute(1,0)' --raw | md5sum)" \
	"$("$TARN" print run/t --raw | md5sum)" \
	"a large tensor is published byte for byte"
run "$TARN" status --json
is "3002368 True True" "$(json 'j["own_memory"], 0 < j["used"] -
	j["own_memory"] <= j["allocated"], j["allocated"] + j["own_memory"] <=
	j["budget"]' | tr -d "(),")" \
		"a large tensor has memory of its own beside the segments"
run "$TARN" status
has "32.00 MiB in segments, 2.88 MiB of it used; 2.86 MiB beside them" "$out" \
	"status reports memory beside the segments"
has "34.86 MiB taken of a budget of " "$out" "status reports the total of both"
rm m.st one.st big.st
is "[[ 8 12]
 [16 20]]" "$("$TARN" print run/w)" \
	"the published tensor does not need the file"
"$PYTHON" - n.npy <<-'END'
import struct, sys
head = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2), }"
head = head.ljust(117) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", 118) +
    head.encode() + struct.pack("<4H", 1, 2, 3, 4))
END
run "$TARN" put run/n n.npy
is "0 run/n: U16 [2, 2], 8 B, version 1" "$status $out" "put publishes a .npy"
is "[[1 3]
 [2 4]]" "$("$TARN" print run/n)" "a .npy in Fortran order keeps its numbers"
run "$TARN" put run/n n.npy --ttl 0.5
is "0 run/n: U16 [2, 2], 8 B, version 2" "$status $out" \
	"put --ttl publishes the tensor"
for _ in {1..300}; do
	"$TARN" ls run/n | grep -q . || break
	sleep 0.1
done
is "" "$("$TARN" ls run/n)" "a tensor put with --ttl goes when its time is over"
run "$TARN" rm run/
is "0 removed 3 tensors below run/" "$status $out" "tensors without --ttl stay"
# A channel is not replaced by a tensor, which nobody who has it open would
# notice.
run "$(dirname "$TARN")/../examples/producer" images 1
is 0 "$status" "a producer makes a channel before the put"
run "$TARN" put images n.npy
is "1 tarn: 'images' is a channel, which a tensor does not replace" \
	"$status $(head -n 1 <<<"$err")" "put does not replace a channel"
has "'tarn channel rm images'" "$err" "put on a channel's name names channel rm"
run "$TARN" channel rm images
run "$TARN" put images n.npy
is 0 "$status" "a removed channel's name can be published"

run "$TARN" stop
is 0 "$status" "the daemon stops after put"
finish
