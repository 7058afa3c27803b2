# SPDX-License-Identifier: MIT
"""A file is loaded, and then every byte of it is looked at: by the reference,
safetensors' load_file, or by tarn_file_load out of lib/ of the build folder.
All are looked at by the same loop, since that takes longer than the loading.

    python3 read_file.py FILE numpy|torch|load

Each line of standard input is a round, "cold" or "warm", answered by a line
with the rate and the price in CPU. Says "missing ..." where the packages are.
"""
import ctypes
import os
import sys
import time


def prepare(path, cold):
    fd = os.open(path, os.O_RDONLY)
    if cold:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        while os.read(fd, 1 << 20):
            pass
    os.close(fd)


def touch(array, np):
    flat = array.reshape(-1).view(np.uint8)
    whole = flat.size // 8 * 8
    return int(flat[:whole].view(np.uint64).sum()) + int(flat[whole:].sum())


class Tensor(ctypes.Structure):
    """What comes first in struct tarn_file_entry."""
    _fields_ = [("name", ctypes.c_char_p), ("name_size", ctypes.c_size_t),
                ("offset", ctypes.c_uint64), ("nbytes", ctypes.c_uint64)]


def open_library():
    tarn = ctypes.CDLL("lib/.libs/libtarn.so")
    tarn.tarn_file_at.restype = ctypes.POINTER(Tensor)
    tarn.tarn_file_count.restype = ctypes.c_size_t
    tarn.tarn_tensor_data.restype = ctypes.c_void_p
    return tarn


def load_tarn(path, np):
    """By one read of the whole data range, each tensor a part of it."""
    tarn = open_library()
    file, whole = ctypes.c_void_p(), ctypes.c_void_p()
    begin, size = ctypes.c_uint64(), ctypes.c_uint64()
    if (tarn.tarn_file_open(path.encode(), ctypes.byref(file)) < 0
            or tarn.tarn_file_load(file, None, None, None,
                                   ctypes.byref(whole)) < 0):
        sys.exit("tarn_file_load failed")
    tarn.tarn_file_data_range(file, ctypes.byref(begin), ctypes.byref(size))
    data = np.ctypeslib.as_array(
        ctypes.cast(tarn.tarn_tensor_data(whole),
                    ctypes.POINTER(ctypes.c_uint8)), (size.value,))
    total = 0
    for i in range(tarn.tarn_file_count(file)):
        tensor = tarn.tarn_file_at(file, ctypes.c_size_t(i)).contents
        at = tensor.offset - begin.value
        total += touch(data[at:at + tensor.nbytes], np)
    tarn.tarn_tensor_unref(whole)
    tarn.tarn_file_unref(file)
    return total


def load(path, which, np):
    if which == "load":
        return load_tarn(path, np)
    if which == "torch":
        from safetensors.torch import load_file
        return sum(touch(t.numpy(), np) for t in load_file(path).values())
    from safetensors.numpy import load_file
    return sum(touch(a, np) for a in load_file(path).values())


def main():
    path, which = sys.argv[1:]
    try:
        import numpy as np
        if which != "load":
            import safetensors.numpy  # noqa: F401
        if which == "torch":
            import torch  # noqa: F401
            import safetensors.torch  # noqa: F401
    except ImportError as error:
        print("missing", error, flush=True)
        return
    np.seterr(over="ignore")
    print("ready", flush=True)
    gib = os.path.getsize(path) / 2**30
    for line in sys.stdin:
        how = line.strip()
        prepare(path, how == "cold")
        start, cpu = time.monotonic(), time.process_time()
        load(path, which, np)
        start = time.monotonic() - start
        cpu = time.process_time() - cpu
        print("%s %s: %.3f GiB/s, %.1f ms of CPU per GiB" % (
            which, how, gib / start, cpu / gib * 1e3), flush=True)


main()
