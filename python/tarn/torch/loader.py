# SPDX-License-Identifier: MIT
"""PyTorch's DataLoader whose workers deliver through shared memory.

PyTorch's own code decides which batches come, in which order and with which
bits: samplers, seeds, the worker's loop, prefetching, persistent workers,
timeouts, the watch over dead workers. Its iterator asks a multiprocessing
context for queues; the first is that of the results, and is replaced
(results.py). A batch arrives in a slot of a channel: without a file, a
descriptor or a pickle, in pages that have been touched before.
"""
import multiprocessing
import operator
import os
import threading
import typing
import weakref

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import dataloader as theirs

from .._store import Store, default_store
from . import devices, state as states
from .ahead import Ahead, Mover
from .collate import Collate
from .results import Batch, Results

# Slots beyond those that PyTorch may have asked for: the batch that the user's
# loop still holds, the one that it gets, and one more to look ahead.
SPARE = 3
# No machine has so much; larger numbers are no sizes.
SLOT_BYTES_MAX = 1 << 47


class _Context:
    """A multiprocessing context whose first queue is the results'."""

    def __init__(self, context, results):
        self._context, self._results = context, results

    def Queue(self, *args, **keywords):
        results, self._results = self._results, None
        if results is not None:
            return results
        return self._context.Queue(*args, **keywords)

    def __getattr__(self, name):
        return getattr(self._context, name)


class _Shown:
    """The loader as PyTorch's iterator sees it."""

    def __init__(self, loader, **instead):
        self.__dict__.update(instead)
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)


def _end_with_parent():
    """Ends a fork server's child with its real parent. PyTorch only looks at
    the fork server, which lives as long as its children. A batch that a worker
    leaves half made is reaped like that of a killed process."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid == os.getppid():
        return

    def follow():
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class _Begin:
    """A worker's worker_init_fn. It calls the user's after it has prepared the
    worker for this loader, and before it sets the random numbers."""

    def __init__(self, init, results, skips, randoms, send_random):
        self._init, self._results = init, results
        self._skips, self._randoms = skips, randoms
        self._send_random = send_random

    def __call__(self, worker):
        _end_with_parent()
        self._results.start(worker, self._skips[worker], self._send_random)
        if self._init is not None:
            self._init(worker)
        if self._randoms[worker] is not None:
            states.set_random(self._randoms[worker])


class _Single(theirs._SingleProcessDataLoaderIter):
    """PyTorch's own, which notes where it stands."""

    def __init__(self, loader, place):
        self._place = place
        super().__init__(loader)
        if place.rewind is not None and not place.fresh:
            states.set_all(loader, place.rewind)
        if place.iterable:
            _replay(self, place)
        elif place.behind:
            place.catch_up(self._next_index)
            self._num_yielded = place.position

    def _next_index(self):
        index = super()._next_index()
        self._place.draw(index)
        return index

    def _next_data(self):
        try:
            data = super()._next_data()
        except StopIteration:
            self._place.ended = True
            raise
        except Exception:
            self._place.step()
            raise
        self._place.step()
        return data


def _is_workers(error):
    """Was it raised for a worker? PyTorch's line that raises it has it in a
    variable, and is in its traceback: a cycle that keeps the callers'
    variables, batches among them, until the garbage is collected. That line
    can be dropped, since the worker's traceback is in the message. A sampler's
    error stays as it is."""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    return last.tb_frame.f_code is ExceptionWrapper.reraise.__code__


