#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarn save: what is published becomes a file, as it stands at one moment; and
# what cannot be saved leaves the old file as it was.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

safetensors m.st '{"__metadata__":{"format":"pt"},
"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
"a/w":{"dtype":"U8","shape":[4,8],"data_offsets":[24,56]},
"e":{"dtype":"I64","shape":[0,3],"data_offsets":[56,56]}}' 56
safetensors one.st '{"x":{"dtype":"U16","shape":[2,3],"data_offsets":[0,12]}}' 12
safetensors big.st \
	'{"x":{"dtype":"U8","shape":[3000,1000],"data_offsets":[0,3000000]}}' 3000000

# header FILE: its length, and its object on a line, sorted.
header() {
	"$PYTHON" - "$1" <<-'END'
		import json, sys
		data = open(sys.argv[1], "rb").read()
		n = int.from_bytes(data[:8], "little")
		print(8 + n, json.dumps(json.loads(data[8:8 + n]), sort_keys=True))
	END
}

# What is called wrongly, or has nobody to ask.
for wrong in 'm' 'm x.safetensors y' 'm x.safetensors --align 24' \
	'm x.safetensors --align 0' 'm x.safetensors --align -8' \
	'm x.safetensors --align 8589934592' 'm x.safetensors --io by' \
	'm x.safetensors --metadata k' 'm x.safetensors --metadata =v' \
	'm x.safetensors --metadata k=1 --metadata k=2' \
	'm x.safetensors --metadata xxh3:b=0' 'm x.npz' 'm x.pt' \
	'm x.safetensors --cheksums'; do
	# shellcheck disable=SC2086 # the words are what is wrong
	run "$TARN" save $wrong
	is "2 " "$status $out" "save $wrong"
done
has "did you mean '--checksums'?" "$err" "the error suggests the option's name"
run "$TARN" save m x.safetensors
is 1 "$status" "save without a daemon fails"
has "no daemon is running" "$err" "is started to save nothing"

# Names.
run "$TARN" load m.st --name run/m
is 0 "$status" "a file is loaded"
run "$TARN" put run/m one.st
run "$TARN" put run/mx one.st
run "$TARN" put other/x big.st
run "$TARN" save run/m/ below.safetensors
is 0 "$status" "save of all tensors below a name succeeds"
has "below.safetensors: 3 tensors, 56 B in " "$out" "save prints what it did"
is '{"a/w": {"data_offsets": [24, 56], "dtype": "U8", "shape": [4, 8]}, "b":
 {"data_offsets": [0, 24], "dtype": "F32", "shape": [2, 3]}, "e":
 {"data_offsets": [0, 0], "dtype": "I64", "shape": [0, 3]}}' \
	"$(header below.safetensors | cut -d ' ' -f 2- |
		sed 's/"b": /"b":\n /; s/"e": /"e":\n /')" \
		"the saved header is as expected"
for tensor in b a/w; do
	is "$("$TARN" print "m.st:$tensor" --raw | md5sum)" \
		"$("$TARN" print "below.safetensors:$tensor" --raw | md5sum)" \
		"the bytes of $tensor"
done
run "$TARN" save run/m with.safetensors --json
is "4 68 m" "$(json 'j["tensors"], j["bytes"]' | tr -d '(),') $(
	header with.safetensors | grep -o '"m"' | tr -d '"')" \
	"without the slash, the name itself too"
is "file tensors bytes seconds cpu_seconds engine read written cached direct \
requests" "$(json '*j')" "the keys of --json"
is "with.safetensors float float True True" "$(json 'j["file"],
	type(j["seconds"]).__name__, type(j["cpu_seconds"]).__name__,
	j["engine"] in ("io_uring", "threads"),
	j["written"] > 68 and j["direct"] <= j["written"]' | tr -d "(),'")" \
	"the keys of --json have their values"
run "$TARN" save run/mx one.npy
is 0 "$status" "one tensor as .npy"
is "[[ 256  770 1284]
 [1798 2312 2826]]" "$("$TARN" print one.npy:one)" \
"the saved .npy has its numbers"
run "$TARN" save run/ two.npy
is "1 " "$status $out" "several are no .npy"
has "a .npy file holds one tensor, these are 5" "$err" \
	"the error says that a .npy holds one tensor"
run "$TARN" save run/q x.safetensors
is 1 "$status" "a name that nobody published"
has "nothing is published as 'run/q', or below it" "$err" \
	"save reports that the name is not published"
run "$TARN" save run/mx/ x.safetensors
has "nothing is published below 'run/mx/'" "$err" \
	"save reports that nothing is published below the prefix"
