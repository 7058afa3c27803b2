#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records in Python: tar shards that tarfile has written have the records of a
plain model, columns and chains those of lists, in order, shuffled, mixed, by
loaders with and without workers, after a fork, in another process; the index of
a shard is kept beside it, or given; what is wrong is told."""
import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile
import threading

import py_kit as kit

import tarn
from tarn import data

os.chdir(os.environ["TMPDIR"])
rng = random.Random(5)


def write_shard(path, keys):
    """What it holds: pairs of a key and a dict of bytes."""
    wanted = []
    with tarfile.open(path, "w") as tar:
        for key in keys:
            fields = {"jpg": rng.randbytes(rng.choice((0, 1, 512, 3000))),
                      "cls": b"%d" % rng.randrange(10)}
            if rng.random() < .5:
                fields["seg.png"] = rng.randbytes(700)
            for name, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            wanted.append((key, fields))
    return wanted


def plain(record):
    """The key, and bytes or numbers of each field."""
    return record.key, {name: bytes(field) if str(field.dtype) == "U8"
                        else field.tolist() for name, field in record.items()}


def cat(*options):
    out = subprocess.run(
        [os.environ["TARN"], "data", "cat", "--json", "--no-side-car",
         *map(str, options)], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


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


def label(record, seed):
    """What a job decodes."""
    return {"cls": int(bytes(record["cls"])), "size": record["jpg"].numel(),
            "seed": seed & 0xffff}


def refuse(record):
    raise ValueError(f"no image: {record.key}")


def listed(batch):
    return {name: part.tolist() for name, part in batch.items()}


def shards():
    model = write_shard("a.tar", [f"d/{i:03d}" for i in range(20)]) + \
        write_shard("b.tar", [f"é\udcff{i}" for i in range(17)])
    seen = []
    source = data.Source.open(["a.tar", "b.tar"], side_car=False,
                              progress=lambda *done: seen.append(done))
    total = os.path.getsize("a.tar") + os.path.getsize("b.tar")
    kit.ok(seen and all(done <= all_ == total for done, all_ in seen),
           "progress is told in bytes of shards", total, seen)
    kit.equal((len(source), source.info["format"], source.info["records"],
               source.info["files"]), (37, "tar", 37, 2),
              "shards are one source of records")
    kit.equal([plain(source.record(i)) for i in range(37)], model,
              "whose records are what tarfile has written")
    record = source.record(0)
    kit.equal((list(record), len(record), "jpg" in record, "gif" in record,
               record.get("gif")),
              (list(model[0][1]), len(model[0][1]), True, False, None),
              "a record is a mapping")
    kit.equal((str(record["jpg"].dtype), bytes(memoryview(record["jpg"]))),
              ("U8", model[0][1]["jpg"]), "of bytes")
    kit.raises(KeyError, "'d/000' has no field 'gif'", "a field that is not "
               "there is told with the others", lambda: record["gif"])
    kit.raises(KeyError, "has no field 7", "a number is no name",
               lambda: record[7])
    kit.equal(plain(pickle.loads(pickle.dumps(record))), model[0],
              "a record travels with its fields")
    kit.ok(repr(record).startswith("<tarn.data.Record 'd/000': jpg, cls"),
           "and shows their names", repr(record))
    kit.ok(not os.path.exists("a.tar.tarn-index"),
           "no index is kept where none is to be")
    return model, source


def indexes(model, source):
    given = [source.index(i) for i in range(2)]
    again = data.Source.open(["a.tar", "b.tar"], side_car=False,
                             indexes=given)
    kit.equal([plain(again.record(i)) for i in range(37)], model,
              "indexes of another source are used")
    kit.raises(ValueError, "the index is of a shard", "another shard's is "
               "refused", data.Source.open, ["a.tar", "b.tar"],
               indexes=given[::-1])
    kit.raises(ValueError, "1 indexes, of 2", "too few are", data.Source.open,
               ["a.tar", "b.tar"], indexes=given[:1])
    kit.raises(TypeError, "no Tensor", "numbers are", data.Source.open,
               ["a.tar"], indexes=[3])
    kit.equal(data.Source.rows([[1]]).index(0), None, "rows have none")
    moved = pickle.loads(pickle.dumps(source))
    kit.equal([plain(moved.record(i)) for i in range(37)], model,
              "a source goes to another process with its indexes")
    kept = [data.Source.open("a.tar").__reduce__()[1][4],
            source.__reduce__()[1][4][0].tolist()]
    kit.equal(kept, [(None,), given[0].tolist()],
              "unless the other finds them beside the shards")
    kit.ok(os.path.exists("a.tar.tarn-index"), "an index is kept beside a "
           "shard unless it is not wanted")
    wrong = list(given)
    bent = bytearray(bytes(given[0]))
    bent[100:180] = b"\xff" * 80
    wrong[0] = tarn.tensor(list(bent), "U8")
    bad = data.Source.open(["a.tar", "b.tar"], indexes=wrong)
    errors = 0
    for i in range(20):
        try:
            errors += plain(bad.record(i)) not in model
        except (OSError, ValueError):
            pass
    kit.equal(errors, 0, "an index that is wrong never leads to other bytes")


def columns(model):
    table = tarn.arange(74).reshape(37, 2)
    lengths = [rng.randrange(5) for _ in range(37)]
    ends = [0, *itertools.accumulate(lengths)]
    values = tarn.arange(ends[-1], dtype="F32")
    source = data.Source.columns({
        "pair": table, "boxes": data.Source.ragged(values, ends),
        "tokens": data.Source.tokens(tarn.arange(37), list(range(38))),
        "image": data.Source.open(["a.tar", "b.tar"])})

    def wanted(i):
        return model[i][0], {
            "pair": [2 * i, 2 * i + 1], "tokens": [i],
            "boxes": [float(v) for v in range(ends[i], ends[i + 1])],
            **{f"image.{name}": part for name, part in model[i][1].items()}}
    kit.equal([plain(source.record(i)) for i in range(37)],
              [wanted(i) for i in range(37)],
              "columns of tensors, ragged rows, tokens and shards")
    kit.ok(source.record(3)["pair"].data_ptr() ==
           table[3:].data_ptr(), "a row of a tensor is a view")
    chain = data.Source.chain([source, data.Source.open("b.tar"), source])
    kit.equal((len(chain), plain(chain.record(38)), plain(chain.record(60))),
              (91, model[21], wanted(6)), "a chain is one after another")
    again = pickle.loads(pickle.dumps(chain))
    kit.equal([plain(again.record(i)) for i in range(91)],
              [plain(chain.record(i)) for i in range(91)],
              "and goes to another process")
    for what, error, part, call, argument in (
            ("columns of other lengths", ValueError, "has 3 samples",
             data.Source.columns, {"a": [1, 2], "b": [1, 2, 3]}),
            ("no column", ValueError, "1 to 4096", data.Source.columns, {}),
            ("a list of columns", TypeError, "a mapping", data.Source.columns,
             [1]),
            ("a number as a name", TypeError, "a name", data.Source.columns,
             {1: [2]}),
            ("a tensor without rows", ValueError, "", data.Source.columns,
             {"a": tarn.tensor(1)}),
            ("a tensor in a chain", TypeError, "no Source", data.Source.chain,
             [table]),
            ("rows in a chain", ValueError, "", data.Source.chain,
             [data.Source.rows(table)]),
            ("an empty chain", ValueError, "", data.Source.chain, []),
            ("a record of rows", ValueError, "make it a column",
             data.Source.rows(table).record, 0),
            ("a record behind the last", IndexError, "of a source with 37",
             source.record, 37),
            ("a record before the first", ValueError, "0 to 2^64",
             source.record, -1)):
        kit.raises(error, part, f"{what}: {error.__name__}", call, argument)
    kit.raises(ValueError, "token 3", "offsets that lead outside are refused",
               data.Source.ragged, [1, 2], [0, 3])


def datasets(model):
    whole = data.Dataset([["a.tar", "b.tar"]], seed=4)
    seen = [whole[g] for g in range(74)]
    kit.equal([plain(s["record"]) for s in seen],
              [model[s["sample"]] for s in seen],
              "samples of a dataset are records")
    kit.equal(([s["sample"] for s in seen], [s["epoch"] for s in seen]),
              ([line["record"] for line in cat("--seed", 4, "--count", 74,
                                               "a.tar", "b.tar")],
               [0] * 37 + [1] * 37), "in the order that tarn data cat has")
    kit.ok(sorted(s["sample"] for s in seen[:37]) == list(range(37)) !=
           [s["sample"] for s in seen[:37]], "all of them, shuffled")
    kit.equal([plain(r) for r in whole.batch([3, 1])["record"]],
              [plain(seen[3]["record"]), plain(seen[1]["record"])],
              "a batch is a list of records")
    mixed = data.Dataset(["a.tar", "b.tar"], weights=[3, 1], seed=4)
    seen = [mixed[g] for g in range(120)]
    kit.equal([plain(s["record"]) for s in seen],
              [model[s["sample"] + 20 * s["source"]] for s in seen],
              "two sources of shards are mixed")
    kit.ok(abs([s["source"] for s in seen].count(1) - 30) < 2,
           "by their weights")
    kit.equal(mixed.resume(mixed.state(77)), 77, "a state is resumed")
    kit.raises(ValueError, "seed", "another one is not", whole.resume,
               data.Dataset([["a.tar", "b.tar"]], seed=5).state(0))
    kit.raises(ValueError, "positions", "records have no positions", mixed.get,
               0, positions=True)
    kit.raises(ValueError, "records", "records are mixed with records alone",
               data.Dataset, ["a.tar", data.Source.rows([1])])
    kit.raises(ValueError, "seq_len", "and have no seq_len", data.Dataset,
               "a.tar", 8)
    write_shard("empty.tar", [])
    kit.raises(ValueError, "", "a shard without records is no dataset",
               data.Dataset, "empty.tar")
    again = pickle.loads(pickle.dumps(mixed))
    kit.equal([plain(again[g]["record"]) for g in range(50)],
              [plain(s["record"]) for s in seen[:50]],
              "a pickled dataset has the same")
    return mixed


def loaders(mixed):
    def made(g, batch=8):
        return [label(mixed[i]["record"], data.sample_seed(4, i))
                for i in range(g, min(g + batch, 60))]
    wanted = [{name: [one[name] for one in made(g)]
               for name in ("cls", "size", "seed")} for g in range(0, 60, 8)]
    for workers in (0, 2):
        with data.Loader(mixed, 8, until=60, transform=label, per="sample",
                         workers=workers) as loader:
            first = [listed(next(loader)) for _ in range(3)]
            state = loader.state_dict()
            kit.equal(first + [listed(b) for b in loader], wanted,
                      f"a loader with {workers} workers decodes the records")
        parts = []
        for rank in range(2):
            with data.Loader(mixed, 8, rank=rank, world=2, until=60, state=state,
                             transform=label, per="sample",
                             workers=workers) as loader:
                parts.append([listed(b) for b in loader])
        kit.equal([{k: a[k] + b[k] for k in a} for a, b in zip(*parts)],
                  wanted[3:], f"and goes on with two ranks, {workers} workers")
    with data.Loader(mixed, 4, workers=1) as loader:
        batch = next(loader)
    kit.equal([bytes(one) for one in batch["jpg"]],
              [bytes(mixed[g]["record"]["jpg"]) for g in range(4)],
              "without a transform a batch is of fields")
    fixed = data.Dataset(data.Source.columns({"x": tarn.arange(20)}))
    kit.equal(next(data.Loader(fixed, 5))["x"].tolist(),
              [fixed[g]["record"]["x"].item() for g in range(5)],
              "which are stacked where they can be")
    with data.Loader(mixed, 8, workers=1, transform=label, per="sample",
                     multiprocessing_context="spawn") as loader:
        kit.equal(listed(next(loader)), wanted[0],
                  "a worker that is no fork opens the shards itself")
    with data.Loader(mixed, 4, workers=1, transform=refuse,
                     per="sample") as loader:
        kit.raises(ValueError, "no image: ", "a transform that fails is told",
                   next, loader)
    kit.raises(ValueError, "shared is for tokens and rows", "records are not "
               "shared", data.Loader, mixed, 4, shared="x")
    kit.raises(ValueError, "no positions", "and have no documents",
               data.Loader, mixed, 4, document=True)


def forks_beside_threads(model, mixed, source):
    if "LD_PRELOAD" in os.environ:
        kit.skipped("children of forks read, whatever threads did",
                    "AddressSanitizer's allocator may be locked in a child")
        return
    wanted = repr([plain(mixed[g]["record"]) for g in range(12)])
    stop = threading.Event()

    def read_on():
        for g in itertools.cycle(range(0, 3000, 7)):
            mixed[g]["record"]["cls"]
            source.record(g % 37)["cls"]
            if stop.is_set():
                return
    threads = [threading.Thread(target=read_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    kit.equal([in_child(lambda: [plain(mixed[g]["record"]) for g in range(12)])
               for _ in range(6)], [wanted] * 6,
              "children of forks read, whatever threads did at that moment")
    kit.equal(in_child(lambda: plain(source.record(7))), repr(model[7]),
              "also of a source")
    stop.set()
    for thread in threads:
        thread.join()


def others(model, mixed, source):
    forks_beside_threads(model, mixed, source)
    write_shard("c.tar", ["x", "y", "z"])
    changing = data.Dataset("c.tar", shuffle=False)
    kept = changing[2]["record"]
    with open("c.tar", "r+b") as f:
        f.truncate(700)
    for what, call in (("a shard", lambda: dict(changing[1]["record"])),
                       ("a record's", lambda: dict(kept))):
        kit.raises(OSError, "c.tar", f"{what} that has shrunk is told with its "
                   "name", call)
    kit.raises(ValueError, "c.tar", "and cannot be opened", data.Source.open,
               "c.tar")

    def stopped(done, total):
        raise KeyError("enough")
    kit.raises(KeyError, "enough", "progress may end it", data.Source.open,
               "a.tar", side_car=False, progress=stopped)
    kit.raises(TypeError, "progress", "and is to be called", data.Source.open,
               "a.tar", progress=3)


def tables():
    with open("raw", "wb") as f:
        f.write(bytes(range(200)))
    tokens = data.Source.open("raw", "U8")
    data.Dataset(tokens, 8, windows="packed", side_car=False)
    kit.ok(not [n for n in os.listdir() if "tarn-table" in n],
           "no table is kept where none is to be")
    first = data.Dataset(tokens, 8, windows="packed")
    found = [n for n in os.listdir() if "tarn-table" in n]
    kit.equal(len(found), 1, "a table is kept beside the first file")
    kit.equal(data.Dataset(tokens, 8, windows="packed").table(0).tolist(),
              first.table(0).tolist(), "and used")


def arrow():
    try:
        import pyarrow as pa
    except ImportError:
        kit.raises(ImportError, "pip install pyarrow", "Arrow needs pyarrow",
                   data.arrow, "x.arrow")
        kit.skipped("Arrow files", "pyarrow is not installed")
        return
    table = pa.table({"x": [[i, i + 1] for i in range(50)],
                      "n": pa.array([float(i) for i in range(50)]),
                      "text": ["é" * (i % 4) for i in range(50)],
                      "none": [None] * 50})
    for i, part in enumerate((table.slice(0, 30), table.slice(30))):
        with pa.ipc.new_stream(f"data-{i}.arrow", table.schema) as writer:
            writer.write_table(part, max_chunksize=13)
    names = ["text", "n", "x"]
    source = data.arrow(["data-0.arrow", "data-1.arrow"], names)

    def wanted(i):
        return "", {"text": ("é" * (i % 4)).encode(), "n": float(i),
                    "x": [i, i + 1]}
    everything = [wanted(i) for i in range(50)]
    for what, one in (("Arrow files are one source", source),
                      ("which is mapped anew in another process",
                       pickle.loads(pickle.dumps(source))),
                      ("a table", data.arrow(table, names)),
                      ("a pickled one", pickle.loads(pickle.dumps(
                          data.arrow(table, names))))):
        kit.equal([plain(one.record(i)) for i in range(50)], everything, what)
    kit.ok(len(pickle.dumps(source)) < 300, "without its columns")
    dataset = data.Dataset(source, seed=2)
    kit.equal(sorted(dataset[g]["record"]["n"].item() for g in range(50)),
              [float(i) for i in range(50)], "a dataset of it")
    kit.equal(in_child(lambda: plain(source.record(7))), repr(wanted(7)),
              "and the child of a fork")
    with data.Loader(dataset, 10, workers=2) as loader:
        kit.equal(next(loader)["n"].tolist(),
                  [dataset[g]["record"]["n"].item() for g in range(10)],
                  "and a loader")
    kit.raises(ValueError, "nulls", "columns that are no tensors'", data.arrow,
               table)
    kit.raises(KeyError, "'y'", "that are not there", data.arrow, table, ["y"])
    kit.raises(ValueError, "no records", "a table without records", data.arrow,
               table.slice(0, 0), names)


def main():
    model, source = shards()
    indexes(model, source)
    columns(model)
    mixed = datasets(model)
    daemon = kit.start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"],
                                           "d.sock"))
    loaders(mixed)
    tables()
    arrow()
    daemon.terminate()
    daemon.wait()
    others(model, mixed, source)
    for name in os.listdir():
        os.remove(name)
    return kit.finish()


if __name__ == "__main__":
    sys.exit(main())
