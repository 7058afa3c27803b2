#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loaders in Python: ranks of any world, with any number of workers, have
together the same batches, also where they share a stream, are resumed in
another world, or one of them is killed."""
import gc
import json
import multiprocessing
import os
import random
import sys
import threading

import py_kit as kit

import tarn
from tarn import data

BATCH, STEPS = 12, 9
UNTIL = BATCH * STEPS - 5  # the last batch is a smaller one


def make(kind="packed", seed=3):
    """The same in each process."""
    draw = random.Random(1)
    lengths = [draw.randrange(1, 40) for _ in range(200)]
    ends = [0]
    for n in lengths:
        ends.append(ends[-1] + n)
    if kind == "python":
        return data.Dataset(Items(), seed=seed)
    if kind == "rows":
        return data.Dataset(data.Source.rows(
            tarn.arange(3 * 500).reshape(500, 3)), seed=seed)
    tokens = data.Source.tokens(tarn.arange(ends[-1]), ends)
    if kind == "mixed":
        return data.Dataset([tokens, tokens], 16, windows="packed", seed=seed,
                            weights=[2, 1])
    return data.Dataset(tokens, 16, windows=kind, seed=seed)


class Index:
    """As numpy's numbers are."""

    def __index__(self):
        return 12


class Items:
    def __len__(self):
        return 500

    def __getitem__(self, i):
        return {"x": [i, 2 * i], "name": f"item {i}"}


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value.tolist() if isinstance(value, tarn.Tensor) else value


def joined(parts):
    """The batches of all ranks as one."""
    if isinstance(parts[0], dict):
        return {k: joined([p[k] for p in parts]) for k in parts[0]}
    return [row for part in parts for row in part]


# ---- transforms -----------------------------------------------------------


def noisy(batch, seeds):
    name = "tokens" if "tokens" in batch else "row"
    return {"x": batch[name].tolist(),
            "noise": [random.Random(s).random() for s in seeds]}


def noisy_sample(sample, seed):
    name = next(iter(sample))
    value = sample[name]
    return {"x": value.tolist() if isinstance(value, tarn.Tensor) else value,
            "noise": random.Random(seed).random()}


def fails(batch):
    raise LookupError(f"{len(batch['tokens'])} samples too many")


def cannot_go(batch):
    return threading.Lock()


def dies(batch):
    os._exit(7)


def leaves(batch):
    sys.exit(7)


# ---- ranks as processes ---------------------------------------------------


def rank_of_stream(kind, rank, world, name, state, pipe, stop=None):
    """Sends its batches; waits for a word before it ends, or when it has given
    `stop` of them."""
    options = {} if kind == "rows" else {
        "positions": True, "segments": True, "document": True}
    with data.Loader(make(kind), BATCH, rank=rank, world=world, shared=name,
                     state=state, until=UNTIL, **options) as loader:
        for i, batch in enumerate(loader):
            pipe.send(plain(batch))
            del batch
            if i + 1 == stop:
                pipe.recv()
        info = loader.info
    pipe.send(("end", info))
    pipe.recv()


class Ranks:
    def __init__(self, kind, world, name, state=None, stop=None):
        context = multiprocessing.get_context("fork")
        self.pipes, self.processes = [], []
        for rank in range(world):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=rank_of_stream,
                args=(kind, rank, world, name, state, theirs,
                      stop if rank == 0 else None))
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def rest(self, rank):
        """Its batches to the end, and what it knows of the stream."""
        found = []
        while True:
            message = self.pipes[rank].recv()
            if isinstance(message, tuple):
                return found, message[1]
            found.append(message)

    def end(self):
        for pipe, process in zip(self.pipes, self.processes):
            try:
                pipe.send("end")
            except OSError:
                pass
            process.join()
        return [p.exitcode for p in self.processes]


def rank_in_step(rank, world, name, start, pipe):
    with data.Loader(make(), BATCH, rank=rank, world=world, shared=name,
                     from_=start, until=UNTIL) as loader:
        while pipe.recv() == "next":
            pipe.send(next(loader)["tokens"].tolist())


