#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sets and refits of Python, in memory and on a GPU, which is the stand-in for
the driver of CUDA, where there is one; it fails the script if something is left
behind."""
import gc
import os
import sys
import threading

from tap import equal, finish, ok, raises, skip_all, skipped

STAND_IN = os.environ.get("top_builddir", ".") + "/tests/fakecuda/.libs"
HAS_CUDA = os.path.exists(STAND_IN + "/libcuda.so.1")

if HAS_CUDA and "FAKECUDA_LATE" not in os.environ:
    path = os.path.realpath(STAND_IN)
    if "LD_LIBRARY_PATH" in os.environ:
        path += ":" + os.environ["LD_LIBRARY_PATH"]
    os.environ.update(LD_LIBRARY_PATH=path, FAKECUDA_LATE="100")
    os.execv(sys.executable, [sys.executable, *sys.argv])

import py_kit as kit
import tarn

try:
    import numpy
except ImportError:
    numpy = None



def numbers(rows, columns, seed, dtype="F32"):
    flat = tarn.tensor([(seed + i) % 101 for i in range(rows * columns)],
                       dtype="F32")
    return flat.reshape(rows, columns).to(dtype)


def put_there(tensors, device):
    return {n: t.to(device) for n, t in tensors.items()}


# ---- sets ----


class Lists(dict):
    """A mapping whose items are no pairs."""

    def items(self):
        return [list(pair) for pair in super().items()]


def sets(store):
    store.publish_set("m", {"a": numbers(4, 3, 0), "b": numbers(2, 2, 1)},
                      fields={"model": "x", "dtype": "BF16"},
                      notes={"a": b"\0note"})
    equal(store.fields("m"), {"model": "x", "dtype": "BF16"},
          "a set has its fields")
    equal(store.note("m", "a"), b"\0note", "a tensor has its note")
    raises(tarn.NotFoundError, "'b'", "a tensor without a note", store.note,
           "m", "b")
    equal(store.check_set("m", {"dtype": "BF16", "model": "x"}), None,
          "the same fields are no difference")
    raises(ValueError, "'dtype' is BF16, not F16; 'shards' is missing; "
           "'model' = 'x' is not wanted", "every difference is listed",
           store.check_set, "m", {"dtype": "F16", "shards": "2"})
    raises(tarn.NotFoundError, ".fields", "a set that is not there",
           store.fields, "other")
    raises(TypeError, "text", "a field that is a number", store.publish_set,
           "m", {"a": numbers(1, 1, 0)}, fields={"shards": 2})
    raises(TypeError, "", "a note that is text", store.publish_set, "m",
           {"a": numbers(1, 1, 0)}, notes={"a": "text"})
    raises(TypeError, "pairs are wanted", "fields that are no pairs",
           store.publish_set, "m", {"a": numbers(1, 1, 0)},
           fields=Lists(a="b"))
    raises(TypeError, "pairs are wanted", "notes that are no pairs",
           store.publish_set, "m", {"a": numbers(1, 1, 0)},
           notes=Lists(a=b"b"))
    raises(ValueError, "'c'", "a note without its tensor", store.publish_set,
           "m", {"a": numbers(1, 1, 0)}, notes={"c": b""})
    store.publish_set("m", {"a": numbers(1, 1, 0)})
    equal(sorted(store.names("m/")), ["m/.fields", "m/a"],
          "a set replaces the set before it")
    equal(store.fields("m"), {}, "a set may have no fields")
    raises(FileExistsError, "m/a", "an exclusive set", store.publish_set, "m",
           {"a": numbers(1, 1, 0)}, exclusive=True)


def digests(device):
    t = numbers(50, 30, 3)
    there = t.to(device)
    equal(len(t.digest()), 32, "a digest is 32 digits")
    equal(there.digest(), t.digest(), f"the digest of {device}")
    equal(there.transpose(0, 1).digest(), t.transpose(0, 1).digest(),
          f"the digest of a view on {device}")
    ok(t.digest() != t.transpose(0, 1).digest(), "the order matters")
    raises(TypeError, "by name", "a stream by position", t.digest, 0)


# ---- refits ----


def versions(store, device):
    store.publish_set("w", put_there(
        {"a": numbers(40, 30, 1), "b": numbers(40, 30, 2),
         "c": numbers(40, 30, 3)}, device), fields={"step": "1", "old": "x"})
    before = store.snapshot("w/")
    with store.refit("w", fields={"step": "2", "old": None}) as r:
        r.put("a", numbers(40, 30, 11, "F16"))
        r.put_part("b", 20, numbers(20, 30, 612))
        r.put_part("b", 0, numbers(20, 30, 12))
        r.flush()
        equal(store["w/a"].cpu().tolist(), numbers(40, 30, 1).tolist(),
              f"nothing is published before the end, on {device}")
    equal(store["w/a"].cpu().tolist(), numbers(40, 30, 11).tolist(),
          f"a tensor was put, on {device}")
    equal((store["w/a"].device, store["w/a"].dtype), (device, "F32"),
          f"it is of the old dtype, on {device}")
    equal(store["w/b"].cpu().tolist(), numbers(40, 30, 12).tolist(),
          f"a tensor was put in parts, on {device}")
    equal(store["w/c"].cpu().tolist(), numbers(40, 30, 3).tolist(),
          f"a tensor was not put, on {device}")
    equal(before["w/a"].cpu().tolist(), numbers(40, 30, 1).tolist(),
          f"the old version is what it was, on {device}")
    equal(store.fields("w"), {"step": "2"}, f"new fields, on {device}")
    equal((r.info["names_changed"], r.info["bytes_moved"]), (2, 9600),
          f"what was done is counted, on {device}")
    raises(ValueError, "ended", "a refit that is ended", r.put, "a",
           numbers(40, 30, 1))


def sparse(store, device):
    with store.refit("w") as r:
        r.put_sparse("c", [0, 1199, 31], [5, 6.5, -7])
        raises(ValueError, "no element at position 1200; it has 1200",
               f"a position past the end, on {device}", r.put_sparse, "a",
               tarn.tensor([1200], dtype="I64").to(device), [1.0])
    wanted = numbers(40, 30, 3).reshape(1200).tolist()
    wanted[0], wanted[1199], wanted[31] = 5, 6.5, -7
    equal(store["w/c"].cpu().reshape(1200).tolist(), wanted,
          f"values were put at positions, on {device}")


def shared(store, device):
    with store.refit("w", share_equal=True, bucket=1 << 20) as r:
        r.put("a", store["w/a"].cpu())
        r.put("b", numbers(40, 30, 77))
    equal((r.info["names_shared"], r.info["names_changed"]), (1, 1),
          f"an equal tensor is shared, on {device}")


def aborted(store, device):
    before = store.snapshot("w/").version

    def fails():
        with store.refit("w") as r:
            r.put("a", numbers(40, 30, 50))
            raise LookupError("of the test")

    raises(LookupError, "of the test", f"the block's exception, on {device}",
           fails)

    def incomplete():
        with store.refit("w") as r:
            r.put_part("a", 3, numbers(30, 30, 50))

    raises(ValueError, "'w/a': rows 0 to 2 of 40 were not put",
           f"a part is missing, on {device}", incomplete)
    r = store.refit("w")
    r.put("a", numbers(40, 30, 50))
    r.abort()
    r.abort()
    r = store.refit("w")
    r.put("a", numbers(40, 30, 50))
    del r
    equal(store.snapshot("w/").version, before,
          f"none of them has published anything, on {device}")


def refused(store):
    raises(tarn.NotFoundError, "'none/'", "a set that is not there",
           store.refit, "none")
    raises(ValueError, "GPU", "the CPU is no device", store.refit, "w",
           device="cpu")
    raises(TypeError, "StoreBase", "no store", tarn.Refit, 5, "w")
    with store.refit("w", add=True) as r:
        raises(ValueError, "[2, 2]", "another shape", r.put, "a",
               numbers(2, 2, 0))
        raises(TypeError, "", "no tensor", r.put, "a", object())
        raises(TypeError, "takes", "too few arguments", r.put, "a")
        r.put("added", numbers(2, 2, 0))
        raises(FileExistsError, "already", "a name twice", r.put, "added",
               numbers(2, 2, 0))
    equal(store["w/added"].tolist(), numbers(2, 2, 0).tolist(),
          "a name was added")
    with store.refit("w") as r:
        raises(tarn.NotFoundError, "'x'", "an unknown name", r.put, "x",
               numbers(2, 2, 0))


def threads(store):
    seen = []

    def other():
        try:
            r.put("a", numbers(40, 30, 1))
        except RuntimeError as e:
            seen.append(str(e))

    with store.refit("w") as r:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    ok(seen and "thread" in seen[0], "another thread is refused", seen)


def dropped(store):
    """By another thread, as by the collector: its own thread frees it."""
    def memory():
        return sum(1 for n in os.listdir("/proc/self/fd"))

    before = memory()
    held = [store.refit("w")]
    ok(memory() > before, "a refit has descriptors of its own")
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    store.refit("w").abort()
    equal(memory(), before, "a refit that another thread drops is freed")


def integers(store):
    store.publish_set("i", {"n": tarn.tensor([1, 2, 3], dtype="I64")})
    with store.refit("i") as r:
        r.put_sparse("n", [1], [(1 << 53) + 1])
    equal(store["i/n"].tolist(), [1, (1 << 53) + 1, 3],
          "integers are put as they are")
    store.publish({}, replace="i/")


def patched(store):
    """A few pages of four tensors that lie in one storage."""
    n = 1 << 20
    store.publish_set("p", {str(i): tarn.zeros([n], "F32") for i in range(65)})
    with store.refit("p") as r:
        r.put_sparse("3", [5, n - 1], [1.0, 2.0])
        r.put_sparse("4", [0], [3.0])
    ok(r.info["bytes_moved"] <= 4 * 4096, "a sparse update makes few pages new")
    before = store["p/3"]
    with store.refit("p", whole=True) as r:
        r.put_sparse("3", [6], [4.0])
    equal(r.info["bytes_moved"], 4 * n, "or the whole tensor, if that is asked for")
    now = store["p/3"]
    equal([now[5], now[6], now[n - 1], store["p/4"][0]],
          [1.0, 4.0, 2.0, 3.0], "both are read")
    equal(before[6], 0.0, "the older version is what it was")
    store.publish({}, replace="p/")


def arrays(store):
    if not numpy:
        skipped("arrays are put", "needs numpy")
        return
    x = numpy.arange(1200, dtype="f8").reshape(40, 30)
    with store.refit("w") as r:
        r.put("a", x)
        r.put_sparse("b", numpy.array([7], "i4"), numpy.array([3.5]))
        r.flush()
        x[:] = 0
    equal(store["w/a"].numpy().sum(), 1200 * 1199 / 2, "an array is put")
    equal(store["w/b"].numpy().ravel()[7], 3.5, "arrays of positions")


def all_of(store, device):
    digests(device)
    versions(store, device)
    sparse(store, device)
    shared(store, device)
    aborted(store, device)


daemon = kit.start_daemon(os.path.join(os.environ["TMPDIR"], "refit.sock"))
store = tarn.Store()
sets(store)
all_of(store, "cpu")
refused(store)
threads(store)
dropped(store)
integers(store)
patched(store)
arrays(store)
if HAS_CUDA:
    all_of(store, "cuda:0")
else:
    skipped("refits on a device", "tarn was built without CUDA")
store.publish({}, replace="w/")
del store
gc.collect()
daemon.terminate()
equal(daemon.wait(), 0, "the daemon ends")
sys.exit(finish())
