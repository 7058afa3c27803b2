#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch writes to memory that says it is read-only, and to shared pages that
a process may not write that was the end of the process: SIGSEGV. So no route by
which PyTorch takes a tensor leads to such pages. Each is tried from each kind
of read-only storage, in a process of its own: writing works, or an exception
says what to do, and what others have of those bytes stays as it was."""
import ctypes
import os
import subprocess
import sys
import zlib

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed (python3-numpy)")
try:
    import torch
except ImportError:
    torch = None
import tarn

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
with open(os.path.join(tmp, "conf"), "w", encoding="ascii") as f:
    f.write("[pool huge]\npages = 2m\nsegment-size = 4M\n")
daemon = kit.start_daemon(socket, "--config", f.name)
store = tarn.Store()
# Larger than what is copied at once; "tiny" is not.
N = 300_000
whole = tarn.arange(2 * N, dtype="F32").reshape(2, N)
tarn.save(path, {"before": tarn.ones(3, "U8"), "w": whole})
np.arange(1000, dtype="<f4").tofile(path + ".raw")
store.publish({"pool": whole[:, :N // 2], "own": tarn.arange(N * 4.),
               "tiny": tarn.arange(10.)})
m = tarn.load(path)
KINDS = {
    "loaded": "m['w']",
    "a view of loaded bytes": "m['w'][1, 5:-5]",
    "published, in a pool": "store['pool']",
    "published, a memory file": "store['own']",
    "published, small": "store['tiny']",
    "a mapped file": "tarn.open(path)['w']",
    "an item of a broadcast": "item",
    "in a pool of a killed daemon": "orphans['pool']",
    "a memory file of a killed daemon": "orphans['own']",
}
# Of these there is no copy-on-write twin: tarn-security(7). An array over them
# is over the read-only pages themselves, so only the routes without one are
# walked.
BARE = {
    "lent read-only": "tarn.from_numpy(np.memmap(path + '.raw', '<f4', 'r'))",
    "in huge pages": "huge['w']",
}
ROUTES = {
    "torch.from_dlpack(t)": "x = torch.from_dlpack(t)",
    "torch.utils.dlpack": "x = torch.utils.dlpack.from_dlpack(t.__dlpack__())",
    "torch.as_tensor(t)": "x = torch.as_tensor(t)",
    "torch.asarray(t)": "x = torch.asarray(t)",
    "torch.asarray(t[..., :5])": "x = torch.asarray(t[..., :5])",
    "torch.tensor(t)": "x = torch.tensor(t[..., :5])",
    "torch.from_numpy(t.numpy())": "x = torch.from_numpy(t.numpy())",
    "torch.as_tensor(t.numpy())": "x = torch.as_tensor(t.numpy())",
    "torch.from_numpy(numpy.asarray(t))": "x = torch.from_numpy(np.asarray(t))",
    "torch.frombuffer(t)": "x = torch.frombuffer(t, dtype=torch.float32)",
    "torch.frombuffer(memoryview(t))":
        "x = torch.frombuffer(memoryview(t), dtype=torch.float32)",
    "torch.from_dlpack(t.numpy())": "x = torch.from_dlpack(t.numpy())",
    "t.torch()": "x = t.torch()",
    "default_collate([t])": "import tarn.torch\n"
    "x = torch.utils.data.default_collate([t])[0]",
    "a buffer's address": """
address = t.__array_interface__['data'][0]
x = torch.from_numpy(np.ctypeslib.as_array(
    ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), tuple(t.shape)))""",
}
# Imported once; then each route in a child of its own, which may be killed.
PROGRAM = """
import ctypes, os, subprocess, sys, time, warnings
warnings.simplefilter('ignore')
import numpy as np
import tarn
import torch
path = os.environ['ROADS_FILE']
store = tarn.default_store()
m = tarn.load(path)
kind, routes = eval(sys.stdin.read())

def let_orphans(path):
    # Nobody has written to them before their daemon was killed.
    daemon = subprocess.Popen([os.environ['TARN_DAEMON'], '--socket', path])
    while True:
        try:
            their = tarn.Store(path)
            break
        except OSError:
            if daemon.poll() is not None:
                raise
            time.sleep(.01)
    whole = tarn.arange(600000.).reshape(2, 300000)
    their.publish({'pool': whole[:, :200000], 'own': whole[:, :]})
    found = {name: their[name] for name in ('pool', 'own')}
    daemon.kill()
    daemon.wait()
    while True:
        try:
            their.status()
        except OSError:
            return found
        time.sleep(.01)

if kind == "huge['w']":
    huge = tarn.Store(pool='huge')
if kind.startswith('orphans'):
    orphans = let_orphans(path + '.sock')
if kind == 'item':
    out = tarn.sender('routes', mode='broadcast', slots=2, slot_bytes=4 << 20)
    channel = store.channel('routes')
    channel.join('consumer')
    with out.channel.acquire() as slot:
        slot.empty((2, 200000)).copy_(
            tarn.arange(400000.).reshape(2, 200000))
    item = channel.receive(timeout=60)[0]
    store.remove('routes')
