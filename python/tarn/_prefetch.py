# SPDX-License-Identifier: MIT
"""Parts of a file that are read in the background before they are asked for."""
import threading
from concurrent.futures import Future

PIECE = 32 << 20  # bytes that are read at once of what stays mapped; picked


def touch(t):
    """Reads the bytes of a mapped tensor, so that they are in memory and no
    access waits for them."""
    flat = t.reshape(-1)
    step = PIECE // 64 * 64  # elements: whole bytes of any dtype
    for i in range(0, flat.size, step):
        flat[i:i + step].clone()
    return t


class Prefetch:
    """Does jobs, a list of names and functions, one after the other in a thread
    of its own; take() waits for one."""

    def __init__(self, jobs):
        self._found = {name: Future() for name, _ in jobs}
        self._stop = False
        work = [(self._found[name], job) for name, job in jobs]
        self._thread = threading.Thread(target=self._work, args=(work,),
                                        name="tarn.prefetch", daemon=True)
        self._thread.start()

    def _work(self, jobs):
        jobs.reverse()
        while jobs:
            # Nothing here keeps what the caller has taken.
            future, job = jobs.pop()
            if self._stop:
                future.set_exception(ValueError("safe_open: the file is "
                                                "closed"))
                continue
            try:
                future.set_result(job())
            except BaseException as e:  # take() raises it
                future.set_exception(e)
            del future, job

    def __contains__(self, name):
        return name in self._found

    def take(self, name):
        """What the job returned, which is then the caller's alone, or raised.
        Waits for it."""
        return self._found.pop(name).result()

    def close(self):
        """Ends after the job that is under way."""
        self._stop = True
        self._thread.join()
        self._found.clear()
