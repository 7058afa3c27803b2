# SPDX-License-Identifier: MIT
"""Files and stores as mappings of Tensors.

The C module looks up, waits and copies. These classes make it a Mapping, with
keys, items, values and get, and accept one tensor where many are possible.
"""
import errno
import os
import threading
from collections.abc import ItemsView, Mapping, ValuesView

from . import _conversions, _copies, _names, _tarn


class _Tensors(Mapping):
    """A mapping that equals only itself, since == of Tensors is identity."""

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def _ipython_key_completions_(self):
        """The names that a prompt offers after m["."""
        return list(self)


class _Whole(_Tensors):
    """A mapping that converts all of its tensors at once."""

    __slots__ = ()

    def numpy(self):
        """All tensors as a dict of numpy arrays, read-only, over the same
        bytes; see Tensor.numpy."""
        return _conversions.each(self, _conversions.to_numpy)

    def torch(self):
        """All tensors as a dict of PyTorch's, copy-on-write over the same
        bytes; see Tensor.torch. Other PyTorch tensors that this process made
        of the same bytes see what is written to them."""
        return _conversions.each(self, _conversions.to_torch)


class File(_tarn.FileBase, _Whole):
    """An open tensor file (safetensors, .npy, or the index of a sharded
    checkpoint): a mapping from names to Tensors. No daemon takes part.

    Its tensors are views of the mapped file, read-only and shared with all
    processes that have it open. With map=False they are views of the file
    itself: they have no address, and only the bytes that are used are read."""

    def __init__(self, path, map=True):
        # The current folder may have changed by the time this is pickled.
        self._where = os.path.abspath(os.fsdecode(path))

    def __reduce__(self):
        return type(self), (self._where, self._mapped)

    def __repr__(self):
        return f"<tarn.File {self.path!r}: {_names.summary(self)}>"


# A file that changed this often in a row is being written; picked.
_CHANGED_TRIES = 10


class Loaded(_Whole):
    """The tensors of a loaded file, in memory that all processes share. They
    stay there as long as this, or one of them, is held. Another process that
    receives it by pickle maps the same memory; a single Tensor of it is
    pickled by value."""

    def __init__(self, store, file, whole):
        self._store, self._file, self._whole = store, file, whole

    def __getitem__(self, name):
        return self._store._view(self._whole, self._file, name)

    def __contains__(self, name):
        return name in self._file

    def __iter__(self):
        return iter(self._file)

    def __len__(self):
        return len(self._file)

    def __reduce__(self):
        return _copies.load_again, (self._store, self._file)

    def __repr__(self):
        return f"<tarn.Loaded {self.path!r}: {_names.summary(self)}>"

    @property
    def metadata(self):
        """The file's metadata, a new dict."""
        return self._file.metadata

    @property
    def path(self):
        """The path as it was opened."""
        return self._file.path


class OnDevice(_Whole):
    """The tensors of a file, loaded to a GPU. They are writable until they are
    published. The memory is in one piece, and stays as long as one of them is
    held."""

    def __init__(self, file, tensors):
        self._file, self._tensors = file, tensors

    def __getitem__(self, name):
        try:
            return self._tensors[name]
        except KeyError:
            raise _tarn.NotFoundError(
                errno.ENOENT, f"{self.path} has no tensor {name!r}") from None

    def __contains__(self, name):
        return name in self._tensors

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __repr__(self):
        return f"<tarn.OnDevice {self.path!r}: {_names.summary(self)}>"

    @property
    def metadata(self):
        """The file's metadata, a new dict."""
        return self._file.metadata

    @property
    def path(self):
        """The path as it was opened."""
        return self._file.path


class Snapshot(_Whole):
    """Published tensors as they stood at one moment: a mapping from names to
    Tensors that stays as it is when others are published afterwards. It holds
    all of them as long as it, or one of them, is held."""

    def __init__(self, commit, tensors, versions):
        self._commit, self._tensors, self._versions = commit, tensors, versions

    def __getitem__(self, name):
        try:
            return self._tensors[name]
        except KeyError:
            raise _tarn.NotFoundError(
                errno.ENOENT, f"the snapshot has no tensor {name!r}") from None

    def __contains__(self, name):
        return name in self._tensors

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __repr__(self):
        return (f"<tarn.Snapshot of commit {self._commit}: "
                f"{len(self)} tensor{'' if len(self) == 1 else 's'}>")

    @property
    def version(self):
        """The number of the commit that left these tensors. It grows with
        each publication and each removal in the pool."""
        return self._commit

    @property
    def versions(self):
        """The version of each name, as Store.version has it; a new dict."""
        return dict(self._versions)


