# SPDX-License-Identifier: MIT
"""tarn.load of an Arrow table: its columns become a published set.

A table has no file by which other processes could find what one of them has
loaded, so it needs a name. Each column is one tensor in the store, whatever
batches the table has: a single batch is copied when it is published, several
are copied side by side into memory that is published as it is. All columns share
that memory, since one call can publish 64 pieces of memory at most.
"""
import math

from . import _arrow_c, _parts


def _joined(store, columns):
    """The columns by name, each with the rows of all its parts."""
    shapes = {name: (sum(p.shape[0] for p in parts), *parts[0].shape[1:])
              for name, parts in columns.items() if len(parts) > 1}
    sizes = [math.prod(shape) * columns[name][0].itemsize
             for name, shape in shapes.items()]
    places, size = _parts.side_by_side(sizes)
    memory = store.create((size,), "U8") if size else None
    found = {name: parts[0] for name, parts in columns.items()}
    for (name, shape), at, n_bytes in zip(shapes.items(), places, sizes):
        dtype = found[name].dtype
        found[name] = _parts.view_at(memory, at, n_bytes, dtype, shape) \
            if n_bytes else store.create(shape, dtype)
        _fill(found[name], columns[name])
    return found


def _fill(whole, parts):
    at = 0
    for part in parts:
        n = part.shape[0]
        if part.size:
            whole[at:at + n] = part
        at += n


def _joined_ragged(columns):
    """The parts of the values of all columns, and of offsets into all of
    them."""
    values, offsets, total = [], [], 0
    wide = "I64" if any(c.offsets.dtype == "I64" for c in columns) or \
        sum(c.values.shape[0] for c in columns) >= 1 << 31 else "I32"
    for column in columns:
        # A slice has the values of what it is a slice of.
        first, last = int(column.offsets[0]), int(column.offsets[-1])
        values.append(column.values[first:last])
        moved = column.offsets.to(wide) + (total - first)
        offsets.append(moved if not offsets else moved[1:])
        total += last - first
    return values, offsets


def _tensors(store, batches):
    found = {}

    def add(name, parts):
        if name in found:
            raise ValueError(f"Arrow: two columns would be named '{name}'; "
                             "rename one")
        found[name] = parts
    for name in batches[0]:
        columns = [batch[name] for batch in batches]
        if columns[0].offsets is None:
            add(name, [c.values for c in columns])
            continue
        values, offsets = _joined_ragged(columns)
        add(f"{name}/values", values)
        add(f"{name}/offsets", offsets)
    return _joined(store, found)


def load(store, source, name, options):
    """Publishes the set, and returns it. options: what else load() was given,
    which is for files."""
    given = [option for option, value in options.items()
             if value is not None and value is not False]
    if given:
        raise TypeError(f"load: {given[0]} is for files, and "
                        f"{type(source).__name__} is none; load it with a name "
                        "alone, and use the tensors of that")
    if name is None:
        raise ValueError(
            f"load: {type(source).__name__} is no file by which other processes "
            "could find it: give it a name, tarn.load(table, name); or use it in "
            "this process alone with tarn.from_arrow(table)")
    batches = _arrow_c.batches(source)
    if not batches:
        raise ValueError("Arrow: there are no batches of records in "
                         f"{type(source).__name__}")
    tensors = _tensors(store, batches)
    store.publish_set(name, tensors)
    return list(tensors)
