"""Operators on a tensor and an array: the array computes, and the tensor's class wraps the result."""

from __future__ import annotations

import itertools
import operator
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from check import reasons

OPERATORS = "add sub mul truediv pow mod floordiv matmul lt le gt ge eq and_ or_ xor iadd imul isub"
TENSORS = {
    "float32": torch.arange(1.0, 4.0),
    "int64": torch.arange(1, 4),
    "bool": torch.tensor([True, False, True]),
    "one number": torch.tensor(2.0),
}
ARRAYS = {
    "float64": np.arange(3.0) + 1,
    "float32 rows": np.ones((2, 3), np.float32),
    "int32": np.arange(3, dtype=np.int32) + 1,
}
LEFT_TO_NUMPY = {"pow", "mod", "floordiv", "truediv"}
"""Operators that are refused for some types of elements, with arrays alone too."""


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", OPERATORS.split())
@pytest.mark.parametrize("array_first", [False, True], ids=["tensor first", "array first"])
def test_the_result_is_that_of_the_program(name: str, array_first: bool) -> None:
    fn = getattr(operator, name)
    for tensor, array in itertools.product(TENSORS.values(), ARRAYS.values()):
        given = (array, tensor) if array_first else (tensor, array)
        expected = outcome(fn, given)
        if "raised" in expected or "other" in expected:
            continue  # what Python has no such operator for
        whole = name not in LEFT_TO_NUMPY
        program = lambda x, y: fn(x, y)
        compiled = framelift.compile(program, backend="eager", fullgraph=whole, isolate_recompiles=True)
        assert outcome(compiled, given) == expected, (name, given)


def outcome(fn: Any, given: tuple[Any, ...]) -> dict[str, Any]:
    """What the operator gives, and what it leaves of its operands."""
    copies = tuple(x.copy() if isinstance(x, np.ndarray) else x.clone() for x in given)
    try:
        found = fn(*copies)
    except Exception as error:
        return {"raised": type(error)}
    left = [x.tolist() for x in copies]
    if type(found) is not torch.Tensor:
        return {"other": type(found), "operands": left}
    return {"dtype": found.dtype, "stride": found.stride(), "values": found.tolist(), "operands": left}


def test_a_tensor_that_is_differentiated_is_an_error_as_for_the_program() -> None:
    given = torch.ones(2, requires_grad=True), np.ones(2)
    program = lambda x, y: x * y
    assert outcome(framelift.compile(program, backend="eager"), given) == outcome(program, given)


def test_what_comes_of_it_is_computed_with() -> None:
    def program(x: Any, y: Any) -> Any:
        z = x * y + 1
        z += y
        return z.sum(), z.dtype

    expected = program(torch.arange(3.0), np.arange(3.0))
    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.arange(3.0), np.arange(3.0)) == expected


def test_numpys_warning_is_told_of_the_programs_line() -> None:
    def program(x: Any, y: Any) -> Any:
        return x + y

    def told(fn: Any) -> list[tuple[str, int]]:
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            fn(torch.ones(2), np.ones(2))
        return [(str(each.message), each.lineno) for each in log]

    assert told(framelift.compile(program, backend="eager", fullgraph=True)) == told(program)


def test_an_operator_that_gives_no_tensor_is_left_to_python() -> None:
    compiled = framelift.compile(lambda x, y: x != y, backend="eager")
    assert compiled(torch.ones(2), np.ones(2)) == (torch.ones(2) != np.ones(2))
    assert "NumPy" in reasons(compiled)