before = (item if kind == 'item' else eval(kind)).clone()

def walk(route):
    t = item if kind == 'item' else eval(kind)
    names = dict(globals(), t=t)
    try:
        exec(route, names)
        x = names['x']
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        return f'refused: {type(e).__name__}'
    x.mul_(2).add_(1)
    x.reshape(-1)[-1] = -5
    if not tarn.equal(t.clone(), before):
        return 'the tensor has changed'
    if tuple(x.shape) != t.shape or x.dtype != torch.float32:
        return f'written, {tuple(x.shape)} {x.dtype}'
    return 'written'

for name, route in routes.items():
    out, back = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(back, walk(route).encode())
        os._exit(0)
    os.close(back)
    status = os.waitpid(pid, 0)[1]
    print(repr((name, status, os.read(out, 1000).decode())), flush=True)
"""
if torch is None:
    kit.skipped("the routes to PyTorch are safe", "torch is not installed "
                "(python3-torch)")
os.environ["ROADS_FILE"] = path
# By these routes an array, or a buffer's memory, goes to PyTorch.
ARRAYS = {route for route, code in ROUTES.items()
          if "numpy" in code or "memoryview" in code or "address" in code}
ANY = {*KINDS, *BARE}
# Routes on which an exception is right, and for which kinds: some ask for bytes
# without a shape, as old versions of asarray do, and numpy of 1.24 gives no
# read-only array to DLPack. Only a row of bytes has no shape to lose.
MAY_REFUSE = {
    "torch.asarray(t)": ANY,
    "torch.asarray(t[..., :5])": ANY,
    "torch.frombuffer(t)": ANY,
    "torch.from_dlpack(t.numpy())": {*KINDS},
}


def judge(kind, route, said):
    """Is that how this route may end from that kind of memory?"""
    if said.startswith("refused"):
        return kind in MAY_REFUSE.get(route, ())
    if "frombuffer" in route or ":5" in ROUTES[route]:
        return said.startswith("written")  # of another shape
    return said == "written"


def walk_all(kind, expression, routes):
    done = subprocess.run([sys.executable, "-c", PROGRAM],
                          input=repr((expression, routes)),
                          capture_output=True, text=True, check=False)
    seen = {}
    for line in done.stdout.splitlines():
        name, status, said = eval(line)
        seen[name] = said if status == 0 else f"wait status {status}"
    wrong = [f"{route}: {seen.get(route, done.stderr[-500:])}" for route in routes
             if not judge(kind, route, seen.get(route, ""))]
    kit.ok(not wrong, f"{kind}: PyTorch's writes stay private by every route",
           *wrong)
    print("# refused: " + (", ".join(
        r for r, said in seen.items() if said.startswith("refused")) or
        "none"), flush=True)


huge = None
try:
    huge = tarn.Store(pool="huge")
    huge.publish({"w": whole[:, :N // 2]})
except OSError as e:
    kit.skipped("in huge pages: PyTorch's writes stay private",
                f"no huge pages of 2 MiB can be had: {e.strerror}")
    del BARE["in huge pages"]
for kind, expression in KINDS.items() if torch else ():
    walk_all(kind, expression, ROUTES)
for kind, expression in BARE.items():
    routes = {route: code for route, code in ROUTES.items() if route not in ARRAYS}
    if torch:
        walk_all(kind, expression, routes)
    n = eval(expression).numpy()
    kit.raises(ValueError, "read-only", f"{kind}: numpy's array cannot be "
               "written", n.__setitem__, 0, 1)
    kit.raises(ValueError, "",
               f"{kind}: numpy's array cannot be made writable", n.setflags,
               write=True)
    del n
kit.equal((tarn.equal(m["w"], whole), tarn.equal(store["pool"],
                                                 whole[:, :N // 2]),
           tarn.equal(tarn.open(path)["w"], whole)), (True,) * 3,
          "the bytes that other processes see are unchanged")

# ---- the arrays themselves ----
w = m["w"]
n = w.numpy()
kit.equal((n.flags.writeable, w.numpy().ctypes.data == n.ctypes.data,
           memoryview(w).readonly, w.__array_interface__["data"][1]),
          (False, True, True, True),
          "an array is read-only, and the next one shares its memory")
kit.raises(ValueError, "read-only", "numpy refuses to write to it",
           n.__setitem__, (0, 0), 1)
kit.raises(ValueError, "",
           "numpy refuses to make it writable", n.setflags, write=True)


def scribble(array, value):
    """What PyTorch does: the flag is not looked at."""
    ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_float))[0] = value


scribble(n, 77)
kit.equal((n[0, 0], w.numpy()[0, 0], m["w"][:, ::2].numpy()[0, 0], w[0, 0],
           tarn.load(path)["w"][0, 0], w.clone()[0, 0]),
          (77., 77., 77., 0., 0., 0.),
          "a PyTorch write shows in the tensor's arrays, not in the tensor")
p = w.cow()
kit.equal(p[0, 0], 0., "a copy-on-write tensor shows no write of an array")
del n, w, m, p
kit.equal(tarn.load(path)["w"].numpy()[0, 0], 0.,
          "a private write is gone when the tensors are gone")
for round_ in range(3):
    t = store["pool"]
    scribble(t.numpy(), 50 + round_)
    kit.equal((t.numpy()[0, 0], t[0, 0]), (50. + round_, 0.),
              f"a name, looked up again: written, time {round_}")
    del t
    kit.equal(store["pool"].numpy()[0, 0], 0.,
              "the published tensor is as it was")
t, u = store["pool"], store["pool"]
scribble(t.numpy(), 5)
kit.equal(u.numpy()[0, 0], 5., "two look-ups of one name share their memory")
del t
kit.equal(u.numpy()[0, 0], 5.,
          "the memory is shared as long as one of them exists")
del u
pid = os.fork()
if pid == 0:
    t = store["pool"]
    scribble(t.numpy(), 9)
    os._exit(t.numpy()[0, 0] != 9. or t[0, 0] != 0.)
kit.equal((os.waitpid(pid, 0)[1], store["pool"].numpy()[0, 0]), (0, 0.),
          "a forked child's writes stay in its own copy")

# ---- items of a broadcast, whose slot is used again ----
out = tarn.sender("again", mode="broadcast", slots=1, slot_bytes=1 << 20)
inn = store.channel("again")
inn.join("consumer")
for round_ in range(3):
    out.put(np.full(60_000, round_, "f4"))
    out_of = inn.receive(timeout=60)
    seen = out_of.get()
    kit.equal((float(seen.min()), float(seen.max())), (round_,) * 2,
              f"item {round_}: shows the sent values, not an earlier write")
    scribble(seen, 100 + round_)
    kit.equal((float(seen[0]), seen.flags.writeable), (100. + round_, False),
              f"item {round_}: a write to it is safe")
    out_of.release()
    del seen, out_of
out.put(np.full(10, 8, "f4"))
small = inn.receive(timeout=60).get()
out.put(np.full(10, 9, "f4"))  # the only slot: free, though small is held
kit.equal((small.tolist(), small.flags.writeable), ([8.] * 10, False),
          "a small array is a copy, and holds no slot")
del small, out, inn

# ---- what it costs ----


def anonymous():
    with open("/proc/self/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f
                   if line.startswith("Anonymous"))


big = store.create((16 << 20,), "U8")
big.copy_(tarn.zeros(16 << 20, "U8"))
store.publish("big", big)
del big
t = store["big"]
before = anonymous()
kit.equal(int(t.numpy().sum()), 0, "16 MiB are read through an array")
grown = anonymous() - before
kit.ok(grown < 4096,
       "reading through an array copies no memory", f"{grown} KiB more")


def mappings():
    with open("/proc/self/maps", encoding="ascii") as f:
        return len(f.readlines())


many = store.publish({f"many/{i}": tarn.full(20_000, i) for i in range(64)})
held = [store[name] for name in many]
held[0].numpy()
before = mappings()
kit.equal([int(t.numpy()[9]) for t in held], list(range(64)),
          "arrays over 64 tensors of a pool")
kit.ok(mappings() <= before + 4,
       "arrays over tensors of a pool add no mapping each",
       f"{mappings() - before} more")
del held, t

# ---- bytes without a shape ----
t = tarn.arange(6, dtype="I64").reshape(2, 3)
for name, call in (("file.write", lambda t: open(os.devnull, "wb").write(t)),
                   ("bytes.join", lambda t: b"".join([t]))):
    try:
        seen = call(t)
    except (BufferError, TypeError, ValueError) as e:
        seen = "refused"
    kit.equal(str(seen), "refused",
              f"{name} of a two-dimensional tensor is refused for its shape")
    kit.ok(call(memoryview(t)) is not None, f"{name} of its memoryview is "
           "right")
    kit.ok(call(t.bitcast("U8").flatten()) is not None,
           f"{name} of a row of U8 is right, too")
kit.raises(BufferError, "memoryview(t)",
           "the error suggests a memoryview", zlib.crc32, t)
kit.equal((len(bytes(t)), len(bytearray(t))), (48, 48),
          "bytes and bytearray take the tensor directly")
if torch:
    x = torch.as_tensor(tarn.arange(6, dtype="F32").reshape(2, 3))
    kit.equal(tuple(x.shape), (2, 3), "torch.as_tensor keeps the shape")
    for shape in ((2, 3), (6,), (), (0, 3)):
        t = tarn.full(shape, 2, "I64")
        try:
            x = torch.asarray(t)
        except (BufferError, RuntimeError, TypeError, ValueError):
            continue
        kit.equal((tuple(x.shape), x.dtype), (shape, torch.int64),
                  f"torch.asarray of {shape}: the shape and the dtype, or an "
                  "exception")

del store, huge
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
os.unlink(path)
os.unlink(path + ".raw")
os.unlink(os.path.join(tmp, "conf"))
for left in (path + ".sock", path + ".sock.lock"):  # by a killed daemon
    if os.path.lexists(left):
        os.unlink(left)
kit.finish()
