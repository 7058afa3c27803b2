# SPDX-License-Identifier: MIT
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy

from ._safetensors import SafetensorError as SafetensorError

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Arrays: TypeAlias = dict[str, numpy.ndarray[Any, Any]]

def load_file(filename: _Path, *, backend: Literal["mmap", "pread"] = "mmap"
              ) -> _Arrays: ...
def load(data: bytes) -> _Arrays: ...
def save_file(tensor_dict: _Arrays, filename: _Path,
              metadata: dict[str, str] | None = None) -> None: ...
def save(tensor_dict: _Arrays, metadata: dict[str, str] | None = None
         ) -> bytes: ...
