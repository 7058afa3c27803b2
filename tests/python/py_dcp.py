#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint over the store: what is saved is loaded, by any
number of ranks; a failed save leaves the older checkpoint; what the store has
is not trusted."""
import io
import json
import os
import pickle
import sys
import threading
import warnings

import py_kit as kit

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_loader import (
        _load_state_dict_from_keys)
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed (python3-torch)")
if not dist.is_available():
    kit.skip_all("this torch has no torch.distributed")
import tarn
from py_dcp_kit import (
    be_rank, check_sharded, run_ranks, same, sharded_state, state_of)
from tarn import _saving
from tarn.torch import dcp_metadata
from tarn.torch.dcp import TarnReader, TarnWriter

warnings.simplefilter("ignore")  # torch tells of a save by one process
tmp = os.environ["TMPDIR"]


# ---- ranks, each a process that runs this file ----


def rank_saves():
    dcp.save(sharded_state(), checkpoint_id="sharded",
             storage_writer=TarnWriter())
    rank = dist.get_rank()
    dcp.save({f"{rank}.{i}": torch.full((2,), float(i)) for i in range(40)},
             checkpoint_id="small", storage_writer=TarnWriter())
    state = {**sharded_state(), "same": torch.ones(1000)}
    ended(dcp.async_save(state, checkpoint_id="copies",
                         storage_writer=TarnWriter()))
    free = sum(t.nbytes for ts in _saving._spare._places.values() for t in ts)
    held = sum(getattr(t, "_local_tensor", t).nbytes for t in state.values()
               if isinstance(t, torch.Tensor))
    assert free == held, (free, held)


def rank_loads():
    check_sharded(lambda state: dcp.load(
        state, checkpoint_id="sharded", storage_reader=TarnReader()))


def rank_fails():
    """The last rank cannot say what it has."""
    state = {"mine": torch.ones(3), "step": 8}
    planner = Failing() if dist.get_rank() else dcp.DefaultSavePlanner()
    try:
        dcp.save(state, checkpoint_id="sharded", planner=planner,
                 storage_writer=TarnWriter())
    except dcp.api.CheckpointException:
        return
    raise AssertionError("a save of a rank that fails went well")


class Failing(dcp.DefaultSavePlanner):
    """It fails at the first that it is to write."""

    def resolve_data(self, write_item):
        raise RuntimeError("out of order")


class Empty(dcp.DefaultSavePlanner):
    """What is no tensor has no bytes."""

    def resolve_data(self, write_item):
        found = super().resolve_data(write_item)
        return io.BytesIO() if isinstance(found, io.BytesIO) else found


class FailingLate(Failing):
    """It fails at the second."""

    seen = 0

    def resolve_data(self, write_item):
        self.seen += 1
        if self.seen == 2:
            raise RuntimeError("out of order")
        return dcp.DefaultSavePlanner.resolve_data(self, write_item)


# ---- one process ----


def ended(future):
    """Waits for an async_save."""
    getattr(future, "upload_completion", future).result()


def loaded(name, **options):
    state = state_of(0)
    dcp.load(state, checkpoint_id=name,
             storage_reader=TarnReader(**options))
    return state


def saves(store):
    dcp.save(state_of(1), checkpoint_id="run/1", storage_writer=TarnWriter())
    kit.ok(same(loaded("run/1"), state_of(1)), "what is saved is loaded")
    kit.equal(store["run/1/net.w"].tolist(),
              state_of(1)["net"]["w"].tolist(),
              "a tensor of a checkpoint has its name in the store")
    kit.ok(same(_load_state_dict_from_keys(
        storage_reader=TarnReader("run/1")), state_of(1)),
        "a state dict is made of the checkpoint alone")
    dcp.save({"net": {"w": torch.ones(1)}}, storage_writer=TarnWriter("run/1/",
             store=store))
    kit.equal(sorted(store.snapshot("run/1/")),
              ["run/1/@metadata", "run/1/net.w"],
              "an older checkpoint's names are gone, and so are a save's own")
    reader = TarnReader("run/1")
    reader.read_metadata()
    dcp.save(state_of(3), checkpoint_id="run/1", storage_writer=TarnWriter())
    kit.equal(reader._found["run/1/net.w"].tolist(), [1.],
              "a reader keeps the checkpoint that it opened")


def saves_many(store):
    """As a model has, each with memory of its own. 64 can be published at once."""
    for n in 62, 63, 64, 65:
        state = {f"{i}": torch.full((5,), float(i)) for i in range(n)}
        dcp.save(state, checkpoint_id="many", storage_writer=TarnWriter())
        found = {n: torch.zeros_like(t) for n, t in state.items()}
        dcp.load(found, checkpoint_id="many", storage_reader=TarnReader())
        kit.ok(same(found, state), f"{n} small tensors are saved and loaded")
    state = {f"layer.{i}": torch.full((i % 7, 3), float(i)) for i in range(500)}
    dcp.save(state, checkpoint_id="many", storage_writer=TarnWriter())
    found = {n: torch.zeros_like(t) for n, t in state.items()}
    dcp.load(found, checkpoint_id="many", storage_reader=TarnReader())
    kit.ok(same(found, state), "500 tensors are saved and loaded")
    store.publish({}, replace="many/")


def saves_odd(store):
    """Tensors of which two elements are a byte, and objects of no bytes."""
    half = getattr(torch, "float4_e2m1fn_x2", None)
    if half is None:
        kit.skipped("tensors of F4 are saved and loaded", "torch has no F4")
    else:
        x = torch.arange(6, dtype=torch.uint8).reshape(2, 3)
        dcp.save({"x": x.view(half)}, checkpoint_id="odd",
                 storage_writer=TarnWriter())
        found = {"x": torch.zeros_like(x).view(half)}
        dcp.load(found, checkpoint_id="odd", storage_reader=TarnReader())
        kit.ok(same(found["x"].view(torch.uint8), x),
               "tensors of F4 are saved and loaded")
    dcp.save({"x": torch.ones(3), "n": 7}, checkpoint_id="odd", planner=Empty(),
             storage_writer=TarnWriter())
    kit.equal((store["odd/x"].tolist(), store["odd/n"].shape), ([1.] * 3, (0,)),
              "an object that has no bytes is saved")
    store.publish({}, replace="odd/")


def writes_back():
    """What this process writes to the tensors of a checkpoint is not of it."""
    for n in 5, 1 << 20:
        dcp.save({"x": torch.ones(n)}, checkpoint_id="back",
                 storage_writer=TarnWriter())
        trained = tarn.default_store()["back/x"].torch()
        trained.fill_(5)
        found = {"x": torch.zeros(n)}
        dcp.load(found, checkpoint_id="back", storage_reader=TarnReader())
        kit.ok(bool((found["x"] == 1).all()), f"{n} numbers are loaded as they were "
               "saved, also when this process has written to them")
        dcp.load({"x": trained}, checkpoint_id="back",
                 storage_reader=TarnReader())
        kit.ok(bool((trained == 1).all()), "and back into what it has written to")


class Held(TarnWriter):
    """It waits in the save of the first checkpoint."""

    def __init__(self):
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def write_data(self, plan, planner):
        if self.checkpoint_id == "over/1":
            self.begun.set()
            self.go.wait()
        return super().write_data(plan, planner)


def overlap(store):
    """One save begins and ends while another one by the same writer is under
    way."""
    writer = Held()
    first = dcp.async_save(state_of(1), checkpoint_id="over/1",
                           storage_writer=writer)
    kit.ok(writer.begun.wait(300), "a save in the background begins")
    ended(dcp.async_save(state_of(2), checkpoint_id="over/2",
                         storage_writer=writer))
    kit.equal(store.names("over/1/"), [], "a second one by its writer overtakes it")
    writer.go.set()
    ended(first)
    kit.ok(same(loaded("over/1"), state_of(1)) and
           same(loaded("over/2"), state_of(2)), "each has its own state")
    kit.equal([n for n in store.names("over/") if n[7:].startswith("@") and
               not n.endswith("@metadata")], [], "and nothing is left of either")


def saves_later():
    state = state_of(4)
    future = dcp.async_save(state, checkpoint_id="later",
                            storage_writer=TarnWriter())
    getattr(future, "staging_completion", future).result()
    state["net"]["w"].zero_()
    ended(future)
    kit.ok(same(loaded("later"), state_of(4)),
           "async_save saves the state as it was")
    staged_again()


def staged_again():
    """The memory of the copies is that of the next ones; what is no plain tensor is
    copied, too."""
    seen = []
    for seed in 5, 6, 7:
        writer = TarnWriter()
        state = {"x": torch.full((300, 1000), float(seed)),
                 "turned": torch.arange(6.).reshape(2, 3).t(),
                 "list": [torch.ones(3), {"deep": torch.zeros(0)}],
                 "step": seed, "grad": torch.ones(4, requires_grad=True)}
        staged = writer.stage(state)
        seen.append(staged["x"].data_ptr())
        state["x"].zero_()
        state["list"][0].zero_()
        kit.ok(staged["x"][0, 0].item() == seed and
               staged["list"][0].tolist() == [1, 1, 1] and
               staged["turned"].tolist() == [[0, 3], [1, 4], [2, 5]] and
               staged["list"][1]["deep"].shape == (0,) and
               staged["step"] == seed and not staged["grad"].requires_grad,
               "what is staged stays as it is")
        dcp.save(staged, checkpoint_id="staged", storage_writer=writer)
        found = {"x": torch.zeros(300, 1000), "step": 0}
        dcp.load(found, checkpoint_id="staged", storage_reader=TarnReader())
        kit.ok(found["step"] == seed and
               bool((found["x"] == seed).all()), "it is saved")
        del staged
    kit.equal(len(set(seen[1:])), 1, "a later save has the memory of the last")
    staged_twice()


def staged_twice():
    """A second save is staged before the first is written, by one writer."""
    n, writer = 1 << 20, TarnWriter()
    first = writer.stage({"x": torch.full((n,), 1.)})
    second = writer.stage({"x": torch.full((n,), 2.)})
    dcp.save(first, checkpoint_id="staged", storage_writer=writer)
    other = TarnWriter().stage({"x": torch.full((n,), 3.)})
    kit.ok(bool((second["x"] == 2).all()) and bool((other["x"] == 3).all()),
           "what waits keeps its memory when another is written")
    dcp.save(second, checkpoint_id="staged", storage_writer=writer)
    found = {"x": torch.zeros(n)}
    dcp.load(found, checkpoint_id="staged", storage_reader=TarnReader())
    kit.ok(bool((found["x"] == 2).all()), "what has waited is saved")
    staged_elsewhere()


def staged_elsewhere():
    """Another rank writes what this one has copied."""
    writer = TarnWriter("staged")
    state = {"x": torch.ones(1 << 20), "y": torch.ones(1 << 19)}
    first = writer.stage(state)
    kit.ok(len(pickle.dumps(writer)) < 10000 and
           pickle.loads(pickle.dumps(writer)).checkpoint_id == "staged",
           "a writer is sent to another process without the copies")
    planner = dcp.DefaultSavePlanner()
    planner.set_up_planner(first, is_coordinator=False)
    plan = planner.create_local_plan()
    del plan.items[:]
    writer.write_data(plan, planner)
    second = writer.stage(state)
    kit.equal([t.data_ptr() for t in second.values()],
              [t.data_ptr() for t in first.values()],
              "what others write of a state is free when this rank has written")


class Late(TarnWriter):
    """A name that is not the checkpoint's appears while it saves."""

    def write_data(self, plan, planner):
        self.store.publish("mixed/late", tarn.arange(3))
        return super().write_data(plan, planner)


