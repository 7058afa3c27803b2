#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cache of decoded samples, where things go wrong: several jobs fill it at
once, within its budget, and are killed at any moment; a process may only read; a
daemon ends below a job, and another comes; or it has less memory than the budget.
No batch is another one for it."""
import multiprocessing
import os
import random
import signal
import sys
import time

import py_kit as kit
from py_data_cache import (BATCH, N, UNTIL, augment, batches, cache, decode,
                           decoded, large, make, mark, plain)

import tarn
from tarn import _data_cache, data

SEED = int.from_bytes(os.urandom(4), "little")
DRAW = random.Random(SEED)
WANTED = {}  # batches, by seed


def fill(seed, budget=64 << 20, pipe=None):
    """A job, as a process."""
    if pipe is not None:
        pipe.recv()
    found = batches(make("python", seed=seed), cache=cache("shared", budget))
    os._exit(0 if found == WANTED[seed] else 1)


def at_once(budget):
    """How four jobs end that begin at the same moment."""
    pairs = [multiprocessing.Pipe() for _ in range(4)]
    jobs = [multiprocessing.Process(target=fill, args=(3 + i % 2, budget, there))
            for i, (_, there) in enumerate(pairs)]
    for job in jobs:
        job.start()
    for mine, _ in pairs:
        mine.send("go")
    for job in jobs:
        job.join()
    return [job.exitcode for job in jobs]


def killed(budget):
    """Jobs after each other, most of which are killed: how the others end, and
    how many were."""
    codes, n, whole = [], 0, .1
    for i in range(24):
        if i % 3 == 0:
            cache("shared").clear()
        job = multiprocessing.Process(target=fill, args=(3 + i % 2, budget))
        begun = time.monotonic()
        job.start()
        if i and DRAW.random() < .8:
            time.sleep(DRAW.random() * whole)
            job.kill()
        job.join()
        if job.exitcode == -signal.SIGKILL:
            n += 1
        else:
            codes.append(job.exitcode)
        if i == 0:
            whole = time.monotonic() - begun
    return codes, n


def processes():
    for seed in (3, 4):
        WANTED[seed] = batches(make("python", seed=seed))
    for budget in (64 << 20, 24 << 10):
        cache("shared").clear()
        kit.equal(at_once(budget), [0] * 4, "four jobs that fill it at once have "
                  f"the right batches, with {budget >> 10} KiB")
        used = cache("shared").info["bytes"]
        kit.ok(0 < used <= budget, "and keep to the budget", budget, used)
        decoded()
        kit.ok(batches(make("python", seed=4), cache=cache("shared", budget)) ==
               WANTED[4], "so has a fifth")
        n = decoded()
        kit.ok(n == 0 if budget > 1 << 20 else 0 < n < UNTIL,
               "which finds what there was room for", n)
        codes, n = killed(budget)
        kit.equal(codes, [0] * len(codes), f"{n} jobs are killed, and others "
                  f"after them have the right batches (seed {SEED})")
        kit.equal(batches(make("python"), cache=cache("shared", budget)),
                  WANTED[3], "as has one at the end")
        used = cache("shared").info["bytes"]
        kit.ok(0 < used <= budget, "and the budget is kept", budget, used)
    cache("shared").clear()
    batches(make("python"), cache=cache("shared"))
    decoded()
    batches(make("python"), cache=cache("shared"))
    kit.equal(decoded(), 0, "in the end nothing is left to decode")


def readers():
    """Of a pool of several users all but one cannot write the table."""
    of = _data_cache._Open.find_table

    def find_table(self):
        of(self)
        self.readonly = True
        self.words = self.store[self.name]
    batches(make("python"), cache=cache("read"), until=40)
    decoded()
    _data_cache._Open.find_table = find_table
    try:
        kit.ok(batches(make("python"), cache=cache("read")) == WANTED[3],
               "a process that may only read has the right batches")
    finally:
        _data_cache._Open.find_table = of
    first = decoded()
    batches(make("python"), cache=cache("read"))
    kit.ok(0 < first and decoded() > 0, "and finds some, and keeps none", first)


def too_large(sample):
    mark()
    return tarn.zeros((3 << 20,), "U8") + sample["i"]


def little_memory(at):
    """The daemon has less than the budget."""
    daemon = kit.start_daemon(at, "--budget", "64M")
    tarn._store._default = None
    decoded()
    store = tarn.default_store()
    store.publish("ballast", store.create((64 << 20,), "U8"))
    kit.ok(batches(make("python"), cache=cache("full", 64 << 20)) ==
           batches(make("python")), "samples are right where there is no room at "
           "all")
    store.remove("ballast")
    for name, function, n in (("large", large, 16 << 10),
                              ("larger", too_large, 3 << 20)):
        data.Cache(name, 1 << 30, "1").clear()
        for _ in range(2):
            with data.Loader(make("python"), BATCH, rank=0, world=1,
                             decode=function, collate=list, until=N,
                             cache=data.Cache(name, 1 << 30, "1")) as loader:
                kit.ok(all(sample.numel() == n and int(sample[-1]) == i
                           for k, batch in enumerate(loader)
                           for sample, i in zip(batch, numbers(k))),
                       f"{name} samples are right where memory is short")
        kit.ok(data.Cache(name, 1 << 30, "1").info["packs"] > 0,
               "and some of them are kept")
    return daemon


def numbers(k):
    dataset = make("python")
    return [dataset[g]["sample"] for g in range(k * BATCH, k * BATCH + BATCH)]


def daemons(daemon, at):
    """It ends below a job, and another comes."""
    wanted = batches(make("python"))
    decoded()
    with data.Loader(make("python"), BATCH, rank=0, world=1, decode=decode,
                     transform=augment, per="sample", until=UNTIL, collate=list,
                     cache=cache("gone")) as loader:
        found = [plain(next(loader)) for _ in range(3)]
        loader._work.flush()
        daemon.kill()
        daemon.wait()
        found += [plain(next(loader)) for _ in range(3)]
        loader._work.flush()
        found += [plain(next(loader)) for _ in range(3)]
        daemon = kit.start_daemon(at)
        time.sleep(1.1)
        found += [plain(batch) for batch in loader]
    kit.ok(found == wanted, "a daemon that ends, and comes again, changes no "
           "batch")
    decoded()
    tarn._store._default = None
    batches(make("python"), cache=cache("gone"), from_=9 * BATCH)
    kit.equal(decoded(), 0, "and what was decoded after that is kept")
    return daemon


def main():
    os.chdir(os.environ["TMPDIR"])
    os.environ["TARN_AUTOSTART"] = "0"
    at = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
    daemon = kit.start_daemon(at)
    processes()
    readers()
    daemon = daemons(daemon, at)
    daemon.terminate()
    daemon.wait()
    daemon = little_memory(at)
    daemon.terminate()
    daemon.wait()
    decoded()
    return kit.finish()


if __name__ == "__main__":
    sys.exit(main())
