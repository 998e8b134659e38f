"""Programs in which a size goes through Python's library: one capture for all sizes, results as eager's."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import enum
import functools
import heapq
import itertools
import math
import operator
import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import captures
from sameness import alike

PROGRAMS: dict[str, Callable[..., Any]] = {}
SIZES = (9, 16, 25, 49)

Extent = collections.namedtuple("Extent", "rows columns")


@dataclasses.dataclass(frozen=True)
class Window:
    start: int
    stop: int
    step: int = 1

    def length(self) -> int:
        return len(range(3)) + self.stop - self.start


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def mapped(x):
    rows, columns = map(int, x.shape)
    doubled = tuple(map(lambda size: size * 2, x.shape))
    return x.new_zeros(doubled), rows + columns, list(map(operator.neg, x.shape))


class Axis(enum.IntEnum):
    ROWS = 0
    COLUMNS = 1


@program
def tuples_with_names(x):
    extent = Extent(*x.shape)
    moved = extent._replace(rows=extent.rows + 1)
    return (
        x.view(extent),
        moved,
        extent + (1,),
        (2,) + moved,
        extent + extent,
        moved[::-1],
        max(moved),
        sum(extent),
    )


@program
def members_of_enumerations(x):
    rows = x.shape[Axis.ROWS]
    return (
        x.sum(Axis.COLUMNS),
        rows + Axis.COLUMNS,
        Axis.COLUMNS - rows,
        rows == Axis.ROWS,
        x.shape[Axis.COLUMNS],
    )


@program
def matched(x):
    match x.shape:
        case (rows, 4):
            return x * rows, rows
        case _:
            return x


@program
def asked_for_attributes(x):
    return (
        x + 1,
        hasattr(x.shape[0], "bit_length"),
        hasattr(x.shape[0] / 2, "imag"),
        hasattr(x.shape[0], "no"),
    )


@program
def zipped_with_what_is_missing(x):
    return x + 1, list(itertools.zip_longest([1, 2], [x.shape[0]], fillvalue=x.shape[0] * 2)), len(x.shape)


@program
def least_and_largest_floats(x):
    rate = x.shape[0] / 20
    return x * min(rate, 1.0), max(rate, 0.5, rate / 2), min((rate + 1) ** -0.5, rate * 0.1)


@program
def reduced(x):
    count = functools.reduce(operator.mul, x.shape, 1)
    return x.reshape(count), math.prod(x.shape[1:]), sum(size + 1 for size in x.shape)


@program
def filtered_and_grouped(x):
    large = [size for size in filter(lambda size: size > 5, x.shape)]
    pairs = list(itertools.product(x.shape, (1, 2)))
    return x.sum(), large, pairs, list(itertools.accumulate(x.shape)), list(itertools.chain(x.shape, [1]))


@program
def roots(x):
    side = int(math.sqrt(x.shape[0]))
    same = int(x.shape[0] ** 0.5)
    return x.view(side, side, 4), x.reshape(same, -1), math.isqrt(x.shape[0]), round(math.log2(x.shape[0]), 3)


@program
def whole_and_rest(x):
    whole, rest = divmod(x.shape[0], 4)
    return x[: whole * 4], x.new_zeros(rest + 2), pow(x.shape[0], 2), round(x.shape[0] / 2)


@program
def attributes_of_numbers(x):
    n = x.shape[0]
    return x + n.real, n.imag, n.conjugate(), n.bit_length(), hasattr(n, "shape"), (n / 2).real


@program
def named_tuples(x):
    extent = Extent(*x.shape)
    wider = extent._replace(columns=extent.columns + 1)
    return x.new_ones(wider), extent == wider, extent._asdict(), x.sum() * extent.rows


@program
def data_classes(x):
    window = Window(1, x.shape[0] - 1)
    later = dataclasses.replace(window, start=window.start + 1)
    return x[later.start : later.stop], later.length(), window == later, dataclasses.astuple(window)


@program
def sizes_and_slices(x):
    cut = slice(1, x.shape[0] - 1)
    size = torch.Size([x.shape[0], 2])
    return x[cut], x.new_ones(size), x.shape == size, x.shape[0] in size, size.index(2), size.numel()


@program
def compared(x):
    shape = tuple(x.shape)
    return (
        x + 1,
        shape == (3, 4),
        shape < (100, 1),
        list(shape) != [x.shape[0], 4],
        (x.shape[0],) in [(1,), (2,)],
    )


@program
def ordered(x):
    n = x.shape[0]
    largest = max(((n, "a"), (4, "b")), key=lambda pair: pair[0])
    values = [100, n, 3]
    values.sort()
    return x + largest[0], sorted([n, 4, 200], reverse=True), values, min([n, 3], [n, 4]), max(n, 4)


@program
def found_in_containers(x):
    n = x.shape[0]
    values = [1, n, 3, n]
    return x.sum(), values.index(n), values.count(n), n in values, 200 in values, n in range(1, 1000)


@program
def looked_up(x):
    n = x.shape[0]
    known = {(3, 4): "small", (1000, 4): "large"}
    return x.sum(), known.get((n, 4), "other"), (n, 4) in known, n in {1: 2}, n in {1, 2}


@program
def truth_of_many(x):
    return x + any(size > 100 for size in x.shape), all(x.shape), all(size < 1000 for size in x.shape)


@program
def classes_as_data(x):
    kinds = functools.reduce(lambda found, size: type(size), x.shape, float)
    return x + 1, kinds, statistics.mean([1, 2]), list(map(int, x.shape)), list(map(type, x.shape))


@program
def memoized(x):
    return x + halved(x.shape[0])


@functools.lru_cache
def halved(size: int) -> int:
    return size // 2


@program
def told_apart(x):
    n = x.shape[0]
    return x + 1, n is None, n == "a", n != None, type(n) is int, isinstance(n, (int, str))  # noqa: E711


class Batch:
    """Methods that C asks for numbers, and those by which it does what an operator says."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    @property
    def rows(self) -> int:
        return self.x.shape[0]

    def __len__(self) -> int:
        return self.rows

    def __int__(self) -> int:
        return self.rows * 2

    def __index__(self) -> int:
        return self.rows + 1

    def __float__(self) -> float:
        return self.rows / 2

    def __abs__(self) -> int:
        return self.rows

    def __neg__(self) -> int:
        return -self.rows

    def __round__(self, digits: Any = None) -> int:
        return self.rows

    def __floor__(self) -> int:
        return self.rows

    def __divmod__(self, by: int) -> tuple[int, int]:
        return self.rows // by, self.rows % by

    def __add__(self, other: Any) -> Any:
        return self.rows + other if isinstance(other, int) else NotImplemented

    def __radd__(self, other: int) -> int:
        return self.rows + other

    def __getattr__(self, name: str) -> Any:
        return self.rows * len(name)


