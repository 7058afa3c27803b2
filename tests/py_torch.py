#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.torch, and what PyTorch gets of stores and files: copy-on-write
tensors, whose writes nobody else sees, and which are tied as the bytes are;
files as safetensors.torch has them."""
import gc
import os
import subprocess
import sys
import time

import py_kit as kit

try:
    import torch
except ImportError:
    kit.skip_all("torch is not installed (python3-torch)")
import tarn
from tarn.torch import load, load_file, save_file

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", socket])
while not os.path.exists(socket) and daemon.poll() is None:
    time.sleep(.01)
os.environ["TARN_SOCKET"] = socket


def run(code, data=b""):
    """What another process prints."""
    seen = subprocess.run([sys.executable, "-c", code], input=data,
                          stdout=subprocess.PIPE, check=False)
    return seen.stdout.decode().strip() or f"exit {seen.returncode}"


# ---- files ----
wanted = {"w": torch.arange(40000.).reshape(200, 200),
          "none": torch.zeros(0, 3), "one": torch.tensor(7),
          "b": torch.tensor([1, -2], dtype=torch.bfloat16),
          "flags": torch.tensor([True, False]),
          "t": torch.arange(6).reshape(2, 3).t(),
          "g": torch.ones(2, requires_grad=True)}


def same(seen):
    return sorted(seen) == sorted(wanted) and all(
        torch.equal(seen[n], t) and seen[n].dtype == t.dtype
        for n, t in wanted.items())


save_file(wanted, path, {"note": "first"})
kit.equal(tarn.open(path).metadata["note"], "first", "metadata are saved")
kit.ok(same(load_file(path)), "load_file has what save_file saved")
with open(path, "rb") as f:
    kit.ok(same(load(f.read())), "load has it from bytes")
kit.ok(same(tarn.open(path, map=False).torch()), "so has a file, not mapped")
kit.raises(RuntimeError, "", "a device that is none", load_file, path, "nowhere")
kit.equal(load_file(path, device="meta")["w"].device.type, "meta",
          "another device")
try:
    from safetensors.torch import load_file as their_load
except ImportError:
    kit.skipped("safetensors reads it", "safetensors is not installed (pip)")
else:
    kit.ok(same(their_load(path)), "safetensors reads it")
whole = torch.zeros(4)
kit.raises(RuntimeError, "share memory", "bytes that overlap are refused",
           save_file, {"a": whole[:3], "b": whole[2:]}, path)
kit.raises(ValueError, "no tensor", "so is what is no tensor", save_file,
           {"a": [1]}, path)
kit.raises(ValueError, "dict", "and what is no dict", save_file, whole, path)
kit.raises(ValueError, "to_dense", "and what is sparse", save_file,
           {"a": whole.to_sparse()}, path)
parts = os.path.join(tmp, "parts.safetensors")
save_file({"a": whole[:2], "b": whole[2:]}, parts)
kit.equal(len(tarn.open(parts)), 2, "parts of one tensor are not")
os.unlink(parts)

# ---- copy-on-write ----
m = tarn.load(path)
x = m["w"].torch()
x.div_(2)
kit.equal((x[1, 0].item(), m["w"][1, 0]), (100., 200.),
          "in place, it changes its own")
kit.equal(run("import tarn; print(tarn.load(%r)['w'][1, 0])" % path), "200.0",
          "and what no other process sees")
kit.equal(m["w"][1:].torch()[0, 0].item(), 100.,
          "while views of the same bytes do")
kit.equal(m["w"].numpy().flags.writeable, False, "numpy stays read-only")
kept = x[5]
del x, m
gc.collect()
kit.equal(kept[0].item(), 500., "a part keeps it, whoever else has gone")
del kept
gc.collect()
kit.equal(load_file(path)["w"][5, 0].item(), 1000., "and the last one ends it")
time.sleep(2.5)  # younger files are loaded, but not recognised
tied = tarn.load(path).torch()
both = tarn.load(path).torch()
tied["w"].zero_()
kit.equal(both["w"].sum().item(), 0., "what is loaded twice is tied")
del tied, both
store = tarn.default_store()
store.publish("a/w", torch.full([3], 2.))
store.publish("a/x", store["a/w"])
a, b = store["a/w"].torch(), store["a/x"].torch()
b[0] = 5
kit.equal((a.tolist(), store["a/w"].tolist()), ([5, 2, 2], [2, 2, 2]),
          "two names of one storage are tied")
pid = os.fork()
if pid == 0:
    a[1] = 9
    os._exit(b.tolist() != [5, 9, 2])
kit.equal((os.waitpid(pid, 0)[1], a.tolist()), (0, [5, 2, 2]),
          "a child has its own, as tied")
store.publish("f4", tarn.zeros(4, "F4"))
kit.raises(ValueError, "no F4", "a dtype that PyTorch has not",
           store["f4"].torch)
only = os.path.join(tmp, "f4.safetensors")
tarn.save(only, {"here": tarn.zeros(4, "F4")})
kit.raises(ValueError, "here: torch: PyTorch has no F4", "is told with its "
           "name", tarn.open(only).torch)
os.unlink(only)

del store, a, b
gc.collect()
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends in peace")
os.unlink(path)
kit.finish()
