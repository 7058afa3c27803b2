#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the operations of tarn.ops do with arguments that are rare: indices that
broadcast, many dimensions, numbers that a dtype cannot hold, seeds; and tensors on
a device, which all refuse with a sentence (with the stand-in for the driver, which
this script runs again to have)."""
import os
import sys

STAND_IN = os.environ.get("top_builddir", ".") + "/tests/fakecuda/.libs"
if "FAKECUDA_DEVICES" not in os.environ and \
        os.path.exists(STAND_IN + "/libcuda.so.1"):
    path = os.path.realpath(STAND_IN)
    if "LD_LIBRARY_PATH" in os.environ:
        path += ":" + os.environ["LD_LIBRARY_PATH"]
    os.environ.update(LD_LIBRARY_PATH=path, FAKECUDA_DEVICES="1")
    os.execv(sys.executable, [sys.executable, *sys.argv])

import py_kit as kit

import tarn

try:
    from tarn import ops
except ImportError as e:
    kit.skip_all(str(e))

T = tarn.tensor

# ---- indices that broadcast ----
x = tarn.arange(6.).reshape(2, 3)
for what, index, dim, want in (
        ("a column for all columns", [[0], [1]], 1, [[0], [4]]),
        ("a row for all rows", [[0, 2]], 1, [[0, 2], [3, 5]]),
        ("one along dimension 0", [[1]], 0, [[3, 4, 5]]),
        ("one along the last dimension", [[-1]], -1, [[2], [5]]),
        ("within the tensor, as gather", [[0, 1]], 0, [[0, 4]])):
    kit.equal(x.take_along_dim(dim, index).tolist(), want,
              f"take_along_dim: {what}")
kit.equal(T([[5, 6, 7]]).take_along_dim(1, [[0], [2]]).tolist(), [[5], [7]],
          "take_along_dim: the tensor is repeated too")
kit.raises(ValueError, "lie within", "take_along_dim of what does not fit",
           x.take_along_dim, 1, [[0], [1], [2]])
kit.raises(ValueError, "take_along", "take_along_dim of other dimensions",
           x.take_along_dim, 1, [0])

# ---- padding ----
many = tarn.ones((1,) * 10).pad((0, 1) * 10)
kit.equal((many.shape, many.sum().item()), ((2,) * 10, 1),
          "ten dimensions are padded")
kit.raises(ValueError, "pairs", "half a pair", x.pad, (1, 2, 3))
kit.raises(ValueError, "pairs", "more pairs than dimensions are possible",
           x.pad, (0, 1) * 13)
kit.raises(TypeError, "", "a number instead of pairs", x.pad, 1)

# ---- numbers that do not fit ----
u8 = T([1, 2, 3], "U8")
mask = T([True, False, True])
for what, call in (
        ("masked_fill_", lambda: u8.masked_fill_(mask, 300)),
        ("t[mask] =", lambda: u8.__setitem__(mask, 300)),
        ("masked_scatter_", lambda: u8.masked_scatter_(mask, -1)),
        ("index_copy_", lambda: u8.index_copy_(0, [0], 256)),
        ("scatter_", lambda: u8.scatter_(0, [0], 256)),
        ("pad", lambda: u8.pad((0, 1), value=256))):
    kit.raises(ValueError, "U8 cannot hold", f"{what} of a number that U8 has not",
               call)
kit.equal(u8.tolist(), [1, 2, 3], "nothing is written then")
kit.equal(u8.masked_scatter_(mask, [7, 8, 9, 10]).tolist(), [7, 2, 8],
          "masked_scatter_ takes as many of a longer list as it needs")
kit.raises(ValueError, "or more", "masked_scatter_ of a shorter list",
           T([0, 0, 0]).masked_scatter_, T([True] * 3), [1, 2])

# ---- a scale of 0 ----
q, k = T([[5.], [-5]]), T([[1.], [2], [3]])
kit.equal(ops.attention(q, k, k, scale=0).tolist(), [[2], [2]],
          "with a scale of 0 all keys weigh the same")
kit.ok(ops.attention(q, k, k)[0, 0] > 2.9, "without a scale they do not")

# ---- products so far, dtypes ----
kit.equal((T([2, 3, 4]).cumprod(0).tolist(),
           ops.cumprod(T([[2.], [3]]), axis=0).tolist(),
           T([200, 2], "U8").cumprod(0).dtype), ([2, 6, 24], [[2], [6]], "I64"),
          "cumprod")
kit.equal([ops.promote_types(*t) for t in (
    ("U8", "int8"), ("F16", "BF16"), ("BOOL", "F64"))], ["I16", "F32", "F64"],
    "promote_types")
kit.raises(ValueError, "U64 and I64", "dtypes that do not meet",
           ops.promote_types, "U64", "I64")

# ---- random numbers ----
for name, args in (("random", ()), ("uniform", (2, 5)), ("normal", (1, .5)),
                   ("randint", (-3, 9))):
    def draw(*more, **to):
        return getattr(ops, name)(*args, *more, **to)

    one = draw((4, 5), seed=7)
    kit.equal((one.shape, one.dtype), ((4, 5),
              "I64" if name == "randint" else "F32"), f"{name}: its shape")
    kit.ok(tarn.equal(one, draw((4, 5), seed=7)) and
           not tarn.equal(one, draw((4, 5), seed=8)) and
           not tarn.equal(draw((4, 5)), draw((4, 5))),
           f"{name}: the seed decides, and without one it is another each time")
    kit.equal(draw(12, seed=7, position=8).tolist(), one.reshape(-1)[8:]
              .tolist(), f"{name}: the sequence goes on at a position")
    to = tarn.zeros((3, 6), "I16" if name == "randint" else "F64")
    kit.ok(draw(out=to.T, seed=1) is not None and
           to.T.tolist() == draw((6, 3), to.dtype, seed=1).tolist(),
           f"{name}: out gives shape and dtype")
    kit.raises(OverflowError, "2 ** 64", f"{name}: a seed below 0", draw, (2,),
               seed=-1)
    kit.raises(TypeError, "seed is an int", f"{name}: a seed that is none", draw,
               (2,), seed=1.5)
    kit.raises(ValueError, "dimension", f"{name}: too many dimensions", draw,
               (1,) * 13)
kit.equal(sorted(set(ops.randint(-1, 2, (200,), seed=3).tolist())), [-1, 0, 1],
          "randint: the upper end is not one of them")
kit.raises(ValueError, "there are none", "randint of nothing", ops.randint, 3, 3)
kit.raises(ValueError, "integer", "randint of floats", ops.randint, 0, 3, (2,),
           "F32")
kit.raises(ValueError, "F32", "uniform of integers", ops.uniform, 0, 3, (2,),
           "I32")
low, high = (f(ops.uniform(2, 5, (1000,), seed=1)).item()
             for f in (ops.amin, ops.amax))
kit.ok(2 <= low < 2.1 and 4.9 < high < 5, "uniform: within its bounds", low, high)
n = ops.normal(1, .5, (4000,), "F64", seed=1)
kit.ok(abs(n.mean().item() - 1) < .05 and abs(n.std().item() - .5) < .05,
       "normal: mean and deviation", n.mean(), n.std())

# ---- on a device ----
if "FAKECUDA_DEVICES" not in os.environ:
    kit.skipped("tensors on a device", "tarn was built without CUDA")
    sys.exit(kit.finish())
there = tarn.ones((2, 2)).to("cuda:0")
index = tarn.zeros((2, 2), "I64")
far = index.to("cuda:0")
near = tarn.ones((2, 2))
ones = tarn.ones((2, 2), "BOOL")
CALLS = {
    "cat": lambda: ops.cat([near, there]), "roll": lambda: there.roll(1, 0),
    "stack": lambda: ops.stack([there, there]),
    "pad": lambda: there.pad((1, 1)),
    "pad, replicate": lambda: there.pad((1, 1), "replicate"),
    "tril": lambda: there.tril(), "add": lambda: near + there,
    "exp": lambda: there.exp(), "sum": lambda: there.sum(),
    "softmax": lambda: there.softmax(0), "sort": lambda: there.sort(),
    "take": lambda: there.take(index), "matmul": lambda: there @ near,
    "take, its index": lambda: near.take(far),
    "index_select, its index": lambda: near.index_select(0, far),
    "take_along_dim, its index": lambda: near.take_along_dim(0, far),
    "masked_select, its mask": lambda: near.masked_select(ones.to("cuda:0")),
    "scatter_, its value": lambda: near.scatter_(0, index, there),
    "masked_scatter_, its value": lambda: near.masked_scatter_(ones, there),
    "cat, its destination": lambda: ops.cat([near], out=there),
}
for name, call in CALLS.items():
    try:
        seen = call()
    except ValueError as e:
        seen = str(e)
    kit.ok(isinstance(seen, str) and
           ("on a device" in seen or "not in memory" in seen),
           f"{name}: a tensor on a device is refused", seen)
sys.exit(kit.finish())
