# SPDX-License-Identifier: MIT
"""Loaders: the batches of a rank, from the library's stream, from Python's own
objects, or through worker processes."""
import contextlib
import inspect
import operator
import os
import sys
import weakref

from . import _store, _tarn
from ._data_cache import Cache, Shelf
from ._data_collate import collate as collate_samples, is_new
from ._data_workers import END, Pool
from ._dataset import Dataset, parts_of, sample_seed


def _distributed():
    """torch.distributed, where it is in use."""
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch
    return None


def _number(name):
    text = os.environ.get(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValueError(f"Loader: {name} in the environment is {text!r}, and "
                         "no number") from None


def _ranks():
    """This process's rank, how many there are, the node's first rank, and how
    many the node has (0: all), as torch.distributed or torchrun has them."""
    torch = _distributed()
    if torch is not None:
        rank, world = torch.get_rank(), torch.get_world_size()
    else:
        rank, world = _number("RANK"), _number("WORLD_SIZE")
        if rank is None or world is None:
            return 0, 1, 0, 0
    local, here = _number("LOCAL_RANK"), _number("LOCAL_WORLD_SIZE")
    group = _number("GROUP_RANK")
    if here is None:
        return rank, world, 0, 0
    if local is not None:
        return rank, world, rank - local, here
    return rank, world, 0 if group is None else group * here, here


def _takes_seed(function):
    """Has it a second argument that must be given?"""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and
               p.default is p.empty for p in parameters) >= 2


def _check_decode(decode, cache, transform):
    """Is it the same in each epoch, and is there something to keep?"""
    if decode is None and cache is not None:
        raise ValueError(
            "Loader: cache keeps what decode= returns; give what the transform "
            "does that is not random as decode=, and what is random, which is "
            "done anew in each epoch, as transform=" if transform is not None
            else "Loader: cache keeps what decode= returns, and there is none")
    if decode is None:
        return
    if not callable(decode):
        raise TypeError(f"Loader: decode is {decode!r}, which cannot be called")
    if _takes_seed(decode):
        raise ValueError(
            "Loader: decode takes a second argument, and gets the sample alone: "
            "it must return the same at each position; what is random, and "
            "takes a seed, is to be transform=, which gets what decode returned")
    if cache is not None and not isinstance(cache, Cache):
        raise TypeError(f"Loader: cache is {cache!r:.100}; a tarn.data.Cache is "
                        "wanted")


class Work:
    """What becomes of the samples of a rank's part: it is sent to workers."""

    def __init__(self, dataset, transform, per, collate, decode=None,
                 cache=None, store=None, parts=0):
        _check_decode(decode, cache, transform)
        self.dataset, self.transform, self.per = dataset, transform, per
        self.collate = collate_samples if collate is None else collate
        self.seeded = transform is not None and _takes_seed(transform)
        self.decode = decode
        self._shelf = None if cache is None else \
            Shelf(cache, store, dataset, parts)
        # Our collate copies what it stacks, which is found without a copy then.
        self._views = cache is not None and self.collate is collate_samples

    def __call__(self, first, n, batch):
        """The batch of the samples at positions first to first + n - 1; batch
        is what the library has read of them, or None."""
        if self.transform is None or self.per == "batch":
            if batch is None or self.decode is not None:
                batch = self._collated(first, n, batch)
            return self._transform(batch, [sample_seed(self.dataset.seed, g)
                                           for g in range(first, first + n)]
                                   if self.seeded else None)
        return self.collate([
            self._transform(sample, sample_seed(self.dataset.seed, first + i)
                            if self.seeded else None)
            for i, sample in enumerate(self._samples(first, n, batch))])

    def open(self):
        """What all processes that do it share is there after this."""
        if self._shelf is not None:
            self._shelf.open()

    def flush(self):
        """Makes what was decoded by this process found by others."""
        if self._shelf is not None:
            self._shelf.flush()

    def _collated(self, first, n, batch):
        if self._views:
            made = self.collate(self._samples(first, n, batch, view=True))
            if is_new(made):
                return made
            self._views = False  # they are hardly ever stacked
        return self.collate(self._samples(first, n, batch))

    def _samples(self, first, n, batch, view=False):
        samples = [self._sample(first, i, batch, view) for i in range(n)]
        if self._shelf is not None:
            self._shelf.settle()
        return samples

    def _sample(self, first, i, batch, view):
        if self._shelf is not None:
            return self._shelf.get(
                first + i, lambda: self.decode(self._raw(first, i, batch)),
                view)
        raw = self._raw(first, i, batch)
        return raw if self.decode is None else self.decode(raw)

    def _raw(self, first, i, batch):
        if batch is None:
            return self.dataset.get(first + i)[self.dataset._item]
        return {name: tensor[i] for name, tensor in batch.items()}

    def _transform(self, value, seed):
        if self.transform is None:
            return value
        return self.transform(value, seed) if self.seeded \
            else self.transform(value)


