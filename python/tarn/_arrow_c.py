# SPDX-License-Identifier: MIT
"""What other libraries have in Arrow's memory, as tensors, through Arrow's C data
interface: __arrow_c_array__ and __arrow_c_stream__. No library of Arrow's is
needed.

Arrow's rule: who takes an array calls its release callback, once. Here a _Held
has it, which all tensors in that array's memory keep; the last one that goes
releases it. Lengths and pointers are the producer's word, as in any C library;
what can be compared is.
"""
import ctypes
from typing import NamedTuple

from . import _conversions, _tarn

TYPED = {"I8": "<i1", "U8": "<u1", "I16": "<i2", "U16": "<u2", "I32": "<i4",
         "U32": "<u4", "I64": "<i8", "U64": "<u8", "F16": "<f2", "F32": "<f4",
         "F64": "<f8"}

# Arrow's formats of types whose values lie side by side, as ours.
FIXED = {"c": "I8", "C": "U8", "s": "I16", "S": "U16", "i": "I32", "I": "U32",
         "l": "I64", "L": "U64", "e": "F16", "f": "F32", "g": "F64",
         "tdD": "I32", "tdm": "I64", "tts": "I32", "ttm": "I32", "ttu": "I64",
         "ttn": "I64"}

# Those that are refused, by the beginning of their format.
REFUSED = {"n": "null", "d": "decimal", "vu": "string_view",
           "vz": "binary_view", "ti": "interval", "+vl": "list_view",
           "+vL": "large_list_view", "+l": "list", "+L": "large_list",
           "+s": "struct", "+m": "map", "+u": "union", "+r": "run_end_encoded",
           "u": "string", "U": "large_string", "z": "binary",
           "Z": "large_binary"}

_COUNT = 1 << 20  # bytes of a validity bitmap that are counted at a time


class Column(NamedTuple):
    """values: a tensor; offsets: I32 or I64, one more than there are records,
    where records have any number of values: record i is
    values[offsets[i]:offsets[i + 1]]; None: each has one row."""
    values: _tarn.Tensor
    offsets: _tarn.Tensor | None


# ---- the interface's structures ----------------------------------------------

class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


def _release(structure):
    return ctypes.CFUNCTYPE(None, ctypes.POINTER(structure))


_Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)), ("release", _release(_Schema)),
    ("private_data", ctypes.c_void_p)]
_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)), ("release", _release(_Array)),
    ("private_data", ctypes.c_void_p)]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream),
                                    ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream),
                                  ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p,
                                        ctypes.POINTER(_Stream))),
    ("release", _release(_Stream)), ("private_data", ctypes.c_void_p)]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Held:
    """A structure, and its release callback."""

    def __init__(self, kind):
        self.c = kind()

    def __del__(self):
        # The callback sets it to NULL.
        if self.c.release:
            self.c.release(ctypes.byref(self.c))


def _take(capsule, name, kind):
    """What a capsule has; from now on it is ours to release, and not the
    capsule's."""
    theirs = kind.from_address(_pointer_of(capsule, name))
    if not theirs.release:
        raise ValueError(f"Arrow: its {name.decode()} has been released, or "
                         "was taken before: each can be taken once")
    held = _Held(kind)
    # At each moment no more than one of both has it: a signal may raise an
    # exception between two of these lines, and then it is given back never,
    # rather than twice.
    copy, none = kind(), type(theirs.release)()
    ctypes.memmove(ctypes.byref(copy), ctypes.byref(theirs),
                   ctypes.sizeof(kind))
    release = type(theirs.release)(ctypes.cast(copy.release,
                                               ctypes.c_void_p).value)
    copy.release = none
    ctypes.memmove(ctypes.byref(held.c), ctypes.byref(copy),
                   ctypes.sizeof(kind))
    # As the interface says of a structure that is moved.
    theirs.release = none
    held.c.release = release
    return held


# ---- columns -----------------------------------------------------------------

class _Part:
    """Bytes in the memory of an array, which it keeps, as an array."""

    def __init__(self, held, address, shape, dtype):
        self.held = held
        self.__array_interface__ = {
            "version": 3, "shape": tuple(shape), "typestr": TYPED[dtype],
            "data": (address, True)}


