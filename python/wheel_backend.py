# SPDX-License-Identifier: MIT
"""Makes the module what pip wants: a wheel, or a source archive (PEP 517).

The idea: the tree's own configure and make do the work, aside, with the
interpreter that runs this, and what they install as a bundle is the package:
the module, libtarn beside it, tarn and tarnd in bin/. Nothing is written into
the tree, and nothing is needed but what ./configure asks for.

What pip may be told with --config-settings NAME=VALUE, or the environment:

    build-dir=DIR, TARN_BUILD_DIR   builds there and keeps it, so that the next
                                    time is short
    bundle=yes, TARN_BUNDLE         no wheel rather than one that needs more
                                    libraries than C's of its machine (else
                                    those that have an archive are inside)
"""
import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PACKAGE = "/usr/local/lib/tarn"  # where configure is told that it will be
BIGGEST = 8 << 20  # of a source file; a checkpoint is larger
# With other libraries than these a wheel is for its own machine.
C_LIBRARY = re.compile(r"lib(c|m)\.so\.6|libmvec\.so\.1|"
                       r"ld-linux[-\w]*\.so\.\d+|libtarn(ops)?\.so")
PROGRAM = """#!python
import os
import sys
from importlib.util import find_spec

folder = find_spec("tarn").submodule_search_locations[0]
path = os.path.join(folder, "bin", "{}")
os.execv(path, [path, *sys.argv[1:]])
"""


def fail(sentence):
    sys.exit(f"tarn: {sentence}")


def version():
    text = (TOP / "configure.ac").read_text(encoding="utf-8")
    return re.search(r"^AC_INIT\(\[tarn\], \[([^]]+)\]", text, re.M)[1]


def metadata():
    return f"""Metadata-Version: 2.1
Name: tarn
Version: {version()}
Summary: Tensors in memory that many processes share
License: MIT
Requires-Python: >=3.9
Provides-Extra: ops
Requires-Dist: scipy-openblas32; extra == "ops"
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Description-Content-Type: text/markdown

""" + (TOP / "README.md").read_text(encoding="utf-8")


# ---- the build ---------------------------------------------------------

def run(command, folder, log):
    """Runs it; if it fails, shows the end of what it wrote."""
    env = {name: value for name, value in os.environ.items()
           if name not in ("DESTDIR", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    try:
        done = subprocess.run(command, cwd=folder, env=env, check=False,
                              stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT)
    except OSError as e:
        fail(f"{command[0]} cannot be run ({e.strerror}); './bootstrap build' "
             f"in {TOP} installs what a build needs")
    if done.returncode == 0:
        return
    log.flush()
    with open(log.name, encoding="utf-8", errors="replace") as f:
        # configure's own log lies in the folder that is removed now.
        said = [line for line in f if "config.log" not in line]
        sys.stderr.write("".join(said[-40:]))
    fail(f"{command[0]} failed, with the words above; './bootstrap build' in "
         f"{TOP} installs what a build needs")


def is_source(path):
    """Is it a source file: no build output, no data and nothing hidden?"""
    if path.is_dir():
        name = path.name
        return (name == ".ci" or not name.startswith(".")) and \
            not (name.startswith("build") and name != "build-aux") and \
            name not in ("__pycache__", "autom4te.cache") and \
            not (path / "config.status").exists()
    return path.is_file() and path.stat().st_size <= BIGGEST and \
        path.name != ".git" and path.name[-1] != "~" and \
        path.suffix not in (".o", ".lo", ".la", ".pyc")


def copy_sources(source, target):
    """What has changed, so that make sees what make must do."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        copy = target / path.name
        if not is_source(path):
            continue
        if path.is_dir():
            copy_sources(path, copy)
        elif not copy.exists():
            shutil.copy2(path, copy)
            copy.chmod(copy.stat().st_mode | 0o200)
        elif copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


def option(settings, name, default):
    named = "TARN_" + name.upper().replace("-", "_")
    value = (settings or {}).get(name, os.environ.get(named, default))
    return value[-1] if isinstance(value, list) else value


@contextmanager
def configured(settings):
    """The folder of a configured build, and its log."""
    for name in settings or {}:
        if name not in ("build-dir", "bundle"):
            fail(f"there is no setting {name!r}, only build-dir and bundle")
    if (TOP / "config.status").exists():
        fail(f"{TOP} is configured itself; run 'make distclean' there")
    kept = option(settings, "build-dir", None)
    folder = Path(kept or tempfile.mkdtemp(prefix="tarn-build-")).absolute()
    try:
        copy_sources(TOP, folder / "source")
        (folder / "build").mkdir(exist_ok=True)
        with open(folder / "log", "w", encoding="utf-8") as log:
            if not (folder / "source/configure").exists():
                run(["autoreconf", "-fi"], folder / "source", log)
            configure(folder / "build", option(settings, "bundle", "auto"), log)
            yield folder / "build", log
    finally:
        if not kept:
            shutil.rmtree(folder)


def configure(build, bundle, log):
    command = [
        "../source/configure", "--disable-dependency-tracking",
        f"--enable-bundle={bundle}", "--enable-python",
        f"--libdir={PACKAGE}", f"--bindir={PACKAGE}/bin",
        f"--sbindir={PACKAGE}/bin", "--with-pkgconfigdir=/unwanted",
        f"tarnpythondir={PACKAGE}", f"PYTHON={sys.executable}",
        f"CFLAGS={os.environ.get('CFLAGS', '-O2')}",
        f"LDFLAGS={os.environ.get('LDFLAGS', '')} -Wl,-s"]
    told = build / "configured"
    if told.exists() and told.read_text(encoding="utf-8") == repr(command):
        return  # and make runs it again if need be
    run(command, build, log)
    told.write_text(repr(command), encoding="utf-8")


def jobs():
    return f"-j{len(os.sched_getaffinity(0))}"


# ---- the wheel ---------------------------------------------------------

def is_stable():
    return sys.version_info >= (3, 11) and \
        not sysconfig.get_config_var("Py_GIL_DISABLED")


def python_tag():
    """The same answer as configure's: one binary for 3.11 and later, and one
    of their own for older interpreters and those without a global lock."""
    if sys.implementation.name != "cpython":
        fail(f"the module is for CPython, this is {sys.implementation.name}")
    if is_stable():
        return "cp311-abi3"
    here = "cp{}{}".format(*sys.version_info)
    free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"{here}-{here}{free}"


def platform_tag(libraries):
    """manylinux_2_N: N is the newest glibc that something is used of. Where
    more than the C library is needed it is this machine's kind alone."""
    machine = re.sub(r"[-.]", "_", sysconfig.get_platform())
    newest = 0
    for path in libraries:
        said = subprocess.run(["readelf", "-dVW", path], check=True,
                              capture_output=True, text=True).stdout
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", said):
            if not C_LIBRARY.fullmatch(needed):
                print(f"{path.name} needs {needed}: no wheel for others")
                return machine
        if "GLIBC_ABI_DT_RELR" in said:
            newest = max(newest, 36)
        newest = max([newest, *map(int, re.findall(r"GLIBC_2\.(\d+)", said))])
    return machine.replace("linux", f"manylinux_2_{newest}", 1)


class Wheel:
    """A zip file that ends with the sums of all that is in it. Its times are
    the same whenever it is made."""

    def __init__(self, path):
        epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)
        self.time = time.gmtime(epoch)[:6]
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, self.time)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        self.record.append(
            f"{name},sha256={digest.decode().rstrip('=')},{len(data)}\n")

    def close(self, name):
        self.add(name, "".join([*self.record, f"{name},,\n"]).encode())
        self.zip.close()


