#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Objects as bytes: any nesting comes out as it went in, arrays as views of the
bytes, other objects by pickle with their arrays beside it; and whatever stands
in damaged bytes, it is an error and not the end of the process."""
import collections
import datetime
import decimal
import gc
import pickle
import random
import struct
import sys
import weakref

import py_kit as kit

import tarn
from tarn._tarn import _pack, _packed_size, _unpack

kit.ok("numpy" not in sys.modules, "packing does not import numpy")


def back(value):
    return _unpack(_pack(value))


def same(a, b):
    """Equal, and of the same types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


# ---- plain types ----
plain = [
    None, True, False, 0, 1, -1, 63, 64, -64, -65, 2**63 - 1, -2**63, 2**63,
    -2**63 - 1, 2**200, -2**200, 0.0, -1.5, float("inf"), 1 + 2j, "", "x",
    "h\u00e9\u4e2d\U0001f600", "\ud800", b"", b"abc", b"x" * 1024, b"x" * 1025,
    bytearray(), bytearray(b"y" * 3000), [], (), {}, set(), frozenset(),
    [1, [2, (3, {4, 5})]], {"a": {1: 2}, (1, "b"): [None]}, {None: {True: ()}},
    frozenset([1, frozenset(["x"])]), ["x"] * 300, {i: str(i) for i in range(300)}]
kit.equal([v for v in plain if not same(back(v), v)], [],
          "plain types are packed and unpacked")
kit.ok(same(back(plain), plain), "all plain types are packed at once")
kit.ok(back(float("nan")) != back(float("nan")), "NaN is packed and unpacked")
kit.equal(len(_pack(plain)), _packed_size(plain),
          "the packed size is known before packing")
kit.ok(len(_pack({"x": 1})) <= 64, "a small object takes a cache line")
m = back({"m": memoryview(b"abcdef")[1:4]})["m"]
kit.equal((type(m), bytes(m)), (memoryview, b"bcd"),
          "a memoryview of bytes comes back as one")
nest = 0
for i in range(200):
    nest = [nest] if i % 2 else {"n": nest}
kit.ok(same(back(nest), nest), "200 levels of lists are packed")
loop = []
loop.append(loop)
kit.raises(RecursionError, "packing",
           "a list in itself is refused", _pack, loop)
for i in range(100000):
    nest = [nest]
kit.raises(RecursionError, "packing",
           "100,000 levels of lists are refused", _pack, nest)
while isinstance(nest, list):  # one by one: its end would recurse, too
    nest = nest[0]

# ---- Tensors ----
t = tarn.arange(24, dtype="F32").reshape(2, 3, 4)
for what, one in (("C order", t), ("transposed", t.T), ("steps", t[:, ::2, 1:]),
                  ("reversed", t.flip(0, 2)), ("a number", t[0, 0, 0:1]),
                  ("rank 0", tarn.tensor(3, "I16")), ("nothing", t[:, :0]),
                  ("expanded", t[0, 0].expand(5, 4)), ("BF16", t.to("BF16")),
                  ("F8", t.to("F8_E4M3")), ("F4", t.to("F4")),
                  ("F6", t.to("F6_E2M3")), ("BOOL", t.to("BOOL"))):
    seen = back([one])[0]
    kit.equal((type(seen), seen.dtype, seen.shape, seen.tolist()),
              (tarn.Tensor, one.dtype, one.shape, one.tolist()),
              "a Tensor: " + what)
whole = _pack({"t": t, "n": 1})
view = _unpack(whole)["t"]
kit.ok(tarn.same_storage(whole, view),
       "unpacked tensors are views of the packed bytes")
view[1, 1, 1] = 99
kit.equal(_unpack(whole)["t"][1, 1, 1], 99.0, "unpacked views may be written")
shifted = tarn.from_numpy(b"12345678" + bytes(_pack([t, b"x" * 2000])))[8:]
kit.equal([_unpack(shifted)[0].tolist(), _unpack(shifted)[1]],
          [t.tolist(), b"x" * 2000], "packed bytes may begin at any address")
