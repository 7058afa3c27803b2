#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A replay buffer of torchrl in the store beside one in local memory: fill, and
# samples of 256 rows; see replay.py. TARN_BENCH_PYTHON is the Python that has
# tensordict and torchrl, TARN_BENCH_ROWS the number of rows (100,000: 68 MiB),
# TARN_BENCH_ROUNDS that of rounds (5).
#
# Wanted: at most 2 times as long as local memory.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-replay.XXXXXX")
. "$(dirname "$0")/daemon.sh"

PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
TARN_SOCKET=$folder/sock
TARN_AUTOSTART=0
export PYTHONPATH TARN_SOCKET TARN_AUTOSTART
start_daemon 2>"$folder/log"
"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/replay.py" \
	"${TARN_BENCH_ROWS:-100000}" "${TARN_BENCH_ROUNDS:-5}"
