# SPDX-License-Identifier: MIT
"""Files of tensors as numpy's users know them from safetensors.numpy: the same
calls, and one disk read for all processes of a machine.

    from tarn.numpy import load_file, save_file
    w = load_file("m.safetensors")["wte"]

numpy has no BF16 and no F8: TypeError, unless ml_dtypes is installed; see
Tensor.numpy."""
from . import _conversions, _safetensors, _store
from ._safetensors import SafetensorError


def load_file(filename, *, backend="mmap"):
    """The tensors of a file as a dict of arrays, loaded once for all processes
    that ask for it. They are copy-on-write: what is written to them stays in
    them, see Tensor.cow. SafetensorError: it is no such file;
    backend is one of safetensors' names, which mean the same here."""
    _safetensors.check_backend(backend)
    with _safetensors.errors():
        loaded = _store.load(filename).own()
    return _conversions.each(loaded, _conversions.to_private_numpy)


def load(data):
    """The same of the bytes of such a file, without a daemon."""
    return _conversions.each(_safetensors.open_bytes(data),
                        _conversions.to_private_numpy)


def save_file(tensor_dict, filename, metadata=None):
    """Saves a dict of arrays as a safetensors file, whole or not at all;
    metadata is a dict of strings."""
    _store.save(filename, tensor_dict, metadata)


def save(tensor_dict, metadata=None):
    """The bytes of the file that save_file makes."""
    return _safetensors.save_bytes(tensor_dict, metadata)


__all__ = ["SafetensorError", "load", "load_file", "save", "save_file"]
