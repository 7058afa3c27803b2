#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn metrics, parsed as strictly as OpenMetrics 1.0 has it: every sample
belongs to a family that was announced just above it, with a type, a unit that
its name ends with, words; labels are quoted; # EOF ends it."""
import os
import re
import subprocess
import sys
import time

from tap import finish, ok

TARN = os.environ["TARN"]
TMP = os.environ["TMPDIR"]
os.environ["TARN_AUTOSTART"] = "1"
os.environ["TARN_SOCKET"] = os.environ["XDG_RUNTIME_DIR"] + "/own/tarnd.sock"
NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? ([0-9.]+)")


def tarn(*args):
    return subprocess.run([TARN, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)


class Wrong(Exception):
    pass


def need(condition, line):
    if not condition:
        raise Wrong(line)


def parse(text):
    """{(name, labels): value} of the samples, {family: type}."""
    need(text.endswith("# EOF\n"), "the end")
    samples, families, units, helps = {}, {}, {}, set()
    family = None
    for line in text[:-len("# EOF\n")].splitlines():
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            need(re.fullmatch(NAME, name), line)
            if what == "TYPE":
                need(name not in families, line)
                need(rest in ("gauge", "counter", "info"), line)
                families[name] = rest
                family = name
                continue
            need(name == family, line)
            need(not any(n == name for n, _ in samples), line)
            if what == "UNIT":
                need(name.endswith("_" + rest), line)
                units[name] = rest
            else:
                need(what == "HELP" and rest and "\\" not in rest, line)
                helps.add(name)
            continue
        m = SAMPLE.fullmatch(line)
        need(m and family, line)
        suffix = {"gauge": "", "counter": "_total", "info": "_info"}
        need(m[1] == family + suffix[families[family]], line)
        need((m[1], m[2]) not in samples, line)
        need(families[family] != "info" or m[3] == "1", line)
        samples[m[1], m[2]] = float(m[3])
    need(set(families) == helps, "a family without words")
    for name in families:
        need(name.endswith("_bytes") == (units.get(name) == "bytes"), name)
        need(name.startswith("tarn_"), name)
    return samples, families


nobody = tarn("metrics", "--socket", TMP + "/nobody.sock")
ok(nobody.returncode == 1 and nobody.stdout == b"",
   "metrics without a daemon fails and prints nothing")
header = b'{"x":{"dtype":"U8","shape":[100],"data_offsets":[0,100]}}'
with open(TMP + "/m.st", "wb") as f:
    f.write(len(header).to_bytes(8, "little") + header + bytes(100))
ok(tarn("load", TMP + "/m.st", "--name", "m").returncode == 0,
   "a file is loaded with a name")
# The connection of an earlier command may not be closed yet.
end = time.monotonic() + 60
while True:
    run = tarn("metrics")
    if b"\ntarn_clients 1\n" in run.stdout or time.monotonic() > end:
        break
    time.sleep(.05)
ok(run.returncode == 0, "tarn metrics succeeds", run.stderr)
try:
    seen, types = parse(run.stdout.decode())
    ok(True, "the metrics are valid OpenMetrics")
except Wrong as wrong:
    seen, types = {}, {}
    ok(False, "the metrics are valid OpenMetrics", str(wrong))
pool = f'pool="uid:{os.geteuid()}"'
for name, labels, wanted in (
        ("tarn_names", None, 1), ("tarn_loads_total", None, 1),
        ("tarn_loaded_bytes_total", None, 100), ("tarn_restarts_total", None, 0),
        ("tarn_upgrades_total", None, 0),
        ("tarn_pool_names", pool, 1), ("tarn_clients", None, 1),
        ("tarn_pool_storage_bytes", pool + ',state="named"', 100),
        ("tarn_pool_storage_bytes", pool + ',state="unnamed"', 0)):
    ok(seen.get((name, labels)) == wanted, f"{name} is {wanted}",
       seen.get((name, labels)))
ok(seen.get(("tarn_budget_bytes", None), 0) >= seen.get(
    ("tarn_allocated_bytes", None), 1) > 0,
   "the allocated bytes are within the budget")
ok(0 < seen.get(("tarn_uptime_seconds", None), 0) < 3600,
   "the uptime is in seconds")
placed = {labels: value for (name, labels), value in seen.items()
          if name == "tarn_pool_node_bytes"}
ok({pool + ',node="several"', pool + ',node="unknown"'} <= set(placed) and
   sum(placed.values()) == seen.get(("tarn_pool_allocated_bytes", pool)),
   "the bytes on all nodes are those that were allocated", placed)
ok(all(re.fullmatch(pool + ',node="([0-9]+|several|unknown)"', labels)
       for labels in placed), "each has the number of its node", placed)
ok(len(types) > 25, "there are many families", len(types))
tarn("stop")
os.unlink(TMP + "/m.st")
sys.exit(finish())
