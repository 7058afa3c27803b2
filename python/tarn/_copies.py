# SPDX-License-Identifier: MIT
"""How tensors, files and stores are copied and pickled. This decides what
reaches a process that is no fork of this one: a worker that is spawned, or that
a fork server started.

A tensor is pickled by value, as an array is: its bytes may be anywhere, and a
reference would require the sender to live until they have arrived. One that is
published on a GPU is an exception, since a copy of it would go through memory of
the host: it is pickled as its descriptor, and the sender must keep it until it
has been received. Objects with a name that other processes know too (a file, a store, a loaded file) are
pickled by that name, and the receiver maps the same memory.
"""
import os
import pickle
import threading
import weakref

from . import _tarn


def _again(data, dtype, shape):
    return _tarn._borrow(data).bitcast(dtype).reshape(shape)


known_stores: "weakref.WeakSet" = weakref.WeakSet()  # of this process


def _published(t):
    """How to find a published tensor again, or None."""
    for store in list(known_stores):
        try:
            return store, store._export(t)
        except (OSError, ValueError):  # it is no store's, or another's
            continue
    return None


def _import_again(store, descriptor):
    return store._import(descriptor)


def reduce_tensor(t, protocol):
    """The tensor's bytes in C order; a read-only tensor stays read-only. From
    protocol 5 on the bytes may travel out of band."""
    where = _published(t) if t.storage_kind == "device" else None
    if where is not None:
        return _import_again, where
    whole = t.clone() if t.storage_kind in ("file", "device") else \
        t.contiguous()
    flat = whole.reshape(-1).bitcast("U8")
    if protocol >= 5:
        data = pickle.PickleBuffer(flat)
        if t.readonly and not flat.readonly:
            data = pickle.PickleBuffer(memoryview(flat).toreadonly())
    else:
        data = bytes(flat) if t.readonly else bytearray(flat)
    return _again, (data, t.dtype, t.shape)


_stores: dict = {}
_lock = threading.Lock()


def _new_lock():
    global _lock
    _lock = threading.Lock()


# A fork while another thread opens a store leaves its lock taken.
os.register_at_fork(after_in_child=_new_lock)


def store_at(kind, socket, pool):
    """One store for all objects of it that this process unpickles."""
    with _lock:
        if (kind, socket, pool) not in _stores:
            _stores[kind, socket, pool] = kind(socket, pool)
        return _stores[kind, socket, pool]


def reduce_store(store):
    return store_at, (type(store), os.path.abspath(store.socket), store.pool)


def load_again(store, path):
    return store.load(path)
