#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's lines of Python, and those of help(tarn), do what is said of
them."""
import glob
import os
import re
import struct
import subprocess
import sys
import time
from importlib.util import find_spec

import py_kit as kit

try:
    import numpy
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

os.chdir(os.environ["TMPDIR"])
readme = os.path.join(os.environ["top_srcdir"], "README.md")
with open(readme, encoding="utf-8") as f:
    opening, section = f.read().split("\n## In Python\n")
opening = re.findall(r"```python\n(.*?)```", opening, re.S)
section = section.split("\n## ")[0]
blocks = re.findall(r"```python\n(.*?)```", section, re.S)
lines = blocks[0]


def start(block):
    return subprocess.Popen([sys.executable, "-c", block], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def block_with(text):
    found = [b for b in blocks if text in b]
    kit.equal(len(found), 1, f"the README has one block with {text}")
    return found[0]


daemon = kit.start_daemon("sock")

tarn.save("m.safetensors", {"wte": tarn.arange(48, dtype="F32").reshape(8, 6)})
seen = subprocess.run([sys.executable, "-c", lines], capture_output=True,
                      text=True, check=False)
kit.equal((seen.returncode, seen.stderr), (0, ""),
          "the README's lines run without error")
kit.equal(seen.stdout.splitlines(),
          [str(numpy.arange(48.).reshape(8, 6)[:, ::2].sum()),
           "(2, 3) [1, 2]", "[[0.5 0.5 0.5]", " [0.5 0.5 0.5]]"],
          "the README's lines print the expected output")
kit.equal(tarn.open("out.safetensors")["x"].dtype, "BF16",
          "the README's lines save a file of BF16")

# help(tarn) begins with one page for a newcomer: the names come after it.
page, names = tarn.__doc__.split("The names beside numpy's")
kit.ok(len(page.splitlines()) <= 24, "the first page of help(tarn) fits a screen",
       len(page.splitlines()))
kit.ok("Where to go on: " in page and "t.shape" in names,
       "help(tarn) says where to go on before it lists names")
first = start(re.sub("(?m)^    ", "",
                     "".join(re.findall(r"(?m)^    .*\n|^\n", page))))
kit.equal((first.communicate(timeout=600), first.returncode),
          (("(8, 3) 552.0\n(8, 3)\n", ""), 0),
          "the first page's lines run")
kit.equal(next(iter(tarn.receiver("batches")))["epoch"], 1,
          "the first page's lines send an item")

# The README names every program of examples/, and no other.
folder = os.path.join(os.environ["top_srcdir"], "examples")
with open(readme, encoding="utf-8") as f:
    listed = f.read().split("\n## Examples\n")[1].split("\n## ")[0]
kit.equal(sorted(re.findall(r"`(\w+\.(?:c|py))`", listed)),
          sorted(n for n in os.listdir(folder) if n.endswith((".c", ".py"))),
          "the README lists the programs of examples/")

if find_spec("torch"):
    kit.equal(len(opening), 1, "the README's opening has one block of Python")
    first = start(opening[0])
    kit.equal((first.communicate(timeout=600), first.returncode),
              (("552.0\n[[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]\n", ""), 0),
              "the README's opening runs")
    if find_spec("torchrl"):
        replay = start(block_with("Writer()"))
        kit.equal((replay.communicate(timeout=600)[0], replay.returncode),
                  ("512 torch.Size([256, 8])\n", 0),
                  "the README's lines for torchrl run")
    else:
        kit.skipped("the README's lines for torchrl", "it is not installed")
    pytorch = start(block_with("load_file("))
    kit.equal((pytorch.communicate(timeout=600), pytorch.returncode),
              (("True 47.0\ntorch.Size([8, 2])\n", ""), 0),
              "the README's lines for PyTorch run")
    # On a machine of one core PyTorch warns of two workers.
    os.environ["PYTHONWARNINGS"] = "ignore:This DataLoader"
    loader = start(block_with("DataLoader("))
    kit.equal((loader.communicate(timeout=600), loader.returncode),
              (("44\n", ""), 0), "the README's lines for the loader run")
else:
    kit.skipped(
                "the README's lines for PyTorch",
                "torch is not installed (python3-torch)")

# The receiver waits for the sender, so the receiver may be the first.
receiver = start(block_with("tarn.receiver("))
sender = start(block_with("tarn.sender("))
kit.equal((sender.communicate(timeout=600), sender.returncode), (("", ""), 0),
          "the README's sender runs")
kit.equal((receiver.communicate(timeout=600), receiver.returncode),
          (("0.png 0.0\n1.png 1.0\n2.png 2.0\n", ""), 0),
          "the README's receiver runs")
exact = start(block_with("ch.acquire("))
kit.equal((exact.communicate(timeout=600), exact.returncode),
          (("b'epoch 1' 0.5\n", ""), 0), "the README's lines for slots run")

# Two corpora as Megatron lays them out, of documents of 1 to 40 tokens.
for name in "wiki_text_document", "code_text_document":
    lengths = numpy.arange(400, dtype="i4") % 40 + 1
    starts = 2 * (lengths.cumsum(dtype="i8") - lengths)
    numpy.zeros(lengths.sum(), "u2").tofile(name + ".bin")
    with open(name + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 400, 401) +
                lengths.tobytes() + starts.tobytes() +
                numpy.arange(401, dtype="i8").tobytes())
feeding = start(block_with("data.Loader("))
kit.equal((feeding.communicate(timeout=600), feeding.returncode),
          (("(8, 65) 8\n", ""), 0), "the README's lines that feed a job run")
for name in "wiki_text_document", "code_text_document":
    os.unlink(name + ".bin")
    os.unlink(name + ".idx")
for name in glob.glob("*.tarn-table.npy"):
    os.unlink(name)

try:
    import tarn.ops
except ImportError as e:
    kit.skipped("the README's lines that compute run", str(e))
else:
    computing = start(block_with("ops.softmax("))
    kit.equal((computing.communicate(timeout=600), computing.returncode),
              (("[[0.5, 0.5], [0.5, 0.5]] 4.0 False\n", ""), 0),
              "the README's lines that compute run")
    for name in "mlp/w1", "mlp/b1", "mlp/w2":
        tarn.Store().remove(name)

# What is left has been published; channels count as names, but are in no list.
store = tarn.Store()
until = time.monotonic() + 60
while store.status()["names"] > len(store) and time.monotonic() < until:
    time.sleep(.01)  # the daemon removes them when it sees the end of a user
kit.equal(store.status()["names"] - len(store), 0,
          "no block leaves a channel behind")
del store

daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
for name in ("m.safetensors", "out.safetensors"):
    os.unlink(name)
kit.finish()
