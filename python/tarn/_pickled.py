# SPDX-License-Identifier: MIT
"""Objects of other than the plain types, in an item of a channel.

The pickle has the object alone. Arrays in it, and memory that other objects
export by protocol 5, are sent beside the pickle, and the receiver gets them as
views of the item. As everywhere with pickle, a sender can run code in a
receiver.
"""
import io
import pickle
import sys

from . import _tarn


def _array_types():
    types = [_tarn.Tensor]
    for module, name in (("numpy", "ndarray"), ("torch", "Tensor")):
        found = getattr(sys.modules.get(module), name, None)
        if found is not None:
            types.append(found)
    return types


class _Pickler(pickle.Pickler):
    def __init__(self, file, root, arrays, buffers):
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._root, self._arrays = root, arrays
        self._types = _array_types()
        self._seen = {}

    def persistent_id(self, obj):
        # The root was already found not to be an array.
        if type(obj) not in self._types or obj is self._root:
            return None
        if id(obj) not in self._seen:
            self._seen[id(obj)] = len(self._arrays)
            self._arrays.append(obj)
        return self._seen[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, arrays, buffers):
        super().__init__(file, buffers=buffers)
        self._arrays = arrays

    def persistent_load(self, pid):
        if not isinstance(pid, int) or not 0 <= pid < len(self._arrays):
            raise pickle.UnpicklingError(f"there is no array {pid!r}")
        return self._arrays[pid]


def dumps(obj):
    """The pickle, the arrays in it, and the memory beside it."""
    file, arrays, buffers = io.BytesIO(), [], []
    _Pickler(file, obj, arrays, buffers).dump(obj)
    return file.getvalue(), arrays, [b.raw() for b in buffers]


def loads(parts):
    """The object of what dumps returned."""
    data, arrays, buffers = parts
    return _Unpickler(io.BytesIO(data), arrays, buffers).load()