class Plan:
    """The positions of a rank: which come after position g."""

    def __init__(self, global_batch, rank, world, until):
        self.global_batch, self.rank, self.world = global_batch, rank, world
        self.until = until
        _tarn._data_rank_part(global_batch, rank, world)  # are they valid?

    def at(self, g):
        """The first of this rank's samples of the global batch at g, how many,
        and where the next batch begins. None: the end."""
        batch = self.global_batch
        if self.until is not None:
            if g >= self.until:
                return None
            batch = min(batch, self.until - g)
        first, n = _tarn._data_rank_part(batch, self.rank, self.world)
        return g + first, n, g + batch


def _count(name, value, least):
    try:  # numpy's numbers, too
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"Loader: {name} is {value!r}; a whole number from "
                         f"{least} up is wanted")
    return number


class Loader:
    """The batches of a rank, in the order of a Dataset, read ahead:

        loader = tarn.data.Loader(dataset, global_batch=512, shared="train")
        for batch in loader:
            step(batch["tokens"].torch())

    A batch is a dict of Tensors: tokens is [n, seq_len + 1], row [n, ...] where
    samples are rows; positions, segments, cu_seqlens and document are there on
    request, as in Dataset.batch. Of records and Python's sources it is what
    collate makes of them, tarn.data.collate unless another is given. Those that
    are kept have slots, and if there are many, copies. It goes on from epoch to
    epoch, until position `until`, if that is given.

    rank and world: of data parallelism. Ranks that need the same batch, as
    those of tensor parallelism, give the same. Without them they are
    torch.distributed's, if it is initialised, or those that torchrun sets; else
    there is one rank. Each rank takes its rank_part() of each global batch.

    shared: a name, the same in all processes of this job on this node. They
    have one stream: one of them reads, and all get views of its memory, without
    a copy; if it dies, another goes on. What a rank gets does not depend on it.
    node_rank, node_ranks: the ranks that the stream is for, the first and how
    many; without them, and without rank, the node's as torchrun says, else all.
    store: a tarn.Store, else default_store().

    ahead: batches that are read ahead. from_: the position it begins at, or
    state: what state_dict() returned, on any number of ranks. steps: how many
    batches one iteration has, for loops in epochs; the next iteration goes on.

    decode: a function of each sample (a dict; a Record, of whose fields those
    are read that it asks for; of Python's sources the item), which returns the
    same for it at any position. cache: a Cache, which keeps what it returns; what
    has been decoded once is found there, and neither read, of records and items,
    nor decoded.

    transform: a function of a batch, or with per="sample" of each sample, as
    decode has returned it, if there is one; the results are collated. If it must be given two
    arguments, the second one is a seed, sample_seed(dataset.seed, g) of the
    sample's position, or of a batch the list of those of its samples: what it
    draws from that is the same for any number of workers and ranks. workers:
    processes that transform, that read records, and that ask Python's sources
    for their items; 0: this one does. What they need is pickled unless they are
    forks: multiprocessing_context. A worker that is killed is replaced, and its
    batch computed again. slot_bytes: about how large their batches are, at
    least; larger ones take memory of their own.

    After an exception, be it a transform's, Ctrl-C or a signal handler's, the
    next call has the same batch: workers are ended, and reading ahead, and a
    stream is left, and all of it begins anew.

    It is an iterator, has state_dict() and load_state_dict() as PyTorch's
    StatefulDataLoader, Lightning and accelerate expect, and is closed by close()
    or the end of a with block. One thread at a time may iterate."""

    def __init__(self, dataset, global_batch, *, rank=None, world=None,
                 shared=None, store=None, node_rank=None, node_ranks=None,
                 ahead=4, from_=0, state=None, until=None, steps=None,
                 positions=False, segments=False, cu_seqlens=False,
                 document=False, decode=None, cache=None, transform=None,
                 per="batch", workers=0, collate=None,
                 multiprocessing_context=None, slot_bytes=None):
        if not isinstance(dataset, Dataset):
            raise TypeError(f"Loader: a tarn.data.Dataset is wanted, not a "
                            f"{type(dataset).__name__}")
        self.dataset, self._store = dataset, store
        self._shared, self._ahead = shared, _count("ahead", ahead, 1)
        self._parts = parts_of(positions, segments, cu_seqlens, document)
        self._workers = _count("workers", workers, 0)
        self._context, self._slot_bytes = multiprocessing_context, slot_bytes
        self._place(rank, world, node_rank, node_ranks, global_batch, until)
        self._check(decode, transform, per, cu_seqlens)
        self._work = Work(dataset, transform, per, collate, decode, cache,
                          store, self._parts)
        self._steps = None if steps is None else _count("steps", steps, 1)
        self._next, self._taken = _count("from_", from_, 0), 0
        self._batches = self._end = None
        if state is not None:
            self.load_state_dict(state)

    def _place(self, rank, world, node_rank, node_ranks, global_batch, until):
        if (rank is None) != (world is None):
            raise ValueError("Loader: rank and world are given both, or "
                             "neither")
        node = 0, 0
        if rank is None:
            rank, world, *node = _ranks()
        self._node = (node[0] if node_rank is None else node_rank,
                      node[1] if node_ranks is None else node_ranks)
        self.rank, self.world = rank, world
        self.global_batch = _count("global_batch", global_batch, 1)
        self._plan = Plan(self.global_batch, rank, world,
                          None if until is None else _count("until", until, 1))

    def _check(self, decode, transform, per, cu_seqlens):
        if per not in ("batch", "sample"):
            raise ValueError(f"Loader: per is {per!r}, and is batch or sample")
        if transform is not None and not callable(transform):
            raise TypeError(f"Loader: transform is {transform!r}, which cannot "
                            "be called")
        if cu_seqlens and (decode is not None or
                           transform is not None and per == "sample"):
            raise ValueError("Loader: cu_seqlens is a whole batch's; decode, "
                             "and a transform per sample, cannot get it")
        if self.dataset._item and self._shared is not None:
            raise ValueError("Loader: shared is for tokens and rows; records, "
                             "and items of Python's objects, come from workers")
        if self.dataset._item and self._parts:
            raise ValueError("Loader: records and items of Python have no "
                             "positions, segments, cu_seqlens and document")

    # ---- where it stands ----

    @property
    def position(self):
        """The position after the last global batch that was given: how many
        samples the job has had, on all ranks."""
        return self._next

    def state_dict(self):
        """What a checkpoint keeps: the position after the last batch that was
        given, and the configuration in words. It is the same on all ranks, of
        JSON's types, and valid for any number of ranks."""
        return {"data": self.dataset.state(self._next), "taken": self._taken}

    def load_state_dict(self, state):
        """The next batch is the one after the state's. ValueError: it is of
        another configuration, and the text lists what differs."""
        try:
            text, taken = state["data"], _count("taken", state["taken"], 0)
            if not isinstance(text, str):
                raise TypeError
        except (KeyError, TypeError):
            raise ValueError("Loader: a state is what state_dict() returned, "
                             f"not {state!r:.200}") from None
        self._next = self.dataset.resume(text)
        self._taken = taken
        self.close()

    # ---- batches ----

    def _open(self):
        """Workers first: forks of a process with as few threads as may be."""
        batches = _Batches(self._plan, self._work, self._next)
        self._end = weakref.finalize(self, batches.close)
        self._batches = batches
        self._work.open()
        if self._workers:
            batches.pool = Pool(self._store, self._context)
            batches.pool.open(self._work, self._workers, self._ahead,
                              self._read_bytes(), self._slot_bytes)
        if self.dataset._item is None:
            batches.inner = self._native()

    def _read_bytes(self):
        """About how large what the library reads for a step is."""
        if self.dataset._item:
            return 0
        info, n = self.dataset.info, -(-self.global_batch // self.world)
        # Positions, segments and boundaries have 4 bytes for a token each.
        parts = 4 * (self._parts & 7).bit_count() * info["sample_tokens"]
        return n * (info["sample_bytes"] + parts + 8)

    def _native(self):
        store, plan = self._store, self._plan
        if store is None and self._shared is not None:
            store = _store.default_store()
        return _tarn._Loader(
            self.dataset._data, store, self._shared, plan.global_batch,
            plan.rank, plan.world, *self._node, self._ahead, self._parts,
            self._next, plan.until or 0)

    def __iter__(self):
        return self

    def __next__(self):
        if self._steps is not None and self._taken >= self._steps:
            self._taken = 0
            raise StopIteration
        if self._plan.at(self._next) is None:
            self._taken = 0
            raise StopIteration
        try:
            if self._batches is None or self._batches.process != os.getpid():
                self._open()
            batch = self._batches.next(self._next)
            after = self._plan.at(self._next)[2]
        except BaseException:
            # What was on its way may be lost: the next call begins anew, with
            # this batch.
            self._break_off()
            raise
        self._next = after
        self._taken += 1
        return batch

    def __len__(self):
        if self._steps is None:
            raise TypeError("a Loader has a length where steps is given")
        return self._steps

    @property
    def info(self):
        """What the stream has done so far, a dict: engine, reads (this process
        reads for the stream, or itself), slots, shared and alone (batches from
        the stream, and read by this process for itself), dropped,
        batches_read, requests, file_bytes, memory_bytes. Empty before the first
        batch and after an exception, and of records and Python's sources."""
        return {} if self._batches is None else self._batches.info()

    def close(self):
        """Ends reading ahead and workers. Batches that were given stay; the
        next one begins anew."""
        end, self._end, self._batches = self._end, None, None
        if end is not None:
            end()

    def _break_off(self):
        """Closes, without waiting for what workers are making, or hiding the
        exception that is on its way."""
        end, batches = self._end, self._batches
        self._end = self._batches = None
        if end is not None and end.detach():
            with contextlib.suppress(Exception):
                batches.close(grace=0)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return (f"<tarn.data.Loader at {self._next}: rank {self.rank} of "
                f"{self.world}, batches of {self.global_batch}>")


class _Batches:
    """An open loader: what makes the batches from a position on."""

    def __init__(self, plan, work, g):
        self._plan, self._work = plan, work
        self.inner = self.pool = None
        self._asked = g  # what the workers have been asked for so far
        self._read = None  # what was read for that, and found no slot
        self._late = None  # or the error of its reading
        self.process = os.getpid()

    def info(self):
        return {} if self.inner is None else self.inner.info()

    def close(self, grace=END):
        """grace: seconds for workers to end by themselves."""
        if self.process != os.getpid():
            return
        try:
            if self.pool is not None:
                self.pool.close(grace)
        finally:  # also after another Ctrl-C
            if self.inner is not None:
                self.inner.close()
        self._work.flush()

    def _raw(self, g):
        """What the library has read for the step at g, which stays until it is
        asked for. None: records, and items of Python."""
        if self.inner is None:
            return None
        if self._read is None:
            first, n, batch = self.inner.next(None)
            if (first, n) != self._plan.at(g)[:2]:
                raise RuntimeError(f"the stream gave {n} samples from {first} "
                                   f"on for the step at {g}")
            self._read = batch
        return self._read

    def next(self, g):
        if self.pool is not None:
            return self._from_pool(g)
        first, n, _ = self._plan.at(g)
        batch = self._work(first, n, self._raw(g))
        self._read = None
        return batch

    def _from_pool(self, g):
        self._ask_ahead(g)
        while self._asked == g:
            if self._late is not None:
                try:
                    raise self._late
                finally:  # or it would keep this object
                    self._late = None
            self.pool.receive(or_slot=True)  # not even this one found a slot
            self._ask_ahead(g)
        return self.pool.take(g)

    def _ask_ahead(self, g):
        while self._late is None and self.pool.has_room():
            step = self._plan.at(self._asked)
            if step is None:
                break
            first, n, after = step
            try:
                batch = self._raw(self._asked)
            except Exception as error:
                self._late = error  # the batches before it come first
                break
            if not self.pool.ask(self._asked, first, n, batch):
                break
            self._read = None
            self._asked = after
