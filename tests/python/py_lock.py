#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The locks of mutable tensors: readers beside each other, a writer alone, in
threads and processes; a lock ends with its process. And their words."""
import errno
import os
import signal
import sys
import threading
import time

import py_kit as kit

import tarn
from tarn import _tarn

daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock"))
store = tarn.Store()
made = store.create((4,), "I64", mutable=True)
store.publish("words", made)
t = store["words"]


def fails(number, what, call):
    try:
        call()
    except OSError as e:
        kit.equal(e.errno, number, what)
    else:
        kit.ok(False, what, "no exception")


def in_thread(call):
    seen = []

    def run():
        try:
            seen.append(call())
        except BaseException as e:
            seen.append(type(e))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return seen[0]


def child(call):
    """A process that has made its call, and then waits to be killed."""
    done, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            call()
            os.write(tell, b"x")
            time.sleep(600)
        finally:
            os._exit(1)
    os.close(tell)
    kit.equal(os.read(done, 1), b"x", "another process has the lock")
    os.close(done)
    return pid


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


t.lock()
kit.equal(in_thread(lambda: (t.lock(timeout=0), t.unlock())), (None, None),
          "two threads read")
kit.equal(in_thread(lambda: t.lock(True, 0)), TimeoutError,
          "a writer does not get it meanwhile")
t.unlock()
t.lock(write=True)
kit.equal(in_thread(lambda: t.lock(timeout=.01)), TimeoutError,
          "a reader does not get what a writer has")
fails(errno.EDEADLK, "a thread does not wait for itself", t.lock)
t.unlock()
fails(errno.EPERM, "what is not locked is not unlocked", t.unlock)
pid = child(lambda: store["words"].lock(True))
kit.raises(TimeoutError, "until the timeout", "it is not had before that ends",
           t.lock, False, .01)


def lock_pressed():
    """A signal that comes before the wait is as good."""
    presser = threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT))
    presser.start()
    try:
        t.lock()
    finally:
        presser.join()


kit.raises(KeyboardInterrupt, "", "Ctrl-C ends a wait", lock_pressed)
kill(pid)
t.lock(True, 120)
kit.ok(True, "the lock of a process that was killed is free")
t.unlock()


def read_on():
    """Reads most of the time, until it is killed."""
    mine = store["words"]

    def run():
        while True:
            with_it.set()
            mine.lock()
            time.sleep(.2)
            mine.unlock()
    with_it = threading.Event()
    threading.Thread(target=run).start()
    with_it.wait()


def count_on():
    while not counted:
        sum(range(1000))


# Another thread has the GIL most of the time: whenever it were needed between two
# waits, the readers would be faster.
counted = []
counter = threading.Thread(target=count_on)
pids = []
for _ in range(4):
    pids.append(child(read_on))
    time.sleep(.05)
counter.start()
try:
    kit.equal(t.lock(True, 120), None, "a writer waits for the readers that are "
              "there, and not for those that come later")
    t.unlock()
except TimeoutError as e:
    kit.ok(False, "a writer waits for no readers that come later", str(e))
counted.append(True)
counter.join()
for pid in pids:
    kill(pid)
kit.raises(ValueError, "no number", "a timeout is a number", t.lock, False,
           float("nan"))
store.publish("sealed", tarn.zeros((4,), "I64"))
kit.raises(ValueError, "never changes", "what never changes has no lock",
           store["sealed"].lock)
kit.raises(ValueError, "published", "nor has what is not published",
           tarn.zeros((4,), "I64").lock)

_tarn._write_word(t, 2, -7)
kit.equal(_tarn._read_words(made), (0, 0, -7, 0), "a word is written")
for call, args in ((_tarn._read_words, (tarn.zeros((2,), "F32"),)),
                   (_tarn._read_words, (7,)),
                   (_tarn._read_words, (tarn.zeros((4,), "I64")[::2],)),
                   (_tarn._write_word, (t, 1))):
    kit.raises(TypeError, "", f"{call.__name__}{args} is refused", call, *args)
for args in (t, 4, 0), (t, -1, 0), (store["sealed"], 0, 0):
    kit.raises(ValueError, "no such word", f"{args[1:]} is no word",
               _tarn._write_word, *args)
daemon.terminate()
daemon.wait()
sys.exit(kit.finish())
