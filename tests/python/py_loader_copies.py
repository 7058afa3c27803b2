#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A loader that has been through an epoch keeps its slots for the next one. A
copy of it, or a fork of its process, is a loader of its own: with the same
slots under the same names each would get batches of the other."""
import copy
import os
import pickle
import threading

import py_kit as kit
import py_loader_kit as loaders
from py_loader_kit import Holder, torch

from tarn.torch import DataLoader

WANTED = [[float(i)] * 4 for i in range(0, 20)]


def used(**how):
    """A loader after an epoch, its slots kept."""
    loader = DataLoader(Holder(*[torch.full((1000,), i // 4 * 1.)
                                 for i in range(80)]), 4, num_workers=2, **how)
    list(loader)
    return loader


def numbers(batches):
    return [batch[:, 0].tolist() for batch in batches]


def in_turn(first, second):
    """All batches of two epochs that go on at the same time."""
    pairs = list(zip(first, second))
    return [numbers(batches) for batches in zip(*pairs)]


def check_copies():
    loader = used()
    for what, other in (("a copy", copy.copy(loader)),
                        ("a deep one", copy.deepcopy(loader)),
                        ("a pickle", pickle.loads(pickle.dumps(loader)))):
        kit.equal(in_turn(loader, other), [WANTED, WANTED],
                  f"{what} gets its own batches")


def check_threads():
    loader, seen = used(), []

    def walk():
        seen.append(numbers(list(loader)))

    threads = [threading.Thread(target=walk) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kit.equal(seen, [WANTED] * 3,
              "threads that share a loader get their own batches")


def child_of_fork(loader, begun, begin):
    try:
        iterator = iter(loader)
        os.write(begun, b"x")
        os.read(begin, 1)
        os._exit(numbers(iterator) != WANTED)
    finally:
        os._exit(2)


def check_fork():
    # Python's fork server, its default from 3.14 on, is none of such a child.
    loader = used(multiprocessing_context="fork")
    begun, begin = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        child_of_fork(loader, begun[1], begin[0])
    os.close(begun[1])  # if the child ends, so does what is read
    iterator = iter(loader)
    os.read(begun[0], 1)
    os.write(begin[1], b"x")
    seen = numbers(iterator)
    _, status = os.waitpid(child, 0)
    kit.equal((seen, status), (WANTED, 0),
              "a forked child of a loader gets its own batches")
    for end in (begun[0], *begin):
        os.close(end)


def main():
    loaders.begin()
    check_copies()
    check_threads()
    check_fork()
    loaders.finish()


if __name__ == "__main__":
    main()
