#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Masks and lists of indices in [], rows, products and other places, beside
numpy's."""
import sys

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

try:
    from tarn import _ops as ops
except ImportError as e:
    kit.skip_all(str(e))

rng = np.random.default_rng(3)
x = rng.normal(size=(4, 5, 6)).astype("f4")
t = tarn.tensor(x)


def same(got, want, what, tolerance=0):
    got, want = np.asarray(got.numpy()), np.asarray(want)
    kit.ok(got.shape == want.shape and (
        np.allclose(got, want, tolerance, tolerance) if tolerance else
        np.array_equal(got, want)), what, got.shape, want.shape, got, want)


# ---- keys ----
KEYS = {
    "a list": [0, 2], "an array": np.array([1, -1]),
    "a list of the second dimension": (slice(None), [0, 2]),
    "a list between slices": (slice(1, 3), [0, 2], slice(None, None, 2)),
    "a list behind an integer": (0, [1, 3]),
    "two lists": ([0, 1], [1, 2]), "three lists": ([0, 1], [1, -2], [3, 4]),
    "a list behind an ellipsis": (..., [0, 5]),
    "a list behind None": (None, [1, 2]), "a mask": x > 0,
    "a mask of the first dimension": x[:, 0, 0] > 0,
    "a mask of two dimensions": x[..., 0] > 0,
    "a mask behind a slice": (slice(None), x[0] > 0),
    "a mask behind an integer": (0, x[0] > 0),
    "a matrix of indices": np.array([[0, 1], [2, 3]]),
    "a matrix of indices behind a slice":
    (slice(None), np.array([[0, 1], [2, 3]])),
}
for name, key in KEYS.items():
    same(t[key], x[key], f"{name} picks what numpy's does")
    want, got = x.copy(), tarn.tensor(x)
    want[key] = 7
    got[key] = 7
    same(got, want, f"a number is written through {name}")
    value = rng.normal(size=x[key].shape).astype("f4")
    want[key] = value
    got[key] = value
    same(got, want, f"an array is written through {name}")
same(t.transpose(0, 2)[[0, -1], 1], x.transpose(2, 1, 0)[[0, -1], 1],
     "a list picks from a view")
same(t[tarn.tensor(x) > 0], x[x > 0],
     "a Tensor is a mask")
kit.equal(t[[]].shape, (0, 5, 6), "an empty list picks nothing")
for what, key, part in (("a number beyond", [9], "there are 4"),
                        ("lists apart", ([0, 1], slice(None), [1, 2]),
                         "follow each other"),
                        ("a mask of another shape", x[:3] > 0, "[3, 5, 6]"),
                        ("a list of floats", [1.5], "BOOL"),
                        ("a text", "a", "does neither")):
    kit.raises(IndexError, part, f"{what} is no key", lambda: t[key])
locked = np.ones((3, 2), "f4")
locked.flags.writeable = False
kit.raises(ValueError, "read-only", "a read-only tensor is not written",
           tarn.from_numpy(locked).__setitem__, [0, 1], 5)

# ---- rows ----
e = np.exp(x.astype("f8"))
for dim in (-1, 1, 0):
    same(t.softmax(dim), e / e.sum(dim, keepdims=True), f"softmax({dim})",
         1e-6)
    same(t.log_softmax(dim), np.log(e / e.sum(dim, keepdims=True)),
         f"log_softmax({dim})", 1e-5)
    same(t.cumsum(dim), x.cumsum(dim), f"cumsum({dim})", 1e-5)
    same(t.argmax(dim), x.argmax(dim), f"argmax({dim})")
    same(t.logsumexp(dim), np.log(e.sum(dim)), f"logsumexp({dim})", 1e-6)
    values, places = t.max(dim)
    same(values, x.max(dim), f"max({dim}) has values")
    same(places, x.argmax(dim), f"max({dim}) has places")
    values, places = t.sort(dim)
    same(values, np.sort(x, dim), f"sort({dim}) has values")
    same(places, np.argsort(x, dim, kind="stable"), f"sort({dim}) has places")
same(t.max(), x.max(), "max() has the value alone")
same(t.argmin(), x.argmin(), "argmin()")
same(t.var(), x.var(ddof=1), "var()", 1e-6)
same(t.std(0, correction=0), x.std(0), "std(0, correction=0)", 1e-6)
same(t.norm(), np.sqrt((x * x).sum()), "norm()", 1e-6)
same(t.norm(1, dim=2), abs(x).sum(2), "norm(1, dim=2)", 1e-6)
same(t.layer_norm(), (x - x.mean(-1, keepdims=True)) / np.sqrt(
    x.var(-1, keepdims=True) + 1e-5), "layer_norm()", 1e-5)
