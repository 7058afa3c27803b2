# SPDX-License-Identifier: MIT
from typing import Any, TypeVar

from torch.utils.data import DataLoader as _DataLoader

from .._store import Store

_T = TypeVar("_T", covariant=True)
_Loader = TypeVar("_Loader")

class DataLoader(_DataLoader[_T]):
    store: Store | None
    slot_bytes: int | None
    def __init__(self, *args: Any, store: Store | None = None,
                 slot_bytes: int | None = None, **keywords: Any) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...

def adopt(loader: _Loader, *, store: Store | None = None,
          slot_bytes: int | None = None) -> _Loader: ...
