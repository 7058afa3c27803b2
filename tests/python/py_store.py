#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files and stores in Python: saved and opened, loaded once for all, published
in one process and found in another, before and after, across a fork; what goes
wrong has a class of its own and the library's sentence."""
import contextlib
import gc
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time

import py_kit as kit

import tarn

T = tarn.tensor
tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")

# ---- save and open ----
w = tarn.arange(12, dtype="F32").reshape(3, 4)
tarn.save(path, {"w": w, "part": w[:, ::2], "b": T([1, 2], "BF16"),
                 "raw": bytearray(b"xyz")}, {"note": "first"}, checksums=True)
f = tarn.open(path)
kit.equal((len(f), sorted(f), f.path, f.format),
          (4, ["b", "part", "raw", "w"], path, "safetensors"),
          "a saved file is a mapping with path and format")
kit.equal((f.metadata["note"], f.verify()), ("first", (4, 0)),
          "a saved file has its metadata and checksums")
kit.equal((f["part"].tolist(), f["b"].dtype, bytes(f["raw"])),
          (w[:, ::2].tolist(), "BF16", b"xyz"), "a saved file has its tensors")
kit.equal((f["w"].storage_kind, f["w"].readonly, "w" in f, "x" in f, 3 in f,
           f.get("x"), list(f.values())[0].shape == f[list(f)[0]].shape),
          ("mapped", True, True, False, False, None, True),
          "a file has the calls of a mapping")
kit.raises(KeyError, "'x'", "a missing tensor is a KeyError", lambda: f["x"])
kit.raises(FileNotFoundError, "'x'", "a missing tensor is a FileNotFoundError",
           lambda: f["x"])
kit.raises(KeyError, "did you mean 'part'?",
           "the error suggests a name that is nearly the same",
           lambda: f["prat"])
kit.raises(KeyError, "it has ", "the error lists names if none is near",
           lambda: f["nothing of it"])
kit.ok("part" in repr(f) and "4 tensors, " in repr(f),
       "a file's repr has number, size and names", f)
kit.equal(sorted(f._ipython_key_completions_()), sorted(f),
          "a file offers its names to a prompt")
try:
    f["prat"]
except tarn.NotFoundError as e:
    again = pickle.loads(pickle.dumps(e))
    kit.equal((type(again), str(again), e.errno), (tarn.NotFoundError, str(e),
                                                   2),
              "the error of a missing name can be pickled")
kit.raises(TypeError, "name",
           "a name that is no text is refused", lambda: f[1])
kit.raises(ValueError, "character 0",
           "a name with a NUL is refused", lambda: f["w\0"])
kit.raises(ValueError, "read-only", "a tensor of a file cannot be written",
           f["w"].__setitem__, (0, 0), 1)
direct = tarn.open(path, map=False)["w"]
kit.equal((direct.storage_kind, direct[1, 1:3].tolist(), repr(direct)),
          ("file", [5, 6], repr(w)),
          "map=False reads the elements that are used")
kit.raises(BufferError, ".clone()",
           "a tensor of a file that is not mapped has no buffer",
           memoryview, direct)
kit.equal(direct.clone().tolist(), w.tolist(),
          "a tensor of a file that is not mapped is cloned")
kept = f["w"]
del f
gc.collect()
kit.equal(kept[2, 3], 11.0, "a tensor keeps the file's mapping")
kit.raises(FileNotFoundError, "nowhere",
           "a file that does not exist is refused",
           tarn.open, os.path.join(tmp, "nowhere"))
kit.raises(IsADirectoryError, "",
           "a directory is refused as a file", tarn.open, tmp)
kit.raises(ValueError, "",
           "a file of another format is refused", tarn.open, __file__)
kit.raises(FileExistsError, "",
           "exclusive save of an existing file is refused",
           tarn.save, path, {"w": w},
           exclusive=True)
kit.raises(FileNotFoundError, "",
           "a save to a folder that does not exist is refused", tarn.save,
           os.path.join(tmp, "no", "m.safetensors"), {"w": w})
