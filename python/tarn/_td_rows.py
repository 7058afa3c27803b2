# SPDX-License-Identifier: MIT
"""The rows of a buffer: a tensor for each leaf of a TensorDict, [length, ...], in
mutable memory of the store, and words that say which rows are whole.

Rows are appended in a ring. A process that writes has the lock of the words, which
ends with it. It first says how far it will write (BEGUN), then writes, then says
that it has (LEN, DONE); BEGUN and DONE count on, and row i of that count is at
place i % length. So a reader, which takes no lock, knows from the words before and
after it has read which rows may have changed under it, and reads those again. A
writer that died leaves BEGUN above DONE: the next process that has the lock puts a
whole row in the place of those that it may have torn, so that each row that is read
is one that some process has written.
"""
import contextlib
import json
from urllib.parse import quote

import torch
from tensordict import TensorDict, is_tensor_collection
from tensordict.utils import is_non_tensor

from . import _conversions, _store, _tarn
from .torch import shared

FORMAT = "tarn.tensordict/1"
SPEC, WORDS = "@spec", "@words"
LEN, BEGUN, DONE, BY_NUMBER, CHANGES, WRITTEN = range(6)
N_WORDS = 8  # two to come
# Of the storages that can be published at once, beside words and what they are.
LEAVES_MAX = 62
TRIES = 3  # before a reader takes the lock; picked


# ---- what a buffer is ----


def _text(key):
    return ".".join(key)


def _name(key):
    """Below the buffer's name; no part of it begins with "@"."""
    return "/".join(quote(part, safe=" ") or "%" for part in key)


def _walk(td, key=()):
    """The leaves and nested TensorDicts, the outer before the inner."""
    yield key, td
    for name in sorted(td.keys()):
        value = td.get(name)
        if is_tensor_collection(value) and not is_non_tensor(value):
            yield from _walk(value, (*key, name))
        else:
            yield (*key, name), value


def _leaf(key, value):
    """(dtype, shape) of a leaf of one row."""
    if is_non_tensor(value) or not isinstance(value, torch.Tensor):
        raise TypeError(
            f"{_text(key)!r} is a {type(value).__name__}, and a buffer has "
            "tensors alone; leave it out: td.exclude(...)")
    if value.layout != torch.strided:
        raise TypeError(f"{_text(key)!r} is {value.layout}; use .to_dense()")
    try:
        none = _conversions.to_tensor(torch.empty(0, dtype=value.dtype))
    except (TypeError, ValueError, RuntimeError, BufferError):
        none = None
    if none is None or none.itemsize < 1:
        raise TypeError(f"{_text(key)!r} is {value.dtype}, of which a buffer "
                        "has no rows")
    return str(none.dtype), tuple(value.shape)


def _as_tensordict(example):
    if isinstance(example, torch.Tensor) or is_tensor_collection(example):
        return example
    if hasattr(example, "zero"):
        return example.zero()  # a spec of torchrl
    if hasattr(example, "keys"):
        return TensorDict.from_dict(dict(example), batch_size=[])
    return example


