#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The progress of a load has two phases: the daemon takes memory, then it
reads. A bar that knew the second alone stood at 0 % for most of a daemon's first
load."""
import itertools
import json
import os
import signal
import subprocess
import time

import py_kit as kit
import tarn

MIB = 1 << 20
SIZE = 64 * MIB

os.chdir(os.environ["TMPDIR"])
daemon = subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", "sock",
                           "--segment-size", "4M"])
while not kit.answers("sock"):
    time.sleep(.01)
os.environ["TARN_SOCKET"] = os.path.abspath("sock")


def make(name):
    tarn.save(name, {"w": tarn.zeros(SIZE, "U8")})


def load(name):
    steps = []
    tarn.Store().load(name, progress=lambda *step: steps.append(step))
    return steps


def turns():
    """Numbers, for what may take several tries, for some minutes."""
    deadline = time.monotonic() + 300
    for turn in itertools.count():
        yield turn
        if time.monotonic() > deadline:
            return


# A process that is not run meanwhile gets the last step alone: then once more.
for turn in turns():
    make(f"a{turn}.safetensors")
    seen = load(f"a{turn}.safetensors")
    os.unlink(f"a{turn}.safetensors")
    memory = [s[:2] for s in seen if s[2] == "memory"]
    read = [s[:2] for s in seen if s[2] == "read"]
    if len(memory) > 2 and any(0 < done < total for done, total in memory):
        break
kit.ok(len(memory) > 2, "a load reports the memory that is taken", seen)
kit.equal(memory, sorted(memory), "the reported memory grows")
kit.ok(all(0 <= done <= total for done, total in memory),
       "the reported memory stays within its total", memory)
kit.ok(any(0 < done < total for done, total in memory),
       "memory is reported while it is being taken", memory)
kit.equal({total for _, total in memory} <= {SIZE, SIZE + 4096}, True,
          "the total of the memory is what the file takes")
kit.ok(all(total == SIZE for _, total in read),
       "the load then reports bytes that were read", read)
kit.equal([s[2] for s in seen], ["memory"] * len(memory) + ["read"] * len(read),
          "the two phases are reported one after the other")

# While the keeper stands still, tarn top shows the phase, too.
top = subprocess.Popen(
    [os.environ["TARN"], "top", "--json", "--interval", "0.1"], text=True,
    stdout=subprocess.PIPE)
top.stdout.readline()
found = []


def look(done, total, phase):
    """At a sign of growth stops it, until top has seen it; in vain if it had
    grown by the time that this process was run. top's first lines may be from
    before."""
    if phase != "memory" or found or not 0 < done < total:
        return
    os.kill(daemon.pid, signal.SIGSTOP)
    end = time.monotonic() + 5
    while not found and time.monotonic() < end:
        loads = json.loads(top.stdout.readline())["running_loads"]
        found.extend(a for a in loads
                     if a["state"] == "waiting" and a["memory_ready"])
    os.kill(daemon.pid, signal.SIGCONT)


for turn in turns():
    make(f"b{turn}.safetensors")
    tarn.Store().load(f"b{turn}.safetensors", progress=look)
    os.unlink(f"b{turn}.safetensors")
    if found:
        break
kit.equal([load["state"] for load in found], ["waiting"],
          "tarn top shows a load that waits for memory")
kit.ok(found and 0 < found[0]["memory_ready"] <= found[0]["memory_wanted"],
       "tarn top shows how much of the memory is ready", found)
top.terminate()
kit.equal(top.wait(), 0, "tarn top ends by SIGTERM as by Ctrl-C")

daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
kit.finish()
