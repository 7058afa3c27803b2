#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""data_cache.py SOCKET: see data_cache.sh."""
import sys
import time

import tarn
from tarn import data

N, BATCH, ROUNDS = 1000, 50, 5
store = tarn.Store(sys.argv[1])
SIZES = {"8 KiB": (64, 128), "147 KiB": (224, 224, 3)}


class Items:
    def __len__(self):
        return N

    def __getitem__(self, i):
        return i


dataset = data.Dataset(Items(), seed=1)


def decoder(shape, seconds):
    image = tarn.zeros(shape, "U8")

    def decode(i):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return {"image": image, "label": i}
    return decode


def run(decode, cache, epoch=0, **options):
    """Microseconds for each sample of an epoch."""
    with data.Loader(dataset, BATCH, rank=0, world=1, store=store,
                     decode=decode, cache=cache, from_=epoch * N,
                     until=(epoch + 1) * N, **options) as loader:
        begun = time.perf_counter()
        for _ in loader:
            pass
    return (time.perf_counter() - begun) / N * 1e6


def median(figures):
    return sorted(figures)[len(figures) // 2]


def keep(i):
    """To be written to, by what is random: a copy of what was found."""
    return i


print(f"{'us for a sample':16} {'decoded':>9} {'and kept':>9} {'found':>9} "
      f"{'as a copy':>9} {'without':>9}")
for what, shape in SIZES.items():
    decode, cache = decoder(shape, 1e-3), data.Cache("bench", 1 << 30, what,
                                                     store=store)
    seen = [], [], [], [], []
    for _ in range(ROUNDS):
        cache.clear()
        seen[0].append(run(decode, None))
        seen[1].append(run(decode, cache))
        seen[2].append(run(decode, cache, 1))
        seen[3].append(run(decode, cache, 2, transform=keep, per="sample"))
        seen[4].append(run(decoder(shape, 0), None))
    print(f"{what:16} " + " ".join(f"{median(f):9.1f}" for f in seen))
