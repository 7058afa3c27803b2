#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.install puts tarn behind safetensors' own calls: the same values, one
read for several processes, writes that stay their writer's, safetensors' own
errors. from_pretrained of real packages is in py_pretrained.py."""
import json
import os
import pickle
import subprocess
import sys
import types

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed (python3-numpy)")
import tarn

try:
    import safetensors
    import safetensors.numpy
except ImportError:
    kit.raises(ImportError, "safetensors is not installed",
               "without safetensors install says that it is missing",
               tarn.install)
    kit.skipped("the rest", "safetensors is not installed (pip)")
    kit.finish()
    sys.exit()
try:
    import torch
except ImportError:
    torch = None

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
small = os.path.join(tmp, "small.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)
# Other processes find what this one has found.
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
arrays = {"w": np.arange(2_000_000, dtype="f4").reshape(1000, 2000),
          "b": np.arange(3, dtype="i2"), "empty": np.zeros((0, 4), "u1")}
safetensors.numpy.save_file(arrays, path, {"format": "np"})
safetensors.numpy.save_file({"x": arrays["b"]}, small)


def bytes_read():
    """That the daemon has read from files since it began."""
    seen = subprocess.run([os.environ["TARN"], "status", "--json"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(seen.stdout)["bytes_loaded"]


def same(seen, wanted):
    return sorted(seen) == sorted(wanted) and all(
        np.array_equal(seen[n], a) and seen[n].dtype == a.dtype
        for n, a in wanted.items())


# ---- what is replaced ----
# In a list: a name of this module would be replaced, too.
originals = [safetensors.safe_open]
earlier = types.ModuleType("py_install_earlier")
earlier.open_it = originals[0]
sys.modules[earlier.__name__] = earlier
opened_lazily = []


class Lazy(types.ModuleType):
    """As some packages have it: who asks for its names imports them all."""

    @property
    def __dict__(self):
        opened_lazily.append(self)
        raise ImportError("nothing is there")


sys.modules["py_install_lazy"] = Lazy("py_install_lazy")
installed = tarn.install()
kit.ok(not opened_lazily, "no module is made to import what it has lazily")
kit.ok(safetensors.safe_open is not originals[0] and
       safetensors.numpy.safe_open is safetensors.safe_open and
       earlier.open_it is safetensors.safe_open,
       "safe_open is replaced, also where it was imported before")
with tarn.install() as again:
    kit.ok("on" in repr(again), "install may be called again", again)
again.uninstall()
kit.ok(safetensors.safe_open is not originals[0],
       "it stays until the last one is undone")
seen = safetensors.numpy.load_file(path)
kit.ok(same(seen, arrays), "safetensors.numpy.load_file has the arrays")
kit.ok(bytes_read() >= arrays["w"].nbytes, "the daemon has read the file")
with safetensors.safe_open(path, framework="np") as f:
    kit.ok(isinstance(f, safetensors.safe_open), "a file is a safe_open")
    kit.equal((f.keys(), f.metadata()), (sorted(arrays), {"format": "np"}),
              "names and metadata are the file's")
    part = f.get_slice("w")
    kit.equal((part.get_shape(), part.get_dtype(), part[3:5, 7].tolist()),
              ([1000, 2000], "F32", [6007., 8007.]), "a slice is a part")
    kit.raises(safetensors.SafetensorError, "no tensor 'nix'",
               "a name that is not there is safetensors' error",
               f.get_tensor, "nix")
    f.prefetch({"b": slice(1, None)})
    kit.equal(f.get_tensor("b").tolist(), [1, 2], "a prefetched part is read")
kit.equal(part[0, 1].item(), 1., "a slice outlives its file")
for what, call in (("keys", f.keys), ("get_tensor", lambda: f.get_tensor("w")),
                   ("get_slice", lambda: f.get_slice("w"))):
    kit.raises(safetensors.SafetensorError, "File is closed",
               f"{what} of a closed file is safetensors' error", call)

# ---- writes ----
other = safetensors.numpy.load_file(path)
seen["w"][0, 0] = 7
kit.equal((other["w"][0, 0].item(), safetensors.numpy.load_file(path)["w"][
    0, 0].item()), (0., 0.), "a write is in no other array of this process")


def overlap(get):
    """Do two arrays of one handle share memory? The second has what the file
    has."""
    first = get()
    first += 1
    second = get()
    return np.shares_memory(first, second) or not np.array_equal(
        second, first - 1)


with safetensors.safe_open(path, framework="np") as f, \
        safetensors.safe_open(small, framework="np") as g:
    part = f.get_slice("w")
    for what, get in (
            ("a large array", lambda: f.get_tensor("w")),
            ("a small array", lambda: f.get_tensor("b")),
            ("an array of a small file", lambda: g.get_tensor("x")),
            ("a large slice", lambda: part[1:900]),
            ("a slice of all", lambda: part[:]),
            ("a slice with steps", lambda: part[::3, 5:]),
            ("a small slice", lambda: part[3, :5]),
            ("the same by another get_slice", lambda: f.get_slice("w")[3, :5]),
            ("a slice of a small file", lambda: g.get_slice("x")[1:])):
        kit.ok(not overlap(get), f"{what} has memory of its own")
    kit.ok(part[2:4, 1].flags.writeable and part[1:1].flags.writeable and
           part[1:900].flags.writeable, "slices may be written to")
    kit.equal((part[[1, 2], [3, 4]].tolist(), part[[5] * 900][899, 3]),
              ([2003., 4004.], 10003.), "lists select from a slice")
    f.prefetch(["w"])
    kit.equal((f.get_tensor("w")[0, 1], f.get_tensor("empty").shape),
              (1., (0, 4)), "a prefetched array is as the file has it")

# ---- what tarn leaves to safetensors ----
before = bytes_read()
kit.equal(safetensors.numpy.load_file(small)["x"].tolist(), [0, 1, 2],
          "a small file is read")
kit.equal(bytes_read(), before, "without the daemon")
missing = os.path.join(tmp, "missing.safetensors")


def outcome(call, *args):
    try:
        return type(call(*args)).__name__
    except Exception as e:  # any kind is the result
        return type(e).__name__, str(e)


for what, args in (("a missing file", (missing, "np")),
                   ("an unknown framework", (path, "nix")),
                   ("no framework", (path,)),
                   ("a framework that is None", (path, None)),
                   ("a folder", (tmp, "np")), ("no argument", ())):
    kit.equal(outcome(safetensors.safe_open, *args), outcome(originals[0], *args),
              f"{what} is what it is to safetensors")
broken = os.path.join(tmp, "broken.safetensors")
with open(broken, "wb") as f:
    f.write(b"\xff" * 100)
kit.equal(outcome(safetensors.safe_open, broken, "np"),
          outcome(originals[0], broken, "np"), "so is what is no such file")

np.save(broken + ".npy", arrays["w"])
kit.equal(outcome(safetensors.safe_open, broken + ".npy", "np"),
          outcome(originals[0], broken + ".npy", "np"),
          "what only tarn reads is no file of safetensors'")
os.unlink(broken + ".npy")

# ---- processes ----
CODE = """
import sys
import safetensors.numpy
import tarn
tarn.install()
w = safetensors.numpy.load_file(sys.argv[1])["w"]
total = float(w.sum(dtype="f8"))
print(total, flush=True)
sys.stdin.readline()
inside, pss = False, 0
at = w.__array_interface__["data"][0]
for line in open("/proc/self/smaps"):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        begin, end = (int(n, 16) for n in head.split("-"))
        inside = begin < at + w.nbytes and end > at
    elif inside and head == "Pss:":
        pss += int(line.split()[1]) << 10
