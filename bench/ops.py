# SPDX-License-Identifier: MIT
"""Operations on F32 beside PyTorch and numpy, on the same bytes, in turns: the
median of rounds of each, in milliseconds or microseconds, and how many times as
fast tarn is as the two. GB/s counts the bytes that an operation must move. With
one thread it is that thread's CPU time, so that other programs count for the
memory that they use only.

    ops.py [THREADS [WORD...]]     (numpy has one thread for all of these)

With words only rows whose names have one of them are run.

TARN_BENCH_MIB is the size of the large tensors (64), TARN_BENCH_ROUNDS the
rounds (9).
"""
import os
import statistics
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's
import numpy as np  # noqa: E402
import tarn  # noqa: E402
from tarn import _ops

try:
    import torch
except ImportError:
    torch = None

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
ROUNDS = int(os.environ.get("TARN_BENCH_ROUNDS", 9))
side = int((int(os.environ.get("TARN_BENCH_MIB", 64)) << 18) ** 0.5)
clock = time.thread_time if THREADS == 1 else time.perf_counter
_ops.set_threads(THREADS)
if torch:
    torch.set_num_threads(THREADS)


def once(call, repeat):
    begin = clock()
    for _ in range(repeat):
        call()
    return (clock() - begin) / repeat


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


def at_line(array):
    """The same at a line of the cache, as tarn's and PyTorch's own tensors."""
    array = array.astype("f4")
    room = np.empty(array.nbytes + 64, "u1")
    start = -room.ctypes.data % 64
    made = room[start:start + array.nbytes].view("f4").reshape(array.shape)
    made[...] = array
    return Three(made)


def random(*shape):
    return at_line(rng.normal(size=shape))


def out_of(*shape):
    return at_line(np.ones(shape))


a, b, o = random(side, side), random(side, side), out_of(side, side)
row, column = random(side), random(side, 1)
bt, at = b.each(lambda x: x.T), a.each(lambda x: x.T)
half = a.each(lambda x: x[:, ::2])
half2, oh = b.each(lambda x: x[:, ::2]), out_of(side, side // 2)
small, weight, so = random(32, 128), random(32, 128), out_of(32, 128)
one = out_of(1)
n = side * side * 4

images = random(32, 784)
layers = [random(128, 784), random(128), random(10, 128), random(10)]
tokens, heads = random(2, 10, 512), 8
inward, outward = random(1536, 512), random(512, 512)
queries = random(32, 12, 128, 32)


def mlp_tarn():
    w, b, v, c = (x.t for x in layers)
    return images.t.linear(w, b).relu().linear(v, c)


def mlp_torch():
    w, b, v, c = (x.p for x in layers)
    return torch.relu(images.p @ w.T + b) @ v.T + c


def mlp_numpy():
    w, b, v, c = (x.n for x in layers)
    return np.maximum(images.n @ w.T + b, 0) @ v.T + c


def split(x):
    return x.view(2, 10, heads, 64).transpose(1, 2)


def attention_tarn():
    x = tokens.t.linear(inward.t)
    q, k, v = (split(x[:, :, i:i + 512]) for i in (0, 512, 1024))
    x = q.attention(k, v).transpose(1, 2).reshape(2, 10, 512)
    return x.linear(outward.t)


def attention_torch():
    linear = torch.nn.functional.linear
    x = linear(tokens.p, inward.p)
    q, k, v = (split(x[:, :, i:i + 512]) for i in (0, 512, 1024))
    x = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return linear(x.transpose(1, 2).reshape(2, 10, 512), outward.p)


ONLY = sys.argv[2:]  # words of names
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
    ("linear 32x784 -> 128", lambda: images.n @ layers[0].n.T + layers[1].n,
     lambda: images.t.linear(layers[0].t, layers[1].t),
     lambda: torch.nn.functional.linear(images.p, layers[0].p, layers[1].p),
     0),
    ("MLP 784-128-10 of 32", mlp_numpy, mlp_tarn, mlp_torch, 0),
    ("attention 2x10x512", None, attention_tarn, attention_torch, 0),
    ("attention 32x12x128x32", None,
     lambda: queries.t.attention(queries.t, queries.t),
     lambda: torch.nn.functional.scaled_dot_product_attention(
         queries.p, queries.p, queries.p), 0),
    ("topk(a, 8)", None, lambda: a.t[:256].topk(8),
     lambda: a.p[:256].topk(8), 0),
]
if torch:
    p_weight, p_few = torch.randn(4096, 4096).bfloat16(), torch.randn(4, 4096)
    p_few = p_few.bfloat16()
    t_weight, t_few = tarn.from_dlpack(p_weight), tarn.from_dlpack(p_few)
    ROWS.append(("4x4096 by BF16 4096^2", None,
                 lambda: t_few.linear(t_weight),
                 lambda: torch.nn.functional.linear(p_few, p_weight), 0))

print(f"# {THREADS} threads; numpy {np.__version__}, "
      f"torch {torch.__version__ if torch else 'is not there'}")
print(f"{'':24}{'tarn':>10}{'GB/s':>7}{'/ numpy':>9}{'/ torch':>9}")
for name, by_numpy, by_tarn, by_torch, size in ROWS:
    if ONLY and not any(word in name for word in ONLY):
        continue
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
