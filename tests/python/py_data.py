#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sources and datasets in Python: the samples that tarn data cat prints, one or
many at once, by threads, after a fork and in another process; objects of
Python's as sources; and what is wrong is told with the values."""
import errno
import gc
import itertools
import json
import os
import pickle
import struct
import subprocess
import sys
import threading
import time

import py_kit as kit

import tarn
from tarn import data

os.chdir(os.environ["TMPDIR"])
LENGTHS = [1, 7, 3, 40, 2, 2, 90, 5, 11, 16, 1, 1, 28, 64, 9]


def write_megatron(prefix, lengths):
    """Token i of a document d is 100 * d + i."""
    tokens = [100 * d + i for d, n in enumerate(lengths) for i in range(n)]
    with open(prefix + ".bin", "wb") as f:
        f.write(struct.pack(f"<{len(tokens)}H", *tokens))
    pointers = [2 * n for n in itertools.accumulate([0, *lengths[:-1]])]
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack(
            "<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        f.write(struct.pack(f"<{len(lengths)}i", *lengths))
        f.write(struct.pack(f"<{len(lengths)}q", *pointers))
        f.write(struct.pack(f"<{len(lengths) + 1}q",
                            *range(len(lengths) + 1)))
    return tokens


def cat(*options):
    out = subprocess.run(
        [os.environ["TARN"], "data", "cat", "--json", *map(str, options)],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


TOKENS = write_megatron("corpus", LENGTHS)
ALL = {"positions": True, "segments": True, "cu_seqlens": True,
       "document": True}


def plain(sample):
    return {k: v.tolist() if isinstance(v, tarn.Tensor) else v
            for k, v in sample.items()}


def some(dataset, n=12):
    return [plain(dataset.get(g, **ALL)) for g in range(n)]


# ---- sources ----
source = data.Source.open("corpus")
kit.equal((source.info["format"], source.info["dtype"], source.info["tokens"],
           source.info["documents"], source.info["files"], len(source)),
          ("megatron", "U16", sum(LENGTHS), len(LENGTHS), 1, len(LENGTHS)),
          "a source tells what it is")
kit.equal(source.lengths(0, len(LENGTHS)).tolist(), LENGTHS,
          "lengths of documents")
kit.equal([source.document(i) for i in (0, 3, 14)],
          [(0, 1), (11, 40), (sum(LENGTHS) - 9, 9)], "where documents begin")
kit.equal([source.find(t) for t in (0, 1, 10, 11, 50, 51)],
          [0, 1, 2, 3, 3, 4], "the documents of tokens")
read = source.read(5, 40)
kit.equal((read.tolist(), str(read.dtype)), (TOKENS[5:45], "U16"),
          "tokens as they are in the file")
kit.equal((source.read(3, 0).tolist(), source.lengths(0, 0).tolist()),
          ([], []), "no tokens, and no lengths")
two = data.Source.open(["corpus.bin", b"corpus.idx"])
kit.equal((two.info["files"], two.info["tokens"]), (2, 2 * sum(LENGTHS)),
          "two files are one source")
ragged = data.Source.tokens(tarn.tensor(TOKENS, "U16"),
                            [0, *itertools.accumulate(LENGTHS)])
kit.equal((ragged.info["format"], ragged.lengths(0, 15).tolist()),
          ("ragged", LENGTHS), "values and offsets are a source")
rows = data.Source.rows([[1, 2, 3], [4, 5, 6]])
kit.equal((rows.info["rows"], len(rows)), (2, 2), "rows are a source")
with open("raw", "wb") as f:
    f.write(bytes(range(240)))
for name, options, n in (("dtype", {"dtype": "U16"}, 120),
                         ("numpy's name", {"dtype": "uint32"}, 60),
                         ("bytes", {"token_bytes": 3}, 80)):
    kit.equal(data.Source.open("raw", **options).info["tokens"], n,
              f"tokens alone, by {name}")
kit.raises(ValueError, "3 bytes", "tokens of 3 bytes have no dtype to be read as",
           data.Source.open("raw", token_bytes=3).read, 0, 1)
for error, part, call, arguments in (
        (IndexError, "the source has 280", source.read, (279, 2)),
        (IndexError, "the source has 280", source.read, (1 << 63, 1 << 63)),
        (IndexError, "the source has 15", source.lengths, (15, 1)),
        (IndexError, "document 15", source.document, (15,)),
        (IndexError, "", source.find, (280,)),
        (ValueError, "0 to 2^64", source.find, (-1,)),
        (TypeError, "whole number", source.find, (1.5,)),
        (TypeError, "Source.open", data.Source, ()),
        (ValueError, "raw", data.Source.open, ("raw",)),
        (ValueError, "1 to 4", data.Source.open, ("raw", None, 5)),
        (ValueError, "at least one file", data.Source.open, ([],)),
        (TypeError, "", data.Source.open, (7,)),
        (TypeError, "", data.Source.open, (["corpus", 7],)),
        (FileNotFoundError, "nowhere", data.Source.open, ("nowhere",)),
        (ValueError, "F32", data.Source.tokens, ([1.5],)),
        (ValueError, "ends at token 3", data.Source.tokens,
         ([1, 2], [0, 3])),
        (ValueError, "rows", data.Source.rows, (tarn.tensor(3),))):
    kit.raises(error, part, f"{getattr(call, '__name__', 'Source')}"
               f"{arguments}: {error.__name__}", call, *arguments)

# ---- what tarn data cat prints ----
for windows, shuffle in itertools.product(
        ("stream", "padded", "dropped", "packed"), ("all", "blocks", "none")):
    dataset = data.Dataset(source, 8, windows=windows, shuffle=shuffle,
                           seed=11, block=4)
    wanted = cat("--seq-len", 8, "--windows", windows, "--shuffle", shuffle,
                 "--seed", 11, "--block", 4, "--count", 60, "corpus")
    seen = []
    for g in range(60):
        sample = plain(dataset.get(g, segments=windows[0] == "p",
                                   document=True))
        seen.append({"g": g, "document": sample["document"],
                     "tokens": sample["tokens"]})
        if windows[0] == "p":
            seen[-1]["segments"] = sample["segments"]
    kit.equal(seen, wanted, f"{windows} windows, shuffle {shuffle}: as the "
              "command line has them")
    batch = plain(dataset.batch(range(5, 25), **ALL))
    each = [plain(dataset.get(g, **ALL)) for g in range(5, 25)]
    kit.equal([batch[k] for k in ("tokens", "positions", "segments",
                                  "document")],
              [[s[k] for s in each] for k in ("tokens", "positions",
                                              "segments", "document")],
              f"{windows}, {shuffle}: a batch is its samples")
    bounds = [0]
    for i, s in enumerate(each):
        bounds += [8 * i + b for b in s["cu_seqlens"][1:]]
    kit.equal(batch["cu_seqlens"], bounds,
              f"{windows}, {shuffle}: boundaries go on through a batch")
dataset = data.Dataset("corpus", 8, seed=5)
kit.equal((len(dataset), len(list(dataset)), dataset.info["samples"],
           dataset.source_samples(0)), (34, 34, 34, 34),
          "a dataset has the samples of an epoch")
kit.equal([dataset[g]["epoch"] for g in (0, 33, 34, 3400)], [0, 0, 1, 100],
          "positions go on from epoch to epoch")
kit.equal(sorted(dataset[g]["sample"] for g in range(34, 68)),
          list(range(34)), "an epoch has each sample once")
kit.equal(dataset.__getitems__([3, 1])[1]["tokens"].tolist(),
          dataset[1]["tokens"].tolist(), "samples for PyTorch's fetcher")
kit.equal(str(dataset[0]["tokens"].dtype), "I32", "tokens are I32")
kit.equal(str(data.Dataset("corpus", 8, dtype="I64")[0]["tokens"].dtype),
          "I64", "or what is asked for")
kit.equal(str(data.Dataset(data.Source.tokens([1, 2, 3]), 2)[0]["tokens"]
              .dtype), "I64", "I64 where the source's may not fit")
wide = data.Dataset(data.Source.tokens([1, 1 << 40, 3]), 2, dtype="I32")
kit.raises(ValueError, "does not fit", "a token that does not fit is told",
           wide.get, 0)

# ---- rows, mixing, objects of Python's ----
table = tarn.arange(24).reshape(6, 2, 2)
row_data = data.Dataset(data.Source.rows(table), seed=1)
kit.equal(sorted(str(s["row"].tolist()) for s in row_data),
          sorted(str(r.tolist()) for r in table), "samples are rows")
kit.equal(row_data.batch([0, 3])["row"].tolist(),
          [row_data[0]["row"].tolist(), row_data[3]["row"].tolist()],
          "a batch of rows")
scalars = data.Dataset(data.Source.rows([5., 6.]), shuffle=False)
kit.equal((scalars[1]["row"].item(), scalars.batch([1, 0])["row"].tolist()),
          (6., [6., 5.]), "rows of one number")
mixed = data.Dataset(["corpus", ["corpus", "corpus"]], 8, weights=[1, 3])
counts = [mixed[g]["source"] for g in range(400)]
kit.ok(abs(counts.count(1) - 300) <= 2, "sources are mixed by their weights",
       counts.count(1))
later = data.Dataset(["corpus", "corpus"], 8,
                     weights=[(0, (1, 0)), (50, (0, 1))])
kit.equal([later[g]["source"] for g in range(100)], [0] * 50 + [1] * 50,
          "weights change at a position")


class Texts:
    def __init__(self, n):
        self.n, self.asked = n, []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        self.asked.append(i)
        return {"text": f"text {i}"}


texts = Texts(10)
python = data.Dataset(texts, seed=4)
kit.equal(sorted(python[g]["item"]["text"] for g in range(10)),
          [f"text {i}" for i in range(10)], "items of an object")
kit.equal([python[g]["sample"] for g in range(10)], texts.asked[:10],
          "in the order of all sources")
lists = data.Dataset([data.PythonSource("abc"), data.PythonSource([7, 8])],
                     weights=[2, 2])
kit.equal(sorted(set(lists[g]["item"] for g in range(20) if
                     lists[g]["source"] == 1)), [7, 8], "lists are mixed")
kit.equal(len(lists.batch(range(4))["item"]), 4, "a batch of items is a list")
for what, error, part, arguments, options in (
        ("no seq_len", TypeError, "seq_len", ("corpus",), {}),
        ("no tokens", ValueError, "seq_len", ("corpus", 0), {}),
        ("unknown windows", ValueError, "packed", ("corpus", 8),
         {"windows": "pakced"}),
        ("an unknown shuffle", ValueError, "blocks", ("corpus", 8),
         {"shuffle": "some"}),
        ("blocks of 0", ValueError, "block", ("corpus", 8),
         {"shuffle": "blocks", "block": 0}),
        ("floats as tokens", ValueError, "F32", ("corpus", 8),
         {"dtype": "F32"}),
        ("a negative seed", ValueError, "seed", ("corpus", 8), {"seed": -1}),
        ("too many tokens", ValueError, "seq_len", ("corpus", 1 << 40), {}),
        ("too few weights", ValueError, "2 sources", (["corpus"] * 2, 8),
         {"weights": [1]}),
        ("weights that are no numbers", TypeError, "weights",
         (["corpus"] * 2, 8), {"weights": [(0, 1, 2)]}),
        ("negative weights", ValueError, "weight", (["corpus"] * 2, 8),
         {"weights": [1, -1]}),
        ("no source", ValueError, "no source", ([], 8), {}),
        ("numbers as sources", TypeError, "source", ([1, 2], 8), {}),
        ("lists as sources", TypeError, "PythonSource", ([[1, 2]], 8), {}),
        ("tokens beside objects", ValueError, "mixed", (["corpus", texts], 8),
         {}),
        ("rows as tokens", ValueError, "rows", (rows, 8),
         {"windows": "stream"}),
        ("tables for others", ValueError, "tables", ("corpus", 8),
         {"tables": [None, None]}),
        ("a table that is none", TypeError, "table", ("corpus", 8),
         {"tables": [3]})):
    kit.raises(error, part, f"{what}: {error.__name__}", data.Dataset,
               *arguments, **options)
kit.raises(ValueError, "no items", "an object without items", data.PythonSource, [])
kit.raises(TypeError, "__getitem__", "an object that is no sequence",
           data.PythonSource, {1, 2})
kit.raises(ValueError, "0 to 2^64", "positions are counted from 0",
           dataset.get, -1)
kit.raises(ValueError, "positions", "rows have no positions", row_data.get, 0,
           positions=True)
kit.raises(ValueError, "positions", "items have none", python.get, 0,
           positions=True)

# ---- state, tables, functions ----
packed = data.Dataset(source, 8, windows="packed", seed=11)
state = packed.state(123)
kit.equal(packed.resume(state), 123, "a state is resumed")
kit.raises(ValueError, "seed is 11, not 12", "another configuration's is not",
           data.Dataset(source, 8, windows="packed", seed=12).resume, state)
kit.raises(ValueError, "", "a text that is no state", packed.resume, "x")
kit.raises(TypeError, "", "a state is text", packed.resume, 7)
kit.ok(len(packed.hash) == 32 and packed.hash == data.Dataset(
    source, 8, windows="packed", seed=11).hash, "the hash is 32 digits")
kit.equal(dataset.table(0), None, "a stream needs no table")
kit.raises(IndexError, "1", "there is no second table", packed.table, 1)
again = data.Dataset(source, 8, windows="packed", seed=11,
                     tables=[packed.table(0)])
kit.equal(some(again), some(packed), "with the table of another dataset")
kit.raises(ValueError, "", "another's table is refused", data.Dataset, two, 8,
           windows="packed", seed=11, tables=[packed.table(0)])
daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                       "d.sock"))
store = tarn.Store()
for what, published in (("computes", []), ("finds", ["corpus/0"])):
    kit.equal(sorted(n for n in store if n.startswith("corpus/")), published,
              f"a process that {what} the tables of a name")
    kit.equal(some(data.Dataset(source, 8, windows="packed", seed=11,
                                tables="corpus")), some(packed),
              f"has the same samples: it {what} them")
