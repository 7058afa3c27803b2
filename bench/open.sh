#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of opening a published tensor; see open.c. With its own daemon.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-open.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/open "$folder/sock" "$folder"
