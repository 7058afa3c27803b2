#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random chains of view expressions agree with numpy.

Each chain is done twice: as text by "tarn view --batch" (all of them in one
process), and step by step on a numpy array. What is compared: shape, strides
of dimensions that have a step to make, offset, contiguity, whether a copy was
needed, and the bytes that the layout picks from the storage. Where numpy has
no such operation, it is composed of those that it has. Chains that must fail
end in an error on both sides. Then the chains are applied to real tensors, in
memory and in a file, copies and all, and give the bytes that numpy's array has.

The seed is fixed; TARN_SEED=n tries another, TARN_CHAINS=n more of them.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from numpy.lib.stride_tricks import as_strided, sliding_window_view
except ImportError:
    print("1..0 # SKIP numpy is not installed (python3-numpy)")
    sys.exit(0)

TARN = os.environ.get("TARN") or "./cli/tarn"
TOOL = os.environ.get("APPLY_TOOL", "./tests/lib/apply_tool")
SEED = int(os.environ.get("TARN_SEED", "20250101"))
CHAINS = int(os.environ.get("TARN_CHAINS", "8000"))

DTYPES = {"U8": "u1", "BOOL": "?", "I16": "<i2", "BF16": "<u2", "F32": "<f4",
          "I64": "<i8", "F64": "<f8", "C64": "<c8"}
BITCAST = {"U8": "u1", "I16": "<i2", "BF16": "<u2", "I32": "<i4",
           "I64": "<i8", "U64": "<u8"}


class Refused(Exception):
    """The operation must be an error."""


