# SPDX-License-Identifier: MIT
"""Files of tensors as numpy's users know them from safetensors.numpy: the same
calls, and one disk read for all processes of a machine.

    from tarn.numpy import load_file, save_file
    w = load_file("m.safetensors")["wte"]

numpy has no BF16 and no F8: see Tensor.numpy."""
from . import _arrays
from ._store import load, save


def load_file(filename):
    """The tensors of a file as a dict of arrays, loaded once for all processes
    that ask for it. They are copy-on-write: what is written to them stays in
    this process, see Tensor.private."""
    return _arrays.each(load(filename), _arrays.to_private_numpy)


def save_file(tensor_dict, filename, metadata=None):
    """Saves a dict of arrays as a safetensors file, whole or not at all;
    metadata is a dict of strings."""
    save(filename, tensor_dict, metadata)


__all__ = ["load_file", "save_file"]
