"""All that can be set in torch, found by looking at torch itself.

A setting is text: an expression that reads it and a statement that writes it, with two values that it can
have. What is found: attributes of modules that are more than plain modules, and of the objects that these
hold; functions that come in pairs (`set_num_threads` and `get_num_threads`), in Python and in C; the
variables of modules that a function of the same module sets; the entries of config modules.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import importlib
import itertools
import os
import pickle
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

NAMES = (
    *("torch.backends.cuda", "torch.backends.quantized", "torch.backends.mkldnn", "torch.backends.mkl"),
    *("torch.utils.deterministic", "torch.utils.data", "torch.sparse", "torch.jit", "torch.distributed"),
    *("torch.nn.attention", "torch.autograd.graph", "torch.autograd.forward_ad", "torch.utils.checkpoint"),
    *("torch.nn.utils.parametrize", "torch.utils.mkldnn", "torch.fx.experimental._config"),
    *("torch._inductor.config", "torch._functorch.config", "torch.compiler.config", "torch.nested"),
)
for _name in NAMES:
    importlib.import_module(_name)

CANDIDATES: dict[type, Callable[[Any], list[Any]]] = {
    bool: lambda value: [not value],
    int: lambda value: [value + 1, value - 1],
    float: lambda value: [value + 0.5],
    str: lambda value: list(WORDS),
    torch.dtype: lambda value: [torch.float64, torch.bfloat16],
    tuple: lambda value: [(not value[0], *value[1:])] if value and type(value[0]) is bool else [],
}
WORDS = (
    *("ieee", "tf32", "none", "high", "medium", "highest", "greedy", "optimal", "auto", "qnnpack", "onednn"),
    *("fbgemm", "x86", "default", "warn", "error", "cudnn", "native", "nothing", "meta"),
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """Something in torch that can be set."""

    name: str
    read: str
    write: str
    """A statement that sets it to `value`."""
    values: tuple[Any, Any]
    """What it was, and something else."""

    def get(self) -> Any:
        return eval(self.read, {"torch": torch, "sys": sys})

    def set(self, value: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(self.write, {"torch": torch, "sys": sys, "value": value})

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.set(self.values[0])


def other_values(value: Any) -> list[Any]:
    if type(value) in CANDIDATES:
        return CANDIDATES[type(value)](value)
    return list(getattr(type(value), "__members__", {}).values())


def tried(name: str, read: str, write: str) -> Setting | None:
    """The setting, if what is written can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before = eval(read)
        except Exception:
            return None
        for value in other_values(before):
            made = Setting(name, read, write, (before, value))
            try:
                made.set(value)
                changed = made.get() == value and value != before
            except Exception:
                changed = False
            try:
                made.set(before)
            except Exception:
                continue
            if changed and made.get() == before:
                return made
    return None


def torch_modules() -> dict[str, types.ModuleType]:
    """Those of torch that are loaded, but for its own compiler."""
    names = sorted(
        name for name in sys.modules if name.partition(".")[0] == "torch" and "_dynamo" not in name
    )
    return {name: sys.modules[name] for name in names if isinstance(sys.modules[name], types.ModuleType)}


def path_of(name: str) -> str:
    return f"sys.modules[{name!r}]"


# ---- attributes


def places() -> Iterator[tuple[str, Any]]:
    """Objects of torch's that may do something when an attribute is set, and how they are reached."""
    for name, module in torch_modules().items():
        path = name if name.startswith("torch.backends") or name == "torch.utils.deterministic" else None
        if type(module) is not types.ModuleType:
            yield path or path_of(name), module
        if not name.startswith("torch.backends"):
            continue
        for attribute, held in [*vars(module).items(), *vars(type(module)).items()]:
            if (type(held).__module__ or "").startswith("torch.backends") and hasattr(
                type(held), "__setattr__"
            ):
                yield f"{name}.{attribute}", held


def names_set(owner: Any) -> Iterator[str]:
    cls = type(owner)
    for base in cls.__mro__[:-1]:
        yield from (name for name, found in vars(base).items() if hasattr(type(found), "__set__"))
    setter = cls.__setattr__
    if isinstance(setter, types.FunctionType):
        yield from (c for c in setter.__code__.co_consts if isinstance(c, str) and c.isidentifier())


def attributes() -> Iterator[Setting | None]:
    for path, owner in places():
        for name in dict.fromkeys(names_set(owner)):
            if not name.startswith("__"):
                yield tried(f"{path}.{name}", f"{path}.{name}", f"{path}.{name} = value")


# ---- entries of config modules


def configs(limit: int = 1) -> Iterator[Setting | None]:
    """A few of each: they are all set and read by the same code."""
    for name, module in torch_modules().items():
        entries = vars(module).get("_config")
        if "ConfigModule" in type(module).__name__ and isinstance(entries, dict):
            found = (
                tried(f"{name}.{key}", f"{path_of(name)}.{key}", f"{path_of(name)}.{key} = value")
                for key in entries
                if key.isidentifier() and key.islower() and not key.startswith("_")
            )
            yield from itertools.islice((setting for setting in found if setting), limit)


