"""Marks on tensors, of torch's and of Framelift's, and options that name what may vary."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch._dynamo import decorators  # noqa: TID251 (its marks count too)
from torch.fx.experimental import symbolic_shapes

import framelift
from check import captures


def sized(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def compiled_for(fn: Any, sizes: list[int], mark: Any, **options: Any) -> int:
    """How many captures there are; results must be eager's."""
    compiled = framelift.compile(fn, backend="eager", fullgraph=True, isolate_recompiles=True, **options)
    for size in sizes:
        x = sized(size, 3)
        mark(x)
        assert torch.equal(compiled(x), fn(x))
    return captures(compiled)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x.shape[0]


@pytest.mark.parametrize("marks", [framelift, decorators])
def test_sizes_that_meet_a_condition_have_captures_of_their_own(marks: Any) -> None:
    conditions = [lambda size: size == 8, lambda size: size % 16 == 0]
    mark = lambda x: marks.mark_dynamic(x, 0, specialize_on=conditions)
    assert compiled_for(doubled, [5, 8, 7, 32, 9, 8, 48, 3], mark) == 3


@pytest.mark.parametrize("marks", [framelift, decorators])
def test_a_hint_is_for_compilers_only(marks: Any) -> None:
    hints = []

    def backend(graph: Any, examples: list[Any]) -> Any:
        for node in graph.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor) and isinstance(value.shape[0], torch.SymInt):
                size = value.shape[0].node
                hints.append(size.shape_env.var_to_hint_override.get(size.expr))
        return graph.forward

    compiled = framelift.compile(doubled, backend=backend, fullgraph=True)
    for size in (5, 700):
        x = sized(size, 3)
        marks.mark_dynamic(x, 0, hint_override=512)
        assert torch.equal(compiled(x), doubled(x))
    assert 512 in hints and captures(compiled) == 1


def test_programs_that_catch_torchs_error_of_marks_are_answered() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 4 else x

    with pytest.raises(symbolic_shapes.ConstraintViolationError) as caught:
        compiled_for(fn, [4], lambda x: framelift.mark_dynamic(x, 0))
    assert isinstance(caught.value, framelift.exc.ConstraintViolationError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), framelift.exc.ConstraintViolationError)


@pytest.mark.parametrize("marks", [framelift, decorators])
def test_a_strict_mark_forbids_to_fix_the_size(marks: Any) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] == 4)
        return x * 2

    assert compiled_for(fn, [4, 4], lambda x: marks.mark_unbacked(x, 0)) == 1
    with pytest.raises(framelift.exc.ConstraintViolationError, match=r"torch._check\(x.shape\[0\] == 4\)"):
        compiled_for(fn, [4], lambda x: marks.mark_unbacked(x, 0, strict=True))


@pytest.mark.parametrize("marks", [framelift, decorators])
def test_bounds_of_a_size_that_is_not_looked_at(marks: Any) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 1 else x  # known by the bounds

    assert compiled_for(fn, [4, 6, 3], lambda x: marks.mark_unbacked(x, 0, min=2, max=8)) == 1


def test_sizes_with_one_name_are_equal() -> None:
    compiled = framelift.compile(lambda x, y: x + y, backend="eager", fullgraph=True)
    for size in (4, 6, 9):
        x, y = sized(size), sized(size)
        framelift.mark_unbacked(x, 0, shape_id="batch")
        decorators.mark_unbacked(y, 0, shape_id="batch")
        assert torch.equal(compiled(x, y), x + y)
    assert captures(compiled) == 1


def test_marks_of_both_kinds_on_one_tensor() -> None:
    def mark(x: torch.Tensor) -> None:
        decorators.mark_dynamic(x, 0, min=2, max=100)
        framelift.mark_static(x, 1)
        framelift.maybe_mark_dynamic(x, 0)

    assert compiled_for(doubled, [4, 5, 6], mark) == 1


@pytest.mark.parametrize("names", ["x", "L['x']", "y, x", "[wx]"])
def test_options_name_what_is_dynamic(names: str) -> None:
    with framelift.config.patch(dynamic_sources=names):
        assert compiled_for(lambda x: x * x.shape[0], [4, 5, 6], lambda x: None) == 1
    with framelift.config.patch(unbacked_sources=names):
        assert compiled_for(lambda x: x * x.shape[0], [4, 1, 6], lambda x: None) == 1


def test_a_number_is_named() -> None:
    with framelift.config.patch(dynamic_sources="n"):
        compiled = framelift.compile(lambda x, n: x * n, backend="eager")
        for n in (3, 4, 5):
            assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * n)
    assert captures(compiled) == 1


@pytest.mark.parametrize("static", [True, False])
def test_parameters_may_vary_with_all_else(static: bool) -> None:
    compiled = framelift.compile(lambda w: w * 2, backend="eager", dynamic=True)
    with framelift.config.patch(force_parameter_static_shapes=static):
        for size in (4, 5, 6):
            compiled(torch.nn.Parameter(torch.ones(size)))
    assert captures(compiled) == (3 if static else 1)
    marked = torch.nn.Parameter(torch.ones(4))
    framelift.mark_dynamic(marked, 0)
    compiled = framelift.compile(lambda w: w * 2, backend="eager")
    compiled(marked), compiled(torch.nn.Parameter(torch.ones(5)))
    assert captures(compiled) == 1, "what the program marks is marked"


@pytest.mark.parametrize("mark", [framelift.mark_dynamic, decorators.mark_dynamic])
def test_a_mark_that_does_not_hold(mark: Any) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 2 else x

    x = torch.ones(2, 3)
    mark(x, 0)
    with pytest.raises(framelift.exc.ConstraintViolationError, match="marked dynamic") as raised:
        framelift.compile(fn, backend="eager")(x)
    assert "Constraints violated (L['x'].size()[0])!" in str(raised.value)
    framelift.reset()
    with framelift.config.patch(allow_ignore_mark_dynamic=True):
        assert torch.equal(framelift.compile(fn, backend="eager")(x), x + 1)


@pytest.mark.parametrize("mark", [decorators.mark_dynamic, framelift.mark_unbacked])
def test_a_size_outside_of_its_mark_is_an_error(mark: Any) -> None:
    compiled = framelift.compile(doubled, backend="eager")
    for size in (5, 12, 8):
        x = sized(size, 3)
        mark(x, 0, min=2, max=10)
        if size <= 10:
            assert torch.equal(compiled(x), doubled(x))
            continue
        with pytest.raises(
            symbolic_shapes.ConstraintViolationError, match=r"x.shape\[0\] is 12.* from 2 to 10"
        ):
            compiled(x)
    assert captures(compiled) == 1


def test_a_size_is_fixed_in_captured_code() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        framelift.mark_static(x, -1)
        return x.sin() + y.sum()

    compiled = framelift.compile(fn, backend="eager", fullgraph=True, dynamic=True)
    for rows, columns, others, count in [(3, 4, 5, 1), (6, 4, 7, 1), (3, 5, 6, 2), (8, 5, 4, 2)]:
        x, y = torch.ones(rows, columns), torch.ones(others)
        assert torch.equal(compiled(x, y), fn(x, y)) and captures(compiled) == count
