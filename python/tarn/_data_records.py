# SPDX-License-Identifier: MIT
"""Records: named fields, of tar shards or columns; and those of Arrow files."""
import os
from collections.abc import Mapping

from . import _arrow, _conversions, _tarn

_Source = _tarn._Source


class Record(Mapping):
    """Named fields: record["jpg"] is a Tensor, U8 [n] of a member of a shard, a
    row of a column. It is a mapping of names, and a field is read when it is
    asked for, each time; dict(record) reads all. bytes(record["jpg"]) are its
    bytes, and memoryview(record["jpg"]) has them without a copy.

    key: what the names of a record's members have in common; "" of columns.

    Another process that gets one gets its fields, too."""

    __slots__ = ("key", "_fields")

    def __init__(self, key, fields):
        self.key, self._fields = key, fields

    def __getitem__(self, name):
        return self._fields[name]

    def __contains__(self, name):
        return name in self._fields

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)

    # Tensors compare by elements, so a mapping's comparison has no answer.
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __reduce__(self):
        return Record, (self.key, dict(self))

    def __repr__(self):
        return f"<tarn.data.Record {self.key!r}: {', '.join(self)}>"


def _column(column):
    return _Source.rows(column.values) if column.offsets is None else \
        _Source.ragged(column.values, column.offsets)


def _records(batch):
    """A Source of a batch's columns; None: it has no records."""
    column = next(iter(batch.values()), None)
    n = 0 if column is None else len(column.values) \
        if column.offsets is None else len(column.offsets) - 1
    return _Source.columns({name: _column(column) for name, column
                            in batch.items()}) if n else None


def arrow(sources, columns=None):
    """A Source of the records of Arrow files: of one path or several, of IPC
    files or streams as Hugging Face's datasets keep them (data-*.arrow), one
    after another; or of objects with __arrow_c_stream__ or __arrow_c_array__,
    such as a table of pyarrow or a frame of polars.

    A field is a row of its column, of numbers or lists of a fixed size, or of as
    many values as the record has: lists; text and bytes, which are U8. Fields of
    a structure are NAME.FIELD. columns: names of those to read; others may be of
    any type. Files are mapped, and nothing is copied but columns of booleans: a
    file must not shrink meanwhile.

    ValueError: a column has nulls, or is of a type that no tensor has, or there
    are no records. ImportError: files need pyarrow, pip install pyarrow."""
    is_one = isinstance(sources, (str, os.PathLike)) or \
        _conversions.has_arrow(sources)
    given = [sources] if is_one else list(sources)
    given = [os.fspath(s) if isinstance(s, os.PathLike) else s for s in given]
    columns = None if columns is None else list(columns)
    parts = [_records(batch) for source in given
             for batch in _arrow.read(source, columns)]
    parts = [part for part in parts if part is not None]
    if not parts:
        raise ValueError(f"Arrow: there are no records in {given!r:.300}")
    chain = parts[0] if len(parts) == 1 else _Source.chain(parts)
    # Another process maps the files, rather than get what they hold.
    if all(isinstance(source, str) for source in given):
        return chain._made_by(arrow, (given, columns))
    return chain


__all__ = ["Record", "arrow"]
