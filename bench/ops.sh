#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Operations on large and small tensors of F32 beside PyTorch and numpy; see
# ops.py. TARN_BENCH_PYTHON is the Python that has them; the arguments are
# numbers of threads (1 and 2).
#
# Wanted: at least PyTorch's speed in every row of a large tensor, three times
# that in the small ones.
set -eu
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
[ $# -gt 0 ] || set -- 1 2
for threads; do
	"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/ops.py" "$threads"
done
