#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Records of a tar shard of 20,000 pictures of some 30 KiB and their labels, from
# the page cache: tarn data bench, in order and shuffled, beside WebDataset, if it
# is installed, and tarfile, which read in order alone. All take turns.
#
# TARN_BENCH_PYTHON is a Python that has webdataset.
#
# Wanted: shuffled at least 3 times the best of the others.

set -eu
export LC_ALL=C
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-data-tar.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/data_tar.py" cli/tarn "$folder"