class InStep:
    """Ranks of which none is more than a step ahead, and which are killed."""

    def __init__(self, name, draw):
        self._name, self._draw, self._ranks = name, draw, []

    def _start(self, rank, world, start):
        mine, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(
            target=rank_in_step, args=(rank, world, self._name, start, theirs))
        process.start()
        theirs.close()
        return process, mine

    def _kill(self, ranks):
        for process, pipe in ranks:
            process.kill()
            process.join()
            pipe.close()

    def all(self, world, start):
        """All are killed, and so many go on."""
        self._kill(self._ranks)
        self._ranks = [self._start(r, world, start) for r in range(world)]

    def one(self, start):
        """One is killed and comes again."""
        rank = self._draw.randrange(len(self._ranks))
        self._kill([self._ranks[rank]])
        self._ranks[rank] = self._start(rank, len(self._ranks), start)

    def step(self):
        """The next global batch, which they ask for in any order."""
        found = [None] * len(self._ranks)
        order = list(range(len(found)))
        self._draw.shuffle(order)
        for rank in order:
            self._ranks[rank][1].send("next")
            if self._draw.random() < .5:
                found[rank] = self._ranks[rank][1].recv()
        return joined([self._ranks[r][1].recv() if f is None else f
                       for r, f in enumerate(found)])

    def end(self):
        for process, pipe in self._ranks:
            pipe.send("end")
            process.join()
        return [p.exitcode for p, _ in self._ranks]


def alone(kind, rank=0, world=1, **options):
    options.setdefault("until", UNTIL)
    if kind not in ("rows", "python") and "transform" not in options:
        options.update(positions=True, segments=True, document=True)
    with data.Loader(make(kind), BATCH, rank=rank, world=world,
                     **options) as loader:
        return [plain(batch) for batch in loader]