class _Many(theirs._MultiProcessingDataLoaderIter):
    _shutdown = True  # until PyTorch's own begins: there is nothing to end

    def __init__(self, loader, place):
        self._place, self._loader = place, weakref.ref(loader)
        self._open = None
        context = loader.multiprocessing_context or torch.multiprocessing
        workers = loader.num_workers
        before = vars(loader).pop("_idle", None)  # in one step: threads
        store = default_store() if loader.store is None else loader.store
        self._results = Results(
            store, context, workers * loader.prefetch_factor, SPARE, workers,
            loader.slot_bytes, before)
        self._open = self._results
        begin = _Begin(loader.worker_init_fn, self._results, place.skips,
                       place.randoms, not place.iterable)
        function = loader.collate_fn
        if function is theirs.default_collate:
            function = Collate(self._results)
        super().__init__(_Shown(
            loader, worker_init_fn=begin, collate_fn=function,
            multiprocessing_context=_Context(context, self._results)))
        if place.iterable:
            _replay(self, place)

    # The base of the workers' seeds: the state's, where one is resumed.
    @property
    def _base_seed(self):
        return self._place.base_seed

    @_base_seed.setter
    def _base_seed(self, seed):
        if self._place.base_seed is None:
            self._place.base_seed = int(seed)

    def _reset(self, loader, first_iter=False):
        place = self._place
        if not first_iter:
            place.begin(loader, states.get_all(loader), None)
        elif place.rewind is not None and not place.fresh:
            states.set_all(loader, place.rewind)
        super()._reset(loader, first_iter)
        if not first_iter:
            place.begun = [self._results.resumed.get(w)
                           for w in range(self._num_workers)]

    def _next_index(self):
        index = super()._next_index()
        self._place.draw(index)
        return index

    def _try_put_index(self):
        place = self._place
        if place.behind and not place.iterable:
            # The next worker is the one whose turn it was.
            for _ in range(place.behind % self._num_workers):
                next(self._worker_queue_idx_cycle)
            place.catch_up(self._next_index)
            self._num_yielded = place.position
        super()._try_put_index()

    def _next_data(self):
        try:
            return super()._next_data()
        except StopIteration:
            place = self._place
            if place.iterable:
                place.now = [self._results.stopped.get(w)
                             for w in range(self._num_workers)]
            place.ended = True
            raise

    def _process_data(self, data, *worker):
        place = self._place
        place.step()
        if isinstance(data, Batch):
            place.given[data.worker] += 1
            place.now[data.worker] = data.random
            # A slot that goes back must be back before its task is another's.
            data = data.given(SPARE, (info[1] for info
                                      in self._task_info.values()
                                      if len(info) == 2))
        elif hasattr(data, "tarn_worker"):  # it is not the pinning thread's
            place.now[data.tarn_worker] = data.tarn_random
        try:
            return super()._process_data(data, *worker)
        except Exception as e:
            if _is_workers(e):
                raise e.with_traceback(None)
            raise

    def _shutdown_workers(self):
        try:
            super()._shutdown_workers()
        finally:
            # PyTorch's signal handler raises an error for a dead worker at any
            # line of this process, and so also before it reaches these.
            if getattr(self, "_worker_pids_set", False):
                self._worker_pids_set = False
                theirs._utils.signal_handling._remove_worker_pids(id(self))
        if getattr(self, "_shutdown", False) and self._open is not None:
            results, self._open = self._open, None
            results.finish(getattr(self, "_workers", ()))
            loader = self._loader()
            if loader is not None:
                loader._idle = results


def _replay(iterator, place):
    """An iterable dataset is walked again, by the same workers from the same
    seeds; they send no batch that was given before."""
    count, place.behind = place.behind, 0
    for i in range(count):
        try:
            next(iterator)
        except StopIteration:
            raise ValueError(
                f"a loader's state: {count} batches were taken, but the "
                f"dataset ends after {i}") from None
        except Exception:
            pass  # it was raised before


def _device_of(device):
    """A torch.device with an index, or None: batches stay on the CPU."""
    if device is None:
        return None
    device = devices.checked(device, "DataLoader")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"DataLoader: device is {device}; batches go to "
                         "\"cuda\", or stay in \"cpu\"")
    return device if device.type == "cuda" else None


PIN_MEMORY = 7  # its place among DataLoader's arguments


def _check(store, slot_bytes):
    """Checks the arguments that PyTorch's loader does not know, before there
    are workers."""
    if not (store is None or isinstance(store, Store)):
        raise TypeError(f"DataLoader: store is a tarn.Store, not {store!r}")
    if slot_bytes is None:
        return
    try:
        size = operator.index(slot_bytes)
    except TypeError:
        raise TypeError("DataLoader: slot_bytes is a whole number, not "
                        f"{slot_bytes!r}") from None
    if not 1 <= size <= SLOT_BYTES_MAX:
        raise ValueError(f"DataLoader: slot_bytes is {size}, not between 1 "
                         f"and {SLOT_BYTES_MAX}")


_Item = typing.TypeVar("_Item", covariant=True)


