#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A loader goes on in the middle of an epoch: after load_state_dict the same
batches come, bit for bit, as would have come, in this epoch and the next ones,
whatever draws random numbers; and what cannot go on says why."""
import io
import json
import random

import py_kit as kit
import py_loader_kit as loaders
from py_loader_kit import Detection, Noisy, Stream, detection, np, same, torch

from tarn.torch import DataLoader
from torch.utils.data import (DistributedSampler, RandomSampler, Sampler,
                              WeightedRandomSampler)

EPOCHS = 2


class Dice(Sampler):
    """Draws from the process's generators, one after the other."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            yield (random.randrange(self.count) + np.random.randint(5)
                   + int(torch.randint(9, ()))) % self.count


class Lazy(Sampler):
    """Draws from a generator of its own when it is asked."""

    def __init__(self, count):
        self.count = count
        self.generator = torch.Generator().manual_seed(9)

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            yield int(torch.randint(self.count, (), generator=self.generator))


def seed(number):
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def plain(count, workers, **how):
    return DataLoader(Noisy(count), 4, num_workers=workers, **how)


MAKERS = {
    "shuffled": lambda w: plain(42, w, shuffle=True),
    "in order": lambda w: plain(42, w),
    "drop_last": lambda w: plain(42, w, shuffle=True, drop_last=True),
    "persistent": lambda w: plain(42, w, shuffle=True,
                                  persistent_workers=w > 0),
    "by a generator": lambda w: plain(
        42, w, shuffle=True, generator=torch.Generator().manual_seed(5)),
    "with replacement": lambda w: plain(42, w, sampler=RandomSampler(
        range(42), True, 40, torch.Generator().manual_seed(6))),
    "weighted": lambda w: plain(42, w, sampler=WeightedRandomSampler(
        torch.arange(1., 43.), 42)),
    "by a lazy sampler": lambda w: plain(42, w, sampler=Lazy(42)),
    "detection": lambda w: DataLoader(
        Detection(42), 4, shuffle=True, num_workers=w, collate_fn=detection),
    "iterable": lambda w: DataLoader(Stream(), 4, num_workers=w),
    "iterable, persistent": lambda w: DataLoader(
        Stream(), 4, num_workers=w, persistent_workers=w > 0),
    "one by one": lambda w: DataLoader(Noisy(11), None, num_workers=w),
}
EVERYWHERE = "shuffled", "persistent", "iterable", "iterable, persistent"


def saved(state):
    """As it comes back from a checkpoint, as JSON or by torch.save."""
    text = json.dumps(state)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    if json.loads(text) != torch.load(file):
        raise AssertionError(f"{text} is not what torch.load has")
    return json.loads(text)


def walk(loader, stop_at, stop_after):
    """All batches, and where the loader stood after so many of an epoch, with
    the process's own generators, which are the user's to keep."""
    seen, state, generators = [], None, None
    for epoch in range(EPOCHS):
        iterator, taken = iter(loader), 0
        while True:
            if (epoch, taken) == (stop_at, stop_after):
                state = saved(loader.state_dict())
                generators = (torch.get_rng_state(), np.random.get_state(),
                              random.getstate())
                seen = []
            try:
                seen.append(next(iterator))
            except StopIteration:
                break
            taken += 1
    return seen, state, generators


def resume(loader, state, generators, epochs):
    loader.load_state_dict(state)
    torch.set_rng_state(generators[0])
    np.random.set_state(generators[1])
    random.setstate(generators[2])
    return [batch for _ in range(epochs) for batch in loader]


def between_epochs(loader):
    list(loader)
    state = saved(loader.state_dict())
    generators = (torch.get_rng_state(), np.random.get_state(),
                  random.getstate())
    return list(loader), state, generators


def check_resume():
    for name, make in MAKERS.items():
        wrong = []
        stops = [(2, 1, 3)]
        if name in EVERYWHERE:
            stops += [(2, 0, 5), (2, 0, None), (0, 0, 3)]
        if name == "shuffled":
            stops += [(2, 0, 0), (2, 0, 1), (3, 1, 5), (0, 1, 0)]
        for workers, epoch, taken in stops:
            where = f"{workers} workers, epoch {epoch}, after {taken}"
            seed(1)
            if taken is None:
                wanted, state, generators = between_epochs(make(workers))
                epoch = EPOCHS - 1
            else:
                wanted, state, generators = walk(make(workers), epoch, taken)
            seed(2)
            seen = resume(make(workers), state, generators, EPOCHS - epoch)
            wrong += filter(None, [same(wanted, seen, where)])
        kit.ok(not wrong,
               f"{name}: the loader resumes with the same batches", *wrong)