class Spec:
    """The leaves of one row, {key: (dtype, shape)}, the batch sizes of its
    nested TensorDicts, {key: shape}, and the number of rows."""

    def __init__(self, leaves, batches, length):
        self.leaves, self.batches, self.length = leaves, batches, length

    @classmethod
    def of(cls, example, length):
        """That of rows like this one."""
        example = _as_tensordict(example)
        if not is_tensor_collection(example):
            raise TypeError("example is a TensorDict of one row, a dict or a "
                            f"spec, not a {type(example).__name__}")
        if not isinstance(length, int) or length < 1:
            raise ValueError(f"length is {length!r}; a buffer has 1 row or "
                             "more")
        leaves, batches = {}, {}
        for key, value in _walk(example):
            if is_tensor_collection(value) and not is_non_tensor(value):
                batches[key] = tuple(value.batch_size)
            else:
                leaves[key] = _leaf(key, value)
        if not leaves:
            raise ValueError("example has no tensor")
        return cls(leaves, batches, length)

    def differences(self, other):
        """What of another one is not so here, as texts."""
        mine, theirs = self.leaves, other.leaves
        found = [f"it has no {_text(k)!r}" for k in theirs if k not in mine]
        found += [f"it has {_text(k)!r} too" for k in mine if k not in theirs]
        for k in mine:
            if k in theirs and mine[k] != theirs[k]:
                found.append("{!r} is {} {}, not {} {}".format(
                    _text(k), mine[k][0], list(mine[k][1]), theirs[k][0],
                    list(theirs[k][1])))
        for k, b in self.batches.items():
            if b != other.batches.get(k, b):
                found.append(f"the batch size of {_text(k) or 'a row'} is "
                             f"{list(b)}, not {list(other.batches[k])}")
        if self.length != other.length:
            found.append(f"it has {self.length} rows, not {other.length}")
        return found

    def encode(self):
        return json.dumps({
            "format": FORMAT, "length": self.length,
            "leaves": [[list(k), d, list(s)]
                       for k, (d, s) in self.leaves.items()],
            "batches": [[list(k), list(b)] for k, b in self.batches.items()]
        }).encode()

    @classmethod
    def decode(cls, data):
        """Another process may have written anything: ValueError."""
        try:
            found = json.loads(data)
            if found["format"] != FORMAT:
                raise ValueError(f"its format is {found['format']!r}")
            made = cls({tuple(map(str, k)): (str(d), tuple(map(int, s)))
                        for k, d, s in found["leaves"]},
                       {tuple(map(str, k)): tuple(map(int, b))
                        for k, b in found["batches"]}, int(found["length"]))
            made._check()
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise ValueError(f"{FORMAT} is wanted: {e}") from None
        return made

    def _check(self):
        """Each is within the one around it, which comes before it."""
        known = {}
        for key, batch in [*self.batches.items(),
                           *((k, s) for k, (_, s) in self.leaves.items())]:
            outer = known[key[:-1]] if key else ()
            if key in known or batch[:len(outer)] != outer:
                raise ValueError(f"{_text(key)!r} is {batch} in {outer}")
            known[key] = batch


# ---- the rows ----


