"""torch's private names: which of them are used, why, and what is lost where a torch does not have one.

Framelift does a compiler's work, and torch has public names for little of that. Every use lies in one of the
areas below, which says what it is for. A name that a later torch has no more costs its area: an optional
feature is left out, and its calls break captures (`optional`); without any other nothing is compiled, and
programs run plainly (`api/uncompiled.py`). Neither is an error on import. `framelift doctor` looks all names
up; the uses are read from the sources, so the list is never behind them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

log = logging.getLogger("framelift")


@dataclass(frozen=True)
class Area:
    """Private names with one purpose."""

    name: str
    begins: tuple[str, ...]
    """What they begin with."""
    why: str
    lost: str
    """What does not work without one of them, and where to mend it."""


CAPTURE = "nothing is compiled"

AREAS = (
    Area(
        "tensors without data",
        ("torch._subclasses", "torch._guards", "torch._dispatch", "torch.Tensor._make_subclass")
        + ("torch._is_functional_tensor", "torch._library", "torch._debug_has_internal_overlap"),
        "traces run operators on fake tensors, and backends find the mode that these belong to",
        f"{CAPTURE}; graph/fakes.py and graph/recorder.py make and use them",
    ),
    Area(
        "state of the dispatcher and of autograd",
        (
            "torch._C",
            "torch.autograd",
            "torch.overrides",
            "torch.utils._python_dispatch",
            "torch.utils._device",
        )
        + ("torch.utils._mode_utils", "torch.amp", "torch.cuda", "torch._utils"),
        "modes and flags are read, guarded, set as the program sets them, and switched off around own work",
        f"{CAPTURE}; graph/contexts.py and graph/torch_flags.py",
    ),
    Area(
        "operators",
        (
            "torch._ops",
            "torch.ops.aten",
            "torch.ops._c10d_functional",
            "torch._foreach_",
            "torch._assert",
            "torch._assert_async",
        )
        + ("torch._functional_assert_async", "torch._check", "torch._constrain", "torch._is_all_true")
        + ("torch._fused_adam",)
        + ("torch._neg_view", "torch._prims", "torch._shape_as_tensor"),
        "kinds of operators are told apart, and assertions and updates are recorded as these operators",
        f"{CAPTURE}; graph/functions.py has what is recorded how, rules/symbolic_shapes.py the checks",
    ),
    Area(
        "symbols",
        ("torch.utils._sympy",),
        "sizes that vary are expressions of sympy's, with classes and ranges that torch adds",
        f"{CAPTURE}, or framelift.export; graph/symbols.py, exporting/size_checks.py",
    ),
    Area(
        "trees of containers",
        ("torch.utils._pytree", "torch.utils._typing_utils"),
        "arguments of operators are flattened as torch flattens them; the public torch.utils.pytree is newer",
        f"{CAPTURE}; torch.utils.pytree will take its place",
    ),
    Area(
        "functions that torch's own Python calls",
        ("torch.nn", "torch.jit", "torch.fx", "torch.compiler", "torch.optim", "torch.utils.hooks")
        + ("torch.utils._foreach_utils", "torch._disable_dynamo", "torch._jit_internal"),
        "steps of modules, optimizers and hooks that are done otherwise while tracing",
        f"{CAPTURE}; rules/torch_functions.py and rules/torch_python.py, or that feature (features/all.py)",
    ),
    Area(
        "higher-order operators",
        ("torch._higher_order_ops", "torch._functorch", "torch._export"),
        "torch.cond and its kin, vmap, grad, checkpoints, Triton: what their calls are recorded as",
        "the feature of features/higher_order, or the backend, that uses it; other programs are captured",
    ),
    Area(
        "NumPy by torch",
        ("torch._numpy",),
        "what NumPy's functions are recorded as",
        f"{CAPTURE}; features/numpy/functions.py",
    ),
    Area(
        "nested tensors",
        ("torch.nested",),
        "their class, and what makes them",
        "nested tensors of jagged layout break captures; features/nested_tensors.py",
    ),
    Area(
        "groups of ranks",
        ("torch.distributed",),
        "groups are found by name and by rank, and distributed tensors described",
        f"{CAPTURE}; features/collectives, distributed",
    ),
    Area(
        "torch's own compilers",
        ("torch._inductor", "torch._dynamo", "torch._TorchCompile", "torch.utils._filelock"),
        "backends are called, CUDA graphs recorded, and backward passes taken from autograd's engine",
        "the backend, CUDA graphs, or compiled_autograd; dispatch/backends.py, api/compiled_autograd.py",
    ),
    Area(
        "logs",
        ("torch._logging",),
        "TORCH_LOGS and torch's structured trace show Framelift's compilations",
        f"{CAPTURE}; debugging/reporting.py and debugging/torch_logs.py",
    ),
    Area(
        "exported programs",
        ("torch.export",),
        "programs are exported in torch's format, with its checks of dynamic shapes",
        "framelift.export; exporting/program.py",
    ),
)


def area_of(name: str) -> Area | None:
    """By the longest beginning."""
    fitting = [(len(begin), area) for area in AREAS for begin in area.begins if name.startswith(begin)]
    return max(fitting, key=lambda found: found[0])[1] if fitting else None


# ---- features that can be left out


DISABLED: dict[str, str] = {}
"""Module of a feature -> why it is left out."""


def optional(module: str) -> ModuleType | None:
    """The module, or None where it needs a name that torch does not have: that is logged, once."""
    try:
        return importlib.import_module(module)
    except (ImportError, AttributeError) as error:
        name = missing_name(error)
        if name is None:
            raise
        DISABLED[module] = f"torch has no {name}"
        log.warning("%s is left out: torch has no %s (`framelift doctor` says what is lost)", module, name)
        return None


class TorchNameMissing(ImportError):
    """Something that every capture needs is not in this torch; the message says what."""


def missing_name(error: BaseException) -> str | None:
    """The name of torch's that an error says is not there, if it is about one."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return None
    if isinstance(error, ImportError):
        of_torch = (error.name or "").partition(".")[0] == "torch"
        return f"{error.name} (or a name in it)" if of_torch else None
    if isinstance(error, AttributeError):
        owner = getattr(error.obj, "__name__", "") if isinstance(error.obj, ModuleType) else ""
        if isinstance(error.obj, type):
            owner = f"{error.obj.__module__}.{error.obj.__qualname__}"
        return f"{owner}.{error.name}" if owner.partition(".")[0] == "torch" else None
    return None


