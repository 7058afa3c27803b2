# SPDX-License-Identifier: MIT
from typing import Any

from ._tarn import (DType, NotFoundError as NotFoundError, Tensor as Tensor,
                    __version__ as __version__, arange as arange,
                    dtypes as dtypes, equal as equal, full as full,
                    ones as ones, same_storage as same_storage,
                    tensor as tensor, view as view, zeros as zeros)

def from_numpy(array: Any, dtype: DType | None = None) -> Tensor: ...
