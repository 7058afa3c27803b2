# SPDX-License-Identifier: MIT
"""The parts of a batch that still lie in a slot after PyTorch pinned it.

PyTorch pins tensors in dicts, tuples and lists, and objects with a method
pin_memory. It passes on other objects, numpy's arrays among them, unchanged.
Those would hold the slot of a batch whose tensors have left it.
"""
import copy
from collections.abc import Mapping, Sequence

import torch

# Of one piece, though they are sequences.
WHOLE = str, bytes, bytearray, range, memoryview


def take_out(data):
    """The batch, with a copy of each part that was not pinned."""
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
