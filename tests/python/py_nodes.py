#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Replicas and names that move, from Python. Most machines have one node, where
all is there already. But a client that may not ask where its own memory lies
has it copied there all the same; so, at the end, this process may not."""
import errno
import os
import sys

import py_kit as kit
from blind import blind

import tarn

NONE = 63  # no machine for tests has so many
os.chdir(os.environ["TMPDIR"])
daemon = kit.start_daemon("sock")
store = tarn.Store()
w = tarn.arange(12, dtype="F32").reshape(3, 4)
store.publish({"set/a": w, "set/b": w, "one": w})
store.publish("shared", store.create(4, "I32", mutable=True))


def nodes_with_memory():
    try:
        with open("/sys/devices/system/node/has_memory",
                  encoding="ascii") as f:
            text = f.read().strip()
    except OSError:
        return [0]
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


# ---- where there is something to copy ----
here = store["one"].node
there = nodes_with_memory()
if here is None:
    kit.skipped("nodes of tensors", "where memory lies is not known here")
else:
    kit.equal(store.nodes("one"), (here,), "a tensor has all bytes on one node")
    kit.equal((store.replicate("one", here), store.migrate("one", here)),
              (0, 0), "what lies there is not copied")
    kit.equal(store.version("one"), 1, "a name that stays has no new version")
    other = next((n for n in there if n != here), None)
    if other is None:
        kit.skipped("the other node", "there is one node")
    else:
        steps = []
        kit.equal(store.replicate("set/", other, progress=lambda *s:
                                  steps.append(s)) >= w.nbytes, True,
                  "a folder is replicated")
        kit.ok(all(done <= total for done, total in steps),
               "the progress stays within its total", steps)
        kit.equal(store.nodes("set/a"), tuple(sorted((here, other))),
                  "a replica is on the other node")
        store.drop_replicas("set/", other)
        kit.equal(store.nodes("set/a"), (here,), "a replica is dropped")
        store.migrate("one", other)
        kit.equal((store.nodes("one"), store.version("one"),
                   store["one"].tolist()), ((other,), 2, w.tolist()),
                  "a tensor moves to the other node")
kit.equal(store.drop_replicas("set/"), None,
          "that there are no replicas is no error")
kit.equal(store.drop_replicas(name="one", node=0), None,
          "the replicas on one node are dropped")

# ---- what cannot be ----
for call in store.replicate, store.migrate:
    what = call.__name__
    kit.raises(KeyError, "'nothing'", f"{what} of a missing name is a KeyError",
               call, "nothing", 0)
    kit.raises(tarn.NotFoundError, "below 'nothing/'",
               f"{what} of an empty folder", call, "nothing/", 0)
    kit.raises(ValueError, "mutable", f"{what} of a mutable tensor", call,
               "shared", 0)
    kit.raises(ValueError, "0 to 63 are possible",
               f"{what} to a node beyond all", call, "one", 1 << 70)
    kit.raises(ValueError, "0 to 63 are possible",
               f"{what} to a node below all", call, "one", -1)
    kit.raises(ValueError, "0 to 63 are possible", f"{what} to no node", call,
               "one", None)
    kit.raises(TypeError, "", f"{what} takes a number", call, "one", "0")
    kit.raises(TypeError, "name", f"{what} takes a name", call, 1, 0)
    kit.raises(TypeError, "progress", f"{what} calls what can be called", call,
               "one", 0, progress=1)
    try:
        call("one", NONE)
    except OSError as e:
        kit.equal((e.errno, "nodes with memory: " in str(e)),
                  (errno.ENODEV, True), f"{what} to a node without memory")
kit.raises(KeyError, "'nothing'", "the nodes of a missing name", store.nodes,
           "nothing")
kit.raises(KeyError, "'nothing'", "the replicas of a missing name",
           store.drop_replicas, "nothing")
kit.raises(ValueError, "0 to 63 are possible", "the replicas on no node",
           store.drop_replicas, "one", 64)
kit.raises(TypeError, "misses the argument 'name'", "the replicas of what",
           store.drop_replicas)

# ---- devices ----
devices = "/sys/bus/pci/devices"
found = os.listdir(devices) if os.path.isdir(devices) else []
for address in found[:1]:
    node = tarn.node_of_pci(address)
    kit.ok(node is None or node >= 0, "a device has a node or not", node)
kit.raises(FileNotFoundError, "no PCI device ffffffff:ff:1f.7",
           "the node of a device that is not there", tarn.node_of_pci,
           "ffffffff:ff:1f.7")
kit.raises(ValueError, "'65:00' is no address", "the node of what is no device",
           tarn.node_of_pci, "65:00")
kit.raises(TypeError, "'0000:65:00.0'", "the node of a number",
           tarn.node_of_pci, 65)

# ---- a copy ----
SIZE = 64 << 20


class Enough(Exception):
    pass


def stop(*_):
    raise Enough


def copies():
    node = nodes_with_memory()[0]
    big = store.create(SIZE, "U8")
    big[...] = 7
    store.publish("big", big)
    kit.raises(Enough, "", "an exception of the progress ends a copy",
               store.replicate, "big", node, progress=stop)
    kit.equal(store.nodes("big"), (), "a copy that was ended is none")
    steps = []
    kit.equal(store.replicate("big", node, progress=lambda *s:
                              steps.append(s)), SIZE, "bytes are copied")
    kit.ok(all(0 <= done <= total == SIZE for done, total in steps) and steps,
           "the progress of a copy has its bytes", steps)
    kit.equal((store.nodes("big"), store["big"][SIZE - 1]), ((node,), 7),
              "the replica is on that node, and has the bytes")
    kit.equal(store.replicate(name="big", node=node), 0,
              "a replica that is there is not made again")
    store.drop_replicas("big", node)
    kit.equal(store.nodes("big"), (), "the replica is dropped")
    kit.equal((store.migrate("big", node), store.version("big"),
               store["big"].tolist()[:2]), (SIZE, 2, [7, 7]),
              "a tensor that moves is a new version")


if not blind():
    kit.skipped("a copy", "there is no seccomp here")
elif here is None:
    kit.skipped("a copy", "memory is not placed here")
else:
    copies()

daemon.terminate()
daemon.wait()
sys.exit(kit.finish())
