#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors on GPUs, with the stand-in for the driver of CUDA, which this script
runs again to have. It keeps an account: the script fails if something is left
behind at its end."""
import ctypes
import gc
import os
import pickle
import subprocess
import sys

from tap import equal, finish, ok, raises, skip_all, skipped

STAND_IN = os.environ.get("top_builddir", ".") + "/tests/fakecuda/.libs"
OFFSET = 1 << 44  # FAKECUDA_OFFSET of device 0
UUID = "GPU-abababab-abab-abab-abab-ababababab0%d"

if not os.path.exists(STAND_IN + "/libcuda.so.1"):
    skip_all("tarn was built without CUDA")
if "FAKECUDA_DEVICES" not in os.environ:
    path = os.path.realpath(STAND_IN)
    if "LD_LIBRARY_PATH" in os.environ:
        path += ":" + os.environ["LD_LIBRARY_PATH"]
    os.environ.update(LD_LIBRARY_PATH=path, FAKECUDA_DEVICES="2",
                      FAKECUDA_READ_ONLY="1", FAKECUDA_LATE="2000")
    os.execv(sys.executable, [sys.executable, *sys.argv])

import py_kit as kit
import tarn

try:
    import numpy
except ImportError:
    numpy = None

# ---- another process ----

if len(sys.argv) > 1 and sys.argv[1] == "receive":
    seen = tarn.Store()
    t = pickle.loads(sys.stdin.buffer.read())
    print(t.device, t.readonly, t.tolist(), seen["gpu/w"].tolist())
    del t, seen
    sys.exit(0)

# ---- places and copies ----


class Device:
    """As torch.device."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


class Driver:
    """What a library that works on a device calls: the stand-in's own."""

    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.stream = ctypes.c_void_p()
        self.event = ctypes.c_void_p()
        for wrong in (
                self.cu.cuDevicePrimaryCtxRetain(
                    ctypes.byref(self.context), 0),
                self.cu.cuCtxPushCurrent_v2(self.context),
                self.cu.cuStreamCreate(ctypes.byref(self.stream), 1),
                self.cu.cuEventCreate(ctypes.byref(self.event), 0)):
            if wrong:
                sys.exit(f"Bail out! the stand-in: {wrong}")

    def fill(self, tensor, value, stream):
        """Queues it."""
        at = ctypes.c_uint64(tensor.device_pointer())
        equal(self.cu.cuMemsetD8Async(at, ctypes.c_ubyte(value),
                                      ctypes.c_size_t(tensor.nbytes),
                                      stream), 0, f"a fill with {value}")

    def mark(self):
        """In the legacy default stream."""
        self.cu.cuEventRecord(self.event, None)

    def is_done(self):
        return self.cu.cuEventQuery(self.event) == 0

    def close(self):
        self.cu.cuEventDestroy_v2(self.event)
        self.cu.cuStreamDestroy_v2(self.stream)
        self.cu.cuCtxPopCurrent_v2(ctypes.byref(self.context))
        self.cu.cuDevicePrimaryCtxRelease_v2(0)


class Stream:
    """As torch.cuda.Stream, or cuda.core's."""

    def __init__(self, name, value):
        setattr(self, name, value)


