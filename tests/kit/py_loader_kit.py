# SPDX-License-Identifier: MIT
"""What the tests of tarn.torch.DataLoader share: a daemon, datasets, batches
compared bit for bit, and epochs of PyTorch's own loader beside ours."""
import collections
import dataclasses
import faulthandler
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings

import py_kit as kit

try:
    import numpy as np
    import torch
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed (python3-torch, python3-numpy)")
from torch.utils.data import DataLoader as Theirs
from torch.utils.data import Dataset, IterableDataset, get_worker_info

import tarn
import tarn.torch

warnings.filterwarnings("ignore", ".*This DataLoader will create.*")
Pair = collections.namedtuple("Pair", "left right")

# PyTorch's own loader, beside which ours is run, needs one for each tensor.
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))


def state_of(thread):
    try:
        with open(f"/proc/self/task/{thread}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "S"  # it has ended


def until_alone():
    """Until no other thread runs. AddressSanitizer does not take the locks of
    its allocator before a fork: a thread that ends just then, as those of
    PyTorch's queues do, may have them, and nobody gives them back in the
    child, which stands at its first malloc."""
    this, end = threading.get_native_id(), time.monotonic() + 10
    while any(state_of(thread) != "S" for thread in os.listdir(
            "/proc/self/task") if int(thread) != this):
        if time.monotonic() > end:
            break
        time.sleep(0.001)


def on_alarm(number, _):
    """Says where this process and its workers stand, and dies of it."""
    with open("/proc/self/task/%d/children" % os.getpid(),
              encoding="ascii") as file:
        children = [int(pid) for pid in file.read().split()]
    for pid in {*children} - {daemon.pid}:
        os.kill(pid, signal.SIGUSR2)
        time.sleep(0.5)
    faulthandler.dump_traceback()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def begin():
    """A daemon, which finish ends. A test that hangs is ended, and says
    where."""
    global daemon
    faulthandler.register(signal.SIGUSR2)  # workers inherit it
    signal.signal(signal.SIGALRM, on_alarm)
    sanitized = "LD_PRELOAD" in os.environ
    signal.alarm(1100 if sanitized else 800)  # before tests/run ends it
    if sanitized:
        os.register_at_fork(before=until_alone)
    socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
    daemon = kit.start_daemon(socket)


def finish():
    daemon.terminate()
    daemon.wait()
    kit.finish()


class Noisy(Dataset):
    """Samples of an index and of all three generators: which batch was made
    by whom, after what, shows in its bits."""

    def __init__(self, count=50, shape=(3, 8, 8)):
        self.count, self.shape = count, shape

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return {"x": torch.full(self.shape, float(i)) + torch.rand(self.shape),
                "n": np.random.rand(2000).astype(np.float32), "i": i,
                "r": random.random(), "text": f"sample {i}"}


class Stream(IterableDataset):
    """Each worker has its share, one of them a short one; odd is what its
    generators give between the samples."""

    def __init__(self, count=41):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        stop = self.count // 3 if first else self.count
        for i in range(first, stop, step):
            yield torch.full((40, 40), float(i)) + torch.rand(()), i
            torch.rand(1)


class Detection(Dataset):
    """What a detection batch is: 114 objects, of which 112 have a few kB."""

    def __init__(self, count=24):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        boxes = [torch.rand(100 + i + j, 5, generator=g) for j in range(28)]
        return torch.rand(3, 64, 64, generator=g), i, boxes


def detection(samples):
    """4 samples: the images, the numbers, and 112 ragged arrays."""
    return (torch.stack([s[0] for s in samples]),
            torch.tensor([s[1] for s in samples]),
            [box for s in samples for box in s[2]])


@dataclasses.dataclass
class Made:
    """A type of the user's."""
    image: torch.Tensor
    rest: dict


def made(samples):
    return Made(torch.stack([s["x"] for s in samples]),
                {"first": samples[0], "all": Pair(len(samples), [
                    s["n"] for s in samples])})


class Holder(Dataset):
    """Hands out what it was given."""

    def __init__(self, *samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


def same(a, b, where="batch"):
    """None, or a sentence about the first difference."""
    if type(a) is not type(b):
        return f"{where}: wanted {type(a)}, seen {type(b)}"
    if isinstance(a, torch.Tensor):
        for what in ("dtype", "shape", "layout", "requires_grad"):
            if getattr(a, what) != getattr(b, what):
                return (f"{where}: wanted {what} {getattr(a, what)}, seen "
                        f"{getattr(b, what)}")
        if a.layout is torch.strided and a.numel() > 1 and \
                a.is_contiguous() and not b.is_contiguous():
            return f"{where}: strides {a.stride()}, seen {b.stride()}"
        good = torch.equal(a.to_dense() if a.is_sparse else a,
                           b.to_dense() if b.is_sparse else b)
        return None if good else f"{where}: wanted {a}, seen {b}"
    if isinstance(a, np.ndarray):
        good = a.dtype == b.dtype and a.shape == b.shape and \
            a.tobytes() == b.tobytes()
        return None if good else f"{where}: wanted {a!r}, seen {b!r}"
    if dataclasses.is_dataclass(a):
        a, b = vars(a), vars(b)
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{where}: wanted {list(a)}, seen {list(b)}"
        pairs = [(a[k], b[k], f"{where}[{k!r}]") for k in a]
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{where}: wanted {len(a)}, seen {len(b)} of them"
        pairs = [(x, y, f"{where}[{i}]") for i, (x, y) in
                 enumerate(zip(a, b))]
    else:
        return None if a == b else f"{where}: wanted {a!r}, seen {b!r}"
    return next(filter(None, (same(*pair) for pair in pairs)), None)


def epochs(kind, count, dataset, batch_size=4, **how):
    """All batches of some epochs, and a number of this process's generator
    after them, which depends on what the loader drew from it."""
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    if "seed" in how:
        how["generator"] = torch.Generator().manual_seed(how.pop("seed"))
    if "make_sampler" in how:
        how["sampler"] = how.pop("make_sampler")(dataset)
    loader = kind(dataset, batch_size, **how)
    seen = [list(loader) for _ in range(count)]
    return [*seen, [float(torch.rand(()))]]


def alike(what, count, dataset, **how):
    how.setdefault("num_workers", 2)
    theirs = epochs(Theirs, count, dataset, **how)
    ours = epochs(tarn.torch.DataLoader, count, dataset, **how)
    wrong = same(theirs, ours, "epochs")
    total = sum(map(len, theirs)) - 1
    return kit.ok(wrong is None and total > 0, f"{what}: {total} batches",
                  wrong)
