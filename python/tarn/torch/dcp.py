# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint over the store: a checkpoint in memory that all
processes of a machine share.

    import torch.distributed.checkpoint as dcp
    from tarn.torch.dcp import TarnReader, TarnWriter

    dcp.save(state, checkpoint_id="run/7", storage_writer=TarnWriter())
    dcp.load(state, checkpoint_id="run/7", storage_reader=TarnReader())

dcp.async_save takes a TarnWriter too, which copies the state to memory that it
keeps for the next one (staging.py), and as many ranks load as you like, with
any sharding. All ranks must reach one store. A checkpoint is a set of published
tensors: store["run/7/net.weight"] is one of them, in any process. It stays
until its names are removed, or until the machine is restarted.
"""
import dataclasses
import errno
import io
import os
import re
import threading
import uuid

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata, MetadataIndex)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import (
    StorageReader, StorageWriter, WriteResult)
from torch.futures import Future

from .. import _conversions, _parts, _store, _tarn
from . import dcp_metadata, staging

__all__ = ["TarnReader", "TarnWriter"]

METADATA = "@metadata"
STAGED_TTL = 3600  # seconds that tensors of a save that never ends stay
STAGED = re.compile(r"@[0-9a-f]{32}/")  # what a save's own names begin with
# Of one save: 64 storages can be published at once, and one has the metadata.
RANKS_MAX = 63
ONE_PIECE = 2 << 20  # bytes from which on memory is published in one piece


class _Storage:
    """The store and the prefix of a checkpoint.

    The prefix is that of a thread: PyTorch resets a writer for each save, and saves
    in the background may overlap, each in a thread of its own."""

    def __init__(self, checkpoint_id=None, *, store=None):
        self._given = store
        self._first_id = None if checkpoint_id is None else \
            _checked_id(checkpoint_id)
        self._here = threading.local()

    def __getstate__(self):
        # A process that saves in the background has one thread for that.
        state = {**self.__dict__, "_first_id": self.checkpoint_id}
        del state["_here"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._here = threading.local()

    def reset(self, checkpoint_id=None):
        """Another checkpoint: the prefix of its names."""
        if checkpoint_id is not None:
            self._here.id = _checked_id(checkpoint_id)

    @property
    def checkpoint_id(self):
        """The prefix, or None."""
        return getattr(self._here, "id", self._first_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Is it a prefix of names?"""
        try:
            return bool(_checked_id(checkpoint_id))
        except (TypeError, ValueError):
            return False

    @property
    def store(self):
        """Where the tensors are."""
        return _store.default_store() if self._given is None else self._given

    def _prefix(self):
        if self.checkpoint_id is None:
            raise ValueError(f"{type(self).__name__} has no checkpoint_id; "
                             "give it one, or give it to dcp.save or dcp.load")
        return self.checkpoint_id + "/"


def _checked_id(checkpoint_id):
    text = os.fspath(checkpoint_id)
    if not isinstance(text, str) or not text.strip("/"):
        raise ValueError(f"checkpoint_id is {checkpoint_id!r}, which is no "
                         "prefix of names")
    return text.rstrip("/")


def _done(value):
    future = Future()
    future.set_result(value)
    return future


# ---- out ----


