#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of 100,000 tensors in one file beside one of their size; see many.c.
# A daemon of its own, whose budget holds one copy, so that all loads land in
# the same memory; files in $TARN_BENCH_DIR, or where temporary ones go.

set -eu
folder=$(mktemp -d "${TARN_BENCH_DIR:-${TMPDIR:-/tmp}}/tarn-bench-many.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon --budget 160M 2>"$folder/log"
bench/many "$folder/sock" "$folder"
