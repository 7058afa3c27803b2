# SPDX-License-Identifier: MIT
"""One file for several nodes: each reads a part of it, and gets the rest from
the others, over a process group of torch.distributed.

The ranks that share a store are a node, and its first rank works for all of
them. It reads its part into memory of the store that is not published yet, and
sends and receives there, around a ring of all nodes: each node's link carries
the file once, whatever their number. When every node has said that all bytes
are there, and that they are the same, each publishes them as one set. Where ranks
want some tensors only, a node gets those that one of its ranks wants.

All that ranks say to each other goes around rings with a deadline. A rank that
meets an error of its own stays in the ring and reports it at the end, so that
the others fail at once and with that error, not with a timeout.
"""
import errno
import hashlib
import json
import os
import socket
import threading

import torch
import torch.distributed as dist

from .. import _parts, _plan, _store, _tarn
from .._follow import _FIELDS
from .moving import Reader as _Reader, Taker as _Taker, exchange as _exchange
from .ring import VERB, Deadline, Ring, cut, lost

# ---- what is loaded ----


class _Source:
    """A file as this rank has it."""

    def __init__(self, path, store):
        self.path = os.path.abspath(os.fsdecode(path))
        self.file = _store.File(self.path, map=False, store=store)
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
                self.file[name].itemsize.as_integer_ratio()[0]))

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


def _fail(record, error):
    record["error"] = cut(f"{type(error).__name__}: {error}")


class _Local:
    """What this rank has: its store, its file, and the set that it is to be.
    wanted: the tensors that this rank wants; needed: those that its node does,
    which make the set. Both are in the order of the file."""

    def __init__(self, store, path, name, views):
        self.store = _store.default_store() if store is None else store
        self.source = _Source(path, self.store)
        self.prefix = name or self.source.path.strip("/")
        self.names = [e.name for e in self.source.extents]
        chosen = self.names if views is None else \
            _parts.views_of(self.source.file, views)
        self.wanted = [n for n in self.names if n in chosen]
        self.needed = self.wanted
        self.digest = self.source.digest()
        # Every node makes the same one: nothing is said about it.
        self.plan = None

    def wants_all(self):
        return len(self.wanted) == len(self.names)

    def fields(self):
        """Of the published set: which version of the file it is, and which of its
        tensors, where these are not all. Other names below its own are left from
        other sets."""
        if len(self.needed) == len(self.names):
            return self._fields_of_all()
        names = hashlib.sha256(repr(self.needed).encode()).hexdigest()[:32]
        return {**self._fields_of_all(), "tarn.names": names}

    def _fields_of_all(self):
        return {"tarn.file": self.digest}

    def record(self):
        """What the others are to know of the file and the store."""
        source, at = self.source, os.stat(self.store.socket)
        found = {"path": cut(source.path), "as": cut(self.prefix),
                 "size": source.size(),
                 "mtime": max((s[2] for s in source.shards), default=0),
                 "digest": self.digest, "all": self.wants_all(),
                 "store": [at.st_dev, at.st_ino, os.getuid(),
                           self.store.pool, self.store.node]}
        return dict(found, has=self.wants_all() and self.has())

    def has(self):
        """Is what this node needs of this very version published already?"""
        try:
            self.published(self.needed)
            return True
        except (OSError, ValueError):
            return False

    def published(self, names):
        """These tensors of the set as a dict, by their names in the file."""
        if not names:
            return {}
        fields = self.fields()
        found = self.store.snapshot(
            names=[f"{self.prefix}/{name}" for name in [*names, _FIELDS]])
        # Of the same commit as the tensors: another process may be publishing.
        has = found[f"{self.prefix}/{_FIELDS}"]._set_fields()
        if has not in (fields, self._fields_of_all()):
            raise ValueError(
                f"{VERB}: {self.prefix!r} is published with the fields {has}, "
                f"where {fields} are wanted: another version of the file, or "
                "other tensors of it, were loaded meanwhile; load it again, or "
                "give another name=")
        # A refit, or a plain publication, changes tensors and leaves that field.
        if len(set(found._commits.values())) > 1:
            raise ValueError(
                f"{VERB}: tensors of {self.prefix!r} were published after the "
                "file was loaded; load it again, or give another name=")
        return {name: found[f"{self.prefix}/{name}"] for name in names}


def _describe(store, path, name, node, views):
    """This rank's _Local, and what it says of itself: errors, too."""
    record = {"node": cut(str(node or socket.gethostname()))}
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            record["boot"] = f.read().strip()
        local = _Local(store, path, name, views)
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
        raise lost(deadline, what)
    return done[0]


