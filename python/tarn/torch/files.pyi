# SPDX-License-Identifier: MIT
from os import PathLike
from typing import Literal, TypeAlias

from torch import Tensor, device as Device
from torch.distributed import ProcessGroup
from torch.nn import Module

from .._saving import Saving
from .._store import Store, _Views

_Path: TypeAlias = str | PathLike[str]

_Backend: TypeAlias = Literal["mmap", "pread"]

def load_file(filename: _Path, device: str | int | Device = "cpu", *,
              backend: _Backend = "mmap", views: _Views | None = None,
              via: Literal["file", "host"] = "file",
              group: ProcessGroup | None = None, name: str | None = None,
              node: str | None = None, store: Store | None = None,
              timeout: float = 300) -> dict[str, Tensor]: ...
def load(data: bytes, device: str | int | Device = "cpu"
         ) -> dict[str, Tensor]: ...
def save_file(tensors: dict[str, Tensor], filename: _Path,
              metadata: dict[str, str] | None = None, *,
              background: bool = False, shard_bytes: int | None = None
              ) -> Saving | None: ...
def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
         ) -> bytes: ...
def save_model(model: Module, filename: _Path,
               metadata: dict[str, str] | None = None,
               force_contiguous: bool = True) -> None: ...
def load_model(model: Module, filename: _Path, strict: bool = True,
               device: str | int | Device = "cpu", *,
               backend: _Backend = "mmap") -> tuple[set[str], list[str]]: ...
