# SPDX-License-Identifier: MIT
"""One file for several nodes: each reads a part of it, and gets the rest from
the others, over a process group of torch.distributed.

The ranks that share a store are a node, and its first rank works for all of
them. It reads its part into memory of the store that is not published yet, and
sends and receives there, around a ring of all nodes: each node's link carries
the file once, whatever their number. When every node has said that all bytes
are there, and that they are the same, each publishes them as one set.

All that ranks say to each other goes around rings with a deadline. A rank that
meets an error of its own stays in the ring and reports it at the end, so that
the others fail at once and with that error, not with a timeout.
"""
import datetime
import errno
import hashlib
import json
import math
import os
import socket
import threading
import time

import torch
import torch.distributed as dist

from .. import _plan, _store, _tarn
from .._follow import _FIELDS

# What a rank says at once: JSON, padded with spaces. Its texts, four at most,
# are cut to TEXT bytes of JSON each.
RECORD = 4096
TEXT = 800

VERB = "load_file"


def _cut(text):
    """A text that is not too long for a record."""
    while len(json.dumps(text)) > TEXT:
        text = text[:len(text) * 9 // 10]
    return text


class _Deadline:
    def __init__(self, seconds):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self):
        """Seconds; 0: it has passed."""
        return max(self._end - time.monotonic(), 0)


def _lost(deadline, what, error=None):
    """Another rank is gone, or too slow."""
    if deadline.left() <= 0 or (error and "imed out" in str(error)):
        return TimeoutError(
            errno.ETIMEDOUT,
            f"{VERB}: {what} did not answer within {deadline.seconds:g} s; see "
            "whether it still runs and can read the file, or give a longer "
            "timeout")
    # Of gloo's own words only what happened, without where in its sources.
    why = str(error).rpartition("] ")[2]
    return ConnectionError(
        errno.ECONNRESET,
        f"{VERB}: {what} cannot be reached: it has ended, or gave up because "
        f"of another rank; see what that one reports ({why.split('. ')[0]})")


class _Ring:
    """Some ranks of a group, in a circle: each sends to the next one. names
    are what errors call them."""

    def __init__(self, group, members, deadline, names=None):
        me = dist.get_rank(group)
        self._group, self._deadline = group, deadline
        self._size, self._me = len(members), members.index(me)
        self._names = names or [f"rank {m}" for m in members]
        self._after = self._global(members[(self._me + 1) % self._size])
        self._before = self._global(members[self._me - 1])

    def _global(self, rank):
        return rank if self._group is None else \
            dist.get_global_rank(self._group, rank)

    def _wait(self, work, at):
        if work is None:
            return
        left = self._deadline.left()
        try:
            # 0 would wait for ever.
            work.wait(datetime.timedelta(seconds=max(left, .001)))
        except RuntimeError as e:
            raise _lost(self._deadline, self._names[at % self._size],
                        e) from None

    def _start(self, call, part, rank):
        """A transfer of a part, if there is one."""
        try:
            return None if part is None else call(part, rank, self._group)
        except RuntimeError as e:
            raise _lost(self._deadline,
                        self._names[(self._me - 1) % self._size], e) from None

    def pass_on(self, parts):
        """parts has a tensor for each member: its own, which all others get,
        and places for theirs. None: that one has nothing. What has come is sent
        on at once, while the next part is coming."""
        turns = [(self._me - step) % self._size for step in range(self._size)]
        coming = [self._start(dist.irecv, parts[t], self._before)
                  for t in turns[1:]]
        going = []
        for t, before in zip(turns[:-1], [None] + coming):
            self._wait(before, self._me - 1)
            going.append(self._start(dist.isend, parts[t], self._after))
        self._wait(coming[-1] if coming else None, self._me - 1)
        for work in going:
            self._wait(work, self._me + 1)

    def tell(self, record):
        """What each member says, as a list of dicts."""
        said = [bytearray(RECORD) for _ in range(self._size)]
        said[self._me][:] = json.dumps(record).encode().ljust(RECORD)
        self.pass_on([torch.frombuffer(s, dtype=torch.uint8) for s in said])
        found = []
        for name, text in zip(self._names, said):
            try:
                found.append(dict(json.loads(text)))
            except ValueError:
                raise ConnectionError(
                    errno.EBADMSG, f"{VERB}: what {name} says is not "
                    "understood; use one version of tarn on all nodes"
                ) from None
        return found