def check_again():
    """A loader that was resumed is left and resumed again."""
    for name in ("shuffled", "persistent", "iterable"):
        seed(1)
        wanted, state, generators = walk(MAKERS[name](2), 1, 2)
        loader = MAKERS[name](2)
        loader.load_state_dict(state)
        kit.equal(same(state, loader.state_dict(), "state"), None,
                  f"{name}: the state before resuming is the same")
        iterator = iter(loader)
        seen = [next(iterator) for _ in range(3)]
        state = saved(loader.state_dict())
        del iterator
        seen += resume(MAKERS[name](2), state, generators, 1)
        kit.equal(same(wanted, seen), None,
                  f"{name}: a second resume gives the same batches")


def check_left():
    """The state is there when the loop was left, and does not disturb."""
    seed(1)
    loader = MAKERS["shuffled"](2)
    for n, _ in enumerate(loader):
        if n == 4:
            break
    state = saved(loader.state_dict())
    kit.equal(state["position"], 5, "the state after a break has its position")
    seed(1)
    wanted = list(MAKERS["shuffled"](2))
    seed(3)
    before = torch.get_rng_state()
    other = MAKERS["shuffled"](2)
    other.load_state_dict(state)
    iterator = iter(other)
    kit.ok(torch.equal(before, torch.get_rng_state()),
           "the process's generator is left as it was")
    kit.equal(same(wanted[5:], list(iterator)), None,
              "the iterator continues with the same batches")

    # A checkpoint restores generators that were drawn from meanwhile.
    seed(1)
    seen = []
    loader = MAKERS["by a lazy sampler"](2)
    for n, batch in enumerate(loader):
        torch.rand(3)
        seen.append(batch)
        if n == 3:
            state = saved(loader.state_dict())
    other = MAKERS["by a lazy sampler"](2)
    other.load_state_dict(state)
    kit.equal(same(seen[4:], list(other)), None,
              "a training loop that draws random numbers is resumed")


def numbers(batches):
    return [batch["i"].tolist() for batch in batches]


def check_workers():
    """With another number of workers the samples are the same."""
    seed(1)
    wanted, state, generators = walk(MAKERS["shuffled"](2), 0, 5)
    for workers in (0, 1, 3):
        seed(2)
        kit.equal(numbers(resume(MAKERS["shuffled"](workers), state,
                                 generators, 1)), numbers(wanted)[:6],
                  f"{workers} workers resume a state of 2")
    seed(1)
    first = list(MAKERS["shuffled"](3))
    seed(1)
    other = MAKERS["shuffled"](3)
    other.load_state_dict(state)
    seen = list(other)
    kit.ok(not torch.equal(first[0]["r"], seen[0]["r"]),
           "resumed workers do not augment as at the epoch's begin")
    seed(1)
    _, state, _ = walk(MAKERS["iterable"](2), 0, 3)
    kit.raises(ValueError, "2 workers shared",
               "an iterable dataset with other workers is refused",
               MAKERS["iterable"](1).load_state_dict, state)
    sampler = DistributedSampler(range(42), 2, 1)
    sampler.set_epoch(3)
    loader = plain(42, 2, sampler=sampler)
    iterator = iter(loader)
    next(iterator)
    state = saved(loader.state_dict())
    rest = numbers(iterator)
    other = plain(42, 2, sampler=DistributedSampler(range(42), 2, 1))
    other.load_state_dict(state)
    kit.equal((other.sampler.epoch, numbers(other)), (3, rest),
              "a distributed sampler gets its epoch")


def check_wrong():
    seed(1)
    _, state, _ = walk(MAKERS["in order"](2), 0, 5)
    other = plain(42, 2, shuffle=True)
    other.load_state_dict(state)
    kit.raises(ValueError, "not those of before",
               "a sampler with other indices is refused",
               iter, other)
    other = plain(12, 2)
    other.load_state_dict(state)
    kit.raises(ValueError, "ends after 3",
               "a dataset that has become shorter is refused", iter,
               other)
    load = plain(42, 2).load_state_dict
    kit.raises(ValueError, "version", "an empty state is refused", load, {})
    kit.raises(ValueError, "version",
               "a state of another version is refused", load,
               dict(state, version=2))
    kit.raises(ValueError, "position",
               "a state with a malformed position is refused", load,
               dict(state, position="1"))
    kit.raises(ValueError, "another kind",
               "a state of another kind of dataset is refused", load,
               dict(state, iterable=True))
    other = plain(42, 2, generator=torch.Generator())
    other.load_state_dict(state)
    kit.raises(ValueError, "generators",
               "a state of another sampler is refused", iter, other)
    for wrong in (b"xyz", "x", "\u00e9", 5):
        kit.raises(ValueError, "no state of random",
                   f"{wrong!r} is refused as bytes in text",
                   load, dict(state, now=[wrong, ""]))
    other = plain(42, 2)
    other.load_state_dict(dict(state, now=["eHl6", ""]))
    kit.raises(ValueError, "no state of random",
               "bytes that are no random state are refused", list,
               other)


def main():
    loaders.begin()
    check_resume()
    check_again()
    check_left()
    check_workers()
    check_wrong()
    loaders.finish()


if __name__ == "__main__":
    main()