run "$TARN" save "" all.safetensors --json
is 6 "$(json 'j["tensors"]')" "no prefix is everything"
run "$TARN" put run/mx/mx one.st
run "$TARN" save run/mx x.safetensors
is 1 "$status" "two that would be called the same"
has "two tensors are named 'mx'" "$err" "tensors of one name are refused"
is "all.safetensors below.safetensors big.st m.st one.npy one.st \
with.safetensors" "$(echo ./* | sed 's,\./,,g')" "no failure left a file"

# Options.
run "$TARN" save run/m/ o.safetensors --align 4096 --checksums \
	--metadata by=hand --metadata 'at=a=b c' --metadata none=
is 0 "$status" "save with all options succeeds"
read -r size words <<<"$(header o.safetensors)"
is 4096 "$size" "the bytes are aligned"
has '"at": "a=b c", "by": "hand", "none": "", "xxh3:a/w": "' "$words" \
	"the saved header has the metadata"
run "$TARN" verify o.safetensors
has "o.safetensors: 3 good, 0 differ, 0 without a checksum" "$out" \
	"the checksums"
before=$(md5sum <o.safetensors)
run "$TARN" save run/mx/ o.safetensors --new
is "1 $before" "$status $(md5sum <o.safetensors)" \
	"--new leaves what is there"
has "o.safetensors: there is something of that name" "$err" \
	"save --new reports the file that is there"
run "$TARN" save run/m/ n.safetensors --new --io buffered
is "0 $(md5sum <below.safetensors)" "$status $(md5sum <n.safetensors)" \
	"save --new makes a file that is not there"

# A disk that is full: a limit on files stands for it.
run bash -c 'ulimit -f 1000 && "$TARN" save other/x o.safetensors'
is "1 $before" "$status $(md5sum <o.safetensors)" \
	"a file that does not fit leaves the old one"
has "tarn: o.safetensors: " "$err" "save names the file that does not fit"
run "$TARN" save other/x none/x.safetensors
is 1 "$status" "a folder that is not there"
run "$TARN" save other/x .
is 1 "$status" "a folder is no file"
is "" "$(find . -name '.*' ! -name .)" "nothing is left half done"
run "$TARN" save other/x big.safetensors
is "$(tail -c 3000000 big.st | md5sum)" \
	"$(tail -c 3000000 big.safetensors | md5sum)" "three million bytes"

# In a sticky folder another user may have taken the name.
if [ "$(id -u)" = 0 ]; then
	mkdir -m 1777 sticky
	echo precious >precious
	ln -s ../precious sticky/link.safetensors
	chown -h 1001 sticky/link.safetensors
	run "$TARN" save run/m/ sticky/link.safetensors
	is 1 "$status" "save does not follow a stranger's link"
	has "'sticky/link.safetensors' belongs to uid 1001" "$err" \
		"save names the link and its owner"
	run "$TARN" copy m.st sticky/link.safetensors
	is 1 "$status" "copy does not follow a stranger's link"
	is precious "$(cat precious)" "what the link leads to is untouched"
	echo x >sticky/planted.safetensors
	chown 1001 sticky/planted.safetensors
	run "$TARN" save run/m/ sticky/planted.safetensors
	is 1 "$status" "save does not replace a stranger's file"
	rm -r sticky precious
else
	skipped 5 "only root can make files of other users"
fi

# A set that is replaced again and again is saved as one of them.
for k in 0 1; do
	"$PYTHON" - $k.st $k <<-'END'
		import json, sys
		n = 2000
		head = json.dumps({f"t{i}": {"dtype": "U8", "shape": [4],
		    "data_offsets": [4 * i, 4 * i + 4]} for i in range(n)})
		head += " " * (-len(head) % 8)
		open(sys.argv[1], "wb").write(len(head).to_bytes(8, "little") +
		    head.encode() + bytes([int(sys.argv[2])]) * 4 * n)
	END
done
"$TARN" load 0.st --name set >/dev/null
while [ ! -e stop ]; do
	"$TARN" load 1.st --name set && "$TARN" load 0.st --name set
done >/dev/null &
mixed=""
for _ in {1..25}; do
	run "$TARN" save set set.safetensors
	[ "$status" = 0 ] || mixed="$mixed $err"
	kinds=$(tail -c 8000 set.safetensors | od -An -v -t x1 -w1 | sort -u |
		tr -d ' \n')
	[ "$kinds" = 00 ] || [ "$kinds" = 01 ] || mixed="$mixed $kinds"
done
touch stop
wait $!
is "" "$mixed" "no file has some of the old set and some of the new"
run "$TARN" stop
is 0 "$status" "stop"
finish
