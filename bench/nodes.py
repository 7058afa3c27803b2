#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One node of nodes.sh.

    nodes.py RANK NODES FILE own|shared DISK LINK

DISK in MB/s, LINK in Mbit/s. The first rank prints, for each way, the median of
the rounds but the first one, the slowest node's time in each."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

import tarn
from tarn.torch import load_file

ROUNDS = 4
rank, nodes, path, disks, disk, link = sys.argv[1:]
rank, nodes = int(rank), int(nodes)
size = os.path.getsize(path)

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="tcp://10.99.0.1:29500",
                        rank=rank, world_size=nodes)
while not os.path.exists(os.environ["TARN_SOCKET"]):
    time.sleep(.05)
store = tarn.Store()


def forget(round_):
    """The file is another one for tarn, the same on all nodes, and cold."""
    os.utime(path, ns=(0, (1 << 60) + round_))
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    store.publish({}, replace="group/")


def alone():
    return load_file(path)


def together():
    return load_file(path, group=dist.group.WORLD, name="group", store=store)


def slowest(seconds):
    found = torch.tensor([seconds])
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def time_of(way, round_):
    forget(round_)
    dist.barrier()
    began = time.monotonic()
    tensors = way()
    took = time.monotonic() - began
    assert tensors
    del tensors
    return slowest(took)


def model(share):
    """The seconds of a way in which a node reads that share of the file."""
    at_once = nodes if disks == "shared" else 1
    read = size * share * at_once / (float(disk) * 1e6)
    sent = size * (nodes - 1) / nodes * 8 / (float(link) * 1e6)
    return max(read, sent) if share < 1 else read


ways = [("each reads all", alone, 1), ("together", together, 1 / nodes)]
seen = {what: [] for what, _, _ in ways}
for r in range(ROUNDS):
    for i, (what, way, _) in enumerate(ways):
        seen[what].append(time_of(way, r * len(ways) + i))
if rank == 0:
    found = {what: statistics.median(times[1:]) for what, times in seen.items()}
    for what, _, share in ways:
        print(f"{disks + ' disks' if disks == 'own' else 'a shared disk':14}"
              f"{what:16}{found[what]:7.2f} s  model {model(share):6.2f} s  "
              f"{found[what] / model(share):5.2f} of it", flush=True)
    print(f"{'':14}{'':16}{found['each reads all'] / found['together']:7.2f} "
          "times faster together", flush=True)
dist.destroy_process_group()
