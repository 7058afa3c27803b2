# SPDX-License-Identifier: MIT
"""A process that may not ask the kernel on which NUMA node memory lies, as in
some containers. It has a tensor of its own memory copied also to the node on
which it lies: so copies are made where there is one node. As a program: blind.py
COMMAND [ARGUMENT...] runs a command so."""
import ctypes
import errno
import os
import platform
import struct
import sys

# get_mempolicy, move_pages
CALLS = {"x86_64": (239, 279), "aarch64": (236, 239)}


def blind():
    """From here on these system calls of this process fail. Did it work?"""
    numbers = CALLS.get(platform.machine(), ())
    code = [(0x20, 0, 0, 0)]  # load the call's number
    for i, number in enumerate(numbers):
        code.append((0x15, len(numbers) - i, 0, number))
    code += [(6, 0, 0, 0x7fff0000), (6, 0, 0, 0x00050000 | errno.EPERM)]
    text = b"".join(struct.pack("HBBI", *line) for line in code)
    lines = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(lines))
    libc = ctypes.CDLL(None)
    return bool(numbers) and libc.prctl(38, 1, 0, 0, 0) == 0 and \
        libc.prctl(22, 2, program) == 0


if __name__ == "__main__":
    if not blind():
        sys.exit(77)
    os.execvp(sys.argv[1], sys.argv[1:])
