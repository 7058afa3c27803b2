# SPDX-License-Identifier: MIT
"""What torch.distributed.checkpoint says about a checkpoint, as JSON. Torch's
own storage pickles it; the store may have been filled by another process, so
what is read here is data alone, and is checked."""
import json
from urllib.parse import quote

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorProperties,
    TensorStorageMetadata)

FORMAT = "tarn.dcp/1"
DTYPES = {str(v).removeprefix("torch."): v for v in vars(torch).values()
          if isinstance(v, torch.dtype)}
INDEX_MAX = 2**20  # of a list in a state dict: a load makes one as long
MEMORY = {"contiguous": torch.contiguous_format,
          "channels_last": torch.channels_last,
          "preserve": torch.preserve_format}


def name_of(fqn, chunk=None, size=None):
    """Below the prefix: the name in the state dict, with the offsets of a chunk
    that is not the whole tensor. "@" and "/" are in no quoted name."""
    name = quote(fqn, safe="")
    if chunk is None or tuple(chunk.sizes) == tuple(size):
        return name
    return f"{name}@{','.join(map(str, chunk.offsets))}"


# ---- to JSON ----


def _properties(fqn, p):
    if p.layout != torch.strided:
        raise ValueError(f"{fqn!r} is {p.layout}, and the store has strided "
                         "tensors; use .to_dense()")
    memory = next((n for n, f in MEMORY.items() if f == p.memory_format), None)
    if memory is None:
        raise ValueError(f"{fqn!r} has the memory format {p.memory_format}; "
                         f"known are {', '.join(MEMORY)}")
    strides = getattr(p, "strides", None)
    return {"dtype": str(p.dtype).removeprefix("torch."), "memory": memory,
            "requires_grad": bool(p.requires_grad),
            "pin_memory": bool(p.pin_memory),
            "strides": None if strides is None else list(strides)}


def _entry(fqn, what):
    if isinstance(what, BytesStorageMetadata):
        return None
    return {**_properties(fqn, what.properties), "size": list(what.size),
            "chunks": [[list(c.offsets), list(c.sizes)] for c in what.chunks]}


def _is_step(p):
    return type(p) is str or type(p) is int and 0 <= p < INDEX_MAX


def _path(fqn, path):
    if not isinstance(path, (tuple, list)) or not all(map(_is_step, path)):
        raise ValueError(f"{fqn!r} is at {path!r} in its state dict, and such "
                         "paths are of text and of whole numbers below "
                         f"{INDEX_MAX}")
    return list(path)


def paths_of(metadata):
    """Where each name is in the state dict, for JSON."""
    data = metadata.planner_data
    if data is not None and not isinstance(data, dict):
        raise ValueError("the planner's data is a "
                         f"{type(data).__name__}, and is stored only if it is "
                         "a dict of paths, as DefaultSavePlanner's is")
    return None if data is None else \
        {fqn: _path(fqn, path) for fqn, path in data.items()}


def encode(metadata):
    """A Metadata as the bytes of JSON text."""
    return json.dumps({
        "format": FORMAT, "version": getattr(metadata, "version", None),
        "state": {fqn: _entry(fqn, what) for fqn, what
                  in metadata.state_dict_metadata.items()},
        "paths": paths_of(metadata),
    }).encode()


# ---- from JSON ----


def _need(fine, what):
    if not fine:
        raise ValueError(what)


def _sizes(found, fqn, n=None):
    """A torch.Size of a list, which has n numbers."""
    _need(isinstance(found, list) and n in (None, len(found)) and
          all(type(i) is int and 0 <= i < 2**63 for i in found),
          f"{fqn!r}: {found!r} is no list of {'' if n is None else n} sizes")
    return torch.Size(found)


def _chunk(found, fqn, size):
    _need(isinstance(found, list) and len(found) == 2,
          f"{fqn!r}: {found!r} is no chunk")
    offsets, sizes = (_sizes(part, fqn, len(size)) for part in found)
    _need(all(o + n <= all_ for o, n, all_ in zip(offsets, sizes, size)),
          f"{fqn!r}: a chunk of {list(sizes)} at {list(offsets)} ends behind "
          f"the tensor's {list(size)}")
    return ChunkStorageMetadata(offsets=offsets, sizes=sizes)


def _tensor(fqn, found):
    _need(isinstance(found, dict), f"{fqn!r}: {found!r} describes no tensor")
    dtype, memory = found.get("dtype"), found.get("memory")
    # A list or a dict has no hash.
    _need(isinstance(dtype, str) and dtype in DTYPES,
          f"{fqn!r}: this PyTorch has no dtype {dtype!r}")
    _need(isinstance(memory, str) and memory in MEMORY,
          f"{fqn!r}: {memory!r} is no memory format")
    size, chunks = _sizes(found.get("size"), fqn), found.get("chunks")
    _need(isinstance(chunks, list), f"{fqn!r}: {chunks!r} are no chunks")
    properties = TensorProperties(
        dtype=DTYPES[dtype], memory_format=MEMORY[memory],
        requires_grad=found.get("requires_grad") is True,
        pin_memory=found.get("pin_memory") is True)
    if found.get("strides") is not None and hasattr(properties, "strides"):
        properties.strides = tuple(_sizes(found["strides"], fqn, len(size)))
    return TensorStorageMetadata(properties, size,
                                 [_chunk(c, fqn, size) for c in chunks])


def paths_from(found):
    """What paths_of made, of text that may be a stranger's."""
    if found is None:
        return None
    _need(isinstance(found, dict), f"{found!r} are no paths")
    for fqn, path in found.items():
        _need(isinstance(path, list) and path and all(map(_is_step, path)),
              f"{fqn!r}: {path!r} is no path in a state dict")
    return {fqn: tuple(path) for fqn, path in found.items()}


def decode(text):
    """The Metadata of the bytes that encode made; ValueError: they are of
    something else."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _need(isinstance(found, dict) and found.get("format") == FORMAT,
          f"it is not in the format {FORMAT}")
    state = found.get("state")
    _need(isinstance(state, dict), "it describes no state dict")
    metadata = Metadata(
        {fqn: BytesStorageMetadata() if what is None else _tensor(fqn, what)
         for fqn, what in state.items()}, paths_from(found.get("paths")))
    if isinstance(found.get("version"), str) and hasattr(metadata, "version"):
        metadata.version = found["version"]
    return metadata
