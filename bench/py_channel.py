# SPDX-License-Identifier: MIT
"""Hand-overs between two processes of Python, there and back, blocking; see
bench/py_channel.sh. One line for each round of each way: CASE WAY MICROSECONDS,
the median.

big:   16 MiB, which the other side reads one element of, answered by a number;
       written by one element ("hand-over") or whole ("filled")
dict:  114 arrays of 1 KiB, and back
"""
import multiprocessing
import sys
import time
from multiprocessing import shared_memory

import numpy as np

import tarn

try:
    import torch
    import torch.multiprocessing
except ImportError:
    torch = None
    print("torch is not installed: no reference", file=sys.stderr)

ROUNDS = 5
SHAPE = (1 << 22,)  # of F32: 16 MiB
SECONDS = 0.5  # of each round
ctx = multiprocessing.get_context("fork")


def median_of(trip):
    """Microseconds; at first a few that do not count."""
    for i in range(5):
        trip(i)
    times = []
    end = time.perf_counter() + SECONDS
    while not times or (time.perf_counter() < end and len(times) < 20000):
        begin = time.perf_counter_ns()
        trip(len(times))
        times.append(time.perf_counter_ns() - begin)
    return sorted(times)[len(times) // 2] / 1e3


# ---- 16 MiB ----

class Tarn:
    """A slot, filled in place."""
    name = "tarn"

    def __init__(self):
        store = tarn.default_store()
        self.there = store.channel("big", slots=2, slot_bytes=16 << 20)
        self.back = store.channel("back", slots=2, slot_bytes=4096)

    def answer(self):
        while True:
            with self.there.receive() as item:
                if len(item) == 0:
                    return
                x = item[0]
                i = x[0]
                del x
            slot = self.back.acquire()
            slot.tag = b"%d" % i
            slot.publish()

    def trip(self, i, whole):
        slot = self.there.acquire()
        x = slot.empty(SHAPE, "F32")
        if whole:
            np.asarray(x)[...] = i
        else:
            x[0] = i
        slot.publish()
        with self.back.receive() as item:
            assert int(item.tag) == i

    def end(self):
        self.there.acquire().publish()


class Queue:
    """torch.multiprocessing, which copies to /dev/shm what is not there."""
    name = "torch-copy"

    def __init__(self):
        tctx = torch.multiprocessing.get_context("fork")
        self.there, self.back = tctx.SimpleQueue(), tctx.SimpleQueue()

    def answer(self):
        while True:
            x = self.there.get()
            if x is None:
                return
            i = float(x[0])
            del x
            self.back.put(i)

    def tensor(self):
        return torch.empty(SHAPE)

    def trip(self, i, whole):
        x = self.tensor()
        if whole:
            x.fill_(i)
        else:
            x[0] = i
        self.there.put(x)
        assert self.back.get() == i

    def end(self):
        self.there.put(None)


class Shared(Queue):
    """The same with a tensor that is in shared memory already."""
    name = "torch-shared"

    def __init__(self):
        super().__init__()
        self.shared = torch.empty(SHAPE).share_memory_()

    def tensor(self):
        return self.shared


class Pool:
    """Segments that both have mapped, of which an index is sent."""
    name = "segments"

    def __init__(self):
        self.segments = [shared_memory.SharedMemory(create=True, size=16 << 20)
                         for _ in range(2)]
        self.arrays = [np.ndarray(SHAPE, "f4", s.buf) for s in self.segments]
        self.there, self.back = ctx.SimpleQueue(), ctx.SimpleQueue()
        self.turn = 0

    def answer(self):
        while True:
            k = self.there.get()
            if k is None:
                return
            self.back.put(float(self.arrays[k][0]))

    def trip(self, i, whole):
        self.turn ^= 1
        x = self.arrays[self.turn]
        if whole:
            x[...] = i
        else:
            x[0] = i
        self.there.put(self.turn)
        assert self.back.get() == i

    def end(self):
        self.there.put(None)
        self.arrays.clear()
        for s in self.segments:
            s.close()
            s.unlink()


# ---- many arrays ----

class Packed:
    """put and get; the other end returns what it got."""
    name = "tarn"

    def __init__(self):
        store = tarn.default_store()
        self.there = store.channel("there", slots=4)
        self.back = store.channel("here", slots=4)
        self.put, self.get = self.there.put, self.back.get

    def answer(self):
        while True:
            x = self.there.get()
            if x is None:
                return
            self.back.put(x)

    def trip(self, value, _):
        self.put(value)
        assert len(self.get()) == 114

    def end(self):
        self.there.put(None)


class Pickled(Packed):
    """multiprocessing's, which pickles into a pipe."""
    name = "pickle"

    def __init__(self):
        self.there, self.back = ctx.SimpleQueue(), ctx.SimpleQueue()
        self.put, self.get = self.there.put, self.back.get


def measure(case, ways, arguments):
    for way in ways:
        begun = way()
        child = ctx.Process(target=begun.answer, daemon=True)
        child.start()
        for name, argument in arguments:
            seen = median_of(lambda i: begun.trip(argument(i), name == "filled"))
            print(f"{case}{name and '-' + name} {begun.name} {seen:.2f}",
                  flush=True)
        begun.end()
        child.join()


def main():
    big = [Tarn] + ([Queue, Shared] if torch else []) + [Pool]
    arrays = {f"k{i}": np.ones((16, 16), "f4") for i in range(114)}
    for _ in range(ROUNDS):
        measure("big", big, [("hand-over", lambda i: i % 1000),
                             ("filled", lambda i: i % 1000)])
        measure("dict", [Packed, Pickled], [("", lambda i: arrays)])


main()
