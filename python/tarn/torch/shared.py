# SPDX-License-Identifier: MIT
"""Tensors in the store's memory that processes write and read together.

What multiprocessing carries of such a tensor is a descriptor of 256 bytes, not
its bytes, and no file descriptor. A descriptor holds nothing: whoever sends
the tensor keeps it until it has been received.
"""
import uuid
from multiprocessing.reduction import ForkingPickler

import torch

from .. import _store
from .._arrays import to_tensor

TTL = 60  # seconds: long enough for any process that goes on
_stores = {}


class Shared(torch.Tensor):
    """A tensor in the store; what is computed of it is an ordinary one. By
    value in torch.save, copy and pickle, as itself in multiprocessing."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def _plain(self):
        return self.as_subclass(torch.Tensor)

    def __reduce_ex__(self, protocol):
        return self._plain().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        memo[id(self)] = copy = self._plain().__deepcopy__(memo)
        return copy


def _wrap(tensor, store, requires_grad=False):
    made = torch.Tensor._make_subclass(Shared, tensor.torch(), requires_grad)
    made._where = (store.socket, store.pool, store._export(tensor))
    made._bytes = made.data_ptr(), made.shape, made.stride()
    return made


def _publish_unnamed(store, made):
    """What is to be the store's has a name for a moment; who is killed in it
    leaves one that ends by itself."""
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
    stays until it is removed. A tensor that is shared already is returned
    itself, unless a name is given. Nothing orders the processes' writes:
    that is theirs to do."""
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
    return _wrap(made, store,
                 tensor.requires_grad and tensor.is_leaf)


def _is_whole(tensor):
    """Is it what was shared, still? (resize_, set_ and .data make it another.)
    """
    return isinstance(tensor, Shared) and hasattr(tensor, "_where") and \
        tensor._bytes == (tensor.data_ptr(), tensor.shape, tensor.stride())


def _store_at(socket, pool):
    """One store of each, for a process that receives many tensors: the one
    that it has, so that the same tensor is the same memory."""
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
    return _wrap(store._import(descriptor), store, requires_grad)


def _reduce(tensor):
    if not _is_whole(tensor):
        return torch.multiprocessing.reductions.reduce_tensor(tensor._plain())
    return _receive, (*tensor._where, tensor.requires_grad)


ForkingPickler.register(Shared, _reduce)
