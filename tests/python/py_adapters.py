#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The adapters in examples/ for SGLang and vLLM, from end to end: processes
that export weights, die and are replaced, workers that load one checkpoint,
and a trainer whose rounds reach all workers. With tensors of PyTorch's where
it is installed; with those of a stand-in on the host and on a device, for
which the driver has a stand-in, too. Each process is this script again."""
import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import py_kit as kit

STAND_IN = os.path.realpath(os.environ.get("top_builddir", ".") +
                            "/tests/fakecuda/.libs")
EXAMPLES = os.environ["top_srcdir"] + "/examples"
TMP = os.environ["TMPDIR"]

import engine_interfaces as interfaces
import tarn

# ---- the processes ----------------------------------------------------


def get_torch(kind):
    if kind == "stand-in":
        import torch_stand_in
        return torch_stand_in.install()
    import torch
    torch.set_grad_enabled(False)
    if not hasattr(torch.Tensor, "untyped_storage"):  # before 2.0
        torch.Tensor.untyped_storage = lambda t: t.storage().untyped()
    return torch


def get_adapter(name, parts):
    """An example as a module, over the package itself if it is there: that
    needs PyTorch itself."""
    if kind == "stand-in" or not interfaces.is_there(parts):
        interfaces.install(parts)
    elif parts is interfaces.PARTS_VLLM:  # whose models are not made here
        name_of = interfaces.LOADER + ".reload"
        vars(importlib.import_module(name_of)).update(parts[name_of])
    sys.path.insert(0, EXAMPLES)
    return importlib.import_module(name)


def tell(**what):
    print(json.dumps(what), flush=True)


def values(tensors):
    return {name: t.tolist() for name, t in tensors.items()}


def weights(factor):
    """What SGLang's daemon exports: two tied names, a view, a buffer."""
    w = torch.tensor([[1. * factor, 2], [3, 4]], device=device)
    bias = torch.tensor([0.5, factor], dtype=torch.bfloat16, device=device)
    return {"wte": (w, True), "lm_head": (w, True), "row": (w[1], True),
            "bias": (bias, True),
            "cache": (torch.tensor([7, 8, 9], dtype=torch.int64,
                                   device=device), False)}


def export(fd, factor, stale):
    """SGLang's daemon."""
    adapter = get_adapter("sglang_weight_cache", interfaces.PARTS_SGLANG)
    adapter.GROUP = 8  # so that there are several
    adapter.install()
    state = weights(float(factor))
    backend = adapter.transport.choose_daemon_transport_backend(state)
    entries = backend.prepare_export(state)
    freed = all(t.untyped_storage().nbytes() == 0 for t, _ in state.values())
    if stale == "stale":
        backend.prepare_export(weights(5.))
    with socket.socket(fileno=int(fd)) as sock:
        asked = sys.modules[interfaces.SGLANG + ".protocol"].recv_msg(sock)
        backend.send_fetch_state_response(
            sock, config=asked["config"], entries=entries, pid=os.getpid(),
            preloaded_weights_bytes=12)
        tell(backend=type(backend).__name__, freed=freed,
             odd=backend.can_export_state(
                 {**state, "x": (SimpleNamespace(device="odd"), True)}))
        signal.pause()


def engine(fd):
    """SGLang's engine."""
    adapter = get_adapter("sglang_weight_cache", interfaces.PARTS_SGLANG)
    protocol = sys.modules[interfaces.SGLANG + ".protocol"]
    adapter.install()
    with socket.socket(fileno=int(fd)) as sock:
        protocol.send_msg(sock, {"type": "fetch_state", "config": {"tp": 1}})
        result = protocol.recv_msg(sock)
        backend = adapter.transport.get_client_transport_backend(
            result["transport_backend"])
        try:
            result = backend.recv_fetch_state_response(sock, result)
        except RuntimeError as e:
            tell(error=str(e))
            return
    found = {name: backend.import_tensor(entry)
             for name, entry in result["entries"].items()}
    entry = dict(result["entries"]["wte"], shape=[4])
    with contextlib.suppress(RuntimeError):
        backend.import_tensor(entry)
        entry = None
    tell(ready=True)
    sys.stdin.readline()  # until the daemon is dead
    tell(values=values(found), pid=result["pid"], config=result["config"],
         bytes=result["preloaded_weights_bytes"],
         params=[e["is_param"] for e in result["entries"].values()],
         dtypes=[e["dtype"] for e in result["entries"].values()],
         device=str(found["wte"].device), refused=entry is not None,
         tied=found["wte"].data_ptr() == found["lm_head"].data_ptr())


