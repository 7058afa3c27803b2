#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.torch, and what PyTorch gets of stores and files: copy-on-write
tensors, whose writes nobody else sees, and which are tied as the bytes are;
files as safetensors.torch has them; tensors that processes write together."""
import copy
import gc
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler

import py_kit as kit

try:
    import torch
except ImportError:
    kit.skip_all("torch is not installed (python3-torch)")
import tarn
from tarn.torch import load, load_file, save_file, share

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)


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
kit.equal(tarn.open(path).metadata["note"], "first",
          "save_file saves metadata")
kit.ok(same(load_file(path)), "load_file has the saved tensors")
later = {n: t.detach().clone() for n, t in wanted.items()}
saving = save_file(later, path, {"note": "first"}, background=True)
for t in later.values():
    t.zero_()
saving.wait()
kit.ok(same(load_file(path)), "save_file in the background saves what was")
with open(path, "rb") as f:
    kit.ok(same(load(f.read())), "load has the tensors from bytes")
kit.ok(same(tarn.open(path, map=False).torch()),
       "a file that is not mapped has the same tensors")
kit.raises(RuntimeError, "",
           "an unknown device is refused", load_file, path, "nowhere")
kit.equal(load_file(path, device="meta")["w"].device.type, "meta",
          "load_file moves tensors to another device")
try:
    from safetensors.torch import load_file as their_load
except ImportError:
    kit.skipped(
                "safetensors reads tarn's file",
                "safetensors is not installed (pip)")
else:
    kit.ok(same(their_load(path)), "safetensors reads tarn's file")
whole = torch.zeros(4)
kit.raises(RuntimeError, "share memory", "bytes that overlap are refused",
           save_file, {"a": whole[:3], "b": whole[2:]}, path)
kit.raises(ValueError, "no tensor",
           "save_file refuses a list in place of a tensor", save_file,
           {"a": [1]}, path)
kit.raises(ValueError, "dict",
           "save_file refuses a tensor in place of a dict",
           save_file, whole, path)
kit.raises(ValueError, "to_dense",
           "save_file refuses a sparse tensor", save_file,
           {"a": whole.to_sparse()}, path)
parts = os.path.join(tmp, "parts.safetensors")
save_file({"a": whole[:2], "b": whole[2:]}, parts)
kit.equal(len(tarn.open(parts)), 2,
          "parts of one tensor that do not overlap are saved")
os.unlink(parts)

# ---- copy-on-write ----
m = tarn.load(path)
x = m["w"].torch()
x.div_(2)
kit.equal((x[1, 0].item(), m["w"][1, 0]), (100., 200.),
          "a write in place changes PyTorch's own pages")
kit.equal(run("import tarn; print(tarn.load(%r)['w'][1, 0])" % path), "200.0",
          "a private write is seen by no other process")
kit.equal(m["w"][1:].torch()[0, 0].item(), 100.,
          "a private write is seen by views of the same bytes")
kit.equal(m["w"].numpy().flags.writeable, False, "numpy stays read-only")
kept = x[5]
del x, m
gc.collect()
kit.equal(kept[0].item(), 500.,
          "a part keeps the private write when the others are gone")
del kept
gc.collect()
kit.equal(load_file(path)["w"][5, 0].item(), 1000.,
          "the private pages go with the last view")
tied = tarn.load(path).torch()
both = tarn.load(path).torch()
tied["w"].zero_()
kit.equal(both["w"].sum().item(), 0., "two loads of one file are tied")
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
          "a forked child has its own copy, tied in the same way")
store.publish("f6", tarn.zeros(4, "F6_E2M3"))
kit.raises(ValueError, "no F6_E2M3", "a dtype that PyTorch has not is refused",
           store["f6"].torch)
only = os.path.join(tmp, "f4.safetensors")
tarn.save(only, {"here": tarn.zeros(4, "F6_E2M3")})
kit.raises(ValueError, "here: torch: PyTorch has no F6",
           "the error names the tensor of that dtype", tarn.open(only).torch)
if hasattr(torch, "float4_e2m1fn_x2"):
    four = torch.arange(8, dtype=torch.uint8).reshape(2, 4) \
        .view(torch.float4_e2m1fn_x2)
    save_file({"f4": four, "w": torch.ones(3)}, only)
    kit.equal((tarn.open(only)["f4"].dtype, tarn.open(only)["f4"].shape),
              ("F4", (2, 8)),
              "float4_e2m1fn_x2 is saved as F4 with a doubled last dimension")
    for name, seen in (("load_file", load_file(only)),
                       ("open", tarn.open(only).torch())):
        kit.ok(seen["f4"].dtype == four.dtype and torch.equal(
            seen["f4"].view(torch.uint8), four.view(torch.uint8)) and
            seen["w"].tolist() == [1.] * 3,
               f"{name}: float4_e2m1fn_x2 comes back", seen)
    with tarn.safe_open(only, "pt") as f:
        kit.equal((f.get_slice("f4").get_dtype(), f.get_tensor("f4").dtype),
                  ("F4", four.dtype), "safe_open reads float4_e2m1fn_x2")
    y = share(four)
    kit.equal(y.view(torch.uint8).tolist(), four.view(torch.uint8).tolist(),
              "float4_e2m1fn_x2 is shared")
    del y, four, seen
else:
    kit.skipped(
                "float4_e2m1fn_x2 is saved",
                f"PyTorch {torch.__version__} has none")
os.unlink(only)

# ---- shared ----
x = share(torch.arange(6.).reshape(2, 3))
kit.ok(share(x) is x, "share of a shared tensor is itself")
CHILD = """
import pickle, sys
from multiprocessing.reduction import ForkingPickler
x = pickle.load(sys.stdin.buffer)
x[1, 2] += 70
import tarn.torch
sys.stdout.write(str(tarn.torch.share(x) is x) + str(x.tolist()))
"""
message = bytes(ForkingPickler.dumps(x))
kit.equal((run(CHILD, message), x[1, 2].item()),
          ("True[[0.0, 1.0, 2.0], [3.0, 4.0, 75.0]]", 75.),
          "another process writes to a shared tensor")
kit.ok(len(message) < 1000,
       "a shared tensor is sent as a short message", len(message))
context = multiprocessing.get_context("fork")
go, back = context.Queue(), context.Queue()


def child():
    y = go.get()
    y.add_(1)
    back.put(y)


worker = context.Process(target=child)
worker.start()
go.put(x)
y = back.get()
worker.join()
kit.equal((y.tolist(), x.data_ptr() == y.data_ptr()), (x.tolist(), True),
          "a tensor sent there and back by queues is the same memory")
kit.equal((worker.exitcode, x[0, 0].item()), (0, 1.),
          "the tensor that came back has the worker's write")
plain = x[0]
kit.equal((type(plain), type(x * 2)), (torch.Tensor,) * 2,
          "views and results are ordinary tensors")
x[0, 0] = -1
kit.equal(plain[0].item(), -1., "views of a shared tensor share its bytes")
saved = io.BytesIO()
torch.save(x, saved)
saved.seek(0)
other = [torch.load(saved), pickle.loads(pickle.dumps(x)), copy.copy(x),
         copy.deepcopy(x)]
x[0, 0] = -2
kit.equal([(type(o), o[0, 0].item()) for o in other[:2] + other[3:]],
          [(torch.Tensor, -1.)] * 3,
          "torch.save, pickle and copy take a shared tensor by value")
named = share(x, "shared/x")
kit.ok(named is not x and named.data_ptr() != x.data_ptr(),
       "share with a name makes another tensor")
store["shared/x"].torch().fill_(3)
kit.equal(named.tolist(), [[3.] * 3] * 2, "a tensor shared by name is written")
kit.equal(run("import tarn, torch; x = tarn.default_store()['shared/x'].torch()"
              "; x[0] = 8; print(x.sum().item())"), "33.0",
          "a tensor shared by name is written by another process")
kit.equal(named[0].tolist(), [8.] * 3, "the other process's write is seen here")
kit.equal([n for n in store if n.startswith("tarn.torch/")], [],
          "a tensor shared without a name has none in the store")
KILLED = """
import os, signal, tarn, torch
from tarn.torch import shared
shared.TTL = 20  # seconds; nobody waits for the real one
tarn.Store.remove = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
shared.share(torch.arange(1000))
"""


def ours():
    return [n for n in store if n.startswith("tarn.torch/")]


kit.equal((run(KILLED), len(ours())), ("exit -9", 1),
          "a process that is killed in share leaves a name")
end = time.monotonic() + 90
while ours() and time.monotonic() < end:
    time.sleep(.05)
kit.equal(ours(), [], "the left name ends by itself")
kit.raises(ValueError, "", "an empty name is refused", share, x, "")
message = bytes(ForkingPickler.dumps(x))
del x, y, plain, other
gc.collect()
end = time.monotonic() + 60
try:
    while time.monotonic() < end:
        pickle.loads(message)
        gc.collect()
        time.sleep(.02)
    seen = None
except OSError as e:
    seen = e
kit.ok(seen is not None,
       "a shared tensor is freed with its last holder", message)
grad = share(torch.nn.Parameter(torch.ones(3)))
(pickle.loads(bytes(ForkingPickler.dumps(grad))) * 2).sum().backward()
kit.equal(grad.requires_grad, True, "a shared leaf keeps requires_grad")
kit.equal([share(t).tolist() for t in (torch.zeros(0, 3), torch.tensor(4),
                                       torch.tensor([True]))], [[], 4, [True]],
          "empty tensors, rank 0 and bool are shared")
changed = share(torch.ones(2))
changed.data = torch.zeros(5)
kit.equal(pickle.loads(bytes(ForkingPickler.dumps(changed))).tolist(), [0.] * 5,
          "a shared tensor with other bytes is pickled as an ordinary one")
kit.raises(RuntimeError, "", "a tensor that needs the graph cannot be sent",
           ForkingPickler.dumps, torch.ones(1, requires_grad=True) * 2)

# ---- PyTorch's own loader, without tarn.torch ----
SET = """
class Set(torch.utils.data.Dataset):
    rows = tarn.arange(12.).reshape(6, 2)
    def __len__(self): return 6
    def __getitem__(self, i): return {'x': self.rows[i], 'n': i}