def places():
    t = tarn.arange(12, dtype="F32").reshape(3, 4)
    equal(t.device, "cpu", "a tensor of the host is on the CPU")
    ok(t.to("cpu") is t and t.cpu() is t, "it is there already")
    there = t.to("cuda")
    equal((there.device, there.storage_kind, there.dtype, there.shape),
          ("cuda:0", "device", "F32", (3, 4)), "it goes to a device")
    equal(there.tolist(), t.tolist(), "with its values")
    ok(there.to("cuda:0") is there and there.cuda() is there and
       there.to(there.device) is there, "it stays itself there")
    for name in ("cuda:1", 1, Device("cuda:1"), UUID % 1):
        equal(t.to(name).device, "cuda:1", f"{name} is a device")
    raises(ValueError, "none of the 22", "a digit would be a dtype", t.to, "1")
    equal(t.to(device="0000:3b:00.0").device, "cuda:0",
          "a PCI address is a device")
    equal(t.cuda(1).device, "cuda:1", "cuda(1) is the second device")
    again = there.to("cuda:1")
    equal((again.device, again.tolist()), ("cuda:1", t.tolist()),
          "from one device to another")
    equal(again.cpu().tolist(), t.tolist(), "and back to the host")
    equal(again.cpu().device, "cpu", "which is the CPU")
    raises(OSError, "there are 2", "a device that is not there", t.to,
           "cuda:2")
    raises(ValueError, "neither", "a device that cannot be", t.to, "cuda:x")
    raises(ValueError, "none of the 22", "neither a device nor a dtype", t.to,
           1.5)
    raises(TypeError, "misses", "nothing at all", t.to)
    raises(TypeError, "by position and by name", "a device twice", t.to,
           "cpu", device="cpu")


def dtypes():
    t = tarn.arange(6, dtype="I64")
    there = t.to("cuda", "F32")
    equal((there.device, there.dtype, there.tolist()),
          ("cuda:0", "F32", [0, 1, 2, 3, 4, 5]), "to a device and a dtype")
    half = there.to("F16")
    equal((half.device, half.dtype, half.tolist()),
          ("cuda:0", "F16", there.tolist()),
          "another dtype alone leaves it on its device")
    equal((there.to(dtype="I32").dtype, there.to("cpu", dtype="I32").device),
          ("I32", "cpu"), "by name")
    equal(t.to(bool).dtype, "BOOL", "a type of Python's is a dtype")
    equal((there.clone().device, there.astype("F64").device),
          ("cpu", "cpu"), "a clone is in the memory of the host")


def streams():
    t = tarn.arange(6, dtype="I64")
    for stream in (None, 0, 1, Stream("cuda_stream", 1)):
        equal(t.to("cuda", stream=stream).cpu(stream=stream).tolist(),
              t.tolist(), f"in the stream {str(stream)[:20]}")
    pair = type("S", (), {"__cuda_stream__": lambda self: (0, 1)})()
    equal(t.cuda(stream=pair).tolist(), t.tolist(), "by __cuda_stream__")
    raises(ValueError, "no handle", "a negative stream", t.to, "cuda",
           stream=-1)
    raises(TypeError, "no stream", "what is no stream", t.to, "cuda",
           stream="1")
    raises(TypeError, "no pair", "a pair that is none", t.to, "cuda",
           stream=type("S", (), {"__cuda_stream__": lambda self: 1})())
    there = tarn.zeros((1000,), "U8", device="cuda")
    driver = Driver()
    driver.fill(there, 5, driver.stream)
    equal(there.cpu(stream=driver.stream.value)[999], 5,
          "a copy comes after the work in its stream")
    driver.fill(there, 6, None)
    equal(there.cpu()[999], 6, "or in the legacy default stream")
    driver.fill(there, 7, None)
    driver.mark()
    there.__dlpack__(stream=1)
    ok(not driver.is_done(), "a consumer there is not waited for")
    there.__dlpack__(stream=driver.stream.value)
    ok(driver.is_done(), "one in another stream gets finished work")
    driver.close()


