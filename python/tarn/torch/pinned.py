# SPDX-License-Identifier: MIT
"""What is left in a slot when PyTorch has pinned a batch.

PyTorch pins tensors, in dicts, tuples and lists, and whatever has a pin_memory
of its own; the rest, numpy's arrays among it, it hands on as it is. That would
hold the slot, also of a batch whose tensors have left it.
"""
import copy
from collections.abc import Mapping, Sequence

import torch

# Of one piece, though they are sequences.
WHOLE = str, bytes, bytearray, range, memoryview


def take_out(data):
    """The batch, in which what is not pinned is copied."""
    if isinstance(data, torch.Tensor) or hasattr(data, "pin_memory"):
        return data
    if isinstance(data, Mapping):
        out = {key: take_out(value) for key, value in data.items()}
        same = all(out[key] is data[key] for key in out)
    elif isinstance(data, Sequence) and not isinstance(data, WHOLE):
        out = [take_out(value) for value in data]
        same = all(a is b for a, b in zip(out, data))
    else:
        return copy.deepcopy(data)
    return data if same else _like(data, out)


def _like(data, out):
    """As PyTorch makes it: some types cannot be made of their parts."""
    try:
        return type(data)(*out) if hasattr(data, "_fields") else \
            type(data)(out)
    except TypeError:
        return out