class TarnWriter(_Storage, StorageWriter, staging.Stager):
    """The storage_writer of dcp.save and dcp.async_save.

    checkpoint_id is the prefix of the tensors' names, and may be given to
    dcp.save instead; store is the default one where none is given. All names
    of a checkpoint appear in one moment, when each rank has copied its part,
    and an older checkpoint of the same prefix is gone in that moment; after an
    error the older one is there as it was. ValueError: names below the prefix
    are not of a checkpoint, and would be lost; or more than 63 ranks have parts
    to save."""

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        if kwargs.get("use_collectives", True) is False:
            raise ValueError("TarnWriter publishes all ranks' tensors in one "
                             "moment, and needs use_collectives=True")
        if is_coordinator:
            _refuse_foreign(self.store, self._prefix())

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        ranks = sum(1 for plan in plans if plan.items)
        if ranks > RANKS_MAX:
            raise ValueError(
                f"{self.checkpoint_id!r}: {ranks} ranks have parts to save, and "
                f"the parts of {RANKS_MAX} can be published in one moment; save "
                "in groups of fewer ranks (process_group=), each with a "
                "checkpoint_id of its own")
        return plans

    def write_data(self, plan, planner):
        """Copies this rank's part into the store, under names of this save
        alone: as one piece of memory, since few can be published at once."""
        staged = f"{self._prefix()}@{uuid.uuid4().hex}/"
        found = [_resolved(item, planner) for item in plan.items]
        places, size = _parts.side_by_side([data.nbytes for _, data in found])
        whole = max(size, ONE_PIECE if len(found) > 1 else 1)
        memory = self.store._create_untaken(whole)
        views = {}
        for (name, data), at in zip(found, places):
            source = _conversions.to_tensor(data.detach().cpu())
            view = _parts.view_at(memory, at, source.nbytes, source.dtype,
                                  source.shape)
            views[staged + name] = self.store._take_copy(view, source)
        if size < whole:
            self.store._take(memory[size:])
        self._end_staging(planner, [data for _, data in found])
        if views:
            self.store.publish(views, ttl=STAGED_TTL)
        return _done([WriteResult(index=item.index, size_in_bytes=data.nbytes,
                                  storage_data=(staged, name))
                      for item, (name, data) in zip(plan.items, found)])

    def finish(self, metadata, results):
        """Gives what all ranks have copied its names."""
        prefix, store = self._prefix(), self.store
        staged = [r.storage_data for of_rank in results for r in of_rank]
        try:
            text = dcp_metadata.encode(metadata)
            whole = {prefix + name: tensor
                     for name, tensor in self._staged(staged).items()}
            whole[prefix + METADATA] = _bytes_tensor(text)
            _refuse_foreign(store, prefix)
            store.publish(whole, replace=prefix)
        except BaseException:
            self._drop(staged)
            raise

    def _drop(self, staged):
        for prefix in {a for a, _ in staged}:
            self.store.publish({}, replace=prefix)

    def _staged(self, staged):
        """What the ranks have copied, by the names without those of the save."""
        try:
            found = self.store.snapshot(names=[a + b for a, b in staged])
        except _tarn.NotFoundError as e:
            raise RuntimeError(
                f"{self.checkpoint_id!r}: what a rank has copied is no longer "
                "there: another save to this checkpoint_id came in between, "
                f"this one took over {STAGED_TTL} s, or the ranks have "
                f"several stores: {e}") from None
        return {b: found[a + b] for a, b in staged}


def _resolved(item, planner):
    """The name of what a planner has for an item, and its tensor."""
    data, fqn = planner.resolve_data(item), item.index.fqn
    if item.type == WriteItemType.BYTE_IO:
        return dcp_metadata.name_of(fqn), _bytes_in_torch(data.getvalue())
    about = item.tensor_data
    return dcp_metadata.name_of(fqn, about.chunk, about.size), \
        _checked(fqn, data)


def _bytes_in_torch(data):
    # frombuffer refuses to make a tensor of no elements.
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else \
        torch.empty(0, dtype=torch.uint8)


def _checked(fqn, tensor):
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise ValueError(f"{fqn!r} is {tensor.layout} on {tensor.device}, and "
                         "the store has strided tensors with bytes; use "
                         ".to_dense(), or a device that has them")
    return tensor


def _refuse_foreign(store, prefix):
    """What is below the prefix is what the older checkpoint there lists, or of
    saves that have not ended."""
    below = store.snapshot(prefix)
    ours = {METADATA}
    if prefix + METADATA in below:
        try:
            ours.update(_listed(dcp_metadata.decode(
                _bytes_of(below[prefix + METADATA]))).values())
        except ValueError:
            pass  # it lists nothing
    for name in (n[len(prefix):] for n in below):
        if name not in ours and not STAGED.match(name):
            raise ValueError(
                f"{prefix + name!r} is not of the checkpoint {prefix[:-1]!r}, "
                "which would replace it; choose another checkpoint_id, or "
                "remove that name")


# ---- in ----


