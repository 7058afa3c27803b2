#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The printed form against numpy's own, over seeded arrays of every dtype that
numpy has: shapes that wrap and that are summarised, values that need exponents
and that do not, infinities, NaNs, subnormals, powers of two."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP numpy is not installed")
    sys.exit(0)

TOOL = os.environ.get("PRINT_TOOL", "./tests/lib/print_tool")
NAMES = {"BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16,
         "I16": np.int16, "U32": np.uint32, "I32": np.int32, "U64": np.uint64,
         "I64": np.int64, "F16": np.float16, "F32": np.float32,
         "F64": np.float64, "C64": np.complex64}
SHAPES = [(), (1,), (3,), (7,), (40,), (0,), (2, 0), (1, 1), (2, 3), (5, 30),
          (3, 2, 4), (2, 2, 2, 3), (1000,), (1001,), (7, 200), (40, 40),
          (8, 9, 15), (2, 600), (600, 2), (1, 1, 1200), (3, 4, 5, 20)]
rng = np.random.default_rng(20240607)


def integers(dtype, shape):
    info = np.iinfo(dtype)
    bound = [1, 9, 100, 10**5, 10**12, 2**63][rng.integers(6)]
    low, high = max(info.min, -bound), min(info.max, bound)
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def floats(dtype, shape):
    how = rng.integers(9)
    x = rng.standard_normal(shape)
    if how == 1:
        x = np.round(x * 10)
    elif how == 2:
        x = np.round(x, 2)
    elif how == 3:
        x = x * 10.0 ** rng.integers(-12, 12)
    elif how == 4:
        x = x * 10.0 ** rng.integers(-30, 30, shape)
    elif how == 5:
        x = 2.0 ** rng.integers(-60, 60, shape) * rng.choice([-1, 1], shape)
    elif how == 6:
        x = np.round(x * 1e6) / 1e2
    elif how == 7:
        bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
        raw = rng.integers(0, np.iinfo(bits).max, shape, dtype=bits, endpoint=True)
        x = np.asarray(raw).view(dtype)
    elif how == 8:
        x = x * np.finfo(dtype).tiny
    x = np.array(x, dtype=dtype)
    if x.ndim and x.size and rng.integers(3) == 0:
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 3)
        x.flat[rng.integers(0, x.size, 3)] = special
    return x


def array(dtype, shape):
    if dtype is np.bool_:
        return np.array(rng.integers(0, 2, shape), dtype=bool)
    if dtype is np.complex64:
        x = np.zeros(shape, np.complex64)
        x.real, x.imag = floats(np.float32, shape), floats(np.float32, shape)
        return x
    if np.issubdtype(dtype, np.integer):
        return np.array(integers(dtype, shape), dtype=dtype)
    return floats(dtype, shape)


def cases():
    for name, dtype in NAMES.items():
        for shape in SHAPES:
            for _ in range(4 if name[0] in "FC" else 1):
                with np.errstate(all="ignore"):
                    yield name, array(dtype, shape)
    for bits in range(0, 1 << 16, 97):
        yield "F16", np.array(np.uint16(bits)).view(np.float16)
    for power in range(-149, 128, 5):
        yield "F32", np.array(2.0 ** power, np.float32)
        yield "F32", np.array([2.0 ** power, 1.5 * 2.0 ** power], np.float32)
    for power in range(-1074, 1024, 21):
        yield "F64", np.array(2.0 ** power)
        yield "F64", np.array([2.0 ** power, 3.0 * 2.0 ** power])


def main():
    data, lines, wanted, offset = [], [], [], 0
    np.seterr(all="ignore")
    for name, x in cases():
        lines.append(f"{name} {x.ndim} {' '.join(map(str, x.shape))} {offset}")
        wanted.append(str(x if x.ndim else x[()]))
        data.append(x.tobytes())
        offset += len(data[-1])
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"".join(data))
        f.flush()
        out = subprocess.run([TOOL, f.name], input="\n".join(lines), text=True,
                             stdout=subprocess.PIPE, check=False, timeout=60)
    seen = out.stdout.split("\n%%\n")
    print("1..3")
    print("ok 1" if out.returncode == 0 else "not ok 1", "- the tool runs")
    same = len(seen) == len(wanted) + 1
    print("ok 2" if same else "not ok 2", f"- {len(wanted)} arrays are printed")
    wrong = [i for i, (w, s) in enumerate(zip(wanted, seen)) if w != s]
    for i in wrong[:5]:
        print(f"# {lines[i]}\n# wanted:")
        print("\n".join("#   " + s for s in wanted[i].split("\n")[:6]))
        print("# seen:")
        print("\n".join("#   " + s for s in seen[i].split("\n")[:6]))
    print("not ok 3" if wrong or not same else "ok 3",
          f"- as numpy prints them ({len(wrong)} differ)")


main()