@program
def numbers_of_objects(x):
    batch = Batch(x)
    many = [*map(len, [batch, x, x[1:]])], int(batch), operator.index(batch), float(batch)
    return x + len(batch) + sum([batch, batch]), many, bool(batch), not batch, 1 if batch else 2


@program
def operators_of_objects(x):
    batch, n = Batch(x), x.shape[0]
    around = abs(batch), -batch, round(batch), math.floor(batch), divmod(batch, 3)
    return x + batch.abc, around, batch + 1, 1 + batch, batch + n, n + batch


@program
def reduced_objects(x):
    return x + functools.reduce(lambda total, batch: total + batch.rows, [Batch(x), Batch(x)], 0)


@program
def bits(x):
    n = x.shape[0]
    return x * (n & 3) + (n ^ 9) + ((n | 8) & (n - 1)), n & -2 ^ 5


@program
def asked_by_torch(x):
    n = x.shape[0]
    kinds = torch.typename(n), torch.is_tensor(n), torch.is_storage(n), torch.overrides.is_tensor_like(n / 2)
    return x * torch.sym_sum([n, 3, n]) + torch.sym_max(n, 4), kinds


@program
def places_in_order(x):
    n = x.shape[0]
    found = bisect.bisect([1, 3, 100], n), bisect.bisect_left([(1, n), (2, n)], (2, n))
    heap = [(100, "c"), (200, "b")]
    heapq.heappush(heap, (n, "a"))
    kept = [1, 100]
    bisect.insort(kept, n, key=lambda size: -size, lo=1)
    return x * heap[0][0] + found[0], found, heapq.nsmallest(2, heap), heapq.heappop(heap), kept


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_third_size_does_not_compile_again(name: str, dynamic: bool | None, backend: str) -> None:
    fn = PROGRAMS[name]
    compiled = framelift.compile(
        fn, backend=backend, dynamic=dynamic, fullgraph=True, isolate_recompiles=True
    )
    for n in SIZES:
        x = torch.arange(n * 4.0).reshape(n, 4)
        alike(fn(x), compiled(x))
    assert captures(compiled) <= (1 if dynamic else 2)


