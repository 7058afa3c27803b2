# SPDX-License-Identifier: MIT
"""The namespace of the Python array API standard, 2024.12, over tensors.

    xp = x.__array_namespace__()        # or: from tarn import array_api as xp
    y = xp.sum(xp.exp(x), axis=-1, keepdims=True)

For code that is written for any library of arrays. Names, arguments and results
are the standard's, where those of tarn.ops are PyTorch's: here sort() gives
values alone, var() divides by the number of elements, take() goes along an axis,
sums of unsigned integers are unsigned, and an array without dimensions raises the
dtype of those beside it. Operators of tensors stay PyTorch's: there it does not.

The default dtypes are float32 and int64. float16 and bfloat16 are there too.
Complex numbers, linalg and fft are not; and x[0] of one dimension is a number of
Python, as of all tensors. Arrays on a device must come to the host:
to_device("cpu").
"""
import math as _math

from . import (_standard_create, _standard_dtypes, _standard_elements,
               _standard_places, _standard_reduce)
from ._tarn import Dtype as _Dtype

__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

e = _math.e
pi = _math.pi
inf = _math.inf
nan = _math.nan
newaxis = None
globals().update({_n: _Dtype(_d) for _n, _d in _standard_dtypes.NAMES.items()})

_FUNCTIONS = {
    _standard_create: (
        "arange asarray empty empty_like eye from_dlpack full full_like "
        "linspace meshgrid ones ones_like tril triu zeros zeros_like"),
    _standard_dtypes: (
        "__array_namespace_info__ astype can_cast finfo iinfo isdtype "
        "result_type"),
    _standard_elements: " ".join([
        *_standard_elements.UNARY, *_standard_elements.BINARY,
        "clip conj imag matmul matrix_transpose positive pow real remainder "
        "tensordot vecdot where"]),
    _standard_places: (
        "broadcast_arrays broadcast_to concat expand_dims flip moveaxis "
        "permute_dims repeat reshape roll squeeze stack take take_along_axis "
        "tile unstack"),
    _standard_reduce: (
        "all any argmax argmin argsort count_nonzero cumulative_prod "
        "cumulative_sum diff max mean min nonzero prod searchsorted sort std "
        "sum unique_all unique_counts unique_inverse unique_values var"),
}
__all__ = sorted(["e", "inf", "nan", "newaxis", "pi",
                  *_standard_dtypes.NAMES])
for _module, _names in _FUNCTIONS.items():
    for _n in _names.split():
        globals()[_n] = getattr(_module, _n)
        if not _n.startswith("_"):
            __all__.append(_n)
__all__.sort()


def _namespace(api_version):
    """This module, which Tensor.__array_namespace__ gives."""
    import sys

    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"__array_namespace__: version {api_version!r}; "
                         f"{', '.join(_VERSIONS)} are possible")
    return sys.modules[__name__]


def __getattr__(name):
    """A dtype by tarn's name too: it is a str, and some look it up by that."""
    if name in _standard_dtypes.NAMES.values():
        return _Dtype(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, "__array_api_version__", "__array_namespace_info__"]
