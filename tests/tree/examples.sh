#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The examples of the README and of tarn(7) do what is said of them: one process
# publishes, another follows, before and after.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
examples=$(dirname "$TARN")/../examples
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon

matrices() { # N: until it has printed so many, a minute at most
	for _ in $(seq 6000); do
		[ "$(grep -c ']]$' followed)" -ge "$1" ] && break
		sleep 0.01
	done
	grep -c ']]$' followed
}

# Called wrongly: a line that tells how, and nothing is begun.
for wrong in consumer 'consumer --help' 'consumer a b' dlpack \
	'dlpack --help' 'dlpack a b' follow 'follow --help' \
	make_checkpoint 'make_checkpoint --dtype I3 x' open 'open -h' \
	'open a b c' producer 'producer images' 'producer images x' \
	'producer images 0' 'producer --help 1' publish 'publish --help' \
	'publish a b' quickstart 'quickstart --help' 'quickstart a' table \
	'table --help' 'table a 0' 'table a many' 'table a 1 0' \
	'table a 1 2 3'; do
	# shellcheck disable=SC2086 # the words are what is wrong
	run timeout 60 "$examples/"$wrong
	is "2  1" "$status $out $(grep -c "^usage: ${wrong%% *} " <<<"$err")" \
		"'$wrong' prints its usage"
done
run "$TARN" status
has "no daemon" "$err" "wrong calls of the examples start no daemon"

"$examples/follow" run/weights >followed 2>&1 &
follower=$!
run "$examples/publish" run/weights
is "0 run/weights version 1" "$status $out" "publish prints the first version"
is 1 "$(matrices 1)" "follow prints the first version"
run "$examples/publish" run/weights
is "0 run/weights version 2" "$status $out" "publish prints the second version"
is 2 "$(matrices 2)" "follow prints the second version"
run "$examples/quickstart" run/weights '[1, 2:4]'
is "[1.002 1.003]" "$out" "quickstart finds the tensor by its name"
run "$examples/dlpack" run/weights
is "0 the sum is 499999500.0" "$status $out" "dlpack sums a published tensor"
"$PYTHON" - <<-'END'
	import struct
	open("i.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", 118) +
	    b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }".ljust(117) +
	    b"\n\1\2")
END
run "$examples/dlpack" i.npy:i
is "1 dlpack: the tensor is not F32" "$status $err" \
	"dlpack refuses another dtype"
run "$examples/publish" ''
is 1 "$status" "publish with an empty name fails"

# A table that is made once, and found by the next start.
run timeout 60 "$examples/table" run/table 3 8
is "0 31775 rows of 264 bytes, 3 readers 3" "$status $(
	grep rows.of <<<"$out") $(grep -c ', all right$' <<<"$out")" \
	"table makes a table, and its readers find their rows"
is 1 "$(grep -c '^run/table: made in ' <<<"$out")" \
	"table says that it made the table"
run timeout 60 "$examples/table" run/table 1 99
is "0 run/table: found, nothing to load
31775 rows of 264 bytes, 1 readers" "$status $(head -n 2 <<<"$out")" \
	"the next start finds the table"
run timeout 60 "$examples/table" run/weights
is "1 " "$status $out" "table refuses a tensor that is no table"
has "tarn rm run/weights" "$err" "the error of table says what to do"
run timeout 60 "$examples/table" run/large 1 1000000000
is "1 " "$status $out" "a table for which there is no memory is not made"
has "table: " "$err" "the error of a table without memory names table"

# A producer, and two consumers that share what it makes.
"$examples/consumer" images >first 2>&1 &
one=$!
"$examples/consumer" images >second 2>&1 &
two=$!
for _ in $(seq 6000); do # both have the channel, before it is closed
	[ "$(cat first second | grep -c waiting)" -ge 2 ] && break
	sleep 0.01
