# SPDX-License-Identifier: MIT
"""Samples become a batch."""
from collections.abc import Mapping

from . import _tarn
from ._conversions import to_tensor

_NUMBERS = (bool, int, float)


def _as_tensor(value):
    """A Tensor over the bytes of an array; None: it is no array."""
    if isinstance(value, _tarn.Tensor):
        return value
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return to_tensor(value, None)
    return None


def _stack(tensors):
    first = tensors[0]
    batch = _tarn.empty((len(tensors), *first.shape), first.dtype)
    for i, tensor in enumerate(tensors):
        batch[i] = tensor
    return batch


def _arrays(items):
    """The items as one Tensor, or None: they are not all of one kind."""
    tensors = [_as_tensor(item) for item in items]
    if any(t is None for t in tensors) or \
            len({(t.shape, str(t.dtype)) for t in tensors}) > 1:
        return None
    return _stack(tensors)


def _is_numbers(value):
    return isinstance(value, list) and bool(value) and all(
        type(number) in _NUMBERS for number in value)


def collate(items):
    """Samples of one kind as a batch: mappings (dicts, Records) and tuples of
    them by their parts, those that the first one has;
    arrays and Tensors of one shape and dtype, stacked; numbers, and lists of as
    many numbers, as a Tensor; all else as a list."""
    items = list(items)
    first = items[0] if items else None
    if isinstance(first, Mapping):
        return {key: collate([item[key] for item in items]) for key in first}
    if isinstance(first, tuple):
        return tuple(collate(part) for part in zip(*items, strict=True))
    if type(first) in _NUMBERS and all(type(i) is type(first) for i in items):
        return _tarn.tensor(items)
    if all(_is_numbers(item) for item in items) and \
            len({len(item) for item in items}) == 1:
        return _tarn.tensor(items)
    stacked = _arrays(items) if items else None
    return items if stacked is None else stacked


_PLAIN = (*_NUMBERS, str, bytes, complex, type(None))


def is_new(batch):
    """Has what collate made no memory of the samples that it was made of?"""
    if isinstance(batch, (dict, tuple)):
        return all(map(is_new, batch.values() if isinstance(batch, dict)
                       else batch))
    return isinstance(batch, _tarn.Tensor) or \
        all(type(item) in _PLAIN for item in batch)
