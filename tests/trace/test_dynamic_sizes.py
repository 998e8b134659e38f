"""Sizes and numbers that change: results as eager's, as few captures as there are kinds of behaviour.

Each program is called with a series of arguments; what it gives must be eager's each time, and the number of
captures is what is to be expected with automatic symbols, with `dynamic=True` and with `dynamic=False`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import capture, captures, entries, reasons
from sameness import alike


class Programs(dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], int]]):
    """Name -> the program, what it is called with, and how often it is captured when sizes may vary."""

    def add(self, series: list[tuple[Any, ...]], captures: int = 2) -> Callable[[Any], Any]:
        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            self[fn.__name__] = (fn, series, captures)
            return fn

        return register


def rows(*counts: int, width: int = 4) -> list[tuple[torch.Tensor, ...]]:
    return [(torch.arange(n * width, dtype=torch.float32).reshape(n, width),) for n in counts]


def rows_and(*pairs: tuple[int, Any]) -> list[tuple[Any, ...]]:
    return [(*rows(n)[0], other) for n, other in pairs]


PROGRAMS = Programs()
MANY = rows(5, 6, 7, 12, 30)

# ---- sizes in arithmetic and shapes


@PROGRAMS.add(MANY)
def arithmetic(x):
    n = x.shape[0]
    return x.sum() * n, n + 1, n - 1, 2 * n, n // 2, n % 3, -n, n**2, abs(n - 100), n & 3


@PROGRAMS.add(MANY, captures=3)
def chosen_as_torch_does(x):
    n = x.shape[0]
    return torch.sym_ite(n > 6, n, n + 1), torch.sym_ite(True, n, 3), x * torch.sym_ite(n > 6, n, 2)


@PROGRAMS.add(MANY)
def true_division(x):
    n = x.shape[0]
    return x / n, n / 2, x.sum() / (n / 3)


@PROGRAMS.add(MANY)
def views(x):
    b, d = x.shape
    return x.view(b * 2, d // 2), x.reshape(-1), x.view(b, 2, -1), x.t().reshape(d, b), x.unsqueeze(0)


@PROGRAMS.add(MANY)
def factories(x):
    n = len(x)
    return torch.zeros(n, 3), torch.arange(n), torch.full((n,), 2.0), x.new_ones(x.shape), torch.eye(n)


@PROGRAMS.add(MANY)
def joined_shapes(x):
    shape = x.shape
    return (
        x.view(shape[:-1] + (2, 2)),
        x.expand((3, *shape)),
        x.reshape((1,) + shape),
        torch.ones(shape + (1,)),
    )


@PROGRAMS.add(MANY)
def numbers_about_it(x):
    return x.numel(), x.size(0), x.size(), x.stride(), x.nbytes, x.dim(), math.prod(x.shape), sum(x.shape)


@PROGRAMS.add(MANY)
def slices(x):
    n = x.shape[0]
    return x[: n - 1], x[1:], x[-n:], x[::2], x[n // 2 :], x.narrow(0, 1, n - 2), x[n - 1]


@PROGRAMS.add(MANY)
def slices_stored(x):
    n = x.shape[0]
    y = x.clone()
    y[: n // 2] = 0
    y[n - 1] += 1
    return y


@PROGRAMS.add(MANY)
def masks(x):
    n = x.shape[0]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return (x @ x.t()).masked_fill(~mask, -1.0), torch.where(mask, 1.0, 0.0)


@PROGRAMS.add(MANY)
def joined(x):
    return torch.cat([x, x]), torch.stack([x, x]), torch.cat([x, torch.zeros(3, 4)]), x.repeat(2, 1)


@PROGRAMS.add(MANY)
def mean_by_hand(x):
    return x.sum(0) / x.shape[0], (x - x.mean(0)) / max(1, x.shape[0] - 1)


@PROGRAMS.add([(torch.ones(n, 4), torch.ones(n, 4)) for n in (5, 6, 9)])
def two_of_one_size(x, y):
    return x + y, x.shape == y.shape, x.shape[0] == y.shape[0]


@PROGRAMS.add([(torch.ones(n, 4), torch.ones(m, 4)) for n, m in ((5, 6), (6, 9), (7, 3), (8, 2))])
def two_of_two_sizes(x, y):
    return torch.cat([x, y]), x.shape[0] + y.shape[0]


@PROGRAMS.add([(torch.ones(n, 4), torch.ones(m, 4)) for n, m in ((5, 6), (6, 9), (7, 7), (8, 8), (4, 3))])
def two_that_may_be_one(x, y):
    return torch.cat([x, y]), x.shape[0] + y.shape[0]


@PROGRAMS.add([(torch.ones(b, n, 3),) for b, n in ((2, 5), (3, 6), (4, 7), (2, 9))])
def two_dimensions(x):
    b, n, d = x.shape
    return x.view(b, n * d), x.transpose(1, 2).reshape(b * d, n), torch.bmm(x, x.transpose(1, 2))


@PROGRAMS.add([(torch.ones(n, n),) for n in (4, 5, 6, 9)])
def square(x):
    return x @ x, x.shape[0] == x.shape[1]


@PROGRAMS.add([(torch.ones(3, n).t(),) for n in (4, 5, 6)])
def transposed(x):
    return x + 1, x.contiguous().stride(), x.is_contiguous(), x.stride()


@PROGRAMS.add([(torch.ones(n, 8)[:, 2:6],) for n in (4, 5, 6)])
def part_of_a_larger_one(x):
    return x + 1, x.contiguous(), x.stride(), x.is_contiguous()


@PROGRAMS.add([(torch.ones(n + 1, 4)[1:],) for n in (4, 5, 6)])
def with_an_offset(x):
    return x * 2, x.view(-1), x.storage_offset()


@PROGRAMS.add([({"a": torch.ones(n, 2)}, [torch.ones(n, 2)]) for n in (4, 5, 6)])
def in_containers(d, xs):
    return d["a"] + xs[0], d["a"].shape[0]


# ---- sizes that decide


@PROGRAMS.add(rows(5, 6, 7, 3, 2, 9), captures=3)  # 5; any that is above 4; any that is not
def branch(x):
    return x + 1 if x.shape[0] > 4 else x - 1


@PROGRAMS.add(rows(5, 6, 8, 7, 10), captures=3)  # 5; any that is even; any that is odd
def even_or_odd(x):
    n = x.shape[0]
    if n % 2 == 0:
        return x.view(n // 2, 2, 4).sum(1)
    return x.sum(0, keepdim=True)


@PROGRAMS.add(rows(5, 6, 7), captures=3)  # each size: the loop is unrolled
def loop_over_a_size(x):
    total = x.sum()
    for i in range(x.shape[0]):
        total = total + i
    return total


@PROGRAMS.add(rows(3, 5, 4), captures=3)  # each size: the loop is unrolled
def loop_over_rows(x):
    return [row * 2 for row in x]


@PROGRAMS.add(rows(5, 6, 7), captures=3)  # each size: a text shows its digits
def in_a_text(x):
    return x + 1, f"{x.shape[0]} rows", str(x.shape), "%d" % x.shape[0], repr(x.size())


@PROGRAMS.add(rows(5, 6, 7), captures=3)  # each size: it is hashed
def as_a_key(x):
    table = {5: "five", 6: "six"}
    return x + 1, table.get(x.shape[0], "many"), {x.shape[0]: 1}, {x.shape}, hash(x.shape[0])


@PROGRAMS.add(rows(5, 6, 7), captures=3)  # each size: Python's index takes a definite number
def as_an_index(x):
    return x + 1, list(range(10))[x.shape[0]], "abcdefghij"[x.shape[0]], [0] * x.shape[0]


@PROGRAMS.add(rows(2, 1, 0, 5, 6), captures=4)  # 0 and 1 are sizes of their own; 2; any other
def none_and_one(x):
    return x + 1, x.sum(), x.shape[0]


@PROGRAMS.add(rows(5, 6, 7))
def compared(x):
    n = x.shape[0]
    return x + 1, n == n, n != 0, n >= 2, n > 1 and n < 1000, bool(n), not n, n is None


@PROGRAMS.add(rows(5, 6, 7))
def asked_what_it_is(x):
    n = x.shape[0]
    return x + n, type(n) is int, isinstance(n, int), isinstance(n, (float, str)), callable(n)


@PROGRAMS.add(rows(5, 6, 7))
def extremes(x):
    n = x.shape[0]
    return x[: min(n, 3)], max(n, 2), min(1000, n), max(n, n + 1), abs(n), int(n)


@PROGRAMS.add(rows(5, 6, 7), captures=3)  # each size: the methods are C's
def methods_of_a_number(x):
    n = x.shape[0]
    return x + 1, n.bit_length(), n.real, n.to_bytes(2, "big")


@PROGRAMS.add(rows(5, 6, 7))
def rounded(x):
    n = x.shape[0]
    return x + 1, math.ceil(n / 2), math.floor(n / 2), int(n / 2), float(n)


# ---- numbers


@PROGRAMS.add(rows_and((5, 2), (5, 3), (5, 4), (5, 100), (5, -7), (5, 0), (5, 1)))
def a_number(x, n):
    return x * n + n, n + 1, n * 2, -n


@PROGRAMS.add(rows_and((5, 2), (6, 3), (7, 3), (8, 4)))
def a_number_and_a_size(x, n):
    return x * n, x.shape[0] * n, x.shape[0] - n


@PROGRAMS.add(rows_and((5, 1), (5, 3), (5, 4)), captures=3)  # each number: the loop is unrolled
def a_number_of_rounds(x, n):
    for _ in range(n):
        x = x * 2
    return x


@PROGRAMS.add(rows_and((5, 1), (5, 3), (5, 4), (5, 2)))
def a_number_of_rows(x, n):
    return x[:n], x[n:], x[n], torch.zeros(n, 2)


@PROGRAMS.add(rows_and((5, 0), (5, 1)), captures=2)  # each dimension
def a_dimension(x, dim):
    return x.sum(dim), x.softmax(dim)


@PROGRAMS.add(rows_and((5, 2), (5, 2**70), (5, 3)), captures=3)  # at most each number
def a_large_number(x, n):
    return x + 1, n + 1


# two as they are, then any
@PROGRAMS.add(rows_and((5, 0.5), (5, 0.25), (5, 0.125), (5, 2.5), (5, -1.0)), captures=3)
def a_float(x, f):
    return x * f, f * 2, f + 1


# two as they are, any, NaN; at most infinity too
@PROGRAMS.add(rows_and((5, 0.5), (5, 0.25), (5, 0.125), (5, float("nan")), (5, float("inf"))), captures=5)
def a_float_that_is_none(x, f):
    return x * f, f + 1


@PROGRAMS.add(rows_and((5, True), (5, False), (5, True)))
def a_flag(x, flag):
    return x + 1 if flag else x - 1


@PROGRAMS.add(rows_and((5, 7), (5, -8), (5, 9), (5, -1), (5, 1)))
def a_number_divided(x, n):
    return x + n, n // 3, n % 3, n // -2, n % -2, n / 4, -n // 5, (n * 6) // 6, (n * n) // 7


@PROGRAMS.add(rows_and((5, 7), (5, 8), (5, 0), (5, -3)), captures=4)  # at most each number
def divided_by_a_number(x, n):
    try:
        return x + n, 0 // n, 12 % n, 5 / n, (n * 3) // n
    except ZeroDivisionError as error:
        return x, str(error)


@PROGRAMS.add(rows_and((5, 4), (5, 6), (5, 3), (5, -2)), captures=4)  # at most each number
def shifted_by_a_number(x, n):
    try:
        return x + n, 1 << n, 256 >> n, 2**n, n**2, n**3, n << 2
    except ValueError as error:
        return x, str(error)


# at most each number
@PROGRAMS.add(rows_and((5, 0.7), (5, 0.3), (5, 0.11), (5, 1e300), (5, -0.0)), captures=5)
def floats_in_pythons_order(x, f):
    return x * f, f * 0.1 * 3, f + f + f, (f + 0.1) - 0.1, f / 3 * 3, f * 0, f - f, 1 - f, f**2


@PROGRAMS.add(rows_and((5, 7), (5, 8), (5, 9)))
def an_offset_beside_a_number(x, n):
    return x + n, x.storage_offset(), x[1:].storage_offset(), x.is_leaf


@PROGRAMS.add(rows_and((5, 0.7), (5, 0.3), (5, 0.11)), captures=3)  # each number
def sums_of_floats(x, f):
    return x * f, sum([f, 0.1, f]), math.prod([f, 0.1, 3.0]), max(f, 0.2), int(f), abs(f), float(f)


class Box:
    def __init__(self, n):
        self.n = n


@PROGRAMS.add([(torch.ones(3), Box(n)) for n in (2, 3, 4, 5)])
def an_attribute(x, box):
    box.n += 1
    return x * box.n


@PROGRAMS.add([(torch.ones(3), [n, n + 1]) for n in (2, 3, 4, 5)])
def numbers_in_a_list(x, ns):
    ns.append(ns[0] + ns[1])
    return x * ns[2], ns


@PROGRAMS.add(MANY)
def written_outside(x):
    global LAST
    LAST = x.shape[0] * 2
    return x + 1


LAST = 0


@PROGRAMS.add(MANY)
def kept_by_a_closure(x):
    n = x.shape[0]

    def later(y):
        return y * n

    return later(x), later


@PROGRAMS.add(rows(5, 6, 0), captures=3)  # 5; any other; at most 0 too
def divided_by_it(x):
    try:
        return x + 1, 100 // x.shape[0]
    except ZeroDivisionError as error:
        return x, str(error)


# 5; any that are equal; at most those that are not, too
@PROGRAMS.add([(torch.ones(n, 4), torch.ones(m, 4)) for n, m in ((5, 5), (6, 6), (5, 6), (7, 7))], captures=3)
def sizes_that_do_not_fit(x, y):
    try:
        return x + y
    except RuntimeError:
        return "they do not fit"


def outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        result = fn(*args)
    except Exception as error:
        return type(error), str(error)
    return (
        result(torch.ones(2))
        if callable(result)
        else [r for r in result if not callable(r)]
        if isinstance(result, tuple)
        else result
    )


def copied(series: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Fresh arguments: some programs change theirs. Views stay views."""
    import copy

    return [
        tuple(arg if isinstance(arg, torch.Tensor) else copy.deepcopy(arg) for arg in args) for args in series
    ]