gone = weakref.ref(whole)
del whole
gc.collect()
kit.equal((gone(), view[1, 1, 1]), (None, 99.0),
          "an unpacked view alone keeps the bytes")

# ---- views of other tensors of an item ----
kit.raises(ValueError, "not made by put",
           "bytes that were not packed are refused", _unpack,
           tarn.zeros(100, "U8"))
kit.raises(ValueError, "not made by put",
           "too few packed bytes are refused", _unpack,
           tarn.zeros(3, "U8"))


# ---- other objects ----
class Sample:
    def __init__(self, *args):
        self.args = args

    def __eq__(self, other):
        return same(self.args, other.args)


Pair = collections.namedtuple("Pair", "a b")
objects = [Sample(1, "x"), Pair(1, [2]), datetime.datetime(2020, 1, 2),
           decimal.Decimal("1.5"), collections.OrderedDict(a=1), range(3),
           collections.defaultdict(list, a=[1]), Sample, len, slice(1, 2)]
kit.equal([v for v in objects if not same(back(v), v)], [],
          "objects of other types are pickled")
kit.raises(Exception, "pickle",
           "an object that cannot be pickled is refused", _pack, [lambda: 0])


class Changing:
    def __init__(self, of, change):
        self.of, self.change = of, change

    def __reduce__(self):
        self.change(self.of)
        return Sample, ()


values = [1, 2, 3]
values[1] = Changing(values, list.clear)
pairs = {1: 2, 3: 4, 5: 6}
pairs[3] = Changing(pairs, lambda d: d.update({k: 0 for k in range(100, 400)}))
if getattr(sys, "_is_gil_enabled", lambda: True)():
    kit.raises(RuntimeError, "changed",
               "a list that changes while it is packed is refused", _pack,
               values)
    kit.raises(RuntimeError, "changed",
               "a dict that changes while it is packed is refused",
               _pack, pairs)
else:
    # Where any step of another thread may come between, it is as it began.
    kit.equal((back(values), values), ([1, Sample(), 3], []),
              "a list that others change and restore is packed as it was")
    kit.equal((back(pairs), len(pairs)), ({1: 2, 3: Sample(), 5: 6}, 303),
              "a dict that others change and restore is packed as it was")
s = back(Sample(t, [t, {"k": t}]))
kit.ok(s.args[0].tolist() == t.tolist() and s.args[1][1]["k"] is s.args[0],
       "a Tensor that is twice in an object is packed once")

# ---- numpy ----
try:
    import numpy as np
except ImportError:
    np = None
    kit.skipped("arrays of numpy's are packed", "numpy is not installed")
