#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of sending a tensor; see channel.c. With its own daemon.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-channel.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/channel "$folder/sock"
