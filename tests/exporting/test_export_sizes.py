"""Sizes that may vary in an artifact, in all the forms in which they can be declared, and what is said when a
program does not work for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError as TorchsError

import framelift
from exporting.check_export import check_export
from framelift.exc import ConstraintViolationError, UserError


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 3)


def nested(x: Any, others: Any) -> Any:
    return x + others["y"][0], x.shape[0]


def sliced(x: Any, y: Any) -> Any:
    return x[:-1] + y


def scaled(x: Any, n: int) -> Any:
    return x * n + n


def reshaped(x: Any) -> Any:
    return x.reshape(x.shape[0] * 3).sum(), torch.zeros(x.shape[0], 2)


ROWS = Dim("rows", max=64)
FIVE, EIGHT = ((rows(n), {"y": [rows(n)]}) for n in (5, 8))


def collection() -> Any:
    made = ShapesCollection()
    made[FIVE[0]] = {0: ROWS}
    made[FIVE[1]["y"][0]] = (ROWS, Dim.STATIC)
    return made


def additional() -> Any:
    made = AdditionalInputs()
    made.add(EIGHT)
    return made


FORMS: dict[str, tuple[Any, Any, Any, Callable[[], Any]]] = {
    "by argument": (nested, FIVE, EIGHT, lambda: {"x": {0: ROWS}, "others": {"y": [{0: ROWS}]}}),
    "by position": (nested, FIVE, EIGHT, lambda: ({0: ROWS}, {"y": [{0: ROWS}]})),
    "whole shapes": (nested, FIVE, EIGHT, lambda: [(ROWS, Dim.STATIC), {"y": [[ROWS, 3]]}]),
    "AUTO": (nested, FIVE, EIGHT, lambda: ({0: Dim.AUTO}, {"y": [{0: Dim.AUTO}]})),
    "DYNAMIC": (nested, FIVE, EIGHT, lambda: ({0: Dim.DYNAMIC}, {"y": [{0: Dim.DYNAMIC}]})),
    "a collection": (nested, FIVE, EIGHT, collection),
    "more inputs": (nested, FIVE, EIGHT, additional),
    "derived": (sliced, (rows(5), rows(4)), (rows(8), rows(7)), lambda: ({0: ROWS + 1}, {0: ROWS})),
    "of a number": (scaled, (rows(2), 5), (rows(2), 9), lambda: (None, Dim.DYNAMIC)),
    "used as numbers": (reshaped, (rows(5),), (rows(9),), lambda: ({0: ROWS},)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMS)
def test_an_artifact_runs_with_other_sizes(name: str) -> None:
    fn, args, other, shapes = FORMS[name]
    check_export(fn, args, None, other, dynamic_shapes=shapes())


def test_ranges_are_in_the_artifact_and_checked() -> None:
    program = framelift.export(lambda x: x * 2, (rows(5),), dynamic_shapes=({0: Dim("n", min=3, max=9)},))
    (allowed,) = program.range_constraints.values()
    assert (allowed.lower, allowed.upper) == (3, 9)
    assert program.module()(rows(9)).shape == (9, 3)
    for count in (2, 10):
        with pytest.raises((AssertionError, RuntimeError)):
            program.module()(rows(count))


def test_what_a_branch_relies_on_is_checked() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 3 else x - 1

    program = check_export(branching, (rows(5),), None, (rows(9),), dynamic_shapes=({0: Dim.AUTO},))
    with pytest.raises((AssertionError, RuntimeError)):
        program.module()(rows(3))


def test_sizes_that_are_not_declared_stay_as_they_are() -> None:
    program = framelift.export(lambda x: x.reshape(-1), (rows(5),), dynamic_shapes=({1: Dim.AUTO},))
    with pytest.raises((AssertionError, RuntimeError)):
        program.module()(rows(6))


def branching(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x + 1 if x.shape[0] > 3 else x), (y[:4] if y.shape[0] <= 20 else y)


VIOLATED = {
    "one size only": (
        lambda x: x + torch.ones(5, 3),
        (rows(5),),
        ({0: Dim("n")},),
        "dynamic_shapes = ({0: 5},)",
    ),
    "two that are one": (
        lambda x, y: x + y,
        (rows(5), rows(5)),
        {"x": {0: Dim("n")}, "y": {0: Dim("m")}},
        "dynamic_shapes = {'x': {0: n}, 'y': {0: n}}",
    ),
    "one that is another and one": (
        sliced,
        (rows(5), rows(4)),
        ({0: Dim("n")}, {0: Dim("m")}),
        "dynamic_shapes = ({0: m + 1}, {0: m})",
    ),
    "two ranges": (
        branching,
        (rows(5), rows(6)),
        ({0: Dim("n")}, {0: Dim("m")}),
        "m = Dim('m', min=4, max=20)\nn = Dim('n', min=4)\ndynamic_shapes = ({0: n}, {0: m})",
    ),
    "constants": (
        lambda x, y: (x.view(2, 6), y[0] if y.shape[0] == 4 else y),
        (rows(4), rows(4)),
        ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),
        "dynamic_shapes = ({0: 4}, {0: 4})",
    ),
    "a constant within": (
        lambda d, n: d["x"][0].view(2, 6) * n,
        ({"x": [rows(4)]}, 3),
        ({"x": [{0: Dim.DYNAMIC}]}, Dim.DYNAMIC),
        "dynamic_shapes = ({'x': [{0: 4}]}, Dim.DYNAMIC)",
    ),
    "a number and a range": (
        lambda x, n: x[:n] if n == 3 else x,
        (rows(8), 3),
        ({0: Dim("b")}, Dim.DYNAMIC),
        "b = Dim('b', min=3)\ndynamic_shapes = ({0: b}, None)",
    ),
}


@pytest.mark.parametrize("name", VIOLATED)
def test_all_violations_are_told_with_a_declaration_to_paste(name: str) -> None:
    fn, args, shapes, corrected = VIOLATED[name]
    with pytest.raises(ConstraintViolationError) as raised:
        framelift.export(fn, args, dynamic_shapes=shapes)
    assert isinstance(raised.value, TorchsError)
    assert corrected in str(raised.value)
    statements = str(raised.value).partition("With this declaration it does:\n")[2]
    scope: dict[str, Any] = {"Dim": Dim}
    exec(statements, scope)
    check_export(fn, args, dynamic_shapes=scope["dynamic_shapes"])


WRONG = {
    "too few": (({0: ROWS},), "2 elements"),
    "an argument that is not there": ({"x": {0: ROWS}, "z": None}, "arg names"),
    "a dimension that is not there": (({5: ROWS}, None), "no dimension 5"),
    "no dimension": (({0: "rows"}, None), "'rows'"),
    "too short a shape": (((ROWS,), None), "same length"),
    "another nesting": (([{0: ROWS}], None), "dynamic_shapes"),
    "no declaration": (7, "dynamic_shapes must be"),
    "two of one name": (({0: Dim("n", max=4)}, {0: Dim("n", max=8)}), "different definitions"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_declaration_that_makes_no_sense_gets_a_sentence(name: str) -> None:
    shapes, said = WRONG[name]
    with pytest.raises(UserError, match=said):
        framelift.export(lambda x, y: x - y, (rows(3), rows(3)), dynamic_shapes=shapes)


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def additional(*inputs: Any) -> AdditionalInputs:
    found = AdditionalInputs()
    found.add(inputs)
    return found


DOUBLED = Doubled()
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a size out of the range": (
        torch.ones(80, 3),
        ({0: Dim("n", max=64)},),
        r"^Doubled: x has size 80 in dimension 0, but",
    ),
    "another size": (torch.ones(4, 3), ({0: 5},), r"^Doubled: x has size 4 .* says 5"),
    "a size out of a hint's": (torch.ones(4, 3), ({0: Dim.AUTO(min=6)},), r"^Doubled: x has size 4 .* says"),
    "another input of another make": (
        torch.ones(4, 3),
        additional([]),
        "^Doubled: AdditionalInputs does not fit",
    ),
    "one": (torch.ones(1, 3), ({0: Dim.DYNAMIC},), r"^Doubled: .*conflicts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_examples_that_do_not_fit_get_a_sentence(name: str) -> None:
    x, shapes, said = REFUSED[name]
    with pytest.raises(UserError, match=said) as caught:
        framelift.export(DOUBLED, (x,), dynamic_shapes=shapes)
    assert "draft_export" not in str(caught.value)


def test_additional_inputs_that_the_program_is_not_for_get_a_sentence() -> None:
    with pytest.raises(ConstraintViolationError, match="does not work for all that AdditionalInputs has"):
        framelift.export(
            lambda x: x * 2 if x.shape[0] > 5 else x, (rows(8),), dynamic_shapes=additional(rows(3))
        )