def main():
    os.chdir(os.environ["TMPDIR"])
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))

    # ---- alone ----
    for kind in ("stream", "packed", "mixed", "rows"):
        dataset = make(kind)
        options = {} if kind == "rows" else {
            "positions": True, "segments": True, "document": True}
        wanted = [plain(dataset.batch(range(g, min(g + BATCH, UNTIL)),
                                      **options))
                  for g in range(0, UNTIL, BATCH)]
        whole = alone(kind)
        kit.equal(whole, wanted, f"{kind}: batches are the dataset's")
        for world in (2, 3, 8):
            parts = [alone(kind, r, world) for r in range(world)]
            kit.equal([joined(list(p)) for p in zip(*parts, strict=True)],
                      whole, f"{kind}: {world} ranks have them together")
    whole = alone("python")
    kit.equal([b["name"] for b in whole],
              [[f"item {x[0]}" for x in b["x"]] for b in whole],
              "items of Python are collated")
    for world in (2, 3):
        parts = [alone("python", r, world, workers=2) for r in range(world)]
        kit.equal([joined(list(p)) for p in zip(*parts, strict=True)], whole,
                  f"{world} ranks with workers have the same items")
    batch = next(data.Loader(make(), 4, rank=0, world=1, cu_seqlens=True))
    kit.equal(batch["cu_seqlens"].tolist(), make().batch(
        range(4), cu_seqlens=True)["cu_seqlens"].tolist(),
        "boundaries come with a batch")

    # ---- state ----
    draw = random.Random(5)
    whole = alone("mixed")
    for world, other in ((1, 3), (3, 1), (2, 8), (8, 2)):
        stop = draw.randrange(1, STEPS - 1)
        states, before = [], []
        for rank in range(world):
            with data.Loader(make("mixed"), BATCH, rank=rank, world=world,
                             until=UNTIL, positions=True, segments=True,
                             document=True) as loader:
                before.append([plain(next(loader)) for _ in range(stop)])
                states.append(json.dumps(loader.state_dict()))
                kit.equal(loader.position, stop * BATCH,
                          f"rank {rank} of {world} stands after {stop} steps")
        kit.equal(len(set(states)), 1, "the state is the same on all ranks")
        after = [alone("mixed", r, other, state=json.loads(states[0]))
                 for r in range(other)]
        kit.equal([joined(list(p)) for p in zip(*before)] +
                  [joined(list(p)) for p in zip(*after)], whole,
                  f"from {world} ranks to {other} after {stop} steps: none "
                  "twice, none missing")
    loader = data.Loader(make(), BATCH, rank=0, world=1, until=UNTIL)
    kept = [next(loader) for _ in range(4)]
    texts = [plain(b) for b in kept]
    state = loader.state_dict()
    rest = [plain(b) for b in loader]
    loader.load_state_dict(state)
    kit.equal([plain(b) for b in loader], rest, "a state is loaded again")
    kit.equal([plain(b) for b in kept], texts, "batches stay as they are")
    kit.equal(list(loader), [], "the end stays the end")
    kit.raises(ValueError, "seed", "a state of another configuration",
               data.Loader, make(seed=4), BATCH, rank=0, world=1, state=state)
    kit.raises(ValueError, "state_dict()", "what is no state",
               loader.load_state_dict, {"x": 1})
    kit.raises(ValueError, "state_dict()", "nor what has no text in it",
               loader.load_state_dict, {"data": 5, "taken": 0})
    loader.close()
    loader.close()
    kit.equal(data.Loader(make(), Index(), from_=Index(), until=Index(),
                          rank=0, world=1).position, 12,
              "other whole numbers than Python's will do")
    epochs = data.Loader(make(), BATCH, rank=0, world=1, steps=3)
    kit.equal((len(epochs), [plain(b) for _ in range(3) for b in epochs]),
              (3, [plain(b) for b in data.Loader(
                  make(), BATCH, rank=0, world=1, until=9 * BATCH)]),
              "iterations of some steps go on with each other")
    next(epochs)
    state = epochs.state_dict()
    other = data.Loader(make(), BATCH, rank=0, world=1, steps=3, state=state)
    kit.equal(len(list(other)), 2, "and from a state, to their end")
    kit.raises(TypeError, "steps", "without steps there is no length", len,
               loader)

    # ---- ranks by the environment ----
    os.environ.update(RANK="5", WORLD_SIZE="8", LOCAL_RANK="1",
                      LOCAL_WORLD_SIZE="4", GROUP_RANK="1")
    loader = data.Loader(make(), 16)
    kit.equal((loader.rank, loader.world, loader._node), (5, 8, (4, 4)),
              "rank, world and node are torchrun's")
    del os.environ["LOCAL_RANK"]
    kit.equal(data.Loader(make(), 16)._node, (4, 4), "or the group's rank")
    os.environ["RANK"] = "x"
    kit.raises(ValueError, "RANK", "what is no number is told", data.Loader,
               make(), 16)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"):
        del os.environ[name]
    kit.equal((data.Loader(make(), 16).rank, data.Loader(make(), 16).world),
              (0, 1), "else there is one rank")

    # ---- refused ----
    for what, error, part, arguments, options in (
            ("no dataset", TypeError, "Dataset", ("corpus", 8), {}),
            ("no batch", ValueError, "global_batch", (make(), 0), {}),
            ("rank without world", ValueError, "both", (make(), 8),
             {"rank": 1}),
            ("a rank too high", ValueError, "rank", (make(), 8),
             {"rank": 3, "world": 3}),
            ("fewer workers than none", ValueError, "workers", (make(), 8),
             {"workers": -1}),
            ("an unknown per", ValueError, "per", (make(), 8),
             {"per": "token"}),
            ("a transform that is none", TypeError, "transform", (make(), 8),
             {"transform": 3}),
            ("boundaries per sample", ValueError, "cu_seqlens", (make(), 8),
             {"cu_seqlens": True, "per": "sample", "transform": len}),
            ("shared items of Python", ValueError, "shared",
             (make("python"), 8), {"shared": "x"}),
            ("positions of items", ValueError, "positions",
             (make("python"), 8), {"positions": True})):
        kit.raises(error, part, f"{what}: {error.__name__}", data.Loader,
                   *arguments, **options)

    # ---- transforms and workers ----
    for kind in ("packed", "rows", "python"):
        for per, function in (("batch", noisy), ("sample", noisy_sample)):
            if kind == "python" and per == "batch":
                continue
            whole = alone(kind, transform=function, per=per)
            for world, workers in ((1, 1), (1, 3), (3, 0), (3, 1), (2, 3)):
                parts = [alone(kind, r, world, transform=function, per=per,
                               workers=workers) for r in range(world)]
                kit.equal([joined([p[k] for p in parts])
                           for k in range(STEPS)], whole,
                          f"{kind} per {per}: {world} ranks of {workers} "
                          "workers transform as one does")
    wanted = alone("packed", transform=noisy)
    kit.equal(alone("packed", transform=noisy, workers=2,
                    multiprocessing_context="spawn"), wanted,
              "workers that are no forks do, too")
    for function, error, part in (
            (fails, LookupError, "12 samples too many"),
            (cannot_go, Exception, ""),
            (leaves, RuntimeError, "SystemExit(7)")):
        loader = data.Loader(make(), BATCH, rank=0, world=1,
                             transform=function, workers=2)
        kit.raises(error, part, f"{function.__name__}: a worker's error comes",
                   next, loader)
        kit.raises(error, part, f"{function.__name__}: and again", next,
                   loader)
        kit.equal(loader.position, 0, "the position stays")
        loader.close()
    loader = data.Loader(make(), BATCH, rank=0, world=1, transform=dies,
                         workers=2)
    kit.raises(RuntimeError, "with 7", "workers that only die are given up",
               next, loader)
    loader.close()
    loader = data.Loader(make(), BATCH, rank=0, world=1, transform=noisy,
                         workers=2, until=UNTIL)
    begin = loader.state_dict()
    kept = list(loader)
    kit.equal(kept, wanted, "all batches can be kept")
    loader.load_state_dict(begin)
    next(loader)
    workers = [p.pid for p in loader._batches.pool._processes]
    del loader
    gc.collect()
    kit.equal([pid for pid in workers if os.path.exists(f"/proc/{pid}")], [],
              "workers end with their loader")

    # ---- one stream ----
    for kind, world in (("packed", 1), ("packed", 2), ("stream", 3),
                        ("mixed", 8), ("rows", 2)):
        ranks = Ranks(kind, world, f"{kind}{world}")
        found = [ranks.rest(r) for r in range(world)]
        kit.equal([joined(list(p)) for p in zip(*[f[0] for f in found],
                                                strict=True)], alone(kind),
                  f"{kind}: {world} ranks of one stream have all batches")
        kit.equal([i["shared"] + i["alone"] for _, i in found],
                  [STEPS] * world, "each from the stream or by itself")
        kit.equal(ranks.end(), [0] * world, "and end")
    # In the midst of it, rank 0 is killed, and comes again from its state.
    whole = alone("packed")
    for stop in (1, 4, STEPS - 1):
        ranks = Ranks("packed", 2, f"killed{stop}", stop=stop)
        first = [ranks.pipes[0].recv() for _ in range(stop)]
        ranks.processes[0].kill()
        ranks.processes[0].join()
        state = data.Loader(make(), BATCH, rank=0, world=2,
                            from_=stop * BATCH).state_dict()
        with data.Loader(make(), BATCH, rank=0, world=2, until=UNTIL,
                         shared=f"killed{stop}", state=state, positions=True,
                         segments=True, document=True) as loader:
            first += [plain(batch) for batch in loader]
        second, _ = ranks.rest(1)
        kit.equal([joined(list(p)) for p in zip(first, second, strict=True)],
                  whole, f"rank 0 is killed after {stop} steps: both go on")
        ranks.end()
    tokens = [b["tokens"] for b in whole]
    for i in range(6):
        seed = int.from_bytes(os.urandom(4), "little")
        draw = random.Random(seed)
        ranks, found = InStep(f"step{i % 2}", draw), []
        for step in range(STEPS):
            event = draw.random()
            if step == 0 or event < .15:
                ranks.all(draw.choice((1, 2, 3)), step * BATCH)
            elif event < .4:
                ranks.one(step * BATCH)
            found.append(ranks.step())
        kit.ok(found == tokens, "ranks that wait for each other are killed, one "
               f"or all, and go on in any world (seed {seed})", found, tokens)
        kit.equal(set(ranks.end()), {0}, "and end")
    for shared in (None, "kept"):
        # One whose stream stands still for 2 s reads by itself: then once more.
        for turn in range(5):
            with data.Loader(make(), BATCH, rank=0, world=1, until=UNTIL,
                             shared=shared and f"{shared}{turn}") as loader:
                kept, info = list(loader), loader.info
            if info["alone" if shared else "shared"] <= 1:
                break
        kit.ok(len(kept) > info["slots"] and
               info["alone" if shared else "shared"] <= 1,
               "more batches can be kept than there are slots"
               f"{shared and ', of a stream' or ''}", info)
        kit.equal([b["tokens"].tolist() for b in kept], tokens,
                  "and are what they were")
    loaders = [data.Loader(make(seed=s), BATCH, rank=0, world=1, shared="one")
               for s in (3, 4)]
    next(loaders[0])
    kit.raises(ValueError, "", "another dataset is no part of a stream", next,
               loaders[1])
    for loader in loaders:
        loader.close()

    # ---- waits, forks, threads ----
    whole = alone("packed", transform=noisy)
    loader = data.Loader(make(), BATCH, rank=0, world=1, until=UNTIL,
                         transform=noisy)
    next(loader)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if list(loader) == whole[1:] else 1)
    kit.equal(os.waitpid(pid, 0)[1], 0, "the child of a fork reads for itself")
    kit.equal(list(loader), whole[1:], "and the parent goes on")
    daemon.terminate()
    daemon.wait()
    return kit.finish()


if __name__ == "__main__":
    sys.exit(main())
