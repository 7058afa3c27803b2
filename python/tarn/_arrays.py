# SPDX-License-Identifier: MIT
"""Arrays of other libraries, which are imported only when they are asked for.

numpy has no BF16 and no F8. Their bits go out as unsigned integers, in a dtype
that carries the name as metadata; such a dtype, and those of ml_dtypes, come
in as what they are.
"""
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


def real_dtype(array):
    """The name that a dtype goes by, where its bytes do not tell; or None."""
    dtype = getattr(array, "dtype", None)
    metadata = getattr(dtype, "metadata", None)
    if metadata and "tarn" in metadata:
        return metadata["tarn"]
    if getattr(dtype, "kind", None) == "V":  # so are those of ml_dtypes
        return dtype.name
    return None


def to_tensor(source, dtype=None):
    """A tensor over the source's bytes; dtype reinterprets them."""
    if isinstance(source, _tarn.Tensor):
        t = source
    else:
        name = real_dtype(source)
        if name is not None:
            dtype = name if dtype is None else dtype
            source = source.view(f"<u{source.dtype.itemsize}")
        t = _tarn._borrow(source)
    return t if dtype is None else t.bitcast(dtype)