other = data.Dataset(two, 8, windows="packed", seed=11, tables="corpus")
kit.equal(store["corpus/0"].tolist(), other.table(0).tolist(),
          "tables of other files are replaced")
kit.equal((some(data.Dataset(source, 8, tables="none")), "none/0" in store),
          (some(data.Dataset(source, 8)), False), "a stream publishes none")
del store
kit.equal(sorted(data.order(3, 1, 50, g) for g in range(50)),
          list(range(50)), "order() is a permutation")
kit.ok(data.order(3, 1, 1 << 63, 1 << 62) < 1 << 63, "of any size")
kit.raises(IndexError, "position 50", "and ends", data.order, 3, 1, 50, 50)
kit.equal([data.rank_part(10, r, 3) for r in range(3)],
          [(0, 3), (3, 3), (6, 4)], "rank_part() divides a batch")
kit.raises(ValueError, "rank", "there is no rank 3 of 3", data.rank_part, 10,
           3, 3)
kit.ok(data.sample_seed(1, 2) == data.sample_seed(1, 2) !=
       data.sample_seed(2, 1) and data.sample_seed(1, 2) < 1 << 63,
       "seeds of samples depend on seed and position")

# ---- lifetime ----
values = tarn.tensor(TOKENS, "U16")
before = sys.getrefcount(values)
kept = data.Dataset(data.Source.tokens(values), 8)
tensor = kept[0]["tokens"]
wanted = tensor.tolist()
gc.collect()
kit.ok(sys.getrefcount(values) > before and kept[1], "a dataset keeps its "
       "source, and that its tensor")
