#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.save in the background: the file has the tensors as they were at the
call, the call does not wait for the file, and an error is told."""
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings

import py_kit as kit
import tarn
from tarn import _saving

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "a.safetensors")

# ---- later writes ----
go, begun = threading.Event(), threading.Event()


def held(done, total):
    begun.set()
    go.wait()


source = bytearray(range(200))
x, of_bytes = tarn.tensor([1., 2., 3.]), tarn.from_numpy(source)
about = {"of": "then"}
saving = tarn.save(path, {"x": x, "bytes": of_bytes, "v": x[::2]}, about,
                   checksums=True, progress=held, background=True)
begun.wait()
kit.ok(not saving.done(), "the call returns before the file is written")
kit.ok(not os.path.exists(path), "there is no half a file")
kit.equal(saving.error, None, "there is no error yet")
kit.ok("being written" in repr(saving), "its repr says so", saving)
kit.raises(TimeoutError, "a.safetensors", "a wait with a limit", saving.wait,
           0.01)
x[:] = 0
source[:] = bytes(200)
about["of"] = "now"
go.set()
saving.wait()
file = tarn.open(path)
kit.equal(file["x"].tolist(), [1., 2., 3.], "writes that follow are not saved")
kit.equal(file["v"].tolist(), [1., 3.], "nor to views")
kit.equal(file["bytes"].tolist(), list(range(200)), "nor those to others' memory")
kit.equal(file.metadata["of"], "then", "nor those to metadata")
file.verify()
kit.ok(saving.done() and saving.error is None and saving.wait() is None,
       "it is done, and may be waited for again", saving)
kit.equal(saving.path, os.path.abspath(path), "it knows the path")

# ---- errors ----
saving = tarn.save(path, {"x": x}, exclusive=True, background=True)
kit.raises(FileExistsError, "", "wait raises the error of the write",
           saving.wait)
kit.ok(isinstance(saving.error, FileExistsError) and saving.done(),
       "it is its error too", saving)
kit.ok("failed" in repr(saving), "its repr says so, too", saving)
kit.equal(tarn.open(path)["x"].tolist(), [1., 2., 3.],
          "the file that was there is as it was")


def held_bytes():
    """Without what the kernel may take at any time."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as f:
        found = dict(line.split(":") for line in f if ":" in line[:20])
    rss, free = (int(found[k].split()[0]) << 10 for k in ("Rss", "LazyFree"))
    return rss - free


big = tarn.ones((64 << 20,), "U8")
before = held_bytes()
saving = tarn.save(path, {"x": big}, exclusive=True, background=True)
kit.raises(FileExistsError, "", "a large one fails", saving.wait)
kit.ok(held_bytes() < before + (32 << 20),
       "the error that is kept does not keep the copies", held_bytes() - before)
kit.raises(TypeError, "", "what is no tensor is an error of the call",
           tarn.save, path, {"x": object()}, background=True)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    saving = tarn.save(path, {"x": x}, exclusive=True, background=True)
    while not saving.done():
        pass
    del saving
    gc.collect()
    kit.ok(any("a.safetensors" in str(w.message) for w in seen),
           "an error that is not asked for is a warning", seen)

# ---- the order of writes ----
go.clear()
begun.clear()
ended = []


def ending(n):
    """A save of one number that tells how it ends."""
    def progress(done, total):
        if n == 1:
            held(done, total)
        if done == total and n not in ended:
            ended.append(n)
        if n == 2:
            raise OSError("the disk is gone")
    return tarn.save(os.path.relpath(path) if n == 3 else path,
                     {"x": tarn.tensor([float(n)])}, progress=progress,
                     background=True)


savings = [ending(1)]
begun.wait()
savings += [ending(n) for n in (2, 3, 4)]
alone = os.path.join(tmp, "alone.safetensors")
tarn.save(alone, {"x": x}, background=True).wait()
kit.ok(not any(s.done() for s in savings),
       "a save to another path does not wait for those to this one")
child = os.fork()
if child == 0:
    signal.alarm(300)
    tarn.save(path, {"x": tarn.tensor([9.])}, background=True).wait()
    os._exit(tarn.open(path)["x"].tolist() != [9.])
