#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The names that safetensors' users import are there and do what theirs do:
files as bytes, modules with tied parameters, the exception, backend=; and what
PyTorch's users write of a DataLoader: DataLoader[int], Tensors in a batch."""
import os

import py_kit as kit

try:
    import numpy as np
    import torch
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed (python3-torch)")
try:
    import safetensors
    import safetensors.numpy
    import safetensors.torch
except ImportError:
    safetensors = None
import tarn
import tarn.numpy as tn
import tarn.torch as tt

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)

# ---- bytes ----
w = torch.arange(6.).reshape(2, 3)
data = tt.save({"w": w, "t": (w + 1).t()}, {"note": "x"})
kit.ok(isinstance(data, bytes), "tarn.torch.save returns bytes", data)
back = tt.load(data)
kit.ok(torch.equal(back["w"], w) and torch.equal(back["t"], (w + 1).t()),
       "tarn.torch.load reads the bytes", back)
data = tn.save({"w": w.numpy()}, {"note": "x"})
back = tn.load(data)
back["w"][0, 0] = 9
kit.equal((back["w"].tolist(), tn.load(data)["w"][0, 0]),
          ([[9., 1., 2.], [3., 4., 5.]], 0.),
          "tarn.numpy saves and loads bytes, too")
kit.equal(sorted(os.listdir(tmp)), [n for n in sorted(os.listdir(tmp))
                                    if not n.startswith("tarn.save")],
          "no temporary file is left by save")
kit.raises(ValueError, "dict", "save refuses what is no dict", tt.save, w)

# ---- the exception ----
bad = os.path.join(tmp, "bad.safetensors")
with open(bad, "wb") as f:
    f.write(b"\x10\0\0\0\0\0\0\0{\"a\": nonsense}..")
for name, call in (("torch.load_file", lambda: tt.load_file(bad)),
                   ("numpy.load_file", lambda: tn.load_file(bad)),
                   ("safe_open", lambda: tarn.safe_open(bad, "pt")),
                   ("torch.load", lambda: tt.load(b"12345678123")),
                   ("numpy.load", lambda: tn.load(b"12"))):
    kit.raises(tt.SafetensorError, "", f"{name}: malformed bytes are refused",
               call)
    kit.raises(ValueError, "", f"{name}: the error is a ValueError, too", call)
kit.ok(tt.SafetensorError is tn.SafetensorError,
       "there is one class SafetensorError")
kit.raises(FileNotFoundError, "",
           "a file that does not exist is a FileNotFoundError",
           tt.load_file, os.path.join(tmp, "nowhere"))
tt.save_file({"w": w}, path)
with tarn.safe_open(path, "pt") as f:
    for error in (tt.SafetensorError, KeyError, tarn.NotFoundError):
        kit.raises(error, "'v'",
                   f"a tensor that does not exist is a {error.__name__}",
                   f.get_tensor, "v")
        kit.raises(error, "'v'",
                   "a slice that does not exist is one, too", f.get_slice, "v")

# ---- backend ----
for backend in ("mmap", "pread"):
    with tarn.safe_open(path, "pt", backend=backend) as f:
        kit.equal((f.get_tensor("w").tolist(),
                   tt.load_file(path, backend=backend)["w"].tolist(),
                   tn.load_file(path, backend=backend)["w"].tolist()),
                  (w.tolist(),) * 3, f"backend={backend!r} is accepted")
for call in (lambda: tt.load_file(path, backend="x"),
             lambda: tn.load_file(path, backend="x"),
             lambda: tarn.safe_open(path, "pt", backend="x")):
    kit.raises(ValueError, "'x'", "an unknown backend is refused", call)


# ---- modules ----
class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.wte.weight
        self.other = torch.nn.Linear(3, 2)


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return sorted(a) == sorted(b) and all(torch.equal(a[n], b[n]) for n in a)


net = Tied()
tt.save_model(net, path, {"epoch": "3"})
kit.equal((sorted(tarn.open(path)), tarn.open(path).metadata),
          (["head.weight", "other.bias", "other.weight"],
           {"epoch": "3", "wte.weight": "head.weight"}),
          "save_model: one of tied parameters is saved")
