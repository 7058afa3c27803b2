#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions of tarn.array_api beside numpy's, in random cases of any dtype, shape
and strides, and the special cases of the standard. TARN_SEED repeats a run; the
seed is in each failure.
"""
import math
import os
import warnings

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

try:
    from tarn import array_api as xp
except ImportError as e:
    kit.skip_all(str(e))

warnings.simplefilter("ignore")
seed = int(os.environ.get("TARN_SEED", np.random.SeedSequence().entropy
                          % 2 ** 32))
rng = np.random.default_rng(seed)
CASES = int(os.environ.get("TARN_CASES", "150"))
BOOL, INTEGERS, FLOATS = "?", "bhiqBHIQ", "fd"
NUMERIC, ALL = INTEGERS + FLOATS, BOOL + INTEGERS + FLOATS
faults = {}


def numbers(code, shape, special=True):
    """Random ones, in any strides."""
    if code == BOOL:
        a = rng.integers(0, 2, shape).astype("?")
    elif code in FLOATS:
        a = rng.choice([-2.5, -1, -.5, 0., .25, .5, 1, 3, 1e3], shape) + \
            rng.integers(0, 2, shape) * rng.normal(size=shape)
        if special and rng.random() < .3:
            a = np.where(rng.random(shape) < .1, rng.choice(
                [np.nan, np.inf, -np.inf, -0.]), a)
    else:
        i = np.iinfo(code)
        a = rng.integers(max(i.min, -40), 40, shape) if rng.random() < .7 else \
            rng.integers(i.min, i.max, shape, code, endpoint=True)
    a = np.asarray(a).astype(code)
    if a.ndim > 1 and rng.random() < .4:
        a = np.asfortranarray(a)
    if a.ndim and rng.random() < .3:
        a = np.repeat(a, 2, -1)[..., ::2]
    return a


def shape_of(least=0, most=4):
    return tuple(int(n) for n in rng.choice(
        [0, 1, 2, 3, 5, 8, 19], rng.integers(least, most + 1),
        p=[.05, .2, .2, .2, .2, .1, .05]))


def smaller(shape):
    """One that broadcasts to it."""
    part = [1 if rng.random() < .3 else n for n in shape]
    return tuple(part[rng.integers(0, len(part) + 1):])


def same(got, want, tolerance):
    got, want = got.numpy(), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind != "f":
        return np.array_equal(got, want)
    return np.allclose(got, want, rtol=tolerance, atol=tolerance,
                       equal_nan=True)


def judge(what, got, want, tolerance=0):
    wanted = want if isinstance(want, (tuple, list)) else [want]
    gotten = got if isinstance(want, (tuple, list)) else [got]
    if len(wanted) != len(gotten) or not all(
            same(g, w, tolerance) for g, w in zip(gotten, wanted)):
        faults.setdefault(what[0], []).append((what, wanted, gotten))


def report(what, cases):
    shown = [f for name in faults for f in faults[name][:1]]
    kit.ok(not faults, f"{cases} random cases: {what} as numpy's", f"seed {seed}",
           *sorted(faults), *shown[:3])
    faults.clear()


# ---- element by element ----
FLOAT_UNARY = {n: getattr(np, n, None) for n in (
    "cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan tanh reciprocal"
    ).split()}
FLOAT_UNARY.update(acos=np.arccos, acosh=np.arccosh, asin=np.arcsin,
                   asinh=np.arcsinh, atan=np.arctan, atanh=np.arctanh)
EXACT_UNARY = {n: (getattr(np, n), NUMERIC) for n in (
    "abs ceil floor isfinite isinf isnan negative positive real round sign "
    "square trunc").split()}
EXACT_UNARY.update(
    bitwise_invert=(np.invert, BOOL + INTEGERS), signbit=(np.signbit, FLOATS),
    logical_not=(np.logical_not, ALL), conj=(np.conj, NUMERIC),
    imag=(lambda a: np.zeros_like(a), NUMERIC))
BINARY = {n: (getattr(np, n), NUMERIC) for n in (
    "add subtract multiply maximum minimum less less_equal greater "
    "greater_equal").split()}
BINARY.update({n: (getattr(np, n), ALL) for n in (
    "equal not_equal logical_and logical_or logical_xor").split()})
BINARY.update({n: (getattr(np, n), BOOL + INTEGERS) for n in (
    "bitwise_and bitwise_or bitwise_xor").split()})
FLOAT_BINARY = {n: getattr(np, n) for n in (
    "copysign divide hypot logaddexp nextafter floor_divide remainder").split()}
FLOAT_BINARY.update(atan2=np.arctan2, pow=np.power)


def elements_case():
    shape = shape_of()
    code = str(rng.choice(list(ALL)))
    a, b = numbers(code, shape), numbers(code, smaller(shape))
    if rng.random() < .5:
        a, b = b, a
    s, t = xp.asarray(a), xp.asarray(b)
    for name, (f, codes) in EXACT_UNARY.items():
        if code in codes:
            # Older ones make floats of integers.
            rounds = name in "ceil floor trunc round".split()
            want = a if rounds and code in INTEGERS else f(a)
            judge((name, code, a), getattr(xp, name)(s), want)
    for name, (f, codes) in BINARY.items():
        if code in codes:
            judge((name, code, a, b), getattr(xp, name)(s, t), f(a, b))
    if code in FLOATS:
        tolerance = 2e-5 if code == "f" else 1e-12
        for name, f in FLOAT_UNARY.items():
            judge((name, code, a), getattr(xp, name)(s), f(a), tolerance)
        for name, f in FLOAT_BINARY.items():
            judge((name, code, a, b), getattr(xp, name)(s, t), f(a, b),
                  tolerance)
        low, high = sorted(rng.normal(size=2))
        judge(("clip", code, a, low, high), xp.clip(s, low, high),
              np.clip(a, a.dtype.type(low), a.dtype.type(high)))
    elif code in INTEGERS:
        b = np.where(b == 0, b.dtype.type(3), b)
        t = xp.asarray(b)
        for name in "floor_divide", "remainder":
            judge((name, code, a, b), getattr(xp, name)(s, t),
                  getattr(np, name)(a, b))
        bits = (np.abs(b.astype("f8")) % (8 * b.itemsize)).astype(code)
        for ours, theirs in (("bitwise_left_shift", np.left_shift),
                             ("bitwise_right_shift", np.right_shift)):
            judge((ours, code, a, bits), getattr(xp, ours)(s, xp.asarray(bits)),
                  theirs(a, bits))
        powers = np.asarray(bits % 5, code)
        judge(("pow", code, a, powers), xp.pow(s, xp.asarray(powers)),
              np.power(a, powers))
    c = numbers(BOOL, smaller(shape))
    judge(("where", code, c, a, b), xp.where(xp.asarray(c), s, t),
          np.where(c, a, b))


for _ in range(CASES):
    elements_case()
report("elements", CASES)


# ---- reductions ----
def any_axis(ndim):
    kind = rng.integers(0, 3)
    if kind == 0 or not ndim:
        return None
    axes = [int(a) - (ndim if rng.random() < .3 else 0) for a in
            rng.permutation(ndim)[:rng.integers(0, ndim + 1)]]
    return tuple(axes) if kind == 1 else int(rng.integers(-ndim, ndim))


def wide(code):
    return code if code in FLOATS else "Q" if code in "BHIQ" else "q"


def reductions_case():
    shape = shape_of()
    code = str(rng.choice(list(ALL)))
    a = numbers(code, shape, rng.random() < .2)
    t, axis, keep = xp.asarray(a), any_axis(a.ndim), bool(rng.integers(0, 2))
    to = {"axis": axis, "keepdims": keep}
    tolerance = {"f": 2e-4, "d": 1e-10}.get(code, 0)
    what = code, a, axis, keep
    if code not in "?":
        big = np.nan_to_num(a, posinf=0, neginf=0) if code in FLOATS else a
        judge(("sum", *what), xp.sum(xp.asarray(big), **to),
              np.sum(big, dtype=wide(code), **to), tolerance * 1e3)
        judge(("prod", *what), xp.prod(xp.clip(t, -2, 2) if code in FLOATS
                                       else t, **to),
              np.prod(np.clip(a, -2, 2) if code in FLOATS else a,
                      dtype=wide(code), **to), tolerance * 1e3)
    small = np.clip(a, -3, 3) if code in FLOATS else a
    if code in "bB":
        judge(("sum, dtype", *what), xp.sum(t, dtype="int16", **to),
              np.sum(a, dtype="h", **to))
    for name in "any", "all", "count_nonzero":
        want = getattr(np, name)(a, axis=axis, keepdims=keep)
        judge((name, *what), getattr(xp, name)(t, **to),
              np.asarray(want, "q") if name == "count_nonzero" else want)
    if code in FLOATS:
        correction = float(rng.choice([0, 1, .5]))
        u = xp.asarray(small)
        judge(("mean", *what), xp.mean(u, **to), np.mean(small, **to),
              tolerance)
        if np.isfinite(small).all():
            for name in "var", "std":
                judge((name, *what, correction),
                      getattr(xp, name)(u, correction=correction, **to),
                      getattr(np, name)(small, ddof=correction, **to),
                      tolerance * 10)
    if a.size and code != "?":
        judge(("max", *what), xp.max(t, **to), np.max(a, **to))
        judge(("min", *what), xp.min(t, **to), np.min(a, **to))
        one = axis if isinstance(axis, int) else None
        for name in "argmax", "argmin":
            judge((name, *what), getattr(xp, name)(t, axis=one, keepdims=keep),
                  getattr(np, name)(a, axis=one, keepdims=keep))
    if a.ndim:
        axis = int(rng.integers(-a.ndim, a.ndim))
        judge(("cumulative_sum", code, a, axis),
              xp.cumulative_sum(xp.asarray(small), axis=axis),
              np.cumsum(small, axis, wide(code)), tolerance * 100)
        judge(("cumulative_prod", code, a, axis),
              xp.cumulative_prod(xp.asarray(small), axis=axis),
              np.cumprod(small, axis, wide(code)), tolerance * 100)
        n = int(rng.integers(0, 3))
        judge(("diff", code, a, axis, n), xp.diff(t, axis=axis, n=n),
              np.diff(a, n, axis))


for _ in range(CASES):
    reductions_case()
report("reductions", CASES)


# ---- searching, sorting, sets ----
def searching_case():
    code = str(rng.choice(list(NUMERIC)))
    a = numbers(code, shape_of(1))
    t, axis = xp.asarray(a), int(rng.integers(-a.ndim, a.ndim))
    what = code, a, axis
    judge(("sort", *what), xp.sort(t, axis=axis), np.sort(a, axis))
    judge(("argsort", *what), xp.argsort(t, axis=axis),
          np.argsort(a, axis, kind="stable"))
    judge(("sort, descending", *what), xp.sort(t, axis=axis, descending=True),
          np.flip(np.sort(a, axis), axis))
    judge(("nonzero", *what), xp.nonzero(t), np.nonzero(a))
    line = np.sort(numbers(code, rng.integers(0, 30)))
    for side in "left", "right":
        judge(("searchsorted", side, line, a), xp.searchsorted(
            xp.asarray(line), t, side=side), np.searchsorted(line, a, side))
    line = rng.permutation(line)
    judge(("searchsorted, sorter", line, a),
          xp.searchsorted(xp.asarray(line), t, sorter=xp.argsort(
              xp.asarray(line))),
          np.searchsorted(line, a, sorter=np.argsort(line, kind="stable")))
    values, places, inverse, counts = np.unique(
        a, True, True, True, **({"equal_nan": False} if code in FLOATS else {}))
    found = xp.unique_all(t)
    judge(("unique_all", *what), found,
          (values, places, inverse.reshape(a.shape), counts))
    judge(("unique_counts", *what), xp.unique_counts(t), (values, counts))
    judge(("unique_inverse", *what), xp.unique_inverse(t),
          (values, inverse.reshape(a.shape)))
    judge(("unique_values", *what), xp.unique_values(t), values)
    n = a.shape[axis]
    index = rng.integers(-n, n, rng.integers(0, 6)) if n else np.zeros(0, "q")
    judge(("take", *what, index), xp.take(t, xp.asarray(index), axis=axis),
          np.take(a, index, axis))
    shape = list(smaller(a.shape))
    shape = [1] * (a.ndim - len(shape)) + shape
    shape[axis] = 4 if n else 0
    index = rng.integers(-n, n, shape) if n else np.zeros(shape, "q")
    judge(("take_along_axis", *what, index),
          xp.take_along_axis(t, xp.asarray(index), axis=axis),
          np.take_along_axis(a, index, axis))


for _ in range(CASES):
    searching_case()
report("searches, orders and sets", CASES)


# ---- other places ----
def places_case():
    code = str(rng.choice(list(ALL)))
    a = numbers(code, shape_of(1))
    t, axis = xp.asarray(a), int(rng.integers(-a.ndim, a.ndim))
    what = code, a, axis
    axes = tuple(int(i) for i in rng.permutation(a.ndim))
    other = list(a.shape)
    other[axis] = 2
    b = numbers(str(rng.choice(list("?bhiq" if code in "?bhiq" else code))),
                other)
    for name, of in ("concat", np.concatenate), ("stack", np.stack):
        parts = (a, b) if name == "concat" else (a, a, a)
        judge((name, *what, b), getattr(xp, name)(
            [xp.asarray(p) for p in parts], axis=axis), of(parts, axis))
    judge(("concat, flat", *what), xp.concat([t, xp.asarray(b)], axis=None),
          np.concatenate((a, b), None))
    judge(("unstack", *what), xp.unstack(t, axis=axis),
          list(np.moveaxis(a, axis, 0)))
    judge(("permute_dims", *what), xp.permute_dims(t, axes),
          np.transpose(a, axes))
    some = axes[:rng.integers(0, len(axes) + 1)]
    judge(("flip", *what), xp.flip(t, axis=some or None),
          np.flip(a, some or None))
    judge(("moveaxis", *what, some), xp.moveaxis(t, some, some[::-1]),
          np.moveaxis(a, some, some[::-1]))
    judge(("reshape", *what), xp.reshape(t, (a.size,)), a.reshape(-1))
    shift = int(rng.integers(-30, 30))
    judge(("roll", *what), xp.roll(t, shift, axis=axis),
          np.roll(a, shift, axis))
    judge(("roll, flat", *what), xp.roll(t, shift), np.roll(a, shift))
    judge(("roll, several", *what), xp.roll(t, (shift, 1), axis=(axis, 0)),
          np.roll(a, (shift, 1), (axis, 0)))
    times = rng.integers(0, 4, a.shape[axis])
    judge(("repeat", *what), xp.repeat(t, shift % 4, axis=axis),
          np.repeat(a, shift % 4, axis))
    judge(("repeat, array", *what), xp.repeat(t, xp.asarray(times), axis=axis),
          np.repeat(a, times, axis))
    judge(("repeat, flat", *what), xp.repeat(t, 2), np.repeat(a, 2))
    by = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 5)))
    judge(("tile", *what, by), xp.tile(t, by), np.tile(a, by))
    wide_shape = (2, *a.shape)
    judge(("broadcast_to", *what), xp.broadcast_to(t, wide_shape),
          np.broadcast_to(a, wide_shape))
    small = numbers(code, smaller(a.shape))
    judge(("broadcast_arrays", *what), xp.broadcast_arrays(
        t, xp.asarray(small)), list(np.broadcast_arrays(a, small)))
    grown = xp.expand_dims(t, axis=axis)
    judge(("expand_dims", *what), grown, np.expand_dims(a, axis))
    judge(("squeeze", *what), xp.squeeze(grown, axis), a)
    if a.ndim > 1:
        k = int(rng.integers(-4, 4))
        judge(("tril", *what), xp.tril(t, k=k), np.tril(a, k))
        judge(("triu", *what), xp.triu(t, k=k), np.triu(a, k))
        judge(("matrix_transpose", *what), xp.matrix_transpose(t),
              np.swapaxes(a, -1, -2))
    to = str(rng.choice(list("fd?" if code in FLOATS else ALL)))
    judge(("astype", *what, to), xp.astype(t, np.dtype(to).name),
          a.astype(to)
          if code not in FLOATS or to != "?" else a != 0) if (
              code not in INTEGERS or to in FLOATS + BOOL) else None


for _ in range(CASES):
    places_case()
report("places", CASES)


# ---- products ----
def products_case():
    code = str(rng.choice(list("ihfd")))
    n, m, k = (int(i) for i in rng.integers(1, 9, 3))
    stack_shape = shape_of(0, 2)
    a = numbers(code, (*stack_shape, n, k), False)
    b = numbers(code, (*smaller(stack_shape), k, m), False)
    tolerance = {"f": 1e-3, "d": 1e-10}.get(code, 0)
    s, t = xp.asarray(a), xp.asarray(b)
    judge(("matmul", code, a, b), xp.matmul(s, t), np.matmul(a, b),
          tolerance * 1e3)
    judge(("vecdot", code, a), xp.vecdot(s, s[..., :1, :]),
          (a * a[..., :1, :]).sum(-1, dtype=code), tolerance * 1e3)
    judge(("tensordot", code, a, b), xp.tensordot(s, t, axes=(
        (a.ndim - 1,), (b.ndim - 2,))),
        np.tensordot(a, b, ((a.ndim - 1,), (b.ndim - 2,))), tolerance * 1e3)


for _ in range(CASES // 3):
    products_case()
report("products", CASES // 3)

# ---- special cases ----
inf, nan = math.inf, math.nan
SPECIAL = [nan, inf, -inf, 0., -0., 1., -1., 2.5, -2.5, 3., 5e-324, 1e308]


def bits(values):
    """So that zeros have signs, and NaN is NaN."""
    return [(str(v), math.copysign(1, v) if v == v else 0) for v in values]


for code in "float32", "float64":
    t = xp.asarray(SPECIAL, dtype=code)
    a = t.numpy()
    left = np.repeat(a, len(a))
    right = np.tile(a, len(a))
    s, u = xp.asarray(left), xp.asarray(right)
    for name in ("remainder", "floor_divide", "copysign", "nextafter", "atan2",
                 "hypot", "logaddexp", "pow", "divide", "add", "multiply"):
        theirs = {"atan2": "arctan2", "pow": "power"}.get(name, name)
        want = getattr(np, theirs)(left, right)
        got = getattr(xp, name)(s, u).numpy()
        signed = np.signbit(got) == np.signbit(want)
        good = np.isclose(got, want, 1e-6, 0, equal_nan=True) & (
            signed | np.isnan(want))
        kit.ok(good.all(), f"{name} of special numbers, {code}",
               *zip(left[~good], right[~good], got[~good], want[~good]))
    for name in ("ceil", "floor", "trunc", "round", "sqrt", "sign", "sin",
                 "tanh", "expm1", "log1p", "asinh", "atan", "negative", "abs"):
        theirs = {"asinh": "arcsinh", "atan": "arctan"}.get(name, name)
        want = getattr(np, theirs)(a)
        got = getattr(xp, name)(t).numpy()
        good = np.isclose(got, want, 1e-6, 0, equal_nan=True) & (
            (np.signbit(got) == np.signbit(want)) | np.isnan(want))
        if name == "sin":
            good[-1] = True  # of 1e308, as F32 infinite
        kit.ok(good.all(), f"{name} of special numbers, {code}",
               *zip(a[~good], got[~good], want[~good]))
one = xp.asarray([1.])
kit.equal([bits(xp.clip(one, *to).tolist()) for to in (
    (nan, 2.), (0., nan), (None, nan), (nan, None), (0., .5))],
    [bits([v]) for v in (nan, nan, nan, nan, .5)], "a bound that is NaN")
kit.equal(bits(xp.pow(xp.asarray([-0., -inf]), .5).tolist()), bits([0., inf]),
          "roots as powers of numbers")
kit.equal([xp.sum(xp.ones((2, 3)), axis=()).shape,
           xp.sum(xp.asarray([200, 100], dtype="uint8")).item(),
           xp.sum(xp.ones(2, dtype="uint8")).dtype,
           xp.sum(xp.ones(2, dtype="int8")).dtype,
           xp.mean(xp.ones(2, dtype="float16")).dtype],
          [(2, 3), 300, "U64", "I64", "F16"], "sums over no axis, and in 64 bits")
kit.equal((xp.cumulative_sum(xp.asarray([1, 2]), include_initial=True).tolist(),
           xp.cumulative_prod(xp.asarray([3, 2]), include_initial=True)
           .tolist()), ([0, 1, 3], [1, 3, 6]), "with what they begin with")
for what, call in (
        ("an axis that is not there", lambda: xp.sum(one, axis=1)),
        ("an axis twice", lambda: xp.flip(xp.ones((2, 2)), axis=(0, -2))),
        ("no axis for two", lambda: xp.cumulative_sum(xp.ones((2, 2)))),
        ("squeeze of 2", lambda: xp.squeeze(xp.ones((2,)), 0)),
        ("a shape that does not broadcast",
         lambda: xp.broadcast_to(xp.ones((2,)), (3,))),
        ("broadcast_to of fewer dimensions",
         lambda: xp.broadcast_to(xp.ones((1, 2)), (2,))),
        ("take without an axis", lambda: xp.take(xp.ones((2, 2)), [0])),
        ("nonzero without dimensions", lambda: xp.nonzero(xp.ones(()))),
        ("repeat by too few numbers", lambda: xp.repeat(xp.ones((3,)),
                                                        xp.asarray([1, 2]))),
        ("repeat by a negative number", lambda: xp.repeat(one, -1)),
        ("linspace of -1", lambda: xp.linspace(0, 1, -1)),
        ("arange with a step of 0", lambda: xp.arange(0, 3, 0)),
        ("searchsorted in two dimensions",
         lambda: xp.searchsorted(xp.ones((2, 2)), one)),
        ("reshape without a copy",
         lambda: xp.reshape(xp.ones((2, 3)).T, (6,), copy=False)),
        ("finfo of integers", lambda: xp.finfo("int8")),
        ("iinfo of floats", lambda: xp.iinfo("float32"))):
    try:
        seen = call()
    except (ValueError, IndexError) as e:
        seen = e
    kit.ok(isinstance(seen, Exception), f"{what} is refused", seen)
kit.finish()
