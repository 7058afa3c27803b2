# SPDX-License-Identifier: MIT
"""Operations on tensors, in C, with PyTorch's names and meanings.

    from tarn import ops

    y = ops.softmax(x @ w + b, dim=-1)      # operators and methods: x.exp()
    ops.add(a, b, out=slot)                 # written there: a view, an operand,
                                            # a channel's slot

All of them are methods of Tensor too, but for cat, stack and random numbers:

    x = ops.normal(shape=(2, 3), seed=1)    # the same for any number of threads

Arrays of numpy and PyTorch, and nested lists, are operands as they are. out= is a
Tensor that gets the result in place of a new one. Dtypes meet as PyTorch's do;
F16 and BF16 are computed in F32. One call uses several threads where that pays:
set_threads().

Importing this loads no BLAS; the first product of floats does. man tarn-ops
lists all of them with their shapes and dtypes. tarn.array_api has the names
of the Python array API standard.
"""
import importlib.util
import os

_ops = importlib.import_module(f"{__package__}._ops")


def _find_blas():
    """pip's OpenBLAS, which tarn[ops] brings along, where tarn was built without
    one. The environment tells it to libtarnops, and to children."""
    if _ops._blas or os.environ.get("TARN_BLAS"):
        return
    found = importlib.util.find_spec("scipy_openblas32")
    for folder in found and found.submodule_search_locations or ():
        path = os.path.join(folder, "lib", "libscipy_openblas.so")
        if os.path.exists(path):
            os.environ["TARN_BLAS"] = path


_find_blas()
__all__ = sorted(_n for _n in dir(_ops) if not _n.startswith("_"))
globals().update({_n: getattr(_ops, _n) for _n in __all__})


def __dir__():
    return __all__