print(pss, flush=True)
sys.stdin.readline()
"""
fresh = os.path.join(tmp, "fresh.safetensors")
safetensors.numpy.save_file(arrays, fresh)
before = bytes_read()
children = [subprocess.Popen([sys.executable, "-c", CODE, fresh],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True) for _ in range(4)]
totals = [c.stdout.readline().strip() for c in children]
kit.equal(totals, [str(float(arrays["w"].sum(dtype="f8")))] * 4,
          "four processes have the numbers")
for c in children:
    c.stdin.write("\n")
    c.stdin.flush()
shares = [int(c.stdout.readline() or -1) for c in children]
kit.ok(0 < sum(shares) < 1.3 * arrays["w"].nbytes,
       "together they hold the array once", shares)
for c in children:
    c.communicate("\n")
kit.ok(0 < bytes_read() - before < 1.1 * os.path.getsize(fresh),
       "it was read once", bytes_read() - before)

# ---- PyTorch ----
if torch:
    import safetensors.torch

    tensors = {"w": torch.arange(1_000_000.), "h": torch.ones(3).bfloat16()}
    safetensors.torch.save_file(tensors, path)
    seen = safetensors.torch.load_file(path)
    kit.ok(all(torch.equal(seen[n], t) for n, t in tensors.items()),
           "safetensors.torch.load_file has the tensors")
    seen["w"].zero_()
    kit.equal(safetensors.torch.load_file(path)["w"].sum().item(),
              tensors["w"].sum().item(), "a write stays with its tensor")
    net = torch.nn.Linear(1000, 1000)
    safetensors.torch.save_model(net, path)
    twin = torch.nn.Linear(1000, 1000)
    safetensors.torch.load_model(twin, path)
    kit.ok(torch.equal(net.weight, twin.weight), "load_model loads")
else:
    kit.skipped("PyTorch's tensors", "torch is not installed (python3-torch)")

# ---- undone ----
kept = safetensors.safe_open(fresh, framework="np")
known = [safetensors.safe_open]
installed.uninstall()
installed.uninstall()
kit.ok(safetensors.safe_open is originals[0] and
       earlier.open_it is originals[0] and
       safetensors.numpy.safe_open is originals[0],
       "uninstall puts safetensors' own back")
kit.equal(kept.get_tensor("b").tolist(), [0, 1, 2],
          "a file that was open stays open")
kit.ok(same(safetensors.numpy.load_file(fresh), arrays),
       "safetensors reads by itself again")
kit.ok(type(known[0](fresh, framework="np")) is originals[0],
       "also where the replacement is still known")

# ---- without a daemon ----
daemon.terminate()
daemon.wait()
os.environ["TARN_AUTOSTART"] = "0"
seen = subprocess.run(
    [sys.executable, "-c", "import sys, pickle, tarn, safetensors.numpy\n"
     "tarn.install()\n"
     "w = safetensors.numpy.load_file(sys.argv[1])['w']\n"
     "w[0, 0] += 1\n"
     "sys.stdout.buffer.write(pickle.dumps(w))", fresh],
    stdout=subprocess.PIPE, check=False).stdout
arrays["w"][0, 0] += 1
kit.ok(seen and np.array_equal(pickle.loads(seen), arrays["w"]),
       "where no daemon can be had the file is mapped")
for name in (path, small, fresh, broken):
    os.unlink(name)
kit.finish()
