#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Saving tensors from memory, synced and in place, without and with checksums,
# beside fio writing and syncing as many bytes in the same pattern to a new
# file, and beside the reference library's save_file with an fsync behind it,
# where that is installed. Medians of five rounds in turns.
#
# Wanted: at least 0.97 of fio's rate, at most 40 ms of CPU per GiB.

set -eu
export LC_ALL=C
size=${TARN_BENCH_MIB:-2048}
folder=$(mktemp -d "${TMPDIR:-.}/tarn-bench-save.XXXXXX")
file=$folder/save.safetensors
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
have_fio=no # until fio.sh knows
. "$(dirname "$0")/fio.sh"

# Its own clock begins with the first write and ends behind the sync.
run_fio_write() {
	rm -f "$file"
	fio --name=save --filename="$file" --rw=write --ioengine=io_uring \
		--direct=1 --bs=512k --iodepth=32 --fixedbufs=1 \
		--registerfiles=1 --fallocate=native --end_fsync=1 \
		--size="${size}M" --output-format=json >"$file.fio" 2>&1 || {
		echo "fio failed:"
		sed 's/^/  /' "$file.fio"
		return 1
	}
	rm -f "$file"
	tr -d ',' <"$file.fio" | awk -v mib="$size" '
	$1 == "\"write\"" { in_write = 1 }
	in_write && $1 == "\"runtime\"" && !ms { ms = $3 }
	$1 == "\"job_runtime\"" && !all { all = $3 }
	$1 == "\"usr_cpu\"" { cpu += $3 }
	$1 == "\"sys_cpu\"" { cpu += $3 }
	END { if (ms < all) ms = all; printf "fio: %.3f GiB/s, %.1f ms of CPU per GiB\n",
		mib / 1024 / (ms / 1000), cpu / 100 * ms / (mib / 1024) }'
}

python=${TARN_BENCH_PYTHON:-python3}
have_reference=yes
"$python" -c 'import safetensors.numpy' 2>/dev/null || {
	have_reference=no
	echo "safetensors is not installed: no reference library"
}

run_reference() {
	"$python" - "$file" "$size" <<'END'
import os, sys, time
import numpy as np
from safetensors.numpy import save_file
path, mib = sys.argv[1], int(sys.argv[2])
n = mib * (1 << 20) // 8 // 4
t = {f"tensor.{i}": np.arange(n, dtype="u4").view("f4") for i in range(8)}
start, cpu = time.monotonic(), time.process_time()
save_file(t, path)
fd = os.open(path, os.O_RDONLY)
os.fsync(fd)
seconds = time.monotonic() - start
print(f"reference: {mib / 1024 / seconds:.3f} GiB/s, "
      f"{(time.process_time() - cpu) * 1000 / (mib / 1024):.1f} ms of CPU "
      "per GiB")
END
	rm -f "$file"
}

: >"$file.log"
for round in 1 2 3 4 5; do
	echo "round $round"
	[ $have_fio = no ] || run_fio_write | tee -a "$file.log"
	sleep 1
	bench/save "$file" "$size" 4096 | tee -a "$file.log"
	[ $have_reference = no ] || run_reference | tee -a "$file.log"
	sleep 1
done
echo "medians of five, $size MiB (wanted: 0.97 of fio, 40 ms):"
summary tarn checksums reference
