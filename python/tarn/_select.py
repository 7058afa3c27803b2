# SPDX-License-Identifier: MIT
"""t[key] where the key picks elements: masks (BOOL), and lists or arrays of
indices, beside integers, slices, ... and None. Reading makes a copy, as in
numpy and PyTorch; writing goes into the tensor."""
from . import _ops
from ._tarn import Tensor, tensor


def _picks(item):
    """Is it what picks elements, where other items make views?"""
    if isinstance(item, (list, Tensor)):
        return True
    return not isinstance(item, (int, slice)) and (
        getattr(item, "ndim", 0) > 0 and hasattr(item, "shape"))


def _as_index(item):
    index = item if isinstance(item, Tensor) else tensor(item)
    if index.dtype == "F32" and index.size == 0:
        index = index.to("I64")  # an empty list
    if index.dtype not in ("BOOL", "U8", "I8", "U16", "I16", "U32", "I32",
                           "U64", "I64"):
        raise IndexError(f"index: a list of {index.dtype}; integers, or a mask "
                         "of BOOL, pick elements")
    return index


def _parts(t, key):
    """The view that the other items make, the dimensions that are picked from,
    and by what: one array of indices for each dimension, or one mask."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_as_index(i) if _picks(i) else i for i in items]
    spans = [i.ndim if isinstance(i, Tensor) and i.dtype == "BOOL" else
             0 if i is None or i is Ellipsis else 1 for i in items]
    if sum(spans) > t.ndim:
        raise IndexError(f"index: {sum(spans)} of them for {t.ndim} dimensions")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
        spans.append(0)
    view, found, dim = [], [], 0
    for item, span in zip(items, spans):
        if isinstance(item, Tensor):
            found.append((dim, item))
            view += [slice(None)] * span
            dim += span
        elif item is Ellipsis:
            rest = t.ndim - sum(spans)
            view += [slice(None)] * rest
            dim += rest
        else:
            view.append(item)
            dim += item is None or isinstance(item, slice)
    return t[tuple(view)], found


def _one_index(view, found):
    """The first picked dimension, how many there are, and the numbers of the
    slices in those dimensions together."""
    first = found[0][0]
    if len(found) == 1:
        index = found[0][1]
        if index.dtype != "BOOL":
            return first, 1, index
        if view.shape[first:first + index.ndim] != index.shape:
            raise IndexError(f"index: a mask of shape {list(index.shape)} for "
                             f"{list(view.shape[first:])}")
        flat = index.reshape(-1) if index.ndim else index.unsqueeze(0)
        return first, index.ndim, flat.nonzero().reshape(-1)
    if any(i.dtype == "BOOL" for _, i in found) or [
            d for d, _ in found] != list(range(first, first + len(found))):
        raise IndexError("index: several lists of indices for dimensions that "
                         "do not follow each other, or a mask beside a list; "
                         "pick one after the other")
    index = 0
    for dim, part in found:
        size = view.shape[dim]
        part = part.to("I64")
        if part.size and not (-size <= part.amin().item() and
                              part.amax().item() < size):
            raise IndexError(f"index: a number that is none of the {size} of "
                             f"dimension {dim}")
        index = index * size + _ops.where(part < 0, part + size, part)
    return first, len(found), index


def _whole_mask(t, key):
    """A mask that is the whole key and has the shape of t, or None."""
    if isinstance(key, (tuple, list)) or not _picks(key):
        return None
    mask = _as_index(key)
    return mask if mask.dtype == "BOOL" and mask.shape == t.shape and \
        t.ndim else None


def read(t, key):
    mask = _whole_mask(t, key)
    if mask is not None:
        return t.masked_select(mask)
    view, found = _parts(t, key)
    dim, count, index = _one_index(view, found)
    if count != 1:
        shape = view.shape
        view = view.reshape((*shape[:dim], -1, *shape[dim + count:])) \
            if count else view.unsqueeze(dim)
    return view.index_select(dim, index)


def write(t, key, value):
    mask = _whole_mask(t, key)
    if mask is not None and isinstance(value, (int, float)):
        t.masked_fill_(mask, value)
        return
    view, found = _parts(t, key)
    dim, count, index = _one_index(view, found)
    if count == 1:
        view.index_copy_(dim, index, value)
        return
    shape = view.shape
    try:
        flat = view.view((*shape[:dim], -1, *shape[dim + count:])) \
            if count else view.unsqueeze(dim)
    except ValueError:
        # The dimensions do not lie one in the other: by way of a copy.
        flat = view.clone().reshape((*shape[:dim], -1, *shape[dim + count:]))
        flat.index_copy_(dim, index, value)
        view.copy_(flat.reshape(shape))
        return
    flat.index_copy_(dim, index, value)
