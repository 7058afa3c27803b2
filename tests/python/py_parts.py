#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Parts of a checkpoint's tensors: ranks with a device each, of the stand-in
for the driver, load the file once for all of them, and each moves its own views
to its device and no other byte. Each rank is this script again."""
import ctypes
import gc
import json
import os
import subprocess
import sys
import time

import py_kit as kit
import tarn

STAND_IN = os.path.realpath(os.environ.get("top_builddir", ".") +
                            "/tests/fakecuda/.libs")
PATH = os.environ["TMPDIR"] + "/m.safetensors"
PCI = "/sys/bus/pci/devices"
ROWS, COLUMNS, BIAS = 4096, 256, 1000
W = tarn.arange(ROWS * COLUMNS, dtype="F32").reshape(ROWS, COLUMNS)
HALF = ROWS // 2


def views_of(rank):
    return {"w": f"[{rank * HALF}:{(rank + 1) * HALF}]",
            "c": f"[:, {rank * COLUMNS // 2}:{(rank + 1) * COLUMNS // 2}]",
            "left": None}


def rank(number, via):
    """A process of a job, with a device."""
    number, seen = int(number), []
    m = tarn.load(PATH, device=f"cuda:{number}", views=views_of(number),
                  via=via, progress=lambda *step: seen.append(step))
    sent = ctypes.CDLL("libcuda.so.1").fakecuda_sent
    sent.restype = ctypes.c_uint64
    mine = slice(number * COLUMNS // 2, (number + 1) * COLUMNS // 2)
    last = seen[-1]
    print(json.dumps({
        "names": sorted(m), "devices": sorted({t.device for t in m.values()}),
        "right": [tarn.equal(m["w"].cpu(), W[number * HALF:][:HALF]),
                  tarn.equal(m["c"].cpu(), W[:, mine]),
                  m["bias"].tolist() == list(range(BIAS))],
        "one": tarn.same_storage(m["w"], m["bias"]),
        "note": m.metadata["note"], "path": m.path,
        "sent": [sent(0), sent(1)], "bytes": sum(t.nbytes for t in m.values()),
        "last": last, "nodes": [tarn.node_of_device("cuda:0"),
                                tarn.node_of_device("cuda:1")],
        "wanted": tarn.node_of_pci(os.environ["FAKECUDA_PCI"])
        if "FAKECUDA_PCI" in os.environ else None, "repr": repr(m).split(" ")[0]}), flush=True)
    sys.stdin.readline()  # until the other one has loaded it, too
    m = None
    gc.collect()


def ranks(via):
    """What two of them say, and how often the daemon has read the file."""
    store, env = tarn.Store(), environment()
    before = store.status()
    started = [subprocess.Popen(
        [sys.executable, __file__, str(n), via], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE) for n in range(2)]
    seen = [json.loads(p.stdout.readline() or "{}") for p in started]
    for p in started:
        p.communicate("\n")
    after = store.status()
    return seen, [p.returncode for p in started], (
        after["loads"] - after["loads_cached"]
        - before["loads"] + before["loads_cached"])


def environment():
    """Of a process that has two devices."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
           "LD_LIBRARY_PATH": ":".join(filter(None, (
               STAND_IN, os.environ.get("LD_LIBRARY_PATH")))),
           "FAKECUDA_DEVICES": "2", "FAKECUDA_READ_ONLY": "1",
           "FAKECUDA_MEMORY": str(10 << 20), "FAKECUDA_LATE": "1000"}
    if os.path.isdir(PCI) and os.listdir(PCI):
        env["FAKECUDA_PCI"] = sorted(os.listdir(PCI))[0]
    return env


def on_devices():
    for via, reads in (("host", 1), ("file", 0)):
        seen, codes, n = ranks(via)
        for number, one in enumerate(seen):
            what = f"via {via}, rank {number}"
            wanted = 2 * HALF * COLUMNS * 4 + BIAS * 8
            kit.equal(one.get("names"), ["bias", "c", "w"],
                      f"{what}: what the views leave out is not there")
            kit.equal((one.get("devices"), one.get("right"), one.get("one")),
                      ([f"cuda:{number}"], [True] * 3, True),
                      f"{what}: its views are on its device, in one piece")
            kit.equal(one.get("sent"), [wanted, 0] if number == 0
                      else [0, wanted],
                      f"{what}: no byte but theirs was sent there")
            kit.equal((one.get("bytes"), one.get("last")),
                      (wanted, [wanted, wanted,
                                "copy" if via == "host" else "read"]),
                      f"{what}: progress counts these bytes")
            kit.equal((one.get("note"), one.get("path"), one.get("repr")),
                      ("of all", PATH, "<tarn.OnDevice"),
                      f"{what}: the file's metadata are there")
        kit.equal(seen[0].get("nodes"), [seen[0].get("wanted"), None],
                  f"via {via}: the node of a device is that of its address")
        kit.equal((n, codes), (reads, [0, 0]),
                  f"via {via}: the daemon reads the file {reads} times for "
                  "both")


