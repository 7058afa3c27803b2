# SPDX-License-Identifier: MIT
"""A replay buffer of torchrl over the store beside one in local memory, in turns:
fill, rows a second, of extends of 1,000 rows; and a sample of 256, microseconds;
medians. The same through tensordict alone: td[i:j] = rows, and td[index]. And a
sample while another process adds rows as fast as it can.

    replay.py ROWS ROUNDS

A row has an observation of 84 floats and the next one, an action of 6, a reward
and two flags.
"""
import logging
import os
import signal
import statistics
import sys
import time

try:
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
except ImportError as e:
    sys.exit(f"replay.py: {e.name} is not installed: no figures")
import tarn
import tarn.tensordict

logging.disable()
ROWS, ROUNDS = map(int, sys.argv[1:])
STEP, BATCH, SAMPLES = 1000, 256, 400
store = tarn.Store()


def data(n):
    return TensorDict({
        "observation": torch.randn(n, 84), "action": torch.randn(n, 6),
        "next": TensorDict({
            "observation": torch.randn(n, 84), "reward": torch.randn(n, 1),
            "done": torch.zeros(n, 1, dtype=torch.bool),
            "terminated": torch.zeros(n, 1, dtype=torch.bool)}, [n])}, [n])


def seconds(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def buffer(who):
    if who == "local":
        return TensorDictReplayBuffer(storage=LazyTensorStorage(ROWS),
                                      batch_size=BATCH)
    return TensorDictReplayBuffer(
        storage=tarn.tensordict.Storage(ROWS, "bench"),
        writer=tarn.tensordict.Writer(), batch_size=BATCH)


def table(who):
    if who == "local":
        return torch.zeros_like(chunk[:1].expand(ROWS))
    return tarn.tensordict.create("table", chunk[0], ROWS)


def fill_buffer(rb):
    for _ in range(ROWS // STEP):
        rb.extend(chunk)


def fill_table(td):
    for i in range(0, ROWS, STEP):
        td[i:i + STEP] = chunk


def sample_buffer(rb):
    for _ in range(SAMPLES):
        rb.sample()


def sample_table(td):
    for _ in range(SAMPLES):
        td[torch.randint(0, ROWS, (BATCH,))]


torch.set_num_threads(1)
chunk = data(STEP)
jobs = {"buffer": (buffer, fill_buffer, sample_buffer),
        "tensordict": (table, fill_table, sample_table)}
figures = {}
made = {(kind, who): jobs[kind][0](who) for kind in jobs
        for who in ("local", "tarn")}
for (kind, who), it in made.items():
    jobs[kind][1](it)  # takes the memory
for _ in range(ROUNDS):
    for (kind, who), it in made.items():
        fill, sample = jobs[kind][1:]
        figures.setdefault((kind, "fill", who), []).append(
            seconds(lambda: fill(it)) / ROWS * 1e9)
        figures.setdefault((kind, "sample", who), []).append(
            seconds(lambda: sample(it)) / SAMPLES * 1e6)
for kind in jobs:
    for what, unit in ("fill", "ns a row"), ("sample", "us for 256 rows"):
        local, ours = (statistics.median(figures[kind, what, who])
                       for who in ("local", "tarn"))
        print(f"{kind:10} {what:6}: tarn {ours:7.1f} {unit}, local "
              f"{local:7.1f} ({ours / local:.2f} x; wanted 2)")

rb = made["buffer", "tarn"]
pid = os.fork()
if not pid:
    while True:
        fill_buffer(rb)
before, begun = rb.write_count, time.perf_counter()
busy = statistics.median(seconds(lambda: sample_buffer(rb))
                         for _ in range(ROUNDS)) / SAMPLES * 1e6
rate = (rb.write_count - before) / (time.perf_counter() - begun)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
print(f"buffer     sample: tarn {busy:7.1f} us for 256 rows, beside a process "
      f"that adds {rate / 1e6:.2f} million a second")
store.publish({}, replace="bench/")
store.publish({}, replace="table/")
