# SPDX-License-Identifier: MIT
"""What the tests of the Python module share: a small vocabulary of TAP, the
module of this build, and its absence told by name."""
import glob
import os
import re
import sys

FOLDER = os.environ.get("top_builddir", ".") + "/python"
count = 0


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def load_sanitizers(library):
    """A module with AddressSanitizer in it wants that loaded first, which only
    the environment can see to."""
    with open(library, "rb") as f:
        found = re.search(rb"lib([at])san\.so\.\d+", f.read())
    if not found or "LD_PRELOAD" in os.environ:
        return
    if found[1] == b"t":
        skip_all("python is not built with ThreadSanitizer")
    # It looks once for what throws C++ exceptions, which PyTorch brings later.
    os.environ["LD_PRELOAD"] = found[0].decode() + " libstdc++.so.6"
    os.environ["PYTHONMALLOC"] = "malloc"
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # the interpreter has some
    os.execv(sys.executable, [sys.executable, *sys.argv])


def skipped(what, why):
    global count
    count += 1
    print(f"ok {count} - {what} # SKIP {why}")


def ok(good, what, *seen):
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {what}", flush=True)
    if not good:
        for line in "\n".join(map(str, seen)).splitlines():
            print(f"# {line}", flush=True)
    return good


def equal(seen, wanted, what):
    return ok(seen == wanted, what, f"wanted: {wanted!r}", f"seen: {seen!r}")


def raises(error, part, what, call, *args, **keywords):
    """The call raises that class, with these words in its message."""
    try:
        seen = call(*args, **keywords)
    except BaseException as e:
        return ok(isinstance(e, error) and part in str(e), what,
                  f"wanted: {error.__name__}: ...{part}...",
                  f"seen: {type(e).__name__}: {e}")
    return ok(False, what, f"wanted: {error.__name__}", f"seen: {seen!r}")


def finish():
    print(f"1..{count}")


libraries = glob.glob(FOLDER + "/tarn/_tarn.*.so")
if not libraries:
    skip_all("the module tarn is not built (python3-dev)")
load_sanitizers(libraries[0])
sys.path.insert(0, FOLDER)
os.environ["PYTHONPATH"] = FOLDER