class TarnReader(_Storage, StorageReader):
    """The storage_reader of dcp.load.

    checkpoint_id and store as TarnWriter has them. A rank reads the checkpoint
    as it stood at one moment, whatever is saved meanwhile, and copies what it
    needs straight from shared memory; a load fails if its ranks have found two
    different checkpoints. What is no tensor, such as a step or a learning
    rate, is pickled in a checkpoint: weights_only, as that of torch.load,
    allows plain values alone; False runs whatever code the pickle has."""

    def __init__(self, checkpoint_id=None, *, store=None, weights_only=True):
        super().__init__(checkpoint_id, store=store)
        self._weights_only = weights_only
        self._close()

    def reset(self, checkpoint_id=None):
        super().reset(checkpoint_id)
        self._close()

    def _close(self):
        self._found, self._names = {}, {}

    def read_metadata(self):
        prefix = self._prefix()
        snapshot = self.store.snapshot(prefix)
        if prefix + METADATA not in snapshot:
            raise _tarn.NotFoundError(
                errno.ENOENT, f"there is no checkpoint {self.checkpoint_id!r} "
                f"in the store at {self.store.socket}")
        try:
            metadata = dcp_metadata.decode(
                _bytes_of(snapshot[prefix + METADATA]))
            names = _names(metadata, prefix, snapshot)
        except ValueError as e:
            raise ValueError(f"{prefix + METADATA!r} describes no checkpoint: "
                             f"{e}") from None
        self._found, self._names = snapshot, names
        # Versions of a name begin anew when it was removed; commits do not.
        self._version = snapshot._commits[prefix + METADATA]
        metadata.storage_data = names
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args,
                              **kwargs):
        self._names = metadata.storage_data

    def prepare_local_plan(self, plan):
        return dataclasses.replace(plan, storage_data=self._version)

    def prepare_global_plan(self, plans):
        found = sorted({plan.storage_data for plan in plans})
        if len(found) > 1:
            raise RuntimeError(
                f"{self.checkpoint_id!r} was saved again while the ranks "
                f"opened it: they have what was saved as {found}; load it "
                "again")
        return plans

    def read_data(self, plan, planner):
        """Copies the parts that the plan names; then the checkpoint's memory
        is let go."""
        for item in plan.items:
            source = self._found[self._names[item.storage_index]]
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, self._plain(item, source))
            else:
                _copy(item, source, planner)
        self._close()
        return _done(None)

    def _plain(self, item, source):
        """The bytes of an object that are safe to load: the planner loads
        whatever it gets."""
        data = io.BytesIO(_bytes_of(source))
        if not self._weights_only:
            return data
        try:
            value = torch.load(data, weights_only=True)
        except Exception as e:
            raise ValueError(
                f"{item.storage_index.fqn!r} of {self.checkpoint_id!r} is no "
                "plain value; TarnReader(weights_only=False) loads it, and "
                f"runs the code in it: {e}") from None
        made = io.BytesIO()
        torch.save(value, made)
        made.seek(0)
        return made


def _copy(item, source, planner):
    # Not source.torch(): this process may have written to that.
    if source.storage_kind != "device":
        source = source.cow(own=True)
    part = source.torch()
    for dim, (start, n) in enumerate(zip(item.storage_offsets, item.lengths)):
        part = part.narrow(dim, start, n)
    target = planner.resolve_tensor(item).detach()
    if target.size() != part.size():
        raise ValueError(f"{item.storage_index.fqn!r}: {list(part.size())} of "
                         f"it go to {list(target.size())}")
    target.copy_(part)
    planner.commit_tensor(item, target)


def _bytes_tensor(data):
    return _conversions.to_tensor(data, "U8")


def _bytes_of(tensor):
    if tensor.dtype != "U8" or tensor.ndim != 1 or \
            tensor.storage_kind == "device":
        raise ValueError(f"{tensor!r} is no row of bytes")
    return bytes(memoryview(tensor.contiguous()))


def _listed(metadata):
    """The name of each piece below the prefix."""
    names = {}
    for fqn, what in metadata.state_dict_metadata.items():
        if isinstance(what, BytesStorageMetadata):
            names[MetadataIndex(fqn)] = dcp_metadata.name_of(fqn)
            continue
        for chunk in what.chunks:
            names[MetadataIndex(fqn, chunk.offsets)] = \
                dcp_metadata.name_of(fqn, chunk, what.size)
    return names


def _names(metadata, prefix, snapshot):
    """The name of each piece, which is there and is what metadata says."""
    names = {at: prefix + name for at, name in _listed(metadata).items()}
    for name in names.values():
        if name not in snapshot:
            raise ValueError(f"there is no {name!r}")
    for fqn, what in metadata.state_dict_metadata.items():
        for chunk in getattr(what, "chunks", ()):
            name = names[MetadataIndex(fqn, chunk.offsets)]
            _check_piece(name, snapshot[name], chunk, what.properties.dtype)
    return names


def _check_piece(name, tensor, chunk, dtype):
    if _in_torch(tensor) != (dtype, tuple(chunk.sizes)):
        raise ValueError(f"{name!r} is {tensor.dtype} {tensor.shape}, not "
                         f"{dtype} {tuple(chunk.sizes)}")


def _in_torch(tensor):
    """Its dtype and its shape: two elements of F4 are one of PyTorch's."""
    if tensor.dtype != "F4":
        return tensor.dtype, tensor.shape
    return getattr(torch, _conversions.TORCH["F4"][0], None), \
        (*tensor.shape[:-1], *(n // 2 for n in tensor.shape[-1:]))
