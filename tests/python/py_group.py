#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.torch.load_file(path, group=...): ranks of torch.distributed on two
nodes, which are two daemons here, load one file together. Each byte is read by
one node; all have all. A file that differs, that cannot be read or stored, a
byte that was lost, a rank that is late or dies: an error on every rank, in time,
and no set on any node that is not whole.

This program starts itself once more for each rank. A rank prints what it saw
as lines of JSON, and the first process judges."""
import json
import os
import subprocess
import sys
import threading
import time

import py_kit as kit

try:
    import torch
    import torch.distributed as dist
except ImportError:
    kit.skip_all("torch is not installed (python3-torch)")
if not dist.is_available() or not dist.is_gloo_available():
    kit.skip_all("this torch has no gloo")
import tarn
from tarn import _plan
from tarn.torch import load_file, moving, nodes, save_file

tmp = os.environ["TMPDIR"]
LONG, SHORT = 120, 2  # seconds: enough anywhere, and what must pass


def path_of(name):
    return os.path.join(tmp, name)


def tensors(shift=0):
    """5 MiB and some."""
    return {"w": torch.arange(1 << 20).reshape(1024, 1024).float() + shift,
            "b": torch.arange(7).to(torch.bfloat16),
            "half/h": torch.arange(1 << 19).to(torch.float16),
            "none": torch.zeros(0, 3), "one": torch.tensor(7)}


def same(seen, wanted):
    return sorted(seen) == sorted(wanted) and all(
        torch.equal(seen[n], t) and seen[n].dtype == t.dtype
        for n, t in wanted.items())


# ---- a rank ----


class Rank:
    def __init__(self, rank, world, node, meeting):
        self.rank, self.world, self.node = rank, world, node
        self.store = tarn.Store()
        dist.init_process_group("gloo", init_method=f"file://{meeting}",
                                rank=rank, world_size=world)

    def say(self, what, value):
        print(json.dumps([what, self.rank, value]), flush=True)

    def load(self, path, group=None, timeout=LONG, **more):
        """The tensors as PyTorch's, and the bytes that this rank has read."""
        found, read = nodes.load(path, group or dist.group.WORLD,
                                 node=self.node, timeout=timeout, **more)
        return {n: t.torch() for n, t in found.items()}, read

    def fail(self, what, path, patch=None, **more):
        """Loads what cannot be loaded, in a group of its own, which may break.
        patch has things of the module that this rank has otherwise."""
        group = dist.new_group(backend="gloo")
        originals = {name: getattr(nodes, name, None) for name in patch or {}}
        for name, new in (patch or {}).items():
            setattr(nodes, name, new)
        began = time.monotonic()
        try:
            self.load(path, group, **more)
            seen = ["nothing was raised"]
        except Exception as e:
            seen = [type(e).__name__, str(e)]
        for name, old in originals.items():
            if old is None:
                delattr(nodes, name)
            else:
                setattr(nodes, name, old)
        self.say(what, [*seen, time.monotonic() - began,
                        self.store.names(more.get("name", path.strip("/")))])
        dist.barrier()


def first_test(r):
    path = path_of("m.safetensors")
    found, read = r.load(path)
    r.say("first", [same(found, tensors()), read])
    r.say("names", sorted(r.store.names()))
    r.say("daemon", r.store.status()["bytes_loaded"])
    if r.rank == 0:
        found["w"][0, 0] = 5
    again, read = r.load(path)
    r.say("again", [same(again, tensors()), read])
    named = load_file(path, group=dist.group.WORLD, node=r.node, name="named",
                      views=lambda n, t: t[:2] if n == "w" else None)
    r.say("views", same(named, {"w": tensors()["w"][:2]}))
    r.say("named", "named/w" in r.store)
    dist.barrier()
    if r.rank == 1:
        with r.store.refit(path.strip("/")) as f:
            f.put("w", torch.zeros(1024, 1024))
    found, read = r.load(path)
    r.say("refitted", [same(found, tensors()), read > 0])


