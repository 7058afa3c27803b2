#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random pairs of layouts and dtypes are copied as numpy copies them.

Each case has a src and a dst of random shape, order, gaps, direction and
alignment, in memory or in a file, of one dtype or of two, with or without
scale and bias. tests/lib/copy_tool carries all of them out in one process; what
counts is every byte of the area around dst, so bytes that were none of its
business count too. Where numpy wraps integers around, here they saturate, as
<tarn/copy.h> has it.

The seed is fixed; TARN_SEED=n tries another, TARN_CASES=n more of them.
"""
import os
import random
import subprocess
import sys
import tempfile
import zlib

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP numpy is not installed (python3-numpy)")
    sys.exit(0)

TOOL = os.environ.get("COPY_TOOL", "./tests/lib/copy_tool")
SEED = int(os.environ.get("TARN_SEED", "20260101"))
CASES = int(os.environ.get("TARN_CASES", "6000"))
PATTERN = 0xA5

INTEGERS = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2",
            "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8"}
FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
KNOWN = {**INTEGERS, **FLOATS}
# Of these numpy knows the size alone.
OPAQUE = {"BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1",
          "C64": "<u8"}
WIDE = {"U32", "I32", "U64", "I64", "F64"}

SMALL = 1 << 16   # bytes of each region of the source
LARGE = 6 << 20


def make_source(rnd):
    """Regions by dtype whose numbers are ordinary, and one large one."""
    rng = np.random.default_rng(rnd.randrange(1 << 32))
    regions, parts, at = {}, [], 0

    def put(name, a):
        nonlocal at
        raw = a.tobytes()
        regions[name] = (at, len(raw))
        parts.append(raw)
        at += len(raw)

    put("any", rng.integers(0, 256, SMALL, dtype=np.uint8))
    put("BOOL", rng.integers(0, 2, SMALL, dtype=np.uint8))
    for name, t in FLOATS.items():
        n = SMALL // np.dtype(t).itemsize
        a = rng.normal(0, 1, n) * 10.0 ** rng.integers(-3, 5, n)
        with np.errstate(over="ignore"):
            a = a.astype(t)
        a[::53] = np.inf
        a[1::59] = -np.inf
        a[2::61] = -0.0
        a[3::7] = np.round(a[3::7]) + 0.5
        put(name, a)
    put("large", rng.integers(0, 256, LARGE, dtype=np.uint8))
    return b"".join(parts), regions


def strides_for(rnd, shape, room, repeat):
    """Strides in elements, offset and length of something that walks shape
    without meeting itself (unless it may repeat)."""
    order = list(range(len(shape)))
    if rnd.random() < .6:
        rnd.shuffle(order)
    strides, step = [0] * len(shape), 1
    if rnd.random() < .3:
        step = rnd.randint(1, 3)
    for d in reversed(order):
        strides[d] = step
        if repeat and rnd.random() < .1:
            strides[d] = 0
            continue
        step *= max(shape[d], 1)
        if rnd.random() < .3:
            step += rnd.randint(1, 9)
    low = 0
    for d, n in enumerate(shape):
        if rnd.random() < .2:
            strides[d] = -strides[d]
        if n and strides[d] < 0:
            low += (n - 1) * strides[d]
    high = sum((n - 1) * s for n, s in zip(shape, strides) if n and s > 0)
    return strides, -low, high - low + 1


def spec(name, shape, strides, offset):
    text = f"{name}[{','.join(map(str, shape))}]"
    return text + f":({','.join(map(str, strides))})+{offset}"


def saturate(x, name, even):
    """x (floating) as an integer of that dtype."""
    info = np.iinfo(KNOWN[name])
    x = np.rint(x) if even else np.trunc(x)
    # The largest integers are not floats: what reaches them is past them.
    with np.errstate(invalid="ignore"):
        out = np.where(np.abs(x) < 2.0 ** 62, x, 0).astype(np.int64)
        near = x.astype(np.float64).astype(np.uint64) if info.min == 0 \
            else x.astype(np.float64).astype(np.int64)
    big = np.abs(x) >= 2.0 ** 62
    result = np.where(big, near, 0).astype(KNOWN[name])
    small = np.clip(out, max(info.min, -2 ** 63), min(info.max, 2 ** 63 - 1))
    result = np.where(big, result, small.astype(KNOWN[name]))
    most, least = (np.array(n, KNOWN[name]) for n in (info.max, info.min))
    result = np.where(x >= float(info.max) + (info.max < 2 ** 53), most, result)
    return np.where(x <= float(info.min), least, result)


def convert(x, to, even):
    """As <tarn/copy.h> has it; x has a dtype of KNOWN."""
    if x.ndim == 0:  # beside bare numbers numpy has other rules
        return convert(x.reshape(1), to, even)[0]
    if to == "BOOL":
        return x != 0
    if to in FLOATS:
        with np.errstate(over="ignore"):
            return x.astype(FLOATS[to])
    if x.dtype.kind == "f":
        return saturate(x, to, even)
    info = np.iinfo(KNOWN[to])
    lo, hi = (0, 1) if x.dtype.kind == "b" else (np.iinfo(x.dtype).min,
                                                 np.iinfo(x.dtype).max)
    return np.clip(x, max(lo, info.min), min(hi, info.max)).astype(KNOWN[to]) \
        if x.dtype.kind != "b" else x.astype(KNOWN[to])


class Case:
    def __init__(self, rnd, source, regions):
        large = rnd.random() < .01
        most = 40 if large else rnd.choice((3, 6, 6, 17))
        shape = [rnd.randint(1, most) for _ in range(rnd.randint(
            0 if not large else 4, 4))]
        if rnd.random() < .03 and shape:
            shape[rnd.randrange(len(shape))] = 0
        mode = rnd.choice(("same", "same", "convert", "convert", "scale"))
        if large:
            mode = "same" if mode == "scale" else mode
        if mode == "same":
            self.to = self.name = rnd.choice([*KNOWN, *OPAQUE])
            region = "large" if large else "any"
            if self.name == "BOOL":
                region = "BOOL" if not large else "large"
        else:
            self.name, self.to = rnd.choice([*KNOWN]), rnd.choice([*KNOWN])
            if large and self.name not in INTEGERS or \
                    large and self.name == "BOOL":
                self.name = "U16"
            region = self.name if self.name in regions else "any"
            region = "large" if large else region
        t = np.dtype({**KNOWN, **OPAQUE}[self.name])
        u = np.dtype({**KNOWN, **OPAQUE}[self.to])
        self.dst_place, self.src_place = (
            rnd.choice(("memory", "memory", "file")) for _ in range(2))
        self.verb = rnd.choice(("copy", "copy", "stream"))
        self.even = rnd.random() < .3
        self.route = rnd.choice((0, 0, 0, 1))

        # src: fewer dimensions, or some of one, are broadcast.
        from_shape = list(shape)
        while from_shape and rnd.random() < .08:
            del from_shape[0]
        from_shape = [1 if rnd.random() < .05 else n for n in from_shape]
        at, size = regions[region]
        while True:
            strides, offset, count = strides_for(rnd, from_shape, size, True)
            if count * t.itemsize + 64 < size:
                break
            from_shape = [min(n, 2) if n else 0 for n in from_shape]
            shape = from_shape
        room = size - count * t.itemsize
        base = at + rnd.randrange(room // t.itemsize) * t.itemsize
        if mode == "same" or region == "any":
            base += rnd.randrange(t.itemsize)
        self.src_spec = spec(self.name, from_shape, strides, offset)
        self.src_base = base
        a = np.ndarray(from_shape, t, source, base + offset * t.itemsize,
                       [s * t.itemsize for s in strides])
        a = np.broadcast_to(a, shape)

        strides, offset, count = strides_for(rnd, shape, None, False)
        self.base = rnd.randint(0, 70)
        self.area = self.base + count * u.itemsize + rnd.randint(0, 70)
        self.spec = spec(self.to, shape, strides, offset)
        wanted = bytearray([PATTERN]) * self.area
        d = np.ndarray(shape, u, wanted, self.base + offset * u.itemsize,
                       [s * u.itemsize for s in strides])
        self.dim, self.scale, self.bias, self.channels = -1, None, None, 0
        if mode == "scale":
            a = self.scaled(rnd, a, shape)
        with np.errstate(invalid="ignore"):
            d[...] = a if mode == "same" else convert(a, self.to, self.even)
        self.crc = zlib.crc32(wanted)
        self.kind = f"{self.src_place} to {self.dst_place}"
        self.mode = mode
        self.large = large

    def scaled(self, rnd, a, shape):
        t = np.float64 if {self.name, self.to} & WIDE else np.float32
        n = 1
        if shape and rnd.random() < .8:
            self.dim = rnd.randrange(-len(shape), len(shape))
            n = shape[self.dim]
        along = [1] * len(shape)
        if n != 1:
            along[self.dim] = n
        self.channels = n
        x = a.astype(t)
        with np.errstate(over="ignore", invalid="ignore"):
            if rnd.random() < .8:
                self.scale = [rnd.choice((.5, 2, -1, 1 / 255, rnd.random()))
                              for _ in range(n)]
                x = x * np.array(self.scale).astype(t).reshape(along)
            if rnd.random() < .7 or self.scale is None:
                self.bias = [rnd.uniform(-9, 9) for _ in range(n)]
                x = x + np.array(self.bias).astype(t).reshape(along)
        return x

    def line(self):
        def listed(values):
            return ",".join(v.hex() for v in map(float, values)) \
                if values is not None else "-"
        return "\t".join(map(str, (
            self.verb, self.dst_place, self.src_place, int(self.even),
            self.route, self.area, self.base, self.spec, self.src_base,
            self.src_spec, self.dim, self.channels, listed(self.scale),
            listed(self.bias))))


def main():
    rnd = random.Random(SEED)
    source, regions = make_source(rnd)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "source")
        with open(path, "wb") as f:
            f.write(source)
        cases = [Case(rnd, source, regions) for _ in range(CASES)]
        run = subprocess.run(
            [TOOL, path, os.path.join(folder, "scratch")], check=False,
            input="\n".join(c.line() for c in cases) + "\n",
            stdout=subprocess.PIPE, text=True)
    seen = run.stdout.splitlines()
    number = 0

    def ok(good, what):
        nonlocal number
        number += 1
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
        return good

    good = ok(run.returncode == 0 and len(seen) == len(cases),
              f"all cases were carried out (seed {SEED})")
    for kind in sorted({c.kind for c in cases}):
        for mode in ("same", "convert", "scale"):
            mine = [(c, s) for c, s in zip(cases, seen)
                    if c.kind == kind and c.mode == mode]
            wrong = [(c, s) for c, s in mine if s != f"{c.crc:08x}"]
            good &= ok(mine and not wrong,
                       f"copies are as numpy's: {kind}, {mode}")
            for c, s in wrong[:5]:
                print(f"# {c.line()}\n#   wanted {c.crc:08x}\n#   seen {s}")
    large = sum(c.large for c in cases)
    good &= ok(CASES < 1000 or large > 10,
               "there are large copies among the cases")
    print(f"1..{number}")
    return 0 if good else 1


sys.exit(main())
