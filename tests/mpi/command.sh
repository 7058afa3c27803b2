#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 900 s
#
# mpirun tarn load FILE: the file is published on every node, and the first process
# says so; without libtarn-mpi, or with --alone, each process loads it for itself.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/mpi/kit.sh"
in_files
own_nodes
safetensors m.st '{"a":{"dtype":"U8","shape":[4,8],"data_offsets":[0,32]},
"s":{"dtype":"U16","shape":[],"data_offsets":[32,34]}}' 34

# Where the dynamic linker finds the library; installed, it lies beside libtarn.
found=$top_builddir/mpi/.libs
with() { # RANKS PER ARGUMENT...
	local many=$1 per=$2
	shift 2
	run env LD_LIBRARY_PATH="$found" top_srcdir="$top_srcdir" \
		top_builddir="$top_builddir" bash -c '
		. "$top_srcdir/tests/mpi/kit.sh"
		on_nodes "$@"' with "$many" "$per" "$TARN" load "$@"
}

names() { # NODE PREFIX
	"$TARN" ls --socket "$XDG_RUNTIME_DIR/n$1/tarnd.sock" "$2" 2>/dev/null |
		awk '{ print $1 }' | grep -v fields | paste -sd ' '
}

with 4 2 m.st --name m/
has "0 m.st: 2 tensors, 34 B on 2 nodes in " "$status $out" \
	"the first process says what was done"
has "; published below m/" "$out" "it says where the tensors are"
is 1 "$(wc -l <<<"$out")" "the others say nothing"
is "m/a m/s" "$(names 0 m)" "the first node has the set"
is "m/a m/s" "$(names 1 m)" "the second node has the set"
is "[0 1 2 3 4 5 6 7]" \
	"$("$TARN" print --socket "$XDG_RUNTIME_DIR/n1/tarnd.sock" m/a '[0]')" \
	"its bytes are there"
with 4 2 m.st --name m --json
is "name bytes seconds nodes cached" "$(json '*j')" "--json has its keys"
is "m 34 2 True" "$(json 'j["name"], j["bytes"], j["nodes"], j["cached"]' |
	tr -d "(),'")" "a second load finds it there"
with 4 2 m.st --name m --json --fresh
is False "$(json 'j["cached"]')" "--fresh reads it again"
with 2 1 m.st
is "${PWD#/}/m.st/a ${PWD#/}/m.st/s" "$(names 1 "${PWD#/}/")" \
	"without a name it is called after its path"
with 2 1 'none%.st'
is 1 "$(grep -c 'tarn: .*rank 0: .*none0.st' <<<"$err")" \
	"an error is printed once"
is "1" "$((status != 0))" "it fails"
with 2 1 m.st --verify
has "with --alone each process loads all of it" "$err" \
	"--verify is refused, with what to do"
with 2 1 m.st --alone --name alone
is "2 alone/a alone/s" "$(grep -c 'published below alone/' <<<"$out") $(
	names 1 alone)" "with --alone each process loads it"
mkdir late
ln -s "$programs/.libs/liblate_world.so" late/libtarn-mpi.so.0
found=$PWD/late
with 3 1 m.st --name late
has "tarn: tarn_mpi_load: rank 0 did not answer" "$err" \
	"ranks that give up say so: the first one may be stuck"
found=$PWD
with 2 1 m.st --name without
is "2 without/a without/s" "$(grep -c 'published below without/' <<<"$out") $(
	names 1 without)" "without libtarn-mpi each process loads it"
has "each process loads all of it: libtarn-mpi.so.0" "$err" \
	"the first process says why they do not load together"
finish
