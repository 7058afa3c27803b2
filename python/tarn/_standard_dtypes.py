# SPDX-License-Identifier: MIT
"""Dtypes of tarn.array_api: their names in the standard, what they hold, and in
which of them arrays and numbers meet."""
import dataclasses

from . import _ops
from ._tarn import Dtype, Tensor

NAMES = {"bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32",
         "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32",
         "uint64": "U64", "float16": "F16", "bfloat16": "BF16",
         "float32": "F32", "float64": "F64"}
KINDS = {"bool": ("BOOL",), "signed integer": ("I8", "I16", "I32", "I64"),
         "unsigned integer": ("U8", "U16", "U32", "U64"),
         "real floating": ("F32", "F64", "F16", "BF16"),
         "complex floating": ("C64",)}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = (KINDS["integral"] + KINDS["real floating"] +
                    KINDS["complex floating"])
# Bits, digits behind the first one, the largest exponent.
FLOATS = {"F16": (16, 10, 15), "BF16": (16, 7, 127), "F32": (32, 23, 127),
          "F64": (64, 52, 1023)}


def dtype_of(what):
    return what.dtype if isinstance(what, Tensor) else Dtype(what)


def is_kind(dtype, *kinds):
    return any(dtype in KINDS[k] for k in kinds)


def isdtype(dtype, kind):
    """Is it that dtype, or of that kind: "bool", "signed integer", "unsigned
    integer", "integral", "real floating", "complex floating", "numeric"; or of
    one of a tuple?"""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    dtype = Dtype(dtype)
    if not isinstance(kind, Dtype) and isinstance(kind, str) and \
            kind in KINDS and kind != "bool":
        return dtype in KINDS[kind]
    return dtype == Dtype(kind)


def wrapped(x, dtype):
    """x, an integer of 64 bits, in an integer dtype: where that is shorter, its
    low bits, as arithmetic in it would have them; a cast would saturate."""
    if not is_kind(dtype, "integral") or dtype in ("I64", "U64"):
        return x.to(dtype)
    bits = int(dtype[1:])
    if is_kind(dtype, "unsigned integer"):
        return _ops.bitwise_and(x, 2 ** bits - 1).to(dtype)
    x = _ops.bitwise_left_shift(x.to("I64"), 64 - bits)
    return _ops.bitwise_right_shift(x, 64 - bits).to(dtype)


def can_cast(from_, to, /):
    """Does promotion lead from the one to the other?"""
    have, to = dtype_of(from_), Dtype(to)
    if have == to:
        return True
    try:
        return _ops.promote_types(have, to) == to
    except ValueError:
        return False


def result_type(*arrays_and_dtypes):
    """The dtype in which arrays, dtypes and Python's numbers meet; arrays without
    dimensions count as any other."""
    met = None
    for what in arrays_and_dtypes:
        if isinstance(what, (bool, int, float)):
            continue
        dtype = dtype_of(what)
        met = dtype if met is None else _ops.promote_types(met, dtype)
    if met is None:
        raise ValueError("result_type: an array or a dtype is wanted")
    numbers = [type(n) for n in arrays_and_dtypes
               if isinstance(n, (bool, int, float))]
    if float in numbers and not is_kind(met, "real floating"):
        return Dtype("F32")
    return Dtype("I64") if int in numbers and met == "BOOL" else met


def meet(*operands):
    """The operands, so that the operations promote them as the standard does:
    there an array without dimensions counts as any other."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        raise TypeError("an array is wanted among the operands, not "
                        f"{', '.join(map(repr, operands))}")
    ranks = {min(x.ndim, 1) for x in tensors}
    if len(ranks) == 1 or len({x.dtype for x in tensors}) == 1:
        return operands
    dtype = result_type(*operands)
    return tuple(x.to(dtype) if isinstance(x, Tensor) else x
                 for x in operands)


@dataclasses.dataclass
class finfo_object:
    """What a dtype of floats holds."""
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


@dataclasses.dataclass
class iinfo_object:
    """What a dtype of integers holds."""
    bits: int
    max: int
    min: int
    dtype: Dtype


def finfo(type, /):
    """bits, eps, max, min and smallest_normal of a dtype of floats, or of an
    array's."""
    dtype = dtype_of(type)
    if dtype not in FLOATS:
        raise ValueError(f"finfo: {dtype} is no dtype of floats")
    bits, digits, exponent = FLOATS[dtype]
    most = (2. - 2. ** -digits) * 2. ** exponent
    return finfo_object(bits, 2. ** -digits, most, -most,
                        2. ** (1 - exponent), dtype)


def iinfo(type, /):
    """bits, max and min of a dtype of integers, or of an array's."""
    dtype = dtype_of(type)
    if not is_kind(dtype, "integral"):
        raise ValueError(f"iinfo: {dtype} is no dtype of integers")
    bits = int(dtype[1:])
    if dtype in KINDS["unsigned integer"]:
        return iinfo_object(bits, 2 ** bits - 1, 0, dtype)
    return iinfo_object(bits, 2 ** (bits - 1) - 1, -2 ** (bits - 1), dtype)


def astype(x, dtype, /, *, copy=True, device=None):
    """The same values in another dtype; copy=False: itself, if it is that."""
    if device is not None:
        x = x.to(device)
    return x.astype(dtype, copy=copy)


class Info:
    """What __array_namespace_info__ tells."""

    def capabilities(self):
        """What arrays of this namespace can be."""
        return {"boolean indexing": True, "data-dependent shapes": True,
                "max dimensions": 12}

    def default_device(self):
        """Where arrays are created."""
        return "cpu"

    def devices(self):
        """Where operations compute."""
        return ["cpu"]

    def default_dtypes(self, *, device=None):
        """The dtypes of arrays that are created without one."""
        return {"real floating": Dtype("F32"), "integral": Dtype("I64"),
                "indexing": Dtype("I64")}

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes, of a kind or of several."""
        names = {n: Dtype(d) for n, d in NAMES.items()
                 if d not in ("F16", "BF16")}
        if kind is None:
            return names
        return {n: d for n, d in names.items() if isdtype(d, kind)}


def __array_namespace_info__():
    """Asks for dtypes, devices and capabilities."""
    return Info()
