# SPDX-License-Identifier: MIT
"""What safetensors' users expect beside its calls: its error, the names of its
ways to read, files as bytes."""
import builtins
import contextlib
import os
import tempfile

from . import _store


class SafetensorError(ValueError):
    """The bytes are no such file, or of no use as what was asked for."""


@contextlib.contextmanager
def errors():
    """In it, what is wrong with a file is a SafetensorError."""
    try:
        yield
    except SafetensorError:
        raise
    except ValueError as e:
        raise SafetensorError(str(e)) from None


def check_backend(backend):
    """There is one way to read here; the names of others' are known."""
    if backend not in ("mmap", "pread"):
        raise ValueError(f"backend is {backend!r}, neither \"mmap\" nor "
                         "\"pread\", which mean the same here")


def open_bytes(data):
    """The File of bytes in memory."""
    fd = os.memfd_create("tarn.load")
    with builtins.open(fd, "wb") as f, errors():
        f.write(data)
        f.flush()
        return _store.open(f"/proc/self/fd/{fd}")


def save_bytes(tensors, metadata):
    """The bytes of the file that save makes."""
    with tempfile.TemporaryDirectory(prefix="tarn.save") as folder:
        path = os.path.join(folder, "tensors.safetensors")
        _store.save(path, tensors, metadata)
        with builtins.open(path, "rb") as f:
            return f.read()
