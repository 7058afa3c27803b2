# SPDX-License-Identifier: MIT
"""Arrays of other libraries, which are imported only when they are asked for.

numpy has no BF16 and no F8. Their bits go out as unsigned integers, in a dtype
that carries the name as metadata; such a dtype, and those of ml_dtypes, come
in as what they are.
"""
import sys

from . import _tarn

# Dtypes whose elements numpy can only hold as integers of their size.
RAW = {"BF16": "<u2", "F8_E5M2": "|u1", "F8_E4M3": "|u1", "F8_E8M0": "|u1",
       "F8_E4M3FNUZ": "|u1", "F8_E5M2FNUZ": "|u1"}


def to_numpy(t):
    import numpy

    if t.storage_kind == "file":
        t = t.clone()
    array = numpy.asarray(t)
    if t.dtype in RAW:
        array = array.view(numpy.dtype(RAW[t.dtype],
                                       metadata={"tarn": t.dtype}))
    return array


def to_private_numpy(t):
    return to_numpy(t.private())


# How PyTorch calls what DLPack does not carry to all its versions, and the
# integers of the same size as which it travels.
TORCH = {"U16": ("uint16", "I16"), "U32": ("uint32", "I32"),
         "U64": ("uint64", "I64"), "F8_E4M3": ("float8_e4m3fn", "U8"),
         "F8_E5M2": ("float8_e5m2", "U8"), "F8_E8M0": ("float8_e8m0fnu", "U8"),
         "F8_E4M3FNUZ": ("float8_e4m3fnuz", "U8"),
         "F8_E5M2FNUZ": ("float8_e5m2fnuz", "U8"), "BOOL": ("bool", "U8")}
CARRIERS = {"U8": "uint8", "I16": "int16", "I32": "int32", "I64": "int64"}


def to_torch(t):
    import torch

    if t.itemsize < 1:
        raise ValueError(f"torch: PyTorch has no {t.dtype}; use "
                         ".bitcast(\"U8\") for its bits, or .to(\"F32\")")
    if any(n > 1 and s < 0 for n, s in zip(t.shape, t.strides)):
        raise ValueError(f"torch: PyTorch has no negative strides {t.strides};"
                         " use .contiguous().torch()")
    name, carrier = TORCH.get(t.dtype, (None, None))
    dtype = name and getattr(torch, name, None)
    if name and dtype is None:
        raise ValueError(f"torch: PyTorch {torch.__version__} has no {name} "
                         f"for {t.dtype}; use .bitcast(\"{carrier}\") for its "
                         "bits, or .to()")
    # PyTorch has no read-only tensors: it would crash where it wrote to one.
    if t.readonly:
        t = t.private()
    if name is None:
        return torch.from_dlpack(t)
    return torch.from_dlpack(t.bitcast(carrier)).view(dtype)


def each(tensors, convert):
    """All of a mapping as a dict; who cannot be converted is named."""
    found = {}
    for name, t in tensors.items():
        try:
            found[name] = convert(t)
        except ValueError as e:
            raise ValueError(f"{name}: {e}") from None
    return found


def real_dtype(array):
    """The name that a dtype goes by, where its bytes do not tell; or None."""
    dtype = getattr(array, "dtype", None)
    metadata = getattr(dtype, "metadata", None)
    if metadata and "tarn" in metadata:
        return metadata["tarn"]
    if getattr(dtype, "kind", None) == "V":  # so are those of ml_dtypes
        return dtype.name
    return None


def from_torch(source, torch):
    """Its bytes, as what it is: DLPack takes no tensor that has a gradient,
    and not all dtypes from all versions. A sign or a conjugation that is only
    noted is in no bytes, and DLPack would lose it: such a tensor is copied."""
    source = source.detach().resolve_neg()
    if source.is_complex():
        source = source.resolve_conj()
    for name, (theirs, carrier) in TORCH.items():
        if source.dtype == getattr(torch, theirs, None):
            carrier = getattr(torch, CARRIERS[carrier])
            return _tarn.from_dlpack(source.view(carrier)).bitcast(name)
    return _tarn.from_dlpack(source)


def borrow(source):
    """PyTorch's tensors have no buffers, and DLPack has more dtypes."""
    torch = sys.modules.get("torch")
    if torch and isinstance(source, getattr(torch, "Tensor", ())):
        return from_torch(source, torch)
    if hasattr(source, "__dlpack__") and \
            not hasattr(source, "__array_interface__"):
        return _tarn.from_dlpack(source)
    return _tarn._borrow(source)


def to_tensor(source, dtype=None):
    """A tensor over the source's bytes; dtype reinterprets them."""
    if isinstance(source, _tarn.Tensor):
        t = source
    else:
        name = real_dtype(source)
        if name is not None:
            dtype = name if dtype is None else dtype
            source = source.view(f"<u{source.dtype.itemsize}")
        t = borrow(source)
    return t if dtype is None else t.bitcast(dtype)
