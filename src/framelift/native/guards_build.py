"""Builds the extension `framelift._guards` for the torch that is installed, and finds what was built.

The extension is C++ against torch's headers, so it fits one version of torch, and a wheel that had it would
fit no other. Its sources are in the wheel instead. Where setup.py can see torch it is built at once, into
`native/built` of the package; otherwise when it is first needed, into a folder of the user's. The name of the
file says what it was built for and from: a new torch, another Python or a changed source leads to a build.

Nothing here needs setuptools, which many environments do not have, and torch is imported only to ask what it
is. setup.py runs this file as it is, without the package around it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

NATIVE = Path(__file__).parent
SOURCE = NATIVE / "_guards.cpp"
"""The whole extension: it includes the others."""
BESIDE = NATIVE / "built"
"""Where setup.py puts what it builds."""
CACHE = "FRAMELIFT_CACHE_DIR"
"""The environment variable that names another folder than the user's cache."""

COMPILE_OPTIONS = ["-O2", "-g0", "-std=c++20", "-fvisibility=hidden", "-fPIC"]
COMPILE_OPTIONS += ["-Wall", "-Wno-unused-parameter"]
LIBRARIES = ["c10", "torch", "torch_cpu", "torch_python"]
COMPILERS = ["g++", "clang++", "c++"]


class GuardsUnavailable(ImportError):
    """`framelift._guards` is not there and can't be built; the message says why, and what to do."""


class Torch(NamedTuple):
    """What the extension depends on of torch."""

    version: str
    revision: str
    folder: Path
    cxx11_abi: bool

    @staticmethod
    def installed() -> Torch:
        try:
            import torch
        except ImportError as error:
            raise GuardsUnavailable(f"compiling needs torch, which can't be imported: {error}") from error
        revision = str(torch.version.git_version)
        return Torch(torch.__version__, revision, Path(torch.__path__[0]), torch.compiled_with_cxx11_abi())


# ---- loading


_failure: GuardsUnavailable | None = None
"""Why there are none, so that a program that asks again is not kept waiting again."""


def loaded(name: str) -> ModuleType:
    """The extension as the module of this name, built if it has to be."""
    global _failure
    if _failure is not None:
        raise _failure
    try:
        torch = Torch.installed()
        path = built(torch)
        try:
            return loaded_from(name, path)
        except ImportError:
            # Damaged, or built on a machine with other libraries that has the same home.
            path.unlink(missing_ok=True)
            return loaded_from(name, built(torch))
    except (ImportError, OSError) as error:
        _failure = error if isinstance(error, GuardsUnavailable) else GuardsUnavailable(f"no guards: {error}")
        raise _failure from error.__cause__