def elements():
    t = tarn.arange(6, dtype="F32").reshape(2, 3)
    there = t.cuda()
    equal((there[1, 2], float(there[0, 1]), 4 in there, 9 in there),
          (5.0, 1.0, True, False), "elements are read")
    equal(there[1].tolist(), [3, 4, 5], "a row")
    equal(repr(there[1]), "Tensor([3., 4., 5.], dtype=F32, device='cuda:0')"
          if repr(t[1]) == "Tensor([3., 4., 5.], dtype=F32)" else
          repr(t[1])[:-1] + ", device='cuda:0')", "its repr has the device")
    equal(str(there), str(t), "it is printed as ever")
    ok(tarn.equal(there, t) and tarn.equal(t, there), "it equals its copy")
    raises(Exception, "", "nothing is computed on a device yet",
           lambda: there == t)
    there[0, 0] = 7
    there[1] = [8, 9, 10]
    there[:, 2] = 1
    equal(there.tolist(), [[7, 1, 1], [8, 9, 1]], "elements are written")
    there.copy_(t)
    equal(there.T.tolist(), t.T.tolist(), "copy_ fills it")
    here = tarn.zeros((2, 3))
    here.copy_(there)
    equal(here.tolist(), t.tolist(), "or is filled by it")
    raises(BufferError, ".cpu()", "it has no buffer", memoryview, there)
    ok(not hasattr(there, "__array_interface__"), "and no array interface")
    if numpy is None:
        skipped("numpy gets no array on a device", "there is no numpy")
        return
    raises(TypeError, ".cpu().numpy()", "numpy gets no array on a device",
           there.numpy)
    raises(TypeError, ".cpu().numpy()", "by asarray neither", numpy.asarray,
           there)
    x = numpy.arange(5000, dtype="f4").reshape(50, 100)[::-3, 5:]
    back = tarn.from_numpy(x).cuda()[2:, ::7].cpu().numpy()
    ok((back == x[2:, ::7]).all(), "numpy's arrays go there and back")


def creators():
    for make, wanted in ((lambda **d: tarn.zeros((2, 2), **d), 0),
                         (lambda **d: tarn.ones((2, 2), **d), 1),
                         (lambda **d: tarn.full((2, 2), 3, **d), 3)):
        t = make(device="cuda:1")
        equal((t.device, t.tolist()), ("cuda:1", [[wanted] * 2] * 2),
              f"{wanted} everywhere")
    equal((tarn.empty((3,), "I8", device="cuda").device,
           tarn.empty((3,), "I8", device="cuda").dtype), ("cuda:0", "I8"),
          "empty")
    equal((tarn.arange(3, device="cuda").device,
           tarn.arange(3, device="cuda").tolist()), ("cuda:0", [0, 1, 2]),
          "arange")
    t = tarn.tensor([[1, 2], [3, 4]], device=1)
    equal((t.device, t.tolist()), ("cuda:1", [[1, 2], [3, 4]]), "from lists")
    equal(tarn.tensor(t).device, "cpu", "tensor() copies to the host")
    equal(tarn.zeros((2,), device="cpu").device, "cpu", "the CPU by name")
    raises(MemoryError, "left", "more than the device has", tarn.zeros,
           (1 << 40,), device="cuda")


def pointers(store):
    t = store["t"]
    first = t.device_pointer()
    equal(t.device_pointer(0), first, "the first device is meant")
    equal(t[1:].device_pointer() - first, 32, "a view has an address in it")
    equal(t.device_pointer(device=1) - first, OFFSET,
          "another device has another address")
    equal(t.device_pointer("0000:3b:00.0"), first, "a PCI address is a device")
    equal(t.device_pointer(UUID % 0), first, "a UUID is a device")
    equal(t.device_pointer("cuda:0"), first, "and so is PyTorch's name")
    raises(OSError, "there are 2", "a device that is not there",
           t.device_pointer, 2)
    raises(ValueError, "neither", "a name that is none", t.device_pointer,
           "gpu0")
    raises(ValueError, "neither", "a negative index", t.device_pointer, -1)
    raises(TypeError, "", "no device", t.device_pointer, None)
    raises(ValueError, "no device", "the CPU", t.device_pointer, "cpu")
    raises(ValueError, "not a store's", "memory of this process",
           tarn.zeros([3]).device_pointer)


# ---- DLPack ----


