#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bytes shared with numpy, with PyTorch and by DLPack: both sides see each
other's writes, read-only stays read-only or is refused, each dtype arrives as
itself or as what is said, and the bytes live as long as anybody has them."""
import gc

import py_kit as kit

import tarn

T = tarn.tensor
FLOATS = [0., 1., -2., 0.5]


class Giver:
    """Hands on what a tensor gives, and counts as its owner."""

    def __init__(self, tensor, versioned=True):
        self.tensor, self.versioned = tensor, versioned

    def __dlpack__(self, **keywords):
        if not self.versioned and keywords:
            raise TypeError("an old giver knows no keywords")
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


# ---- DLPack, from tarn to tarn ----
a = tarn.arange(12, dtype="I32").reshape(3, 4)
for versioned in (False, True):
    name = "versioned" if versioned else "old"
    b = tarn.from_dlpack(Giver(a[:, ::-2], versioned))
    kit.equal((b.shape, b.strides, b.dtype, b.tolist(), b.readonly),
              ((3, 2), (4, -2), "I32", a[:, ::-2].tolist(), False),
              f"DLPack, {name}: a reversed view is imported")
    b[0, 0] = 100 + versioned
    kit.equal(a[0, 3], 100 + versioned, f"{name}: the bytes are shared")
frozen = tarn.from_numpy(b"abcd")
kit.raises(BufferError, "read-only",
           "old DLPack: a read-only tensor that must not be copied is "
           "refused", frozen.__dlpack__, copy=False)
b = tarn.from_dlpack(Giver(frozen, False))
b[0] = 1
kit.equal((b.tolist(), frozen[0]), ([1, 98, 99, 100], 97),
          "old DLPack: a read-only tensor is exported as a private copy")
b = tarn.from_dlpack(Giver(frozen))
kit.equal((b.readonly, b.tolist()), (True, [97, 98, 99, 100]),
          "versioned DLPack: a read-only tensor is marked as such")


class Copier:
    def __dlpack__(self):
        return frozen.__dlpack__(copy=True)


b = tarn.from_dlpack(Copier())
b[0] = 1
kit.equal((frozen[0], b[0]), (97, 1), "copy=True is a copy, and writable")
kit.equal(a.__dlpack_device__(), (1, 0), "a tensor's DLPack device is the CPU")
kit.raises(BufferError, "device", "another device is refused", a.__dlpack__,
           dl_device=(8, 0))
small = tarn.zeros(4, "F6_E2M3")
kit.raises(BufferError, "smaller", "6-bit elements are refused",
           small.__dlpack__)
kit.raises(BufferError, "smaller",
           "6-bit elements are refused as a copy, too", small.__dlpack__,
           copy=True)
pairs = T([[1, 2, 3, 4], [-.5, .5, 6, 0]], "F4")[:, 2:]
b = tarn.from_dlpack(Giver(pairs))
pairs[0, 1] = -6
kit.equal((b.dtype, b.shape, b.tolist()), ("F4", (2, 2), [[3., -6.], [6., 0.]]),
          "pairs of 4-bit elements go through")
kit.raises(TypeError, "by name",
           "__dlpack__ takes no arguments by position", a.__dlpack__, None)
kit.raises(TypeError, "by name",
           "from_dlpack takes further arguments by name only",
           tarn.from_dlpack, a,
           "cpu")
for stream in (0, 1, -1, 2):
    kit.raises(RuntimeError, f"stream is {stream}", f"stream {stream}: the "
               "CPU has none", a.__dlpack__, stream=stream)
kit.ok(a.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0),
                    copy=False), "__dlpack__ takes all arguments at once")


class Notes(Giver):
    """What it was asked."""
    def __dlpack__(self, **keywords):
        self.asked = keywords
        return super().__dlpack__(**keywords)


notes = Notes(a)
for given, wanted in (({}, {}), ({"device": "cpu"}, {"dl_device": (1, 0)}),
                      ({"device": (1, 0)}, {"dl_device": (1, 0)}),
                      ({"copy": None}, {}), ({"copy": False}, {"copy": False}),
                      ({"copy": True}, {"copy": True})):
    b = tarn.from_dlpack(notes, **given)
    before, a[0, 0] = a[0, 0], a[0, 0] + 1
    asked = {k: v for k, v in notes.asked.items() if k != "max_version"}
    kit.equal((asked, b[0, 0]), (wanted, before + (not given.get("copy"))),
              f"from_dlpack(..., {given}): the exporter gets these arguments")
old = tarn.from_dlpack(Giver(a, False), copy=True)
own = tarn.from_dlpack(a, copy=True)
a[0, 0] = -9
kit.ok(old[0, 0] != -9 and own[0, 0] != -9 and
       tarn.from_dlpack(a, copy=False) is a,
       "copy=True copies if the exporter does not know it, and of ours")
kit.raises(ValueError, "'metal'",
           "from_dlpack refuses another device", tarn.from_dlpack, a,
           device="metal")
kit.raises(BufferError, "device",
           "from_dlpack refuses another device by its number, too",
           tarn.from_dlpack, a,
           device=(8, 0))
kit.raises(TypeError, "pair",
           "a version that is no pair is refused", a.__dlpack__,
           max_version=1)
bad = []
for dtype in tarn.dtypes:
    x = tarn.ones(4, dtype)
    if x.itemsize >= 1:
        y = tarn.from_dlpack(Giver(x))
        if y.dtype != dtype or not tarn.equal(x, y):
            bad.append(f"{dtype}: {y!r}")
kit.ok(not bad, "every dtype of whole bytes goes through", *bad)
kit.equal([tarn.from_dlpack(Giver(tarn.zeros(s))).shape for s in
           ((), (0, 3), (1, 1))], [(), (0, 3), (1, 1)],
          "tensors of rank 0, without elements, and of extents 1 go through")
for _ in range(3):
    a.__dlpack__()
    a.__dlpack__(max_version=(1, 0))
memory = bytearray(8)
b = tarn.from_dlpack(Giver(tarn.from_numpy(memory)))[2:]
gc.collect()
kit.raises(BufferError, "", "a view keeps the imported memory",
           memory.append, 0)
del b
gc.collect()
memory.append(0)
kit.equal(len(memory), 9, "the last view releases the lent memory")
kit.raises(AttributeError, "__dlpack__",
           "from_dlpack refuses an object without __dlpack__",
           tarn.from_dlpack, 5)

# ---- numpy ----
try:
    import numpy as np
except ImportError:
    np = None
    kit.skipped("numpy shares bytes", "numpy is not installed (python3-numpy)")
if np:
    n = np.from_dlpack(a)
    a[1, 1] = -7
    kit.equal((n.shape, n[1, 1]), ((3, 4), -7),
              "numpy.from_dlpack shares a tensor")
    x = np.arange(6, dtype="f4").reshape(2, 3)[:, ::-1]
    b = tarn.from_dlpack(x)
    x[0, 0] = 50
    kit.equal((b[0, 0], b.strides), (50., (3, -1)),
              "from_dlpack shares an array of numpy's")
    n = a.numpy()
    n[0, 0] = 41
    kit.equal((a[0, 0], n.flags.writeable), (41, True),
              ".numpy() shares the bytes")
    kit.equal(frozen.numpy().flags.writeable, False,
              ".numpy() of a read-only tensor is read-only")
    kit.raises(ValueError, "", "numpy cannot make a read-only array writable",
               frozen.numpy().setflags, write=True)
    kit.equal(tarn.from_numpy(np.array([0x3f80], "u2"), "BF16").tolist(),
              [1.], "from_numpy reads bits as BF16 where a dtype is given")
    kit.equal(np.asarray(a.T).strides, (4, 16),
              "numpy.asarray keeps the strides")
    kit.equal([tarn.zeros(1, d).dtype for d in
               (np.float32, np.dtype("<i2"), np.bool_, np.complex64)],
              ["F32", "I16", "BOOL", "C64"],
              "numpy's dtypes are accepted as dtypes")
    kit.raises(ValueError, "big-endian", "a big-endian dtype is refused",
               tarn.zeros, 1, np.dtype(">f4"))
    kit.raises(ValueError, "none of tarn's", "a big-endian array is refused",
               tarn.from_numpy, np.zeros(2, ">f4"))
    kit.raises(ValueError, "", "an array of dates is refused",
               tarn.from_numpy, np.zeros(2, "M8[s]"))
    t = tarn.arange(12).reshape(3, 4)
    kit.equal(t[np.int64(1), np.array(2)], 6,
              "numpy's scalars are accepted as indices")
    records = np.zeros(3, [("a", "u1"), ("b", "<f4")])
    kit.raises(ValueError, "strides",
               "strides that fall between elements are refused",
               tarn.from_numpy, records["b"])
    a[...] = np.arange(12).reshape(3, 4)
    kit.equal(a[2].tolist(), [8, 9, 10, 11],
              "a numpy array is assigned to a row")
    n = a[1:, ::2].numpy()
    del a
    gc.collect()
    kit.equal(n.tolist(), [[4, 6], [8, 10]], "an array outlives the Tensor")

# ---- PyTorch ----
try:
    import torch
except ImportError:
    torch = None
    kit.skipped(
                "PyTorch shares bytes",
                "torch is not installed (python3-torch)")
if torch:
    bad = []
    for dtype in ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16",
                  "F32", "F64", "C64"):
        x = T([[0, 1], [1, 0]], dtype)
        y = x.T.torch()
        names = {"BOOL": "bool", "U8": "uint8", "BF16": "bfloat16",
                 "C64": "complex64"}
        name = names.get(dtype) or \
            dtype.replace("F", "float").replace("I", "int")
        x[0, 1] = 0
        if y.dtype != getattr(torch, name) or \
                y.tolist() != x.T.tolist() or y[0, 1].item() != 1:
            bad.append(f"{dtype}: {y}")
    kit.ok(not bad, "each dtype is PyTorch's own, over the same bytes", *bad)
    x = T(FLOATS, "F8_E5M2")
    if hasattr(torch, "float8_e5m2"):
        kit.equal(x.torch().float().tolist(), FLOATS,
                  "a tensor of F8 has the same numbers in PyTorch")
    else:
        kit.raises(ValueError, "has no float8_e5m2",
                   "an older PyTorch without F8 raises an error that says so",
                   x.torch)
    y = frozen.torch()
    y.add_(1)
    kit.equal((y.tolist(), frozen.tolist(), frozen[1:].torch().tolist()),
              ([98, 99, 100, 101], [97, 98, 99, 100], [99, 100, 101]),
              "PyTorch's writes to a read-only tensor stay in its own views")
    del y
    kit.equal(frozen.torch().tolist(), [97, 98, 99, 100],
              "a private copy ends with the last of its views")
    kit.raises(ValueError, "has no F6",
               "dtypes that PyTorch has not are named in the error",
               small.torch)
    x = T([[1, 2], [-6, .5]], "F4")
    if hasattr(torch, "float4_e2m1fn_x2"):
        y = x.torch()
        kit.equal((y.dtype, tuple(y.shape), y.view(torch.uint8).tolist()),
                  (torch.float4_e2m1fn_x2, (2, 1), x.bitcast("U8").tolist()),
                  "F4 elements are pairs in PyTorch")
        kit.equal([tarn.equal(t, x) for t in
                   (tarn.from_numpy(y), tarn.from_dlpack(y), T(y))],
                  [True] * 3, "pairs of F4 come back from PyTorch")
        y = torch.from_dlpack(x)
        x[1, 0] = 4
        kit.equal((y.dtype, tarn.from_numpy(y).tolist()),
                  (torch.float4_e2m1fn_x2, [[1., 2.], [4., .5]]),
                  "F4 comes by DLPack, too, over the same bytes")
    else:
        kit.raises(ValueError, "no float4_e2m1fn_x2",
                   "an older PyTorch without F4 raises an error that says so",
                   x.torch)
    x = T(FLOATS, "F8_E5M2")
    kit.raises(ValueError, ".contiguous()",
               "a view that runs backwards is refused by PyTorch",
               x[::-1].torch)
    y = torch.arange(6.).reshape(2, 3)
    x = tarn.from_dlpack(y.T)
    y[0, 1] = 77
    kit.equal((x.shape, x.strides, x[1, 0]), ((3, 2), (1, 3), 77.),
              "from_dlpack shares a tensor of PyTorch's")
    x = tarn.from_numpy(torch.ones(3, dtype=torch.bfloat16))
    kit.equal((x.dtype, x.tolist()), ("BF16", [1.] * 3),
              "from_numpy takes a tensor of PyTorch's")
    y = torch.tensor([1 + 2j, 3 - 4j]).conj()
    kit.equal((tarn.from_numpy(y).tolist(), tarn.tensor(y.imag).tolist()),
              ([1 - 2j, 3 + 4j], [-2., 4.]),
              "lazy negation and conjugation of PyTorch's are not lost")
    del y
    gc.collect()
    kit.equal(tarn.zeros(1, torch.bfloat16).dtype, "BF16",
              "PyTorch's dtypes are accepted as dtypes")
    y = T([1, 2, 3], "F32").torch()
    gc.collect()
    kit.equal((y * 2).tolist(), [2., 4., 6.],
              "a tensor of PyTorch's outlives the Tensor")
kit.finish()
