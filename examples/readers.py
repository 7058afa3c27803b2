#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One load, many readers.

N processes open the same checkpoint at the same moment and read all of it. The
disk is read once, and the bytes are in memory once: what a process has of its
own stays small, for a file of any size.
"""
import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy  # now, so that its memory counts for no reader
import tarn


def own_memory():
    """Bytes of memory that this process shares with no other."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as f:
        for line in f:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    return 0


def checksum(tensor):
    """Its bytes, added up where they lie."""
    return int(numpy.sum(tensor.reshape(-1).bitcast("U8").numpy(), dtype="u8"))


def begin(barrier):
    """In each process, before it reads."""
    global together
    together = barrier


def read(path):
    together.wait()
    begun, before = time.perf_counter(), own_memory()
    model = tarn.load(path)
    opened = time.perf_counter() - begun
    total = sum(checksum(tensor) for tensor in model.values())
    return opened, own_memory() - before, total


def count(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return int(text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="a tensor file")
    parser.add_argument("n", metavar="N", nargs="?", type=count, default=4,
                        help="how many processes read it (4)")
    path, n = vars(parser.parse_args()).values()
    try:
        tarn.open(path)  # here, before the processes wait for each other
    except (OSError, ValueError) as e:
        parser.exit(2, f"readers.py: {e}\n")
    store = tarn.Store()  # starts a daemon if none runs
    before = store.status()
    with ProcessPoolExecutor(n, initializer=begin, initargs=(
            multiprocessing.Barrier(n),)) as readers:
        answers = list(readers.map(read, [path] * n))
    for opened, own, _ in answers:
        print(f"opened in {opened:.3f} s, {own / 1e6:.1f} MB of its own")
    after = store.status()
    reads = (after["loads"] - before["loads"]
             - after["loads_cached"] + before["loads_cached"])
    sums = {total for _, _, total in answers}
    print(f"{n} readers, {len(sums)} sum, the file was read {reads} times")


if __name__ == "__main__":
    sys.exit(main())
