# SPDX-License-Identifier: MIT
from torch import Tensor

from .._store import Store

class Shared(Tensor): ...

def share(tensor: Tensor, name: str | None = None, *,
          store: Store | None = None) -> Tensor: ...
