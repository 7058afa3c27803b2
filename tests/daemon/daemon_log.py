#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A whole session's log, parsed strictly: each line is one event with fields,
also when files have names that look like events."""
import os
import re
import subprocess
import sys
import time

from tap import finish, ok

TARN = os.environ["TARN"]
TMP = os.environ["TMPDIR"]
SOCKET = os.environ["XDG_RUNTIME_DIR"] + "/log.sock"
TEXT = r'"(?:[^"\\\x00-\x1f\x7f]|\\["\\n]|\\x[0-9a-f]{2})*"'
LINE = re.compile(r"tarnd\[[1-9][0-9]*\]: ([a-z_]+) role=(keeper|server|loader)"
                  rf"((?: [a-z_]+=(?:-?[0-9]+|{TEXT}))*)")
FIELD = re.compile(rf" ([a-z_]+)=(-?[0-9]+|{TEXT})")


def tarn(*args):
    return subprocess.run([TARN, *args, "--socket", SOCKET], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def checkpoint(path, size):
    header = b'{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (
        size, size)
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header + bytes(size))


def session(log):
    nasty = TMP + '/a"\\\n end role=keeper \x1b[2J.st'
    checkpoint(nasty, 100)
    checkpoint(TMP + "/huge.st", 1)
    os.truncate(TMP + "/huge.st", 64 << 20)
    with open(TMP + "/huge.st", "r+b") as f:
        size = (64 << 20) - 80
        header = b'{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (
            size, size)
        f.write((72).to_bytes(8, "little") + header.ljust(72))
    daemon = subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", SOCKET,
                               "--budget", "32M"], stderr=log)
    for _ in range(1200):
        if tarn("status").returncode == 0:
            break
        time.sleep(0.05)
    loads = [tarn("load", nasty).returncode, tarn("load", nasty).returncode,
             tarn("load", TMP + "/huge.st").returncode]
    tarn("stop")
    status = daemon.wait(60)
    os.unlink(nasty)
    os.unlink(TMP + "/huge.st")
    return loads, status


with open(TMP + "/log", "w+b") as log_file:
    seen_loads, seen_status = session(log_file)
    log_file.seek(0)
    text = log_file.read()
os.unlink(TMP + "/log")
ok((seen_loads, seen_status) == ([0, 0, 1], 0),
   "two loads succeed and one that is too large fails",
   seen_loads, seen_status)
lines = text.decode().split("\n")
ok(lines.pop() == "", "the log ends with a newline")
parsed = [(line, LINE.fullmatch(line)) for line in lines]
ok(lines and all(m for _, m in parsed),
   "every line of the log is an event with fields",
   *[line for line, m in parsed if not m])
events = [(m[1], m[2], FIELD.findall(m[3])) for _, m in parsed if m]
names = [e[0] for e in events]
for wanted in ("start", "loader_start", "segment_add", "load_done",
               "load_failed", "stop"):
    ok(wanted in names, f"the log has an event {wanted}", names)
ok("end" not in names, "a file's name with newlines adds no event", names)
done = [dict(f) for name, _, f in events if name == "load_done"]
ok([d.get("cached") for d in done][:1] == ["0"] and
   all(d.get("bytes") == "100" for d in done),
   "load_done has the cached flag and the bytes", done)
sys.exit(finish())