def _raise_first(records, names):
    """The error that some rank reported, on all ranks."""
    for record, name in zip(records, names):
        if record.get("error"):
            raise OSError(errno.EIO, f"{VERB}: {name}: {record['error']}")


def _same_file(records):
    """Of all ranks: those of one node may have been given different paths, too."""
    first = records[0]
    for other in records[1:]:
        if other["digest"] != first["digest"]:
            a, b = (f"node {n['node']} has {n['path']} with {n['size']} bytes, "
                    f"changed at {n['mtime']} ns, digest {n['digest']}"
                    for n in (first, other))
            raise ValueError(f"{VERB}: the nodes have different files: {a}; "
                             f"{b}; copy one of them, with its time, to all")


# ---- moving ----


def _room(local, me, record):
    """Memory that is not published yet, nor taken, of one piece. What can never be
    published is not to be read, and sent, first."""
    size = local.plan.size(me)
    try:
        budget = local.store.status()["budget"]
        if size > budget:
            raise OSError(
                errno.ENOSPC, f"{VERB}: {local.source.path} has {size:,} "
                f"bytes, and the daemon at {local.store.socket} has a budget of "
                f"{budget:,}; start tarnd with a larger --budget")
        return local.store._create_untaken(max(size, 1))
    except Exception as e:  # all ranks are to raise it
        _fail(record, e)
        return None


def _memories(plan, me, memory):
    """Of a node's memory those of its shares, by their numbers."""
    return {i: memory[begin:begin + plan.shares[i].size]
            for i, begin in plan.begins(me).items()}


def _fill(local, memory, me, ring_of, deadline, record):
    """Gets all bytes that this node needs; their memories by the numbers of their
    shares, and how many were read from the file. An error of this node's is noted in
    the record; one that breaks the ring is raised."""
    memories = _memories(local.plan, me, memory)
    reader = _Reader(local.store, local.source, local.plan.reads(me), memories)
    taker = _Taker(local.store, local.plan, me, memory, memories)
    try:
        _exchange(local.plan, me, taker, reader, ring_of, deadline)
        taker.join(deadline)
    finally:
        reader.stop()
        taker.stop()
    if taker.error is not None:
        _fail(record, taker.error)
    if reader.error is not None:
        _fail(record, reader.error)
        if local.source.path not in record["error"]:
            record["error"] = cut(f"{local.source.path}: {record['error']}")
    return memories, reader.bytes


def _views(local, memories):
    """The tensors that this node needs, over their bytes."""
    places = {name: (memory, at) for i, memory in memories.items()
              for name, at in local.plan.shares[i].places.items()}
    needed, made = set(local.needed), {}
    for e in local.source.extents:
        if e.name in needed:
            t, (memory, at) = local.source.file[e.name], places[e.name]
            made[e.name] = memory[at:at + e.size].bitcast(t.dtype) \
                .reshape(t.shape)
    return made


def _sums(plan, memories):
    """The digest of each share, where this node has it."""
    return b"".join(
        bytes.fromhex(memories[i].digest()) if i in memories else bytes(16)
        for i in range(len(plan.shares)))


def _same_bytes(plan, nodes, sums):
    """sums: of each node."""
    for i, share in enumerate(plan.shares):
        seen = [sums[n][16 * i:16 * i + 16].hex() for n in share.nodes]
        for n, other in zip(share.nodes, seen):
            if other != seen[0]:
                raise OSError(
                    errno.EIO, f"{VERB}: the bytes on node "
                    f"{nodes[share.nodes[0]]['node']} have digest {seen[0]}, "
                    f"those on node {nodes[n]['node']} {other}: the file "
                    "changed while it was read, or a byte was lost on the "
                    "way; load it again")