if np is not None:
    a = np.arange(24.0).reshape(2, 3, 4)
    arrays = [a.astype(d) for d in "? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16 "
              "g >f4 >i2".split()]
    arrays += [a.T, a[:, ::-2], a[1, :, 1], a[:, :0], np.array(5),
               np.asfortranarray(a), np.moveaxis(a, 0, 1),
               np.broadcast_to(a[0, 0], (3, 4)), np.zeros((1,) * 13),
               np.array(["a", "bcd"]), np.array([1, 2], "M8[s]"),
               np.array([(1, 2.0)], "i4,f8"), np.array([None, "x"]),
               np.ones((3, 4))[:, 1:2], np.zeros((0, 0))]
    unaligned = np.zeros(33, "u1")[1:].view("f4")
    arrays.append(unaligned)

    def alike(x, y):
        return (type(x) is type(y) and x.dtype == y.dtype and
                x.shape == y.shape and
                (x.tobytes() == y.tobytes() or bool((x == y).all())))

    kit.equal([x for x in arrays if not alike(back(x), x)], [],
              "all arrays of numpy come back")
    kit.ok(all(map(alike, back({"all": arrays})["all"], arrays)),
           "all arrays of numpy's are packed at once")
    kit.ok(back(np.asfortranarray(a)).flags.f_contiguous,
           "an array in Fortran order stays so")
    scalars = [np.float32(1.5), np.int64(-3), np.bool_(True), np.float64(2),
               np.uint8(7), np.complex64(1j), np.complex128(1j), np.str_("x"),
               np.datetime64("2020"), np.float16(3)]
    kit.equal([x for x in scalars if type(back(x)) is not type(x) or
               back(x) != x], [], "numpy's scalars are packed")
    kit.equal(back(t.to("BF16")).dtype, "BF16",
              "a BF16 tensor comes back as a Tensor")
    whole = _pack([a, a.astype("f4")])
    for x in _unpack(whole):
        kit.ok(np.shares_memory(x, whole.numpy()) and x.flags.writeable and
               x.ctypes.data % 64 == 0,
               f"an unpacked array of {x.dtype} is an aligned view")
    s = back(Sample(a, a.astype("c16"), a.astype(object)))
    kit.ok(all(map(alike, s.args, (a, a.astype("c16"), a.astype(object)))),
           "arrays in a pickled object come back")
    big = Sample(np.zeros(1 << 16), np.zeros(1 << 16, "c16"))
    kit.ok(len(bytes(_pack(big))) < 1.6e6 + 4096 and
           bytes(_pack(big)).count(b"numpy") < 20,
           "arrays are not part of the pickle")
    masked = np.ma.masked_array([1, 2], [True, False])
    kit.equal(type(back(masked)), np.ma.MaskedArray,
              "an array of a derived class keeps its class")

# ---- PyTorch ----
try:
    import torch
except ImportError:
    torch = None
    kit.skipped("tensors of PyTorch's are packed", "torch is not installed")
if torch is not None:
    base = torch.arange(24).reshape(2, 3, 4)
    names = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 "
             "float64 complex64 complex128 uint16 uint32 uint64 float8_e4m3fn "
             "float8_e5m2").split()
    tensors = [base.to(getattr(torch, n)) for n in names if hasattr(torch, n)]
    f = base.float()
    tensors += [f.T if f.dim() == 2 else f.permute(2, 0, 1), f[:, ::2], f[0, 0],
                f[0, 0, 0], f[:, :0], f[0, 0].expand(3, 4), f[:, :1],
                torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
                torch.randn(3, dtype=torch.complex64).conj(),
                torch.randn(3, dtype=torch.complex64).conj().imag]

    def agree(x, y):
        if type(x) is not type(y) or x.dtype != y.dtype:
            return False
        if x.dtype.itemsize == 1 if hasattr(x.dtype, "itemsize") else False:
            x, y = x.view(torch.uint8), y.view(torch.uint8)
        return x.shape == y.shape and x.tolist() == y.tolist()

    kit.equal([x for x in tensors if not agree(back(x), x)], [],
              "all tensors of PyTorch come back")
    kit.ok(all(map(agree, back(tuple(tensors)), tensors)),
           "all tensors of PyTorch's are packed at once")
    last = tensors[-3]
    kit.equal(back(last).stride(), last.stride(),
              "tensors that are channels last stay so")
    whole = _pack({"f": f})
    _unpack(whole)["f"].add_(1)
    kit.equal(_unpack(whole)["f"].tolist(), (f + 1).tolist(),
              "unpacked tensors of PyTorch's are views")
    x, y = _unpack(_pack([f, f.clone()]))
    kit.ok(x.storage().data_ptr() != y.storage().data_ptr() and
           len(x.storage()) == 24,
           "each unpacked tensor of PyTorch's has its own storage")
    kit.equal(back(torch.nn.Parameter(f)).requires_grad, True,
              "a Parameter stays one")
    sparse = torch.eye(3).to_sparse()
    kit.equal(back(sparse).to_dense().tolist(), torch.eye(3).tolist(),
              "a sparse tensor is packed")
    p = back(Pair(f, {"y": np.ones(3) if np is not None else 1}))
    kit.ok(type(p) is Pair and agree(p.a, f),
           "a tensor in a namedtuple is packed")
    kit.ok(len(bytes(_pack(Sample(torch.zeros(1 << 16), f)))) < 300000,
           "tensors in a pickled object are not part of the pickle")

