# SPDX-License-Identifier: MIT
"""Functions of tarn.array_api that reduce arrays, search and sort them."""
import collections

from . import _ops
from ._standard_dtypes import is_kind, wrapped
from ._standard_places import axis_of, concat
from ._tarn import Dtype, full, ones, zeros


def _reduce(operation, x, axis, keepdims):
    """An empty tuple reduces nothing: a dimension of 1 behind the others."""
    if axis == ():
        return operation(x.unsqueeze(x.ndim), dim=-1)
    if axis is not None:
        axes = axis if isinstance(axis, tuple) else (axis,)
        axis = tuple(axis_of("reduction", a, x.ndim) for a in axes)
    return operation(x, dim=axis, keepdim=keepdims)


def _wide(x, dtype):
    """x in the dtype in which it is added up, and that of the result."""
    if dtype is not None:
        return x.to(dtype), Dtype(dtype)
    if is_kind(x.dtype, "real floating"):
        return x, x.dtype
    if is_kind(x.dtype, "unsigned integer"):
        return x.to("U64"), Dtype("U64")
    return x, Dtype("I64")


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum; of integers in 64 bits."""
    x, dtype = _wide(x, dtype)
    return wrapped(_reduce(_ops.sum, x, axis, keepdims), dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product; of integers in 64 bits."""
    x, dtype = _wide(x, dtype)
    return wrapped(_reduce(_ops.prod, x, axis, keepdims), dtype)


def mean(x, /, *, axis=None, keepdims=False):
    """The mean, of floats."""
    return _reduce(_ops.mean, x, axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance, of floats."""
    return _reduce(lambda x, **to: _ops.var(x, correction=correction, **to),
                   x, axis, keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation, of floats."""
    return _reduce(lambda x, **to: _ops.std(x, correction=correction, **to),
                   x, axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    """The largest."""
    return _reduce(_ops.amax, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The least."""
    return _reduce(_ops.amin, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Is one not 0?"""
    return _reduce(_ops.any, x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Is none 0?"""
    return _reduce(_ops.all, x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many are not 0."""
    return sum(_ops.ne(x, 0), axis=axis, keepdims=keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    """The place of the first largest one; along an axis, or of all."""
    return _ops.argmax(x, dim=axis, keepdim=keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The place of the first least one; along an axis, or of all."""
    return _ops.argmin(x, dim=axis, keepdim=keepdims)


# ---- up to each element ----

def _cumulative(name, operation, first, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: of {x.ndim} dimensions; which is the "
                             "axis?")
        axis = 0
    axis = axis_of(name, axis, x.ndim)
    x, dtype = _wide(x, dtype)
    result = wrapped(operation(x, dim=axis), dtype)
    if not include_initial:
        return result
    shape = list(x.shape)
    shape[axis] = 1
    return concat((full(shape, first, dtype), result), axis=axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements up to each; with a 0 before them."""
    return _cumulative("cumulative_sum", _ops.cumsum, 0, x, axis, dtype,
                       include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements up to each; with a 1 before them."""
    return _cumulative("cumulative_prod", _ops.cumprod, 1, x, axis, dtype,
                       include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times."""
    axis = axis_of("diff", axis, x.ndim)
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    for _ in range(n):
        size = x.shape[axis] - 1
        if size < 0:
            break
        operation = _ops.ne if x.dtype == "BOOL" else _ops.sub
        x = operation(x.narrow(axis, 1, size), x.narrow(axis, 0, size))
    return x


# ---- searching and sorting ----

def nonzero(x, /):
    """The indices of what is not 0: an array for each dimension."""
    if not x.ndim:
        raise ValueError("nonzero: of an array without dimensions")
    rows = _ops.nonzero(x)
    return tuple(rows.select(1, i).contiguous() for i in range(x.ndim))


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted along an axis, NaN as the largest; equal ones keep their order."""
    return _ops.sort(x, axis_of("sort", axis, x.ndim), descending)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The places that sorted elements had."""
    return _ops.argsort(x, axis_of("argsort", axis, x.ndim), descending)


def _goes_before(a, b, also_equal):
    """NaN is behind all numbers, as sort has it."""
    less = (_ops.le if also_equal else _ops.lt)(a, b)
    if not is_kind(a.dtype, "real floating"):
        return less
    last = _ops.isnan(b)
    if not also_equal:
        last = _ops.logical_and(last, _ops.logical_not(_ops.isnan(a)))
    return _ops.logical_or(less, last)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where the elements of x2 would be put into x1, which is sorted, or which
    sorter sorts: before those that are equal, or (side="right") behind them."""
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side is "left" or "right", not '
                         f"{side!r}")
    if x1.ndim != 1:
        raise ValueError(f"searchsorted: in {x1.ndim} dimensions; one is "
                         "possible")
    if sorter is not None:
        x1 = _ops.take(x1, sorter)
    if x1.dtype != x2.dtype:
        x1, x2 = (x.to(_ops.promote_types(x1.dtype, x2.dtype))
                  for x in (x1, x2))
    low = zeros(x2.shape, "I64")
    high = full(x2.shape, x1.size, "I64")
    for _ in range(x1.size.bit_length()):
        # Where low is high already, what is in the middle does not matter.
        middle = _ops.bitwise_right_shift(_ops.add(low, high), 1)
        found = _ops.take(x1, _ops.clamp(middle, max=x1.size - 1))
        right = _ops.logical_and(_goes_before(found, x2, side == "right"),
                                 _ops.lt(low, high))
        low = _ops.where(right, _ops.add(middle, 1), low)
        high = _ops.where(right, high, middle)
    return low


# ---- sets ----

unique_all_result = collections.namedtuple(
    "unique_all_result", "values indices inverse_indices counts")
unique_counts_result = collections.namedtuple(
    "unique_counts_result", "values counts")
unique_inverse_result = collections.namedtuple(
    "unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
    """The elements without repetitions, sorted, the place of the first of each,
    for each element the place of its value, and how many are equal. NaN equals
    nothing."""
    ordered, places = _ops.sort(x.reshape(-1))
    n = ordered.size
    begins = ones((n,), "BOOL")
    if n > 1:
        begins[1:] = _ops.ne(ordered[1:], ordered[:-1])
    first = _ops.nonzero(begins).reshape(-1)
    number = _ops.sub(_ops.cumsum(begins, 0), 1)
    inverse = zeros((n,), "I64")
    inverse.scatter_(0, places, number)
    ends = concat((first, full((1,), n, "I64")))
    return unique_all_result(
        _ops.take(ordered, first), _ops.take(places, first),
        inverse.reshape(x.shape), _ops.sub(ends[1:], ends[:-1]))


def unique_counts(x, /):
    """The elements without repetitions, and how many are equal."""
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x, /):
    """The elements without repetitions, and for each element the place of its
    value."""
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x, /):
    """The elements without repetitions, sorted."""
    return unique_all(x).values