class Producer:
    """Another library: a tensor of tarn's behind DLPack alone."""

    def __init__(self, tensor, old=False):
        self.tensor, self.old, self.calls = tensor, old, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        if self.old and set(keywords) - {"stream"}:
            raise TypeError("unexpected keyword")
        return self.tensor.__dlpack__(**keywords)


def dlpack_out():
    host = tarn.arange(6, dtype="F32").reshape(2, 3)
    there = host.cuda(1)
    equal(host.__dlpack_device__(), (1, 0), "the CPU is (1, 0)")
    equal(there.__dlpack_device__(), (2, 1), "a device is (2, its index)")
    for stream in (None, -1, 1, 2):
        ok("dltensor" in repr(there.__dlpack__(stream=stream)),
           f"a consumer in the stream {stream}")
    for stream in (0, -2, 1 << 70, "1"):
        raises(ValueError, "stream", f"no stream is {stream!r}",
               there.__dlpack__, stream=stream)
    raises(RuntimeError, "only None", "the CPU has none", host.__dlpack__,
           stream=1)
    raises(BufferError, "copied", "a host's that must not be copied",
           there.__dlpack__, dl_device=(1, 0), copy=False)
    raises(BufferError, "type 8", "a device that is none of ours",
           there.__dlpack__, dl_device=(8, 0))
    raises(OSError, "there are 2", "a device that is not there",
           there.__dlpack__, dl_device=(2, 5))
    view = there[:, 1:]
    equal(tarn.from_dlpack(Producer(view)).tolist(), [[1, 2], [4, 5]],
          "a view goes out and comes in")


def dlpack_in():
    there = tarn.arange(6, dtype="F32").cuda(1)
    giver = Producer(there)
    got = tarn.from_dlpack(giver)
    equal(giver.calls[0].get("stream"), 1,
          "the giver is asked for the legacy default stream")
    equal((got.device, got.tolist()), ("cuda:1", there.tolist()),
          "its tensor is there")
    there[0] = 9
    equal(got[0], 9.0, "in the same memory")
    old = Producer(there, old=True)
    equal(tarn.from_dlpack(old).tolist(), there.tolist(),
          "an old giver is asked again")
    equal(old.calls[-1], {"stream": 1}, "with the stream alone")
    equal(tarn.from_dlpack(giver, device="cpu").device, "cpu",
          "a copy in the memory of the host")
    equal(giver.calls[-1].get("dl_device"), (1, 0), "which the giver makes")
    for device in ("cuda:0", (2, 0)):
        moved = tarn.from_dlpack(giver, device=device)
        equal((moved.device, moved.tolist()), ("cuda:0", there.tolist()),
              f"a copy on {device}")
    raises(BufferError, "copy is False", "which may be refused",
           tarn.from_dlpack, giver, device="cuda:0", copy=False)
    copy = tarn.from_dlpack(giver, copy=True)
    there[1] = 8
    equal((copy.device, copy[1]), ("cuda:1", 1.0), "new memory there")
    host = Producer(tarn.arange(3))
    equal((tarn.from_dlpack(host, device="cuda").device,
           tarn.from_dlpack(host).device), ("cuda:0", "cpu"),
          "what is on the host goes to a device if asked")
    equal((tarn.from_dlpack(there) is there,
           tarn.from_dlpack(there, device="cuda:1") is there,
           tarn.from_dlpack(there, device="cpu").device),
          (True, True, "cpu"), "a Tensor itself")
    del there, giver, old
    gc.collect()
    equal(got.tolist(), [9, 8, 2, 3, 4, 5], "the loan keeps the memory")


