# SPDX-License-Identifier: MIT
"""A buffer of the store as torchrl's replay buffers want it: a storage, and a
writer whose cursor all processes share. torchrl is imported only here."""
import copy

import torch
from tensordict import TensorDict, is_tensor_collection, is_tensorclass
from torchrl.data.replay_buffers import storages, writers

from . import _td_rows as rows

_Base = storages.Storage


def _flat(cursor):
    """Numbers of rows, as a tensor; None where they are something else."""
    if isinstance(cursor, torch.Tensor):
        if cursor.dtype == torch.bool:
            return None
        return cursor.to("cpu", torch.int64)
    if isinstance(cursor, (range, list)) or hasattr(cursor, "__array__"):
        found = torch.as_tensor(list(cursor) if isinstance(cursor, range)
                                else cursor)
        return None if found.dtype == torch.bool else found.long()
    return None


class Storage(storages.TensorStorage):
    """The storage of a torchrl ReplayBuffer in memory of the store, which all
    processes that make one of the same name share: TensorDicts, with one
    dimension of rows.

        buffer = TensorDictReplayBuffer(
            storage=tarn.tensordict.Storage(1_000_000, "replay"),
            writer=tarn.tensordict.Writer(), batch_size=256)

    max_size is the number of rows, whose memory is taken when the first process
    has data, or an example, a TensorDict of one row; then all of them find the
    buffer there, and len() is that of all. It stays when they end: the next one
    goes on with it, and store.publish({}, replace="replay/") removes it, for
    processes that do not have it open. What a row has beside the keys of the
    first one is left out.

    Samples, get() with a tensor or a list of numbers, are copies, and each row
    is as one process has written it, whatever others write meanwhile. An int
    and a slice give views, of which this does not hold; nor does it of rows
    that are replaced by their number (buffer[i] = row) while a process dies.
    If a process is killed while it extends, its rows of that call are there, or
    from a point on are not; of the oldest rows, which it may have been
    overwriting, up to as many as it wrote become copies of the newest. len()
    and the cursor count rows that were written whole, and nothing needs to be
    restarted.

    With the default writer of torchrl, whose cursor is its process's, one
    process may write. A sampler's state, as priorities, is its process's.
    dumps(), loads(), state_dict() and load_state_dict() are as
    LazyTensorStorage's, and take each other's. Processes that add rows wait
    while it is copied out; none should write during loads().

    ValueError: the buffer of that name has other rows, and what differs.
    TypeError: a value is no tensor. MemoryError: there is no room for all rows.
    Any thread may use it, and children of a fork."""

    _ready = False  # TensorStorage's constructor sets a length and more
    _loading = False

    def __init__(self, max_size, name, *, example=None, store=None):
        self._name, self._given = rows.checked_name(name), store
        self._rows = None
        self._left = 0  # where the ring goes on, as this process knows it
        super().__init__(None, max_size)
        self._drop_values()
        self._ready = True
        if example is not None:
            self._init(example)

    # ---- opening ----

    @property
    def store(self):
        """Where the rows are."""
        return rows.store_of(self._given)

    @property
    def name(self):
        """The name of the buffer: a prefix of names in the store."""
        return self._name

    def _look(self):
        """The rows, if a process has made them; else None."""
        if self._rows is None and self._ready and \
                f"{self._name}/{rows.SPEC}" in self.store:
            found = rows.open_rows(self.store, self._name)
            if found.length != self.max_size:
                raise ValueError(f"{self._name!r} has {found.length} rows, "
                                 f"not {self.max_size}")
            self._rows = found
        return self._rows

    def _init(self, data):
        """Makes it for rows like this one, or checks it."""
        if is_tensorclass(data) or isinstance(data, torch.Tensor):
            raise TypeError(
                f"{self._name!r} holds TensorDicts, not {type(data).__name__}:"
                " use .to_tensordict(), or TensorDict({\"data\": x}, [n])")
        spec = rows.Spec.of(data, self.max_size)
        if self._look() is None:
            try:
                self._rows = rows.make(self.store, self._name, spec)
            except FileExistsError:
                self._look()  # another process was faster
        rows.check(self._rows, spec)

    def _drop_values(self):
        """Counts of multiprocessing, which the store has instead: a process
        that is killed would leave a semaphore of each."""
        for private in "_mutation_revision_value", "_last_cursor_index_value":
            self.__dict__.pop(private, None)

    # TensorStorage has these as attributes.
    @property
    def initialized(self):
        return self._look() is not None

    @initialized.setter
    def initialized(self, value):
        pass

    @property
    def _storage(self):
        found = self._look()
        return None if found is None else found.td

    @_storage.setter
    def _storage(self, value):
        if value is not None:
            raise RuntimeError(f"the rows of {self._name!r} are in the store, "
                               "and cannot be exchanged")

    # ---- counts ----

    def __len__(self):
        return self._len

    @property
    def _len(self):
        found = self._look()
        return 0 if found is None else found.words()[rows.LEN]

    @_len.setter
    def _len(self, value):
        # Other processes add rows meanwhile: it only grows, but by loads().
        if self._look() is None:
            return
        if self._loading:
            self._set_ring(value, value)
        else:
            self._rows.grow(value)

    @property
    def _total_shape(self):
        return None if self._look() is None else torch.Size([self.max_size])

    def _set_ring(self, length, cursor):
        self._rows.set_ring(length, cursor)
        self._left = cursor % self.max_size

    def _cursor(self):
        """Where the ring goes on."""
        found = self._look()
        return 0 if found is None else \
            found.words()[rows.DONE] % found.length

    @property
    def _last_cursor(self):
        found = self._look()
        done = 0 if found is None else found.words()[rows.DONE]
        return (done - 1) % self.max_size if done else None

    @_last_cursor.setter
    def _last_cursor(self, value):
        pass

    _last_cursor_index = property(lambda self: self._last_cursor)

    @property
    def _mutation_revision(self):
        found = self._look()
        if found is None:
            return 0
        words = found.words()
        return (words[rows.BY_NUMBER] + words[rows.CHANGES] << 62) + \
            words[rows.DONE]

    def _bump_mutation_revision(self):
        if self._look() is not None:
            self._rows.changed()

    def _empty(self):
        if self._look() is not None:
            self._set_ring(0, 0)

    # ---- rows ----

    def append(self, data):
        """Adds the rows of a TensorDict, [n, ...], where the ring goes on, and
        returns their numbers. This is what Writer calls."""
        if not is_tensor_collection(data) or is_tensorclass(data):
            self._init(data)  # says why not
        if not len(data):
            raise ValueError("there are no rows to be added")
        if self._look() is None:
            self._init(data[0])
        start = self._rows.append(data, len(data))
        return (start + torch.arange(len(data))) % self.max_size

    def set(self, cursor, data, *, set_cursor=True):
        if isinstance(data, list):
            data = torch.stack(data)
        single = isinstance(cursor, int) or \
            isinstance(cursor, torch.Tensor) and not cursor.ndim
        if self._look() is None or not is_tensor_collection(data) or \
                is_tensorclass(data):
            self._init(data if single else data[0])
        if single:
            cursor, data = torch.tensor([int(cursor)]), data.unsqueeze(0)
        if isinstance(cursor, slice):
            cursor = torch.arange(*cursor.indices(self.max_size))
        numbers = _flat(cursor)
        if set_cursor and numbers is not None and self._is_run(numbers):
            self._follow(int(numbers[0]), data)
            return
        reach = None if numbers is None or not len(numbers) or \
            not set_cursor else int(numbers.max()) + 1
        self._rows.write(cursor if numbers is None else numbers, data, reach)

    def _is_run(self, numbers):
        if numbers.ndim != 1 or not len(numbers):
            return False
        first = int(numbers[0])
        return len(numbers) == 1 or torch.equal(
            numbers, (first + torch.arange(len(numbers))) % self.max_size)

    def _follow(self, start, data):
        """Rows of a writer of torchrl, which knows its own cursor alone."""
        goes_on = self._cursor()
        if start != goes_on:
            if goes_on != self._left:
                raise RuntimeError(
                    f"another process has written to {self._name!r}, which "
                    f"goes on at row {goes_on}, and this one's writer would "
                    f"write row {start}; give each ReplayBuffer "
                    "writer=tarn.tensordict.Writer()")
            self._set_ring(len(self), start)
        self._rows.append(data, len(data), start)
        self._left = (start + len(data)) % self.max_size

    def get(self, index):
        found = self._look()
        if found is None:
            raise RuntimeError(
                "Cannot get elements out of a non-initialized storage: no "
                f"process has written to {self._name!r}")
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool and \
                index.ndim == 1:
            index = index.nonzero().squeeze(1)
        numbers = _flat(index)
        if numbers is not None and numbers.ndim:
            return found.read(numbers)
        if numbers is not None:
            index = int(numbers)
        n = len(self)
        return (found.td if n == found.length else found.td[:n])[index]

    # ---- out and in ----

    def state_dict(self):
        found = self._look()
        if found is None:
            return {"_storage": {}, "initialized": False, "_len": 0}
        data, n = found.copy()
        return {"_storage": data.state_dict(), "initialized": True, "_len": n}

    def load_state_dict(self, state_dict):
        if not state_dict["initialized"]:
            self._empty()
            return
        data = TensorDict().load_state_dict(
            copy.copy(state_dict["_storage"]), strict=False)
        self._init(data[0])
        self._rows.fill(data, state_dict["_len"])
        self._left = state_dict["_len"] % self.max_size

    def dumps(self, path):
        found = self._look()
        if found is None:
            super().dumps(path)  # says why not
            return
        with found.alone():
            super().dumps(path)

    def loads(self, path):
        self._loading = True
        try:
            super().loads(path)
        finally:
            self._loading = False

    def __getstate__(self):
        state = _Base.__getstate__(self)
        state.pop("_rows", None)
        return state

    def __setstate__(self, state):
        self._rows = None
        for private in "mutation_revision__context", \
                "last_cursor_index__context":
            state.pop(private, None)
        _Base.__setstate__(self, state)
        self._drop_values()

    def __repr__(self):
        return (f"{type(self).__name__}({self._name!r}, len={len(self)}, "
                f"max_size={self.max_size})")


