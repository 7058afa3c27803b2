# SPDX-License-Identifier: MIT
"""A loader's state: all that is needed to continue in the middle of an epoch
with the same batches, bit for bit.

Two kinds of randomness make the batches. The sampler draws from the parent's
generators: it draws again from the state that they had when the epoch began,
and a checksum of the indices shows whether the result differs. The workers'
generators (torch, numpy and random, which PyTorch seeds in each worker) travel
with each batch, as they were when the batch was done.
"""
import array
import base64
import binascii
import random
import struct
import sys
import zlib

import torch
from torch.utils.data.dataloader import _DatasetKind

VERSION = 1
_HEAD = struct.Struct("<III")
_PYTHON = struct.Struct("<Bd")
_NUMPY = struct.Struct("<iid")


def _bytes_of(tensor):
    try:
        return tensor.numpy().tobytes()
    except RuntimeError:  # PyTorch without numpy
        return bytes(tensor.tolist())


def _python_state():
    version, words, gauss = random.getstate()
    return array.array("I", words).tobytes() + \
        _PYTHON.pack(gauss is not None, gauss or 0.)


def _numpy_state():
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return b""
    name, words, position, has_gauss, gauss = numpy.random.get_state()
    if name != "MT19937":
        return b""
    return words.tobytes() + _NUMPY.pack(position, has_gauss, gauss)


def get_random():
    """The state of this process's three generators, as bytes."""
    parts = _bytes_of(torch.get_rng_state()), _python_state(), _numpy_state()
    return _HEAD.pack(*map(len, parts)) + b"".join(parts)


def set_random(state):
    """Sets them; bytes that are no such state are ValueError. They may come
    from a file, and so they are no pickle."""
    try:
        sizes = _HEAD.unpack_from(state)
        if _HEAD.size + sum(sizes) != len(state):
            raise ValueError("its sizes do not add up")
        a, b = _HEAD.size + sizes[0], _HEAD.size + sizes[0] + sizes[1]
        words = array.array("I", state[a:b - _PYTHON.size])
        has_gauss, gauss = _PYTHON.unpack(state[b - _PYTHON.size:b])
        random.setstate((3, tuple(words), gauss if has_gauss else None))
        if b < len(state):
            import numpy

            rest = state[b:]
            key = numpy.frombuffer(rest[:-_NUMPY.size], numpy.uint32)
            numpy.random.set_state(
                ("MT19937", key, *_NUMPY.unpack(rest[-_NUMPY.size:])))
        torch.set_rng_state(torch.frombuffer(
            bytearray(state[_HEAD.size:a]), dtype=torch.uint8))
    except (struct.error, TypeError, ValueError, RuntimeError) as e:
        raise ValueError(f"a loader's state: {len(state)} bytes are no state "
                         f"of random generators: {e}") from None


# ---- as text -------------------------------------------------------------


def _text(state):
    return None if state is None else base64.b64encode(state).decode("ascii")


def _bytes(text):
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ValueError(f"a loader's state: {text!r:.60} is no state of "
                         "random generators") from None


def _walk(state, convert):
    """Bytes become text, so that the state can be saved as JSON."""
    start = state["start"]
    return dict(
        state, main=convert(state.get("main")),
        begun=[convert(s) for s in state["begun"]],
        now=[convert(s) for s in state["now"]],
        start=dict(start, process=convert(start.get("process")),
                   generators=[convert(s) for s
                               in start.get("generators", ())]))


def to_text(state):
    return _walk(state, _text)


def from_text(state):
    return _walk(state, _bytes)


def generators(loader):
    """The torch.Generators that the sampler draws from, in an order that is
    the same for the same loader."""
    given = [loader.generator, loader.batch_sampler, loader.sampler]
    found, seen, walk = [], set(), list(given)
    while walk:
        thing = walk.pop(0)
        if thing is None or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Generator):
            found.append(thing)
        elif isinstance(thing, torch.utils.data.Sampler) or \
                any(thing is one for one in given):
            attributes = getattr(thing, "__dict__", {})
            walk += [attributes[name] for name in sorted(attributes)]
    return found


def get_all(loader):
    """The generators' states that the next epoch's sampler will draw from."""
    return {"process": get_random(),
            "generators": [_bytes_of(g.get_state())
                           for g in generators(loader)]}


def set_generators(loader, state):
    known = generators(loader)
    if len(known) != len(state["generators"]):
        raise ValueError(
            f"a loader's state: it has {len(state['generators'])} generators, "
            f"the loader's samplers have {len(known)}")
    for generator, one in zip(known, state["generators"]):
        generator.set_state(torch.frombuffer(bytearray(one),
                                             dtype=torch.uint8))


def set_all(loader, state):
    set_generators(loader, state)
    set_random(state["process"])


def checksum(index, before):
    """Of the indices so far, and one more; those that are no integers are
    left out."""
    try:
        if isinstance(index, int):
            index = (index,)
        return zlib.crc32(array.array("q", index), before)
    except (TypeError, OverflowError):
        return before


