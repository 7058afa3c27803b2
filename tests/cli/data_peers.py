#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn data beside the readers and writers of those whose files it reads: what
Megatron's builder writes is read by both as the same documents, whatever its dtype,
with documents of several sequences, empty ones and modes; and so what datatrove
writes. What is not installed is skipped by its name."""
import json
import os
import subprocess
import tempfile
import warnings

from tap import finish, ok, skip_all

try:
    import numpy as np
except ImportError:
    skip_all("numpy is not installed")

TARN = os.environ["TARN"]
rng = np.random.default_rng(13)


def tarn(*args):
    return subprocess.run([TARN, "data", *map(str, args)], text=True,
                          stdout=subprocess.PIPE, check=True).stdout


def samples(*args):
    return [json.loads(line) for line in tarn(
        "cat", "--json", "--shuffle", "none", *args).splitlines()]


def documents_of(path, least=2):
    """All documents that have a token to predict, whole."""
    return [[t for t, s in zip(o["tokens"], o["segments"]) if s]
            for o in samples("--seq-len", 1000, "--windows", "padded",
                             "--no-side-car", path) if sum(o["segments"]) >=
            least]


def build(builder, lengths, high, multimodal):
    """Documents of one to three sequences each."""
    import torch
    wanted, i = [], 0
    while i < len(lengths):
        n = min(int(rng.integers(1, 4)), len(lengths) - i)
        tokens = [rng.integers(0, high, k) for k in lengths[i:i + n]]
        modes = {"modes": [1] * n} if multimodal else {}
        builder.add_document(torch.from_numpy(np.concatenate(tokens)),
                             [len(t) for t in tokens], **modes)
        wanted += [t.tolist() for t in tokens]
        i += n
    return wanted


def megatron(folder):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from megatron.core.datasets import indexed_dataset
    except ImportError:
        ok(True, "Megatron's reader # SKIP megatron-core is not installed")
        return
    for kind in (np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64):
        for multimodal in (False, True):
            prefix = f"{folder}/{np.dtype(kind)}-{multimodal}"
            high = min(np.iinfo(kind).max, 1 << 30)
            lengths = rng.integers(0, 60, 300)
            lengths[rng.random(300) < .05] = 0
            builder = indexed_dataset.IndexedDatasetBuilder(
                prefix + ".bin", dtype=kind, multimodal=multimodal)
            wanted = build(builder, lengths, high, multimodal)
            builder.finalize(prefix + ".idx")
            theirs = indexed_dataset.IndexedDataset(
                prefix, multimodal=multimodal)
            own = [theirs[i][0] if multimodal else theirs[i]
                   for i in range(len(theirs))]
            seen = documents_of(prefix)
            what = f"{np.dtype(kind)}{' with modes' if multimodal else ''}"
            ok([o.tolist() for o in own if len(o) > 1] == seen ==
               [w for w in wanted if len(w) > 1],
               f"Megatron and tarn read the same, {what}", len(own), len(seen))
            info = json.loads(tarn("info", "--json", prefix))
            ok(info["documents"] == len(theirs) and
               info["tokens"] == theirs.sequence_lengths.sum(),
               f"and count the same, {what}", len(theirs), info)
    merged(folder, indexed_dataset)


def merged(folder, indexed_dataset):
    """Windows across documents, by Megatron's reader alone: as its GPT datasets
    have them, sample i begins at token i * seq_len."""
    theirs = indexed_dataset.IndexedDataset(folder + "/uint16-False")
    tokens = np.concatenate([theirs[i] for i in range(len(theirs))])
    seen = samples("--seq-len", 64, folder + "/uint16-False")
    ok([s["tokens"] for s in seen] ==
       [tokens[i:i + 65].tolist() for i in range(0, len(tokens) - 64, 64)],
       "windows of a stream are Megatron's tokens")
    builder = indexed_dataset.IndexedDatasetBuilder(
        folder + "/both.bin", dtype=np.uint16)
    for part in ("uint16-False", "uint16-False"):
        builder.add_index(f"{folder}/{part}")
    builder.finalize(folder + "/both.idx")
    one = folder + "/uint16-False"
    ok(samples("--seq-len", 64, folder + "/both") ==
       samples("--seq-len", 64, one, one),
       "two files are one source, as Megatron's builder joins them")


def datatrove(folder):
    try:
        from datatrove.pipeline.tokens.tokenizer import TokenizedFile
        from datatrove.utils.dataset import DatatroveFileDataset
    except ImportError as e:
        ok(True, "datatrove's reader # SKIP datatrove or what it needs is not "
           f"installed ({e.name})")
        return
    for size, high in ((2, 60000), (4, 1 << 30)):
        path = f"{folder}/own{size}.ds"
        wanted = [rng.integers(0, high, n).tolist()
                  for n in rng.integers(2, 60, 200)]
        out = TokenizedFile(folder, f"own{size}.ds", token_size=size)
        for tokens in wanted:
            out.write(tokens, None)
        out.close()
        ok(documents_of(path) == wanted, f"what datatrove writes, {size} bytes")
        theirs = DatatroveFileDataset(path, 63, token_size=size)
        flat = [t for i in range(len(theirs))
                for t in theirs[i]["input_ids"].tolist()]
        mine = [t for s in samples("--seq-len", 64, path)
                for t in s["tokens"][:64]]
        n = min(len(flat), len(mine))
        ok(n > 1000 and flat[:n] == mine[:n],
           f"datatrove reads the same, {size} bytes")


with tempfile.TemporaryDirectory() as where:
    megatron(where)
    datatrove(where)
finish()
