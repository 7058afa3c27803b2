# SPDX-License-Identifier: MIT
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult
from typing import Any

from .._store import Store
from .dcp import TarnReader, TarnWriter, _Id

class FolderWriter(TarnWriter):
    def __init__(self, checkpoint_id: _Id | None = None, *,
                 store: Store | None = None, shard_bytes: int | None = None
                 ) -> None: ...
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any,
                              **kwargs: Any) -> None: ...
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]: ...
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]
               ) -> None: ...

class FolderReader(TarnReader):
    def read_metadata(self) -> Metadata: ...
