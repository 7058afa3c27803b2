#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn verify, and tarn load --verify: one damaged byte is found, and is said
# to be where it is.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1

safetensors plain.st '{"a":{"dtype":"U8","shape":[40],"data_offsets":[0,40]},
"b":{"dtype":"U8","shape":[3000000],"data_offsets":[40,3000040]},
"c":{"dtype":"U8","shape":[8],"data_offsets":[3000040,3000048]}}' 3000048
run "$TARN" verify
is 2 "$status" "verify without a file is called wrongly"
run "$TARN" verify plain.st --io along
is 2 "$status" "verify refuses an unknown I/O mode"
run "$TARN" verify plain.st
is "0 plain.st: 0 good, 0 differ, 3 without a checksum" "$status $out" \
	"a file without checksums"
has "'tarn copy --checksums' makes a file that has some" "$err" \
	"verify says what to do about it"

run "$TARN" copy plain.st m.safetensors --checksums
is 0 "$status" "a file with checksums"
run "$TARN" verify m.safetensors
is 0 "$status" "verify of a file with checksums succeeds"
has "m.safetensors: 3 good, 0 differ, 0 without a checksum; 2.86 MiB in " \
	"$out" "verify prints the number of good tensors"

# damage FILE FROM-END: turns a bit of that byte.
damage() {
	"$PYTHON" - "$@" <<-'END'
		import os, sys
		with open(sys.argv[1], "r+b") as f:
		    f.seek(-int(sys.argv[2]), os.SEEK_END)
		    byte = f.read(1)[0]
		    f.seek(-1, os.SEEK_CUR)
		    f.write(bytes([byte ^ 16]))
	END
}

cp m.safetensors bad.safetensors
damage bad.safetensors 1500000
run "$TARN" verify bad.safetensors
is 1 "$status" "verify of a file with a damaged byte fails"
is "differs: b" "$(head -n 1 <<<"$out")" "verify names the damaged tensor"
has "bad.safetensors: 2 good, 1 differs, 0 without a checksum" "$out" \
	"verify counts the good tensors beside it"
has "tensor 'b' is damaged: the checksum of its 3000000 bytes" "$err" \
	"the sentence has the values"
damage bad.safetensors 1
run "$TARN" verify bad.safetensors
is "differs: b
differs: c" "$(head -n 2 <<<"$out")" "each that differs has a line"
has "1 good, 2 differ, 0 without" "$out" "verify counts the tensors that differ"

# Several files, as JSON.
head -c 1000 m.safetensors >cut.safetensors
run "$TARN" verify m.safetensors plain.st bad.safetensors cut.safetensors \
	none --json
is 1 "$status" "five files, some of them bad"
is "3,0,0 0,0,3 1,2,0 0" "$(json '" ".join(",".join(str(f[k])
	for k in ("good", "differ", "unchecked")) for f in j["files"][:3]),
	len(j["files"][0]["damaged"])' | tr -d "()'" | sed 's/, / /')" \
	"verify --json has the counts of each file"
is "['b', 'c']" "$(json 'j["files"][2]["damaged"]')" \
	"verify --json has the damaged names"
is "True True" "$(json '*("error" in f for f in j["files"][3:]),')" \
	"what cannot be read says why"
is "file good differ unchecked damaged bytes seconds cpu_seconds engine read \
written cached direct requests" "$(json '*j["files"][0]')" \
"verify --json has its keys"
is "3000048 True True" "$(json 'j["files"][0]["bytes"],
	j["files"][0]["engine"] in ("io_uring", "threads"),
	j["files"][0]["read"] >= 3000048' | tr -d '(),')" \
	"the keys of verify --json have their values"
is 2 "$(grep -c '^tarn: bad.safetensors\|^tarn: none' <<<"$err")" \
	"people are told as well"

# A sharded checkpoint is verified by its index.
"$PYTHON" - <<'END'
import json
json.dump({"metadata": {"total_size": 3000048}, "weight_map":
    {"a": "m.safetensors", "c": "m.safetensors"}},
    open("model.safetensors.index.json", "w"))
END
run "$TARN" verify model.safetensors.index.json
is 0 "$status" "verify of an index succeeds"
sed -i s/m.safetensors/bad.safetensors/g model.safetensors.index.json
run "$TARN" verify model.safetensors.index.json
is 1 "$status" "verify of a damaged shard fails"
has "differs: c" "$out" "verify of an index names the damaged tensor"

# tarn load --verify.
own_daemon
run "$TARN" load bad.safetensors --verify --name x
is 1 "$status" "load --verify refuses a damaged file"
has "tensor 'b' is damaged" "$err" "load --verify names the damaged tensor"
is "" "$("$TARN" ls)" "nothing of it is published"
run "$TARN" load m.safetensors --verify --name x
is 0 "$status" "load --verify loads an undamaged file"
run "$TARN" load bad.safetensors --name y
is 0 "$status" "load without --verify does not check"
run "$TARN" stop
is 0 "$status" "stop"
finish
