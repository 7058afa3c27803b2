# SPDX-License-Identifier: MIT
"""tarn behind safetensors' own calls, for programs that load with those."""
import importlib
import os
import sys
import threading
import types

from . import _conversions, _safe_open, _store
from ._tarn import NotFoundError

# A smaller file is mapped: to ask the daemon takes longer than to read it.
# Picked.
LEAST = 1 << 20
# A smaller array is copied: a mapping of its own takes longer. Picked.
MAPPED_LEAST = 64 << 10


class _Bytes:
    """The tensors of a file, which is loaded when the first one is wanted:
    many programs open files only to look at their names. Where it cannot be
    loaded, no daemon or no room, they are the file's own."""

    def __init__(self, file, own):
        self._file, self._own, self._found = file, own, None

    def __getitem__(self, name):
        found = self._found
        if found is None:
            # Several threads may load, and the daemon reads once. A lock could
            # be held for ever in the child of a fork.
            found = self._found = self._load()
        return found[name]

    def _load(self):
        try:
            # The current folder may have changed.
            if os.stat(self._file._where).st_size < LEAST:
                return self._file
            found = _store.load(self._file)
            return found.own() if self._own else found
        except Exception:  # whatever it is, the file is there
            return self._file


class _Apart(_safe_open._Way):
    """From a file's Tensors to numpy's arrays. Each call returns an array with
    memory of its own, as safetensors does."""

    def __init__(self):
        super().__init__(_apart, _safe_open._same)

    def part(self, t, key):
        import numpy

        whole = _conversions.to_numpy(t)
        part = whole[key]
        if not isinstance(part, numpy.ndarray):
            return part  # a number
        if part.nbytes < MAPPED_LEAST:
            return part.copy()
        # A key of lists has made a copy already.
        return _apart(t)[key] if numpy.may_share_memory(part, whole) else part


def _apart(t):
    """An array that alone has what is written to it."""
    if t.nbytes >= MAPPED_LEAST:
        try:
            return _conversions.to_numpy(t.cow(own=True))
        except (OSError, MemoryError):
            pass  # there are as many mappings as there may be
    return _conversions.to_numpy(t.copy())


class Shared(_safe_open.safe_open):
    """safe_open over memory that all processes of the machine share."""

    _straight = False

    def __init__(self, error, filename, framework, *args, **kwargs):
        # What safetensors does not take is refused, and so left to it: a
        # program may look for its error to try another way.
        if _safe_open.FRAMEWORKS[framework] is None:
            raise ValueError(framework)
        super().__init__(filename, framework, *args, **kwargs)
        if self._file.format != "safetensors":
            raise ValueError(self._file.format)
        self._error = error
        own = self._way.read is None
        if _safe_open.FRAMEWORKS[framework] == "np":
            self._way, own = _Apart(), False
        self._bytes = _Bytes(self._file, own)

    def _open(self):
        if self._file is None:
            raise self._error("File is closed")
        return self._file

    def _find(self, name):
        try:
            return super()._find(name)
        except NotFoundError as e:
            raise self._error(e.args[-1]) from None


def _shared_or(original, error):
    """A class to put in the place of the original: what is not understood goes
    to that, and what fails fails there, with its own words."""

    class Kind(type):
        def __instancecheck__(cls, one):
            return isinstance(one, (Shared, original))

    class safe_open(metaclass=Kind):
        __doc__ = original.__doc__

        def __new__(cls, *args, **kwargs):
            # It may still be known, as a default argument is, after it was
            # taken back.
            if Installed._count:
                try:
                    return Shared(error, *args, **kwargs)
                except Exception:
                    pass
            return original(*args, **kwargs)

    return safe_open


# What a module has, even if it is one that imports others when it is asked.
_names_of = types.ModuleType.__dict__["__dict__"].__get__


def _replace(old, new):
    """In all modules, whatever they call it: `from safetensors import
    safe_open` was executed in many of them before."""
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and \
                module is not sys.modules[__name__]:
            names = _names_of(module) or {}
            for name in [n for n, v in list(names.items()) if v is old]:
                names[name] = new


class Installed:
    """What install() did, until uninstall() or the end of `with`."""

    _lock = threading.Lock()
    _count = 0
    _original = _ours = None

    def __init__(self):
        cls = Installed
        try:
            safetensors = importlib.import_module("safetensors")
        except ImportError:
            raise ImportError("tarn.install: safetensors is not installed, so "
                              "nothing loads with it; tarn.load needs no "
                              "install()") from None
        self._active = True
        with cls._lock:
            cls._count += 1
            if cls._count > 1:
                return
            cls._original = safetensors.safe_open
            cls._ours = _shared_or(cls._original, safetensors.SafetensorError)
            _replace(cls._original, cls._ours)

    def uninstall(self):
        """Puts safetensors' own back where the last of several install() is
        undone. Files that are open, and their tensors, stay as they are. May
        be called again."""
        cls = Installed
        with cls._lock:
            if not self._active:
                return
            self._active = False
            cls._count -= 1
            if not cls._count:
                _replace(cls._ours, cls._original)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.uninstall()

    def __repr__(self):
        return f"<tarn.install: {'on' if self._active else 'undone'}>"


def _new_lock():
    """In the child of a fork: a thread that it has not may hold the old one."""
    Installed._lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def install():
    """Puts tarn behind safetensors.safe_open, and so behind load_file of
    safetensors.torch and safetensors.numpy, and what uses them: from_pretrained
    of transformers and diffusers, vLLM's default loader. Processes that load
    the same file then read it once, and share its bytes; what one of them
    writes to its tensors stays its own.

        import tarn
        tarn.install()                       # or: with tarn.install(): ...
        model = AutoModel.from_pretrained("gpt2")

    Nothing else changes: other frameworks than PyTorch and numpy, files that
    tarn does not read, and errors are safetensors' own; where the daemon has
    no room, the file is mapped. Returns an object with uninstall(), which is
    also a context manager. ImportError: there is no safetensors. Any thread."""
    return Installed()
