#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One node of nodes.sh.

    nodes.py RANK NODES FILE ROUNDS

The first rank prints, for each way and round, the slowest node's time."""
import os
import sys
import time

import torch
import torch.distributed as dist

import tarn
from tarn.torch import load_file

rank, nodes, path, rounds = sys.argv[1:]
rank, nodes = int(rank), int(nodes)

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="tcp://10.99.0.1:29500",
                        rank=rank, world_size=nodes)
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


ways = [("alone", alone), ("together", together)]
for r in range(int(rounds)):
    for i, (what, way) in enumerate(ways):
        seconds = time_of(way, r * len(ways) + i)
        if rank == 0:
            print(what, seconds, flush=True)
dist.destroy_process_group()
