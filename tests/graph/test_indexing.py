"""Tensors indexed with numbers that vary, and with tensors of one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import Outcome, compare, copied, run
from framelift.testing import CompileCounterWithBackend

Index = Callable[[Any, torch.Tensor], Any]

INDICES: dict[str, Index] = {
    "number": lambda p, i: p,
    "second": lambda p, i: (slice(None), p),
    "last": lambda p, i: (..., p),
    "behind dots": lambda p, i: (0, ..., p),
    "two": lambda p, i: (p, p),
    "negative": lambda p, i: (slice(None), -p - 1),
    "sum": lambda p, i: (p + 1, slice(None, p)),
    "with a slice": lambda p, i: (slice(p, p + 2), p),
    "with None": lambda p, i: (None, p, None),
    "with a step": lambda p, i: (slice(None, None, 2), p),
    "before a tensor": lambda p, i: (p, i),
    "between tensors": lambda p, i: (i, p, i),
    "behind a mask": lambda p, i: (i > 1, p),
    "list": lambda p, i: [p, 0],
    "list behind": lambda p, i: (slice(None), [p, p]),
    "list and number": lambda p, i: (p, [0, p]),
}


def getting(index: Index) -> Callable[..., Any]:
    def get(x: torch.Tensor, p: Any, i: torch.Tensor) -> Any:
        part = x[index(p, i)]
        return part * 2, part.shape, part.stride()

    return get


def setting(index: Index) -> Callable[..., Any]:
    def put(x: torch.Tensor, p: Any, i: torch.Tensor) -> Any:
        x[index(p, i)] = p
        x[index(p, i)] += 1
        return x * 2

    return put


def outcomes(fn: Callable[..., Any], numbers: list[Any]) -> list[Outcome]:
    x, i = torch.arange(4.0**3).reshape(4, 4, 4), torch.tensor([0, 2, 1, 3])
    return [run(fn, copied((x, number, i)), {}) for number in numbers]


@pytest.mark.parametrize("doing", [getting, setting])
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_index_that_varies_is_compiled_for_all_values_at_once(
    backend: str, name: str, doing: Callable[[Index], Callable[..., Any]]
) -> None:
    fn, numbers = doing(INDICES[name]), [2, 3, 2]
    numbers = [2, 1] if name in ("sum", "with a slice") else numbers
    counter = CompileCounterWithBackend(backend)
    compiled = framelift.compile(fn, backend=counter, dynamic=True, fullgraph=True, isolate_recompiles=True)
    for expected, found in zip(outcomes(fn, numbers), outcomes(compiled, numbers), strict=True):
        compare(expected, found)
    assert counter.frame_count == 1 or name in ("sum", "with a slice")


@pytest.mark.parametrize("doing", [getting, setting])
@pytest.mark.parametrize("name", INDICES)
def test_an_index_that_is_out_of_range_raises_what_it_does_without_capture(
    name: str, doing: Callable[[Index], Callable[..., Any]]
) -> None:
    fn, numbers = doing(INDICES[name]), [2, 1, 4, 0, -1, 3, -5]
    compiled = framelift.compile(fn, backend="eager", isolate_recompiles=True)
    for expected, found in zip(outcomes(fn, numbers), outcomes(compiled, numbers), strict=True):
        compare(expected, found)


@pytest.mark.parametrize("doing", [getting, setting])
@pytest.mark.parametrize("name", [name for name in INDICES if "list" not in name and "with a s" not in name])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_tensor_of_one_number_is_an_index_of_one_graph(
    backend: str, name: str, doing: Callable[[Index], Callable[..., Any]]
) -> None:
    fn, numbers = doing(INDICES[name]), [torch.tensor(n) for n in (2, 1, 2)]
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, isolate_recompiles=True)
    for expected, found in zip(outcomes(fn, numbers), outcomes(compiled, numbers), strict=True):
        compare(expected, found)


TRUTHS: dict[str, Callable[..., Any]] = {
    "branch": lambda mask, n: "yes" if mask[n] else "no",
    "not": lambda mask, n: not mask[n],
    "both": lambda mask, n: bool(mask[n] and mask[n - 1]),
    "function": lambda mask, n: torch.is_nonzero(mask[n]),
    "slice": lambda mask, n: bool(mask[n : n + 1]),
    "several": lambda mask, n: bool(mask[: n + 1]),
    "none": lambda mask, n: bool(mask[n:n]),
    "while": lambda mask, n: next(k for k in range(n, len(mask)) if mask[k]),
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_truth_of_an_element_at_an_index_that_varies(name: str, dynamic: bool | None) -> None:
    """A break, and no mistake: which any test would fail for."""
    fn, mask = TRUTHS[name], torch.tensor([True, False, True, False, True])
    compiled = framelift.compile(lambda x, n: (x + 1, fn(x, n)), backend="eager", dynamic=dynamic)
    for n in (1, 2, 3):
        try:
            expected = fn(mask, n)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                compiled(mask, n)
        else:
            assert compiled(mask, n)[1] == expected