# ---- what is loaded ----


class _Source:
    """A file as this rank has it."""

    def __init__(self, path):
        self.path = os.path.abspath(os.fsdecode(path))
        self.file = _store.File(self.path, map=False)
        self.shards = self.file._shards()
        self.extents = []
        for name, shard, offset, size, plain in self.file._extents():
            if not plain:
                raise ValueError(
                    f"{self.path}: {name!r} is not in C order without gaps; "
                    "load such a file without group=, or save it again as "
                    "safetensors")
            self.extents.append(_plan.Extent(
                name, shard, offset, size,
                max(1, math.ceil(self.file[name].itemsize))))

    def size(self):
        return sum(s[1] for s in self.shards)

    def digest(self):
        """Of what must be the same everywhere: the headers, and how long and
        how old the files are."""
        digest = hashlib.sha256()
        for e in self.extents:
            t = self.file[e.name]
            digest.update(repr((e, t.dtype, t.shape)).encode())
        digest.update(repr(sorted(self.file.metadata.items())).encode())
        digest.update(repr([s[1:3] for s in self.shards]).encode())
        return digest.hexdigest()[:32]

    def prefix(self):
        return self.path.strip("/")


def _fail(record, error):
    record["error"] = _cut(f"{type(error).__name__}: {error}")


def _fields(record):
    """Of the published set: which version of the file it is."""
    return {"tarn.file": record["digest"]}


class _Local:
    """What this rank has: its store, its file, and the set that it is to be."""

    def __init__(self, store, path, name):
        self.store = _store.default_store() if store is None else store
        self.source = _Source(path)
        self.prefix = name or self.source.path.strip("/")
        # Every node makes the same one: nothing is said about it.
        self.plan = None

    def record(self):
        """What the others are to know of the file and the store."""
        source, at = self.source, os.stat(self.store.socket)
        found = {"path": _cut(source.path), "size": source.size(),
                 "mtime": max((s[2] for s in source.shards), default=0),
                 "digest": source.digest(),
                 "store": [at.st_dev, at.st_ino, os.getuid(),
                           self.store.pool, self.store.node]}
        return dict(found, has=self.has(found))

    def has(self, record):
        """Is this very version of the file published already?"""
        try:
            self.published(_fields(record))
            return True
        except (OSError, ValueError):
            return False

    def published(self, fields):
        """The set's tensors as a dict, by their names in the file."""
        names = [e.name for e in self.source.extents]
        found = self.store.snapshot(
            names=[f"{self.prefix}/{name}" for name in [*names, _FIELDS]])
        # Of the same commit as the tensors: another process may be publishing.
        has = found[f"{self.prefix}/{_FIELDS}"]._set_fields()
        if has != fields:
            raise ValueError(
                f"{VERB}: {self.prefix!r} is published with the fields {has}, "
                f"where {fields} are wanted: another version of the file was "
                "loaded meanwhile; load it again, or give another name=")
        return {name: found[f"{self.prefix}/{name}"] for name in names}


def _describe(store, path, name, node):
    """This rank's _Local, and what it says of itself: errors, too."""
    record = {"node": _cut(str(node or socket.gethostname()))}
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            record["boot"] = f.read().strip()
        local = _Local(store, path, name)
        record.update(local.record())
        return local, record
    except Exception as e:  # all ranks are to raise it, and none to wait
        _fail(record, e)
        return None, record


def _within(deadline, what, call):
    """What a call returns that raises nothing, and that a file system may block
    for ever; its thread is left behind then."""
    done = []
    thread = threading.Thread(target=lambda: done.append(call()), daemon=True)
    thread.start()
    thread.join(deadline.left())
    if not done:
        raise _lost(deadline, what)
    return done[0]


def _raise_first(records, names):
    """The error that some rank reported, on all ranks."""
    for record, name in zip(records, names):
        if record.get("error"):
            raise OSError(errno.EIO, f"{VERB}: {name}: {record['error']}")


