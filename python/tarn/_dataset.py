# SPDX-License-Identifier: MIT
"""Datasets: what comes at a position of the order of a training job."""
import hashlib
import operator
import os

from . import _store, _tarn

_POSITIONS, _SEGMENTS, _CU_SEQLENS, _DOCUMENT = 1, 2, 4, 8
_OPTIONS = ("seed", "seq_len", "windows", "shuffle", "block", "group", "dtype",
            "pad", "threads", "side_car")

_RECORDS = ("tar", "columns", "chain")  # formats of sources


def sample_seed(seed, g):
    """The seed of what is random about the sample at position g, 63 bits that
    depend on both numbers alone: for numpy.random.default_rng,
    torch.Generator.manual_seed or random.Random."""
    text = f"tarn sample {operator.index(seed)} {operator.index(g)}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def parts_of(positions, segments, cu_seqlens, document):
    return (_POSITIONS * bool(positions) | _SEGMENTS * bool(segments) |
            _CU_SEQLENS * bool(cu_seqlens) | _DOCUMENT * bool(document))


class PythonSource:
    """The items of a Python object with __len__ and __getitem__, such as a
    Hugging Face dataset or a list: their order and mixing are computed as for
    all sources, and item i is items[i], asked for in the process, or worker,
    that needs it.

    What is known of the items is how many there are: a state is refused if that
    has changed, and not if others have come in their place."""

    def __init__(self, items):
        if not hasattr(items, "__getitem__"):
            raise TypeError("PythonSource: __len__ and __getitem__ are wanted, "
                            f"which {type(items).__name__!r} has not")
        self.items, n = items, len(items)
        if n == 0:
            raise ValueError("PythonSource: there are no items")
        # Rows that need no memory.
        self._rows = _tarn._Source.rows(_tarn.zeros((1,), "U8").expand(n))

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, i):
        return self.items[i]

    def __reduce__(self):
        return PythonSource, (self.items,)

    def __repr__(self):
        return f"<tarn.data.PythonSource: {len(self)} items>"


def _is_path(source):
    return isinstance(source, (str, bytes, os.PathLike))


def _source(source, dtype, side_car):
    """A Source or PythonSource of what the caller has. dtype: of files of
    tokens alone."""
    if isinstance(source, (_tarn._Source, PythonSource)):
        return source
    if _is_path(source) or isinstance(source, (list, tuple)) and source and \
            all(_is_path(path) for path in source):
        return _tarn._Source.open(source, dtype, side_car=side_car)
    if isinstance(source, (list, tuple)):
        raise TypeError("Dataset: a list is one of sources; for its items give "
                        "PythonSource(list)")
    if hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        return PythonSource(source)
    raise TypeError(f"Dataset: {source!r} is no source: a path, a Source, or an "
                    "object with __len__ and __getitem__ is")


def _sources(sources, dtype, side_car):
    if not isinstance(sources, (list, tuple)):
        sources = [sources]
    if not sources:
        raise ValueError("Dataset: there is no source")
    found = tuple(_source(source, dtype, side_car) for source in sources)
    if len({isinstance(source, PythonSource) for source in found}) > 1:
        raise ValueError("Dataset: Python objects are mixed with each other, "
                         "and not with tokens, rows and records")
    return found


def _periods(weights, n):
    """None, or pairs of a position and weights, from what may be weights
    alone."""
    if weights is None:
        return None
    weights = list(weights)
    if not weights or not isinstance(weights[0], (list, tuple)):
        weights = [(0, weights)]
    try:
        return tuple((start, tuple(period)) for start, period in weights)
    except (TypeError, ValueError):
        raise TypeError(f"Dataset: weights are {n} numbers, one for each "
                        "source, or pairs of a position and such numbers, not "
                        f"{weights!r}") from None


def _shuffle(shuffle):
    if shuffle is None or isinstance(shuffle, bool):
        return "all" if shuffle else "none"
    return shuffle


def _reopen(sources, options):
    return Dataset(sources, **options)