class Model:
    """A rank's part of a model: half of the rows of each tensor."""

    def __init__(self, rank, shapes):
        self.rank, self.reloads, self.given = rank, [], {}
        self.parameters = {name: torch.tensor([[0.] * 3] * (rows // 2),
                                              device=device)
                           for name, rows in shapes.items()}

    def named_parameters(self):
        return self.parameters.items()

    def load_weights(self, weights):
        done = set()
        for name, t in weights:
            own, rows = self.parameters[name], t.shape[0] // 2
            self.given[name] = t
            own.copy_(t[self.rank * rows:(self.rank + 1) * rows])
            done.add(name)
        return done

    def values(self):
        return values(self.parameters)


def load(rank, folder, extra, shapes):
    """A worker of vLLM's that starts."""
    get_adapter("vllm_loader", interfaces.PARTS_VLLM)
    given = sys.modules["vllm.config.load"].LoadConfig(
        load_format="tarn", model_loader_extra_config=json.loads(extra))
    config = SimpleNamespace(model=folder, revision=None, quantization=None)
    model = Model(int(rank), json.loads(shapes))
    get = sys.modules[interfaces.LOADER].get_model_loader
    try:
        loader = get(given)
        loader.download_model(config)
        loader.load_weights(model, config)
    except (ValueError, OSError) as e:
        tell(error=str(e))
        return
    tell(values=model.values())


def worker(rank, *_):
    """A worker of vLLM's while a trainer is at work."""
    get_adapter("vllm_weight_transfer", interfaces.PARTS_VLLM)
    model = Model(int(rank), {"a": 4, "b": 2})
    vllm = SimpleNamespace(parallel_config=None, model_config=None)
    factory = sys.modules[interfaces.TRANSFER + ".factory"]
    engine = factory.WeightTransferEngineFactory.create_engine(
        SimpleNamespace(backend="tarn"), vllm, device, model)
    first = None
    for line in sys.stdin:
        call, info = json.loads(line)
        try:
            if call == "init":
                engine.init_transfer_engine(engine.parse_init_info(info))
            elif call == "update":
                engine.update_weights(info)
                first = first or dict(model.given)
            elif call == "start":
                engine.start_weight_update()
            else:
                engine.finish_weight_update()
        except ValueError as e:
            tell(error=str(e))
            continue
        tell(values=model.values(), reloads=model.reloads,
             first=first and values(first))
    engine.shutdown()


class Client:
    """Of vLLM's control plane, as one over HTTP is: all that it carries is
    JSON."""

    def __init__(self, n):
        self.workers = [start("worker", rank) for rank in range(n)]
        self.intrude, self.seen = None, []

    def _all(self, call, info=None):
        for w in self.workers:
            print(json.dumps([call, info]), file=w.stdin, flush=True)
        self.seen = [told(w) for w in self.workers]

    def init_weight_transfer_engine(self, init_info):
        self._all("init", init_info)

    def start_weight_update(self):
        self._all("start")

    def update_weights(self, update_info):
        if self.intrude:
            self.intrude.publish("policy/a", tarn.zeros((4, 3)))
        self._all("update", update_info)
        self.updates = self.seen

    def finish_weight_update(self, weight_version=None):
        self._all("finish")


class Source:
    """Of weights that a round changes. The first one has one more."""
    step = 0

    def iter_full(self):
        self.step += 1
        yield "a", torch.tensor([[self.step * 10. + i] * 3 for i in range(4)],
                                device=device)
        yield "b", torch.tensor([[-1. * self.step] * 3] * 2, device=device)


MANY = 70  # tensors


class Many:
    """More tensors than a publication has storages."""

    def iter_full(self):
        for i in range(MANY):
            t = tarn.zeros((512, 1024))
            t[511, 1023] = i
            yield str(i), SimpleNamespace(detach=lambda t=t: t)


class Quiet:
    """A client of no workers."""

    def __getattr__(self, name):
        return lambda *_: None


def train_many(adapter, init, place):
    engine = init(adapter.TarnTrainerInitInfo(
        rank=0, prefix="many", device=place), client=Quiet(), source=Many())
    engine.send_weights()
    found = engine.store.snapshot("many/")
    wrong = [i for i in range(MANY)
             if found[f"many/{i}"][511].tolist()[1023] != i]
    engine.store.publish({}, replace="many/")
    tell(many=len(found), wrong=wrong)


def train(*_):
    adapter = get_adapter("vllm_weight_transfer", interfaces.PARTS_VLLM)
    init = sys.modules[interfaces.TRANSFER + ".factory"] \
        .WeightTransferTrainerFactory.trainer_init
    place = None if device == "cpu" else device
    client, source, other = Client(2), Source(), Source()
    try:
        init(adapter.TarnTrainerInitInfo(rank=0), client=client)
    except ValueError as e:
        tell(refused=str(e))
    first = init(adapter.TarnTrainerInitInfo(rank=0, device=place),
                 client=client, source=source)
    second = init(adapter.TarnTrainerInitInfo(rank=1), client=client,
                  source=other)
    second.send_weights()
    tell(iterated=other.step, published=sorted(first.store.snapshot("policy/")))
    first.store.publish("policy/left", tarn.zeros(3))
    for _ in range(2):
        first.send_weights()
        tell(updates=client.updates, workers=client.seen,
             names=sorted(first.store.keys()))
    client.intrude = tarn.Store()
    first.send_weights()
    tell(updates=client.updates)
    client.intrude = None
    if device == "cpu":
        train_many(adapter, init, place)
    tell(codes=[end(w) for w in client.workers])


def read(name):
    t = tarn.Store()[name]
    tell(device=t.device, values=t.tolist())


# ---- the test ---------------------------------------------------------


def start(role, *arguments, fds=()):
    return subprocess.Popen(
        [sys.executable, __file__, kind, device, role,
         *map(str, arguments)], pass_fds=fds, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def told(process):
    line = process.stdout.readline()
    return json.loads(line) if line else {}


def end(process):
    process.communicate(timeout=600)
    return process.returncode


def exported(factor, stale="", meanwhile=lambda: None):
    """A daemon of SGLang's and an engine, after whose import the daemon is
    killed; what each of them says."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        daemon = start("export", ours.fileno(), factor, stale,
                       fds=[ours.fileno()])
        client = start("engine", theirs.fileno(), fds=[theirs.fileno()])
    seen, answer = told(daemon), told(client)
    daemon.kill()
    daemon.communicate()
    meanwhile()
    if "ready" in answer:
        print(file=client.stdin, flush=True)
        answer = told(client)
    return seen, answer, end(client)


def sglang(what):
    again = []
    seen, answer, code = exported(
        1, meanwhile=lambda: again.append(exported(2)))
    kit.equal(seen, {"backend": "TarnTransportBackend", "freed": True,
                     "odd": False},
              f"{what}: SGLang's daemon chooses tarn, and frees its own copy")
    wanted = {"wte": [[1, 2], [3, 4]], "lm_head": [[1, 2], [3, 4]],
              "row": [3, 4], "bias": [.5, 1], "cache": [7, 8, 9]}
    kit.equal(answer, {
        "values": wanted, "pid": None, "config": {"tp": 1}, "bytes": 12,
        "params": [True] * 4 + [False], "refused": True,
        "dtypes": ["float32"] * 3 + ["bfloat16", "int64"],
        "device": device, "tied": device != "cpu"},
        f"{what}: the engine has its weights after the daemon was killed, and "
        "another has exported others")
    _, newer, other = again[0]
    kit.equal(newer.get("values", {}).get("wte"), [[2, 2], [3, 4]],
              f"{what}: an engine of the next daemon has the next weights")
    kit.equal((code, other), (0, 0), f"{what}: the engines end in order")
    _, answer, _ = exported(3, "stale")
    kit.ok("another daemon has exported" in answer.get("error", ""),
           f"{what}: what was replaced before it was opened is refused",
           answer)


A = [[float(3 * i + j) for j in range(3)] for i in range(4)]
B = [[1., 2, 3], [4, 5, 6]]


def checkpoint():
    folder = f"{TMP}/model"
    os.makedirs(folder, exist_ok=True)
    tarn.save(f"{folder}/part-1.safetensors", {"a": tarn.tensor(A)})
    tarn.save(f"{folder}/part-2.safetensors", {"b": tarn.tensor(B)})
    tarn.save(f"{folder}/consolidated.safetensors", {"c": tarn.zeros(3)})
    with open(f"{folder}/model.safetensors.index.json", "w",
              encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": {
            "a": "part-1.safetensors", "b": "part-2.safetensors"}}, f)
    return folder


def load_in(folder, ranks, extra=None, shapes=None):
    workers = [start("load", rank, folder, json.dumps(extra or {}),
                     json.dumps(shapes or {"a": 4, "b": 2}))
               for rank in ranks]
    return [(told(w), end(w)) for w in workers]


def reads(store):
    seen = store.status()
    return seen["loads"] - seen["loads_cached"]


def vllm_loader(what, store):
    folder = checkpoint()
    before = reads(store)
    time.sleep(2.1)  # a younger file is not kept where times are coarse
    answers = load_in(folder, (0, 1, 0, 1))
    for rank, answer in zip((0, 1, 0, 1), answers):
        kit.equal(answer, ({"values": {"a": A[2 * rank:2 * rank + 2],
                                       "b": B[rank:rank + 1]}}, 0),
                  f"{what}: rank {rank} has its part of the checkpoint")
    kit.equal(reads(store) - before, 2,
              f"{what}: the two files are read once for all workers")
    load_in(folder, (0, 1))
    kit.equal(reads(store) - before, 2, f"{what}: and by no later engine")
    os.unlink(f"{folder}/model.safetensors.index.json")
    kit.equal(load_in(folder, (1,))[0][0].get("values", {}).get("b"), B[1:],
              f"{what}: without an index its files are taken")
    for part, extra, shapes, at in (
            ("lacks 1 of", {}, {"a": 4, "b": 2, "d": 2}, folder),
            ("not sockets", {"sockets": 1}, None, folder),
            ("no file", {}, None, TMP),
            ("no network", {}, None, "someone/model")):
        answer = load_in(at, (0,), extra, shapes)[0][0]
        kit.ok(part in answer.get("error", ""), f"{what}: {part!r} is said of "
               "what is wrong", answer)


def rows(step, rank):
    return {"a": [[step * 10. + 2 * rank + i] * 3 for i in range(2)],
            "b": [[-1. * step] * 3]}


def whole(step):
    return {"a": [[step * 10. + i] * 3 for i in range(4)],
            "b": [[-1. * step] * 3] * 2}


def vllm_transfer(what, store):
    trainer = start("train")
    kit.ok("needs a source" in told(trainer).get("refused", ""),
           f"{what}: a trainer without a source is refused")
    kit.equal(told(trainer), {"iterated": 1, "published": []},
              f"{what}: a rank that does not send takes part in the rest")
    for step in (1, 2):
        told_of = told(trainer)
        for rank in range(2):
            kit.equal(told_of["updates"][rank]["values"], rows(step, rank),
                      f"{what}: worker {rank} has its part of round {step}")
            kit.equal(told_of["workers"][rank]["reloads"],
                      ["begin", "end"] * step,
                      f"{what}: round {step} is one reload there")
            kit.equal(told_of["workers"][rank]["first"], whole(1),
                      f"{what}: what it holds of round 1 stays as it was")
        kit.equal([n for n in told_of["names"] if n.startswith("policy/")],
                  ["policy/a", "policy/b"],
                  f"{what}: a round leaves its own names, and no others")
    for answer in told(trainer)["updates"]:
        kit.ok("another one publishes below policy/" in
               answer.get("error", ""),
               f"{what}: a version that the trainer has not sent is refused",
               answer)
    if device == "cpu":
        kit.equal(told(trainer), {"many": MANY, "wrong": []},
                  f"{what}: many tensors are in few storages")
    kit.equal((told(trainer), end(trainer)), ({"codes": [0, 0]}, 0),
              f"{what}: all of them end in order")
    reader = start("read", "policy/b")
    kit.equal((told(reader), end(reader)),
              ({"device": device, "values": whole(3)["b"]}, 0),
              f"{what}: the weights are there after the trainer's end")
    store.remove("policy/a")
    store.remove("policy/b")


def kinds():
    yield "stand-in", "cpu"
    if os.path.exists(STAND_IN + "/libcuda.so.1"):
        yield "stand-in", "cuda:0"
    else:
        kit.skipped("tensors on a device", "tarn was built without CUDA")
    try:
        import torch
    except ImportError:
        kit.skipped("tensors of PyTorch's", "torch is not installed")
    else:
        yield "torch", "cpu"


def main():
    global kind, device
    daemon = kit.start_daemon(f"{TMP}/d")
    os.environ.update(
        FAKECUDA_DEVICES="1", FAKECUDA_READ_ONLY="1", FAKECUDA_LATE="1000",
        LD_LIBRARY_PATH=":".join(filter(None, (
            STAND_IN, os.environ.get("LD_LIBRARY_PATH")))))
    os.execv if False else None
    for kind, device in kinds():
        what = f"{kind} on {device}"
        store = tarn.Store()
        sglang(what)
        vllm_loader(what, store)
        vllm_transfer(what, store)
        del store
    gc.collect()
    shutil.rmtree(f"{TMP}/model")
    daemon.terminate()
    kit.equal(daemon.wait(), 0, "the daemon ends without error")
    return kit.finish()


if len(sys.argv) > 1:
    kind, device, role = sys.argv[1:4]
    torch = get_torch(kind)
    {"export": export, "engine": engine, "load": load, "worker": worker,
     "train": train, "read": read}[role](*sys.argv[4:])
    gc.collect()
else:
    sys.exit(main())
