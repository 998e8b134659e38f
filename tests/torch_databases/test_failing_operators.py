"""Operators of torch's database that fail on some data fail as eagerly, though nobody uses what they give.

The tensors of each sample are filled with data that makes it fail where it can: numbers that are too large,
negative, zero, not a number. Shapes and dtypes stay, so what fails does so for its data."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("expecttest", reason="torch's database of operators needs it")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, OpInfo, UnaryUfuncInfo  # noqa: E402

import framelift  # noqa: E402
from framelift.graph.safe_operators import LOOKING_AT_DATA, may_fail  # noqa: E402
from torch_databases.sweep_operators import name_of  # noqa: E402

CRASHING = {"linalg.ldl_solve", "linalg.lu_solve", "lu_solve", "linalg.eigvals"}
"""Operators with which wrong pivots, or what is not a number, may end the process."""
IN_PYTHON = {"cov", "narrow", "tensor_split", "nn.functional.gaussian_nll_loss", "nn.functional.one_hot"}
"""What looks at the data itself, and fails in no operator."""

FILLED: dict[str, tuple[float, int]] = {
    "beyond": (1e3, 100),
    "negative": (-1e3, -100),
    "zero": (0.0, 0),
    "nothing": (float("nan"), -1),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class FailingOperator(TorchDispatchMode):
    """Notes which operator has failed."""

    found: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            self.found = self.found or func
            raise


def filled(kind: str) -> Callable[[Any], Any]:
    def fill(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided or x.dtype is torch.bool:
            return x
        number = FILLED[kind][not (x.is_floating_point() or x.is_complex())]
        return x.detach().clone().fill_(abs(number) if x.dtype is torch.uint8 else number)

    return fill


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def failing_calls(op: OpInfo) -> Iterator[tuple[str, Call, Any]]:
    """(what the tensors are filled with, arguments on which it fails, the operator that does)."""
    is_ufunc = isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo))
    for dtype in (torch.float32, torch.int64):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for sample in itertools.islice(op.sample_inputs("cpu", dtype), 1 if is_ufunc else 3):
            given = (sample.input, sample.args, sample.kwargs)
            try:
                op.op(given[0], *given[1], **given[2])
            except Exception:
                continue
            for kind in FILLED:
                call: Call = pytree.tree_map(filled(kind), given)
                watched = FailingOperator()
                try:
                    with watched:
                        op.op(call[0], *call[1], **call[2])
                except Exception:
                    yield kind, call, watched.found


def unused(op: Any) -> Callable[..., Any]:
    def fn(x: Any, args: Any, kwargs: Any, done: list[int]) -> Any:
        done.append(1)
        try:
            op(x, *args, **kwargs)
        except (RuntimeError, ValueError, IndexError) as error:
            done.append(2)
            return type(error).__name__, str(error)
        return "nothing failed"

    return fn


KNOWN = [
    op for op in op_db if op.name not in CRASHING and not (op.name == "as_strided" or op.variant_test_name)
]


@pytest.mark.parametrize("op", KNOWN, ids=name_of)
def test_an_operator_that_fails_on_data_is_not_left_out(op: OpInfo) -> None:
    first = True
    for kind, call, found in failing_calls(op):
        assert op.name in IN_PYTHON or (found is not None and may_fail(found)), kind
        if not first:
            continue
        first, fn = False, unused(op.op)
        for backend in ("eager", "aot_eager"):
            compiled = framelift.compile(fn, backend=backend)
            outcomes = []
            for each in (fn, compiled, compiled):
                torch.manual_seed(0)
                done: list[int] = []
                outcomes.append((each(*pytree.tree_map(filled(kind), call), done), done))
            assert outcomes[0] == outcomes[1] == outcomes[2], (kind, backend)


REFUSING = [
    op
    for op in op_db
    if op.error_inputs_func is not None and op.name not in CRASHING and not op.variant_test_name
]
MOST_REFUSED = 8
"""How many calls that an operator refuses are tried."""


def caught(op: Any) -> Callable[..., Any]:
    def fn(x: Any, args: Any, kwargs: Any, done: list[int]) -> Any:
        done.append(1)
        try:
            op(x, *args, **kwargs)
        except Exception as error:
            return type(error).__name__, len(done)
        return "nothing failed"

    return fn


@pytest.mark.parametrize("op", REFUSING, ids=name_of)
def test_what_an_operator_refuses_is_refused(op: OpInfo) -> None:
    """Shapes, dtypes and numbers, by errors of eager's classes, though nobody uses the result."""
    fn = caught(op.op)
    compiled = framelift.compile(fn, backend="eager")
    for found in itertools.islice(op.error_inputs("cpu"), MOST_REFUSED):
        sample = found.sample_input
        if any(isinstance(each, torch.Tensor) and each.layout is not torch.strided for each in sample.args):
            continue
        given = sample.input, sample.args, sample.kwargs
        expected = fn(*pytree.tree_map(lambda x: x, given), [])
        assert compiled(*given, []) == expected, (str(found.error_regex), compiled)


def test_functions_that_look_at_data_are_known() -> None:
    """`torch.nn.functional.one_hot` does not look at that of fakes."""
    assert torch.nn.functional.one_hot in LOOKING_AT_DATA
