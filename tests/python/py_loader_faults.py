#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What goes wrong in a worker is raised by the loader, as PyTorch's own does
it and never as a hang: exceptions with their traceback, batches that cannot be
sent, workers that are killed. Of a parent that is killed nothing is left."""
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref

import py_kit as kit
import py_loader_kit as loaders
from py_loader_kit import Noisy, Stream, Theirs, torch

from tarn.torch import DataLoader


class Faulty(Noisy):
    """Sample 9 does what it is told."""

    def __init__(self, fault):
        super().__init__(24)
        self.fault = fault

    def __getitem__(self, i):
        if i == 9:
            self.fault()
        return super().__getitem__(i)


class Brittle(Stream):
    def __iter__(self):
        for n, sample in enumerate(super().__iter__()):
            if n == 9:
                complain()
            yield sample


def complain():
    raise LookupError("sample 9 is not to be had")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def crash():
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


def leave():
    os._exit(3)


def refuse(worker):
    raise RuntimeError(f"worker {worker} will not begin")


def lock_up(samples):
    return {"lock": threading.Lock(), "x": samples[0]["x"]}


def uneven(samples):
    return torch.utils.data.default_collate(
        [torch.rand(2000 + i) for i in range(len(samples))])


def course(kind, dataset, **how):
    """What next gives until the end: a batch, or an exception."""
    iterator, seen = iter(kind(dataset, 2, num_workers=2, **how)), []
    while len(seen) < 100:
        try:
            next(iterator)
            seen.append("a batch")
        except StopIteration:
            break
        except Exception as e:
            seen.append(e)
    return seen


def named(seen):
    """The classes, and whose they were, which the first line tells."""
    return [f"{type(e).__name__}: {str(e).splitlines()[0]}"
            if isinstance(e, Exception) else e for e in seen]


def alike(what, dataset, part, **how):
    theirs = course(Theirs, dataset, **how)
    ours = course(DataLoader, dataset, **how)
    kit.equal(named(ours), named(theirs), what)
    kit.ok(any(part in str(e) for e in ours),
           f"{what}: the error contains '{part}'", *ours)


def check_exceptions():
    alike("an exception, and the batches after it", Faulty(complain),
          "in complain")
    alike(
          "an exception in an iterable dataset",
          Brittle(), "sample 9 is not to be had")
    alike("an exception in worker_init_fn", Noisy(8), "will not begin",
          worker_init_fn=refuse)
    alike("samples that cannot be stacked", Noisy(8), "stack expects",
          collate_fn=uneven)
    seen = course(DataLoader, Noisy(8), collate_fn=lock_up)
    kit.ok(len(seen) == 4 and all(isinstance(e, TypeError) and "lock" in str(e)
                                  for e in seen),
           "a batch that cannot be sent raises an error", *seen)


def until_fault(loader):
    """The last batch, the iterator, and its channels, all of them left."""
    iterator = iter(loader)
    try:
        for batch in iterator:
            pass
    except LookupError:
        pass
    return (weakref.ref(batch["x"]), weakref.ref(iterator),
            list(iterator._results._wide.values()))


def check_garbage():
    """What the loop had is gone with it, and not when somebody looks."""
    gc.collect()
    gc.disable()
    for how in ({}, {"persistent_workers": True}):
        loader = DataLoader(Faulty(complain), 2, num_workers=2, **how)
        batch, iterator, channels = until_fault(loader)
        kept = loader._iterator  # persistent workers' is the loader's
        kit.equal((batch(), iterator()), (None, kept),
                  f"an exception keeps no batch {how or ''}")
        del kept, loader
        kit.equal([c.info()["reading"] for c in channels], [0],
                  "all slots are free after the exception")
    gc.enable()


def check_arguments():
    """The parent reports wrong arguments at once, and no worker does."""
    for error, part, how in (
            (ValueError, "slot_bytes is 0, not between 1", {"slot_bytes": 0}),
            (ValueError, "slot_bytes is -1, not", {"slot_bytes": -1}),
            (ValueError, f"slot_bytes is {2**70}", {"slot_bytes": 2**70}),
            (TypeError, "whole number, not '1M'", {"slot_bytes": "1M"}),
            (TypeError, "whole number, not 1.5", {"slot_bytes": 1.5}),
            (TypeError, "a tarn.Store, not 'x'", {"store": "x"})):
        kit.raises(error, part,
                   f"wrong arguments are refused: {how}",
                   DataLoader, Noisy(8), 2,
                   num_workers=2, **how)


def check_deaths():
    for fault, part in ((die, "signal: Killed"), (crash, "signal: "),
                        (leave, "exit code 3")):
        for how in ({}, {"persistent_workers": True, "shuffle": True}):
            iterator = iter(DataLoader(Faulty(fault), 2, num_workers=2, **how))
            pids = [str(w.pid) for w in iterator._workers]
            try:
                for _ in iterator:
                    pass
                seen = "nothing"
            except RuntimeError as e:
                seen = str(e)
            kit.ok(part in seen and any(pid in seen for pid in pids) or
                   "exited unexpectedly" in seen,
                   f"{fault.__name__} {how or ''} is raised", seen)
            del iterator
            gc.collect()
    # Killed from outside while it waits for work, and while it has none.
    loader = DataLoader(Noisy(200), 2, num_workers=2)
    iterator = iter(loader)
    batch = next(iterator)
    wanted = batch["x"].clone()
    os.kill(iterator._workers[1].pid, signal.SIGKILL)
    try:
        for _ in iterator:
            pass
        seen = "nothing"
    except RuntimeError as e:
        seen = str(e)
    kit.ok("DataLoader worker" in seen,
           "a worker that another process kills is reported", seen)
    del iterator
    gc.collect()
    kit.ok(torch.equal(batch["x"], wanted),
           "earlier batches outlive the killed worker")
    kit.equal(len(list(loader)), 100,
              "the loader has all batches after the fault")


class Slow(Noisy):
    def __getitem__(self, i):
        time.sleep(30)
        return super().__getitem__(i)


def check_timeout():
    iterator = iter(DataLoader(Slow(8), 2, num_workers=1, timeout=1))
    kit.raises(RuntimeError, "timed out after 1 second",
               "a worker that takes too long is a timeout", next,
               iterator)
    del iterator
    gc.collect()
    timer = kit.ctrl_c()
    iterator = iter(DataLoader(Slow(8), 2, num_workers=1))
    kit.raises(KeyboardInterrupt, "",
               "Ctrl-C ends the wait for a batch", next, iterator)
    timer.join()


PARENT = """
import sys, time
import py_loader_kit as loaders
from tarn.torch import DataLoader
iterator = iter(DataLoader(loaders.Noisy(4000), 4, num_workers=2,
                           multiprocessing_context=sys.argv[1]))