def run(name: str, dynamic: bool | None, backend: str = "eager") -> int:
    framelift.reset()
    fn, series, _ = PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)
    for mine, theirs in zip(copied(series), copied(series), strict=True):
        expected, found = [outcome(fn, mine), mine, LAST], [outcome(compiled, theirs), theirs, LAST]
        alike(expected, found)
    return captures(compiled)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_changes_becomes_a_symbol(name: str) -> None:
    assert run(name, None) <= PROGRAMS[name][2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_may_change(name: str) -> None:
    assert run(name, True) <= PROGRAMS[name][2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_may_change(name: str) -> None:
    run(name, False)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_aot_autograd(name: str, dynamic: bool | None) -> None:
    assert run(name, dynamic, "aot_eager") <= PROGRAMS[name][2] + SETTLED.get(name, 0)


SETTLED = {"a_number_of_rows": 2}
"""Programs of which AOTAutograd itself relies on definite numbers, and how many more captures that takes."""


# ---- marks


def marked(mark: Callable[..., None], *args: Any, **kwargs: Any) -> torch.Tensor:
    x = torch.ones(4, 3)
    mark(x, *args, **kwargs)
    return x


@pytest.mark.parametrize(
    "mark",
    [
        *(framelift.mark_dynamic, framelift.maybe_mark_dynamic, framelift.mark_unbacked),
        *(torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic),  # noqa: TID251 - torch's own marks
    ],
)
def test_a_mark_is_enough(mark: Callable[..., None]) -> None:
    compiled = framelift.compile(lambda x: x * x.shape[0] + 1, backend="eager", fullgraph=True)
    first = marked(mark, 0)
    assert compiled(first).equal(first * 4 + 1)
    for n in (2, 3, 7):
        assert compiled(torch.ones(n, 3)).equal(torch.ones(n, 3) * n + 1)
    assert captures(compiled) == 1


def test_a_static_dimension_stays_static() -> None:
    compiled = framelift.compile(lambda x: x * x.shape[0], backend="eager")
    for n in (3, 4, 5):
        x = torch.ones(n, 3)
        framelift.mark_static(x, 0)
        assert compiled(x).equal(x * n)
    assert captures(compiled) == 3  # one for each size


def test_an_unbacked_size_may_be_none_or_one() -> None:
    compiled = framelift.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    compiled(marked(framelift.mark_unbacked, 0))
    for n in (0, 1, 2):
        assert compiled(torch.ones(n, 3)).equal(torch.ones(n, 3) + 1)
    assert captures(compiled) == 1


def needs_four(x):
    return x.view(2, 2, 3)


def test_a_mark_that_can_not_be_kept_is_an_error() -> None:
    compiled = framelift.compile(needs_four, backend="eager")
    with pytest.raises(framelift.exc.ConstraintViolationError) as caught:
        compiled(marked(framelift.mark_dynamic, 0))
    said = str(caught.value)
    assert "x.shape[0] is marked dynamic" in said and "x.view(2, 2, 3)" in said and "to be 4" in said
    assert "test_dynamic_sizes.py" in said and "maybe_mark_dynamic" in said
    assert compiled(marked(framelift.maybe_mark_dynamic, 0)).shape == (2, 2, 3)


def test_a_range_that_is_not_kept_is_an_error() -> None:
    compiled = framelift.compile(lambda x: x + 1 if x.shape[0] < 10 else x, backend="eager")
    with pytest.raises(framelift.exc.ConstraintViolationError, match=r"from 2 to 64[^$]*needs it < 10"):
        compiled(marked(framelift.mark_dynamic, 0, min=2, max=64))


def test_a_range_is_a_guard() -> None:
    compiled = framelift.compile(lambda x: x + 1 if x.shape[0] < 10 else x, backend="eager")
    compiled(marked(framelift.mark_dynamic, 0, min=2, max=8))
    compiled(torch.ones(7, 3))
    assert captures(compiled) == 1
    assert compiled(torch.ones(9, 3)).equal(torch.full((9, 3), 2.0))
    assert captures(compiled) == 2  # within the range, and beyond it


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda x: framelift.mark_dynamic(x, 2), "no dimension 2"),
        (lambda x: framelift.mark_dynamic(x, 0, min=5, max=3), "more than"),
        (lambda x: framelift.mark_dynamic(x, 0, min=5, max=9), "size 4, outside"),
        (lambda x: framelift.mark_static(x, "a"), "no dimension"),
    ],
)
def test_marks_that_make_no_sense(make: Callable[[torch.Tensor], None], said: str) -> None:
    with pytest.raises(framelift.exc.UserError, match=said):
        make(torch.ones(4, 3))


