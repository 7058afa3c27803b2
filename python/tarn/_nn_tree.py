# SPDX-License-Identifier: MIT
"""What the modules of a tree share (tarn.nn): names and their order, tensors by
their bytes, the places of tensors, and states, which never change."""
import os
import re
import threading

from . import _conversions, _tarn

_DEPTH_MAX = 64  # as in tarn/nn.h: walks are recursive
_NAMED_MAX = 4   # of each kind in an error

# One for all trees, held for a moment; a fork while another thread has it
# leaves it taken.
_lock = threading.Lock()


def _new_lock():
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def natural(name):
    """A key by which runs of digits compare as numbers, and the rest as it
    is; equal numbers by how many zeros they begin with."""
    key = []
    for part in re.findall(r"[0-9]+|[^0-9]", name):
        number = part.lstrip("0")
        key.append((ord("0"), len(number), number, len(part))
                   if "0" <= part[0] <= "9" else (ord(part), 0, "", 0))
    return key


def split(path):
    names = path.split(".")
    if "" in names:
        raise ValueError(f"{path!r} has an empty name")
    if len(names) > _DEPTH_MAX:
        raise ValueError(f"{path[:80]!r} is {len(names)} names deep; a tree "
                         f"can have {_DEPTH_MAX}")
    return names


def is_float(dtype):
    return dtype.startswith(("F", "BF"))


def bytes_of(tensor):
    """Two tensors with equal keys are the same elements of the same bytes."""
    where = tensor.device
    try:
        if where != "cpu":
            address = tensor.device_pointer(where)
        elif tensor.dtype == "BF16":
            address = tensor.bitcast("U16").__array_interface__["data"][0]
        elif tensor.dtype.startswith("F8"):
            address = tensor.bitcast("U8").__array_interface__["data"][0]
        else:
            address = tensor.__array_interface__["data"][0]
    except (AttributeError, ValueError):
        return id(tensor)
    return where, address, str(tensor.dtype), tensor.shape, tensor.strides


def shown(tensor):
    return f"{tensor.dtype}{list(tensor.shape)}"


def listed(names):
    more = len(names) - _NAMED_MAX
    return (", ".join(n[:80] for n in names[:_NAMED_MAX]) +
            (f" and {more} more" if more > 0 else ""))


def is_device(what):
    """Is the only argument of to() a device? Else it is a dtype."""
    return (isinstance(what, int) or
            (isinstance(what, str) and what.startswith(("cpu", "cuda"))) or
            type(what).__name__ == "device")


class Parameter:
    """The place of a tensor in a tree: it stays what it is when the tree is
    refreshed, and tensor is the present one."""

    __slots__ = ("_module", "_name", "_buffer", "_requires_grad", "_dtype",
                 "_shape")

    def __init__(self, module, name, tensor, buffer):
        self._module, self._name, self._buffer = module, name, buffer
        self._requires_grad = not buffer
        self._dtype, self._shape = str(tensor.dtype), tensor.shape

    def __repr__(self):
        kind = "buffer" if self._buffer else "parameter"
        return f"<tarn.nn.Parameter {self.path!r}: {kind}, {shown(self.tensor)}>"

    @property
    def tensor(self):
        """The present tensor, or that of the state that this thread holds."""
        return self._module._state().tensors[self]

    @property
    def path(self):
        """The path from the root."""
        path = self._module._path()
        return f"{path}.{self._name}" if path else self._name

    @property
    def is_buffer(self):
        """Is it no parameter, but a buffer?"""
        return self._buffer

    @property
    def requires_grad(self):
        """A mark that tarn keeps and does not use. Buffers are never marked."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        if value and self._buffer:
            raise ValueError(f"{self.path!r} is a buffer, which cannot require "
                             "a gradient")
        self._requires_grad = bool(value)


class State:
    """The tensors of one version. wishes are what to() asks of a tensor and of
    later ones; sources what the store had, by which a newer one is known."""

    __slots__ = ("tensors", "wishes", "sources", "commit", "seen")

    def __init__(self, tensors, wishes, sources, commit, seen):
        self.tensors, self.wishes, self.sources = tensors, wishes, sources
        self.commit, self.seen = commit, seen

    def copy(self):
        return State(dict(self.tensors), dict(self.wishes),
                      dict(self.sources), self.commit, self.seen)

    def convert(self):
        """Makes all tensors what is asked of them; tied ones stay tied."""
        made = {}
        for parameter, (dtype, device) in self.wishes.items():
            old = self.tensors[parameter]
            if dtype is None or not is_float(old.dtype):
                dtype = old.dtype
            key = bytes_of(old), str(dtype), device
            if key not in made:
                made[key] = old.to(device, dtype)
            self.tensors[parameter] = made[key]
        return self


class Tree:
    """What the modules of a tree share: the present state, and the binding."""

    def __init__(self):
        self.state = State({}, {}, {}, 0, None)
        self.store = self.prefix = None
        self.held = threading.local()

    def present(self):
        return getattr(self.held, "state", None) or self.state

    def swap(self, base, state):
        """Puts a state in the place of the one that it was made from. False:
        another thread was faster, and the caller begins anew."""
        with _lock:
            if self.state is not base:
                return False
            self.state = state
            return True


class Differences:
    """How one set of tensors differs from another: all of it in a sentence."""

    def __init__(self):
        self.missing, self.unexpected, self.mismatched = [], [], []

    def sentence(self, what):
        parts = ((self.missing, "missing"), (self.unexpected, "unexpected"),
                 (self.mismatched, "of another shape or dtype"))
        return f"{what}: " + "; ".join(f"{kind}: {listed(names)}"
                                       for names, kind in parts if names)


def as_tensor(what):
    return (what if isinstance(what, _tarn.Tensor)
            else _conversions.to_tensor(what, None))
