"""Calls of NumPy's functions, and the ways from arrays to tensors and back (`features/numpy/arrays.py`)."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.config import config
from framelift.features.numpy.arrays import (
    FUNCTIONS,
    METHODS,
    NUMBERS,
    Array,
    Arrays,
    dtype_of,
    is_array,
    np,
    refuse,
    stacked,
)
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_TYPE, Looks, serve
from framelift.trace.machine import TraceFrame
from framelift.trace.runtime_calls import outside_of_modes
from framelift.trace.world import TraceWorld

PLAIN = (bool, int, float, complex, *NUMBERS)


def opened_deep(value: Any) -> Any:
    value = opened(value)
    if type(value) in (tuple, list):
        return type(value)(map(opened_deep, value))
    return value


def has_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(has_arrays, value))
    return is_array(value)


def call_numpy(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy's: torch's on arrays, and itself on numbers that are known."""
    world.identity.guard(fn)
    given = [opened_deep(x) for x in args]
    keywords = {name: opened_deep(value) for name, value in kwargs.items()}
    name = fn.__name__
    if fn is np.asarray and len(given) == 1 and not keywords and type(given[0]) is FakeTensor:
        return world.feature(Arrays).of_tensor(given[0])
    if type(fn) is np.ufunc and not keywords and all(type(x) in PLAIN for x in given):
        return on_numbers(world, fn, given, name)
    if fn in REDUCTIONS and not keywords and len(given) == 1 and is_plain(given[0]):
        return on_numbers(world, fn, given, name)
    served = FUNCTIONS.get(id(fn))
    if not has_arrays((given, list(keywords.values()))):
        if id(fn) not in MAKERS or not config.trace_numpy:
            return world.calls.by_policy(fn, args, kwargs)
        if (made := world.feature(Arrays).made(fn, given, keywords, name)) is not None:
            return made
    if served is None or not config.trace_numpy:
        refuse(f"numpy.{name}")
    if fn in (np.array, np.asarray) and type(given[0]) in (tuple, list) and all(map(is_array, given[0])):
        served = stacked
    return world.feature(Arrays).call(fn, served, given, keywords, f"numpy.{name}")


def is_plain(value: Any) -> bool:
    """A number, or a list of numbers."""
    return all(map(is_plain, value)) if type(value) in (tuple, list, torch.Size) else type(value) in PLAIN


def on_numbers(world: TraceWorld, fn: Any, given: list[Any], name: str) -> Any:
    try:
        with np.errstate(**world.feature(Arrays).told_errors()):
            return fn(*given)
    except Exception as error:
        refuse(f"numpy.{name}: {error}")  # or a warning, to be given each time


def serve_function(fn: Any) -> None:
    @serve(fn)
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = f.world
        return call_numpy(world, fn, args, kwargs)


def serve_method(method: Any) -> None:
    served_by = METHODS.get(method)
    name = method.__name__

    @serve(method)
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = f.world
        given = [opened_deep(x) for x in args]
        if not has_arrays(given[:1]):
            return world.calls.native(f, method, args, kwargs)
        if served_by is None or not given[0].ndim:
            refuse(f"the method {name} of an array")
        keywords = {key: opened_deep(value) for key, value in kwargs.items()}
        by = COPYING.get(name, served_by)
        return world.feature(Arrays).call(method, by, given, keywords, f"ndarray.{name}")


def astype(array: Any, dtype: Any) -> Any:
    made = Array.astype(array, dtype)
    return Array(made.tensor.clone()) if made.tensor is array.tensor else made


def flatten(array: Any) -> Any:
    return Array(torch.flatten(array.tensor).clone(memory_format=torch.contiguous_format))


COPYING = {"astype": astype, "flatten": flatten}
"""Methods that torch's do not always make a copy for -> what does."""

REDUCTIONS: tuple[Any, ...] = ()
"""Functions of a list of numbers, which give one."""

MAKERS: frozenset[int] = frozenset()
"""ids of functions that make arrays of what are none."""

