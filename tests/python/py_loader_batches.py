#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whatever a batch is made of, tarn.torch.DataLoader gives it as PyTorch's own
does, bit for bit. Batches may be written to and kept, all of them if need be,
and no descriptor is opened for them."""
import copy
import gc
import os
import threading
import time

import py_kit as kit
import py_loader_kit as loaders
from py_loader_kit import (Detection, Holder, Noisy, Pair, alike, detection,
                           made, np, same, torch)

from tarn.torch import DataLoader
from tarn.torch.results import Results


class Odd(dict):
    """A batch type that is nearly a dict."""


class Growing(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.arange(100. * (1 + i) ** 2)


def as_they_are(samples):
    return samples


def odd(samples):
    return Odd(first=samples[0]["x"], all=[s["n"] for s in samples])


def strided(samples):
    image = torch.stack([s["x"] for s in samples])
    return (image.to(memory_format=torch.channels_last), image[:, ::2, 1:],
            image.expand(2, *image.shape), image.permute(3, 2, 1, 0))


def kinds():
    """Each dtype that PyTorch has, and odd tensors."""
    names = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 "
             "float64 complex64 complex128 uint16 uint32 uint64 "
             "float8_e4m3fn float8_e5m2").split()
    x = torch.arange(4096) % 2
    return {name: x.to(getattr(torch, name)) for name in names
            if hasattr(torch, name)}


class Chunks(torch.utils.data.IterableDataset):
    """Collates by itself, and goes on using what it has, the first last."""

    def __iter__(self):
        chunk = torch.utils.data.default_collate(
            [torch.full((2000,), float(i)) for i in range(24)])
        for i in reversed(range(24)):
            yield chunk[i]


class Mixed:
    """A collate function that keeps its batch for the next one."""

    def __init__(self):
        self.last = None

    def __call__(self, samples):
        batch = torch.utils.data.default_collate(samples)
        mixed = batch if self.last is None else batch + self.last
        self.last = batch
        return mixed, batch


def check_kept_in_workers():
    """Slots are filled again; what a worker keeps must not lie in them."""
    numbers = Holder(*[torch.full((2000,), float(i)) for i in range(48)])
    for slot_bytes in (None, 1 << 20):
        # The slots must come back while the loader goes on.
        ours = [copy.deepcopy(b) for b in DataLoader(
            Chunks(), 2, num_workers=1, slot_bytes=slot_bytes)]
        theirs = list(loaders.Theirs(Chunks(), 2, num_workers=1))
        kit.equal(same(theirs, ours), None,
                  "batches that a dataset collates are PyTorch's")
        ours = [copy.deepcopy(b) for b in DataLoader(
            numbers, 2, num_workers=1, collate_fn=Mixed(),
            slot_bytes=slot_bytes)]
        theirs = list(loaders.Theirs(numbers, 2, num_workers=1,
                                     collate_fn=Mixed()))
        kit.equal(same(theirs, ours), None,
                  "batches that a collate function keeps are PyTorch's")


class Places:
    """A worker_init_fn that counts the tensors which got no place in a slot:
    they are stacked in a worker's own memory, and copied."""

    def __init__(self):
        self.given = torch.multiprocessing.Value("i", 0)
        self.missed = torch.multiprocessing.Value("i", 0)

    def __call__(self, worker):
        place = Results.place

        def count(results, *args):
            tensor = place(results, *args)
            with self.given.get_lock():
                (self.missed if tensor is None else self.given).value += 1
            return tensor
        Results.place = count


def check_places():
    for what, dataset, batch_size, how in (
            ("batches", Noisy(), 16, {}),
            ("nested ones", Holder(*[Pair([torch.rand(9, 999)] * 3, {
                "a": np.ones(5000), "b": "text"})] * 40), 4, {}),
            ("with slot_bytes", Noisy(), 16, {"slot_bytes": 1 << 20})):
        places = Places()
        list(DataLoader(dataset, batch_size, num_workers=2,
                        worker_init_fn=places, **how))
        kit.ok(places.missed.value == 0 and places.given.value > 0,
               f"{what} are collated in slots from the first on",
               f"{places.missed.value} of "
               f"{places.missed.value + places.given.value} are not")