def foreign(store):
    """What is below a checkpoint's prefix, and not of it."""
    def save(n, writer=TarnWriter):
        dcp.save({"x": torch.full((n,), 1.)}, checkpoint_id="mixed",
                 storage_writer=writer())

    dead = f"mixed/@{'0a' * 16}/x"
    save(3)
    for name in ("mixed/mine", "mixed/@mine", "mixed/x/deep", dead[:-3] + "/x",
                 dead.replace("a", "A"), "mixed/deep/@metadata"):
        store.publish(name, tarn.arange(3))
        kit.raises(ValueError, f"{name!r} is not of the checkpoint 'mixed'",
                   f"{name} is not replaced",
                   TarnWriter("mixed").set_up_storage_writer, True)
        kit.raises(dcp.api.CheckpointException, repr(name), "nor by a save", save, 4)
        kit.equal((store[name].tolist(), store["mixed/x"].shape),
                  ([0, 1, 2], (3,)), "it stays, and so does the checkpoint")
        store.remove(name)
    store.publish(dead, tarn.arange(3))
    save(5)
    kit.equal((sorted(store.names("mixed/")), store["mixed/x"].shape),
              (["mixed/@metadata", "mixed/x"], (5,)),
              "what a dead save has left is no obstacle, and is removed")
    kit.raises(dcp.api.CheckpointException, "mixed/late",
               "a name that appears during a save", save, 6, Late)
    kit.equal((sorted(store.names("mixed/")), store["mixed/x"].shape),
              (["mixed/@metadata", "mixed/late", "mixed/x"], (5,)),
              "and then nothing of the save is left")
    store.publish({}, replace="mixed/")


