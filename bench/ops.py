# SPDX-License-Identifier: MIT
"""Operations on F32 beside PyTorch and numpy, on the same bytes, in turns: the
median of rounds of each, in milliseconds or microseconds, and how many times as
fast tarn is as the two. GB/s counts the bytes that an operation must move.

    ops.py [THREADS]     (numpy has one thread for all of these)

TARN_BENCH_MIB is the size of the large tensors (64), TARN_BENCH_ROUNDS the
rounds (9).
"""
import os
import statistics
import sys
import time

import numpy as np
import tarn
from tarn import _ops

try:
    import torch
except ImportError:
    torch = None

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
ROUNDS = int(os.environ.get("TARN_BENCH_ROUNDS", 9))
side = int((int(os.environ.get("TARN_BENCH_MIB", 64)) << 18) ** 0.5)
_ops.set_threads(THREADS)
if torch:
    torch.set_num_threads(THREADS)


def once(call, repeat):
    begin = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - begin) / repeat


def measure(calls, least=0.004):
    """Medians of calls, which take turns."""
    repeat = []
    for call in calls:
        call()
        call()
        repeat.append(max(1, int(least / max(once(call, 2), 1e-9))))
    found = [[] for _ in calls]
    for _ in range(ROUNDS):
        for times, call, n in zip(found, calls, repeat):
            times.append(once(call, n))
    return [statistics.median(times) for times in found]


class Three:
    """One array as each library sees it."""

    def __init__(self, array):
        self.n = array
        self.t = tarn.from_numpy(array)
        self.p = torch.from_numpy(array) if torch else None

    def each(self, view):
        made = object.__new__(Three)
        made.n, made.t = view(self.n), view(self.t)
        made.p = view(self.p) if torch else None
        return made


rng = np.random.default_rng(0)


def random(*shape):
    return Three(rng.normal(size=shape).astype("f4"))


def out_of(*shape):
    return Three(np.ones(shape, "f4"))


a, b, o = random(side, side), random(side, side), out_of(side, side)
row, column = random(side), random(side, 1)
bt, at = b.each(lambda x: x.T), a.each(lambda x: x.T)
half = a.each(lambda x: x[:, ::2])
half2, oh = b.each(lambda x: x[:, ::2]), out_of(side, side // 2)
small, weight, so = random(32, 128), random(32, 128), out_of(32, 128)
one = out_of(1)
n = side * side * 4




ROWS = [  # name, numpy, tarn, torch, bytes
    ("copy", lambda: np.copyto(o.n, a.n), lambda: o.t.copy_(a.t),
     lambda: o.p.copy_(a.p), 2 * n),
    ("a + b", lambda: np.add(a.n, b.n, o.n), lambda: a.t.add(b.t, o.t),
     lambda: torch.add(a.p, b.p, out=o.p), 3 * n),
    ("a * 2", lambda: np.multiply(a.n, np.float32(2), o.n),
     lambda: a.t.mul(2, o.t), lambda: torch.mul(a.p, 2, out=o.p), 2 * n),
    ("a += b", lambda: np.add(o.n, b.n, o.n), lambda: o.t.add(b.t, o.t),
     lambda: o.p.add_(b.p), 3 * n),
    ("a + row", lambda: np.add(a.n, row.n, o.n), lambda: a.t.add(row.t, o.t),
     lambda: torch.add(a.p, row.p, out=o.p), 2 * n),
    ("a + column", lambda: np.add(a.n, column.n, o.n),
     lambda: a.t.add(column.t, o.t),
     lambda: torch.add(a.p, column.p, out=o.p), 2 * n),
    ("a + b.T", lambda: np.add(a.n, bt.n, o.n), lambda: a.t.add(bt.t, o.t),
     lambda: torch.add(a.p, bt.p, out=o.p), 3 * n),
    ("a.T + b.T", lambda: np.add(at.n, bt.n, o.n),
     lambda: at.t.add(bt.t, o.t), lambda: torch.add(at.p, bt.p, out=o.p),
     3 * n),
    ("a[:, ::2] + b[:, ::2]", lambda: np.add(half.n, half2.n, oh.n),
     lambda: half.t.add(half2.t, oh.t),
     lambda: torch.add(half.p, half2.p, out=oh.p), 5 * n / 2),
    ("a > b", lambda: np.greater(a.n, b.n), lambda: a.t.gt(b.t),
     lambda: torch.gt(a.p, b.p), 9 * n / 4),
    ("exp(a)", lambda: np.exp(a.n, o.n), lambda: a.t.exp(o.t),
     lambda: torch.exp(a.p, out=o.p), 2 * n),
    ("tanh(a)", lambda: np.tanh(a.n, o.n), lambda: a.t.tanh(o.t),
     lambda: torch.tanh(a.p, out=o.p), 2 * n),
    ("gelu(a)", None, lambda: a.t.gelu(o.t),
     lambda: torch.nn.functional.gelu(a.p), 2 * n),
    ("sigmoid(a)", None, lambda: a.t.sigmoid(o.t),
     lambda: torch.sigmoid(a.p, out=o.p), 2 * n),
    ("sum(a)", lambda: a.n.sum(), lambda: a.t.sum(), lambda: a.p.sum(), n),
    ("sum(a, 0)", lambda: a.n.sum(0), lambda: a.t.sum(0), lambda: a.p.sum(0),
     n),
    ("sum(a, 1)", lambda: a.n.sum(1), lambda: a.t.sum(1), lambda: a.p.sum(1),
     n),
    ("sum(a.T, 1)", lambda: at.n.sum(1), lambda: at.t.sum(1),
     lambda: at.p.sum(1), n),
    ("max(a)", lambda: a.n.max(), lambda: a.t.amax(), lambda: a.p.amax(), n),
    ("max(a, 0)", lambda: a.n.max(0), lambda: a.t.amax(0),
     lambda: a.p.amax(0), n),
    ("32x128: x + w", lambda: small.n + weight.n,
     lambda: small.t + weight.t, lambda: small.p + weight.p, 0),
    ("32x128: x + w, out", lambda: np.add(small.n, weight.n, so.n),
     lambda: small.t.add(weight.t, so.t),
     lambda: torch.add(small.p, weight.p, out=so.p), 0),
    ("32x128: sum(x, 0)", lambda: small.n.sum(0), lambda: small.t.sum(0),
     lambda: small.p.sum(0), 0),
]

print(f"# {THREADS} threads; numpy {np.__version__}, "
      f"torch {torch.__version__ if torch else 'is not there'}")
print(f"{'':24}{'tarn':>10}{'GB/s':>7}{'/ numpy':>9}{'/ torch':>9}")
for name, by_numpy, by_tarn, by_torch, size in ROWS:
    calls = {"tarn": by_tarn}
    if by_numpy:
        calls["numpy"] = by_numpy
    if torch:
        calls["torch"] = by_torch
    found = dict(zip(calls, measure(list(calls.values()))))
    mine = found["tarn"]
    text = f"{mine * 1e3:7.2f} ms" if size else f"{mine * 1e6:7.2f} us"
    speed = f"{size / mine / 1e9:7.1f}" if size else " " * 7
    beside = "".join(f"{found[who] / mine:9.2f}" if who in found else
                     f"{'':9}" for who in ("numpy", "torch"))
    print(f"{name:24}{text:>10}{speed}{beside}", flush=True)
