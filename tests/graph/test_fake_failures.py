"""An operator that can't be run on tensors without data: each kind of failure is told apart and explained."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from check import check, entries, reasons, why_not
from framelift.core.breaks import REASONS
from framelift.dispatch.restarts import DECIDED_BY_DATA
from sameness import alike

X = torch.tensor([1.0, 0.0, 2.0])


@torch.library.custom_op("framelift_fakes::none", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.library.custom_op("framelift_fakes::fails", mutates_args=())
def with_failing_fake(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


@with_failing_fake.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("a mistake in the fake")


@torch.library.custom_op("framelift_fakes::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


@counted.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), 1), dtype=torch.int64)


FAILURES: dict[str, tuple[Any, str, type[Exception], str]] = {
    "a value": (
        lambda x: x.sin() * x.max().item() + 1,
        "data-dependent value",
        framelift.exc.Unsupported,
        "Keep the value in a tensor",
    ),
    "a branch": (
        lambda x: x.sin() if x.sum() > 0 else x.cos(),
        "data-dependent branch",
        framelift.exc.Unsupported,
        "torch.where or torch.cond",
    ),
    "data that C looks at": (
        lambda x: torch._VF._pad_packed_sequence(x + 1, torch.tensor([2, 1]), False, 0.0, 2)[0] * 2,
        "operator without a fake kernel",
        framelift.exc.Unsupported,
        "keep the call outside",
    ),
    "a shape": (
        lambda x: (x + 1, x.nonzero(), x * 2),
        "data-dependent shape",
        framelift.exc.Unsupported,
        "a form with a fixed shape",
    ),
    "a shape of the user's own": (
        lambda x: (x + 1, counted(x)),
        "data-dependent shape",
        framelift.exc.Unsupported,
        "a form with a fixed shape",
    ),
    "no fake kernel": (
        lambda x: without_fake(x + 1) * 2,
        "operator without a fake kernel",
        framelift.exc.Unsupported,
        "torch.library.register_fake",
    ),
    "a fake kernel that fails": (
        lambda x: with_failing_fake(x + 1) * 2,
        "fake kernel that fails",
        framelift.exc.TorchRuntimeError,
        "Repair what was given to torch.library.register_fake",
    ),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", FAILURES)
def test_each_kind_is_a_break_of_its_own_that_says_what_to_do(kind: str, backend: str) -> None:
    fn, reason, error, hint = FAILURES[kind]
    compiled = check(fn, X, calls=2, fullgraph=False, backend=backend)
    assert reasons(compiled) == [reason] and hint in REASONS[reason].hint
    assert why_not(compiled) is None and entries(compiled) == 1, "the rest is captured"
    if REASONS[reason] in DECIDED_BY_DATA:  # which one graph may hold
        check(fn, X, backend=backend)
        return
    with pytest.raises(error, match=reason) as caught:
        framelift.compile(fn, backend=backend, fullgraph=True)(X)
    assert hint in str(caught.value) and __file__ in str(caught.value)


def test_what_a_failing_fake_said_is_told() -> None:
    with pytest.raises(framelift.exc.TorchRuntimeError, match="KeyError: 'a mistake in the fake'"):
        framelift.compile(with_failing_fake_called, backend="eager", fullgraph=True)(X)


def with_failing_fake_called(x: torch.Tensor) -> torch.Tensor:
    return with_failing_fake(x)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_plain_error_of_an_operator_is_the_programs(fullgraph: bool) -> None:
    """It gets the error that it gets without Framelift, which says so in the record only."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) @ torch.ones(7)

    framelift.reset()
    with pytest.raises(RuntimeError) as plain:
        fn(X)
    with pytest.raises(RuntimeError) as found:
        framelift.compile(fn, backend="eager", fullgraph=fullgraph)(X)
    assert type(found.value) is type(plain.value) and str(found.value) == str(plain.value)
    assert framelift.compile_records()[-1].failed == "the program raised RuntimeError"
    assert not framelift.counters["graph_break"]


def test_a_plain_error_that_the_program_handles_is_captured() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            return x @ torch.ones(7)
        except RuntimeError:
            return x.sin()

    compiled = check(fn, X, calls=2)
    assert entries(compiled) == 1


def test_an_operator_that_cannot_be_given_a_function() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x[:1], (x,))

    with pytest.raises(framelift.exc.UncapturedHigherOrderOpError, match="functions that an operator can't"):
        framelift.compile(fn, backend="eager", fullgraph=True)(X)


def test_captured_if_that_is_wanted() -> None:
    with framelift.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        check(FAILURES["a shape"][0], X)
        check(FAILURES["a shape of the user's own"][0], X)


def test_a_number_of_data_that_c_takes_for_a_size() -> None:
    """As `nn.LSTM` has it of packed sequences."""
    pack, lengths = torch._VF._pack_padded_sequence, torch.tensor([2, 1, 1])

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(2, pack(x[:, None], lengths, True)[1][0], 3)

    check(fn, X, fullgraph=False)
    with pytest.raises(framelift.exc.Unsupported, match="data-dependent value"):
        framelift.compile(fn, backend="eager", fullgraph=True)(X)


def test_a_view_that_is_not_possible_is_an_error_of_the_operator() -> None:
    def flat(x):
        try:
            return x.view(-1)
        except RuntimeError:
            return x.reshape(-1) * 2

    compiled = framelift.compile(flat, backend="eager", fullgraph=True)
    for n in (5, 6, 7):
        for x in (torch.randn(n, 3).t(), torch.randn(3, n)):
            alike(flat(x), compiled(x))
    assert entries(compiled) == 4
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        framelift.compile(lambda x: x.view(-1), backend="eager")(torch.randn(5, 3).t())
