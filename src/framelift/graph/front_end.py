"""Keeps torch from importing its own front end for fake tensors, before something really needs that.

Modes for fake tensors look for switches of their cache in `torch._dynamo.config`, and importing that brings
all of torch's compilers with it: seconds, in a program that may never use any of them. The methods that do so
are run with names of their module replaced.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib
import inspect
import os
import sys
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch

from framelift.graph.deferred import importing_within_trace, symbolic_shapes

FRONT_END = "torch._dynamo.config"
"""Where modes look for a few switches. torch imports its own front end and all of its compilers for that."""


class FrontEndSettings:
    """The switches as they are where nobody has imported that module."""

    fake_tensor_cache_enabled = os.environ.get("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "1") == "1"
    fake_tensor_cache_crosscheck_enabled = (
        os.environ.get("TORCH_FAKE_TENSOR_DISPATCH_CACHE_CROSSCHECK") == "1"
    )
    _custom_ops_profile = None

    def __getattribute__(self, name: str) -> Any:
        if name in vars(FrontEndSettings) and not hasattr(sys.modules.get(FRONT_END), name):
            return vars(FrontEndSettings)[name]  # also while the module is being imported
        load_front_end()
        return getattr(sys.modules[FRONT_END], name)


class TorchWithSettings:
    """torch, with these in the place of its front end."""

    _dynamo = SimpleNamespace(config=FrontEndSettings())

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        setattr(self, name, found)
        return found


torch_with_settings = TorchWithSettings()


def import_less(
    name: str, scope: Any = None, names: Any = None, wanted: tuple[str, ...] | None = (), level: int = 0
) -> Any:
    """`import torch.x` gives torch with the settings; the front end itself is not imported by that."""
    if name == FRONT_END and not wanted:
        return torch_with_settings
    found = builtins.__import__(name, scope, names, wanted or (), level)
    return torch_with_settings if found is torch and not wanted else found


def importing_less(method: Any, **instead: Any) -> Any:
    """A method of torch's that imports nothing for the sake of the switches. `instead`: what it finds for
    other names of its module."""
    scope = {**method.__globals__, "torch": torch_with_settings, **instead}
    scope["__builtins__"] = {**vars(builtins), "__import__": import_less}
    made = FunctionType(method.__code__, scope, method.__name__, method.__defaults__, method.__closure__)
    made.__kwdefaults__ = method.__kwdefaults__
    return made


REFERENCES = (
    *("torch._refs", "torch._refs.nn.functional", "torch._refs.special", "torch._refs.linalg"),
    *("torch._refs.fft", "torch._decomp.decompositions", "torch._meta_registrations"),
)
"""Modules of functions that compute what operators give for fakes. Many have a wrapper around them that keeps
them from being compiled by the front end, and imports it for that when they are first called."""

KEPT_OUT = next(
    (code for code in torch._disable_dynamo.__code__.co_consts if getattr(code, "co_name", "") == "inner"),
    None,
)
"""The code of such wrappers."""
INSTEAD = "__dynamo_disable"
"""The attribute of a function in which its wrapper keeps what to call."""


@functools.cache
def load_symbolic_shapes() -> None:
    """Has torch import what most of its kernels for fakes ask something of, symbols or not, and sympy with
    it: before the first of these is run. Of many operators Framelift itself knows what they give."""
    with importing_within_trace():
        importlib.import_module(symbolic_shapes.__name__)


@functools.cache
def call_references_directly() -> None:
    """Until the front end is there nobody else would compile them."""
    seen: set[FunctionType] = set()
    waiting = [one for module in REFERENCES for one in vars(importlib.import_module(module)).values()]
    while waiting:
        function = waiting.pop()
        if type(function) is not FunctionType or function in seen:
            continue
        seen.add(function)
        if function.__code__ is KEPT_OUT:
            inside = inspect.getclosurevars(function).nonlocals["fn"]
            if not hasattr(inside, INSTEAD):
                setattr(inside, INSTEAD, directly(function, inside))
        waiting += [cell.cell_contents for cell in function.__closure__ or ()]  # what it is a wrapper of


def directly(wrapper: Any, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if FRONT_END not in sys.modules:
            return function(*args, **kwargs)
        delattr(function, INSTEAD)
        return wrapper(*args, **kwargs)

    return call


@functools.cache
def load_for_symbols() -> None:
    """The same of what torch imports to tell whose code has asked something of a symbol."""
    load_front_end()
    with importing_within_trace():
        symbolic_shapes.uninteresting_files()


@functools.cache
def load_front_end() -> None:
    """Has torch import what some of its code for fakes needs, before a trace comes to that: modules that
    are imported must not see the modes of a trace. Some of the frames that this is done in lead to
    themselves, and so to those of the program, until the collector has seen them."""
    load_symbolic_shapes()
    there = DEFAULT_GROUPS in sys.modules
    try:
        with importing_within_trace():
            importlib.import_module(FRONT_END)
            gc.collect(0)
    finally:
        if not there and DEFAULT_GROUPS in sys.modules:
            let_go_of_group(sys.modules[DEFAULT_GROUPS])


DEFAULT_GROUPS = "torch.distributed.nn.functional"


def let_go_of_group(module: ModuleType) -> None:
    """The functions of the module have the process group for a default that was there when it was imported,
    and None, which means the same, if there was none. One that is kept outlives `destroy_process_group()`,
    and its threads abort the process at exit."""
    group = torch.distributed.ProcessGroup
    for function in vars(module).values():
        if isinstance(function, FunctionType) and function.__defaults__:
            defaults = function.__defaults__
            function.__defaults__ = tuple(None if isinstance(one, group) else one for one in defaults)