other = Tied()
kit.equal([len(n) for n in tt.load_model(other, path)], [0, 0],
          "load_model: no parameter is missing")
kit.ok(same(net, other) and other.head.weight is other.wte.weight,
       "load_model: parameters are tied, with their values")
more = torch.nn.ModuleDict({"wte": torch.nn.Embedding(5, 3)})
kit.raises(RuntimeError, "Missing key(s) in state_dict: \"wte.weight\"",
           "load_model, strict: another module is refused",
           tt.load_model, more, path)
missing, unexpected = tt.load_model(more, path, strict=False)
kit.equal((sorted(missing), sorted(unexpected)),
          (["wte.weight"], ["head.weight", "other.bias", "other.weight"]),
          "load_model, not strict: differences are returned")
parts = torch.zeros(6)
halves = torch.nn.ParameterDict({"a": torch.nn.Parameter(parts[:4]),
                                 "b": torch.nn.Parameter(parts[2:])})
kit.raises(RuntimeError, "share memory",
           "save_model: partly overlapping parameters are refused",
           tt.save_model, halves, path)
if safetensors:
    theirs = Tied()
    tt.save_model(net, path)
    safetensors.torch.load_model(theirs, path)
    kit.ok(same(net, theirs), "safetensors loads what save_model saved")
    safetensors.torch.save_model(net, path)
    theirs = Tied()
    tt.load_model(theirs, path)
    kit.ok(same(net, theirs), "load_model loads what safetensors saved")
    names = [n for n in ("load", "load_file", "load_model", "save",
                         "save_file", "save_model")
             if not hasattr(tt, n) or not hasattr(safetensors.torch, n)]
    kit.equal(names, [], "tarn.torch has the functions of safetensors.torch")
else:
    kit.skipped("safetensors agrees", "safetensors is not installed (pip)")

# ---- the loader ----
kit.equal((tt.DataLoader[int].__origin__, tt.DataLoader[int](range(4), 2)
           .__class__), (tt.DataLoader, tt.DataLoader),
          "DataLoader[int] is a type, as PyTorch's is")


class Typed(tt.DataLoader[int]):
    pass


kit.equal([b.tolist() for b in Typed(list(range(4)), 2)], [[0, 1], [2, 3]],
          "DataLoader[int] may be derived from")


class Rows(torch.utils.data.Dataset):
    """The rows of a loaded tensor, by themselves and in a dict."""

    def __init__(self, t):
        self.t = t

    def __len__(self):
        return len(self.t)

    def __getitem__(self, i):
        return {"x": self.t[i], "pair": (self.t[i, :2], i)}


tarn.save(path, {"x": tarn.arange(40_000, dtype="F32").reshape(8, 5000),
                 "b": tarn.ones((4, 3), "BF16")})
loaded = tarn.load(path)
whole = torch.arange(40_000.).reshape(8, 5000)
for workers in (0, 2):
    wrong = []
    for n, b in enumerate(tt.DataLoader(Rows(loaded["x"]), 4,
                                        num_workers=workers)):
        rows = whole[4 * n:4 * n + 4]
        if not torch.equal(b["x"], rows) or \
                not torch.equal(b["pair"][0], rows[:, :2]) or \
                b["pair"][1].tolist() != list(range(4 * n, 4 * n + 4)):
            wrong.append(repr(b))
        b["x"].zero_()
    kit.ok(not wrong and n == 1, f"{workers} workers: Tensors of a dataset are "
           "collated", *wrong)
kit.equal(loaded["x"][7, 4999], 39999., "tensors of a dataset stay unchanged")
seen = torch.utils.data.default_collate([loaded["b"][i] for i in range(4)])
kit.equal((seen.dtype, seen.tolist()), (torch.bfloat16, [[1.] * 3] * 4),
          "PyTorch's own default_collate takes Tensors, too")
del loaded, seen, b
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
os.unlink(path)
os.unlink(bad)
kit.finish()
