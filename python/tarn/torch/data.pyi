# SPDX-License-Identifier: MIT
from collections.abc import Callable, Iterator
from typing import Any, Literal

from torch.utils.data import IterableDataset

from .._store import Store
from ..data import Cache, Dataset

class Batches(IterableDataset[Any]):
    dataset: Dataset
    position: int
    def __init__(self, dataset: Dataset, global_batch: int, *,
                 rank: int | None = None, world: int | None = None,
                 from_: int = 0, until: int | None = None,
                 positions: bool = False, segments: bool = False,
                 cu_seqlens: bool = False, document: bool = False,
                 transform: Callable[..., Any] | None = None,
                 per: Literal["batch", "sample"] = "batch",
                 collate: Callable[[list[Any]], Any] | None = None,
                 decode: Callable[[Any], Any] | None = None,
                 cache: Cache | None = None, store: Store | None = None
                 ) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
