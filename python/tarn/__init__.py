# SPDX-License-Identifier: MIT
"""tarn: tensors in memory that many processes share.

A Tensor is bytes somewhere (in memory, in a pool, in a file) and a layout that
walks them. Views share the bytes; arrays over them keep them alive.

    t = tarn.arange(12).reshape(3, 4)
    t[:, ::2].numpy()

    tarn.open("m.safetensors")["wte"]      # mapped, no daemon
    tarn.load("m.safetensors")["wte"]      # N processes, one disk read

    store = tarn.Store()
    store.publish({"run/weights": t})      # and in another process:
    store.wait("run/weights", timeout=5)

    with tarn.sender("decoded") as out:    # from process to process,
        out.put({"x": t, "path": p})       # any nesting of arrays and values
    for item in tarn.receiver("decoded"):  # whose arrays are views of shared
        use(item["x"], item["path"])       # memory
"""
import importlib

from . import _arrays
from ._channel import Receiver, Sender, receiver, sender
from ._safe_open import safe_open
from ._store import File, Loaded, Store, default_store, load, open, save
from ._tarn import (Channel, Item, NotFoundError, Slot, Tensor, __version__,
                    arange, dtypes, equal, from_dlpack, full, ones,
                    same_storage, tensor, view, zeros)


def __getattr__(name):
    """tarn.torch and tarn.numpy are imported when they are asked for, and with
    them PyTorch and numpy."""
    if name in ("numpy", "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def from_numpy(array, dtype=None):
    """A Tensor over the bytes of an array, or of anything else that has
    buffers or __array_interface__; writable if those are. dtype takes the same
    bytes as something else: from_numpy(bits, "BF16")."""
    return _arrays.to_tensor(array, dtype)


__all__ = ["Channel", "File", "Item", "Loaded", "NotFoundError", "Receiver",
           "Sender", "Slot", "Store", "Tensor", "__version__", "arange",
           "default_store", "dtypes", "equal", "from_dlpack", "from_numpy",
           "full", "load", "ones", "open", "receiver", "safe_open",
           "same_storage", "save", "sender", "tensor", "view", "zeros"]
