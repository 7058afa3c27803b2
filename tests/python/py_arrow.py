#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Arrow's columns as tensors: the same values as pyarrow's own, in the same
memory, from files, streams and tables, also where batches are slices; what is no
tensor is refused by the column's name."""
import os
import random
import tempfile

from py_kit import finish, ok, skip_all, start_daemon

try:
    import pyarrow as pa
except ImportError:
    skip_all("pyarrow is not installed")

import tarn  # noqa: E402
from tarn import _arrow  # noqa: E402

rng = random.Random(17)
N = 500


def ragged(n, one, most=5):
    return [[one() for _ in range(rng.randint(0, most))] for _ in range(n)]


def some_table(n=N):
    def whole():
        return rng.randint(-100, 100)
    return pa.table({
        "i8": pa.array([whole() for _ in range(n)], pa.int8()),
        "u64": pa.array([rng.getrandbits(64) for _ in range(n)], pa.uint64()),
        "f32": pa.array([rng.choice((.5, -2, 1e9)) for _ in range(n)],
                        pa.float32()),
        "flag": pa.array([rng.random() < .5 for _ in range(n)]),
        "time": pa.array([whole() for _ in range(n)], pa.timestamp("us")),
        "pair": pa.array([[whole(), whole()] for _ in range(n)],
                         pa.list_(pa.int32(), 2)),
        "matrix": pa.array([[[1., 2., 3.], [whole(), 5., 6.]]
                            for _ in range(n)],
                           pa.list_(pa.list_(pa.float64(), 3), 2)),
        "tokens": pa.array(ragged(n, whole), pa.list_(pa.int32())),
        "wide": pa.array(ragged(n, whole), pa.large_list(pa.int64())),
        "boxes": pa.array(ragged(n, lambda: [1., whole()]),
                          pa.list_(pa.list_(pa.float32(), 2))),
        "text": pa.array(["é" * rng.randint(0, 9) for _ in range(n)]),
        "bytes": pa.array([rng.randbytes(rng.randint(0, 9)) for _ in range(n)],
                          pa.large_binary()),
        "hash": pa.array([rng.randbytes(4) for _ in range(n)], pa.binary(4)),
        "image": pa.array([{"bytes": rng.randbytes(3), "path": "x"}
                           for _ in range(n)]),
    })


def plain(column, i):
    """Record i, as Python has it."""
    if column.offsets is None:
        return column.values[i:i + 1].tolist()[0]
    begin, end = column.offsets[i:i + 2].tolist()
    return column.values[begin:end].tolist()


def wanted(table, name, i):
    value = table
    for part in name.split("."):
        value = value[part] if value is table else \
            pa.chunked_array([c.field(part) for c in value.chunks])
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.int64())
    value = value[i].as_py()
    if isinstance(value, str):
        value = value.encode()
    return list(value) if isinstance(value, bytes) else value


def judge(what, table, batches):
    at, wrong = 0, []
    for batch in batches:
        n = max(len(c.values) if c.offsets is None else len(c.offsets) - 1
                for c in batch.values())
        for name, column in batch.items():
            wrong += [(name, at + i) for i in range(n)
                      if plain(column, i) != wanted(table, name, at + i)]
        at += n
    names = set(table.schema.names) - {"image"} | {"image.bytes", "image.path"}
    ok(not wrong and at == len(table) and
       all(set(b) == names for b in batches), what, [], wrong[:5])


def same_memory(table):
    batch = table.to_batches()[0]
    columns = _arrow.read(table)[0]

    def address(name, k):
        return batch.column(batch.schema.get_field_index(name)).buffers()[k]
    ok(columns["f32"].values.data_ptr() == address("f32", 1).address and
       columns["tokens"].offsets.data_ptr() == address("tokens", 1).address and
       columns["tokens"].values.data_ptr() == address("tokens", 3).address and
       columns["pair"].values.data_ptr() == address("pair", 2).address,
       "tensors are in Arrow's memory")
    values = columns["f32"].values
    wanted_sum = sum(table["f32"].to_pylist())
    del batch, columns
    ok(sum(values.tolist()) == wanted_sum, "which they keep")


def files(folder, table):
    for name, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        path = os.path.join(folder, name + ".arrow")
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=97)
        batches = _arrow.read(path)
        ok(len(batches) == 6, f"a {name} has its batches", 6, len(batches))
        judge(f"a {name} has pyarrow's values", table, batches)
    with open(path, "r+b") as f:
        f.truncate(300)
    try:
        _arrow.read(path)
        ok(False, "a stream that is cut off is an error")
    except (pa.ArrowInvalid, OSError, ValueError) as e:
        ok(True, f"a stream that is cut off is an error: {e}"[:80])


