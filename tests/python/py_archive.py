#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's checkpoints and numpy's .npz, opened where they lie: archives that
are made here, with the modules of a PyTorch that is not needed for that; what
is refused, and by which name; and PyTorch's own files where it is installed."""
import collections
import io
import os
import pickle
import struct
import subprocess
import sys
import types
import zipfile
import zlib

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed (python3-numpy)")
import tarn

tmp = os.environ["TMPDIR"]
path = os.path.join(tmp, "m.pt")
socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d.sock")
daemon = kit.start_daemon(socket)


# ---- a stand-in for what torch.save writes ----
def stand_in(module, name, base=object):
    where = sys.modules.setdefault(module, types.ModuleType(module))
    made = type(name, (base,), {"__module__": module})
    setattr(where, name, made)
    return made


real = {name: sys.modules.pop(name) for name in list(sys.modules)
        if name == "torch" or name.startswith("torch.")}
stand_in("torch", "FloatStorage")
stand_in("torch", "LongStorage")
stand_in("torch", "DoubleStorage")
stand_in("torch", "BFloat16Storage")
stand_in("torch", "Size", tuple)
stand_in("torch.storage", "UntypedStorage")
stand_in("torch", "uint16")
UTILS = sys.modules.setdefault("torch._utils", types.ModuleType("torch._utils"))


def function(name):
    def made():
        pass
    made.__module__, made.__qualname__, made.__name__ = "torch._utils", name, \
        name
    setattr(UTILS, name, made)
    return made


V2, V3 = function("_rebuild_tensor_v2"), function("_rebuild_tensor_v3")
PARAMETER = function("_rebuild_parameter")
torch = sys.modules["torch"]


class Storage:
    def __init__(self, kind, key, numel):
        self.id = "storage", kind, key, "cpu", numel


class Tensor:
    def __init__(self, storage, offset, shape, stride, dtype=None, bits=None):
        self.call = V2 if dtype is None else V3
        self.args = (storage, offset, shape, stride, False,
                     collections.OrderedDict())
        if dtype is not None:
            self.args += (dtype,)
        if bits is not None:
            self.args += (bits,)

    def __reduce__(self):
        return self.call, self.args


