# SPDX-License-Identifier: MIT
from collections.abc import Mapping
from typing import Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data.replay_buffers import storages, writers

from ._store import Store

def create(name: str, example: TensorDictBase | Mapping[str, Any] | Any,
           length: int, *, store: Store | None = None) -> TensorDict: ...
def open(name: str,
         example: TensorDictBase | Mapping[str, Any] | Any | None = None,
         length: int | None = None, *, store: Store | None = None
         ) -> TensorDict: ...

class Storage(storages.TensorStorage):
    def __init__(self, max_size: int, name: str, *,
                 example: TensorDictBase | Mapping[str, Any] | Any | None = None,
                 store: Store | None = None) -> None: ...
    @property
    def store(self) -> Store: ...
    @property
    def name(self) -> str: ...
    def append(self, data: TensorDictBase) -> Tensor: ...
    def set(self, cursor: Any, data: TensorDictBase | list[TensorDictBase], *,
            set_cursor: bool = True) -> None: ...
    def get(self, index: Any) -> Any: ...

class Writer(writers.TensorDictRoundRobinWriter): ...
