"""Facts about sizes and numbers, checked natively: what Python says of an expression, or nothing at all."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from framelift import _guards
from framelift.guards.program import steps_of

NUMBER, SIZE, STRIDE = _guards.READ_NUMBER, _guards.READ_SIZE, _guards.READ_STRIDE


def program(facts: list[str], reads: list[tuple[int, int, int]], count: int = 3) -> Any:
    made = _guards.Program([(_guards.FRAME, _guards.ACCESS_ARG, n, [], n) for n in range(count)], count)
    made.set_shapes(reads, [tuple(steps_of(fact)) for fact in facts])
    return made


def holds(text: str, *values: Any) -> bool:
    made = program([text], [(n, NUMBER, 0) for n in range(len(values))], len(values))
    return made.collect(None, values) is not None


names = st.sampled_from(["r0", "r1", "r2"])
terms = st.recursive(
    names | st.integers(-50, 50).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"abs({t})"),
    ),
    max_leaves=8,
)
comparisons = st.tuples(terms, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), terms).map(" ".join)
facts = st.one_of(
    comparisons,
    st.tuples(comparisons, st.sampled_from(["and", "or"]), comparisons).map(" ".join),
    comparisons.map(lambda text: f"not ({text})"),
    st.tuples(terms, terms, terms).map(" <= ".join),
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(facts, st.tuples(*[st.integers(-(10**6), 10**6)] * 3))
def test_integers_are_pythons(text: str, values: tuple[int, int, int]) -> None:
    try:
        expected = bool(eval(text, dict(zip(["r0", "r1", "r2"], values, strict=True))))
    except ZeroDivisionError:
        expected = False
    assert holds(text, *values) is expected


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1, 2**63, 2**80, -(2**63) - 1])
@pytest.mark.parametrize(
    "text", ["r0 * 4 > 0", "r0 + r0 + r0 > 0", "-r0 < 0", "r0 == r0", "r0 ** 3 > 0", "abs(r0) > 0"]
)
def test_what_64_bits_do_not_hold_never_holds_wrongly(text: str, value: int) -> None:
    assert not holds(text, value) or eval(text, {"r0": value})


@pytest.mark.parametrize(
    "text",
    [
        "r0 < r1",
        "r0 * 2.0 == r1",
        "r0 / r1 > 0.3",
        "math.floor(r0) == 0",
        "math.ceil(r0) == 1",
        "not math.isnan(r0)",
    ],
)
@pytest.mark.parametrize(
    "values", [(0.25, 0.5), (0.5, 0.25), (0.5, 1), (float("nan"), 1.0), (float("inf"), 2.0)]
)
def test_floats(text: str, values: tuple[float, float]) -> None:
    try:
        expected = bool(eval(text, {"math": math, "r0": values[0], "r1": values[1]}))
    except (ValueError, OverflowError):
        expected = False
    found = holds(text, *values)
    assert found is expected or (not found and any(map(math.isnan, values)))


def test_sizes_and_strides_are_read() -> None:
    made = program(
        ["r0 == 2 and r1 == 3 and r2 == 1 and r3 == 7"],
        [(0, SIZE, 0), (0, SIZE, 1), (0, STRIDE, 0), (1, NUMBER, 0)],
        2,
    )
    transposed = torch.ones(3, 2).t()
    assert made.collect(None, (transposed, 7)) is not None
    assert made.collect(None, (transposed, 8)) is None
    assert made.check(None, (torch.ones(2, 3), 7)) == (_guards.FAILED_SHAPE, 0, None, (2, 3, 3, 7))
    assert made.collect(None, (torch.ones(2), 7)) is None
    assert made.collect(None, ("text", 7)) is None
    assert made.collect(None, (transposed, True)) is None, "a bool is no int here"


@pytest.mark.parametrize(
    ("reads", "given_facts"),
    [
        ([(9, NUMBER, 0)], []),
        ([(0, 7, 0)], []),
        ([(0, SIZE, -1)], []),
        ([], [(("read", 0),)]),
        ([], [(("add", None),)]),
        ([], [(("constant", 1), ("constant", 2))]),
        ([], [(("frobnicate", None),)]),
        ([], [(("constant", 2**70),)]),
        ([], [()]),
    ],
)
def test_what_makes_no_sense_is_an_error(reads: Any, given_facts: Any) -> None:
    made = _guards.Program([(-1, _guards.ACCESS_ARG, 0, [], 0)], 1)
    with pytest.raises((ValueError, TypeError)):
        made.set_shapes(reads, given_facts)
    assert made.collect(None, (1,)) == [1]