def check_types():
    alike("detection batches", 2, Detection(), collate_fn=detection,
          shuffle=True)
    alike("a type of the user's", 1, Noisy(), collate_fn=made)
    alike("a dict's child", 1, Noisy(), collate_fn=odd)
    alike("samples as they are", 1, Noisy(), collate_fn=as_they_are)
    alike("odd strides", 1, Noisy(), collate_fn=strided)
    alike("dtypes", 1, Holder(kinds(), kinds(), kinds()), batch_size=2)
    alike("dtypes, not stacked", 1, Holder(kinds(), kinds()),
          batch_size=None)
    pair = Pair(torch.rand(2000), {"a": [b"bytes", "text", 3.5, True]})
    alike("nested", 1, Holder(pair, pair, pair), batch_size=2)
    alike("no elements", 1, Holder(*[(torch.zeros(0, 3), np.zeros((2, 0)),
                                      torch.tensor(4))] * 3), batch_size=2)
    alike("numpy", 1, Holder(*[{"a": np.arange(3000, dtype=d)} for d in
                               ("f4", "f4", "f4", "f4")]))
    # Not all versions of PyTorch's own loader can send these.
    samples = (torch.eye(3).to_sparse(), torch.nn.Parameter(torch.rand(3)),
               [None, 1j, 2 ** 70, {3}, Pair(torch.rand(2).t(), "x")])
    kit.equal(same(list(samples), list(DataLoader(
        Holder(*samples), batch_size=None, num_workers=1,
        collate_fn=as_they_are)), "samples"), None,
              "samples that only PyTorch can pack are PyTorch's")
    alike("batches that grow", 1, Growing(), batch_size=1, num_workers=3)
    alike("batches that grow, one by one", 1, Growing(), batch_size=None,
          persistent_workers=True)
    torch.manual_seed(1)
    seen = list(DataLoader(Noisy(), 4, num_workers=2, slot_bytes=1 << 20))
    torch.manual_seed(1)
    kit.equal(same(list(loaders.Theirs(Noisy(), 4, num_workers=2)), seen),
              None, "a loader with slot_bytes gives PyTorch's batches")


def check_memory():
    """Batches may be written to; the others do not see it."""
    wanted = list(loaders.Theirs(Growing(), 1, num_workers=2))
    kept, wrong = [], []
    for n, batch in enumerate(DataLoader(Growing(), 1, num_workers=2)):
        wrong += filter(None, [same(wanted[n], batch)])
        batch.add_(1)
        if n % 3 == 0:
            kept.append((n, batch))
    for n, batch in kept:
        wrong += filter(None, [same(wanted[n] + 1, batch)])
    kit.ok(not wrong,
           "batches are written to, and every third is kept", *wrong)
    del batch, kept
    gc.collect()

    # An epoch's end finds all slots of the workers taken by the user.
    loader = DataLoader(Noisy(), 2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        kept = [b["x"][0, 0, 0, 0].floor().item() for b in list(loader)]
    kit.equal(kept, [float(i) for i in range(0, 50, 2)],
              "all batches of three epochs kept by persistent workers")
    first = list(loader)
    second = list(loader)
    kit.equal([len(first), len(second)], [25, 25],
              "batches of two epochs are kept at once")
    del loader
    gc.collect()
    kit.equal([b["text"][1] for b in first][:2], ["sample 1", "sample 3"],
              "batches outlive their loader")


def descriptors(most=None):
    """How many there are; or when there are no more than so many, which the
    threads of PyTorch's queues may keep for a moment."""
    end = time.monotonic() + 60
    while True:
        seen = len(os.listdir("/proc/self/fd"))
        if most is None or seen <= most or time.monotonic() > end:
            return seen
        time.sleep(0.01)


def threads_but(known):
    """The threads beside known; PyTorch's queues do not wait for theirs."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        others = [t.name for t in threading.enumerate() if t not in known]
        if not others:
            break
        time.sleep(0.01)
    return others


def check_descriptors():
    known = threading.enumerate()
    loader = DataLoader(Detection(96), 4, collate_fn=detection, num_workers=2,
                        persistent_workers=True)
    iterator, kept, counts = iter(loader), [], []
    for n, batch in enumerate(iterator):
        kept.append(batch)
        if n >= 4:
            counts.append(descriptors())
    kit.equal((len(counts), max(counts) - min(counts), len(kept)), (20, 0, 24),
              "24 kept batches of 114 objects open no descriptor")
    for _ in range(3):
        kept = list(loader)
    kit.equal(descriptors(), counts[0],
              "kept batches of further epochs open no descriptor")
    del iterator, loader, kept, batch
    gc.collect()
    loader = DataLoader(Noisy(), 4, num_workers=2)
    list(loader)
    kit.equal(threads_but(known), [], "an iterator that ends leaves no thread")
    before = descriptors()
    for _ in range(4):
        list(loader)
    gc.collect()
    kit.ok(descriptors(before) <= before,
           "iterators that end leave no descriptor",
           f"{before}, then {descriptors()}")
    kit.equal(threads_but(known), [], "iterators that end leave no thread")
    for _ in range(3):
        for batch in loader:
            break
    del batch
    gc.collect()
    kit.ok(descriptors(before) <= before,
           "iterators that are left leave no thread",
           f"{before}, then {descriptors()}")


def main():
    loaders.begin()
    check_places()
    check_types()
    check_kept_in_workers()
    check_memory()
    check_descriptors()
    loaders.finish()


if __name__ == "__main__":
    main()
