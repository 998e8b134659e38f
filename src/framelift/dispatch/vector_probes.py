"""Which vector instructions can be used on this machine: found out once, and kept in the user's cache folder.

Inductor compiles and loads half a dozen small programs to find that out, in each process that compiles for a
CPU: about ten seconds where its caches are empty, and one where they are not. Whether such a program works
depends on nothing but the processor, the compiler and torch. A program that worked is not tried again
while these are the same; one that did not is tried each time, since a full disk or a time limit may have
been the cause.

This is the one place that replaces something of Inductor's: `VecISA.check_build`, which tries one program,
and `valid_vec_isa_list`, which tries them all, though the first that work are used unless someone has said
how wide vectors should be. Its options know "all of them work" (`cpp.vec_isa_ok`), which is not what was
found out. Where another torch has no such function, it does what it does.

What has to be tried is tried by a thread while the graph is on its way through AOTAutograd and Inductor, and
another makes the header that all kernels include: they only wait for compilers. Inductor then waits for them,
and tries itself what failed there.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import hashlib
import itertools
import logging
import os
import platform
import shutil
import threading
import types
from collections.abc import Callable
from concurrent.futures import Future
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


trying: dict[Path, Future[bool]] = {}
"""Programs that a thread is at, by where it is kept that they work; so nobody else tries them meanwhile."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=trying.clear)  # whose threads are the parent's


@functools.cache
def keep_probes() -> None:
    """From now on, what was found out on this machine is not found out again."""
    from torch._inductor import cpu_vec_isa

    module: Any = cpu_vec_isa
    if hasattr(module.VecISA, "check_build"):
        module.VecISA.check_build = once(module.VecISA.check_build)
    if hasattr(module, "valid_vec_isa_list"):
        module.valid_vec_isa_list = as_far_as_asked(module.valid_vec_isa_list)


def as_far_as_asked(every: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
    """The instructions that work, or only the first of them where Inductor looks at no others."""
    first = functools.cache(lambda: next(filter(None, usable_instructions()), None))

    @functools.wraps(every)
    def valid_vec_isa_list() -> list[Any]:
        from torch._inductor import config as options

        is_asked = options.cpp.simdlen is not None or os.environ.get("ATEN_CPU_CAPABILITY")
        best = None if is_asked or options.cpp.vec_isa_ok is not None else first()
        return every() if best is None else [best]

    return valid_vec_isa_list


def usable_instructions() -> list[Any]:
    """Those that the processor has, in Inductor's order. None if that is not known here."""
    from torch._inductor import cpu_vec_isa

    try:
        flags = cpu_vec_isa.x86_isa_checker()
        known = cpu_vec_isa.supported_vec_isa_list
    except Exception as error:  # of a torch that has other names
        log.debug("all vector instructions are tried: %s", error)
        return []
    return [isa for isa in known if all(flag in flags for flag in str(isa).split())]


def once(check_build: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
    """Tries a program with the flags of some instructions, unless that is known to have worked."""

    @functools.wraps(check_build)
    def check_once(isa: Any, code: str) -> bool:
        kept = file_of(isa, code) if config.cache else None
        if kept is None:
            return bool(check_build(isa, code))
        own = Future[bool]()
        others = trying.setdefault(kept, own)
        if others is not own and others.result():
            return True
        try:
            works = is_known_to_work(kept)
            if not works and (works := bool(check_build(isa, code))):
                keep(kept)
            own.set_result(works)
        finally:
            if others is own:
                trying.pop(kept, None)
            if not own.done():  # interrupted
                own.set_result(False)
        return works

    return check_once


@functools.cache
def probe_ahead() -> None:
    """Starts what Inductor will do one after the other, if there are processors for it. All modules that are
    needed are there: threads that import modules which import each other may get half of them."""
    keep_probes()
    if not config.cache or processors() < 2:
        return
    try:
        from torch._inductor import codecache, cpp_builder, cpu_vec_isa  # noqa: F401
        from torch.utils import _filelock  # noqa: F401

        best, *_ = usable_instructions()
        is_known = is_probed(best)
        if needs_header():
            start(make_header, best)
        if not is_known:
            start(try_ahead, best)
    except Exception as error:  # of a torch that has other names
        log.debug("nothing is found out ahead: %s", error)


def needs_header() -> bool:
    """Whether Inductor has compiled nothing here yet: what it has compiled may be all that is asked for."""
    from torch._inductor import codecache
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    has_header = any(Path(codecache._HEADER_DIR).rglob("*.gch"))
    return not has_header and not os.path.exists(os.path.join(cache_dir(), "fxgraph"))


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_probed(isa: Any) -> bool:
    kept = file_of(isa, isa._avx_code)
    return kept is None or is_known_to_work(kept)


def start(function: Callable[[Any], object], isa: Any) -> None:
    """In a thread that the end of the program waits for: others would find what is half written."""

    def run() -> None:
        try:
            context.run(function, isa)
        except Exception as error:  # Inductor meets it too
            log.debug("%s of %s failed: %s", function.__name__, isa, error)

    context = contextvars.copy_context()
    threading.Thread(target=run, name="framelift probes").start()


def try_ahead(isa: Any) -> None:
    """Leaves behind which programs work."""
    bool(another(isa))


def make_header(isa: Any) -> None:
    """Compiles the header that kernels include, which takes longest, for these instructions. Inductor uses
    the first that work; if these don't, it makes another. The code is its own for what precedes a kernel."""
    from torch._inductor.codecache import CppPythonBindingsCodeCache as Kernels

    presumed = another(isa, _VecISA__bool__impl=lambda isa, is_set: True)
    bool(presumed)  # has it look for what else there is
    load = Kernels.load_async.__func__  # type: ignore[attr-defined]
    instead = {**load.__globals__, "pick_vec_isa": lambda: presumed}
    prepare = types.FunctionType(load.__code__, instead, load.__name__, load.__defaults__, load.__closure__)
    prepare(Kernels, "")


def another(isa: Any, **changed: Any) -> Any:
    """The same instructions as another object, which Inductor does not take for its own: it remembers which
    failed, and here that may be because the program was interrupted."""
    cls = type(isa)
    made = copy.copy(isa)
    made.__class__ = type(cls.__name__, (cls,), {"__hash__": cls.__hash__, **changed})
    return made


def file_of(isa: Any, code: str) -> Path | None:
    """Where it is kept whether a program works; None: nobody knows what that depends on."""
    from torch._inductor.cpp_builder import CppBuilder, CppTorchOptions

    try:
        chosen = CppTorchOptions(vec_isa=isa, warning_all=False)
        command = CppBuilder("probe", "probe.cpp", chosen, "").get_command_line()
        facts = machine(chosen.get_compiler())
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