# ---- damaged bytes ----
good = {"t": t, "s": "text", "l": [1, 2.5, None, 2**70, (1, {2})],
        "b": b"z" * 2000, "d": {"k": t[:, ::2]}, "o": Pair(1, t)}
if np is not None:
    good["a"] = np.arange(6, dtype="f4").reshape(2, 3).T
    good["n"] = np.float32(2)
if torch is not None:
    good["x"] = torch.arange(6, dtype=torch.int16)
original = bytes(_pack(good))
tree = struct.unpack_from("<Q", original, 8)[0]
random.seed(7)
outcomes = collections.Counter()


def attempt(data, records=()):
    # In the middle of other memory: what reads beyond it reads that.
    room = tarn.from_numpy(bytearray(b"\xff" * 64 + data + b"\xff" * 64))
    try:
        _unpack(room[64:64 + len(data)], records)
        outcomes["read"] += 1
    except MemoryError:
        outcomes["memory"] += 1
    except (ValueError, TypeError, RecursionError, pickle.UnpicklingError,
            AttributeError, IndexError, KeyError, EOFError, ImportError,
            RuntimeError):
        outcomes["refused"] += 1


def harmless(data):
    """Pickles may do anything, so they stay as they are."""
    mark = original.index(b"\x80\x05")
    end = original.index(b".", original.index(b"Pair", mark)) + 1
    return data[mark:end] == original[mark:end]


for i in range(32 + tree):
    for flip in (1, 0x80, 0xff):
        data = bytearray(original)
        data[i] ^= flip
        if harmless(data):
            attempt(bytes(data))
for _ in range(3000):
    data = bytearray(original)
    for _ in range(random.randint(2, 6)):
        data[random.randrange(32 + tree)] = random.randrange(256)
    if harmless(data):
        attempt(bytes(data))
for n in range(0, len(original), 7):
    attempt(original[:n])
kit.ok(outcomes["refused"] > 1000 and outcomes["read"] > 100 and
       not outcomes["memory"], "damaged bytes are errors", outcomes)


def crafted(tree_bytes, room=64):
    begin = (32 + len(tree_bytes) + 63) // 64 * 64
    head = struct.pack("<IIQQQ", 0x316b7074, 0, len(tree_bytes), begin,
                       begin + room)
    data = (head + tree_bytes).ljust(begin, b"\0") + b"\1" * room
    return tarn.from_numpy(bytearray(data))