def formats_test(r):
    found, read = r.load(path_of("a.npy"))
    r.say("npy", [same(found, {"a": torch.arange(9.)}), read])
    found, read = r.load(path_of("model.safetensors.index.json"))
    r.say("index", [same(found, tensors()), read])
    path = path_of("small.safetensors")
    for views in None, lambda n, t: None if n == "e" and r.rank else t:
        found, _ = nodes.load(path, dist.group.WORLD, node=r.node, views=views,
                              name=f"small{views is None}")
        file = tarn.open(path)
        r.say("small", [n for n, t in found.items()
                        if not tarn.equal(t, file[n])])
    found, read = r.load(path_of("empty.safetensors"))
    r.say("empty", [same(found, {}), read])


def no_boot(*args, **words):
    raise PermissionError(13, "of the test")


def errors_test(r):
    on_b = r.node == "b"
    r.fail("differs", path_of("n.safetensors" if on_b else "m.safetensors"),
           name="differs")
    r.fail("missing", path_of("lost" if on_b else "m.safetensors"),
           name="missing")

    def truncate(records):
        os.truncate(path_of("cut.safetensors"), 1 << 20)

    r.fail("cut", path_of("cut.safetensors"),
           {"_same_file": truncate} if on_b else None)

    def overwrite(records):
        with open(path_of("written.safetensors"), "r+b") as f:
            f.seek(-4, os.SEEK_END)
            f.write(b"once")

    r.fail("written", path_of("written.safetensors"),
           {"_same_file": overwrite} if on_b else None)
    exchange = nodes._exchange

    def lose(plan, me, taker, *rest):
        exchange(plan, me, taker, *rest)
        lost = taker._memories[0]
        lost[100] = 255 - int(lost[100])

    r.fail("lost", path_of("o.safetensors"),
           {"_exchange": lose} if on_b else None)
    class Poor(moving.Taker):
        """A node whose memory runs out after some chunks."""
        def _take(self, i, chunks):
            if self._taken == 4:
                raise MemoryError("no memory, says the test")
            super()._take(i, chunks)

    r.fail("poor", path_of("o.safetensors"), {"_Taker": Poor} if on_b else None)
    r.fail("fortran", path_of("f.npy"))
    r.fail("large", path_of("large.safetensors"), {"_Reader": None})
    r.fail("nowhere", path_of("o.safetensors"),
           {"open": no_boot} if on_b else None)


def reader_test(r):
    """A reader that nobody wants any more."""
    began, go, taken = threading.Event(), threading.Event(), []

    class Whole:
        def __getitem__(self, at):
            taken.append(at)
            began.set()
            go.wait()
            return torch.zeros(at.stop - at.start, dtype=torch.uint8)

    class Source:
        shards = [(None, 0, 0, Whole())]

    class Store:
        def _take(self, memory):
            pass

    chunks = [(0, _plan.Chunk(0, 8 * i, 8 * i, 8)) for i in range(4)]
    reader = nodes._Reader(Store(), Source(), chunks,
                           {0: torch.zeros(32, dtype=torch.uint8)})
    began.wait()
    reader.stop()
    go.set()
    for i in range(4):
        reader.wait(i, nodes.Deadline(LONG))
    r.say("reader", len(taken))


def replaced_test(r):
    """Another process publishes another version of the set while this one
    looks."""
    path, name = path_of("m.safetensors"), "replaced"
    source = nodes._Local(r.store, path, name, None)
    fields = source.fields()
    other = tensors(9)
    r.store.publish_set(name, other, fields={"tarn.file": "another"})

    class Between(type(r.store)):
        def snapshot(self, *args, **words):
            found = super().snapshot(*args, **words)
            r.store.publish_set(name, other, fields=fields)
            return found

    source.store = Between()
    try:
        source.published(source.names)
        seen = "nothing was raised"
    except Exception as e:
        seen = type(e).__name__, "another" in str(e)
    r.say("replaced", seen)
    r.store.publish({}, replace=name + "/")


def late_test(r):
    group = dist.new_group(backend="gloo")
    if r.rank == 0:
        began = time.monotonic()
        try:
            r.load(path_of("o.safetensors"), group, SHORT)
            seen = ["nothing was raised"]
        except Exception as e:
            seen = [type(e).__name__, str(e)]
        r.say("late", [*seen, time.monotonic() - began, []])
    dist.barrier()  # the other rank is here all the time


