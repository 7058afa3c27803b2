#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What decode= returns, of 1 ms of work for a sample, kept by a tarn.data.Cache: the
# time of a sample of a batch that is decoded; decoded and kept; found in the next
# epoch; found there by a transform of each sample, which gets a copy; and that of a
# decode that does nothing, which is the loader's own. One process, in turns.
#
# Wanted: found in less than a tenth of the decoding, and kept for less than a half
# of it.

set -eu
export LC_ALL=C
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-data-cache.XXXXXX")
# shellcheck source=bench/daemon.sh
. "$(dirname "$0")/daemon.sh"
start_daemon 2>/dev/null
PYTHONPATH=$PWD/python "${TARN_BENCH_PYTHON:-python3}" \
	"$(dirname "$0")/data_cache.py" "$folder/sock"
