#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn top: one frame where the output is no terminal, JSON lines, and on a
terminal a picture that follows its size, ends with q or Ctrl-C, and leaves the
terminal as it was."""
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import time

from tap import equal, finish, ok

TARN = os.environ["TARN"]
PATIENCE = 60


def answers(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        return s.connect_ex(path) == 0


def tarn(*args):
    return subprocess.run([TARN, *args], capture_output=True, text=True,
                          check=False)


class Terminal:
    """tarn top on a terminal of some size; text is all that it has written."""

    def __init__(self, lines, columns, *args):
        self.master, self.slave = pty.openpty()
        self.resize(lines, columns)
        self.before = termios.tcgetattr(self.slave)
        self.text, self.at = "", 0
        self.child = subprocess.Popen(
            [TARN, "top", "--interval", "3600", *args], stdin=self.slave,
            stdout=self.slave, stderr=self.slave, preexec_fn=self.own,
            env=dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8"))

    def own(self):
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def resize(self, lines, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, part):
        """What was written since the part before, up to this one and behind
        it; all, if it ended."""
        begin, end = self.at, time.monotonic() + PATIENCE
        while part not in self.text[begin:] and time.monotonic() < end:
            if select.select([self.master], [], [], .05)[0]:
                self.text += os.read(self.master, 65536).decode(
                    errors="replace")
            elif self.child.poll() is not None:
                break
        found = self.text.find(part, begin)
        self.at = len(self.text) if found < 0 else found + len(part)
        return self.text[begin:]

    def end(self):
        """Its exit status; and is the terminal as it was?"""
        text = self.read_until("\033[?1049l")
        status = self.child.wait()
        while select.select([self.master], [], [], 0)[0]:
            text += os.read(self.master, 65536).decode(errors="replace")
        same = termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        self.text += text
        return status, "\033[?25h\033[?1049l" in text, same


def test_plain():
    seen = tarn("top")
    equal((seen.returncode, seen.stderr), (0, ""),
          "top prints one frame to a pipe and ends")
    lines = seen.stdout.splitlines()
    ok(lines[0].startswith("tarnd ") and os.environ["TARN_SOCKET"] in lines[0],
       "the first line names the daemon", lines[0])
    ok("\033" not in seen.stdout, "output to a pipe has no escapes")
    ok(any(line.startswith("memory ") for line in lines),
       "top prints the memory", lines)
    ok(any(line.startswith("POOL ") for line in lines),
       "top prints the pools", lines)
    ok(any(" tarn " in line for line in lines),
       "top lists itself among the clients", lines)
    seen = tarn("top", "--count", "2", "--interval", "0.1")
    equal(seen.stdout.count("tarnd "), 2, "--count 2 prints two frames")
    equal(tarn("top", "--count", "0").returncode, 2,
          "top refuses a count of 0")
    equal(tarn("top", "a").returncode, 2, "top takes no argument")


def test_json():
    seen = tarn("top", "--json", "--count", "2", "--interval", "0.1")
    frames = [json.loads(line) for line in seen.stdout.splitlines()]
    equal(len(frames), 2, "--json prints one object a frame, on a line")
    equal([f["read_bytes_per_second"] is None for f in frames], [True, False],
          "a rate is known from the second frame on")
    equal(frames[1]["channels"], [], "top --json has a list of channels")
    equal(len(tarn("top", "--json").stdout.splitlines()), 1,
          "top --json prints one frame by default")


def test_terminal():
    top = Terminal(24, 80)
    text = top.read_until("\033[J\033[H") + top.read_until("CLIENT")
    ok("\033[?1049h" in text, "top draws on the alternate screen")
    ok("memory" in top.text, "top shows the daemon's memory", top.text)
    top.resize(40, 120)
    text = top.read_until("memory")
    ok("memory" in text,
       "top draws anew when the terminal changes its size", text)
    top.resize(4, 20)
    top.read_until("memory")
    os.write(top.master, b"q")
    equal(top.end(), (0, True, True),
          "q ends top, and the terminal is restored")


def test_ctrl_c():
    top = Terminal(24, 80)
    top.read_until("CLIENT")
    os.write(top.master, b"\x03")
    equal(top.end(), (0, True, True),
          "Ctrl-C ends top, and the terminal is restored")


def test_daemon_ends(daemon):
    top = Terminal(24, 80, "--interval", "0.1")
    top.read_until("CLIENT")
    daemon.send_signal(signal.SIGTERM)
    daemon.wait()
    status, left, same = top.end()
    equal((status, left, same), (1, True, True),
          "top fails when the daemon ends, and restores the terminal")
    ok("tarn: " in top.text.split("\033[?1049l")[-1],
       "top says why it failed behind the restored screen", top.text[-300:])


os.chdir(os.environ["TMPDIR"])
os.environ["TARN_SOCKET"] = os.path.abspath("sock")
os.environ["TARN_AUTOSTART"] = "0"
equal(tarn("top").returncode, 1, "top fails where no daemon runs")
process = subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", "sock"],
                           stderr=subprocess.DEVNULL)
while not answers("sock"):
    time.sleep(.01)
test_plain()
test_json()
test_terminal()
test_ctrl_c()
test_daemon_ends(process)
finish()
