#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn data of several sources: mixtures by weights, rows of tensors, tensors that
are published, and tables that are kept beside files, all against numpy."""
import glob
import json
import os
import struct
import subprocess
import tempfile
import time

from tap import finish, ok, skip_all

try:
    import numpy as np
except ImportError:
    skip_all("numpy is not installed")

TARN = os.environ["TARN"]
rng = np.random.default_rng(19)


def tarn(*args):
    return subprocess.run([TARN, *map(str, args)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)


def lines(*args):
    seen = tarn("data", "cat", "--json", *args)
    if seen.returncode:
        return seen.stderr
    return [json.loads(line) for line in seen.stdout.splitlines()]


def write_megatron(prefix, n, most):
    lengths = rng.integers(1, most, n, dtype=np.int32)
    tokens = rng.integers(0, 60000, lengths.sum(), dtype=np.uint16)
    pointers = np.zeros(n, np.int64)
    pointers[1:] = np.cumsum(lengths[:-1], dtype=np.int64) * 2
    tokens.tofile(prefix + ".bin")
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, n, n + 1))
        f.write(lengths.tobytes() + pointers.tobytes())
        f.write(np.arange(n + 1, dtype=np.int64).tobytes())
    return tokens


def mixtures(folder):
    a, b = f"{folder}/a", f"{folder}/b@2"
    tokens = [write_megatron(a, 200, 80), write_megatron(b, 300, 50)]
    seen = lines("--seq-len", 20, "--shuffle", "none", "--count", 60,
                 a + "@2", b + "@0.5")
    at, good = [0, 0], True
    for line in seen:
        i = line["source"]
        good &= line["tokens"] == tokens[i][20 * at[i]:20 * at[i] + 21].tolist()
        at[i] += 1
    ok(good and at == [48, 12], "sources are mixed by their weights", [48, 12],
       at)
    seen = lines("--seq-len", 20, "--shuffle", "none", "--count", 10, a + "@3",
                 b + ".bin")
    ok([line["source"] for line in seen].count(0) in (7, 8),
       "a source without a weight has 1", "", seen)
    info = json.loads(tarn("data", "info", "--json", a + "@1", b).stdout)
    ok([s["tokens"] for s in info["sources"]] == [len(t) for t in tokens],
       "data info has each source", "", info)
    seen = tarn("data", "info", a + "@1", b).stdout
    ok("source 0: 1 file, megatron" in seen and "source 1: " in seen,
       "and shows each", "", seen)
    seen = lines("--seq-len", 20, a + "@-1")
    ok(isinstance(seen, str) and "a@-1" in seen, "-1 is no weight", "", seen)


def rows(folder):
    path = folder + "/rows.npy"
    array = rng.random((50, 3, 2)).astype(np.float32)
    np.save(path, array)
    seen = lines("--shuffle", "none", path)
    ok([line["row"] for line in seen] == list(range(50)),
       "rows of an array are samples")
    ok(sorted(line["row"] for line in lines("--seed", 2, path)) ==
       list(range(50)), "rows are shuffled")
    info = json.loads(tarn("data", "info", "--json", path).stdout)
    ok(info == {"format": "rows", "rows": 50, "dtype": "F32"},
       "data info counts rows", "", info)
    figures = json.loads(tarn("data", "bench", "--seconds", .1, "--json",
                              path).stdout)
    ok(figures["bytes"] == 24 * figures["samples"], "data bench reads rows",
       "", figures)
    seen = lines("--shuffle", "none", path, path)
    ok([line["source"] for line in seen] == 50 * [0] + 50 * [1],
       "tensors are one source each")
    seen = tarn("data", "cat", "--seq-len", 5, path)
    ok(seen.returncode == 2, "rows have no length", 2, seen.returncode)


def published(folder):
    os.chdir(os.environ["TMPDIR"])
    os.environ["TARN_SOCKET"] = os.path.abspath("sock")
    missing = tarn("data", "info", "nowhere/at-all")
    ok(missing.returncode == 1 and "nowhere/at-all: No such file" in missing.stderr,
       "a file that is not there, without a daemon", "", missing.stderr)
    with subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", "sock"],
                          stderr=subprocess.DEVNULL) as daemon:
        while tarn("ls", "--socket", "sock").returncode:
            time.sleep(.01)
        tokens = rng.integers(0, 1000, 500).astype(np.int32)
        np.save(folder + "/t.npy", tokens)
        np.save(folder + "/r.npy", tokens.reshape(100, 5).astype(np.float64))
        for name in "tr":
            put = tarn("put", f"data/{name}", f"{folder}/{name}.npy")
            if put.returncode:
                print("#", put.stderr)
        seen = lines("--seq-len", 9, "--shuffle", "none", "data/t")
        ok([line["tokens"] for line in seen] ==
           [tokens[i:i + 10].tolist() for i in range(0, 491, 9)],
           "a published tensor is a source of tokens", "", seen[:3])
        seen = lines("--shuffle", "none", "--socket", "sock", "data/r@2",
                     "data/r@1", "--count", 9)
        ok([line["source"] for line in seen].count(0) == 6,
           "published rows are mixed", "", seen)
        seen = lines("--shuffle", "none", "data/r", "data/r")
        ok([line["source"] for line in seen] == 100 * [0] + 100 * [1],
           "published tensors are one source each", "", seen[:3])
        seen = tarn("data", "info", "data/x")
        ok(seen.returncode == 1 and "nothing is published as 'data/x'" in
           seen.stderr, "a name that is not published", "", seen.stderr)
        daemon.terminate()


def tables(folder):
    path = folder + "/a"
    options = ("--seq-len", 20, "--windows", "packed", "--count", 50)

    def kept():
        return glob.glob(folder + "/*.tarn-table.npy")
    wanted = lines("--no-side-car", *options, path)
    ok(not kept(), "no table is kept if told so", [], kept())
    ok(lines(*options, path) == wanted and len(kept()) == 1,
       "a table is kept beside the file", 1, kept())
    ok(lines(*options, path) == wanted and len(kept()) == 1, "and is used")
    with open(kept()[0], "r+b") as f:
        f.seek(-30, os.SEEK_END)
        f.write(b"\xff")
    ok(lines(*options, path) == wanted, "a damaged table is not")


with tempfile.TemporaryDirectory() as where:
    mixtures(where)
    rows(where)
    tables(where)
    published(where)
finish()
