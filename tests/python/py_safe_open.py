#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.safe_open and tarn.numpy do what is done with safetensors' own: the same
calls, the same values, shapes and dtypes, arrays that may be written. What
safetensors says of the same file stands beside it where it is installed."""
import os
import signal
import threading

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed (python3-numpy)")
try:
    import torch
except ImportError:
    torch = None
try:
    import safetensors
    import safetensors.numpy
except ImportError:
    safetensors = None
import tarn
import tarn.numpy

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)

arrays = {"b": np.arange(24, dtype="f4").reshape(2, 3, 4),
          "a": np.array([1, -2, 3], "i2"), "empty": np.zeros((0, 4), "u1"),
          "scalar": np.array(2.5), "truth": np.array([[True, False]])}
metadata = {"format": "np", "note": "first"}

# ---- tarn.numpy ----
tarn.numpy.save_file(arrays, path, metadata)
seen = tarn.numpy.load_file(path)
kit.ok(sorted(seen) == sorted(arrays) and all(
    np.array_equal(seen[n], a) and seen[n].dtype == a.dtype
    for n, a in arrays.items()), "numpy: load_file has the saved arrays", seen)
seen["b"][0, 0] = 100
kit.equal((seen["b"][0, 0, 3], tarn.load(path)["b"][0, 0, 3],
           tarn.numpy.load_file(path)["a"].flags.writeable),
          (100., 3., True), "numpy: a loaded array may be written privately")
if safetensors:
    theirs = safetensors.numpy.load_file(path)
    kit.ok(all(np.array_equal(theirs[n], a) for n, a in arrays.items()),
           "safetensors reads tarn's file")
    safetensors.numpy.save_file(arrays, path, metadata)
    ours = tarn.numpy.load_file(path)
    kit.ok(all(np.array_equal(ours[n], a) for n, a in arrays.items()),
           "tarn reads safetensors' file")
else:
    kit.skipped("safetensors agrees", "safetensors is not installed (pip)")

# ---- safe_open ----
KEYS = ["[0]", "[-1]", "[1:]", "[:, 1]", "[..., 2]", "[:, ::2, 1:3]",
        "[0, 1, 2]", "[:]", "[1:1]", "[...]", "[0, :2]"]


def same(a, b):
    return type(a) is type(b) and a.dtype == b.dtype and \
        tuple(a.shape) == tuple(b.shape) and a.tolist() == b.tolist()


for framework in ("np", "numpy", "pt"):
    if framework == "pt" and not torch:
        kit.skipped(
                    "PyTorch's tensors are read",
                    "torch is not installed (python3-torch)")
        continue
    make = torch.from_numpy if framework == "pt" else np.asarray
    with tarn.safe_open(path, framework=framework, device="cpu") as f:
        kit.equal((f.keys(), sorted(f.offset_keys()), f.metadata()),
                  (sorted(arrays), sorted(arrays), metadata),
                  f"{framework}: names and metadata are the file's")
        kit.ok(all(same(f.get_tensor(n), make(a)) for n, a in arrays.items()),
               f"{framework}: get_tensor returns the tensor")
        kit.ok(all(same(t, make(arrays[n]))
                   for n, t in f.get_tensors().items()),
               f"{framework}: get_tensors returns all tensors")
        part = f.get_slice("b")
        kit.equal((part.get_shape(), part.get_dtype()), ([2, 3, 4], "F32"),
                  f"{framework}: a slice knows its tensor's shape and dtype")
        bad = [k for k in KEYS if np.asarray(eval("part" + k)).tolist() !=
               eval("arrays['b']" + k).tolist()]
        kit.equal(bad, [], f"{framework}: slices have the selected elements")
        kit.raises(IndexError, "",
                   f"{framework}: an index out of range is refused",
                   lambda: part[5])
        mine = f.get_tensor("b")
        mine += 1
        kit.equal((mine[0, 0, 0].item(), tarn.open(path)["b"][0, 0, 0]),
                  (1., 0.), f"{framework}: a tensor may be written privately")
        kit.raises(tarn.NotFoundError, "'none'",
                   f"{framework}: a name that does not exist is refused",
                   f.get_tensor, "none")
        kit.raises(KeyError, "",
                   f"{framework}: a slice of a missing name is a KeyError",
                   f.get_slice, "none")
        kit.raises(TypeError, "name",
                   f"{framework}: a name that is no text is refused",
                   f.get_tensor, 3)
        if safetensors:
            with safetensors.safe_open(path, framework) as g:
                theirs = g.get_slice("b")
                kit.equal((f.keys(), f.offset_keys(), f.metadata(),
                           part.get_shape(), part.get_dtype()),
                          (g.keys(), g.offset_keys(), g.metadata(),
                           theirs.get_shape(), theirs.get_dtype()),
                          f"{framework}: safetensors has the same names and "
                          "metadata")
                del mine
                kit.ok(all(same(f.get_tensor(n), g.get_tensor(n))
                           for n in arrays),
                       f"{framework}: safetensors has the same tensors")
                bad = [k for k in KEYS if np.asarray(eval("part" + k)).tolist()
                       != np.asarray(eval("theirs" + k)).tolist()]
                kit.equal(bad, [],
                          f"{framework}: safetensors has the same slices")
    kit.raises(ValueError, "closed",
               f"{framework}: a closed file is refused", f.get_tensor, "b")
    kit.raises(ValueError, "closed",
               "keys() of a closed file is refused", f.keys)

with tarn.safe_open(path) as f:
    kit.equal((f.get_tensor("a").tolist(), f.get_slice("b")[:, 0, ::2].shape),
              ([1, -2, 3], (2, 2)), "without a framework Tensors are returned")
# ---- prefetch, and a fork ----
go, begun = threading.Event(), threading.Event()
touch = tarn._safe_open.touch


def held(t):
    """As a disk does that is slow."""
    begun.set()
    go.wait()
    return touch(t)


tarn._safe_open.touch = held
with tarn.safe_open(path, "np") as f:
    f.prefetch(["b"])
    f.prefetch(["a", "b"])
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # the end of a child that waits for ever
        os._exit(not all(same(f.get_tensor(n), arrays[n]) for n in "abb"))
    kit.equal(os.waitpid(child, 0)[1], 0,
              "the child of a fork reads what its parent is reading for itself")
    go.set()
    kit.ok(all(same(f.get_tensor(n), arrays[n]) for n in "abb"),
           "its parent gets what it has begun to read")
tarn._safe_open.touch = touch

kit.raises(ValueError, "'tf'",
           "an unknown framework is refused", tarn.safe_open,
           path, "tf")
kit.raises(ValueError, "device",
           "a device for numpy is refused", tarn.safe_open, path,
           "np", "cuda:0")
kit.raises(FileNotFoundError, "",
           "a file that does not exist is refused", tarn.safe_open,
           os.path.join(tmp, "nowhere"), "np")
kit.raises(ValueError, "",
           "a file of another format is refused",
           tarn.safe_open, __file__, "np")
if torch:
    with tarn.safe_open(path, "pt", device="meta") as f:
        kit.equal({t.device.type for t in (f.get_tensor("b"),
                                           f.get_slice("b")[0])},
                  {"meta"}, "tensors are moved to PyTorch's devices")
    kit.raises(RuntimeError, "",
               "an unknown device is refused", tarn.safe_open, path,
               "pt", "nowhere")
    torch_path = os.path.join(tmp, "t.safetensors")
    tarn.save(torch_path, {"x": tarn.tensor([1, 2], "BF16")})
    with tarn.safe_open(torch_path, "pt") as f:
        kit.equal((f.get_tensor("x").dtype, f.get_slice("x").get_dtype(),
                   f.metadata()), (torch.bfloat16, "BF16", None),
                  "BF16 is read as PyTorch's")
    os.unlink(torch_path)
kit.equal((tarn.torch.__name__, tarn.numpy.__name__) if torch else None,
          ("tarn.torch", "tarn.numpy") if torch else None,
          "tarn.torch and tarn.numpy are there when asked for")
kit.raises(AttributeError, "nothing",
           "tarn has no other attribute", getattr, tarn,
           "nothing")

del seen, part, f
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
os.unlink(path)
kit.finish()
