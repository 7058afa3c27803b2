# SPDX-License-Identifier: MIT
"""Files and stores as mappings of Tensors.

The C module looks up, waits and copies. These classes make it a Mapping, with
keys, items, values and get, and accept one tensor where many are possible.
"""
import errno
import os
import threading
from collections.abc import ItemsView, Mapping, ValuesView

from . import (_conversions, _copies, _names, _parts, _saving, _shards,
               _tarn)


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

    def to(self, device, views=None, *, progress=None):
        """All tensors as a dict of Tensors on a GPU, in one piece of memory;
        or views of them, as load() describes them. progress(done, total) is
        called with bytes. Nothing is copied for device="cpu"."""
        found = dict(self) if views is None else _parts.views_of(self, views)
        if _tarn._is_host(device):
            return found
        return _parts.to_device(found, device, progress)


class File(_tarn.FileBase, _Whole):
    """An open tensor file (safetensors, .npy, .npz, a PyTorch checkpoint, or the
    index of a sharded one): a mapping from names to Tensors. No daemon takes
    part.

    Its tensors are views of the mapped file, read-only and shared with all
    processes that have it open. With map=False they are views of the file
    itself: they have no address, and only the bytes that are used are read.

    An archive with deflated records is inflated when it is opened, by each
    process for itself; those that give the same Store, as Store.load does, have
    one of them do it, and share what it made."""

    def __init__(self, path, map=True, store=None):
        # The current folder may have changed by the time this is pickled.
        self._where = os.path.abspath(os.fsdecode(path))

    def __reduce__(self):
        return type(self), (self._where, self._mapped)

    def __repr__(self):
        return f"<tarn.File {self.path!r}: {_names.summary(self)}>"


# What load() takes for via.
_WAYS = "file", "host"

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
        return _copies.load_again, (self._store, self._file._where)

    def own(self):
        """The same tensors, copy-on-write: what is written to them stays in
        them, also where this process has loaded the file more than once."""
        return Loaded(self._store, self._file, self._whole.cow(own=True))

    def parts(self, views):
        """Views of them, as load() describes them: a Parts."""
        return Parts(self._file, _parts.views_of(self, views))

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


class Parts(_Whole):
    """Views of a loaded file's tensors, as the argument views of load() has
    chosen them."""

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
        return (f"<tarn.{type(self).__name__} {self.path!r}: "
                f"{_names.summary(self)}>")

    @property
    def metadata(self):
        """The file's metadata, a new dict."""
        return self._file.metadata

    @property
    def path(self):
        """The path as it was opened."""
        return self._file.path


class OnDevice(Parts):
    """The tensors of a file, or parts of them, loaded to a GPU. They are
    writable until they are published. The memory is in one piece, and stays as
    long as one of them is held."""


