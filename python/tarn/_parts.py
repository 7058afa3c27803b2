# SPDX-License-Identifier: MIT
"""Parts of many tensors: views that are chosen by name, and moved to a device
in one piece. Only the bytes that a view reaches are read and sent."""
from collections.abc import Mapping

from . import _tarn

ALIGNMENT = 256  # of each tensor on a device: that of the driver


def views_of(tensors, views):
    """The views of a mapping's tensors, as load() describes them: a dict."""
    if not isinstance(views, Mapping) and not callable(views):
        raise TypeError("views is a mapping of names to expressions, like "
                        '{"w": "[0:512]"}, or a function of a name and a '
                        f"Tensor, not {type(views).__name__}")
    if isinstance(views, Mapping):
        unknown = [name for name in views if name not in tensors]
        if unknown:
            raise KeyError(f"views: there is no tensor {unknown[0]!r}")
    found = {}
    for name in tensors:
        t = tensors[name]
        wanted = views(name, t) if callable(views) else views.get(name, t)
        if isinstance(wanted, str):
            wanted = _seen(name, t, wanted)
        if isinstance(wanted, _tarn.Tensor):
            found[name] = wanted
        elif wanted is not None:
            raise TypeError(f"views: {name!r}: an expression, a Tensor or "
                            f"None is wanted, not {type(wanted).__name__}")
    return found


def _seen(name, t, expression):
    try:
        return t.eval(expression)
    except (IndexError, ValueError) as e:
        raise type(e)(f"views: {name!r}: {e}") from None


def side_by_side(sizes, alignment=64):
    """Where tensors of so many bytes begin in one piece of memory, at cache lines
    unless it is said otherwise, and how many bytes it has."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // alignment) * alignment
    return places, end


def view_at(piece, at, size, dtype, shape):
    """The tensor of so many bytes that begins there."""
    return piece[at:at + size].bitcast(dtype).reshape(shape)


def to_device(tensors, device, progress=None):
    """Copies of a dict's tensors on a device, in C order, all in one
    allocation: each takes whole granules of 2 MiB."""
    places, size = side_by_side([t.nbytes for t in tensors.values()], ALIGNMENT)
    piece = _tarn.empty((max(size, 1),), "U8", device=device)
    total, done, found = sum(t.nbytes for t in tensors.values()), 0, {}
    for (name, t), at in zip(tensors.items(), places):
        found[name] = view_at(piece, at, t.nbytes, t.dtype, t.shape).copy_(t)
        done += t.nbytes
        if progress is not None:
            progress(done, total)
    return found
