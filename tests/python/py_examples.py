#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples in Python do what is said of them: one load for many readers,
who have next to nothing of their own, weights that are swapped under servers,
who see whole versions and the last one, and workers that feed a trainer."""
import os
import re
import subprocess
import sys

import py_kit as kit

try:
    import numpy
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

os.chdir(os.environ["TMPDIR"])
folder = os.path.join(os.environ["top_srcdir"], "examples")
daemon = kit.start_daemon("sock")


def start(name, *arguments):
    return subprocess.Popen([sys.executable, os.path.join(folder, name),
                             *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def end(process):
    """Its lines, those on stderr behind them, and its status."""
    out, err = process.communicate(timeout=600)
    return [*out.splitlines(), *err.splitlines()], process.returncode


# ---- readers ----
SIZE = 64 << 20
tarn.save("m.safetensors", {
    "wte": numpy.arange(SIZE // 4, dtype="f4").reshape(-1, 64),
    "b": tarn.tensor([1, 2], "BF16"), "n": tarn.tensor(3), "e": tarn.zeros(0)})
for again, reads in ((0, 1), (1, 0)):
    lines, status = end(start("readers.py", "m.safetensors", 3))
    kit.equal((status, lines[3:]),
              (0, [f"3 readers, 1 sum, the file was read {reads} times"]),
              "in memory already: read by nobody" if again
              else "three readers, one read")
    own = [float(x) for x in re.findall(r", ([0-9.]+) MB of its own",
                                        "\n".join(lines))]
    # Half of the file would be a copy somewhere.
    kit.ok(len(own) == 3 and max(own) < SIZE / 2e6,
           "no reader has a private copy of the file", lines)

# ---- called wrongly, or to be told how ----
open("text", "w").close()
tarn.save("line.npy", numpy.arange(3))
for name, arguments, part in (
        ("readers.py", (), "FILE"),
        ("readers.py", ("nowhere.safetensors",), "nowhere.safetensors"),
        ("readers.py", ("nowhere.safetensors", 4), "nowhere.safetensors"),
        ("readers.py", ("text",), "text"),
        ("readers.py", (".",), "directory"),
        ("readers.py", ("m.safetensors", 0), "1 or more"),
        ("readers.py", ("m.safetensors", "many"), "'many'"),
        ("readers.py", ("m.safetensors", 1, 2), "2"),
        ("hotswap.py", (), "role"),
        ("hotswap.py", ("watch", "p", 1), "'watch'"),
        ("hotswap.py", ("serve", "p"), "VERSIONS"),
        ("hotswap.py", ("train", "p", -1), "VERSIONS"),
        ("pipeline.py", ("nowhere.npy",), "nowhere.npy"),
        ("pipeline.py", ("line.npy",), "no images"),
        ("pipeline.py", ("line.npy", "some"), "'some'"),
        ("pipeline.py", ("line.npy", 1, 0), "1 or more"),
        ("table.py", (), "NAME"),
        ("table.py", ("t", 0), "1 to 1000"),
        ("table.py", ("t", 1, "much"), "'much'")):
    lines, status = end(start(name, *arguments))
    kit.equal((status, [x for x in lines if x.startswith("Traceback")],
               sum(x.startswith(name) for x in lines)), (2, [], 1),
              f"{name} {arguments}: prints one sentence and no traceback")
    kit.ok(part in lines[-1], "the sentence says what is wrong", lines)
for name in ("readers.py", "hotswap.py", "pipeline.py", "table.py"):
    lines, status = end(start(name, "--help"))
    kit.ok(status == 0 and lines[0].startswith(f"usage: {name} [-h]") and
           len(lines) > 8, f"{name} --help prints its usage", lines)
os.unlink("text")
os.unlink("line.npy")

# ---- hot swap ----
VERSIONS = 60
servers = [start("hotswap.py", "serve", "run/model", VERSIONS)
           for _ in range(2)]
trained, status = end(start("hotswap.py", "train", "run/model", VERSIONS))
kit.equal((status, len(trained), len(set(trained))),
          (0, VERSIONS, VERSIONS), "hotswap: a trainer publishes all versions")
for server in servers:
    served, status = end(server)
    kit.equal((status, served[-1:]), (0, trained[-1:]),
              "hotswap: a server follows to the last version")
    # A set that was part old and part new would have another loss.
    kit.equal(served, [line for line in trained if line in served],
              "hotswap: each version that a server saw is whole, in order")
first, last = (float(line.rsplit(" ", 1)[1])
               for line in (trained[0], trained[-1]))
kit.ok(last < first / 100,
       "the training reduces the loss to a hundredth", trained)
store = tarn.Store()
kit.equal(len(store), 3, "hotswap: only the newest weights are kept")
del store

# ---- the pipeline ----
bright = numpy.random.default_rng(0).uniform(0, 1, (300, 1, 1))
tarn.save("images.npy", (bright * numpy.linspace(99, 255, 12) *
                         numpy.ones((16, 1))).astype(numpy.uint8))
for what, arguments, steps in (("made-up images", (), 200),
                               ("a file's", ("images.npy", 31, 3), 31)):
    lines, status = end(start("pipeline.py", *arguments))
    kit.equal((status, [line.split(":")[0] for line in lines]),
              (0, ["step 1", f"step {steps}"]), f"{what} runs through workers")
    off = [float(line.split()[2]) for line in lines]
    kit.ok(off[-1] < off[0] / 2, "the training halves the loss", lines)
os.unlink("images.npy")

# ---- tasks of asyncio ----
store = tarn.Store()
channel = store.channel("numbers", slots=2)
tasks = start("tasks.py", "numbers", "run/there")
with tarn.sender("numbers") as out:
    for n in range(10):
        out.put(n)
store.publish({"run/there": tarn.tensor(7)})
lines, status = end(tasks)
kit.equal((status, lines), (0, ["10 items, the last one 9", "run/there is 7"]),
          "tasks receive items and wait for a name")
lines, status = end(start("tasks.py", "--help"))
kit.equal((status, lines), (1, ["usage: tasks.py CHANNEL NAME"]),
          "tasks.py without arguments prints its usage")
del channel, store

# ---- a table that is looked up at random ----
for again in (False, True):
    lines, status = end(start("table.py", "run/table", 2, 8))
    kit.ok(status == 0 and lines[0].startswith(
        "run/table: found, nothing to load" if again else
        "run/table: made in "), "a table is found by the next start" if again
        else "a table is made once", lines)
    kit.equal((lines[1], [x.endswith(" a second, all right")
                          for x in lines[2:]]),
              ("31775 rows of 264 bytes, 2 readers", [True] * 2),
              "its readers get the rows that they ask for")
lines, status = end(start("table.py", "run/there"))
kit.equal((status, len(lines)), (1, 1), "another tensor is no table")
kit.ok("tarn rm run/there" in lines[0], "the sentence says what to do", lines)
lines, status = end(start("table.py", "run/large", 1, 1 << 29))
kit.ok(status == 1 and lines[0].startswith("table.py: ") and len(lines) == 1,
       "a table for which there is no memory is not made", lines)

daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
os.unlink("m.safetensors")
kit.finish()
