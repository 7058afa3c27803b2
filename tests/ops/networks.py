#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/networks, in C and in Python, beside the same networks in numpy's
doubles, and in PyTorch where it is: the same numbers to 1e-6."""
import os
import subprocess
import sys

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

binary = os.path.join(os.environ["top_builddir"], "examples", "networks")
script = os.path.join(os.environ["top_srcdir"], "examples", "networks.py")
if not os.path.exists(binary):
    kit.skip_all("networks was not built: there is no BLAS")
os.chdir(os.environ["TMPDIR"])
rng = np.random.default_rng(5)
HEADS, WIDTH = 8, 512


def dense(name, out, into):
    return {f"{name}.weight": rng.normal(size=(out, into)) / into ** 0.5,
            f"{name}.bias": rng.normal(size=out) / 10}


made = {**dense("mlp.fc1", 128, 784), **dense("mlp.fc2", 10, 128),
        **{k: v for n in ("q", "k", "v", "out")
           for k, v in dense(f"attention.{n}", WIDTH, WIDTH).items()},
        "norm.weight": 1 + rng.normal(size=WIDTH) / 10,
        "norm.bias": rng.normal(size=WIDTH) / 10,
        "x.mlp": rng.random(size=(32, 28, 28)),
        "x.attention": rng.normal(size=(2, 10, WIDTH))}
made = {name: a.astype("f4") for name, a in made.items()}
tarn.save("networks.safetensors", made)


def by_numpy():
    w = {name: a.astype("f8") for name, a in made.items()}

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def softmax(x):
        x = np.exp(x - x.max(-1, keepdims=True))
        return x / x.sum(-1, keepdims=True)

    def heads(x):
        return x.reshape(2, 10, HEADS, -1).transpose(0, 2, 1, 3)

    x = w["x.attention"]
    h = np.maximum(linear(w["x.mlp"].reshape(32, -1), "mlp.fc1"), 0)
    q, k, v = (heads(linear(x, f"attention.{n}")) for n in "qkv")
    s = softmax(q @ k.transpose(0, 1, 3, 2) / (WIDTH // HEADS) ** 0.5)
    y = linear((s @ v).transpose(0, 2, 1, 3).reshape(x.shape),
               "attention.out")
    z = x + y
    n = (z - z.mean(-1, keepdims=True)) / np.sqrt(
        z.var(-1, keepdims=True) + 1e-5)
    return {"mlp": softmax(linear(h, "mlp.fc2")), "attention": y,
            "norm": n * w["norm.weight"] + w["norm.bias"]}


def by_torch():
    import torch
    import torch.nn.functional as F
    w = {name: torch.from_numpy(a) for name, a in made.items()}

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    x = w["x.attention"]
    h = F.relu(linear(w["x.mlp"].flatten(1), "mlp.fc1"))
    q, k, v = (linear(x, f"attention.{n}").view(2, 10, HEADS, -1)
               .transpose(1, 2) for n in "qkv")
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
    y = linear(y.reshape(x.shape), "attention.out")
    return {"mlp": F.softmax(linear(h, "mlp.fc2"), -1).numpy(),
            "attention": y.numpy(),
            "norm": F.layer_norm(x + y, (WIDTH,), w["norm.weight"],
                                 w["norm.bias"]).numpy()}


wanted = {"numpy": by_numpy()}
try:
    wanted["PyTorch"] = by_torch()
except ImportError:
    kit.skipped("the numbers of PyTorch", "torch is not installed")
for language, command in (("C", [binary]), ("Python", [sys.executable, script])):
    r = subprocess.run([*command, "networks.safetensors", "out.safetensors"],
                       capture_output=True, text=True, timeout=300)
    kit.equal((r.returncode, r.stderr), (0, ""), f"networks in {language} run")
    if r.returncode:
        continue
    got = tarn.open("out.safetensors")
    for whose, want in wanted.items():
        for name, a in want.items():
            far = np.abs(got[name].numpy() - a).max()
            kit.ok(far <= 1e-6 * max(1, np.abs(a).max()),
                   f"{name} in {language} has {whose}'s numbers", far)
    del got
    for arguments in ((), ("nothing", "out"), ("out.safetensors", "out2")):
        r = subprocess.run([*command, *arguments], capture_output=True,
                           text=True)
        kit.ok(r.returncode != 0 and r.stderr,
               f"networks in {language} with {arguments} says what is wrong", r)
os.unlink("networks.safetensors")
os.unlink("out.safetensors")
sys.exit(kit.finish())
