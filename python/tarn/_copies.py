# SPDX-License-Identifier: MIT
"""How tensors, files and stores are copied and pickled. This decides what
reaches a process that is no fork of this one: a worker that is spawned, or that
a fork server started.

A tensor is pickled by value, as an array is: its bytes may be anywhere, and a
reference would require the sender to live until they have arrived. Objects with
a name that other processes know too (a file, a store, a loaded file) are
pickled by that name, and the receiver maps the same memory.
"""
import os
import pickle
import threading

from . import _tarn


def _again(data, dtype, shape):
    return _tarn._borrow(data).bitcast(dtype).reshape(shape)


def reduce_tensor(t, protocol):
    """The tensor's bytes in C order; a read-only tensor stays read-only. From
    protocol 5 on the bytes may travel out of band."""
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
    """One store for all objects of it that this process unpickles."""
    with _lock:
        if (kind, socket, pool) not in _stores:
            _stores[kind, socket, pool] = kind(socket, pool)
        return _stores[kind, socket, pool]


def reduce_store(store):
    return store_at, (type(store), os.path.abspath(store.socket), store.pool)


def load_again(store, file):
    return store.load(file)