class _Items(ItemsView):
    __slots__ = ()

    def __iter__(self):
        return iter(self._mapping.snapshot().items())


class _Values(ValuesView):
    __slots__ = ()

    def __iter__(self):
        return iter(self._mapping.snapshot().values())


class Store(_tarn.StoreBase, _Tensors):
    """A connection to the daemon that keeps tensors in shared memory: a
    mapping from published names to Tensors. store["FILE:TENSOR"] is a tensor
    of a file, loaded if it is not in memory yet, which Ctrl-C ends.

    store[name] is the newest tensor of that name. Two look-ups may find two
    versions of a set that is replaced in between, and so does dict(store),
    which looks up one name after the other. items(), values() and snapshot()
    have all names as they stood at one moment: dict(store.items()).

    Without a socket it is this user's daemon. If no daemon serves the socket,
    one is started there, also if you name the socket (TARN_AUTOSTART=0 forbids
    it). pool is the name of one that several users share. Any thread may use a
    store, and so may the children of a fork; in other processes that get it,
    by pickle, it is opened again."""

    def __init__(self, socket=None, pool=None):
        _copies.known_stores.add(self)

    def __reduce__(self):
        return _copies.reduce_store(self)

    def __repr__(self):
        return f"<tarn.Store {self.socket!r}>"

    def __bool__(self):
        """A connection is there also while it has no names."""
        return True

    def snapshot(self, prefix="", *, names=None):
        """The tensors whose names begin with prefix, or those of names, as
        they stood at one moment: a Snapshot. It has either all tensors of one
        publish or none of them. NotFoundError: one of names does not exist."""
        if names is None:
            return Snapshot(*self._snapshot(prefix))
        if prefix:
            raise TypeError("snapshot takes a prefix or names, not both")
        if isinstance(names, str):
            raise TypeError("names is one str; it wants several: "
                            f"[{names!r}]")
        return Snapshot(*self._snapshot(tuple(names)))

    def items(self):
        """All names and Tensors; each walk along them is a snapshot."""
        return _Items(self)

    def values(self):
        """All Tensors; each walk along them is a snapshot."""
        return _Values(self)

    def load(self, path, name=None, *, verify=False, progress=None,
             fresh=False, device=None):
        """Loads all tensors of a file, once for all processes, and returns
        them as a mapping. name publishes them too, as NAME/TENSOR; verify
        compares the checksums that the file has. progress(done, total,
        phase) is called now and then: phase is "memory" while the daemon
        takes memory from the system, then "read"; done and total are bytes
        of that phase. fresh reads the file also if its bytes are in memory
        already.

        device, as Tensor.to has it, loads to a GPU instead, straight from the
        file: into one piece of memory for each file (shard), of which all
        tensors are views. This process alone has it, unless name publishes
        it. verify then reads the file once more before that.

        If a File has changed since it was opened, OSError with errno ESTALE is
        raised; a path is opened again instead."""
        if device is not None and not _tarn._is_host(device):
            file = path if isinstance(path, File) else File(path)
            found = load_to(file, device, verify=verify, progress=progress)
            if name is not None:
                self.publish({f"{name}/{n}": t for n, t in found.items()})
            return found
        if isinstance(path, File):
            whole = self._load(path, name, verify, progress, fresh)
            return Loaded(self, path, whole)
        for tries in range(_CHANGED_TRIES):
            file = File(path)
            try:
                whole = self._load(file, name, verify, progress, fresh)
                return Loaded(self, file, whole)
            except OSError as e:
                if e.errno != errno.ESTALE or tries + 1 == _CHANGED_TRIES:
                    raise

    def publish(self, tensors, tensor=None, *, replace=None, exclusive=False,
                ttl=None):
        """Publishes a mapping of names to tensors or arrays, all of them in
        one moment: publish({"a": x, "b": y}), or publish("a", x) for one.
        Returns the versions, as a dict or a number. What is on a GPU is
        published there; what another library has allocated, as PyTorch has, is
        copied within the GPU first, after the work in its current stream.

        replace is a prefix: names that begin so and are not among these are
        removed in the same moment. exclusive: FileExistsError if one of the
        names is there. ttl: seconds until the names end; None: never."""
        if isinstance(tensors, str):
            return self._publish({tensors: tensor}, replace, exclusive,
                                 ttl)[tensors]
        if tensor is not None:
            raise TypeError("publish takes a name and a tensor, or a mapping")
        return self._publish(tensors, replace, exclusive, ttl)

    def replicate(self, name, node, *, progress=None):
        """Keeps the bytes of a published tensor once more, on another NUMA
        node, for as long as its name leads to them; with a name that ends with
        "/", those of all tensors below it. A reader that opens the name from
        then on gets the copy that is nearest. Returns how many bytes were
        copied: 0 if the tensors were on that node already.

        A new version of the name has no replicas until they are made.
        progress(done, total) is called now and then, with bytes; an exception
        of it, as Ctrl-C, ends the copying. NotFoundError: there is no such
        name. ValueError: the tensor is mutable, or there can be no such node.
        OSError: the node has no memory, or is full. See tarn-numa(7)."""
        return self._replicate(name, node, progress)

    def migrate(self, name, node, *, progress=None):
        """Moves published tensors to another NUMA node: their bytes are copied
        there, and the names lead to the copy as a new version. A process that
        has an old version open keeps it. Arguments, result and errors are
        those of replicate."""
        return self._migrate(name, node, progress)

    def channel(self, name, slots=None, slot_bytes=None, mode=None,
                tensors=None, ephemeral=False, *, create=True, pickle=True,
                sparse=False):
        """Opens the Channel of that name, or makes it: a ring of slots (8, of
        4 MiB) through which processes hand tensors to each other. mode
        "queue": each item goes to one consumer; "broadcast": to each that has
        joined. An existing channel keeps its geometry. FileExistsError: it has
        another mode, or it was closed and still has items, which create=False
        opens it to receive.

        tensors is how many an item may have (16); the name of an ephemeral
        channel ends with its last participant. create=False only opens:
        NotFoundError. pickle=False refuses to send or receive objects of other
        than plain types: a sender could run code in a receiver. sparse=True
        takes the memory of a large slot when it is first filled; otherwise the
        memory of all slots is taken before a process can send."""
        return _tarn.Channel(self, name, slots, slot_bytes, mode, tensors,
                             ephemeral, create, pickle, sparse)


