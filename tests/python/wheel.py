#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
"""The module as pip has it: the README's lines build it from a fresh tree, and
the wheel runs where there is nothing else, no compiler, no library, no numpy,
and starts the daemon that lies in it. The tree is compiled here, once more."""
import atexit
import glob
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import py_kit as kit

if "LD_PRELOAD" in os.environ:
    kit.skip_all("a wheel is made without sanitizers")
if not importlib.util.find_spec("ensurepip"):
    kit.skip_all("virtual environments cannot be made (python3-venv)")

top = Path(os.environ["top_srcdir"])
work = Path(os.environ["TMPDIR"], "w").resolve()
tree, home, build = work / "tree", work / "home", work / "build"
home.mkdir(parents=True)
atexit.register(shutil.rmtree, work, ignore_errors=True)
sys.path.append(str(top / "python"))
import wheel_backend as backend

# Of the surroundings: a compiler with its cache, and no package index.
building = {name: value for name, value in os.environ.items()
            if not name.startswith(("TARN", "PYTHON", "MAKE"))}
building.update(HOME=str(home), TARN_BUILD_DIR=str(build), PIP_NO_INDEX="1",
                PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1",
                CCACHE_BASEDIR=str(work), CCACHE_NOHASHDIR="1",
                CCACHE_TEMPDIR=str(work / "ccache"))
# Nothing at all but what is given.
bare = {"PATH": "/nowhere", "CC": "false", "HOME": str(home),
        "LC_ALL": "C.UTF-8", "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1",
        "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"],
        "TARN_SOCKET": os.environ["XDG_RUNTIME_DIR"] + "/own/sock"}


def run(*command, env=None, cwd=work):
    done = subprocess.run(list(map(str, command)), env=env or bare, cwd=cwd,
                          check=False, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.strip()


def runs(what, *command, wanted=None, **keywords):
    """It ends well, and prints that, if anything is wanted."""
    status, out = run(*command, **keywords)
    good = status == 0 and wanted in (None, out)
    return kit.ok(good, what, f"wanted: 0 {wanted or ''}",
                  f"seen: {status} {out[-4000:]}")


def make_venv(name):
    runs(f"a virtual environment, {name}", sys.executable, "-m", "venv",
         work / name, env=building)
    return work / name / "bin"


def elves(folder):
    return [path for path in folder.rglob("*") if path.is_file()
            and path.open("rb").read(4) == b"\x7fELF"]


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_file()}


# ---- a fresh tree, and the README's lines ------------------------------

backend.copy_sources(top, tree)
if shutil.which("autoreconf"):
    for path in [*tree.glob("*.in"), tree / "configure", tree / "aclocal.m4"]:
        path.unlink(missing_ok=True)
sources = files_of(tree)
readme = (top / "README.md").read_text(encoding="utf-8")
section = readme.split("\n## In Python\n")[1]
lines = re.search(r"```sh\n(.*?)```", section, re.S)[1].splitlines()
kit.equal(len(lines), 2, "the README has two lines about pip and wheels")

venv = make_venv("built")
building["PATH"] = f"{venv}:{building['PATH']}"
if not runs(f"{lines[0]}", "bash", "-c", lines[0], env=building, cwd=tree):
    kit.finish()
    sys.exit()
runs("the module can be imported", venv / "python", "-c",
     "import tarn; print(tarn.__version__)", wanted=backend.version())

kit.equal({name for name in files_of(tree) - sources
           if "/__pycache__/" not in name}, set(),
          "the build writes nothing into the tree")

# ---- the source archive ------------------------------------------------

made = "import wheel_backend as b; print(b.build_sdist(%r))" % str(work)
archive = f"tarn-{backend.version()}.tar.gz"
runs("a source archive is made", venv / "python", "-c", made, env=building,
     cwd=tree / "python", wanted=archive)
with tarfile.open(work / archive) as tar:
    packed = {name.split("/", 1)[-1] for name in tar.getnames()}
missing = {name for name in sources | {"PKG-INFO", "pyproject.toml", "configure"}
           if not name.startswith(".git")} - packed
kit.equal(missing, set(),
          "the source archive has the whole tree, and pip's files")
runs(
     "pip makes a wheel of the source archive",
     venv / "pip", "wheel", "-q", "-w", work / "again",
     work / archive, env=building)
status, out = run(venv / "pip", "install", "-e", tree / "python", env=building)
kit.ok(status and "is not edited in place" in out,
       "a missing tool is reported by the build", status, out)

# ---- the wheel, where there is nothing ---------------------------------

status, out = run("bash", "-c", lines[1], env=building, cwd=tree)
wheels = list((home / "wheels").glob("*.whl"))
if status and "links into it; install" in out:
    kit.skipped(lines[1], re.search(r"no (\S+) links", out)[1] + " is missing")
    wheels = None
else:
    kit.ok(status == 0 and len(wheels) == 1, lines[1], status, out[-4000:])
if not wheels:
    kit.finish()
    sys.exit()

kit.equal([path.name for path in (work / "again").iterdir()
           if path.read_bytes() == wheels[0].read_bytes()],
          [wheels[0].name],
          "the wheel is the one that pip made of the archive")
with zipfile.ZipFile(wheels[0]) as file:
    inside = set(file.namelist())
