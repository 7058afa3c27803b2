# SPDX-License-Identifier: MIT
"""Functions of tarn.array_api from element to element, and products."""
import math

from . import _ops
from ._standard_dtypes import is_kind, meet, result_type, wrapped
from ._tarn import Tensor, zeros

# The standard's names, and those of the operations.
UNARY = {n: n for n in (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor "
    "isfinite isinf isnan log log10 log1p log2 logical_not reciprocal round "
    "sign signbit sin sinh sqrt square tan tanh trunc").split()}
UNARY.update(bitwise_invert="bitwise_not", negative="neg")
BINARY = {n: n for n in (
    "atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift "
    "bitwise_xor copysign floor_divide hypot logaddexp logical_and logical_or "
    "logical_xor maximum minimum nextafter").split()}
BINARY.update(add="add", divide="div", equal="eq", greater="gt",
              greater_equal="ge", less="lt", less_equal="le", multiply="mul",
              not_equal="ne", subtract="sub")


def _described(function, name, operation):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = operation.__doc__
    return function


def _unary(name, of):
    operation = getattr(_ops, of)

    def function(x, /):
        return operation(x)
    return _described(function, name, operation)


def _binary(name, of):
    operation = getattr(_ops, of)

    def function(x1, x2, /):
        return operation(*meet(x1, x2))
    return _described(function, name, operation)


globals().update({n: _unary(n, of) for n, of in UNARY.items()})
globals().update({n: _binary(n, of) for n, of in BINARY.items()})


def remainder(x1, x2, /):
    """x1 % x2, with the sign of x2, also where it is 0."""
    x1, x2 = meet(x1, x2)
    rest = _ops.remainder(x1, x2)
    if not is_kind(rest.dtype, "real floating"):
        return rest
    return _ops.where(_ops.eq(rest, 0), _ops.copysign(rest, x2), rest)


def pow(x1, x2, /):
    """x1 ** x2."""
    x1, x2 = meet(x1, x2)
    if isinstance(x2, float):
        # A number may be a root, of which PyTorch has other special cases.
        x2 = zeros((), result_type(x1, x2)) + x2
    return _ops.pow(x1, x2)


def positive(x, /):
    """A copy."""
    return x.clone()


def conj(x, /):
    """Itself: numbers here are real."""
    return x


def real(x, /):
    """Itself: numbers here are real."""
    return x


def imag(x, /):
    """Zeros: numbers here are real."""
    return zeros(x.shape, x.dtype)


def clip(x, /, min=None, max=None):
    """No less than min and no more than max; NaN if one is NaN."""
    y = x
    for bound, operation in ((min, _ops.maximum), (max, _ops.minimum)):
        if bound is not None:
            y = operation(*meet(y, bound))
    return x.clone() if y is x else y.to(x.dtype)


def where(condition, x1, x2, /):
    """x1 where the condition (bool) is true, else x2."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        dtype = result_type(zeros((), "BOOL"), x1, x2)
        return _ops.where(condition, x1, zeros((), dtype) + x2 if
                          dtype != "BOOL" else zeros((), dtype) | x2)
    return _ops.where(condition, *meet(x1, x2))


# ---- products ----

def matmul(x1, x2, /):
    """The product of matrices, of stacks of them, and of vectors."""
    return _ops.matmul(x1, x2)


def matrix_transpose(x, /):
    """The last two dimensions, exchanged."""
    return x.mT


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of the products of elements along an axis, the last ones of both."""
    x1, x2 = meet(x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: {x1.shape[axis]} and {x2.shape[axis]} "
                         f"elements along the axis {axis}")
    products = _ops.mul(x1, x2)
    return wrapped(_ops.sum(products, axis), products.dtype)


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over several axes of both: as many, or two lists."""
    if isinstance(axes, int):
        first = list(range(x1.ndim - axes, x1.ndim))
        second = list(range(axes))
    else:
        first = [a % x1.ndim for a in axes[0]]
        second = [a % x2.ndim for a in axes[1]]
    if [x1.shape[a] for a in first] != [x2.shape[a] for a in second]:
        raise ValueError(f"tensordot: axes {first} of {list(x1.shape)}, and "
                         f"{second} of {list(x2.shape)}")
    rows = [a for a in range(x1.ndim) if a not in first]
    columns = [a for a in range(x2.ndim) if a not in second]
    height, width = [x1.shape[a] for a in rows], [x2.shape[a] for a in columns]
    depth = math.prod(x1.shape[a] for a in first)
    left = x1.permute(rows + first).reshape((math.prod(height), depth))
    right = x2.permute(second + columns).reshape((depth, math.prod(width)))
    return _ops.matmul(left, right).reshape(height + width)
