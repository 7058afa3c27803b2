#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Workers of a loader that are killed, and a loader that is interrupted: no batch
is missing, another, or there twice, and nobody waits for what does not come."""
import errno
import os
import random
import signal
import subprocess
import sys
import time

import py_kit as kit
from py_data_loader import BATCH, UNTIL, alone, make, noisy

import tarn
from tarn import _data_workers, data

LARGE = 1 << 17  # bytes that have a slot


def loader(**options):
    options = {"workers": 2, "transform": noisy, "until": UNTIL,
               "multiprocessing_context": "fork"} | options
    return data.Loader(make(), BATCH, rank=0, world=1, **options)


def pids(of):
    return [p.pid for p in of._batches.pool._processes]


def are_gone(processes):
    """In the end; a zombie has ended."""
    def lives(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                return f.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    end = time.monotonic() + 60
    while any(map(lives, processes)) and time.monotonic() < end:
        time.sleep(.01)
    return not any(map(lives, processes))


# ---- killed ---------------------------------------------------------------


class Once:
    """Kills the first worker that gets there, half way."""

    def __init__(self, path):
        self.path = path

    def __call__(self, batch, seeds):
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return noisy(batch, seeds)
        os.kill(os.getpid(), signal.SIGKILL)


class Holding:
    """Workers that have sent their batch, and never drop its task."""

    def __init__(self):
        self._send = _data_workers._send

    def __enter__(self):
        def send_and_stay(*batch):
            self._send(*batch)
            signal.pause()

        _data_workers._send = send_and_stay

    def __exit__(self, *exception):
        _data_workers._send = self._send


def all_die_with_tasks():
    """All batches of a loader whose workers are all killed between a batch and
    the end of its task, when the next step is to be asked for."""
    with loader() as of:
        with Holding():
            found = [next(of), next(of)]
        for process in of._batches.pool._processes:
            process.kill()
            process.join()
        # The slots that are left, as if there had been more such workers.
        tasks, kept = of._batches.pool._tasks, []
        while tasks.info()["free"]:
            kept.append(tasks.acquire(timeout=0))
        return found + list(of)


def killing_workers(draw, wanted, **options):
    """All batches of a loader whose workers are killed at any moment."""
    with loader(**options) as of:
        found = []
        for batch in of:
            found.append(batch)
            if draw.random() < .4:
                workers = of._batches.pool._processes
                draw.choice(workers).kill()
        return found == wanted


def test_killed(wanted):
    kit.equal(alone("packed", transform=Once("killed"), workers=2), wanted,
              "a worker that is killed is replaced, and its batch made again")
    os.remove("killed")
    kit.equal(all_die_with_tasks(), wanted, "workers that die all at once, with "
              "the tasks of batches that they have sent, are replaced")
    seed = int.from_bytes(os.urandom(4), "little")
    draw = random.Random(seed)
    kit.equal([killing_workers(draw, wanted, workers=n) for n in
               (1, 2, 3) * 3], [True] * 9,
              f"workers are killed at any moment (seed {seed}), and no batch "
              "is missing, another, or there twice")


def test_no_more_processes(wanted):
    """Where no worker can be started in place of a dead one."""
    of = loader()
    found = [next(of)]
    workers = pids(of)
    os.kill(workers[1], signal.SIGSTOP)  # does not end by itself
    start = _data_workers.Pool._start

    def cannot(pool):
        raise OSError(errno.EAGAIN, "no more processes")

    _data_workers.Pool._start = cannot
    os.kill(workers[0], signal.SIGKILL)
    try:
        while len(found) < len(wanted):
            found.append(next(of))
        kit.ok(False, "a worker that cannot be replaced is an error")
    except OSError as e:
        kit.equal(e.errno, errno.EAGAIN,
                  "a worker that cannot be replaced is an error")
    _data_workers.Pool._start = start
    kit.ok(are_gone(workers), "and the others end")
    kit.equal(found + list(of), wanted, "the loader goes on where it was")
    of.close()


def loads_and_forks(pipe):
    """A loader with workers, of which all but one have only begun when it is
    killed; and then a child that is none of them."""
    follow, this = _data_workers._end_with_parent, os.getpid()

    def follow_late(*args):
        try:
            os.close(os.open("first", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            while os.getppid() == this:
                time.sleep(.01)
        follow(*args)

    _data_workers._end_with_parent = follow_late
    of = loader()
    next(of)
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(1)
    os.write(pipe, b" ".join(b"%d" % p for p in [pid, *pids(of)]))
    signal.pause()


def test_loader_killed():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        loads_and_forks(write)
        os._exit(1)
    os.close(write)
    child, *workers = map(int, os.read(read, 1000).split())
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    kit.ok(are_gone(workers), "workers end with a loader that is killed, though "
           "another child of it has its descriptors")
    os.kill(child, signal.SIGKILL)
    os.remove("first")


# ---- interrupted ----------------------------------------------------------


class Broken:
    """Cannot be received for the first time."""

    def __init__(self, batch):
        self.batch = batch

    def __reduce__(self):
        return receive, (self.batch,)


def broken(batch, seeds):
    return Broken(noisy(batch, seeds))


def receive(batch):
    if not receive.failed:
        receive.failed = True
        raise MemoryError("no memory for a batch")
    return batch


receive.failed = False


class Late:
    """A source that cannot be read once, ahead of what is wanted."""

    def __init__(self, inner, at):
        self._inner, self._at = inner, at

    def next(self, timeout):
        batch = self._inner.next(timeout)
        self._at -= 1
        if self._at == 0:
            raise TimeoutError("the program's own")
        return batch

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_read_late(wanted):
    """An error of reading ahead, which took a batch with it."""
    found, error, native = [], None, data.Loader._native
    data.Loader._native = lambda of: Late(native(of), 3)
    with loader() as of:
        try:
            while len(found) < len(wanted):
                found.append(next(of))
        except TimeoutError as e:
            error = str(e)
        kit.equal((error, found), ("the program's own", wanted[:2]),
                  "an error of reading ahead comes after the batches before it")
        data.Loader._native = native
        kit.equal(found + list(of), wanted, "and no batch is lost")


def channels():
    return subprocess.run([os.environ["TARN"], "channel", "ls"], check=True,
                          capture_output=True, text=True).stdout


def test_channels_end():
    """Those of loaders that were interrupted while they were opened."""
    before = signal.signal(signal.SIGALRM, on_alarm)
    draw, times = random.Random(7), 0
    for _ in range(40):
        of = loader()
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, .005))
            next(of)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Alarm:
            times += 1
        of.close()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    end = time.monotonic() + 60
    while (left := channels()) and time.monotonic() < end:
        time.sleep(.01)
    kit.equal(left, "", f"{times} loaders that were interrupted while they were "
              "opened leave no channel")


class Alarm(Exception):
    pass


def on_alarm(number, frame):
    raise Alarm


def interrupted(draw):
    """Of an iteration whose calls are interrupted anywhere, and later each time, so
    that there is an end on a slow machine, too."""
    found, times, most = [], 0, .02
    with loader(workers=draw.choice((0, 1, 2))) as of:
        while True:
            at = of.position
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, most))
                batch = next(of, None)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarm:
                times, most = times + 1, most * 2
                if of.position != at:  # it came when the call was over
                    found.append(None)
                continue
            if batch is None:
                return found, times
            found.append(batch)
            most = .02


def test_interrupted(wanted):
    of = loader(transform=broken)
    kit.raises(MemoryError, "no memory", "a batch that cannot be received is an "
               "error", next, of)
    kit.equal(list(of), wanted, "and comes again")
    of.close()
    before = signal.signal(signal.SIGALRM, on_alarm)
    seed = int.from_bytes(os.urandom(4), "little")
    draw, times, right = random.Random(seed), 0, True
    try:
        for _ in range(12):
            found, n = interrupted(draw)
            times += n
            right = right and len(found) == len(wanted) and all(
                a is None or a == b for a, b in zip(found, wanted))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    kit.ok(right, "calls are interrupted anywhere, and the next ones have the "
           f"same batches (seed {seed})")
    kit.ok(times, f"{times} were")


# ---- slots ----------------------------------------------------------------


def of_any_size(batch, seeds):
    """First mostly numbers, which hold no slot, then arrays. Arrays of the first
    half, and the first of the second, come after those that follow them."""
    at = of_any_size.order[str(batch["tokens"].tolist())]
    if at < of_any_size.half and at % 6:
        return at
    if at <= of_any_size.half:
        time.sleep(.1)
    return tarn.full((LARGE,), at % 251, "U8")


def test_slots():
    """A user that keeps all, of batches that have slots and others."""
    n, half = 72, 48
    of_any_size.half = half
    of_any_size.order = {str(b["tokens"].tolist()): i for i, b in enumerate(
        data.Loader(make(), BATCH, rank=0, world=1, until=n * BATCH))}
    with loader(transform=of_any_size, ahead=8, until=n * BATCH) as of:
        found = [b if isinstance(b, int) else (b.shape[0], b.tolist()[0])
                 for b in list(of)]
    kit.equal(found, [i if i < half and i % 6 else (LARGE, i % 251)
                      for i in range(n)],
              "batches that hold no slot do not count as those that do")


def main():
    os.chdir(os.environ["TMPDIR"])
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    wanted = alone("packed", transform=noisy)
    test_killed(wanted)
    test_no_more_processes(wanted)
    test_loader_killed()
    test_read_late(wanted)
    test_interrupted(wanted)
    test_channels_end()
    test_slots()
    daemon.terminate()
    daemon.wait()
    return kit.finish()


if __name__ == "__main__":
    sys.exit(main())
