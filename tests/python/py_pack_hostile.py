#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What put has written, changed at some thousand places by who shares the
channel: get returns plain values, with arrays that lie in the item's memory, or
raises a ValueError or OSError (RecursionError for what is nested too deep).

TARN_TEST_SEED repeats a run, TARN_TEST_ROUNDS makes it longer."""
import collections
import os
import random
import struct

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
try:
    import torch
except ImportError:
    torch = None
import tarn
from tarn._tarn import _pack

seed = int(os.environ.get("TARN_TEST_SEED", 20261122))
rounds = int(os.environ.get("TARN_TEST_ROUNDS", 4000))
print(f"# TARN_TEST_SEED={seed} TARN_TEST_ROUNDS={rounds}", flush=True)
chance = random.Random(seed)

daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock"))
store = tarn.Store()
channel = store.channel("hostile", slots=2, slot_bytes=1 << 16, tensors=4,
                        pickle=False)
store.publish("kept", tarn.arange(100, dtype="F32"))
kept = store["kept"]

# ---- what is changed ----
t = tarn.arange(24, dtype="F32").reshape(2, 3, 4)
a = np.arange(60, dtype="i2").reshape(3, 4, 5)
goods = [
    {"t": t, "s": "text", "l": [1, 2.5, None, 2**70, (1, {2}), 1j]},
    {"a": a.T, "b": a[::2], "n": np.float32(2), "e": a[:, :0], "z": a[0, 0, 0]},
    [b"z" * 1500, bytearray(b"y" * 1100), memoryview(bytes(70)), t[:, ::2]],
    [[[["x"] * 3, {i: (i, -i) for i in range(20)}], frozenset([1, "\ud800"])]],
    [t.to("BF16"), t.to("F4"), t.to("F8_E4M3"), np.zeros((1,) * 12, "?")],
]
if torch is not None:
    f = torch.arange(24.).reshape(2, 3, 4)
    goods += [{"f": f, "h": f.bfloat16(), "p": f.permute(2, 0, 1)},
              [f.to(torch.complex64), f[:, :0], f[0, 0, 0], f.bool()]]
HEAD = 32


def parts(packed):
    """The tree, and the bytes of arrays."""
    tree, begin = struct.unpack_from("<QQ", packed, 8)
    return packed[HEAD:HEAD + tree], packed[begin:]


trees, arrays = zip(*(parts(bytes(_pack(g))) for g in goods))


def number(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def word():
    """A tag, or a number at which sums go over."""
    kind = chance.randrange(4)
    if kind == 0:
        return bytes([chance.randrange(28)])
    if kind == 1:
        return number(max(0, 2**chance.randrange(64) + chance.randint(-2, 2)))
    if kind == 2:  # an array, or a view of another tensor
        head = (b"\x19" + number(chance.randrange(3)) +
                number(chance.randrange(600)) if chance.random() < .6 else b"")
        rank = chance.randrange(4)
        sizes = [chance.randrange(9) for _ in range(rank)]
        strides = [chance.randrange(40) for _ in range(rank)]
        strided = 64 if head or chance.random() < .3 else 0
        return (head + bytes([chance.randrange(18, 25),
                              chance.randrange(1, 23) | strided, rank]) +
                bytes(sizes) + (bytes(strides) if strided else b"") +
                (b"" if head else bytes([chance.randrange(4)])))
    return b"\x1a" + bytes([chance.randrange(4)])


def changed(tree):
    tree = bytearray(tree)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at, how = chance.randrange(len(tree) + 1), chance.randrange(5)
        if how == 0 and at < len(tree):
            tree[at] ^= 1 << chance.randrange(8)
        elif how == 1 and at < len(tree):
            tree[at] = chance.randrange(256)
        elif how == 2:
            w = word()
            tree[at:at + chance.choice((0, len(w)))] = w
        elif how == 3:
            del tree[at:at + chance.randint(1, 8)]
        else:
            other = chance.choice(trees)
            start = chance.randrange(len(other))
            tree[at:at] = other[start:start + chance.randint(1, 60)]
    return bytes(tree)


def mutant():
    which = chance.randrange(len(trees))
    # Of one kind alone, or of all: then what is wrong may come late.
    tree = word() if chance.random() < .3 else changed(trees[which])
    if chance.random() < .3:
        tree = b"\x0d\x03" + word() + changed(tree) + word()
    begin = (HEAD + len(tree) + 63) // 64 * 64
    head = [0x316b7074, 0, len(tree), begin, begin + len(arrays[which])]
    if chance.random() < .1:
        i = chance.randrange(2, 5)
        head[i] = chance.choice((0, head[i] + chance.randint(-70, 70),
                                 2**63, 2**64 - 1, 2**32)) % 2**64
    packed = struct.pack("<IIQQQ", *head) + tree
    return packed.ljust(begin, b"\0") + arrays[which]


# ---- what comes of it ----
outside = []
try:
    from numpy.lib.array_utils import byte_bounds  # since numpy 2
except ImportError:
    byte_bounds = np.byte_bounds


def judge(value, memory):
    """All of it can be read, and what is no copy lies in the item."""
    if isinstance(value, (list, tuple, set, frozenset)):
        for v in value:
            judge(v, memory)
    elif isinstance(value, dict):
        for k, v in value.items():
            judge(k, memory)
            judge(v, memory)
    elif isinstance(value, (tarn.Tensor, memoryview)):
        repr(value)
        bits = ODD.get(getattr(value, "dtype", None), "")
        if bits is not None:
            judge(np.asarray(value.bitcast(bits) if bits else value), memory)
    elif torch is not None and isinstance(value, torch.Tensor):
        if value.numel():
            repr(value)
            steps = sum((n - 1) * s for n, s in zip(value.shape,
                                                    value.stride()))
            lies(value.data_ptr(),
                 value.data_ptr() + (steps + 1) * value.element_size(), memory)
    elif isinstance(value, np.ndarray):
        value.tobytes()
        if value.size:
            lies(*byte_bounds(value), memory)
    else:
        repr(value)


# What numpy has not, and the numbers of its size.
ODD = {d: None if d in ("F4", "F6_E2M3", "F6_E3M2") else
       "U16" if d == "BF16" else "U8"
       for d in tarn.dtypes if d[:2] in ("F4", "F6", "F8", "BF")}


def is_shared(first, end):
    with open("/proc/self/maps") as f:
        maps = [line.split(maxsplit=5) for line in f if "memfd:" in line]
    at = [[int(n, 16) for n in m[0].split("-")] for m in maps]
    return any(a < end and first < b for a, b in at)


def lies(first, end, memory):
    """PyTorch has a copy of what may only be read: that is its own memory."""
    if (not any(a <= first and end <= b for a, b in memory) and
            is_shared(first, end)):
        outside.append((first, end, memory))


def bounds(tensor):
    array = np.asarray(tensor)
    return byte_bounds(array) if array.size else (0, 0)


def attempt(packed):
    with channel.acquire(timeout=60) as slot:
        slot.empty((10,), "I64")[0] = 7
        slot.add(kept)
        memoryview(slot.empty((len(packed),), "U8"))[:] = packed
    with channel.receive(timeout=60) as item:
        memory = [bounds(item[i]) for i in range(3)]
        judge(item.get(), memory)


outcomes = collections.Counter()
surprises = []
for i in range(rounds):
    packed = mutant()
    try:
        attempt(packed)
        outcomes["read"] += 1
    except RecursionError:
        outcomes["deep"] += 1
    except (ValueError, OSError) as e:
        outcomes["refused"] += 1
        if not str(e):
            surprises.append((i, packed.hex(), "no sentence"))
    except ModuleNotFoundError as e:
        # What says that it was PyTorch's wants that.
        if torch is not None or e.name != "torch":
            surprises.append((i, packed.hex(), repr(e)))
        outcomes["without PyTorch"] += 1
    except Exception as e:
        surprises.append((i, packed.hex(), repr(e)))
        if len(surprises) > 3:
            break
kit.ok(not surprises, "damaged items are values or errors with a sentence",
       *surprises[:3])
kit.ok(not outside, "unpacked arrays lie in the item's memory", *outside[:3])
kit.ok(outcomes["read"] > rounds / 50 and outcomes["refused"] > rounds / 4,
       "some damaged items are read and some are refused", outcomes)
print(f"# {dict(outcomes)}")
kit.equal(channel.info()["free"], 2, "no slot is held after all items")
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
kit.finish()
