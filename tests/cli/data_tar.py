#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn data of tar shards against tarfile, with the grouping rules of WebDataset
written out: shards that tarfile writes in each of its formats have the same
records, and each field's bytes are where the command says. Where webdataset can be
imported, it is asked, too."""
import io
import itertools
import json
import os
import random
import re
import subprocess
import tarfile
import tempfile

from tap import finish, ok

TARN = os.environ["TARN"]
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "GNU": tarfile.GNU_FORMAT,
           "pax": tarfile.PAX_FORMAT}
rng = random.Random(11)


def tarn(*args):
    return subprocess.run([TARN, "data", *map(str, args)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)


def lines(*args):
    seen = tarn("cat", "--json", *args)
    if seen.returncode:
        return seen.stderr
    return [json.loads(line) for line in seen.stdout.splitlines()]


def records(*args):
    """Key, and the bytes of each field, read where they are said to be."""
    def bytes_of(field):
        with open(field["path"], "rb") as f:
            f.seek(field["offset"])
            return f.read(field["size"])
    seen = lines("--shuffle", "none", *args)
    if isinstance(seen, str):
        return seen
    return [(line["key"], {name: bytes_of(field) for name, field in
                           line["fields"].items()}) for line in seen]


def model(*paths):
    """The same, as WebDataset has it."""
    groups = []
    for path in paths:
        with tarfile.open(path) as tar:
            key = None
            for member in tar:
                name = member.name
                if not member.isreg() or re.match("__[^/]*__($|/)", name):
                    continue
                match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
                if not match:
                    continue
                if match.group(1) != key:
                    key = match.group(1)
                    groups.append((key, {}))
                groups[-1][1][match.group(2).lower()] = \
                    tar.extractfile(member).read()
    return groups


def random_name(kind):
    long = kind != "ustar" and rng.random() < .1
    part = "".join(rng.choice("ab_é"[:3 + (kind == "pax")])
                   for _ in range(rng.randint(1, 150 if long else 5)))
    folder = rng.choice(("", "d/", "d.x/e/", "./", "../", "__m__/", "/"))
    return folder + rng.choice(("", "", "", ".")) + part


def write_random(path, kind):
    with tarfile.open(path, "w", format=FORMATS[kind]) as tar:
        used = set()
        for _ in range(rng.randint(1, 300)):
            base = random_name(kind)
            for ending in rng.sample(("jpg", "JSON", "seg.png", "cls", "txt"),
                                     rng.randint(1, 4)):
                member = tarfile.TarInfo(f"{base}.{ending}" if
                                         rng.random() < .9 else base)
                if member.name.lower() in used:
                    continue
                used.add(member.name.lower())
                if rng.random() < .1:
                    member.type = rng.choice((tarfile.DIRTYPE, tarfile.SYMTYPE,
                                              tarfile.FIFOTYPE))
                    member.linkname = "nowhere"
                    tar.addfile(member)
                    continue
                data = rng.randbytes(rng.choice((0, 1, 511, 512, 513, 3000)))
                member.size = len(data)
                if kind == "pax" and rng.random() < .2:
                    member.pax_headers = {"comment": "x" * rng.randint(0, 900),
                                          "mtime": "1.5"}
                tar.addfile(member, io.BytesIO(data))


def randomly(folder):
    for kind, i in itertools.product(FORMATS, range(4)):
        path = f"{folder}/{kind}{i}.tar"
        write_random(path, kind)
        wanted, seen = model(path), records(path)
        ok(seen == wanted, f"a random shard in {kind} format, {len(wanted)} "
           "records, is read as tarfile reads it", len(wanted), len(seen))
    paths = [f"{folder}/{kind}1.tar" for kind in FORMATS]
    ok(records(*paths) == model(*paths), "several shards are one source")


def with_gnu_tar(folder):
    os.makedirs(folder + "/in/" + "deep/" * 30)
    for i in range(50):
        for ending in ("jpg", "txt"):
            with open(f"{folder}/in/{'deep/' * (i % 31)}{i:03d}.{ending}",
                      "wb") as f:
                f.write(rng.randbytes(rng.randint(0, 2000)))
    for kind in ("gnu", "pax", "ustar", "v7", "oldgnu"):
        path = f"{folder}/{kind}-tar.tar"
        made = subprocess.run(["tar", f"--format={kind}", "--sort=name", "-C",
                               folder + "/in", "-cf", path, "."],
                              check=False, stderr=subprocess.DEVNULL)
        if made.returncode:
            ok(True, f"tar's {kind} # SKIP this tar does not write it")
            continue
        ok(records(path) == model(path), f"what tar writes as {kind}")


def side_cars(folder):
    path = folder + "/side.tar"
    write_random(path, "pax")
    records("--no-side-car", path)
    ok(not os.path.exists(path + ".tarn-index"), "no index is kept if told so")
    first = records(path)
    ok(os.path.exists(path + ".tarn-index"), "an index is kept beside a shard")
    ok(records(path) == first == model(path), "and is used")
    write_random(path, "ustar")
    ok(records(path) == model(path), "that of a shard that was there is not")
    ok(tarfile.is_tarfile(path), "the shard is as it was")


def shown(folder):
    path = folder + "/shown.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(10):
            for ending, data in (("jpg", b"x" * 1000), ("cls", b"%d" % i)):
                if i < 8 or ending == "jpg":
                    member = tarfile.TarInfo(f"{i:03d}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    seen = json.loads(tarn("info", "--json", path).stdout)
    wanted = [{"name": "jpg", "records": 10, "bytes": 10000, "least": 1000,
               "most": 1000}, {"name": "cls", "records": 8, "bytes": 8,
                               "least": 1, "most": 1}]
    ok((seen["format"], seen["records"], seen["fields"]) ==
       ("tar", 10, wanted), "data info counts fields", wanted, seen)
    ok("10 records" in tarn("info", path).stdout, "and shows them", "",
       tarn("info", path).stdout)
    ok("3: 003: jpg 1000 B, cls 1 B\n" in
       tarn("cat", "--shuffle", "none", path).stdout, "data cat shows records")
    shuffled = lines("--seed", 4, path)
    ok(sorted(line["key"] for line in shuffled) ==
       [f"{i:03d}" for i in range(10)] and
       [line["record"] for line in shuffled] != list(range(10)),
       "records are shuffled")
    mixed = lines("--count", 40, path + "@3", folder + "/GNU1.tar@1")
    ok([line["source"] for line in mixed].count(0) == 30,
       "shards are mixed by weights", 30, mixed)
    figures = json.loads(tarn("bench", "--seconds", .1, "--json",
                              path).stdout)
    ok(figures["samples"] > 0 and figures["bytes"] > 0,
       "data bench reads records", "", figures)
    seen = tarn("cat", "--seq-len", 5, path)
    ok(seen.returncode == 2 and "--seq-len is for tokens" in seen.stderr,
       "records have no length", "", seen.stderr)
    with open(path, "r+b") as f:
        f.truncate(700)
    seen = tarn("info", path)
    ok(seen.returncode == 1 and "shown.tar: " in seen.stderr and
       "cut off" in seen.stderr, "a shard that is cut off", "", seen.stderr)


def theirs(folder):
    try:
        import webdataset
    except ImportError:
        ok(True, "WebDataset's own reader # SKIP webdataset is not installed")
        return
    for kind in FORMATS:
        path = f"{folder}/{kind}2.tar"
        wanted = [(s["__key__"], {k: v for k, v in s.items()
                                  if k not in ("__key__", "__url__",
                                               "__local_path__")})
                  for s in webdataset.WebDataset(path, shardshuffle=False)]
        ok(records(path) == wanted, f"WebDataset reads {kind} the same",
           len(wanted), len(records(path)))


with tempfile.TemporaryDirectory() as where:
    randomly(where)
    with_gnu_tar(where)
    side_cars(where)
    shown(where)
    theirs(where)
finish()
