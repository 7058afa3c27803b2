#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tarn copy writes, numpy reads, and it is what numpy would have made:
views, dtypes, scales for all and for channels, between both formats."""
import json
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
NAMES = {"u1": "U8", "i2": "I16", "i4": "I32", "i8": "I64", "f2": "F16",
         "f4": "F32", "f8": "F64"}
rng = np.random.default_rng(5)


def copy(*args):
    done = subprocess.run([TARN, "copy", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.stderr.decode().strip()


def read(path):
    """The tensors of a safetensors file, without our own reader."""
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    kinds = {v: k for k, v in NAMES.items()}
    return {name: np.frombuffer(data, kinds[t["dtype"]],
                                int(np.prod(t["shape"])),
                                8 + n + t["data_offsets"][0])
            .reshape(t["shape"]) for name, t in header.items()}


def same(a, b):
    return (a.dtype == b.dtype and a.shape == b.shape
            and a.tobytes() == b.tobytes())


def check_npy(array, *args, wanted, what):
    np.save("in.npy", array)
    error = copy("in.npy", *args, "out.npy")
    seen = np.load("out.npy") if not error else error
    ok(not error and same(seen, np.ascontiguousarray(wanted)), what, seen)


def check_crosswise():
    """Read once, not once for each piece of what is written, and a column is
    not a request for each of its elements."""
    a = rng.random((2048, 3, 700)).astype("f4")
    np.save("fortran.npy", np.asfortranarray(a))
    for what, args, wanted in (
            ("a Fortran array", ["out.st"], a),
            ("converted", ["out.st", "--dtype", "f8", "--scale", "2"],
             a.astype("f8") * 2),
            ("a view of it", [".permute(1,0,2)", "out.st"],
             a.transpose(1, 0, 2))):
        done = subprocess.run([TARN, "copy", "fortran.npy", *args, "--json"],
                              stdout=subprocess.PIPE, check=False)
        told = json.loads(done.stdout)
        ok(told["read"] <= 2 * a.nbytes, what + ": is read once", told)
        ok(told["requests"] < 1000,
           "tarn copy of a file uses few requests", told)
        seen, = read("out.st").values()
        ok(same(seen, np.ascontiguousarray(wanted)),
           what + ": the copy has the same values")


def check_broadcast():
    a = rng.random((1, 256)).astype("f4")
    np.save("row.npy", a)
    error = copy("row.npy", ".expand(9999,256)", "wide.npy")
    seen = np.load("wide.npy") if not error else a
    ok(seen.shape == (9999, 256) and (seen == a).all(),
       "a row is copied as often as asked for", error)


def check_images():
    batch = rng.integers(0, 256, (3, 20, 31, 4), dtype=np.uint8)
    mean, std = [0.1, 0.2, 0.3, 0.4], [0.5, 0.25, 0.125, 1]
    scale = [1 / 255 / s for s in std]
    bias = [-m / s for m, s in zip(mean, std)]
    lists = ["--scale=" + ",".join(map(repr, scale)),
             "--bias=" + ",".join(map(repr, bias))]
    f4 = batch.astype("f4")
    wanted = f4 * np.array(scale, "f4") + np.array(bias, "f4")
    check_npy(batch, "--dtype", "F32", *lists, wanted=wanted,
              what="channels last, found by their number")
    check_npy(batch, ".permute(0,3,1,2)", "--dtype", "F32", *lists,
              wanted=wanted.transpose(0, 3, 1, 2),
              what="to channels first, normalised")
    check_npy(batch, "--dtype", "f4", "--scale", "1/255",
              wanted=f4 * np.float32(1 / 255), what="one scale for all")
    three = batch[:, :4, :, :]
    check_npy(three, "--dtype", "F64", "--channel", "1", *lists[1:],
              wanted=three + np.array(bias)[:, None, None],
              what="the channel that is named, where two could be")
    check_npy(batch, "--dtype", "f2", "--scale", "2,4,8,16", "--bias", "1",
              wanted=(f4 * np.array([2, 4, 8, 16], "f4") + np.float32(1))
              .astype("f2"), what="a list and one value")


def check_dtypes():
    for a in NAMES:
        array = np.arange(-60 if a[0] != "u" else 0, 60).astype(a)
        if a[0] == "f":
            array = array + np.array(0.5, a)
        for b in NAMES:
            if b == "u1":
                wanted = np.clip(np.trunc(array.astype("f8")), 0, 255)
                wanted = wanted.astype(b)
            else:
                wanted = array.astype(b)
            check_npy(array, "--dtype", NAMES[b], wanted=wanted,
                      what=f"{a} to {b}")
    array = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -9], "f4")
    check_npy(array, "--dtype", "U8", "--round",
              wanted=np.array([0, 2, 2, 0, 0, 255, 0], "u1"),
              what="rounded to even, and no further than there is room")


def check_formats():
    fortran = np.asfortranarray(rng.random((70, 90)))
    np.save("f.npy", fortran)
    error = copy("f.npy", "f.safetensors", "--checksums")
    seen = read("f.safetensors") if not error else {}
    ok(list(seen) == ["f"] and same(seen["f"], np.ascontiguousarray(fortran)),
       "a .npy in Fortran order is copied to safetensors", error)
    error = copy("f.safetensors:f", "[::-3, 5]", "g.npy")
    ok(not error and same(np.load("g.npy"), fortran[::-3, 5].copy()),
       "a column of that file is copied to .npy", error)
    error = copy("f.safetensors", "g.safetensors", "--dtype", "F16")
    seen = read("g.safetensors") if not error else {}
    ok(same(seen.get("f", fortran), fortran.astype("f2", "C")),
       "a .npy in Fortran order is converted to halves", error)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_crosswise()
        check_broadcast()
        check_images()
        check_dtypes()
        check_formats()
        os.chdir("/")
    return finish()


sys.exit(main())