same(t.rms_norm(2, weight=np.full((5, 6), 2, "f4")), 2 * x / np.sqrt(
    (x * x).mean((1, 2), keepdims=True) + 1e-6), "rms_norm(2, weight)", 1e-5)
same(t.topk(2, 0)[0], -np.sort(-x, 0)[:2], "topk(2, 0)")


def first_ones(dtype):
    """Whether topk() gives what a stable sort does: many equal ones, NaN."""
    for _ in range(200):
        n, span = rng.integers(1, 700), rng.choice([3, 1000])
        x = rng.integers(0, span, size=(2, n)).astype(dtype)
        if dtype[0] == "f":
            x[rng.random(x.shape) < 0.05] = np.nan
        k, largest = int(rng.integers(0, n + 1)), bool(rng.integers(2))
        if rng.integers(2):
            k = min(k, 20)
        key = x.astype("f8")
        if largest:
            key = np.where(np.isnan(key), -np.inf, -key)
        order = np.argsort(key, 1, "stable")[:, :k]
        values, places = tarn.tensor(x).topk(k, largest=largest)
        if not (np.array_equal(places.numpy(), order) and np.array_equal(
                values.numpy(), np.take_along_axis(x, order, 1),
                equal_nan=dtype[0] == "f")):
            print(f"# {x!r}, k={k}, largest={largest}: {places.numpy()!r}")
            return False
    return True


for dtype in "f4", "f8", "i4", "i8", "u1", "i2":
    kit.ok(first_ones(dtype), f"topk() of {dtype} is a stable sort's")

# ---- products ----
w = rng.normal(size=(3, 6)).astype("f4")
same(t @ t.transpose(1, 2), x @ x.transpose(0, 2, 1), "@ of stacks", 1e-5)
same(t @ np.ones(6, "f4"), x @ np.ones(6, "f4"), "@ of a stack and a vector",
     1e-5)
same(t.linear(w, np.ones(3, "f4")), x @ w.T + 1, "linear()", 1e-5)
kit.raises(ValueError, "[4, 5, 6]", "@ of shapes that do not fit",
           lambda: t @ t)
q = rng.normal(size=(2, 3, 7, 8)).astype("f4")
s = np.exp(q @ q.transpose(0, 1, 3, 2) / 8 ** 0.5)
same(tarn.tensor(q).attention(q, q), s / s.sum(-1, keepdims=True) @ q,
     "attention()", 1e-5)
s *= np.tril(np.ones((7, 7)))
same(tarn.tensor(q).attention(q, q, is_causal=True),
     s / s.sum(-1, keepdims=True) @ q, "attention(is_causal=True)", 1e-5)
signal = rng.normal(size=(1, 1, 20)).astype("f4")
kernel = rng.normal(size=(1, 1, 5)).astype("f4")
same(tarn.tensor(signal).conv(kernel, stride=3).reshape(-1),
     np.correlate(signal.ravel(), kernel.ravel(), "valid")[::3],
     "conv(stride=3)", 1e-5)
same(tarn.tensor(signal).max_pool(4), signal.reshape(1, 1, 5, 4).max(-1),
     "max_pool(4)")
same(tarn.tensor(signal).avg_pool(4), signal.reshape(1, 1, 5, 4).mean(-1),
     "avg_pool(4)", 1e-6)

# ---- other places ----
same(t.tril(), np.tril(x), "tril()")
same(t.triu(1), np.triu(x, 1), "triu(1)")
same(t.roll((1, 2), (0, 2)), np.roll(x, (1, 2), (0, 2)), "roll()")
same(ops.cat([t, x], 1), np.concatenate([x, x], 1), "cat()")
same(ops.stack([t, t], -1), np.stack([x, x], -1), "stack()")
same(t.pad((1, 2)), np.pad(x, ((0, 0), (0, 0), (1, 2))), "pad()")
same(t.pad((1, 2, 0, 1), mode="reflect"),
     np.pad(x, ((0, 0), (0, 1), (1, 2)), "reflect"), "pad(mode='reflect')")
same(t.nonzero(), np.argwhere(x), "nonzero()")
same(t.take([0, -1, 5]), x.ravel()[[0, -1, 5]], "take()")
places = np.argsort(x, 1)
same(t.take_along_dim(1, places), np.take_along_axis(x, places, 1),
     "take_along_dim()")
u = tarn.tensor(x)
kit.ok(u.masked_fill_(x > 0, 0) is u, "masked_fill_ gives the tensor back")
same(u, np.where(x > 0, np.float32(0), x), "masked_fill_ writes")
sys.exit(kit.finish())