def _same_file(nodes):
    """nodes: the records of one rank of each."""
    first = nodes[0]
    for other in nodes[1:]:
        if other["digest"] != first["digest"]:
            a, b = (f"node {n['node']} has {n['path']} with {n['size']} bytes, "
                    f"changed at {n['mtime']} ns, digest {n['digest']}"
                    for n in (first, other))
            raise ValueError(f"{VERB}: the nodes have different files: {a}; "
                             f"{b}; copy one of them, with its time, to all")


# ---- moving ----


class _Reader:
    """Reads this node's chunks into memory, in a thread of its own that goes
    ahead of the ring. One that is blocked by its file can be left behind."""

    def __init__(self, source, chunks, memory):
        self._source, self._chunks, self._memory = source, chunks, memory
        self._done = [threading.Event() for _ in chunks]
        self._stopped = False
        self.error, self.bytes = None, 0
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self):
        """Nobody wants the rest: its memory is free after this chunk."""
        self._stopped = True

    def _run(self):
        try:
            for chunk, done in zip(self._chunks, self._done):
                if self._stopped:
                    break
                whole = self._source.shards[chunk.file][3]
                self._memory[chunk.at:chunk.at + chunk.size].copy_(
                    whole[chunk.offset:chunk.offset + chunk.size])
                self.bytes += chunk.size
                done.set()
        except Exception as e:  # it is reported to all ranks
            self.error = e
        for done in self._done:
            done.set()

    def wait(self, i, deadline):
        """Until chunk i is there, or cannot be."""
        if not self._done[i].wait(deadline.left()):
            raise _lost(deadline, f"the disk of {self._source.path}")


def _exchange(plan, me, memory, reader, ring_of, deadline):
    """Sends what this node has read, and receives the rest."""
    flat, read = memory.torch(), 0
    for share in plan.shares:
        if me not in share.nodes:
            continue
        ring = ring_of(share.nodes)
        rounds = max(len(c) for c in share.chunks.values())
        for r in range(rounds):
            parts = []
            for node in share.nodes:
                chunks = share.chunks.get(node, ())
                c = chunks[r] if r < len(chunks) else None
                parts.append(c and flat[c.at:c.at + c.size])
                if c and node == me:
                    reader.wait(read, deadline)
                    read += 1
            ring.pass_on(parts)


def _room(local, record):
    """Memory for the plan that is not published yet. What can never be published
    is not to be read, and sent, first."""
    size = max(local.plan.size, 1)
    try:
        budget = local.store.status()["budget"]
        if size > budget:
            raise OSError(
                errno.ENOSPC, f"{VERB}: {local.source.path} has {size:,} "
                f"bytes, and the daemon at {local.store.socket} has a budget of "
                f"{budget:,}; start tarnd with a larger --budget")
        return local.store.create((size,), "U8")
    except Exception as e:  # all ranks are to raise it
        _fail(record, e)
        return None


def _fill(local, memory, me, ring_of, deadline, record):
    """Gets all bytes of the plan; how many were read from the file. An error
    of this node's is noted in the record; one that breaks the ring is
    raised."""
    reader = _Reader(local.source, local.plan.reads(me), memory)
    try:
        _exchange(local.plan, me, memory, reader, ring_of, deadline)
    finally:
        reader.stop()
    if reader.error is not None:
        _fail(record, reader.error)
    else:
        record["sum"] = memory.digest()
    return reader.bytes


def _views(local, memory):
    """The file's tensors over the bytes of the plan."""
    made = {}
    for e in local.source.extents:
        t, at = local.source.file[e.name], local.plan.places[e.name]
        made[e.name] = memory[at:at + e.size].bitcast(t.dtype).reshape(t.shape)
    return made


def _same_bytes(nodes):
    first = nodes[0]
    for other in nodes[1:]:
        if other["sum"] != first["sum"]:
            raise OSError(
                errno.EIO, f"{VERB}: the bytes on node {first['node']} have "
                f"digest {first['sum']}, those on node {other['node']} "
                f"{other['sum']}: the file changed while it was read, or a "
                "byte was lost on the way; load it again")