def stuck_test(r):
    """A disk that does not answer."""
    class Stuck(nodes._Reader):
        def _run(self):
            pass

    r.fail("stuck", path_of("o.safetensors"),
           {"_Reader": Stuck} if r.node == "b" else None, timeout=SHORT)

    class Blocked(nodes._Source):
        def __init__(self, path, store):
            threading.Event().wait()

    r.fail("blocked", path_of("o.safetensors"),
           {"_Source": Blocked} if r.node == "b" else None, timeout=SHORT)


def four_test(r):
    found, read = r.load(path_of("m.safetensors"))
    r.say("four", [same(found, tensors()), read])
    r.say("loads", r.store.status()["bytes_loaded"])


def parts_test(r):
    """Ranks that want some tensors each."""
    path = path_of("o.safetensors")
    wants = [{"w"}, {"b"}, {"w"}, {"half/h", "none"}]

    def load(what, wanted, name="parts", file=path):
        found, read = r.load(file, name=name,
                             views=lambda n, t: t if n in wanted else None)
        r.say(what, [same(found, {n: t for n, t in tensors(2).items()
                                  if n in wanted}), read])

    load("parts", wants[r.rank])
    r.say("parts names", sorted(r.store.names("parts")))
    r.say("one piece", tarn.same_storage(
        r.store["parts/w"], r.store["parts/b" if r.node == "a" else
                                    "parts/half/h"]))
    load("parts again", wants[r.rank])
    load("other parts", wants[3 - r.rank])
    load("no parts", set(), "nothing")
    load("all for one", set(tensors()) if r.rank == 0 else {"one"}, "one")
    r.say("one names", sorted(r.store.names("one")))
    load("all", set(tensors()))
    load("of all", wants[r.rank])
    seen = load_file(path, group=dist.group.WORLD, node=r.node, name="map",
                     views={"w": "[1:3]", "b": None, "half/h": None})
    r.say("map", [same(seen, {"w": tensors(2)["w"][1:3],
                              "none": torch.zeros(0, 3),
                              "one": torch.tensor(7)}), "map/b" in r.store])
    node, r.node = r.node, f"node {r.rank}"
    load("one store", wants[r.rank], "one store")
    r.node = node
    r.fail("differs within", path_of("mn"[r.rank == 1] + ".safetensors"),
           name="within")
    r.fail("another name within", path,
           name="without" if r.rank == 1 else "within")
    r.fail("no such part", path, views={"x": "[0]"} if r.rank == 3 else None,
           name="wrong")


def ring_test(r):
    """Each rank is a node of its own, and passes on what it has received."""
    r.node = f"node {r.rank}"
    _plan.plan.__kwdefaults__["chunk"] = 1 << 18
    found, read = r.load(path_of("m.safetensors"), name="ring")
    r.say("ring", [same(found, tensors()), read])


