# SPDX-License-Identifier: MIT
"""Batches on a device, one ahead: while the user works on a batch, the next one
is on its way, in a stream of its own."""
from collections import deque
from collections.abc import Mapping, Sequence

import torch

from .pinned import WHOLE

# Sources of copies that may be held: that of the batch before, and one more.
SOURCES = 2


def each_tensor(data, change):
    """The batch, with change() of each of PyTorch's tensors in it. Objects of
    other kinds stay as they are."""
    if isinstance(data, torch.Tensor):
        return change(data)
    if isinstance(data, Mapping):
        out = {key: each_tensor(value, change) for key, value in data.items()}
        same = all(out[key] is data[key] for key in out)
    elif isinstance(data, Sequence) and not isinstance(data, WHOLE):
        out = [each_tensor(value, change) for value in data]
        same = all(a is b for a, b in zip(out, data))
    else:
        return data
    if same:
        return data
    try:
        return type(data)(*out) if hasattr(data, "_fields") else \
            type(data)(out)
    except TypeError:  # some types cannot be made of their parts
        return out


class Mover:
    """Copies batches to a device of CUDA's in a stream of its own."""

    def __init__(self, device):
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._sources = deque()  # of copies: an event, and what is copied

    def start(self, data):
        """Begins to copy a batch. From pinned memory nothing waits for it."""
        self._let_go()
        with torch.cuda.stream(self._stream):
            moved = each_tensor(data, lambda t: t.to(self._device,
                                                     non_blocking=True))
            event = self._stream.record_event()
        # PyTorch keeps memory that it has pinned until the copy is done, and
        # no other: a slot of the loader's may have been registered.
        self._sources.append((event, data))
        return moved, event

    def _let_go(self):
        """Drops the sources of copies that are done."""
        sources = self._sources
        while sources and (len(sources) == SOURCES or sources[0][0].query()):
            sources[0][0].synchronize()
            sources.popleft()

    def finish(self, started):
        """The batch, for work in the current stream."""
        moved, event = started
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)

        def note(t):
            # Else the allocator could give its memory to the next batch, when
            # the user drops it while that stream still works on it.
            if t.device == self._device:
                t.record_stream(current)
            return t

        return each_tensor(moved, note)


class Ahead:
    """A loader's iterator whose batches go through a mover. look: is the next
    batch asked for while the user has one? held() is called before that, when
    the iterator stands at the batch that is about to be given."""

    def __init__(self, iterator, mover, look, held):
        self._iterator, self._mover = iterator, mover
        self._look, self._held = look, held
        self._next = None  # a function that gives it, or raises

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._iterator)

    def _pull(self):
        """What is raised for a batch is raised when that is asked for."""
        try:
            started = self._mover.start(next(self._iterator))
        except Exception as e:
            return _Raise(e)
        return lambda: self._mover.finish(started)

    def __next__(self):
        given = self._next or self._pull()
        self._next = None
        if isinstance(given, _Raise):
            self._held(False)
            raise given.error.with_traceback(None)
        if self._look:
            self._held(True)
            self._next = self._pull()
        return given()


class _Raise:
    def __init__(self, error):
        self.error = error