def loaded_from(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- what is built, and where it is found


def file_name(torch: Torch) -> str:
    """What this Python, torch and these sources give: `_guards.cpython-311.torch-2.13.0+cpu.51c0..so`."""
    contents = hashlib.sha256()
    for path in sorted([*NATIVE.glob("*.cpp"), *NATIVE.glob("*.h")]):
        contents.update(path.read_bytes())
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    others = (COMPILE_OPTIONS, torch.revision, torch.cxx11_abi, libc)
    contents.update(repr(others).encode())
    python = EXTENSION_SUFFIXES[0].removesuffix(".so").strip(".")  # version, machine and system
    return f"_guards.{python}.torch-{torch.version}.{contents.hexdigest()[:12]}.so"


def built(torch: Torch) -> Path:
    """The extension for this torch, which is built where it is not there yet."""
    name = file_name(torch)
    if (BESIDE / name).exists():
        return BESIDE / name
    folder = cache_folder()
    if not (folder / name).exists():
        with lock(folder / f"{name}.lock"):
            if not (folder / name).exists():  # whoever had the lock may have built it
                build(torch, folder / name)
    return folder / name


def cache_folder() -> Path:
    """A folder that only this user can write to: what lies in it is loaded as code."""
    asked = os.environ.get(CACHE)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(caches):  # as the specification has it
        caches = os.path.expanduser("~/.cache")
    home = Path(asked) if asked else Path(caches, "framelift")
    for folder in (home / "native", Path(tempfile.gettempdir()) / f"framelift-{os.getuid()}" / "native"):
        with contextlib.suppress(OSError, RuntimeError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            about = folder.stat()
            if about.st_uid == os.getuid() and not about.st_mode & 0o022 and os.access(folder, os.W_OK):
                return folder
    return own_folder()


@functools.cache
def own_folder() -> Path:
    """For this process only, where there is neither a home nor a folder for temporary files to rely on."""
    import atexit

    made = tempfile.mkdtemp(prefix="framelift-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """One process builds, the others wait. The lock of a process that is killed is gone with it."""
    import fcntl

    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process builds the guards: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks: what is built twice is put in place once, whole
        yield


# ---- building


def build_once(torch: Torch, folder: Path) -> None:
    """Builds into this folder what is not there yet, and removes what it replaces: for setup.py."""
    name = file_name(torch)
    if not (folder / name).exists():
        build(torch, folder / name)
    start, _, _ = name.removesuffix(".so").rpartition(".")
    for other in folder.glob("_guards.*.so"):
        if other.name.startswith(f"{start}.") and other.name != name:
            other.unlink()


def build(torch: Torch, target: Path) -> None:
    """Compiles into `target`, which is there whole or not at all."""
    compiler = needed_compiler(torch)
    say(f"building the guards for torch {torch.version} with {compiler}: half a minute, once per version")
    began = time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as folder:
        made = Path(folder, target.name)
        ran = subprocess.run(command(compiler, torch, made), capture_output=True, text=True)
        if ran.returncode:
            log = target.with_suffix(".log")
            log.write_text(f"{subprocess.list2cmdline(ran.args)}\n{ran.stdout}{ran.stderr}")
            errors = [line for line in ran.stderr.splitlines() if "error" in line]
            first = errors[0].strip() if errors else f"it exited with {ran.returncode}"
            what = f"the guards can't be built for torch {torch.version} with {compiler}"
            raise GuardsUnavailable(f"{what}: {first} (all of it is in {log})")
        os.replace(made, target)
    say(f"built in {time.monotonic() - began:.0f} s")


def command(compiler: str, torch: Torch, target: Path) -> list[str]:
    import sysconfig

    headers = torch.folder / "include"
    folders = [sysconfig.get_path("include"), headers, headers / "torch" / "csrc" / "api" / "include"]
    libraries = torch.folder / "lib"
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    return [
        *(compiler, *COMPILE_OPTIONS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}"),
        *(f"-I{folder}" for folder in folders),
        *(*shared, str(SOURCE), "-o", str(target)),
        *(f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-l{name}" for name in LIBRARIES)),
    ]


def needed_compiler(torch: Torch) -> str:
    """The compiler's path, if all else that is needed is there too."""
    import sysconfig

    named = os.environ.get("CXX")
    candidates = [named] if named else [str(sysconfig.get_config_var("CXX") or "g++").split()[0], *COMPILERS]
    compiler = next(filter(None, map(shutil.which, candidates)), None)
    needs = f"building the guards for torch {torch.version} needs"
    if compiler is None:
        tried = ", ".join(dict.fromkeys(candidates))
        raise GuardsUnavailable(
            f"{needs} a C++20 compiler, and there is none ({tried}): "
            "install one such as g++ (Debian: apt-get install g++), or name one with CXX=/path/to/it"
        )
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise GuardsUnavailable(
            f"{needs} Python's C headers, and {sys.executable} has none: "
            "install the development package of this Python (Debian: apt-get install python3-dev)"
        )
    if not (torch.folder / "include" / "ATen" / "ATen.h").exists():
        raise GuardsUnavailable(f"this torch ({torch.folder}) has no C++ headers to build the guards against")
    return compiler


def say(text: str) -> None:
    print(f"framelift: {text}", file=sys.stderr, flush=True)
