#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One load, many readers.

    readers.py FILE [N]

N processes open the same checkpoint at the same moment and read all of it. The
disk is read once, and the bytes are in memory once: what a process has of its
own stays small, whatever the size of the file.
"""
import multiprocessing
import sys
import time

import numpy  # now, so that it counts as nobody's
import tarn


def own_memory():
    """Bytes that this process shares with nobody, whether it wants or not."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as f:
        for line in f:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    return 0


def checksum(tensor):
    """Its bytes, added up where they lie."""
    return int(numpy.sum(tensor.numpy().reshape(-1).view("u1"), dtype="u8"))


def read(path, together, answers):
    together.wait()
    begun, before = time.perf_counter(), own_memory()
    model = tarn.load(path)
    opened = time.perf_counter() - begun
    total = sum(checksum(tensor) for tensor in model.values())
    answers.put((opened, own_memory() - before, total))


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: readers.py FILE [N]")
    path, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4
    store = tarn.Store()  # starts a daemon if none runs
    before = store.status()
    together, answers = multiprocessing.Barrier(n), multiprocessing.Queue()
    readers = [multiprocessing.Process(target=read,
                                       args=(path, together, answers))
               for _ in range(n)]
    for reader in readers:
        reader.start()
    sums = set()
    for _ in readers:
        opened, own, total = answers.get(timeout=600)
        sums.add(total)
        print(f"opened in {opened:.3f} s, {own / 1e6:.1f} MB of its own")
    for reader in readers:
        reader.join()
    after = store.status()
    reads = (after["loads"] - before["loads"]
             - after["loads_cached"] + before["loads_cached"])
    print(f"{n} readers, {len(sums)} sum, the file was read {reads} times")


if __name__ == "__main__":
    main()