class Chain:
    """The array, the storage that it walks through, the text so far."""

    def __init__(self, rnd):
        self.rnd = rnd
        self.name = rnd.choice(list(DTYPES))
        dtype = np.dtype(DTYPES[self.name])
        shape = [rnd.choice((0, 1, 1, 2, 3, 4, 5, 6, 8)) if rnd.random() < .3
                 else rnd.randint(1, 6) for _ in range(rnd.randint(0, 5))]
        self.text = ""
        self.copied = False
        self.ops = set()
        self.tainted = False
        if rnd.random() < .7:
            size = int(np.prod(shape, dtype=int))
            strides, offset = None, 0
            self.spec = f"{self.name}{shape}"
        else:
            strides = [rnd.choice((-7, -2, -1, 0, 1, 2, 3, 6, 12, 30))
                       for _ in shape]
            low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides) if n)
            high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides) if n)
            offset = -low + rnd.randint(0, 5)
            size = offset + high + 1
            self.spec = (f"{self.name}{shape}:"
                         f"({', '.join(map(str, strides))})+{offset}")
        raw = np.arange(size * dtype.itemsize, dtype=np.uint32)
        raw = (raw * 2654435761 >> 24).astype(np.uint8)
        if self.name == "BOOL":
            raw &= 1
        self.storage = self.given = raw
        flat = raw.view(dtype)
        if strides is None:
            self.a = flat.reshape(shape)
        else:
            self.a = as_strided(flat[offset:], shape,
                                [s * dtype.itemsize for s in strides])

    def own(self, a):
        """The array was copied: from here on its bytes are the storage."""
        self.a = np.array(a, order="C", copy=True)
        self.storage = self.a.reshape(-1).view(np.uint8)
        self.copied = True

    def regroup(self, shape, strict):
        """A reshape; numpy sets a shape in place only if that is a view."""
        view = self.a.view()
        try:
            view.shape = shape
        except AttributeError:
            if strict:
                raise Refused from None
            self.own(self.a.reshape(shape))
            return
        self.a = view

    # ---- the operations: each changes the array and returns its text ----

    def dim(self, extra=0):
        n = self.a.ndim + extra
        d = self.rnd.randrange(n)
        return d, (d if self.rnd.random() < .6 else d - n)

    def factors(self, n, most):
        """Sizes whose product is n."""
        out = []
        while len(out) < most - 1 and self.rnd.random() < .75:
            f = self.rnd.choice([f for f in range(1, max(n, 1) + 1)
                                 if n % f == 0])
            out.append(f)
            n //= f
        out.append(n)
        self.rnd.shuffle(out)
        return out

    def bound(self, n):
        return self.rnd.choice(("", self.rnd.randint(-n - 3, n + 3),
                                self.rnd.randint(-n - 3, n + 3)))

    def do_index(self):
        rnd, items, used, dots = self.rnd, [], 0, False
        key = []
        while rnd.random() < .7 and len(items) < 8:
            kind = rnd.random()
            if kind < .12 and not dots:
                items.append("...")
                key.append(Ellipsis)
                dots = True
            elif kind < .25 and self.a.ndim + key.count(None) < 9:
                items.append("None")
                key.append(None)
            elif used < self.a.ndim + (rnd.random() < .01):
                n = max(self.a.shape) if self.a.ndim else 1
                used += 1
                if kind < .45:
                    m = max(1, min(self.a.shape[:used] or (1,)))
                    i = rnd.randint(-m, m - 1)
                    if rnd.random() < .02:
                        i = rnd.choice((n, -n - 1))
                    items.append(str(i))
                    key.append(i)
                else:
                    start, stop = self.bound(n), self.bound(n)
                    step = rnd.choice(("", 1, 1, 2, 3, -1, -2, -5, 100))
                    items.append(f"{start}:{stop}" +
                                 (f":{step}" if step != "" else ""))
                    key.append(slice(*(None if x == "" else x
                                       for x in (start, stop, step))))
        if not items:
            items, key, dots = ["..."], [Ellipsis], True
        text = "[" + rnd.choice((",", ", ", " , ")).join(items) + "]"
        if not dots:
            key.append(Ellipsis)  # else integers alone give a copied scalar
        try:
            self.a = self.a[tuple(key)]
        except IndexError:
            raise Refused(text) from None
        return text

    def do_permute(self):
        order = list(range(self.a.ndim))
        self.rnd.shuffle(order)
        self.a = self.a.transpose(order)
        return f".permute({','.join(map(str, order))})"

    def do_transpose(self):
        (a, x), (b, y) = self.dim(), self.dim()
        self.a = self.a.swapaxes(a, b)
        return f".transpose({x},{y})"

    def do_reshape(self, strict=False):
        shape = self.factors(self.a.size, 5)
        if self.a.ndim and self.rnd.random() < .5:
            # Cut or join where the dimensions are, which is often a view.
            shape = list(self.a.shape)
            d = self.rnd.randrange(len(shape))
            if self.rnd.random() < .5:
                shape[d:d + 1] = self.factors(shape[d], 3)
            elif d:
                shape[d - 1:d + 1] = [shape[d - 1] * shape[d]]
        if self.a.size == 1 and self.rnd.random() < .2:
            shape = []
        said = list(shape)
        if shape and self.rnd.random() < .4:
            d = self.rnd.randrange(len(shape))
            if int(np.prod(shape[:d] + shape[d + 1:], dtype=int)):
                said[d] = -1
        text = f".{'view' if strict else 'reshape'}({','.join(map(str, said))})"
        try:
            self.regroup(shape, strict)
        except Refused:
            raise Refused(text) from None
        return text

    def do_view(self):
        return self.do_reshape(strict=True)

    def group(self):
        (a, x), (b, y) = self.dim(), self.dim()
        if a > b:
            (a, x), (b, y) = (b, y), (a, x)
        shape = list(self.a.shape)
        shape[a:b + 1] = [int(np.prod(shape[a:b + 1], dtype=int))]
        return x, y, shape

    def do_flatten(self):
        if self.a.ndim == 0 or self.rnd.random() < .4:
            self.regroup([self.a.size], False)
            return ".flatten()"
        x, y, shape = self.group()
        if len(shape) != self.a.ndim:
            self.regroup(shape, False)
        return f".flatten({x},{y})"

    def do_merge(self):
        x, y, shape = self.group()
        text = f".merge({x},{y})"
        try:
            if len(shape) != self.a.ndim:
                self.regroup(shape, True)
        except Refused:
            raise Refused(text) from None
        return text

    def do_split(self):
        d, x = self.dim()
        sizes = self.factors(self.a.shape[d], 3)
        said = list(sizes)
        if self.a.shape[d] and self.rnd.random() < .6:
            said[self.rnd.randrange(len(said))] = self.rnd.choice((0, -1))
        shape = list(self.a.shape)
        shape[d:d + 1] = sizes
        self.regroup(shape, True)
        return f".split({x},{','.join(map(str, said))})"

    def do_unsqueeze(self):
        d, x = self.dim(1)
        self.a = np.expand_dims(self.a, d)
        return f".unsqueeze({x})"

    def do_squeeze(self):
        if self.a.ndim == 0 or self.rnd.random() < .3:
            self.a = self.a.squeeze()
            return ".squeeze()"
        d, x = self.dim()
        if self.a.shape[d] == 1:
            self.a = self.a.squeeze(d)
        return f".squeeze({x})"

    def do_expand(self):
        shape = [self.rnd.randint(0, 3) if n == 1 else n for n in self.a.shape]
        said = [-1 if m == n and self.rnd.random() < .5 else m
                for n, m in zip(self.a.shape, shape)]
        while len(shape) < 6 and self.rnd.random() < .3:
            shape.insert(0, self.rnd.randint(1, 3))
            said.insert(0, shape[0])
        self.a = np.broadcast_to(self.a, shape)
        return f".expand({','.join(map(str, said))})"

    def do_flip(self):
        d, x = self.dim()
        self.a = np.flip(self.a, d)
        return f".flip({x})"

    def do_narrow(self):
        d, x = self.dim()
        n = self.a.shape[d]
        start = self.rnd.randint(0, n)
        length = self.rnd.randint(0, n - start)
        if length == 0 and self.rnd.random() < .8 and start < n:
            length = 1
        key = (slice(None),) * d + (slice(start, start + length),)
        self.a = self.a[key]
        return f".narrow({x},{start},{length})"

    def do_select(self):
        d, x = self.dim()
        n = self.a.shape[d]
        i = self.rnd.randint(-n - (self.rnd.random() < .05), max(n - 1, 0))
        text = f".select({x},{i})"
        try:
            self.a = self.a[(slice(None),) * d + (i, Ellipsis)]
        except IndexError:
            raise Refused(text) from None
        return text

    def do_skip(self):
        d, x = self.dim()
        step = self.rnd.randint(1, 4)
        self.a = self.a[(slice(None),) * d + (slice(None, None, step),)]
        return f".skip({x},{step})"

    def do_diagonal(self):
        if self.a.ndim < 2:
            raise Refused(".diagonal()")
        (a, x), (b, y) = self.dim(), self.dim()
        k = self.rnd.randint(-3, 3)
        text = f".diagonal({k},{x},{y})"
        if a == b:
            raise Refused(text)
        self.a = np.diagonal(self.a, k, a, b)
        return text

    def do_unfold(self):
        d, x = self.dim()
        size = self.rnd.randint(1, self.a.shape[d] + (self.rnd.random() < .02)
                                or 1)
        step = self.rnd.randint(1, 3)
        text = f".unfold({x},{size},{step})"
        if size > self.a.shape[d]:
            raise Refused(text)
        wide = sliding_window_view(self.a, size, d)
        self.a = wide[(slice(None),) * d + (slice(None, None, step),)]
        return text

    def do_rearrange(self):
        names = iter("abcdefghijklmnop")
        left, axes, sizes, given = [], [], {}, []
        for n in self.a.shape:
            parts = self.factors(n, 2 if len(axes) < 6 else 1)
            group = [next(names) for _ in parts]
            sizes.update(zip(group, parts))
            axes += group
            if len(group) == 1 and self.rnd.random() < .8:
                left.append(group[0])
                continue
            left.append(f"({' '.join(group)})")
            keep = self.rnd.randrange(len(group)) if n else -1
            given += [g for i, g in enumerate(group) if i != keep]
        order = list(axes)
        if self.rnd.random() < .7:
            self.rnd.shuffle(order)
        right, shape, i = [], [], 0
        while i < len(order):
            if self.rnd.random() < .15 and len(shape) + len(order) - i < 11:
                right.append("1")
                shape.append(1)
            k = self.rnd.choice((1, 1, 2, 3))
            group = order[i:i + k]
            i += k
            right.append(group[0] if len(group) == 1
                         else f"({' '.join(group)})")
            shape.append(int(np.prod([sizes[g] for g in group], dtype=int)))
        quote = self.rnd.choice("\"'")
        text = f".rearrange({quote}{' '.join(left)} -> {' '.join(right)}{quote}"
        text += "".join(f", {g}={sizes[g]}" for g in given) + ")"
        self.regroup([sizes[g] for g in axes], True)
        self.a = self.a.transpose([axes.index(g) for g in order])
        self.regroup(shape, False)
        return text

    def do_bitcast(self):
        name = self.rnd.choice(list(BITCAST))
        text = f".bitcast({name})"
        old, new = self.a.dtype.itemsize, np.dtype(BITCAST[name]).itemsize
        if new > old and (self.address() % new or any(
                s % new for s, n in zip(self.a.strides[:-1], self.a.shape)
                if n > 1)):
            raise Refused(text)  # numpy counts in bytes and need not mind
        try:
            self.a = self.a.view(BITCAST[name])
        except (ValueError, TypeError):
            raise Refused(text) from None
        self.name = name
        return text

    def do_contiguous(self):
        if not self.a.flags.c_contiguous:
            self.own(self.a)
        return ".contiguous()"

    def address(self):
        """The byte of the storage where the array begins."""
        return (self.a.__array_interface__["data"][0] -
                self.storage.__array_interface__["data"][0])

    def possible(self):
        ops = [n for n in dir(self) if n.startswith("do_")]
        if self.a.ndim == 0:
            ops = ["do_index", "do_reshape", "do_view", "do_flatten",
                   "do_unsqueeze", "do_squeeze", "do_expand", "do_permute",
                   "do_contiguous", "do_bitcast", "do_rearrange"]
        if self.a.ndim > 7 or self.a.size > 3000:
            ops = ["do_index", "do_flatten", "do_squeeze", "do_narrow",
                   "do_select"]
        if self.a.size == 0:
            # Strides and offsets of what has no elements are a matter of
            # taste; these two ask for them.
            ops = [o for o in ops if o not in ("do_bitcast", "do_merge")]
        return ops

    def run(self):
        """True if the chain works, False if it must be refused."""
        for _ in range(self.rnd.choice((1, 2, 3, 4, 6))):
            op = self.rnd.choice(self.possible() + ["do_index"] * 3)
            self.ops.add(op)
            try:
                self.text += getattr(self, op)()
            except Refused as e:
                self.text += str(e)
                return False
        return True

    def compare(self, got):
        """None, or what differs."""
        a = self.a
        size = a.dtype.itemsize
        if "error" in got:
            return "refused: " + got["error"]
        wanted = {"dtype": self.name, "shape": list(a.shape), "numel": a.size,
                  "copy": self.copied, "contiguous": a.flags.c_contiguous}
        if a.size:
            wanted["offset"] = self.address() // size
            wanted["strides"] = [t if n == 1 else s // size for n, s, t in
                                 zip(a.shape, a.strides, got["strides"])]
        for key, value in wanted.items():
            if got[key] != value:
                return f"{key}: wanted {value}, seen {got[key]}"
        if a.size:
            picked = np.ndarray(
                got["shape"], a.dtype, self.storage, got["offset"] * size,
                [0 if n == 1 else s * size
                 for n, s in zip(got["shape"], got["strides"])])
            if picked.tobytes() != a.tobytes():
                return "the bytes differ"
        return None