def dlpack_read_only(store):
    t = store["gpu/w"]
    ok("versioned" in repr(t.__dlpack__(max_version=(1, 0))),
       "what is published says that it is read-only")
    raises(BufferError, "read-only", "in the old form it cannot",
           t.__dlpack__, copy=False)
    got = tarn.from_dlpack(Producer(t))
    ok(got.readonly and got.device == "cuda:0", "and is so for the receiver")
    host = store["t"]
    ok("versioned" in repr(host.__dlpack__(dl_device=(3, 0),
                                           max_version=(1, 0))),
       "registered memory of the host is memory of CUDA's")
    raises(BufferError, "not a store's", "other memory is not",
           tarn.zeros((3,)).__dlpack__, dl_device=(3, 0))
    raises(BufferError, "registered", "nor memory of a device",
           t.__dlpack__, dl_device=(3, 0))


# ---- stores ----


def publish(store):
    w = tarn.arange(6, dtype="F32").cuda()
    store.publish({"gpu/w": w, "gpu/row": w[2:4]})
    ok(w.readonly, "what is published is read-only")
    raises(ValueError, "read-only", "and cannot be written", w.__setitem__, 0,
           1)
    seen = store["gpu/w"]
    equal((seen.device, seen.tolist()), ("cuda:0", w.tolist()),
          "a name leads to the device")
    ok(tarn.same_storage(seen, store["gpu/row"]), "two names, one storage")
    lent = tarn.from_dlpack(Producer(tarn.arange(4).cuda(1)))
    store.publish("gpu/lent", lent)
    equal((store["gpu/lent"].device, store["gpu/lent"].tolist(),
           lent.readonly), ("cuda:1", [0, 1, 2, 3], False),
          "what another library allocated is copied there")


def pickles(store):
    t = store["gpu/w"]
    data = pickle.dumps(t)
    ran = subprocess.run([sys.executable, __file__, "receive"], input=data,
                         stdout=subprocess.PIPE, check=False,
                         env={**os.environ,
                              "PYTHONPATH": os.pathsep.join(sys.path)})
    equal((ran.returncode, ran.stdout.decode().strip()),
          (0, f"cuda:0 True {t.tolist()} {t.tolist()}"),
          "a published tensor is pickled as its descriptor")
    own = tarn.arange(5, dtype="I32").cuda()
    back = pickle.loads(pickle.dumps(own))
    equal((back.device, back.tolist()), ("cpu", [0, 1, 2, 3, 4]),
          "another is pickled by value, to the memory of the host")


def channels(store):
    t, own = store["gpu/w"], tarn.arange(5).cuda()
    c = store.channel("gpu", slots=2, slot_bytes=1 << 16)
    c.join("producer")
    c.join("consumer")
    c.put({"w": t, "own": own, "n": 1})
    got = c.get()
    equal((got["w"].device, got["w"].tolist()), ("cuda:0", t.tolist()),
          "a published tensor is sent as it is")
    equal((got["own"].device, got["own"].tolist()), ("cpu", own.tolist()),
          "another through memory")
    del got
    c.leave("producer")
    c.leave("consumer")
    c.close()


# ---- files ----


def opened(path, a, b):
    """By safe_open."""
    with tarn.safe_open(path, device="cuda:1") as f:
        equal((f.get_tensor("b").device, f.get_tensor("b").tolist()),
              ("cuda:1", b.tolist()), "safe_open reads to a device")
        part = f.get_slice("a")[10:20:3]
        equal((part.device, part.tolist()), ("cuda:1", a[10:20:3].tolist()),
              "a part of a tensor")
        f.prefetch()
        ok(tarn.equal(f.get_tensor("a"), a) and
           f.get_tensor("b").device == "cuda:1", "all of it is prefetched")
        ok(tarn.equal(f.get_tensor("a"), a), "and read again if asked again")
        f.prefetch({"a": slice(5, 9), "b": None})
        equal((f.get_tensor("a").tolist(), f.get_tensor("b").tolist()),
              (a[5:9].tolist(), b.tolist()), "or parts, by a plan")
        raises(KeyError, "x", "a plan with a name that is not there",
               f.prefetch, ["a", "x"])
        f.prefetch(["a"])  # and never asked for
    with tarn.safe_open(path) as f:
        f.prefetch(["b", "a"])
        t = f.get_tensor("a")
        equal((t.device, t.storage_kind, tarn.equal(t, a)),
              ("cpu", "mapped", True), "what is prefetched stays mapped")
        f.prefetch({"a": (slice(2, 4),)})
        equal(f.get_tensor("a").tolist(), [2, 3], "a part of it, too")
    raises(ValueError, "closed", "a closed file", f.get_tensor, "a")
    raises(ValueError, "closed", "is not prefetched either", f.prefetch)


