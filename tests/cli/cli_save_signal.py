#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn copy is told to end while its file is synced: it takes back what it
began, whether that had a name all the time or has just got one, and ends by
the signal. Told twice in a row, as by timeout(1), it does the same; told again
by who waits no longer it ends at once."""
import os
import signal
import subprocess
import tempfile
import time

from tap import equal, finish, ok

BUILD = os.path.abspath(os.environ.get("top_builddir", "."))
TARN = os.environ["TARN"]
MODULE = f"{BUILD}/tests/kit/.libs/libhold_sync.so"


def started(held, named, slow=False):
    env = dict(os.environ, TARN_TEST_HELD=held)
    if slow:
        env["TARN_TEST_SLOW"] = "1"
    env["LD_PRELOAD"] = " ".join([env.get("LD_PRELOAD", ""), MODULE])
    # The sanitizer wants to be the first, and with a module it is not.
    env["ASAN_OPTIONS"] = (env.get("ASAN_OPTIONS", "") +
                           ":verify_asan_link_order=0")
    if named:
        env["TARN_TEST_NAMED"] = "1"
    child = subprocess.Popen(
        [TARN, "copy", "a.npy", "out.npy"], env=env,
        preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL)
                            for s in (signal.SIGINT, signal.SIGHUP)])
    until_there(held, child)
    return child


def until_there(path, child):
    while not os.path.exists(path) and child.poll() is None:
        time.sleep(.01)


def seen():
    with open("out.npy", "rb") as f:
        return f.read()


def told_twice(apart, goes, what, turn=0):
    """The second comes while it still waits for the disk, which goes on then
    or not; its status, and how many files with a hidden name it leaves, which
    are removed."""
    held = f"../held-twice-{apart}-{turn}"
    child = started(held, True, True)
    child.send_signal(signal.SIGTERM)
    until_there(f"{held}.told", child)
    time.sleep(apart)
    equal(child.poll(), None, f"{what}: the save waits for the disk")
    child.send_signal(signal.SIGTERM)
    if goes:
        with open(f"{held}.go", "wb"):
            pass
    try:
        status = child.wait(120)
    except subprocess.TimeoutExpired:
        child.kill()
        status = child.wait()
    left = [name for name in os.listdir() if name[0] == "."]
    for name in left:
        os.remove(name)
    return status, len(left)


def run(place):
    os.mkdir(f"{place}/folder")
    os.chdir(f"{place}/folder")
    with open("a.npy", "wb") as f:
        head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (4096,)}"
        head += b" " * (-(len(head) + 11) % 64) + b"\n"
        f.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
        f.write(bytes(4096))
    with open("out.npy", "wb") as f:
        f.write(b"old")
    for named in (False, True):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            held = f"../held-{named}-{number}"
            child = started(held, named)
            hidden = [name for name in os.listdir() if name[0] == "."]
            child.send_signal(number)
            what = f"{signal.Signals(number).name}, " + (
                "a file with a name" if named else "one without")
            equal(len(hidden), 1,
                  f"{what}: the save has a hidden file by then")
            equal(child.wait(), -number, "the save is ended by the signal")
            equal(sorted(os.listdir()), ["a.npy", "out.npy"],
                  "the save leaves no file of its own")
            equal(seen(), b"old", "the old file is unchanged")
    # On a busy machine it may see the second so late that this is no row.
    for turn in range(10):
        status, left = told_twice(.05, True,
                                  "the save gets two signals in a row", turn)
        if not left:
            break
    equal(status, -signal.SIGTERM,
          "the save with two signals ends by the signal")
    equal(left, 0, "the save with two signals leaves no file")
    status, left = told_twice(1, False,
                              "the save gets a second signal later")
    equal(status, -signal.SIGTERM,
          "the save with a later second signal ends at once, by the signal")
    equal(left, 1, "the save with a later second signal leaves its file")
    child = subprocess.run([TARN, "copy", "a.npy", "out.npy"], check=False)
    equal(child.returncode, 0, "a save without a signal succeeds")
    ok(seen().endswith(bytes(4096)),
       "a save without a signal replaces the file")
    os.chdir("/")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as own:
        run(own)
    finish()
