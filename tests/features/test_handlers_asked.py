"""`__torch_function__` of tensor classes and modes is asked about what traces do themselves: gradients,
hooks, comparisons by functions of `operator`.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import framelift

ASKED: list[str] = []


class Asked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ASKED.append(getattr(func, "__name__", "?"))
        given = dict(kwargs or {})
        if func is torch.Tensor.backward:
            given["gradient"] = torch.tensor(3.0)
        return super().__torch_function__(func, types, args, given)


class Asking(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ASKED.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


def by_a_method(x: Any) -> Any:
    (x * 2).sum().backward()
    return x.grad


def by_a_function(x: Any) -> Any:
    torch.autograd.backward((x * 2).sum())
    return x.grad


def through_a_hook(x: Any) -> Any:
    y = (x * 2).sum()
    y.register_hook(lambda grad: grad * 5)
    y.backward(retain_graph=True)
    return x.grad


def retained(x: Any) -> Any:
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    return y.grad


def gradients(x: Any) -> Any:
    return torch.autograd.grad((x * 2).sum(), x)[0]


def compared(x: Any) -> Any:
    plain = torch.zeros(3)
    found = [one(plain, x) for one in (operator.lt, operator.ge, operator.__le__, operator.eq, operator.add)]
    return torch.stack([one * 1.0 for one in found])


PROGRAMS = [by_a_method, by_a_function, through_a_hook, retained, gradients, compared]


@pytest.mark.parametrize("how", ["class", "mode around", "mode inside"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.filterwarnings("ignore")
def test_handlers_are_asked_what_they_are_asked_eagerly(fn: Callable[..., Any], how: str) -> None:
    def inside(x: Any) -> Any:
        with Asking():
            return fn(x)

    program = inside if how == "mode inside" else fn

    def run(call: Callable[..., Any]) -> Any:
        x = torch.arange(3.0)
        x = (x.as_subclass(Asked) if how == "class" else x).requires_grad_()
        ASKED.clear()
        if how == "mode around":
            with Asking():
                found = call(x)
        else:
            found = call(x)
        asked = list(ASKED)
        return type(found), found.detach().tolist(), asked

    compiled = framelift.compile(program, backend="eager", isolate_recompiles=True)
    expected = run(program)
    assert [run(compiled), run(compiled)] == [expected, expected]


SIZED: dict[str, Callable[[Any], Any]] = {
    "a number of a size": lambda x: (x + 1, x.shape[0] * 2),
    "a size alone": lambda x: x.shape[0] * 2,
    "a stride": lambda x: (x * 2, x.stride(0) + x.stride(1)),
    "behind a break": lambda x: (n := x.shape[0] + 1, told(n), n * x.shape[1]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("how", ["class", "mode around", "mode inside"])
@pytest.mark.parametrize("name", SIZED)
def test_nobody_is_asked_for_the_sizes_that_vary(name: str, how: str, dynamic: bool | None) -> None:
    def program(x: Any) -> Any:
        if how == "mode inside":
            with Asking():
                told("inside")
                return SIZED[name](x)
        return SIZED[name](x)

    def run(call: Callable[..., Any], size: int) -> Any:
        ASKED.clear()
        x = torch.arange(3.0 * size).reshape(3, size).t()
        x = x.as_subclass(Asked) if how == "class" else x
        with Asking() if how == "mode around" else contextlib.nullcontext():
            found = call(x)
        return list(ASKED), found[1:] if isinstance(found, tuple) else found

    compiled = framelift.compile(program, backend="eager", dynamic=dynamic)
    for size in (2, 3, 4, 5):
        assert run(compiled, size) == run(program, size)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_default_device_is_no_reason_to_break(device: Any) -> None:
    def fn(x: Any) -> Any:
        with torch.device(device or "cpu"):
            return by_a_method(x)

    found = framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))
    assert found.tolist() == [2.0, 2.0, 2.0]


def test_an_append_comes_before_a_lazy_module_is_initialised() -> None:
    class Failing(torch.nn.LazyLinear):
        def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
            seen.append(list(log))
            super().initialize_parameters(*args, **kwargs)

    def fn(module: Any, x: Any, log: Any) -> Any:
        log.append("called")
        return module(x)

    outcomes = []
    for call in (fn, framelift.compile(fn, backend="eager", isolate_recompiles=True)):
        torch.manual_seed(0)
        seen: list[Any] = []
        log: list[Any] = []
        out = call(Failing(2), torch.ones(1, 3), log)
        outcomes.append((out.tolist(), log, seen))
    assert outcomes[0] == outcomes[1]


@framelift.disable
def told(what: Any) -> None:
    ASKED.append(f"at {what}")


CONTEXTS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "a device": lambda: torch.device("cpu"),
    "view replay": lambda: torch.autograd._force_original_view_tracking(True),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_switches_around_breaks_are_seen_by_modes_as_eagerly(name: str) -> None:
    """What is switched back and on again around a break is no doing of the program's."""
    make = CONTEXTS[name]

    def inside(x: Any) -> Any:
        with make():
            told(1)
            with Asking():
                told(2)
                y = x * 2
                with torch.enable_grad():
                    told(3)
                    z = y + x
                told(4)
            told(5)
        return y, z

    def around(x: Any) -> Any:
        with Asking():
            with make():
                told(1)
                with torch.no_grad():
                    y = x * 2
                    told(2)
                told(3)
            told(4)
        return y, x + 1

    def set_by_calls(x: Any) -> Any:
        torch.set_grad_enabled(False)
        with Asking(), make():
            told(1)
            torch.set_grad_enabled(True)
            told(2)
            y = x * 2
        told(3)
        torch.set_grad_enabled(True)
        return y, x + 1

    for fn in (inside, around, set_by_calls):
        compiled = framelift.compile(fn, backend="eager")
        found = []
        for one in (fn, compiled, compiled):
            ASKED.clear()
            one(torch.ones(2, requires_grad=True))
            found.append(list(ASKED))
        assert found[0] == found[1] == found[2]