def saved_anew(store):
    """A checkpoint that is removed and saved again has the versions of the
    first."""
    reader, plans = TarnReader("anew"), []
    for value in 1., 2.:
        dcp.save({"x": torch.full((3,), value)}, checkpoint_id="anew",
                 storage_writer=TarnWriter())
        reader.read_metadata()
        plans.append(reader.prepare_local_plan(dcp.LoadPlan([])))
        store.publish({}, replace="anew/")
    kit.raises(RuntimeError, "was saved again", "ranks that found a checkpoint "
               "before and after it was removed and saved",
               reader.prepare_global_plan, plans)
    kit.ok(reader.prepare_global_plan(plans[:1] * 2) == plans[:1] * 2,
           "ranks that found one checkpoint load it")


def fails(store):
    before = sorted(store)
    for planner in Failing(), FailingLate():
        kit.raises(dcp.api.CheckpointException, "out of order",
                   "a save that fails", dcp.save, state_of(5),
                   checkpoint_id="later", planner=planner,
                   storage_writer=TarnWriter())
        kit.equal(sorted(store), before, "it leaves no name")
    kit.ok(same(loaded("later"), state_of(4)), "the older one is there")
    store.publish("mine/deep/x", tarn.arange(3))
    kit.raises(dcp.api.CheckpointException, "mine/deep/x",
               "names that are of no checkpoint are not replaced", dcp.save,
               state_of(5), checkpoint_id="mine", storage_writer=TarnWriter())
    kit.raises(dcp.api.CheckpointException, "not of the checkpoint 'run'",
               "checkpoints below a prefix are not replaced", dcp.save,
               state_of(5), checkpoint_id="run", storage_writer=TarnWriter())
    kit.equal(store["mine/deep/x"].tolist(), [0, 1, 2], "they are there")
    kit.raises(tarn.NotFoundError, "'absent'", "a checkpoint that is not there",
               TarnReader("absent").read_metadata)
    kit.raises(ValueError, "checkpoint_id", "a reader of nothing",
               TarnReader().read_metadata)
    kit.equal([TarnWriter.validate_checkpoint_id(i) for i in ("a/b", "/", 3)],
              [True, False, False], "which prefixes there are")
    plan = dcp.LoadPlan([], storage_data=1)
    kit.raises(RuntimeError, "[1, 2]", "ranks with two checkpoints",
               TarnReader("later").prepare_global_plan,
               [plan, dcp.LoadPlan([], storage_data=2)])
    plans = [dcp.SavePlan(["of a rank"])] * 63 + [dcp.SavePlan([])] * 9
    writer = TarnWriter("later")
    kit.ok(writer.prepare_global_plan(plans) is plans, "63 ranks have parts")
    kit.raises(ValueError, "64 ranks", "parts that cannot be published at once are "
               "refused before they are copied", writer.prepare_global_plan,
               plans + plans[:1])
    kit.raises(dcp.api.CheckpointException, "to_dense",
               "a tensor without strides", dcp.save,
               {"s": torch.eye(2).to_sparse()}, checkpoint_id="sparse",
               storage_writer=TarnWriter())


