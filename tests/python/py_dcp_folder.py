#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint to a folder of safetensors files: what is saved is
loaded, by any number of ranks and by other readers; a save that fails or is killed
leaves the older checkpoint whole; what a folder has is not trusted."""
import base64
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
import warnings

import py_kit as kit

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed (python3-torch)")
if not dist.is_available():
    kit.skip_all("this torch has no torch.distributed")
import tarn
from py_dcp_kit import (
    be_rank, check_sharded, run_ranks, same, sharded_state, state_of)
from tarn.torch.dcp_folder import FolderReader, FolderWriter

warnings.simplefilter("ignore")  # torch tells of a save by one process
tmp = os.environ["TMPDIR"]
INDEX = "model.safetensors.index.json"


def at(name):
    return os.path.join(tmp, name)


# ---- ranks, each a process that runs this file ----


def rank_saves():
    dcp.save(sharded_state(), checkpoint_id=at("sharded"),
             storage_writer=FolderWriter(shard_bytes=300))


def rank_loads():
    check_sharded(lambda state: dcp.load(
        state, checkpoint_id=at("sharded"), storage_reader=FolderReader()))


class Failing(dcp.DefaultSavePlanner):
    """It fails at the second that it is to write."""

    seen = 0

    def resolve_data(self, write_item):
        self.seen += 1
        if self.seen == 2:
            raise RuntimeError("out of order")
        return super().resolve_data(write_item)


def saves_again_and_again(rank, n, meeting):
    """Until it is killed; one file a tensor, to be long."""
    for k in range(1000):
        dcp.save({f"t{i}": torch.full((1000,), float(k)) for i in range(8)},
                 checkpoint_id=meeting,
                 storage_writer=FolderWriter(shard_bytes=1))
        print(k, flush=True)


# ---- one process ----


def loaded(name, **options):
    state = state_of(0)
    dcp.load(state, checkpoint_id=at(name),
             storage_reader=FolderReader(**options))
    return state


def files(name):
    return sorted(os.listdir(at(name)))


def saves(store):
    dcp.save(state_of(1), checkpoint_id=at("a/1"), storage_writer=FolderWriter())
    kit.ok(same(loaded("a/1"), state_of(1)), "what is saved is loaded")
    kit.equal(files("a/1"), ["model-00001-of-00001.safetensors", INDEX],
              "it is a shard and an index")
    m = tarn.open(os.path.join(at("a/1"), INDEX))
    kit.equal((m["net.w"].tolist(), m.metadata["format"]),
              (state_of(1)["net"]["w"].tolist(), "pt"),
              "any reader of safetensors has its tensors")
    kit.equal([n for n in store if n.startswith("@dcp/")], [],
              "what ranks handed over is gone from the store")
    dcp.save(state_of(2), checkpoint_id=at("a/1"),
             storage_writer=FolderWriter(shard_bytes=20))
    kit.ok(same(loaded("a/1"), state_of(2)), "another one replaces it")
    kit.ok(len(files("a/1")) > 3 and not any("of-00001" in f for f in
                                             files("a/1")),
           "in many shards, and the old one is removed", files("a/1"))
    done = dcp.async_save(state_of(3), checkpoint_id=at("a/1"),
                          storage_writer=FolderWriter())
    getattr(done, "upload_completion", done).result()
    kit.ok(same(loaded("a/1"), state_of(3)), "async_save does too")


def fails(store):
    kit.raises(dcp.api.CheckpointException, "out of order", "a save that fails",
               dcp.save, state_of(5), checkpoint_id=at("a/1"),
               planner=Failing(), storage_writer=FolderWriter())
    kit.ok(same(loaded("a/1"), state_of(3)), "leaves the older one")
    kit.raises(FileNotFoundError, "no checkpoint", "a folder without one",
               FolderReader(tmp).read_metadata)
    kit.raises(ValueError, "checkpoint_id", "a reader of nothing",
               FolderReader().read_metadata)
    reader = FolderReader(at("a/1"))
    plans = []
    for k in (6, 7):
        reader.read_metadata()
        plans.append(reader.prepare_local_plan(dcp.LoadPlan([])))
        dcp.save(state_of(k), checkpoint_id=at("a/1"),
                 storage_writer=FolderWriter())
    kit.raises(RuntimeError, "was saved again", "ranks with two checkpoints",
               reader.prepare_global_plan, plans)


def writes_back():
    """What this process writes to the tensors of the files is not in them."""
    for n in 5, 1 << 20:
        dcp.save({"x": torch.ones(n)}, checkpoint_id=at("back"),
                 storage_writer=FolderWriter())
        trained = tarn.load(os.path.join(at("back"), INDEX)).torch()
        trained["x"].fill_(5)
        found = {"x": torch.zeros(n)}
        dcp.load(found, checkpoint_id=at("back"), storage_reader=FolderReader())
        kit.ok(bool((found["x"] == 1).all()), f"{n} numbers are loaded as they were "
               "saved, also when this process has written to them")


class Replacing:
    """A store in which a checkpoint is replaced before it is loaded, so often:
    then a shard that the older index names is not there."""

    def __init__(self, store, times):
        self.store, self.times, self.loads = store, times, 0

    def load(self, path):
        self.loads += 1
        if self.loads > self.times:
            return self.store.load(path)
        dcp.save(state_of(10 + self.loads), checkpoint_id=os.path.dirname(path),
                 storage_writer=FolderWriter())
        raise FileNotFoundError(2, "No such file or directory", "a shard")


def replaced(store):
    """While it is opened."""
    dcp.save(state_of(10), checkpoint_id=at("replaced"),
             storage_writer=FolderWriter())
    kit.ok(same(loaded("replaced", store=Replacing(store, 2)), state_of(12)),
           "a checkpoint that is replaced while it is opened is opened again")
    always = Replacing(store, 1000)
    kit.raises(OSError, "again and again", "but not for ever",
               FolderReader(at("replaced"), store=always).read_metadata)
    shard = next(f for f in files("replaced") if f != INDEX)
    os.remove(os.path.join(at("replaced"), shard))
    kit.raises(FileNotFoundError, shard, "a shard that is missing is an error",
               FolderReader(at("replaced")).read_metadata)


def others():
    """Files of others, and others with ours."""
    x = torch.arange(6.).reshape(2, 3)
    os.mkdir(at("other"))
    tarn.save(os.path.join(at("other"), "model.safetensors"), {"x": x})
    state = {"x": torch.zeros(2, 3)}
    dcp.load(state, checkpoint_id=at("other"), storage_reader=FolderReader())
    kit.ok(torch.equal(state["x"], x), "a file that another library wrote")
    try:
        from torch.distributed.checkpoint.hf_storage import (
            HuggingFaceStorageReader)
        import safetensors  # noqa: F401
    except ImportError as e:
        kit.skipped("PyTorch's own reader has the tensors", str(e))
        return
    state = {"net.w": torch.zeros(3, 4)}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(at("a/1")))
    kit.ok(torch.equal(state["net.w"], state_of(7)["net"]["w"]),
           "PyTorch's own reader has the tensors")


class Evil:
    def __reduce__(self):
        return os.mkdir, (at("evil"),)


def rewrite(change):
    """The folder's index with other metadata."""
    path = os.path.join(at("a/1"), INDEX)
    with open(path, encoding="utf-8") as f:
        index = json.load(f)
    about = json.loads(index["metadata"]["tarn.dcp"])
    index["metadata"]["tarn.dcp"] = change(about)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(index, f)