kit.raises(TypeError, "name",
           "a save of a name that is no text is refused", tarn.save, path,
           {1: w})
kit.raises(TypeError, "'a': a <class 'list'>",
           "a save of what is no tensor names it",
           tarn.save, path, {"w": w, "a": [1, 2]})
kit.raises(TypeError, "tensor",
           "from_numpy refuses a list", tarn.from_numpy, [1, 2])
kit.raises(TypeError, "strings; that of 'n'",
           "metadata of other types is refused",
           tarn.save, path, {"w": w}, {"n": 1})
kit.raises(TypeError, "mapping",
           "metadata that is no mapping is refused", tarn.save, path,
           {"w": w}, "note")
kit.raises(TypeError, "progress",
           "a progress that cannot be called is refused", tarn.save,
           path, {"w": w}, progress=1)
kit.raises(ValueError, "__metadata__",
           "the name __metadata__ is refused", tarn.save, path,
           {"__metadata__": w})
npy = os.path.join(tmp, "w.npy")
tarn.save(npy, w.T)


class Odd(dict):
    def items(self):
        return [["no", "pair"]]


kit.raises(TypeError, "pairs",
           "metadata whose items are no pairs is refused",
           tarn.save, npy + ".no",
           {"w": w}, Odd())
kit.equal([t.tolist() for t in tarn.open(npy).values()], [w.T.tolist()],
          "a .npy file takes one tensor")
steps = []
tarn.save(npy, w, progress=lambda done, total: steps.append((done, total)))
kit.ok(not steps or steps[-1][0] <= steps[-1][1],
       "the progress of a save stays within its total", steps)


# ---- a daemon ----
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
kit.raises(OSError, "",
           "a Store at a socket without a daemon fails", tarn.Store, socket)
daemon = kit.start_daemon(socket)
store = tarn.Store(socket)
kit.ok(store, "an empty store is true")
kit.equal((store.socket, store.pool, len(store), list(store)),
          (socket, "", 0, []), "an empty store has a socket and no names")
try:
    store["nothing"]
except tarn.NotFoundError as e:
    kit.equal(str(e), "[Errno 2] no tensor is published as 'nothing'",
              "an empty store lists no names")
versions = store.publish({"run/w": w, "run/b": bytearray(b"abc")})
kit.equal((versions, len(store), sorted(store), store.names("run/w")),
          ({"run/w": 1, "run/b": 1}, 2, ["run/b", "run/w"], ["run/w"]),
          "publish makes all names in one commit")
kit.equal((store["run/w"].tolist(), store["run/w"].readonly,
           store["run/w"].storage_kind, "run/w" in store, "x" in store),
          (w.tolist(), True, "shared", True, False),
          "a published name is looked up")
kit.equal((store.publish("run/w", T([5])), store.version("run/w"),
           store["run/w"].tolist()), (2, 2, [5]),
          "publish of one name returns its version")
kit.raises(KeyError, "",
           "looking up a missing name is a KeyError", lambda: store["nothing"])
kit.raises(KeyError, "",
           "the version of a missing name is a KeyError",
           store.version, "nothing")
kit.equal(store.get("nothing", 7), 7,
          "get of a missing name returns the default")
kit.raises(FileExistsError, "",
           "exclusive publish of an existing name is refused",
           store.publish, "run/w", w,
           exclusive=True)
kit.raises(TypeError, "mapping",
           "publish of a mapping and a tensor is refused", store.publish,
           {"a": w}, w)
for wrong in (-1, 0, float("nan"), 5e9):
    kit.raises(ValueError, "more than 0", f"publish refuses a ttl of {wrong}",
               store.publish, {"a": w}, ttl=wrong)
kit.raises(TypeError, "ttl: a number is wanted", "publish refuses a ttl that is "
           "a text", store.publish, {"a": w}, ttl="1")
kit.equal("a" in store, False, "a publication with a wrong ttl adds no name")
store.publish({"run/c": w}, replace="run/")
kit.equal(sorted(store), ["run/c"],
          "publish with replace removes the other names")