class _Node(NamedTuple):
    """A column, or what is inside of one: n of its elements, from first on,
    counted from the first that its buffers hold."""
    held: _Held
    name: str  # of the column
    schema: _Schema
    array: _Array
    first: int
    n: int

    def wrong(self, what):
        return ValueError(f"Arrow: column '{self.name}' {what}")

    def buffer(self, i):
        if not 0 <= i < self.array.n_buffers or not self.array.buffers:
            raise self.wrong(f"has {self.array.n_buffers} buffers, and not "
                             f"the {i + 1} of its type")
        return self.array.buffers[i]

    def part(self, i, first, shape, dtype):
        """shape of the values of buffer i."""
        if 0 in shape:
            return _tarn.zeros(tuple(shape), dtype)
        address = self.buffer(i)
        if not address:
            raise self.wrong(f"has {self.n} records and no memory of them")
        return _conversions.to_tensor(_Part(
            self.held, address + first * int(TYPED[dtype][2]), shape, dtype))


def _node(held, name, schema, array, window=None):
    """window: the elements wanted of it, after its own offset; None: all."""
    first, n = window or (0, array.length)
    if array.length < 0 or array.offset < 0 or first + n > array.length:
        raise ValueError(f"Arrow: column '{name}' has {array.length} elements "
                         f"from the {array.offset}th on, where {first + n} "
                         "are needed")
    return _Node(held, name, schema, array, array.offset + first, n)


def _child(node, i, window=None):
    if i >= min(node.schema.n_children, node.array.n_children):
        raise node.wrong(f"has {node.array.n_children} parts, and its type "
                         f"{node.schema.n_children}")
    return _node(node.held, node.name, node.schema.children[i].contents,
                 node.array.children[i].contents, window)


