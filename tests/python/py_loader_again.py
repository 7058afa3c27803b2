#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who leaves an epoch with batches in hand and begins another never waits for
ever: what the workers had made ahead, and nobody took, goes with them, however
many batches are kept and however often that happens."""
import gc
import time

import py_kit as kit
import py_loader_kit as loaders
from py_loader_kit import Noisy, Pair, same, torch

from tarn.torch import DataLoader


class Numbers(Noisy):
    """Samples that are known, and large enough for slots."""

    def __getitem__(self, i):
        return torch.full(self.shape, float(i))


def until_ahead(iterator):
    """Until the workers have made all that they were asked for."""
    wide = list(iterator._results._wide.values())
    wanted = iterator._tasks_outstanding
    end = time.monotonic() + 60
    while time.monotonic() < end:
        # What came out of turn is outstanding, but not in the channel.
        early = sum(len(info) == 2 for info in iterator._task_info.values())
        ready = sum(c.info()["ready"] for c in wide)
        if not wide or ready >= wanted - early:
            return
        time.sleep(.01)


def broken_off(loader, count):
    """The first batches of an epoch that is left while others wait."""
    iterator, kept = iter(loader), []
    for _ in range(count):
        kept.append(next(iterator))
    until_ahead(iterator)
    return kept


def wanted(count):
    return list(loaders.Theirs(Numbers(count, (64, 64)), 2))


def check_kept():
    """3 is as many as a user may have slots; all beyond them are copies."""
    want = wanted(24)
    for count in 1, 2, 3, 4, 5, 10:
        for workers in 1, 2:
            loader = DataLoader(Numbers(24, (64, 64)), 2, num_workers=workers)
            kept = broken_off(loader, count)
            again = list(loader)
            wrong = same(want[:count], kept) or same(want, again)
            kit.equal(wrong, None,
                      f"an epoch follows {count} kept batches of {workers} "
                      "workers")
            channel, = loader._idle._wide.values()
            del kept, again
            gc.collect()
            seen = channel.info()
            kit.equal((seen["free"], seen["ready"]), (seen["slots"], 0),
                      "all slots are free after that epoch")


def check_often():
    """Nothing is kept, or one of each; no epoch comes to its end."""
    want = wanted(24)
    loader = DataLoader(Numbers(24, (64, 64)), 2, num_workers=1)
    for _ in range(5):
        broken_off(loader, 1)
    kit.equal(same(want, list(loader)), None,
              "an epoch follows five that were left one after another")
    for _ in range(5):
        iterator = iter(loader)
        del iterator
    kit.equal(same(want, list(loader)), None,
              "an epoch follows five that gave no batch")
    kept = [broken_off(loader, 1)[0] for _ in range(8)]
    kit.equal(same(want[:1] * 8, kept), None,
              "one batch of each of eight iterators is kept")
    kit.equal(same(want, list(loader)), None,
              "a whole epoch follows eight kept batches")


def check_fresh():
    """Iterators that never got anything have no slots to hand on; the workers
    of the next must not fall in with what those of before leave behind."""
    want = wanted(24)
    loader = DataLoader(Numbers(24, (64, 64)), 2, num_workers=1)
    for _ in range(6):
        iterator = iter(loader)
        time.sleep(.2)
        del iterator
    kit.equal(same(want, list(loader)), None,
              "an epoch follows six that ended before their first batch")


class Halves:
    """A type of the user's that pins one half of it and keeps the other."""

    def __init__(self, x, rest):
        self.x, self.rest = x, rest

    def pin_memory(self):
        return Halves(self.x.pin_memory(), self.rest)


def mixed(samples):
    x = torch.stack(samples)
    return {"x": x, "rest": [(x + 1).numpy(), Pair((x + 2).numpy(), "text")]}


def arrays(samples):
    return torch.stack(samples).numpy()


def halves(samples):
    x = torch.stack(samples)
    return Halves(x, (x + 1).numpy())


def parts(batch):
    return [batch.x, batch.rest] if isinstance(batch, Halves) else batch


def check_pinned():
    """PyTorch's thread pins tensors; all else of a batch can be kept, too."""
    cuda = torch.cuda
    accelerator = getattr(torch, "accelerator", None)  # PyTorch 2.6 and later
    known = dict(vars(accelerator)) if accelerator else {}
    before = cuda.is_available, cuda.current_device, cuda.set_device, \
        torch.Tensor.pin_memory
    if not cuda.is_available():  # then as if there were a device
        cuda.is_available, cuda.current_device = lambda: True, lambda: 0
        cuda.set_device = lambda device: None
        if accelerator:
            accelerator.is_available, accelerator.current_device_index = \
                cuda.is_available, cuda.current_device
            accelerator.set_device_index = cuda.set_device
            accelerator.current_accelerator = \
                lambda check_available=False: torch.device("cuda")
        torch.Tensor.pin_memory = lambda tensor, device=None: tensor.clone()
    for function in mixed, arrays, halves:
        how = {"collate_fn": function, "num_workers": 1}
        dataset = Numbers(24, (64, 64))
        want = [parts(b) for b in loaders.Theirs(dataset, 2, **how)]
        loader = DataLoader(dataset, 2, pin_memory=True, **how)
        kept = list(loader)
        kit.equal(same(want, [parts(b) for b in kept]), None,
                  "all batches are kept, pinned as far as possible: "
                  f"{function.__name__}")
        kept.append(next(iter(loader)))
        kit.equal(same(want[:1], [parts(b) for b in kept[-1:]]), None,
                  "the last of the pinned batches is kept")
    cuda.is_available, cuda.current_device, cuda.set_device, \
        torch.Tensor.pin_memory = before
    if accelerator:
        vars(accelerator).update(known)


def main():
    loaders.begin()
    check_pinned()
    check_kept()
    check_often()
    check_fresh()
    loaders.finish()


if __name__ == "__main__":
    main()
