#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What opening a published tensor costs; see open.c. A daemon of its own.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-open.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/open "$folder/sock" "$folder"
