#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""from_pretrained of transformers in several processes at once, as it is and
after tarn.install(): the time until all parameters were read once, what came
from the disk, and how much memory the processes hold together.

    from_pretrained.py FOLDER [PROCESSES [ROUNDS]]

A model of FOLDER/model is made if there is none, of about 1 GiB. Cold: its
pages are dropped from the page cache, and the daemon is a new one."""
import json
import os
import subprocess
import sys
import tempfile
import time

CHILD = """
import os, sys, time
import torch, transformers
torch.set_num_threads(1)
if sys.argv[2] == "tarn":
    import tarn
    tarn.install()
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
net = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])
loaded = time.monotonic()
total = sum(p.detach().sum(dtype=torch.float64).item()
            for p in net.parameters())
print(loaded - begin, time.monotonic() - begin, total, flush=True)
sys.stdin.readline()
with open("/proc/self/smaps_rollup") as f:
    pss = [int(line.split()[1]) << 10 for line in f if line[:4] == "Pss:"][0]
with open("/proc/self/io") as f:
    read = [int(line.split()[1]) for line in f
            if line.startswith("read_bytes")][0]
print(pss, read, flush=True)
sys.stdin.readline()
"""


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


def warm(folder):
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            while f.read(1 << 24):
                pass


def daemon_read():
    seen = subprocess.run(["tarn", "status", "--json"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(seen.stdout)["bytes_loaded"] if seen.stdout else 0


def run(folder, way, n):
    children = [subprocess.Popen([sys.executable, "-c", CHILD, folder, way],
                                 stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
                for _ in range(n)]

    def all_say():
        return [c.stdout.readline().split() for c in children]

    def go_on():
        for c in children:
            c.stdin.write("\n")
            c.stdin.flush()

    all_say()
    go_on()
    times = all_say()
    go_on()
    ends = all_say()
    read = sum(int(e[1]) for e in ends) + daemon_read()
    for c in children:
        c.communicate("\n")
    if len({t[2] for t in times}) != 1:
        sys.exit(f"the processes have other numbers: {times}")
    subprocess.run(["tarn", "stop"], check=False, stderr=subprocess.DEVNULL)
    return (max(float(t[0]) for t in times), max(float(t[1]) for t in times),
            sum(int(e[0]) for e in ends), read)


def main():
    folder = os.path.join(sys.argv[1], "model")
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    if not os.path.exists(folder):
        make(folder)
    size = sum(os.path.getsize(os.path.join(folder, f))
               for f in os.listdir(folder))
    print(f"{n} processes, {size / 2**30:.2f} GiB; medians of {rounds}")
    for state in ("cold", "warm"):
        seen = {"stock": [], "tarn": []}
        for _ in range(rounds):
            for way, results in seen.items():
                (drop if state == "cold" else warm)(folder)
                results.append(run(folder, way, n))
        for way, results in seen.items():
            loaded, used, pss, read = (sorted(r)[len(r) // 2]
                                       for r in zip(*results))
            print(f"{state} {way:5}  loaded {loaded:6.2f} s  used "
                  f"{used:6.2f} s  memory {pss / 2**30:5.2f} GiB  read "
                  f"{read / 2**30:5.2f} GiB", flush=True)


if __name__ == "__main__":
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tarn.bench") as run_dir:
        os.environ["XDG_RUNTIME_DIR"] = run_dir
        main()
    print(f"{time.monotonic() - begin:.0f} s in all")
