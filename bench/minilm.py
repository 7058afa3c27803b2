# SPDX-License-Identifier: MIT
"""MiniLM by examples/minilm.c beside the same network in PyTorch's eager mode, in
turns: tokens a second.

    minilm.py MODEL.safetensors [hold]

hold: says so when PyTorch has computed once, and waits for the end of stdin.
"""
import statistics
import subprocess
import sys
import time

import tarn
import torch
import torch.nn.functional as F

path = sys.argv[1]
w = {name: t.torch().clone() for name, t in tarn.open(path).items()}


def norm(x, name):
    return F.layer_norm(x, (384,), w[name + ".weight"], w[name + ".bias"],
                        1e-12)


def dense(x, name):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def heads(x):
    return x.view(*x.shape[:2], 12, 32).transpose(1, 2)


def forward(ids):
    mask = ids != 0
    x = norm(w["embeddings.word_embeddings.weight"][ids] +
             w["embeddings.position_embeddings.weight"][:ids.shape[1]] +
             w["embeddings.token_type_embeddings.weight"][0],
             "embeddings.LayerNorm")
    for i in range(6):
        at = f"encoder.layer.{i}."
        q, k, v = (heads(dense(x, f"{at}attention.self.{n}"))
                   for n in ("query", "key", "value"))
        c = F.scaled_dot_product_attention(q, k, v, mask[:, None, None])
        c = c.transpose(1, 2).reshape(x.shape)
        x = norm(x + dense(c, at + "attention.output.dense"),
                 at + "attention.output.LayerNorm")
        h = F.gelu(dense(x, at + "intermediate.dense"))
        x = norm(x + dense(h, at + "output.dense"), at + "output.LayerNorm")
    return F.normalize((x * mask[..., None]).sum(1), dim=-1)


def by_torch(batch, length, threads):
    torch.set_num_threads(threads)
    ids = torch.randint(1000, 20000, (batch, length))
    times = []
    with torch.inference_mode():
        for i in range(-2, 9):
            begin = time.perf_counter()
            forward(ids)
            if i >= 0:
                times.append(time.perf_counter() - begin)
    return statistics.median(times)


def by_tarn(*what):
    mine.stdin.write("%d %d %d\n" % what)
    mine.stdin.flush()
    return float(mine.stdout.readline()) / 1e6


if sys.argv[2:] == ["hold"]:
    by_torch(1, 32, 1)
    print("held", flush=True)
    sys.exit(sys.stdin.read())
mine = subprocess.Popen(["bench/minilm", path], stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, text=True)
print(f"{'batch x tokens':16}{'threads':>8}{'tarn':>12}{'torch':>12}"
      f"{'ratio':>8}   tokens a second")
for batch, length in ((1, 32), (32, 128)):
    for threads in 1, 2:
        found = [(by_tarn(batch, length, threads),
                  by_torch(batch, length, threads)) for _ in range(3)]
        a, b = (batch * length / statistics.median(f) for f in zip(*found))
        print(f"{batch:5} x {length:<8}{threads:8}{a:12.0f}{b:12.0f}"
              f"{a / b:8.2f}", flush=True)
mine.stdin.close()
mine.wait()
