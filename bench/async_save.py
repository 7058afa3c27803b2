#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Saves in the background beside copies of the same state: for how long they stop
the one who calls, and when the file is there.

    async_save.py FOLDER MIB ROUNDS

The state is 64 tensors of PyTorch's. Medians of rounds in turns; the first call of
each kind is left out. fio writes and syncs as many bytes in between."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed.checkpoint as dcp

from tarn.torch import dcp as tarn_dcp
from tarn.torch import save_file

FOLDER, MIB, ROUNDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
N = (MIB << 20) // 4 // 64
STATE = {f"{i:02}": torch.rand(N) for i in range(64)}
PLACES = {n: torch.rand(N) for n in STATE}
FILE = os.path.join(FOLDER, "state.safetensors")


def copies():
    for n, t in STATE.items():
        PLACES[n].copy_(t)


def clones():
    return [t.clone() for t in STATE.values()]


def in_background():
    begin = time.monotonic()
    saving = save_file(STATE, FILE, background=True)
    stall = time.monotonic() - begin
    saving.wait()
    total = time.monotonic() - begin
    os.unlink(FILE)
    return stall, total


def checkpoint(writer):
    """torch.distributed.checkpoint, which copies the state itself."""
    begin = time.monotonic()
    found = dcp.async_save(STATE, storage_writer=writer())
    staged = getattr(found, "staging_completion", None)
    if staged is not None:
        staged.result()
    stall = time.monotonic() - begin
    getattr(found, "upload_completion", found).result()
    return stall, time.monotonic() - begin


def fio():
    seen = subprocess.run(
        ["fio", "--name=save", f"--filename={FILE}", "--rw=write",
         "--ioengine=io_uring", "--direct=1", "--bs=512k", "--iodepth=32",
         "--fallocate=native", "--end_fsync=1", f"--size={MIB}M",
         "--output-format=json"], capture_output=True, check=True)
    os.unlink(FILE)
    return json.loads(seen.stdout)["jobs"][0]["job_runtime"] / 1e3


def timed(call):
    begin = time.monotonic()
    call()
    return time.monotonic() - begin, None


def stored():
    return tarn_dcp.TarnWriter("state")


def filed():
    return dcp.FileSystemWriter(os.path.join(FOLDER, "dcp"))


KINDS = {
    "copy to memory that is there": lambda: timed(copies),
    "copy to new memory": lambda: timed(clones),
    "save_file, background=True": in_background,
    "async_save to the store": lambda: checkpoint(stored),
    "async_save to files": lambda: checkpoint(filed),
}
seen = {kind: [] for kind in KINDS}
written = []
for turn in range(ROUNDS + 1):
    for kind, call in KINDS.items():
        found = call()
        if turn:
            seen[kind].append(found)
    shutil.rmtree(os.path.join(FOLDER, "dcp"), ignore_errors=True)
    if turn and shutil.which("fio"):
        written.append(fio())
there = statistics.median(s[0] for s in seen["copy to memory that is there"])
reference = statistics.median(written) if written else None
print(f"{MIB} MiB in 64 tensors, one thread:\n"
      f"{'':32}{'stall, ms':>10} {'of a copy':>10} {'total, ms':>10} "
      f"{'of fio':>8}")
for kind, rounds in seen.items():
    stall = statistics.median(r[0] for r in rounds)
    line = f"{kind:32}{1e3 * stall:10.1f} {stall / there:10.2f}"
    if rounds[0][1] is not None:
        total = statistics.median(r[1] for r in rounds)
        line += f" {1e3 * total:10.1f}"
        if reference:
            line += f" {total / reference:8.2f}"
    print(line)
if reference:
    print(f"{'fio, write and sync':32}{'':10} {'':10} {1e3 * reference:10.1f}")
