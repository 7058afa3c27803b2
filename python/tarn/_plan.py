# SPDX-License-Identifier: MIT
"""Who reads which bytes of a file, and who needs them: the plan by which the
nodes of a group load one file together.

It is a function of its arguments alone, so that every node makes the same plan
without being told it. Here a node is a number from 0 on.

Each byte that some node needs is read once, by a node that needs it itself, and
reaches the others from there. Tensors that the same nodes need are a share; its
bytes are divided among these nodes so that all read equally much, as far as
what they need allows. What a node reads of a share is contiguous.
"""
import math
from typing import NamedTuple

# Where two readers meet, in bytes of the file: no page is read twice.
ALIGN = 4096

# Of a tensor in memory, where the file's own order would leave it on an address
# that is no multiple of its elements. A cache line.
PLACE = 64

# Of a share in the memory of its node: pages, and whole packs of F6, of which four
# elements have three bytes.
BEGIN = 3 * ALIGN

# What is read and sent at a time: a node sends one chunk while it reads the
# next. Picked.
CHUNK = 2 << 20

# The first and the last chunks are smaller: nothing is sent before the first one is
# read, and the last one has all of its way before it when all else is there. Picked.
LEAST = 256 << 10

# Bytes between two tensors of a file that are read too rather than skipped.
GAP = ALIGN


class Extent(NamedTuple):
    """Where a tensor's bytes lie: in which file, and from which byte on."""
    name: str
    file: int
    offset: int
    size: int
    unit: int = 1  # bytes of an element, or of the fewest that fill bytes


class Chunk(NamedTuple):
    """Bytes that are read at once, and where they go in memory."""
    file: int
    offset: int
    at: int
    size: int


class Share(NamedTuple):
    """Tensors that the same nodes need: on each of these a part of its memory, of
    size bytes. places: the first byte in it of each tensor; chunks: what each node
    reads."""
    nodes: tuple
    size: int
    places: dict
    chunks: dict


