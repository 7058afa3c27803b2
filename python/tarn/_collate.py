# SPDX-License-Identifier: MIT
"""PyTorch's default_collate takes tarn's Tensors.

default_collate looks types up in its own table and refuses the others, so a
dataset over a loaded file would end in "batch must contain tensors ... found
<class 'tarn.Tensor'>". tarn does not import PyTorch, and a program may import
PyTorch after tarn. So the Tensor is entered into the table once it exists: at
once if PyTorch has been imported, else as the last step of importing it.
"""
import importlib
import importlib.util
import sys
import threading

from ._tarn import Tensor

TABLE = "torch.utils.data._utils.collate"


def collate_tensors(batch, *, collate_fn_map=None):
    """Converts the Tensors to PyTorch's and collates those as PyTorch does."""
    return sys.modules[TABLE].collate([t.torch() for t in batch],
                                      collate_fn_map=collate_fn_map)


def _enter(theirs):
    # PyTorch has had the table since 1.13.
    known = getattr(theirs, "default_collate_fn_map", None)
    if known is not None:
        known.setdefault(Tensor, collate_tensors)


class _Loader:
    """The module's own loader, followed by one more step."""

    def __init__(self, own):
        self._own = own

    def __getattr__(self, name):
        return getattr(self._own, name)

    def exec_module(self, module):
        # The module shows its own loader, not this one.
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _enter(module)


class _Finder:
    """Finds only the table's module, with the help of the other finders. It
    stays in sys.meta_path: if an import removed it, another thread that walks
    the list at that moment would skip the finder behind it."""

    def __init__(self):
        self._asking = threading.local()

    def find_spec(self, name, path=None, target=None):
        if name != TABLE or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.others = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


_finder = _Finder()


def register():
    """To be called when tarn is imported."""
    if TABLE not in sys.modules:
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    else:
        # This waits for another thread that is just importing it.
        _enter(importlib.import_module(TABLE))
