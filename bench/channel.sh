#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What handing a tensor over costs; see channel.c. A daemon of its own.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-channel.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/channel "$folder/sock"
