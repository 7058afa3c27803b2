#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Replay buffers of torchrl over the store: what torchrl's own storages do, for
all processes together; rows are whole whatever is written meanwhile, and
whichever writer dies."""
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import py_kit as kit

try:
    import torch
    from tensordict import TensorDict, tensorclass
    from torchrl.data import (
        LazyTensorStorage, PrioritizedSampler, ReplayBuffer,
        TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer)
    from torchrl.data.replay_buffers import TensorDictMaxValueWriter
except ImportError as e:
    kit.skip_all(f"{e.name} is not installed (pip install torchrl)")
import tarn
from tarn import _td_rows
from tarn.tensordict import Storage, Writer, open as open_rows

torch.set_num_threads(1)  # there are forks
tmp = Path(os.environ["TMPDIR"])
WIDTH = 32


def rows(numbers):
    """Rows that say which they are, in all their values."""
    x = torch.as_tensor(numbers, dtype=torch.float32)
    wide = x[:, None].expand(-1, WIDTH).clone()
    return TensorDict({"obs": wide, "next": TensorDict(
        {"obs": wide.clone(), "done": x[:, None] % 2 == 1}, [len(x)])},
        [len(x)])


def numbers(found):
    """Which rows they are; None where one is of several."""
    first = found["obs"][..., :1]
    whole = (found["obs"] == first).all() and \
        (found["next", "obs"] == first).all() and \
        (found["next", "done"] == (first % 2 == 1)).all()
    return first.squeeze(-1).int().tolist() if whole else None


def buffer(name, size=100, writer=Writer, kind=TensorDictReplayBuffer,
           **more):
    return kind(storage=Storage(size, name), batch_size=16,
                **({"writer": writer()} if writer else {}), **more)


def as_torchrl():
    rb = buffer("rb")
    kit.equal((len(rb), rb._storage.initialized), (0, False),
              "there is nothing at first")
    kit.raises(RuntimeError, "non-initialized", "and nothing to be had",
               rb._storage.get, 0)
    index = rb.extend(rows(range(30)))
    kit.equal((index.tolist(), len(rb)), (list(range(30)), 30),
              "rows are added")
    kit.equal(int(rb.add(rows([30])[0])), 30, "and one")
    kit.equal(rb.write_count, 31, "they are counted")
    plain = buffer("rb", kind=ReplayBuffer)
    kit.equal(plain.extend([rows([31])[0], rows([32])[0]]).tolist(), [31, 32],
              "and those of a list")
    sample = rb.sample()
    kit.equal((numbers(sample), sample.batch_size),
              (sample["index"].tolist(), (16,)), "a sample is rows")
    seen = Storage(100, "rb")
    kit.equal((len(seen), seen._last_cursor), (33, 32),
              "another storage has them at once")
    kit.equal([numbers(seen[i]) for i in (
        4, slice(2, 4), [3, -1], torch.tensor([[1], [2]]), range(2),
        torch.arange(33) > 30, torch.tensor(5), slice(30, 99))],
        [4, [2, 3], [3, 32], [[1], [2]], [0, 1], [31, 32], 5, [30, 31, 32]],
        "by every kind of index")
    kit.equal(seen[torch.empty(0, dtype=torch.int64)].batch_size, (0,),
              "also by none")
    for index in [33], [-34], 33:
        kit.raises(IndexError, "", f"{index} is not there yet", seen.get,
                   index)
    rb.extend(rows(range(33, 110)))
    kit.equal((len(rb), rb._writer._cursor, numbers(rb[:])),
              (100, 10, [*range(100, 110), *range(10, 100)]),
              "the ring goes round")
    kit.equal((rb.extend(rows(range(250))).unique().numel(),
               sorted(numbers(rb[:]))), (100, list(range(150, 250))),
              "the last rows stay, where they are more than the ring")
    view = rb[3]
    rb[3] = rows([7])[0]
    kit.equal((numbers(view), numbers(rb[[3]])), (7, [7]),
              "a row is replaced by its number")
    rb[torch.tensor([1, 2])] = rows([8, 9]).select("obs")
    kit.equal(rb[:]["obs"][1:3, 0].tolist(), [8., 9.],
              "some of its leaves, too")
    before = seen._mutation_revision
    rb.empty()
    kit.equal((len(rb), len(seen), rb._writer._cursor), (0, 0, 0),
              "it is emptied")
    kit.ok(seen._mutation_revision != before, "which is a revision")
    rb.extend(rows(range(5)))
    kit.equal(numbers(seen[:]), list(range(5)), "and goes on")
    kit.ok("'rb', len=5" in repr(rb), "its repr tells", repr(rb))


def all_types():
    """Leaves of any dtype and shape go in and out."""
    x = torch.arange(-3, 9)
    data = TensorDict({
        str(dtype).removeprefix("torch."): x.to(dtype) for dtype in (
            torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64,
            torch.float16, torch.bfloat16, torch.float32, torch.float64,
            torch.complex64, torch.float8_e4m3fn, torch.uint16)}, [12])
    data["none"] = torch.zeros(12, 0)
    data["wide"] = x.view(12, 1, 1, 1).expand(12, 3, 1, 5).float()
    data["deep"] = TensorDict({"a/b": TensorDict({"": x[:, None]}, [12, 1])},
                              [12])
    data["turned"] = x.view(2, 6).t().flatten().view(12, 1).expand(12, 4)
    rb = buffer("types", 30)
    rb.extend(data)
    index = torch.tensor([3, 0, 11, 3])
    found, wanted = rb._storage[index], data[index]
    kit.equal(sorted(found.keys(True, True), key=str),
              sorted(wanted.keys(True, True), key=str), "all leaves are there")
    kit.equal([k for k in wanted.keys(True, True) if
               found[k].dtype != wanted[k].dtype or
               found[k].shape != wanted[k].shape or
               not torch.equal(found[k].flatten().view(torch.uint8),
                               wanted[k].flatten().contiguous().view(
                                   torch.uint8))], [],
              "and are what was put")
    kit.equal(found["deep", "a/b"].batch_size, (4, 1),
              "nested batch sizes are theirs")


def other_kinds():
    pb = buffer("prio", writer=None, kind=TensorDictPrioritizedReplayBuffer,
                alpha=.7, beta=.5)
    pb.set_writer(Writer())
    pb.extend(rows(range(50)))
    sample = pb.sample()
    sample["td_error"] = torch.ones(16)
    pb.update_tensordict_priority(sample)
    kit.equal(numbers(pb.sample())[0] in range(50), True,
              "a prioritized buffer samples")
    sampler = PrioritizedSampler(100, .7, .5)
    plain = buffer("plain", kind=ReplayBuffer, sampler=sampler)
    plain.extend(rows(range(20)))
    kit.equal("index" in plain.sample().keys(), False,
              "a plain buffer's rows are what was put")
    best = buffer("best", 4, writer=None)
    best.set_writer(TensorDictMaxValueWriter(rank_key="rank"))
    for k in 3, 9, 1, 5, 7, 2:
        row = rows([k])
        row["rank"] = torch.tensor([float(k)])
        best.extend(row)
    kit.equal(sorted(numbers(best[:])), [3, 5, 7, 9],
              "torchrl's other writers write")
    one = buffer("one", 1)
    one.extend(rows(range(3)))
    kit.equal(numbers(one[:]), [2], "a ring may have one row")


def own_writer():
    rb = buffer("own", 10, writer=None)
    rb.extend(rows(range(8)))
    rb.extend(rows(range(8, 12)))
    rb.add(rows([12])[0])
    kit.equal(numbers(rb[:]), [10, 11, 12, *range(3, 10)],
              "torchrl's writer is right for one process")
    other = buffer("own", 10, writer=None)
    kit.raises(RuntimeError, "writer=tarn.tensordict.Writer()",
               "two of them would overwrite each other", other.extend,
               rows(range(2)))
    kit.equal(numbers(rb[:]), [10, 11, 12, *range(3, 10)],
              "and have not")
    kit.raises(TypeError, "writes to a tarn.tensordict.Storage",
               "our writer wants our storage", ReplayBuffer,
               storage=LazyTensorStorage(10), writer=Writer())


def refused():
    buffer("spec", 10).extend(rows(range(2)))
    kit.raises(ValueError, "'spec' has 10 rows, not 11",
               "another size is told", lambda: len(Storage(11, "spec")))
    other = rows([1])[0].exclude(("next", "done"))
    other["obs"] = torch.zeros(5)
    kit.raises(ValueError, "'obs' is F32 [32], not F32 [5]",
               "other rows are told", lambda: Storage(10, "spec",
                                                      example=other))
    rb = buffer("spec", 10)
    kit.raises(KeyError, "'next.done'", "a leaf that is missing is told",
               rb.extend, rows([1]).exclude(("next", "done")))
    bad = rows([1])
    bad["obs"] = torch.zeros(1, 7)
    kit.raises(ValueError, "'obs' of the data is [1, 7]",
               "and one of another shape", rb.extend, bad)
    more = rows([5])
    more["more"] = torch.zeros(1)
    rb.extend(more)
    kit.equal((len(rb), "more" in rb[:].keys()), (3, False),
              "what a row has beside these is left out")
    plain = buffer("plain2", 10, kind=ReplayBuffer)
    kit.raises(TypeError, "holds TensorDicts, not Tensor",
               "a tensor is no TensorDict", plain.extend, torch.zeros(3))

    @tensorclass
    class Rows:
        x: torch.Tensor

    kit.raises(TypeError, "to_tensordict", "nor is a tensorclass",
               plain.extend, Rows(x=torch.zeros(2), batch_size=[2]))
    kit.raises(ValueError, "no rows", "no rows are not added",
               rb._storage.append, rows([]))


def saved():
    rb = buffer("save", 20)
    rb.extend(rows(range(25)))
    state = rb.state_dict()
    rb.dumps(tmp / "dump")
    wanted = numbers(rb[:])
    for how in "state_dict", "dumps":
        for kind in "tarn", "torchrl", "none":
            if kind == "torchrl":
                to = TensorDictReplayBuffer(storage=LazyTensorStorage(20),
                                            batch_size=4)
                to.extend(rows([1]))
            else:
                to = buffer(f"save/{how}{kind}", 20)
                if kind == "tarn":
                    to.extend(rows([1]))
            if how == "dumps":
                to.loads(tmp / "dump")
            else:
                to.load_state_dict(state)
            kit.equal((numbers(to[:]), len(to), to._writer._cursor),
                      (wanted, 20, 5), f"{how} to {kind}")
            if kind == "torchrl":
                back = buffer(f"save/{how}back", 20)
                if how == "dumps":
                    to.dumps(tmp / "back")
                    back.loads(tmp / "back")
                    shutil.rmtree(tmp / "back")
                else:
                    back.load_state_dict(to.state_dict())
                kit.equal((numbers(back[:]), back._writer._cursor),
                          (wanted, 5), f"{how} and back")
    shutil.rmtree(tmp / "dump")
    part = buffer("save/part", 20)
    part.extend(rows(range(4)))
    to = buffer("save/to", 20)
    to.load_state_dict(part.state_dict())
    to.extend(rows([4]))
    kit.equal(numbers(to[:]), list(range(5)), "a part of it goes on")
    part.dumps(tmp / "part")
    to.loads(tmp / "part")
    to.extend(rows([4]))
    kit.equal(numbers(to[:]), list(range(5)), "also of files")
    shutil.rmtree(tmp / "part")
    to._writer.write_at(torch.tensor([6, 5]), rows([6, 5]))
    to.extend(rows([50]))
    kit.equal(numbers(to[:]), [0, 1, 2, 3, 4, 50, 6],
              "rows that are written ahead of the ring are there")
    kit.equal((to._storage.shape, to._storage._total_shape), ((7,), (20,)),
              "its shape is that of what is there")
    kit.raises(RuntimeError, "non-initialized", "nothing is not dumped",
               buffer("save/empty", 20).dumps, tmp / "none")
    shutil.rmtree(tmp / "none", ignore_errors=True)
    to.load_state_dict(buffer("save/nothing", 20).state_dict())
    kit.equal(len(to), 0, "nothing is restored, too")
    again = pickle.loads(pickle.dumps(rb._storage))
    kit.equal((numbers(again[:]), again.max_size), (wanted, 20),
              "a storage is pickled by its name")


# ---- processes ----


def fork(call):
    pid = os.fork()
    if not pid:
        try:
            call()
            os._exit(0)
        except BaseException as e:
            print(f"# child: {type(e).__name__}: {e}", flush=True)
        finally:
            os._exit(1)
    return pid


def status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def until(call):
    at = time.monotonic() + 300  # it takes milliseconds; a hang is to fail
    while not call():
        if time.monotonic() > at:
            sys.exit("Bail out! a child does not write")
        time.sleep(.001)


def many_write():
    """Each writes runs of its own, in buffers of its own."""
    size, each, runs, writers = 64, 7, 60, 3

    def write(who):
        rb = buffer("many", size)
        for k in range(runs):
            first = (who * runs + k) * each
            rb.extend(rows(range(first, first + each)))

    pids = [fork(lambda w=w: write(w)) for w in range(writers)]
    rb, seen, torn = buffer("many", size), 0, 0
    until(lambda: len(rb))
    lengths = []
    while len(lengths) < 300:
        torn += numbers(rb.sample()) is None
        lengths.append(len(rb))
    kit.equal([status(pid) for pid in pids], [0] * writers,
              f"{writers} processes write")
    kit.equal(torn, 0, f"{len(lengths)} samples meanwhile are of whole rows")
    kit.equal((lengths == sorted(lengths), len(rb), rb._writer._cursor),
              (True, size, writers * runs * each % size),
              "their lengths and cursors are those of all")
    # In the order of the ring, from the oldest on, the runs are whole.
    cursor = rb._writer._cursor
    order = numbers(rb[[(cursor + i) % size for i in range(size)]])
    starts = [i for i, n in enumerate(order) if n % each == 0]
    kit.ok(all(order[i:i + each] == list(range(order[i], order[i] + each))
               for i in starts if i + each <= size),
           "no run has others' rows in it", order)


def dies_at(word, after, filled, n=6):
    """A writer of n rows that is killed as it says that it has begun or is done.
    It writes half of the buffer at most at once."""
    name = f"dies/{word}{after}{filled}.{n}"
    rb = buffer(name, 20)
    rb.extend(rows(range(filled)))
    before = numbers(rb[:])

    def write():
        other = buffer(name, 20)
        write_word = _td_rows.Rows._write_word
        copies = []

        def dying(self, i, value):
            copies.append(i)
            if i == word and copies.count(i) > after:
                # Half of it is there.
                self._leaves[0][value % 20 - 3:value % 20] = -1
                os.kill(os.getpid(), signal.SIGKILL)
            write_word(self, i, value)
        len(other)
        _td_rows.Rows._write_word = dying
        other.extend(rows(range(100, 100 + n)))

    kit.equal(status(fork(write)), -signal.SIGKILL, f"{name}: it is killed")
    sample = [numbers(rb.sample()) for _ in range(20)]
    found = numbers(rb[:])
    kit.ok(None not in sample and found is not None and
           len(found) >= len(before) and
           all(k in before or 100 <= k < 100 + n for k in found),
           f"{name}: all rows are whole", found)
    rb.extend(rows(range(200, 203)))
    at = (filled + 10 * after) % 20
    kit.equal(numbers(rb[:])[at:at + 3], [200, 201, 202],
              f"{name}: others go on where it began")


def killed():
    """At any moment."""
    def write():
        rb = buffer("killed", 50)
        for k in range(10**6):
            rb.extend(rows(range(8 * k, 8 * k + 8)))

    rb, torn = buffer("killed", 50), 0
    for k in range(6):
        pid = fork(write)
        until(lambda: rb.write_count > 60 * (k + 1))
        time.sleep(.003 * k)
        os.kill(pid, signal.SIGKILL)
        status(pid)
        for _ in range(20):
            torn += numbers(rb.sample()) is None
        torn += numbers(rb[list(range(len(rb)))]) is None
    kit.equal((torn, len(rb)), (0, 50), "no row is torn by a killed writer")


def fails_on_the_way():
    """A writer that cannot go on, but lives."""
    rb = buffer("fails", 20)
    rb.extend(rows(range(20)))

    class Broken(torch.Tensor):
        def __torch_function__(self, *args, **keywords):
            raise RuntimeError("broken")

    real = rb._storage._rows
    good, real._leaves[1] = real._leaves[1], None
    kit.raises(TypeError, "", "an error on the way is told", rb.extend,
               rows(range(100, 104)))
    real._leaves[1] = good
    seen = [numbers(rb.sample()) for _ in range(20)]
    kit.ok(None not in seen and rb._writer._cursor == 0,
           "and no row is half written")


def others():
    """A process that knows the name alone."""
    rb = buffer("others", 20)
    subprocess.run([sys.executable, "-c", """if True:
        import torch
        from tensordict import TensorDict
        from torchrl.data import TensorDictReplayBuffer
        from tarn.tensordict import Storage, Writer
        rb = TensorDictReplayBuffer(storage=Storage(20, "others"),
                                    writer=Writer(), batch_size=4)
        x = torch.arange(5.)[:, None].expand(5, 32)
        rb.extend(TensorDict({"obs": x, "next": TensorDict(
            {"obs": x, "done": x[:, :1] % 2 == 1}, [5])}, [5]))
        """], check=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    kit.equal((len(rb), numbers(rb[:])), (5, list(range(5))),
              "what another process has made is found")
    rb.extend(rows([5]))
    kit.equal(numbers(rb[:]), list(range(6)), "and gone on with")


def mended_meanwhile():
    """1. A writer dies. 2. A reader has read the rows. 3. Another process puts
    whole rows there. 4. The reader asks whether its rows were touched."""
    rb = buffer("meanwhile", 20)
    rb.extend(rows(range(20)))
    ours, theirs = rb._storage._rows, Storage(20, "meanwhile")
    ours._leaves[0][2] = True  # half of a row, of numbers 0 to 4
    ours._write_word(_td_rows.BEGUN, 25)
    gather, calls = ours._gather, []

    def slow(*args):
        found = gather(*args)
        if not calls:
            with theirs._look().alone():
                pass
        calls.append(numbers(found))
        return found
    ours._gather = slow
    kit.equal(numbers(rb[[2, 7]]), [19, 7], "a row that was torn is not given")
    kit.equal(calls, [None, [19, 7]], "it was read twice")


def nested():
    """As in a handler of a signal that came while the buffer was locked."""
    rb = buffer("nested", 20)
    rb.extend(rows(range(3)))
    ours = rb._storage._rows
    with ours.alone():
        kit.raises(OSError, "", "a lock that this thread has is not had twice",
                   lambda: rb.extend(rows([3])))
        kit.equal(status(fork(lambda: ours._words.lock(True, timeout=.1))), 1,
                  "and the first one is still had")
    rb.extend(rows([3]))
    kit.equal(numbers(rb[:]), list(range(4)), "until it is given back")


def forks():
    rb = buffer("fork", 20)
    rb.extend(rows(range(3)))
    kit.equal(status(fork(lambda: rb.extend(rows([3, 4])))), 0,
              "a child writes with what it was given")
    kit.equal(numbers(rb[:]), list(range(5)), "and is read")
    kit.equal(numbers(open_rows("fork")[:5]), list(range(5)),
              "the rows are open to tensordict, too")


def main():
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    try:
        as_torchrl()
        all_types()
        other_kinds()
        own_writer()
        refused()
        saved()
        many_write()
        for word, after, filled in (
                (_td_rows.BEGUN, 0, 5), (_td_rows.DONE, 0, 5),
                (_td_rows.DONE, 0, 20), (_td_rows.DONE, 0, 33),
                (_td_rows.LEN, 0, 5), (_td_rows.DONE, 0, 1)):
            dies_at(word, after, filled)
        for word, after, filled, n in (
                (_td_rows.DONE, 0, 20, 30), (_td_rows.DONE, 0, 20, 40),
                (_td_rows.BEGUN, 1, 1, 30), (_td_rows.DONE, 1, 33, 30)):
            dies_at(word, after, filled, n)
        killed()
        fails_on_the_way()
        others()
        mended_meanwhile()
        nested()
        forks()
    finally:
        daemon.terminate()
        daemon.wait()
    return kit.finish()


sys.exit(main())
