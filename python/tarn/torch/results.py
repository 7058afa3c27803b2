# SPDX-License-Identifier: MIT
"""The queue that carries results from a loader's workers to its iterator. It
replaces a multiprocessing.Queue and has its calls: put, get, close and so on.

Batches go through a wide channel with slots as large as a batch, made by the
first worker that has one, or all of its samples. Beside it the iterator makes a
narrow channel: an item in it is either the number of a wide one, in which a
batch waits, or a message (an exception, the end of a dataset). So there is one
place to wait at, for all of them. If batches grow, the next wide channel has
larger slots; a worker changes to it with the first batch that needs it, and a
channel without participants is gone.

No process waits for a slot. PyTorch has at most so many batches asked for and
not yet given to the user (tasks: workers x prefetch_factor); each of them has
one slot at most, and a channel has `spare` more. Batches that the user keeps
beyond those are copied to private memory when they are given to the user (see
Batch.given), so that a user that keeps all batches blocks nothing.

Slots take their memory when they are first filled, so the first batch waits for
that of one.

All channels are ephemeral: they end with their last participant, and nothing
is left in the machine when the processes are killed.
"""
import copy
import errno
import multiprocessing
import os
import pickle
import queue
from uuid import uuid4

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data._utils.worker import (_IterableDatasetStopIteration,
                                            _ResumeIteration)

from .. import _tarn
from .._store import Store
from . import collate, pinned, state

NARROW = 64 << 10  # bytes of a message: a long traceback and more
TENSORS = 128  # large ones of a batch; others are packed together
NUMBERS = 1 << 16  # channels of an iterator: each is half as large again
PATIENCE = 5  # seconds between looks whether the parent is there
MESSAGES = (ExceptionWrapper, _IterableDatasetStopIteration, _ResumeIteration)


class Batch:
    """A batch on its way through PyTorch's iterator, with its worker's state.
    """

    __slots__ = "data", "worker", "random", "channel", "pin"

    def __init__(self, data, worker, random, channel):
        self.data, self.worker = data, worker
        self.random, self.channel = random, channel
        self.pin = None  # what has pinned it

    def pin_memory(self, device=None):
        """Called by PyTorch's thread; the copy is in private memory."""
        pin = torch.utils.data._utils.pin_memory.pin_memory
        self.pin = pin if device is None else lambda data: pin(data, device)
        self.data = pinned.take_out(self.pin(self.data))
        return self

    def has_slot(self, channel):
        """A pinned batch has none. (If a type of the user's kept some of it in
        the slot, that counts as the user's.)"""
        return self.channel is channel and self.pin is None

    def given(self, spare, others):
        """The data, which is now the user's. Some of the slots in use belong
        to the others, which wait for their turn; the user has the rest, and
        gets a copy if that is more than a user may hold."""
        data, channel = self.data, self.channel
        self.data = self.channel = None
        if channel is not None:
            reading = channel.info()["reading"]
            if reading > spare and reading - sum(
                    isinstance(o, Batch) and o.has_slot(channel)
                    for o in others) > spare:
                data = copy.deepcopy(data)
                return data if self.pin is None else self.pin(data)
        return data