def add_package(wheel, folder):
    """Programs and libraries may be run, the rest may be read."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.suffix == ".la":
            continue
        wheel.add(f"tarn/{path.relative_to(folder)}", path.read_bytes(),
                  0o755 if os.access(path, os.X_OK) else 0o644)


def add_words(wheel, tag):
    info = f"tarn-{version()}.dist-info"
    for program in ("tarn", "tarnd"):
        wheel.add(f"tarn-{version()}.data/scripts/{program}",
                  PROGRAM.format(program).encode(), 0o755)
    wheel.add(f"{info}/METADATA", metadata().encode())
    wheel.add(f"{info}/WHEEL", f"""Wheel-Version: 1.0
Generator: tarn {version()}
Root-Is-Purelib: false
Tag: {tag}
""".encode())
    wheel.add(f"{info}/licenses/LICENSE", (TOP / "LICENSE").read_bytes())
    for path in sorted((TOP / "python/licenses").iterdir()):
        wheel.add(f"{info}/licenses/{path.name}", path.read_bytes())
    wheel.close(f"{info}/RECORD")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    tag = python_tag()
    with configured(config_settings) as (build, log):
        stage = build / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        run(["make", "-s", jobs()], build, log)
        run(["make", "-s", "install", f"DESTDIR={stage}"], build, log)
        package = Path(f"{stage}{PACKAGE}")
        libraries = [path for path in package.rglob("*") if path.is_file() and
                     path.open("rb").read(4) == b"\x7fELF"]
        tag += "-" + platform_tag(libraries)
        name = f"tarn-{version()}-{tag}.whl"
        wheel = Wheel(Path(wheel_directory) / name)
        add_package(wheel, package)
        add_words(wheel, tag)
    return name


# ---- the rest of what pip may ask for ----------------------------------

def build_editable(*_):
    fail("a module in C is not edited in place; build the tree and let "
         "PYTHONPATH name python/ of the build, whose sources are links")


def build_sdist(sdist_directory, config_settings=None):
    """The tarball that make dist makes, with what pip looks for at its top."""
    base = f"tarn-{version()}"
    project = (TOP / "python/pyproject.toml").read_bytes()
    with configured(config_settings) as (build, log):
        run(["make", "-s", "distdir"], build, log)
        with tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz",
                          format=tarfile.PAX_FORMAT) as tar:
            def add(name, data):
                info = tarfile.TarInfo(f"{base}/{name}")
                info.size = len(data)
                info.mtime = int(time.time())
                tar.addfile(info, io.BytesIO(data))

            tar.add(build / base, base, filter=nobodys)
            add("PKG-INFO", metadata().encode())
            add("pyproject.toml", project.replace(b'["."]', b'["python"]'))
        run(["rm", "-rf", base], build, log)
    return f"{base}.tar.gz"


def nobodys(info):
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    if len(sys.argv) != 2:
        fail("usage: wheel_backend.py FOLDER: a wheel there, whole in itself")
    print(f"{sys.argv[1]}/{build_wheel(sys.argv[1], {'bundle': 'yes'})}")
