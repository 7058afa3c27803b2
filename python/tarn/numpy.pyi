# SPDX-License-Identifier: MIT
from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

def load_file(filename: _Path) -> dict[str, Any]: ...
def save_file(tensor_dict: Mapping[str, Any], filename: _Path,
              metadata: Mapping[str, str] | None = None) -> None: ...
