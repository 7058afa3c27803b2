# SPDX-License-Identifier: MIT
"""Tensors in the store's memory that processes write and read together.

multiprocessing sends a descriptor of 256 bytes instead of such a tensor's
bytes, and no file descriptor. A descriptor holds no memory: the sender must
keep the tensor until it has been received.
"""
import uuid
from multiprocessing.reduction import ForkingPickler

import torch

from .. import _store
from .._conversions import to_tensor

TTL = 60  # seconds: long enough for any process that is alive
_stores = {}


class Shared(torch.Tensor):
    """A tensor in the store; results computed from it are ordinary tensors.
    torch.save, copy and pickle take it by value, multiprocessing by
    reference."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def _plain(self):
        return self.as_subclass(torch.Tensor)

    def __reduce_ex__(self, protocol):
        return self._plain().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        memo[id(self)] = copy = self._plain().__deepcopy__(memo)
        return copy


def wrap(tensor, store, requires_grad=False):
    made = torch.Tensor._make_subclass(Shared, tensor.torch(), requires_grad)
    made._where = (store.socket, store.pool, store._export(tensor))
    made._bytes = made.data_ptr(), made.shape, made.stride()
    return made


def _publish_unnamed(store, made):
    """A tensor becomes the store's by having a name for a moment. The name has
    a time to live, so a process that is killed meanwhile leaves none."""
    label = f"tarn.torch/{uuid.uuid4().hex}"
    store.publish(label, made, ttl=TTL)
    try:
        store.remove(label)
    except KeyError:
        pass  # this process was stopped for as long


def share(tensor, name=None, *, store=None):
    """A copy of a tensor in the store's memory, writable by all who have it:
    by multiprocessing's queues, pipes and arguments, which carry no byte of
    it, and by name, if there is one, as store[name].torch(). The sender keeps
    it until it has been received; it may be passed on.

    Without a name its memory ends with the last process that has it; a name
    stays until it is removed. A tensor that is already shared is returned
    itself, unless a name is given. The processes must order their writes
    themselves."""
    if name is None and store is None and _is_whole(tensor):
        return tensor
    store = _store.default_store() if store is None else store
    _stores.setdefault((store.socket, store.pool), store)
    source = to_tensor(tensor.detach().cpu())
    made = store.create(source.shape, source.dtype, mutable=True)
    made.copy_(source)
    if name is None:
        _publish_unnamed(store, made)
    else:
        store.publish(name, made)
    return wrap(made, store,
                 tensor.requires_grad and tensor.is_leaf)


def _is_whole(tensor):
    """Is it still the tensor that was shared? (resize_, set_ and .data change
    it.)"""
    return isinstance(tensor, Shared) and hasattr(tensor, "_where") and \
        tensor._bytes == (tensor.data_ptr(), tensor.shape, tensor.stride())


def _store_at(socket, pool):
    """One store for each socket and pool, for a process that receives many
    tensors: the one that it has, so that the same tensor is the same memory.
    """
    where = socket, pool
    store, usual = _stores.get(where), _store._default
    if store is None and usual is not None and \
            (usual.socket, usual.pool) == where:
        store = _stores.setdefault(where, usual)
    if store is None:  # of two threads here at once, one wins
        store = _stores.setdefault(where, _store.Store(socket, pool or None))
    return store


def _receive(socket, pool, descriptor, requires_grad):
    store = _store_at(socket, pool)
    return wrap(store._import(descriptor), store, requires_grad)


def _reduce(tensor):
    if not _is_whole(tensor):
        return torch.multiprocessing.reductions.reduce_tensor(tensor._plain())
    return _receive, (*tensor._where, tensor.requires_grad)


ForkingPickler.register(Shared, _reduce)