# ---- what is relied on is checked


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1 if x.shape[0] in (7, 9) else x - 1,
        lambda x: x + 1 if x.shape[0] in [7, 2 * x.shape[0], 9, x.shape[0] // 2 + 5] else x - 1,
        lambda x: x + 1 if x.shape[0] & 6 == 4 or x.shape[0] ^ 3 > 20 else x - 1,
        lambda x: x + bisect.bisect([4, 8, 16], x.shape[0]),
        lambda x: x + heapq.nlargest(2, [9, x.shape[0], 7])[1],
        lambda x: x + (1 if Batch(x[9:]) else 2) + len(Batch(x)),
        lambda x: x + sorted([x.shape[0], 8])[0],
        lambda x: x + (1 if tuple(x.shape) == (9, 4) else 2),
        lambda x: x + {9: 1}.get(x.shape[0], 2),
        lambda x: x + max([x.shape[0], 1], [8, 2])[1],
        lambda x: x + math.gcd(x.shape[0], 6) if math.gcd(x.shape[0], 6) > 1 else x,
        lambda x: x + [7, 8, x.shape[0]].index(x.shape[0]),
        lambda x: x * (math.factorial(x.shape[0]) % 7),
        lambda x: x * (2 ** x.shape[0] % 1000),
        lambda x: x[: round(x.shape[0] * 0.5)],
        lambda x: x + 1 if x.shape[0] in range(3, 20, 3) else x - 1,
        lambda x: x + 1 if any(size == 9 for size in x.shape) else x - 1,
        lambda x: x + (x.shape[0] // 2.5) + divmod(x.shape[0], 2.0)[1],
    ],
)
def test_every_size_gives_what_it_gives_eagerly(fn: Any) -> None:
    compiled = framelift.compile(fn, backend="eager", dynamic=True, isolate_recompiles=True)
    for n in (5, 6, 7, 8, 9, 10, 12, 15, 30, 65):
        x = torch.ones(n, 4)
        alike(fn(x), compiled(x))


def test_an_iterator_is_drained_once() -> None:
    def fn(x: torch.Tensor) -> Any:
        seen = []
        total = sum(seen.append(size) or size for size in x.shape)
        print("a break")
        least = min((size for size in x.shape), key=lambda size: print("key") or -size)
        return x + total, seen, least

    compiled = framelift.compile(fn, backend="eager", dynamic=True, isolate_recompiles=True)
    for n in SIZES:
        alike(fn(torch.ones(n, 4)), compiled(torch.ones(n, 4)))


def test_a_size_that_is_one_of_several_has_one_capture() -> None:
    compiled = framelift.compile(
        lambda x: x * 2 if x.shape[0] in (9, 16) else x - 1, backend="eager", dynamic=True
    )
    for n in (9, 16, 25, 36):
        alike(compiled(torch.ones(n)), torch.full((n,), 2.0 if n in (9, 16) else 0.0))
    assert captures(compiled) == 2


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("__len__", "x"),
        ("__len__", -3),
        ("__len__", 1.5),
        ("__bool__", 1),
        ("__int__", 2.5),
        ("__float__", 1),
    ],
)
def test_what_an_object_gives_for_a_number_may_be_none(name: str, given: Any) -> None:
    """The error is Python's, also where numbers may vary."""
    asking = {"__len__": len, "__bool__": bool, "__int__": int, "__float__": float}[name]

    def fn(x, n):
        thing = type("Thing", (), {name: lambda self: n if n == 0 else given})()
        try:
            return x + 1, asking(thing)
        except (TypeError, ValueError) as error:
            return x + n, str(error)

    compiled = framelift.compile(fn, backend="eager")
    for n in (3, 4, 5):
        alike(compiled(torch.ones(n), n), fn(torch.ones(n), n))


@pytest.mark.parametrize("check", ["_check", "_check_value", "_check_with"])
def test_the_text_of_a_check_that_fails_is_of_what_varies(check: str, caplog: Any) -> None:
    def fn(x):
        y = x * 2
        check_size = functools.partial(torch._check_with, KeyError) if check == "_check_with" else of_torch
        try:
            check_size(x.shape[0] < 10, lambda: f"too many: {y.shape[0]}")
        except (RuntimeError, ValueError, KeyError) as error:
            return y, type(error), str(error)
        return y

    of_torch = getattr(torch, check)
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in (5, 8, 12, 20, 7):
        alike(compiled(torch.ones(n)), fn(torch.ones(n)))
    assert "mistake" not in caplog.text


def test_the_bounds_between_which_an_item_is_looked_for_may_vary() -> None:
    def fn(x, start, stop):
        return x + [1, 2, 3, 4].index(3, start, stop) + (x.shape[0], 7).index(7, start - 1)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for size, start, stop in ((2, 2, 4), (3, 1, 3), (4, 2, 3)):
        x = torch.ones(size)
        assert torch.equal(compiled(x, start, stop), fn(x, start, stop))