def get_epoch(loader):
    """The epoch that the user set by the sampler's set_epoch, or None."""
    for sampler in (loader.sampler, loader.batch_sampler):
        if hasattr(sampler, "set_epoch"):
            epoch = getattr(sampler, "epoch", None)
            if isinstance(epoch, int):
                return epoch
    return None


def set_epoch(loader, epoch):
    for sampler in (loader.sampler, loader.batch_sampler):
        if epoch is not None and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


class Place:
    """Where an epoch stands. The loader has it as well as the iterator, so
    that it is known also after the user's loop was left."""

    def __init__(self, loader, start):
        self.iterable = loader._dataset_kind == _DatasetKind.Iterable
        self.workers = loader.num_workers
        self.base_seed = None
        self.skips, self.randoms = [0] * self.workers, [None] * self.workers
        self.behind, self.rewind = 0, None
        self.begin(loader, start, [None] * self.workers)
        self.fresh = True  # the iterator was made in this epoch

    def begin(self, loader, start, begun):
        """An epoch; begun is what the workers' generators are."""
        self.start, self.begun, self.fresh = start, begun, False
        self.epoch = get_epoch(loader)
        self.now = [None] * self.workers  # after the last batch of each
        self.given = [0] * self.workers
        self.position, self.ended = 0, False
        self.drawn, self.checksums = 0, [0]

    def draw(self, index):
        """The sampler gave an index, or a list of them."""
        if not self.iterable:
            self.drawn = checksum(index, self.drawn)
            self.checksums.append(self.drawn)

    def step(self, count=1):
        """So many were given to the user, or raised. Of what the sampler gave,
        only the sums of what the user has not got are needed."""
        self.position += count
        if not self.iterable:
            del self.checksums[:count]

    def get(self, loader):
        state = {"version": VERSION, "iterable": self.iterable,
                 "workers": self.workers, "base_seed": self.base_seed,
                 "main": None if self.workers else get_random()}
        if not self.ended:
            return dict(state, position=self.position, start=self.start,
                        fresh=self.fresh, epoch=self.epoch, begun=self.begun,
                        checksum=self.checksums[0], given=list(self.given),
                        now=list(self.now))
        kept = loader.persistent_workers and self.workers > 0
        begun = [now or begun for now, begun in zip(self.now, self.begun)]
        return dict(
            state, position=0, checksum=0, fresh=not kept, epoch=None,
            start={"process": None,
                   "generators": get_all(loader)["generators"]},
            base_seed=self.base_seed if kept else None,
            begun=begun if kept else [None] * self.workers,
            now=[None] * self.workers, given=[0] * self.workers)

    def resume(self, state):
        """Goes on from what get gave. begin has been called."""
        now, self.start = self.start, state["start"]
        self.rewind = dict(self.start)
        if self.rewind["process"] is None:  # between two epochs
            self.start = self.rewind = dict(self.start,
                                            process=now["process"])
        self.behind, self.wanted = state["position"], state["checksum"]
        self.fresh, self.epoch = state["fresh"], state["epoch"]
        if state["workers"] == self.workers:
            self.base_seed, self.begun = state["base_seed"], state["begun"]
            if self.iterable:
                self.skips, self.randoms = state["given"], self.begun
            else:
                self.given, self.now = list(state["given"]), list(state["now"])
                self.randoms = [now or begun for now, begun in
                                zip(self.now, self.begun)]
        elif state["base_seed"] is not None:
            # The same seed would augment as at the beginning of the epoch.
            self.base_seed = state["base_seed"] ^ (self.behind << 16)

    def catch_up(self, draw):
        """Lets the sampler give again what it gave before."""
        count, self.behind = self.behind, 0
        for i in range(count):
            try:
                draw()
            except StopIteration:
                raise ValueError(
                    f"a loader's state: {count} batches were taken, but the "
                    f"sampler ends after {i}") from None
        self.step(count)
        if self.checksums[0] != self.wanted:
            raise ValueError(
                f"a loader's state: the sampler's first {count} batches are "
                "not those of before: the dataset, the sampler or what it "
                "draws from is another")


def check(state, loader):
    """ValueError if it is none that state_dict gave, or of another loader."""
    version = state.get("version") if isinstance(state, dict) else state
    if version != VERSION:
        raise ValueError(f"a loader's state: version {version!r} is not "
                         f"{VERSION}")
    for name, kind in (("workers", int), ("position", int), ("given", list),
                       ("begun", list), ("now", list), ("start", dict),
                       ("checksum", int), ("fresh", bool), ("iterable", bool)):
        if not isinstance(state.get(name), kind):
            raise ValueError(f"a loader's state: {name} is "
                             f"{state.get(name)!r}")
    if state["iterable"] != (loader._dataset_kind == _DatasetKind.Iterable):
        raise ValueError("a loader's state: it is of another kind of dataset")
    if state["iterable"] and state["position"] and \
            state["workers"] != loader.num_workers:
        raise ValueError(
            f"a loader's state: {state['workers']} workers shared an iterable "
            f"dataset among them; {loader.num_workers} would share it "
            "otherwise")
