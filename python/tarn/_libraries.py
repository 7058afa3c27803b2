# SPDX-License-Identifier: MIT
"""What packing uses of numpy and PyTorch: asked for once, see libraries.c."""
from . import _tarn
from ._conversions import TORCH, ml_dtype

NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2",
         "F16": "<f2", "U32": "<u4", "I32": "<i4", "F32": "<f4", "C64": "<c8",
         "U64": "<u8", "I64": "<i8", "F64": "<f8"}
# Those that PyTorch has by DLPack in all its versions.
PLAIN = {"U8": "uint8", "I8": "int8", "I16": "int16", "F16": "float16",
         "BF16": "bfloat16", "I32": "int32", "F32": "float32",
         "C64": "complex64", "I64": "int64", "F64": "float64"}


def numpy_parts():
    """The types of arrays and scalars; dtypes in the order of our own."""
    import numpy

    def dtype(name):
        return numpy.dtype(NUMPY[name]) if name in NUMPY else ml_dtype(name)

    return (numpy.ndarray, numpy.generic,
            tuple(dtype(name) for name in _tarn.dtypes))


def torch_parts():
    """The type of tensors, the layout that has strides, what makes a tensor of
    a DLPack capsule, the numbers of dtypes; dtypes in the order of our own, and
    the numbers of those as which they travel."""
    import torch

    # A tensor of F4 is of another shape there, and goes another way.
    names = [TORCH.get(name, (PLAIN.get(name),))[0] if name != "F4" else None
             for name in _tarn.dtypes]
    dtypes = [name and getattr(torch, name, None) for name in names]
    numbers = {_tarn.dtypes[i]: i + 1 for i in range(len(dtypes))}
    return (torch.Tensor, torch.strided,
            getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack),
            {dtype: i + 1 for i, dtype in enumerate(dtypes) if dtype},
            tuple(dtypes),
            tuple(numbers[TORCH[name][1]]
                  if name in TORCH and name != "F4" else 0
                  for name in _tarn.dtypes))