def apply_all(chains):
    """What the tool makes of them: a line each."""
    lines, at = [], 0
    with tempfile.NamedTemporaryFile() as f:
        for c in chains:
            lines.append(f"{at} {c.spec}\t{c.text}\n")
            f.write(c.given.tobytes() + b"?")  # so bases are at any alignment
            at += c.given.size + 1
        f.flush()
        done = subprocess.run([TOOL, f.name], input="".join(lines), text=True,
                              stdout=subprocess.PIPE, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main():
    rnd = random.Random(SEED)
    chains = [Chain(rnd) for _ in range(CHAINS)]
    works = [c.run() for c in chains]
    asked = "".join(f"{c.spec}\t{c.text}\n" for c in chains)
    done = subprocess.run([TARN, "view", "--batch"], input=asked, text=True,
                          stdout=subprocess.PIPE, check=False)
    lines = done.stdout.splitlines()
    wrong, not_refused = [], []
    for c, work, line in zip(chains, works, lines):
        got = json.loads(line)
        if not work:
            if "error" not in got:
                not_refused.append((c, line))
            continue
        why = c.compare(got)
        if why:
            wrong.append((c, why))

    tests = []

    def ok(passed, what):
        tests.append(passed)
        print(f"{'ok' if passed else 'not ok'} {len(tests)} - {what}")

    ok(done.returncode == 0, "tarn view --batch ends without error")
    ok(len(lines) == CHAINS, f"{CHAINS} questions have as many answers")
    ok(not wrong, f"{sum(works)} chains agree with numpy (seed {SEED})")
    for c, why in wrong[:10]:
        print(f"# {c.spec}\t{c.text}\n#   {why}")
    ok(not not_refused, f"{CHAINS - sum(works)} chains are refused by both")
    for c, line in not_refused[:10]:
        print(f"# {c.spec}\t{c.text}\n#   {line}")
    made = apply_all(chains)
    wanted = [f"{int(c.copied)} {c.a.tobytes().hex()}" if work else "error"
              for c, work in zip(chains, works)]
    wrong = [i for i, (w, s) in enumerate(zip(wanted, made)) if w != s]
    ok(len(made) == CHAINS and not wrong,
       "chains applied to tensors give numpy's bytes")
    for i in wrong[:10]:
        print(f"# {chains[i].spec}\t{chains[i].text}\n#   wanted "
              f"{wanted[i][:60]}\n#   seen   {made[i][:60]}")
    used = set().union(*(c.ops for c, w in zip(chains, works) if w))
    missing = {n for n in dir(Chain) if n.startswith("do_")} - used
    ok(not missing, f"every one of {len(used)} operations took part")
    copies = sum(c.copied for c in chains)
    ok(CHAINS < 500 or CHAINS // 20 < copies < CHAINS // 2,
       f"{copies} of the chains needed a copy")
    print(f"1..{len(tests)}")
    return 0 if all(tests) else 1


sys.exit(main())