# ---- hostile stores ----


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.path.join(tmp, "evil"),)


def distrusts(store):
    data = io.BytesIO()
    torch.save(Evil(), data)
    evil = tarn.from_numpy(data.getvalue(), "U8")
    for value in evil, tarn.from_numpy(pickle.dumps(Evil()), "U8"):
        store.publish("later/note", value)
        kit.raises(dcp.api.CheckpointException, "weights_only=False",
                   "a pickle of more than values is refused", loaded, "later")
    kit.ok(not os.path.exists(os.path.join(tmp, "evil")), "it has not run")
    store.publish("later/note", evil)
    loaded("later", weights_only=False)
    kit.ok(os.path.exists(os.path.join(tmp, "evil")),
           "it runs where it is allowed")
    store.publish("later/net.w", tarn.arange(3))
    kit.raises(ValueError, "later/net.w", "a tensor of another shape",
               TarnReader("later").read_metadata)
    store.remove("later/net.w")
    kit.raises(ValueError, "no 'later/net.w'", "a tensor that is gone",
               TarnReader("later").read_metadata)
    store.publish("later/@metadata", tarn.arange(3))
    kit.raises(ValueError, "row of bytes", "metadata of numbers",
               TarnReader("later").read_metadata)


def fine():
    w = {"dtype": "float32", "memory": "contiguous", "requires_grad": False,
         "pin_memory": False, "strides": [3, 1], "size": [2, 3],
         "chunks": [[[0, 0], [2, 3]]]}
    return {"format": dcp_metadata.FORMAT, "version": None,
            "state": {"w": w, "n": None}, "paths": {"w": ["w"], "n": ["n", 0]}}


