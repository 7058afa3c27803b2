#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn.array_api is the namespace of the Python array API standard, 2024.12: its
names with their signatures, its dtypes, what it creates; py_array_cases.py has the
results of its functions. TARN_TEST_ARRAY_API names a checkout of data-apis'
array-api-tests, which then run too, without those of LEFT_OUT_TESTS.
"""
import inspect
import itertools
import math
import os
import subprocess
import sys

import py_kit as kit

try:
    import numpy as np
except ImportError:
    kit.skip_all("numpy is not installed")
import tarn

try:
    from tarn import array_api as xp
except ImportError as e:
    kit.skip_all(str(e))

# What the standard has and the namespace has not.
LEFT_OUT = {
    "complex64": "C64 has no arithmetic here",
    "complex128": "there is no such dtype",
    "linalg": "an extension; products are in the namespace itself",
    "fft": "an extension",
}
# Of the official tests, by parts of their names, beside these.
LEFT_OUT_TESTS = {
    "complex": "C64 has no arithmetic here",
    "test_linalg": "an extension that is left out",
    "test_fft": "an extension that is left out",
    "floor_divide(x1_i is": "Python, numpy and PyTorch have NaN where the "
                            "standard divides infinities",
    "floor_divide(isfinite(x1_i)": "as Python, they round 1 // -inf down to -1",
    "test_getitem": "an element is a number of Python, as of all tensors",
    "test_operators": "operators of tensors promote 0-dimensional ones as "
                      "PyTorch does",
}

# ---- the names of the standard, and their parameters ----
CONSTANTS = "e inf nan newaxis pi".split()
DTYPES = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
          "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
          "float32": "f", "float64": "d"}
UNARY = ("abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos "
         "cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p log2 "
         "logical_not negative positive real reciprocal round sign signbit sin "
         "sinh sqrt square tan tanh trunc").split()
BINARY = ("add atan2 bitwise_and bitwise_left_shift bitwise_or "
          "bitwise_right_shift bitwise_xor copysign divide equal floor_divide "
          "greater greater_equal hypot less less_equal logaddexp logical_and "
          "logical_or logical_xor maximum minimum multiply nextafter not_equal "
          "pow remainder subtract").split()
OTHERS = """
__array_namespace_info__()
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing="xy")
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side="left", sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
"""
SIGNATURES = {line.split("(")[0]: line for line in OTHERS.split("\n") if line}
SIGNATURES.update({n: f"{n}(x, /)" for n in UNARY})
SIGNATURES.update({n: f"{n}(x1, x2, /)" for n in BINARY})


def parameters(text):
    scope = {}
    exec(f"def f{text[text.index('('):]}: pass", scope)
    return [(p.name, p.kind, p.default) for p in
            inspect.signature(scope["f"]).parameters.values()]


wanted = {*CONSTANTS, *DTYPES, *SIGNATURES}
kit.equal(sorted(n for n in wanted if not hasattr(xp, n)), [],
          "the namespace has all names of the standard")
kit.equal(sorted(n for n in LEFT_OUT if hasattr(xp, n) or n in wanted), [],
          "what is left out is not there")
kit.equal(sorted({*xp.__all__} - wanted - {"float16", "bfloat16"}), [],
          "the namespace has no other names")
kit.equal([(n, line) for n, line in SIGNATURES.items() if parameters(line) != [
    (p.name, p.kind, p.default) for p in
    inspect.signature(getattr(xp, n)).parameters.values()]], [],
    "each function has the parameters of the standard")
kit.equal([n for n in SIGNATURES if not getattr(xp, n).__doc__], [],
          "each function has a docstring")
x = tarn.tensor([1., 2])
kit.ok(x.__array_namespace__() is xp and
       x.__array_namespace__(api_version="2024.12") is xp,
       "a tensor gives the namespace")
kit.raises(ValueError, "2024.12", "a version that is not there",
           x.__array_namespace__, api_version="1999.12")
kit.equal(subprocess.run(
    [sys.executable, "-c", "import tarn, sys; t = tarn.ones((2,)); "
     "hasattr(t, '__array_namespace__'); print('tarn._ops' in sys.modules)"],
    capture_output=True, text=True, check=True).stdout, "False\n",
    "asking whether there is one loads nothing")

# ---- the array itself ----
m = tarn.arange(6.).reshape(1, 2, 3)
kit.equal((m.mT.shape, m.T.shape, m.ndim, m.size, m.device, m.mT.tolist()),
          ((1, 3, 2), (3, 2, 1), 3, 6, "cpu", [[[0, 3], [1, 4], [2, 5]]]),
          "attributes of the array")
kit.raises(ValueError, "matrix", "mT of a vector", lambda: x.mT)
kit.equal((m.to_device("cpu").tolist(), [10, 20, 30][tarn.tensor(1)],
           complex(tarn.tensor(2.5)), range(5)[tarn.tensor(1, "U8"):].start),
          (m.tolist(), 20, 2.5 + 0j, 1), "methods of the array")
kit.raises(TypeError, "index", "an index of floats",
           lambda: [1, 2][tarn.tensor(1.)])
kit.raises(TypeError, "index", "an index with dimensions",
           lambda: [1, 2][tarn.tensor([1])])
kit.equal(tarn.zeros(tarn.tensor([2, 3])).shape, (2, 3),
          "a shape may be a tensor of numbers")

# ---- dtypes ----
INTEGERS = [n for n in DTYPES if "int" in n]


def standard_promotion(a, b):
    """numpy's table is the standard's where kinds are not mixed."""
    if a != b and {a, b} & {"uint64"} and "int" in (a + b).replace("uint", ""):
        return None
    return np.promote_types(a, b)


pairs = [*itertools.product(INTEGERS, repeat=2), ("float32", "float64"),
         *itertools.product(["bool"], ["bool"])]
faults = []
for a, b in pairs:
    want = standard_promotion(a, b)
    if want is None:
        continue
    for left, right in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
        l, r = xp.ones(left, dtype=a), xp.ones(right, dtype=b)
        got = {xp.result_type(l, r), xp.result_type(a, b),
               *(f(l, r).dtype for f in (xp.maximum, xp.minimum) if a != "bool")
               , xp.where(xp.ones((2,), dtype="bool"), l, r).dtype}
        if got != {tarn.Dtype(want)}:
            faults.append((a, b, left, right, want, got))
kit.equal(faults, [], "arrays meet in the dtypes of the standard, also without "
          "dimensions")
kit.equal([xp.result_type(xp.ones(2, dtype=d), n) for d, n in (
    ("int8", 3), ("float32", 3), ("float64", 2.5), ("bool", True))],
    ["I8", "F32", "F64", "BOOL"], "a number takes the array's dtype")
kit.raises(ValueError, "array or a dtype", "numbers alone meet in nothing",
           xp.result_type, 1, 2.5)
kit.raises(TypeError, "array is wanted", "numbers alone are not added",
           xp.add, 1, 2)
kit.equal([xp.isdtype(d, k) for d, k in (
    (xp.float32, "real floating"), (xp.int8, ("bool", "signed integer")),
    (xp.uint8, "signed integer"), (xp.bool, "bool"), (xp.int8, "numeric"),
    (xp.bool, "numeric"), (xp.int16, xp.int16), (xp.int16, xp.int8))],
    [True, True, False, True, True, False, True, False], "isdtype")
kit.equal([xp.can_cast(a, b) for a, b in (
    ("int8", "int16"), ("int16", "int8"), ("uint8", "int16"),
    ("float32", "float64"), (xp.ones(1, dtype="float64"), "float32"))],
    [True, False, True, True, False], "can_cast")
for d in INTEGERS:
    a, b = xp.iinfo(d), np.iinfo(d)
    kit.equal((a.bits, a.max, a.min, a.dtype), (b.bits, b.max, b.min, d),
              f"iinfo of {d}")
for d in "float16", "float32", "float64":
    a, b = xp.finfo(xp.ones(1, dtype=d)), np.finfo(d)
    kit.equal((a.bits, a.eps, a.max, a.min, a.smallest_normal, a.dtype),
              (b.bits, b.eps, b.max, b.min, b.tiny, d), f"finfo of {d}")
info = xp.__array_namespace_info__()
kit.equal((info.default_device(), info.devices(), sorted(info.dtypes()),
           sorted(info.dtypes(kind="real floating")),
           info.default_dtypes()["indexing"],
           info.capabilities()["max dimensions"]),
          ("cpu", ["cpu"], sorted(DTYPES), ["float32", "float64"], "I64", 12),
          "what the namespace tells of itself")

# ---- creating ----
for want, got in (
        (np.arange(3, 20, 4), xp.arange(3, 20, 4)),
        (np.arange(5, -5, -3, "i2"), xp.arange(5, -5, -3, dtype="int16")),
        (np.arange(2.5), xp.arange(2.5, dtype="float64")),
        (np.array([2 ** 63, 2 ** 63 + 3], "u8"),
         xp.arange(2 ** 63, 2 ** 63 + 6, 3, dtype="uint64")),
        (np.array([-2 ** 62, 0]), xp.arange(-2 ** 62, 1, 2 ** 62)),
        (np.arange(0), xp.arange(3, 1)),
        (np.linspace(1, 2, 7), xp.linspace(1, 2, 7, dtype="float64")),
        (np.linspace(1, 2, 7, endpoint=False),
         xp.linspace(1, 2, 7, dtype="float64", endpoint=False)),
        (np.linspace(5, 2, 1), xp.linspace(5, 2, 1, dtype="float64")),
        (np.linspace(5, 2, 0), xp.linspace(5, 2, 0, dtype="float64")),
        (np.eye(3, 5, -1, "f4"), xp.eye(3, 5, k=-1)),
        (np.eye(3, 2, 9, "f4"), xp.eye(3, 2, k=9)),
        (np.full((2, 1), 7), xp.full((2, 1), 7)),
        (np.full(3, True), xp.full(3, True)),
        (np.ones((2, 2), "i4"), xp.ones_like(xp.zeros((2, 2), dtype="int32"))),
        (np.full((2,), 2.5), xp.full_like(xp.ones(2, dtype="float64"), 2.5)),
        (np.array(3), xp.asarray(3)),
        (np.array([[1.5], [2]], "f4"), xp.asarray([[1.5], [2.]])),
        (np.array([True]), xp.asarray([True])),
        (np.zeros((0,), "f4"), xp.asarray([])),
        (np.array(2 ** 64 - 1, "u8"), xp.asarray(2 ** 64 - 1, dtype="uint64")),
        *zip(np.meshgrid([1, 2], [3, 4, 5], [6]), xp.meshgrid(
            *map(xp.asarray, ([1, 2], [3, 4, 5], [6])))),
        *zip(np.meshgrid([1, 2], [3, 4, 5], indexing="ij"), xp.meshgrid(
            *map(xp.asarray, ([1, 2], [3, 4, 5])), indexing="ij"))):
    n = got.numpy()
    kit.ok(n.dtype == want.dtype and n.shape == want.shape and
           np.allclose(n, want), "an array is created as numpy does", got, want)
own = np.arange(3, dtype="f4")
shared = xp.asarray(own)
own[0] = 9
kit.equal((shared.tolist(), xp.asarray(own, copy=True).tolist()),
          ([9, 1, 2],) * 2, "asarray shares an array's memory, or copies it")
kit.raises(ValueError, "copy", "asarray of numbers, copy=False", xp.asarray, [1],
           copy=False)
kit.raises(ValueError, "copy", "asarray to another dtype, copy=False",
           xp.asarray, own, dtype="int8", copy=False)

# ---- the official tests ----
def pytest(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
        env={**os.environ, "ARRAY_API_TESTS_MODULE": "tarn.array_api",
             "ARRAY_API_TESTS_VERSION": "2024.12",
             "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": os.path.abspath(kit.FOLDER)})


def official(folder):
    """Those of the parts that are here; what fails is shown."""
    names = ("creation_functions data_type_functions has_names "
             "indexing_functions manipulation_functions "
             "operators_and_elementwise_functions searching_functions "
             "set_functions signatures sorting_functions special_cases "
             "statistical_functions utility_functions").split()
    paths = [p for n in names for p in [f"array_api_tests/test_{n}.py"]
             if os.path.exists(os.path.join(folder, p))]
    listed = pytest(folder, "--collect-only", *paths).stdout.splitlines()
    tests = [n for n in listed if n.startswith("array_api_tests/")]
    without = [n for n in tests if any(part in n for part in LEFT_OUT_TESTS)]
    if not kit.ok(len(tests) > len(without), "there are official tests",
                  *listed[-20:]):
        return
    run = pytest(folder, "--max-examples", os.environ.get("TARN_CASES", "50"),
                 "--disable-deadline",
                 *(a for n in without for a in ("--deselect", n)), *paths)
    kit.ok(run.returncode == 0, f"{len(tests) - len(without)} official tests "
           "pass", *run.stdout.splitlines()[-60:])


checkout = os.environ.get("TARN_TEST_ARRAY_API")
if not checkout:
    kit.skipped("the official tests", "TARN_TEST_ARRAY_API names no checkout of "
                "array-api-tests")
else:
    official(checkout)
kit.finish()
