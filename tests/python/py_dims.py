#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A dimension is a whole number of any size in Python and an int in the
library. What does not fit an int names no dimension: cut to 32 bits, 2**32 + 1
would name dimension 1, and a view of another dimension came back. The table has
every method that takes a dimension, once for each argument that is one."""
import re

import py_kit as kit

import tarn

t = tarn.arange(24).reshape(2, 3, 4)
ones = tarn.zeros((1, 3, 1))
# What each does with a dimension, in each place that takes one.
CALLS = {
    "permute": lambda d: t.permute(d, 1, 2),
    "permute, a tuple": lambda d: t.permute((2, d, 1)),
    "transpose, dim0": lambda d: t.transpose(d, 1),
    "transpose, dim1": lambda d: t.transpose(1, dim1=d),
    "flip": lambda d: t.flip(1, d),
    "flip, a list": lambda d: t.flip([d]),
    "narrow": lambda d: t.narrow(d, 0, 1),
    "select": lambda d: t.select(d, 1),
    "skip": lambda d: t.skip(d, 2),
    "diagonal, dim1": lambda d: t.diagonal(0, d, 1),
    "diagonal, dim2": lambda d: t.diagonal(dim2=d, dim1=1),
    "unfold": lambda d: t.unfold(d, 2),
    "flatten, start_dim": lambda d: t.flatten(d, 1),
    "flatten, end_dim": lambda d: t.flatten(end_dim=d),
    "merge, first": lambda d: t.merge(d, 1),
    "merge, last": lambda d: t.merge(0, last=d),
    "split": lambda d: t.split(d, 2, 1),
    "unsqueeze": lambda d: t.unsqueeze(d),
    "squeeze": lambda d: ones.squeeze(d),
}
# Each is 0 or -3, the first of three dimensions, when it is cut to 32 bits.
CUT = (2**32, -2**32, 2**32 - 3, 2**40, -2**63, 2**64, 10**30)


def seen(call, dim):
    """What wrongly came back."""
    try:
        return f"{dim}: a tensor of shape {call(dim).shape}"
    except ValueError as e:
        if str(dim) in str(e):
            return None
        return f"{dim}: the message does not name it: {e}"
    except OverflowError:
        return None if abs(dim) >= 2**63 else f"{dim}: OverflowError"


for name, call in CALLS.items():
    wrong = [s for s in (seen(call, d) for d in CUT) if s]
    kit.ok(not wrong, f"{name}: no dimension beyond an int is cut to one",
           *wrong)
    kit.equal(call(0).tolist(), call(-len(t.shape) - (name == "unsqueeze"))
              .tolist(), f"{name}: dimension 0 can be counted from the end")
    kit.raises(ValueError, "dimension 9",
               f"{name}: a dimension of 9 is refused",
               call, 9)

# The methods of Tensor whose signature has such an argument are all above.
NAMES = {"dim", "dims", "dim0", "dim1", "dim2", "start_dim", "end_dim",
         "first", "last"}
try:
    from tarn import ops
except ImportError as e:
    ops = None
    kit.skipped("dimensions of operations", str(e))
methods = {n: getattr(tarn.Tensor, n).__text_signature__
           for n in dir(tarn.Tensor) if not n.startswith("_") and
           callable(getattr(tarn.Tensor, n)) and not hasattr(ops, n) and
           n not in ("index_copy_", "scatter_", "stride")}
signed = {n for n, signature in methods.items()
          if NAMES & set(re.findall(r"\w+", signature))}
kit.equal(sorted(signed - {n.split(",")[0] for n in CALLS}), [],
          "the table has every method that takes a dimension")
for name, rest in () if ops is None else (
        ("stride", {}), ("sum", {}), ("amax", {}), ("max", {}), ("argmax", {}), ("var", {}),
        ("norm", {}), ("logsumexp", {}), ("softmax", {}), ("cumsum", {}),
        ("sort", {}), ("topk", {"k": 1}), ("index_select", {"index": [0]}),
        ("take_along_dim", {"index": [[[0]]]})):
    for dim in 2 ** 32 + 1, 2 ** 32, -2 ** 31 - 1, 9:
        try:
            got = getattr(t.to("F32"), name)(dim=dim, **rest)
        except (ValueError, IndexError) as e:
            got = str(e)
        kit.ok("dimension" in str(got) and isinstance(got, str),
               f"{name}: {dim} is no dimension", got)

# Sizes, starts and steps are of 64 bits on both sides: none of these is cut to
# one that would do.
SIZES = {
    "reshape": lambda n: t.reshape(n + 2, 12),
    "view": lambda n: t.view((n + 24,)),
    "split": lambda n: t.split(2, n + 2, 2),
    "narrow, start": lambda n: t.narrow(0, n, 1),
    "narrow, length": lambda n: t.narrow(0, 0, n + 1),
    "select": lambda n: t.select(0, n),
    "unfold": lambda n: t.unfold(0, n + 1, 1),
    "[]": lambda n: t[n],
    "[,]": lambda n: t[0, n, 0],
}
for name, call in SIZES.items():
    call(0)
    wrong = []
    for n in (2**32, 2**63 - 30, 2**64):
        try:
            wrong.append(f"{n}: {call(n)!r}")
        except (IndexError, ValueError, OverflowError):
            pass
    kit.ok(not wrong, f"{name}: a size beyond 32 bits is not cut", *wrong)
kit.equal(ones.expand(2**32 + 1, 3, -1).shape, (2**32 + 1, 3, 1),
          "expand: a size beyond 32 bits is kept")
for name in ("skip", "unfold"):
    kit.equal(getattr(t, name)(*((0, 2**32 + 1) if name == "skip" else
                                 (0, 1, 2**32 + 1))).shape[0], 1,
              f"{name}: a step of more than 32 bits reaches one element")
kit.equal((t.diagonal(2**32).shape, t.diagonal(-2**32).shape),
          ((4, 0),) * 2, "diagonal: an offset of more than 32 bits is outside")
kit.finish()
