#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""load_file(path, group=...) while ranks, or a node's whole daemon, are killed at
random moments, or the link of a node is cut: every other rank ends in time, with the
tensors or with an error; and each node has the whole set, with the file's bytes, or
nothing of it. With the link there again, a load succeeds.

This program starts itself once more for each rank. TARN_TEST_SEED repeats a run,
TARN_TEST_ROUNDS is the number of loads, and TARN_TEST_CUTS that of cuts."""
import os
import random
import signal
import subprocess
import sys
import time

import py_kit as kit

try:
    import torch
    import torch.distributed as dist
except ImportError:
    kit.skip_all("torch is not installed (python3-torch)")
if not dist.is_available() or not dist.is_gloo_available():
    kit.skip_all("this torch has no gloo")
import tarn
from tarn import _plan
from tarn.torch import load_file, save_file

tmp, run = os.environ["TMPDIR"], os.environ["XDG_RUNTIME_DIR"]
path = os.path.join(tmp, "m.safetensors")
NODES, PER = 3, 2
ROUNDS = int(os.environ.get("TARN_TEST_ROUNDS", "8"))
TIMEOUT, PATIENCE = 20, 120  # seconds: of a load, and of a test that hangs
CUTS = max(int(os.environ.get("TARN_TEST_CUTS", "4")), 2)
CUT_TIMEOUT = 3  # of a load whose link is cut: nobody tells that all are there
CUT_ENDS = ("right", "TimeoutError", "ConnectionError", "OSError")
MBIT = 200  # of those links: a load takes a quarter of a second


def tensors():
    """9 MiB: a load takes some hundred chunks."""
    return {f"{i}": torch.arange(100_000 + i * 50_000).float() + i
            for i in range(10)}


def is_whole(found):
    wanted = tensors()
    return sorted(found) == sorted(wanted) and all(
        torch.equal(found[n], t) for n, t in wanted.items())


def be_a_rank(rank, world, node, meeting, timeout):
    torch.set_num_threads(1)
    _plan.plan.__kwdefaults__["chunk"] = 1 << 16
    dist.init_process_group("gloo", init_method=f"file://{meeting}",
                            rank=int(rank), world_size=int(world))
    print("begins", flush=True)
    sys.stdin.readline()  # until it is let go
    began = time.monotonic()
    try:
        found = load_file(path, group=dist.group.WORLD, name="m", node=node,
                          timeout=float(timeout))
        print(f"took {time.monotonic() - began}")
        print("right" if is_whole(found) else "WRONG", flush=True)
    except Exception as e:
        print(type(e).__name__, e, flush=True)
    os._exit(0)  # a broken group is not waited for


if len(sys.argv) > 1:
    be_a_rank(*sys.argv[1:])

# ---- the first process ----
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
seed = int(os.environ.get("TARN_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
print(f"# TARN_TEST_SEED={seed}")
draw = random.Random(seed)
save_file(tensors(), path)
daemons = [None] * NODES
loads = []  # seconds of those that succeeded


def socket_of(node):
    return os.path.join(run, f"{node}.sock")


def start_daemons():
    for node in range(NODES):
        if daemons[node] is None:
            daemons[node] = kit.start_daemon(socket_of(node))


def start_rank(rank, meeting, timeout):
    node = rank // PER
    return start([sys.executable, __file__, str(rank), str(NODES * PER),
                  f"node {node}", meeting, str(timeout)], node, "lo")


def start(command, node, interface):
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, TARN_SOCKET=socket_of(node),
                 GLOO_SOCKET_IFNAME=interface, OMP_NUM_THREADS="1"))


def let_go(ranks):
    for rank in ranks:
        rank.stdin.write("\n")
        rank.stdin.flush()


def kill_daemon(node):
    """The keeper and its server at once: nothing is restarted."""
    daemon, daemons[node] = daemons[node], None
    with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children",
              encoding="ascii") as f:
        children = [int(pid) for pid in f.read().split()]
    daemon.kill()
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    daemon.wait()
    os.unlink(socket_of(node))


def end_of(rank, until):
    """What it said last; None: it hangs."""
    try:
        said = rank.communicate(timeout=max(until - time.monotonic(), 0.1))[0]
    except subprocess.TimeoutExpired:
        rank.kill()
        rank.communicate()
        return None
    loads.extend(seconds_in(said.splitlines()))
    return said.strip().splitlines()[-1] if said.strip() else ""


def seconds_in(lines):
    return [float(line.split()[1]) for line in lines
            if line.startswith("took")]


def set_of(node):
    """whole, nothing, or what is there of it."""
    store = tarn.Store(socket_of(node))
    names = store.names("m/")
    if not names:
        return "nothing"
    found = {n[2:]: t for n, t in store.snapshot("m/").torch().items()
             if n != "m/.fields"} if "m/.fields" in names else {}
    return "whole" if is_whole(found) else names


def take_sets():
    """Of all nodes; they are removed."""
    found = [set_of(n) if daemons[n] else "killed" for n in range(NODES)]
    for node in range(NODES):
        if daemons[node]:
            store = tarn.Store(socket_of(node))
            store.publish({}, replace="m/")
            del store
    return found


def round_of(number, longest):
    """One load; whom it kills, and how all of it ended."""
    start_daemons()
    meeting = os.path.join(tmp, f"meeting{number}")
    ranks = [start_rank(r, meeting, TIMEOUT if number else PATIENCE)
             for r in range(NODES * PER)]
    for rank in ranks:
        rank.stdout.readline()  # it begins
    begin = time.monotonic()
    let_go(ranks)
    until = begin + PATIENCE
    victim = draw.randrange(NODES * PER)
    whole_node = number and draw.random() < 1 / 3
    time.sleep(draw.random() * longest if number else 0)
    if number and whole_node:
        kill_daemon(victim // PER)
    elif number:
        ranks[victim].kill()
    ends = [end_of(r, until) for r in ranks]
    took = time.monotonic() - begin
    if number and not whole_node:
        ends[victim] = "killed"
    if os.path.exists(meeting):
        os.unlink(meeting)
    return ends, take_sets(), took


# ---- links ----
network = os.path.join(os.environ.get("top_srcdir", "."), "tests/kit/network.sh")
network_name = f"tarn-test-{os.getpid()}"


def ask_network(word, *words):
    return subprocess.run([network, word, network_name, *map(str, words)],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def start_on_network(node, meeting, timeout):
    return start(["nsenter", f"--net=/run/netns/{network_name}-{node}",
                  sys.executable, __file__, str(node), str(NODES),
                  f"node {node}", meeting, str(timeout)], node, "net0")


def cut_round(after=None, way=None):
    """One load, of a rank on each node; how it ended, the sets, and how long the
    load and all of it took. The link of a node is cut after a time; 0: before the
    load begins; None: it is not."""
    meeting = os.path.join(tmp, "meeting on a network")
    timeout = PATIENCE if after is None else CUT_TIMEOUT
    ranks = [start_on_network(n, meeting, timeout) for n in range(NODES)]
    for rank in ranks:
        rank.stdout.readline()  # it begins
    begin, victim = time.monotonic(), draw.randrange(NODES)
    if after == 0:
        ask_network("cut", victim, way)
    let_go(ranks)
    if after:
        time.sleep(after)
        ask_network("cut", victim, way)
    said = []
    for rank in ranks:
        try:
            said.append(rank.communicate(timeout=PATIENCE)[0].splitlines())
        except subprocess.TimeoutExpired:
            rank.kill()
            said.append(["it hangs"])
    took = time.monotonic() - begin
    if after is not None:
        ask_network("mend", victim)
    os.unlink(meeting)
    seconds = seconds_in(line for lines in said for line in lines)
    return ([(lines or ["it says nothing"])[-1] for lines in said],
            take_sets(), max(seconds, default=0), took)


def cut_links():
    start_daemons()
    whole = ["right"] * NODES, ["whole"] * NODES
    ends, sets, load, _ = cut_round()
    kit.equal((ends, sets), whole, "three nodes of a network load a file")
    wrong, late, failed = [], 0, 0
    for i in range(CUTS):
        # One in each part of the load; the first one certainly meets it.
        after = (i + draw.random()) / CUTS * load if i else 0
        way = ("silent", "down")[i % 2]
        ends, sets, _, took = cut_round(after, way)
        late, failed = max(late, took), failed + (ends != whole[0])
        if any(e.split()[0] not in CUT_ENDS for e in ends) or any(
                s not in ("whole", "nothing") for s in sets):
            wrong.append((way, after, ends, sets))
        print(f"# {way} after {after:.3f} of {load:.3f} s, ended at {took:.1f}:",
              *(e[:100] for e in ends), sets)
    kit.equal(wrong, [], "where a link is cut all ranks end, and no set is half "
                         "there")
    kit.ok(failed > 0, "some loads were cut")
    kit.ok(late < PATIENCE, "they end after their timeout", late)
    ends, sets, _, _ = cut_round()
    kit.equal((ends, sets), whole, "with the link there again a load succeeds")


missing = ask_network("missing").strip()
if missing:
    kit.skipped("links that are cut", missing)
else:
    ask_network("begin", NODES, MBIT)
    try:
        cut_links()
    finally:
        ask_network("end", NODES)

# ---- kills ----
ends, sets, _ = round_of(0, 0)
kit.equal((ends, sets), (["right"] * 6, ["whole"] * 3),
          "six ranks on three nodes load a file")
longest = max(loads)
wrong, kinds, late = [], {}, 0
for i in range(1, ROUNDS):
    ends, sets, took = round_of(i, longest)
    late = max(late, took)
    if None in ends or "" in ends or "WRONG" in ends or any(
            s not in ("whole", "nothing", "killed") for s in sets):
        wrong.append((i, ends, sets))
    for end in ends:
        kind = (end or "it hangs").split()[0]
        kinds[kind] = kinds.get(kind, 0) + 1
print("#", kinds, f"the longest took {late:.1f} s, one without deaths "
      f"{longest:.1f} s")
kit.equal(wrong, [], "all others end, and no set is half there")
kit.ok(late < PATIENCE, "they end in time", late)
for daemon in filter(None, daemons):
    daemon.terminate()
kit.equal([d.wait() for d in daemons if d], [0] * len([d for d in daemons if d]),
          "the daemons end without error")
os.unlink(path)
sys.exit(kit.finish())