# ---- where they are used


@dataclass
class Use:
    """A private name, and the files that use it."""

    name: str
    files: set[str] = field(default_factory=set)

    @property
    def area(self) -> Area | None:
        return area_of(self.name)


@functools.cache
def used() -> list[Use]:
    """Every private name in Framelift's sources that can be read from them, in order. One that only some
    versions of torch have, and that a file looks for before it uses it, is not missed in the others."""
    root = Path(__file__).parents[1]
    found: dict[str, Use] = {}
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_others = {name for name in names_looked_for(tree) if not is_there(name)}
        for name in names_in(tree):
            if name not in of_others:
                found.setdefault(name, Use(name)).files.add(str(path.relative_to(root)))
    return sorted(found.values(), key=lambda use: use.name)


def names_in(tree: ast.Module) -> Iterator[str]:
    imported = dict(imports(tree))
    yield from filter(is_private, (name for _, name in imports(tree)))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            yield from filter(is_private, [chain(node, imported)])


def names_looked_for(tree: ast.Module) -> Iterator[str]:
    """The names `x.name` of every `hasattr(x, "name")`."""
    imported = dict(imports(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("hasattr"), [owner, ast.Constant(str(name))]):
                yield from filter(is_private, [f"{chain(owner, imported)}.{name}"])


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What modules, and what of them, is called in a file, and what it is; `import a.b` calls `a` its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name
                if alias.asname is None:
                    start = alias.name.partition(".")[0]
                    yield start, start
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def chain(node: ast.expr, imported: dict[str, str]) -> str:
    """`torch._C._get_tracing_state`, whatever the modules are called here; nothing for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    start = imported.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([start, *parts])


def is_private(name: str) -> bool:
    first, *others = name.split(".")
    return first == "torch" and any(part.startswith("_") and not part.startswith("__") for part in others)


def is_there(name: str) -> bool:
    """Whether the torch that is installed has it. A function may hide a module: both are tried."""
    parts = name.split(".")
    return any(holds(".".join(parts[:count]), parts[count:]) for count in range(len(parts), 0, -1))


def holds(module: str, attributes: list[str]) -> bool:
    try:
        value: Any = sys.modules.get(module) or importlib.import_module(module)
        for attribute in attributes:
            value = getattr(value, attribute)
    except (ImportError, AttributeError):
        return False
    return True
