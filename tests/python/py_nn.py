#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Module trees in Python: bound to a store's names, refreshed as one version
beside a publisher that replaces them without a pause, made by hand and from
files, converted, saved, loaded; and what each mistake is answered with."""
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import py_kit as kit

import tarn
from tarn import nn

os.chdir(os.environ["TMPDIR"])
daemon = kit.start_daemon("sock")
store = tarn.Store()


def publish(value, layers=12, **more):
    """A model of that many layers, all of it one value."""
    tensors = {f"model/encoder.layer.{i}.{name}":
               tarn.full(shape, value, "F32")
               for i in range(layers)
               for name, shape in (("weight", (2, 3)), ("bias", (3,)))}
    tensors["model/position_ids"] = tarn.full((4,), value, "I64")
    tensors["model/norm.running_mean"] = tarn.full((3,), value, "F32")
    store.publish({**tensors, **more}, replace="model/")


def values(module):
    return {t.eval_copy(".reshape(-1)").tolist()[0]
            for t in module.state_dict().values()}


# ---- a tree of published names ----
publish(1)
m = nn.Module.open("model", store, buffers=["running_mean"])
layer = m.encoder.layer
kit.equal((layer[2].weight.shape, layer[-1].bias.tolist(), len(layer)),
          ((2, 3), [1, 1, 1], 12), "attributes lead to modules and tensors")
kit.equal([n for n, _ in layer.named_children()], [str(i) for i in range(12)],
          "children of a list are in the order of numbers")
kit.ok(tarn.same_storage(m.norm.running_mean, store["model/norm.running_mean"])
       and m.norm.running_mean.readonly, "tensors are the shared ones")
kit.equal([n for n, _ in m.named_buffers()],
          ["position_ids", "norm.running_mean"],
          "integers and given names are buffers")
kit.equal(len(list(m.parameters())), 24, "all others are parameters")
kit.equal([n for n, _ in m.named_modules()][:4],
          ["", "encoder", "encoder.layer", "encoder.layer.0"],
          "modules are walked parents first")
kit.ok(m["encoder.layer.10"] is layer[10] and
       m["encoder.layer.10.bias"].shape == (3,), "a path leads to both")
kit.equal([len(list(layer)), bool(layer[0])],
          [12, True], "a list is iterated, and any module is true")
kit.equal(m.count(), (16, 24, 2, 108, 108, 108 * 4 + 12 + 32),
          "modules, tensors, elements and bytes are counted")
seen = []
m.apply(lambda module: seen.append(module))
kit.ok(seen[-1] is m and seen.index(layer) > seen.index(layer[11]),
       "apply visits the children first")
layer.requires_grad_(False)
kit.equal((m.count().trainable, m.get_handle("encoder.layer.0.bias")
           .requires_grad), (0, False), "parameters are marked recursively")
kit.raises(ValueError, "is a buffer", "a buffer cannot require a gradient",
           setattr, m.get_handle("position_ids"), "requires_grad", True)
kit.equal(repr(m), """Module(
  (position_ids): I64[4] buffer
  (encoder): Module(
    (layer): Module(
      (0-11): 12 x Module(
        (bias): F32[3]
        (weight): F32[2, 3]
      )
    )
  )
  (norm): Module(
    (running_mean): F32[3] buffer
  )
)""", "a tree is printed as PyTorch prints one")
kit.raises(AttributeError, "it has position_ids, encoder, norm",
           "a name that is not there is an error that has those that are",
           lambda: m.encodre)
kit.raises(tarn.NotFoundError, "'encoder.layer' has no tensor or module '12'",
           "a path that is not there is an error", lambda: m["encoder.layer.12"])
kit.raises(IndexError, "", "an index past the list is an IndexError",
           lambda: layer[12])
kit.raises(tarn.NotFoundError, "nothing/", "a prefix without names is refused",
           nn.Module.open, "nothing", store)
kit.raises(TypeError, "not pickled", "a module is not pickled", pickle.dumps, m)

# ---- newer versions ----
handle = m.get_handle("encoder.layer.3.weight")
kit.equal(m.refresh(), False, "without a publication there is no newer version")
store.publish("other", tarn.tensor(1))
kit.equal(m.refresh(), False, "a publication of other names is none")
kit.raises(TimeoutError, "no newer version", "a wait without one ends",
           m.wait, .05)
before = m.version
with m.hold():
    publish(2)
    kit.equal((m.refresh(), values(m)), (True, {1}),
              "a held state stays while the tree is refreshed")
kit.equal((values(m), m.version > before), ({2}, True),
          "the newer version is seen behind it")
kit.ok(m.get_handle("encoder.layer.3.weight") is handle and
       handle.tensor.tolist()[0][0] == 2, "handles lead to the newer version")
timer = threading.Timer(.1, publish, (3,))
timer.start()
m.wait(60)
timer.join()
kit.equal((m.refresh(), values(m)), (True, {3}), "a publication ends a wait")
store.publish("model/norm.running_mean", tarn.full((3,), 4, "F32"))
m.wait(60)
kit.equal((m.refresh(), m.norm.running_mean.tolist()[0],
           m.encoder.layer[0].bias.tolist()[0]), (True, 4, 3),
          "a publication of one name is a newer version")
publish(5, 11, **{"model/extra": tarn.tensor(1.),
                  "model/norm.running_mean": tarn.full((4,), 1, "F32")})
m.wait(0)
kit.raises(ValueError, "refresh: model/ has changed: missing: encoder.layer.11."
           "bias, encoder.layer.11.weight; unexpected: extra; of another shape "
           "or dtype: norm.running_mean is F32[4], not F32[3]",
           "a set that changed is refused, and the differences listed",
           m.refresh)
kit.equal(m.encoder.layer[11].bias.tolist()[0], 3,
          "a tree stays as it was when a refresh is refused")
publish(6)
kit.equal((m.refresh(), values(m)), (True, {6}), "a set that fits is taken")
store.remove("model/norm.running_mean")
store.publish("model/norm.running_mean", tarn.full((3,), 7, "F32"))
m.refresh()
store.remove("model/norm.running_mean")
store.publish("model/norm.running_mean", tarn.full((3,), 8, "F32"))
kit.equal((m.refresh(), m.norm.running_mean.tolist()[0]), (True, 8),
          "a name that came again with version 1 is newer")

# ---- a publisher without a pause ----
PUBLISHER = """
import itertools, tarn
store = tarn.Store()
for n in itertools.count(10):
    store.publish({f"busy/layer.{i}.weight": tarn.full((50 + i,), n, "F32")
                   for i in range(12)})
    if n == 10:
        print(flush=True)
