# SPDX-License-Identifier: MIT
"""safe_open, as safetensors' users know it, over a mapped file; or, for a GPU,
over a file that is read straight to it."""
from collections.abc import Mapping

from . import _conversions, _tarn
from ._prefetch import Prefetch, touch
from ._safetensors import SafetensorError, check_backend, errors
from ._store import File
from ._tarn import NotFoundError

FRAMEWORKS = {None: None, "tarn": None, "pt": "pt", "torch": "pt",
              "pytorch": "pt", "np": "np", "numpy": "np"}


class _Way:
    """From a file's Tensors to what the caller gets: view makes a Tensor the
    framework's, move takes a part of that to the device. Where tarn reaches
    the device, device is its name, and read takes a Tensor of the file there
    at once; else both are None."""

    def __init__(self, view, move, device=None, read=None):
        self.view, self.move = view, move
        self.device, self.read = device, read

    def whole(self, t):
        return self.move(self.view(t)) if self.read is None else self.read(t)

    def part(self, t, key):
        """t[key], of which no other bytes are read where tarn can select
        them."""
        if self.read is None:
            return self.move(self.view(t)[key])
        if _is_plain(key):
            part = t[key]
            if isinstance(part, _tarn.Tensor):
                return self.read(part)
        return self.move(self.view(t.clone())[key])


def _is_plain(key):
    """Do Tensors and PyTorch's take the key for the same? (PyTorch's take
    lists and tensors, too.)"""
    return all(one is None or one is Ellipsis or
               (isinstance(one, int) and not isinstance(one, bool)) or
               (isinstance(one, slice) and (one.step is None or one.step > 0))
               for one in (key if isinstance(key, tuple) else (key,)))


def _framework(framework, device):
    if framework not in FRAMEWORKS:
        raise ValueError(f"safe_open: framework {framework!r} is none of "
                         "\"pt\" and \"np\"; others take Tensors by DLPack, "
                         "without a framework")
    if FRAMEWORKS[framework] == "pt":
        return _pytorch(device)
    if FRAMEWORKS[framework] == "np":
        if device != "cpu":
            raise ValueError(f"safe_open: device {device!r} wants PyTorch, "
                             "framework=\"pt\", or Tensors, without a "
                             "framework; numpy's are in \"cpu\"")
        return _Way(_conversions.to_private_numpy, _same)
    if device == "cpu" or _tarn._is_host(device):
        return _Way(_same, _same)
    return _Way(_same, _same, str(device), lambda t: t.to(device))


def _pytorch(device):
    from .torch import devices

    device = devices.checked(device, "safe_open")
    if device.type == "cpu":
        return _Way(_conversions.to_torch, _same)
    way = _Way(_conversions.to_torch, lambda part: part.to(device))
    if devices.is_reached(device):
        way.device, way.read = str(device), lambda t: devices.take(t, device)
    return way


def _same(part):
    return part


class _NoTensor(NotFoundError, SafetensorError):
    """The error that mappings raise, and the one that safetensors raises."""


class Slice:
    """A tensor of which only the part that [] selects is read."""

    def __init__(self, tensor, way, bytes, name):
        self._tensor, self._way = tensor, way
        self._bytes, self._name = bytes, name

    def get_shape(self):
        """Its shape, a list."""
        return list(self._tensor.shape)

    def get_dtype(self):
        """The name of its dtype, "F32"."""
        return self._tensor.dtype

    def __getitem__(self, key):
        return self._way.part(self._bytes[self._name], key)


