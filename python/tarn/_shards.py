# SPDX-License-Identifier: MIT
"""tarn.save of a checkpoint in shards: files of bounded size, and the index that
names them, as Hugging Face's loaders read it.

The index is written last, and the shards of a checkpoint that it replaces have
other names: so a reader finds the old checkpoint or the new one, never a mixture,
and a process that is killed has changed nothing. Its shards stay then, and belong to
no index. A reader that has read the old index, and has not opened all its shards yet
when they are removed, gets an error that they are gone: it opens the index again."""
import contextlib
import errno
import json
import os
import re
import secrets

from . import _conversions, _tarn

SUFFIX = ".safetensors.index.json"
LIMIT = 5 << 30  # what Hugging Face's libraries take


def limit_of(path, shard_bytes):
    """The most bytes of tensors that a shard has; None: path is one file."""
    index = os.fspath(path)
    index = index if isinstance(index, str) else os.fsdecode(index)
    if not index.endswith(SUFFIX):
        if shard_bytes is None:
            return None
        raise ValueError(f"save: shards are named by an index, and {index!r} does "
                         f"not end in {SUFFIX}")
    if shard_bytes is None:
        return LIMIT
    if isinstance(shard_bytes, bool) or not isinstance(shard_bytes, int) or \
            shard_bytes < 1:
        raise ValueError(f"save: shard_bytes is {shard_bytes!r}; a number of "
                         "bytes is wanted")
    return shard_bytes


def _split(tensors, limit):
    """In their order; one that is larger than the limit has a shard of its
    own."""
    shards, used = [{}], 0
    for name, tensor in tensors.items():
        if shards[-1] and used + tensor.nbytes > limit:
            shards.append({})
            used = 0
        shards[-1][name] = tensor
        used += tensor.nbytes
    return shards


def _old_shards(path, stem):
    """Of the checkpoint that is there: those that this function has named."""
    ours = re.compile(re.escape(stem) + r"(-[0-9a-f]{8})?-\d{5,}-of-\d{5,}"
                      r"\.safetensors")
    try:
        with open(path, encoding="utf-8") as f:
            names = set(json.load(f)["weight_map"].values())
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return set()  # there is none: what is replaced is that file alone
    return {n for n in names if isinstance(n, str) and ours.fullmatch(n)}


def _new_shards(folder, stem, count, marked):
    """Names that no file has; marked: nor has had, since somebody may have read
    an older index."""
    mark = f"-{secrets.token_hex(4)}" if marked else ""
    while True:
        names = [f"{stem}{mark}-{i + 1:05}-of-{count:05}.safetensors"
                 for i in range(count)]
        if not any(os.path.lexists(os.path.join(folder, n)) for n in names):
            return names
        mark = f"-{secrets.token_hex(4)}"


def _remove(folder, names):
    for name in names:
        try:
            os.unlink(os.path.join(folder, name))
        except FileNotFoundError:
            pass


def _sync(folder):
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_index(path, folder, index, exclusive):
    temporary = f"{path}.{secrets.token_hex(4)}"
    try:
        with open(temporary, "x", encoding="utf-8") as f:
            json.dump(index, f, indent=2, ensure_ascii=False)
            f.write("\n")
            f.flush()
            os.fsync(f.fileno())
        if exclusive:
            os.link(temporary, path)
        else:
            os.rename(temporary, path)
        _sync(folder)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def _progress_of(progress, before, total):
    """That of one shard, as part of all."""
    if progress is None:
        return None
    return lambda done, _: progress(min(before + done, total), total)


def save(path, tensors, metadata, limit, checksums, align, exclusive, progress):
    path = os.path.abspath(os.fsdecode(path))
    folder, name = os.path.split(path)
    stem = name[:-len(SUFFIX)]
    if exclusive and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    tensors = {n: _conversions.to_tensor(t) for n, t in tensors.items()}
    shards = _split(tensors, limit)
    names = _new_shards(folder, stem, len(shards), os.path.lexists(path))
    old = _old_shards(path, stem)
    total, done, ours = sum(t.nbytes for t in tensors.values()), 0, []
    index = {"metadata": {**(metadata or {}), "total_size": total},
             "weight_map": {n: file for file, shard in zip(names, shards)
                            for n in shard}}
    try:
        for file, shard in zip(names, shards):
            _tarn._save(os.path.join(folder, file), shard, metadata, checksums,
                        align, True, _progress_of(progress, done, total))
            ours.append(file)  # before, it might be another process's
            done += sum(t.nbytes for t in shard.values())
        _write_index(path, folder, index, exclusive)
    except BaseException:
        # The first error is the one to be told; and the index may be there.
        with contextlib.suppress(OSError):
            there = _old_shards(path, stem)
            _remove(folder, (old if there & set(ours) else set(ours)) - there)
        raise
    with contextlib.suppress(OSError):  # it is saved
        _remove(folder, old - set(names))
