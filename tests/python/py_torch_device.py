#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's side of tensors on GPUs, as far as it can be seen without one: what
is refused and how, memory of PyTorch's that files are read into, and batches
that are asked for one ahead, through a mover that only notes its calls."""
import contextlib
import os
import sys
from unittest import mock

import py_kit as kit
from tap import equal, finish, ok, raises, skip_all, skipped

try:
    import torch
except ImportError:
    skip_all("there is no PyTorch")

import tarn
import tarn.torch
from tarn import _saving
from tarn.torch import ahead, devices

PATH = os.environ["TMPDIR"] + "/m.safetensors"


def refused():
    if torch.cuda.is_available():
        skipped("CUDA is refused where PyTorch has none", "it has")
        return
    for what, call in (
            ("load_file", lambda: tarn.torch.load_file(PATH, "cuda:0")),
            ("load", lambda: tarn.torch.load(b"", device="cuda")),
            ("safe_open", lambda: tarn.safe_open(PATH, "pt", "cuda:0")),
            ("DataLoader",
             lambda: tarn.torch.DataLoader([1, 2], device="cuda")),
            ("DataLoader",
             lambda: tarn.torch.adopt(torch.utils.data.DataLoader([1, 2]),
                                      device="cuda"))):
        raises(RuntimeError, f"{what}: device is cuda",
               f"{what} says that there is no CUDA", call)
    ok(not devices.is_reached(torch.device("cpu")), "the CPU is no device")


def taken():
    """Into PyTorch's memory."""
    for name in tarn.dtypes:
        t = tarn.tensor([[0, 1, 0, 1], [1, 0, 1, 1]]).to(name) \
            if name != "F8_E8M0" else tarn.ones((2, 4), name)
        if name.startswith("F6") or (
                name == "F4" and not hasattr(torch, "float4_e2m1fn_x2")):
            continue
        try:
            wanted = t.torch()
        except ValueError as e:
            skipped(f"{name} is read into PyTorch's memory", str(e))
            continue
        got = devices.take(t, torch.device("cpu"))
        ok(got.dtype == wanted.dtype and got.shape == wanted.shape and
           got.view(torch.uint8).equal(wanted.contiguous().view(torch.uint8)),
           f"{name} is read into PyTorch's memory", got, wanted)
    tarn.save(PATH, {"w": tarn.arange(1000, dtype="F32")})
    part = tarn.open(PATH, map=False)["w"][10:20]
    ok(devices.take(part, "cpu").equal(torch.arange(10.0, 20.0)),
       "a part of a file is, too")


def prefetched():
    tarn.save(PATH, {"a": tarn.arange(100_000, dtype="F32"),
                     "b": tarn.arange(8, dtype="I64")})
    for framework in ("pt", "np"):
        with tarn.safe_open(PATH, framework) as f:
            f.prefetch({"a": (slice(0, 50_000, 7),), "b": None})
            equal(f.get_tensor("a").tolist(),
                  list(map(float, range(0, 50_000, 7))),
                  f"a part is prefetched for {framework}")
            equal(f.get_tensor("b").tolist(), list(range(8)), "and the rest")
            f.prefetch({"b": torch.tensor([1, 3]) if framework == "pt" else
                        [1, 3]})
            equal(f.get_tensor("b").tolist(), [1, 3],
                  "by the framework's own keys, too")
            f.prefetch({"b": (0, 0, 0)})
            raises(Exception, "", "a bad key is raised by get_tensor",
                   f.get_tensor, "b")


# ---- batches one ahead ----


class Mover:
    """As ahead.Mover, of numbers."""

    def __init__(self):
        self.calls = []

    def start(self, data):
        self.calls.append(("start", data[0].item()))
        return data

    def finish(self, started):
        self.calls.append(("finish", started[0].item()))
        return started


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 4:
            raise KeyError("four")
        return torch.tensor(i)


def loader_of(workers, **keywords):
    """A loader that believes it has a device."""
    loader = tarn.torch.DataLoader(Numbers(), batch_size=1,
                                   num_workers=workers, **keywords)
    mover = Mover()
    loader.device = torch.device("cpu")
    ahead_of = tarn.torch.loader.Mover
    tarn.torch.loader.Mover = lambda device: mover
    try:
        return loader, iter(loader), mover
    finally:
        tarn.torch.loader.Mover = ahead_of


def batches(workers):
    loader, batches, mover = loader_of(workers)
    seen, states = [], []
    while True:
        try:
            seen.append(next(batches)[0].item())
        except KeyError:
            seen.append("error")
        except StopIteration:
            break
        states.append(loader.state_dict()["position"])
    equal(seen, [0, 1, 2, 3, "error", 5],
          f"batches and errors come in their order, {workers} workers")
    equal(states, [1, 2, 3, 4, 5, 6],
          "the loader's state is that of the batch which was given")
    ok(loader.state_dict()["position"] == 0, "and afterwards that of the end")
    first = mover.calls[:3]
    equal(first, [("start", 0), ("start", 1), ("finish", 0)] if workers else
          [("start", 0), ("finish", 0), ("start", 1)],
          "one is on its way ahead" if workers else
          "without workers none is asked for ahead")


def epochs():
    """Of workers that stay: an epoch that was left, and another."""
    loader, batches, _ = loader_of(1, persistent_workers=True)
    next(batches)
    del batches
    loader.device = None
    equal([b[0].item() for b, _ in zip(loader, range(3))], [0, 1, 2],
          "the next epoch begins at its beginning")


def resumed():
    loader, batches, _ = loader_of(2)
    for _ in range(2):
        next(batches)
    state = loader.state_dict()
    del batches
    other = tarn.torch.DataLoader(Numbers(), batch_size=1, num_workers=2)
    other.load_state_dict(state)
    equal(next(iter(other))[0].item(), 2,
          "a loader goes on behind the batch that was given")


