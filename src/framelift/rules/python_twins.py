"""Functions of C that the standard library has in Python too: where they compare numbers which may vary, the
trace interprets those instead, so that it relies on how the comparisons come out, and not on the numbers."""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import types
from typing import Any

from framelift.core.blame import acts_for_program
from framelift.core.sentinels import MISSING
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import rule
from framelift.trace.machine import calls_back
from framelift.trace.world import TraceWorld

MODULES = {"_bisect": "bisect", "_heapq": "heapq"}
"""Module of C -> the one that takes its functions from there, behind its own."""


@functools.cache
def in_python(accelerator: str) -> dict[str, Any]:
    """What a module of the library is without its part in C, by name."""

    def import_other(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == accelerator:
            raise ImportError(name)
        return builtins.__import__(name, *args, **kwargs)

    module = importlib.import_module(MODULES[accelerator])
    file = inspect.getsourcefile(module)
    source = inspect.getsource(module)
    names = {"__name__": module.__name__, "__builtins__": vars(builtins) | {"__import__": import_other}}
    exec(compile(source, file or module.__name__, "exec"), names)
    return names


@calls_back
@acts_for_program
def by_twin(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The function in Python, if there are symbols among what it compares."""
    args[:] = [opened(arg) for arg in args]
    if not args or type(args[0]) is not list or world.comparisons.copies(args[:2]) is None:
        return MISSING
    twin = in_python(fn.__module__).get(fn.__name__)
    return MISSING if twin is None else world.calls.invoke(twin, *args, **kwargs)


for _module in map(importlib.import_module, MODULES):
    for _fn in vars(_module).values():
        if type(_fn) is types.BuiltinFunctionType:
            rule(_fn, with_symbols=by_twin)
