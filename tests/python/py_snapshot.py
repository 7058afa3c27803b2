#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sets of published names, read beside a publisher in a loop: items, values and
snapshots have all names of one publication or none of it, which look-ups one
after the other do not."""
import itertools
import os
import pickle
import subprocess
import sys
import time

import py_kit as kit

import tarn

ROUNDS = 20000
os.chdir(os.environ["TMPDIR"])
daemon = kit.start_daemon("sock")
store = tarn.Store()

# ---- at rest ----
store.publish({"set/a": tarn.tensor(1), "set/b": tarn.tensor(1),
               "other": tarn.tensor(2)})
first = store.snapshot()
kit.equal(sorted(first), ["other", "set/a", "set/b"],
          "a snapshot has all names")
kit.equal(sorted(store.snapshot("set/")), ["set/a", "set/b"],
          "a snapshot of a prefix has the names with it")
kit.equal(list(store.snapshot(names=["other", "set/b"])), ["other", "set/b"],
          "a snapshot of names has those, in that order")
kit.equal((first["other"].item(), first.get("x"), "x" in first, len(first)),
          (2, None, False, 3), "a snapshot is a mapping")
kit.equal(first.versions, {"other": 1, "set/a": 1, "set/b": 1},
          "a snapshot has the version of each name")
store.publish("other", tarn.tensor(3))
second = store.snapshot()
kit.equal((first["other"].item(), second["other"].item()), (2, 3),
          "a snapshot stays as it was")
kit.ok(second.version > first.version, "a later snapshot has a higher commit")
kit.equal(store.snapshot("set/").version, second.version,
          "two snapshots without a change have the same commit")
kit.equal(second.versions["other"], 2, "a replaced name's version is higher")
kit.equal({k: v.item() for k, v in store.items()},
          {"other": 3, "set/a": 1, "set/b": 1},
          "items() returns all names and tensors")
kit.equal((sorted(v.item() for v in store.values()), len(store.items())),
          ([1, 1, 3], 3), "values() returns all tensors")
kit.equal({k: v.item() for k, v in pickle.loads(pickle.dumps(first)).items()},
          {"other": 2, "set/a": 1, "set/b": 1},
          "a snapshot is pickled by value")
kit.raises(KeyError, "no tensor 'x'",
           "a name that the snapshot has not is a NotFoundError",
           lambda: first["x"])
kit.raises(tarn.NotFoundError, "'x'",
           "a snapshot of a name that does not exist is refused",
           store.snapshot, names=["set/a", "x"])
kit.raises(TypeError, "several",
           "a snapshot of names refuses a single text",
           store.snapshot, names="set/a")
kit.raises(TypeError, "not both",
           "a snapshot of a prefix and names is refused", store.snapshot,
           "set/", names=["set/a"])
kit.equal(len(store.snapshot("nothing/")), 0,
          "a snapshot of an empty prefix's names is empty")
kit.equal([repr(s).split(": ")[1] for s in (first, store.snapshot("set/a"))],
          ["3 tensors>", "1 tensor>"], "a snapshot's repr counts its tensors")
del first, second
store.remove("other")


# ---- beside a publisher ----
def read_often(read):
    """The kinds of what is read, and the mixed ones: ROUNDS times, and until
    the set was replaced meanwhile."""
    kinds, mixed, deadline = set(), [], time.monotonic() + 120
    for n in itertools.count():
        if n >= ROUNDS and (len(kinds) > 1 or time.monotonic() > deadline):
            return kinds, mixed
        kind = tuple(v.item() for v in read())
        kinds.add(kind)
        if len(kind) != 2 or kind[0] != kind[1]:
            mixed.append(kind)


PUBLISHER = """
import itertools, tarn
store = tarn.Store()
for n in itertools.count(2):
    store.publish({"set/a": tarn.tensor(n), "set/b": tarn.tensor(n)})
    if n == 2:
        print(flush=True)
"""
with subprocess.Popen([sys.executable, "-c", PUBLISHER],
                      stdout=subprocess.PIPE) as publisher:
    publisher.stdout.readline()
    for what, read in (
            ("snapshot of a prefix", lambda: store.snapshot("set/").values()),
            ("snapshot of names", lambda: store.snapshot(
                names=("set/b", "set/a")).values()),
            ("dict(store.items())", lambda: dict(store.items()).values()),
            ("values()", store.values)):
        kinds, mixed = read_often(read)
        kit.equal(mixed, [], f"{what}: no read mixes two publications")
        kit.ok(len(kinds) > 1, f"{what}: the set was replaced meanwhile")
    pairs = ((store["set/a"].item(), store["set/b"].item())
             for _ in itertools.repeat(None))
    n = next(n for n, (a, b) in enumerate(pairs, 1) if a != b)
    kit.ok(True, f"two look-ups mix versions (the first of {n} pairs)")
    publisher.kill()

del store
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
kit.finish()