class Writer(writers.TensorDictRoundRobinWriter):
    """The writer of a ReplayBuffer over a Storage: rows go where the ring goes
    on, for all processes that write. Each extend() is a run of rows of its own,
    whichever others write meanwhile. Any thread."""

    def register_storage(self, storage):
        if not isinstance(storage, Storage):
            raise TypeError("tarn.tensordict.Writer writes to a tarn.tensordict"
                            f".Storage, not to a {type(storage).__name__}")
        super().register_storage(storage)

    @property
    def _cursor(self):
        return 0 if self._storage is None else self._storage._cursor()

    @_cursor.setter
    def _cursor(self, value):
        if self._storage is not None and value != self._cursor:
            self._storage._set_ring(len(self._storage), value)

    def _rows(self):
        return None if self._storage is None else self._storage._look()

    @property
    def _write_count(self):
        found = self._rows()
        return 0 if found is None else found.words()[rows.WRITTEN]

    @_write_count.setter
    def _write_count(self, value):
        found = self._rows()
        if found is not None and value != self._write_count:
            found.set_written(value)

    def add(self, data):
        return self._written(self._storage.append(data.unsqueeze(0)), data)[0]

    def extend(self, data):
        if isinstance(data, list):
            data = torch.stack(data)
        return self._written(self._storage.append(data), data)

    def _written(self, index, data):
        self._bump_generation(index, data)
        self._mark_update_entities(index)
        return index

    def __getstate__(self):
        return dict(self.__dict__, _rng=None)
