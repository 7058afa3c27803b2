# SPDX-License-Identifier: MIT
"""tarn.save in the background: what is saved is copied now and written later,
by a thread."""
import os
import sys
import threading
import warnings

from . import _conversions, _tarn


class _Spare:
    """Memory of copies that were written, for those of the next save: a copy to it
    takes a fraction of the time of one to memory that the kernel has to find and
    clear first. Meanwhile the kernel may have its pages (MADV_FREE), so it is no
    loss to anybody."""

    def __init__(self):
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self):
        self._lock = threading.Lock()
        self._places = {}  # flat tensors, by their size

    def take_all(self):
        """What the caller does not use is given back to the system."""
        with self._lock:
            places, self._places = self._places, {}
        return places

    def give(self, copies):
        """copies: nobody uses them any more. Those that the kernel cannot have are
        not kept."""
        flats = [t.reshape(-1).bitcast("U8") for t in copies if _is_whole(t)]
        flats = [t for t in flats if _tarn._spare(t)]
        with self._lock:
            for t in flats:
                self._places.setdefault(t.nbytes, []).append(t)


def _is_whole(t):
    """Is it of bytes that can be those of another type?"""
    return t.nbytes > 0 and t.itemsize >= 1


_spare = _Spare()


class _Order:
    """Writes to one path happen in the order of their calls: each waits until the
    write before it has ended, with or without an error. The child of a fork waits
    for none of its parent's."""

    def __init__(self):
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self):
        self._lock = threading.Lock()
        self._last = {}  # the end of the last write to each path, an event

    def start(self, write):
        """Starts the write's thread, behind the last write to that path."""
        with self._lock:
            write.before = self._last.get(write.path)
            write.thread.start()  # if this fails, no later write waits for it
            self._last[write.path] = write.end

    def leave(self, write):
        """The write has ended: the next one may begin."""
        with self._lock:
            if self._last.get(write.path) is write.end:
                del self._last[write.path]
        write.end.set()


_order = _Order()


class _Write:
    """The thread and its result, which outlive the Saving that a caller may
    drop."""

    def __init__(self, path, copies, call):
        self.path, self._copies, self._call = path, copies, call
        self.error, self.seen = None, False
        self.pid = os.getpid()
        self.end, self.before = threading.Event(), None
        # No daemon: the interpreter ends when the file is written.
        self.thread = threading.Thread(target=self._run, name="tarn.save")

    def _run(self):
        try:
            if self.before is not None:
                self.before.wait()
            self._call(self._copies)
        except BaseException as e:
            # Its frames would keep the copies as long as anybody has it.
            self.error = e.with_traceback(None)
        finally:
            copies, self._copies, self._call = self._copies, None, None
            try:
                _spare.give(copies.values())
            finally:
                _order.leave(self)

    def __del__(self):
        if self.error is not None and not self.seen and \
                self.pid == os.getpid():
            warnings.warn(f"save in the background: {self.path!r} was not "
                          f"written, and wait() was not called: {self.error}",
                          RuntimeWarning, source=self)


class Saving:
    """A file that is being written in the background: what tarn.save returns
    with background=True. Any thread of the process may use it. It need not be
    kept: the file is written also if nothing refers to this, and the
    interpreter does not end before."""

    def __init__(self, write):
        self._write = write

    def done(self):
        """Is the file written, or has writing it failed? It never waits."""
        self._check_process()
        return not self._write.thread.is_alive()

    def wait(self, timeout=None):
        """Waits until the file is written, and raises what writing it raised.
        TimeoutError: it still was not after timeout seconds (None: no limit);
        the writing goes on."""
        self._check_process()
        self._write.thread.join(timeout)
        if self._write.thread.is_alive():
            raise TimeoutError(f"{self.path!r} is not written after {timeout} "
                               "s; it is still being written")
        if self.error is not None:
            raise self.error

    @property
    def error(self):
        """The exception that writing raised; None: there is none, or none
        yet."""
        if self._write.error is not None:
            self._write.seen = True
        return self._write.error

    @property
    def path(self):
        """The absolute path of the file."""
        return self._write.path

    def _check_process(self):
        if self._write.pid != os.getpid():
            raise RuntimeError(f"{self.path!r} is written by process "
                               f"{self._write.pid}, which alone can wait for "
                               "it")

    def __repr__(self):
        state = "being written" if self._write.thread.is_alive() else \
            "written" if self._write.error is None else "failed"
        return f"<tarn.Saving {self.path!r}: {state}>"


def _copy(source, places):
    """What later writes to the source do not change; in one of the places, by their
    size, if there is one."""
    torch = sys.modules.get("torch")
    if torch and isinstance(source, getattr(torch, "Tensor", ())) and \
            source.device.type != "cpu":
        return _copy_from_device(source, places)
    t = _conversions.to_tensor(source)
    fit = places.get(t.nbytes)
    if fit and _is_whole(t):
        place = fit.pop().bitcast(t.dtype).reshape(t.shape)
        return _tarn._copy_past(place, t)
    return t.cpu() if t.storage_kind == "device" else t.copy()


def _copy_from_device(source, places):
    """The same of PyTorch's on a device, any that it knows, which brings the bytes
    straight to their place. It waits for the work in the device's current
    stream."""
    dtype, shape = _conversions.torch_layout(source)
    fit = places.get(source.numel() * source.element_size())
    flat = fit.pop() if fit else \
        _tarn.empty((source.numel() * source.element_size(),), "U8")
    _conversions.to_torch(flat).view(source.dtype).view(source.shape).copy_(
        source)
    return flat.bitcast(dtype).reshape(shape)


def start(path, tensors, metadata, save):
    """Copies all, and begins to write: save(path, tensors, metadata)."""
    # The current folder may be another one when it is written.
    path = os.path.abspath(os.fspath(path))
    places = _spare.take_all()
    copies = {name: _copy(t, places) for name, t in tensors.items()}
    metadata = None if metadata is None else dict(metadata)
    write = _Write(path, copies, lambda copies: save(path, copies, metadata))
    _order.start(write)
    return Saving(write)