kept = [next(iterator) for _ in range(5)]
print(*[w.pid for w in iterator._workers], flush=True)
time.sleep(100)
"""


def gone(pid):
    """It ended; whose child it now is may not have waited for it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def eventually(true, seconds=60):
    for _ in range(seconds * 20):
        if true():
            return True
        time.sleep(.05)
    return False


def channels():
    """The names of those of loaders."""
    seen = subprocess.run([os.environ["TARN"], "channel", "ls"], check=True,
                          capture_output=True, text=True).stdout.split()
    return [word for word in seen if word.startswith("loader/")]


def check_parent(method):
    gc.collect()
    kit.ok(eventually(lambda: not channels()),
           "no channel is left after the faults",
           channels())
    folder = tempfile.mkdtemp()  # Python's files outlive who is killed
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, method], text=True,
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=":".join(sys.path), TMPDIR=folder))
    workers = parent.stdout.readline().split()
    kit.equal((len(workers), len(channels())), (2, 2),
              f"a parent has two workers and two channels: {method}")
    parent.kill()
    parent.wait()
    kit.ok(eventually(lambda: all(map(gone, workers))),
           "no worker is left of a parent that was killed")
    kit.ok(eventually(lambda: not channels()),
           "no channel is left of a parent that was killed",
           channels())
    parent.stdout.close()
    shutil.rmtree(folder)


def check_no_store():
    """What cannot begin says why, and has nothing to end."""
    ignored = []
    sys.unraisablehook = ignored.append
    loader = DataLoader(Noisy(24), 4, num_workers=1)
    loader.store = object()
    kit.raises(AttributeError, "socket",
               "an object that is no store is refused",
               iter, loader)
    del loader
    gc.collect()
    sys.unraisablehook = sys.__unraisablehook__
    kit.equal([str(i.exc_value) for i in ignored], [],
              "an iterator that could not begin ends without a message")


def main():
    loaders.begin()
    check_arguments()
    check_exceptions()
    check_garbage()
    check_no_store()
    check_deaths()
    check_timeout()
    for method in "fork", "forkserver":
        check_parent(method)
    loaders.finish()


if __name__ == "__main__":
    main()