def files(store):
    path = os.environ["TMPDIR"] + "/m.safetensors"
    a, b = tarn.arange(3000, dtype="F32"), tarn.arange(7, dtype="I8")
    tarn.save(path, {"a": a, "b": b, "c": tarn.arange(8, dtype="I64")},
              {"key": "value"}, checksums=True)
    seen = []
    m = tarn.load(path, device="cuda:1", verify=True,
                  progress=lambda done, all, phase: seen.append(phase))
    equal((len(m), sorted(m), m["a"].device), (3, ["a", "b", "c"], "cuda:1"),
          "a file is loaded to a device")
    ok(tarn.equal(m["a"], a) and tarn.equal(m["b"], b), "with its values")
    equal(m.metadata["key"], "value", "and its metadata")
    ok(set(seen) <= {"read"}, "progress is as for other loads", seen)
    ok(tarn.same_storage(m["a"], m["c"]), "its tensors are one piece")
    raises(KeyError, "no tensor 'x'", "a name that is not in it",
           m.__getitem__, "x")
    raises(FileNotFoundError, "", "a file that is not there", tarn.load,
           path + "x", device="cuda")
    if numpy is not None:
        raises(TypeError, ".cpu()", "numpy cannot have them", m.numpy)
    n = tarn.load(path, "model", device="cuda:0")
    equal((store["model/a"].device, store["model/b"].tolist()),
          ("cuda:0", b.tolist()), "a name publishes them on the device")
    ok(tarn.same_storage(tarn.default_store()["model/a"], n["c"]),
       "as they are")
    equal(tarn.load(path, device="cpu")["b"].device, "cpu",
          "the CPU is no device")
    out = os.environ["TMPDIR"] + "/out.safetensors"
    tarn.save(out, {"a": m["a"]})
    ok(tarn.equal(tarn.open(out)["a"], a), "it is saved from the device")

    def stop(*_):
        raise KeyError("stop")

    raises(KeyError, "stop", "an exception of progress ends a load",
           tarn.load, path, device="cuda", progress=stop)
    opened(path, a, b)
    views()
    os.unlink(path)
    os.unlink(out)


def views():
    """A checkpoint whose records are at odd bytes: what is a view of another
    tensor, of the same one twice, and so on."""
    path = os.path.join(os.environ["top_srcdir"],
                        "tests/fuzz/corpus/archive/unaligned")
    here, there = tarn.open(path), tarn.load(path, device="cuda:0")
    for name, t in here.items():
        equal((there[name].tolist(), there[name].strides,
               there[name].data_ptr() % int(t.itemsize)),
              (t.tolist(), t.strides, 0),
              f"a checkpoint's tensor is on the device: {name}")


def with_store():
    store = tarn.Store()
    store.publish({"t": tarn.full([4, 8], 0.5)})
    pointers(store)
    publish(store)
    dlpack_read_only(store)
    pickles(store)
    channels(store)
    files(store)


daemon = kit.start_daemon(os.environ["TMPDIR"] + "/d")
try:
    places()
    dtypes()
    streams()
    elements()
    creators()
    dlpack_out()
    dlpack_in()
    with_store()
    tarn._store._default = None  # or the account would have its memory
    gc.collect()
finally:
    daemon.terminate()
    daemon.wait()
sys.exit(finish())
