# SPDX-License-Identifier: MIT
from collections.abc import Iterable
from typing import Any

from ._channel import (Receiver as Receiver, Sender as Sender,
                       receiver as receiver, sender as sender)
from ._follow import Follow as Follow, Version as Version
from ._install import install as install
from ._safe_open import safe_open as safe_open
from ._saving import Saving as Saving
from ._store import (File as File, Loaded as Loaded,
                     OnDevice as OnDevice, Parts as Parts,
                     Snapshot as Snapshot, Store as Store,
                     default_store as default_store, load as load,
                     open as open, save as save)
from ._tarn import (Channel as Channel, Dtype as Dtype, DtypeLike,
                    Item as Item, NotFoundError as NotFoundError,
                    Refit as Refit, Slot as Slot,
                    Tensor as Tensor,
                    __version__ as __version__, arange as arange,
                    dtypes as dtypes, empty as empty, equal as equal,
                    from_dlpack as from_dlpack, full as full,
                    node_of_device as node_of_device,
                    node_of_pci as node_of_pci, ones as ones, same_storage as same_storage,
                    tensor as tensor, zeros as zeros)

__all__: list[str]

def from_numpy(array: Any, dtype: DtypeLike | None = None) -> Tensor: ...
def from_arrow(source: Any, *, columns: Iterable[str] | None = None) -> Any: ...