class Snapshot(_Whole):
    """Published tensors as they stood at one moment: a mapping from names to
    Tensors that stays as it is when others are published afterwards. It holds
    all of them as long as it, or one of them, is held."""

    def __init__(self, commit, tensors, versions, commits=None):
        self._commit, self._tensors, self._versions = commit, tensors, versions
        self._commits = commits  # which has published each, of a snapshot

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
             fresh=False, device=None, views=None, via="file"):
        """Loads all tensors of a file, once for all processes, and returns
        them as a mapping. name publishes them too, as NAME/TENSOR; verify
        compares the checksums that the file has. progress(done, total,
        phase) is called now and then: phase is "memory" while the daemon
        takes memory from the system, then "read"; done and total are bytes
        of that phase; and "copy" from there to a device. fresh reads the file also if its bytes are in memory
        already.

        device, as Tensor.to has it, loads to a GPU instead, straight from the
        file: into one piece of memory for each file (shard), of which all
        tensors are views. This process alone has it, unless name publishes
        it. verify then reads the file once more before that.

        views says what of each tensor is wanted: a mapping of names to
        expressions, {"wte": "[0:512]"}, where names that it lacks mean whole
        tensors; or a function of a name and a Tensor, which returns a view of
        it, an expression, or None to leave it out. The rest is neither read
        nor sent to a device. Parts and OnDevice have the views.

        via="host", with a device, loads the file to shared memory first, on
        the NUMA node of the device where that is known, and copies from there:
        the processes of a node, each with its device and its views, read the
        file once.

        If a File has changed since it was opened, OSError with errno ESTALE is
        raised; a path is opened again instead.

        Instead of a path it may be an Arrow table, batch or frame, anything
        with __arrow_c_stream__ or __arrow_c_array__: its columns are copied to
        shared memory and published as the set of that name, which has to be
        given, and which is replaced if it is there. Returns a Snapshot, of the
        columns' names, one tensor for all batches; of lists, text and bytes it
        has COLUMN/values and COLUMN/offsets, as from_arrow describes. Other
        processes find them as NAME/COLUMN. No other argument is taken then."""
        if via not in _WAYS:
            raise ValueError(f"via is {_WAYS[0]!r} or {_WAYS[1]!r}, not "
                             f"{via!r}")
        if _conversions.has_arrow(path):
            return self._load_arrow(path, name, {
                "verify": verify, "progress": progress, "fresh": fresh,
                "device": device, "views": views, "via": via != "file"})
        if device is not None and not _tarn._is_host(device):
            found = self._through_host(path, device, verify, progress, fresh,
                                       views) if via == "host" else \
                load_to(path, device, verify=verify, progress=progress,
                        views=views)
            if name is not None:
                self.publish({f"{name}/{n}": t for n, t in found.items()})
            return found
        loaded = self._load_shared(path, name, verify, progress, fresh)
        return loaded if views is None else loaded.parts(views)

    def _load_arrow(self, source, name, options):
        """The columns of a table, as a set."""
        from . import _arrow_load
        columns = _arrow_load.load(self, source, name, options)
        short = {f"{name}/{column}": column for column in columns}
        commit, *mappings = self._snapshot(tuple(short))
        return Snapshot(commit, *({short[n]: x for n, x in mapping.items()}
                                  for mapping in mappings))

    def _load_shared(self, path, name, verify, progress, fresh):
        """To shared memory of the host."""
        if isinstance(path, File):
            whole = self._load(path, name, verify, progress, fresh)
            return Loaded(self, path, whole)
        for tries in range(_CHANGED_TRIES):
            # What was inflated before is not to be used again.
            file = File(path, store=None if fresh else self)
            try:
                whole = self._load(file, name, verify, progress, fresh)
                return Loaded(self, file, whole)
            except OSError as e:
                if e.errno != errno.ESTALE or tries + 1 == _CHANGED_TRIES:
                    raise

    def _through_host(self, path, device, verify, progress, fresh, views):
        near, loaded = self._near(device), None
        if near is not self:
            try:
                loaded = near.load(path, verify=verify, progress=progress,
                                   fresh=fresh)
            except (MemoryError, OSError):
                pass  # that node has no room; any other error comes again
        if loaded is None:
            loaded = self.load(path, verify=verify, progress=progress,
                               fresh=fresh)
        return _placed(loaded._file, loaded, device, progress, views, "copy")

    def _near(self, device):
        """A store whose node is that of a device, unless this one has a node
        or the device's is not known."""
        node = _tarn.node_of_device(device)
        if node is None or self.node is not None:
            return self
        near = Store(self.socket, self.pool or None)
        near.node = node
        return near

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

    def publish_set(self, prefix, tensors, *, fields=None, notes=None,
                    exclusive=False, digests=False):
        """Publishes a mapping of names to tensors or arrays as the set of that
        prefix, below PREFIX/, all of them in one moment; names of the set that
        are not among these are removed. fields is a mapping of text to text
        that says what the set is (model, dtype, shards); notes has bytes for
        some of the names. Both are read back by fields(), check_set() and
        note(). digests publishes the digest of each tensor with it, as
        Tensor.digest() has it, and lets refits do so: Version.digests tells
        which tensors of two versions differ, and verify_set() whether bytes
        have changed."""
        self._publish_set(prefix, tensors, fields, notes, exclusive, digests)

    def refit(self, prefix, *, device=None, bucket=None, share_equal=False,
              fields=None, add=False, whole=False):
        """Begins the next version of a set, beside the present one:

            with store.refit("policy", fields={"step": "2"}) as r:
                for name, tensor in trained:
                    r.put(name, tensor)

        At the end of the block all that was put is published in one moment;
        after an exception nothing is. Names that were not put stay with their
        memory, which both versions share, and readers of the old version are
        not disturbed. New tensors are where the old ones are, or on device;
        they are allocated and copied a bucket of bytes at a time (256 MiB).
        share_equal compares what is put with the old tensor, by its digest,
        and shares what is equal. fields replace those of the same keys, and
        None takes one away. add lets names be put that the set does not have.
        put_sparse makes only the pages of 4 KiB new that change, where these are
        few: the new version is a patch of the old one; whole copies the tensors
        all the same.

        NotFoundError: there is no such set. See Refit, and tarn-cuda(7)."""
        return _tarn.Refit(self, prefix, device, bucket, share_equal, fields,
                           add, whole)

    def follow(self, name=None, *, prefix=None, timeout=None):
        """The versions of a set as others publish them, those to come
        included: a Follow.

            with store.follow("policy") as versions:
                for version in versions:        # sleeps until there is one
                    engine.swap(version.torch())  # all of one commit

        A Version has the set's names, without its prefix, and its fields;
        changed says which names were published since the version before, and
        all other tensors are the same objects there: two versions share what
        did not change. prefix follows all names that begin so instead, whole.
        timeout, in seconds, is that of the loop: TimeoutError; next() and
        latest() are its parts. The set need not be there yet."""
        from ._follow import Follow  # which needs this module
        return Follow(self, name, prefix=prefix, timeout=timeout)

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
                sparse=False, join=None):
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
        memory of all slots is taken before a process can send. join="producer"
        or "consumer" takes part at once."""
        return _tarn.Channel(self, name, slots, slot_bytes, mode, tensors,
                             ephemeral, create, pickle, sparse, join)


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


def load_to(path, device, *, verify=False, progress=None, views=None):
    """A file's tensors on a device, or views of them: an OnDevice. No daemon
    takes part. path may be a File."""
    # What is not mapped is read to the device directly.
    file = path if isinstance(path, File) else File(path, views is None)
    if verify:
        file.verify()
    if views is not None:
        return _placed(file, file, device, progress, views, "read")
    if progress is not None:
        call, progress = progress, lambda done, all: call(done, all, "read")
    return OnDevice(file, _tarn._load_to(file, device, progress))


def _placed(file, tensors, device, progress, views, phase):
    """Views of a mapping's tensors on a device."""
    if progress is not None:
        call, progress = progress, lambda done, all: call(done, all, phase)
    return OnDevice(file, tensors.to(device, views, progress=progress))


