#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Batches a second through the loader for PyTorch beside PyTorch's own; see
# py_loader.py. TARN_BENCH_PYTHON is the Python that has torch.
set -eu
export PYTHONPATH="python${PYTHONPATH:+:$PYTHONPATH}"
exec "${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/py_loader.py"
