#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The plan by which several nodes load one file: every byte that a node needs
reaches it, and is read once, by a node that needs it; the nodes read equally
much, and never the same page. For files, nodes and needs drawn at random."""
import random
import sys
import time

import py_kit as kit

from tarn import _plan
from tarn._plan import Extent

CHUNK = 1 << 16
draw = random.Random(17)


def draw_file():
    """Extents of up to three files: with gaps, and tensors of no bytes."""
    found, file, offset = [], 0, 0
    for i in range(draw.randint(0, 12)):
        if draw.random() < .1:
            file, offset = file + 1, 0
        offset += draw.choice((0, 0, 0, 5, 10000))
        unit = draw.choice((1, 2, 3, 4, 8))
        size = unit * draw.choice((0, 1, 7, 1000, 50000))
        found.append(Extent(f"t{i}", file, offset, size, unit))
        offset += size
    return found


def plan(extents, nodes, needs=None, **options):
    """needs: the names that each node needs, or None for all of them."""
    return _plan.plan(extents, nodes, needs and [
        bytes(names is None or e.name in names for e in extents)
        for names in needs], **options)


def draw_needs(extents, nodes):
    return [None if draw.random() < .3 else
            {e.name for e in extents if draw.random() < .6}
            for _ in range(nodes)]


def is_needed(needs, node, name):
    return needs is None or needs[node] is None or name in needs[node]


def fault(extents, nodes, needs, p):
    """What is wrong with a plan, or None."""
    got = [[bytearray(s.size) for s in p.shares] for _ in range(nodes)]
    for i, share in enumerate(p.shares):
        for reader, chunks in share.chunks.items():
            if reader not in share.nodes:
                return f"node {reader} reads for others alone"
            for c in chunks:
                if not 0 < c.size <= CHUNK:
                    return f"{c} has a wrong size"
                for node in share.nodes:
                    place = memoryview(got[node][i])[c.at:c.at + c.size]
                    if any(place):
                        return f"node {node} gets {c} twice"
                    place[:] = b"\1" * c.size
    for e in extents:
        for node in range(nodes):
            places = [(i, s.places[e.name]) for i, s in p.of(node)
                      if e.name in s.places]
            if len(places) > 1:
                return f"{e} has the places {places} on node {node}"
            if is_needed(needs, node, e.name) and not any(
                    (p.begins(node)[i] + at) % e.unit == 0 and
                    got[node][i][at:at + e.size] == b"\1" * e.size
                    for i, at in places):
                return f"node {node} lacks {e}, which is at {places}"
    return None


def pages_twice(p, nodes):
    """A page of a file that two nodes read, when all need all."""
    seen = {}
    for node in range(nodes):
        for _, c in p.reads(node):
            first, last = c.offset // _plan.ALIGN, \
                (c.offset + c.size - 1) // _plan.ALIGN
            for page in range(first, last + 1):
                if seen.setdefault((c.file, page), node) != node:
                    return c
    return None


faults, twice, uneven = [], [], []
for _ in range(400):
    extents, nodes = draw_file(), draw.randint(1, 5)
    needs = draw_needs(extents, nodes) if draw.random() < .5 else None
    p = plan(extents, nodes, needs, chunk=CHUNK)
    what = fault(extents, nodes, needs, p)
    if what:
        faults.append((what, extents, nodes, needs))
    if plan(list(extents), nodes, needs, chunk=CHUNK) != p:
        faults.append(("another plan from the same arguments", extents))
    if needs is None:
        twice += filter(None, [pages_twice(p, nodes)])
        loads = [p.bytes_read(n) for n in range(nodes)]
        if max(loads) - min(loads) > 2 * _plan.ALIGN:
            uneven.append((loads, extents))
kit.equal(faults[:1], [], "all that is needed arrives once")
kit.equal(twice[:1], [], "no page of a file is read by two nodes")
kit.equal(uneven[:1], [], "nodes read equally much, within two pages")

# ---- by hand ----
MIB = 1 << 20
whole = [Extent("a", 0, 0, 3 * MIB, 4), Extent("b", 0, 3 * MIB, 5 * MIB, 4)]
p = plan(whole, 4)
kit.equal([p.bytes_read(n) for n in range(4)], [2 * MIB] * 4,
          "four nodes read a quarter each")
part = [(c.offset, c.offset + c.size) for _, c in p.reads(1)]
kit.equal((part[0][0], part[-1][1], [e for _, e in part[:-1]]),
          (2 * MIB, 4 * MIB, [b for b, _ in part[1:]]),
          "a part is contiguous, across tensors")
sizes = [c.size for _, c in plan([Extent("a", 0, 0, 64 * MIB)], 4).reads(2)]
kit.equal((sizes[:4], max(sizes), sizes[-2] <= MIB // 4, len(sizes) < 24),
          ([MIB // 4, MIB // 4, MIB // 2, MIB], 2 * MIB, True, True),
          "a part begins and ends with small chunks")
kit.equal((p.size(3), p.shares[0].places), (8 * MIB, {"a": 0, "b": 3 * MIB}),
          "memory has the file's order")
p = plan(whole, 2, [{"a"}, {"b"}])
kit.equal([(p.bytes_read(n), p.bytes_needed(n)) for n in (0, 1)],
          [(3 * MIB, 3 * MIB), (5 * MIB, 5 * MIB)],
          "nodes with different needs read what they need, and send nothing")
p = plan(whole, 2, [None, {"b"}])
kit.equal([(p.bytes_read(n), p.bytes_needed(n)) for n in (0, 1)],
          [(4 * MIB, 8 * MIB), (4 * MIB, 5 * MIB)],
          "a node that alone needs much reads less of what all need")
p = plan([Extent("a", 0, 0, 5), Extent("b", 0, 5, 7)], 2, [{"a"}, {"a", "b"}])
kit.equal([(p.begins(n), p.size(n)) for n in (0, 1)],
          [({1: 0}, 5), ({0: 0, 1: _plan.BEGIN}, _plan.BEGIN + 5)],
          "the shares of a node are in one piece of memory")
p = plan(whole, 2, [set(), {"b"}])
kit.equal((p.bytes_read(0), p.size(0), p.size(1)), (0, 0, 5 * MIB),
          "what no node needs is neither read nor has a place")
p = plan([Extent("x", 0, 3, 8, 8), Extent("y", 0, 3, 4, 4)], 1)
kit.equal((p.shares[0].places, p.bytes_read(0)), ({"y": 0, "x": 0}, 8),
          "tensors that share bytes share them in memory")
p = plan([Extent("x", 0, 0, 7), Extent("y", 0, 7, 8, 8)], 1)
kit.equal(p.shares[0].places, {"x": 0, "y": 64},
          "a tensor is placed so that its elements are aligned")
p = plan([Extent("x", 0, 0, 8), Extent("y", 0, 4, 8), Extent("z", 0, 12, 8)], 2,
         [{"x"}, {"y"}])
kit.equal([(s.nodes, s.places, s.size) for s in p.shares],
          [((0, 1), {"x": 0, "y": 4}, 12)],
          "tensors that share bytes go to all nodes that need one of them")
kit.equal(plan([], 3).shares, [], "a file without tensors needs no reader")
kit.raises(ValueError, "shares bytes",
           "shared bytes that cannot be aligned for both are refused", plan,
           [Extent("x", 0, 0, 8), Extent("y", 0, 1, 4, 4)], 1)
kit.raises(ValueError, "node 1 says of 1 tensors",
           "needs of some tensors alone are refused", _plan.plan, whole, 2,
           [b"\1\1", b"\1"])
kit.raises(ValueError, "0 nodes", "no nodes are refused", plan, whole, 0)
kit.raises(ValueError, "1 nodes say", "needs of some nodes alone are refused",
           plan, whole, 2, [None])

# ---- many nodes ----
many = [Extent(f"{i}", 0, i * 8 * MIB, 8 * MIB, 4) for i in range(60)]


def plan_of(n):
    """Of n nodes that each lack a tenth of the tensors; and its seconds."""
    needs = [draw.randbytes(60).translate(bytes(b < 230 for b in range(256)))
             for _ in range(n)]
    begin = time.process_time()
    p = _plan.plan(many, n, needs)
    return p, time.process_time() - begin


(_, few), (p, took) = plan_of(250), plan_of(1000)
loads = [p.bytes_read(n) for n in range(1000)]
kit.equal(sum(loads), 480 * MIB, "a thousand nodes read many shares once")
kit.ok(max(loads) - min(loads) < MIB, "each about as much", (min(loads),
                                                             max(loads)))
kit.ok(took < 9 * few, "the time of a plan is no square of the nodes",
       (few, took))
sys.exit(kit.finish())
