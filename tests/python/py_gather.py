#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tensor.gather beside numpy.take and torch.index_select: the same rows, by
lists, arrays and tensors, to new tensors and to those that are there; from
memory, files and a store. Threads do not wait for each other."""
import itertools
import os
import sys
import threading
import time

import py_kit as kit

try:
    import numpy
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

random = numpy.random.default_rng(1)
WIDTHS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def tables():
    for dtype, shape in itertools.product(
            ("f4", "u1", "f8", "i2", "?", "c8"),
            ((7,), (5, 66), (4, 3, 2), (100, 1), (9, 0), (3, 1, 5, 2))):
        yield random.integers(0, 100, shape).astype(dtype)
    whole = random.standard_normal((40, 30)).astype("f4")
    yield from (whole.T, whole[::-1], whole[3::2, ::3], whole[:, 4:20],
                whole[:, ::-1], numpy.broadcast_to(whole[:1], (6, 30)))


seen = []
for table in tables():
    t = tarn.from_numpy(table)
    for width, n in itertools.product(WIDTHS, (0, 1, 50)):
        low = -len(table) if width[0] == "i" else 0
        index = random.integers(low, len(table), 2 * n).astype(width)[::2]
        # numpy takes U64 for no index.
        wanted = numpy.take(table, index.astype("i8"), 0)
        got = t.gather(index)
        out = tarn.zeros(wanted.shape, got.dtype)
        seen.append(numpy.array_equal(got.numpy(), wanted) and
                    got.shape == wanted.shape and
                    t.gather(index, out) is out and
                    numpy.array_equal(out.numpy(), wanted))
kit.ok(len(seen) > 900 and all(seen),
       f"{len(seen)} lists pick the rows that numpy.take does")

t = tarn.arange(12, dtype="F32").reshape(4, 3)
kit.equal(t.gather([2, 0, -1]).tolist(),
          [[6., 7., 8.], [0., 1., 2.], [9., 10., 11.]], "by a list of ints")
kit.equal(t.gather(tarn.tensor([1, 1])).tolist(), [[3., 4., 5.]] * 2,
          "by a Tensor")
kit.equal(t.gather((3,)).tolist(), [[9., 10., 11.]], "by a tuple")
kit.equal(t.gather([]).shape, (0, 3), "by no number")
out = numpy.zeros((3, 2, 3), "f4")
got = t.gather(index=[1, 2], out=out[::2, 1], threads=2)
kit.equal((got.tolist(), out[::2, 1].tolist(), out.sum()),
          ([[3., 4., 5.], [6., 7., 8.]],) * 2 + (33.,),
          "to a part of an array, by name")
large = tarn.arange(66 * 5000, dtype="F32").reshape(5000, 66)
index = random.integers(0, 5000, 20000)
kit.ok(numpy.array_equal(large.gather(index, threads=3).numpy(),
                         large.numpy()[index]), "by several threads")

for error, part, what, index, more in (
        (IndexError, "number 1 of index is 4; the table has 4 rows",
         "a number that is too large", [0, 4], ()),
        (IndexError, "number 0 of index is -5", "one that is too small", [-5],
         ()),
        (ValueError, "index is I64[1, 1]", "two dimensions", [[1]], ()),
        (TypeError, "is no tensor", "a number", 1, ()),
        (ValueError, "index is F32[2]", "numbers that are not whole",
         tarn.tensor([1., 2.]), ()),
        (ValueError, "index is BOOL[4]", "a mask",
         numpy.array([True, False, True, True]), ()),
        (TypeError, "", "text", "ab", ()),
        (ValueError, "dst of shape [2, 2]", "an out of another shape", [0, 1],
         (tarn.zeros((2, 2)),)),
        (ValueError, "dst is F64", "an out of another dtype", [0],
         (numpy.zeros((1, 3)),)),
        (ValueError, "share bytes", "an out in the table", [0], (t[:1],)),
        (ValueError, "-1 threads", "too few threads", [0], (None, -1)),
        (TypeError, "misses", "no list", None, None)):
    kit.raises(error, part, f"{what} is refused", t.gather,
               *(() if more is None else (index, *more)))
frozen = numpy.zeros((1, 3), "f4")
frozen.flags.writeable = False
kit.raises(ValueError, "read-only", "a read-only out is refused", t.gather,
           [0], frozen)

# ---- files, and a store ----
os.chdir(os.environ["TMPDIR"])
rows = random.integers(0, 1 << 30, (1000, 66)).astype("i4")
tarn.save("rows.safetensors", {"rows": rows})
index = random.integers(-1000, 1000, 300)
for kind, file in (("file", tarn.open("rows.safetensors", map=False)),
                   ("mapped", tarn.open("rows.safetensors"))):
    kit.ok(file["rows"].storage_kind == kind and all(
        numpy.array_equal(file["rows"].gather(index, threads=n).numpy(),
                          rows[index]) for n in (1, 3)),
           f"rows are read from a {kind} tensor")
    del file
daemon = kit.start_daemon("sock")
store = tarn.Store()
store.publish("rows", rows)
store.publish("index", index)
got = store["rows"].gather(store["index"])
kit.ok(numpy.array_equal(got.numpy(), rows[index]) and not got.readonly,
       "rows of a published tensor, by a published list")
kit.raises(ValueError, "read-only", "a published tensor is no out",
           store["rows"].gather, [0] * 1000, store["rows"])
del got, store
daemon.terminate()
daemon.wait()
os.unlink("rows.safetensors")

# ---- PyTorch ----
try:
    import torch
except ImportError:
    kit.skipped("torch.index_select picks the same rows",
                "PyTorch is not installed")
else:
    table = torch.arange(5 * 66, dtype=torch.float32).reshape(5, 66)
    index = torch.tensor([4, 0, 0, 3])
    out = torch.zeros(4, 66)
    got = tarn.from_dlpack(table).gather(index, out)
    kit.ok(torch.equal(out, torch.index_select(table, 0, index)) and
           torch.equal(got.torch(), out),
           "torch.index_select picks the same rows")

# ---- the GIL ----
wide = tarn.zeros((1 << 14, 1 << 10), "U8")
index = tarn.from_numpy(random.integers(0, 1 << 14, 1 << 14))
out = tarn.zeros(wide.shape, "U8")
turns, over = 0, threading.Event()


def take_turns():
    global turns
    while not over.is_set():
        turns += 1
        time.sleep(0)  # gives the GIL to the main thread


sys.setswitchinterval(100)  # and that one keeps it, unless it gives it away
thread = threading.Thread(target=take_turns)
thread.start()
for _ in range(1000):
    before = turns
    wide.gather(index, out)
    if turns > before:
        break
kit.ok(turns > before, "other threads run while rows are gathered")
over.set()
thread.join()
kit.finish()
