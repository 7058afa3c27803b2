#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TensorDicts in the store: what is written to a row all processes see; nested
keys are parts of names; what is no buffer, or another one, is told by what
differs."""
import ast
import inspect
import io
import json
import os
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import py_kit as kit

try:
    import torch
    from tensordict import NonTensorData, TensorDict
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed (pip install tensordict)")
import tarn
import tarn.tensordict as td

ROW = TensorDict({
    "obs": torch.zeros(3), "flag": torch.tensor(False), "none": torch.zeros(0),
    "half": torch.zeros(2, dtype=torch.bfloat16),
    "agents": TensorDict({"act": torch.zeros(2, 4), "c": torch.zeros(
        2, dtype=torch.complex64)}, [2]),
    "a/b": TensorDict({"@x": torch.zeros((), dtype=torch.int64)}, [])}, [])


def rows_of(n, k):
    made = torch.stack([ROW.clone() for _ in range(n)])
    return made.apply(lambda x: (x + k).to(x.dtype))


def other_process(code):
    """What it prints."""
    return subprocess.run(
        [sys.executable, "-c", "import tarn, torch\n"
         "import tarn.tensordict as td\n" + code], check=True, text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE).stdout


def writes(store):
    made = td.create("table", ROW, 10)
    kit.equal((made.batch_size, made["agents"].batch_size, made.is_locked),
              ((10,), (10, 2), True), "it has so many rows, and stays so")
    kit.equal(sorted(store.names("table/")),
              ["table/@spec", "table/@words", "table/a%2Fb/%40x",
               "table/agents/act", "table/agents/c", "table/flag",
               "table/half", "table/none", "table/obs"],
              "keys are parts of names")
    kit.ok(all(not v.any() for v in made.values(True, True)), "it is all 0")
    made[3] = rows_of(1, 2)[0]
    made[4:6] = rows_of(2, 3)
    made[torch.tensor([9, 8])] = rows_of(2, 4)
    made["agents", "act"][0] = 7
    seen = td.open("table")
    want = torch.zeros(10)
    want[[3, 4, 5, 8, 9]] = torch.tensor([2., 3, 3, 4, 4])
    kit.ok(torch.equal(seen["obs"][:, 1], want) and
           torch.equal(seen["a/b", "@x"], want.long()) and
           torch.equal(seen["half"][:, 0], want.bfloat16()) and
           torch.equal(seen["agents", "c"][:, 1], want + 0j) and
           seen["agents", "act"][0].eq(7).all(),
           "what is written is in the other one")
    kit.ok(torch.equal(store["table/obs"].torch(), seen["obs"]),
           "and in the tensor of that name")
    found = other_process(
        "t = td.open('table')\nprint(t['obs'][3].tolist())\nt[1] = t[3]\n"
        "t.set_('flag', torch.ones(10, dtype=torch.bool))")
    kit.equal(found, "[2.0, 2.0, 2.0]\n", "another process sees it")
    kit.ok(made["obs"][1].eq(2).all() and made["flag"].all(),
           "and is seen")
    kit.raises(RuntimeError, "locked", "a key cannot be added",
               made.set, "more", torch.zeros(10))
    data = bytes(ForkingPickler.dumps(seen["obs"]))
    back = ForkingPickler.loads(data)
    back[7] = 5
    kit.ok(made["obs"][7].eq(5).all(), "a queue hands the memory itself over")
    saved = io.BytesIO()
    torch.save(made, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    kit.ok((loaded == made).all(), "torch.save takes it by value")


def examples():
    made = td.create("dict", {"x": torch.zeros(2), "n": {"y": torch.ones(())}},
                     3)
    kit.equal((made["x"].shape, made["n", "y"].tolist()), ((3, 2), [0.] * 3),
              "an example may be a dict, and its values do not matter")
    try:
        from torchrl.data import Composite, Unbounded
    except ImportError:
        kit.skipped("a spec of torchrl", "torchrl is not installed")
        return
    made = td.create("spec", Composite(x=Unbounded((2,))), 3)
    kit.equal(made["x"].shape, (3, 2), "or a spec of torchrl")


def refused(store):
    for error, part, what, args in (
            (FileExistsError, "table", "a name is made once",
             ("table", ROW, 10)),
            (TypeError, "'s' is a", "text is no tensor",
             ("no", TensorDict({"s": NonTensorData("x")}), 1)),
            (TypeError, "'x' is torch.complex128", "a dtype is ours",
             ("no", {"x": torch.zeros(1, dtype=torch.complex128)}, 1)),
            (TypeError, "'x' is torch.float4", "whole bytes",
             ("no", {"x": torch.zeros(2, dtype=torch.uint8).view(
                 torch.float4_e2m1fn_x2)}, 1)),
            (TypeError, "to_dense", "a layout is strided",
             ("no", TensorDict({"x": torch.eye(2).to_sparse()}), 1)),
            (TypeError, "not a Tensor", "a tensor has no keys",
             ("no", torch.zeros(2), 1)),
            (ValueError, "63 leaves", "not more than can be published at once",
             ("no", {f"x{i}": torch.zeros(2) for i in range(63)}, 1)),
            (ValueError, "no tensor", "there is something",
             ("no", TensorDict({}), 1)),
            (ValueError, "length is 0", "there are rows", ("no", ROW, 0)),
            (ValueError, "name is ''", "a name is text", ("", ROW, 1)),
            (ValueError, "name is 7", "and no number", (7, ROW, 1))):
        kit.raises(error, part, what, td.create, *args)
    kit.equal(store.names("no/"), [], "nothing is left of those")
    most = td.create("most", {f"x{i}": torch.zeros(2) for i in range(62)}, 1 << 18)
    kit.equal(len(td.open("most").keys()), 62,
              "as many as can be are made, also when each is large")
    del most
    store.publish({}, replace="most/")
    kit.raises(tarn.NotFoundError, "no buffer 'none'", "there is none",
               td.open, "none")
    kit.raises(MemoryError, "no room", "memory is had at once, or not",
               td.create, "large", ROW, 10**10)


def differs():
    other = ROW.exclude("flag").clone()
    other["obs"] = torch.zeros(4)
    other["half"] = torch.zeros(2)
    other["new"] = torch.zeros(1)
    seen = []
    try:
        td.open("table", other, 11)
    except ValueError as e:
        seen = str(e).removeprefix("there is a buffer 'table', and ").split(
            "; ")
    kit.equal(sorted(seen), [
        "'half' is BF16 [2], not F32 [2]", "'obs' is F32 [3], not F32 [4]",
        "it has 'flag' too", "it has 10 rows, not 11", "it has no 'new'"],
        "what differs is told")
    kit.equal(len(td.open("table", ROW, 10)), 10, "what is the same is opened")
    kit.raises(ValueError, "10 rows, not 3", "a length alone is looked at",
               td.open, "table", length=3)


def distrusts(store):
    """Other processes publish what they like."""
    good = json.loads(bytes(memoryview(store["table/@spec"])))
    for what, spec in (("no JSON", b"{"), ("no dict", b"[]"),
                       ("another format", json.dumps(
                           {**good, "format": "x"}).encode()),
                       ("a missing leaf", json.dumps(
                           {**good, "leaves": good["leaves"] +
                            [[["q"], "F32", []]]}).encode()),
                       ("another shape", json.dumps(
                           {**good, "length": 11}).encode()),
                       ("a leaf outside", json.dumps(
                           {**good, "leaves": [[["..", "x"], "F32", [3]]]}
                       ).encode()),
                       ("no batch size", json.dumps(
                           {**good, "batches": []}).encode()),
                       ("nothing", b"null")):
        store.publish("table/@spec", tarn.from_numpy(bytearray(spec)))
        kit.raises(ValueError, "'table' is no buffer", f"{what} is told",
                   td.open, "table")
    store.publish({}, replace="table/")
    kit.raises(KeyError, "no buffer 'table'", "names can be removed",
               td.open, "table")


def stub():
    """Editors are told what is there."""
    path = os.path.join(os.path.dirname(tarn.__file__), "tensordict.pyi")
    with open(path, encoding="utf-8") as f:
        found = {node.name: node for node in ast.parse(f.read()).body
                 if hasattr(node, "name")}
    kit.equal(sorted(found), td.__all__, "the stub has the names")
    kit.equal([[a.arg for a in (*found[n].args.args, *found[n].args.kwonlyargs)]
               for n in ("create", "open")],
              [list(inspect.signature(f).parameters)
               for f in (td.create, td.open)], "and their parameters")


def main():
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    store = tarn.Store()
    writes(store)
    examples()
    refused(store)
    differs()
    distrusts(store)
    stub()
    daemon.terminate()
    daemon.wait()
    return kit.finish()


sys.exit(main())