_default = None
_lock = threading.Lock()


def default_store():
    """The store that tarn.load uses: the one at $TARN_SOCKET and $TARN_POOL,
    or this user's own. It is opened when it is first needed, and kept."""
    global _default
    with _lock:
        if _default is None:
            _default = Store()
        return _default


def _new_lock():
    global _lock
    _lock = threading.Lock()


# A fork while another thread opens the store leaves its lock taken.
os.register_at_fork(after_in_child=_new_lock)


def open(path, map=True):
    """Opens a tensor file, without a daemon: a File."""
    return File(path, map)


def load_to(file, device, *, verify=False, progress=None):
    """A File's tensors on a device: an OnDevice. No daemon takes part."""
    if verify:
        file.verify()
    if progress is not None:
        call, progress = progress, lambda done, all: call(done, all, "read")
    return OnDevice(file, _tarn._load_to(file, device, progress))


def load(path, name=None, *, verify=False, progress=None, fresh=False,
         device=None):
    """Loads a file into memory that all processes share, once for all of
    them, and returns a mapping from names to Tensors. name publishes them too,
    as NAME/TENSOR. device="cuda:0" loads to a GPU, without a daemon unless
    there is a name. See Store.load."""
    if device is not None and name is None and not _tarn._is_host(device):
        file = path if isinstance(path, File) else File(path)
        return load_to(file, device, verify=verify, progress=progress)
    return default_store().load(path, name, verify=verify, progress=progress,
                                fresh=fresh, device=device)


def save(path, tensors, metadata=None, *, checksums=False, align=0,
         exclusive=False, progress=None):
    """Saves tensors or arrays as a safetensors file: a mapping of names to
    them, and metadata, a mapping of strings. A path that ends in .npy takes
    one tensor.

    A process that opens path finds the old file or the new one, never half of
    it. checksums adds one for each tensor, which File.verify and load compare;
    the first tensor's offset is a multiple of align; exclusive raises
    FileExistsError if path exists."""
    if not isinstance(tensors, Mapping):
        tensors = {"tensor": tensors}
    _tarn._save(path, tensors, metadata, checksums, align, exclusive, progress)
