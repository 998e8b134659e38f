"""What an entry is filed under: all that decides what comes of a capture, but for what guards check.

The code by what it does, versions of what takes part, the options of the context, switches of torch's, the
machine. Two processes with the same key may use each other's entries; whatever differs is a miss.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import types
from pathlib import Path
from typing import Any

import torch

import framelift
from framelift.core.breaks import ON_BREAK
from framelift.core.config import OPTIONS, config
from framelift.core.user_cache import make_private_dir, read_trusted, user_cache_dir, write_atomically
from framelift.dispatch.compile_contexts import Context
from framelift.dispatch.object_names import NotPortableError, digest, is_plain

FORMAT = "8"
"""Of the files; another one for each change of what they hold."""

WITHOUT_INFLUENCE = frozenset({"cache", "cache_dir", "cache_mebibytes", "debug_dir", "verbose", "cprofile"})
"""Options that change nothing about what is captured."""
VARIABLES = (
    "TORCH",
    "PYTORCH",
    "TRITON",
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "CUDA",
    "HIP_",
    "CXX",
    "CC",
    "ATEN_",
)
"""How names of environment variables begin that torch and its compilers look at."""
OTHER_VARIABLES = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TORCH_HOME", "TORCH_LOGS", "TORCH_TRACE"})
"""Those of them that change nothing about what is compiled."""


def key_of(context: Context, fn: types.FunctionType, arguments: list[Any]) -> str:
    """Raises NotPortableError if what decides has no description."""
    found = [
        *process_parts(),
        digest(fn.__code__),
        fn.__code__.co_qualname,
        str(fn.__module__),
        *arguments_parts(fn, arguments),
    ]
    values = [value for argument in arguments for value in parts(argument)]
    found += [marks_of(value) for value in values if type(value) in PLAIN_TENSORS]
    found += [*context_parts(context), f"breaks are errors: {ON_BREAK.error}"]
    found += [f"{name}={getattr(config, name)!r}" for name in OPTIONS if name not in WITHOUT_INFLUENCE]
    found += torch_parts()
    return hashlib.sha256("\0".join(found).encode()).hexdigest()[:40]


def arguments_parts(fn: types.FunctionType, arguments: list[Any]) -> list[str]:
    """Wrappers that decorators make all have one code, and so have calls of modules: which classes and
    functions it is about tells their entries apart."""
    found = [type_name(type(value)) for value in arguments]
    for cell in fn.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue
        if type(held) is types.FunctionType:
            found.append(f"{held.__module__}.{held.__qualname__}")
        else:
            found.append(type_name(type(held)))
    return found


def parts(argument: Any) -> list[Any]:
    """What a plain container holds, or the argument itself."""
    if type(argument) in (tuple, list):
        return list(argument)
    return list(argument.values()) if type(argument) is dict else [argument]


def marks_of(tensor: torch.Tensor) -> str:
    """What the program has said of its sizes and its address: a capture keeps to that, or is an error."""
    marks = {
        name: held for name, held in vars(tensor).items() if name.startswith(MARKS) and name != LEFT_MARK
    }
    if "_specialize_on" in marks:
        raise NotPortableError("conditions on sizes are functions")
    return repr(sorted((name, plain_mark(held)) for name, held in marks.items())) if marks else ""


def plain_mark(held: Any) -> str:
    return repr(sorted(held.items() if type(held) is dict else held) if type(held) in (set, dict) else held)


MARKS = ("_dynamo_", "_specialize_on")
"""How names of marks on tensors begin, torch's and Framelift's."""
LEFT_MARK = "_dynamo_propagated_dynamic_indices"
"""What AOTAutograd leaves on results, where it has put a graph together."""
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
"""Classes of tensors that ask nobody for their sizes."""


def type_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def context_parts(context: Context) -> list[str]:
    if not is_plain(context.options):
        raise NotPortableError("options of the backend are no plain values")
    options = sorted(context.options.items())
    return [context.backend_name, f"{options!r} {context.fullgraph} {context.dynamic}"]


@functools.cache
def process_parts() -> tuple[str, ...]:
    """What stays as it is while the process runs."""
    version: Any = torch.version
    found = [FORMAT, sys.version, platform.platform(), sources_digest(), processor()]
    found += [
        str(torch.__version__),
        *(str(getattr(version, name, "")) for name in ("git_version", "cuda", "hip")),
    ]
    numpy: Any = sys.modules.get("numpy")
    found.append(getattr(numpy, "__version__", ""))
    names = [name for name in os.environ if name.startswith(VARIABLES) and name not in OTHER_VARIABLES]
    found += [f"{name}={os.environ[name]}" for name in sorted(names)]
    return tuple(found)


def torch_parts() -> list[str]:
    """What the program may have set meanwhile: modules of switches that are not loaded are as they were."""
    found = [f"threads={torch.get_num_threads()}"]
    for name in ("torch._inductor.config", "torch._functorch.config", "torch._dynamo.config"):
        module: Any = sys.modules.get(name)
        if module is not None:
            found += [f"{name}.{key}={value}" for key, value in changed_settings(module)]
    if torch.cuda.is_initialized():
        found.append(str(torch.cuda.get_device_properties()))
    return found


def changed_settings(module: Any) -> list[tuple[str, str]]:
    """The switches of one of torch's modules that are not as they are by default."""
    changed = []
    for name, entry in sorted(module._config.items()):
        if not module._is_default(name):
            value = getattr(module, name)
            if is_plain(value) and value == entry.default:  # it was set for a while, and put back
                continue
            if not is_plain(value):
                raise NotPortableError(f"{module.__name__}.{name} is no plain value")
            changed.append((name, repr(value)))
    return changed


@functools.cache
def processor() -> str:
    """The processor and what it can do; kernels are compiled for it."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(8192).partition(b"\n\n")[0].decode(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    told = [
        line
        for line in lines
        if line.startswith(("vendor_id", "model", "stepping", "flags", "Features", "CPU "))
    ]
    return "\n".join(told) or platform.processor()


# ---- Framelift itself


@functools.cache
def sources_digest() -> str:
    """Of Framelift's own files. Reading them takes milliseconds, so what came of it is noted, for files of
    these names, sizes and times."""
    folder = Path(framelift.__file__).parent
    files = sorted(
        os.path.join(at, name)
        for at, _, names in os.walk(folder)
        for name in names
        if name.endswith((".py", ".so", ".pyd"))
    )
    stats = [(os.path.relpath(each, folder), os.stat(each)) for each in files]
    seen = repr([(name, found.st_size, found.st_mtime_ns) for name, found in stats])
    noted = user_cache_dir() / "sources" / hashlib.sha256(f"{folder}{seen}".encode()).hexdigest()
    try:
        return read_trusted(noted).decode()
    except OSError:
        pass
    hashed = hashlib.sha256()
    for (name, _), path in zip(stats, files, strict=True):
        hashed.update(name.encode() + Path(path).read_bytes())
    found = hashed.hexdigest()
    try:
        make_private_dir(noted.parent)
        write_atomically(noted, found.encode())
    except OSError:
        pass
    return found
