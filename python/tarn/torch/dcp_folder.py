# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint to a folder, as the safetensors files that
transformers, vLLM and tarn.load read, and from there.

    import torch.distributed.checkpoint as dcp
    from tarn.torch.dcp_folder import FolderReader, FolderWriter

    dcp.save(net.state_dict(), checkpoint_id="out/7",
             storage_writer=FolderWriter())
    dcp.load(state, checkpoint_id="out/7", storage_reader=FolderReader())

Tensors that are sharded among ranks are whole in the files, so that any reader
has them and any number of ranks load them, with any sharding. The ranks hand
their parts over in the store, which all of them must reach; one of them writes.
"""
import base64
import binascii
import errno
import json
import os

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
    TensorProperties, TensorStorageMetadata)

from .. import _store
from . import dcp, dcp_metadata

__all__ = ["FolderReader", "FolderWriter"]

INDEX = "model.safetensors.index.json"
ONE_FILE = "model.safetensors"
# In the files' metadata: what safetensors has no place for.
KEY = "tarn.dcp"
FORMAT = "tarn.dcp.folder/1"
# A checkpoint that is replaced this often in a row is replaced faster than it
# can be opened; picked.
TRIES = 10


class FolderWriter(dcp.TarnWriter):
    """The storage_writer of dcp.save and dcp.async_save that writes a folder.

    checkpoint_id is its path; it is made if it is not there. It gets the index
    model.safetensors.index.json and the shards that this names, of at most
    shard_bytes each, as tarn.save makes them: a process that opens the index, also
    after a crash, finds the older checkpoint or this one, whole. store is where
    the ranks hand over their parts, the default one where none is given. The rank
    that writes needs memory for the tensors that were sharded, once more. What is
    no tensor is kept in the files' metadata."""

    def __init__(self, checkpoint_id=None, *, store=None, shard_bytes=None):
        super().__init__(checkpoint_id, store=store)
        self._shard_bytes = shard_bytes

    def _prefix(self):
        """Of what ranks hand over: a name for each save follows."""
        super()._prefix()
        return "@dcp/"

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        if kwargs.get("use_collectives", True) is False:
            raise ValueError("FolderWriter has one rank write what all have, and "
                             "needs use_collectives=True")
        if is_coordinator:
            super()._prefix()
            os.makedirs(self.checkpoint_id, exist_ok=True)

    def prepare_global_plan(self, plans):
        # Nothing of all ranks is published in one moment.
        return plans

    def finish(self, metadata, results):
        """Writes what all ranks have handed over."""
        staged = [r.storage_data for of_rank in results for r in of_rank]
        try:
            found = self._staged(staged)
            tensors, plain = _whole(metadata, found)
            about = {"format": FORMAT, "plain": plain,
                     "paths": dcp_metadata.paths_of(metadata)}
            # transformers wants to know whose tensors these are.
            _store.save(os.path.join(self.checkpoint_id, INDEX), tensors,
                        {"format": "pt", KEY: json.dumps(about)},
                        shard_bytes=self._shard_bytes)
        finally:
            self._drop(staged)


def _whole(metadata, found):
    """The tensors by their names, and what is none as text."""
    tensors, plain = {}, {}
    for fqn, what in metadata.state_dict_metadata.items():
        if isinstance(what, BytesStorageMetadata):
            data = dcp._bytes_of(found[dcp_metadata.name_of(fqn)])
            plain[fqn] = base64.b64encode(data).decode()
        else:
            tensors[fqn] = _assembled(fqn, what, found)
    return tensors, plain


def _assembled(fqn, what, found):
    pieces = [(c, found[dcp_metadata.name_of(fqn, c, what.size)])
              for c in what.chunks]
    if len(pieces) == 1 and tuple(pieces[0][0].sizes) == tuple(what.size):
        return pieces[0][1]
    if sum(c.sizes.numel() for c, _ in pieces) != what.size.numel():
        raise ValueError(f"{fqn!r}: the ranks have saved parts of it, and not "
                         "all of it")
    whole = torch.empty(what.size, dtype=what.properties.dtype)
    for chunk, piece in pieces:
        part = whole
        for dim, (start, n) in enumerate(zip(chunk.offsets, chunk.sizes)):
            part = part.narrow(dim, start, n)
        part.copy_(piece.torch())
    return whole


class FolderReader(dcp.TarnReader):
    """The storage_reader of dcp.load that reads such a folder, or one that
    another library has written: with model.safetensors.index.json, or
    model.safetensors alone.

    checkpoint_id is its path. All ranks of a machine read the files once, to
    shared memory, and copy what they need from there; a load fails if its ranks
    have found two different checkpoints. store and weights_only are those of
    TarnReader."""

    def read_metadata(self):
        self._prefix()
        path = _path_in(self.checkpoint_id)
        for _ in range(TRIES):
            before = _version(path)
            try:
                loaded = self.store.load(path)
            except FileNotFoundError:  # a shard of the one that was replaced
                if _version(path) == before:
                    raise
                continue
            if _version(path) == before:
                break
        else:
            raise OSError(errno.ESTALE, "it was replaced again and again while "
                          "it was opened", path)
        self._version = before
        paths, plain = _about(loaded)
        state, self._found, self._names = {}, {}, {}
        for fqn, tensor in loaded.items():
            state[fqn], chunk = _described(tensor.torch())
            self._found[fqn] = tensor
            self._names[MetadataIndex(fqn, chunk.offsets)] = fqn
        for fqn, data in plain.items():
            state[fqn] = BytesStorageMetadata()
            self._found[fqn] = dcp._bytes_tensor(data)
            self._names[MetadataIndex(fqn)] = fqn
        return Metadata(state, paths, self._names)


def _path_in(folder):
    for name in (INDEX, ONE_FILE):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise FileNotFoundError(
        errno.ENOENT, f"no checkpoint: it has neither {INDEX} nor {ONE_FILE}",
        folder)


def _version(path):
    at = os.stat(path)
    return at.st_ino, at.st_size, at.st_mtime_ns


def _described(tensor):
    size = tensor.size()
    chunk = ChunkStorageMetadata(offsets=torch.Size([0] * len(size)),
                                 sizes=size)
    return TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), size,
                                 [chunk]), chunk


def _about(loaded):
    """The paths in the state dict, and the bytes of what is no tensor. Another
    library's files have neither."""
    text = loaded.metadata.get(KEY)
    if text is None:
        return None, {}
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("format") != FORMAT or \
                not isinstance(found.get("plain"), dict):
            raise ValueError(f"it is not in the format {FORMAT}")
        plain = {fqn: base64.b64decode(data, validate=True)
                 for fqn, data in found["plain"].items()}
        if plain.keys() & loaded.keys():
            raise ValueError("a tensor has the name of what is none")
        return dcp_metadata.paths_from(found.get("paths")), plain
    except (ValueError, TypeError, RecursionError, binascii.Error) as e:
        raise ValueError(f"{loaded.path}: its metadata {KEY!r} describes no "
                         f"checkpoint: {e}") from None
