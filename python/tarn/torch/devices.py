# SPDX-License-Identifier: MIT
"""Devices of PyTorch's, and tarn's way to them."""
import functools

import torch

from .. import _conversions, _tarn


def checked(device, what):
    """A torch.device with an index, if it is CUDA's. RuntimeError: this PyTorch
    has no CUDA."""
    device = torch.device(device)
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise RuntimeError(f"{what}: device is {device}, and this PyTorch has "
                           "no CUDA: torch.cuda.is_available() is False")
    if device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


@functools.cache
def is_reached(device):
    """Can tarn put memory there? It may be built without CUDA, and some
    virtual devices have no memory that can be mapped."""
    if device.type != "cuda":
        return False
    try:
        _tarn.empty((1,), "U8", device=str(device))
    except (OSError, ValueError):
        return False
    return True


def dtype_of(name):
    """PyTorch's dtype for one of ours. ValueError: it has none."""
    empty = _tarn.empty((0, 2), name)
    return _conversions.to_torch(empty).dtype


def take(t, device):
    """A Tensor's elements in new memory of PyTorch's on the device: straight
    from a file, if the Tensor is in one. PyTorch hands small tensors out of
    larger blocks, where each allocation of tarn's is 2 MiB and more."""
    shape = list(t.shape)
    if t.dtype == "F4":
        shape[-1] //= 2  # PyTorch has them in pairs
    out = torch.empty(shape, dtype=dtype_of(t.dtype), device=device)
    # from_dlpack makes the legacy default stream wait for PyTorch's current
    # one, in which the memory may still be in use.
    _conversions.to_tensor(out).copy_(t)
    return out
