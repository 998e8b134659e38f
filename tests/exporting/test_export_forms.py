"""`framelift.export` in its forms: with a tuple of arguments an `ExportedProgram`, without one a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

import framelift
from exporting.check_export import same
from framelift.exc import ConstraintViolationError, UserError

FOUR = torch.randn(4, 3)


def scaled(x: Any, other: Any = None, scale: Any = 2.0) -> Any:
    return x * scale if other is None else (x - other) * scale


def targets(module: torch.fx.GraphModule) -> set[Any]:
    return {node.target for node in module.graph.nodes if node.op.startswith("call")}


def test_a_tuple_of_arguments_makes_an_artifact() -> None:
    program = framelift.export(scaled, (FOUR,), {"scale": 3.0})
    assert isinstance(program, ExportedProgram)
    same(scaled(FOUR, scale=3.0), program.module()(FOUR, scale=3.0))
    assert isinstance(framelift.export(scaled, args=(), kwargs={"x": FOUR}), ExportedProgram)


def test_without_arguments_it_waits_for_a_call() -> None:
    module, guards = framelift.export(scaled)(FOUR, FOUR + 1, scale=3.0)
    same(scaled(FOUR, FOUR + 1, scale=3.0), module(FOUR, FOUR + 1, 3.0))
    assert guards
    layer = nn.Linear(3, 2)
    same(layer(FOUR), framelift.export(layer)(FOUR).graph_module(FOUR))


def test_options_of_graphs_are_those_of_export_graph() -> None:
    aten = torch.ops.aten
    table = torch._decomp.get_decompositions([aten.addcmul])
    fused: Callable[..., Any] = lambda x, y: torch.addcmul(x, x, y)  # noqa: E731
    module, _ = framelift.export(fused, aten_graph=True)(FOUR, FOUR)
    assert aten.addcmul.default in targets(module)
    options: dict[str, Any] = {"aten_graph": True, "decomposition_table": table, "tracing_mode": "fake"}
    module, _ = framelift.export(fused, **options)(FOUR, FOUR)
    assert aten.mul.Tensor in targets(module) and aten.addcmul.default not in targets(module)
    same(fused(FOUR, FOUR + 1), module(FOUR, FOUR + 1))
    early = framelift.export(lambda x: torch.softmax(x, -1), aten_graph=True, pre_dispatch=True)(FOUR)
    assert aten.softmax.int in targets(early.graph_module)
    leaves, _ = framelift.export(lambda pair: pair["a"] - pair["b"], same_signature=False)(
        {"a": FOUR, "b": FOUR + 1}
    )
    same([-torch.ones(4, 3)], list(leaves(FOUR, FOUR + 1)))


def test_sizes_of_graphs_vary_as_they_are_told_to() -> None:
    module, _ = framelift.export(scaled)(FOUR)
    same(scaled(torch.ones(7, 3)), module(torch.ones(7, 3)))
    definite, _ = framelift.export(scaled, assume_static_by_default=True)(FOUR)
    with pytest.raises(AssertionError, match=r"x\.size\(\)\[0\] == 4"):
        definite(torch.ones(7, 3))
    rows = ({0: Dim("rows")}, None, None)
    declared, _ = framelift.export(scaled, dynamic_shapes=rows)(FOUR, None, 2.0)
    same(scaled(torch.ones(7, 3)), declared(torch.ones(7, 3), None, 2.0))
    with pytest.raises(ConstraintViolationError, match="dynamic_shapes = "):
        framelift.export(lambda x: x + torch.ones(4, 3), dynamic_shapes=({0: Dim("n")},))(FOUR)


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        *[((FOUR,), {}), ((FOUR, FOUR + 1), {}), ((FOUR, None, 3), {})],
        *[((FOUR,), {"scale": 4}), ((), {"x": FOUR})],
    ],
)
def test_tensors_without_a_tuple_make_a_graph_at_once(args: Any, keywords: Any) -> None:
    module, _ = framelift.export(scaled, *args, **keywords)
    given = [*args, *keywords.values()]
    same(scaled(*args, **keywords), module(*given))


def test_tensors_without_a_tuple_go_with_options() -> None:
    module, _ = framelift.export(scaled, FOUR, FOUR + 1, aten_graph=True)
    assert torch.ops.aten.sub.Tensor in targets(module)
    same(scaled(FOUR, FOUR), module(FOUR, FOUR))


@pytest.mark.parametrize("pair", [(FOUR, FOUR + 1), [FOUR, FOUR + 1], {0: FOUR, 1: FOUR + 1}])
def test_with_options_of_graphs_what_follows_is_the_first_argument(pair: Any) -> None:
    def difference(pair: Any, scale: float = 1.0) -> Any:
        return (pair[0] - pair[1]) * scale

    module, _ = framelift.export(difference, pair, aten_graph=True)
    assert torch.ops.aten.sub.Tensor in targets(module)
    same(difference(pair), module(pair))
    again, _ = framelift.export(module, pair, aten_graph=True)
    same(difference(pair), again(pair))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: framelift.export(scaled, [FOUR]), r"a list.*export\(fn\)\(first"),
        (lambda: framelift.export(scaled, {"x": FOUR}), r"a dict.*export\(fn\)\(first"),
        (lambda: framelift.export(scaled, None), r"not a NoneType"),
        (lambda: framelift.export(scaled, (FOUR,), FOUR), "kwargs must be a dictionary"),
        (lambda: framelift.export(scaled, (FOUR,), {}, FOUR), "whose first argument is a tuple"),
        (lambda: framelift.export(scaled, (FOUR,), scale=3), "no option scale.*dictionary"),
        (lambda: framelift.export(scaled, kwargs={"x": FOUR}), "without args"),
        (lambda: framelift.export(scaled, FOUR, preserve_module_call_signature=("a",)), "as a tuple"),
        (lambda: framelift.export(scaled, preserve_module_call_signature=("a",)), "as a tuple"),
        (lambda: framelift.export(3), "not a int"),
        (lambda: framelift.export(nn.Linear), "the class Linear"),
        (lambda: framelift.export_graph("x"), "not a str"),
        (lambda: framelift.export(scaled, pre_dispatch=True), "aten_graph=True as well"),
        (lambda: framelift.export(scaled, FOUR, wrong=3), r"can't be called with these arguments.*wrong"),
    ],
)
def test_a_call_that_is_neither_form_gets_a_sentence(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ask()


def test_a_tuple_is_the_first_argument_of_the_callable() -> None:
    def total(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return pair[0] + pair[1]

    module, _ = framelift.export(total)((FOUR, FOUR + 1))
    same(total((FOUR, FOUR + 1)), module((FOUR, FOUR + 1)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda fn: framelift.export(fn, (FOUR,), strict=False),
        lambda fn: framelift.export(fn, strict=False)(FOUR),
        lambda fn: framelift.export(fn, FOUR, strict=False),
        lambda fn: framelift.export_graph(fn, strict=False)(FOUR),
    ],
)
def test_a_warning_is_told_of_the_caller_s_line(ask: Callable[..., Any]) -> None:
    calls = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ask(counting)
    assert [each.filename for each in told if "is exported without" in str(each.message)] == [__file__]