# ---- functions in pairs

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
VERBS = ("_set_sdp_use_", "_jit_set_", "_cuda_set_", "_set_", "set_", "_enable_", "enable_", "use_", "allow_")
UNTOUCHED = frozenset(
    {"set_num_interop_threads", "_set_default_tensor_type", "_set_thread_name", "_jit_set_bailout_depth"}
    | {"_set_meta_in_tls_dispatch_include", "rename_privateuse1_backend"}
)
"""What can be set only once, or can't be set back, or makes operators give nothing."""
ASKED = (
    "get_{}",
    "_get_{}",
    "is_{}",
    "_is_{}",
    "is_{}_enabled",
    "_is_{}_enabled",
    "{}_enabled",
    "_{}_enabled",
)
ASKED += (
    "_get_{}_enabled",
    "are_{}_enabled",
    "_{}",
    "{}_allowed",
    "_get_{}_sdp_enabled",
    "_jit_{}",
    "_cuda_get_{}",
)


def pairs() -> Iterator[Setting | None]:
    names = {**torch_modules(), "torch._C._functorch": torch._C._functorch, "torch._C._lazy": torch._C._lazy}
    known: set[Any] = set()
    for module_name, module in names.items():
        for name, setter in list(vars(module).items()):
            verb = next((verb for verb in VERBS if name.startswith(verb)), None)
            if verb is None or name in UNTOUCHED or "nvfuser" in name or type(setter) not in FUNCTIONS:
                continue
            if setter in known:
                continue
            if "_C" not in module_name and setter.__module__ not in (module_name, "torch", None):
                continue
            subject = name[len(verb) :]
            stems = (subject, subject.removesuffix("_enabled"), subject.removesuffix("_setter") + "_getter")
            for form, stem in itertools.product(ASKED, stems):
                getter = form.format(stem)
                if getter != name and callable(vars(module).get(getter)):
                    path = path_of(module_name) if module_name not in ("torch", "torch._C") else module_name
                    made = tried(f"{module_name}.{name}", f"{path}.{getter}()", f"{path}.{name}(value)")
                    if made is not None:
                        known.add(setter)
                        yield made
                        break


# ---- variables of modules


def variables() -> Iterator[Setting | None]:
    """Variables of a module that a function of one argument sets."""
    for module_name, module in torch_modules().items():
        if module_name.startswith(("torch._inductor", "torch.testing", "torch.distributed")):
            continue
        for name, fn in list(vars(module).items()):
            if (
                type(fn) is not types.FunctionType
                or name in UNTOUCHED
                or fn.__module__ != module_name
                or fn.__code__.co_argcount != 1
            ):
                continue
            instructions = dis.get_instructions(fn)
            for variable in {i.argval for i in instructions if i.opname == "STORE_GLOBAL"}:
                path = path_of(module_name)
                yield tried(f"{module_name}.{name}", f"{path}.{variable}", f"{path}.{name}(value)")


SPECIAL = (
    ("torch.set_default_dtype", "torch.get_default_dtype()", "torch.set_default_dtype(value)"),
    (
        "torch.set_printoptions",
        "torch._tensor_str.PRINT_OPTS.precision",
        "torch.set_printoptions(precision=value)",
    ),
    (
        "torch.use_deterministic_algorithms",
        "torch.are_deterministic_algorithms_enabled()",
        "torch.use_deterministic_algorithms(value)",
    ),
    ("torch.set_warn_always", "torch.is_warn_always_enabled()", "torch.set_warn_always(value)"),
    (
        "torch.set_autocast_enabled",
        "torch.is_autocast_enabled('cpu')",
        "torch.set_autocast_enabled('cpu', value)",
    ),
    ("torch.set_autocast_dtype", "torch.get_autocast_dtype('cpu')", "torch.set_autocast_dtype('cpu', value)"),
    (
        "torch.sparse.check_sparse_tensor_invariants",
        "torch.sparse.check_sparse_tensor_invariants.is_enabled()",
        "(torch.sparse.check_sparse_tensor_invariants.enable if value else "
        "torch.sparse.check_sparse_tensor_invariants.disable)()",
    ),
    (
        "torch.set_default_device",
        "torch.get_default_device().type",
        "torch.set_default_device(None if value == 'cpu' else value)",
    ),
    (
        "torch.backends.cuda.preferred_linalg_library",
        "torch.backends.cuda.preferred_linalg_library()",
        "torch.backends.cuda.preferred_linalg_library(value)",
    ),
    (
        "torch.backends.mkldnn.set_flags",
        "torch.backends.mkldnn.deterministic",
        "torch.backends.mkldnn.set_flags(_deterministic=value)",
    ),
    ("torch.set_grad_enabled", "torch.is_grad_enabled()", "torch._C._set_grad_enabled(value)"),
    ("torch.set_anomaly_enabled", "torch.is_anomaly_enabled()", "torch.set_anomaly_enabled(value)"),
    (
        "torch.__future__",
        "torch.__future__.get_overwrite_module_params_on_conversion()",
        "torch.__future__.set_overwrite_module_params_on_conversion(value)",
    ),
)


def found() -> list[Setting]:
    tries = [tried(*special) for special in SPECIAL]
    tries += [*attributes(), *configs(), *pairs(), *variables()]
    return list({made.write: made for made in tries if made is not None}.values())


@functools.cache
def settings() -> list[Setting]:
    """Found in a process of its own: not everything that is tried can be put back."""
    program = "import pickle, sys, torch_settings as t; sys.stdout.buffer.write(pickle.dumps(t.found()))"
    here = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, check=True)
    return pickle.loads(done.stdout)
