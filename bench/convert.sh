#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Conversion of runs, beside memcpy of the larger side and beside numpy's
# astype into memory that was touched before (a new array each time would pay
# for its pages). GB/s of the larger side and of CPU time, medians of three
# rounds in turns.
#
# Wanted: no hot pair slower than memcpy by much, none slower than numpy.

set -eu
export LC_ALL=C
mib=${TARN_BENCH_MIB:-64}
python=${PYTHON:-/usr/bin/python3}
log=$(mktemp "${TMPDIR:-.}/tarn-bench-convert.XXXXXX")
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

numpy() {
	"$python" - "$mib" <<-'END'
	import sys, time
	import numpy as np
	size = int(sys.argv[1]) << 20
	names = {"u8": "u1", "i8": "i1", "f16": "f2", "f32": "f4", "f64": "f8",
	         "i32": "i4", "i64": "i8"}
	pairs = """u8-f32 u8-f32-scaled u8-f16 u8-f16-scaled i8-f32
	f32-f32-scaled f32-f16 f16-f32 f32-f64 f64-f32 f32-u8 f32-i8 i32-f32
	i32-f64 i64-f32 i64-f64 f32-i32 f64-i64 i32-i64 i64-i32 f64-f16""".split()
	a, b = (np.full(size, 0x40, np.uint8) for _ in range(2))
	np.seterr(all="ignore")
	for pair in pairs:
	    src, dst, *scaled = pair.split("-")
	    src, dst = np.dtype(names[src]), np.dtype(names[dst])
	    n = size // max(src.itemsize, dst.itemsize)
	    x = a[:n * src.itemsize].view(src)
	    y = b[:n * dst.itemsize].view(dst)
	    x[...] = 100
	    seconds = []
	    for _ in range(3):
	        begin = time.thread_time()
	        if scaled:
	            np.multiply(x, dst.type(1 / 255), out=y, dtype=dst,
	                        casting="unsafe")
	            np.add(y, dst.type(-.5), out=y)
	        else:
	            np.copyto(y, x, casting="unsafe")
	        seconds.append(time.thread_time() - begin)
	    print(pair, "numpy", round(size / 1e9 / sorted(seconds)[1], 2))
	END
}

have_numpy=yes
"$python" -c 'import numpy' 2>/dev/null || {
	have_numpy=no
	echo "numpy is not installed: no reference (install python3-numpy)"
}
for _ in 1 2 3; do
	bench/convert "$mib" >>"$log"
	[ $have_numpy = no ] || numpy >>"$log"
done

# The middle of three: all of them less the largest and the least.
awk '
{
	key = $1 " " $2
	if (!($1 in seen)) { seen[$1]; order[++n] = $1 }
	if (!(key in sum) || $3 > most[key]) most[key] = $3
	if (!(key in sum) || $3 < least[key]) least[key] = $3
	sum[key] += $3
}
function middle(key) { return sum[key] - most[key] - least[key] }
END {
	printf "%-16s %6s %7s %6s %10s %9s\n", "GB/s", "tarn", "memcpy",
		"numpy", "of memcpy", "of numpy"
	for (i = 1; i <= n; i++) {
		t = middle(order[i] " tarn")
		m = middle(order[i] " memcpy")
		printf "%-16s %6.2f %7.2f", order[i], t, m
		if ((order[i] " numpy") in sum) {
			p = middle(order[i] " numpy")
			printf " %6.2f %9.2f %10.2f\n", p, t / m, t / p
		} else
			printf " %6s %9.2f\n", "-", t / m
	}
}' "$log"
