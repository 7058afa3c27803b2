#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A table that is loaded once, and looked up at random by many processes.

The first start makes the table and publishes it under its name. It stays in the
daemon's memory, so that any later start finds it there, at once. Each reader
asks for rows by their numbers, some thousand with each gather(), and checks
what it gets.
"""
import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy
import tarn

COLUMNS = 33  # of 8 bytes: rows of 264 bytes
BATCH = 4096  # rows of a look-up
SECONDS = 1


def default_mib():
    """An eighth of what is free, at most 16 GiB: others need memory, too."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    return min(max(free >> 23, 16), 16384)


def make(store, name, mib):
    """What a real one would read from a file, or compute."""
    begun = time.perf_counter()
    rows = (mib << 20) // (COLUMNS * 8)
    table = store.create((rows, COLUMNS), "I64")
    array = table.numpy()
    for at in range(0, rows, BATCH):
        part = array[at:at + BATCH]
        part[:] = numpy.arange(at * COLUMNS, (at + len(part)) * COLUMNS
                               ).reshape(part.shape)
    del array, part
    store.publish(name, table, exclusive=True)
    print(f"{name}: made in {time.perf_counter() - begun:.1f} s")


def find(store, name, mib):
    there = name in store
    if not there:
        try:
            make(store, name, mib)
        except FileExistsError:
            pass  # another process was quicker
    table = store[name]
    if table.dtype != "I64" or table.shape[1:] != (COLUMNS,) or not len(table):
        raise ValueError(f"{name} is no table of this program; give another "
                         f"name, or remove it: tarn rm {name}")
    if there:
        print(f"{name}: found, nothing to load")
    return table


def read(name, reader):
    """In a process of its own, which finds the table by its name."""
    table = tarn.Store()[name]
    random = numpy.random.default_rng(reader)
    picked = tarn.zeros((BATCH, COLUMNS), "I64")
    rows = picked.numpy()
    count = took = 0
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        numbers = random.integers(0, len(table), BATCH)
        begun = time.perf_counter()
        table.gather(numbers, out=picked)
        took += time.perf_counter() - begun
        count += BATCH
        if (rows[:, 0] != numbers * COLUMNS).any():
            raise ValueError(f"reader {reader}: a row is not the one it asked "
                             "for")
    return count / took


def whole(most):
    def count(text):
        if not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"it must be 1 to {most}")
        return int(text)
    return count


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME",
                        help="what the table is published under")
    parser.add_argument("readers", metavar="READERS", nargs="?", default=2,
                        type=whole(1000),
                        help="how many processes look rows up (2)")
    parser.add_argument("mib", metavar="MIB", nargs="?", type=whole(1 << 30),
                        default=default_mib(),
                        help="how large it is made (an eighth of the memory "
                             "that is free)")
    given = parser.parse_args()
    try:
        table = find(tarn.Store(), given.name, given.mib)
        print(f"{len(table)} rows of 264 bytes, {given.readers} readers",
              flush=True)
        with ProcessPoolExecutor(given.readers) as pool:
            speeds = list(pool.map(read, [given.name] * given.readers,
                                   range(given.readers)))
    except (MemoryError, OSError, ValueError) as e:
        parser.exit(1, f"table.py: {e}\n")
    for reader, speed in enumerate(speeds):
        print(f"reader {reader}: {speed / 1e6:.1f} million rows a second, "
              "all right")


if __name__ == "__main__":
    sys.exit(main())
