# SPDX-License-Identifier: MIT
"""What numpy.take and torch.index_select take for random rows of 264 bytes.

    gather.py numpy|torch PID FD MIB

maps the table that bench/gather.c made, prints "ready", and answers each line
on stdin, a number of threads, by the nanoseconds for each row, the median of
some calls; or by nothing where it cannot use so many. Of both the result goes
to memory that is there, in the fastest way: numpy would copy it once more if it
had to refuse numbers that are out of range.
"""
import mmap
import os
import sys
import time

ROW, ROWS, CALLS, WARM = 264, 65536, 9, 40  # as gather.c has them
who, pid, fd, mib = sys.argv[1], *map(int, sys.argv[2:])
try:
    import numpy as np
    if who == "torch":
        import torch
except ImportError as e:
    sys.exit(f"gather.py: {e.name} is not installed: no reference")

size = mib << 20
file = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
memory = mmap.mmap(file, size)
memory.madvise(22)  # MADV_POPULATE_READ
rows = size // ROW
table = np.frombuffer(memory, np.float32, rows * ROW // 4).reshape(rows, -1)
out = np.ones((ROWS, ROW // 4), np.float32)
random = np.random.default_rng(0)
if who == "torch":
    t_table, t_out = torch.from_numpy(table), torch.from_numpy(out)


def take(numbers):
    np.take(table, numbers, 0, out, "clip")


def index_select(numbers):
    torch.index_select(t_table, 0, numbers, out=t_out)


def measure(threads):
    if who == "numpy" and threads > 1:
        return ""
    if who == "torch":
        torch.set_num_threads(threads)
        if torch.get_num_threads() != threads:
            return ""
    times = []
    for _ in range(WARM + CALLS):
        numbers = random.integers(0, rows, ROWS)
        given = torch.from_numpy(numbers) if who == "torch" else numbers
        begun = time.perf_counter_ns()
        (index_select if who == "torch" else take)(given)
        times.append((time.perf_counter_ns() - begun) / ROWS)
    if not np.array_equal(out, table[numbers]):
        sys.exit(f"gather.py: {who}: wrong rows")
    return f"{sorted(times[WARM:])[CALLS // 2]:.1f}"


print("ready", flush=True)
for line in sys.stdin:
    print(measure(int(line)), flush=True)
