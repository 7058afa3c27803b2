#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn print against numpy, on .npy files that numpy wrote: what it says, and
with --raw the bytes, of views too large for one buffer as well."""
import os
import subprocess
import sys
import tempfile

from tap import finish, ok, skip_all

try:
    import numpy as np
except ImportError:
    skip_all("numpy is not installed")

TARN = os.environ["TARN"]
os.environ["TARN_AUTOSTART"] = "1"
os.environ["TARN_SOCKET"] = os.environ["XDG_RUNTIME_DIR"] + "/own/tarnd.sock"
rng = np.random.default_rng(7)

# An expression, and what it means in numpy.
VIEWS = [
    ("", lambda a: a),
    ("[1:, ::-2]", lambda a: a[1:, ::-2]),
    (".transpose(0,1)", lambda a: a.T),
    (".flip(1).reshape(-1)", lambda a: a[:, ::-1].reshape(-1)),
    ("[-1]", lambda a: a[-1]),
    ("[0, 2]", lambda a: a[0, 2]),
    ("[..., None, :0]", lambda a: a[..., None, :0]),
]
DTYPES = ["?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2",
          "<f4", "<f8", "<c8"]


def tarn(*args):
    return subprocess.run([TARN, *args], stdout=subprocess.PIPE, check=False)


def compare(array, path, expr, view, shown=True):
    address = f"{path}:{os.path.basename(path)[:-4]}"
    what = f"{array.dtype} {array.shape} {expr or 'whole'}"
    wanted = view(array)
    if shown:
        seen = tarn("print", address, expr)
        ok(seen.returncode == 0 and seen.stdout.decode() == str(wanted) + "\n",
           what, str(wanted), seen.stdout.decode())
    seen = tarn("print", address, expr, "--raw")
    ok(seen.returncode == 0 and seen.stdout == wanted.tobytes(),
       what + " --raw", len(wanted.tobytes()), len(seen.stdout))


def small(folder):
    for i, dtype in enumerate(DTYPES):
        array = (rng.standard_normal((5, 6)) * 50).astype(dtype)
        if i % 2:
            array = np.asfortranarray(array)
        path = f"{folder}/a{i}.npy"
        np.save(path, array)
        for j, (expr, view) in enumerate(VIEWS):
            if expr and (i + j) % 3:
                continue  # each view with a third of the dtypes
            compare(array, path, expr, view)


def large(folder):
    array = rng.standard_normal((3, 700, 601)).astype("<f4")
    path = f"{folder}/large.npy"
    np.save(path, array)
    compare(array, path, "", lambda a: a)
    compare(array, path, "[:, ::3, 1:].permute(2,0,1)",
            lambda a: a[:, ::3, 1:].transpose(2, 0, 1))
    compare(array, path, "[1:, ::-1]", lambda a: a[1:, ::-1], shown=False)
    compare(array, path, ".reshape(-1)[::2]", lambda a: a.reshape(-1)[::2],
            shown=False)
    compare(array, path, ".unsqueeze(0).expand(4,-1,-1,-1)",
            lambda a: np.broadcast_to(a, (4, 3, 700, 601)), shown=False)


def packed(folder):
    """Four-bit numbers, two to a byte, in rows that are cut into chunks."""
    header = (b'{"x":{"dtype":"F4","shape":[3,3000002],'
              b'"data_offsets":[0,4500003]}}')
    data = rng.integers(0, 256, (3, 1500001), dtype=np.uint8)
    with open(f"{folder}/p.st", "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header + data.tobytes())
    seen = tarn("print", f"{folder}/p.st:x", ".flip(0)", "--raw")
    ok(seen.stdout == data[::-1].tobytes(),
       "rows of F4 in reverse are printed by --raw",
       seen.returncode, len(seen.stdout))


with tempfile.TemporaryDirectory() as tmp:
    try:
        small(tmp)
        large(tmp)
        packed(tmp)
    finally:
        os.environ["TARN_AUTOSTART"] = "0"
        stopped = tarn("stop")
ok(stopped.returncode == 0, "the daemon ends without error")
sys.exit(finish())
