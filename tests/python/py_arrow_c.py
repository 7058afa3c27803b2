#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Arrow's C data interface, from a producer made by hand, so that no library of
Arrow's is needed: values in the producer's memory, refusals by the column's name,
and each release callback called once, whatever happens."""
import ctypes
import os
import struct
import subprocess
import sys
import threading

from py_kit import equal, finish, ok, raises, start_daemon

import tarn
from tarn import _arrow, data

P, N = ctypes.c_void_p, ctypes.c_int64
RELEASE = ctypes.CFUNCTYPE(None, P)


class Schema(ctypes.Structure):
    _fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("metadata", P), ("flags", N), ("n_children", N),
                ("children", P), ("dictionary", P), ("release", RELEASE),
                ("private", P)]


class Array(ctypes.Structure):
    _fields_ = [("length", N), ("null_count", N), ("offset", N),
                ("n_buffers", N), ("n_children", N), ("buffers", P),
                ("children", P), ("dictionary", P), ("release", RELEASE),
                ("private", P)]


GET = ctypes.CFUNCTYPE(ctypes.c_int, P, P)
TELL = ctypes.CFUNCTYPE(P, P)


class Stream(ctypes.Structure):
    _fields_ = [("get_schema", GET), ("get_next", GET), ("tell", TELL),
                ("release", RELEASE), ("private", P)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [P, ctypes.c_char_p, P]
kept = []  # what must outlive all structures: this test's own memory
released = {"schema": 0, "array": 0, "stream": 0}
made = dict(released)


def releases(kind, structure):
    """The callback of a structure, which counts, and marks it as the interface
    wants."""
    @RELEASE
    def release(at):
        released[kind] += 1
        c = structure.from_address(at)
        if not c.release:
            ok(False, f"a {kind} is released twice")
        c.release = RELEASE()
    kept.append(release)
    made[kind] += 1
    return release


def keep(thing):
    kept.append(thing)
    return ctypes.addressof(thing)


def pointers(addresses):
    return keep((P * max(len(addresses), 1))(*addresses))


class Column:
    """A type with its buffers: bytes, or None for no memory."""

    def __init__(self, kind, n, buffers=(), children=(), *, name="", nulls=0,
                 offset=0, dictionary=False):
        self.kind, self.n, self.name = kind, n, name
        self.children, self.nulls, self.offset = children, nulls, offset
        self.dictionary = dictionary
        self.memory = [None if b is None else
                       ctypes.create_string_buffer(b, max(len(b), 1))
                       for b in buffers]
        self.at = [None if b is None else keep(b) for b in self.memory]

    def schema(self, top=True):
        other = keep(Schema()) if self.dictionary else None
        return Schema(self.kind.encode(), self.name.encode(), None, 0,
                      len(self.children),
                      pointers([keep(c.schema(False)) for c in self.children]),
                      other,
                      releases("schema", Schema) if top else RELEASE(), None)

    def array(self, top=True):
        return Array(self.n, self.nulls, self.offset, len(self.at),
                     len(self.children), pointers(self.at),
                     pointers([keep(c.array(False)) for c in self.children]),
                     None, releases("array", Array) if top else RELEASE(),
                     None)

    def __arrow_c_array__(self, requested_schema=None):
        # The capsules have no destructors: who takes nothing is seen to.
        return (new_capsule(keep(self.schema()), b"arrow_schema", None),
                new_capsule(keep(self.array()), b"arrow_array", None))


class Batches:
    """A stream of them; fail: the number of the one that is an error; last:
    that of the one at which it ends."""

    def __init__(self, batches, fail=None, last=None):
        self.batches, self.fail, self.next = batches, fail, 0
        self.last = len(batches) if last is None else last

    def put_schema(self, _, at):
        ctypes.memmove(at, keep(self.batches[0].schema()),
                       ctypes.sizeof(Schema))
        return 0

    def put_next(self, _, at):
        i, self.next = self.next, self.next + 1
        if i == self.fail:
            return 5
        array = self.batches[i].array() if i < self.last else Array()
        ctypes.memmove(at, keep(array), ctypes.sizeof(Array))
        return 0

    def __arrow_c_stream__(self, requested_schema=None):
        why = ctypes.create_string_buffer(b"the disk is gone")
        stream = Stream(GET(self.put_schema), GET(self.put_next),
                        TELL(lambda _: keep(why)),
                        releases("stream", Stream), None)
        return new_capsule(keep(stream), b"arrow_array_stream", None)


def pack(kind, *values):
    return struct.pack(f"<{len(values)}{kind}", *values)


def all_released(what):
    equal(released, made, f"{what}: all is released, once")


def numbers(n=4, **options):
    return Column("i", n, [None, pack("i", *range(10, 20))], **options)


def fixed():
    source = numbers()
    t = tarn.from_arrow(source)
    equal((t.tolist(), t.dtype, t.data_ptr()),
          ([10, 11, 12, 13], "I32", source.at[1]),
          "a column is in the producer's memory")
    equal(made["array"] - released["array"], 1, "which it holds")
    part = t[1:3]
    del t
    equal(made["array"] - released["array"], 1, "and so does a view of it")
    equal(part.tolist(), [11, 12], "that has its values")
    thread = threading.Thread(target=lambda box: box.pop(), args=([part],))
    del part
    thread.start()
    thread.join()
    all_released("the last view goes, in another thread")
    t = tarn.from_arrow(numbers(3, offset=5))
    equal(t.tolist(), [15, 16, 17], "a slice begins at its offset")
    raises(ValueError, "read-only", "and is read-only",
           t.__setitem__, 0, 1)
    for kind, dtype, code in (("c", "I8", "b"), ("S", "U16", "H"),
                              ("L", "U64", "Q"), ("g", "F64", "d"),
                              ("tdD", "I32", "i"), ("tsu:UTC", "I64", "q"),
                              ("tDn", "I64", "q"), ("ttu", "I64", "q")):
        t = tarn.from_arrow(Column(kind, 3, [None, pack(code, 1, 2, 3)]))
        equal((t.dtype, t.tolist()), (dtype, [1, 2, 3]), f"format {kind}")
    equal(tarn.from_arrow(Column("b", 5, [None, b"\x52\x03"], offset=4))
          .tolist(), [True, False, True, False, True], "booleans, unpacked")
    t = tarn.from_arrow(Column("+w:2", 2, [None], [numbers(6)], offset=1))
    equal(t.tolist(), [[12, 13], [14, 15]], "lists of a fixed size are rows")
    t = tarn.from_arrow(Column("w:3", 2, [None, b"abcdefghi"], offset=1))
    equal(bytes(sum(t.tolist(), [])), b"defghi", "binary of a fixed size too")
    equal(tarn.from_arrow(Column("i", 0, [None, None])).shape, (0,),
          "a column without records has no memory")


def ragged():
    source = Column("+l", 2, [None, pack("i", 0, 1, 3, 4)], [numbers(4)],
                    offset=1)
    t = tarn.from_arrow(source)
    equal((t.values.tolist(), t.offsets.tolist()),
          ([10, 11, 12, 13], [1, 3, 4]), "lists are values and offsets")
    equal((t.values.data_ptr(), t.offsets.data_ptr()),
          (source.children[0].at[1], source.at[1] + 4),
          "both in the producer's memory")
    t = tarn.from_arrow(Column("U", 2, [None, pack("q", 0, 2, 3), b"abc"]))
    equal((t.values.tolist(), t.offsets.tolist(), t.offsets.dtype),
          ([97, 98, 99], [0, 2, 3], "I64"), "text too")
    t = tarn.from_arrow(Column("z", 0, [None, None, None]))
    equal((t.values.tolist(), t.offsets.tolist()), ([], [0]),
          "and none of it")


def table(n=3, **options):
    inner = Column("+s", n + 1, [None], [numbers(6, name="y")], name="s",
                   offset=1)
    return Column("+s", n, [None],
                  [numbers(5, name="x", offset=2), inner,
                   Column("n", 5, name="none")], **options)


def tables():
    t = tarn.from_arrow(table(offset=1), columns=["x", "s"])
    equal({k: v.tolist() for k, v in t.items()},
          {"x": [13, 14, 15], "s.y": [12, 13, 14]},
          "a batch is a dict, its structures' parts NAME.FIELD")
    chunks = tarn.from_arrow(Batches([table(), table(2)]), columns=["x"])
    equal([c["x"].tolist() for c in chunks], [[12, 13, 14], [12, 13]],
          "a stream is a list of them")
    equal([c.tolist() for c in tarn.from_arrow(Batches([numbers(2)]))],
          [[10, 11]], "a stream of one column a list of columns")
    source = data.arrow(Batches([table(), table(2)]), ["x"])
    equal([source.record(i)["x"].item() for i in range(5)],
          [12, 13, 14, 12, 13], "tarn.data reads it without pyarrow")
    equal(_arrow.read(table(), ["x"])[0]["x"].values.tolist(), [12, 13, 14],
          "and a batch")


def refusals():
    null = b"\xfd"  # the second is one
    for error, part, source in (
            (ValueError, "column 'a' has 1 nulls",
             Column("i", 4, [null, pack("i", 1, 2, 3, 4)], nulls=1, name="a")),
            (ValueError, "column 'a' has 1 nulls",
             Column("i", 3, [null, pack("i", 1, 2, 3, 4)], nulls=-1, offset=1,
                    name="a")),
            (ValueError, "has 4 nulls", Column("n", 4, name="a")),
            (ValueError, "is of null", Column("n", 0, name="a")),
            (ValueError, "is of decimal", Column("d:9,2", 1, [None, b"1" * 16])),
            (ValueError, "is of string_view", Column("vu", 1, [None, b"1" * 16])),
            (ValueError, "is of map", Column("+m", 0, [None, None])),
            (ValueError, "is of union", Column("+us:1", 0, [])),
            (ValueError, "is of list",
             Column("+w:1", 1, [None], [Column("+l", 1, [None, None])])),
            (ValueError, "an unknown type ('?')", Column("?", 1, [None, b"1"])),
            (ValueError, "is of dictionary", numbers(dictionary=True)),
            (ValueError, "no memory", Column("i", 1, [None, None])),
            (ValueError, "has 1 buffers", Column("i", 1, [None])),
            (ValueError, "has -1 elements", numbers(-1)),
            (ValueError, "records up to 9",
             Column("+l", 1, [None, pack("i", 0, 9)], [numbers(4)])),
            (ValueError, "records from 3 to 1",
             Column("u", 1, [None, pack("i", 3, 1), b"abc"])),
            (ValueError, "records from -1",
             Column("u", 1, [None, pack("i", -1, 1), b"abc"])),
            (ValueError, "2 elements from the 0th on, where 4",
             Column("+w:4", 1, [None], [numbers(2)])),
            (ValueError, "the size 'x'", Column("w:x", 1, [None, b"1"])),
            (ValueError, "the size '0'", Column("+w:0", 1, [None], [numbers()])),
            (ValueError, "2 elements",
             Column("+s", 3, [None], [numbers(2, name="x")]))):
        source.name = source.name or "a"
        wrapped = Column("+s", max(source.n, 0), [None], [source])
        raises(error, part, f"refused: {part}", tarn.from_arrow, wrapped
               if source.kind != "+s" else source)
    equal(tarn.from_arrow(Column("i", 2, [null, pack("i", 1, 2, 3, 4)],
                                 nulls=-1, offset=2)).tolist(), [3, 4],
          "nulls outside of a slice are none")
    raises(KeyError, "'q'", "a column that is not there", tarn.from_arrow,
           table(), columns=["q"])
    raises(ValueError, "columns were chosen", "columns of a column",
           tarn.from_arrow, numbers(), columns=["q"])
    raises(OSError, "the disk is gone", "a stream that fails", tarn.from_arrow,
           Batches([table(), table()], fail=1), columns=["x"])
    raises(TypeError, "dict has neither", "what is not Arrow's",
           tarn.from_arrow, {})


class Again:
    """Gives the same capsules again, against the rule."""

    def __init__(self, source):
        self.both = source.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema=None):
        return self.both


def twice():
    again = Again(numbers())
    t = tarn.from_arrow(again)
    raises(ValueError, "taken once", "an array that was taken", tarn.from_arrow,
           again)
    equal(t.tolist(), [10, 11, 12, 13], "the first is undisturbed")


def words(n, *texts):
    """n records of text, from the second of these on."""
    ends = [sum(len(t) for t in texts[:i]) for i in range(len(texts) + 1)]
    return Column("u", n, [None, pack("i", *ends), b"".join(texts)], name="t",
                  offset=1)


def batch(n, first, *texts):
    return Column("+s", n, [None], [
        Column("i", n, [None, pack("i", *range(first, first + n))], name="x"),
        Column("+w:2", n, [None], [numbers(2 * n)], name="y"),
        Column("b", n, [None, b"\x05"], name="flag"), words(n, *texts)])


def seen_elsewhere(name):
    """The values of a published tensor, in another process."""
    return eval(subprocess.run(
        [sys.executable, "-c", "import sys, tarn; print(tarn.Store(sys.argv[1])"
         "[sys.argv[2]].tolist())", store.socket, name],
        capture_output=True, text=True, check=True).stdout)


def loaded():
    columns = {"x": [1, 2, 3, 7, 8], "y": [[10, 11], [12, 13], [14, 15],
                                           [10, 11], [12, 13]],
               "flag": [True, False, True, True, False],
               "t/values": list(b"bbcccffeee"), "t/offsets": [0, 2, 5, 5, 7, 10]}
    both = Batches([batch(3, 1, b"a", b"bb", b"ccc", b""),
                    batch(2, 7, b"dddd", b"ff", b"eee")])
    t = store.load(both, "rows")
    equal({k: v.tolist() for k, v in t.items()}, columns,
          "the batches of a table are loaded as one set")
    all_released("a table that is loaded is copied")
    for name in ("x", "t/offsets"):
        equal(seen_elsewhere(f"rows/{name}"), columns[name],
              f"another process finds rows/{name}")
    equal(store.fields("rows"), {}, "what is published is a set")
    t = store.load(batch(1, 9, b"a", b"b"), "rows")
    equal((t["x"].tolist(), t["t/values"].tolist(), t["t/offsets"].tolist()),
          ([9], list(b"b"), [0, 1]), "a batch alone replaces it")
    equal(sorted(store.names("rows/")), sorted(
        [f"rows/{name}" for name in columns] + ["rows/.fields"]),
        "with nothing left of the table before")
    for error, part, args, options in (
            (ValueError, "give it a name", (), {}),
            (TypeError, "views is for files", ("n",), {"views": {}}),
            (TypeError, "verify is for files", ("n",), {"verify": True}),
            (TypeError, "device is for files", ("n",), {"device": "cuda:0"}),
            (TypeError, "via is for files", ("n",), {"via": "host"})):
        raises(error, part, f"load of a table: {part}", store.load,
               batch(1, 0, b"", b""), *args, **options)
    raises(ValueError, "would be named 't/values'", "two columns of one name",
           store.load, Column("+s", 1, [None], [
               Column("i", 1, [None, pack("i", 1)], name="t/values"),
               words(1, b"", b"a")]), "n")
    raises(ValueError, "no batches", "a table without records", store.load,
           Batches([batch(1, 0, b"", b"")], last=0), "n")
    raises(OSError, "the disk is gone", "a stream that fails", store.load,
           Batches([batch(1, 0, b"", b"")] * 2, fail=1), "n")
    equal(store.names("n/"), [], "and then nothing is published")


def wide():
    """More columns than memory can be published in pieces."""
    n = 1 << 18
    data, pair = [None, bytes(range(256)) * (n // 64)], [None, pack("i", 1, 2)]
    total = 66

    def batch(values, n):
        return Column("+s", n, [None], [
            Column("i", n, values, name=f"c{i}") for i in range(total)] + [
            Column("+w:2", n, [None], [Column("s", 2 * n, data)], name="two"),
            Column("b", n, data, name="flag"), Column("c", n, data, name="c")])
    t = store.load(Batches([batch(data, n), batch(pair, 2), batch(data, n)]),
                   "wide")
    one = struct.unpack("i", bytes(range(4)))[0]
    equal(len(t), total + 3, "a table of many large columns is loaded")
    equal([(c.shape, c.dtype, [c[i] for i in (0, n - 1, n, n + 1, n + 2)])
           for c in (t[f"c{i}"] for i in (0, total - 1))],
          [((2 * n + 2,), "I32", [one, struct.unpack(
              "i", bytes(range(252, 256)))[0], 1, 2, one])] * 2,
          "each has its batches, one after the other")
    equal((t["two"].shape, t["two"][n + 3].tolist(), t["flag"].dtype,
           t["flag"][n - 8:n + 3].tolist(), t["c"][n + 1]),
          ((2 * n + 2, 2), list(struct.unpack("2h", bytes(range(4, 8)))), "BOOL",
           [True] * 8 + [False] * 3, 1),
          "also those of other types")
    t = store.load(Batches([batch(data, 0), batch(data, 0)]), "wide")
    equal({c.shape for c in t.values()}, {(0,), (0, 2)},
          "so is one without records")
    store.publish({}, replace="wide/")


def files():
    """They are Python's to read, and the error says how."""
    for what, head in (("an Arrow file", b"ARROW1\0\0"),
                       ("an Arrow stream", b"\xff\xff\xff\xff\x80\0\0\0"),
                       ("a Feather file of version 1", b"FEA1"),
                       ("a Parquet file", b"PAR1\x15\4")):
        path = os.path.join(os.environ["TMPDIR"], "x")
        with open(path, "wb") as f:
            f.write(head.ljust(64, b"\0"))
        raises(ValueError, what, f"{what} is no tensor file", store.load, path)
        for part in (what, "tarn.load(table, name)"):
            raises(ValueError, part, f"the error says '{part}'", tarn.open, path)
        os.remove(path)


daemon = start_daemon(os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock"))
store = tarn.Store(os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock"))
for part in (fixed, ragged, tables, refusals, twice, loaded, wide, files):
    part()
    all_released(part.__name__)
del store
daemon.terminate()
daemon.wait()
ok(made["array"] > 40 and made["stream"] > 3, "and those were many")
finish()
