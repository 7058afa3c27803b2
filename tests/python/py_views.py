#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random chains of views, by [] and by methods, agree with numpy.

Each chain starts from the same bytes on both sides and does the same thing to
both. What is compared after each step: the shape, the values, the strides of
dimensions that have a step to make, and whether the bytes are still those of
the start. At the end a value is written on one side and seen on the other.

The seed is fixed; TARN_SEED=n tries another, TARN_CHAINS=n more of them.
"""
import os
import random

import py_kit as kit

try:
    import numpy as np
    from numpy.lib.stride_tricks import sliding_window_view
except ImportError:
    kit.skip_all("numpy is not installed (python3-numpy)")

import tarn

SEED = int(os.environ.get("TARN_SEED", "20250101"))
CHAINS = int(os.environ.get("TARN_CHAINS", "4000"))
DTYPES = ("?", "u1", "<i2", "<u2", "<f2", "<i4", "<f4", "<f8", "<i8", "<u8",
          "<c8")


def some_slice(rnd, n):
    def bound():
        return rnd.choice((None, rnd.randint(-n - 2, n + 2)))
    return slice(bound(), bound(), rnd.choice((None, 1, 2, 3, -1, -2, -7)))


def index(rnd, a):
    """Not integers for all dimensions: that is no view."""
    items, used, dots = [], 0, False
    while rnd.random() < .75 and used < a.ndim:
        kind = rnd.random()
        if kind < .15 and not dots:
            items.append(...)
            dots = True
        elif kind < .3 and a.ndim + len(items) < 10:
            items.append(None)
        elif kind < .5 and a.shape[used]:
            # Behind an ellipsis it is another dimension: any index fits.
            items.append(rnd.randint(-1, 0) if dots else
                         rnd.randint(-a.shape[used], a.shape[used] - 1))
            used += 1
        else:
            items.append(some_slice(rnd, a.shape[used]))
            used += 1
    if not dots:
        items.append(...)
    return items[0] if len(items) == 1 else tuple(items)


def factors(rnd, n):
    out = []
    while len(out) < 3 and rnd.random() < .7:
        f = rnd.choice([f for f in range(1, n + 1) if n % f == 0] or [1])
        out.append(f)
        n //= f
    out.append(n)
    return out


def op_index(rnd, a, t):
    key = index(rnd, a)
    return a[key], lambda: t[key], f"[{key}]"


def op_permute(rnd, a, t):
    order = list(range(a.ndim))
    rnd.shuffle(order)
    if rnd.random() < .5:
        return a.transpose(order), lambda: t.permute(order), "permute"
    return a.transpose(order), lambda: t.permute(*order), "permute*"


def op_transpose(rnd, a, t):
    x, y = rnd.randrange(-a.ndim, a.ndim), rnd.randrange(-a.ndim, a.ndim)
    return a.swapaxes(x, y), lambda: t.transpose(x, dim1=y), "transpose"


def op_t(rnd, a, t):
    return a.T, lambda: t.T, "T"


def op_reshape(rnd, a, t):
    shape = factors(rnd, a.size) if a.size else [a.size, 2]
    return a.reshape(shape), lambda: t.reshape(*shape), f"reshape{shape}"


def op_flatten(rnd, a, t):
    return a.reshape(-1), lambda: t.flatten(), "flatten"


def op_flip(rnd, a, t):
    d = rnd.randrange(-a.ndim, a.ndim)
    return np.flip(a, d), lambda: t.flip(d), "flip"


def op_unsqueeze(rnd, a, t):
    d = rnd.randint(-a.ndim - 1, a.ndim)
    return np.expand_dims(a, d), lambda: t.unsqueeze(d), "unsqueeze"


def op_squeeze(rnd, a, t):
    return a.squeeze(), lambda: t.squeeze(), "squeeze"


def op_expand(rnd, a, t):
    shape = [rnd.randint(1, 3) if n == 1 else n for n in a.shape]
    said = [-1 if rnd.random() < .3 and n == m else n
            for n, m in zip(shape, a.shape)]
    if a.ndim < 8 and rnd.random() < .4:
        shape, said = [2, *shape], [2, *said]
    return np.broadcast_to(a, shape), lambda: t.expand(said), f"expand{said}"


def op_narrow(rnd, a, t):
    d = rnd.randrange(a.ndim)
    start = rnd.randint(0, a.shape[d])
    n = rnd.randint(0, a.shape[d] - start)
    key = (slice(None),) * d + (slice(start, start + n),)
    return a[key], lambda: t.narrow(d, start, length=n), "narrow"


def op_skip(rnd, a, t):
    d, step = rnd.randrange(a.ndim), rnd.randint(1, 3)
    key = (slice(None),) * d + (slice(None, None, step),)
    return a[key], lambda: t.skip(d, step), "skip"


def op_select(rnd, a, t):
    d = rnd.randrange(a.ndim)
    if not a.shape[d] or a.ndim == 1:
        return op_t(rnd, a, t)
    i = rnd.randint(-a.shape[d], a.shape[d] - 1)
    return (a[(slice(None),) * d + (i,)], lambda: t.select(d, i), "select")


def op_diagonal(rnd, a, t):
    if a.ndim < 2:
        return op_t(rnd, a, t)
    x, y = rnd.sample(range(a.ndim), 2)
    k = rnd.randint(-2, 2)
    return (a.diagonal(k, x, y), lambda: t.diagonal(k, x, y), "diagonal")


def op_unfold(rnd, a, t):
    d = rnd.randrange(a.ndim)
    if a.ndim > 8 or not a.shape[d]:
        return op_t(rnd, a, t)
    size, step = rnd.randint(1, a.shape[d]), rnd.randint(1, 3)
    key = (slice(None),) * d + (slice(None, None, step),)
    return (sliding_window_view(a, size, d)[key],
            lambda: t.unfold(d, size, step), "unfold")


def op_split_merge(rnd, a, t):
    d = rnd.randrange(a.ndim)
    if not a.shape[d] or a.ndim > 7:
        return op_t(rnd, a, t)
    sizes = factors(rnd, a.shape[d])
    shape = a.shape[:d] + tuple(sizes) + a.shape[d + 1:]
    if rnd.random() < .5:
        return a.reshape(shape), lambda: t.split(d, *sizes), "split"
    return (a.reshape(a.shape),
            lambda: t.split(d, sizes).merge(d, d + len(sizes) - 1), "merge")


ANY = (op_index, op_t, op_reshape, op_flatten, op_unsqueeze, op_squeeze,
       op_expand, op_permute)
RANKED = (op_transpose, op_flip, op_narrow, op_skip, op_select, op_diagonal,
          op_unfold, op_split_merge)


def differs(a, t):
    """What tells the two apart, or None."""
    if t.shape != a.shape:
        return f"shape {t.shape}, numpy's {a.shape}"
    if a.size:
        steps = [(n, s, s2 // a.itemsize) for n, s, s2 in
                 zip(a.shape, t.strides, a.strides)]
        if any(n > 1 and s != s2 for n, s, s2 in steps):
            return f"strides {t.strides}, numpy's bytes {a.strides}"
    back = t.numpy()
    if back.dtype != a.dtype or not np.array_equal(back, a):
        return f"values {back}, numpy's {a}"
    return None


def chain(rnd, seen):
    shape = [rnd.choice((0, 1, 2, 3, 4, 6)) if rnd.random() < .2 else
             rnd.randint(1, 6) for _ in range(rnd.randint(0, 4))]
    dtype = np.dtype(rnd.choice(DTYPES))
    base = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    base = (base % 2 if dtype == bool else base).astype(dtype)
    a, t, text = base, tarn.from_numpy(base), f"{dtype}{shape}"
    for _ in range(rnd.randint(1, 6)):
        ops = ANY if a.ndim == 0 or rnd.random() < .5 else RANKED
        if a.ndim > 9:
            break
        a, do, name = rnd.choice(ops)(rnd, a, t)
        text += " ." + name
        seen.add(name.split("[")[0])
        t = do()
        wrong = differs(a, t)
        shared = np.shares_memory(a, base, max_work=10**6) if a.size else None
        if not wrong and shared is not None and \
                shared != np.shares_memory(t.numpy(), base, max_work=10**6):
            wrong = f"numpy {'shares' if shared else 'copied'}, tarn not"
        if wrong:
            return f"{text}: {wrong}"
    if a.size and a.flags.writeable and np.shares_memory(a, base):
        where = tuple(rnd.randrange(n) for n in a.shape)
        t[where] = 1
        if a[where] != 1:
            return f"{text}: a write was not seen in the array"
        a[where] = 0
        if t[where] != 0:
            return f"{text}: a write was not seen in the tensor"
    return None


rnd = random.Random(SEED)
seen, bad = set(), []
for number in range(CHAINS):
    try:
        wrong = chain(rnd, seen)
    except Exception as e:
        wrong = f"chain {number}: {type(e).__name__}: {e}"
    if wrong:
        bad.append(wrong)
kit.ok(not bad, f"chains of views agree with numpy (seed {SEED})",
       f"{len(bad)} of {CHAINS} differ", *bad[:5])
kit.ok(len(seen) >= 18, "every operation took part", sorted(seen))

# The same by text, and what einops has.
a = np.arange(24, dtype="f4").reshape(2, 3, 4)
t = tarn.from_numpy(a)
v = t.eval("[:, ::2].permute(2, 0, 1)")
kit.ok(np.array_equal(v.numpy(), a[:, ::2].transpose(2, 0, 1)) and
       tarn.same_storage(v, t), "eval returns a view")
kit.raises(ValueError, "Tensor.eval_copy",
           "eval refuses to copy, and names the method that does",
           t.eval, ".permute(2,1,0).reshape(24)")
kit.ok(np.array_equal(t.eval_copy(".permute(2,1,0).reshape(24)").numpy(),
                      a.transpose(2, 1, 0).reshape(24)),
       "eval_copy returns a copy")
v = t.rearrange("a b (c d) -> (a b) d c", d=2)
kit.ok(np.array_equal(v.numpy(),
                      a.reshape(6, 2, 2).transpose(0, 2, 1)),
       "rearrange permutes and merges")
kit.equal(tarn.same_storage(v, t), True, "reshape returns a view where it can")
v = t.rearrange("a b c -> (c a) b")
kit.ok(np.array_equal(v.numpy(), a.transpose(2, 0, 1).reshape(8, 3)) and
       not tarn.same_storage(v, t), "reshape returns a copy where it must")
kit.ok(np.array_equal(t.bitcast("U8").numpy(), a.view("u1")),
       "bitcast reinterprets the bytes")
kit.ok(np.array_equal(t.view(6, 4).numpy(), a.reshape(6, 4)),
       "view changes the shape")

# What is refused is refused in the library's words.
kit.raises(IndexError, "out of range", "an index out of range is refused",
           lambda: t[0, 0, 4])
kit.raises(IndexError, "", "a select out of range is refused", t.select, 1, 3)
kit.raises(IndexError, "dimensions", "too many indices are refused",
           lambda: t[0, 0, 0, 0])
kit.raises(IndexError, "...", "two ellipses are refused", lambda: t[..., ...])
kit.raises(IndexError, "does neither", "an index by a text is refused",
           lambda: t["a"])
kit.raises(IndexError, "", "an index by a bool is refused", lambda: t[True])
kit.raises(ValueError, "", "a step of 0 is refused", lambda: t[::0])
kit.raises(ValueError, "permute",
           "a dimension that is named twice is refused", t.permute, 0, 0, 1)
kit.raises(ValueError, "merge", "a merge that needs a copy is refused",
           t.permute(0, 2, 1).merge, 1, 2)
kit.raises(ValueError, "view", "a view that needs a copy is refused",
           t.permute(2, 1, 0).view, 24)
kit.raises(ValueError, "at most 12",
           "a shape of 13 dimensions is refused", t.reshape, *[1] * 13)
kit.raises(TypeError, "dim1", "a missing argument is refused", t.transpose, 0)
kit.raises(TypeError, "axis",
           "an unknown argument is refused", t.squeeze, axis=0)
kit.raises(TypeError, "by position and by name",
           "an argument by position and by name is refused",
           t.unsqueeze, 0, dim=0)
kit.raises(TypeError, "",
           "a dimension that is no integer is refused", t.flip, 1.5)
kit.raises(OverflowError, "",
           "an index past 64 bits is refused", lambda: t[1 << 70])
kit.finish()
