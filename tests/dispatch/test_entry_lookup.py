"""Finding the entry for a call: in which order entries are tried, what is looked at, and what is run."""

from __future__ import annotations

import collections
import gc
import itertools
import operator
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from check import code_of, entries
from framelift import _frame
from framelift import _guards as g


def node(access: int, operand: Any = None, *checks: Any, parent: int = -1, slot: int = -1) -> Any:
    return (parent, access, operand, checks, slot)


def function() -> None:
    pass


def cache_of(compiled: Any) -> Any:
    return _frame.get_cache(code_of(compiled), compiled._framelift_context)


# ---- the order of entries


def test_entries_are_tried_most_recent_first() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    compiled = framelift.compile(fn, backend="eager", fullgraph=True, dynamic=False)
    for n in range(4):
        compiled(torch.ones(2), n)
    by_number = list(reversed(cache_of(compiled).entries()))
    order = [3, 2, 1, 0]
    for n in (0, 2, 2, 3, 1):
        assert torch.equal(compiled(torch.ones(2), n), n * torch.ones(2))
        order.remove(n)
        order.insert(0, n)
        assert cache_of(compiled).entries() == [by_number[k] for k in order]
    assert [entry.hits for entry in by_number] == [1, 1, 2, 1]
    assert (cache_of(compiled).hits, cache_of(compiled).misses) == (5, 3)  # no cache yet at the first call


def constant_entry(value: Any) -> Any:
    program = g.Program([node(g.ACCESS_ARG, 0, (g.CHECK_EQUAL, value), slot=0)], 1)
    return g.Entry(program, lambda found: ("entry", found))


def test_many_entries_in_any_order_of_calls() -> None:
    cache = g.Cache()
    for n in range(32):
        cache.add(constant_entry(n))
    numbers = random.Random(0).choices(range(40), k=500)
    for n in numbers:
        assert cache.dispatch(function, [n]) == (("entry", n) if n < 32 else g.MISS)
    assert cache.misses == sum(n >= 32 for n in numbers) and len(cache) == 32


def test_an_entry_that_failed_before_holds_again_when_its_facts_do() -> None:
    """What a program failed at is asked first, but all of it is asked before it counts as holding."""
    checks = [(0, g.CHECK_TYPE, int), (1, g.CHECK_TYPE, str), (2, g.CHECK_EQUAL, 5)]
    nodes = [node(g.ACCESS_ARG, n, (check, operand), slot=n) for n, check, operand in checks]
    cache = g.Cache()
    cache.add(g.Entry(g.Program(nodes, 3), lambda *values: values))
    good, bad = (1, "a", 5), (None, None, None)
    for wrong in itertools.product((False, True), repeat=3):
        for _ in range(2):  # the second time it is asked where it failed
            args = [b if w else a for w, a, b in zip(wrong, good, bad, strict=True)]
            assert cache.dispatch(function, args) == (g.MISS if any(wrong) else good)
            assert cache.dispatch(function, good) == good


def test_more_places_to_fail_at_than_are_remembered() -> None:
    count = 12
    nodes = [node(g.ACCESS_ARG, n, (g.CHECK_EQUAL, n), slot=n) for n in range(count)]
    cache = g.Cache()
    cache.add(g.Entry(g.Program(nodes, count), lambda *values: sum(values)))
    good = list(range(count))
    for n in [*range(count), *range(count), *reversed(range(count))]:
        assert cache.dispatch(function, [*good[:n], None, *good[n + 1 :]]) is g.MISS
        assert cache.dispatch(function, good) == sum(good)


def test_failing_where_two_values_are_compared() -> None:
    first = node(g.ACCESS_ARG, 0)
    same = g.Program([first, node(g.ACCESS_ARG, 1, (g.CHECK_SAME_AS, 0))], 0)
    other = g.Program([first, node(g.ACCESS_ARG, 1, (g.CHECK_NOT_SAME_AS, 0))], 0)
    cache = g.Cache()
    cache.add(g.Entry(same, lambda: "same"))
    cache.add(g.Entry(other, lambda: "other"))
    a, b = object(), object()
    for args in [(a, a), (a, b), (b, b), (b, a), (a, a)] * 2:
        assert cache.dispatch(function, args) == ("same" if args[0] is args[1] else "other")


