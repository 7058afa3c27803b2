# SPDX-License-Identifier: MIT
"""What decode returned, kept in the store.

A process that decodes packs its samples, and publishes many at a time as one
tensor, a pack: NAME/HASH/NUMBER, whose numbers follow the clock. A pack never
changes and appears at once, so that no entry is ever half there. The oldest packs
are removed when the budget is used up; who reads one at that moment holds it.

Where a sample is, is said by one word of a table that all processes write,
NAME/HASH/index: a pack's number, and a place in it. Nothing depends on a word
being right. What stands at the place says which sample it is and of what HASH,
and if that is another, or the pack is gone, the sample is decoded again. So
there is no lock that a killed process could keep, two that publish the same
sample leave the word of one, and a word that was lost costs one decode.
"""
import errno
import hashlib
import itertools
import operator
import os
import re
import struct
import time

from . import _store, _tarn

# An entry: what it is, the sample's number, bytes, the hash; then the object.
_HEAD = struct.Struct("<8sQQ16s24x")
_MAGIC = b"tarncac1"
_ALIGN = 64  # of entries, and so of the arrays in them
_AT_BITS = 15  # of a word: where in a pack, in _ALIGN; above it the number
_CLOCK = 13  # of nanoseconds: two processes hardly take one number
_PAGE = 4096
# 128 MiB; where there are more samples, two that share a word cannot both be
# found.
_WORDS_MAX = 1 << 24
# Of packed windows, which are other ones in each; picked.
_EPOCHS = 4
# Just what is not memory of its own for the daemon, which would be mapped anew for
# each sample that is found; and small beside the budget, since it goes as a whole.
# A larger sample is a pack for itself.
_PACK_MAX, _PACKS = (_ALIGN << _AT_BITS) - _ALIGN, 64
# Of the budget: what a process publishes between two looks at all that is there,
# and what is left free then for others that do so meanwhile.
_STEP, _FREE = 1024, 64
_OTHERS = 8  # picked: that publish while one does
# What is below NAME/ and of another form is somebody else's.
_OWN = re.compile("[0-9a-f]{32}/(index|[0-9a-f]+)")
_PATIENCE = 5.  # seconds in which what was decoded is published
_RETRY = 1.  # seconds until a store that has gone is looked for again


class Cache:
    """Where a Loader keeps what decode= returns, so that a sample is decoded
    once: in the next epoch, in other processes of the node and in the next job
    it is found in the store.

        cache = tarn.data.Cache("photos", budget=64 << 30, key="resize-224 v2")
        loader = tarn.data.Loader(images, 256, decode=decode, cache=cache,
                                  transform=augment, per="sample", workers=8)

    name: what the store's names begin with. budget: bytes of all that is kept by
    this name, whatever its key; when they are used up, what is oldest goes.
    store: a tarn.Store, else the loader's, and default_store() for info and
    clear(). What is kept stays until it is evicted, clear() is called, or the
    daemon ends.

    key: says which function it is, a str that is to change whenever decode
    returns anything else. What is known without it: the files' sizes, times and
    some of their bytes, how samples are cut, and which are asked for with them.
    What tensors and Python's sources hold is not, and is the key's to say, too.
    Order, seeds and weights may change; only of packed windows, which depend on
    them, are the samples other ones then.

    Objects of other than plain types are pickled, so processes that share it
    trust each other, as those of a channel do."""

    def __init__(self, name, budget, key, *, store=None):
        for what, text in (("name", name), ("key", key)):
            if not isinstance(text, str) or not text.strip("/"):
                raise TypeError(f"Cache: {what} is {text!r}; a str that is not "
                                "empty is wanted")
        self.name, self.key, self.store = name.rstrip("/"), key, store
        self.budget = operator.index(budget)
        if self.budget < 1:
            raise ValueError(f"Cache: budget is {budget!r}; a number of bytes "
                             "from 1 up is wanted")

    @property
    def info(self):
        """A dict: bytes that are kept by this name now, packs they are in."""
        store = self._store()
        packs, bytes_ = self._packs(store, {})
        return {"bytes": bytes_, "packs": len(packs)}

    def clear(self):
        """Removes all that is kept by this name, whatever its key."""
        store = self._store()
        for name, _ in self._names(store):
            _remove(store, name)

    def _names(self, store):
        """Names of the cache, and the last part of each."""
        root = self.name + "/"
        for name in store.names(root):
            own = _OWN.fullmatch(name, len(root))
            if own:
                yield name, own[1]

    def _store(self):
        return _store.default_store() if self.store is None else self.store

    def _packs(self, store, sizes):
        """Number and name of each pack, the oldest first, and the bytes of all
        that is there. sizes: of names that were looked up, by name."""
        found, packs = dict(self._names(store)), []
        for name in sizes.keys() - found.keys():
            del sizes[name]
        for name, tail in found.items():
            if name not in sizes:
                try:
                    sizes[name] = _up(store[name].nbytes, _PAGE)
                except _tarn.NotFoundError:
                    continue
            if tail != "index":
                packs.append((int(tail, 16), name))
        return sorted(packs), sum(sizes.values())

    def _make_room(self, store, sizes, most, own):
        """Removes the oldest packs until there are at most so many bytes, and
        then indexes other than own that are of no pack. Returns the newest
        number."""
        packs, used = self._packs(store, sizes)
        newest = packs[-1][0] if packs else 0
        if used <= most:
            return newest
        gone = 0
        while gone < len(packs) and used > most:
            name = packs[gone][1]
            _remove(store, name)
            used -= sizes.pop(name)
            gone += 1
        kept = {name.rpartition("/")[0] for _, name in packs[gone:]}
        for name in list(sizes):
            prefix, _, tail = name.rpartition("/")
            if tail == "index" and name != own and prefix not in kept:
                _remove(store, name)
                del sizes[name]
        return newest

    def __repr__(self):
        return (f"<tarn.data.Cache {self.name!r}: key {self.key!r}, "
                f"{self.budget} bytes>")


