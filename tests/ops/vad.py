#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/vad beside the same network in numpy, and in PyTorch where it is:
made-up weights, and the real ones where TARN_TEST_DATA has them; on tones,
noise and silence."""
import os
import subprocess
import sys

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

binary = os.path.join(os.environ["top_builddir"], "examples", "vad")
if not os.path.exists(binary):
    kit.skip_all("vad was not built: there is no BLAS")
os.chdir(os.environ["TMPDIR"])
rng = np.random.default_rng(11)
CHUNK, CONTEXT = 512, 64
SHAPES = {"stft_conv.weight": (258, 1, 256),
          "conv1.weight": (128, 129, 3), "conv1.bias": (128,),
          "conv2.weight": (64, 128, 3), "conv2.bias": (64,),
          "conv3.weight": (64, 64, 3), "conv3.bias": (64,),
          "conv4.weight": (128, 64, 3), "conv4.bias": (128,),
          "lstm_cell.weight_ih": (512, 128), "lstm_cell.weight_hh": (512, 128),
          "lstm_cell.bias_ih": (512,), "lstm_cell.bias_hh": (512,),
          "final_conv.weight": (1, 128, 1), "final_conv.bias": (1,)}


def conv(x, w, b, stride, padding):
    x = np.pad(x, ((0, 0), (padding, padding)))
    n = (x.shape[1] - w.shape[2]) // stride + 1
    windows = np.stack([x[:, i * stride:i * stride + w.shape[2]]
                        for i in range(n)])
    y = np.einsum("nck,ock->on", windows, w)
    return y if b is None else y + b[:, None]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(w, audio):
    """The network in double precision, chunk by chunk."""
    w = {name: a.astype("f8") for name, a in w.items()}
    h = c = np.zeros(128)
    before = np.zeros(CONTEXT)
    found = []
    for i in range(0, len(audio), CHUNK):
        chunk = np.zeros(CHUNK)
        chunk[:len(audio[i:i + CHUNK])] = audio[i:i + CHUNK]
        x = np.concatenate([before, chunk])
        before = chunk[-CONTEXT:]
        y = conv(np.pad(x, (0, CONTEXT), "reflect")[None],
                 w["stft_conv.weight"], None, 128, 0)
        y = np.hypot(y[:129], y[129:])
        for layer, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            y = np.maximum(conv(y, w[f"conv{layer}.weight"],
                                w[f"conv{layer}.bias"], stride, 1), 0)
        g = (w["lstm_cell.weight_ih"] @ y[:, 0] + w["lstm_cell.bias_ih"] +
             w["lstm_cell.weight_hh"] @ h + w["lstm_cell.bias_hh"])
        c = sigmoid(g[128:256]) * c + sigmoid(g[:128]) * np.tanh(g[256:384])
        h = sigmoid(g[384:]) * np.tanh(c)
        found.append(sigmoid(conv(np.maximum(h, 0)[:, None],
                                  w["final_conv.weight"],
                                  w["final_conv.bias"], 1, 0)[0, 0]))
    return np.array(found)


def by_torch(w, audio):
    import torch
    import torch.nn.functional as F
    w = {name: torch.from_numpy(a.copy()) for name, a in w.items()}
    cell = torch.nn.LSTMCell(128, 128)
    cell.load_state_dict({n.split(".")[1]: t for n, t in w.items()
                          if n.startswith("lstm_cell")})
    state, before, found = None, torch.zeros(CONTEXT), []
    with torch.no_grad():
        for i in range(0, len(audio), CHUNK):
            chunk = torch.zeros(CHUNK)
            part = torch.from_numpy(audio[i:i + CHUNK].copy())
            chunk[:len(part)] = part
            x = torch.cat([before, chunk])[None, None]
            before = chunk[-CONTEXT:]
            y = F.conv1d(F.pad(x, (0, CONTEXT), "reflect"),
                         w["stft_conv.weight"], stride=128)
            y = torch.sqrt(y[:, :129] ** 2 + y[:, 129:] ** 2)
            for layer, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
                y = F.relu(F.conv1d(y, w[f"conv{layer}.weight"],
                                    w[f"conv{layer}.bias"], stride, 1))
            state = cell(y[:, :, 0], state)
            found.append(torch.sigmoid(F.conv1d(
                F.relu(state[0])[:, :, None], w["final_conv.weight"],
                w["final_conv.bias"])).item())
    return np.array(found)


def speech(seconds):
    """A voice's pitch with its harmonics, in syllables, then silence."""
    t = np.arange(int(16000 * seconds)) / 16000
    pitch = 2 * np.pi * np.cumsum(130 + 25 * np.sin(2 * np.pi * 3 * t)) / 16000
    voice = sum(np.sin(k * pitch) / k for k in range(1, 20))
    voice *= np.clip(np.sin(2 * np.pi * 4 * t), 0, 1)
    voice[len(voice) // 2:] = 0
    return (0.3 * voice + 1e-3 * rng.normal(size=len(t))).astype("f4")


def run(weights, audio):
    tarn.save("audio.npy", audio)
    r = subprocess.run([binary, weights, "audio.npy"], capture_output=True,
                       text=True, timeout=300)
    return np.array([float(line.split()[1])
                     for line in r.stdout.splitlines()]), r


def judge(what, path, w):
    for name, audio in (("speech", speech(2)), ("silence", np.zeros(
            3000, "f4")), ("one sample", np.ones(1, "f4"))):
        got, r = run(path, audio)
        want = reference(w, audio)
        kit.ok(got.shape == want.shape and np.abs(got - want).max() < 1e-5,
               f"{what}: {name} is judged as by numpy", r.stderr, got, want)
    audio = speech(1)
    try:
        want = by_torch(w, audio)
    except ImportError:
        kit.skipped(f"{what}: as by PyTorch", "torch is not installed")
        return
    got, r = run(path, audio)
    kit.ok(got.shape == want.shape and np.abs(got - want).max() < 1e-5,
           f"{what}: speech is judged as by PyTorch", r.stderr, got, want)


made = {name: (rng.normal(size=shape) / max(np.prod(shape[1:]), 1) ** 0.5)
        .astype("f4") for name, shape in SHAPES.items()}
tarn.save("made.safetensors", made)
judge("made-up weights", "made.safetensors", made)
real = os.path.join(os.environ.get("TARN_TEST_DATA", "../shared/data"),
                    "silero_vad_16k.safetensors")
if os.path.exists(real):
    judge("Silero's weights", real,
          {name: t.numpy() for name, t in tarn.open(real).items()})
else:
    kit.skipped("Silero's weights", "TARN_TEST_DATA does not have them")
tarn.save("wide.npy", np.zeros((2, 2), "f4"))
for arguments, part in (((), "usage"), (("nothing", "audio.npy"), "nothing"),
                        (("made.safetensors", "nothing.npy"), "nothing.npy"),
                        (("made.safetensors", "wide.npy"), "F32")):
    r = subprocess.run([binary, *arguments], capture_output=True, text=True)
    kit.ok(r.returncode != 0 and part in r.stderr,
           f"vad {' '.join(arguments)} says what is wrong", r)
for name in "made.safetensors", "audio.npy", "wide.npy":
    os.unlink(name)
sys.exit(kit.finish())
