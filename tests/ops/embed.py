#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/embed: sentence vectors by a BERT in C, beside the same network in
numpy; workers in several processes, weights that are swapped under load, and
each answer from exactly one version. With TARN_TEST_MINILM, the folder of the
real model (model.safetensors), that one too, and beside PyTorch where it is."""
import math
import os
import signal
import subprocess
import sys
import time

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

binary = os.path.join(os.environ["top_builddir"], "examples", "embed")
if not os.path.exists(binary):
    kit.skip_all("embed was not built: there is no BLAS")
os.chdir(os.environ["TMPDIR"])
daemon = kit.start_daemon("sock")
store = tarn.Store()
rng = np.random.default_rng(7)
HEAD = 32


def weights(layers, width, inner, words=100, places=64):
    """Names and shapes of MiniLM's, made up."""
    def norm(name):
        made[f"{name}.weight"] = 1 + 0.1 * rng.normal(size=width)
        made[f"{name}.bias"] = 0.1 * rng.normal(size=width)

    def dense(name, out, into):
        made[f"{name}.weight"] = rng.normal(size=(out, into)) / into ** 0.5
        made[f"{name}.bias"] = 0.1 * rng.normal(size=out)

    made = {"embeddings.word_embeddings.weight":
            rng.normal(size=(words, width)),
            "embeddings.position_embeddings.weight":
            0.1 * rng.normal(size=(places, width)),
            "embeddings.token_type_embeddings.weight":
            0.1 * rng.normal(size=(2, width))}
    norm("embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            dense(f"{at}attention.self.{name}", width, width)
        dense(f"{at}attention.output.dense", width, width)
        norm(f"{at}attention.output.LayerNorm")
        dense(f"{at}intermediate.dense", inner, width)
        dense(f"{at}output.dense", width, inner)
        norm(f"{at}output.LayerNorm")
    return {name: w.astype("f4") for name, w in made.items()}


def reference(w, ids):
    """The network in double precision."""
    w = {name: a.astype("f8") for name, a in w.items() if a.dtype != "i8"}
    layers = 1 + max(int(n.split(".")[2]) for n in w if "layer." in n)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def heads(x):
        return x.reshape(*x.shape[:2], -1, HEAD).transpose(0, 2, 1, 3)

    erf = np.vectorize(math.erf)
    mask = ids != 0
    x = (w["embeddings.word_embeddings.weight"][ids] +
         w["embeddings.position_embeddings.weight"][:ids.shape[1]] +
         w["embeddings.token_type_embeddings.weight"][0])
    x = norm(x, "embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}."
        q, k, v = (heads(dense(x, f"{at}attention.self.{n}"))
                   for n in ("query", "key", "value"))
        s = q @ k.transpose(0, 1, 3, 2) / HEAD ** 0.5
        s = np.where(mask[:, None, None, :], s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        c = (s @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + dense(c, at + "attention.output.dense"),
                 at + "attention.output.LayerNorm")
        h = dense(x, at + "intermediate.dense")
        h = h * 0.5 * (1 + erf(h / 2 ** 0.5))
        x = norm(x + dense(h, at + "output.dense"), at + "output.LayerNorm")
    x = (x * mask[..., None]).sum(1)
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def by_torch(w, ids):
    """The network of PyTorch's functions, in F32."""
    import torch
    import torch.nn.functional as F
    w = {name: torch.from_numpy(np.array(a)) for name, a in w.items()}
    width = w["embeddings.LayerNorm.bias"].shape

    def norm(x, name):
        return F.layer_norm(x, width, w[name + ".weight"], w[name + ".bias"],
                            1e-12)

    def dense(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def heads(x):
        return x.view(*x.shape[:2], -1, HEAD).transpose(1, 2)

    with torch.no_grad():
        ids = torch.from_numpy(ids)
        mask = ids != 0
        x = norm(w["embeddings.word_embeddings.weight"][ids] +
                 w["embeddings.position_embeddings.weight"][:ids.shape[1]] +
                 w["embeddings.token_type_embeddings.weight"][0],
                 "embeddings.LayerNorm")
        for i in range(1 + max(int(n.split(".")[2]) for n in w
                               if "layer." in n)):
            at = f"encoder.layer.{i}."
            q, k, v = (heads(dense(x, f"{at}attention.self.{n}"))
                       for n in ("query", "key", "value"))
            c = F.scaled_dot_product_attention(q, k, v, mask[:, None, None])
            c = c.transpose(1, 2).reshape(x.shape)
            x = norm(x + dense(c, at + "attention.output.dense"),
                     at + "attention.output.LayerNorm")
            h = F.gelu(dense(x, at + "intermediate.dense"))
            x = norm(x + dense(h, at + "output.dense"),
                     at + "output.LayerNorm")
        return F.normalize((x * mask[..., None]).sum(1), dim=-1).numpy()


def publish(w):
    return store.publish({f"m/{name}": a for name, a in w.items()})


def batch(rows, length):
    ids = rng.integers(1, 100, (rows, length))
    for row in ids[1:]:
        row[rng.integers(1, length + 1):] = 0
    return ids


def send(channel, ids, tag):
    slot = channel.acquire(60)
    slot.empty(ids.shape, "I64")[...] = ids
    slot.tag = tag
    slot.publish()


def opened(model):
    """The channels of a server, as soon as it has made them."""
    until = time.monotonic() + 120
    while True:
        try:
            return [tarn.Channel(store, f"{model}.{end}", create=False)
                    for end in ("in", "out")]
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


first, second = weights(2, 64, 160), weights(2, 64, 160)
publish(first)

# ---- one client on the command line ----
server = subprocess.Popen([binary, "serve", "m", "--workers", "2"],
                          stderr=subprocess.PIPE, text=True)
lines = "5 17 3 99\n42\n"
out = subprocess.run([binary, "ask", "m"], input=lines, capture_output=True,
                     text=True, timeout=120)
got = np.array([[float(x) for x in line.split()]
                for line in out.stdout.splitlines()])
want = np.concatenate([reference(first, np.array([row])) for row in
                       ([5, 17, 3, 99], [42])])
kit.ok(got.shape == want.shape and np.abs(got - want).max() < 1e-5,
       "the vectors of two lines are numpy's", out, want)

# ---- batches, and weights that change under them ----
inbox, outbox = opened("m")
batches = [batch(rows, length) for rows, length in
           ((1, 1), (3, 7), (8, 32), (2, 64), (5, 13))]
wanted = [[reference(w, ids) for ids in batches] for w in (first, second)]
versions = {}
faults = []
for turn in range(60):
    if turn % 6 == 5:
        publish(second if turn // 6 % 2 == 0 else first)
    i = turn % len(batches)
    send(inbox, batches[i], b"%d" % i)
    if turn % 3 != 2:
        continue  # up to three are on their way
    for _ in range(3):
        with outbox.receive(120) as item:
            i = int(item.tag)
            vectors, version = item[0].numpy(), item[1].item()
            far = [np.abs(vectors - wanted[w][i]).max() for w in (0, 1)]
            which = far.index(min(far))
            if min(far) > 1e-5 or versions.setdefault(
                    version, which) != which:
                faults.append((i, version, far))
kit.ok(not faults and len(versions) > 4 and set(versions.values()) == {0, 1},
       "each answer comes from exactly one version", versions, *faults)

# ---- what is no request ----
send(inbox, np.array([[5, 100000]]), b"beyond")
with outbox.receive(120) as item:
    kit.ok(item.tag == b"beyond" and b"100000" in bytes(item[0].numpy()),
           "a token that is none is refused by a sentence", item.tag,
           bytes(item[0].numpy()))
send(inbox, batch(1, 65), b"long")
with outbox.receive(120) as item:
    kit.ok(item.tag == b"long" and b"1 to 64" in bytes(item[0].numpy()),
           "a text that is too long is refused", bytes(item[0].numpy()))

# ---- a worker that is killed ----
with open(f"/proc/{server.pid}/task/{server.pid}/children",
          encoding="ascii") as f:
    children = f.read().split()
kit.equal(len(children), 2, "there are two workers")
if children:
    os.kill(int(children[0]), signal.SIGKILL)
wanted_tags = {b"after %d" % turn for turn in range(6)}
for tag in sorted(wanted_tags):
    send(inbox, batches[1], tag)
# A request whose worker died between its answer and its end is answered again.
seen = set()
until = time.monotonic() + 120
while seen != wanted_tags and time.monotonic() < until:
    with outbox.receive(120) as item:
        if item[0].shape == (3, 64):
            seen.add(item.tag)
kit.equal(sorted(seen), sorted(wanted_tags), "the other worker goes on alone")
server.terminate()
err = server.communicate(timeout=60)[1]
kit.equal((server.returncode != 0, err), (True, ""),
          "a worker that was killed is told by the status")

# ---- wrong arguments ----
for arguments, status, part in ((("serve",), 2, "usage"),
                                (("serve", "m", "--workers", "0"), 2, "usage"),
                                (("serve", "nothing"), 1, "nothing"),
                                (("dance", "m"), 2, "usage")):
    r = subprocess.run([binary, *arguments], capture_output=True, text=True,
                       timeout=60)
    kit.ok(r.returncode == status and part in r.stderr,
           f"embed {' '.join(arguments)} says what is wrong", r)

# ---- the real one ----
folder = os.environ.get("TARN_TEST_MINILM")
if not folder:
    kit.skipped("the real model", "TARN_TEST_MINILM does not name its folder")
else:
    real = tarn.load(os.path.join(folder, "model.safetensors"), name="real")
    w = {name: t.numpy() for name, t in real.items()}
    server = subprocess.Popen([binary, "serve", "real", "--workers", "4"])
    ids = np.array([[101, 7592, 2088, 999, 102], [101, 2023, 102, 0, 0]])
    send_to, receive = opened("real")
    send(send_to, ids, b"0")
    with receive.receive(120) as item:
        got = item[0].numpy()
        want = reference(w, ids)
        kit.ok(np.abs(got - want).max() < 1e-5 and
               (got * want).sum(-1).min() > 0.99999,
               "the real model's vectors are numpy's", got[:, :4], want[:, :4])
    try:
        import torch
    except ImportError:
        kit.skipped("the real model beside PyTorch", "torch is not installed")
    else:
        kit.ok(np.abs(got - by_torch(w, ids)).max() < 1e-5,
               "the real model's vectors are PyTorch's", got[:, :4])
    server.terminate()
    server.wait()
daemon.terminate()
daemon.wait()
sys.exit(kit.finish())
