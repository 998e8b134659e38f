"""Whether torch functions are enabled: around the call, inside, and across breaks, as eagerly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "enabled": contextlib.nullcontext,
    "disabled for subclasses": torch._C.DisableTorchFunctionSubclass,
    "disabled": torch._C.DisableTorchFunction,
}


class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            made = func(*args, **(kwargs or {}))
        return made * 2 if func is torch.add else made


def asked(x):
    enabled, disabled = torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled()
    return enabled, disabled, torch.overrides.has_torch_function((x,)), torch.add(x, 1).tolist()


def asked_in_contexts(x):
    with torch._C.DisableTorchFunctionSubclass():
        inside = asked(x)
        with torch._C.DisableTorchFunctionSubclass():
            deeper = asked(x)
        again = asked(x)
    return inside, deeper, again, asked(x)


def asked_without_any(x):
    before = asked(x)
    with torch._C.DisableTorchFunction():
        inside = asked(x)
    return before, inside, asked(x)


def asked_around_a_break(x):
    with torch._C.DisableTorchFunctionSubclass():
        print(end="")
        inside = asked(x)
    return inside, asked(x)


def asked_by_a_class(x):
    class Asking(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            before = torch._C._is_torch_function_enabled()
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})), before, torch._C._is_torch_function_enabled()

    return str(torch.add(x.as_subclass(Asking), 1))


PROGRAMS = (asked, asked_in_contexts, asked_without_any, asked_around_a_break, asked_by_a_class)


@pytest.mark.parametrize("cls", [torch.Tensor, Doubling])
@pytest.mark.parametrize("first", SURROUNDINGS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_whether_torch_functions_are_enabled_is_read_each_time(program: Any, first: str, cls: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    x = torch.ones(2).as_subclass(cls)
    for name in (first, *SURROUNDINGS, first):
        with SURROUNDINGS[name]():
            expected, found = program(x), compiled(x)
        assert found == expected, name
