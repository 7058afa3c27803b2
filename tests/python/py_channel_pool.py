#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tensor of the store that came through a channel may have to be asked for.
While the daemon takes its time other threads go on; here one of them is the
only one that can end the wait."""
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import py_kit as kit

import tarn

LARGE = 4 << 20  # it has a memfd of its own, which must be sent
LONG = 40  # seconds after which the daemon goes on by itself, too late


RESCUE = """
import contextlib, os, signal, sys, time
time.sleep(float(sys.argv[1]))
for pid in sys.argv[2:]:
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGCONT)
"""


def family(pid):
    """A process and its children."""
    found = [pid]
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(name))
    return found


def send(pids, number):
    """One of them may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def sent(socket, name):
    """A tensor of the store, the sender's channel for it, and the channel of
    a receiver that has not asked the store for that tensor yet."""
    theirs, ours = tarn.Store(socket), tarn.Store(socket)
    theirs.publish(name, tarn.zeros(LARGE, dtype="U8"))
    out = theirs.channel(name + "/channel", slots=2, slot_bytes=4096)
    come = ours.channel(name + "/channel", create=False)
    return theirs[name], out, come


def check(daemon, what, name, socket, put, take):
    tensor, out, come = sent(socket, name)
    put(out, tensor)
    item = come.receive(timeout=60)
    begun, seen = threading.Event(), []

    def wait():
        begun.set()
        seen.append(take(item).nbytes)

    pids = family(daemon.pid)
    send(pids, signal.SIGSTOP)
    late = threading.Thread(target=wait)
    rescue = subprocess.Popen([sys.executable, "-c", RESCUE, str(LONG),
                               *map(str, pids)])
    since = time.monotonic()
    late.start()
    begun.wait()
    time.sleep(.3)
    waiting = not seen
    send(pids, signal.SIGCONT)
    took = time.monotonic() - since
    late.join()
    rescue.terminate()
    rescue.wait()
    kit.equal((waiting, took < LONG - 1, seen), (True, True, [LARGE]),
              f"{what} leaves the GIL to others")


def add(channel, tensor):
    with channel.acquire(timeout=60) as slot:
        slot.add(tensor)


def main():
    signal.alarm(600)
    socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
    daemon = kit.start_daemon(socket)
    check(daemon, "item[0]", "a", socket, add, lambda item: item[0])
    check(daemon, "item.get()", "b", socket,
          lambda channel, tensor: channel.put({"x": tensor}),
          lambda item: item.get()["x"])
    daemon.terminate()
    daemon.wait()
    kit.finish()


if __name__ == "__main__":
    main()