class Parameter:
    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return PARAMETER, (self.data, True, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return obj.id if isinstance(obj, Storage) else None


def pickled(obj, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(obj)
    return out.getvalue()


def write(obj, records, name=path, protocol=2, order=b"little",
          compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(name, "w", compression) as z:
        z.writestr("m/data.pkl", obj if isinstance(obj, bytes)
                   else pickled(obj, protocol))
        if order:
            z.writestr("m/byteorder", order)
        for key, value in records.items():
            z.writestr(f"m/data/{key}", value)
        z.writestr("m/version", "3\n")


numbers = np.arange(24, dtype="f4")
whole = Storage(torch.FloatStorage, "0", 24)
long = Storage(torch.LongStorage, "1", 3)
bits = Storage(sys.modules["torch.storage"].UntypedStorage, "2", 6)
records = {"0": numbers.tobytes(), "1": np.array([5, -6, 7]).tobytes(),
           "2": np.array([1, 2, 65535], "u2").tobytes()}
state = {
    "model": collections.OrderedDict(
        w=Tensor(whole, 0, (4, 6), (6, 1)), t=Tensor(whole, 0, (6, 4), (1, 6)),
        part=Tensor(whole, 7, (2, 3), (6, 2)),
        p=Parameter(Tensor(whole, 20, (4,), (1,)))),
    "optimizer": {"state": {0: {"step": Tensor(long, 1, (), ())}},
                  "groups": [{"lr": 0.001, "params": [0, 1]}]},
    "wide": Tensor(long, 2, (2, 1000), (0, 0)),
    "none": Tensor(whole, 24, (0, 3), (3, 1)),
    "u2": Tensor(bits, 0, (3,), (1,), torch.uint16),
    "epoch": 3, "rate": 0.1, "name": "xé", "flag": True, "nothing": None,
    "large": 1 << 70,
    "size": torch.Size((2, 3)), "set": {4}}
wanted = {"model.w": numbers.reshape(4, 6), "model.t": numbers.reshape(4, 6).T,
          "model.part": numbers[7:19].reshape(2, 6)[:, :6:2],
          "model.p": numbers[20:], "optimizer.state.0.step": np.array(-6),
          "wide": np.full((2, 1000), 7), "none": np.zeros((0, 3), "f4"),
          "u2": np.array([1, 2, 65535], "u2")}


def same(seen, wanted=wanted):
    return sorted(seen) == sorted(wanted) and all(
        np.array_equal(seen[n].numpy(), a) and
        seen[n].numpy().dtype == a.dtype for n, a in wanted.items())


# ---- checkpoints ----
for protocol in (2, 3, 4, 5):
    write(state, records, protocol=protocol)
    with_open = tarn.open(path)
    kit.ok(same(with_open), f"protocol {protocol}: the tensors are the file's",
           dict(with_open))
del with_open
metadata = tarn.open(path).metadata
kit.equal({k: metadata.get(k) for k in (
    "epoch", "rate", "name", "flag", "nothing", "optimizer.groups.0.lr",
    "optimizer.groups.0.params.1", "size.1", "set.0")},
    {"epoch": "3", "rate": "0.1", "name": "xé", "flag": "true",
     "nothing": "null",
     "optimizer.groups.0.lr": "0.001", "optimizer.groups.0.params.1": "1",
     "size.1": "3", "set.0": "4"}, "numbers and texts are the metadata")
kit.ok(same(tarn.File(path, map=False)), "so they are without a mapping")
m = tarn.load(path)
kit.ok(same(m), "load has them")
kit.ok(tarn.same_storage(m["model.w"], m["model.t"]),
       "views of one storage share it")
kit.equal((m["model.t"].strides, m["model.w"].numpy()[1, 2],
           m["model.t"].numpy()[2, 1]), ((1, 6), 8., 8.),
          "with their strides")
store = tarn.default_store()
store.load(path, "run")
kit.ok(np.array_equal(store["run/model.part"].numpy(), wanted["model.part"]),
       "load publishes them")
copied = os.path.join(tmp, "copy.safetensors")
tarn.save(copied, dict(tarn.open(path)))
kit.ok(same(tarn.open(copied)), "they are saved as safetensors")
with tarn.safe_open(path, framework="np") as f:
    kit.equal(f.get_slice("model.w")[1, 2:4].tolist(), [8., 9.],
              "safe_open takes a part")
write(Tensor(whole, 0, (2,), (1,)), records)
kit.equal(tarn.open(path)["m"].tolist(), [0., 1.],
          "a tensor alone has the file's name")
write(state, records, order=None)
kit.ok(same(tarn.open(path)), "an older one has no byte order")
with zipfile.ZipFile(path, "w") as z:
    for key, value in records.items():
        z.writestr(f"m/data/{key}", value)
    z.writestr("m/data.pkl", pickled(state))
kit.ok(same(tarn.open(path)) and same(tarn.load(path)),
       "the pickle may come last")
with zipfile.ZipFile(path, "w") as z:
    z.writestr("m/data.pkl", pickled(state))
    z.start_dir += 200 << 20
    for key, value in records.items():
        z.writestr(f"m/data/{key}", value)
kit.ok(same(tarn.open(path)) and same(tarn.load(path)),
       "tensors may lie behind much else")
write({"w": Tensor(whole, 0, (24,), (1,)), "v": Tensor(whole, 9, (3,), (1,)),
       "xxh3:w": "0" * 16, "xxh3:v": "0" * 16}, records)
kit.equal(tarn.open(path).metadata, {}, "a checkpoint has no checksums")

# ---- what is refused ----
def refused(what, words, obj=None, data=records, **how):
    write(state if obj is None else obj, data, **how)
    kit.raises(Exception, words, f"{what} is refused", tarn.open, path)


class Runs:
    def __reduce__(self):
        return os.system, ("touch " + os.path.join(tmp, "ran"),)


refused("code", "needs posix.system", {"w": Runs()})
refused("any other class", "needs fractions.Fraction",
        {"x": __import__("fractions").Fraction(1, 2)})
kit.ok(not os.path.exists(os.path.join(tmp, "ran")), "nothing was executed")
for what, t in (
        ("conjugated", Tensor(whole, 0, (1,), (1,), bits={"conj": True})),
        ("negated", Parameter(Tensor(whole, 0, (1,), (1,), torch.uint16,
                                     {"conj": False, "neg": True})))):
    refused(f"a tensor that is only {what} when it is read", "resolve_conj",
            {"t": t})
refused("a big-endian one", "big-endian", order=b"big")
refused("a missing record", "no record of tensor 'model.w', data/0", data={})
refused("a short record", "its record has 8 bytes",
        data={**records, "0": bytes(8)})
for what, t in (
        ("an offset past the end", Tensor(whole, 23, (2,), (1,))),
        ("a shape past the end", Tensor(whole, 0, (25,), (1,))),
        ("strides past the end", Tensor(whole, 0, (2, 2), (23, 1))),
        ("a product past 64 bits",
         Tensor(whole, 0, (1 << 62, 1 << 62), (1 << 62, 1 << 40)))):
    refused(what, "outside of its storage", {"t": t})
refused("a negative size", "wrong tensor", {"t": Tensor(whole, 0, (-1,), (1,))})
refused("strides of another number", "wrong tensor",
        {"t": Tensor(whole, 0, (1, 2), (1,))})
refused("a key of another kind", "neither a text nor an integer",
        {(1, 2): Tensor(whole, 0, (1,), (1,))})
refused("a name twice", "twice", {"a": [Tensor(whole, 0, (1,), (1,))],
                                  "a.0": Tensor(whole, 0, (1,), (1,))})
itself = []
itself.append(itself)
refused("a container in itself", "within each other", itself)
shared = [1]
for _ in range(40):
    shared = [shared, shared]
refused("values along many ways", "share values so often", shared)
refused("an endless nesting of marks", "too many containers",
        b"\x80\x02" + b"(" * 5000)
# Small ones that would take very much memory.
refused("a dict that is made of pairs again and again", "a dict of arguments",
        b"\x80\x02ccollections\nOrderedDict\nq\0](" + b"NN\x86" * 1000 +
        b"e\x85q\1" + b"h\0h\1R0" * 1000 + b"N.")
refused("a tensor of more dimensions than PyTorch's", "wrong tensor",
        {"t": Tensor(whole, 0, (1,) * 65, (1,) * 65)})
refused("a long name of many values", "names and texts have more",
        {"k" * 4000: [None] * 10000})
refused("a long text that is shared", "names and texts have more",
        {"a": ["x" * 100000] * 5000})
for at in range(len(pickled(state)) - 1):
    write(pickled(state)[:at], records)
    try:
        tarn.open(path)
    except (ValueError, OSError):
        continue
    kit.ok(False, f"a pickle cut at {at} is refused")
kit.ok(True, "a pickle that is cut anywhere is refused")

# ---- archives ----
write(state, records)
with open(path, "rb") as f:
    good = f.read()
for at in range(0, len(good), 7):
    with open(path, "wb") as f:
        f.write(good[:at])
    try:
        tarn.open(path)
    except (ValueError, OSError):
        continue
    kit.ok(False, f"an archive cut at {at} is refused")
kit.ok(True, "an archive that is cut anywhere is refused")
with open(path, "wb") as f:
    f.write(good + b"tail")
kit.raises(Exception, "no directory at its end", "so is one with a tail",
           tarn.open, path)
# The end of 64 bits, as torch.save writes it.
end = good.rindex(b"PK\5\6")
count, size, offset = struct.unpack_from("<10xHII", good, end)
end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count,
                    size, offset)
locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
narrow = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 65535, 65535, 0xffffffff,
                     0xffffffff, 0)
with open(path, "wb") as f:
    f.write(good[:end] + end64 + locator + narrow)
kit.ok(same(tarn.open(path)), "an end of 64 bits is read")
with open(path, "wb") as f:
    f.write(good[:end] + end64 + locator[:8] +
            struct.pack("<QI", 1 << 60, 1) + narrow)
kit.raises(Exception, "64-bit end outside", "one outside of the file is not",
           tarn.open, path)
with zipfile.ZipFile(path, "w") as z:
    z.writestr("m/data.pkl", pickled(state))
    z.writestr("m/code/m.py", "x" * 100, zipfile.ZIP_DEFLATED)
    z.writestr("m/constants.pkl", pickled(()))
kit.raises(Exception, "TorchScript", "a program of TorchScript is refused",
           tarn.open, path)
with zipfile.ZipFile(path, "w") as z:
    z.writestr("a.npy", "x" * 100)
    twin = zipfile.ZipInfo("b.npy")
    z.writestr(twin, "x")
    twin.header_offset, twin.file_size, twin.compress_size = 0, 100, 100
kit.raises(Exception, "share bytes", "records in one place are refused",
           tarn.open, path)


def overlap(at, inner=b""):
    """b.npy begins at that byte of what is a.npy's; other bytes are no record's,
    so that all together are no more than the archive."""
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a.npy", inner.ljust(100, b"x"))
        z.writestr("gap.npy", "x" * 1000)
        inside = zipfile.ZipInfo("b.npy")
        z.writestr(inside, "x")
        inside.header_offset, inside.file_size, inside.compress_size = at, 9, 9
        z.filelist = [i for i in z.filelist if i.filename != "gap.npy"]


head = b"PK\3\4".ljust(30, b"\0")
for at, inner in ((35, head), (35 + 50, b"x" * 50 + head)):
    overlap(at, inner)
    kit.raises(Exception, "records 'a.npy' and 'b.npy' of the zip archive share "
               "bytes: the first ends at byte 135, the second begins at byte "
               f"{at}", f"one that begins at byte {at} of another is refused",
               tarn.open, path)
overlap(0)
kit.raises(Exception, "share bytes", "and one that is the beginning of another",
           tarn.open, path)
with zipfile.ZipFile(path, "w") as z:
    z.writestr("a.txt", "x")
kit.raises(Exception, "neither a PyTorch checkpoint", "any archive is refused",
           tarn.open, path)

# ---- .npz ----
npz = os.path.join(tmp, "a.npz")
arrays = {"x": np.arange(6.).reshape(2, 3), "none": np.zeros((0, 2), "i2"),
          "f": np.asfortranarray(np.arange(6, dtype="i4").reshape(2, 3)),
          "dir/y": np.array(True)}
np.savez(npz, **arrays)
kit.ok(same(tarn.open(npz), arrays) and same(tarn.load(npz), arrays),
       "numpy's .npz has its arrays")
np.savez(npz)
kit.equal(len(tarn.open(npz)), 0, "an empty one has none")

# ---- deflated ----
np.savez_compressed(npz, **arrays)
kit.ok(same(tarn.open(npz), arrays) and same(tarn.load(npz), arrays),
       "a compressed .npz has its arrays")
kit.ok(same(tarn.File(npz, map=False), arrays), "also without a mapping")
os.utime(npz, ns=(10**18, 10**18 + 7))
kit.equal([s[2] for s in tarn.File(npz, map=False)._shards()], [10**18 + 7],
          "it is as old as its file, on any node")
store.load(npz, "packed")
kit.ok(np.array_equal(store["packed/f"].numpy(), arrays["f"]),
       "load publishes them")
kit.ok(tarn.open(npz)["x"].data_ptr() % 64 == 0, "they are aligned")
rows = np.random.default_rng(3).integers(0, 9, (1000, 700))
np.savez_compressed(npz, rows=rows)
kit.ok(np.array_equal(tarn.load(npz)["rows"].numpy(), rows),
       "one of more bytes than are read at a time")
told = subprocess.run([os.environ["TARN"], "info", npz], check=True, text=True,
                      stdout=subprocess.PIPE).stdout
kit.ok("rows" in told and "npz" in told, "tarn info shows it", told)
write(state, records, compression=zipfile.ZIP_DEFLATED)
kit.ok(same(tarn.open(path)) and same(tarn.load(path)),
       "so has a compressed checkpoint")
m = tarn.load(path)
kit.ok(tarn.same_storage(m["model.w"], m["model.t"]),
       "whose views share their storage")
with zipfile.ZipFile(path, "w") as z:
    z.writestr("a.npy", b"x" * 100, zipfile.ZIP_BZIP2)
kit.raises(Exception, "zip's method 12", "another compression is refused",
           tarn.open, path)


def deflated(change=None, stream=None, **declared):
    """An archive of one .npy, whose directory declares what it is told, and
    whose bytes are those of the stream or a changed one."""
    out = io.BytesIO()
    np.save(out, np.arange(1000))
    whole = out.getvalue()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(whole) + packer.flush() if stream is None else stream
    if change:
        body = change(body)
    size = declared.get("size", len(whole))
    crc = declared.get("crc", zlib.crc32(whole))
    common = struct.pack("<HHHHIIIHH", 0, 8, 0, 0, crc, len(body), size, 5, 0)
    local = b"PK\3\4" + struct.pack("<H", 20) + common + b"a.npy" + body
    entry = b"PK\1\2" + struct.pack("<HH", 20, 20) + common + \
        struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"a.npy"
    with open(npz, "wb") as f:
        f.write(local + entry + struct.pack(
            "<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0))


deflated()
kit.equal(tarn.open(npz)["a"][999], 999, "an archive made by hand")
for what, words, how in (
        ("another sum", "its CRC is another", {"crc": 1}),
        ("a stream longer than declared", "there are more bytes",
         {"size": 500}),
        ("a stream shorter than declared", "there are fewer bytes",
         {"size": 10000}),
        ("a size that no stream can have", "cannot come of so few",
         {"size": 0xfffffffe}),
        ("a cut stream", "end too early", {"change": lambda b: b[:-9]}),
        ("no stream", "two sizes", {"stream": b""}),
        ("bytes behind it", "after its last byte",
         {"change": lambda b: b + b"x"}),
        ("a stream of garbage", "is damaged", {"stream": b"\xff" * 2000})):
    deflated(**how)
    kit.raises(ValueError, words, f"{what} is refused", tarn.open, npz)
deflated()
with open(npz, "rb") as f:
    good = f.read()
here = len(os.listdir("/proc/self/fd"))
for at in range(0, len(good), 13):
    with open(npz, "wb") as f:
        f.write(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1:])
    try:
        seen = tarn.open(npz)["a"].tolist()
        if seen != list(range(1000)):
            kit.ok(False, f"with byte {at} changed it has other values")
    except (ValueError, OSError, KeyError):
        pass
kit.ok(True, "a changed byte changes no value")
kit.equal(len(os.listdir("/proc/self/fd")), here, "no descriptor is left")
np.savez(npz, o=np.array([None]))
kit.raises(Exception, "record 'o.npy': ", "one of objects is refused",
           tarn.open, npz)

# ---- PyTorch's own ----
for name in [n for n in sys.modules if n.split(".")[0] == "torch"]:
    del sys.modules[name]
sys.modules.update(real)
try:
    import torch
except ImportError:
    torch = None
if torch:
    net = torch.nn.Sequential(torch.nn.Linear(30, 40),
                              torch.nn.BatchNorm1d(40))
    adam = torch.optim.Adam(net.parameters())
    net(torch.randn(8, 30)).sum().backward()
    adam.step()
    torch.save({"net": net.state_dict(), "adam": adam.state_dict()}, path)
    theirs = torch.load(path, weights_only=True)
    ours = tarn.load(path).torch()
    kit.ok(all(torch.equal(ours["net." + n], t)
               for n, t in theirs["net"].items()),
           "torch.save's state of a module")
    kit.ok(all(torch.equal(ours[f"adam.state.{i}.{n}"], t)
               for i, s in theirs["adam"]["state"].items()
               for n, t in s.items()), "and of an optimizer")
    x = torch.arange(40.)
    torch.save({"x": x, "tied": x, "part": x[5:], "t": x.view(4, 10).T,
                "none": x[:0], "copy": x.clone()}, path)
    kit.ok(all(torch.equal(tarn.load(path)[n].torch(), t) for n, t in
               torch.load(path, weights_only=True).items()),
           "and of tensors that share a storage, which is one record")
    z = torch.complex(torch.ones(3), torch.ones(3))
    for what, t in (("conjugated", z.conj()), ("negated", z.conj().imag)):
        torch.save({"t": t}, path)
        kit.raises(Exception, "resolve_conj", f"a lazily {what} tensor is "
                   "refused", tarn.open, path)
    torch.save({"w": torch.ones(3)}, path,
               _use_new_zipfile_serialization=False)
    kit.raises(Exception, "torch.load", "a file of before 1.6 is refused",
               tarn.open, path)
else:
    kit.skipped("PyTorch's own files",
                "torch is not installed (python3-torch)")

daemon.terminate()
daemon.wait()
for name in (path, npz, copied):
    os.unlink(name)
kit.finish()