class DataLoader(theirs.DataLoader[_Item]):
    """torch.utils.data.DataLoader whose workers hand their batches over in
    shared memory: the same arguments, the same batches in the same order.

    store is the tarn.Store whose daemon keeps the slots (default: this user's
    own), slot_bytes how large they are at least; if it is not given, they are
    as large as the first batch, and grow with larger ones.

    A batch may be written to. Its slot is used again when the last tensor over
    it is gone; a loop that keeps many batches gets copies of those beyond the
    first few. There are prefetch_factor slots for each worker and three more;
    they stay with the loader, for its next epoch.

    state_dict returns the position in an epoch. A loader made with the same
    arguments that gets it by load_state_dict continues with the batches that
    would have come, bit for bit, even if workers augment with torch's, numpy's
    or random's global generators. With another num_workers the samples are the
    same and their augmentation is not, and an iterable dataset raises
    ValueError. The state of a dataset's object in a worker is not kept.

    device="cuda:0" gives batches on that GPU. With workers the next one is on
    its way, in a stream of the loader's own, while the user has a batch; work
    in the stream that is current when a batch is given comes after its copy.
    pin_memory is then True unless it is given, since copies from other memory
    wait. RuntimeError: PyTorch has no CUDA."""

    device = _held = None  # also of a loader that was adopted

    def __init__(self, *args, store=None, slot_bytes=None, device=None,
                 **keywords):
        _check(store, slot_bytes)
        self.device = _device_of(device)
        if self.device is not None and len(args) <= PIN_MEMORY:
            keywords.setdefault("pin_memory", True)
        self.store, self.slot_bytes = store, slot_bytes
        self._place = self._resumed = None
        super().__init__(*args, **keywords)

    def __getstate__(self):
        """The state of a copy, or for another process: without the slots,
        which belong to one loader."""
        return {name: value for name, value in vars(self).items()
                if name != "_idle"}

    def __iter__(self):
        self._held = None
        iterator = super().__iter__()
        if self.device is None:
            return iterator
        # Without workers to look ahead would draw from the process's random
        # numbers too early, and gain nothing.
        return Ahead(iterator, Mover(self.device), self.num_workers > 0,
                     self._hold)

    def _hold(self, hold):
        """A batch is asked for ahead: until the user gets it, the loader's
        state is that of now. Without hold it is the iterator's again."""
        self._held = self._place.get(self) if hold else None

    def _get_iterator(self):
        if self.num_workers > 0:
            self.check_worker_number_rationality()
        start = states.get_all(self)
        place, resumed = states.Place(self, start), self._resumed
        kind = _Many if self.num_workers > 0 else _Single
        self._resumed = None
        if resumed is None:
            iterator = kind(self, place)
        else:
            iterator = self._go_on(kind, place, start, resumed)
        self._place = place
        return iterator

    def _go_on(self, kind, place, start, resumed):
        """The process's generators belong to the user's program, which has
        restored them as needed; the sampler's draws must not advance them."""
        inside = resumed["start"]["process"] is not None
        place.resume(resumed)
        if place.fresh:
            states.set_all(self, place.rewind)
        iterator = kind(self, place)
        if inside:
            mine = None if self.num_workers else resumed.get("main")
            states.set_random(mine or start["process"])
        return iterator

    def state_dict(self):
        """The position after the last batch that was given, to be saved with a
        checkpoint: it has only JSON's types, for json.dumps or torch.save.

        A state taken between two epochs does not fix the order of the next one
        if that is drawn from PyTorch's global generator, as shuffle=True
        without a generator does: restore that generator too
        (torch.set_rng_state), or give the loader one, whose state is included.
        """
        if not getattr(self, "in_order", True):
            raise ValueError("a loader's state: with in_order=False there is "
                             "no order to go on with")
        if self._resumed is not None:
            return states.to_text(self._resumed)
        if self._held is not None:
            return states.to_text(self._held)
        place = self._place
        if place is None:
            place = states.Place(self, states.get_all(self))
            place.ended = True
        return states.to_text(place.get(self))

    def load_state_dict(self, state):
        """The next iterator continues from that position."""
        states.check(state, self)
        state = states.from_text(state)
        if state["start"].get("process") is not None:
            states.set_epoch(self, state["epoch"])
        self._resumed, self._place, self._iterator = state, None, None
        self._held = None


def _check_adopted(loader):
    """Only PyTorch's own class can be adopted: the methods of a derived one,
    such as torchdata's StatefulDataLoader, would be lost."""
    kind = type(loader)
    if kind is theirs.DataLoader:
        return
    if isinstance(loader, theirs.DataLoader):
        raise TypeError(
            f"adopt: a {kind.__module__}.{kind.__qualname__} makes its batches "
            "in its own way, and only PyTorch's own DataLoader can become "
            "ours; make a tarn.torch.DataLoader instead, which has state_dict "
            "and load_state_dict too")
    raise TypeError("adopt: a torch.utils.data.DataLoader is wanted, not a "
                    f"{kind!r}")


def adopt(loader, *, store=None, slot_bytes=None, device=None):
    """Makes a loader of PyTorch's own class a DataLoader of tarn's, in place,
    and returns it; store, slot_bytes and device are DataLoader's (pin_memory
    stays what it is).

    This is for libraries that take a loader to pieces and make a new one of
    PyTorch's class, as Hugging Face's accelerate does:

        loader = tarn.torch.adopt(accelerator.prepare(loader))

    An object that wraps a loader, as its base_dataloader, is itself returned.
    TypeError: the loader's class is derived from PyTorch's, as torchdata's
    StatefulDataLoader is."""
    _check(store, slot_bytes)
    inner = getattr(loader, "base_dataloader", loader)
    if not isinstance(inner, DataLoader):
        _check_adopted(inner)
        inner.__class__ = DataLoader
        inner.store = inner.slot_bytes = None
        inner._place = inner._resumed = inner._iterator = None
    if store is not None:
        inner.store = store
    if slot_bytes is not None:
        inner.slot_bytes = slot_bytes
    if device is not None:
        inner.device = _device_of(device)
    return loader
