# SPDX-License-Identifier: MIT
"""Files of tensors as PyTorch's users know them from safetensors.torch: the
same calls, and one disk read for all processes of a machine."""
import builtins
import os

import torch

from .. import _store


def load_file(filename, device="cpu"):
    """The tensors of a file (safetensors, .npy, or the index of a sharded
    checkpoint) as a dict of PyTorch's, loaded once for all processes that ask
    for it. They are copy-on-write: what is written to them stays in this
    process, see tarn.Tensor.private. Another device than the CPU gets a
    copy."""
    return _moved(_store.load(filename), device)


def load(data, device="cpu"):
    """The same of the bytes of such a file, without a daemon."""
    fd = os.memfd_create("tarn.torch.load")
    with builtins.open(fd, "wb") as f:
        f.write(data)
        f.flush()
        return _moved(_store.open(f"/proc/self/fd/{fd}"), device)


def _moved(tensors, device):
    device = torch.device(device)  # a wrong one is told before all else
    found = tensors.torch()
    if device.type == "cpu":
        return found
    return {name: t.to(device) for name, t in found.items()}


def save_file(tensors, filename, metadata=None):
    """Saves a dict of PyTorch's tensors as a safetensors file, whole or not at
    all; metadata is a dict of strings. They need not be contiguous, nor on
    the CPU. As with safetensors, those whose bytes overlap are refused, since
    they would no longer be tied in the file."""
    if not isinstance(tensors, dict):
        raise ValueError("save_file: a dict of names and tensors is wanted, "
                         f"not {type(tensors).__name__}")
    for name, t in tensors.items():
        if not isinstance(t, torch.Tensor):
            raise ValueError(f"save_file: {name!r} is no tensor but "
                             f"{type(t).__name__}")
        if t.layout != torch.strided:
            raise ValueError(f"save_file: {name!r} is {t.layout}; "
                             "use .to_dense()")
    _refuse_overlaps(tensors)
    _store.save(filename, {name: t.detach().cpu()
                           for name, t in tensors.items()}, metadata)


def _refuse_overlaps(tensors):
    ranges = []
    for name, t in tensors.items():
        if t.numel() and t.device.type != "meta":
            last = sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
            start = t.data_ptr()
            ranges.append((str(t.device), start,
                           start + (last + 1) * t.element_size(), name))
    ranges.sort()
    for a, b in zip(ranges, ranges[1:]):
        if a[0] == b[0] and b[1] < a[2]:
            raise RuntimeError(
                f"save_file: {a[3]!r} and {b[3]!r} share memory; save one of "
                "them, or a .clone()")
