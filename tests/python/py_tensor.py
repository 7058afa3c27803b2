#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors in Python: elements, new ones, copies, how they print, and the bytes
that they share with other objects, which live as long as anybody needs them."""
import copy
import ctypes
import gc
import io
import json
import math
import pickle
import signal
import subprocess
import sys
import threading
import weakref
import zlib

import py_kit as kit

import tarn

T = tarn.tensor

# ---- what it is ----
t = tarn.arange(24, dtype="F32").reshape(2, 3, 4)
kit.equal((t.shape, t.strides, t.dtype, t.ndim, t.offset, t.numel(), t.nbytes,
           t.itemsize, t.readonly, t.is_contiguous(), len(t), t.storage_kind),
          ((2, 3, 4), (12, 4, 1), "F32", 3, 0, 24, 96, 4, False, True, 2,
           "owned"), "a tensor has its properties")
kit.equal((t.device, t.dim(), t.numel(), t.element_size()),
          ("cpu", 3, t.size, t.itemsize), "a tensor has PyTorch's properties")
kit.equal((t.copy().tolist(), tarn.same_storage(t.copy(), t),
           t.astype(t.dtype).tolist(), tarn.same_storage(t.astype(t.dtype), t),
           t.astype("F32", copy=False) is t, t.astype(int, copy=False).dtype,
           t.astype("float64").dtype),
          (t.tolist(), False, t.tolist(), False, True, "I64", "F64"),
          "a tensor has numpy's methods")
kit.equal((tarn.empty((2, 3), "I8").shape, tarn.empty(4).dtype),
          ((2, 3), "F32"), "tarn.empty makes a tensor")

# ---- dtypes ----
d = tarn.zeros(1).dtype
same, others = ["F32", "float32", "<f4", float], ["F64", ">f4", "x", "", int]
try:
    import numpy as np
    same += [np.float32, np.dtype("f4")]
    others += [np.float64, np.dtype("f8"), np.dtype(">f4"), np.zeros(1)[0]]
except ImportError:
    kit.skipped(
                "numpy's dtypes are compared",
                "numpy is not installed (python3-numpy)")
try:
    import torch
    same += [torch.float32]
    others += [torch.float64, torch.bfloat16]
except ImportError:
    kit.skipped(
                "PyTorch's dtypes are compared",
                "torch is not installed (python3-torch)")
kit.equal([(x, d == x, d != x) for x in same],
          [(x, True, False) for x in same],
          "a dtype on the left of == equals whatever names that dtype")
kit.equal([x for x in (*others, None, 3, object(), [], tarn.zeros)
           if d == x or not d != x], [], "a dtype equals nothing else")
kit.equal(({d: 1}["F32"], d in ("F64", "F32"), str(d), f"{d:>5}", d < "F64",
           isinstance(d, str), json.dumps(d), pickle.loads(pickle.dumps(d)) is d,
           copy.deepcopy(d) is d, tarn.Dtype("float16"), sorted(tarn.dtypes)[0]),
          (1, True, "F32", "  F32", True, True, '"F32"', True, True, "F16",
           "BF16"), "a dtype is a text")
for wrong in ("F33", None):
    kit.raises(ValueError, "none of the 22",
               f"Dtype({wrong!r}) is refused", tarn.Dtype,
               wrong)
kit.raises(TypeError, "one dtype",
           "Dtype() without an argument is refused", tarn.Dtype)

# ---- exceptions speak of what was called ----
for call, part in {
    "tarn.zeros((-1, 2))": "zeros: size -1",
    "tarn.ones(-1)": "ones: size -1",
    "tarn.empty(-1)": "empty: size -1",
    "tarn.full(-1, 3)": "full: size -1",
    "tarn.zeros('a')": "zeros: a whole number",
    "tarn.zeros((2, 'a'))": "zeros: a whole number",
    "tarn.full(2, 300, 'U8')": "300 does not fit U8",
    "tarn.arange('x')": "arange: a number is wanted, not 'x'",
    "t[99]": "index 99 is out of range",
    "t[99, 0, 0]": "index 99 is out of range",
    "t.__setitem__((0, 0, 99), 1)": "index 99 is out of range",
    "t.__setitem__((0, 0, 0), 'x')": "a number is wanted, not 'x'",
    "t.copy_([1] * 99)": "a source of shape [99]",
    "t.eval(3)": "eval: an expression is wanted",
    "t.eval_copy(3)": "eval_copy: an expression is wanted",
    "tarn.arange(5.).to('F4')": "copy: the last dimension",
}.items():
    try:
        said = repr(eval(call))
    except (IndexError, OverflowError, TypeError, ValueError) as e:
        said = str(e)
    kit.ok(part in said and not any(word in said for word in (
        "contiguous:", "select:", "element:", "set:", "src", "dst")),
        f"{call} is refused with a Python error", f"wanted: ...{part}...",
        f"seen: {said}")
v = t[1, :, ::-2]
kit.equal((v.shape, v.strides, v.offset, v.is_contiguous()),
          ((3, 2), (4, -2), 15, False), "a view has its properties")
kit.raises(TypeError, "tarn.zeros",
           "Tensor() names the functions that make tensors",
           tarn.Tensor)
kit.raises(AttributeError, "", "properties are read-only", setattr, t,
           "shape", (24,))
kit.ok(len(tarn.dtypes) == 22 and "BF16" in tarn.dtypes, "there are 22 dtypes",
       tarn.dtypes)

# ---- elements ----
kit.equal((t[1, 2, 3], t[-1, -1, -1], t[0, 1, 0]), (23., 23., 4.),
          "elements are read by index")
t[1, 2, 3] = -5
kit.equal((t[1, 2, 3], v[2, 0]), (-5., -5.),
          "an element that is set is seen through a view")
values = {"BOOL": True, "U8": 255, "I8": -128, "U16": 65535, "I16": -32768,
          "U32": 2**32 - 1, "I32": -2**31, "U64": 2**64 - 1, "I64": -2**63,
          "F16": 1.5, "BF16": -2.0, "F32": 0.25, "F64": math.pi,
          "C64": 1.5 - 2j, "F8_E4M3": 448.0, "F8_E5M2": -57344.0,
          "F8_E8M0": 4.0, "F8_E4M3FNUZ": 1.0, "F8_E5M2FNUZ": 2.0,
          "F6_E2M3": 7.5, "F6_E3M2": 28.0, "F4": -6.0}
bad = []
for dtype, value in values.items():
    x = tarn.ones(4, dtype)
    x[1] = value
    seen = (x[1], x.tolist(), x[1:2].item() if x.itemsize >= 1 else value)
    one = type(value)(1)
    if seen != (value, [one, value, one, one], value) or \
            type(x[1]) is not type(value):
        bad.append(f"{dtype}: {seen}, wanted {value!r}")
kit.ok(not bad, "each dtype gives back its values, by three ways", *bad)
kit.equal(sorted(values), sorted(tarn.dtypes), "all dtypes were tried")
kit.raises(OverflowError, "300", "a value that does not fit is refused",
           tarn.zeros(1, "U8").__setitem__, 0, 300)
kit.raises(OverflowError, "", "a negative U64 is refused",
           tarn.zeros(1, "U64").__setitem__, 0, -1)
kit.raises(IndexError, "",
           "an assignment out of range is refused",
           t.__setitem__, (0, 0, 9), 1)
kit.raises(TypeError, "",
           "a value that is no number is refused", t.__setitem__,
           (0, 0, 0), {})
kit.raises(TypeError, "deleted",
           "an element cannot be deleted", t.__delitem__, 0)
kit.equal((float(T(1.5)), int(T([7])), bool(T([0])), bool(T([[2.5]]))),
          (1.5, 7, False, True),
          "one element is converted by float, int and bool")
kit.raises(ValueError, "one element",
           "bool of several elements is refused", bool, T([1, 2]))
kit.raises(ValueError, "one element",
           "bool of no elements is refused", bool, tarn.zeros(0))
kit.equal([x.tolist() for x in T([[1, 2], [3, 4]])], [[1, 2], [3, 4]],
          "iteration gives rows")
kit.equal(list(T([1, 2, 3])), [1, 2, 3], "iteration of a vector gives numbers")
kit.raises(TypeError, "rank 0",
           "a tensor of rank 0 cannot be iterated", iter, T(1))
kit.raises(TypeError, "rank 0", "a tensor of rank 0 has no length", len, T(1))

grid = T([[1, 2, 3], [4, 5, 6]])
kit.equal([n in grid for n in (3, 6., T([4]), 7, 2.5, "x", None)],
          [True, True, True, False, False, False, False],
          "in looks at all elements")
kit.equal([5 in grid[:, ::2], 6 in grid[:, ::2], 5 in T(5), 0 in tarn.zeros(0),
           0 in tarn.zeros((2, 0)), 1j in T([[1j]]), True in T([[0, 1]]),
           2**64 - 1 in T([[2**64 - 1]], "U64"),
           float("nan") in T([[float("nan")]])],
          [False, True, True, False, False, True, True, True, False],
          "in searches views, one element, none, and each dtype")
kit.raises(ValueError, "one element",
           "in with a tensor of several elements is refused",
           lambda: grid[0] in grid)
# More than is looked at in one piece.
large = tarn.arange(3 * 70001, dtype="I32").reshape(1, 3, 70001)
odd = tarn.zeros(2 * 70002, "F4")
odd[70000] = 6
kit.equal([n in x for x in (large, large[0].T, large[:, ::-1, ::-2])
           for n in (0, 70000, 70001, 210001, 210002, -1)]
          + [n in odd for n in (6, 3)],
          [True, True, True, True, True, False] * 2
          + [True, True, True, False, True, False] + [True, False],
          "in searches every piece of a large tensor")
endless = tarn.ones(1).expand(1 << 45)
kit.ok(1 in endless,
       "in needs no memory for all when it finds a value at once")


def raise_interrupt(*_):
    raise KeyboardInterrupt


def search_interrupted():
    # A signal that comes before the search is as good.
    signal.setitimer(signal.ITIMER_REAL, .1)
    return 2 in endless


before = signal.signal(signal.SIGALRM, raise_interrupt)
kit.raises(KeyboardInterrupt, "", "a signal ends a long search",
           search_interrupted)
signal.signal(signal.SIGALRM, before)

# ---- writing views ----
x = tarn.zeros((3, 4), "I32")
x[1:, ::2] = 7
x[0] = T([1, 2, 3, 4])
kit.equal(x.tolist(), [[1, 2, 3, 4], [7, 0, 7, 0], [7, 0, 7, 0]],
          "a number and a tensor of another dtype are assigned")
x[:, :] = x[:, ::-1]
kit.equal(x[0].tolist(), [4, 3, 2, 1],
          "a source that shares the bytes is assigned")
x[1] = x[0, 0]
kit.equal(x[1].tolist(), [4] * 4, "a number is assigned to all elements")
y = x.copy_(T([[9.7]]))
kit.ok(y is x and x.tolist() == [[9] * 4] * 3, "copy_ converts and repeats", x)
kit.raises(ValueError, "",
           "copy_ refuses shapes that do not fit", x.copy_, T([1, 2, 3]))
x[...] = T([[[[1, 2, 3, 4]] * 3]])
kit.equal(x[2].tolist(), [1, 2, 3, 4],
          "leading dimensions of 1 are ignored in an assignment")
x[1] = T([[[5, 6, 7, 8]]])
kit.equal(x[1].tolist(), [5, 6, 7, 8],
          "leading dimensions of 1 are ignored for a row")
kit.raises(ValueError, "",
           "a leading dimension of 2 is refused", x.__setitem__, ...,
           tarn.zeros((2, 3, 4)))
x[0] = [9, 8, 7.5, True]
x[1:, 0] = (4, 3)
x[2, 1:3] = [[5]]
kit.equal(x.tolist(), [[9, 8, 7, 1], [4, 6, 7, 8], [3, 5, 5, 4]],
          "lists and tuples are assigned")
kit.raises(ValueError, "as long",
           "a ragged list is not assigned", x.__setitem__, ...,
           [[1], [2, 3]])
kit.raises(ValueError, "",
           "a list of another length is not assigned", x.__setitem__, 0, [1, 2])

# ---- new ones ----
kit.equal([T(True).dtype, T(1).dtype, T(1.).dtype, T(1j).dtype,
           T([[1, 2.5], [True, 0]]).dtype, T([]).dtype],
          ["BOOL", "I64", "F32", "C64", "F32", "F32"],
          "numbers have their default dtypes")
kit.equal((T([[1, 2], [3, 4]], "BF16").tolist(), T([[], []]).shape, T(5).shape),
          ([[1., 2.], [3., 4.]], (2, 0), ()), "nested lists become tensors")
kit.equal(T([2**64 - 1], "u8").dtype, "U64",
          "numpy's names of dtypes are accepted")
kit.raises(ValueError, "as long",
           "rows of several lengths are refused", T, [[1, 2], [3]])
kit.raises(ValueError, "",
           "a number in place of a row is refused", T, [[1, 2], 3])
kit.raises(TypeError, "'x'",
           "an element that is no number is refused", T, [1, "x"])
kit.raises(ValueError, "deeper",
           "lists that are nested too deep are refused", T,
           [[[[[[[[[[[[[1]]]]]]]]]]]]])
kit.equal((tarn.full((2, 2), 3).tolist(), tarn.full(2, 1.5, "F64").dtype,
           tarn.ones(3, bool).tolist()),
          ([[3, 3], [3, 3]], "F64", [True] * 3), "full and ones make tensors")
kit.equal((tarn.arange(3).tolist(), tarn.arange(5, 1, -2).tolist(),
           tarn.arange(1, 2, .25).tolist()),
          ([0, 1, 2], [5, 3], [1, 1.25, 1.5, 1.75]), "arange makes tensors")
kit.raises(ValueError, "dtype",
           "an unknown dtype is refused", tarn.zeros, 3, "F33")
for make in (tarn.zeros, tarn.ones):
    kit.raises(TypeError, "((3, 4, ...), dtype)", f"{make.__name__}(3, 4): the "
               "shape is one argument", make, 3, 4)
kit.equal([(z.shape, z.dtype) for z in (tarn.zeros([0], "F8_E8M0"),
                                       tarn.zeros((3, 0), "F8_E8M0"))],
          [((0,), "F8_E8M0"), ((3, 0), "F8_E8M0")],
          "empty zeros of a dtype without zero are made")
kit.raises(IndexError, "does not fit",
           "zeros of a dtype without zero are refused",
           tarn.zeros, 1, "F8_E8M0")
kit.raises(ValueError, "big-endian",
           "a big-endian dtype is refused", tarn.zeros, 3, ">f4")
kit.raises(ValueError, "", "a negative size is refused", tarn.zeros, -1)
kit.raises(TypeError, "zeros: a whole number",
           "a size that is no number is refused",
           tarn.zeros, None)
kit.raises(ValueError, "2^63",
           "a size past int64 is refused", tarn.zeros, 2**61, "U8")
kit.raises(MemoryError, "",
           "a size beyond the address space is refused", tarn.zeros, 2**50,
           "U8")

# ---- PyTorch's names ----
m = tarn.arange(24.).reshape(2, 3, 4)[1].T
kit.equal((m.stride(), m.stride(0), m.stride(-1), m.storage_offset()),
          ((1, 4), 1, 4, 12), "stride() and storage_offset()")
kit.equal((m.data_ptr(), m.t().tolist() == m.T.tolist(),
           m.storage().shape), (m.numpy().ctypes.data, True, (24,)),
          "data_ptr(), t() and storage()")
kit.raises(IndexError, "2 of 2", "stride() of no dimension", m.stride, 2)
kit.raises(ValueError, "3 dimensions", "t() of three dimensions",
           tarn.zeros((1, 2, 3)).t)

# ---- copies ----
c = v.clone()
kit.equal((c.is_contiguous(), c.tolist() == v.tolist(),
           tarn.same_storage(c, v), tarn.equal(c, v)),
          (True, True, False, True), "clone copies in C order")
kit.ok(t.contiguous() is t and v.contiguous().is_contiguous(),
       "contiguous copies only where it must")
kit.ok(t.to("F32") is t and t.to(int).dtype == "I64",
       "to() of the same dtype is the same tensor")
kit.equal(T([1.9, -1.9, 300.]).to("I8").tolist(), [1, -1, 127],
          "to an integer cuts and clamps")
kit.ok(len({t, t.clone()}) == 2 and {t: 1, v: 2}[t] == 1 and
       [t, v].index(t) == 0, "a tensor is a key of dicts by what it is")
kit.equal([t == o for o in (None, "x", {}, int, ...)] + [t != None],
          [False] * 5 + [True],
          "a tensor equals nothing that is no number or array")
kit.equal((weakref.ref(t)() is t, hash(t) == hash(t)), (True, True),
          "a tensor has weak references and a hash")
try:
    import tarn._ops
except ImportError:
    kit.raises(ImportError, "BLAS", "without operations == raises in place of "
               "a wrong answer", lambda: t == t.clone())
else:
    kit.raises(ValueError, "one element", "what == gives has no single truth",
               lambda: bool(t == t))
kit.equal(tarn.equal(T([1]), T([2])), False, "equal compares values")

# ---- printing ----
kit.equal(repr(T([[1.5, 2], [3, 4]])),
          "Tensor([[1.5 2. ]\n        [3.  4. ]], dtype=F32)",
          "repr shows the values and the dtype")
kit.equal((repr(tarn.zeros((0, 3))), str(T([1, 2]))),
          ("Tensor([], shape=(0, 3), dtype=F32)", "[1 2]"),
          "repr and str of an empty tensor and a vector")

# ---- buffers ----
m = memoryview(tarn.arange(6, dtype="I16").reshape(2, 3))
kit.equal((m.format, m.shape, m.strides, m.readonly, m.tolist()),
          ("h", (2, 3), (6, 2), False, [[0, 1, 2], [3, 4, 5]]),
          "a memoryview has format, shape and strides")
kit.equal(bytes(T([1, 2], "U16")), b"\1\0\2\0",
          "bytes of a tensor are its elements")
kit.raises(BufferError, "C order", "bytes of a reversed view are in its order",
           zlib.crc32, T([[1, 2], [3, 4]]).T)
kit.raises(BufferError, "smaller than bytes", "4-bit elements have no buffer",
           memoryview, tarn.zeros(4, "F4"))
b = bytearray(8)
x = tarn.from_numpy(b)
x[3] = 200
kit.equal((x.dtype, b[3], x.readonly, x.storage_kind),
          ("U8", 200, False, "borrowed"), "a tensor over a bytearray")
kit.raises(BufferError, "",
           "the bytearray cannot be resized meanwhile", b.append, 1)
del x
b.append(1)
kit.equal(len(b), 9, "the bytearray can be resized after the tensor")
x = tarn.from_numpy(b"\0\0\x80\x3f", "F32")
kit.equal((x.tolist(), x.readonly), ([1.0], True), "bytes are seen as F32")
kit.raises(ValueError, "read-only",
           "a tensor over bytes cannot be written", x.__setitem__,
           0, 1)
kit.raises(ValueError, "read-only",
           "a read-only tensor cannot be filled", x.copy_, T([1.]))
kit.raises(TypeError, "read-", "a read-only tensor has no writable buffer",
           io.BytesIO(b"abcd").readinto, x)

# ---- lifetime ----

class Owner:
    def __init__(self, interface):
        self.__array_interface__ = interface


memory = ctypes.create_string_buffer(b"abcdef")
owner = Owner({"version": 3, "typestr": "|u1", "shape": (6,),
               "data": (ctypes.addressof(memory), False)})
alive = weakref.ref(owner)
x = tarn.from_numpy(owner)
del owner
view = x[::2]
del x
gc.collect()
kit.equal((alive() is not None, view.tolist()), (True, [97, 99, 101]),
          "a view keeps the owner")
m = memoryview(view)
del view
kit.equal((alive() is not None, m.tolist()), (True, [97, 99, 101]),
          "a buffer over a view keeps the owner")
del m
kit.equal(alive(), None, "the object is freed with its last buffer")
for wrong in ({}, {"typestr": "<f4"}, {"typestr": "<f4", "data": 5},
              {"typestr": "<f4", "data": (0, False), "shape": (1,),
               "strides": (1, 2)}, {"typestr": "<f4", "data": (4096, False),
                                    "shape": (2,), "strides": (3,)}):
    kit.raises(ValueError, "", f"an interface of {list(wrong)} is refused",
               tarn.from_numpy, Owner(wrong))
alive = weakref.ref(t)
kit.ok(alive() is t, "a weak reference to a tensor works")

# ---- threads ----
x = tarn.zeros(1000, "I64")


def work(n):
    for i in range(300):
        part = x[n::4].reshape(2, 125)
        part[i % 2, i % 125] = n
        x.clone().tolist()
        repr(part)


threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
kit.equal([x[n] for n in range(4)], [0, 1, 2, 3],
          "threads set elements of one tensor")
done = []
b = bytearray(64)
thread = threading.Thread(target=lambda y: done.append(y.tolist()),
                          args=(tarn.from_numpy(b),))
thread.start()
thread.join()
del thread
gc.collect()
b.append(0)
kit.equal(len(b), 65, "a storage that ends in another thread is released")

# ---- other interpreters of this process ----
try:
    import _interpreters as interpreters
    HOW = {"one that shares the lock": "'legacy'",
           "one with a lock of its own": "'isolated'"}
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
        HOW = {"one that shares the lock": "isolated=False",
               "another": "isolated=True"}
    except ImportError:
        HOW = {}
if not HOW:
    kit.skipped(
                "another interpreter refuses the module",
                "this Python makes none")
for which, how in HOW.items():
    # Which one is first makes no difference.
    seen = subprocess.run([sys.executable, "-c", f"""
import {interpreters.__name__} as interpreters
there = interpreters.create({how})
interpreters.run_string(there, '''
try:
    import tarn
except ImportError as e:
    print(e, flush=True)
''')
interpreters.destroy(there)
import tarn
print(tarn.zeros(1).tolist())
"""], capture_output=True, text=True, check=False)
    # From 3.12 on Python itself refuses what says of itself no more than ours
    # does in the stable ABI, where locks are not shared.
    word = "the main interpreter"
    if which != "one that shares the lock" and sys.version_info >= (3, 12):
        word = "not support loading in subinterpreters"
    kit.ok(word in seen.stdout and "[0.0]" in seen.stdout,
           f"the module belongs to the main interpreter, not {which}", seen)
kit.finish()
