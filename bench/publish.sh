#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of publishing; see publish.c. With its own daemon, twice: all on one
# processor, and the client on another than the daemon. Left to itself the
# scheduler may give the ping-pong the one and the daemon the other, and on a
# virtual machine waking a processor costs more than all of the rest.

set -eu

allowed=$(taskset -cp $$)
allowed=${allowed##*: }
first=${allowed%%[,-]*}
last=${allowed##*[,-]}

measure() ( # TITLE PROCESSOR: where the daemon runs
	echo "$1"
	folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-publish.XXXXXX")
	. "$(dirname "$0")/daemon.sh"
	taskset -cp "$2" "$(sh -c 'echo $PPID')" >/dev/null
	start_daemon
	taskset -c "$first" bench/publish "$folder/sock" "$2"
)

measure "on one processor" "$first"
[ "$first" = "$last" ] || measure "on two processors" "$last"
