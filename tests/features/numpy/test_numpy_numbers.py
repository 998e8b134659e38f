"""Numbers of NumPy's together with tensors: what functions make of those that are known is known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from check import Comparison, entries, reasons, why_not
from framelift.core import breaks
from sameness import alike


@framelift.disable
def stop() -> None:
    pass


def ignoring(x: torch.Tensor) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return x * 2, np.log(0.0), np.sqrt(-1.0), np.float64(3.0) * 2


def ignoring_all_but_one(x: torch.Tensor) -> Any:
    with np.errstate(all="ignore"), np.errstate(over="raise"):
        try:
            return x, np.log(0.0), np.float32(1e30) * np.float32(1e30)
        except FloatingPointError:
            return x * 3


def ignoring_across_a_break(x: torch.Tensor) -> Any:
    with np.errstate(divide="ignore"):
        y = x * np.log(5)
        stop()
        z = y + np.log(0.0)
    return y, z, np.log(2), np.geterr()["divide"]


WHOLE: dict[str, Callable[[torch.Tensor], Any]] = {
    "sqrt": lambda x: x / np.sqrt(2),
    "sqrt of a size": lambda x: x / np.sqrt(x.shape[-1]),
    "log": lambda x: x * np.log(5),
    "power": lambda x: x * np.power(10000, 2 * 3 / 8),
    "float32": lambda x: (x * np.float32(0.1), np.float32(0.1) * x, x.long() * np.float32(0.1)),
    "float16": lambda x: (x + np.float16(0.1), torch.clamp(x, np.float16(-0.5), np.float16(0.5))),
    "int64": lambda x: (x * np.int64(3), x.reshape(np.int64(3), 1), x[np.int64(1)], x.sum(np.int64(0))),
    "full": lambda x: (torch.full((2,), np.int64(3)), torch.full_like(x, np.float32(0.1))),
    "tensor of float64": lambda x: (torch.tensor(np.float64(1.5)), torch.tensor([np.sqrt(2), 1.0])),
    "tensor of float32": lambda x: (torch.tensor(np.float32(0.1)), torch.as_tensor([np.float32(0.1)])),
    "tensor of int32": lambda x: (torch.tensor(np.int32(3)), x.new_tensor([np.int16(3)])),
    "as tensor": lambda x: torch.as_tensor(np.float64(2.0)),
    "tensor of a dtype": lambda x: torch.tensor(np.float64(2.5), dtype=torch.float32),
    "item": lambda x: (x * np.exp(1).item(), np.int32(3).item()),
    "prod": lambda x: x.reshape(int(np.prod([3, 1]))),
    "prod of a shape": lambda x: x.reshape(np.prod(x.shape)) * np.max((2, 3)) + np.mean([1.0, 2.0]),
    "limits": lambda x: x.clamp(min=np.finfo(np.float32).min, max=np.finfo(np.float32).max),
    "branches": lambda x: x * 2 if np.sqrt(4) > 1 and not np.isnan(3.0) else x,
    "results": lambda x: (x * 2, np.sqrt(2), np.sum([1, 2]), type(np.sin(0.5)) is np.float64),
    "ignoring": ignoring,
}


def compared(fn: Any, compiled: Any) -> None:
    x = torch.arange(3.0)
    Comparison().same(fn(x), compiled(x), "result")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", WHOLE)
def test_captured_whole(name: str, backend: str) -> None:
    compiled = framelift.compile(WHOLE[name], backend=backend, fullgraph=True)
    for _ in range(2):
        compared(WHOLE[name], compiled)
    assert why_not(compiled) is None
    assert entries(compiled) == 1


@pytest.mark.parametrize("name", ["sqrt of a size", "prod of a shape", "int64"])
def test_with_dynamic_shapes(name: str) -> None:
    fn = WHOLE[name]
    compared(fn, framelift.compile(fn, backend="eager", dynamic=True))


def test_what_torch_takes_for_something_else() -> None:
    def fn(x: torch.Tensor) -> Any:
        return x + 1, torch.full((2,), np.bool_(True)), x * np.complex64(2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = framelift.compile(fn, backend="eager")
        compared(fn, compiled)
    assert breaks.GRAPH_ARGUMENT.name in reasons(compiled)


def test_errors_are_raised_and_warned_of() -> None:
    def dividing(x: torch.Tensor) -> Any:
        return x * 2, np.log(0.0)

    compiled = framelift.compile(dividing, backend="eager")
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            compiled(torch.ones(3))
    assert breaks.NUMPY.name in reasons(compiled)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        compared(dividing, compiled)
    compared(ignoring_all_but_one, framelift.compile(ignoring_all_but_one, backend="eager"))


def test_what_is_ignored_across_a_break() -> None:
    compiled = framelift.compile(ignoring_across_a_break, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            compared(ignoring_across_a_break, compiled)
    assert np.geterr()["divide"] == "warn"


def test_numbers_from_outside_are_guarded() -> None:
    compiled = framelift.compile(lambda x, n: x * n, backend="eager", fullgraph=True)
    x = torch.ones(3)
    for number in (np.int64(3), np.int64(4), np.int32(3), np.int64(3), np.float32(0.5), 3):
        Comparison().same(x * number, compiled(x, number), "result")


def test_a_number_that_changes_is_told_as_a_number() -> None:
    for numbers, text, cause in [
        ([np.float64(0.5), np.float64(1.5)], "n == 0.5, found 1.5", "float"),
        ([np.int16(3), np.int16(4)], "n == 3, found 4", "integer"),
    ]:
        framelift.reset()
        compiled = framelift.compile(lambda x, n: x * n, backend="eager", fullgraph=True)
        for number in numbers:
            compiled(torch.ones(3), number)
        (record,) = compiled._framelift_context.code_states.values()
        (again,) = record.recompiles
        assert {str(failure): failure.cause.name for failure in again.by_failure()} == {text: cause}


# ---- numbers from outside that are others in each call


def by_two(x: torch.Tensor, y: Any) -> Any:
    return {"a": x + 1, "b": y / 2, "c": (-y, y * 2.5, y)}


def with_tensors(x: torch.Tensor, y: Any) -> Any:
    z = x.clone()
    z *= y
    return x * y, y - x, x / y, x > y, x.int() * y, z


def of_arrays(x: torch.Tensor, y: Any) -> Any:
    return np.arange(3) + y, x.numpy() * y


def indexed(x: torch.Tensor, y: Any) -> Any:
    return x[int(y) % 2 :], list(range(int(y))), f"{y}"


def branched(x: torch.Tensor, y: Any) -> Any:
    return x + 1 if y > 2 else x - 1


def shown_between(x: torch.Tensor, y: Any) -> Any:
    x = x + 1
    framelift.graph_break()
    return x * y, y + 1


KINDS = [np.int64, np.int32, np.uint8, np.float64, np.float32, np.float16]


def as_parts(found: Any) -> Any:
    """Arrays as what they hold."""
    if type(found) is np.ndarray:
        return str(found.dtype), found.tolist()
    return tuple(map(as_parts, found)) if type(found) is tuple else found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fn", [by_two, with_tensors, of_arrays, indexed, branched, shown_between])
def test_numbers_that_change_are_captured_once_more(fn: Callable[..., Any], kind: Any) -> None:
    """Unless the program needs a definite value."""
    compiled = framelift.compile(fn, backend="eager")
    for n in (2, 3, 5, 6, 2, 9):
        x = torch.arange(4.0)
        with np.errstate(all="ignore"):
            alike(as_parts(fn(x, kind(n))), as_parts(compiled(x, kind(n))))
    if fn in (by_two, with_tensors, of_arrays) and kind is not np.float16:
        assert entries(compiled) == 2


def test_a_number_that_changes_may_be_of_another_type() -> None:
    compiled = framelift.compile(by_two, backend="aot_eager")
    numbers = [np.int64(1), np.int64(2), 3, np.float64(4), np.float64(5), 6.0, np.float32(7), np.int64(8)]
    for number in numbers:
        alike(by_two(torch.ones(2), number), compiled(torch.ones(2), number))