if np is not None:
    _makers: tuple[Any, ...] = (np.array, np.asarray, np.zeros, np.ones, np.full, np.eye, np.arange)
    _makers += (np.linspace, np.identity, np.tri)
    MAKERS = frozenset(map(id, _makers))
    REDUCTIONS = (np.prod, np.sum, np.max, np.min, np.mean, np.any, np.all)
    BY_TYPE[np.ufunc] = call_numpy
    BY_TYPE[type(np.sum)] = call_numpy
    for _function in (*_makers, np.full_like, np.einsum):
        if type(_function) in (FunctionType, BuiltinFunctionType):
            serve_function(_function)
    for _method in vars(np.ndarray).values():
        if type(_method) is type(list.append):
            serve_method(_method)

    def serve_facts(about: Any) -> None:
        @serve(about)
        def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
            """What is so about a type; there is one for each, which NumPy keeps."""
            world = f.world
            given = [opened(x) for x in args]
            dtype = dtype_of(given[0]) if len(given) == 1 and not kwargs else None
            if dtype is None:
                return world.calls.native(f, about, args, kwargs)
            with outside_of_modes():
                return world.created.keep(about(dtype))

    @serve(np.generic.item)
    def serve_item(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        number: Any = opened(args[0]) if len(args) == 1 and not kwargs else None
        if type(number) in NUMBERS:
            return number.item()
        return f.world.calls.native(f, np.generic.item, args, kwargs)

    @serve(np.errstate)
    def serve_error_state(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Which errors are told; to a graph it is nothing."""
        settings = {name: opened(value) for name, value in kwargs.items()}
        if args or not all(type(how) is str for how in settings.values()):
            return f.world.calls.native(f, np.errstate, args, kwargs)
        world = f.world
        made = world.created.keep(np.errstate(**settings))
        world.feature(Arrays).error_states[id(made)] = settings
        return made

    @serve(np.errstate.__enter__)
    def serve_enter_error_state(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = f.world
        manager = opened(args[0])
        if id(manager) not in world.feature(Arrays).error_states:
            return world.calls.native(f, np.errstate.__enter__, args, kwargs)
        world.recorder.contexts.enter_range(manager)
        world.feature(Arrays).errors.append(world.feature(Arrays).error_states[id(manager)])
        return None

    @serve(np.errstate.__exit__)
    def serve_exit_error_state(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = f.world
        if not world.recorder.contexts.is_open(opened(args[0])):
            return world.calls.native(f, np.errstate.__exit__, args, kwargs)
        world.feature(Arrays).errors.pop()
        return world.recorder.contexts.exit_range(opened(args[0]))

    def serve_number(cls: Any) -> None:
        @serve(cls)
        def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
            given = [opened(x) for x in args]
            if kwargs or not all(type(x) in PLAIN for x in given):
                return f.world.calls.native(f, cls, args, kwargs)
            return on_numbers(f.world, cls, given, cls.__name__)

    for _class in NUMBERS:
        serve_number(_class)
    serve_facts(np.finfo)
    serve_facts(np.iinfo)

    def serve_limit(limit: Any) -> None:
        @serve(limit)
        def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
            """Which it works out when it is asked."""
            about = opened(args[0])
            if f.world.created.has(about):
                with outside_of_modes():
                    return limit(about)
            return f.world.calls.native(f, limit, args, kwargs)

    for _limit in ("min", "max"):
        serve_limit(vars(np.iinfo)[_limit].fget)


@serve(abs, looks=Looks.DEEP, on_symbols=abs, why="a pure builtin")
def serve_abs(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world = f.world
    if len(args) == 1 and is_array(opened(args[0])):
        return call_numpy(world, np.absolute, args, kwargs)
    return world.calls.native(f, abs, args, kwargs)


# ---- tensors


@serve(torch.Tensor.numpy)
def serve_numpy(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world = f.world
    if len(args) != 1 or kwargs or np is None or not config.trace_numpy:
        return world.calls.native(f, torch.Tensor.numpy, args, kwargs)
    return world.feature(Arrays).of_tensor(opened(args[0]))


@serve(torch.from_numpy)
def serve_from_numpy(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world = f.world
    if len(args) != 1 or kwargs or not is_array(opened(args[0])):
        return world.calls.native(f, torch.from_numpy, args, kwargs)
    return world.feature(Arrays).as_tensor(opened(args[0]))


@serve(torch.as_tensor)
def serve_as_tensor(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Of the same memory, unless it has to be of another type."""
    world = f.world
    if not args or not is_array(opened(args[0])):
        return world.calls.native(f, torch.as_tensor, args, kwargs)
    return world.calls.native(
        f, torch.as_tensor, [world.feature(Arrays).as_tensor(opened(args[0])), *args[1:]], kwargs
    )


@serve(torch.tensor)
def serve_tensor(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A copy."""
    world = f.world
    if len(args) != 1 or not is_array(opened(args[0])):
        return world.calls.native(f, torch.tensor, args, kwargs)
    if not kwargs.keys() <= {"dtype"}:
        refuse("torch.tensor of an array")
    copied = world.feature(Arrays).as_tensor(opened(args[0])).clone(memory_format=torch.contiguous_format)
    return world.calls.native(f, torch.as_tensor, [copied], kwargs)
