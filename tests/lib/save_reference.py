#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tarn writes, numpy and the reference library of safetensors read, and
what they write, tarn writes again byte for byte."""
import os
import subprocess
import sys
import tempfile

from tap import finish, ok, skip_all, skipped

try:
    import numpy as np
except ImportError:
    skip_all("numpy is not installed")
try:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    safe_open = None

TOOL = os.path.join(os.environ.get("top_builddir", "."), "tests", "lib", "save_tool")
TYPES = "?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"
SHAPES = [(), (0,), (1,), (7,), (2, 3), (3, 0, 2), (4, 3, 2), (1, 600, 700)]
VIEWS = {
    (40, 50): [("[3:, ::-2]", lambda a: a[3:, ::-2]),
               (".transpose(0,1)", lambda a: a.T),
               (".expand(2,40,50)", lambda a: np.broadcast_to(a, (2, 40, 50))),
               ("[:, 7]", lambda a: a[:, 7]), ("[2, 3]", lambda a: a[2, 3])],
    (1030, 1040): [(".transpose(0,1)", lambda a: a.T),
                   ("[::-1, 1:]", lambda a: a[::-1, 1:])],
}
rng = np.random.default_rng(11)


def make(dtype, shape):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    data = rng.integers(0, 256, size, dtype=np.uint8)
    if dtype == "?":
        data &= 1
    return data.view(dtype).reshape(shape)


def tool(*args):
    out = subprocess.run([TOOL, *map(str, args)], stdout=subprocess.PIPE,
                         check=True)
    return out.stdout.decode().strip()


def content(path):
    with open(path, "rb") as f:
        return f.read()


def same(a, b):
    return (a.dtype == b.dtype and a.shape == b.shape
            and a.tobytes() == b.tobytes())


def check_npy(one, two):
    for dtype in TYPES + ("c8",):
        wrong = []
        for shape in SHAPES:
            for order in "C", "F":
                np.save(one, np.asarray(make(dtype, shape), order=order))
                said = tool(one, two)
                if said != "ok" or content(one) != content(two):
                    wrong.append((shape, order, said))
        ok(not wrong,
           f".npy of {dtype} is saved as numpy does, byte for byte", wrong[:2])
    for shape, views in VIEWS.items():
        for expr, view in views:
            array = make("f4", shape)
            np.save(one, array)
            said = tool(one, two, 4096, 0, expr)
            ok(said == "ok" and same(np.load(two), view(array)),
               f".npy of {shape}{expr} is read by numpy", said)


def check_safetensors(one, two):
    tensors = {f"{t} {s} \u00e9\"\n": make(t, s) for t in TYPES for s in SHAPES}
    for metadata in None, {"note": "a \"b\"\\\u00e4\u4e2d\U0001f30d\t"}:
        save_file(tensors, one, metadata)
        said = tool(one, two, 8)  # as the reference aligns large files, too
        ok(said == "ok" and content(one) == content(two),
           "safetensors saves the file again byte for byte", said)
    said = tool(one, two, 4096, 1)
    seen = load_file(two) if said == "ok" else {}
    ok(seen.keys() == tensors.keys()
       and all(same(seen[k], v) for k, v in tensors.items()),
       "safetensors reads an aligned file with checksums", said)
    with safe_open(two, "np") as f:
        kept = f.metadata()
    ok(kept.get("note") == metadata["note"] and len(kept) == 1 + len(tensors),
       "safetensors: metadata is kept, beside the checksums", kept)
    for shape, views in VIEWS.items():
        for expr, view in views:
            tensors = {t: make(t, shape) for t in ("u1", "f2", "f8")}
            save_file(tensors, one)
            said = tool(one, two, 0, 1, expr)
            seen = load_file(two) if said == "ok" else {}
            ok(seen.keys() == tensors.keys()
               and all(same(seen[k], view(v)) for k, v in tensors.items()),
               f"safetensors of {shape}{expr} is read by the reference", said)
    save_file({}, one)
    ok(tool(one, two) == "ok" and content(one) == content(two),
       "a safetensors file without tensors is saved again")


def main():
    with tempfile.TemporaryDirectory() as folder:
        one, two = (os.path.join(folder, n) for n in ("one.npy", "two.npy"))
        check_npy(one, two)
        if safe_open:
            check_safetensors(os.path.join(folder, "one"),
                              os.path.join(folder, "two"))
        else:
            skipped(
                    "the reference library reads tarn's files",
                    "safetensors is not installed")
    return finish()


sys.exit(main())