def test_only_tensors_are_marked() -> None:
    with pytest.raises(TypeError, match="not a list"):
        framelift.mark_dynamic([1, 2], 0)  # type: ignore[arg-type]


# ---- what is said about it


def test_a_fact_is_told_with_its_line() -> None:
    compiled = framelift.compile(lambda x: x + 1 if x.shape[0] > 4 else x - 1, backend="eager")
    for n in (6, 7, 3):
        compiled(torch.ones(n, 3))
    (record,) = compiled._framelift_context.code_states.values()
    facts = [(text, place.expression) for text, place in record.entries[1].capture.program.shapes if place]
    assert ("5 <= x.shape[0]", "x.shape[0] > 4") in facts
    assert any("5 <= x.shape[0]" in reason for reason in record.recompile_reasons)


# ---- what only the data decides


def first_few(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k] * 2, k + 1


def found(x, n):
    places = (x > n).nonzero()
    return places * 2, places.shape[0], x[x > n].sum(), x.masked_select(x <= n) + 1


def scaled_by_a_value(x, n):
    return x * x.sum().item() + n.item()


def made_of_a_value(x, n):
    size = n.item()
    torch._check_is_size(size)
    return torch.zeros(size) + 1, torch.arange(size)


def found_twice(x, n):
    return (x > n).nonzero().shape[0], (x < n).nonzero().shape[0], (x > n).nonzero() + 1


