# SPDX-License-Identifier: MIT
"""Files of tensors as PyTorch's users know them from safetensors.torch: the
same calls, and one disk read for all processes of a machine."""
import torch

from .._store import load, save


def load_file(filename, device="cpu"):
    """The tensors of a file as a dict of PyTorch's, loaded once for all
    processes that ask for it."""
    found = load(filename).torch()
    if torch.device(device).type == "cpu":
        return found
    return {name: t.to(device) for name, t in found.items()}


def save_file(tensors, filename, metadata=None):
    """Saves a dict of PyTorch's tensors as a safetensors file."""
    save(filename, {name: t.detach().cpu() for name, t in tensors.items()},
         metadata)
