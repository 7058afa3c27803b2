# SPDX-License-Identifier: MIT
"""tarn for PyTorch, which is imported only here.

    from tarn.torch import load_file, save_file   # as of safetensors.torch
    net.load_state_dict(load_file("m.safetensors"))

    from tarn.torch import DataLoader   # the only changed line
    for batch in DataLoader(dataset, 256, num_workers=16): ...

    load_file("m.safetensors", device="cuda:0")   # straight to a GPU; and
    DataLoader(dataset, 256, num_workers=16, device="cuda:0")

    Batches(tokens, 512)   # of a tarn.data.Dataset, for PyTorch's own loaders

    from tarn.torch.dcp import TarnReader, TarnWriter   # of checkpoints, for
    dcp.save(state, checkpoint_id="run/7", storage_writer=TarnWriter())
    from tarn.torch.dcp_folder import FolderWriter   # the same to a folder

    queue.put(tarn.torch.share(x))   # a process that gets it has the same x
"""
from .._safetensors import SafetensorError
from .data import Batches
from .files import (load, load_file, load_model, save, save_file, save_model)
from .loader import DataLoader, adopt
from .shared import share

__all__ = ["Batches", "DataLoader", "SafetensorError", "adopt", "load", "load_file",
           "load_model", "save", "save_file", "save_model", "share"]
