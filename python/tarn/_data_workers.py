# SPDX-License-Identifier: MIT
"""Worker processes that make batches.

The loader's process puts tasks into a channel, a worker receives one, makes its
batch and puts it into another channel, and only then drops the task. So a task
whose worker is killed is delivered again, to another one, and at worst a batch
comes twice: the second one is dropped. Which worker makes a batch changes
nothing in it.

There is a slot for each task that was asked for and not taken, for the one that
each worker may still have to drop, and a few for batches that the user still
holds. A user that holds more gets copies. Workers that were killed between a
batch and the end of its task may have slots beyond that. So the loader's process
never waits for a slot alone: what holds it may be a worker that is dead and wants
to be replaced, or one that waits until a batch is taken.

What is interrupted, by Ctrl-C or an error, may have lost a batch on its way: then
the pool is closed (Loader.__next__), and all that was asked for is asked for anew.

Both channels are ephemeral: they end with their last participant, and nothing
is left when processes are killed.
"""
import copy
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing import connection
from uuid import uuid4

from . import _store

# Batches that the user may hold before they are copied: the one of this step,
# the last one, and one more.
SPARE = 3
SLOT_BYTES = 1 << 20
TENSORS = 128
TASK_BYTES = 64 << 10
PATIENCE = 1.  # seconds between looks whether workers are there
# Picked: a worker that dies so often without a batch in between will not live.
DEATHS = 5
END = 5.  # seconds for a worker to end by itself