done
run "$examples/producer" images 300
is "0 " "$status $out" "producer makes images"
wait $one
is 0 "$?" "the first consumer reads to the end"
wait $two
is 0 "$?" "the second consumer reads to the end"
is "$(seq -f 'image %g' 0 299)" \
	"$(cat first second | grep ^image | sort -k 2 -n | cut -d : -f 1)" \
	"each image comes to one of two consumers"
is "image 7: mean 127.500" "$(grep -h 'image 7:' first second)" \
	"an image is received as it was made"
run "$examples/consumer" ''
is 1 "$status" "consumer with an empty name fails"

# The README's lines of commands about channels; what goes on is ended.
awk '/^##/ { there = $0 == "### Channels" } /^```$/ { on = 0 }
	on { print } there && /^```sh$/ { on = 1 }' \
	"$top_srcdir/README.md" >lines
is 3 "$(grep -c '^tarn channel' lines)" "the README has lines about channels"
"$examples/producer" decoded 4 >/dev/null &
producer=$!
tarn() { timeout --preserve-status 20 "$TARN" "$@"; }
wait $producer
is 0 "$?" "a producer of as many as there are slots need not wait"
run eval "set -e; $(cat lines)"
is "0 " "$status $err" "the README's lines about channels run"
is 1 "$(grep -c '^decoded  queue .* 4 ready .* closed$' <<<"$out")" \
	"the README's lines show the channel"
run "$examples/producer" decoded 4
is 1 "$status" "a second producer is refused while items are not received"
has "4 items not received; receive them, or 'tarn channel rm decoded'" "$err" \
	"the error of a second producer counts the items"
run timeout 60 "$examples/consumer" decoded
is "0 4" "$status $(grep -c ^image <<<"$out")" \
	"a consumer that comes late gets all items"
for _ in {1..600}; do
	run "$TARN" channel ls
	grep -q decoded <<<"$out" || break
	sleep .1
done
is 0 "$(grep -c decoded <<<"$out")" \
	"the channel goes soon after its last consumer"

# The README's lines about files, with files of those names.
"$PYTHON" - <<-'END'
	import json, struct
	def save(path, name, shape, dtype, data):
	    head = json.dumps({name: {"dtype": dtype, "shape": shape,
	        "data_offsets": [0, len(data)]}}).encode()
	    open(path, "wb").write(struct.pack("<Q", len(head)) + head + data)
	save("m.safetensors", "wte", [8, 6], "F32", struct.pack("<48f", *range(48)))
	save("n.safetensors", "b", [6], "I64", struct.pack("<6q", *range(6)))
	json.dump({"weight_map": {"wte": "m.safetensors", "b": "n.safetensors"}},
	    open("model.safetensors.index.json", "w"))
	head = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 5, 3), }"
	open("photos.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", 118) +
	    head.ljust(117).encode() + b"\n" + bytes(range(120)))
END
awk '/^## / { on = $0 == "## To files and back" } on && /^```$/ { exit }
	on && lines { print } on && /^```sh$/ { lines = 1 }' \
	"$top_srcdir/README.md" >lines
is 6 "$(grep -c ^tarn lines)" "the README has lines about files"
"$TARN" load model.safetensors.index.json --name model >/dev/null
tarn() { "$TARN" "$@"; }
run eval "set -e; $(cat lines)"
is 0 "$status" "the README's lines about files run"
is "1 BF16 F32 2" "$(grep -c '2 good, 0 differ' <<<"$out") $(
	"$TARN" info half.safetensors | grep -o BF16) $(
	"$TARN" info photos.safetensors | grep -o 'F32') $(
	"$TARN" info one.safetensors | grep -c '\[')" \
		"the README's lines make the files that they name"
is "[[-0.5        -0.4882353 ]
 [-0.44117647 -0.42941177]]" "$("$TARN" print photos.safetensors:photos \
	'[0, 0, :2, :2]')" "the README's lines convert the numbers"
run "$TARN" stop
wait $follower
is 1 "$?" "follow ends with the daemon"
has "follow: 'run/weights': daemon at " "$(cat followed)" \
	"follow says why it ends"
finish
