#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn check tells the faults that a daemon finds, one a line, and exits with
1. A sound daemon finds none, so somebody stands between it and the command,
passes on all that they say to each other, descriptors too, and puts faults
into the answer to a check."""
import os
import select
import socket
import struct
import subprocess
import sys
import threading

from tap import finish, ok

TARN = os.environ["TARN"]
FOLDER = os.environ["XDG_RUNTIME_DIR"] + "/own"
REAL, BETWEEN = FOLDER + "/tarnd.sock", FOLDER + "/between.sock"
os.environ["TARN_AUTOSTART"] = "1"
os.environ["TARN_SOCKET"] = REAL
CHECKED = 115  # WIRE_CHECKED


def tarn(*args):
    return subprocess.run([TARN, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, text=True)


def with_faults(frame, faults, more):
    """The same answer: msg_checked is three u64, n_faults, n_more."""
    magic, kind, flags, serial, _ = struct.unpack_from("<HHIII", frame)
    if kind != CHECKED:
        return frame
    body = bytearray(frame[16:48])
    struct.pack_into("<II", body, 24, len(faults), more)
    body += "".join(f + "\n" for f in faults).encode()
    return struct.pack("<HHIII", magic, kind, flags, serial, len(body)) + body


def relay(client, faults, more):
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(REAL)
    other = {client: server, server: client}
    while True:
        for end in select.select([client, server], [], [])[0]:
            frame, fds, _, _ = socket.recv_fds(end, 65536, 64)
            if not frame:
                client.close()
                server.close()
                return
            if end is server:
                frame = with_faults(frame, faults, more)
            socket.send_fds(other[end], [frame], fds)
            for fd in fds:
                os.close(fd)


def check(faults, more):
    """What the command says to a daemon that finds them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(BETWEEN)
        listener.listen(1)
        between = threading.Thread(
            target=lambda: relay(listener.accept()[0], faults, more))
        between.start()
        result = tarn("check", "--socket", BETWEEN)
        between.join(60)
    os.unlink(BETWEEN)
    return result


def main():
    path = os.environ["TMPDIR"] + "/x.st"
    header = b'{"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + bytes(8))
    r = tarn("load", path)
    ok(r.returncode == 0, "a daemon starts", r)
    os.unlink(path)
    r = check([], 0)
    ok(r.returncode == 0 and "no fault found" in r.stdout,
       "the proxy passes on a check without faults", r)
    faults = ["pool 0: storage 3: live, and nothing holds its 4096 bytes",
              "pool 1: a second one"]
    r = check(faults, 0)
    ok(r.returncode == 1, "tarn check with faults exits with status 1", r)
    ok(r.stdout.splitlines() == ["fault: " + f for f in faults],
       "each fault is printed on a line of its own", r)
    ok("no fault" not in r.stdout + r.stderr,
       "check that finds faults does not print that there is none", r)
    r = check(faults, 70)
    ok(r.stdout.splitlines()[-1:] == ["fault: and 70 more"],
       "the number of faults that were left out is printed", r)
    r = check(["\x1b[2Jred"], 0)
    ok(r.returncode == 1 and "\x1b" not in r.stdout,
       "control characters in faults do not reach the terminal", r)
    ok(tarn("stop").returncode == 0, "the daemon ends without error")
    return finish()


sys.exit(main())
