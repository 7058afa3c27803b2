# SPDX-License-Identifier: MIT
"""What numpy and PyTorch take for the cases of bench/transpose.c, one thread.

    NAME: numpy MS
    NAME: torch MS

Of each, the fastest of several expressions counts, by the median of rounds.
"""

import importlib
import sys
import time

ROUNDS = 5


def load(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: no reference", file=sys.stderr)
        return None


np = load("numpy")
torch = load("torch")
if np is None:
    sys.exit(0)
if torch:
    torch.set_num_threads(1)

SCALE = np.array([1 / 58.395, 1 / 57.12, 1 / 57.375], np.float32)
BIAS = np.array([-2.117904, -2.035714, -1.804444], np.float32)


def measure(name, who, expressions):
    best = None
    for expression in expressions:
        times = []
        for _ in range(ROUNDS):
            begin = time.thread_time()
            expression()
            times.append((time.thread_time() - begin) * 1e3)
        median = sorted(times)[ROUNDS // 2]
        best = median if best is None else min(best, median)
    print(f"{name}: {who} {best:.3f}", flush=True)


def permuted(name, dtype, shape, order):
    """A copy into memory that is warm, and one that the library makes."""
    src = np.ones(shape, dtype)
    view = src.transpose(order)
    dst = np.ones(view.shape, dtype)
    measure(name, "numpy", [lambda: np.copyto(dst, view)])
    if torch:
        t_dst, t_view = torch.from_numpy(dst), torch.from_numpy(src)
        t_view = t_view.permute(order)
        measure(name, "torch", [lambda: t_dst.copy_(t_view)])


def normalised(name, dtype):
    src = np.ones((64, 512, 512, 3), np.uint8)
    view = src.transpose(0, 3, 1, 2)
    dst = np.ones(view.shape, dtype)
    work = np.ones(view.shape, np.float32)
    scale, bias = SCALE.reshape(3, 1, 1), BIAS.reshape(3, 1, 1)
    table = np.arange(256, dtype=np.float32)[:, None] * SCALE + BIAS
    table = table.astype(dtype)

    def whole():
        np.multiply(view, scale, out=work)
        np.add(work, bias, out=dst, casting="same_kind")

    def by_image():
        for d, w, s in zip(dst, work, view):
            np.multiply(s, scale, out=w)
            np.add(w, bias, out=d, casting="same_kind")

    def by_plane():
        for d, w, s in zip(dst, work, view):
            for c in range(3):
                np.multiply(s[c], SCALE[c], out=w[c])
                np.add(w[c], BIAS[c], out=d[c], casting="same_kind")

    def copied_first():
        for d, w, s in zip(dst, work, view):
            np.copyto(w, s)
            w *= scale
            np.add(w, bias, out=d, casting="same_kind")

    def looked_up():
        for d, s in zip(dst, view):
            for c in range(3):
                np.take(table[:, c], s[c], out=d[c], mode="clip")

    expressions = [whole, by_image, by_plane, copied_first, looked_up]
    measure(name, "numpy", expressions)
    if torch:
        t_dst, t_view = torch.from_numpy(dst), torch.from_numpy(src)
        t_view = t_view.permute(0, 3, 1, 2)
        t_scale, t_bias = torch.from_numpy(scale), torch.from_numpy(bias)

        def t_whole():
            t_dst.copy_(t_view.mul(t_scale).add_(t_bias))

        def t_by_image():
            for d, s in zip(t_dst, t_view):
                d.copy_(s)
                d.mul_(t_scale).add_(t_bias)

        measure(name, "torch", [t_whole, t_by_image])


CASES = {
    "matrix-f32": lambda n: permuted(n, "float32", (4096, 4096), (1, 0)),
    "planes-u8": lambda n: permuted(n, "uint8", (64, 512, 512, 3), (0, 3, 1, 2)),
    "pixels-u8": lambda n: permuted(n, "uint8", (64, 3, 512, 512), (0, 2, 3, 1)),
    "matrix-u8": lambda n: permuted(n, "uint8", (8192, 8192), (1, 0)),
    "matrix-f16": lambda n: permuted(n, "float16", (4096, 8192), (1, 0)),
    "matrix-f64": lambda n: permuted(n, "float64", (4096, 2048), (1, 0)),
    "normalise-f32": lambda n: normalised(n, np.float32),
    "normalise-f16": lambda n: normalised(n, np.float16),
}
for case in sys.argv[1:] or CASES:
    if case in CASES:
        CASES[case](case)
