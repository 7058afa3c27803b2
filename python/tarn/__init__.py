# SPDX-License-Identifier: MIT
"""tarn: tensors in memory that many processes share.

Load a checkpoint in as many processes as you like: the disk is read once, and
the bytes are in memory once. Publish a tensor in one process and find it by its
name in any other. Nothing is copied, and no daemon needs to be started first.

    import tarn

    m = tarn.load("m.safetensors")          # N processes, one disk read
    w = m["wte"][:, ::2]                    # a view: the same bytes
    print(w.shape, w.numpy().sum())         # w.torch() is PyTorch's
    store = tarn.Store()
    store.publish({"run/w": w})             # for all processes of this user
    print(store["run/w"].shape)             # in any of them; store.wait() waits
    with tarn.sender("batches") as out:     # from process to process
        out.put({"x": w, "epoch": 1})       # any nesting of arrays and values
    # for item in tarn.receiver("batches"): the other side; item["x"] is a view
    tarn.save("out.safetensors", {"w": w})

Where to go on: help(tarn.load), help(tarn.Store), help(tarn.Tensor), one name
at a time; help(tarn.torch) for DataLoader, help(tarn.nn) for module trees,
help(tarn.data) for training samples, help(tarn.tensordict) for replay buffers;
the programs in examples/; man tarn for the idea, tarn doctor for this machine.

The names beside numpy's and PyTorch's:

    numpy            PyTorch            tarn
    a.shape          t.shape, t.size()  t.shape
    a.size           t.numel()          t.size (no call), t.numel()
    a.ndim           t.dim()            t.ndim, t.dim()
    a.itemsize       t.element_size()   t.itemsize, t.element_size()
    a.dtype          t.dtype            t.dtype, a name: "F32", "BF16", "I64";
                                        t.dtype == torch.float32 (or numpy's)
    a.astype("f4")   t.to(torch.float)  t.to("F32"), t.astype("float32")
    a.view("u2")     t.view(dtype)      t.bitcast("U16")
    a.copy()         t.clone()          t.copy(), t.clone()
                     t.to("cuda:0")     t.to("cuda:0"), back: t.cpu()
    a == b           t == u             t == u
    array_equal      torch.equal        tarn.equal(t, u)
    zeros((2, 3))    zeros(2, 3)        tarn.zeros((2, 3))
    empty((2, 3))    empty(2, 3)        tarn.empty((2, 3))
    a[[0, 2]]        t[[0, 2]]          t[[0, 2]], a copy
    a.sum(0)         t.sum(0)           t.sum(0), t.sum(dim=0), t.sum(axis=0)
    a @ b            t @ u              t @ u; help(tarn.ops) for the others
"""
import importlib

from . import _conversions, _collate
from ._channel import Receiver, Sender, receiver, sender
from ._follow import Follow, Version
from ._install import install
from ._safe_open import safe_open
from ._saving import Saving
from ._store import (File, Loaded, OnDevice, Parts, Snapshot, Store,
                     default_store, load, open, save)
from ._tarn import (Channel, Dtype, Item, NotFoundError, Refit, Slot, Tensor,
                    __version__, arange, dtypes, empty, equal, from_dlpack,
                    full, node_of_device, node_of_pci, ones, same_storage,
                    tensor, zeros)

_collate.register()


def __getattr__(name):
    """tarn.torch and its kin are imported when they are asked for; tarn.torch,
    tarn.tensordict and tarn.numpy bring PyTorch, tensordict and numpy."""
    if name in ("array_api", "data", "nn", "numpy", "ops", "tensordict",
                "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def from_numpy(array, dtype=None):
    """A Tensor over the bytes of an array, or of anything else that has
    buffers or __array_interface__; writable if those are. dtype takes the same
    bytes as something else: from_numpy(bits, "BF16")."""
    return _conversions.to_tensor(array, dtype)


def from_arrow(source, *, columns=None):
    """Tensors over what is in Arrow's memory: an array or a batch of records
    (__arrow_c_array__), or a table, a chunked array, a frame of polars or pandas
    (__arrow_c_stream__). pyarrow is not needed.

    Of an array it is a Tensor; where records have any number of values, as lists,
    text and bytes have, a pair of Tensors, values and offsets: record i is
    values[offsets[i]:offsets[i + 1]]; text and bytes are U8. Lists of a fixed
    size N have the shape (records, N). Of a batch it is a dict of these, by the
    names of the columns, those of a structure as NAME.FIELD; of what has
    __arrow_c_stream__ alone a list, an entry for each chunk. columns: names of
    those to take; others may be of any type.

    Nothing is copied but booleans, which Arrow packs into bits. Dates, times and
    durations are their integers. Tensors are read-only, and keep the memory: it
    is given back when the last one is gone, in the thread that drops it.

    TypeError: source has neither. ValueError: a column has nulls, or a type that
    no tensor has, and which. KeyError: there is no such column. OSError: the
    stream failed. May be called in any thread."""
    from . import _arrow_c
    return _arrow_c.from_arrow(source, columns)


__all__ = ["Channel", "Dtype", "File", "Follow", "Item", "Loaded",
           "NotFoundError", "OnDevice", "Parts", "Receiver", "Refit", "Saving",
           "Sender", "Slot", "Snapshot", "Store", "Tensor", "Version",
           "__version__", "arange", "default_store", "dtypes", "empty", "equal",
           "from_arrow", "from_dlpack", "from_numpy", "full", "install", "load",
           "node_of_device", "node_of_pci", "ones", "open", "receiver",
           "safe_open", "same_storage", "save", "sender", "tensor", "zeros"]