def _up(n, step):
    """n, rounded up."""
    return -(-n // step) * step


def _remove(store, name):
    try:
        store.remove(name)
    except _tarn.NotFoundError:
        pass  # by another process


def _is_full(error):
    return isinstance(error, MemoryError) or \
        error.errno in (errno.ENOSPC, errno.ENOMEM)


def _place(store):
    """What opens it once more."""
    return store.socket, store.pool or None


# ---- which samples they are -------------------------------------------------


def _files(value):
    """Sizes and times of the files that a Source was opened with."""
    if isinstance(value, _tarn._Source):
        yield from _files(value.__reduce__()[1])
    elif isinstance(value, dict):
        yield from _files(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _files(part)
    elif isinstance(value, (str, bytes, os.PathLike)):
        for ending in ("", ".bin", ".idx", ".index"):
            try:
                found = os.stat(os.fsdecode(value) + ending)
            except (OSError, ValueError):
                continue  # a prefix, an address, a dtype
            yield found.st_size, found.st_mtime_ns


_ORDER = ("seed=", "shuffle=", "block=", "weights.")


def _hash(dataset, parts, key):
    """Of all that decides what decode gets for a number, and of the key."""
    lines = dataset.state(0).splitlines()[2:]
    if not _is_packed(dataset):
        lines = [line for line in lines[1:] if not line.startswith(_ORDER)]
    of = [[type(s.items).__qualname__] if dataset.is_python else
          [s.info["format"], s.info["dtype"], *_files(s)]
          for s in dataset.sources]
    text = repr((_MAGIC, lines, dataset.info["dtype"], of, parts, key))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"),
                           digest_size=16).digest()


def _is_packed(dataset):
    return dataset._options["windows"] == "packed"


# ---- what is kept of them ---------------------------------------------------


def _index(store, name, n):
    """The table: of the first process that has made one."""
    while True:
        try:
            return store[name]
        except _tarn.NotFoundError:
            pass
        table = store.create((n,), "U64", mutable=True)
        table[:] = 0
        try:
            store.publish(name, table, exclusive=True)
        except FileExistsError:
            pass


class _Open:
    """What one process has of it."""

    def __init__(self, store, index, n, budget):
        self.process, self.store = os.getpid(), store
        # Less than the cache's where the daemon had no more.
        self.budget, self.again = budget, 0.
        self.name, self._n = index, n
        # Entries in memory that stays: where each of them is, and all end.
        self.pending, self.bytes, self.since = {}, 0, 0.
        self.memory = None
        self.sizes = {}  # of the store's names
        self.unseen = None  # published since it looked; None: it has not
        self.newest = 0
        self.find_table()

    def find_table(self):
        table = _index(self.store, self.name, self._n)
        # In a pool of several users the table is written by its owner alone.
        # A read-only memoryview would not show what others write.
        self.readonly = table.readonly
        self.words = table if table.readonly else memoryview(table)


class Shelf:
    """A Cache, for one dataset. One thread at a time."""

    def __init__(self, cache, store, dataset, parts):
        self._cache, self._dataset = cache, dataset
        self._store = store if cache.store is None else cache.store
        self._first = [0, *itertools.accumulate(
            dataset.source_samples(i) for i in range(len(dataset.sources)))]
        all_ = self._first[-1]
        self._per_epoch = all_ if _is_packed(dataset) else 0
        self._hash = _hash(dataset, parts, cache.key)
        self._prefix = f"{cache.name}/{self._hash.hex()}/"
        self._n = min(all_ + self._per_epoch * (_EPOCHS - 1), _WORDS_MAX)
        least = 2 * (8 * self._n + _PAGE)
        if cache.budget < least:
            raise ValueError(
                f"Cache: budget is {cache.budget} bytes; for {all_} samples at "
                f"least {least} are wanted, half of them for the index")
        self._pack_bytes = min(_PACK_MAX, cache.budget // _PACKS)
        self._open = self._lost = None

    def __getstate__(self):
        return {**self.__dict__, "_open": None, "_lost": None}

    def get(self, g, make, view=False):
        """What make() returned for the sample at position g, now or before: as
        much the caller's own as if it had been made now; or with view perhaps
        read-only, and in memory that is kept for it as long as it is there."""
        here, number = self._here(), self._number(g)
        packed = None if here is None else self._packed(here, number, view)
        if packed is not None:
            try:
                return _tarn._unpack(packed)
            except Exception:  # of a class that is not there any more
                pass
        value = make()
        try:
            packed = _tarn._pack(value)
        except Exception as error:
            raise TypeError("Cache: what decode returned cannot be kept: "
                            f"{error}") from error
        if here is not None and not here.readonly:
            self._keep(here, number, packed)
        # The same thing then as what is found later.
        return _tarn._unpack(packed)

    def open(self):
        """The table is there after this, for all processes that ask for it."""
        self._here()

    def settle(self):
        """Publishes what is pending, if it is old."""
        here = self._open
        if here is not None and here.pending and \
                time.monotonic() - here.since >= _PATIENCE:
            self.flush()

    def flush(self):
        """Publishes what is pending. No error: it is lost where it cannot be."""
        here = self._open
        if here is None or here.process != os.getpid() or not here.pending:
            return
        pending, size = here.pending, here.bytes
        here.pending, here.bytes = {}, 0
        self._publish(here, here.memory[:size], pending)

    def _publish(self, here, pack, places):
        """What another process has published first stays as it is."""
        try:
            here.find_table()
            places = {number: at for number, at in places.items()
                      if self._find(here, number) is None}
            if places and not here.readonly:
                self._publish_pack(here, pack, places)
        except (OSError, MemoryError) as error:
            if _is_full(error):
                self._shrink(here)
            else:
                self._lose(here)

    def _number(self, g):
        epoch, source, sample = self._dataset._data.place(g)
        return self._first[source] + sample + epoch * self._per_epoch

    # ---- the store, which may go and come again ----

    def _here(self):
        """None: there is no store at this moment."""
        here = self._open
        if here is None or here.process != os.getpid():
            here = self._open = self._reach()
        return here

    def _reach(self):
        store = None
        if self._lost is None:
            # One that was never there is an error.
            store = _store.default_store() if self._store is None else \
                self._store
            where = _place(store)
        else:
            again, where = self._lost
            if time.monotonic() < again:
                return None
        try:
            return _Open(_store.Store(*where) if store is None else store,
                         self._prefix + "index", self._n, self._cache.budget)
        except (OSError, MemoryError) as error:
            if store is not None and not _is_full(error):
                raise
            self._lost = time.monotonic() + _RETRY, where
            return None

    def _lose(self, here):
        self._open = None
        self._lost = time.monotonic() + _RETRY, _place(here.store)

    def _shrink(self, here):
        """The daemon has less memory than the budget says."""
        here.again, here.unseen = time.monotonic() + _RETRY, None
        try:
            _, here.budget = self._cache._packs(here.store, here.sizes)
        except OSError:
            self._lose(here)

    # ---- entries ----

    def _find(self, here, number):
        """The packed object in the store, or None."""
        word = here.words[number % self._n]
        if not word:
            return None
        try:
            pack = here.store[self._name(word >> _AT_BITS)]
        except _tarn.NotFoundError:
            return None
        at = (word & ((1 << _AT_BITS) - 1)) * _ALIGN
        return self._object(pack, at, number)

    def _object(self, pack, at, number):
        head = pack[at:at + _HEAD.size]
        if len(head) < _HEAD.size:
            return None
        # A copy: a view of what is read-only were one by copy-on-write.
        magic, of, size, hash_ = _HEAD.unpack(head.clone())
        if magic != _MAGIC or of != number or hash_ != self._hash:
            return None
        at += _HEAD.size
        return pack[at:at + size]

    def _packed(self, here, number, view):
        """The packed object, a private copy or a view; or None."""
        at = here.pending.get(number)
        try:
            packed = self._find(here, number) if at is None else \
                self._object(here.memory, at, number)
        except OSError:
            self._lose(here)
            return None
        # What is pending has its memory only until it is published.
        return packed if packed is None or view and at is None else \
            packed.clone()

    def _keep(self, here, number, packed):
        size = _HEAD.size + _up(len(packed), _ALIGN)
        if time.monotonic() < here.again:
            return
        if here.bytes + size > self._pack_bytes:
            self.flush()
        if size > self._pack_bytes:
            if _up(size, _PAGE) <= self._cache.budget - _up(8 * self._n, _PAGE):
                pack = _tarn.empty((size,), "U8")
                self._write(pack, 0, number, packed)
                self._publish(here, pack, {number: 0})
            return
        if here.memory is None:
            here.memory = _tarn.zeros((self._pack_bytes,), "U8")
        if not here.pending:
            here.since = time.monotonic()
        self._write(here.memory, here.bytes, number, packed)
        here.pending[number] = here.bytes
        here.bytes += size

    def _write(self, pack, at, number, packed):
        head = _HEAD.pack(_MAGIC, number, len(packed), self._hash)
        memoryview(pack)[at:at + _HEAD.size] = head
        at += _HEAD.size
        pack[at:at + len(packed)] = packed

    # ---- packs ----

    def _name(self, number):
        return f"{self._prefix}{number:x}"

    def _publish_pack(self, here, pack, places):
        size = pack.nbytes
        looks = here.unseen is None or \
            here.unseen + size > here.budget // _STEP
        if looks:
            here.newest = self._make_room(
                here, _up(size, _PAGE) + here.budget // _FREE)
        here.unseen += size
        here.newest = self._publish_as(
            here, pack, max(here.newest + 1, time.time_ns() >> _CLOCK))
        for number, at in places.items():
            here.words[number % self._n] = \
                here.newest << _AT_BITS | at // _ALIGN
        # Again: others may have published since there was room. Where much is left
        # free for them, that will do until the next look.
        if looks and here.budget // _FREE < _OTHERS * size:
            self._make_room(here, 0)

    def _make_room(self, here, n):
        here.unseen = 0
        return self._cache._make_room(here.store, here.sizes, here.budget - n,
                                      here.name)

    def _publish_as(self, here, pack, number):
        """By that number, or one after it."""
        while True:
            name = self._name(number)
            try:
                # The daemon's log has each that is refused.
                if name not in here.store:
                    here.store.publish(name, pack, exclusive=True)
                    return number
            except FileExistsError:
                pass
            number += 1


__all__ = ["Cache", "Shelf"]