def test_failing_behind_an_access_that_needs_the_checks_before_it() -> None:
    """getattr() of something unchecked could run Python code: then the checks come first, each time."""
    ran = []

    class Sly:
        @property
        def real(self) -> int:
            ran.append(self)
            return 1

    nodes = [
        node(g.ACCESS_ARG, 0, (g.CHECK_TYPE, int)),
        node(g.ACCESS_NATIVE_ATTR, "real", (g.CHECK_EQUAL, 1), parent=0),
    ]
    cache = g.Cache()
    cache.add(g.Entry(g.Program(nodes, 0), lambda: "one"))
    assert [cache.dispatch(function, [value]) for value in (2, 2, 1)] == [g.MISS, g.MISS, "one"]
    assert cache.dispatch(function, [Sly()]) is g.MISS and cache.dispatch(function, [Sly()]) is g.MISS
    assert ran == []


# ---- caches that change on the way


class Calling:
    """Reading `value` natively calls a function: it is a property of C's, which calls Python."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self.fn = fn

    def __call__(self) -> Any:
        return self.fn()

    value = property(operator.call)


def test_entries_removed_by_what_runs_while_dispatching() -> None:
    """The finalizer of a value that only an evaluation held takes all entries out."""
    cache = g.Cache()

    class Last:
        def __del__(self) -> None:
            cache.clear()

    values = collections.deque([Last()])
    clears = Calling(values.clear)

    def failing() -> Any:
        nodes = [
            node(g.ACCESS_ARG, 0),
            node(g.ACCESS_DEQUE_ITEM, 0, parent=0),
            node(g.ACCESS_CONST, clears),
            node(g.ACCESS_NATIVE_ATTR, "value", parent=2),
            node(g.ACCESS_ARG, 1, (g.CHECK_IS, cache)),
        ]
        return g.Entry(g.Program(nodes, 0), lambda: "never")

    for _ in range(4):
        cache.add(failing())
    assert cache.dispatch(function, [values, values]) is g.MISS
    assert len(cache) == 0 and not values


def test_an_entry_that_removes_itself_while_its_guards_are_checked() -> None:
    cache = g.Cache()

    def remove() -> None:
        cache.clear()
        gc.collect()

    removes = Calling(remove)
    nodes = [
        node(g.ACCESS_ARG, 0, slot=0),
        node(g.ACCESS_CONST, removes),
        node(g.ACCESS_NATIVE_ATTR, "value", parent=1),
    ]
    cache.add(g.Entry(g.Program(nodes, 1), lambda value: value + 1))
    del nodes
    assert cache.dispatch(function, [1]) == 2 and len(cache) == 0


def test_a_region_during_which_everything_is_forgotten() -> None:
    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            framelift.reset()
            gc.collect()
            return graph(*args)

        return run

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        return [x + 1]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2))[0], 2 * torch.ones(2))
        assert entries(compiled) == 0


def test_a_region_during_which_its_own_function_is_compiled_again() -> None:
    calls = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            calls.append(args)
            if len(calls) == 1:
                assert torch.equal(compiled(torch.ones(2, dtype=torch.int64)), torch.full((2,), 2))
            return graph(*args)

        return run

    compiled = framelift.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), 2 * torch.ones(2))
    assert entries(compiled) == 2 and len(calls) == 2  # one for each dtype


# ---- no Python code


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.linear = nn.Linear(4, 4)
        self.scale = {"by": [2.0, 3.0]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(self.norm(x))) * self.scale["by"][1]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x: torch.Tensor, *, flag: bool = True) -> dict[str, torch.Tensor]:
        for block in self.blocks:
            x = block(x)
        return {"out": x + self.offset if flag else x}


def frames_of(call: Callable[[], Any]) -> list[str]:
    """The Python functions that a call enters, in order."""
    entered = []

    def profile(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def test_between_the_call_and_the_region_no_python_code_runs() -> None:
    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        result = None

        def the_graph(*args: Any) -> Any:
            nonlocal result
            result = graph(*args) if result is None else result
            return result

        return the_graph

    model = Model()

    def run(x: torch.Tensor, flag: bool) -> dict[str, torch.Tensor]:
        return model(x, flag=flag)

    compiled = framelift.compile(run, backend=backend, fullgraph=True)
    inputs = [torch.ones(2, 4), torch.ones(3, 4), torch.ones(4)]
    for x, flag in itertools.product(inputs, (True, False)):
        compiled(x, flag)
    assert entries(compiled) == 6  # three shapes, with the flag and without
    for x, flag in [*itertools.product(inputs, (True, False))] * 2:
        entered = frames_of(lambda x=x, flag=flag: compiled(x, flag))
        assert entered[:3] == ["<lambda>", "compiled", "region_of_run"]  # the first is in the line above
        assert entered[3:] in (["the_graph"], ["run", "the_graph"])  # which gives it the size that varies


@pytest.mark.parametrize("install", [sys.setprofile, sys.settrace], ids=["profile", "trace"])
def test_profile_and_trace_functions_are_left_alone(install: Any) -> None:
    seen = []

    def note(frame: types.FrameType, event: str, arg: Any) -> None:
        seen.append(torch.ones(2) + len(frame.f_code.co_name))

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    install(note)
    try:
        results = [compiled(torch.ones(2)), compiled(torch.ones(2))]
    finally:
        install(None)
    assert all(torch.equal(result, 2 * torch.ones(2)) for result in results)
    assert seen and [r.code for r in compiled._framelift_context.code_states.values()] == [fn.__code__]


# ---- what is not looked at while dicts are unchanged


class Plain:
    pass


class Other:
    pass


def agrees(program: Any, args: list[Any]) -> bool:
    """Whether the program holds; it must say so in both ways that it can be asked."""
    holds = program.collect(function, args) is not None
    assert (program.check(function, args) is None) == holds
    return holds


def attribute_program(*checks: Any) -> Any:
    return g.Program([node(g.ACCESS_ARG, 0), node(g.ACCESS_ATTR, "x", *checks, parent=0, slot=0)], 1)


def test_a_class_that_is_assigned_to_is_noticed() -> None:
    """The object stays in its dict, which stays as it is."""
    owner, inner = Plain(), Plain()
    owner.x = inner  # type: ignore[attr-defined]
    program = attribute_program((g.CHECK_TYPE, Plain))
    assert agrees(program, [owner])
    inner.__class__ = Other
    assert not agrees(program, [owner])
    inner.__class__ = Plain
    assert agrees(program, [owner])


def test_a_module_whose_class_is_assigned_to_is_noticed() -> None:
    class Special(types.ModuleType):
        pass

    owner = Plain()
    owner.x = types.ModuleType("m")  # type: ignore[attr-defined]
    program = attribute_program((g.CHECK_TYPE, types.ModuleType))
    assert agrees(program, [owner])
    owner.x.__class__ = Special  # type: ignore[attr-defined]
    assert not agrees(program, [owner])


@pytest.mark.parametrize(
    ("empty", "fill"),
    [([], list.append), (set(), set.add), (collections.deque(), collections.deque.append)],
    ids=["list", "set", "deque"],
)
@pytest.mark.parametrize("check", [(g.CHECK_NONEMPTY, False), (g.CHECK_LEN, 0)], ids=["nonempty", "len"])
def test_the_length_of_what_is_no_dict_is_looked_at_each_time(empty: Any, fill: Any, check: Any) -> None:
    owner = Plain()
    owner.x = empty  # type: ignore[attr-defined]
    program = attribute_program(check)
    empty.clear()
    assert agrees(program, [owner]) and agrees(program, [owner])
    fill(empty, 1)
    assert not agrees(program, [owner])
    empty.clear()
    assert agrees(program, [owner])


TUPLES: list[Any] = [
    (1, (2, 3)),
    (1, (2, 3)),
    (1, (2, 4)),
    (1, (2,)),
    (1, 5),
    (1, [2, 3]),
    [1, (2, 3)],
    (2, (2, 3)),
]
TUPLES += [(1,), 1, {}, (1.0, (2, 3)), (1, (2, 3), 4)]


def test_items_of_tuples_are_those_of_the_tuple_that_is_there() -> None:
    owner = Plain()
    program = g.Program(
        [
            node(g.ACCESS_ARG, 0),
            node(g.ACCESS_ATTR, "x", (g.CHECK_TYPE, tuple), (g.CHECK_LEN, 2), parent=0),
            node(g.ACCESS_ITEM, 0, (g.CHECK_EQUAL, 1), parent=1),
            node(g.ACCESS_ITEM, 1, (g.CHECK_TYPE, tuple), (g.CHECK_LEN, 2), parent=1, slot=0),
            node(g.ACCESS_ITEM, 1, (g.CHECK_EQUAL, 3), parent=3, slot=1),
        ],
        2,
    )
    for value in random.Random(0).choices(TUPLES, k=100):
        owner.x = value  # type: ignore[attr-defined]
        expected = [(2, 3), 3] if value == (1, (2, 3)) and type(value[0]) is int else None
        assert program.collect(None, [owner]) == expected
        assert program.collect(None, [owner]) == expected
        assert (program.check(None, [owner]) is None) == (expected is not None)


def test_items_of_what_may_be_a_list_are_looked_at_each_time() -> None:
    owner = Plain()
    owner.x = values = [1]  # type: ignore[attr-defined]
    nodes = [
        node(g.ACCESS_ARG, 0),
        node(g.ACCESS_ATTR, "x", parent=0),
        node(g.ACCESS_ITEM, 0, (g.CHECK_EQUAL, 1), parent=1, slot=0),
    ]
    program = g.Program(nodes, 1)
    assert program.collect(None, [owner]) == [1]
    values[0] = 2
    assert program.collect(None, [owner]) is None


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.defaultdict])
def test_the_length_of_a_dict(kind: Any) -> None:
    owner = Plain()
    owner.x = hooks = kind()  # type: ignore[attr-defined]
    program = attribute_program((g.CHECK_TYPE, kind), (g.CHECK_NONEMPTY, False))
    assert agrees(program, [owner])
    hooks["a"] = 1
    assert not agrees(program, [owner])
    del hooks["a"]
    assert agrees(program, [owner])


def test_another_object_with_attributes_of_its_own() -> None:
    """The same program on several objects in turn, as when layers share their code."""
    owners = [Plain() for _ in range(4)]
    for n, owner in enumerate(owners):
        owner.x = "same" if n < 3 else "other"  # type: ignore[attr-defined]
    program = attribute_program((g.CHECK_EQUAL, "same"))
    for n in random.Random(0).choices(range(4), k=50):
        assert agrees(program, [owners[n]]) == (n < 3)


def test_a_dict_that_is_replaced() -> None:
    owner = Plain()
    owner.x = 1  # type: ignore[attr-defined]
    program = attribute_program((g.CHECK_EQUAL, 1))
    assert agrees(program, [owner])
    owner.__dict__ = {"x": 2}
    assert not agrees(program, [owner])
    owner.__dict__ = {"x": 1}
    assert agrees(program, [owner])


def test_what_an_unchanged_dict_holds_may_itself_change() -> None:
    """Each level has a dict of its own, and values between them that are none."""
    outer, inner = Plain(), Plain()
    outer.x, inner.y = [inner], {"z": torch.ones(2)}  # type: ignore[attr-defined]
    spec = g.TensorSpec(torch.ones(2))
    nodes = [
        node(g.ACCESS_ARG, 0),
        node(g.ACCESS_ATTR, "x", parent=0),
        node(g.ACCESS_ITEM, 0, (g.CHECK_TYPE, Plain), parent=1),
        node(g.ACCESS_ATTR, "y", (g.CHECK_TYPE, dict), parent=2),
        node(g.ACCESS_KEY, "z", (g.CHECK_TENSOR, spec), parent=3, slot=0),
    ]
    program = g.Program(nodes, 1)
    tensor = inner.y["z"]  # type: ignore[attr-defined]
    assert agrees(program, [outer]) and program.collect(function, [outer])[0] is tensor
    tensor.requires_grad_(True)
    assert not agrees(program, [outer])
    tensor.requires_grad_(False)
    twin = Plain()
    twin.y = {"z": torch.zeros(2)}  # type: ignore[attr-defined]
    outer.x[0] = twin  # type: ignore[attr-defined]
    assert agrees(program, [outer]) and program.collect(function, [outer])[0] is twin.y["z"]  # type: ignore[attr-defined]
    outer.x[0] = Other()  # type: ignore[attr-defined]
    assert not agrees(program, [outer])


def test_a_program_that_remembers_agrees_with_one_that_does_not() -> None:
    """Random changes to a small world: a program that was asked all along, and one that is made anew."""
    draw = random.Random(1)
    values = [1, 2, "a", None, True]
    holders = [Plain() for _ in range(3)]
    globals_like: dict[str, Any] = {"g": 1, "h": holders[0]}

    def change() -> None:
        holder = draw.choice(holders)
        name = draw.choice("xyz")
        what = draw.randrange(8)
        if what == 0:
            vars(holder).pop(name, None)
        elif what == 1:
            globals_like[draw.choice("gk")] = draw.choice(values)
        elif what == 2:
            globals_like.pop("k", None)
        elif what == 3:
            globals_like["h"] = draw.choice(holders)
        elif what == 4:
            holder.__class__ = draw.choice([Plain, Other])
        elif what == 5:
            holder.__dict__ = dict(vars(holder))
        elif what == 6:
            setattr(holder, name, draw.choice([{}, [], {"k": 1}, [1]]))
        else:
            setattr(holder, name, draw.choice(values))
        for candidate in vars(holder).values():
            if isinstance(candidate, (dict, list)) and draw.random() < 0.5:
                candidate.clear()

    def program() -> Any:
        return g.Program(
            [
                node(g.ACCESS_ARG, 0, (g.CHECK_NO_KEY, "k")),
                node(g.ACCESS_KEY, "g", (g.CHECK_EQUAL, 1), parent=0),
                node(g.ACCESS_KEY, "h", (g.CHECK_TYPE, Plain), (g.CHECK_NO_ATTR, "z"), parent=0, slot=0),
                node(g.ACCESS_ATTR, "x", (g.CHECK_IS_NOT, None), parent=2, slot=1),
                node(g.ACCESS_ATTR, "y", (g.CHECK_NONEMPTY, False), parent=2, slot=2),
                node(g.ACCESS_ARG, 1, (g.CHECK_SAME_AS, 3)),
            ],
            3,
        )

    def outcome(asked: Any, args: list[Any]) -> Any:
        inputs = asked.collect(function, args)
        return None if inputs is None else list(map(id, inputs))

    old, held = program(), 0
    for turn in range(20000):
        if turn % 50 == 0:  # from time to time everything is as it should be
            globals_like.update(g=1, h=holders[0])
            globals_like.pop("k", None)
            holders[0].__class__ = Plain
            holders[0].__dict__ = {"x": 1, "y": []}
        elif draw.random() < 0.7:
            change()
        args = [globals_like, getattr(globals_like["h"], "x", None)]
        found = outcome(program(), args)
        assert outcome(old, args) == found
        held += found is not None
    assert 500 < held < 19500
