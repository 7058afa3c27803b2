# SPDX-License-Identifier: MIT
"""Functions of tarn.array_api that put elements into other places, or pick
them."""
from . import _ops
from ._tarn import Tensor, arange, zeros


def axis_of(name, axis, ndim):
    """Counted from the beginning."""
    if not -ndim <= axis < ndim:
        raise IndexError(f"{name}: there is no axis {axis} of {ndim}")
    return axis + ndim if axis < 0 else axis


def _axes_of(name, axis, ndim):
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [axis_of(name, a, ndim) for a in axes]
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: the axes {axis} name one twice")
    return axes


# ---- broadcasting ----

def _broadcast_shape(shapes):
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if n != 1 and result[i] not in (1, n):
                raise ValueError("the shapes " + " and ".join(
                    str(list(s)) for s in shapes) + " do not broadcast")
            result[i] = n if result[i] == 1 else result[i]
    return tuple(result)


def broadcast_to(x, /, shape):
    """A view in which dimensions of 1 are repeated."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if _broadcast_shape((x.shape, shape)) != shape:
        raise ValueError(f"broadcast_to: {list(x.shape)} does not broadcast to "
                         f"{list(shape)}")
    return x.expand(shape)


def broadcast_arrays(*arrays):
    """Views of one shape."""
    shape = _broadcast_shape([a.shape for a in arrays])
    return [a.expand(shape) for a in arrays]


# ---- several arrays ----

def concat(arrays, /, *, axis=0):
    """One after the other along an axis; None: flattened before."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    if arrays:
        axis = axis_of("concat", axis, arrays[0].ndim)
    return _ops.cat(arrays, axis)


def stack(arrays, /, *, axis=0):
    """One after the other along a new axis."""
    arrays = list(arrays)
    if arrays:
        axis = axis_of("stack", axis, arrays[0].ndim + 1)
    return _ops.stack(arrays, axis)


def unstack(x, /, *, axis=0):
    """The slices along an axis, as views."""
    axis = axis_of("unstack", axis, x.ndim)
    return tuple(x.select(axis, i) for i in range(x.shape[axis]))


# ---- views ----

def expand_dims(x, /, *, axis=0):
    """A view with a new dimension of 1, or several."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in sorted(_axes_of("expand_dims", axes, x.ndim + len(axes))):
        x = x.unsqueeze(a)
    return x


def squeeze(x, /, axis):
    """A view without some dimensions of 1."""
    axes = _axes_of("squeeze", axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: the axis {a} of {list(x.shape)} is not "
                             "1")
    for a in sorted(axes, reverse=True):
        x = x.squeeze(a)
    return x


def permute_dims(x, /, axes):
    """A view: dimension i is axes[i]."""
    return x.permute(tuple(axes))


def moveaxis(x, source, destination, /):
    """A view with one dimension in another place, or several."""
    source = _axes_of("moveaxis", source, x.ndim)
    destination = _axes_of("moveaxis", destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: {len(source)} axes to "
                         f"{len(destination)} places")
    rest = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source)):
        rest.insert(to, a)
    return x.permute(rest)


def flip(x, /, *, axis=None):
    """A view, backwards along an axis, several, or all."""
    axes = range(x.ndim) if axis is None else _axes_of("flip", axis, x.ndim)
    return x.flip(tuple(axes))


def reshape(x, /, shape, *, copy=None):
    """Of another shape, a view if it can be one; copy=False: or an error."""
    if copy is False:
        return x.view(shape)
    return x.clone().view(shape) if copy else x.reshape(shape)


# ---- copies ----

def roll(x, /, shift, *, axis=None):
    """What leaves the end enters at the beginning; without an axis that of all
    elements in their order."""
    if axis is None:
        if not isinstance(shift, int):
            raise ValueError("roll: several shifts want axes")
        return _ops.roll(x.reshape(-1), shift, 0).reshape(x.shape)
    axes = [axis_of("roll", a, x.ndim)
            for a in (axis if isinstance(axis, tuple) else (axis,))]
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    # Shifts of one axis add up.
    by = {a: 0 for a in axes}
    for a, s in zip(axes, shifts, strict=True):
        by[a] += s
    return _ops.roll(x, tuple(by.values()), tuple(by)) if by else x.clone()


def repeat(x, repeats, /, *, axis=None):
    """Each element so many times, one after the other."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_of("repeat", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(repeats, Tensor) and repeats.size == 1:
        repeats = repeats.item()
    if isinstance(repeats, int):
        if repeats < 0:
            raise ValueError(f"repeat: {repeats} times")
        index = arange(n).unsqueeze(1).expand(n, repeats).reshape(-1)
        return _ops.index_select(x, axis, index)
    if not isinstance(repeats, Tensor):
        raise TypeError("repeat: how often is a number or an array, not "
                        f"{repeats!r}")
    if repeats.shape != (n,):
        raise ValueError(f"repeat: {list(repeats.shape)} numbers for {n} "
                         "elements")
    if n and repeats.amin().item() < 0:
        raise ValueError("repeat: a number of times is negative")
    counts = repeats.tolist()
    index = zeros((sum(counts),), "I64")
    at = 0
    for i, count in enumerate(counts):
        index[at:at + count] = i
        at += count
    return _ops.index_select(x, axis, index)


def tile(x, repetitions, /):
    """The whole array so many times along each axis."""
    missing = len(repetitions) - x.ndim
    repetitions = (1,) * -missing + tuple(repetitions)
    for _ in range(missing):
        x = x.unsqueeze(0)
    for axis, n in enumerate(repetitions):
        shape = list(x.shape)
        if n == 1:
            continue
        shape.insert(axis, n)
        x = x.unsqueeze(axis).expand(shape).flatten(axis, axis + 1)
    return x.contiguous()


# ---- picking ----

def take(x, indices, /, *, axis=None):
    """Slices by their numbers along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: of {x.ndim} dimensions; which is the "
                             "axis?")
        axis = 0
    return _ops.index_select(x, axis_of("take", axis, x.ndim), indices)


def take_along_axis(x, indices, /, *, axis=-1):
    """Elements by their numbers along an axis; in the others both broadcast."""
    return _ops.take_along_dim(x, axis_of("take_along_axis", axis, x.ndim),
                               indices)
