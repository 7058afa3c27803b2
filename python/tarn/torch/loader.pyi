# SPDX-License-Identifier: MIT
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import Generator, device as Device
from torch.utils.data import DataLoader as _DataLoader, Dataset, Sampler

from .._store import Store

_T = TypeVar("_T", covariant=True)
_Loader = TypeVar("_Loader")

class DataLoader(_DataLoader[_T]):
    store: Store | None
    slot_bytes: int | None
    device: Device | None
    def __init__(self, dataset: Dataset[_T], batch_size: int | None = 1,
                 shuffle: bool | None = None,
                 sampler: Sampler[Any] | Iterable[Any] | None = None,
                 batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None
                 = None, num_workers: int = 0,
                 collate_fn: Callable[[list[Any]], Any] | None = None,
                 pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0,
                 worker_init_fn: Callable[[int], None] | None = None,
                 multiprocessing_context: Any = None,
                 generator: Generator | None = None, *,
                 prefetch_factor: int | None = None,
                 persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True,
                 store: Store | None = None, slot_bytes: int | None = None,
                 device: str | int | Device | None = None) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...

def adopt(loader: _Loader, *, store: Store | None = None,
          slot_bytes: int | None = None,
          device: str | int | Device | None = None) -> _Loader: ...
