# SPDX-License-Identifier: MIT
"""What the tests of the Python module share: the vocabulary of TAP, the module
of this build, and its absence told by name."""
import glob
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from tap import equal, finish, ok, raises, skip_all, skipped

FOLDER = os.environ.get("top_builddir", ".") + "/python"


def load_sanitizers(library):
    """A module with AddressSanitizer in it wants that loaded first, which only
    the environment can see to."""
    with open(library, "rb") as f:
        found = re.search(rb"lib([at])san\.so\.\d+", f.read())
    if not found or "LD_PRELOAD" in os.environ:
        return
    if found[1] == b"t":
        skip_all("python is not built with ThreadSanitizer")
    # It looks once for what throws C++ exceptions, which PyTorch brings later.
    os.environ["LD_PRELOAD"] = found[0].decode() + " libstdc++.so.6"
    os.environ["PYTHONMALLOC"] = "malloc"
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # the interpreter has some
    os.execv(sys.executable, [sys.executable, *sys.argv])


def answers(path):
    """A socket is there before anybody listens to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        return s.connect_ex(path) == 0


def start_daemon(at, *options):
    """A daemon of the test's own, which this process finds from here on."""
    daemon = subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", at,
                               *options])
    while not answers(at):
        if daemon.poll() is not None:
            sys.exit(f"Bail out! the daemon ended with {daemon.returncode}")
        time.sleep(.01)
    os.environ["TARN_SOCKET"] = os.path.abspath(at)
    return daemon


def in_a_wait(thread):
    """Is it asleep on a futex that processes share, as the library's are, and
    the interpreter's not?"""
    with open(f"/proc/self/task/{thread.native_id}/syscall",
              encoding="ascii") as f:
        seen = f.read().split()
    futex = {"x86_64": "202", "aarch64": "98"}[platform.machine()]
    return seen[0] == futex and not int(seen[2], 16) & 128


def until_waits(thread):
    """Until that thread is in one of our waits."""
    if not os.access("/proc/self/syscall", os.R_OK):
        time.sleep(.5)  # not every kernel tells
        return
    while not in_a_wait(thread):
        time.sleep(.01)


def until_main_waits():
    until_waits(threading.main_thread())


def ctrl_c():
    """As soon as the main thread waits. What is returned is to be joined."""
    def press():
        until_main_waits()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press, daemon=True)
    presser.start()
    return presser


libraries = glob.glob(FOLDER + "/tarn/_tarn.*.so")
if not libraries:
    skip_all("the module tarn is not built (python3-dev)")
load_sanitizers(libraries[0])
sys.path.insert(0, FOLDER)
os.environ["PYTHONPATH"] = FOLDER