def distinct(x, n):
    values = torch.unique(x % n)
    return values.sum(), values.numel()


DATA_DEPENDENT = [first_few, found, found_twice, scaled_by_a_value, made_of_a_value, distinct]
ASKED = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)]
)
@pytest.mark.parametrize("fn", DATA_DEPENDENT)
def test_what_data_decides_is_captured_when_asked_for(fn: Callable[..., Any], backend: str) -> None:
    framelift.reset()
    with framelift.config.patch(**ASKED):
        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        for n in (2, 3, 5, 1, 6):
            args = (torch.arange(8.0).reshape(8), torch.tensor(n))
            torch.testing.assert_close(compiled(*args), fn(*args))
    assert captures(compiled) == 1


@pytest.mark.parametrize("fn", DATA_DEPENDENT)
def test_what_data_decides_breaks_otherwise(fn: Callable[..., Any]) -> None:
    compiled = framelift.compile(fn, backend="eager")
    for n in (2, 3):
        args = (torch.arange(8.0), torch.tensor(n))
        torch.testing.assert_close(compiled(*args), fn(*args))
    assert reasons(compiled)


@pytest.mark.parametrize("fn", DATA_DEPENDENT)
def test_with_fullgraph_what_data_decides_is_captured(fn: Callable[..., Any]) -> None:
    """One graph is wanted, and no break would do."""
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in (2, 3, 5, 1, 6):
        args = (torch.arange(8.0).reshape(8), torch.tensor(n))
        torch.testing.assert_close(compiled(*args), fn(*args))
    assert captures(compiled) == 1


