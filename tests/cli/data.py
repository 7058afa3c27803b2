#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn data against numpy: files that numpy wrote as Megatron and datatrove lay
them out have their documents, tokens and lengths; samples are slices of them;
what ranks of any world get is together what one gets."""
import json
import os
import struct
import subprocess
import sys
import tempfile

from tap import finish, ok, skip_all

try:
    import numpy as np
except ImportError:
    skip_all("numpy is not installed")

TARN = os.environ["TARN"]
CODES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64,
         8: np.uint16}
rng = np.random.default_rng(7)


def tarn(*args):
    return subprocess.run([TARN, "data", *map(str, args)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)


def lines(*args):
    seen = tarn("cat", "--json", *args)
    if seen.returncode:
        return seen.stderr
    return [json.loads(line) for line in seen.stdout.splitlines()]


def write_megatron(prefix, code, documents):
    kind = np.dtype(CODES[code])
    lengths = np.array([len(d) for d in documents], np.int32)
    pointers = np.zeros(len(documents), np.int64)
    pointers[1:] = np.cumsum(lengths[:-1], dtype=np.int64) * kind.itemsize
    np.concatenate(documents).astype(kind).tofile(prefix + ".bin")
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack(
            "<QBQQ", 1, code, len(documents), len(documents) + 1))
        f.write(lengths.tobytes() + pointers.tobytes())
        f.write(np.arange(len(documents) + 1, dtype=np.int64).tobytes())


def write_datatrove(path, kind, documents):
    np.concatenate(documents).astype(kind).tofile(path)
    ends = np.cumsum([len(d) for d in documents], dtype=np.uint64)
    ends.tofile(path + ".index")


def some(n, most, high=100):
    return [rng.integers(0, high, rng.integers(1, most)) for _ in range(n)]


def info(folder):
    documents = some(500, 300)
    lengths = np.array([len(d) for d in documents])
    for code, kind in CODES.items():
        write_megatron(folder + "/m", code, documents)
        seen = json.loads(tarn("info", "--json", folder + "/m").stdout)
        ok((seen["format"], seen["documents"], seen["tokens"],
            seen["token_bytes"], seen["shortest"], seen["longest"]) ==
           ("megatron", 500, lengths.sum(), np.dtype(kind).itemsize,
            lengths.min(), lengths.max()),
           f"data info of Megatron's {np.dtype(kind)}", "", seen)
    counts = [[c["documents"], c["tokens"]] for c in seen["lengths"]]
    wanted = [lengths[(lengths >= c["from"]) & (lengths <= c["to"])]
              for c in seen["lengths"]]
    ok(counts == [[len(w), w.sum()] for w in wanted], "lengths are counted",
       [[len(w), w.sum()] for w in wanted], counts)
    for kind in (np.uint16, np.uint32):
        write_datatrove(folder + "/d.ds", kind, documents)
        seen = json.loads(tarn("info", "--json", folder + "/d.ds").stdout)
        ok((seen["format"], seen["documents"], seen["tokens"],
            seen["token_bytes"]) == ("datatrove", 500, lengths.sum(),
                                     np.dtype(kind).itemsize),
           f"data info of datatrove's {np.dtype(kind)}", "", seen)
    np.concatenate(documents).astype("<u2").tofile(folder + "/raw")
    seen = tarn("info", folder + "/raw")
    ok(seen.returncode == 1 and "must be given" in seen.stderr,
       "tokens alone need a dtype", "", seen.stderr)
    seen = tarn("info", folder + "/raw", "--dtype", "U16")
    ok(f"1 document, {lengths.sum()} tokens of U16" in seen.stdout,
       "tokens alone are counted", "", seen.stdout)


def samples(folder):
    documents = some(300, 200, 60000)
    tokens = np.concatenate(documents)
    owner = np.repeat(np.arange(300), [len(d) for d in documents])
    write_megatron(folder + "/a", 8, documents[:100])
    write_megatron(folder + "/b", 8, documents[100:])
    files = (folder + "/a", folder + "/b.bin")
    plain = lines("--seq-len", 50, "--shuffle", "none", *files)
    ok([s["g"] for s in plain] == list(range((len(tokens) - 1) // 50)) and
       all(s["tokens"] == tokens[50 * i:50 * i + 51].tolist() and
           s["document"] == owner[50 * i] for i, s in enumerate(plain)),
       "samples that are not shuffled are slices of all tokens")
    shuffled = lines("--seq-len", 50, "--seed", 3, *files)
    ok(sorted(s["tokens"] for s in shuffled) ==
       sorted(s["tokens"] for s in plain) and
       [s["tokens"] for s in shuffled] != [s["tokens"] for s in plain],
       "an epoch has each of them once")
    n = len(plain)
    second = lines("--seq-len", 50, "--seed", 3, "--epoch", 1, *files)
    ok([s["g"] for s in second] == list(range(n, 2 * n)) and
       sorted(s["tokens"] for s in second) ==
       sorted(s["tokens"] for s in plain) and
       [s["tokens"] for s in second] != [s["tokens"] for s in shuffled],
       "the next epoch has another order")
    both = lines("--seq-len", 50, "--seed", 3, "--from", n - 5, "--count", 10,
                 *files)
    ok(both == shuffled[-5:] + second[:5],
       "with a count samples of the next epoch follow")
    for windows in ("stream", "padded", "dropped", "packed"):
        worlds(files, windows)
    refused(files)


def worlds(files, windows):
    options = ("--seq-len", 40, "--seed", 5, "--windows", windows, *files)
    alone = lines(*options)
    for world, batch in ((1, 4), (2, 4), (3, 8), (8, 8)):
        ranks = [lines("--world", world, "--rank", r, "--batch", batch,
                       "--from", 10, *options) for r in range(world)]
        together = sorted((s for rank in ranks for s in rank),
                          key=lambda s: s["g"])
        ok(together == alone[10:] and min(map(len, ranks)) > 0,
           f"{world} ranks get together what one gets, windows {windows}")


def refused(files):
    for args in (("--seq-len", 0), (), ("--seq-len", 5, "--rank", 1),
                 ("--seq-len", 5, "--windows", "round"),
                 ("--seq-len", 5, "--seed", -1),
                 ("--seq-len", 5, "--dtype", "u17")):
        seen = tarn("cat", *args, *files)
        ok(seen.returncode == 2 and not seen.stdout,
           f"data cat {' '.join(map(str, args))} is called wrongly", 2,
           seen.returncode)
    seen = tarn("cat", "--seq-len", 10000000, *files)
    ok(seen.returncode == 1 and "no sample of 10000001" in seen.stderr,
       "a sample that is longer than all tokens", "", seen.stderr)


def benched(folder):
    seen = tarn("bench", "--seq-len", 50, "--seconds", 0.1, "--json",
                "--windows", "packed", folder + "/a")
    figures = json.loads(seen.stdout)
    ok(figures["samples"] > 0 and figures["tokens"] > 0 and
       figures["bytes"] == 2 * figures["tokens"] and
       figures["seconds"] >= 0.1, "data bench counts", "", figures)


with tempfile.TemporaryDirectory() as where:
    info(where)
    samples(where)
    benched(where)
finish()