def published(number):
    """A rank that copies from what another process has published."""
    near, seen = tarn.Store(), []
    near.node = tarn.node_of_device(f"cuda:{number}")
    m = near.snapshot("m/").to(
        f"cuda:{number}", {"m/w": f"[{HALF}:]", "m/c": None, "m/left": None},
        progress=lambda *step: seen.append(step))
    sent = ctypes.CDLL("libcuda.so.1").fakecuda_sent
    sent.restype = ctypes.c_uint64
    print(json.dumps({"names": sorted(m), "device": m["m/w"].device,
                      "right": tarn.equal(m["m/w"].cpu(), W[HALF:]),
                      "sent": sent(number), "last": seen[-1]}))


def of_a_snapshot():
    tarn.load(PATH, "m")
    m = tarn.default_store().snapshot("m/")
    found = m.to("cpu", {"m/w": "[:, 1]"})
    kit.equal((sorted(found), found["m/w"].strides,
               tarn.same_storage(found["m/w"], m["m/w"])),
              (["m/bias", "m/c", "m/left", "m/w"], (COLUMNS,), True),
              "views of a snapshot on the host are views")
    if not os.path.exists(STAND_IN + "/libcuda.so.1"):
        kit.skipped("a snapshot's parts on a device",
                    "tarn was built without CUDA")
        return
    ran = subprocess.run([sys.executable, __file__, "1", "published"],
                         env=environment(), stdout=subprocess.PIPE,
                         text=True, check=False)
    wanted = HALF * COLUMNS * 4 + BIAS * 8
    kit.equal((ran.returncode, json.loads(ran.stdout or "{}")),
              (0, {"names": ["m/bias", "m/w"], "device": "cuda:1",
                   "right": True, "sent": wanted,
                   "last": [wanted, wanted]}),
              "a snapshot's parts are copied to a device, and nothing else")
    for name in found:
        tarn.Store().remove(name)


def on_the_host():
    m = tarn.load(PATH, views={"w": "[:, 0]", "left": None})
    kit.equal((type(m).__name__, sorted(m), m["w"].shape, m["w"].strides),
              ("Parts", ["bias", "c", "w"], (ROWS,), (COLUMNS,)),
              "without a device the views are of shared memory")
    kit.ok(tarn.same_storage(m["w"], tarn.load(PATH)["w"]),
           "which nobody copies")
    m = tarn.load(PATH, views=lambda name, t:
                  t[1] if name == "w" else "[::2]" if name == "bias" else None)
    kit.equal((sorted(m), m["w"].tolist(), m["bias"].shape),
              (["bias", "w"], W[1].tolist(), (BIAS // 2,)),
              "a function chooses by the name and the tensor")
    kit.equal(m.metadata["note"], "of all", "they have the file's metadata")
    kit.raises(KeyError, "no tensor 'x'", "a view of no tensor is refused",
               tarn.load, PATH, views={"x": "[0]"})
    kit.raises(IndexError, "views: 'w': ", "a view that is none is refused "
               "with its tensor's name", tarn.load, PATH,
               views={"w": "[99999]"})
    kit.raises(TypeError, "not int", "a number is no view", tarn.load, PATH,
               views={"w": 1})
    kit.raises(TypeError, "not list", "a list is not views", tarn.load, PATH,
               views=["w"])
    kit.raises(ValueError, "'file' or 'host', not 'disk'",
               "another way is refused", tarn.load, PATH, via="disk")


def by_torch():
    try:
        import tarn.torch
    except ImportError:
        kit.skipped("parts as tensors of PyTorch's", "torch is not installed")
        return
    found = tarn.torch.load_file(PATH, views={"w": "[1:3]", "left": None})
    kit.equal((sorted(found), found["w"].tolist()),
              (["bias", "c", "w"], W[1:3].tolist()),
              "load_file of tarn.torch takes views, too")


if len(sys.argv) > 1:
    if sys.argv[2] == "published":
        published(int(sys.argv[1]))
    else:
        rank(*sys.argv[1:])
    tarn._store._default = None
    gc.collect()
    sys.exit(0)
daemon = kit.start_daemon(os.environ["TMPDIR"] + "/d")
tarn.save(PATH, {"w": W, "c": W, "left": tarn.zeros((1 << 20,)),
                 "bias": tarn.arange(BIAS, dtype="I64")}, {"note": "of all"})
time.sleep(2.1)  # a younger file is not kept where times are coarse
if os.path.exists(STAND_IN + "/libcuda.so.1"):
    on_devices()
else:
    kit.skipped("parts on devices", "tarn was built without CUDA")
on_the_host()
by_torch()
of_a_snapshot()
tarn._store._default = None
gc.collect()
os.unlink(PATH)
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
sys.exit(kit.finish())