def number(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def signed(n):
    return number(((n << 1) ^ (-1 if n < 0 else 0)) & (2**64 - 1))


LIST, TUPLE, SET, DICT, PICKLE, TENSOR, NUMPY = 12, 13, 14, 16, 17, 18, 19
LONG_BYTES, VIEW, WHOLE = 22, 25, 26
F32, U8 = (tarn.dtypes.index(d) + 1 for d in ("F32", "U8"))
refused = {
    "a huge list": number(LIST) + number(2**60),
    "a huge dict": number(DICT) + number(2**40),
    "a number without end": number(4) + b"\xff" * 11,
    "no such tag": b"\0",
    "another that is none": b"\x7f",
    "nothing": b"",
    "more than one thing": b"\1\1",
    "lists without end": number(LIST) + number(1),
    "a row of too many": number(TENSOR) + number(U8) + b"\1" + number(65) + b"\0",
    "an array behind the end": number(TENSOR) + number(U8) + b"\1\1" +
    number(2**58),
    "an array whose place overflows": number(NUMPY) + number(U8) + b"\1\1" +
    number(2**63 - 1),
    "a shape that overflows": number(TENSOR) + number(F32) + b"\3" +
    number(2**40) * 3 + b"\0",
    "too high a rank": number(TENSOR) + number(F32) + number(13) + b"\1" * 13,
    "no dtype": number(TENSOR) + b"\0\0\0",
    "strides that leave it": number(TENSOR) + number(F32 | 64) + b"\1\2" +
    signed(1000) + b"\0",
    "strides before it": number(TENSOR) + number(F32 | 64) + b"\1\2" +
    signed(-1) + b"\0",
    "strides that overflow": number(NUMPY) + number(F32 | 64) + b"\2\2\2" +
    signed(2**62) * 2 + b"\0",
    "a view of no tensor": number(VIEW) + b"\0" + signed(0) + number(TENSOR) +
    number(F32 | 64) + b"\1\1" + signed(1),
    "no tensor": number(WHOLE) + b"\5",
    "a list as a key": number(DICT) + b"\1" + number(LIST) + b"\0\1",
    "a list in a set": number(SET) + number(TUPLE) + b"\1" + number(LIST) +
    b"\0",
    "a pickle without parts": number(PICKLE) + number(TUPLE) + b"\0",
    "bytes that are a view": number(VIEW) + b"\0" + signed(0) +
    number(LONG_BYTES) + number(U8 | 64) + b"\1\1" + signed(1),
    "the same bytes twice": number(TUPLE) + b"\2" +
    (number(LONG_BYTES) + number(U8) + b"\1" + number(40) + b"\0") * 2,
    # Each tuple counts all bytes behind it: together they would be gigabytes.
    "tuples in tuples": (number(TUPLE) + number(2**19)) * 900 + b"\1" * 2**20,
}
for what, tree_bytes in refused.items():
    kit.raises(ValueError, "damaged", what, _unpack, crafted(tree_bytes))
deep = crafted((number(LIST) + number(1)) * 100000 + b"\1")
if sys.version_info < (3, 14):
    kit.raises(RecursionError, "unpacking",
               "100,000 packed levels are refused by unpacking", _unpack, deep)
else:
    # It is the stack that says what is too deep, which may have room for them.
    try:
        levels, seen = 0, _unpack(deep)
        while isinstance(seen, list) and seen:
            levels, seen = levels + 1, seen[0]
    except RecursionError as e:
        levels, seen = 100000, None if "unpacking" in str(e) else e
    kit.equal((levels, seen), (100000, None),
              "100,000 levels are freed without overflowing the stack")
record = tarn.arange(8, dtype="F32")


def view_of(at, dtype, shape, strides):
    return crafted(number(VIEW) + b"\0" + signed(at) + number(TENSOR) +
                   number(dtype | 64) + number(len(shape)) +
                   b"".join(map(number, shape)) + b"".join(map(signed, strides)))


kit.equal(_unpack(view_of(28, F32, [4], [-2]), (record,)).tolist(),
          [7, 5, 3, 1],
          "a view of another tensor of the item is packed by reference")
kit.equal(_unpack(view_of(4, F32, [2], [2]), (record[2:7],)).tolist(),
          [3, 5], "the other tensor may be a view itself")
kit.equal(_unpack(crafted(number(WHOLE) + b"\0"), (record,)) is record, True,
          "the other tensor itself is packed by reference")
for what, view in {"behind it": (4, F32, [8], [1]), "before it":
                   (0, F32, [2], [-1]), "far behind": (2**62, U8, [1], [1]),
                   "far before": (-2**62, U8, [1], [1])}.items():
    kit.raises(ValueError, "damaged", "a view " + what, _unpack,
               view_of(*view), (record,))
kit.raises(ValueError, "damaged",
           "a view without an order is packed by reference", _unpack,
           view_of(0, F32, [1], [1]), (record[::2],))
kit.finish()