del kept
gc.collect()
kit.equal((sys.getrefcount(values), tensor.tolist()), (before, wanted),
          "both go with it; what it has given stays")
for _ in range(200):
    for call in (lambda: packed.get(1 << 64), lambda: packed.resume("x"),
                 lambda: data.Dataset(source, 8, weights=[1, 2])):
        try:
            call()
        except ValueError:
            pass
kit.ok(True, "failed calls can be repeated")

# ---- files that change ----
write_megatron("changes", LENGTHS)
changes = data.Dataset("changes", 8, shuffle=False)
changes.get(3)
with open("changes.bin", "r+b") as f:
    f.truncate(100)
try:
    changes.get(20)
    kit.ok(False, "a file that has shrunk is an error")
except OSError as e:
    kit.ok(e.errno in (errno.ESTALE, errno.ENODATA) and "changes.bin" in
           str(e), "a file that has shrunk is an error with its name", e)

# ---- other processes ----
kit.equal(some(pickle.loads(pickle.dumps(packed))), some(packed),
          "a pickled dataset is the same, its table included")
kit.equal(some(pickle.loads(pickle.dumps(data.Dataset(ragged, 8)))),
          some(data.Dataset(ragged, 8)), "and one of tensors")
python_again = pickle.loads(pickle.dumps(lists))
kit.equal([python_again[g] for g in range(9)], [lists[g] for g in range(9)],
          "and one of Python's objects")
