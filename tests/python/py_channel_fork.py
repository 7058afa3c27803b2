#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Channels in Python between processes: forked, spawned, from a fork server;
many to many; slots and arrays of before a fork; Ctrl-C in a child; and workers
that are killed with whatever they hold."""
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import py_kit as kit

import tarn

PATIENCE = 120  # seconds; a machine may be very busy


def produce(channel, which, n):
    for i in range(n):
        channel.put({"who": which, "i": i, "x": tarn.full([50], i)})


def echo(there, back):
    """Until the end; what came goes back, and tells in what process."""
    for item in there:
        back.put((os.getpid(), item["i"], item["x"].tolist()))


def send_some(out, n):
    with out:
        for i in range(n):
            out.put(i)


def take_all(got, back):
    back.put(list(got))


def main():
    socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
    daemon = kit.start_daemon(socket)
    store = tarn.Store()

    def settled(channel, **wanted):
        """The dead are noticed soon, but not at once."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            gc.collect()
            info = channel.info()
            if all(info[k] == v for k, v in wanted.items()):
                break
            time.sleep(.02)
        return {k: channel.info()[k] for k in wanted}

    def child(work):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if work() in (None, True) else 2
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(code)
        return pid

    def end_of(*pids):
        return [os.waitpid(pid, 0)[1] for pid in pids]

    # ---- fork ----
    ch = store.channel("forked", slots=4)
    pids = [child(lambda w=w: produce(ch, w, 40)) for w in range(3)]
    seen = sorted((item["who"], item["i"], item["x"][49])
                  for item in (ch.get(PATIENCE) for _ in range(120)))
    kit.equal(end_of(*pids), [0, 0, 0],
              "three children send and end without error")
    kit.equal(seen, [(w, i, i) for w in range(3) for i in range(40)],
              "the parent receives all items once")
    kit.equal(settled(ch, producers=0, free=4), {"producers": 0, "free": 4},
              "children that ended hold no slot")

    results = store.channel("results", slots=512, slot_bytes=4096)
    pids = [child(lambda: sum(1 for _ in map(results.put, ch)) > 0)
            for _ in range(2)]
    for i in range(60):
        ch.put(i)
    ch.close()
    kit.equal(sorted(results.get(PATIENCE) for _ in range(60)),
              list(range(60)), "two children receive each item once")
    end_of(*pids)

    # ---- what was there before the fork ----
    ch = store.channel("before", slots=4)
    ch.put(tarn.arange(5))
    ch.put("item")
    array, item, slot = ch.get(), ch.receive(), ch.acquire()
    mine = slot.empty(3, "I32")
    mine[...] = 7

    def drop_all():
        nonlocal array, item, slot, mine
        good = array.tolist() == [0, 1, 2, 3, 4]
        array = item = slot = mine = None
        gc.collect()
        ch.put("child")
        return good

    kit.equal(end_of(child(drop_all)), [0],
              "a child reads and drops its parent's item and slot")
    kit.equal((ch.info()["reading"], ch.info()["filling"], array.tolist(),
               item.get(), mine.tolist()),
              (2, 1, [0, 1, 2, 3, 4], "item", [7, 7, 7]),
              "a child's drops do not release the parent's item and slot")
    slot.publish()
    kit.equal((ch.get(PATIENCE), ch.receive(PATIENCE)[0].tolist()),
              ("child", [7, 7, 7]),
              "the parent continues with its item and its slot")
    item = array = mine = None
    kit.equal(settled(ch, free=4), {"free": 4},
              "the child's item and slot are free in the end")

    def publish_in_child():
        try:
            slot.publish()
        except OSError:
            return True
        return False

    slot = ch.acquire()
    kit.equal(end_of(child(publish_in_child)), [0],
              "a child does not publish its parent's slot")
    slot.abandon()

    # ---- spawn and forkserver ----
    for method in ("spawn", "forkserver"):
        ctx = multiprocessing.get_context(method)
        there = store.channel(method + "/there", slots=8)
        back = store.channel(method + "/back", slots=8)
        workers = [ctx.Process(target=echo, args=(there, back))
                   for _ in range(2)]
        for w in workers:
            w.start()
        for i in range(6):
            there.put({"i": i, "x": tarn.full([3], i)}, timeout=PATIENCE)
        seen = [back.get(PATIENCE) for _ in range(6)]
        there.close()
        for w in workers:
            w.join(PATIENCE)
        kit.equal((sorted(s[1:] for s in seen), [w.exitcode for w in workers]),
                  ([(i, [i] * 3) for i in range(6)], [0, 0]),
                  f"{method}: a channel is passed as an argument")
        kit.ok(os.getpid() not in {s[0] for s in seen},
               "the items were sent by other processes")
    out = tarn.sender("senders", store=store)
    workers = [ctx.Process(target=send_some, args=(out, 5)) for _ in range(2)]
    got = tarn.receiver("senders", store=store)
    reader = ctx.Process(target=take_all, args=(got, back))
    reader.start()
    for w in workers:
        w.start()
    for w in workers:
        w.join(PATIENCE)
    out.close()
    mine = list(got)
    kit.equal(sorted(mine + back.get(PATIENCE)), sorted([*range(5)] * 2),
              "senders and receivers as arguments")
    reader.join(PATIENCE)

    # ---- another program ----
    script = ("import tarn\n"
              "for item in tarn.receiver('script', timeout=60):\n"
              "    print(item['n'], item['x'].tolist())\n")
    program = subprocess.Popen([sys.executable, "-c", script],
                               stdout=subprocess.PIPE, text=True)
    with tarn.sender("script", store=store) as out:
        for n in range(3):
            out.put({"n": n, "x": tarn.arange(n)})
    kit.equal(program.communicate(timeout=PATIENCE)[0],
              "0 []\n1 [0]\n2 [0, 1]\n",
              "another program opens the channel by its name")

    # ---- Ctrl-C in a child ----
    def interrupted():
        results.put("ready")
        try:
            ch.receive()
        except KeyboardInterrupt:
            return True
        return False

    pid = child(interrupted)
    results.get(PATIENCE)
    settled(ch, consumers=2)
    os.kill(pid, signal.SIGINT)
    kit.equal(end_of(pid), [0], "Ctrl-C ends a child's wait")

    # ---- kill -9 ----
    work = store.channel("work", slots=4, slot_bytes=1 << 20)

    def hold(take):
        held = take()
        results.put("ready")
        time.sleep(10 * PATIENCE)
        return held

    def killed_with(take):
        pid = child(lambda: hold(take))
        results.get(PATIENCE)
        os.kill(pid, signal.SIGKILL)
        end_of(pid)

    killed_with(work.acquire)
    kit.equal(settled(work, free=4, filling=0, producers=0),
              {"free": 4, "filling": 0, "producers": 0},
              "the slot of a killed producer is free")
    work.put({"x": tarn.arange(3)})
    killed_with(work.receive)
    item = work.receive(PATIENCE)
    kit.equal((item.redelivered, item.get()["x"].tolist()), (True, [0, 1, 2]),
              "the item of a killed consumer is delivered again")
    item = None
    work.put({"x": tarn.arange(3)})
    killed_with(lambda: work.get()["x"][1:])
    kit.equal(work.get(PATIENCE)["x"].tolist(), [0, 1, 2],
              "the item of a killed consumer with an array is delivered again")
    work.put("plain")
    killed_with(lambda: [r := tarn.receiver("work", store=store), next(r)])
    kit.equal(work.get(PATIENCE), "plain",
              "the item of a worker that is killed while it holds it arrives")
    work.put(tarn.full([3 << 20], 1, "U8"))
    killed_with(lambda: [item := work.receive(), item.get()])
    kit.equal(work.get(PATIENCE)[5], 1,
              "an item larger than a slot survives its receiver")

    def slave():
        while True:
            try:
                with work.receive() as item:  # until it is done with
                    results.put(item.get())
            except BrokenPipeError:
                return

    pids = [child(slave) for _ in range(3)]
    for i in range(300):
        work.put(i, timeout=PATIENCE)
        if i == 100:
            os.kill(pids[0], signal.SIGKILL)
    work.close()
    kit.equal(end_of(*pids)[1:], [0, 0],
              "two of three workers go on to the end when one is killed")
    seen = set()
    while results.info()["ready"]:
        seen.add(results.get(PATIENCE))
    # The killed worker's item goes to the next receiver, here the parent, if
    # the other workers saw the end before.
    settled(work, reading=0)
    while work.info()["ready"]:
        seen.add(work.get(PATIENCE))
    kit.equal(seen, set(range(300)), "every item was received")
    kit.equal(settled(work, free=4, ready=0, reading=0),
              {"free": 4, "ready": 0, "reading": 0},
              "no slot is lost by the killed worker")

    # ---- the last one out ----
    ch = store.channel("short", ephemeral=True)
    kit.equal(end_of(child(lambda: ch.put(1))), [0],
              "an ephemeral channel is used by a child")
    ch = None  # which has not taken part

    def is_there():
        try:
            store.channel("short", create=False)
        except tarn.NotFoundError:
            return False
        return True

    end = time.monotonic() + PATIENCE
    while is_there() and time.monotonic() < end:
        time.sleep(.02)
    kit.ok(not is_there(),
           "an ephemeral channel's name goes with its last participant")

    daemon.terminate()
    daemon.wait()
    kit.finish()


if __name__ == "__main__":
    main()
