# SPDX-License-Identifier: MIT
from os import PathLike
from typing import TypeAlias

from torch import Tensor, device as Device

_Path: TypeAlias = str | PathLike[str]

def load_file(filename: _Path, device: str | int | Device = "cpu"
              ) -> dict[str, Tensor]: ...
def load(data: bytes, device: str | int | Device = "cpu"
         ) -> dict[str, Tensor]: ...
def save_file(tensors: dict[str, Tensor], filename: _Path,
              metadata: dict[str, str] | None = None) -> None: ...