kept = store["run/c"]
store.remove("run/c")
gc.collect()
kit.equal(("run/c" in store, kept[2, 3]), (False, 11.0),
          "a removed tensor stays with its holders")
kit.raises(KeyError, "",
           "a removed name cannot be removed again", store.remove, "run/c")
made = store.create((512, 1024), "F32")
made[...] = 3
store.publish("big", made)
kit.equal((made.readonly, made[511, 1023], store["big"][0, 0]),
          (True, 3.0, 3.0), "a created tensor is read-only once published")
other = tarn.Store(socket)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
lowest_free = os.dup(0)
os.close(lowest_free)
resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
try:
    kit.raises(OSError, "ulimit -n",
               "a tensor without a descriptor cannot be opened",
               lambda: other["big"])
finally:
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
kit.equal(other["big"][0, 0], 3.0,
          "a tensor with a descriptor is opened by the same store")
del other
shared = store.create(4, "I32", mutable=True)
store.publish("shared", shared)
store["shared"][2] = 9
kit.equal(shared.tolist() if shared.readonly else store["shared"].tolist(),
          [0, 0, 9, 0], "a mutable tensor is writable once published")
status = store.status()
kit.equal((status["names"], status["clients"] >= 1), (2, True),
          "status counts names and clients")

# ---- waiting ----
kit.raises(TimeoutError, "'later': nothing in time",
           "a wait for a name times out",
           store.wait, "later", .05)


def publish_later():
    kit.until_main_waits()
    tarn.Store(socket).publish("later", T([1]))


thread = threading.Thread(target=publish_later)
thread.start()
kit.equal(store.wait("later", timeout=60).tolist(), [1],
          "a wait sees a publication by another thread")
thread.join()
kit.raises(TimeoutError, "",
           "a wait for a newer version times out", store.wait, "later", 0, 1)
interrupt = kit.ctrl_c()
kit.raises(KeyboardInterrupt, "", "Ctrl-C ends a wait", store.wait, "never")
interrupt.join()

# ---- loading ----
m = store.load(path)
kit.equal((sorted(m), m["w"].tolist(), m["w"].storage_kind, "x" in m, len(m),
           m.metadata["note"]),
          (["b", "part", "raw", "w"], w.tolist(), "shared", False, 4, "first"),
          "a loaded file is a mapping")
kit.raises(KeyError, "'x'",
           "a missing tensor of a loaded file is a KeyError", lambda: m["x"])
store.load(path, name="ckpt", verify=True)
kit.equal(store["ckpt/w"].tolist(), w.tolist(),
          "a load with a name publishes its tensors")
kit.equal(store[path + ":w"].tolist(), w.tolist(),
          "FILE:TENSOR loads a tensor of a file")
kit.equal(tarn.load(path)["b"].tolist(), [1, 2],
          "tarn.load uses the default store")
kit.equal((tarn.load(path, "by/name")["b"].tolist(),
           tarn.default_store()["by/name/b"].tolist()), ([1, 2], [1, 2]),
          "tarn.load with a name publishes the file's tensors")
for n in tarn.default_store().names("by/name/"):
    tarn.default_store().remove(n)


