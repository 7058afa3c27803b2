#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Store.follow: versions of a set, each of one commit, in several processes
beside a publisher in a loop; what did not change is shared, what was is freed;
a follower that is killed, a set that is removed, a daemon that is replaced or
ends."""
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import py_kit as kit
from py_kit import equal, ok, raises

import tarn

os.chdir(os.environ["TMPDIR"])
daemon = kit.start_daemon("sock")
store = tarn.Store()


def numbers(value, n=1000):
    return tarn.full((n,), value, dtype="I64")


def put(step, **names):
    """The next version of the set, with some tensors of it."""
    with store.refit("policy", fields={"step": str(step)}) as r:
        for name, value in names.items():
            r.put(name, numbers(value))


def first_of(version):
    return {n: t[0] for n, t in version.items()}


# ---- one after the other ----
def versions():
    follow = store.follow("policy")
    raises(tarn.NotFoundError, "'policy/'", "a set that is not there yet",
           follow.latest)
    raises(TimeoutError, "'policy/' within 0 s", "it does not come in time",
           follow.next, 0)
    equal((follow.current, follow.version), (None, 0), "no version so far")
    store.publish_set("policy", {n: numbers(1) for n in "abc"},
                      fields={"step": "1", "model": "x"})
    store.publish("policy2", numbers(5))
    one = follow.next()
    equal((first_of(one), one.fields), ({"a": 1, "b": 1, "c": 1},
                                        {"step": "1", "model": "x"}),
          "the first version has the set's tensors and fields")
    equal((one.changed, one.removed, set(one.versions)),
          ({"a", "b", "c"}, set(), {"a", "b", "c"}),
          "all of it is new, and no name has the prefix")
    equal(one.version, store.snapshot("policy/").version,
          "its number is the commit's, as a snapshot has it")
    raises(TimeoutError, f"newer than commit {one.version}",
           "another name is no version of the set",
           follow.next, 0)
    ok(follow.latest() is one, "latest() is the current one as long as that is")
    put(2, a=2)
    two = follow.next()
    equal((first_of(two), two.changed, two.fields),
          ({"a": 2, "b": 1, "c": 1}, {"a"}, {"step": "2", "model": "x"}),
          "a version has what was put, and says so")
    ok(two["b"] is one["b"] and two["c"] is one["c"],
       "what did not change is the same object")
    ok(tarn.same_storage(two["b"], one["b"]) and
       not tarn.same_storage(two["a"], one["a"]),
       "and the same storage; what did is in another")
    equal(first_of(one), {"a": 1, "b": 1, "c": 1}, "the old version stays")
    ok((follow.current, follow.previous) == (two, one),
       "the follow holds both")
    ok(two.version > one.version, "its number is higher")
    return follow


def skipping(follow):
    put(3, a=3)
    put(4, b=4)
    put(5, a=5)
    late = follow.latest()
    equal((first_of(late), late.changed), ({"a": 5, "b": 4, "c": 1},
                                           {"a", "b"}),
          "versions in between are skipped, but not their changes")
    store.publish_set("policy", {"a": store["policy/a"], "d": numbers(6)})
    last = next(follow)
    equal((first_of(last), last.removed, last.fields),
          ({"a": 5, "d": 6}, {"b", "c"}, {}), "names come and go")
    ok("d" in last.changed, "what came is new")


def prefixes():
    with store.follow(prefix="policy") as follow:
        version = next(follow)
        equal(sorted(version), ["policy/.fields", "policy/a", "policy/d",
                                "policy2"], "a prefix has whole names")
        equal(version.fields, {}, "and no fields")
        store.publish("policy2", numbers(7))
        equal(next(follow).changed, {"policy2"}, "one of them was published")
        store.remove("policy2")
        gone = next(follow)
        equal((gone.changed, gone.removed), (set(), {"policy2"}),
              "one of them was removed")
        equal(version["policy2"][0], 5, "older versions have it")
    raises(ValueError, "closed", "a follow that is closed", follow.next)
    follow.close()
    equal(gone["policy/d"][0], 6, "its versions stay")


def refused():
    raises(ValueError, "prefix='policy/'", "a name with a slash",
           store.follow, "policy/")
    raises(ValueError, "no name", "a name without letters", store.follow, "")
    raises(TypeError, "5", "a number as a name", store.follow, 5)
    raises(TypeError, "prefix=", "neither name nor prefix", store.follow)
    raises(TypeError, "prefix=", "name and prefix", store.follow, "a",
           prefix="b")
    raises(ValueError, "2000 bytes", "a prefix that is too long", store.follow,
           prefix="x" * 2000)
    raises(TypeError, "", "no store", tarn.Follow, 5, "policy")
    raises(ValueError, "", "a timeout that is none", store.follow("a").next,
           float("nan"))


# ---- generations ----
def used():
    gc.collect()
    return store.status()["storages"]


def at_rest():
    """The daemon learns a moment later what was dropped: their number when
    it has stayed the same for a while."""
    now, looks, deadline = used(), 0, time.monotonic() + 120
    while looks < 50 and time.monotonic() < deadline:
        time.sleep(.01)
        was, now = now, used()
        looks = looks + 1 if now == was else 0
    return now


def generations():
    """How many storages more are held with two generations, and when one was
    released. Each tensor of a refit's bucket is one storage here."""
    store.publish_set("g", {"a": numbers(1, 1 << 20), "b": numbers(1, 1 << 20)})
    with store.follow("g") as follow:
        follow.next()
        held = at_rest()
        for step in 2, 3, 4:
            with store.refit("g") as r:
                r.put("a", numbers(step, 1 << 20))
            follow.next()
        two = at_rest()
        equal([v["a"][0] for v in (follow.previous, follow.current)],
              [3, 4], "both can be read")
        old = follow.previous
        with old as same:
            ok(same is old and not old.released, "a version is a context")
        old.release()
        one = at_rest()
        raises(ValueError, "released", "a version that was released",
               lambda: old["a"])
        raises(ValueError, "released", "its fields", lambda: old.fields)
        ok(old.released and "released" in repr(old), "it says so")
        equal(follow.current["b"][0], 1, "what is shared stays")
    store.publish({}, replace="g/")
    return two - held, one - held