def killed_test(r):
    """The first rank of node b ends between two chunks."""
    class Killed(nodes._Reader):
        def wait(self, i, deadline):
            super().wait(i, deadline)
            if i == 3:
                os._exit(0)

    r.node = "ab"[r.rank // 2]
    _plan.plan.__kwdefaults__["chunk"] = 1 << 18
    if r.rank == 2:
        nodes._Reader = Killed
    path, began = path_of("o.safetensors"), time.monotonic()
    try:
        r.load(path, timeout=LONG)
        seen = ["nothing was raised"]
    except Exception as e:
        seen = [type(e).__name__, str(e)]
    r.say("killed", [*seen, time.monotonic() - began,
                     r.store.names(path.strip("/"))])


def be_a_rank(rank, world, node, meeting, *tests):
    r = Rank(int(rank), int(world), node, meeting)
    for test in tests:
        globals()[test](r)
    os._exit(0)  # a broken group is not waited for


if len(sys.argv) > 1:
    be_a_rank(*sys.argv[1:])

# ---- the first process ----
# Ranks find what this process has found.
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
run = os.environ["XDG_RUNTIME_DIR"]
sockets = {n: os.path.join(run, f"{n}.sock") for n in "ab"}
# Of one file there is room on a, and not on b.
daemons = [kit.start_daemon(sockets["a"]),
           kit.start_daemon(sockets["b"], "--budget", "96M")]
stores = {n: tarn.Store(s) for n, s in sockets.items()}
meetings = iter(range(100))


def ranks(world, *tests):
    """Runs ranks, half of them on each node; what they said, by its name."""
    meeting = path_of(f"meeting{next(meetings)}")
    programs = []
    for rank in range(world):
        node = "ab"[rank * 2 // world]
        programs.append(subprocess.Popen(
            [sys.executable, __file__, str(rank), str(world), node, meeting,
             *tests], stdout=subprocess.PIPE,
            env=dict(os.environ, TARN_SOCKET=sockets[node],
                     GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")))
    said = {}
    for program in programs:
        for line in program.communicate()[0].decode().splitlines():
            what, rank, value = json.loads(line)
            said.setdefault(what, {})[rank] = value
    kit.equal([p.returncode for p in programs], [0] * world,
              f"{world} ranks end by themselves ({', '.join(tests)})")
    if os.path.exists(meeting):
        os.unlink(meeting)
    return {what: [v[r] for r in sorted(v)] for what, v in said.items()}


def failed(seen, kind, texts, message, count=2):
    """All ranks have raised that, in time, and no set is there."""
    kit.equal([(s[0], [t for t in texts if t not in s[1]], s[2] < LONG, s[3])
               if len(s) > 3 else s for s in seen],
              [(kind, [], True, [])] * count, message)
    if any(s[0] != kind or [t for t in texts if t not in s[1]] for s in seen):
        print("#", seen)


def timed_out(seen, message):
    """All ranks have raised something, in time, and no set is there. A rank
    may find that another, whose time was over before, is gone."""
    late = [s for s in seen if s[0] == "TimeoutError"]
    kit.ok(late and all(f"{SHORT} s" in s[1] for s in late) and all(
        s[0] in ("TimeoutError", "ConnectionError") and s[2] < LONG and not s[3]
        for s in seen), message, seen)


save_file(tensors(), path_of("m.safetensors"), {"note": "x"})
save_file(tensors(1), path_of("n.safetensors"), {"note": "y"})
save_file(tensors(2), path_of("o.safetensors"))
save_file(tensors(3), path_of("cut.safetensors"))
save_file(tensors(4), path_of("written.safetensors"))
save_file({}, path_of("empty.safetensors"))
save_file({"w": torch.zeros(25 << 20)}, path_of("large.safetensors"))
tarn.save(path_of("a.npy"), tarn.arange(9.))
small = [tarn.tensor([1., 2., 3., 4.] * 3, "F6_E2M3"), tarn.tensor([1., 2.], "F4"),
         tarn.tensor(5, "U8"), tarn.tensor([3., 4.], "F4"),
         tarn.tensor([[4., 3., 2., 1.]], "F6_E3M2"), tarn.tensor([2, 3], "I16"),
         tarn.zeros((2, 0), "C64")]
tarn.save(path_of("small.safetensors"), dict(zip("abcdefg", small)))
parts = {"p1.safetensors": ["w"],
         "p2.safetensors": ["b", "half/h", "none", "one"]}
for part, names in parts.items():
    save_file({n: tensors()[n] for n in names}, path_of(part))
with open(path_of("model.safetensors.index.json"), "w",
          encoding="utf-8") as f:
    json.dump({"weight_map": {n: part for part, names in parts.items()
                              for n in names}}, f)
with open(path_of("f.npy"), "wb") as f:
    head = b"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}"
    f.write(b"\x93NUMPY\1\0\x76\0" + head.ljust(117) + b"\n" + bytes(16))
BYTES = sum(t.nbytes for t in tensors().values())
prefix = path_of("m.safetensors").strip("/")

seen = ranks(2, "first_test", "formats_test")
kit.equal([s[0] for s in seen["first"]], [True] * 2,
          "two nodes have all tensors")
reads = [s[1] for s in seen["first"]]
kit.equal(sum(reads), BYTES, "each byte was read once by all of them together")
kit.ok(max(reads) - min(reads) <= 2 * _plan.ALIGN, "each node has read half")
kit.equal(seen["daemon"], [0, 0], "the daemons have read nothing")
kit.equal(seen["names"],
          [sorted([*(f"{prefix}/{n}" for n in tensors()),
                   f"{prefix}/.fields"])] * 2,
          "the set is published under the file's path on each node")
kit.equal(seen["again"], [[True, 0]] * 2,
          "a second load reads nothing, and sees no private write")
kit.equal(seen["refitted"], [[True, True]] * 2,
          "a set that a refit has changed is no more the file's")
kit.equal(seen["views"], [True] * 2, "views choose what a rank gets")
kit.equal(seen["named"], [True] * 2, "a name may be given")
kit.equal([s[0] for s in seen["npy"]], [True] * 2, ".npy files are loaded")
kit.equal(sum(s[1] for s in seen["npy"]), 36,
          "a small file is read once, too")
kit.equal([s[0] for s in seen["index"]], [True] * 2, "shards are loaded")
kit.equal(sum(s[1] for s in seen["index"]), BYTES, "shards are read once")
kit.equal(seen["small"], [[]] * 2,
          "tensors of less than a byte an element are loaded")
kit.equal(seen["empty"], [[True, 0]] * 2, "a file without tensors is loaded")
kit.ok(same(stores["b"].snapshot(prefix + "/half").torch(),
            {f"{prefix}/half/h": tensors()["half/h"]}),
       "another process of a node finds a tensor by its name")

# More pieces of memory than are published each as a storage of its own.
pieces = [stores["a"].create((64,), "U8") for _ in range(70)]
for i, piece in enumerate(pieces):
    piece[:] = i
stores["a"].publish_set("pieces", {f"{i}": p for i, p in enumerate(pieces)})
found = nodes._own({f"{i}": stores["a"][f"pieces/{i}"] for i in range(70)})
kit.equal([n for n, t in found.items() if t.tolist() != [int(n)] * 64], [],
          "tensors whose memories were copied into one storage keep their bytes")
del pieces, piece, found
stores["a"].publish({}, replace="pieces/")

seen = ranks(2, "reader_test", "replaced_test")
kit.equal(seen["reader"], [1] * 2, "after an error no further chunk is read")
kit.equal(seen["replaced"], [["ValueError", True]] * 2,
          "what is published in place of a set meanwhile is not taken for it")

seen = ranks(2, "errors_test", "late_test", "stuck_test")
failed(seen["differs"], "ValueError",
       ["different files", "node a has", "node b has", "m.safetensors",
        "n.safetensors"],
       "another file on a node is an error that names both nodes")
digests = {w for s in seen["differs"] for w in s[1].split() if
           len(w.strip(";")) == 32}
kit.equal(len(digests), 2, "the error has both digests, the same on each rank")
failed(seen["missing"], "OSError", ["rank 1 on node b", "lost"],
       "a file that is missing on one node is an error on all")
failed(seen["cut"], "OSError", ["on node", "cut.safetensors"],
       "a file that changes under way is an error on all")
failed(seen["written"], "OSError",
       ["on node", "the file changed after its header was read"],
       "so is one of the same size, of which no node sees two versions")
failed(seen["lost"], "OSError", ["node a", "node b", "digest"],
       "a byte that was lost is an error on all")
failed(seen["poor"], "OSError",
       ["rank 1 on node b", "no memory, says the test"],
       "memory that runs out under way is an error on all, and the ring goes on")
failed(seen["fortran"], "OSError", ["f.npy", "not in C order"],
       "a file in Fortran order is refused")
failed(seen["large"], "OSError", ["rank 1 on node b", "a budget of"],
       "a node without room is an error on all, before they read")
kit.equal([n for n in stores["b"].names() if "large" in n], [],
          "a node without room has no set")
failed(seen["nowhere"], "OSError", ["rank 1 on node b", "of the test"],
       "what a rank cannot say of itself is an error on all, at once")
kit.ok(max(s[2] for s in seen["nowhere"]) < LONG / 2, "they do not wait for it")
failed(seen["late"], "TimeoutError", ["rank 1", f"{SHORT} s"],
       "a rank that does not come is an error after the timeout", 1)
timed_out(seen["stuck"],
          "a disk that does not answer is an error on all after the timeout")
timed_out(seen["blocked"],
          "a file that cannot even be opened in time is one, too")

for store in stores.values():
    for name in store.names(prefix):
        store.remove(name)
seen = ranks(4, "parts_test")
size = {n: t.nbytes for n, t in tensors().items()}
kit.equal([s[0] for s in seen["parts"]], [True] * 4,
          "each rank has the tensors that it wants")
kit.equal(sum(s[1] for s in seen["parts"]),
          size["w"] + size["b"] + size["half/h"],
          "what some rank wants is read once, and nothing else")
kit.equal([seen["parts"][r][1] for r in (1, 3)], [0, 0],
          "the first rank of a node reads for all of it")
kit.equal(seen["parts names"],
          [[f"parts/{n}" for n in (".fields", *names)]
           for names in [("b", "w")] * 2 + [("half/h", "none", "w")] * 2],
          "each node has the tensors that its ranks want")
kit.equal(seen["one piece"], [True] * 4,
          "a node has one piece of memory, of which any number can be published")
kit.equal(seen["parts again"], [[True, 0]] * 4,
          "a second load of the same parts reads nothing")
kit.equal(([s[0] for s in seen["other parts"]],
           sum(s[1] for s in seen["other parts"]) > 0), ([True] * 4, True),
          "other parts under the same name are read, and are right")
kit.equal(seen["no parts"], [[True, 0]] * 4, "parts may be none at all")
kit.equal(([s[0] for s in seen["all for one"]],
           sum(s[1] for s in seen["all for one"])), ([True] * 4, BYTES),
          "one rank may want all")
kit.equal([len(n) for n in seen["one names"]], [len(size) + 1] * 2 + [2] * 2,
          "its node has all, the other one what it wants")
kit.equal([s[0] for s in seen["all"]], [True] * 4, "then all may want all")
kit.equal(seen["of all"], [[True, 0]] * 4,
          "parts of a set that has all are there")
kit.equal(seen["map"], [[True, False]] * 4,
          "a mapping leaves out what it says None of")
kit.equal([s[0] for s in seen["one store"]], [True] * 4,
          "nodes that have one store publish what all of them want")
failed(seen["differs within"], "ValueError",
       ["different files", "m.safetensors", "n.safetensors"],
       "another file on a second rank of a node is an error on all", 4)
failed(seen["another name within"], "ValueError",
       ["rank 0 on node a", "'within'", "rank 1 on node a", "'without'",
        "the same name="],
       "another name on a second rank of a node is an error on all", 4)
failed(seen["no such part"], "OSError",
       ["rank 3 on node b", "there is no tensor 'x'"],
       "a view of no tensor is an error on all", 4)

for store in stores.values():
    for name in store.names():
        store.remove(name)
seen = ranks(4, "four_test", "ring_test", "killed_test")
kit.equal([s[0] for s in seen["four"]], [True] * 4,
          "four ranks of two nodes have all tensors")
kit.equal([seen["four"][r][1] for r in (1, 3)], [0, 0],
          "one rank of each node reads")
kit.equal(sum(s[1] for s in seen["four"]), BYTES,
          "four ranks together read each byte once")
kit.equal(seen["loads"], [0] * 4, "the daemons have read nothing, again")
kit.equal([s[0] for s in seen["ring"]], [True] * 4,
          "four nodes have all tensors")
reads = [s[1] for s in seen["ring"]]
kit.equal((sum(reads), max(reads) - min(reads) <= 2 * _plan.ALIGN),
          (BYTES, True), "four nodes read a quarter each")
kit.equal([(s[0] in ("ConnectionError", "TimeoutError"), s[2] < 2 * LONG,
            s[3]) for s in seen["killed"]], [(True, True, [])] * 3,
          "a rank that dies is an error on the others, and no set is there")

for store in stores.values():
    for name in store.names():
        store.remove(name)
del store, stores
for daemon in daemons:
    daemon.terminate()
kit.equal([d.wait() for d in daemons], [0, 0], "the daemons end without error")
for name in os.listdir(tmp):
    os.unlink(path_of(name))
sys.exit(kit.finish())
