#!/bin/bash
# SPDX-License-Identifier: MIT
#
# status and metrics name the engine that files were really read with, as each
# load does, and not what the server waits for its events with.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
own_daemon
safetensors f.st '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2

build_info() { # LABEL
	"$TARN" metrics | sed -n "s/^tarn_build_info{.*[{,]$1=\"\([^\"]*\)\".*/\1/p"
}

for engine in threads auto; do
	export TARN_ENGINE=$engine
	run "$TARN" ls # none is running
	run "$TARN" put x f.st:a
	run "$TARN" status --json
	is "" "$(json 'j["engine"]')" "$engine: no engine before the first file"
	run "$TARN" load f.st --json
	used=$(json 'j["engine"]')
	case $engine,$used in
	threads,threads | auto,io_uring | auto,threads) good=yes ;;
	*) good=$used ;;
	esac
	is yes "$good" "$engine: a load names its engine, $used"
	run "$TARN" status --json
	is "$used" "$(json 'j["engine"]')" "$engine: status --json names it"
	loop=$(json 'j["loop"]')
	has " $loop " " io_uring epoll " "$engine: and the event loop, $loop"
	is "$used $loop" "$(build_info engine) $(build_info loop)" \
		"$engine: metrics names both"
	run "$TARN" status
	has "by $used; event loop: $loop" "$out" "$engine: status names both"
	run "$TARN" stop
	is 0 "$status" "$engine: the daemon ends"
done
finish
