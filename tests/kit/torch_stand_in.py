# SPDX-License-Identifier: MIT
"""A stand-in for PyTorch, for tests of code that hands its tensors to tarn and
takes them from it: tensors over tarn's own, by DLPack alone, on the host and on
the devices of the stand-in driver, which the real one for CPUs does not have.
It computes nothing. install() puts it where "import torch" finds it."""
import contextlib
import math
import sys
import types

import tarn


class Storage:
    """What tensors that are tied share."""

    def __init__(self, whole):
        self.whole = whole

    def nbytes(self):
        return self.whole.nbytes if self.whole is not None else 0

    def data_ptr(self):
        return 0 if self.whole is None else address(self.whole)

    def resize_(self, size):
        assert size == 0
        self.whole = None


def address(t):
    if t.device != "cpu":
        return t.device_pointer(t.device)
    if not t.size:
        return 0
    return t.bitcast("U8").__array_interface__["data"][0]


class Tensor:
    """A view of a storage. It knows its shape also when that is freed."""

    def __init__(self, storage, view=lambda whole: whole):
        self._storage, self._view = storage, view
        t = self._t
        self.shape, self.device = tuple(t.shape), t.device
        self.dtype, self.is_cuda = DTYPES[t.dtype], t.device != "cpu"

    @property
    def _t(self):
        if self._storage.whole is None:
            raise RuntimeError("the tensor's storage was freed")
        return self._view(self._storage.whole)

    def _of(self, view):
        return Tensor(self._storage, lambda whole: view(self._view(whole)))

    def untyped_storage(self):
        return self._storage

    def data_ptr(self):
        return address(self._t)

    def stride(self):
        return tuple(self._t.strides)

    def numel(self):
        return math.prod(self.shape)

    def tolist(self):
        return self._t.tolist()

    def detach(self):
        return self

    resolve_neg = detach

    def is_complex(self):
        return False

    def view(self, dtype):
        return self._of(lambda t: t.bitcast(OURS[dtype]))

    def __getitem__(self, key):
        return self._of(lambda t: t[key])

    def copy_(self, source):
        self._t.copy_(source._t if isinstance(source, Tensor) else source)
        return self

    def __dlpack__(self, **keywords):
        return self._t.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._t.__dlpack_device__()


class Dtype:
    def __init__(self, name):
        self._name = name  # PyTorch has no public one

    def __str__(self):
        return f"torch.{self._name}"


NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16",
         "I64": "int64", "I32": "int32", "I16": "int16", "U8": "uint8",
         "I8": "int8", "BOOL": "bool"}
DTYPES = {ours: Dtype(theirs) for ours, theirs in NAMES.items()}
OURS = {dtype: ours for ours, dtype in DTYPES.items()}


def from_dlpack(source):
    return Tensor(Storage(tarn.from_dlpack(source)))


def tensor(values, dtype=None, device="cpu"):
    ours = OURS[dtype] if dtype else "F32"
    return Tensor(Storage(tarn.tensor(values, ours, device=device)))


def install():
    torch = types.ModuleType("torch")
    torch.Tensor, torch.from_dlpack = Tensor, from_dlpack
    torch.tensor, torch.__version__ = tensor, "a stand-in"
    for dtype in DTYPES.values():
        setattr(torch, dtype._name, dtype)
    torch.cuda = types.ModuleType("torch.cuda")
    torch.cuda.is_available = lambda: True
    torch.cuda.device = lambda device: contextlib.nullcontext()
    torch.cuda.current_device = lambda: 0
    torch.cuda.empty_cache = lambda: None
    sys.modules.update({"torch": torch, "torch.cuda": torch.cuda})
    return torch
