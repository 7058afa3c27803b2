# SPDX-License-Identifier: MIT
"""Columns of Arrow as tensors, without a copy: files of Hugging Face's datasets,
IPC files and streams, and whatever has __arrow_c_stream__ or __arrow_c_array__.

The latter are _arrow_c's. Parsing a file is pyarrow's; what is here takes the
buffers that it found, whose sizes it knows, which the C interface does not tell.
A file is mapped, so its pages are the page cache's, and shared by all processes
that read it; it must not shrink meanwhile.
"""
from . import _arrow_c, _conversions, _tarn
from ._arrow_c import TYPED, Column

# Arrow's names of types whose values lie side by side, as ours.
FIXED = {"int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16",
         "int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64",
         "halffloat": "F16", "float": "F32", "double": "F64",
         "date32[day]": "I32", "date64[ms]": "I64"}


def _pyarrow():
    try:
        import pyarrow
    except ImportError as e:
        raise ImportError("Arrow files need pyarrow: pip install pyarrow") from e
    return pyarrow


class _Part:
    """Bytes of a buffer, which it keeps, as an array."""

    def __init__(self, buffer, first, shape, dtype):
        size = int(TYPED[dtype][2])
        n = 1
        for extent in shape:
            n *= extent
        # An Arrow file is a stranger's.
        if first < 0 or (first + n) * size > (buffer.size if buffer else 0):
            raise ValueError(f"Arrow: {n} values of {dtype} from the {first}th "
                             f"on, in a buffer of "
                             f"{buffer.size if buffer else 0} bytes")
        self.buffer = buffer
        self.__array_interface__ = {
            "version": 3, "shape": tuple(shape), "typestr": TYPED[dtype],
            "data": (buffer.address + first * size, True)}


def _part(buffer, first, shape, dtype):
    if 0 in shape:
        return _tarn.zeros(tuple(shape), dtype)
    return _conversions.to_tensor(_Part(buffer, first, shape, dtype))


def _dtype(kind):
    """Ours, of a type whose values lie side by side; None: they do not."""
    name = str(kind)
    if name.startswith(("timestamp", "duration", "time64")):
        return "I64"
    return "I32" if name.startswith("time32") else FIXED.get(name)


def _no_nulls(name, array):
    if array.null_count:
        raise ValueError(f"Arrow: column '{name}' has {array.null_count} nulls, "
                         "which tensors have not: fill them, or choose other "
                         "columns")


def _fixed(pa, name, array, shape):
    """Values side by side, in rows of that shape."""
    _no_nulls(name, array)
    kind = array.type
    if pa.types.is_boolean(kind):
        # Arrow packs eight into a byte: these are copied.
        array = array.cast(pa.uint8())
        return _fixed(pa, name, array, shape).bitcast("BOOL")
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        inner = array.values.slice(array.offset * size, len(array) * size)
        return _fixed(pa, name, inner, [*shape, size])
    if pa.types.is_fixed_size_binary(kind):
        size = kind.byte_width
        return _part(array.buffers()[1], array.offset * size, [*shape, size],
                     "U8")
    dtype = _dtype(kind)
    if dtype is None:
        raise ValueError(f"Arrow: column '{name}' is of {kind}, which is no "
                         "tensor's")
    return _part(array.buffers()[1], array.offset, shape, dtype)


def _offsets(array, wide):
    """Those of an array, which pyarrow has not checked either."""
    dtype = "I64" if wide else "I32"
    # An array without entries may have no offsets.
    if not len(array):
        return _tarn.zeros((1,), dtype)
    return _part(array.buffers()[1], array.offset, [len(array) + 1], dtype)


def _column(pa, name, array):
    kind, types = array.type, pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        _no_nulls(name, array)
        return Column(_fixed(pa, name, array.values, [len(array.values)]),
                      _offsets(array, types.is_large_list(kind)))
    wide = types.is_large_string(kind) or types.is_large_binary(kind)
    if wide or types.is_string(kind) or types.is_binary(kind):
        _no_nulls(name, array)
        data = array.buffers()[2]
        return Column(_part(data, 0, [data.size if data else 0], "U8"),
                      _offsets(array, wide))
    return Column(_fixed(pa, name, array, [len(array)]), None)


def _add(pa, columns, name, array):
    """A column, or those of a structure as NAME.FIELD."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_struct(array.type):
        columns[name] = _column(pa, name, array)
        return
    _no_nulls(name, array)
    for i, part in enumerate(array.flatten()):
        _add(pa, columns, f"{name}.{array.type.field(i).name}", part)


def _batches(pa, source):
    mapped = pa.memory_map(str(source))
    is_file = mapped.read_at(6, 0) == b"ARROW1" if mapped.size() >= 6 else False
    if not is_file:
        return pa.ipc.open_stream(mapped)
    reader = pa.ipc.open_file(mapped)
    return (reader.get_batch(i) for i in range(reader.num_record_batches))


def read(source, columns=None):
    """A dict of Columns for each batch of records, in their order.

    source: the path of an IPC file or stream, as Hugging Face's datasets keep
    them (data-*.arrow), which needs pyarrow; or an object with
    __arrow_c_stream__ or __arrow_c_array__: a table or a batch of pyarrow, a
    frame of polars or pandas. columns: names of those to read; others may have
    types that are no tensors'. ValueError: a column has nulls, or a type that no
    tensor has."""
    if _conversions.has_arrow(source):
        return _arrow_c.batches(source, columns)
    pa = _pyarrow()
    read_all = []
    for batch in _batches(pa, source):
        # Reading it checks no more than its form.
        batch.validate()
        found = {}
        names = batch.schema.names if columns is None else columns
        for name in names:
            i = batch.schema.get_field_index(name)
            if i < 0:
                raise KeyError(f"Arrow: there is no column '{name}', or there "
                               f"are several; there are {batch.schema.names}")
            _add(pa, found, name, batch.column(i))
        read_all.append(found)
    return read_all
