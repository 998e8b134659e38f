"""Which vector instructions can be used on this machine: found out once, and kept in the user's cache folder.

Inductor compiles and loads half a dozen small programs to find that out, in each process that compiles for a
CPU: about ten seconds where its caches are empty, and one where they are not. Whether such a program works
depends on nothing but the processor, the compiler and torch. A program that worked is not tried again
while these are the same; one that did not is tried each time, since a full disk or a time limit may have
been the cause.

This is the one place that replaces something of Inductor's: `VecISA.check_build`, which tries one program.
Its options know "all of them work" (`cpp.vec_isa_ok`), which is not what was found out. Where another torch
has no such method, it does what it does.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from framelift.core import user_cache
from framelift.core.config import config

log = logging.getLogger("framelift")

FOLDER = "vector_probes"
WORKS = b"works"
"""What is in the file of a program that worked."""

VARIABLES = (
    *("CXX", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"),
)
"""What compilers and loaders look for in the environment."""


@functools.cache
def keep_probes() -> None:
    """From now on, what was found out on this machine is not found out again."""
    from torch._inductor import cpu_vec_isa

    isa: Any = cpu_vec_isa.VecISA
    if hasattr(isa, "check_build"):
        isa.check_build = once(isa.check_build)


def once(check_build: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
    """Tries a program with the flags of some instructions, unless that is known to have worked."""

    @functools.wraps(check_build)
    def check_once(isa: Any, code: str) -> bool:
        kept = file_of(isa, code) if config.cache else None
        if kept is not None and is_known_to_work(kept):
            return True
        works = bool(check_build(isa, code))
        if works and kept is not None:
            keep(kept)
        return works

    return check_once


def file_of(isa: Any, code: str) -> Path | None:
    """Where it is kept whether a program works; None: nobody knows what that depends on."""
    from torch._inductor.cpp_builder import CppBuilder, CppTorchOptions

    try:
        options = CppTorchOptions(vec_isa=isa, warning_all=False)
        command = CppBuilder("probe", "probe.cpp", options, "").get_command_line()
        facts = machine(options.get_compiler())
    except Exception as error:  # of a compiler that is not there, or of a torch that has other names
        log.debug("it is not kept which vector instructions there are: %s", error)
        return None
    text = "\0".join([code, command, *facts])
    return user_cache.user_cache_dir() / FOLDER / hashlib.sha256(text.encode()).hexdigest()


def machine(compiler: str) -> tuple[str, ...]:
    """Everything but the program and the command that compiles it. Raises OSError if that is not known."""
    found = shutil.which(compiler)
    if found is None:
        raise FileNotFoundError(compiler)
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    variables = [f"{name}={os.environ.get(name, '')}" for name in VARIABLES]
    files = [identity(Path(found)), identity(library if library.exists() else Path(torch.__file__))]
    return (torch.__version__, processor(), *files, *variables)


def identity(path: Path) -> str:
    """Another one if the file is replaced."""
    path = path.resolve()
    found = path.stat()
    return f"{path}:{found.st_size}:{found.st_mtime_ns}"


PROCESSOR_LINES = ("vendor_id", "model name", "flags", "Features", "CPU implementer", "CPU part", "isa")
"""What Linux tells of a processor that says what it can do, on any architecture."""


@functools.cache
def processor() -> str:
    """What the processor can do."""
    with contextlib.suppress(OSError):
        with open("/proc/cpuinfo") as file:  # which is long where there are many processors, all alike
            first = itertools.takewhile(str.strip, file)
            lines = [line for line in first if line.split("\t", 1)[0].strip(" :") in PROCESSOR_LINES]
        if lines:
            return "".join([f"{platform.machine()}\n", *lines])
    if not platform.processor():
        raise OSError("it is not known what the processor is")
    return f"{platform.machine()} {platform.processor()}"


def is_known_to_work(path: Path) -> bool:
    try:
        return user_cache.read_trusted(path) == WORKS
    except FileNotFoundError:
        return False
    except OSError as error:
        log.info("which vector instructions there are is found out again: %s", error)
        return False


def keep(path: Path) -> None:
    try:
        user_cache.make_private_dir(path.parent.parent)
        user_cache.make_private_dir(path.parent)
        user_cache.write_atomically(path, WORKS)
    except OSError as error:
        log.info("it is not kept which vector instructions there are: %s", error)
