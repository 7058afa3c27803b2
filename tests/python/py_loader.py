#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.torch.DataLoader gives what PyTorch's own gives, bit for bit, whatever
the samplers, the kinds of datasets and of workers."""
import gc
import multiprocessing
import os

import py_kit as kit
import py_loader_kit as loaders
from py_loader_kit import Noisy, Stream, alike, np, torch

import tarn
from tarn.torch import DataLoader, adopt
from torch.utils.data import Sampler, WeightedRandomSampler


class Backwards(Sampler):
    """A sampler of the user's, with a generator of its own."""

    def __init__(self, dataset):
        self.count = len(dataset)
        self.generator = torch.Generator().manual_seed(3)

    def __len__(self):
        return self.count // 2

    def __iter__(self):
        for _ in range(len(self)):
            yield int(torch.randint(self.count, (), generator=self.generator))


class Halves(Sampler):
    """A batch sampler: batches of two sizes."""

    def __init__(self):
        pass

    def __len__(self):
        return 6

    def __iter__(self):
        for i in range(6):
            yield list(range(i, i + 2 + i % 3 * 4))


def weighted(dataset):
    return WeightedRandomSampler(torch.arange(1., len(dataset) + 1), 31)


def seeded(worker):
    np.random.seed(worker + 100)


def check_bits():
    noisy = Noisy()
    alike("in order", 1, noisy)
    alike("shuffled", 2, noisy, shuffle=True)
    alike("shuffled by a generator", 2, noisy, shuffle=True, seed=11)
    alike("one worker", 1, noisy, shuffle=True, num_workers=1)
    alike("three workers, prefetch_factor 4", 1, noisy, shuffle=True,
          num_workers=3, prefetch_factor=4)
    alike("no worker", 2, noisy, shuffle=True, num_workers=0)
    alike("drop_last", 1, noisy, drop_last=True, batch_size=7)
    alike("a weighted sampler", 2, noisy, make_sampler=weighted)
    alike("a sampler of the user's", 2, noisy, make_sampler=Backwards)
    alike("a batch sampler", 1, noisy, batch_size=1, batch_sampler=Halves())
    alike("no batches", 1, Noisy(9), batch_size=None)
    alike("an iterable dataset", 2, Stream())
    alike("an iterable dataset, one by one", 1, Stream(), batch_size=None)
    alike("an iterable dataset, drop_last", 1, Stream(), drop_last=True)
    alike("an iterable dataset and more workers than samples", 1, Stream(2),
          num_workers=3)
    alike("persistent workers", 3, noisy, shuffle=True,
          persistent_workers=True)
    alike("persistent workers of an iterable dataset", 3, Stream(),
          persistent_workers=True)
    alike("worker_init_fn", 1, noisy, worker_init_fn=seeded)
    alike("pin_memory", 1, noisy, pin_memory=True)
    alike("a timeout", 1, noisy, timeout=100)
    alike("spawn", 1, noisy, multiprocessing_context="spawn")
    # A worker that begins with nothing, not even torch, is what spawn makes.
    multiprocessing.set_forkserver_preload(["torch"])
    alike("forkserver", 1, noisy, multiprocessing_context="forkserver",
          shuffle=True)


class Stateful(loaders.Theirs):
    """What torchdata's loader is: PyTorch's, with an iterator of its own."""

    def _get_iterator(self):
        raise NotImplementedError


class Prepared:
    """What accelerate makes of a loader: one of PyTorch's, taken from it, is
    inside."""

    def __init__(self, loader):
        self.base_dataloader = loaders.Theirs(
            loader.dataset, batch_sampler=loader.batch_sampler,
            num_workers=loader.num_workers, generator=loader.generator)

    def __iter__(self):
        return iter(self.base_dataloader)


def adopted(*args, **how):
    return adopt(loaders.Theirs(*args, **how))


def prepared(*args, **how):
    wrapped = Prepared(DataLoader(*args, **how))
    kit.ok(adopt(wrapped, slot_bytes=1 << 16) is wrapped,
           "adopt returns the loader that it was given")
    return wrapped


def check_adopted():
    noisy = Noisy(16)
    for what, kind in (("adopted", adopted), ("prepared and adopted",
                                              prepared)):
        how = {"num_workers": 2, "shuffle": True}
        theirs = loaders.epochs(loaders.Theirs, 2, noisy, **how)
        wrong = loaders.same(theirs, loaders.epochs(kind, 2, noisy, **how))
        kit.ok(wrong is None, what, wrong)
    ours = adopted(noisy, 4, num_workers=1)
    batch = next(iter(ours))
    kit.ok(isinstance(ours, DataLoader) and not batch["x"].is_shared(),
           "an adopted loader's batches are not PyTorch's shared memory")
    state = ours.state_dict()
    ours.load_state_dict(state)
    kit.equal([int(b["i"][0]) for b in ours], [4, 8, 12],
              "the adopted loader resumes from its state")
    kit.ok(adopt(ours, slot_bytes=1 << 20) is ours and
           ours.slot_bytes == 1 << 20 and adopt(ours).slot_bytes == 1 << 20,
           "a loader of tarn's is adopted unchanged")
    kit.raises(TypeError, "DataLoader is wanted",
               "adopt refuses what is no loader", adopt,
               [1])
    theirs = Stateful(noisy, 4)
    kit.raises(TypeError, "Stateful makes its batches in its own way",
               "adopt refuses a derived class of another library",
               adopt, theirs)
    kit.equal(type(theirs), Stateful, "a refused loader keeps its class")


def check_store():
    """Also one that has no names; the user's own has none of its slots."""
    usual = os.environ["TARN_SOCKET"]
    other = kit.start_daemon(os.path.join(os.path.dirname(usual), "o.sock"))
    store = tarn.Store(os.environ["TARN_SOCKET"])
    os.environ["TARN_SOCKET"] = usual
    before = tarn.default_store().status()["used"], store.status()["used"]
    iterator = iter(DataLoader(Noisy(8), 4, num_workers=1, store=store))
    batch = next(iterator)
    kit.equal((tarn.default_store().status()["used"] > before[0],
               store.status()["used"] > before[1]), (False, True),
              "the slots are in the store that was asked for: "
              f"{batch['text'][0]}")
    del iterator, batch, store
    gc.collect()
    other.terminate()
    kit.equal(other.wait(), 0, "that store's daemon ends without error")


def main():
    loaders.begin()
    check_store()
    kit.ok(issubclass(DataLoader, loaders.Theirs),
           "tarn's loader is a PyTorch DataLoader")
    check_bits()
    check_adopted()
    loaders.finish()


if __name__ == "__main__":
    main()
