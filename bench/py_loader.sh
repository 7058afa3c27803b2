#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Batches a second through the loader for PyTorch beside PyTorch's own; see
# py_loader.py. TARN_BENCH_PYTHON is the Python that has torch. A daemon of its
# own: one that runs already may be of another version.
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-py-loader.XXXXXX")
. "$(dirname "$0")/daemon.sh"

PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
TARN_SOCKET=$folder/sock
TARN_AUTOSTART=0
export PYTHONPATH TARN_SOCKET TARN_AUTOSTART
start_daemon 2>"$folder/log"
"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/py_loader.py"