class Fake:
    """torch.cuda's streams and events, which note what is done."""

    def __init__(self, calls, name):
        self.calls, self.name, self.done = calls, name, False

    def record_event(self):
        self.calls.append(f"record {self.name}")
        return Fake(self.calls, f"event of {self.name}")

    def wait_event(self, event):
        self.calls.append(f"{self.name} waits for {event.name}")

    def query(self):
        return self.done

    def synchronize(self):
        self.calls.append(f"synchronize {self.name}")


class Recorded(torch.Tensor):
    calls = []

    def record_stream(self, stream):
        self.calls.append(f"used in {stream.name}")


def mover():
    calls = Recorded.calls
    side, user = Fake(calls, "side"), Fake(calls, "user")
    with mock.patch.multiple(
            torch.cuda, Stream=lambda device: side,
            stream=lambda stream: contextlib.nullcontext(),
            current_stream=lambda device: user):
        m = ahead.Mover(torch.device("cpu"))
        first = m.start({"x": torch.ones(2).as_subclass(Recorded), "n": 1})
        equal(m.finish(first)["n"], 1, "what is no tensor goes as it is")
        equal(calls, ["record side", "user waits for event of side",
                      "used in user"],
              "the user's stream waits, and the allocator knows of it")
        calls.clear()
        first[1].done = False
        m.start([torch.ones(1)])
        m.start([torch.ones(1)])
        equal(calls, ["record side", "synchronize event of side",
                      "record side"], "at most two sources are held")
        ok(len(m._sources) == 2, "while their copies are under way")
        for event, _ in m._sources:
            event.done = True
        m.start([torch.ones(1)])
        ok(len(m._sources) == 1, "and none whose copy is done", m._sources)


def guarded():
    """A tensor of another device than the current one, which PyTorch does not
    export."""
    entered = []

    class There(torch.Tensor):
        is_cuda = True
        __torch_function__ = torch._C._disabled_torch_function_impl

        def detach(self):
            return self

        def resolve_neg(self):
            return self

    @contextlib.contextmanager
    def device(one):
        entered.append(one)
        yield

    there = torch.arange(4, dtype=torch.float32).as_subclass(There)
    with mock.patch.object(torch.cuda, "device", device):
        equal(tarn.from_numpy(there).tolist(), [0, 1, 2, 3],
              "a tensor of PyTorch's comes in")
    equal(entered, [there.device], "while its device is the current one")


class Elsewhere(torch.Tensor):
    """On a device, as far as it says itself; it counts how often it is brought to
    the host by a copy of its own."""

    brought = 0
    device = torch.device("cuda", 0)

    def cpu(self):
        Elsewhere.brought += 1
        return self.as_subclass(torch.Tensor).clone()


def save_elsewhere(state):
    there = {n: t.as_subclass(Elsewhere) for n, t in state.items()}
    return tarn.torch.save_file(there, PATH, background=True)


def saved_in_background():
    """A save copies from the device once, to the memory that it has kept."""
    state = {"w": torch.arange(1000.), "b": torch.ones(3).bfloat16(),
             "t": torch.arange(6).reshape(2, 3).T, "none": torch.zeros(0, 3),
             "flag": torch.tensor(True),
             "cj": torch.tensor([1 + 2j, 3 - 4j]).conj()}
    pair = getattr(torch, "float4_e2m1fn_x2", None)
    if pair is not None:
        state["f4"] = torch.arange(6, dtype=torch.uint8).reshape(2, 3).view(
            pair)

    def same():
        found = tarn.torch.load_file(PATH)
        return [n for n, t in state.items() if found[n].dtype != t.dtype or
                found[n].shape != t.shape or
                not found[n].contiguous().reshape(-1).view(torch.uint8).equal(
                    t.resolve_conj().contiguous().reshape(-1).view(
                        torch.uint8))]

    save_elsewhere(state).wait()
    equal(same(), [], "what is on a device is saved in the background")
    kept = _saving._spare._places[4000][0]
    state["w"] = state["w"] + 1
    saving = save_elsewhere(state)
    saving.wait()
    equal(same(), [], "and so is what it is later")
    ok(any(tarn.same_storage(kept, t) for t in _saving._spare._places[4000]),
       "straight to the memory that the save before it has left")
    equal(Elsewhere.brought, 0, "no other copy of it is made")
    tarn.torch.save_file({"w": state["w"].as_subclass(Elsewhere)}, PATH)
    equal((Elsewhere.brought, tarn.open(PATH)["w"].tolist()[:2]), (1, [1, 2]),
          "a save that is waited for brings it to the host")


class Pair(tuple):
    _fields = ("x", "y")

    def __new__(cls, x, y):
        return super().__new__(cls, (x, y))


def nested():
    batch = {"a": torch.ones(2), "b": [Pair(torch.ones(1), "text"), 3]}
    out = ahead.each_tensor(batch, lambda t: t * 2)
    equal((out["a"].tolist(), type(out["b"][0]), out["b"][0][0].tolist(),
           out["b"][0][1], out["b"][1]),
          ([2, 2], Pair, [2], "text", 3), "tensors in any nesting are moved")
    ok(ahead.each_tensor(batch, lambda t: t) is batch,
       "what is there already stays itself")


daemon = kit.start_daemon(os.environ["TMPDIR"] + "/d")
try:
    tarn.save(PATH, {"w": tarn.arange(10)})
    refused()
    taken()
    prefetched()
    batches(0)
    batches(2)
    epochs()
    resumed()
    mover()
    guarded()
    saved_in_background()
    nested()
finally:
    daemon.terminate()
    daemon.wait()
    os.unlink(PATH)
sys.exit(finish())