def is_loader(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read() == "tarn-loader\n"
    except OSError:  # it has ended
        return False


def loaders():
    """What the keeper has started to load files."""
    keeper = store.status()["keeper_pid"]
    with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as f:
        return {int(pid) for pid in f.read().split() if is_loader(pid)}


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def press_as_it_loads():
    while store.status()["loads_active"] == 0:
        time.sleep(.01)
    os.kill(os.getpid(), signal.SIGINT)


def press_while_it_loads():
    """The loaders go on when the key has been heard, or after a while."""
    try:
        press_as_it_loads()
        timely.append(heard.wait(60))
    finally:
        send(stopped, signal.SIGCONT)


def raise_interrupt(*_):
    heard.set()
    raise KeyboardInterrupt


another = os.path.join(tmp, "another.safetensors")
tarn.save(another, {"w": w})
timely, heard, stopped = [], threading.Event(), loaders()
send(stopped, signal.SIGSTOP)
before = signal.signal(signal.SIGINT, raise_interrupt)
presser = threading.Thread(target=press_while_it_loads)
presser.start()
kit.raises(KeyboardInterrupt, "", "Ctrl-C ends a get of FILE:TENSOR",
           lambda: store[another + ":w"])
presser.join()
signal.signal(signal.SIGINT, before)
kit.equal((len(stopped) > 0, timely), (True, [True]),
          "Ctrl-C ends the load while it runs")
kit.equal(store[another + ":w"].tolist(), w.tolist(),
          "another load of the file succeeds")


def end_it_first(*_):
    """A key that is heard when all is there, but not seen yet."""
    send(stopped, signal.SIGCONT)
    while store.status()["loads_active"]:
        time.sleep(.01)
    raise KeyboardInterrupt


def as_it_ends(load, what, said):
    """Loads a file that nobody has loaded."""
    with open(another, "ab"):
        os.utime(another)
    loads = store.status()["loads"]
    send(stopped, signal.SIGSTOP)
    kit.raises(KeyboardInterrupt, "", what, load)
    kit.equal(store.status()["loads"], loads + 1, said)


as_it_ends(lambda: store.load(another, progress=end_it_first),
           "an exception of the progress at the load's end is raised",
           "a tensor is loaded though its last progress raised")
presser = threading.Thread(target=press_as_it_loads)
before = signal.signal(signal.SIGINT, end_it_first)
as_it_ends(lambda: presser.start() or store[another + ":w"],
           "Ctrl-C at the end of a FILE:TENSOR load is raised",
           "a FILE:TENSOR is loaded though Ctrl-C came at its end")
presser.join()
signal.signal(signal.SIGINT, before)
os.unlink(another)
x = m["w"][1]
del m
gc.collect()
kit.equal(x.tolist(), [4, 5, 6, 7], "a view keeps the loaded memory")

# ---- fork, and another process ----
pid = os.fork()
if pid == 0:
    good = x.tolist() == [4, 5, 6, 7] and kept[0, 1] == 1 and \
        store["later"].tolist() == [1]
    store.publish("child", T([7]))
    os._exit(0 if good else 1)
kit.equal(os.waitpid(pid, 0)[1], 0, "a forked child uses the store")
kit.equal(store["child"].tolist(), [7], "the child's tensor is published")
seen = subprocess.run(
    [sys.executable, "-c",
     "import tarn; print(tarn.Store()['ckpt/w'][2].tolist())"],
    capture_output=True, text=True, check=False)
kit.equal(seen.stdout, "[8.0, 9.0, 10.0, 11.0]\n", "another process, " +
          seen.stderr)
kit.ok("numpy" not in sys.modules, "numpy was not imported by any call")
kit.equal(subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c",
                          "import tarn; t = tarn.Store()['ckpt/w'];"
                          "m = memoryview(t)"], check=False).returncode, 0,
          "an array lives to the end of the interpreter")

# ---- nodes ----
kit.equal(store.node, None, "a store insists on no NUMA node")
kit.ok(store["ckpt/w"].node is None or store["ckpt/w"].node >= 0,
       "a tensor has a node, or it is not known", store["ckpt/w"].node)
store.node = 0
kit.equal(store.node, 0, "a store keeps the node that it was told")
store.node = None
kit.equal(store.node, None, "a store forgets it")
kit.raises(ValueError, "-1 or 0 to 63", "a number of no node is refused",
           setattr, store, "node", 1 << 40)
kit.raises(TypeError, "", "a node is a number", setattr, store, "node", "0")

# ---- the end ----
daemon.terminate()
daemon.wait()
kit.raises(OSError, "",
           "a wait ends with an error when the daemon ends",
           store.wait, "x", 20)
kit.equal(x.tolist(), [4, 5, 6, 7], "tensors outlive the daemon")
for name in (path, npy):
    os.unlink(name)
kit.finish()
