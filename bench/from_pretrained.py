#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""from_pretrained of transformers in several processes at once, as it is and
after tarn.install().

    from_pretrained.py FOLDER [PROCESSES [ROUNDS]]

A model of FOLDER/model is made if there is none, of about 1 GiB. Three ways:

    stock   as it is: safetensors maps the file, and the processes share the
            pages of the page cache
    copies  disable_mmap=True, as transformers itself does for some file systems:
            each process reads the file into memory of its own
    tarn    stock, after tarn.install()

in three states: cold, where the file is in no memory; cached, where it is in the
page cache; again, where such processes have loaded it a moment ago. The daemon is
a new one for cold and cached: its memory has to be taken from the system, too.

Printed are, of the slowest process: call, the call of from_pretrained alone; used,
until all parameters were read once. memory is what the processes hold together for
the model, shared pages counted once; read is what came from the file: from the disk,
or by the daemon. What a process imports before takes longer than all of this, and is
the same for all: so the processes are forks of one that has imported it.

A guest gets its memory from the host at the first touch, which takes longer, too:
so as much as a run takes is touched before it."""
import inspect
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time

import tarn

IMPORT = "import torch; from transformers import GPT2LMHeadModel"


def pss():
    with open("/proc/self/smaps_rollup", encoding="ascii") as f:
        return [int(line.split()[1]) << 10 for line in f
                if line[:4] == "Pss:"][0]


def read_bytes():
    with open("/proc/self/io", encoding="ascii") as f:
        return [int(line.split()[1]) for line in f
                if line.startswith("read_bytes")][0]


def child(folder, way, say, hear):
    """A process that loads: forked, as all have the same imports."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    options = {"disable_mmap": True} if way == "copies" else {}
    if way == "tarn":
        tarn.install()
    before = pss()
    say("ready")
    hear()
    begin = time.monotonic()
    net = AutoModelForCausalLM.from_pretrained(folder, **options)
    loaded = time.monotonic() - begin
    # Without a dtype: a sum in float64 would copy each tensor first.
    total = sum(p.detach().sum().item() for p in net.parameters())
    say(loaded, time.monotonic() - begin, total)
    hear()
    say(pss() - before, read_bytes())
    hear()


class Process:
    def __init__(self, folder, way):
        down, up = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(down[1])
                hear, say = os.fdopen(down[0]), os.fdopen(up[1], "w")
                child(folder, way,
                      lambda *words: print(*words, file=say, flush=True),
                      hear.readline)
                status = 0
            finally:
                os._exit(status)
        os.close(down[0])
        os.close(up[1])
        self._down, self._up = os.fdopen(down[1], "w"), os.fdopen(up[0])

    def said(self):
        return self._up.readline().split()

    def go_on(self):
        print(file=self._down, flush=True)

    def end(self):
        self.go_on()
        self._down.close()
        self._up.close()
        if os.waitpid(self.pid, 0)[1]:
            sys.exit("a process that loads has failed")


def make(folder):
    import transformers

    config = transformers.GPT2Config(n_embd=1280, n_layer=12, n_head=20)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def drop(folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def cache(folder):
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            while f.read(1 << 24):
                pass


def touch(size):
    """Memory that goes back to the system, not to the host."""
    child = os.fork()
    if child == 0:
        m = mmap.mmap(-1, size)
        for at in range(0, size, mmap.PAGESIZE):
            m[at] = 1
        os._exit(0)
    os.waitpid(child, 0)


def daemon_read():
    seen = subprocess.run(["tarn", "status", "--json"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(seen.stdout)["bytes_loaded"] if seen.stdout else 0


def stop():
    subprocess.run(["tarn", "stop"], check=False, stderr=subprocess.DEVNULL)


def run(folder, way, n):
    before = daemon_read()
    processes = [Process(folder, way) for _ in range(n)]

    def all_say():
        said = [p.said() for p in processes]
        for p in processes:
            p.go_on()
        return said

    all_say()
    times = all_say()
    ends = [p.said() for p in processes]
    read = sum(int(e[1]) for e in ends) + daemon_read() - before
    for p in processes:
        p.end()
    if len({t[2] for t in times}) != 1:
        sys.exit(f"the processes have other numbers: {times}")
    return (max(float(t[0]) for t in times), max(float(t[1]) for t in times),
            sum(int(e[0]) for e in ends), read)


def ways():
    # All that the calls import, or they would be measured with it.
    from transformers import AutoModelForCausalLM, GPT2LMHeadModel

    AutoModelForCausalLM.from_config(GPT2LMHeadModel.config_class(n_layer=1))
    known = inspect.getsource(GPT2LMHeadModel.from_pretrained)
    return [way for way in ("stock", "copies", "tarn")
            if way != "copies" or "disable_mmap" in known]


def one(folder, state, way, n, size):
    """One run from a state."""
    stop()
    (drop if state == "cold" else cache)(folder)
    touch(size * (n + 1 if way == "copies" else 2))
    if state == "again":
        run(folder, way, 1)
    return run(folder, way, n)


def main():
    folder = os.path.join(sys.argv[1], "model")
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    if not os.path.exists(folder):
        subprocess.run([sys.executable, __file__, "make", folder], check=True)
    size = sum(os.path.getsize(os.path.join(folder, f))
               for f in os.listdir(folder))
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
    print(f"{n} processes, {size / 2**30:.2f} GiB; medians of {rounds}; a "
          f"process imports for {time.monotonic() - begin:.1f} s before\n"
          f"{'':13} {'call':>7} {'used':>7} {'memory':>10} {'read':>10}")
    for state in ("cold", "cached", "again"):
        seen = {way: [] for way in ways()}
        for _ in range(rounds):
            for way, results in seen.items():
                results.append(one(folder, state, way, n, size))
        for way, results in seen.items():
            call, used, memory, read = (
                sorted(r)[len(r) // 2] for r in zip(*results))
            print(f"{state:6} {way:6} {call:5.2f} s {used:5.2f} s "
                  f"{memory / 2**30:6.2f} GiB {read / 2**30:6.2f} GiB",
                  flush=True)
    stop()


if __name__ == "__main__" and sys.argv[1] == "make":
    make(sys.argv[2])
elif __name__ == "__main__":
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tarn.bench") as run_dir:
        os.environ["XDG_RUNTIME_DIR"] = run_dir
        main()
    print(f"{time.monotonic() - begin:.0f} s in all")