def load(path, name=None, *, verify=False, progress=None, fresh=False,
         device=None, views=None, via="file"):
    """Loads a file into memory that all processes share, once for all of
    them, and returns a mapping from names to Tensors. name publishes them too,
    as NAME/TENSOR. device="cuda:0" loads to a GPU, without a daemon unless
    there is a name, or via="host". views={"wte": "[0:512]"} loads parts. path
    may be an Arrow table, whose columns are published as NAME/COLUMN. See
    Store.load."""
    if device is not None and name is None and via == "file" and \
            not _tarn._is_host(device) and not _conversions.has_arrow(path):
        return load_to(path, device, verify=verify, progress=progress,
                       views=views)
    return default_store().load(path, name, verify=verify, progress=progress,
                                fresh=fresh, device=device, views=views,
                                via=via)


def save(path, tensors, metadata=None, *, checksums=False, align=0,
         exclusive=False, progress=None, background=False, shard_bytes=None):
    """Saves tensors or arrays as a safetensors file: a mapping of names to
    them, and metadata, a mapping of strings. A path that ends in .npy takes
    one tensor.

    One that ends in .safetensors.index.json becomes the index of shards, files
    beside it with at most shard_bytes of tensors each, 5 GiB by default, or one
    larger tensor; metadata is in all of them. The shards of a checkpoint that is
    replaced, by whatever library it was saved, are removed when the new index is
    there, and the new ones if this call fails.

    A process that opens path finds the old file or the new one, never half of
    it. checksums adds one for each tensor, which File.verify and load compare;
    the first tensor's offset is a multiple of align; exclusive raises
    FileExistsError if path exists.

    background copies the tensors into memory of this process, and returns a
    Saving while a thread writes the copies, and calls progress: the tensors may
    be written to at once. wait() of it raises what this call would have. This
    process writes the files of such calls with one path in the order of the calls,
    each when the one before it is written or has failed; a call that is not in the
    background waits for none of them. The next such call has the memory of these
    copies, unless the kernel needs it for others meanwhile."""
    if not isinstance(tensors, Mapping):
        tensors = {"tensor": tensors}
    limit = _shards.limit_of(path, shard_bytes)
    options = checksums, align, exclusive, progress

    def write(path, tensors, metadata):
        if limit is None:
            _tarn._save(path, tensors, metadata, *options)
        else:
            _shards.save(path, tensors, metadata, limit, *options)
    if background:
        return _saving.start(path, tensors, metadata, write)
    write(path, tensors, metadata)