if __name__ == '__main__':
    seen = [type(b['x']).__module__ + str(b['x'].tolist())
            for b in torch.utils.data.DataLoader(Set(), 3, **how)]
    print(seen == ['torch[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]',
                   'torch[[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]'],
          'tarn.torch' in sys.modules)
"""
for first in ("import torch, tarn", "import tarn, torch",
              "import tarn, importlib, torch.utils.data\n"
              "importlib.reload(tarn)"):
    for how in ("{}", "{'num_workers': 2}"):
        kit.equal(run(f"import sys\n{first}\nhow = {how}\n{SET}"),
                  "True False", f"{first!r}, {how}: PyTorch's DataLoader "
                  "collates tarn's tensors")
kit.equal(run("""
import sys, tarn
def ours():
    return sum(type(f).__module__.startswith('tarn') for f in sys.meta_path)
before = ours()
import torch.utils.data
from torch.utils.data._utils import collate
import inspect
print(before, ours(), 'collate' in inspect.getsource(collate),
      collate.__spec__.loader is collate.__loader__,
      type(collate.__loader__).__name__)"""),
          "1 1 True True SourceFileLoader",
          "tarn's finder stays in sys.meta_path, the module has its own loader")


del store, a, b, named, grad, changed
gc.collect()
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
os.unlink(path)
kit.finish()