class Results:
    """before: the results of an earlier iterator of the same loader. Its
    slots, whose pages exist already, are taken over."""

    def __init__(self, store, context, tasks, spare, workers, slot_bytes,
                 before=None):
        self._shape = store, tasks, spare, workers, slot_bytes
        self._name, self._serial, self._first = f"loader/{uuid4().hex}", 0, 1
        self._begin()
        self._pid = os.getpid()
        # A fork of this process has the same loader, but needs other names.
        if before is not None and before._wide and \
                before._shape == self._shape and before._pid == self._pid:
            self._name, self._serial = before._name, before._serial + 1
            self._wide, before._wide = before._wide, {}
            self._first = max(self._wide)
        self._store, self._where = store, (store.socket, store.pool)
        # One worker at a time makes a channel: otherwise all would, and the
        # kernel would clear the pages of all but one for nothing.
        self._lock = context.Lock()
        self._narrow = store.channel(
            self._narrow_name(), slots=tasks + workers + 2, mode="queue",
            slot_bytes=NARROW, ephemeral=True, join="consumer")

    def _narrow_name(self):
        return f"{self._name}/messages/{self._serial}"

    def _begin(self):
        self._wide = {}  # number -> channel
        self._used = {}  # worker -> number of the channel it used last
        # worker -> its generators as an epoch began, and as one ended
        self.resumed, self.stopped = {}, {}
        # The others are a worker's.
        self._worker = None  # its number
        self._slot = None  # what is being filled
        self._current = 0  # the number of its channel
        self._full = False  # larger slots are needed
        self._skip = 0  # batches that were given before
        self._send_random = False

    # The state that a worker which is no fork receives.
    def __getstate__(self):
        return (self._name, self._serial, self._first, self._shape[1:],
                self._where, self._lock)

    def __setstate__(self, state):
        (self._name, self._serial, self._first, shape, self._where,
         self._lock) = state
        self._store = Store(*self._where)
        self._shape = self._store, *shape
        self._begin()
        self._narrow = self._store.channel(self._narrow_name(), create=False)

    # ---- a worker's ----

    def start(self, worker, skip, send_random):
        """In a worker, before its first batch."""
        self._begin()
        self._worker, self._skip = worker, skip
        self._send_random = send_random
        collate.install()

    def is_first(self):
        """Is the size of its batches not known yet?"""
        return self._current == 0

    def expect(self, size):
        """A batch will have about that many bytes, so that even the first one
        is collated in a slot."""
        if size >= NARROW:
            self._fit(size + NARROW)

    def place(self, shape, dtype):
        """Memory in the slot for a tensor of the batch, or None."""
        if self._slot is None and not self._full:
            self._acquire()
        if self._slot is None or self._full:
            return None
        try:
            return self._slot.empty(shape, collate.DTYPES[dtype]).torch()
        except OSError as e:
            self._full = e.errno == errno.ENOSPC
            return None  # no room, or too many

    def put(self, message):
        index, data = message
        if index is None or isinstance(data, MESSAGES) or \
                isinstance(index, _ResumeIteration):
            self._abandon()
            self._send_message(index, data)
        elif self._skip > 0:
            self._skip -= 1
            self._abandon()
            self._send_message(index, None)
        else:
            try:
                self._send(index, data)
            except Exception:
                self._abandon()
                self._send_message(index, ExceptionWrapper(
                    where=f"in DataLoader worker process {self._worker}, "
                    "which could not send what it had made"))

    def _send_message(self, index, data):
        random = None if self._worker is None else state.get_random()
        self._publish(self._narrow, pickle.dumps((self._worker, index, data,
                                                  random)))

    def _publish(self, channel, message):
        slot = self._wait(channel)
        try:
            slot.put(message)
            slot.publish()
        except BaseException:
            slot.abandon()
            raise

    def _wait(self, channel):
        """A free slot. There is one, unless the parent has died."""
        while True:
            try:
                return channel.acquire(timeout=PATIENCE)
            except TimeoutError:
                parent = multiprocessing.parent_process()
                if parent is not None and not parent.is_alive():
                    raise SystemExit(1) from None

    def _acquire(self):
        """A slot of the newest channel, if there is one by now."""
        if self._current == 0 and not self._open(self._first, create=False):
            slot_bytes = self._shape[-1]
            if not slot_bytes:
                return
            self._fit(slot_bytes)
        self._slot = self._wait(self._wide[self._current])

    def _abandon(self):
        slot, self._slot = self._slot, None
        self._full = False
        if slot is not None:
            slot.abandon()

    def _open(self, number, **how):
        """Changes to a channel; False if it does not exist."""
        try:
            channel = self._store.channel(f"{self._name}/{number}",
                                          join="producer", **how)
        except _tarn.NotFoundError:
            return False
        self._wide[number] = channel
        self._current = number
        return True

    def _next(self):
        """The number after this channel's: one that no earlier iterator used.
        The earlier workers have ended, but their channels, with what they
        published, may not have ended yet."""
        return max(self._current, self._serial * NUMBERS) + 1

    def _fit(self, size):
        """Changes to a channel with slots of that size, which another worker
        may have made: an eighth more than is needed, since batches differ, and
        half as much again as the last one's, so that there are few."""
        _, tasks, spare, _, slot_bytes = self._shape
        while True:
            wanted = max(size + size // 8 + 4096, slot_bytes or 0)
            if self._current:
                have = self._wide[self._current].info()["slot_bytes"]
                if size <= have:
                    return
                wanted = max(wanted, have + have // 2)
            number = self._next() if self._current else self._first
            with self._lock:
                if not self._open(number, create=False):
                    self._open(number, slots=tasks + spare, mode="queue",
                               slot_bytes=wanted, tensors=TENSORS,
                               ephemeral=True, sparse=True)

    def _forget(self):
        """Leaves earlier channels, once the parent has received all of their
        items: until then it may not have joined, and a channel without any
        participant would end, with all of its items."""
        for number in [n for n in self._wide if n != self._current]:
            if self._wide[number].info()["ready"] == 0:
                del self._wide[number]

    def _send(self, index, data):
        random = state.get_random() if self._send_random else None
        message = self._serial, self._worker, index, data, random
        old = None
        if self._slot is None or self._full or self._slot.room < NARROW:
            old, self._slot = self._slot, None
            if self._current == 0:
                self._open(self._first, create=False)
            before = self._current
            self._fit(_tarn._packed_size(message))
            if old is not None and self._current == before:
                old, self._slot = None, old  # it spills
            else:
                self._acquire()
        slot, self._slot, self._full = self._slot, None, False
        try:
            # Objects that do not fit are sent in separate memory.
            self._full = bool(slot.put(message))
            slot.publish()
        except BaseException:
            slot.abandon()
            raise
        finally:
            if old is not None:
                old.abandon()
        self._publish(self._narrow, self._current)
        if len(self._wide) > 1:
            self._forget()

    # ---- the iterator's ----

    def get(self, block=True, timeout=None):
        """(index, result), as a worker put it."""
        try:
            message = self._narrow.get(timeout=timeout if block else 0)
        except TimeoutError:
            raise queue.Empty from None
        if isinstance(message, bytes):
            return self._take(*pickle.loads(message))
        channel, serial = self._channel(message), None
        # The batch was published before its message. Batches of an earlier
        # iterator's workers are gone (see finish); the serial makes sure.
        while serial != self._serial:
            with channel.receive(timeout=PATIENCE) as item:
                serial, worker, index, data, random = item.get()
                holds = item.has_tensors
        self._went(worker, message)
        # Numbers, and what did not fit into a slot, hold none.
        return index, Batch(data, worker, random, channel if holds else None)

    def _take(self, worker, index, data, random):
        if isinstance(index, _ResumeIteration):
            self.resumed[worker] = random
        elif isinstance(data, _IterableDatasetStopIteration):
            self.stopped[worker] = random
        elif isinstance(data, ExceptionWrapper):
            data.tarn_worker, data.tarn_random = worker, random
        elif data is None and index is not None:
            data = Batch(None, worker, random, None)
        return index, data

    def _channel(self, number):
        if number not in self._wide:
            channel = self._store.channel(f"{self._name}/{number}",
                                          create=False, join="consumer")
            self._wide[number] = channel
        return self._wide[number]

    def _went(self, worker, number):
        """A channel that all workers have left can end: none comes back."""
        if self._used.get(worker) == number:
            return
        self._used[worker] = number
        if len(self._used) == self._shape[3]:
            self._first = min(self._used.values())
            for old in [n for n in self._wide if n < self._first]:
                del self._wide[old]

    # ---- called in worker and parent, as on a multiprocessing.Queue ----

    def cancel_join_thread(self):
        pass

    def join_thread(self):
        pass

    def close(self):
        """Leaves the channels; but those with slots are the parent's until its
        workers have ended."""
        self._abandon()
        self._narrow = None
        if self._worker is not None:
            self._wide = {}

    def finish(self, workers):
        """Called in the parent, instead of close, after its workers have
        ended: the newest channel with slots is kept for the next iterator. The
        parent empties it: a batch that was published without its message
        belongs to no one and would occupy a slot for ever, and the next
        workers need all slots. A worker that is still alive (PyTorch waits for
        a while, and sends a signal) can publish more: then no channel is kept,
        and the next iterator makes a new one."""
        self.close()
        wide, self._wide = self._wide, {}
        if not wide or self._pid != os.getpid() or \
                any(w.is_alive() for w in workers):
            return
        newest = max(wide)
        if _empty(wide[newest]):
            self._wide = {newest: wide[newest]}


def _empty(channel):
    """Drops all items of a channel. False: it cannot be used any more."""
    try:
        while True:
            channel.receive(timeout=0).release()
    except TimeoutError:
        return True
    except OSError:
        return False