def refused(error, part, table, **options):
    try:
        _arrow.read(table, **options)
        ok(False, f"refused: {part}")
    except error as e:
        ok(part in str(e), f"refused: {part}", part, str(e))


def others():
    refused(ValueError, "column 'a' has 1 nulls", pa.table({"a": [1, None]}))
    refused(ValueError, "column 'a' has 1 nulls", pa.table({"a": [[1], None]}))
    refused(ValueError, "'a' is of list",
            pa.table({"a": [[[1]], [[2]]]}))
    refused(ValueError, "'a' is of dictionary",
            pa.table({"a": pa.array(["x", "y"]).dictionary_encode()}))
    refused(KeyError, "no column 'b'", pa.table({"a": [1]}), columns=["b"])
    ok(_arrow.read(pa.table({"a": [1], "b": [None]}), ["a"])[0]["a"]
       .values.tolist() == [1], "columns that are not asked for may be anything")
    none = _arrow.read(pa.table({"a": pa.array([], pa.list_(pa.int8())),
                                 "b": pa.array([], pa.string()),
                                 "c": pa.array([], pa.int64())}))
    ok(all(len(c.values) == 0 for b in none for c in b.values()),
       "a table without records")


def mutants(folder):
    """Bytes of a file become others: an error, or columns within the file."""
    path = os.path.join(folder, "mutant.arrow")
    table = some_table(50).drop_columns(["image"])
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    with open(path, "rb") as f:
        good = f.read()
    errors = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad) // 3)] = rng.choice((0, 1, 255, 127))
        with open(path, "wb") as f:
            f.write(bad)
        try:
            for column in (c for b in _arrow.read(path) for c in b.values()):
                column.values.tolist()
        except (pa.ArrowException, ValueError, OSError, KeyError,
                NotImplementedError, UnicodeDecodeError):
            errors += 1
    ok(errors > 50, f"files with wrong bytes are errors, {errors} of 300, or "
       "have columns")


def given():
    """What tarn.from_arrow makes of pyarrow's objects, and that they are kept."""
    array = pa.array([1.5, 2.5, 3.5])
    t = tarn.from_arrow(array[1:])
    ok(t.data_ptr() == array.buffers()[1].address + 8 and
       t.tolist() == [2.5, 3.5], "an array is a tensor in its memory")
    before = pa.total_allocated_bytes()
    t = tarn.from_arrow(pa.array(range(1 << 16)))
    ok(pa.total_allocated_bytes() >= before + (1 << 19) and
       t[-1] == (1 << 16) - 1, "which it keeps when the array is gone")
    del t
    ok(pa.total_allocated_bytes() <= before, "and gives back",
       before, pa.total_allocated_bytes())
    table = some_table(40)
    batch = table.to_batches()[0]
    one = tarn.from_arrow(batch)
    ok(one["pair"].tolist() == batch["pair"].to_pylist() and
       one["tokens"].values.tolist() == batch["tokens"].values.to_pylist() and
       one["tokens"].offsets.tolist() == batch["tokens"].offsets.to_pylist(),
       "a batch is a dict")
    chunks = tarn.from_arrow(pa.concat_tables([table, table]),
                             columns=["flag", "image"])
    ok([len(c["flag"]) for c in chunks] == [40, 40] and
       set(chunks[0]) == {"flag", "image.bytes", "image.path"},
       "a table is a list of them")
    ok([c.tolist() for c in
        tarn.from_arrow(pa.chunked_array([[1], [2, 3]]))] == [[1], [2, 3]],
       "a chunked array a list of tensors")


def loaded():
    """Into the store, as tarn.load does."""
    daemon = start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock"))
    table = some_table(40)
    parts = pa.concat_tables([table.slice(3, 9), table.slice(20), table[:1]])
    found = tarn.load(parts, "rows")
    for name in ("i8", "u64", "flag", "pair", "matrix"):
        ok(found[name].tolist() == parts[name].to_pylist(),
           f"the column {name} of several batches is one tensor")
    for name in ("tokens", "wide", "boxes", "text", "bytes"):
        column = _arrow.Column(found[f"{name}/values"],
                               found[f"{name}/offsets"])
        seen = [plain(column, i) for i in range(len(parts))]
        want = [list(x.encode() if isinstance(x, str) else x)
                for x in parts[name].to_pylist()]
        ok(seen == want, f"and {name} one of values, with offsets", want, seen)
    daemon.terminate()
    daemon.wait()


everything = some_table()
judge("a table has pyarrow's values", everything, _arrow.read(everything))
judge("slices of it have theirs", everything.slice(33, 300),
      _arrow.read(everything.slice(33, 300)))
same_memory(everything)
with tempfile.TemporaryDirectory() as where:
    files(where, everything)
    mutants(where)
others()
given()
loaded()
finish()