def _bits(address, first, n):
    """How many of the n bits from there on are ones."""
    ones = 0
    while n > 0:
        now = min(n, _COUNT * 8 - first % 8)
        data = ctypes.string_at(address + first // 8, (first % 8 + now + 7) // 8)
        bits = int.from_bytes(data, "little") >> first % 8
        ones += bin(bits & ((1 << now) - 1)).count("1")
        first += now
        n -= now
    return ones


def _format(node):
    if node.schema.dictionary:
        raise node.wrong("is of dictionary, which is no tensor's: decode it "
                         "first")
    return (node.schema.format or b"").decode("utf-8", "replace")


def _has_nulls(node, nulls):
    return node.wrong(f"has {nulls} nulls, which tensors have not: fill them, or "
                      "choose other columns")


def _no_nulls(node):
    # -1: the producer has not counted.
    if not node.array.null_count or not node.n or not node.buffer(0):
        return
    nulls = node.n - _bits(node.buffer(0), node.first, node.n)
    if nulls:
        raise _has_nulls(node, nulls)


def _refusal(node, kind):
    # A column of None alone has a type of its own.
    if kind == "n" and node.n:
        return _has_nulls(node, node.n)
    what = next((REFUSED[kind[:i]] for i in (3, 2, 1) if kind[:i] in REFUSED),
                "an unknown type")
    return node.wrong(f"is of {what} ('{kind}'), which is no tensor's")


def _size(node, text):
    if not text.isascii() or not text.isdigit() or not int(text):
        raise node.wrong(f"has elements of the size '{text}'")
    return int(text)


def _unpacked(node, shape):
    """Arrow packs eight booleans into a byte: these are copied."""
    if not node.n:
        return _tarn.zeros(tuple(shape), "BOOL")
    if not node.buffer(1):
        raise node.wrong(f"has {node.n} records and no memory of them")
    begin = node.first // 8
    data = ctypes.string_at(node.buffer(1) + begin,
                            (node.first + node.n + 7) // 8 - begin)
    each = [bytes(byte >> i & 1 for i in range(8)) for byte in range(256)]
    flat = b"".join([each[byte] for byte in data])
    values = _conversions.to_tensor(flat)[node.first % 8:][:node.n]
    return values.reshape(tuple(shape)).bitcast("BOOL")


def _fixed(node, shape):
    """Values side by side, in rows of that shape."""
    kind = _format(node)
    if kind.startswith("+w:"):
        _no_nulls(node)
        size = _size(node, kind[3:])
        inner = _child(node, 0, (node.first * size, node.n * size))
        return _fixed(inner, [*shape, size])
    dtype = FIXED.get(kind)
    if kind.startswith(("ts", "tD")):
        dtype = "I64"
    if dtype is None and kind != "b" and not kind.startswith("w:"):
        raise _refusal(node, kind)
    _no_nulls(node)
    if kind == "b":
        return _unpacked(node, shape)
    if dtype is None:
        size = _size(node, kind[2:])
        return node.part(1, node.first * size, [*shape, size], "U8")
    return node.part(1, node.first, shape, dtype)


def _ends(node, dtype):
    """The offsets of its records, and where the first and the last one end."""
    _no_nulls(node)
    # An array without records may have no offsets.
    if not node.n:
        return _tarn.zeros((1,), dtype), 0
    offsets = node.part(1, node.first, [node.n + 1], dtype)
    first, last = int(offsets[0]), int(offsets[node.n])
    if not 0 <= first <= last:
        raise node.wrong(f"has records from {first} to {last}")
    return offsets, last


def _column(node):
    kind = _format(node)
    dtype = "I64" if kind in ("+L", "U", "Z") else "I32"
    if kind in ("+l", "+L"):
        offsets, last = _ends(node, dtype)
        inner = _child(node, 0)
        if last > inner.n:
            raise node.wrong(f"has {inner.n} values and records up to {last}")
        return Column(_fixed(inner, [inner.n]), offsets)
    if kind in ("u", "U", "z", "Z"):
        offsets, last = _ends(node, dtype)
        return Column(node.part(2, 0, [last], "U8"), offsets)
    return Column(_fixed(node, [node.n]), None)


def _name(schema, i):
    return (schema.children[i].contents.name or b"").decode("utf-8", "replace")


def _add(found, node):
    """A column, or those of a structure as NAME.FIELD."""
    if _format(node) != "+s":
        found[node.name] = _column(node)
        return
    _no_nulls(node)
    for i in range(node.schema.n_children):
        part = _child(node, i, (node.first, node.n))
        name = _name(node.schema, i)
        _add(found, part._replace(
            name=f"{node.name}.{name}" if node.name else name))


def _chosen(root, columns):
    """The records of a batch: a Column by each name."""
    if _format(root) != "+s":
        raise ValueError(f"Arrow: it is a column of '{_format(root)}', and no "
                         "table of columns")
    _no_nulls(root)
    names = [_name(root.schema, i) for i in range(root.schema.n_children)]
    found = {}
    for name in names if columns is None else columns:
        if names.count(name) != 1:
            raise KeyError(f"Arrow: there is no column '{name}', or there are "
                           f"several; there are {names}")
        part = _child(root, names.index(name), (root.first, root.n))
        _add(found, part._replace(name=name))
    return found


# ---- arrays and streams ------------------------------------------------------

def _check(stream, r):
    if r:
        text = stream.c.get_last_error(ctypes.byref(stream.c)) or b"no reason"
        raise OSError(r, "Arrow: the stream failed: "
                      f"{text.decode('utf-8', 'replace')}")


def _arrays(stream):
    """The arrays of a stream, each with the schema of all."""
    schema = _Held(_Schema)
    _check(stream, stream.c.get_schema(ctypes.byref(stream.c),
                                       ctypes.byref(schema.c)))
    while True:
        held = _Held(_Array)
        _check(stream, stream.c.get_next(ctypes.byref(stream.c),
                                         ctypes.byref(held.c)))
        if not held.c.release:
            return
        yield _node(held, "", schema.c, held.c), schema


def _roots(source):
    """What source has, as nodes, each with what keeps its schema."""
    if hasattr(source, "__arrow_c_array__"):
        schema, array = source.__arrow_c_array__()
        held = _take(array, b"arrow_array", _Array)
        kept = _take(schema, b"arrow_schema", _Schema)
        return iter([(_node(held, "", kept.c, held.c), kept)])
    return _arrays(_take(source.__arrow_c_stream__(), b"arrow_array_stream",
                         _Stream))


def batches(source, columns=None):
    """A dict of Columns for each batch of records, in their order."""
    return [_chosen(root, columns) for root, _ in _roots(source)]


def _one(root, columns):
    if _format(root) != "+s":
        if columns is not None:
            raise ValueError("from_arrow: columns were chosen of one column, "
                             "which has none")
        column = _column(root)
        return column if column.offsets is not None else column.values
    return {name: c if c.offsets is not None else c.values
            for name, c in _chosen(root, columns).items()}


def from_arrow(source, columns):
    """tarn.from_arrow()."""
    if hasattr(source, "__arrow_c_array__"):
        (root, _kept), = _roots(source)
        return _one(root, columns)
    if hasattr(source, "__arrow_c_stream__"):
        return [_one(root, columns) for root, _ in _roots(source)]
    raise TypeError(f"from_arrow: {type(source).__name__} has neither "
                    "__arrow_c_array__ nor __arrow_c_stream__; pass an array, a "
                    "batch or a table of a library that has Arrow's memory")
