#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Operations on tensors beside numpy's: operators, dtypes, destinations, and
random layouts. TARN_SEED repeats a run; the seed is in each failure.
"""
import math
import operator
import os
import subprocess
import sys
import threading

import py_kit as kit

try:
    import numpy
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

try:
    from tarn import _ops as ops
except ImportError as e:
    kit.skip_all(str(e))

T = tarn.tensor

# ---- loading ----
kit.equal(subprocess.run(
    [sys.executable, "-c", "import sys, tarn; t = tarn.ones((2,)); "
     "hasattr(t, '__torch_function__'); t.numpy(); "
     "print('tarn._ops' in sys.modules); t + t; "
     "print('tarn._ops' in sys.modules)"], capture_output=True,
    text=True, check=True).stdout.split(), ["False", "True"],
    "the first operation loads them, and nothing before")

# ---- operators ----
a = T([[1., 2, 3], [4, 5, 6]])
b = T([10., 20, 30])
for name, op in (("+", operator.add), ("-", operator.sub),
                 ("*", operator.mul), ("/", operator.truediv),
                 ("//", operator.floordiv), ("%", operator.mod),
                 ("**", operator.pow), ("==", operator.eq),
                 ("!=", operator.ne), ("<", operator.lt),
                 ("<=", operator.le), (">", operator.gt),
                 (">=", operator.ge)):
    n, m = a.numpy(), b.numpy()
    kit.ok(all(numpy.allclose(op(x, y).numpy(), op(u, v), rtol=1e-6)
               for x, y, u, v in ((a, b, n, m), (a, 2, n, 2), (3, a, 3, n),
                                  (a, 2.5, n, numpy.float32(2.5)),
                                  (a, [1, 2, 3], n, [1, 2, 3]))),
           f"{name} of tensors, numbers and lists is numpy's", op(a, b))
x, y = T([6, 3, 12]), T([3, 5, 1])
for name, op in (("&", operator.and_), ("|", operator.or_),
                 ("^", operator.xor), ("<<", operator.lshift),
                 (">>", operator.rshift)):
    kit.equal(op(x, y).tolist(), op(x.numpy(), y.numpy()).tolist(),
              f"{name} of integers")
kit.equal((~T([True, False]) | T([False, False])).tolist(), [False, True],
          "~ and | of BOOL are logical")
kit.equal((-x).tolist() + abs(-x).tolist() + (+x).tolist(),
          [-6, -3, -12] + [6, 3, 12] * 2, "signs")
kit.equal([type(a + n).__name__ for n in (a.numpy(), b.numpy())],
          ["Tensor"] * 2, "an array on the right gives a Tensor")
kit.raises(TypeError, "unsupported operand", "a tensor and a text",
           lambda: a + "x")
kit.raises(TypeError, "unsupported operand", "a tensor and a complex number",
           lambda: a + 1j)

# ---- in place, and destinations ----
c = a.clone()
same = c
c += 1
c *= b
kit.ok(c is same and c.tolist() == ((a.numpy() + 1) * b.numpy()).tolist(),
       "+= and *= write into the tensor", c)
i = T([1, 2, 3])
kit.raises(ValueError, "cannot hold", "an integer in place becomes no float",
           operator.itruediv, i, 2)
out = tarn.zeros((3, 2))
kit.ok(ops.add(a, b, out=out.T) is not None and
       out.tolist() == (a.numpy() + b.numpy()).T.tolist(),
       "out may be a view", out)
kit.raises(ValueError, "[2, 3]", "out of another shape", a.add, b,
           out=tarn.zeros((3, 2)))
kit.raises(TypeError, "from_numpy", "out that is an array", a.add, b,
           out=numpy.zeros((2, 3), "f4"))
locked = numpy.ones(3, "f4")
locked.flags.writeable = False
kit.raises(ValueError, "read-only", "out that is read-only", b.add, b,
           out=tarn.from_numpy(locked))
line = tarn.arange(8.)
kit.equal(line[:-1].add(line[1:], out=line[1:]).tolist(),
          [0 + 1, 1 + 2, 2 + 3, 3 + 4, 4 + 5, 5 + 6, 6 + 7],
          "a destination that overlaps an operand")
kit.raises(ValueError, "upon each other", "a destination that is repeated",
           b.add, b, out=tarn.zeros((1,)).expand(3))

# ---- dtypes ----
DTYPES = ["BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64",
          "F16", "BF16", "F32", "F64"]
for left, right, want in (("I32", 2.5, "F32"), ("F16", 2.5, "F16"),
                          ("BOOL", 2, "I64"), ("U8", 2, "U8"),
                          ("F64", 2, "F64"), ("BOOL", True, "BOOL")):
    kit.equal((tarn.ones((2,), left) * right).dtype, want,
              f"{left} beside the number {right!r}")
for left, right, want in (("F16", "BF16", "F32"), ("U8", "I8", "I16"),
                          ("U32", "I8", "I64"), ("I64", "F16", "F16"),
                          ("U64", "F32", "F32"), ("BF16", "I64", "BF16")):
    kit.equal((tarn.ones((2,), left) + tarn.ones((2,), right)).dtype, want,
              f"{left} and {right} meet in {want}")
kit.equal((tarn.ones((2,)) + tarn.ones((), "F64")).dtype, "F32",
          "a tensor without dimensions does not raise the dtype")
kit.equal((tarn.ones((2,), "I8") + tarn.ones((), "F64")).dtype, "F64",
          "but for one of a later kind")
kit.raises(ValueError, "U64 and I64", "what has no common dtype",
           lambda: tarn.ones((2,), "U64") + tarn.ones((2,), "I64"))
kit.raises(ValueError, "C64", "a dtype without arithmetic",
           lambda: tarn.zeros((2,), "C64") + 1)
kit.raises(ValueError, "BOOL", "- of BOOL", lambda: T([True]) - T([True]))
kit.raises(ZeroDivisionError, "divisor is 0", "// of integers by 0",
           lambda: T([1, 2]) // T([1, 0]))
kit.equal((T([-7, 7]) // 2).tolist() + (T([-7, 7]) % -2).tolist(),
          [-4, 3, -1, -1], "// rounds down and % has the divisor's sign")
kit.equal((T([127, -128], "I8") + T([1, -1], "I8")).tolist(), [-128, 127],
          "integers wrap around")
kit.equal((T([-2 ** 63, 5], "I64") // T([-1, -1], "I64")).tolist(),
          [-2 ** 63, -5], "the least integer divided by -1 wraps around")
kit.equal((T([2, 3, -1], "I32") ** T([10, -1, -3], "I32")).tolist(),
          [1024, 0, -1], "powers of integers")

# ---- special numbers ----
special = T([math.nan, math.inf, -math.inf, 0., -0., 1e-45, -1.5])
n = special.numpy()
for name in ("exp", "sqrt", "log", "tanh", "sigmoid", "erf", "sin", "floor",
             "rsqrt", "abs", "sign", "expm1", "log1p"):
    with numpy.errstate(all="ignore"):
        want = {"sigmoid": lambda v: 1 / (1 + numpy.exp(-v)),
                "rsqrt": lambda v: 1 / numpy.sqrt(v),
                "erf": numpy.vectorize(math.erf)}.get(
                    name, getattr(numpy, name, None))(n)
    got = getattr(special, name)().numpy()
    kit.ok(numpy.allclose(got, want, rtol=1e-6, atol=1e-38, equal_nan=True),
           f"{name} of NaN, infinities, zeros and the smallest", got, want)
kit.equal([special.isnan().tolist(), special.isinf().tolist(),
           special.isfinite().tolist(), special.signbit().tolist()[2:]],
          [numpy.isnan(n).tolist(), numpy.isinf(n).tolist(),
           numpy.isfinite(n).tolist(), numpy.signbit(n).tolist()[2:]],
          "what is NaN, infinite, finite, negative")
kit.ok(math.isnan(special.amin().item()) and
       math.isnan((T([1.]).minimum(T([math.nan]))).item()) and
       math.isnan((T([math.nan]).clamp(0, 1)).item()),
       "a NaN is contagious")
kit.equal(T([1., 5, 9]).clamp(2, 6).tolist() +
          T([1., 5]).clamp(max=2).tolist() + T([1, 5]).clamp(min=2).tolist(),
          [2, 5, 6, 1, 2, 2, 5], "clamp")
kit.equal(ops.where(T([True, False]), T([1, 2]), 9).tolist(), [1, 9], "where")

# ---- integers that do not fit ----
u8 = T([5, 200], "U8")
kit.raises(ZeroDivisionError, "divisor is 0", "256 is 0 in U8",
           lambda: u8 // 256)
kit.raises(ZeroDivisionError, "divisor is 0", "also without dimensions",
           lambda: u8 % tarn.full((), 256))
for name, got, want in (
        ("a number", u8 + (-1), [4, 199]),
        ("a tensor without dimensions", u8 + tarn.full((), -1), [4, 199]),
        ("one in a bitwise operation", u8 & tarn.full((), -1), [5, 200]),
        ("one of a choice", ops.where(T([True, False]), u8,
                                      tarn.full((), -1)), [5, 255])):
    kit.equal(got.tolist(), want, f"{name} wraps around")
kit.equal([u8.clamp(0, 300).tolist(), u8.clamp(-1, 100).tolist(),
           u8.clamp(max=300).tolist(), T([-100], "I8").clamp(-300, 5).item()],
          [[5, 200], [5, 100], [5, 200], -100],
          "a bound beyond the dtype bounds nothing")

# ---- wrong operands ----
for call in (lambda: a @ None, lambda: None @ a, lambda: ops.matmul(a, None),
             lambda: ops.linear(a, None), lambda: ops.linear(None, a),
             lambda: ops.conv(a, None), lambda: ops.attention(a, a, None),
             lambda: ops.where(T([True]), None, a), lambda: ops.cat([a, None]),
             lambda: a.clamp("x", 2), lambda: a.pow(None)):
    kit.raises(TypeError, "", "None and texts are no operands", call)


class Other:
    def __rmatmul__(self, other):
        return "mine"


kit.equal(a @ Other(), "mine", "@ leaves what it does not know to the other")
m = T([[3.], [5.]])
kit.equal([p.tolist() for p in m.max(0, keepdim=True, out=m[:1])],
          [[[5]], [[1]]], "max into a part of itself finds the place first")
kit.equal((float(numpy.mean(a)), float(numpy.std(a, ddof=1))),
          (a.mean().item(), a.std().item()),
          "numpy's functions call the methods of their names")

# ---- a thread with a small stack, signals ----
threading.stack_size(256 << 10)
sums = []
wide = tarn.ones((300, 2000))
thread = threading.Thread(target=lambda: sums.append(wide.sum(0).sum().item()))
thread.start()
thread.join()
threading.stack_size(0)
kit.equal(sums, [600000], "a sum in a thread with a small stack")
kit.equal(subprocess.run(
    [sys.executable, "-c", "import os, signal, tarn; "
     "tarn.ops.set_threads(3); (tarn.ones((1000, 1000)) + 1).sum(); "
     "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); "
     "os.kill(os.getpid(), signal.SIGUSR1); "
     "print(signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1)"],
    capture_output=True, text=True).stdout.strip(), "True",
    "threads of the pool leave signals to the program's own")

# ---- nothing, and no dimensions ----
empty = tarn.zeros((0, 3))
kit.equal((empty.sum().item(), empty.prod().item(), empty.any().item(),
           empty.all().item(), empty.sum(0).tolist(), (empty + 1).shape),
          (0, 1, False, True, [0, 0, 0], (0, 3)), "tensors without elements")
kit.raises(ValueError, "of no elements", "the least of nothing", empty.amin)
kit.ok(math.isnan(empty.mean().item()), "the mean of nothing is NaN")
kit.equal((T(5) + T(2)).item() + T(5).sum().item() + T(5.).mean(-1).item(),
          17, "tensors without dimensions")
kit.raises(ValueError, "no dimension 2", "a dimension that is not there",
           a.sum, 2)
kit.raises(ValueError, "twice", "a dimension given twice", a.sum, (0, -2))
kit.equal((a.sum(axis=0).tolist(), a.sum(dim=1, keepdim=True).shape,
           a.mean(-1, keepdims=True).shape), ([5, 7, 9], (2, 1), (2, 1)),
          "numpy's and PyTorch's names of arguments")

# ---- random layouts ----
seed = int(os.environ.get("TARN_SEED", int.from_bytes(os.urandom(4), "big")))
rng = numpy.random.default_rng(seed)


def array(shape, code):
    """With strides of any sign and order."""
    steps = [int(rng.choice([1, 1, 1, 2, -1])) for _ in shape]
    order = rng.permutation(len(shape))
    full = [shape[i] * abs(steps[i]) for i in order]
    kind = numpy.dtype(code)
    count = math.prod(full)
    if kind.kind == "f":
        flat = rng.normal(size=count).astype(kind)
    elif kind.kind == "b":
        flat = rng.integers(0, 2, count).astype(kind)
    else:
        ends = numpy.iinfo(kind)
        flat = rng.integers(ends.min, ends.max, count, kind, endpoint=True)
        if rng.random() < 0.7:
            flat = (flat % 13).astype(kind)
    flat = flat.reshape(full).transpose(numpy.argsort(order))
    return flat[tuple(slice(None, None, s) for s in steps)]


BINARY = (("add", numpy.add), ("mul", numpy.multiply),
          ("minimum", numpy.minimum), ("maximum", numpy.maximum),
          ("eq", numpy.equal), ("lt", numpy.less), ("ge", numpy.greater_equal))
UNARY = (("abs", numpy.abs), ("sign", lambda x: x if x.dtype == bool else
                                 numpy.sign(x)),
         ("logical_not", numpy.logical_not))
REDUCE = (("sum", numpy.sum), ("amin", numpy.min), ("amax", numpy.max),
          ("any", numpy.any), ("all", numpy.all))
CODES = "?BbhHeiIfdlL"
TOLERANCE = {"f": 1e-4, "e": 2e-2, "d": 1e-10}
faults = []


def judge(what, got, want, tolerance=0):
    got = got.numpy()
    want = numpy.asarray(want)
    good = got.shape == want.shape and got.dtype == want.dtype and (
        numpy.allclose(got, want, tolerance, tolerance) if tolerance else
        numpy.array_equal(got, want, equal_nan=want.dtype.kind == "f"))
    if not good:
        faults.append((what, got.dtype, want.dtype, got.shape, want.shape))


def one_case():
    shape = [int(rng.choice([1, 2, 3, 5, 8, 17, 40, 70]))
             for _ in range(rng.integers(0, 5))]
    while math.prod(shape) > 60000:
        shape[shape.index(max(shape))] = 3
    code = str(rng.choice(list(CODES)))
    left = array(shape, code)
    small = [1 if rng.random() < 0.25 else n for n in shape]
    right = array(small[rng.integers(0, len(shape) + 1):], code)
    l, r = tarn.from_numpy(left), tarn.from_numpy(right)
    where = code, left.shape, left.strides, right.shape, right.strides
    for name, f in BINARY:
        judge((name, *where), getattr(l, name)(r), f(left, right))
    for name, f in UNARY:
        judge((name, *where), getattr(l, name)(), f(left))
    dims = tuple(i for i in range(len(shape)) if rng.random() < 0.5) or None
    keep = bool(rng.integers(0, 2))
    for name, f in REDUCE:
        source = left.astype("f4") if code == "e" else left
        want = numpy.asarray(f(source, axis=dims, keepdims=keep))
        if name in ("sum",) and left.dtype.kind in "bui" and code != "L":
            want = want.astype("i8")
        if code == "e" and name not in ("any", "all"):
            want = want.astype("f2")
        judge((name, dims, keep, *where), getattr(l, name)(dims, keep), want,
              TOLERANCE.get(code, 0) if name == "sum" else 0)


cases = int(os.environ.get("TARN_CASES", 600))
with numpy.errstate(all="ignore"):
    for _ in range(cases):
        one_case()
        if len(faults) > 5:
            break
kit.ok(not faults, f"{cases} random layouts compute as numpy does", seed,
       *faults)

# ---- threads ----
big = tarn.from_numpy(rng.normal(size=(700, 1100)).astype("f4"))


def bits():
    return [t.numpy().tobytes() for t in
            (big.sum(), big.sum(0), big.T.sum(1), big.mean(1), big.exp(),
             big + big.T.contiguous().T, big.T * 2, big.prod())]


before = ops.get_threads()
ops.set_threads(1)
alone = bits()
ops.set_threads(3)
kit.ok(bits() == alone, "the same bits for one thread and for three")
pid = os.fork()
if pid == 0:
    os._exit(0 if bits() == alone else 1)
kit.equal(os.waitpid(pid, 0)[1], 0, "operations in a child of fork")
ops.set_threads(before)
kit.raises(ValueError, "0 to 256", "too many threads", ops.set_threads, 1000)
kit.finish()