def parsed():
    kit.equal(json.loads(dcp_metadata.encode(dcp_metadata.decode(
        json.dumps(fine())))), fine(), "metadata comes back")
    wrong = {"dtype": ["float33", "nn", 1, None, ["float32"]],
             "memory": ["channels", {}, None],
             "size": [[2], [-2, 3], [2, 2.5], [2, True], "23", None, [2**64, 3],
                      [1, 3]],
             "strides": [[1], [-3, 1], "31", {}],
             "chunks": [None, 3, [[]], [[[0, 0]]], [[[0], [2]]],
                        [[[1, 0], [2, 3]]], [[[0, 0], [2, 4]]],
                        [[[0, 0], [-1, 3]]]]}
    for key, values in wrong.items():
        for value in values:
            whole = fine()
            whole["state"]["w"][key] = value
            refused(json.dumps(whole), f"{key}: {value}")
    for key, values in {"format": ["tarn.dcp/2", None, 3],
                        "state": [None, [], {"w": 3}, {"w": []}],
                        "paths": [[], 3, {"w": "w"}, {"w": []}, {"w": [-1]},
                                  {"w": [2**20]}, {"w": [None]},
                                  {"w": [True]}]}.items():
        for value in values:
            refused(json.dumps({**fine(), key: value}), f"{key}: {value}")
    for text in b"", b"[]", b"\xff", b"[" * 100000, b"3", pickle.dumps(3):
        refused(text, repr(text[:9]))


def refused(text, what):
    kit.raises(ValueError, "", f"metadata is refused: {what}",
               dcp_metadata.decode, text)


def ranks(store):
    kit.ok(run_ranks(__file__, "saves", 2), "two ranks save")
    kit.equal(sorted(store.snapshot("sharded/")),
              ["sharded/@metadata", "sharded/all", "sharded/columns@0,0",
               "sharded/columns@0,5", "sharded/rows@0,0", "sharded/rows@4,0",
               "sharded/step"], "each of them has its part")
    small = {f"{r}.{i}": torch.full((2,), float(i)) for r in (0, 1)
             for i in range(40)}
    found = {n: torch.zeros(2) for n in small}
    dcp.load(found, checkpoint_id="small", storage_reader=TarnReader())
    kit.ok(same(found, small), "small tensors of both are saved")
    kit.ok(run_ranks(__file__, "loads", 3), "three load it, cut otherwise")
    state = {"rows": torch.zeros(7, 9), "step": 0}
    dcp.load(state, checkpoint_id="sharded", storage_reader=TarnReader())
    kit.equal(state["rows"].flatten().tolist(), list(range(63)),
              "one process has all of it")
    before = store.snapshot("sharded/").versions
    kit.ok(run_ranks(__file__, "fails", 2), "both ranks learn that one has failed")
    after = store.snapshot("sharded/").versions
    kit.equal({n: v for n, v in after.items() if "/@" not in n or
               n == "sharded/@metadata"}, before, "the checkpoint is as it was")
    dcp.save({"x": torch.ones(1)}, checkpoint_id="sharded",
             storage_writer=TarnWriter())
    kit.equal(sorted(store.snapshot("sharded/")),
              ["sharded/@metadata", "sharded/x"],
              "the next save takes what a failed one has left")


def main():
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    store = tarn.Store()
    parsed()
    saves(store)
    saves_many(store)
    saves_odd(store)
    saves_later()
    writes_back()
    overlap(store)
    foreign(store)
    saved_anew(store)
    fails(store)
    distrusts(store)
    ranks(store)
    daemon.terminate()
    daemon.wait()
    return kit.finish()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        be_rank({"saves": rank_saves, "loads": rank_loads, "fails": rank_fails},
                *sys.argv[1:])
    else:
        sys.exit(main())