def _names_of(record):
    """Whose names a node's set has: all NUMA nodes of a pool have the same."""
    device, inode, user, pool, _ = record["store"]
    return record["boot"], device, inode, pool or user


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
        self._node_of = [found.index(k) for k in keys]
        self.want_all = all(r["all"] for r in records)
        self.nodes = [records[m] for m in self._firsts]
        self.me = self._node_of[me]
        self.is_first = self._firsts[self.me] == me

    def check_names(self, records):
        """The first rank of a node publishes, and the others find it by the
        name."""
        for i, node in enumerate(self._node_of):
            a, b = records[self._firsts[node]]["as"], records[i]["as"]
            if a != b:
                raise ValueError(
                    f"{VERB}: {self._ranks[self._firsts[node]]} would name the "
                    f"tensors {a!r}, and {self._ranks[i]} {b!r}: give all ranks "
                    "of a node the same path, or the same name=")

    def ring(self, nodes):
        """The first ranks of some nodes."""
        members = [self._firsts[n] for n in nodes]
        return Ring(self._group, members, self._deadline,
                     [self._ranks[m] for m in members])

    def _everyone(self):
        return Ring(self._group, list(range(len(self._ranks))), self._deadline,
                    self._ranks)

    def tell(self, record):
        """What all ranks say; an error among it is raised. Returns what the
        nodes' first ranks have said."""
        records = self._everyone().tell(record)
        _raise_first(records, self._ranks)
        return [dict(records[m], node=n["node"])
                for m, n in zip(self._firsts, self.nodes)]

    def needs(self, local):
        """What each node needs, that which one of its ranks wants, or one of another
        node that publishes the same set: a byte for each tensor of the file, 1 or 0.
        """
        wanted, n = set(local.wanted), len(local.names)
        said = self._everyone().share(
            bytes(name in wanted for name in local.names))
        sets = [_names_of(record) for record in self.nodes]
        found = dict.fromkeys(sets, 0)
        for node, marks in zip(self._node_of, said):
            found[sets[node]] |= int.from_bytes(marks, "little")
        return [found[names].to_bytes(n, "little") for names in sets]

    def sums(self, mine):
        """What the nodes' first ranks say in as many bytes."""
        said = self._everyone().share(mine)
        return [said[m] for m in self._firsts]


def _load(local, members, deadline):
    """Reads, sends and publishes; how many bytes this rank has read."""
    record, memory, memories, read = {}, None, {}, 0
    if members.is_first:
        memory = _room(local, members.me, record)
    members.tell(record)  # nobody reads for a node that has no room
    record = {}
    if members.is_first:
        memories, read = _fill(local, memory, members.me, members.ring,
                               deadline, record)
    members.tell(record)
    _same_bytes(local.plan, members.nodes,
                members.sums(_sums(local.plan, memories)))
    record = {}
    if members.is_first and local.needed:
        try:
            local.store.publish_set(local.prefix, _views(local, memories),
                                    fields=local.fields())
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


def load(path, group, *, name=None, node=None, store=None, timeout=300,
         views=None):
    """Loads a file on all nodes of a group. Returns a dict of Tensors of this
    rank's store, those of which it wants a view, and how many bytes this rank has
    read. See load_file."""
    _check_group(group)
    if not timeout > 0:
        raise ValueError(f"{VERB}: timeout is {timeout!r}; seconds above 0 are "
                         "wanted")
    deadline = Deadline(timeout)
    local, record = _within(deadline, f"the disk of {os.fsdecode(path)}",
                            lambda: _describe(store, path, name, node, views))
    everyone = list(range(dist.get_world_size(group)))
    records = Ring(group, everyone, deadline).tell(record)
    members = _Group(group, deadline, records)
    _same_file(records)
    members.check_names(records)
    if not local.source.extents:
        return {}, 0  # there is no set without tensors
    needs, said, read = None, members.nodes, 0
    if not members.want_all:
        needs = members.needs(local)
        local.needed = [n for n, mark in zip(local.names, needs[members.me])
                        if mark]
        said = members.tell({"has": local.has()})
    if not all(n["has"] for n in said):
        local.plan = _plan.plan(local.source.extents, len(said), needs)
        read = _load(local, members, deadline)
    return _own(local.published(local.wanted)), read


def _own(tensors):
    """The same tensors, copy-on-write for this call alone. Those that share a
    storage still do, so that it is mapped once."""
    found, private = {}, []
    for name, t in tensors.items():
        if not t.size:
            found[name] = t.cow(own=True)
            continue
        theirs = (t if t.ndim else t.unsqueeze(0)).bitcast("U8").storage()
        whole = next((mine for other, mine in private
                      if _tarn.same_storage(other, t)), None)
        if whole is None:
            whole = theirs.cow(own=True)
            if whole.size > t.nbytes:
                private.append((t, whole))
        # Not its offset, which counts from where the publisher's memory began:
        # that is anywhere in a storage into which several were copied.
        at = t.data_ptr() - theirs.data_ptr()
        found[name] = whole[at:at + t.nbytes].bitcast(t.dtype).reshape(t.shape)
    return found
