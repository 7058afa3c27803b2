#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.torch: files as PyTorch's users know them from safetensors.torch."""
import os
import subprocess
import time

import py_kit as kit

try:
    import torch
except ImportError:
    kit.skip_all("torch is not installed (python3-torch)")
import tarn
from tarn.torch import load_file, save_file

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.safetensors")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = subprocess.Popen([os.environ["TARN_DAEMON"], "--socket", socket])
while not os.path.exists(socket) and daemon.poll() is None:
    time.sleep(.01)
os.environ["TARN_SOCKET"] = socket

# ---- files ----
wanted = {"w": torch.arange(12.).reshape(3, 4), "none": torch.zeros(0, 3),
          "b": torch.tensor([1, -2], dtype=torch.bfloat16),
          "one": torch.tensor(7), "flags": torch.tensor([True, False])}
save_file(wanted, path, {"note": "first"})
kit.equal(tarn.open(path).metadata["note"], "first", "metadata are saved")
seen = load_file(path)
kit.equal(sorted(seen), sorted(wanted), "load_file: the names")
kit.ok(all(torch.equal(seen[n], t) and seen[n].dtype == t.dtype and
           seen[n].shape == t.shape for n, t in wanted.items()),
       "what save_file saved", seen)
del seen

daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends in peace")
os.unlink(path)
kit.finish()
