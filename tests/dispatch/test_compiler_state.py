"""What torch's compilers note in Python while they work is put back when a signal interrupts them.

The lists of what they note are compared with what is found in torch by looking at all of its modules.
"""

from __future__ import annotations

import _thread
import contextvars
import dis
import importlib
import signal
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx
from torch.utils._config_module import ConfigModule

import framelift
from framelift.dispatch.compiler_state import OPTIONS, SWITCHES, THREAD_LOCALS


class Limit(Exception):
    """As a time limit raises."""


def raise_limit(number: int, frame: Any) -> None:
    raise Limit


def interrupted_after(change: Callable[[], None]) -> None:
    """A compilation is interrupted when its backend has changed something."""

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        change()
        signal.raise_signal(signal.SIGALRM)

    handler = signal.signal(signal.SIGALRM, raise_limit)
    try:
        with pytest.raises(Limit):
            framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    finally:
        signal.signal(signal.SIGALRM, handler)


def listed(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(module, name) for module, names in table.items() for name in names]


@pytest.mark.parametrize(("module", "name"), listed(SWITCHES))
def test_a_variable_is_put_back(module: str, name: str) -> None:
    scope = vars(importlib.import_module(module))
    if name not in scope:
        pytest.skip("this version of torch has no such variable")
    before = scope[name]
    try:
        interrupted_after(lambda: scope.update({name: object()}))
        assert scope[name] is before
    finally:
        scope[name] = before


@pytest.mark.parametrize(("module", "name"), listed(THREAD_LOCALS))
def test_attributes_of_a_thread_are_put_back(module: str, name: str) -> None:
    found = vars(importlib.import_module(module)).get(name)
    if found is None:
        pytest.skip("this version of torch has no such object")
    attributes = vars(found)
    attributes["stack_of_the_test"] = stack = [1]
    before = dict(attributes)

    def change() -> None:
        stack.append(2)
        attributes["noted_by_the_test"] = True

    try:
        interrupted_after(change)
        assert attributes == {**before, "stack_of_the_test": [1]}
    finally:
        attributes.pop("stack_of_the_test", None)
        attributes.pop("noted_by_the_test", None)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("module", OPTIONS)
def test_options_are_put_back(module: str) -> None:
    config: Any = importlib.import_module(module)
    names = [name for name, value in config.get_config_copy().items() if type(value) is bool]
    before = config.get_config_copy()

    def change() -> None:
        for name in names:
            setattr(config, name, not before[name])

    interrupted_after(change)
    assert config.get_config_copy() == before


def test_variables_of_the_program_stay_as_a_handler_has_set_them() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    interrupted_after(lambda: (variable.set(1), None)[1])
    assert variable.get() == 1


def test_guards_on_numbers_after_a_compiler_that_was_to_make_none_was_interrupted() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    interrupted_after(lambda: ShapeEnv()._suppress_guards_enter())

    @framelift.compile(backend="eager")
    def counted(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else x * 2 if n - 1 == 0 else x + n

    for n in (3, 1, 4, 0, 5):
        x = torch.ones(2)
        assert torch.equal(counted(x, n), x if n == 0 else x * 2 if n == 1 else x + n)


# ---- the lists are complete


OTHERS = {
    "torch._guards": "put back in C++, when the compilation ends",
    "torch.distributed.rpc.api": "of remote calls, which no compiler makes",
    "torch.distributed.rpc.internal": "of remote calls, which no compiler makes",
    "torch.distributed._local_tensor": "of a mode that only tests enter",
    "torch.distributed.tensor._utils": "of a context that only programs enter",
}
"""Modules with objects that are not listed, and why."""


def modules_of_torch() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, module in list(sys.modules.items()):
        of_torch = name.partition(".")[0] == "torch" and not name.startswith("torch.testing")
        if of_torch and isinstance(module, types.ModuleType):
            yield name, dict(vars(module))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_all_objects_with_attributes_of_a_thread_are_listed() -> None:
    known = {
        id(vars(sys.modules[module]).get(name))
        for module, name in listed(THREAD_LOCALS)
        if module in sys.modules
    }
    unknown = [
        f"{module}.{name}"
        for module, scope in modules_of_torch()
        for name, value in scope.items()
        if issubclass(type(value), _thread._local) and id(value) not in known and module not in OTHERS
    ]
    assert unknown == []


def test_all_modules_of_options_are_listed() -> None:
    found = {name for name, module in sys.modules.items() if isinstance(module, ConfigModule)}
    assert {name for name in found if name.startswith("torch.")} <= set(OPTIONS)


def functions_in(module: str, scope: dict[str, Any]) -> Iterator[types.FunctionType]:
    for value in scope.values():
        is_class = issubclass(type(value), type) and value.__module__ == module
        for member in vars(value).values() if is_class else [value]:
            if type(member) in (staticmethod, classmethod):
                member = member.__func__
            while type(member) is types.FunctionType and "__wrapped__" in vars(member):
                member = vars(member)["__wrapped__"]
            if type(member) is types.FunctionType and member.__globals__.get("__name__") == module:
                yield member


def stored_by(code: types.CodeType) -> list[str]:
    return [found.argval for found in dis.get_instructions(code) if found.opname == "STORE_GLOBAL"]


def is_set_for_a_while(function: types.FunctionType, name: str) -> bool:
    """Whether a function sets a variable and puts it back: as a context manager does, or behind a call."""
    stores = stored_by(function.__code__).count(name)
    return function.__name__ == "__exit__" or stores > (1 if is_generator(function) else 2)


def is_generator(function: types.FunctionType) -> bool:
    return bool(function.__code__.co_flags & 0x20)


NOT_BY_COMPILERS = {
    "torch.backends.cusparselt": "what the library can do, found out once",
    "torch.distributed._shard.api": "loading of states",
    "torch.distributed._symmetric_memory": "tests",
    "torch.distributed.fsdp._fully_shard._fully_shard": "making of modules",
    "torch.distributed.rpc.api": "remote calls",
    "torch.export.unflatten": "running of exported programs",
    "torch.utils.data.datapipes._decorator": "loading of data",
    "torch._dynamo.testing": "tests",
    "torch._export.serde.serialize": "saving of exported programs",
}
"""Modules with variables that are set for a while, but by nothing that a compilation runs."""


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_all_variables_that_are_set_for_a_while_are_listed() -> None:
    known = set(listed(SWITCHES))
    unknown = {
        (module, name)
        for module, scope in modules_of_torch()
        for function in functions_in(module, scope)
        for name in set(stored_by(function.__code__))
        if is_set_for_a_while(function, name) and module not in NOT_BY_COMPILERS
    }
    assert unknown <= known