def distrusts():
    data = io.BytesIO()
    torch.save(Evil(), data)

    def evil(about):
        about["plain"]["note"] = base64.b64encode(data.getvalue()).decode()
        return json.dumps(about)
    rewrite(evil)
    kit.raises(dcp.api.CheckpointException, "weights_only=False",
               "a pickle of more than values is refused", loaded, "a/1")
    kit.ok(not os.path.exists(at("evil")), "it has not run")
    for what, change in (
            ("no base64", {"plain": {"note": "?"}}),
            ("plain is a list", {"plain": [1]}),
            ("of another format", {"format": "x"}),
            ("a path of floats", {"paths": {"a": [.5]}}),
            ("a tensor's name", {"plain": {"net.w": ""}})):
        good = {}

        def other(about, change=change, good=good):
            good.update(about)
            return json.dumps({**about, **change})
        rewrite(other)
        kit.raises(ValueError, "'tarn.dcp' describes no checkpoint",
                   f"metadata is refused: {what}",
                   FolderReader(at("a/1")).read_metadata)
        rewrite(lambda about, good=good: json.dumps(good))


def killed():
    """At any moment: the older one or the newer one is there, whole."""
    folder, rng, kills = at("killed"), random.Random(3), 4
    for i in range(kills):
        saver = subprocess.Popen([sys.executable, __file__, "again", "0", "1",
                                  folder], stdout=subprocess.PIPE,
                                 env={**os.environ,
                                      "PYTHONPATH": ":".join(sys.path)})
        saver.stdout.readline()
        time.sleep(rng.random() * .1)
        saver.kill()
        saver.wait()
        state = {f"t{i}": torch.zeros(1000) for i in range(8)}
        dcp.load(state, checkpoint_id=folder, storage_reader=FolderReader())
        values = {float(v) for t in state.values() for v in (t[0], t[-1])}
        if len(values) != 1:
            kit.equal(values, "one", "all tensors are of one save")
    kit.ok(True, f"a saver that was killed {kills} times left whole ones")


def ranks():
    kit.ok(run_ranks(__file__, "saves", 2), "two ranks save")
    m = tarn.open(os.path.join(at("sharded"), INDEX))
    whole = torch.arange(7 * 9.).reshape(7, 9)
    kit.equal({n: t.tolist() for n, t in m.items()},
              {n: (whole * k).tolist() for n, k in
               (("rows", 1), ("columns", 2), ("all", 3))},
              "tensors of several ranks are whole in the files")
    kit.equal(len(files("sharded")), 4, "in shards of the size that was wished")
    kit.ok(run_ranks(__file__, "loads", 3), "three load it, cut otherwise")
    state = {"rows": torch.zeros(7, 9), "step": 0}
    dcp.load(state, checkpoint_id=at("sharded"), storage_reader=FolderReader())
    kit.ok(torch.equal(state["rows"], whole) and state["step"] == 7,
           "one process has all of it")


def main():
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    store = tarn.Store()
    saves(store)
    fails(store)
    writes_back()
    replaced(store)
    others()
    distrusts()
    killed()
    ranks()
    for name in os.listdir(tmp):
        shutil.rmtree(at(name))
    daemon.terminate()
    daemon.wait()
    return kit.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["again"]:
        saves_again_and_again(*sys.argv[2:])
    elif len(sys.argv) > 1:
        be_rank({"saves": rank_saves, "loads": rank_loads}, *sys.argv[1:])
    else:
        sys.exit(main())
