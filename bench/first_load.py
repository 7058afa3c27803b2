# SPDX-License-Identifier: MIT
"""A cold file is loaded by safetensors' load_file into fresh memory, and then a
byte of each page is looked at.

    python3 first_load.py FILE

Prints the rate from call to last look, and the price in CPU; or says which
package is missing.
"""
import os
import resource
import sys
import time

PAGE = 4096


def touch(array, np):
    return int(array.reshape(-1).view(np.uint8)[::PAGE].sum(dtype=np.uint64))


def cpu():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def main():
    try:
        import numpy as np
        from safetensors.numpy import load_file
    except ImportError as e:
        print(f"missing {e.name}")
        return
    path = sys.argv[1]
    gib = os.stat(path).st_size / (1 << 30)
    began, cpu_began = time.perf_counter(), cpu()
    tensors = load_file(path)
    for array in tensors.values():
        touch(array, np)
    seconds = time.perf_counter() - began
    print(f"safetensors: {gib / seconds:.3f} GiB/s, "
          f"{1000 * (cpu() - cpu_began) / gib:.1f} ms of CPU per GiB")


main()