class Plan(NamedTuple):
    shares: list

    def of(self, node):
        """The shares that a node needs, with their numbers."""
        return [(i, s) for i, s in enumerate(self.shares) if node in s.nodes]

    def begins(self, node):
        """The first byte of each share in a node's memory, by its number. It is one
        piece, since few can be published at once."""
        found, end = {}, 0
        for i, share in self.of(node):
            found[i] = -(-end // BEGIN) * BEGIN
            end = found[i] + share.size
        return found

    def size(self, node):
        """Bytes of a node's memory."""
        return max((begin + self.shares[i].size
                    for i, begin in self.begins(node).items()), default=0)

    def reads(self, node):
        """All chunks that a node reads, each with its share's number, in the order
        in which they are sent."""
        return [(i, c) for i, s in self.of(node)
                for c in s.chunks.get(node, ())]

    def bytes_read(self, node):
        return sum(c.size for _, c in self.reads(node))

    def bytes_needed(self, node):
        return sum(c.size for _, s in self.of(node)
                   for chunks in s.chunks.values() for c in chunks)


def _users(extents, nodes, needs):
    """The nodes that need each tensor, by its name. Files have many tensors, and
    jobs many nodes: as bits of a number until here, each set once."""
    if needs is None:
        return dict.fromkeys((e.name for e in extents), tuple(range(nodes)))
    if len(needs) != nodes:
        raise ValueError(f"plan: {len(needs)} nodes say what they need, of "
                         f"{nodes}")
    for node, marks in enumerate(needs):
        if len(marks) != len(extents):
            raise ValueError(f"plan: node {node} says of {len(marks)} tensors "
                             f"whether it needs them, of {len(extents)}")
    marks, sets = b"".join(needs), {}
    found = _together(extents, {
        e.name: int.from_bytes(marks[i::len(extents)], "little")
        for i, e in enumerate(extents)})
    for name, number in found.items():
        if number not in sets:
            sets[number] = tuple(n for n, mark in enumerate(
                number.to_bytes(nodes, "little")) if mark)
        found[name] = sets[number]
    return found


def _in_order(extents):
    return sorted(extents, key=lambda e: (e.file, e.offset, e.size, e.name))


def _together(extents, users):
    """Tensors that share bytes of a file are needed wherever one of them is. users
    are numbers, in which each node has bits of its own."""
    found, file, end, all_users = {}, None, 0, [0]
    for e in _in_order(extents):
        if file != e.file or e.offset >= end:
            file, end, all_users = e.file, e.offset, [0]
        all_users[0] |= users[e.name]
        end = max(end, e.offset + e.size)
        found[e.name] = all_users  # to which those that follow add theirs
    return {name: all_users[0] for name, all_users in found.items()}


def _place(extents, users):
    """The places of tensors in the memory of those that need them; its size; and
    runs of tensors that are next to each other in a file as in memory. Each is a
    dict by these nodes."""
    places, runs, tops = {}, {}, {}
    last = None  # nodes, file, the run's first byte, its place, its end
    for e in _in_order(extents):
        nodes = users[e.name]
        if not nodes:
            continue
        at = None
        if last and last[:2] == [nodes, e.file] and \
                e.offset <= last[4] + GAP:
            at = last[3] + e.offset - last[2]
        if at is None or at % e.unit:
            if last and last[1] == e.file and e.offset < last[4]:
                raise ValueError(
                    f"plan: {e.name!r} shares bytes of the file with another "
                    "tensor that begins between two of its elements")
            place = math.lcm(PLACE, e.unit)
            at = -(-tops.get(nodes, 0) // place) * place
            last = [nodes, e.file, e.offset, at, e.offset]
            runs.setdefault(nodes, []).append(last)
        last[4] = max(last[4], e.offset + e.size)
        places.setdefault(nodes, {})[e.name] = at
        tops[nodes] = max(tops.get(nodes, 0), last[3] + last[4] - last[2])
    return places, tops, {
        nodes: [(file, begin, at, end - begin)
                for _, file, begin, at, end in found if end > begin]
        for nodes, found in runs.items()}


def _quotas(nodes, size, load):
    """How much of size bytes each of these nodes reads, so that they have read
    equally much afterwards if that is possible: who has read least is filled
    up first."""
    order, filled, bytes_ = sorted(nodes, key=lambda n: (load[n], n)), 0, size
    # The first so many are filled up to one level, which the next one is above.
    while filled < len(order) and \
            (not filled or load[order[filled]] * filled < bytes_):
        bytes_ += load[order[filled]]
        filled += 1
    level, rest = divmod(bytes_, filled)
    quotas = dict.fromkeys(nodes, 0)
    for i, node in enumerate(order[:filled]):
        quotas[node] = level - load[node] + (i < rest)
    return quotas


def _in_page_of(chunks, file, offset):
    """Does the last of these chunks end in the page where a byte is?"""
    last = chunks[-1] if chunks else None
    return last is not None and last.file == file and \
        (last.offset + last.size - 1) // ALIGN == offset // ALIGN


def _size(had, left, chunk):
    """Of the next chunk of a node that has had so many bytes, and gets so many
    more: they double up to the usual size, and each is a fourth of the rest."""
    return min(chunk, max(LEAST, min(had, left // 4)) // ALIGN * ALIGN)


def _chunks(runs, quotas, chunk):
    """Deals runs out, in their order: each node's chunks. The last node takes
    what rounding has left."""
    found = {node: [] for node in sorted(quotas)}
    waiting = list(found)
    node = waiting.pop(0)
    left = quotas[node]
    for file, begin, at, size in runs:
        done = 0
        while done < size:
            while left <= 0 and waiting and \
                    not _in_page_of(found[node], file, begin + done):
                node = waiting.pop(0)
                left += quotas[node]
            step = min(_size(quotas[node] - left, left, chunk), size - done)
            if waiting and step > left:
                # To the border between pages where the next node begins.
                end = -(-(begin + done + max(left, 1)) // ALIGN) * ALIGN
                step = min(step, end - begin - done)
            found[node].append(Chunk(file, begin + done, at + done, step))
            left -= step
            done += step
    return found


def plan(extents, nodes, needs=None, *, chunk=CHUNK):
    """The Plan for so many nodes. needs has a byte for each extent, in their
    order, from each node: 1, it needs that tensor, or 0; None: all nodes need all.
    Two tensors of one file may share bytes."""
    if nodes < 1 or chunk < ALIGN:
        raise ValueError(f"plan: {nodes} nodes and chunks of {chunk} bytes; at "
                         f"least 1 and {ALIGN} are wanted")
    users = _users(extents, nodes, needs)
    places, sizes, runs = _place(extents, users)
    load, shares = dict.fromkeys(range(nodes), 0), []
    # What fewer nodes can read is dealt out first.
    for group in sorted(runs, key=lambda g: (len(g), g)):
        quotas = _quotas(group, sum(r[3] for r in runs[group]), load)
        chunks = _chunks(runs[group], quotas, chunk)
        shares.append(Share(group, sizes[group], places[group], chunks))
        for node, some in chunks.items():
            load[node] += sum(c.size for c in some)
    return Plan(shares)
