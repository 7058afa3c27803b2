#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The store's memory, registered with NIXL segment by segment: another process
reads a tensor of it into memory that it publishes then."""
import atexit
import os
import subprocess
import sys
import time

import py_kit as kit

try:
    from nixl._api import nixl_agent
except ImportError:
    try:  # of a machine that has the toolkit of another CUDA
        from nixl_cu12._api import nixl_agent
    except ImportError as e:
        kit.skip_all(f"{e.name} is not installed (pip install nixl)")
import numpy as np
import tarn

SHAPE, PATIENCE = (1000, 700), 60
folder = os.environ["TMPDIR"]
news = os.path.join(folder, "news")


def tell(data):
    with open(news + ".new", "wb") as f:
        f.write(data)
    os.rename(news + ".new", news)


def be_the_other():
    """Gives what it has away, until its input ends."""
    store = tarn.Store(sys.argv[1])
    agent = nixl_agent("has")
    w = store["file/w"]
    agent.register_memory([(s["address"], s["size"], 0, "")
                           for s in store.segments()], "DRAM")
    tell(w.data_ptr().to_bytes(8, "little") + agent.get_agent_metadata())
    sys.stdin.read()


if len(sys.argv) > 1:
    be_the_other()
    sys.exit()

# It finds what this process has found.
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
path = os.path.join(folder, "w.npy")
np.save(path, np.arange(SHAPE[0] * SHAPE[1], dtype=np.int64).reshape(SHAPE))
daemons = [kit.start_daemon(os.path.join(folder, n)) for n in "ab"]
there, here = [tarn.Store(os.path.join(folder, n)) for n in "ab"]
there.load(path, "file")
w = there["file/w"]
kit.ok(any(s["address"] <= w.data_ptr() < s["address"] + s["size"]
           for s in there.segments()), "a loaded tensor lies in a segment")
kit.equal(here.segments(), [], "a store without tensors has none")
other = subprocess.Popen([sys.executable, __file__, there.socket],
                         stdin=subprocess.PIPE)
until = time.monotonic() + PATIENCE
while not os.path.exists(news) and time.monotonic() < until:
    time.sleep(0.01)
with open(news, "rb") as f:
    address, metadata = int.from_bytes(f.read(8), "little"), f.read()

agent = nixl_agent("wants")
got = here.create(SHAPE, "I64")
kept = agent.register_memory([(got.data_ptr(), got.nbytes, 0, "")], "DRAM")
peer = agent.add_remote_agent(metadata)
work = agent.initialize_xfer(
    "READ", agent.get_xfer_descs([(got.data_ptr(), got.nbytes, 0)], "DRAM"),
    agent.get_xfer_descs([(address, got.nbytes, 0)], "DRAM"), peer, b"")
state = agent.transfer(work)
while state == "PROC" and time.monotonic() < until:
    state = agent.check_xfer_state(work)
kit.equal(state, "DONE", "another process reads it from there")
agent.release_xfer_handle(work)
agent.remove_remote_agent(peer)
agent.deregister_memory(kept)
del work, kept, agent  # before the memory
here.publish("w", got)
kit.ok(np.array_equal(here["w"].numpy(), w.numpy()),
       "what it has read it publishes")
other.communicate()
for daemon in daemons:
    daemon.terminate()
    daemon.wait()
for name in (path, news):
    os.unlink(name)
# NIXL 1.5 crashes when a program ends that has read from another process,
# whatever the memory was.
atexit.register(lambda: (sys.stdout.flush(), os._exit(0)))
kit.finish()
