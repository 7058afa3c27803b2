#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.save of a checkpoint in shards: files of bounded size, an index as Hugging
Face's loaders read it, and the old checkpoint or the new one, whatever fails."""
import errno
import json
import os
import signal
import subprocess
import sys
import threading

import py_kit as kit
import tarn
from tarn import _shards

folder = os.path.join(os.environ["TMPDIR"], "checkpoint")
os.makedirs(folder, exist_ok=True)  # the killed process has it
index = os.path.join(folder, "m.safetensors.index.json")


def tensors(k, n=7):
    """The third is larger than a shard."""
    made = {f"layer.{i}": tarn.full((100,), k + i, "I32") for i in range(n)}
    made["layer.2"] = tarn.full((1000,), k, "I32")
    return made


def shards():
    return sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))


def holds(k, file=None):
    file = tarn.open(index) if file is None else file
    wanted = tensors(k)
    return sorted(file) == sorted(wanted) and all(
        file[n].tolist() == t.tolist() for n, t in wanted.items())


if len(sys.argv) > 1:  # saves for ever, until it is killed
    while True:
        for k in (100, 200):
            tarn.save(index, tensors(k), shard_bytes=800)

# ---- a checkpoint ----
tarn.save(index, tensors(0), {"of": "a test"}, shard_bytes=800, checksums=True)
kit.equal(shards(), [f"m-{i:05}-of-00004.safetensors" for i in range(1, 5)],
          "there are shards, with the names that others use")
with open(index, encoding="utf-8") as f:
    told = json.load(f)
kit.equal(told["weight_map"],
          {f"layer.{i}": f"m-{s:05}-of-00004.safetensors"
           for i, s in enumerate([1, 1, 2, 3, 3, 4, 4])},
          "the index has each tensor's shard, in their order")
kit.equal(told["metadata"], {"of": "a test", "total_size": 6400},
          "and how many bytes they have")
file = tarn.open(index)
file.verify()
kit.ok(holds(0, file), "it is opened by its index, and verified")
kit.equal(tarn.open(os.path.join(folder, shards()[0])).metadata["of"], "a test",
          "a shard has the metadata")
told = subprocess.run([os.environ["TARN"], "info", index], check=True, text=True,
                      stdout=subprocess.PIPE).stdout
kit.ok("layer.6" in told, "tarn info shows it", told)

# ---- replaced ----
before = shards()
seen = []
tarn.save(index, tensors(10), shard_bytes=800, progress=lambda d, t: seen.append(
    (d, t)))
kit.ok(holds(10), "another one takes its place")
kit.ok(holds(0, file), "a reader that had the old one open still has it")
kit.ok(len(shards()) == 4 and not set(shards()) & set(before),
       "by other shards, and the old ones are gone", shards())
kit.ok(seen == sorted(seen) and seen[-1] == (6400, 6400),
       "progress is of all of them", seen)
tarn.save(index, tensors(20))
kit.equal((holds(20), len(shards())), (True, 1), "one shard, if all fit into it")

# ---- what fails ----
def stop(done, total):
    if done > 3000:
        raise KeyError("enough")


before = sorted(os.listdir(folder))
kit.raises(KeyError, "enough", "an error of the third shard is raised", tarn.save,
           index, tensors(30), shard_bytes=800, progress=stop)
kit.equal((holds(20), sorted(os.listdir(folder))), (True, before),
          "the old checkpoint is there, and nothing else")
kit.raises(FileExistsError, "index.json", "exclusive replaces none", tarn.save,
           index, tensors(30), exclusive=True)
kit.raises(ValueError, "shard_bytes is 0", "shards have bytes", tarn.save, index,
           tensors(30), shard_bytes=0)
kit.raises(ValueError, "'m.safetensors' does not end in .safetensors.index.json",
           "one file has no shards", tarn.save, "m.safetensors", tensors(30),
           shard_bytes=800)
kit.equal((holds(20), sorted(os.listdir(folder))), (True, before),
          "neither of these changes anything")
with open(os.path.join(folder, "m-other.safetensors"), "w") as f:
    f.write("of somebody else")
with open(index, "w") as f:
    json.dump({"weight_map": {"x": "m-other.safetensors", "y": "../y"}}, f)
tarn.save(index, tensors(40))
kit.ok(holds(40) and "m-other.safetensors" in shards(),
       "no file is removed but shards of its own", shards())
os.unlink(os.path.join(folder, "m-other.safetensors"))

def no_sync(folder):
    raise OSError(errno.EIO, "the folder")


sync, _shards._sync = _shards._sync, no_sync
kit.raises(OSError, "the folder", "an error after the index is there is raised",
           tarn.save, index, tensors(50), shard_bytes=800)
_shards._sync = sync
kit.ok(holds(50), "and its shards stay")
names = []
for k in (60, 70, 60):
    tarn.save(index, tensors(k), shard_bytes=800)
    with open(index, encoding="utf-8") as f:
        names += set(json.load(f)["weight_map"].values())
kit.equal((len(names), len(set(names))), (12, 12), "no name comes again")
for name in os.listdir(folder):
    os.unlink(os.path.join(folder, name))

# ---- two at once ----
go, begun = threading.Event(), threading.Event()


def held(done, total):
    begun.set()
    go.wait(60)


first = tarn.save(index, tensors(80), shard_bytes=800, progress=held,
                  background=True)
begun.wait(60)
tarn.save(index, tensors(90), shard_bytes=800)
kit.ok(holds(90), "one that is faster has its checkpoint")
go.set()
try:
    first.wait()
    done = True
except FileExistsError:
    done = False
kit.ok(holds(80) if done else holds(90), "and the slower its own, or an error",
       done)

# ---- in the background ----
values = tarn.zeros((100,), "I32")
saving = tarn.save(index, {"v": values, "w": values}, shard_bytes=400,
                   background=True)
values[:] = 1
saving.wait()
kit.equal([tarn.open(index)[n].tolist() for n in "vw"], [[0] * 100] * 2,
          "in the background, as they were")

# ---- kill -9 ----
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
tarn.save(index, tensors(100), shard_bytes=800)
whole = True
for i in range(12):
    job = subprocess.Popen([sys.executable, __file__, "save"])
    try:
        job.wait(0.3 + i * 0.017)
    except subprocess.TimeoutExpired:
        job.send_signal(signal.SIGKILL)
        job.wait()
    whole = whole and job.returncode == -signal.SIGKILL and \
        (holds(100) or holds(200))
kit.ok(whole, "a process that is killed leaves one checkpoint or the other")
file = None
for name in os.listdir(folder):
    os.unlink(os.path.join(folder, name))
os.rmdir(folder)
sys.exit(kit.finish())
