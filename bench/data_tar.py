#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""data_tar.py TARN FOLDER: see data_tar.sh."""
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import time

try:
    import webdataset
except ImportError:
    webdataset = None

RECORDS, ROUNDS = 20000, 5
tarn, folder = sys.argv[1:]
path = os.path.join(folder, "shard.tar")


def write():
    rng = random.Random(1)
    with tarfile.open(path, "w") as tar:
        for i in range(RECORDS):
            for ending, n in (("jpg", rng.randint(20000, 40000)), ("cls", 2)):
                member = tarfile.TarInfo(f"{i:06d}.{ending}")
                member.size = n
                tar.addfile(member, io.BytesIO(os.urandom(n)))


def bench(*options):
    figures = json.loads(subprocess.check_output(
        [tarn, "data", "bench", "--seconds", "1", "--json", *options, path]))
    return figures["samples"] / figures["seconds"], figures["open_seconds"]


def with_webdataset():
    begun = time.perf_counter()
    n = sum(1 for _ in webdataset.WebDataset(path, shardshuffle=False))
    return n / (time.perf_counter() - begun)


def with_tarfile():
    begun = time.perf_counter()
    with tarfile.open(path) as tar:
        n = sum(len(tar.extractfile(member).read()) > 2 for member in tar)
    return n / (time.perf_counter() - begun)


def median(figures):
    return sorted(figures)[len(figures) // 2]


write()
seen = {"tarfile, in order": []}
if webdataset:
    seen["webdataset, in order"] = []
seen.update({"tarn, in order": [], "tarn, shuffled": []})
first, later = [], []
for _ in range(ROUNDS):
    if os.path.exists(path + ".tarn-index"):
        os.unlink(path + ".tarn-index")
    rate, seconds = bench("--shuffle", "none")
    seen["tarn, in order"].append(rate)
    first.append(seconds)
    rate, seconds = bench()
    seen["tarn, shuffled"].append(rate)
    later.append(seconds)
    seen["tarfile, in order"].append(with_tarfile())
    if webdataset:
        seen["webdataset, in order"].append(with_webdataset())
best = max(median(v) for k, v in seen.items() if not k.startswith("tarn"))
print(f"{'records/s':24} {'median':>10} {'of the best other':>18}")
for what, rates in seen.items():
    print(f"{what:24} {median(rates):10.0f} {median(rates) / best:18.2f}")
print(f"opened in {1e3 * median(first):.1f} ms without an index, in "
      f"{1e3 * median(later):.1f} ms with one")
