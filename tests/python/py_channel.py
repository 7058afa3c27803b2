#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Channels in Python, within one process: the exact face and the plain one,
what holds a slot and for how long, what is sent without a copy, what is larger
than a slot, threads, Ctrl-C, event loops, and what goes wrong."""
import gc
import os
import select
import signal
import threading
import time

import py_kit as kit

import tarn

socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)
store = tarn.Store()


def numbers(channel, *names):
    info = channel.info()
    return tuple(info[n] for n in names)


def free(channel):
    gc.collect()
    return channel.info()["free"]


# ---- opening ----
kit.raises(tarn.NotFoundError, "'none'",
           "create=False of a channel that does not exist fails",
           store.channel, "none", create=False)
ch = store.channel("exact", slots=3, slot_bytes=100000, tensors=4)
kit.equal((ch.name, ch.store is store, repr(ch)),
          ("exact", True, "<tarn.Channel 'exact': queue>"),
          "a channel has its name, its store and a repr")
kit.equal(numbers(ch, "mode", "slots", "tensors", "free", "closed"),
          ("queue", 3, 4, 3, False),
          "a channel has the geometry that was asked for")
kit.ok(ch.info()["slot_bytes"] >= 100000,
       "the channel has slots of at least the given size")
kit.equal(numbers(store.channel("exact", slots=9), "slots"), (3,),
          "opening an existing channel keeps its geometry")
kit.raises(FileExistsError, "exact",
           "opening a channel with another mode is refused", store.channel,
           "exact", mode="broadcast")
for error, part, keywords in (
        (ValueError, "slots is 0, not between 1 and 65536", {"slots": 0}),
        (ValueError, "slots is 1099511627776, not between 1 and 65536",
         {"slots": 2**40}),
        (ValueError, f"slots is {2**70}, not between", {"slots": 2**70}),
        (TypeError, "slots is a whole number, not 'a'", {"slots": "a"}),
        (TypeError, "slots is a whole number, not 2.5", {"slots": 2.5}),
        (ValueError, "slot_bytes is -1, not between", {"slot_bytes": -1}),
        (ValueError, f"slot_bytes is {2**63}, not", {"slot_bytes": 2**63}),
        (ValueError, "tensors is 1025, not between 1 and 1024",
         {"tensors": 1025}),
        (ValueError, "not 'heap'", {"mode": "heap"}),
        (TypeError, 'mode is "queue" or "broadcast", not 3', {"mode": 3})):
    kit.raises(error, part,
               f"a channel with wrong arguments is refused: {keywords}",
               store.channel,
               "bad", **keywords)
with store.channel("sparse", slot_bytes=1 << 20, sparse=True).acquire() as s:
    s.put("late")
kit.equal(store.channel("sparse").get(), "late",
          "a sparse channel receives its item")
kit.raises(TypeError, "", "a channel's name must be a text", store.channel, 1)
store.publish("tensor", tarn.zeros(3))
kit.raises(ValueError, "tensor",
           "a channel cannot have the name of a tensor",
           store.channel, "tensor")
kit.raises(ValueError, "channel", "a channel cannot be looked up as a tensor",
           lambda: store["exact"])
kit.equal(("exact" in store, list(store), len(store)), (False, ["tensor"], 1),
          "a channel is not in the store's mapping")
kit.raises(TypeError, "made by", "a Slot cannot be constructed", tarn.Slot)
kit.raises(TypeError, "made by", "an Item cannot be constructed", tarn.Item)

# ---- the exact face ----
with ch.acquire(timeout=1.0) as slot:
    room = slot.room
    a = slot.empty((3, 4), "f4")
    kit.equal((a.shape, a.dtype, a.readonly), ((3, 4), "F32", False),
              "a tensor in a slot is writable")
    a[...] = 7
    b = slot.empty(5, "U8")
    b[...] = 1
    slot.tag = b"tag"
    kit.ok(slot.room < room, "a tensor in a slot takes room")
    kit.equal(numbers(ch, "filling", "ready"), (1, 0),
              "a slot that is filled is counted as such")
    kit.equal(repr(slot), "<tarn.Slot of channel 'exact'>",
              "a slot has a repr")
kit.equal((a.readonly, numbers(ch, "filling", "ready")), (True, (0, 1)),
          "leaving the slot's block publishes it")
for role, counts in (("producer", (1, 0)), ("consumer", (0, 1)), (None, (0, 0))):
    joined = store.channel(f"joined {role}", join=role)
    kit.equal(numbers(joined, "producers", "consumers"), counts,
              f"join={role!r} takes part at once, or not")
kit.raises(ValueError, "producer", "a role that is none", store.channel, "none",
           join="reader")
kit.raises(TypeError, "", "nor is a number", store.channel, "none", join=1)
with ch.receive(timeout=1.0) as item:
    kit.equal((len(item), item[0].tolist(), item[-1].tolist(), item.tag,
               item.redelivered, [t.shape for t in item]),
              (2, [[7.0] * 4] * 3, [1] * 5, b"tag", False, [(3, 4), (5,)]),
              "an item has its tensors, its tag and its position")
    first, has = item.position, item.has_tensors
    kept = item[1]
    kit.equal((has, item.has_tensors), (False, True),
              "and says whether there are any of it")
    del kept
    kit.raises(IndexError, "2",
               "an item of two tensors has no third", lambda: item[2])
    kit.raises(IndexError, "-3",
               "an item has no tensor before its first", lambda: item[-3])
    kept = item[0][1]
    kit.raises(ValueError, "put",
               "get of an item that put has not made is refused", item.get)
    kit.equal(repr(item), "<tarn.Item of channel 'exact': 2 tensors>",
              "an item has a repr")
kit.equal((repr(slot), repr(item)),
          ("<tarn.Slot of channel 'exact': published or abandoned>",
           "<tarn.Item of channel 'exact': released>"),
          "a slot and an item have another repr after their blocks")
del a, b, slot
kit.raises(ValueError, "released",
           "an item cannot be used after its block", lambda: item[0])
kit.equal(free(ch), 2, "a view of an item holds the slot")
kept[0] = 8  # of a queue they are the receiver's
kit.equal(kept.tolist(), [8, 7, 7, 7],
          "the receiver of a queue may write its item")
del kept
kit.equal(free(ch), 3, "the last view gives the slot back")

try:
    with ch.acquire() as slot:
        raise KeyError("x")
except KeyError:
    pass
kit.equal((free(ch), numbers(ch, "ready")), (3, (0,)),
          "an exception in the block abandons the slot")
slot = ch.acquire()
del slot
kit.equal(free(ch), 3, "dropping a slot abandons it")
slot = ch.acquire()
with slot:
    slot.publish()
kit.equal(ch.receive().position, first + 1,
          "a slot can be published inside its block")
for what, call in (("publish", slot.publish), ("abandon", slot.abandon),
                   ("empty", lambda: slot.empty(1)), ("room",
                    lambda: slot.room), ("put", lambda: slot.put(1))):
    kit.raises(ValueError, what + ": the slot was", what + " afterwards", call)
with ch.acquire() as slot:
    kit.raises(OSError, "",
               "a tensor larger than the slot's room is refused",
               slot.empty, 200000, "U8")
    kit.raises(OSError, "65", "a tag that is too long", setattr, slot, "tag",
               b"x" * 65)
    for _ in range(4):
        slot.empty(1)
    kit.raises(OSError, "4 tensors",
               "more tensors than an item may have are refused", slot.empty, 1)
    kit.raises(TypeError, "Tensor", "only Tensors are sent", slot.add, b"x")
    slot.abandon()

# ---- as it is, without a copy ----
big = store.create((1 << 18,), "F64")
big[...] = 2.5
store.publish("big", big)
del big
with ch.acquire() as slot:
    t = store["big"]
    address = t.__array_interface__["data"][0]
    slot.add(t[::2])
    del t
    with open("/proc/self/maps") as f:
        kit.ok(any(line.startswith(f"{address:x}-") for line in f),
               "no other memory is placed where an added tensor was")
    kit.raises(ValueError, "",
               "a tensor that is not the store's is refused",
               slot.add, tarn.zeros(3))
store.remove("big")
with ch.receive() as item:
    t = item[0]
kit.equal((t.shape, t[77], t.readonly, free(ch)), ((1 << 17,), 2.5, True, 3),
          "a removed tensor arrives, and needs no slot")
del t

# ---- packed objects ----
with ch.acquire() as slot:
    a = slot.empty((4, 6), "I32")
    a[...] = 5
    kit.equal(slot.put({"a": a, "part": a[1:3, ::2], "n": [1, "x"]}), False,
              "an object fits in a slot")
    kit.raises(ValueError, "put comes after",
               "no tensor can be added behind an object", slot.empty,
               1)
del a
with ch.receive() as item:
    o = item.get()
kit.equal((o["a"].tolist(), o["part"].tolist(), o["n"]),
          ([[5] * 6] * 4, [[5] * 3] * 2, [1, "x"]),
          "an object in a slot arrives")
kit.ok(tarn.same_storage(o["a"], o["part"]),
       "views of one tensor are not copied twice")
o["part"][0, 0] = 6
kit.equal(o["a"][1, 0], 6, "unpacked views share memory as before")
del o
kit.equal(free(ch), 3, "the object's slot is free again")

ch.put({"x": tarn.arange(5), "s": "text"}, timeout=1)
o = ch.get(timeout=1)
kit.equal((o["x"].tolist(), o["s"], free(ch)), ([0, 1, 2, 3, 4], "text", 2),
          "put and get send an object")
x = o["x"][2:]
del o
kit.equal(free(ch), 2, "an array of a received object holds the slot")
del x
kit.equal(free(ch), 3, "the last array gives the slot back")

names = sorted(store)
for size in (120000, 3 << 20):  # of less than 2 MiB, and of more
    ch.put({"big": tarn.full([size], 3, "U8"), "small": tarn.tensor([1])})
    kit.equal(sorted(store), names,
              "an object in separate memory leaves no name")
    o = ch.get()
    kit.equal((o["big"].shape, o["big"][size - 1], o["small"].tolist(),
               o["big"].readonly), ((size,), 3, [1], False),
              f"an object of {size} bytes, more than a slot has, arrives")
    o["big"][0] = 9
    kit.equal((o["big"][0], free(ch)), (9, 3),
              "a received array in separate memory is writable")
    del o
with ch.acquire() as slot:
    kit.equal(slot.put([tarn.zeros(200000, "U8")]), True,
              "put returns True for an object in separate memory")
ch.get()

store.publish("shared", tarn.full([1 << 16], 4.0))
ch.put([store["shared"], store["shared"][5:7], 1])
store.remove("shared")
o = ch.get()
kit.equal((o[0].readonly, o[0][9], o[1].tolist(), free(ch)),
          (True, 4.0, [4, 4], 2), "a published tensor is sent without a copy")
del o
kit.equal(free(ch), 3, "the slot of a sent tensor is free again")
many = {i: tarn.full([1 << 15], i) for i in range(6)}
store.publish({f"m{i}": t for i, t in many.items()})
ch.put({i: store[f"m{i}"] for i in many})
o = ch.get()
kit.equal([o[i][7] for i in many], list(many),
          "of more tensors than an item may have, some are copied")
del o
store.publish({}, replace="m")
other = store.channel("other", slots=2)
with ch.acquire() as slot:
    slot.empty((1 << 15,), "U8")[...] = 3
with ch.receive() as item:
    other.put(item[0])
kit.equal(other.get()[5], 3, "a tensor from one channel is copied to another")
kit.equal(free(ch), 3, "the other channel's slot is free again")

plain = store.channel("exact", create=False, pickle=False)
kit.raises(TypeError, "pickle", "pickle=False packs no objects", plain.put,
           {"o": range(3)})
ch.put({"o": range(3)})
kit.raises(ValueError, "pickle",
           "pickle=False unpacks no pickled objects", plain.get)
plain.put([1, "x", tarn.zeros(1)])
kit.equal(plain.get()[:2], [1, "x"],
          "pickle=False packs and unpacks plain types")
kit.raises(Exception, "",
           "an object that cannot be pickled is refused", ch.put, lambda: 0)
kit.equal(free(ch), 3, "a refused object takes no slot")


# ---- at the same time ----
class Meddling:
    """Runs something when it is packed, and something when it is unpacked."""
    meanwhile = seen = None

    def __reduce__(self):
        kit.raises(ValueError, "at work",
                   "put into a slot that is being filled by put is refused",
                   Meddling.meanwhile)
        return Meddling.release, ()

    @staticmethod
    def release():
        Meddling.seen.release()
        return "released"


with ch.acquire() as slot:
    Meddling.meanwhile = slot.publish
    slot.put([tarn.arange(3), Meddling()])
Meddling.seen = item = ch.receive()
o = item.get()
kit.equal((o[0].tolist(), o[1]), ([0, 1, 2], "released"),
          "an item that is released while it is unpacked is unpacked")
kit.raises(ValueError, "released",
           "the item is released after it was unpacked", len, item)
del o
kit.equal(free(ch), 3, "the slot of the released item is free")

# ---- full and empty ----
kit.raises(TimeoutError, "exact",
           "receive without an item times out", ch.receive, 0)
kit.raises(TimeoutError, "exact",
           "get without an item times out", ch.get, timeout=.02)
held = [ch.acquire() for _ in range(3)]
kit.raises(TimeoutError, "exact",
           "acquire without a free slot times out", ch.acquire, timeout=.02)
kit.raises(TimeoutError, "exact",
           "put without a free slot times out", ch.put, 1, 0)
kit.raises(TypeError, "",
           "a timeout that is no number is refused", ch.receive, "x")
kit.raises(ValueError, "no number",
           "a timeout of NaN is refused", ch.receive, float("nan"))
held.clear()
kit.equal(free(ch), 3, "all slots are free again")

# ---- threads ----
total = []


def receive_all(channel):
    for i in channel:
        total.append(i)


def send(channel, which):
    for i in range(50):
        channel.put((which, i))


readers = [threading.Thread(target=receive_all, args=(other,))
           for _ in range(2)]
writers = [threading.Thread(target=send, args=(other, i)) for i in range(3)]
for thread in readers + writers:
    thread.start()
for thread in writers:
    thread.join()
other.close()
for thread in readers:
    thread.join()
kit.equal(sorted(total), [(w, i) for w in range(3) for i in range(50)],
          "three threads send to two, and each item arrives once")
kit.raises(BrokenPipeError, "closed",
           "put to a closed channel is BrokenPipeError", other.put, 1)
kit.raises(BrokenPipeError, "",
           "get of a closed and empty channel is BrokenPipeError", other.get)
kit.equal(list(other), [], "iteration of a closed and empty channel ends")

def put_late():
    kit.until_main_waits()
    ch.put("late")


waiting = threading.Thread(target=put_late)
waiting.start()
kit.equal(ch.get(timeout=60), "late", "a wait leaves the GIL to others")
waiting.join()

# ---- Ctrl-C ----
for what, call in (("receive", ch.receive), ("acquire", ch.acquire)):
    held = [ch.acquire() for _ in range(3)]
    press = kit.ctrl_c()
    kit.raises(KeyboardInterrupt, "", f"Ctrl-C ends {what}", call)
    press.join()
    held.clear()
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, .05, .05)
kit.raises(TimeoutError, "", "other signals do not end a wait", ch.receive, .5)
signal.setitimer(signal.ITIMER_REAL, 0)
kit.ok(seen, "a signal is handled during the wait")

# ---- broadcast ----
cast = store.channel("cast", slots=4, mode="broadcast")
two = store.channel("cast", create=False)
cast.put("nobody")
cast.join("consumer")
two.join("consumer")
cast.put({"x": tarn.arange(3)})
a, b = cast.get(), two.get()
kit.equal((a["x"].tolist(), b["x"].tolist(), a["x"].readonly),
          ([0, 1, 2], [0, 1, 2], True),
          "each consumer of a broadcast gets a read-only item")
kit.equal(numbers(cast, "consumers", "producers"), (2, 1),
          "info counts who takes part")
del a, b
try:
    import torch
except ImportError:
    kit.skipped("a broadcast reaches PyTorch", "torch is not installed")
else:
    for what, n in (("a part of a slot", 100), ("most of one", 900000)):
        x = torch.ones(n)
        cast.put({"x": x, "n": [x[:2], x[:1] > 0]})
        a, b = cast.get(), two.get()
        a["x"].add_(1)
        kit.equal((a["x"][-1].item(), b["x"][-1].item(), b["n"][0].tolist(),
                   b["n"][1].tolist()), (2, 1, [1, 1], [True]),
                  f"PyTorch may write to its own copy of {what}")
        del a, b
    cast.put(torch.ones(3000000))
    a, b = cast.get(), two.get()
    kit.equal((a.add_(1)[-1].item(), b[0].item()), (2, 2),
              "a broadcast object in separate memory is private")
    del a, b
    kit.equal(free(cast), 4, "the slots of the broadcast are free again")
two.leave("consumer")
cast.leave()
kit.equal(numbers(cast, "consumers", "producers"), (0, 0),
          "leave() without a role leaves both roles")
kit.raises(ValueError, "role", "an unknown role is refused", cast.join, "boss")

# ---- sender and receiver ----
def produce():
    time.sleep(.1)
    with tarn.sender("decoded", store=store, slots=2) as out:
        for i in range(5):
            out.put({"i": i, "x": tarn.full([10], i)})


thread = threading.Thread(target=produce)
thread.start()
seen = []
for item in tarn.receiver("decoded", timeout=60):
    seen.append((item["i"], item["x"][3]))
    del item
thread.join()
kit.equal(seen, [(i, i) for i in range(5)],
          "a sender and a receiver pass objects")
kit.raises(TimeoutError, "never",
           "a receiver of a channel that never comes times out", tarn.receiver,
           "never", timeout=.1)
one, two = tarn.sender("pair"), tarn.sender("pair")
one.put(1)
one.close()
two.put(2)
got = tarn.receiver("pair", timeout=60)
kit.equal((got.get(), next(got)), (1, 2),
          "the first of two senders that leaves does not end the channel")
with two:
    two.put(3)
kit.equal(list(got), [3], "the last sender that leaves ends the channel")
again = tarn.sender("pair", close=False)
kit.equal(again.channel.info()["closed"], False,
          "a sender after the end makes a new channel")
with again:
    again.put(4)
kit.equal((again.channel.info()["closed"], tarn.receiver("pair").get()),
          (False, 4), "close=False leaves the channel open")

with tarn.sender("left") as out:
    out.put(0)
kit.raises(FileExistsError, "closed, 1 item not received; receive it, or "
           "'tarn channel rm left'",
           "a sender after an end that no one received is refused",
           tarn.sender, "left")
kit.equal(list(tarn.receiver("left", timeout=60)), [0],
          "a late receiver gets the items that are left")
with tarn.sender("left") as out:
    out.put(1)
kit.equal(list(tarn.receiver("left", timeout=60)), [1],
          "a late receiver then gets the next channel's items")

# Three times the same, with receivers that are there first, and keep the last
# thing that they got; in the end nothing is sent. Each sees the end.
kept, came, missed, looked = [], [], [], set()
find = tarn._channel._find


def find_and_note(*args):
    """A receiver that has looked for its channel is there."""
    found = find(*args)
    looked.add(threading.get_ident())
    return found


def use_all():
    try:
        for item in tarn.receiver("again", timeout=60):
            kept.append(item)
        came.append(len(kept))
    except TimeoutError as e:
        missed.append(str(e))


tarn._channel._find = find_and_note
for turn in range(3):
    looked.clear()
    users = [threading.Thread(target=use_all) for _ in range(2)]
    for user in users:
        user.start()
    end = time.monotonic() + 60
    while not looked >= {user.ident for user in users} and \
            time.monotonic() < end:
        time.sleep(.01)
    kit.equal(came[2 * turn:], [], f"run {turn}: receivers wait for a sender")
    sent = [] if turn == 2 else range(4)
    with tarn.sender("again") as out:
        keep = store.channel("again")
        keep.join("consumer")
        for i in sent:
            out.put({"turn": turn, "x": tarn.full([3], i)})
    # The name stays for receivers that are very slow to look, too.
    end = time.monotonic() + 120
    while keep.info()["consumers"] < 3 and time.monotonic() < end and \
            len(came) + len(missed) < 2 * turn + 2:
        time.sleep(.01)
    keep.leave()
    for user in users:
        user.join()
    kit.equal((len(came), missed), (2 * turn + 2, []),
              f"run {turn}: both receivers see the end")
    kit.equal(sorted((k["turn"], k["x"].tolist()[0]) for k in kept[4 * turn:]),
              [(turn, i) for i in sent],
              f"run {turn}: the receivers get all items")
del kept[:], keep
tarn._channel._find = find
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        store.channel("again", create=False)
    except tarn.NotFoundError:
        break
    time.sleep(.05)
kit.raises(tarn.NotFoundError, "again",
           "the channel is gone soon after its last item",
           store.channel, "again", create=False)

waited = store.channel("waited", slots=1)
kit.raises(TimeoutError, "channel 'waited': nothing in time",
           "receive without a sender times out",
           waited.receive, .01)
kit.equal(waited.info()["unlinked"], False,
          "a channel that is waited for keeps its name")
store.remove("waited")
kit.equal(waited.info()["unlinked"], True,
          "receive from a channel without a name times out")
kit.raises(TimeoutError, "in time; its name was removed",
           "the error says that the channel's name was removed",
           waited.receive, .01)

store.remove("pair")
kit.raises(TimeoutError, "'pair'",
           "a channel whose name was removed is known as such",
           tarn.receiver, "pair", timeout=.1)

# ---- event loops ----
fd = ch.fileno()
poll = select.poll()
poll.register(fd, select.POLLIN)
kit.raises(TimeoutError, "",
           "receive of an empty channel times out at once", ch.receive, 0)
kit.equal(poll.poll(50), [], "the descriptor is not readable without an item")
ch.put("ready")
kit.equal([f for f, _ in poll.poll(60000)], [fd],
          "an item makes the descriptor readable")
kit.equal(ch.get(timeout=0), "ready", "the item is received after the poll")

# ---- the end ----
last = tarn.arange(4)
ch.put(last)
o = ch.get()
slot = ch.acquire()
daemon.terminate()
daemon.wait()
kit.equal(o.tolist(), [0, 1, 2, 3], "a received item outlives the daemon")
del ch, o, slot
kit.finish()