class safe_open:
    """A tensor file, opened to read some of it: safetensors, .npy, .npz, a
    PyTorch checkpoint, or the index of a sharded one. No daemon takes part.

    framework is "pt", "np", or None for Tensors; device is where PyTorch's
    and Tensors go. PyTorch's and numpy's tensors are copy-on-write over the
    mapped file: only what is used is read, and what is written to them stays
    in this process. Those of one file share it, see Tensor.cow. To a GPU the
    bytes that were asked for are read straight from the file, and PyTorch's
    are in memory of its own. backend is one of safetensors' names, which mean
    the same here."""

    # Is a device given the file itself, without a stay in memory?
    _straight = True

    def __init__(self, filename, framework=None, device="cpu", *,
                 backend="mmap"):
        check_backend(backend)
        self._way = _framework(framework, device)
        self._torch = FRAMEWORKS[framework] == "pt"
        self._prefetched = []
        with errors():
            # What goes to a device needs no address.
            self._file = File(filename, self._way.read is None)
        # By name, the tensors from which bytes are taken.
        self._bytes = self._file

    def _open(self):
        if self._file is None:
            raise ValueError("safe_open: the file is closed")
        return self._file

    def _find(self, name):
        try:
            return self._open()[name]
        except NotFoundError as e:
            raise _NoTensor(e.errno, getattr(e, "sentence", str)()) from None

    def __enter__(self):
        self._open()
        return self

    def __exit__(self, *_):
        self._file = self._bytes = None
        prefetched, self._prefetched = self._prefetched, []
        for one in prefetched:
            one.close()

    def __repr__(self):
        return f"<tarn.safe_open {self._file!r}>"

    def keys(self):
        """The names, in their order."""
        return sorted(self._open())

    def offset_keys(self):
        """The names, in the order of their bytes in the file."""
        return list(self._open())

    def metadata(self):
        """The file's metadata, a dict of strings, or None."""
        return self._open().metadata or None

    def get_tensor(self, name):
        """One tensor, or the part of it that prefetch was asked for, which is
        waited for. NotFoundError, which is a KeyError, and here a
        SafetensorError too."""
        self._open()
        for one in self._prefetched:
            job = one.take(name)
            if job is not None:
                return job.get()
        self._find(name)
        return self._way.whole(self._bytes[name])

    def get_tensors(self):
        """All of them, a dict."""
        return _conversions.each({name: self._bytes[name]
                                  for name in self._open()}, self._way.whole)

    def get_slice(self, name):
        """A tensor to take parts of: get_slice("w")[:, :4]; [] accepts all
        that the framework's own [] does."""
        return Slice(self._find(name), self._way, self._bytes, name)

    def prefetch(self, plan=None):
        """Begins to read tensors in the background, in the order of their
        bytes in the file, and returns; get_tensor waits for the one that it
        is asked for. plan is an iterable of names, or a mapping of names to
        what [] of their get_slice would get (None: all of the tensor), which
        get_tensor then returns; without a plan it is the whole file.

        What was read for a name goes to the first get_tensor of it; another
        one reads again. An error of reading is raised by get_tensor.
        NotFoundError: a name of the plan is not in the file."""
        keys = dict.fromkeys(self._open()) if plan is None else \
            dict(plan) if isinstance(plan, Mapping) else dict.fromkeys(plan)
        for name in keys:
            self._find(name)
        if plan is None and self._way.read is not None and self._straight:
            jobs = self._all_at_once(list(keys))
        else:
            jobs = [(name, self._job(name, keys[name]))
                    for name in self._open() if name in keys]
        self._prefetched.append(Prefetch(jobs))

    def _job(self, name, key):
        bytes = self._bytes

        def read():
            t = bytes[name]
            if self._way.read is None:
                # It stays mapped: the caller shares it with other processes.
                if t.storage_kind != "mapped":
                    pass  # it is in memory
                elif key is None:
                    touch(t)
                elif _is_plain(key) and isinstance(t[key], _tarn.Tensor):
                    t[key].clone()
            return self._way.whole(t) if key is None else \
                self._way.part(t, key)

        return read

    def _all_at_once(self, names):
        """To a device a file goes fastest in one piece, of which the tensors
        are views."""
        file, found = self._file, {}

        def read(name):
            if not found:
                found.update(_tarn._load_to(file, self._way.device, None))
            t = found.pop(name)
            return _conversions.to_torch(t) if self._torch else t

        return [(name, lambda name=name: read(name)) for name in names]
