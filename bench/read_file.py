# SPDX-License-Identifier: MIT
"""The reference: safetensors' load_file, and then a look at every byte.

    python3 read_file.py FILE numpy|torch

Each line of standard input is a round, "cold" or "warm", answered by a line
with the rate and the price in CPU. Says "missing ..." where the packages are.
"""
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


def load(path, which, np):
    if which == "torch":
        from safetensors.torch import load_file
        return sum(touch(t.numpy(), np) for t in load_file(path).values())
    from safetensors.numpy import load_file
    return sum(touch(a, np) for a in load_file(path).values())


def main():
    path, which = sys.argv[1:]
    try:
        import numpy as np
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