class Dataset:
    """Sources, cut into samples, in an order that goes on from epoch to epoch:

        data = tarn.data.Dataset("corpus_text_document", 4096, seed=42)
        data[7]["tokens"]          # a Tensor of 4097 tokens; data[7]["epoch"]

    What comes at a position depends on the configuration and the position
    alone, so the whole state of a job is one number, and any number of ranks
    and workers agrees on it.

    sources: a path, a Source, a PythonSource or another object with __len__ and
    __getitem__ (a Hugging Face dataset), or a list of such. In the list a list
    of paths is one source. source_dtype: of files that are tokens alone.

    seq_len, windows: a sample has seq_len + 1 tokens: "stream", windows across
    documents, as Megatron's GPT datasets have them; "padded" or "dropped",
    windows within documents; "packed", several documents by best fit. "rows" and
    "records": samples are rows of tensors, or records, of tar shards, columns and
    Arrow files, and there is no seq_len; it is the default for these.

    shuffle: "all", "blocks" (of block samples, for disks that want locality) or
    "none"; True and False are the first and the last.

    weights: one for each source, which are mixed by them and have epochs of
    their own; or a list of (from, weights), each valid from a position on.
    None: the samples of all sources are shuffled as one.

    dtype: of the tokens that are given, I32 unless the files' do not fit. pad:
    the token that fills up. group: documents that are packed together. tables:
    table(i) of each source, from a dataset of the same configuration: what needs
    the lengths of all documents is not computed again. Or a name, by which the
    first process that has computed them publishes them in the store (a
    tarn.Store, else default_store()) for the others. threads: that compute
    them. side_car: keep them, and indexes of tar shards that are given by their
    paths, in files beside the data, and use those that are there, unless the data
    has changed since; a folder that cannot be written is no error. It is on, as
    of the command line, so that a job's many processes do that work once.

    It may be used by many threads, and after a fork; another process that gets
    it by pickle opens its files anew. It has what PyTorch's DataLoader wants of
    a dataset with positions, and Grain of a RandomAccessDataSource: order and
    shuffling are done, so neither is to shuffle it."""

    def __init__(self, sources, seq_len=None, *, windows=None, shuffle="all",
                 seed=0, block=4096, weights=None, group=0, dtype=None, pad=0,
                 tables=None, threads=0, source_dtype=None, store=None,
                 side_car=True):
        self.sources = _sources(sources, source_dtype, side_car)
        self.is_python = isinstance(self.sources[0], PythonSource)
        info = {} if self.is_python else self.sources[0].info
        rows = self.is_python or info["token_bytes"] == 0
        if windows is None:
            windows = "records" if info.get("format") in _RECORDS else \
                "rows" if rows else "stream"
        # What samples that Python asks for one by one are called.
        self._item = "item" if self.is_python else \
            "record" if windows == "records" else None
        if seq_len is None and windows not in ("rows", "records"):
            raise TypeError("Dataset: seq_len is needed: how many tokens of a "
                            "sample are read")
        if dtype is None and not rows and any(
                s.info["dtype"] in ("U32", "I64", "U64") for s in self.sources):
            dtype = "I64"
        self._options = {
            "seq_len": seq_len, "windows": windows, "shuffle": _shuffle(shuffle),
            "seed": seed, "block": block, "group": group, "dtype": dtype,
            "pad": pad, "threads": threads, "side_car": side_car,
            "weights": _periods(weights, len(self.sources))}
        if isinstance(tables, str):
            self._data = self._shared(tables, store)
        else:
            self._data = self._open(tables)
        self._length = self.info["samples"]

    def _shared(self, name, store):
        """Opens it with the tables of that name, or computes and publishes
        them. Those that are there may be of other files, and are replaced."""
        store = _store.default_store() if store is None else store
        names = [f"{name}/{i}" for i in range(len(self.sources))]
        try:
            return self._open([store[n] for n in names])
        except (_tarn.NotFoundError, ValueError):
            data = self._open(None)
        tables = [data.table(i) for i in range(len(names))]
        if all(table is not None for table in tables):
            store.publish(dict(zip(names, tables)))
        return data

    def _open(self, tables):
        options = {name: self._options[name] for name in _OPTIONS}
        options["seq_len"] = options["seq_len"] or 0
        inner = tuple(s._rows if self.is_python else s for s in self.sources)
        return _tarn._Dataset(
            inner, self._options["weights"],
            None if tables is None else tuple(tables), **options)

    @property
    def seed(self):
        """The seed that it was made with."""
        return self._options["seed"]

    @property
    def info(self):
        """A dict: samples (of an epoch; of a mixture, of all sources),
        sample_bytes, sample_tokens, dtype (None of records), sources."""
        return self._data.info

    @property
    def hash(self):
        """What decides which sample comes where, as 32 digits."""
        return "%016x%016x" % self._data.hash

    def get(self, g, *, positions=False, segments=False, cu_seqlens=False,
            document=False):
        """The sample at position g, from 0 up without an end: a dict.

        tokens: [seq_len + 1]; of rows, row; of records, record, a
        tarn.data.Record; of Python's sources, item. epoch, source, sample:
        numbers, the sample's in its source. On request
        positions and segments: [seq_len + 1], places in the document's piece,
        and numbers of pieces from 1 on; both are 0 for padding. cu_seqlens:
        where pieces begin among the seq_len tokens that are read, as
        FlashAttention's varlen and Megatron want them. document: a number, of
        the first token's.

        OSError: a file has changed, has shrunk, or cannot be read; the text has
        its name and the byte."""
        parts = parts_of(positions, segments, cu_seqlens, document)
        if self._item is None:
            return self._data.read((g,), parts, False)
        self._refuse(parts)
        epoch, source, sample = self._data.place(g)
        of = self.sources[source]
        return {self._item: of.items[sample] if self.is_python
                else of.record(sample),
                "epoch": epoch, "source": source, "sample": sample}

    def batch(self, positions_of, *, positions=False, segments=False,
              cu_seqlens=False, document=False):
        """The samples at several positions, stacked: tokens (or row), positions
        and segments are [n, ...], document is [n], cu_seqlens is of all n *
        seq_len tokens. Of Python's sources item is a list, and of records
        record."""
        parts = parts_of(positions, segments, cu_seqlens, document)
        if self._item is None:
            return self._data.read(tuple(positions_of), parts, True)
        self._refuse(parts)
        return {self._item: self._items(positions_of)}

    def _items(self, positions_of):
        return [self.get(g)[self._item] for g in positions_of]

    def _refuse(self, parts):
        if parts:
            raise ValueError("Dataset: records and items of Python have no "
                             "positions, segments, cu_seqlens and document")

    def state(self, g):
        """The state of a job that has been given the first g samples, a str: the
        configuration in words, its hash, and g."""
        return self._data.state(g)

    def resume(self, state):
        """The position from which a job with this state goes on. ValueError: it
        is of another configuration, and the text lists what differs."""
        return self._data.resume(state)

    def table(self, i):
        """The table of source i, a Tensor, or None where none is needed: see
        tables. One process may publish it for others."""
        return self._data.table(i)

    def source_samples(self, i):
        """How many samples an epoch of source i has."""
        return self._data.source_samples(i)

    def __len__(self):
        return self._length

    def __getitem__(self, g):
        return self.get(g)

    def __getitems__(self, positions_of):
        """For PyTorch's DataLoader: a list of samples."""
        return [self.get(g) for g in positions_of]

    def __iter__(self):
        """The samples of the first epoch."""
        return (self.get(g) for g in range(self._length))

    def __reduce__(self):
        tables = [self._data.table(i) for i in range(len(self.sources))]
        if not any(table is not None for table in tables):
            tables = None
        return _reopen, (list(self.sources), {**self._options,
                                              "tables": tables})

    def __repr__(self):
        options = ", ".join(f"{name}={self._options[name]!r}" for name
                            in ("seq_len", "windows", "shuffle", "seed"))
        return f"<tarn.data.Dataset: {self._length} samples, {options}>"