class _Group:
    """The ranks that load one file, as this rank sees them."""

    def __init__(self, group, deadline, records):
        self._group, self._deadline = group, deadline
        self._ranks = [f"rank {i} on node {r['node']}"
                       for i, r in enumerate(records)]
        _raise_first(records, self._ranks)
        keys = [json.dumps([r["node"], r["boot"], r["store"]])
                for r in records]
        # Nodes are numbered in the order of their first ranks.
        found, me = list(dict.fromkeys(keys)), dist.get_rank(group)
        self._firsts = [keys.index(k) for k in found]
        self.nodes = [records[m] for m in self._firsts]
        self.me = found.index(keys[me])
        self.is_first = self._firsts[self.me] == me

    def ring(self, nodes):
        """The first ranks of some nodes."""
        members = [self._firsts[n] for n in nodes]
        return _Ring(self._group, members, self._deadline,
                     [self._ranks[m] for m in members])

    def tell(self, record):
        """What all ranks say; an error among it is raised. Returns what the
        nodes' first ranks have said."""
        records = _Ring(self._group, list(range(len(self._ranks))),
                        self._deadline, self._ranks).tell(record)
        _raise_first(records, self._ranks)
        return [dict(records[m], node=n["node"])
                for m, n in zip(self._firsts, self.nodes)]


def _load(local, fields, members, deadline):
    """Reads, sends and publishes; how many bytes this rank has read."""
    record, memory, read = {}, None, 0
    if members.is_first:
        memory = _room(local, record)
    members.tell(record)  # nobody reads for a node that has no room
    record = {}
    if members.is_first:
        read = _fill(local, memory, members.me, members.ring, deadline, record)
    _same_bytes(members.tell(record))
    record = {}
    if members.is_first:
        try:
            local.store.publish_set(local.prefix, _views(local, memory),
                                    fields=fields)
        except Exception as e:
            _fail(record, e)
    members.tell(record)
    return read


def _check_group(group):
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError(f"{VERB}: group= needs torch.distributed; call "
                         "init_process_group first")
    backend = str(dist.get_backend_config(group))
    if "gloo" not in backend:
        raise ValueError(
            f"{VERB}: the group's backend is {backend!r}, which does not send "
            "memory of the host; give "
            "torch.distributed.new_group(backend=\"gloo\")")


def load(path, group, *, name=None, node=None, store=None, timeout=300):
    """Loads a file on all nodes of a group. Returns a dict of Tensors of this
    rank's store, and how many bytes this rank has read. See load_file."""
    _check_group(group)
    if not timeout > 0:
        raise ValueError(f"{VERB}: timeout is {timeout!r}; seconds above 0 are "
                         "wanted")
    deadline = _Deadline(timeout)
    local, record = _within(deadline, f"the disk of {os.fsdecode(path)}",
                            lambda: _describe(store, path, name, node))
    everyone = list(range(dist.get_world_size(group)))
    members = _Group(group, deadline,
                     _Ring(group, everyone, deadline).tell(record))
    _same_file(members.nodes)
    if not local.source.extents:
        return {}, 0  # there is no set without tensors
    local.plan, read = _plan.plan(local.source.extents, len(members.nodes)), 0
    if not all(n["has"] for n in members.nodes):
        read = _load(local, _fields(record), members, deadline)
    return _own(local.published(_fields(record))), read


def _own(tensors):
    """The same tensors, copy-on-write for this call alone. Those that share a
    storage still do, so that it is mapped once."""
    found, private = {}, []
    for name, t in tensors.items():
        if not t.size:
            found[name] = t.cow(own=True)
            continue
        flat = (t if t.ndim else t.unsqueeze(0)).bitcast("U8")
        whole = next((mine for theirs, mine in private
                      if _tarn.same_storage(theirs, t)), None)
        if whole is None:
            whole = flat.storage().cow(own=True)
            if whole.size > t.nbytes:
                private.append((t, whole))
        at = flat.offset
        found[name] = whole[at:at + t.nbytes].bitcast(t.dtype).reshape(t.shape)
    return found
