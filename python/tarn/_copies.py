# SPDX-License-Identifier: MIT
"""What copy and pickle make of tensors, files and stores, and so what reaches
a process that is no fork of this one: a worker that is spawned, or comes from
a fork server.

A tensor goes by value, as an array does: its bytes may be anywhere, and who
has them must not end before they have arrived. What has a name that others
know too (a file, a store, what was loaded of a file) goes by that, and is the
same memory there.
"""
import os
import pickle
import threading

from . import _tarn


def _again(data, dtype, shape):
    return _tarn._borrow(data).bitcast(dtype).reshape(shape)


def reduce_tensor(t, protocol):
    """Its bytes in C order; what is read-only stays so. From protocol 5 on
    they may go beside the pickle."""
    whole = t.clone() if t.storage_kind == "file" else t.contiguous()
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
    """One store for all that reaches this process."""
    with _lock:
        if (kind, socket, pool) not in _stores:
            _stores[kind, socket, pool] = kind(socket, pool)
        return _stores[kind, socket, pool]


def reduce_store(store):
    return store_at, (type(store), os.path.abspath(store.socket), store.pool)


def load_again(store, file):
    return store.load(file)
