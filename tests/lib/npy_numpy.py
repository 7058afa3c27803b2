#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that numpy writes, in all versions, orders and dtypes, against what we
read of them; and headers in odd spellings, which both must take, or neither."""
import io
import os
import struct
import subprocess
import sys
import tempfile
import warnings

from tap import finish, ok, skip_all

try:
    import numpy as np
    from numpy.lib import format as npy
except ImportError:
    skip_all("numpy is not installed")

TOOL = os.path.join(os.environ.get("top_builddir", "."), "tests", "lib", "file_tool")
DTYPES = {"?": "BOOL", "u1": "U8", "i1": "I8", "<u2": "U16", "<i2": "I16",
          "<u4": "U32", "<i4": "I32", "<u8": "U64", "<i8": "I64",
          "<f2": "F16", "<f4": "F32", "<f8": "F64", "<c8": "C64"}
SHAPES = [(), (0,), (1,), (7,), (2, 3), (3, 0, 2), (4, 3, 2), (2, 1, 3, 2)]
REFUSED = {">f4": "big-endian", ">i8": "big-endian", "O": "Python objects",
           "S5": "byte strings", "U5": "strings", "V3": "raw bytes",
           "<c16": "complex128", "M8[ns]": "dates", "m8[s]": "time spans",
           "g": "long double", "i4,f4": "structured"}
HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
    '{"descr":"<f4","fortran_order":False,"shape":(3,)}',
    "{ 'shape' : ( 3 , ) , 'fortran_order' : True , 'descr' : '<f4' }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3L,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3,), }\n   \n",
    "{'descr': '<f4',\n 'fortran_order': False,\n 'shape': (3,)}",
    "{'descr': '=f4', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': 'f4', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '|f4', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (00,)}",
    "  {'descr': '<f4', 'fortran_order': False, 'shape': ()}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (03,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
    "{'descr': '<f4', 'fortran_order': None, 'shape': (3,)}",
    "{'descr': '<f3', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': 7, 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<f4', 'fortran_order': False}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
    "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<f4', 'fortran_order': false, 'shape': (3,)}",
    "('descr', '<f4')", "{}", "", "None",
]
rng = np.random.default_rng(7)


def read(path):
    out = subprocess.run([TOOL, path], stdout=subprocess.PIPE, check=True)
    return out.stdout.decode().rstrip("\n").split("\t")


def make(dtype, shape):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    data = rng.integers(0, 256, size, dtype=np.uint8)
    if dtype == "?":
        data &= 1
    return data.view(dtype).reshape(shape)


def check_values(path):
    for dtype, name in DTYPES.items():
        wrong = []
        for version in (1, 0), (2, 0), (3, 0):
            for shape in SHAPES:
                for order in "C", "F":
                    array = np.asarray(make(dtype, shape), order=order)
                    with open(path, "wb") as f, warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        npy.write_array(f, array, version)
                    wanted = ["x", name,
                              "(" + "".join(f"{n}," for n in shape) + ")",
                              array.tobytes("C").hex()]
                    seen = read(path)
                    if seen != wanted:
                        wrong.append((version, shape, order, wanted, seen))
        ok(not wrong,
           f"{name}: arrays of all versions, shapes and orders are read",
           wrong[:1])


def check_refused(path):
    for dtype, why in REFUSED.items():
        array = np.zeros(3, dtype)
        with open(path, "wb") as f:
            np.save(f, array)
        seen = read(path)
        ok(seen[:2] == ["error", "-95"] and why in seen[2] and
           path in seen[2], f"{dtype} is refused: {why}", seen)


def check_headers(path):
    for version in 1, 2, 3:
        for text in HEADERS:
            header = text.encode("latin1")
            data = b"\x93NUMPY" + bytes([version, 0]) + struct.pack(
                "<H" if version == 1 else "<I", len(header)) + header
            data += bytes(12)
            with open(path, "wb") as f:
                f.write(data)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    array = npy.read_array(io.BytesIO(data))
                wanted = "(" + "".join(f"{n}," for n in array.shape) + ")"
            except Exception as e:  # numpy raises whatever its parser does
                array, wanted = None, str(e)
            seen = read(path)
            ok(seen[0] == "error" if array is None else
               seen[0] == "x" and seen[2] == wanted,
               f"{version}.0 {'refused' if array is None else 'taken'}: "
               f"{' '.join(text.split())}", (wanted, seen))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        check_values(path)
        check_refused(path)
        check_headers(path)
    return finish()


sys.exit(main())
