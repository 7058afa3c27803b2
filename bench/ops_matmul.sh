#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Products beside cblas_sgemm, on one thread and on all; run in the build folder.
#
# Wanted: 0.97 of its rate and more, on as many threads.

set -eu
export LC_ALL=C
if ! [ -x bench/ops_matmul ]; then
	echo "left out: there is no BLAS in this build"
	exit 0
fi
for threads in 1 "$(nproc)"; do
	echo "threads: $threads"
	TARN_THREADS=$threads OPENBLAS_NUM_THREADS=$threads bench/ops_matmul "$@"
done
