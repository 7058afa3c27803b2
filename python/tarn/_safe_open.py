# SPDX-License-Identifier: MIT
"""safe_open, as safetensors' users know it, over a mapped file."""
from collections.abc import Mapping

from . import _conversions
from ._safetensors import SafetensorError, check_backend, errors
from ._store import File
from ._tarn import NotFoundError

FRAMEWORKS = {None: None, "tarn": None, "pt": "pt", "torch": "pt",
              "pytorch": "pt", "np": "np", "numpy": "np"}


def _framework(framework, device):
    """Two functions: one converts a Tensor to the framework's, the other moves
    the part that was taken to the device."""
    if framework not in FRAMEWORKS:
        raise ValueError(f"safe_open: framework {framework!r} is none of "
                         "\"pt\" and \"np\"; others take Tensors by DLPack, "
                         "without a framework")
    if FRAMEWORKS[framework] == "pt":
        import torch

        if torch.device(device).type == "cpu":
            return _conversions.to_torch, _same
        return _conversions.to_torch, lambda part: part.to(device)
    if device != "cpu":
        raise ValueError(f"safe_open: device {device!r} wants PyTorch, "
                         "framework=\"pt\"; all others are in \"cpu\"")
    if FRAMEWORKS[framework] == "np":
        return _conversions.to_private_numpy, _same
    return _same, _same


def _same(part):
    return part


class _NoTensor(NotFoundError, SafetensorError):
    """The error that mappings raise, and the one that safetensors raises."""


class Slice:
    """A tensor of which only the part that [] selects is read."""

    def __init__(self, tensor, view, move):
        self._tensor, self._view, self._move = tensor, view, move

    def get_shape(self):
        """Its shape, a list."""
        return list(self._tensor.shape)

    def get_dtype(self):
        """The name of its dtype, "F32"."""
        return self._tensor.dtype

    def __getitem__(self, key):
        return self._move(self._view(self._tensor)[key])


class safe_open:
    """A tensor file, opened to read some of it: safetensors, .npy, or the
    index of a sharded checkpoint. No daemon takes part.

    framework is "pt", "np", or None for Tensors; device is where PyTorch's
    are moved to. PyTorch's and numpy's tensors are copy-on-write over the
    mapped file: only what is used is read, and what is written to them stays
    in this process. Those of one file share it, see Tensor.cow. backend is
    one of safetensors' names, which mean the same here."""

    def __init__(self, filename, framework=None, device="cpu", *,
                 backend="mmap"):
        check_backend(backend)
        self._view, self._move = _framework(framework, device)
        with errors():
            self._file = File(filename)

    def _open(self):
        if self._file is None:
            raise ValueError("safe_open: the file is closed")
        return self._file

    def _find(self, name):
        try:
            return self._open()[name]
        except NotFoundError as e:
            raise _NoTensor(e.errno, getattr(e, "sentence", str)()) from None

    def __enter__(self):
        self._open()
        return self

    def __exit__(self, *_):
        self._file = None

    def __repr__(self):
        return f"<tarn.safe_open {self._file!r}>"

    def keys(self):
        """The names, in their order."""
        return sorted(self._open())

    def offset_keys(self):
        """The names, in the order of their bytes in the file."""
        return list(self._open())

    def metadata(self):
        """The file's metadata, a dict of strings, or None."""
        return self._open().metadata or None

    def get_tensor(self, name):
        """One tensor. NotFoundError, which is a KeyError, and here a
        SafetensorError too."""
        return self._move(self._view(self._find(name)))

    def get_tensors(self):
        """All of them, a dict."""
        return _conversions.each(self._open(),
                            lambda t: self._move(self._view(t)))

    def get_slice(self, name):
        """A tensor to take parts of: get_slice("w")[:, :4]; [] accepts all
        that the framework's own [] does."""
        return Slice(self._find(name), self._view, self._move)
