# SPDX-License-Identifier: MIT
"""Batches collated where they will be read.

PyTorch's default collation stacks the tensors of a batch into fresh shared
memory in a worker: a file, a descriptor and a fault for each page, every time.
Here the same torch.stack writes into a slot of the loader's channel, which was
there before and will be there again. The hook is default_collate_fn_map, which
is PyTorch's own place for such, so that a collate function that ends in
default_collate gains as well. A worker is a process of its own: nobody else
sees its map changed.
"""
import torch
from torch.utils.data._utils import collate as theirs

# What tarn calls the dtypes; a tensor of another goes PyTorch's way.
DTYPES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8",
          torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
          torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32",
          torch.float64: "F64", torch.complex64: "C64"}
# Less is copied in less time than a place for it is made.
SMALL = 4096

_their_stack = theirs.default_collate_fn_map.get(torch.Tensor)
_place = None


def stack(batch, *, collate_fn_map=None):
    """torch.stack into the slot; where there is no room, into memory that is
    not shared, which is then copied there. Contiguous in both cases, as theirs
    is. What cannot be stacked gets the same error from the same call."""
    first = batch[0]
    if type(first) is not torch.Tensor or first.dtype not in DTYPES or \
            first.layout is not torch.strided or first.device.type != "cpu":
        return _their_stack(batch, collate_fn_map=collate_fn_map)
    shape = (len(batch), *first.shape)
    out = None
    if first.numel() * first.element_size() * len(batch) >= SMALL:
        out = _place(shape, first.dtype)
    if out is None:
        out = torch.empty(shape, dtype=first.dtype)
    return torch.stack(batch, 0, out=out)


def install(place):
    """From now on tensors are stacked into place(shape, dtype), unless that
    gives None; not where the user has put a function of his own."""
    global _place
    _place = place
    known = theirs.default_collate_fn_map
    if known.get(torch.Tensor) is _their_stack:
        known[torch.Tensor] = stack
