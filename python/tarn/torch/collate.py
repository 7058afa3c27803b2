# SPDX-License-Identifier: MIT
"""Batches collated where they will be read.

PyTorch's default collation stacks the tensors of a batch into fresh shared
memory in a worker: a file, a descriptor and a fault for each page, every time.
Here the same torch.stack writes into a slot of the loader's channel, which was
there before and will be there again.

Only batches that the loader itself collates are placed in a slot, because only
those are known not to be kept: a dataset, or a collate function of the user's,
may call default_collate for tensors that outlive the sent batch. Those get the
worker's private memory, which need not be shared, since it is copied.
"""
import torch
from torch.utils.data._utils import collate as theirs

from .._tarn import Tensor

# tarn's names of the dtypes; tensors of other dtypes go PyTorch's way.
DTYPES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8",
          torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
          torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32",
          torch.float64: "F64", torch.complex64: "C64"}
# Copying fewer bytes than this takes less time than placing them.
SMALL = 4096

_their_stack = theirs.default_collate_fn_map.get(torch.Tensor)


def stack(batch, *, collate_fn_map=None, place=None):
    """torch.stack into the tensor that place(shape, dtype) returns, or into
    private memory if it returns None. The result is contiguous, as PyTorch's
    is. Tensors that cannot be stacked raise PyTorch's own error."""
    first = batch[0]
    if type(first) is not torch.Tensor or first.dtype not in DTYPES or \
            first.layout is not torch.strided or first.device.type != "cpu":
        return _their_stack(batch, collate_fn_map=collate_fn_map)
    shape = (len(batch), *first.shape)
    out = None
    if place is not None and \
            first.numel() * first.element_size() * len(batch) >= SMALL:
        out = place(shape, first.dtype)
    if out is None:
        out = torch.empty(shape, dtype=first.dtype)
    return torch.stack(batch, 0, out=out)


def install():
    """Called in a worker: its default_collate no longer makes shared memory.
    A collate function of the user's is left in place."""
    known = theirs.default_collate_fn_map
    if known.get(torch.Tensor) is _their_stack:
        known[torch.Tensor] = stack


def size_of(sample):
    """About how many bytes the sample adds to a batch."""
    if isinstance(sample, dict):
        return sum(map(size_of, sample.values()))
    if isinstance(sample, (list, tuple)):
        return sum(map(size_of, sample))
    if isinstance(sample, Tensor):
        return sample.nbytes
    if isinstance(sample, torch.Tensor):
        if sample.layout is torch.strided and sample.device.type == "cpu":
            return sample.numel() * sample.element_size()
        return 0  # it goes PyTorch's way
    size = len(sample) if isinstance(sample, (str, bytes)) else \
        getattr(sample, "nbytes", 8)
    return size if isinstance(size, int) else 8


class Collate:
    """A loader's default_collate, into the slot of its results."""

    def __init__(self, results):
        self._results = results

    def __call__(self, batch):
        known = theirs.default_collate_fn_map
        if known.get(torch.Tensor) is not stack:
            return theirs.default_collate(batch)
        if self._results.is_first():
            self._results.expect(size_of(batch[0]) * len(batch))
        return theirs.collate(batch, collate_fn_map={
            **known, torch.Tensor: self._stack})

    def _stack(self, batch, *, collate_fn_map=None):
        return stack(batch, collate_fn_map=collate_fn_map,
                     place=self._results.place)
