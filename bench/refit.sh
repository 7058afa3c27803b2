#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The refit of a set of 1 GiB, or of TARN_BENCH_MIB, in memory; see refit.c.
set -e
folder=$(mktemp -d)
# shellcheck source=bench/daemon.sh
. "$(dirname "$0")/daemon.sh"
start_daemon 2>/dev/null
bench/refit "$folder/sock" "${TARN_BENCH_MIB:-1024}"
