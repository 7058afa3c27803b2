# SPDX-License-Identifier: MIT
"""Arrays of other libraries, which are imported only when they are asked for.

numpy has no BF16, F8, F6 and F4. Where ml_dtypes is installed, BF16 and F8 are
its dtypes; without it, an array over such bytes would be of other numbers, and
there is none.
"""
import contextlib
import sys

from . import _tarn

# What ml_dtypes calls the dtypes that numpy has not, and the integers of their
# bits. (It has F6 and F4 too, but in a byte each.)
ML = {"BF16": ("bfloat16", "U16"), "F8_E5M2": ("float8_e5m2", "U8"),
      "F8_E4M3": ("float8_e4m3fn", "U8"), "F8_E8M0": ("float8_e8m0fnu", "U8"),
      "F8_E4M3FNUZ": ("float8_e4m3fnuz", "U8"),
      "F8_E5M2FNUZ": ("float8_e5m2fnuz", "U8")}


OURS = {theirs: name for name, (theirs, _) in ML.items()}
PACKED = {"float6_e2m3fn": "F6_E2M3", "float6_e3m2fn": "F6_E3M2",
          "float4_e2m1fn": "F4"}


def ml_dtype(name):
    """The dtype of ml_dtypes for one of ours, or None."""
    if name not in ML:
        return None
    try:
        import ml_dtypes
        import numpy
    except ImportError:
        return None
    theirs = getattr(ml_dtypes, ML[name][0], None)
    return theirs and numpy.dtype(theirs)


def has_arrow(source):
    """Is it something in Arrow's memory: a table, a batch, a frame?"""
    return hasattr(source, "__arrow_c_array__") or \
        hasattr(source, "__arrow_c_stream__")


def _no_numpy(t):
    bits = ML[t.dtype][1] if t.dtype in ML else "U8"
    hint = "" if t.itemsize < 1 else ", or install ml_dtypes"
    return TypeError(f"numpy has no {t.dtype}; use .to(\"F32\").numpy() for "
                     f"the values, .bitcast(\"{bits}\").numpy() for their "
                     f"bits, .torch(){hint}")


def to_numpy(t):
    import numpy

    if t.storage_kind == "device":
        raise TypeError(f"numpy has no arrays on {t.device}; use "
                        ".cpu().numpy()")
    theirs = None
    if t.dtype in ML or t.itemsize < 1:
        theirs = ml_dtype(t.dtype)
        if theirs is None:
            raise _no_numpy(t)
    if t.storage_kind == "file":
        t = t.clone()
    if theirs is not None:
        return numpy.asarray(t.bitcast(ML[t.dtype][1])).view(theirs)
    return numpy.asarray(memoryview(t))


def to_array(t, dtype, copy):
    """numpy's protocol: what asarray and array make of a Tensor."""
    array = to_numpy(t)
    same = dtype is None or array.dtype == dtype
    if copy is False and not (same and t.storage_kind != "file"):
        raise ValueError("__array__: copy=False, but "
                         f"{'another dtype' if not same else 'a file'} "
                         "needs a copy")
    if not same:
        return array.astype(dtype)
    return array.copy() if copy and t.storage_kind != "file" else array


def to_private_numpy(t):
    return to_numpy(t.cow())


# How PyTorch calls what DLPack does not carry to all its versions, and the
# integers of the same size as which it travels.
TORCH = {"U16": ("uint16", "I16"), "U32": ("uint32", "I32"),
         "U64": ("uint64", "I64"), "F8_E4M3": ("float8_e4m3fn", "U8"),
         "F8_E5M2": ("float8_e5m2", "U8"), "F8_E8M0": ("float8_e8m0fnu", "U8"),
         "F8_E4M3FNUZ": ("float8_e4m3fnuz", "U8"),
         "F8_E5M2FNUZ": ("float8_e5m2fnuz", "U8"), "BOOL": ("bool", "U8"),
         # Two elements a byte: the last dimension is half as long there.
         "F4": ("float4_e2m1fn_x2", "U8")}
CARRIERS = {"U8": "uint8", "I16": "int16", "I32": "int32", "I64": "int64"}


def to_torch(t):
    import torch

    if t.itemsize < 1 and t.dtype not in TORCH:
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
    if t.storage_kind == "device":
        # It has no copy-on-write, and a copy would be another engine's weights
        # once more: PyTorch gets the memory itself.
        if not torch.cuda.is_available():
            raise RuntimeError(f"torch: the tensor is on {t.device}, and this "
                               "PyTorch has no CUDA; use .cpu().torch()")
    elif t.readonly:
        # PyTorch has no read-only tensors: it would crash where it wrote to
        # one.
        t = t.cow()
    if name is None:
        return torch.from_dlpack(t)
    return torch.from_dlpack(t.bitcast(carrier)).view(dtype)


def each(tensors, convert):
    """All of a mapping as a dict; an error names what cannot be converted."""
    found = {}
    for name, t in tensors.items():
        try:
            found[name] = convert(t)
        except TypeError as e:
            raise TypeError(f"{name}: {e}") from None
        except ValueError as e:
            raise ValueError(f"{name}: {e}") from None
    return found


def real_dtype(array):
    """What a dtype of ml_dtypes is here, or None: it is another kind."""
    theirs = getattr(getattr(array, "dtype", None), "name", None)
    if theirs in PACKED:
        raise ValueError(f"from_numpy: numpy has {theirs} in a byte each, tarn "
                         f"packs {PACKED[theirs]}; use tarn.tensor("
                         f"array.astype(\"f4\"), \"{PACKED[theirs]}\")")
    return OURS.get(theirs)


def from_torch(source, torch):
    """Its bytes, as what it is: DLPack takes no tensor that has a gradient,
    and not all dtypes from all versions. A sign or a conjugation that is only
    noted is in no bytes, and DLPack would lose it: such a tensor is copied."""
    source = source.detach().resolve_neg()
    if source.is_complex():
        source = source.resolve_conj()
    # PyTorch exports tensors of its current device alone.
    with torch.cuda.device(source.device) if source.is_cuda else \
            contextlib.nullcontext():
        return _borrow_torch(source, torch)


def _borrow_torch(source, torch):
    for name, (theirs, carrier) in TORCH.items():
        if source.dtype == getattr(torch, theirs, None):
            carrier = getattr(torch, CARRIERS[carrier])
            return _tarn.from_dlpack(source.view(carrier)).bitcast(name)
    return _tarn.from_dlpack(source)


def torch_layout(source):
    """The name of a PyTorch tensor's dtype here, and its shape, wherever it is."""
    import torch

    name = from_torch(torch.empty((0,), dtype=source.dtype), torch).dtype
    shape = list(source.shape)
    if name == "F4":
        shape[-1] *= 2  # PyTorch has them in pairs
    return name, shape


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