ours = {str(path.relative_to(top / "python"))
        for path in (top / "python/tarn").rglob("*")
        if path.suffix in (".py", ".pyi", ".typed")}
kit.equal(ours - inside, set(), "all Python sources and stubs are in the wheel")
glibc = platform.libc_ver()[1].split(".")[-1]
named = re.fullmatch(r"tarn-[\d.]+-(cp\d+-\w+)-manylinux_2_(\d+)_(\w+)\.whl",
                     wheels[0].name)
kit.ok(named and named[1] == backend.python_tag() and
       17 <= int(named[2]) <= int(glibc) and named[3] == platform.machine(),
       "the wheel's name has its platform", wheels[0].name, f"glibc 2.{glibc}")

venv = make_venv("fresh")
runs("the wheel is installed", venv / "python", "-m", "pip", "install", "-q",
     "--no-deps", wheels[0])
package = next((work / "fresh").glob("lib/python*/site-packages/tarn"))
needed = {}
for path in elves(package):
    _, out = run("/usr/bin/ldd", path, env=os.environ)
    for name in re.findall(r"^\s*(\S+)(?: =>.*)? \(", out, re.M):
        needed[os.path.basename(name)] = path.name
kit.ok("libtarn.so" in needed and all(re.match(
    r"(libc|libm|libmvec|libtarn|libtarnops|ld-linux.*|linux-vdso)\.so", name)
    for name in needed), "the module needs no library but libc", needed)
kit.ok((package / "libtarnops.so").stat().st_size < 12 << 20,
       "operations are small without a BLAS inside")
kit.equal([path.name for path in elves(package)
           if str(work).encode() in path.read_bytes()], [],
          "the module has no path of where it was built")

(work / "load.py").write_text("""
import sys
import tarn
tarn.save("m.safetensors", {"wte": tarn.arange(48, dtype="F32").reshape(8, 6)})
m = tarn.Store().load("m.safetensors", name="model")
print(m["wte"][1, ::2].tolist(), {"numpy", "torch"} & set(sys.modules))
""")
runs("import, save and load need no other package", venv / "python",
     work / "load.py", wanted="[6.0, 8.0, 10.0] set()")
runs("a second process finds the tensor by its name", venv / "python", "-c",
     "import tarn; print(tarn.Store()['model/wte'][7, 5])",
     wanted="47.0")
status, out = run(venv / "tarn", "status", "--json")
keeper = re.search(r'"keeper_pid": *(\d+)', out)
kit.ok(keeper, "the command tarn is installed, too", status, out)
if os.getuid() == 0 and keeper:
    kit.equal(os.readlink(f"/proc/{keeper[1]}/exe"), str(package / "bin/tarnd"),
              "the daemon that is started is the wheel's")
else:
    kit.skipped("the daemon is the wheel's", "it hides from all but root")
# ---- operations, with pip's BLAS and without one ----
a = "a = tarn.arange(6, dtype='F32').reshape(2, 3)"
runs("operators need no BLAS", venv / "python", "-c",
     f"import tarn; {a}; print((a + a * 2).sum(0).tolist())",
     wanted="[9.0, 15.0, 21.0]")
status, out = run(venv / "python", "-c",
                  f"import tarn; {a}; print((a @ a.t()).tolist())",
                  env={**bare, "TARN_BLAS": "libnone.so"})
kit.ok(status and "tarn[ops]" in out, "products say what to install", out)
blas = glob.glob("/usr/lib/*/libopenblas.so.0") + \
    glob.glob("/usr/lib64/libopenblas.so.0")
if blas:
    beside = package.parent / "scipy_openblas32"
    (beside / "lib").mkdir(parents=True)
    (beside / "lib/libscipy_openblas.so").symlink_to(blas[0])
    runs("pip's OpenBLAS is found", venv / "python", "-c",
         f"import os, tarn; {a}; print((a @ a.t()).tolist(),"
         " os.path.basename(os.environ['TARN_BLAS']))",
         wanted="[[5.0, 14.0], [14.0, 50.0]] libscipy_openblas.so")
    shutil.rmtree(beside)
else:
    kit.skipped("pip's OpenBLAS is found", "there is none (libopenblas0)")

code = re.search(r"```python\n(.*?)```", section, re.S)[1]
try:
    import numpy
    env = {**bare, "PYTHONPATH": str(Path(numpy.__file__).parent.parent)}
    runs("the README's lines of Python run", venv / "python", "-c", code,
         env=env)
except ImportError:
    kit.skipped("the README's lines of Python run", "numpy is not installed")
runs("the daemon ends without error", venv / "tarn", "stop")

(package / "bin/tarnd").rename(package / "bin/away")
status, out = run(venv / "python", "-c", "import tarn; tarn.Store()")
kit.ok(status and "tarnd: No such file" in out,
       "without the wheel's tarnd none is started", status, out)
(package / "bin/away").rename(package / "bin/tarnd")
runs(
     "the wheel is uninstalled",
     venv / "python", "-m", "pip", "uninstall", "-qy",
     "tarn")
kit.equal([path for path in (package, venv / "tarn", venv / "tarnd")
           if path.exists()], [], "no file of the wheel is left")
kit.finish()
