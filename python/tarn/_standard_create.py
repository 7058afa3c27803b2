# SPDX-License-Identifier: MIT
"""Functions of tarn.array_api that create arrays."""
import math

from . import _conversions, _ops, _tarn
from ._tarn import Dtype, Tensor


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """A Tensor of a number, nested lists, or another array, whose memory it
    shares if it can and copy is not True; copy=False: or it is an error."""
    if isinstance(obj, (bool, int, float, complex, list, tuple)):
        if copy is False:
            raise ValueError("asarray: copy=False, but Python's numbers "
                             "are copied")
        return _tarn.tensor(obj, dtype, device)
    t = obj if isinstance(obj, Tensor) else _conversions.to_tensor(obj)
    made = t if dtype is None else t.to(dtype)
    if device is not None:
        made = made.to(device)
    if copy is False and made is not t:
        raise ValueError("asarray: copy=False, but another dtype or device "
                         "needs a copy")
    return made.clone() if copy and made is t else made


def _wrapped(number):
    """As the I64 of the same bits."""
    return (number + 2 ** 63) % 2 ** 64 - 2 ** 63


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Numbers from start on, step apart, below stop; or from 0 on, below
    start."""
    if stop is None:
        start, stop = 0, start
    if not step:
        raise ValueError("arange: a step of 0")
    if all(isinstance(n, int) for n in (start, stop, step)):
        # Exact, of as many bits as there are.
        count = max(0, -((start - stop) // step))
        numbers = _ops.add(_ops.mul(_tarn.arange(count), _wrapped(step)),
                           _wrapped(start))
        dtype = Dtype("I64" if dtype is None else dtype)
        if dtype == "U64":
            numbers = numbers.bitcast("U64")
    else:
        count = max(0, math.ceil((stop - start) / step))
        numbers = _tarn.arange(0, count, 1, "F64") * float(step) + float(start)
        dtype = "F32" if dtype is None else dtype
    return numbers.to(dtype).to(device or "cpu")


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers, equally far apart, from start to stop, which is the last one
    with endpoint."""
    if num < 0:
        raise ValueError(f"linspace: {num} numbers")
    numbers = _tarn.arange(0, num, 1, "F64")
    parts = num - 1 if endpoint else num
    if parts > 0:
        numbers = numbers * ((stop - start) / parts)
    numbers = numbers + float(start)
    if endpoint and num > 1:
        numbers[-1] = float(stop)
    return numbers.to("F32" if dtype is None else dtype).to(device or "cpu")


def empty(shape, *, dtype=None, device=None):
    """Elements of any values."""
    return _tarn.empty(shape, dtype or "F32", device)


def zeros(shape, *, dtype=None, device=None):
    """Elements that are 0."""
    return _tarn.zeros(shape, dtype or "F32", device)


def ones(shape, *, dtype=None, device=None):
    """Elements that are 1."""
    return _tarn.ones(shape, dtype or "F32", device)


def full(shape, fill_value, *, dtype=None, device=None):
    """Elements that are one number."""
    return _tarn.full(shape, fill_value, dtype, device)


def empty_like(x, /, *, dtype=None, device=None):
    """Of the shape of x, elements of any values."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Of the shape of x, elements that are 0."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    """Of the shape of x, elements that are 1."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """Of the shape of x, elements that are one number."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype,
                device=device or x.device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with 1 on the k-th diagonal, 0 elsewhere."""
    made = zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype)
    made.diagonal(k)[...] = 1
    return made.to(device or "cpu")


def from_dlpack(x, /, *, device=None, copy=None):
    """Another library's array, by DLPack."""
    return _tarn.from_dlpack(x, device=device, copy=copy)


def meshgrid(*arrays, indexing="xy"):
    """Grids of coordinates, from one array for each dimension."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid: indexing is "xy" or "ij", not '
                         f"{indexing!r}")
    if len({a.dtype for a in arrays}) > 1:
        raise ValueError("meshgrid: the arrays have several dtypes")
    dims = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        dims[:2] = 1, 0
    shape = [0] * len(arrays)
    for array, dim in zip(arrays, dims):
        shape[dim] = array.size
    return [array.reshape([-1 if i == dim else 1 for i in range(len(arrays))])
            .expand(shape).clone() for array, dim in zip(arrays, dims)]


def tril(x, /, *, k=0):
    """Of matrices what lies up to the k-th diagonal; the rest is 0."""
    return _ops.tril(x, k)


def triu(x, /, *, k=0):
    """Of matrices what lies from the k-th diagonal on; the rest is 0."""
    return _ops.triu(x, k)