def test_a_check_that_fails_is_an_error() -> None:
    with framelift.config.patch(**ASKED):
        compiled = framelift.compile(first_few, backend="eager", fullgraph=True)
        compiled(torch.ones(8), torch.tensor(3))
        with pytest.raises(RuntimeError):
            compiled(torch.ones(8), torch.tensor(9))


def test_a_branch_on_a_value_breaks_there() -> None:
    def fn(x):
        return x + 1 if x.sum().item() > 3 else x - 1

    with framelift.config.patch(**ASKED):
        compiled = framelift.compile(fn, backend="eager")
        for n in (1, 5):
            assert compiled(torch.full((2,), float(n))).equal(fn(torch.full((2,), float(n))))


# ---- gradients, and kernels


def test_gradients_of_all_sizes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    compiled = framelift.compile(model, backend="aot_eager", fullgraph=True)
    for n in (3, 5, 8, 2):
        x, y = (torch.arange(4.0 * n).reshape(n, 4).requires_grad_() for _ in range(2))
        model(x).square().mean().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        compiled(y).square().mean().backward()
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(grads, [p.grad for p in model.parameters()])
        model.zero_grad()
    assert captures(compiled) == 2  # the first size, then any


@pytest.mark.inductor
def test_inductor_makes_one_kernel_for_all_sizes() -> None:
    compiled = framelift.compile(lambda x, n: (x * n).sin().sum(1) + x.shape[0], fullgraph=True)
    for n in (3, 5, 8, 13, 40):
        x = torch.arange(4.0 * n).reshape(n, 4)
        torch.testing.assert_close(compiled(x, n + 1), (x * (n + 1)).sin().sum(1) + n)
    assert captures(compiled) == 2  # the first size, then any


