#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training run that is killed goes on with the batches that would have come:
examples/pretrain.py on two ranks by torchrun, killed with SIGKILL at a random
step and resumed with one rank and with two, has bit for bit the global batches
of a run that nobody disturbed."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import py_kit as kit

try:
    import numpy  # noqa: F401, the example wants it
    import torch
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed")
if not torch.distributed.is_available() or \
        not torch.distributed.is_gloo_available():
    kit.skip_all("this PyTorch has no gloo")

STEPS = 16
os.chdir(os.environ["TMPDIR"])
daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                       "d.sock"))
# Nothing but this machine is asked for.
os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
                  TORCHELASTIC_ERROR_FILE=os.devnull)


def start(folder, ranks):
    with open(f"{folder}.out", "ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--standalone",
             "--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks),
             os.path.join(os.environ["top_srcdir"], "examples/pretrain.py"),
             folder, "--steps", str(STEPS)], stdout=out, stderr=out)


def log(folder):
    """The whole lines of a log: a step, its position and its hash each."""
    try:
        with open(os.path.join(folder, "log"), encoding="ascii") as f:
            text = f.read()
    except FileNotFoundError:
        return []
    return [tuple(line.split()) for line in text.splitlines(True)
            if line.endswith("\n")]


def said(folder):
    with open(f"{folder}.out", encoding="utf-8", errors="replace") as f:
        return f.read()[-1500:]


def children(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children",
                      encoding="ascii") as f:
                found += map(int, f.read().split())
        except FileNotFoundError:
            pass
    return found


def kill_at(process, folder, step):
    """Kills the ranks, and torchrun before it can notice, when the log has that
    step."""
    while len(log(folder)) < step and process.poll() is None:
        time.sleep(.005)
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGSTOP)
    ranks = children(process.pid)
    for pid in ranks:
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()
    return len(ranks) == 2


seed = int.from_bytes(os.urandom(4), "little")
stop_at = random.Random(seed).randrange(5, STEPS - 2)  # a checkpoint is there
print(f"# seed {seed}: killed after step {stop_at}")
whole, killed = start("whole", 2), start("killed", 2)
kit.ok(kill_at(killed, "killed", stop_at), "the ranks are killed in the midst",
       said("killed"))
before = log("killed")
resumed = {}
for ranks in (1, 2):
    shutil.copytree("killed", f"resumed{ranks}")
    resumed[ranks] = start(f"resumed{ranks}", ranks)
status, wanted = whole.wait(), log("whole")
kit.ok(status == 0, "a run that nobody disturbs ends well", said("whole"))
kit.equal([int(s[0]) for s in wanted], list(range(1, STEPS + 1)),
          "it makes all steps")
kit.ok(len({s[2] for s in wanted}) == STEPS, "all batches differ", wanted)
for ranks, process in resumed.items():
    folder = f"resumed{ranks}"
    status, lines = process.wait(), log(folder)
    kit.ok(status == 0, f"{ranks}: the run goes on to its end", said(folder))
    kit.equal(lines[:len(before)], before, f"{ranks}: its log goes on")
    after = [int(line[0]) for line in lines[len(before):]]
    kit.ok(after and 1 < after[0] <= len(before) + 1 and
           after == list(range(after[0], STEPS + 1)),
           f"{ranks}: from its last checkpoint", after)
    kit.equal([line for line in lines if line != wanted[int(line[0]) - 1]], [],
              f"{ranks}: each step has the batch of the undisturbed run")
for folder in ("whole", "killed", "resumed1", "resumed2"):
    shutil.rmtree(folder)
    os.remove(f"{folder}.out")
daemon.terminate()
daemon.wait()
sys.exit(kit.finish())