def dropped():
    # A daemon that is slow may have been at rest too early.
    for _ in range(3):
        more = generations()
        if more == (1, 0):
            break
    equal(more, (1, 0), "two generations of what changed are held, and a "
          "release drops one")


# ---- the end of a set ----
def removed():
    follow = store.follow("policy")
    was = follow.next()
    store.publish({}, replace="policy/")
    raises(tarn.NotFoundError, "'policy/': all 3 names were removed",
           "the set was removed", follow.next)
    for when in "once", "and again":
        raises(tarn.NotFoundError, "nothing is published as 'policy/'",
               f"latest() does not give what was removed, {when}",
               follow.latest)
    raises(TimeoutError, "", "which is told once", follow.next, 0)
    equal(was["d"][0], 6, "the last version stays")
    store.publish_set("policy", {"a": numbers(9)})
    again = follow.next()
    equal((first_of(again), again.changed, again.removed),
          ({"a": 9}, {"a"}, {"d"}), "it is followed again when it is back")
    store.publish({}, replace="policy/")
    store.publish_set("policy", {"a": numbers(10)})
    again = follow.next()
    equal((first_of(again), again.changed), ({"a": 10}, {"a"}),
          "a set that was back in between is a version")


# ---- threads and signals ----
def threads():
    follow, seen = store.follow("policy"), []
    follow.next()
    thread = threading.Thread(target=lambda: seen.append(follow.next()))
    thread.start()
    kit.until_waits(thread)
    raises(RuntimeError, "another thread", "two threads in one follow",
           follow.next, 0)
    raises(RuntimeError, "another thread", "nor is it closed then",
           follow.close)
    store.publish("policy/a", numbers(11))
    thread.join()
    equal(first_of(seen[0]), {"a": 11}, "a publication wakes a waiter")
    presser = kit.ctrl_c()
    raises(KeyboardInterrupt, "", "Ctrl-C ends a wait", follow.next)
    presser.join()
    raises(TimeoutError, "", "the loop's timeout is the follow's",
           lambda: [1 for _ in store.follow("none", timeout=.01)])


