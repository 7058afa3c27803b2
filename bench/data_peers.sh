#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tarn.data beside its peers: windows of 1,024 tokens of one Megatron corpus, shuffled
# as a whole, from the page cache, at 1, 2 and 4 ranks; the first batch, and the one
# at sample 10^9; opening a corpus of many documents; packing. See data_peers.py.
#
# TARN_BENCH_PYTHON is a Python that has torch, megatron-core, mosaicml-streaming,
# litdata and grain; those that it lacks are skipped by name. TARN_BENCH_MIB are the
# tokens' MiB, TARN_BENCH_SECONDS how long each reads, TARN_BENCH_RANKS the numbers of
# ranks, TARN_BENCH_DOCUMENTS those of the corpus that is opened; or --documents N.
#
# Wanted: 3 times the best peer's samples a second, and no growth of private memory
# with ranks; 50 ms until the first batch, and at sample 10^9; 10^8 documents opened
# in 100 ms, with 1 MiB; 98 % of the tokens of packed sequences used, and 20 M
# tokens/s planned.

set -eu
export LC_ALL=C
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-peers.XXXXXX")
# shellcheck source=bench/daemon.sh
. "$(dirname "$0")/daemon.sh"
start_daemon 2>"$folder/log"
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
TARN_SOCKET=$folder/sock
TARN_AUTOSTART=0
export PYTHONPATH TARN_SOCKET TARN_AUTOSTART
"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/data_peers.py" "$folder" "$@"