class Rows:
    """A buffer that is open. The words and the rows are those of all processes;
    any thread may use it."""

    def __init__(self, store, name, spec, tensors):
        self.store, self.name, self.spec = store, name, spec
        self.length = spec.length
        self._words = tensors[WORDS]
        self._keys = list(spec.leaves)
        self._tensors = [tensors[_name(k)] for k in self._keys]
        self._leaves = [shared.wrap(t, store) for t in self._tensors]
        self._dtypes = [t.dtype for t in self._leaves]
        # Those without elements have no address.
        self._filled = [i for i, t in enumerate(self._leaves) if t.numel()]
        self.td = self._tree(self._leaves, self.length).lock_()

    def _tree(self, leaves, n):
        """A TensorDict of n rows."""
        parts = {key: {} for key in self.spec.batches}
        for key, leaf in zip(self._keys, leaves):
            parts[key[:-1]][key[-1]] = leaf
        for key in reversed(parts):  # the inner before the outer
            made = TensorDict(parts[key],
                              batch_size=[n, *self.spec.batches[key]])
            if key:
                parts[key[:-1]][key[-1]] = made
        return made

    def words(self):
        return _tarn._read_words(self._words)

    def _write_word(self, i, value):
        _tarn._write_word(self._words, i, value)

    @contextlib.contextmanager
    def alone(self):
        """No other process writes meanwhile, and none that died has left torn
        rows. Gives the words."""
        ours = True
        try:
            try:
                self._words.lock(True)
            except OSError:  # of a caller of this thread's, who goes on with it
                ours = False
                raise
            words = self.words()
            if words[BEGUN] != words[DONE] or words[BY_NUMBER] % 2:
                self._mend(words)
                words = self.words()
            yield words
        finally:
            # A signal may come before lock() has it, and just after that.
            if ours:
                with contextlib.suppress(PermissionError):
                    self._words.unlock()

    def _mend(self, words):
        """A writer has died, or failed, between two words."""
        length, n, done = self.length, words[LEN], words[DONE]
        begun = min(words[BEGUN], done + length)
        torn = {i % length for i in range(done, begun)}
        last = (done - 1) % length
        whole = last if last < n and last not in torn else \
            next((i for i in range(n) if i not in torn), None)
        if torn and whole is None:
            self._write_word(LEN, 0)
        else:
            for leaf in self._leaves:
                for i in sorted(torn):
                    leaf[i] = leaf[whole]
        # A reader that has read torn rows does not learn it from BEGUN now.
        self._write_word(BY_NUMBER, words[BY_NUMBER] // 2 * 2 + 2)
        self._write_word(BEGUN, done)

    # ---- writing ----

    def _values(self, data, rows, some=False):
        """[(leaf, value)] of data, whose rows have these dimensions. Keys that are
        no leaves of ours are left out, as torchrl does where memory is shared.
        some: leaves may be missing."""
        found = []
        for leaf, (key, (_, shape)) in zip(self._leaves,
                                           self.spec.leaves.items()):
            value = data.get(key if len(key) > 1 else key[0], None)
            if value is None and some:
                continue
            if value is None:
                raise KeyError(f"the data has no {_text(key)!r}, which "
                               f"{self.name!r} has")
            if tuple(value.shape) != (*rows, *shape):
                raise ValueError(
                    f"{_text(key)!r} of the data is {list(value.shape)}, and "
                    f"for {self.name!r} it must be {[*rows, *shape]}")
            found.append((leaf, value.detach()))
        return found

    def append(self, data, n, start=None):
        """Writes n rows where the ring goes on, and returns the first's place.
        start: ValueError if that is another one. Rows that do not fit, since
        n is more than the length, are those that came first."""
        values = self._values(data, [n])
        with self.alone() as words:
            done = words[DONE]
            if start is not None and start != done % self.length:
                raise ValueError(f"the ring goes on at row "
                                 f"{done % self.length}, not {start}")
            # Half of it at once, so that a row is whole, whatever happens.
            # Also rows that do not stay: the ring has no gap that a reader sees.
            step = max(self.length // 2, 1)
            for at in range(0, n, step):
                self._append(values, at, min(step, n - at), done + at)
            self._write_word(WRITTEN, words[WRITTEN] + n)
            return done % self.length

    def _append(self, values, at, n, done):
        self._write_word(BEGUN, done + n)
        place = done % self.length
        first = min(n, self.length - place)
        for leaf, value in values:
            leaf[place:place + first] = value[at:at + first]
            if n > first:
                leaf[:n - first] = value[at + first:at + n]
        reach = min(place + n, self.length)
        if reach > self.words()[LEN]:
            self._write_word(LEN, reach)
        self._write_word(DONE, done + n)

    def write(self, index, data, reach=None):
        """Replaces the rows that index, of any kind, leads to; what data does
        not have stays. reach: so many rows are there from now on, if they were
        less."""
        rows = torch.empty(self.length, device="meta")[index].shape
        values = self._values(data, rows, some=True)
        with self.alone() as words:
            self._write_word(BY_NUMBER, words[BY_NUMBER] + 1)
            for leaf, value in values:
                leaf[index] = value
            if reach is not None and reach > words[LEN]:
                self._write_word(LEN, reach)
            self._write_word(BY_NUMBER, words[BY_NUMBER] + 2)

    def changed(self):
        """Rows were written past these methods: through a view."""
        with self.alone() as words:
            self._write_word(CHANGES, words[CHANGES] + 1)

    def grow(self, length):
        """So many rows are there, or more; the ring goes on where it did."""
        if length > self.words()[LEN]:
            with self.alone() as words:
                self._write_word(LEN, max(words[LEN], min(length,
                                                          self.length)))

    def set_written(self, n):
        """How many rows were ever appended, as torchrl counts."""
        with self.alone():
            self._write_word(WRITTEN, n)

    def set_ring(self, length, cursor):
        """So many rows are there from now on, and the ring goes on at cursor."""
        with self.alone() as words:
            self._write_word(BY_NUMBER, words[BY_NUMBER] + 1)
            self._go_on_at(length, cursor)
            self._write_word(BY_NUMBER, words[BY_NUMBER] + 2)

    def _go_on_at(self, length, cursor):
        done = cursor % self.length
        # If this process dies between the two, BEGUN is not above DONE.
        back = done < self.words()[DONE]
        for word in (BEGUN, DONE) if back else (DONE, BEGUN):
            self._write_word(word, done)
        self._write_word(LEN, length)

    def fill(self, data, length):
        """Puts all rows of data, of which length are of any worth, in the place
        of these."""
        values = self._values(data, [self.length])
        with self.alone() as words:
            self._write_word(BY_NUMBER, words[BY_NUMBER] + 1)
            self._write_word(LEN, 0)
            for leaf, value in values:
                leaf[:length] = value[:length]
            self._go_on_at(length, length)
            self._write_word(BY_NUMBER, words[BY_NUMBER] + 2)

    def copy(self):
        """(A TensorDict with a copy of all, how many rows of it are there)."""
        with self.alone() as words:
            made = [leaf.as_subclass(torch.Tensor).clone()
                    for leaf in self._leaves]
            return self._tree(made, self.length), words[LEN]

    # ---- reading ----

    def read(self, index):
        """A copy of the rows with these numbers, a tensor of int64: each as one
        process has written it. IndexError: there is no such row yet."""
        for _ in range(TRIES):
            # The words are read one by one: they belong together if no row was
            # written by number meanwhile.
            number, before = self.words()[BY_NUMBER], self.words()
            rows = self._gather(index, before[LEN])
            if number == before[BY_NUMBER] and \
                    not self._touched(index, before, self.words()):
                return rows
        with self.alone() as words:
            return self._gather(index, words[LEN])

    def _touched(self, index, before, after):
        """May one of the rows have been written between these words?"""
        if before[BY_NUMBER] % 2 or before[BY_NUMBER] != after[BY_NUMBER]:
            return True
        done, begun = before[DONE], after[BEGUN]
        if done >= begun:
            return done > begun
        places = torch.where(index < 0, index + before[LEN], index)
        return bool(((places - done) % self.length < begun - done).any())

    def _gather(self, index, n):
        index = index.contiguous()
        shape = index.shape
        index = index.reshape(-1)
        count = index.shape[0]
        made = [torch.empty((count, *s), dtype=d) for d, (_, s)
                in zip(self._dtypes, self.spec.leaves.values())]
        if count:
            tensors = [self._tensors[i] for i in self._filled]
            if n != self.length:
                tensors = [t.narrow(0, 0, n) for t in tensors]
            _tarn._gather_all(tensors, [made[i] for i in self._filled], index,
                              count)
        rows = self._tree(made, count)
        return rows if len(shape) == 1 else rows.reshape(shape)


# ---- making and opening ----


def store_of(store):
    return _store.default_store() if store is None else store


def checked_name(name):
    if not isinstance(name, str) or not name.strip("/"):
        raise ValueError(f"name is {name!r}; it names a buffer, as \"replay\"")
    return name.rstrip("/")


def make(store, name, spec):
    """FileExistsError: there is one. ValueError: it has too many leaves, each of
    which has memory of its own."""
    if len(spec.leaves) > LEAVES_MAX:
        raise ValueError(f"{name!r}: it would have {len(spec.leaves)} leaves, and "
                         f"a buffer has {LEAVES_MAX} at most; join some of them, "
                         "or make several buffers")
    tensors = {_name(k): store.create((spec.length, *s), d, mutable=True)
               for k, (d, s) in spec.leaves.items()}
    tensors[WORDS] = store.create((N_WORDS,), "I64", mutable=True)
    tensors[SPEC] = _conversions.to_tensor(spec.encode(), "U8")
    store.publish({f"{name}/{n}": t for n, t in tensors.items()},
                  exclusive=True)
    return open_rows(store, name)


def open_rows(store, name):
    """Rows. NotFoundError: there are none of that name."""
    found = store.snapshot(f"{name}/")
    if f"{name}/{SPEC}" not in found:
        raise _tarn.NotFoundError(
            2, f"there is no buffer {name!r} in the store at {store.socket}")
    try:
        spec = Spec.decode(bytes(memoryview(found[f"{name}/{SPEC}"])))
        wanted = {_name(k): (d, (spec.length, *s))
                  for k, (d, s) in spec.leaves.items()}
        wanted[WORDS] = "I64", (N_WORDS,)
        tensors = {n: found.get(f"{name}/{n}") for n in wanted}
        for n, (dtype, shape) in wanted.items():
            t = tensors[n]
            if t is None or t.dtype != dtype or t.shape != shape:
                raise ValueError(f"{n!r} is {t!r}, not {dtype} {shape}")
    except ValueError as e:
        raise ValueError(f"{name!r} is no buffer: {e}") from None
    if tensors[WORDS].readonly:
        raise PermissionError(13, f"{name!r} may only be read by this user, "
                              "and a buffer is written by all that open it")
    return Rows(store, name, spec, tensors)


def check(found, spec):
    """ValueError: these rows are others."""
    differences = found.spec.differences(spec)
    if differences:
        raise ValueError(f"there is a buffer {found.name!r}, and "
                         + "; ".join(differences))