def bert() -> torch.nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64, vocab_size=50
    )
    return transformers.BertModel(config).eval()


def read(model: Any, batch: int, length: int) -> torch.Tensor:
    words = torch.arange(batch * length).reshape(batch, length) % 50
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[:, -2:] = 0
    with torch.no_grad():
        return model(input_ids=words, attention_mask=mask).last_hidden_state


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_a_model_for_ten_batch_sizes_and_ten_lengths_is_captured_three_times(backend: str) -> None:
    model = bert()
    compiled = framelift.compile(model, backend=backend, fullgraph=True)
    for batch in range(2, 12):
        for length in (8, 9, 12, 15, 16, 17, 20, 23, 24, 31):
            torch.testing.assert_close(
                read(compiled, batch, length), read(model, batch, length), atol=1e-4, rtol=1e-4
            )
    assert captures(compiled) <= 3  # at first; lengths vary; batches too


def test_sizes_that_grow_together_are_symbols_although_one_of_them_came_later() -> None:
    """As a model's mask and cache: in the first step the mask is known to vary, and the cache is new."""

    def step(x: torch.Tensor, mask: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        kept = torch.cat([cache[0], x]) if cache else x
        cache[:] = [kept]
        return kept[: mask.shape[0]] if mask.shape[0] > kept.shape[0] else kept * mask

    compiled = framelift.compile(step, backend="eager", fullgraph=True)
    mine: list[torch.Tensor] = []
    theirs: list[torch.Tensor] = []
    for length in (5, 6, 7, 8, 9, 10, 11):
        x = torch.ones(5 if length == 5 else 1)
        expected = step(x, torch.ones(length), mine)
        assert torch.equal(compiled(x, torch.ones(length), theirs), expected)
    assert captures(compiled) == 3  # without a cache; with one; sizes vary


def test_a_float_that_is_compared_with_zero_may_vary():
    def f(x, rate):
        return x * rate if rate != 0 and not rate < 0 else x - 1

    compiled = capture(f)
    x = torch.arange(3.0)
    for rate in (0.9, 0.8, 0.7, 0.6):
        assert torch.equal(compiled(x, rate), f(x, rate))
    assert entries(compiled) <= 3  # two floats as they are, then any that is positive
    for rate in (0.0, -0.0, -0.5, -0.25, float("inf"), float("nan")):
        torch.testing.assert_close(compiled(x, rate), f(x, rate), equal_nan=True)


@pytest.mark.filterwarnings("ignore:.*quantize")
@pytest.mark.parametrize("dynamic", [None, True])
def test_tensors_that_have_no_fakes_among_others(dynamic: bool | None) -> None:
    def fn(x: torch.Tensor, coarse: torch.Tensor, y: torch.Tensor) -> Any:
        return x + 1, coarse.dequantize() * 2 + y, y.sum() * x.shape[0]

    compiled = framelift.compile(fn, backend="eager", dynamic=dynamic)
    for n in (2, 3, 4, 5):
        coarse = torch.quantize_per_tensor(torch.arange(float(n)), 0.1, 0, torch.quint8)
        given = torch.ones(n + 1), coarse, torch.ones(n)
        alike(compiled(*given), fn(*given))
