# SPDX-License-Identifier: MIT
"""Parts of a file that are read in the background before they are asked for."""
import os
import threading

PIECE = 4 << 20  # elements that are read at once of what stays mapped; picked


def touch(t):
    """Reads the bytes of a mapped tensor, so that they are in memory and no
    access waits for them."""
    flat = t.reshape(-1)
    for i in range(0, flat.size, PIECE):
        flat[i:i + PIECE].clone()
    return t


class _Result:
    """What a job returns or raises. (concurrent.futures has one, whose import
    takes a third of tarn's.)"""

    def __init__(self, job):
        self._job, self._value, self._error = job, None, None
        self._done = threading.Event()

    def run(self):
        job, self._job = self._job, None
        try:
            self._value = job()
        except BaseException as e:  # get() raises it
            self._error = e
        self._done.set()

    def refuse(self, error):
        self._job, self._error = None, error
        self._done.set()

    def get(self):
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Prefetch:
    """Does jobs, a list of names and functions, one after the other in a thread
    of its own; take() gives one, which waits for itself. In the child of a fork,
    which has no such thread, there are none."""

    def __init__(self, jobs):
        self._process = os.getpid()
        self._found = {name: _Result(job) for name, job in jobs}
        self._stop = False
        # Nothing there keeps what the caller has taken.
        work = list(reversed(self._found.values()))
        self._thread = threading.Thread(target=self._work, args=(work,),
                                        name="tarn.prefetch", daemon=True)
        self._thread.start()

    def _work(self, results):
        while results:
            if self._stop:
                results.pop().refuse(ValueError(
                    "safe_open: the file was closed before it was read"))
            else:
                results.pop().run()

    def take(self, name):
        """The job of that name, which is then the caller's alone; None: there is
        none, or another thread has it. get() waits for what it returns or
        raises."""
        if os.getpid() != self._process:
            return None
        return self._found.pop(name, None)

    def close(self):
        """Ends after the job that is under way."""
        self._stop = True
        self._thread.join()
        self._found.clear()
