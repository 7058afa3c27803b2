#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The example's files are valid, of the size asked for, and full of numbers.

Checked without our own reader: json and struct are enough.
"""
import json
import os
import struct
import subprocess
import sys

from tap import finish, ok

PROGRAM = os.path.join(os.environ.get("top_builddir", "."),
                       "examples", "make_checkpoint")
SIZES = {"F32": "f", "F16": "e", "BF16": "H", "F64": "d"}


def check(mb, dtype, path):
    subprocess.run([PROGRAM, "--size-mb", str(mb), "--dtype", dtype, path],
                   check=True, stdout=subprocess.DEVNULL)
    with open(path, "rb") as f:
        data = f.read()
    os.unlink(path)
    n = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__")
    ok((8 + n) % 64 == 0, f"{dtype}: the data is aligned")
    end = 0
    for name, entry in header.items():
        count = 1
        for size in entry["shape"]:
            count *= size
        begin, stop = entry["data_offsets"]
        if begin != end or stop - begin != count * struct.calcsize(
                SIZES[dtype]):
            ok(False, f"{dtype}: {name} has {entry}, after byte {end}")
        end = stop
    ok(end == len(data) - 8 - n, f"{dtype}: the tensors tile the data")
    ok(0.95 < len(data) / (mb * 1e6) < 1.05,
       f"{dtype}: {len(data)} bytes are {mb} MB")
    ok({"wte", "wpe", "h.0.attn.c_attn.weight", "ln_f.bias"} <= set(header),
       f"{dtype}: the expected names are in the file")
    values = struct.unpack_from(f"<1000{SIZES[dtype]}", data, 8 + n)
    if dtype == "BF16":
        values = struct.unpack("<1000f", struct.pack(
            "<1000I", *(v << 16 for v in values)))
    ok(values[0] == 0 and max(map(abs, values)) <= 1 / 16 and
       len(set(values)) > 100, f"{dtype}: the values are small and differ")
    return values


def main():
    folder = os.environ.get("TMPDIR", "/tmp")
    path = os.path.join(folder, f"checkpoint-{os.getpid()}.safetensors")
    values = {dtype: check(2, dtype, path) for dtype in SIZES}
    ok(values["F32"] == values["F16"] == values["F64"],
       "the values do not depend on the type")
    bad = subprocess.run([PROGRAM, "--size-mb", "0", path],
                         stderr=subprocess.PIPE)
    ok(bad.returncode == 2 and b"usage" in bad.stderr,
       "a size that is none is refused with the usage")
    return finish()


sys.exit(main())