class _Failed:
    """A transform's error on its way to the loader's process."""

    def __init__(self, error):
        text = "".join(traceback.format_exception(error))
        if not isinstance(error, Exception):  # not to end the process there
            error = RuntimeError("a transform was to end its worker: "
                                 f"{error!r}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # its class decides what pickling raises
            error = RuntimeError(str(error))
        # Pickled here, since its class may be one of the program's own.
        self.error, self.text = pickle.dumps(error), text

    def again(self):
        """The error, caused by one with the worker's traceback."""
        try:
            error = pickle.loads(self.error)
        except Exception:
            error = RuntimeError("a worker of the loader failed")
        error.__cause__ = RuntimeError(f"in a worker of the loader:\n"
                                       f"{self.text}")
        return error


def _end_with_parent(direct):
    """A worker whose loader was killed makes batches for nobody. What that process
    has forked later keeps its sentinel open. direct: it is this one's parent, and
    no fork server."""
    parent = multiprocessing.parent_process()

    def follow():
        while parent.is_alive() and (not direct or
                                     os.getppid() == parent.pid):
            parent.join(PATIENCE)
        os._exit(1)

    if parent is not None:
        threading.Thread(target=follow, daemon=True).start()


def _make(work, task):
    try:
        return True, work(*task[1:])
    except BaseException as error:  # also of sys.exit(): the task has an end
        return False, _Failed(error)


def _send(results, g, done, batch):
    try:
        results.put((g, done, batch))
    except ConnectionError:
        raise
    except Exception as error:  # it cannot be pickled, or there is no memory
        results.put((g, False, _Failed(error)))


def _serve(work, tasks, results):
    """Until the tasks are closed, which drops those that are left. There is no
    lock of multiprocessing's: a worker that is killed would keep it."""
    while not tasks.info()["closed"]:
        try:
            item = tasks.receive(timeout=PATIENCE)
        except TimeoutError:
            continue
        except OSError:  # the end, or the loader's process is gone
            return
        # Not dropped where this raises: another worker gets it then.
        task = item.get()
        try:
            _send(results, task[0], *_make(work, task))
        except ConnectionError:
            return
        del task
        item.release()
    results.leave("producer")


def _run(work, tasks, results, direct):
    """A worker's whole life. Ctrl-C is for the loader's process, which ends its
    workers; and a fork has the program's handlers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_parent(direct)
    try:
        tasks.join("consumer")
        results.join("producer")
        _serve(work, tasks, results)
        work.flush()
    except BaseException:
        traceback.print_exc()
        # At once: what the frames of the error have is not dropped.
        os._exit(1)


class Pool:
    def __init__(self, store, context):
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self._store = _store.default_store() if store is None else store
        self._context, self._processes = context, []
        self._tasks = self._results = None
        self._closed = False

    def open(self, work, workers, ahead, read_bytes, slot_bytes):
        """After an error it is to be closed. read_bytes: what a task has at most
        of what the library has read. slot_bytes: of a batch that a worker has
        made, or None."""
        self._work, self._limit = work, ahead + workers
        # Both by the step's position. Made: done, the batch, and whether it
        # holds a slot.
        self._asked, self._made = set(), {}
        self._deaths = 0
        name = f"data/{uuid4().hex}"
        self._tasks = self._store.channel(
            f"{name}/tasks", slots=self._limit + workers, mode="queue",
            slot_bytes=read_bytes + TASK_BYTES, tensors=TENSORS, ephemeral=True,
            sparse=True, join="producer")
        self._results = self._store.channel(
            f"{name}/results", slots=self._limit + SPARE + workers,
            mode="queue",
            slot_bytes=slot_bytes or max(SLOT_BYTES, 2 * read_bytes),
            tensors=TENSORS, ephemeral=True, sparse=True, join="consumer")
        for _ in range(workers):
            self._processes.append(self._start())

    def _start(self):
        process = self._context.Process(
            target=_run, name="tarn data worker", daemon=True,
            args=(self._work, self._tasks, self._results,
                  self._context.get_start_method() != "forkserver"))
        process.start()
        return process

    def has_room(self):
        return len(self._asked) + len(self._made) < self._limit

    def ask(self, g, first, n, batch):
        """Asks for the batch of the step at g. False: tasks that are to be made
        again have all slots, so what was asked for is to be received first."""
        try:
            self._tasks.put((g, first, n, batch), timeout=0)
        except TimeoutError:
            return False
        self._asked.add(g)
        return True

    def take(self, g):
        """The batch of the step at g, which was asked for; or its transform's
        error."""
        while g not in self._made:
            self.receive()
        done, batch, holds = self._made.pop(g)
        if not done:
            raise batch.again()
        if not holds or self._held_by_user() <= SPARE:
            return batch
        return copy.deepcopy(batch)

    def _held_by_user(self):
        """Slots of the batch that is given now, and of earlier ones."""
        return self._results.info()["reading"] - sum(
            holds for _, _, holds in self._made.values())

    def receive(self, or_slot=False):
        """A batch, if there is one. Else waits until there may be, or, with
        or_slot, a slot for a task; and replaces workers that have died."""
        try:
            item = self._results.receive(timeout=0)
        except TimeoutError:
            self._wait(or_slot)
            return
        g, done, batch = item.get()
        holds = item.has_tensors
        item.release()
        self._deaths = 0
        if g in self._asked:
            self._made[g] = done, batch, holds
            self._asked.remove(g)

    def _wait(self, or_slot):
        ends = [self._results.fileno(), *(p.sentinel for p in self._processes)]
        if or_slot:
            ends.append(self._tasks.fileno("producer"))
        connection.wait(ends, PATIENCE)
        for i, process in enumerate(self._processes):
            if not process.is_alive():
                self._replace(i, process)

    def _replace(self, i, process):
        self._deaths += 1
        if self._deaths > DEATHS * len(self._processes):
            raise RuntimeError(
                f"the loader's workers die: {self._deaths} have ended without "
                f"a batch in between, the last one with {process.exitcode}")
        # First: it may fail, and the old one is to be replaced still.
        self._processes[i] = self._start()
        process.close()

    def close(self, grace=END):
        """Ends the workers; they finish what they are making, if that does not
        take longer than so many seconds."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._results is not None and not sys.is_finalizing():
                self._made.clear()
                self._drop_batches(grace)
        finally:  # also after another Ctrl-C
            for process in self._processes:
                process.kill()
                process.join()
                process.close()
            self._processes = []
            self._tasks = self._results = None

    def _drop_batches(self, grace):
        """A worker may wait for a slot. One that waits for a task needs no
        grace."""
        self._tasks.close()
        alive = {p.sentinel for p in self._processes}
        for _ in range(1 + int(grace / .1)):
            try:
                while True:
                    self._results.receive(timeout=0).release()
            except (TimeoutError, OSError):
                pass
            alive -= set(connection.wait(list(alive), .1)) if alive else set()
            if not alive:
                return


__all__ = ["Pool"]
