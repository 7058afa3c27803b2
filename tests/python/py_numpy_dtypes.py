#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""numpy has no BF16, F8, F6 and F4. Arrays over the bits of such a tensor added
up to other numbers without a word, so no route hands out such an array: each
raises, or is of ml_dtypes' dtype where that is installed. The routes are
.numpy(), numpy's functions (which try the buffer protocol, __array_interface__,
__array__ and at last the elements one by one), and files of tensors."""
import builtins
import ctypes
import os
import subprocess
import sys

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed (python3-numpy)")
import tarn
import tarn.numpy
from tarn import _conversions

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

ODD = ("BF16", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
       "F6_E2M3", "F6_E3M2", "F4")
PLAIN = [d for d in tarn.dtypes if d not in ODD]
BYTES = [d for d in ODD if d[:2] in ("BF", "F8")]
# F8_E8M0 has but powers of 2.
VALUES = [1., 2., 4., .5]


def of(dtype):
    return tarn.tensor([VALUES, VALUES], dtype)


class Array(ctypes.Structure):
    """ctypes takes a buffer too."""
    _fields_ = [("a", ctypes.c_ubyte)]


def assigned(t):
    array = np.zeros((2, 4))
    array[...] = t
    return array


ROUTES = {
    ".numpy()": lambda t: t.numpy(),
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.sum": np.sum,
    "numpy.mean": np.mean,
    "numpy.ascontiguousarray": np.ascontiguousarray,
    "numpy.stack": lambda t: np.stack([t, t]),
    "numpy.concatenate": lambda t: np.concatenate([t, t]),
    "a numpy operator": lambda t: np.ones((2, 4)) + t,
    "numpy.asarray of a list": lambda t: np.asarray([t]),
    "numpy.asarray as float64": lambda t: np.asarray(t, "f8"),
    "assigning to an array": assigned,
    "numpy.from_dlpack": np.from_dlpack,
    "numpy.frombuffer": lambda t: np.frombuffer(t, "u1"),
    "memoryview": memoryview,
    "bytes": bytes,
    "__array_interface__": lambda t: t.__array_interface__,
    "ctypes": lambda t: Array.from_buffer(t),
}
ERRORS = TypeError, BufferError, AttributeError, RuntimeError, ValueError


def leak(route, dtype):
    """What came out of it that is not the values."""
    t = of(dtype)
    try:
        seen = ROUTES[route](t)
    except ERRORS as e:
        if isinstance(e, RuntimeError) and route != "numpy.from_dlpack":
            return f"{dtype}: {e!r}"
        return None
    if isinstance(seen, tarn.Tensor):
        # numpy's functions call a method of their name.
        seen = seen.to("F64").numpy()
        whole = t.to("F64").numpy()
        wanted = {"numpy.sum": whole.sum(), "numpy.mean": whole.mean()}[route]
        return None if np.allclose(seen, wanted, rtol=.02) else \
            f"{dtype}: {seen!r}"
    if not isinstance(seen, (np.ndarray, np.generic)):
        if type(seen).__module__ == "ml_dtypes":
            return None
        return f"{dtype}: {seen!r}"
    if ml_dtypes and "O" != seen.dtype.kind:
        whole = t.to("F64").numpy()
        wanted = {"numpy.sum": whole.sum(), "numpy.mean": whole.mean(),
                  "numpy.stack": np.stack([whole] * 2),
                  "numpy.concatenate": np.concatenate([whole] * 2),
                  "a numpy operator": whole + 1}.get(route, whole)
        # Sums of F8 lose digits, and F8_E8M0 has no 0 to begin with; the bits
        # are far away.
        if np.allclose(seen.astype("f8"), wanted, rtol=.2) or \
                (dtype == "F8_E8M0" and np.isnan(float(seen.max()))):
            return None
    return f"{dtype}: {seen!r}"


def routes(where):
    for route in ROUTES:
        wrong = [w for w in (leak(route, d) for d in ODD) if w]
        kit.ok(not wrong,
               f"{route}: bits of a dtype that numpy lacks are not numbers "
               f"{where}", *wrong)


class Without:
    """ml_dtypes, not installed."""

    def __enter__(self):
        self.real = builtins.__import__

        def refuse(name, *rest, **more):
            if name == "ml_dtypes":
                raise ImportError(name)
            return self.real(name, *rest, **more)

        builtins.__import__ = refuse

    def __exit__(self, *_):
        builtins.__import__ = self.real


path = os.path.join(os.environ["TMPDIR"], "odd.safetensors")
whole = {"f": of("F32"), "odd": of("BF16")}
tarn.save(path, whole)
found, ml_dtypes = ml_dtypes, None
with Without():
    routes("without ml_dtypes")
    for dtype in ODD:
        kit.raises(TypeError, f"numpy has no {dtype}; use .to(\"F32\")",
                   f"{dtype}: .numpy() names the way out", of(dtype).numpy)
        kit.raises(BufferError, ".to(\"F32\")",
                   f"{dtype}: a buffer's error names the way out",
                   memoryview, of(dtype))
        kit.raises(TypeError, ".to(\"F32\")",
                   f"{dtype}: numpy.asarray's error names the way out",
                   np.asarray, of(dtype))
    kit.raises(TypeError, "odd: numpy has no BF16",
               "a file's tensors: the error names the one that cannot be an "
               "array", tarn.open(path).numpy)
    kit.raises(TypeError, "numpy has no BF16",
               "a tensor of a file that is not mapped cannot be an array",
               tarn.open(path, map=False)["odd"].numpy)
    with tarn.safe_open(path, "np") as f:
        kit.raises(TypeError, "numpy has no BF16",
                   "safe_open: a tensor of BF16 cannot be an array",
                   f.get_tensor, "odd")
        kit.raises(TypeError, "numpy has no BF16",
                   "safe_open: a slice of BF16 cannot be an array",
                   lambda: f.get_slice("odd")[0])
        kit.equal(f.get_tensor("f").tolist(), [VALUES] * 2,
                  "safe_open: the other tensors can be arrays")
ml_dtypes = found

# ---- the ways out ----
for dtype in ODD:
    kit.equal(of(dtype).to("F32").numpy().tolist(), [VALUES] * 2,
              f"{dtype}: .to(\"F32\").numpy() has the values")
for dtype in BYTES:
    bits = "U16" if dtype == "BF16" else "U8"
    n = of(dtype).bitcast(bits).numpy()
    kit.equal(tarn.equal(tarn.from_numpy(n, dtype), of(dtype)), True,
              f"{dtype}: .bitcast(\"{bits}\").numpy() has the bits, and comes "
              "back")

# ---- what numpy has is what it was ----
bad = []
for dtype in PLAIN:
    t = tarn.tensor([[0, 1], [1, 1]], dtype)
    for name in (".numpy()", "numpy.asarray", "numpy.array"):
        n = ROUTES[name](t)
        if tarn.from_numpy(n).dtype != dtype or n.tolist() != t.tolist():
            bad.append(f"{dtype}: {name}: {n!r}")
    if not np.shares_memory(np.asarray(t), t.numpy()):
        bad.append(f"{dtype}: a copy")
kit.ok(not bad, "the dtypes that numpy has are arrays over the same bytes",
       *bad)
t = tarn.arange(6, dtype="F32").reshape(2, 3)
n = t.__array__()
n[0, 0] = 50
kit.equal((t[0, 0], t.__array__("f8").dtype.str, t.__array__(dtype="f8")
           .tolist(), np.shares_memory(t.__array__(copy=True), n)),
          (50., "<f8", t.tolist(), False),
          "__array__: the same bytes; another dtype and copy=True are copies")
kit.raises(ValueError, "copy=False",
           "__array__: copy=False where a copy is needed is refused",
           t.__array__, "f8", copy=False)
kit.equal(np.shares_memory(t.__array__(np.float32, copy=False), n), True,
          "__array__: copy=False where none is needed succeeds")
lazy = tarn.open(path, map=False)["f"]
kit.equal((np.asarray(lazy).dtype.str, np.asarray(lazy).tolist()),
          ("<f4", [VALUES] * 2),
          "a tensor in a file is read by __array__ with its dtype")
kit.raises(ValueError, "copy=False",
           "__array__ of a tensor in a file refuses copy=False",
           lazy.__array__,
           copy=False)

# ---- ml_dtypes ----
if ml_dtypes is None:
    kit.skipped(
                "ml_dtypes' dtypes are used",
                "ml_dtypes is not installed (pip)")
else:
    routes("with ml_dtypes")
    for dtype in BYTES:
        t = of(dtype)
        n = t.numpy()
        kit.equal((n.dtype.name, n.astype("f8").tolist()),
                  (_conversions.ML[dtype][0], [VALUES] * 2),
                  f"{dtype}: .numpy() has ml_dtypes' dtype")
        n[0, 0] = 2
        kit.equal((t[0, 0], tarn.from_numpy(n).dtype, tarn.equal(
            tarn.from_numpy(n), t)), (2., dtype, True),
            f"{dtype}: .numpy() shares the bytes, and comes back")
        kit.equal(np.asarray(t).dtype.name, _conversions.ML[dtype][0],
                  f"{dtype}: numpy.asarray has ml_dtypes' dtype")
    kit.equal(tarn.open(path).numpy()["odd"].astype("f4").tolist(),
              [VALUES] * 2, "all tensors of a file are arrays with ml_dtypes")
    for name in ("F4", "F6_E2M3", "F6_E3M2"):
        kit.raises(TypeError, f"numpy has no {name}",
                   f"{name}: an unpacked type of ml_dtypes is not used",
                   of(name).numpy)
    for theirs, ours in _conversions.PACKED.items():
        if hasattr(ml_dtypes, theirs):
            kit.raises(ValueError, f"tarn packs {ours}",
                       f"{theirs}: an unpacked type of ml_dtypes is refused",
                       tarn.from_numpy,
                       np.ones(4, getattr(ml_dtypes, theirs)))
    kit.equal(tarn.tensor(np.ones(3, ml_dtypes.bfloat16)).tolist(), [1.] * 3,
              "tensor() takes arrays of ml_dtypes")
kit.equal(subprocess.run(
    [sys.executable, "-c", "import tarn, sys; tarn.zeros(2).numpy(); "
     "print('ml_dtypes' in sys.modules)"],
    capture_output=True, text=True, check=False).stdout, "False\n",
    "ml_dtypes is imported only where it is needed")
os.unlink(path)
kit.finish()
