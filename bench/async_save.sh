#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Saves in the background: the stall of the one who calls beside a copy of the
# state, and the time until all is written beside fio; see async_save.py.
# TARN_BENCH_PYTHON is the Python that has torch, TARN_BENCH_MIB the size of the
# state (1,024), TARN_BENCH_ROUNDS the number of rounds (5).
#
# Wanted: a stall of at most one copy, and 1.1 of fio's time.

set -eu
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-async.XXXXXX")
. "$(dirname "$0")/daemon.sh"

PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
TARN_SOCKET=$(readlink -f "$folder")/sock
TARN_AUTOSTART=0
export PYTHONPATH TARN_SOCKET TARN_AUTOSTART
start_daemon 2>"$folder/log"
"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/async_save.py" "$folder" \
	"${TARN_BENCH_MIB:-1024}" "${TARN_BENCH_ROUNDS:-5}"
