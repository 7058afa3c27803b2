#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Hand-overs in Python, there and back between two processes, blocking: 16 MiB
# in a slot beside torch.multiprocessing's queue (which copies it to /dev/shm, or
# is given what lies there) and beside a pool of segments whose numbers are
# sent; 114 small arrays by put and get beside a queue that pickles. All take
# turns; median of the rounds, and the lowest. A daemon of its own.
#
# TARN_BENCH_PYTHON is a Python that has numpy and torch.
#
# Wanted: big-hand-over at most 15 us.

set -eu
export LC_ALL=C
python=${TARN_BENCH_PYTHON:-python3}
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-py-channel.XXXXXX")
. "$(dirname "$0")/daemon.sh"

PYTHONPATH=$PWD/python
TARN_SOCKET=$folder/sock
TARN_AUTOSTART=0
export PYTHONPATH TARN_SOCKET TARN_AUTOSTART
"$python" -c 'import numpy, tarn' 2>/dev/null || {
	echo "no Python with numpy and this build's module: nothing to measure"
	exit 0
}
start_daemon 2>"$folder/log"

"$python" "$(dirname "$0")/py_channel.py" | awk '
{
	key = $1 " " $2
	if (!n[key]++)
		order[++keys] = key
	v[key, n[key]] = $3
}
END {
	printf "%-28s %10s %10s\n", "us, there and back", "median", "lowest"
	for (k = 1; k <= keys; k++) {
		key = order[k]
		for (i = 2; i <= n[key]; i++)
			for (j = i; j > 1 && v[key, j] < v[key, j - 1]; j--) {
				t = v[key, j]; v[key, j] = v[key, j - 1]
				v[key, j - 1] = t
			}
		printf "%-28s %10.1f %10.1f\n", key,
			v[key, int((n[key] + 1) / 2)], v[key, 1]
	}
}'
