#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""from_pretrained of real packages after tarn.install(), in four processes at once:
transformers, diffusers, and the loop in which vLLM's default loader reads. Beside
the same without tarn they have the same weights; the daemon has read the file once,
the processes hold it once together, and none of them has read it by itself."""
import json
import os
import shutil
import subprocess
import sys

import py_kit as kit

try:
    import torch
except ImportError:
    kit.skip_all("torch is not installed (pip install torch)")
try:
    import safetensors.torch  # noqa: F401
except ImportError:
    kit.skip_all("safetensors is not installed (pip install safetensors)")
import tarn  # noqa: F401

PROCESSES = 4
MAKE = {
    "transformers": """
import transformers
config = transformers.LlamaConfig(
    vocab_size=4000, hidden_size=512, intermediate_size=1024, num_attention_heads=8,
    num_hidden_layers=3)
transformers.LlamaForCausalLM(config).save_pretrained(sys.argv[1])
""",
    "diffusers": """
import diffusers
diffusers.UNet2DModel(
    sample_size=32, block_out_channels=(128, 256), layers_per_block=2,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D")).save_pretrained(sys.argv[1])
""",
}
LOAD = {
    "transformers": """
import transformers
weights = transformers.AutoModelForCausalLM.from_pretrained(
    sys.argv[1]).state_dict()
""",
    "diffusers": """
import diffusers
weights = diffusers.UNet2DModel.from_pretrained(sys.argv[1]).state_dict()
""",
    # safetensors_weights_iterator of vLLM's model_loader.
    "vllm": """
import glob
from safetensors import safe_open
weights = {}
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with safe_open(path, framework="pt") as f:
        for name in f.keys():
            weights[name] = f.get_tensor(name)
""",
}
CHILD = """
import hashlib
import os
import sys
import torch
torch.set_num_threads(1)
if sys.argv[2] == "tarn":
    import tarn
    tarn.install()
%s
print("ready", flush=True)
sys.stdin.readline()
digest = hashlib.sha256()
spans = []
for name, t in sorted(weights.items()):
    t = t.detach().contiguous()
    spans.append((t.data_ptr(), t.data_ptr() + t.nbytes))
    digest.update(name.encode())
    digest.update(t.view(torch.uint8).numpy() if t.ndim else bytes(
        t.reshape(1).view(torch.uint8).tolist()))
print(digest.hexdigest(), flush=True)
sys.stdin.readline()
pss = 0
for line in open("/proc/self/smaps"):
    head = line.split()[0]
    if "-" in head and not head.endswith(":"):
        begin, end = (int(n, 16) for n in head.split("-"))
        inside = any(begin < b and a < end for a, b in spans)
    elif inside and head == "Pss:":
        pss += int(line.split()[1]) << 10
print(pss, flush=True)
sys.stdin.readline()
"""

tmp = os.environ["TMPDIR"]
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=os.path.join(tmp, "hf"),
                  HF_HUB_DISABLE_TELEMETRY="1", XDG_CACHE_HOME=tmp)
daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock"))
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)


def bytes_read():
    """That the daemon has read from files since it began."""
    seen = subprocess.run([os.environ["TARN"], "status", "--json"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(seen.stdout)["bytes_loaded"]


def run(code, *args):
    """What it says if it fails; None: it did not."""
    seen = subprocess.run([sys.executable, "-c", "import sys\n" + code, *args],
                          stderr=subprocess.PIPE, check=False, text=True)
    return seen.stderr.strip() if seen.returncode else None


def step(children):
    """The next line of each."""
    for c in children:
        c.stdin.write("\n")
        c.stdin.flush()
    return [c.stdout.readline().strip() for c in children]


def load(package, folder, how, n):
    """What n processes have at once: (digests of their weights, PSS of these)."""
    children = [subprocess.Popen(
        [sys.executable, "-c", CHILD % LOAD[package], folder, how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(n)]
    kit.equal([c.stdout.readline().strip() for c in children], ["ready"] * n,
              f"{package}: {n} processes load, {how}")
    digests, shares = step(children), step(children)
    for c in children:
        c.communicate("\n")
    return digests, sum(int(s or 0) for s in shares)


def check(package, folder):
    size = sum(os.path.getsize(os.path.join(folder, name))
               for name in os.listdir(folder) if name.endswith(".safetensors"))
    stock, _ = load(package, folder, "stock", 1)
    before = bytes_read()
    digests, pss = load(package, folder, "tarn", PROCESSES)
    read = bytes_read() - before
    kit.equal(digests, stock * PROCESSES,
              f"{package}: all have the weights of the stock loader")
    kit.ok(0.9 * size < read < 1.1 * size, f"{package}: the file is read once",
           (read, size))
    # The daemon's processes have their share, too.
    kit.ok(0.3 * size < pss < 1.3 * size,
           f"{package}: together they hold the weights once", (pss, size))


def missing(package):
    try:
        __import__(package)
    except Exception as e:  # whatever it lacks
        return f"{package} is not installed (pip): {e}"[:200]
    return None


for package, code in MAKE.items():
    why = missing(package)
    folder = os.path.join(tmp, package)
    if not why:
        why = run(code, folder)
        kit.ok(not why, f"{package}: a small model is made", why)
    if why:
        kit.skipped(f"from_pretrained of {package}", why.splitlines()[-1])
        continue
    check(package, folder)
    if package == "transformers":
        # Another file, which nobody has loaded yet.
        again = os.path.join(tmp, "again")
        shutil.copytree(folder, again)
        check("vllm", again)
        shutil.rmtree(again)
    shutil.rmtree(folder)
shutil.rmtree(os.path.join(tmp, "hf"), ignore_errors=True)
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends")
kit.finish()
