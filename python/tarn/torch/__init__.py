# SPDX-License-Identifier: MIT
"""tarn for PyTorch, which is imported only here.

    from tarn.torch import load_file, save_file   # as of safetensors.torch
    net.load_state_dict(load_file("m.safetensors"))

    queue.put(tarn.torch.share(x))   # a process that gets it has the same x
"""
from .files import load, load_file, save_file
from .shared import share

__all__ = ["load", "load_file", "save_file", "share"]