"""


class Busy(nn.Module):
    """Its answer is all versions that one pass sees."""

    def forward(self):
        found = {self.layer[i].weight.tolist()[-1] for i in range(12)}
        return found | {layer.weight.tolist()[0] for layer in self.layer}


def refresh_until(event, module, seen):
    while not event.is_set():
        seen.append(module.refresh())


with subprocess.Popen([sys.executable, "-c", PUBLISHER],
                      stdout=subprocess.PIPE) as publisher:
    publisher.stdout.readline()
    busy = Busy.open("busy", store)
    over, refreshed, answers = threading.Event(), [], []
    threads = [threading.Thread(target=refresh_until,
                                args=(over, busy, refreshed))
               for _ in range(2)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    while len(answers) < 300 or (len(set().union(*answers)) < 4 and
                                 time.monotonic() < end):
        answers.append(busy())
    over.set()
    for thread in threads:
        thread.join()
    publisher.send_signal(signal.SIGKILL)
kit.equal([a for a in answers if len(a) != 1], [],
          "every call sees one version")
kit.ok(sum(refreshed) > 2 and len(set().union(*answers)) > 2,
       "versions were swapped between calls", str(sum(refreshed)))
flat = [max(a) for a in answers]
kit.equal(flat, sorted(flat), "versions only grow")
busy.refresh()
kit.equal(len(busy()), 1, "a killed publisher leaves one whole version")
pid = os.fork()
if pid == 0:
    store.publish({f"busy/layer.{i}.weight": tarn.full((50 + i,), -1, "F32")
                   for i in range(12)})
    os._exit(not (busy.refresh() and busy() == {-1}))
kit.equal(os.waitpid(pid, 0)[1], 0, "a child refreshes its parent's tree")
kit.equal((busy() == {-1}, busy.refresh(), busy()), (False, True, {-1}),
          "the parent's tree is its own")


# ---- subclasses, and trees made by hand ----
class Layer(nn.Module):
    def forward(self, x):
        return x + self.bias.tolist()[0]


class Model(nn.Module):
    def forward(self, x):
        for layer in self.encoder.layer:
            x = layer(x)
        return x


net = Model.open("model", store, modules={"encoder.layer.*": Layer})
kit.equal((net(0), type(net.encoder.layer[3]).__name__, type(net.norm)),
          (72, "Layer", nn.Module), "modules have the classes that were given")
kit.raises(NotImplementedError, "Module has no forward",
           "a module without forward cannot be called", m)


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.inputs = inputs
        self.weight = tarn.full((outputs, inputs), 1, "F32")
        self.register_buffer("scale", tarn.tensor([2.]))


mlp = nn.Module()
mlp.first, mlp.second = Linear(4, 3), Linear(3, 2)
mlp.steps = tarn.tensor([1])
kit.equal(list(mlp.state_dict()), ["steps", "first.scale", "first.weight",
                                   "second.scale", "second.weight"],
          "attributes that are set become parameters, buffers and children")
kit.equal(([n for n, _ in mlp.named_parameters()], mlp.first.inputs),
          (["first.weight", "second.weight"], 4),
          "integers are buffers, and other attributes are the object's own")
mlp.second.weight = tarn.full((2, 3), 5, "F32")
kit.equal((mlp.second.weight.tolist()[0][0], len(mlp.state_dict())), (5, 5),
          "a tensor that is set anew replaces the old one")
kit.raises(ValueError, "of another tree", "a child has one parent",
           setattr, nn.Module(), "x", mlp.first)
kit.raises(ValueError, "below itself", "a module is not below itself",
           setattr, mlp.first, "x", mlp)
kit.raises(ValueError, "already", "a tensor in a module's place is refused",
           setattr, mlp, "first", tarn.tensor(1.))
kit.raises(ValueError, "has a dot", "a name with a dot is refused",
           mlp.register_parameter, "a.b", tarn.tensor(1.))
kit.raises(TypeError, "str is none", "a tensor does not become a text",
           setattr, mlp, "steps", "x")
kit.raises(ValueError, "not bound", "a tree made by hand has no versions",
           mlp.refresh)
kit.raises(AttributeError, "super().__init__()",
           "a class that does not call Module.__init__ is told so",
           lambda: Linear.__new__(Linear).weight)

# ---- state in and out ----
state = {**mlp.state_dict(), "first.scale": tarn.tensor([3.])}
kit.equal((mlp.load_state_dict(state), mlp.first.scale.tolist()),
          (([], []), [3]), "a state is loaded")
bad = {**state, "more": tarn.tensor(1.), "first.weight": tarn.tensor([1.])}
del bad["steps"]
kit.raises(ValueError, "load_state_dict: missing: steps; unexpected: more; of "
           "another shape or dtype: first.weight is F32[1], not F32[3, 4]",
           "a state that differs is refused, and the differences listed",
           mlp.load_state_dict, bad)
kit.raises(ValueError, "first.weight is F32[1]",
           "another shape is refused without strict, too",
           mlp.load_state_dict, bad, strict=False)
kit.equal((mlp.load_state_dict({"steps": tarn.tensor([9]), "x": tarn.tensor(1)},
                               strict=False)[1], mlp.steps.tolist()),
          (["x"], [9]), "without strict what fits is loaded")
mlp.save("mlp.safetensors", checksums=True)
again = nn.Module.open_file("mlp.safetensors")
kit.ok(all(tarn.equal(t, mlp[n]) for n, t in again.state_dict().items()) and
       len(again.state_dict()) == 5, "a saved tree comes back as it was")
kit.equal(again.first.weight.storage_kind, "mapped", "a file is mapped")
part = nn.Module.open_file("mlp.safetensors", store=store, prefix="second.")
kit.equal((list(part.state_dict()), part.weight.storage_kind),
          (["scale", "weight"], "shared"),
          "a part of a file is loaded to shared memory")
mlp.publish("mlp", store, replace="mlp/")
kit.equal(sorted(store.names("mlp/")), sorted(f"mlp/{n}" for n in state),
          "a tree is published under its paths")
for names, part in ((["bad/a..b"], "empty name"),
                    (["bad/a", "bad/a.b"], "'a' is a tensor")):
    store.publish({n: tarn.tensor(1.) for n in names}, replace="bad/")
    kit.raises(ValueError, part, f"published names {names} are refused",
               nn.Module.open, "bad", store)

# ---- tied tensors and conversions ----
tied = nn.Module()
tied.a = tied.b = t = tarn.full((8,), 3, "F32")
tied.c = tarn.full((8,), 3, "F32")
kit.equal(([n for n, _ in tied.named_parameters()], tied.count().elements,
           tied.count(tied=True).elements), (["a", "c"], 16, 24),
          "tied tensors count once, or for each path")
tied.to("bfloat16")
kit.equal((str(tied.a.dtype), tied.a.to("F32").tolist()[0],
           tied.count().parameters), ("BF16", 3, 2),
          "a conversion keeps values, and what is tied")
tied.load_state_dict({"a": t}, strict=False)
kit.equal(str(tied.a.dtype), "BF16", "what is loaded later is converted, too")
net.to(dtype="F16")
publish(7)
kit.equal((net.refresh(), str(net.encoder.layer[0].bias.dtype),
           str(net.position_ids.dtype), values(net), net.refresh()),
          (True, "F16", "I64", {7}, False),
          "newer versions are converted, and integers are not")
net.encoder.layer[0].adapter = Linear(2, 2)
publish(8)
kit.equal((net.refresh(), net.encoder.layer[0].adapter.scale.tolist(),
           net.position_ids.tolist()[0]), (True, [2], 8),
          "a module that was added by hand stays when a tree is refreshed")
kit.equal(net.to("cpu") is net, True, "a tree is on the host already")
kit.raises(ValueError, "I32 is not a floating one",
           "an integer dtype is refused", net.to, "int32")
order = nn.Module()
for name in ("conv10", "conv2", "a1", "a-1", "01", "1", "9"):
    order.register_parameter(name, tarn.tensor(1.))
kit.equal(list(order.state_dict()),
          ["1", "01", "9", "a-1", "a1", "conv2", "conv10"],
          "names are in natural order")

del m, net, busy, layer, seen, part, again, handle, store
os.remove("mlp.safetensors")
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without an error")
sys.exit(kit.finish())
