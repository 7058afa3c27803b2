#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What decode= returns is kept in the store: batches with a cache are those
without one, in any world and with any number of workers, and the second time
nothing is decoded, in another job either; the budget holds, and the oldest goes
first; another key, configuration or file never gets what was kept for this one."""
import itertools
import multiprocessing
import os
import random
import sys

import py_kit as kit

import tarn
from tarn import _data_workers, data

BATCH, N = 10, 60
UNTIL = 2 * N + 5  # two epochs, and the last batch is a smaller one
COUNT = "decoded"  # has a byte for each call
_data_workers.END = 120  # a worker that is slow is not killed


class Items:
    def __len__(self):
        return N

    def __getitem__(self, i):
        return {"i": i}


def tokens():
    draw = random.Random(1)
    ends = [0, *itertools.accumulate(draw.randrange(1, 40) for _ in range(90))]
    return data.Source.tokens(tarn.arange(ends[-1]), ends)


def make(kind, seed=3, **options):
    rows = tarn.arange(3 * N).reshape(N, 3)
    if kind == "python":
        return data.Dataset(Items(), seed=seed, **options)
    if kind == "rows":
        return data.Dataset(data.Source.rows(rows), seed=seed, **options)
    if kind == "records":
        return data.Dataset([data.Source.columns({"x": rows})] * 2, seed=seed,
                            **{"weights": [2, 1], **options})
    return data.Dataset(tokens(), 16, windows=kind, seed=seed, **options)


def first_number(sample):
    value = next(iter(sample.values()))
    while isinstance(value, tarn.Tensor):
        value = value[0]
    return int(value)


def mark():
    with open(COUNT, "ab", buffering=0) as f:
        f.write(b".")


def decoded():
    """Calls since the last time it was asked."""
    try:
        n = os.path.getsize(COUNT)
        os.remove(COUNT)
    except FileNotFoundError:
        return 0
    return n


def decode(sample):
    mark()
    x = first_number(sample)
    values = {name: part.tolist() if isinstance(part, tarn.Tensor) else part
              for name, part in sample.items()}
    return {"raw": repr(values), "image": tarn.arange(300).reshape(20, 15) + x,
            "half": tarn.tensor([x / 7], "BF16"), "none": None,
            "pair": (x, [x, "é"]), "set": {x}}


def augment(sample, seed):
    """What is random, and it writes to what it gets."""
    image = sample["image"]
    image[3, 4] = random.Random(seed).randrange(1000)
    return {**sample, "noise": random.Random(seed).random()}


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def joined(parts):
    """The batches of all ranks, lists of samples, as one."""
    return [sample for part in parts for sample in part]


def batches(dataset, rank=0, world=1, **options):
    options = {"until": UNTIL, "decode": decode, "transform": augment,
               "per": "sample", "collate": list, **options}
    with data.Loader(dataset, BATCH, rank=rank, world=world,
                     **options) as loader:
        return [plain(batch) for batch in loader]


def cache(name="cache", budget=64 << 20, key="1"):
    return data.Cache(name, budget, key)


# ---- the same batches ------------------------------------------------------


def equality():
    for kind in ("python", "records", "rows", "stream", "packed"):
        parts = {} if kind in ("python", "records", "rows") else {
            "positions": True, "document": True}
        wanted = batches(make(kind), **parts)
        distinct = UNTIL if kind == "packed" else None
        decoded()
        for world, workers in ((1, 0), (1, 1), (3, 0), (2, 2), (1, 3)):
            found = [batches(make(kind), r, world, cache=cache(kind),
                             workers=workers, **parts) for r in range(world)]
            kit.ok([joined(list(p)) for p in zip(*found, strict=True)] ==
                   wanted,
                   f"{kind}: {world} ranks of {workers} workers have with a "
                   "cache what one has without")
            n = decoded()
            if (world, workers) == (1, 0):
                first = n
            else:
                kit.equal(n, 0, "and decode nothing again")
        if kind != "packed":
            distinct = len({(s["source"], s["sample"]) for s in
                            map(make(kind).get, range(UNTIL))})
            kit.equal(batches(make(kind, seed=8), cache=cache(kind), **parts),
                      batches(make(kind, seed=8), **parts),
                      f"{kind}: in another order, too")
            decoded()
        else:
            first = len(range(distinct))
        kit.equal(first, distinct, f"{kind}: each sample was decoded once")
    wanted = batches(make("python"))
    decoded()
    found = batches(make("python"), workers=2, cache=cache("spawn"),
                    multiprocessing_context="spawn", until=40)
    kit.ok(found == wanted[:4], "workers that are no forks have the same")
    decoded()
    again = batches(make("python"), workers=2, cache=cache("spawn"), until=40)
    kit.ok(again == found and decoded() == 0,
           "and what they have kept is found")
    with data.Loader(make("python"), BATCH, rank=0, world=1, decode=decode,
                     transform=augment, per="sample", until=UNTIL, collate=list,
                     cache=cache()) as loader:
        head = [plain(next(loader)) for _ in range(4)]
        state = loader.state_dict()
    tail = [batches(make("python"), r, 2, state=state, cache=cache(),
                    workers=r) for r in range(2)]
    kit.ok(head +
           [joined(list(p)) for p in zip(*tail, strict=True)] ==
           wanted,
           "a job that is resumed on two ranks goes on with the same")
    decoded()
    options = {"collate": None, "cache": cache(), "until": 30}
    kit.equal(batches(make("python"), transform=sorted, per="batch", **options),
              [sorted(wanted[0][0].keys() - {"noise"})] * 3,
              "a transform of a batch gets what was decoded, collated")
    kit.equal([b["raw"] for b in batches(make("python"), transform=None,
                                         **options)],
              [[s["raw"] for s in batch] for batch in wanted[:3]],
              "and so does the loop without one")


def without():
    wanted = [[decode({"i": make("python")[g]["sample"]})["raw"]
               for g in range(k, k + BATCH)] for k in range(0, 40, BATCH)]
    for workers in (0, 2):
        kit.equal([[s["raw"] for s in b] for b in batches(
            make("python"), transform=None, workers=workers, until=40)], wanted,
            f"without a cache decode= decodes, too, with {workers} workers")
    decoded()


def nothing(sample):
    mark()
    return None


class Odd:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x


def odd(sample):
    mark()
    return Odd(sample["i"])


def lock(sample):
    return multiprocessing.Lock()


def objects():
    for function, wanted in ((nothing, [None] * BATCH), (odd, None)):
        for again in (False, True):
            batch = next(data.Loader(make("python"), BATCH, rank=0, world=1,
                                     decode=function, until=BATCH,
                                     cache=cache(function.__name__)))
            kit.equal(batch, wanted or [Odd(make("python")[g]["sample"])
                                        for g in range(BATCH)],
                      f"what {function.__name__} returns is kept")
        kit.equal(decoded(), BATCH, "which is called once for each")
    kit.raises(TypeError, "cannot be kept", "what cannot be packed is told",
               next, data.Loader(make("python"), BATCH, rank=0, world=1,
                                 decode=lock, cache=cache("lock")))


def ragged(sample):
    mark()
    i = sample["i"]
    return {"same": tarn.arange(5000) + i, "other": tarn.arange(3000 + i % 3),
            "list": [i, float(i)], "name": f"{i}", "nested": {"n": (i, None)}}


def collated():
    """Also what is not stacked may be written to, and stays what it is."""
    def run(workers=0, **options):
        seen = []
        with data.Loader(make("python"), BATCH, rank=0, world=1, until=UNTIL,
                         decode=ragged, workers=workers, **options) as loader:
            for batch in loader:
                seen.append((plain(batch), type(batch["other"])))
                batch["same"][:] = -1
                for one in batch["other"] if isinstance(batch["other"], list) \
                        else [batch["other"]]:
                    one[..., 0] = -1
        return seen
    wanted = run()
    decoded()
    for workers in (0, 0, 2):
        kit.ok(run(workers, cache=cache("ragged")) == wanted,
               f"arrays of other shapes, and the same ones, {workers} workers")
    kit.equal(decoded(), N, "are decoded once")


# ---- refused ---------------------------------------------------------------


def refused():
    for what, error, part, options in (
            ("a random transform", ValueError, "as decode=, and what is random",
             {"decode": None}),
            ("a transform without decode", ValueError, "as decode=",
             {"decode": None, "transform": len}),
            ("a cache alone", ValueError, "there is none",
             {"decode": None, "transform": None}),
            ("a decode that takes a seed", ValueError, "is to be transform=",
             {"decode": augment}),
            ("a decode that is none", TypeError, "cannot be called",
             {"decode": 3}),
            ("a name in place of a cache", TypeError, "tarn.data.Cache",
             {"cache": "cache"}),
            ("boundaries with decode", ValueError, "cu_seqlens",
             {"cu_seqlens": True}),
            ("a budget that the index takes", ValueError, "for 60 samples",
             {"cache": cache(budget=4096)})):
        kit.raises(error, part, f"{what}: {error.__name__}", data.Loader,
                   make("rows"), BATCH, **{
                       "decode": decode, "transform": augment, "per": "sample",
                       "cache": cache(), **options})
    for what, error, part, arguments in (
            ("no name", TypeError, "name", ("", 1 << 20, "1")),
            ("the name of all", TypeError, "name", ("/", 1 << 20, "1")),
            ("a number as a key", TypeError, "key", ("x", 1 << 20, 1)),
            ("no budget", ValueError, "budget", ("x", 0, "1"))):
        kit.raises(error, part, f"{what}: {error.__name__}", data.Cache,
                   *arguments)


# ---- budget and eviction ---------------------------------------------------


def large(sample):
    mark()
    return tarn.zeros((16 << 10,), "U8") + sample["i"]


def run_large(budget, until=N, name="large", **options):
    found = batches(make("python", shuffle=False), decode=large,
                    transform=None, until=until,
                    cache=cache(name, budget), **options)
    kit.ok(all(row == [i % N] * (16 << 10) for k, batch in enumerate(found)
               for i, row in enumerate(batch, k * BATCH)),
           f"a budget of {budget >> 10} KiB: batches are right")
    return decoded()


def budgets():
    for kib in (24, 100, 512, 2048):
        budget = kib << 10
        run_large(budget)
        used = cache("large", budget).info["bytes"]
        kit.ok(0 < used <= budget, "what is kept is within the budget",
               budget, used)
    kit.equal(run_large(2048 << 10), 0, "all of it is, if there is room")
    cache("large").clear()
    # Half of it: what was decoded last is there, what came first is not.
    run_large(512 << 10)
    names = tarn.default_store().names("large/")
    with data.Loader(make("python", shuffle=False), 1, rank=0, world=1,
                     decode=large, cache=cache("large", 512 << 10),
                     from_=N - 20) as loader:
        for _ in range(20):
            next(loader)
        kit.equal(decoded(), 0, "the newest samples are there")
        for _ in range(10):
            next(loader)
        kit.equal(decoded(), 10, "and the oldest are not")
    kit.ok(set(names) - set(tarn.default_store().names("large/")),
           "older ones have gone")
    # Another key has the same budget.
    for key in "23":
        batches(make("python", shuffle=False), decode=large, transform=None,
                until=N, cache=cache("large", 512 << 10, key))
    decoded()
    left = tarn.default_store().names("large/")
    kit.equal(len({name.split("/")[1] for name in left}), 1,
              "what is kept by another key goes, too, with its index")
    kit.ok(cache("large").info["bytes"] <= 512 << 10,
           "and the budget is of all of them")
    cache("large").clear()
    kit.equal((cache("large").info, tarn.default_store().names("large/")),
              ({"bytes": 0, "packs": 0}, []), "a cache can be cleared")
    others = ["large/x", "large/index", f"large/{'a' * 32}/x/1"]
    tarn.default_store().publish(
        {name: tarn.tensor([1]) for name in others})
    kit.equal(run_large(2048 << 10, workers=2), N, "and is filled again")
    kit.equal(run_large(2048 << 10), 0, "by workers, too")
    run_large(300 << 10)
    cache("large").clear()
    kit.equal(sorted(tarn.default_store().names("large/")), sorted(others),
              "names of others below it stay")
    # No sample of more than all of it.
    run_large(17 << 10, name="small")
    kit.equal(cache("small").info["packs"], 0,
              "a sample larger than the budget is not kept")
    cache("small").clear()


# ---- others ----------------------------------------------------------------


def mixing():
    def first(dataset, key="1", **options):
        next(data.Loader(dataset, 20, rank=0, world=1, decode=decode,
                         until=20, cache=cache("mix", key=key), **options))
        return decoded()
    cache("mix").clear()
    first(make("stream"))
    kit.equal(first(make("stream")), 0, "what was kept is found")
    kit.equal(first(make("stream", shuffle="blocks", block=4, seed=9)) < 20,
              True, "in another order as well, as far as it was kept")
    for what, dataset, options in (
            ("another key", make("stream"), {"key": "2"}),
            ("other windows", make("padded"), {}),
            ("positions in the sample", make("stream"), {"positions": True}),
            ("another dtype", make("stream", dtype="I32"), {}),
            ("packed windows", make("packed"), {}),
            ("another seed of packed windows", make("packed", seed=4), {}),
            ("rows", make("rows"), {}), ("items", make("python"), {})):
        kit.equal(first(dataset, **options), 20, f"{what}: nothing of it")
    with open("tokens", "wb") as f:
        f.write(bytes(range(256)) * 64)
    for what in ("a file", "a file that was written again"):
        os.utime("tokens", ns=(0, len(what)))
        kit.equal(first(data.Dataset("tokens", 16, source_dtype="U8",
                                     side_car=False)), 20,
                  f"{what}: nothing was kept of it")
    os.remove("tokens")
    cache("mix").clear()


def in_torch():
    try:
        from tarn.torch import Batches
    except ImportError:
        kit.skipped("a cache for PyTorch's loaders", "torch is not installed")
        return

    def run(**options):
        return [[plain(s["raw"]) for s in batch] for batch in Batches(
            make("python"), BATCH, rank=0, world=1, until=40, decode=decode,
            collate=list, **options)]
    wanted = run()
    decoded()
    kit.ok(run(cache=cache("torch")) == wanted == run(cache=cache("torch")) and
           decoded() == 40, "PyTorch's loaders have a cache, too")


def arrays(sample):
    import numpy
    import torch
    i = sample["i"]
    return {"numpy": numpy.full((130, 140), i, "f4"), "torch": torch.full(
        (9000,), i), "bf16": torch.full((9,), i, dtype=torch.bfloat16),
        "small": numpy.arange(4) * i}


def write(sample):
    for part in sample.values():
        part[0] += 1
    return sample


def others_arrays():
    try:
        import numpy  # noqa: F401
        import torch  # noqa: F401
    except ImportError as e:
        kit.skipped("arrays of numpy and PyTorch", f"{e.name} is not installed")
        return
    for transform in (None, write):
        wanted, *found = [batches(
            make("python"), decode=arrays, transform=transform, collate=None,
            until=N, cache=c) for c in (None, *[cache("arrays")] * 3)]
        kit.ok(found == [wanted] * 3, "arrays of numpy and PyTorch"
               f"{' are found, and may be written to' * (transform is write)}")
        found = batches(make("python"), decode=arrays, transform=transform,
                        until=N, cache=cache("arrays"), workers=2, collate=list)
        kit.ok(found == batches(make("python"), decode=arrays, until=N,
                                transform=transform), "by workers, too")


def main():
    os.chdir(os.environ["TMPDIR"])
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    equality()
    without()
    objects()
    collated()
    refused()
    budgets()
    mixing()
    in_torch()
    others_arrays()
    daemon.terminate()
    daemon.wait()
    decoded()
    return kit.finish()


if __name__ == "__main__":
    sys.exit(main())