def interrupted():
    """An exception, as of a signal, before a version is handed out: the next
    one has its changes, and mixes nothing."""
    class Failing(tarn.Follow):
        fails = None

        def _take(self, *args):
            if self.fails == "before":
                raise LookupError("of the test")
            version = super()._take(*args)
            if self.fails == "after":
                raise LookupError("of the test")
            return version

    store.publish_set("i", {"a": numbers(1), "b": numbers(1)})
    for fails in "before", "after":
        follow = Failing(store, "i")
        one = follow.next()
        start = one["a"][0]
        store.publish("i/a", numbers(start + 1))
        follow.fails = fails
        raises(LookupError, "of the test", f"an exception {fails} a version",
               follow.next)
        follow.fails = None
        late = follow.next(0)
        equal((late["a"][0], late["b"] is one["b"], late.changed),
              (start + 1, True, {"a"}), "the version is not lost")
        raises(TimeoutError, "", "nor is it returned once more", follow.next,
               0)
        follow.fails = fails
        store.publish("i/a", numbers(start + 2))
        raises(LookupError, "", "once more", follow.latest)
        follow.fails = None
        store.publish("i/b", numbers(start + 3))
        late = follow.next(0)
        equal((late["a"][0], late["b"][0], follow.latest() is late),
              (start + 2, start + 3, True), "what came meanwhile is there")
        equal(late.changed, {"a", "b"} if fails == "before" else {"b"},
              "with all that changed since the version before")
        follow.fails = "before"
        store.publish("i/a", numbers(start + 4))
        raises(LookupError, "", "again", follow.latest)
        if fails == "after":
            store.publish({}, replace="i/")
            raises(tarn.NotFoundError, "removed", "it was removed by then",
                   follow.next)
            raises(TimeoutError, "", "and is not returned", follow.next, 0)
        follow.close()


def copies():
    follow = store.follow("policy")
    version = follow.next()
    copy = pickle.loads(pickle.dumps(version))
    equal((first_of(copy), copy.version, copy.changed),
          ({"a": 11}, version.version, {"a"}), "a version is pickled by value")
    copy = pickle.loads(pickle.dumps(follow))
    equal(first_of(copy.next()), {"a": 11}, "a follow begins anew")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, b"x")
        os._exit(first_of(follow.next(60))["a"])
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    store.publish("policy/a", numbers(12))
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 12,
          "a child goes on with it")
    equal(first_of(follow.next()), {"a": 12}, "and so does its parent")


# ---- beside a publisher ----
PUBLISHER = """
import itertools, sys, tarn
store = tarn.Store()
def numbers(n):
    return tarn.full((50,), n, dtype="I64")
for n in itertools.count(2):
    with store.refit("fast", fields={"step": str(n)}) as r:
        r.put("a", numbers(n))
        r.put("b", numbers(-n))
        if n % 10 == 0:
            r.put("often", numbers(n))
    if n == 2:
        print(flush=True)
"""
FOLLOWER = """
import sys, tarn
last = None
seen = 0
for version in tarn.Store().follow("fast"):
    a, b, step = version["a"].tolist(), \\
        version["b"].tolist(), int(version.fields["step"])
    n = a[0]
    assert a == [n] * 50 and b == [-n] * 50 and n == step, (a, b, step)
    often = version["often"][0]
    assert often == max(1, n // 10 * 10), (n, often)
    assert version["still"][0] == 1
    if last is not None:
        assert n > last["a"][0]
        assert version["still"] is last["still"]
        assert tarn.same_storage(version["still"], last["still"])
        assert {"a", "b"} <= version.changed <= {"a", "b", "often"}, \\
            version.changed
        assert ("often" in version.changed) == (
            often != last["often"][0])
        assert ("often" in version.changed) == (
            version["often"] is not last["often"])
    last = version
    seen += 1
    if seen == ROUNDS:
        print("good", flush=True)
    elif seen == 2:
        print("begun", flush=True)
    if seen >= ROUNDS and not FOREVER:
        break
"""


def program(text, **words):
    for word, value in words.items():
        text = text.replace(word, str(value))
    return subprocess.Popen([sys.executable, "-c", text],
                            stdout=subprocess.PIPE, text=True)