kit.equal(os.waitpid(child, 0)[1], 0,
          "the child of a fork waits for no save of its parent")
kit.equal(ended, [], "saves to one path wait for the first")
go.set()
savings[0].wait()
kit.raises(OSError, "the disk is gone", "one of them fails", savings[1].wait)
for saving in savings[2:]:
    saving.wait()
kit.equal((ended, tarn.open(path)["x"].tolist()), ([1, 2, 3, 4], [4.]),
          "they are written in the order of their calls, and the last one stays")
kit.equal(_saving._order._last, {}, "nothing is kept of writes that have ended")
os.remove(alone)

# ---- memory that is used again ----
state = {"x": tarn.ones((1 << 20,), "F32"), "y": tarn.arange(6).reshape(2, 3),
         "none": tarn.zeros((0, 3)), "flag": tarn.tensor(True)}
tarn.save(path, state, background=True).wait()
places = {n: t for ts in _saving._spare._places.values() for n, t in
          ((t.nbytes, t) for t in ts)}
kit.equal(sorted(places), [1, 48, 4 << 20], "what was written is kept")
begun.clear()
go.clear()
other = os.path.join(tmp, "b.safetensors")
first = tarn.save(path, state, progress=held, background=True)
begun.wait()
copies = first._write._copies
kit.ok(all(tarn.same_storage(places[t.nbytes], t) for t in copies.values()
           if t.nbytes), "the next save has that memory")
kit.equal(_saving._spare._places, {}, "which nobody else has")
state["x"][:] = 2
second = tarn.save(other, state, background=True)
second.wait()
go.set()
first.wait()
kit.equal([tarn.open(p)["x"].tolist()[5] for p in (path, other)], [1, 2],
          "one beside it has other memory")
del copies, places
tarn.save(other, {"x": tarn.arange(3), "z": x[::2]}, background=True).wait()
kit.equal((tarn.open(other)["x"].tolist(), tarn.open(other)["z"].tolist(),
           sorted(_saving._spare._places)), ([0, 1, 2], [0., 0.], [8, 24]),
          "what is not used again is given back")
locked = tarn.zeros((32 << 10,), "U8")
libc = ctypes.CDLL(None)
libc.mlock(ctypes.c_void_p(locked.data_ptr()), ctypes.c_size_t(32 << 10))
with open("/proc/self/status", encoding="ascii") as f:
    kib = [int(line.split()[1]) for line in f if line.startswith("VmLck:")]
if sum(kib) < 32:  # AddressSanitizer's mlock locks nothing
    kit.skipped("locked memory is not kept", "no memory may be locked here")
else:
    _saving._spare.give([locked])
    kit.ok(locked.nbytes not in _saving._spare._places,
           "memory that the kernel cannot have, since it is locked, is not kept")
    libc.munlock(ctypes.c_void_p(locked.data_ptr()), ctypes.c_size_t(32 << 10))
child = os.fork()
if child == 0:
    tarn.save(other, {"x": tarn.arange(4)}, background=True).wait()
    os._exit(tarn.open(other)["x"].tolist() != [0, 1, 2, 3])
kit.equal(os.waitpid(child, 0)[1], 0, "the child of a fork has its own")
os.remove(other)

# ---- the end of a process, another folder, a fork ----
code = ("import os, tarn; os.chdir(%r); "
        "tarn.save('late.safetensors', {'x': tarn.arange(9)}, background=True)"
        "; os.chdir('/')" % tmp)
kit.equal(subprocess.run([sys.executable, "-c", code], check=False).returncode,
          0, "a process ends")
kit.equal(tarn.open(os.path.join(tmp, "late.safetensors"))["x"].tolist(),
          list(range(9)), "its file is written, where it was at the call")
saving = tarn.save(path, {"x": tarn.arange(2)}, background=True)
child = os.fork()
if child == 0:
    try:
        saving.wait()
    except RuntimeError:
        os._exit(0)
    os._exit(1)
kit.equal(os.waitpid(child, 0)[1], 0, "the child of a fork cannot wait")
saving.wait()
kit.equal(tarn.open(path)["x"].tolist(), [0, 1], "its parent can")
for name in "a.safetensors", "late.safetensors":
    os.remove(os.path.join(tmp, name))
sys.exit(kit.finish())
