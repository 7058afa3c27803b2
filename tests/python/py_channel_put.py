#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts that fail: a slot is as it was if nothing was added to it; if something
was, another put can follow, and nothing else is sent. And puts of what changes
while they are under way."""
import os
import threading
import time

import py_kit as kit

import tarn

socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)
store = tarn.Store(socket)
store.publish("sent", tarn.arange(40000))
sent = store["sent"]
# No memory has so much; told in one element.
huge = tarn.zeros(1, "U8").expand(1 << 45)


def free(channel):
    return channel.info()["free"]


# ---- before anything is added ----
plain = store.channel("plain", slots=2, tensors=3, pickle=False)
with plain.acquire() as slot:
    kit.raises(TypeError, "does not pickle",
               "an object of no plain type is refused without pickle",
               slot.put, object())
    slot.empty(3, "I32")[...] = 7
    slot.put("fallback")
with plain.receive() as item:
    kit.equal((len(item), item[0].tolist(), item.get()),
              (2, [7, 7, 7], "fallback"),
              "a refused put adds nothing, and others follow")
with plain.acquire() as slot:
    kit.raises(MemoryError, "room",
               "an object larger than any memory is refused", slot.put, huge)
    slot.empty(1, "U8")[...] = 1
with plain.receive() as item:
    kit.equal([t.tolist() for t in item], [[1]],
              "a put that failed adds no tensor to the slot")

# ---- half way: a tensor is sent as it is, and then there is no memory ----
ch = store.channel("half", slots=2, tensors=4)
with ch.acquire() as slot:
    a = slot.empty(30000, "I32")
    a[...] = 5
    kit.raises(MemoryError, "room",
               "the first half of a put that fails", slot.put, [sent, huge])
    for what, call in (("empty", lambda: slot.empty(1)),
                       ("add", lambda: slot.add(sent)),
                       ("publish", slot.publish)):
        kit.raises(ValueError, f"{what}: a put failed half way",
                   f"{what} cannot follow a put that failed half way", call)
    slot.put([a[2:4], sent])
with ch.receive() as item:
    seen = item.get()
    kit.equal((seen[0].tolist(), seen[1].tolist() == sent.tolist()),
              ([5, 5], True),
              "another put can follow one that failed half way")
del seen
try:
    with ch.acquire() as slot:
        try:
            slot.put([sent, huge])
        except MemoryError:
            pass
    error = None
except ValueError as e:
    error = e
kit.ok("half way" in str(error),
       "leaving the block after half a put raises an error",
       error)
kit.raises(TimeoutError, "half",
           "a block that failed half way sends nothing", ch.receive, 0)
with ch.acquire() as slot:
    slot.put("good")
    kit.raises(ValueError, "put comes after",
               "a second put into a slot is refused", slot.put, 1)
kit.equal(ch.get(), "good", "the first of two puts is sent")
kit.equal((free(ch), free(plain)), (2, 2),
          "all slots are free after the failed puts")

# ---- no slot, in a channel that nobody else can open ----
full = store.channel("full", slots=1)
full.put(0)
store.remove("full")
kit.raises(TimeoutError, "in time; its name was removed",
           "a put that waits in vain times out", full.put, 1, .01)
try:
    full.put(1, 0)
    error = None
except TimeoutError as e:
    error = e
kit.equal(error and error.args[1], "channel 'full': nothing in time",
          "a put that only tries does not check the tensors again")
del full


# ---- PyTorch's tensors, whose memory goes while a put waits ----
class Meddling:
    """Whoever is packed may run anything, and comes after the tensor."""

    def __init__(self, *changes):
        self.changes = list(changes)

    def __reduce__(self):
        if self.changes:
            self.changes.pop()()
        return str, ("meddled",)


def put_while(out, value, change):
    """Puts where there is no slot, and changes the value meanwhile."""
    thread = threading.Thread(target=out.put, args=(value,))
    thread.start()
    kit.until_waits(thread)
    change()
    out.get()  # makes room
    thread.join()
    return out.get()


def check_move(what, make, change, slot_bytes):
    out = store.channel("moves", slots=1, slot_bytes=slot_bytes)
    out.put("first")
    t = make()
    seen = put_while(out, {"t": t}, lambda: change(t))["t"]
    kit.equal((seen.shape, seen.unique().tolist()), (t.shape, [3.]),
              f"{what} while a put waits is sent as it is then")
    del seen
    t = make()
    out.put([t, Meddling(lambda: change(t))], timeout=60)
    seen = out.get()
    kit.equal((seen[0].shape, seen[0].unique().tolist(), seen[1]),
              (t.shape, [3.], "meddled"),
              f"{what} while others are packed is sent as it was")
    del seen, out
    store.remove("moves")


def check_moves():
    small, large = (600, 600), (1200, 1200)
    for slot_bytes in 16 << 20, 4096:  # in the slot, and beside it
        for what, make, change in (
                ("other memory", lambda: torch.ones(small),
                 lambda t: setattr(t, "data", torch.full(large, 3.))),
                ("another size", lambda: torch.ones(small),
                 lambda t: t.resize_(large).fill_(3)),
                ("odd strides", lambda: torch.ones(small)[:, ::2],
                 lambda t: setattr(t, "data", torch.full(large, 3.)[::3])),
                ("other values", lambda: torch.ones(small).t(),
                 lambda t: t.fill_(3))):
            check_move(what, make, change, slot_bytes)
    t = torch.ones(small)
    changes = [lambda: setattr(t, "data", torch.zeros(small))] * 100
    kit.raises(RuntimeError, "again and again",
               "a tensor that moves again and again is refused",
               ch.put, [t, Meddling(*changes)])
    kit.equal(free(ch), 2, "the slot of the refused put is free")


def check_assigned():
    """While the bytes are being copied, and the GIL is free; or perhaps just
    before, then it is the new ones that are sent."""
    sizes = ((4096, 8192), (300, 300), (3, 3))
    out = store.channel("assigned", slots=1, slot_bytes=160 << 20)
    for make in torch.ones, lambda size: torch.ones(size[::-1]).t():
        tensors = [make(size) for size in sizes]
        thread = threading.Thread(target=out.put, args=(tensors,))
        thread.start()
        while free(out):
            time.sleep(0)
        time.sleep(.005)
        for t in tensors:
            t.data = torch.zeros(1)
        thread.join()
        seen = out.get()
        kit.ok(all((t.shape, t.min().item()) in ((size, 1.), ((1,), 0.))
                   for t, size in zip(seen, sizes)),
               "memory under copy is not freed by other memory for the "
               "tensor", seen)
        del seen
    del out
    store.remove("assigned")


try:
    import torch
except ImportError:
    kit.skipped("tensors that move are sent", "torch is not installed")
else:
    check_moves()
    check_assigned()

del ch, plain, slot, item, a, sent, huge, store
daemon.terminate()
kit.equal(daemon.wait(), 0, "the daemon ends without error")
kit.finish()