def together():
    store.publish_set("fast", {"a": numbers(1, 50), "b": numbers(-1, 50),
                               "often": numbers(1, 50),
                               "still": numbers(1, 50)},
                      fields={"step": "1"})
    before = at_rest()
    publisher = program(PUBLISHER)
    publisher.stdout.readline()
    followers = [program(FOLLOWER, ROUNDS=300, FOREVER=False)
                 for _ in range(3)]
    killed = [program(FOLLOWER, ROUNDS=20, FOREVER=True) for _ in range(2)]
    for i, follower in enumerate(killed):
        lines = [follower.stdout.readline() for _ in range(i + 1)]
        equal(lines, ["begun\n", "good\n"][:i + 1], "a follower is under way")
        follower.kill()
        follower.wait()
        follower.stdout.close()
    for follower in followers:
        out, _ = follower.communicate()
        equal((out, follower.returncode), ("begun\ngood\n", 0),
              "300 versions, each of one commit; the same where unchanged")
    publisher.kill()
    publisher.wait()
    publisher.stdout.close()
    for step in "a", "b", "often":
        store.publish(f"fast/{step}", numbers(1, 50))
    deadline = time.monotonic() + 120
    while used() > before and time.monotonic() < deadline:
        time.sleep(.01)
    ok(used() <= before, "nothing of the killed ones is left", used(), before)


# ---- the daemon ----
def replaced():
    follow = store.follow("policy")
    follow.next()
    daemon.send_signal(signal.SIGUSR2)
    for n in range(20, 40):
        store.publish("policy/a", numbers(n))
        equal(first_of(follow.next(60)), {"a": n},
              "a version while the server is replaced")


def ended():
    follow, seen = store.follow("policy"), []
    held = follow.next()

    def wait():
        try:
            follow.next()
        except OSError as e:
            seen.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    kit.until_waits(thread)
    daemon.terminate()
    equal(daemon.wait(), 0, "the daemon ends without error")
    thread.join()
    ok(isinstance(seen[0], ConnectionResetError) and
       "follow 'policy/'" in str(seen[0]), "a waiter learns of it", seen)
    raises(ConnectionResetError, "policy/", "so do later calls", follow.next)
    equal(first_of(held), {"a": 39}, "the versions that are held stay")
    other = kit.start_daemon("sock")
    raises(ConnectionResetError, "policy/",
           "a new daemon is not taken for the old one", follow.next)
    anew = tarn.Store().follow("policy")
    raises(TimeoutError, "", "a new store follows it", anew.next, 0)
    other.terminate()
    equal(other.wait(), 0, "the new daemon ends, too")


# ---- which bytes a version has ----
def digests():
    follow = store.follow("summed")
    store.publish_set("summed", {n: numbers(1) for n in "abc"}, digests=True,
                      fields={"x": "y"}, notes={"a": b"of a"})
    one = follow.next()
    equal(one.digests, {n: numbers(1).digest() for n in "abc"},
          "each tensor has the digest of its bytes")
    with store.refit("summed") as r:
        r.put("a", numbers(2))
        r.put("b", numbers(1))
    two = follow.next()
    equal(({n for n in two if two.digests[n] != one.digests[n]}, two.changed),
          ({"a"}, {"a", "b"}), "what has other bytes has another digest")
    equal((two.digests["a"], two.fields, store.note("summed", "a")),
          (numbers(2).digest(), {"x": "y"}, b"of a"),
          "a refit makes the digest, and keeps fields and notes")
    equal(store.verify_set("summed"), None, "the set is verified")
    store.publish("summed/a", numbers(3))
    raises(ValueError, "'a' has digest", "other bytes are found",
           store.verify_set, "summed")
    equal(follow.next().digests, {n: numbers(1).digest() for n in "bc"},
          "what others publish under a name is without one")
    with store.refit("summed") as r:
        r.put("b", numbers(4))
    equal(follow.next().digests, {"a": numbers(3).digest(),
                                  "b": numbers(4).digest(),
                                  "c": numbers(1).digest()},
          "until the next refit")
    raises(tarn.NotFoundError, "'nothing'", "a set that is not there",
           store.verify_set, "nothing")
    store.publish_set("plain", {"a": numbers(1)})
    equal(store.follow("plain").next().digests, {}, "a set may have none")
    raises(ValueError, "published without a digest", "it cannot be verified",
           store.verify_set, "plain")
    for prefix in "summed/", "plain/":
        store.publish({}, replace=prefix)


skipping(versions())
digests()
prefixes()
refused()
dropped()
removed()
threads()
interrupted()
copies()
together()
replaced()
ended()
sys.exit(kit.finish())