child = subprocess.run(
    [sys.executable, "-c",
     "import pickle, sys\n"
     "d = pickle.load(sys.stdin.buffer)\n"
     "print([d[g]['tokens'].tolist() for g in range(12)])"],
    input=pickle.dumps(packed), stdout=subprocess.PIPE, check=True)
kit.equal(child.stdout.decode().strip(),
          str([packed[g]["tokens"].tolist() for g in range(12)]),
          "a process that is no child gets the same samples")


def in_child(call):
    """What it returns in the child of a fork, as text."""
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(here, repr(call()).encode())
        finally:
            os._exit(0)
    os.close(here)
    with open(there, "rb") as f:
        text = f.read().decode()
    os.waitpid(pid, 0)
    return text


wanted, stop = repr(some(packed)), threading.Event()


def read_on():
    for g in itertools.cycle(range(3, 3000, 7)):
        packed.get(g)
        if stop.is_set():
            return


threads = [threading.Thread(target=read_on) for _ in range(2)]
for thread in threads:
    thread.start()
kit.equal([in_child(lambda: some(packed)) for _ in range(8)], [wanted] * 8,
          "children of forks read, whatever threads did at that moment")
stop.set()
for thread in threads:
    thread.join()

# ---- threads ----
found = [None] * 4


def read_some(i):
    found[i] = some(packed, 100)


threads = [threading.Thread(target=read_some, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
kit.equal(found, [some(packed, 100)] * 4, "threads read the same samples")
# Without switches by time, another thread goes on only where the GIL is
# released.
ticks, ending = [0], threading.Event()


def tick():
    while not ending.is_set():
        ticks[0] += 1
        time.sleep(0)


large = data.Dataset(data.Source.tokens(tarn.zeros((1 << 22,), "U16")), 4096)
ticking = threading.Thread(target=tick)
interval = sys.getswitchinterval()
sys.setswitchinterval(1000)
ticking.start()
seen = ticks[0]
while ticks[0] == seen:
    large.batch(range(1000))
ending.set()
sys.setswitchinterval(interval)
ticking.join()
kit.ok(True, "reading goes on without the GIL")
daemon.terminate()
daemon.wait()
for name in os.listdir():
    os.remove(name)
sys.exit(kit.finish())
