#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A deflated archive is inflated by one process of a user for all of them: by the
first of several at once, by the next if that is killed, and anew when the file
has changed. What they share is told by the memory that they map."""
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import zipfile

import py_kit as kit

import tarn

SIZE = 48 << 20  # inflating it takes long enough to be seen
tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "a.npz")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)
store = tarn.Store()

# Says what it has, and in which memory, and keeps that until it is told to end.
READER = """
import sys, tarn
m = eval(sys.argv[2])(sys.argv[1])
x = m["x"]
at = x.data_ptr()
for line in open("/proc/self/maps"):
    begin, end = (int(n, 16) for n in line.split()[0].split("-"))
    if begin <= at < end:
        print(x[0], x[-1], line.split()[4], flush=True)
sys.stdin.read()
"""


def write(value, size=SIZE, to=path):
    """An .npz of one array whose elements are all of that value."""
    head = ("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % size)
    head = head.ljust(117) + "\n"
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        z.writestr("x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) +
                   head.encode() + bytes([value]) * size)


class Reader:
    def __init__(self, how="tarn.load", at=path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", READER, at, how], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def seen(self):
        """The value of all elements, and the inode of their memory."""
        first, last, inode = self.process.stdout.readline().split()
        kit.equal(first, last, "first and last element have one value")
        return int(first), inode

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


def names(kind):
    return {n for n in store.names("inflated/") if n.endswith(f"/{kind}")}


def stopped_reader(value):
    """One that stands still while it inflates, and has the turn."""
    for _ in range(20):
        write(value)
        before = names("turn")
        reader = Reader()
        while names("turn") == before:
            time.sleep(.001)
        os.kill(reader.process.pid, signal.SIGSTOP)
        turn = (names("turn") - before).pop()
        made = turn.replace("/turn", "/bytes") in store
        # Between making the name and locking it, it has no turn yet.
        if not made and not is_free(turn):
            return reader
        reader.kill()
    sys.exit("Bail out! no reader was seen to inflate")


def is_free(turn):
    t = store[turn]
    try:
        t.lock(write=True, timeout=0)
    except TimeoutError:
        return False
    t.unlock()
    return True


# On a machine that is so slow that one that inflates seems to stand still, the
# others do not wait for it: then once more.
TRIES = 5


def at_once():
    for _ in range(TRIES):
        write(1)
        readers = [Reader() for _ in range(6)]
        seen = [r.seen() for r in readers]
        if len({inode for _, inode in seen}) == 1:
            break
        for reader in readers:
            reader.end()
    kit.equal([value for value, _ in seen], [1] * 6, "all six have the array")
    kit.equal(len({inode for _, inode in seen}), 1,
              "six at once have it in the same memory")
    late = Reader()
    kit.equal(late.seen(), seen[0], "and so has one that comes later")
    for other in ("tarn.open", "lambda p: tarn.load(p, fresh=True)"):
        alone = Reader(other)
        value, inode = alone.seen()
        kit.ok(value == 1 and inode != seen[0][1],
               f"{other} has memory of its own")
        alone.end()
    for name in names("bytes"):
        store.remove(name)
    last = Reader()
    kit.equal(last.seen(), seen[0],
              "when its time to live is over, it is found while it is used")
    kit.equal(len(names("bytes")), 1, "and has a name for a while again")
    found = []
    threads = [threading.Thread(target=lambda: found.append(
        tarn.load(path)["x"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kit.equal((len(found), len({x.data_ptr() for x in found})), (4, 1),
              "threads of one process have it once")
    del found[:]
    for reader in (*readers, late, last):
        reader.end()
    after = Reader()
    kit.equal(after.seen(), seen[0], "and without any user it lives that long")
    after.end()
    for name in names("bytes"):
        store.remove(name)
    new = Reader()
    kit.equal(new.seen()[0], 1, "what is gone is inflated again")
    new.end()


def faces():
    write(2)
    before = names("bytes")
    subprocess.run([os.environ["TARN"], "load", path], check=True,
                   stdout=subprocess.DEVNULL)
    made = names("bytes") - before
    kit.equal(len(made), 1, "'tarn load' inflates it for all")
    at = store[made.pop()].data_ptr()
    kit.ok(at <= tarn.load(path)["x"].data_ptr() < at + 4096,
           "and tarn.load finds that")
    reader = Reader()
    reader.seen()
    t = store[f"{path}:x"]
    kit.equal((t[0], t[-1]), (2, 2), "an address finds it too")
    store.load(path, "named")
    kit.equal(store["named/x"][-1], 2, "it can be published")
    again = tarn.load(path, views={"x": "[1:3]"})
    kit.equal(again["x"].tolist(), [2, 2], "and loaded in parts")
    try:
        from tarn.torch import nodes
    except ImportError:
        kit.skipped("ranks that load it together", "torch is not installed")
    else:
        write(2)
        before = names("bytes")
        kit.equal(nodes._Source(path, store).file["x"][9], 2,
                  "ranks that load it together have it")
        kit.equal(len(names("bytes") - before), 1, "and share it")
    file = tarn.File(path, store=store)
    kit.equal(file["x"][7], 2, "a File may be given the store")
    kit.raises(TypeError, "no Store", "and nothing else", tarn.File, path,
               store=7)
    calls = []
    store.load(file, progress=lambda *args: calls.append(args))
    kit.ok(calls and calls[-1][0] == calls[-1][1], "progress is told of it",
           calls)
    reader.end()
    write(3, 1000)
    small = tarn.load(path)
    kit.equal(small["x"].tolist(), [3] * 1000, "a small one is loaded as ever")


def killed_once():
    """Did the others wait for one that inflates? And what they have after
    its end."""
    first = stopped_reader(4)
    before = names("bytes")
    others = [Reader() for _ in range(3)]
    time.sleep(.3)
    said = select.select([o.process.stdout for o in others], [], [], 0)[0]
    waited = not said and not names("bytes") - before
    first.kill()
    seen = [o.seen() for o in others]
    for other in others:
        other.end()
    return waited, seen


def killed():
    for _ in range(TRIES):
        waited, seen = killed_once()
        if waited and len(set(seen)) == 1:
            break
    kit.ok(waited, "the others wait for one that inflates", names("bytes"))
    kit.equal(len(set(seen)), 1, "when it is killed, one of them does, for all")
    first = stopped_reader(4)
    before = names("bytes")
    other = Reader()
    kit.equal(other.seen()[0], 4, "one that stands still is not waited for "
              "for ever")
    kit.equal(names("bytes") - before, set(), "and then each inflates it alone")
    first.kill()
    other.end()


def changed():
    write(5)
    old = Reader()
    kit.equal(old.seen()[0], 5, "a version is inflated")
    write(6)
    new = Reader()
    kit.equal(new.seen()[0], 6, "another one is not taken for it")
    first = stopped_reader(7)
    write(8)
    other = Reader()
    kit.equal(other.seen()[0], 8, "a file that changes while it is inflated")
    os.kill(first.process.pid, signal.SIGCONT)
    kit.equal(first.seen()[0], 8, "is inflated anew by the one that had begun")
    for reader in (old, new, first, other):
        reader.end()


write(0)
tarn.load(path)
if not names("bytes") and subprocess.run(
        ["stat", "-f", "-c", "%T", path], capture_output=True, check=True,
        text=True).stdout.strip() in ("tmpfs", "overlayfs"):
    daemon.terminate()
    daemon.wait()
    os.remove(path)
    kit.skip_all("the stamps of this file system do not last")
for part in (at_once, faces, killed, changed):
    part()
os.remove(path)
daemon.terminate()
daemon.wait()
kit.finish()
