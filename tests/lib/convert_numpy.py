#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs converted between numpy's dtypes, against astype: byte for byte where
the value fits; where it does not, against the nearest that does. The same with
PyTorch for BF16 and F8 where there is one that has them."""
import os
import subprocess
import sys

from tap import finish, ok, skip_all, skipped

try:
    import numpy as np
except ImportError:
    skip_all("numpy is not installed")

TOOL = os.path.join(os.environ.get("top_builddir", "."), "tests", "lib",
                    "convert_tool")
DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2",
          "U32": "u4", "I32": "i4", "U64": "u8", "I64": "i8",
          "F16": "f2", "F32": "f4", "F64": "f8", "C64": "c8"}
SCALED = [("U8", "F32"), ("U8", "F16"), ("I8", "F32"), ("U16", "F32"),
          ("F16", "F16"), ("F16", "F32"), ("F32", "F32"), ("F32", "F16"),
          ("I32", "F64"), ("U8", "F64"), ("F64", "F64"), ("F64", "F32"),
          ("I64", "F32"), ("I32", "F32")]
COUNT = 8192
rng = np.random.default_rng(11)


def convert(raw, src, dst, *more):
    return subprocess.run([TOOL, src, dst, *(more or ("cut",))], input=raw,
                          stdout=subprocess.PIPE, check=True).stdout


def values(name):
    """All bits at random, and numbers of all sizes."""
    dtype = np.dtype(DTYPES[name])
    raw = rng.integers(0, 256, COUNT // 2 * dtype.itemsize, dtype=np.uint8)
    if name == "BOOL":
        return np.concatenate([raw & 1, raw >> 7]).view("?")
    if dtype.kind in "iu":
        size = rng.integers(0, 8 * dtype.itemsize, COUNT // 2)
        small = raw.view(dtype) >> size.astype(dtype)
    else:
        small = rng.normal(size=COUNT // 2) * 2. ** rng.integers(
            -30, 70, COUNT // 2)
        small[::7] = np.rint(small[::7]) + .5
        small[:5] = np.nan, np.inf, -np.inf, 0., -0.
    return np.concatenate([raw.view(dtype), small.astype(dtype)])


def to_integer(a, dtype, even):
    """The nearest integer of dtype: by Python's own numbers."""
    info = np.iinfo(dtype)
    if a.dtype.kind in "biu":
        return np.array([min(max(int(x), info.min), info.max) for x in a],
                        dtype)
    a = a.astype("f8")
    whole = np.where(np.isnan(a), 0, np.rint(a) if even else np.trunc(a))
    return np.array([info.min if x < info.min else info.max if x > info.max
                     else int(x) for x in whole], dtype)


def fitting(a, dtype):
    """Where astype means something."""
    if a.dtype.kind not in "iuf":
        return np.ones(a.shape, bool)
    info = np.iinfo(dtype)
    if a.dtype.kind == "f":
        return (a > float(info.min) - 1) & (a < float(info.max) + 1) & (
            np.abs(a) < 2.**63)
    return np.array([info.min <= int(x) <= info.max for x in a])


def differ(wanted, seen):
    """Indices where the bits do; any NaN is as good as another."""
    same = wanted == seen
    if wanted.dtype.kind == "f":
        same = (same & (np.signbit(wanted) == np.signbit(seen))) | (
            np.isnan(wanted) & np.isnan(seen))
    elif wanted.dtype.kind == "c":
        same = ((wanted.real == seen.real) & (wanted.imag == seen.imag)) | (
            np.isnan(wanted.real) & np.isnan(seen.real) & (seen.imag == 0))
    return np.flatnonzero(~same)


def check_pair(src, dst):
    a = values(src)
    real = a.real if a.dtype.kind == "c" else a
    dtype = np.dtype(DTYPES[dst])
    for how in ("cut", "even") if dtype.kind in "iu" else ("cut",):
        seen = np.frombuffer(convert(a.tobytes(), src, dst, how), dtype)
        wanted = to_integer(real, dtype, how == "even") \
            if dtype.kind in "iu" else real.astype(dtype)
        bad = differ(wanted, seen)
        ok(len(seen) == COUNT and not len(bad),
           f"{src} to {dst} ({how}) is as expected",
           [(a[i], wanted[i], seen[i]) for i in bad[:3]])
        if dtype.kind in "iu" and how == "cut":
            fits = fitting(real, dtype)
            bad = differ(real[fits].astype(dtype), seen[fits])
            ok(fits.any() and not len(bad),
               f"{src} to {dst} is converted as by astype",
               [(a[fits][i], seen[fits][i]) for i in bad[:3]])


def check_scaled(src, dst):
    a = values(src)
    dtype = np.dtype(DTYPES[dst])
    wide = src in ("I32", "I64", "F64") or dst == "F64"
    pivot = np.dtype("f8" if wide else "f4")
    scale, bias = 1 / 255, -.4850000001
    wanted = (a.astype(pivot) * pivot.type(scale) +
              pivot.type(bias)).astype(dtype)
    seen = np.frombuffer(
        convert(a.tobytes(), src, dst, "cut", repr(scale), repr(bias)), dtype)
    bad = differ(wanted, seen)
    ok(not len(bad), f"{src} to {dst} is converted with a scale",
       [(a[i], wanted[i], seen[i]) for i in bad[:3]])


def check_torch():
    what = "BF16 and F8 as PyTorch has them"
    try:
        import torch
    except ImportError:
        skipped(what, "PyTorch is not installed")
        return
    small = {"BF16": ("bfloat16", torch.int16, 2.**127),
             "F8_E4M3": ("float8_e4m3fn", torch.uint8, 448),
             "F8_E5M2": ("float8_e5m2", torch.uint8, 57344),
             "F8_E4M3FNUZ": ("float8_e4m3fnuz", torch.uint8, 240),
             "F8_E5M2FNUZ": ("float8_e5m2fnuz", torch.uint8, 57344)}
    for name, (theirs, bits, most) in small.items():
        dtype = getattr(torch, theirs, None)
        if dtype is None:
            skipped(
                    f"PyTorch converts {name}",
                    f"{torch.__version__} has none")
            continue
        a = values("F32")
        a = a[np.abs(a) <= most]
        size = torch.empty(0, dtype=bits).element_size()
        wanted = torch.from_numpy(a.copy()).to(dtype).view(bits).numpy()
        seen = np.frombuffer(convert(a.tobytes(), "F32", name), wanted.dtype)
        ok(len(a) > COUNT // 4 and np.array_equal(wanted, seen),
           f"F32 to {name} as PyTorch does", np.flatnonzero(wanted != seen)[:3])
        codes = np.arange(1 << (8 * size)).astype(wanted.dtype)
        back = torch.from_numpy(codes).view(dtype).float().numpy()
        seen = np.frombuffer(convert(codes.tobytes(), name, "F32"), "f4")
        bad = differ(back, seen)
        ok(not len(bad), f"{name} to F32 as PyTorch does",
           [(codes[i], back[i], seen[i]) for i in bad[:3]])


def main():
    np.seterr(all="ignore")
    import warnings
    warnings.simplefilter("ignore")  # an imaginary part that is dropped
    for src in DTYPES:
        for dst in DTYPES:
            if src != dst:
                check_pair(src, dst)
    for src, dst in SCALED:
        check_scaled(src, dst)
    check_torch()
    return finish()


sys.exit(main())
