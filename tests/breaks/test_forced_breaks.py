"""A break at any instruction is right: a capture may end anywhere, and what comes after is resumed there.

Each program's first capture is made to end in front of its first instruction, of its second, and so on, also
in the functions that it calls; without a step, where the resume function begins with that instruction, and
with one, where it is done in between. Two calls must do what the plain function does: results, exceptions,
output and all that is changed.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from check import Outcome, compare, copied, run
from framelift.bytecode.stack_effects import NoStepError, how_it_ends
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.dispatch import frame_hook, restarts, tracing
from framelift.dispatch.capture import Capture
from framelift.interpreter.points import NoPointError, standing
from framelift.regions.region import Stopping

Made = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Callable[[], Made]] = {}


def program(*args: Any) -> Callable[[Any], Any]:
    """A function that is called with copies of `args`."""

    def add(fn: Any) -> Any:
        PROGRAMS[fn.__name__] = lambda: (fn, copied(args))
        return fn

    return add


def made(make: Callable[[], Made]) -> None:
    """A function that is made anew each time, and its arguments."""
    PROGRAMS[make.__name__] = make


# ---- captures that end where they are told to


@dataclasses.dataclass
class Force:
    """Ends the first capture in front of the n-th instruction of its outermost run."""

    n: float
    step: bool
    reason: Break = dataclasses.field(default_factory=lambda: Break(breaks.EFFECT, "forced"))
    depth: int = 0
    count: int = 0
    code: Any = None
    at: str = ""
    can_step: bool = False
    refused: str = ""
    """Why the program could not be left there, or in front of what makes a value that is in the way."""

    def look(self, frame: Any) -> None:
        if self.depth == 1 and self.count == self.n:
            instruction = frame.code.instructions[frame.ip]
            self.at = f"{instruction.opname} in {frame.func.__name__}, line {frame.line}"
            raise self.reason
        self.count += self.depth == 1


def forced_trace(force: Force) -> type[tracing.Trace]:
    class Forced(tracing.Trace):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.first = force.code is None
            if self.first:
                force.code = self.fn.__code__
                self.machine.look = force.look
                self.machine.run = counted(force, self.machine.run)

        def run(self) -> None:
            super().run()
            if self.first and self.ended_by is force.reason:
                force.can_step = can_step(self.machine.stopped)
                self.disturbed = force.step  # then it is traced again up to there

        def finish(self, *given: Any) -> Capture:
            step = force.step or self.ended_by is not force.reason
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tracing, "Stopping", functools.partial(Stopping, step=step))
                try:
                    capture = super().finish(*given)
                except Break as found:
                    force.refused = force.refused or found.describe()
                    raise
            if self.fn.__code__ is force.code:
                force.refused = ""
            return capture

    return Forced


def counted(force: Force, run: Any) -> Any:
    def deeper(*args: Any) -> Any:
        force.depth += 1
        try:
            return run(*args)
        finally:
            force.depth -= 1

    return deeper


def can_step(frame: Any) -> bool:
    try:
        point = standing(frame, True).point
        how_it_ends(point.body, point.at, len(point.stack))
    except (NoStepError, NoPointError):
        return False
    return True


@contextlib.contextmanager
def forcing(force: Force) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restarts, "Trace", forced_trace(force))
        yield
    frame_hook.reset()


# ---- both ways


class Side:
    """One way to run a program, with the globals that this way has left."""

    def __init__(self, made: Made, compiles: bool) -> None:
        fn, self.args = made
        self.fn = framelift.compile(fn, backend="eager") if compiles else fn
        self.original = fn
        self.globals = copied(GLOBALS)

    def call(self) -> Outcome:
        globals().update(self.globals)
        outcome = run(self.fn, self.args, {})
        self.globals = {name: globals()[name] for name in GLOBALS}
        cells = [cell.cell_contents for cell in getattr(self.original, "__closure__", None) or ()]
        outcome.arguments = (outcome.arguments, self.globals, cells)
        return outcome


def tried(name: str, force: Force) -> Force:
    """Runs a program both ways, and compares."""
    plain, compiled = Side(PROGRAMS[name](), False), Side(PROGRAMS[name](), True)
    with forcing(force):
        for _ in range(2):
            compare(plain.call(), compiled.call())
    return force


GLOBALS: dict[str, Any] = {"total": 1, "names": ["a"], "table": {"a": 1}}
total, names, table = 1, ["a"], {"a": 1}


# ---- the programs

X = torch.tensor([1.0, -2.0, 3.0])
M = torch.arange(6.0).view(2, 3)


@program(X, X + 1)
def straight(x: Any, y: Any) -> Any:
    z = x + y
    z = z * 2 - x
    return z.relu()


@program(X, [1, 2, 3])
def a_loop(x: Any, items: Any) -> Any:
    for item in items:
        x = x + item
    return x


@program(X, [1, 2, 3, 4])
def a_loop_with_break_and_else(x: Any, items: Any) -> Any:
    for n, item in enumerate(items):
        if item == 2:
            continue
        x = x * item
        if n > 2:
            break
    else:
        x = x + 100
    return x, n


@program(X)
def nested_loops(x: Any) -> Any:
    out = []
    for a in range(2):
        for b in range(a, 3):
            if b == a:
                continue
            out.append(x * a + b)
    return out


@program(X, 5)
def a_while_loop(x: Any, n: Any) -> Any:
    while n > 0:
        x = x + n
        n -= 2
    else:
        x = x * 2
    return x, n


@program(X, 3)
def branches(x: Any, n: Any) -> Any:
    if n > 5:
        y = x
    elif n == 3 and x.dim() == 1:
        y = x + 1
    else:
        y = x - 1
    return y if not n else y * (2 if n < 10 else 3)


@program(X, None, 0, 5)
def booleans(x: Any, a: Any, b: Any, c: Any) -> Any:
    first = a or b or c
    second = c and b
    return x * first, second, a is None or x, not (a is not None and b)


@program(X, 1, 2, 3)
def chained_comparison(x: Any, a: Any, b: Any, c: Any) -> Any:
    inside = a < b < c
    outside = a < b > c < a
    return x * inside + (1 if outside else 2), a in (1, 2) and 0 <= c <= 3


@program(X, [1, 2, 3])
def walrus(x: Any, items: Any) -> Any:
    if (n := len(items)) > 2 and (last := items[-1]):
        x = x * n
    return [y := x + last, y * 2, (z := y.sum()), z]


@program(X, (1, (2, 3), [4, 5, 6, 7]))
def unpacking(x: Any, given: Any) -> Any:
    a, (b, c), (first, *middle, last) = given
    a, b = b, a
    (*rest,) = middle
    x, y = x + a, x * b
    return x, y, c, first, rest, last


@program(X, 2)
def deleted_variables(x: Any, n: Any) -> Any:
    y = x * n
    z = y + 1
    del y, n
    try:
        y  # noqa: F821
    except UnboundLocalError as error:
        z = z + len(error.args)
    return z


# ---- exceptions


@program(X, [1, 0, 2])
def an_exception_caught(x: Any, items: Any) -> Any:
    out = []
    for item in items:
        try:
            out.append(x + 6 // item)
        except ZeroDivisionError as error:
            out.append(str(error))
    return out


@program(X, [])
def finally_and_else(x: Any, log: Any) -> Any:
    try:
        log.append("try")
        x = x + 1
    except ValueError:
        log.append("never")
    else:
        log.append("else")
        x = x * 2
    finally:
        log.append("finally")
        x = x - 1
    return x


@program(X, [])
def an_exception_through_finally(x: Any, log: Any) -> Any:
    try:
        try:
            y = x * 2
            raise ValueError("inner")
        finally:
            log.append(x + 1)
    except ValueError as error:
        log.append(error.args[0])
        return y
    return x


@program(X, [])
def an_exception_raised_again(x: Any, log: Any) -> Any:
    try:
        try:
            {}["key"]
        except KeyError as error:
            log.append(x + 1)
            raise
    except LookupError as error:
        log.append(error.args[0])
        return x * 2


@program(X)
def an_exception_with_a_cause(x: Any) -> Any:
    try:
        try:
            x = x + 1
            int("no")
        except ValueError as error:
            raise KeyError(str(error)) from error
    except KeyError as error:
        cause, context = error.__cause__, error.__context__
        return x * 2, type(cause), cause is context, error.__suppress_context__


@program(X)
def an_exception_while_handling(x: Any) -> Any:
    try:
        try:
            raise ValueError(1)
        except ValueError:
            x = x + 1
            raise KeyError(2)
    except KeyError as error:
        return x, type(error.__context__), error.__context__.args


@program(X, [])
def an_exception_that_leaves(x: Any, log: Any) -> Any:
    log.append(x + 1)
    try:
        x = x * 2
        raise ValueError(len(log))
    finally:
        log.append(x)


@program(X, [])
def an_exception_of_a_callee(x: Any, log: Any) -> Any:
    try:
        x = risky(x, log)
        x = risky(x + 1, log)
    except ValueError as error:
        log.append(error.args[0])
    return x


def risky(x: Any, log: Any) -> Any:
    y = x * 2
    log.append("risky")
    if len(log) > 1:
        raise ValueError("too long")
    return y


@program(X, [1, 2, 3])
def return_in_finally_and_loop(x: Any, items: Any) -> Any:
    for item in items:
        try:
            if item == 2:
                return x * item
            x = x + item
        finally:
            items.append(item)
    return x


@program(X)
def nested_handlers(x: Any) -> Any:
    try:
        raise KeyError(1)
    except KeyError:
        try:
            raise ValueError(2)
        except ValueError as inner:
            x = x + inner.args[0]
        try:
            raise
        except KeyError as outer:
            x = x * outer.args[0]
    return x + 1


@program(X)
def exception_groups(x: Any) -> Any:
    found = []
    try:
        raise ExceptionGroup("two", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        found.append(len(group.exceptions))
        x = x + 1
    except* KeyError as group:
        found.append(group.exceptions[0].args)
        x = x * 2
    return x, found


@program(X, 3)
def assertions(x: Any, n: Any) -> Any:
    assert n == 3, "three"
    x = x * n
    try:
        assert n == 4, f"not {n}"
    except AssertionError as error:
        return x, str(error)


# ---- managers


class Manager:
    def __init__(self, swallows: bool = False) -> None:
        self.log: list[Any] = []
        self.swallows = swallows

    def __enter__(self) -> Manager:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.log.append(kind)
        return self.swallows


@program(X, Manager())
def a_manager(x: Any, manager: Any) -> Any:
    with manager as entered:
        x = x + len(entered.log)
    return x * 2


@program(X, Manager(True), Manager())
def managers_and_an_exception(x: Any, outer: Any, inner: Any) -> Any:
    with outer, inner as entered:
        x = x + 1
        raise ValueError(len(entered.log))
    return x * len(outer.log)


@program(X, Manager())
def return_out_of_a_manager(x: Any, manager: Any) -> Any:
    for n in range(3):
        with manager:
            if n == 1:
                return x + n
            x = x * 2


@program(X)
def a_manager_made_inside(x: Any) -> Any:
    with Manager(True) as manager:
        x = x + 1
        x = x.reshape(manager.log.pop(5))
    return x, manager.log


@contextlib.contextmanager
def scaled(log: list[Any]) -> Iterator[int]:
    log.append("in")
    try:
        yield len(log)
    finally:
        log.append("out")


@program(X, [])
def a_manager_of_contextlib(x: Any, log: Any) -> Any:
    with scaled(log) as n:
        y = x * n
    return y + len(log)


@program(X.clone().requires_grad_())
def no_grad(x: Any) -> Any:
    y = x * 2
    with torch.no_grad():
        z = y + 1
        w = z * x
    return y + 1, w, torch.is_grad_enabled()


@program(X.clone().requires_grad_())
def nested_grad_modes(x: Any) -> Any:
    with torch.no_grad():
        y = x + 1
        with torch.enable_grad():
            z = x * 2
        w = z + y
    return y, z, w + x


@torch.no_grad()
def detached(x: Any) -> Any:
    y = x * 2
    return y + 1


@program(X.clone().requires_grad_())
def a_decorated_function(x: Any) -> Any:
    y = detached(x)
    return x + y


@program(M)
def autocast(m: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m @ m.T
        z = y + 1
    return y, z, m @ m.T


@program(X.clone().requires_grad_())
def the_grad_mode_set(x: Any) -> Any:
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(before)
    return y, x + 1


# ---- calls


def scale(x: Any, by: Any = 2, *rest: Any, sign: Any = 1, **more: Any) -> Any:
    y = x * by
    for item in rest:
        y = y + item
    return y * sign + len(more)


@program(X, [1, 2], {"sign": -1, "extra": 0})
def star_arguments(x: Any, items: Any, options: Any) -> Any:
    a = scale(x, *items, 5, **options)
    return scale(a, *items), scale(*(a, 3), sign=2)


@program(X)
def keyword_calls(x: Any) -> Any:
    y = scale(x, by=3, sign=-1)
    y = torch.add(y, x, alpha=2)
    return scale(by=y, x=x, other=1)


@program(X)
def nested_calls(x: Any) -> Any:
    return outer_call(x) + outer_call(x + 1)


def outer_call(x: Any) -> Any:
    y = inner_call(x, 1)
    return inner_call(y, 2) * 2


def inner_call(x: Any, n: Any) -> Any:
    z = x + n
    return z * n


@program(X, 3)
def recursion(x: Any, n: Any) -> Any:
    if n == 0:
        return x
    return recursion(x * 2, n - 1) + n


@program(X, [3, 1, 2])
def calls_from_c(x: Any, items: Any) -> Any:
    items.sort(key=lambda item: -item)
    y = functools.reduce(lambda a, b: a + b, map(lambda item: x * item, items))
    return y, max(items, key=lambda item: item % 3)


@program(X)
def a_partial(x: Any) -> Any:
    double = functools.partial(scale, by=2)
    y = double(x, sign=3)
    return double(y)


@program(X, 4)
def formatting(x: Any, n: Any) -> Any:
    text = f"{n:>4}|{n!r}|{tuple(x.shape)}"
    print(text, n)
    y = x + len(text)
    print("done", end="")
    return y, "%d-%s" % (n, text)


@program(X, ["a"])
def imports(x: Any, parts: Any) -> Any:
    import math as m
    from os.path import basename, join

    return x * m.floor(2.5), join(*parts, basename("c/d"))


# ---- functions, closures, comprehensions, generators


@program(X, 3)
def closures(x: Any, n: Any) -> Any:
    def add(y: Any, more: Any = n) -> Any:
        return y + n + more + len(seen)

    seen = [1]
    y = add(x)
    n = 5
    seen.append(2)
    return add(y), add(y, more=0)


@program(X)
def nonlocal_variables(x: Any) -> Any:
    count, last = 0, None

    def step(y: Any) -> Any:
        nonlocal count, last
        count += 1
        last = y
        return y * count

    y = step(step(x))
    return y, count, last


@made
def cells_from_outside() -> Made:
    count, seen = 0, []

    def fn(x: Any) -> Any:
        nonlocal count
        count += 1
        seen.append(x + count)
        return sum(seen)

    return fn, (X.clone(),)


@program(X)
def returned_functions(x: Any) -> Any:
    scale = 2

    def inner(y: Any) -> Any:
        return y * scale + x

    scale = 3
    z = inner(x)
    return z, inner(z)


@program(X, [1, 2, 3])
def comprehensions(x: Any, items: Any) -> Any:
    a = [x * item for item in items if item != 2]
    b = {item: x + item for item in items}
    c = {item % 2 for item in items}
    return a, b, len(c), sum(item for item in items)


@program(X, [[1, 2], [3]])
def nested_comprehensions(x: Any, rows: Any) -> Any:
    return [[x + item for item in row] for row in rows], [item * x for row in rows for item in row]


def numbers(x: Any, log: Any) -> Iterator[Any]:
    try:
        for n in range(3):
            y = x + n
            yield y
    finally:
        log.append("closed")


@program(X, [])
def a_generator(x: Any, log: Any) -> Any:
    total = x * 0
    for y in numbers(x, log):
        total = total + y
    return total


@program(X, [])
def a_generator_left_early(x: Any, log: Any) -> Any:
    it = numbers(x, log)
    y = next(it)
    z = next(it) * y
    it.close()
    log.append("after")
    return z


@program(X, [])
def delegation(x: Any, log: Any) -> Any:
    def both() -> Iterator[Any]:
        yield from numbers(x, log)
        yield x * 10

    return [y * 2 for y in both()]


@program(X)
def lambdas(x: Any) -> Any:
    fs = [lambda y, n=n: y * n for n in range(3)]
    z = [f(x) for f in fs]
    return (lambda *args: sum(args))(*z)


# ---- objects


class Box:
    scale = 2

    def __init__(self, value: Any, count: int = 0) -> None:
        self.value = value
        self.count = count

    def grow(self, by: Any) -> Box:
        self.count += 1
        self.value = self.value + by
        return self

    @property
    def double(self) -> Any:
        return self.value * self.scale

    @double.setter
    def double(self, value: Any) -> None:
        self.value = value / 2

    @classmethod
    def of(cls, *values: Any) -> Box:
        return cls(sum(values))

    @staticmethod
    def half(value: Any) -> Any:
        return value / 2

    def __add__(self, other: Any) -> Any:
        return Box(self.value + (other.value if isinstance(other, Box) else other), self.count)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def __len__(self) -> int:
        return self.count


class Big(Box):
    def __init__(self, value: Any) -> None:
        super().__init__(value, 7)
        self.extra = value * 2

    def grow(self, by: Any) -> Big:
        super().grow(by * 2)
        self.extra = self.extra - 1
        return self


@program(Box(X.clone()), X)
def methods(box: Any, x: Any) -> Any:
    y = box.grow(x).grow(1).value
    grow = box.grow
    grow(y)
    return y, Box.grow(box, 2).count


@program(Box(X.clone()), X)
def properties(box: Any, x: Any) -> Any:
    y = box.double + x
    box.double = y
    box.count += box.double.dim()
    return box.value, Box.half(y), Box.of(x, y).value


@program(X)
def objects_made_inside(x: Any) -> Any:
    box = Box(x + 1)
    other = box.grow(x) + box
    return other, box[0], len(box)


@program(X)
def super_calls(x: Any) -> Any:
    big = Big(x)
    big.grow(x)
    return big.value, big.extra, big.count


@program(Box(X.clone()), X)
def attributes(box: Any, x: Any) -> Any:
    box.new = x * 2
    box.value += box.new
    box.new = [box.value]
    setattr(box, "other", len(box.new))
    del box.count
    return getattr(box, "count", box.other), hasattr(box, "gone")


@program(X)
def a_class_made_inside(x: Any) -> Any:
    class Local:
        base = x + 1

        def __init__(self, n: Any) -> None:
            self.n = n

        def get(self) -> Any:
            return self.base * self.n

    local = Local(3)
    return local.get() + x


@dataclasses.dataclass
class Config:
    x: Any
    scale: float = 2.0
    names: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.names.append(self.scale)


@program(X, Config(1))
def dataclasses_made_and_changed(x: Any, config: Any) -> Any:
    made = Config(x + 1, names=[3])
    config.scale *= 3
    other = dataclasses.replace(made, scale=config.scale)
    config.names.extend(other.names)
    return made, other.x * other.scale, config == made


Pair = collections.namedtuple("Pair", "a b")


@program(Pair(X.clone(), 2))
def named_tuples(pair: Any) -> Any:
    made = Pair(pair.a * pair.b, b=pair)
    x, y = made
    return made._replace(b=x + 1), y


@program(X, {"kind": "pair", "items": [1, 2]}, Pair(1, 2))
def matches(x: Any, value: Any, pair: Any) -> Any:
    out = []
    for subject in (value, pair, [1, 2, 3], 5, "text", None):
        match subject:
            case {"kind": str(kind), **rest}:
                out.append((kind, rest))
            case Pair(a=1, b=b):
                out.append(x * b)
            case [first, *others]:
                out.append(x + len(others))
            case int(n) if n > 3:
                out.append(x - n)
            case "text" | "other" as found:
                out.append(found)
            case _:
                out.append("rest")
    return out


@program(X)
def global_variables(x: Any) -> Any:
    global total, names
    total += 2
    names.append(total)
    table["x"] = x * total
    names = [*names, "new"]
    return table["x"] + len(names)


# ---- containers and tensors


@program(X, [1, 2, 3], {"a": 1})
def containers_changed(x: Any, items: Any, table: Any) -> Any:
    items[0] = x + 1
    items += [4, 5]
    items[1:3] = [x * 2]
    table["b"] = items.pop()
    table["a"] += 1
    del items[0], table["a"]
    table.setdefault("c", []).append(x)
    return items[0] + len(table)


@program(X, [1, 2])
def displays(x: Any, items: Any) -> Any:
    a = [x, *items, x + 1]
    b = {"x": x, **{"y": a}, "z": (x, *items)}
    c = (*items, x * 2)
    d = {1, *items, 5}
    return a, b, c, len(d), a[1:], a[::2], [1, 2, 3]


@program(collections.deque([1, 2], 3), collections.OrderedDict(a=1, b=2), collections.defaultdict(list), X)
def other_containers(queue: Any, order: Any, lists: Any, x: Any) -> Any:
    queue.append(x + 1)
    queue.appendleft(x)
    order.move_to_end("a")
    lists["new"].append(order.popitem())
    return x + len(queue), queue[0]


@program([1, 2, 3, 4], X)
def a_list_changed_in_its_loop(items: Any, x: Any) -> Any:
    for item in items:
        if item == 2:
            items.remove(3)
        if item == 4:
            items.append(5)
        x = x + item
    return x


@program(X, M)
def in_place_operations(x: Any, m: Any) -> Any:
    x.add_(1)
    x *= 2
    m[0] = x
    m[1, 1:] += 5
    y = m.sum()
    x.zero_()
    return y + x


@program(M)
def views(m: Any) -> Any:
    row, column = m[0], m[:, 1]
    row.mul_(2)
    column += 1
    flat = m.view(-1)
    flat[0] = 9
    return row + flat[3:], column * 2, m.t()


@program(M)
def views_of_what_is_made(m: Any) -> Any:
    y = m * 2
    part = y[0]
    part.add_(1)
    y.t_()
    return part, y, y is not m


@program(X)
def shared_objects(x: Any) -> Any:
    y = x + 1
    inner = [y]
    outer = {"a": inner, "b": inner}
    inner.append(outer)
    y.mul_(2)
    return outer, inner, y


@program(X)
def random_numbers(x: Any) -> Any:
    torch.manual_seed(3)
    y = torch.rand(3) + x
    z = torch.nn.functional.dropout(y)
    return y, z, torch.randn(2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(1))
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.seen += 1
        return self.linear(x).relu() + self.seen


torch.manual_seed(0)
NET = Net()


@program(NET, X)
def a_module(net: Any, x: Any) -> Any:
    y = net(x)
    return net(y * 2) + net.calls


@program(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU()), M)
def a_sequence_of_modules(net: Any, m: Any) -> Any:
    y = net(m)
    return y + net[1].running_mean


@program(X, 3)
def breaks_of_its_own(x: Any, n: Any) -> Any:
    y = x + n
    print("one", n)
    if y.sum() > 0:
        y = y * 2
    z = y.tolist()
    print("two", len(z))
    return y + z[0]


@program(X, [])
def breaks_of_the_callees(x: Any, log: Any) -> Any:
    with scaled(log):
        y = told(x) + 1
        for n in range(2):
            y = told(y) * n
    return y


def told(x: Any) -> Any:
    y = x * 2
    print("told", x.dim())
    return y + 1


# ---- values that refer to others


@program({"a": 1, "b": 2}, X)
def views_of_dictionaries(table: Any, x: Any) -> Any:
    keys, values, items = table.keys(), table.values(), table.items()
    table["c"] = x + len(keys)
    own = {"a": x}
    mine = own.values()
    own["b"] = x * 2
    return len(keys), "c" in keys, [*values][-1], sum(mine), len(items)


@program(Box(X.clone()), [1], X)
def bound_methods_and_partials(box: Any, items: Any, x: Any) -> Any:
    grow, append = box.grow, items.append
    more = functools.partial(grow, x)
    append(more().count)
    own = []
    keep = own.append
    keep(grow(2).value)
    return box.count, own, items


class Late(Box):
    def grow(self, by: Any) -> Any:
        above = super()
        self.count += 10
        return above.grow(by * 2)


@program(Late(X.clone()), X)
def super_objects(box: Any, x: Any) -> Any:
    return box.grow(x).value, Late(x).grow(1).count


class Later(Box):
    def grow(self, by: Any) -> Any:
        above = super()
        by = by * 2
        return above.grow(by)


@program(Later(X.clone()), X)
def super_objects_alone(box: Any, x: Any) -> Any:
    return box.grow(x).value


@program([1, 2, 3], X)
def iterators_of_outside_lists(items: Any, x: Any) -> Any:
    pairs, it = zip(items, "abc"), iter(items)
    x = x + next(it)
    for n, name in pairs:
        x = x * n
    return x + sum(it), name, next(pairs, None)


@program(X)
def iterators_of_inside_lists(x: Any) -> Any:
    parts = [x, x + 1, x * 2]
    it, back = enumerate(parts), reversed(parts)
    n, first = next(it)
    parts.append(next(back))
    return [(n, part + first) for n, part in it], len([*back])


@program({"b": 1, "a": 2}, X)
def iterators_of_dictionaries(table: Any, x: Any) -> Any:
    own = {name: x + n for name, n in table.items()}
    it = iter(own.items())
    name, first = next(it)
    for other, part in it:
        first = first * part
    return name, other, first, sorted(table)


@program(collections.OrderedDict(b=1, a=2, c=3), X)
def iterators_of_ordered_dictionaries(table: Any, x: Any) -> Any:
    names, held, pairs = iter(table), iter(table.values()), iter(table.items())
    back = reversed(table)
    first, x = next(names), x * next(held) + next(pairs)[1]
    own = collections.OrderedDict((name, x + n) for name, n in table.items())
    for name, part in own.items():
        x = x * part + len(next(back))
    return first, name, x, [*names], [*held], [*pairs], [*reversed(own.values())]


@program(collections.OrderedDict(b=1, a=2), X)
def ordered_dictionaries_that_grow(table: Any, x: Any) -> Any:
    pairs = iter(table.items())
    x = x * next(pairs)[1]
    table["c"] = x
    try:
        next(pairs)
    except RuntimeError as error:
        return x + 1, str(error)


@program([3, 1, 2], X)
def maps_and_filters(items: Any, x: Any) -> Any:
    big = filter(lambda item: item > 1, items)
    scaled = map(lambda item: x * item, big)
    y = next(scaled)
    return y + sum(scaled), [*big]


@program(torch.arange(12.0).view(3, 4), 1)
def slices(m: Any, n: Any) -> Any:
    part = slice(n, None, 2)
    rows = range(3)[part]
    y = m[..., part][rows[0]]
    m[n:, :2] = y.sum()
    return y, rows, m[:, None, -1]


# ---- more of the language


class Odd:
    def __init__(self, x: Any) -> None:
        self.x, self.log = x, []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.log.append(name)
        return self.x + len(name)

    def __call__(self, *args: Any) -> Any:
        return self.x * len(args)

    def __eq__(self, other: object) -> Any:
        self.log.append("eq")
        return self is other

    __hash__ = None

    def __contains__(self, item: Any) -> bool:
        self.log.append(item)
        return item == 2

    def __iter__(self) -> Iterator[Any]:
        yield self.x
        yield self.x + 1

    def __bool__(self) -> bool:
        self.log.append("bool")
        return True

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append(key)
        self.x = self.x + value


@program(Odd(X.clone()), X)
def special_methods(odd: Any, x: Any) -> Any:
    y = odd.missing if odd else x
    if 2 in odd and not odd == 3:
        y = y + odd(1, 2)
    odd[1:2] = y
    a, b = odd
    return a + b, y


@program(X, [4])
def augmented_assignment(x: Any, items: Any) -> Any:
    box = Box(x + 1)
    box.value *= 2
    box.value -= items[0]
    items[-1] += 3
    items[0] = items[0] ** 2 // 5 % 7 | 8
    return box.value @ x, items, -x, ~x.bool()


@program(X, [])
def a_loop_around_handlers(x: Any, log: Any) -> Any:
    n = 0
    while True:
        n += 1
        try:
            if n == 1:
                continue
            if n == 2:
                raise ValueError(n)
            break
        except ValueError as error:
            x = x * error.args[0]
        finally:
            log.append(n)
    return x + n


@program(X, [])
def errors_of_torch(x: Any, log: Any) -> Any:
    try:
        y = x + 1
        x.view(2, 2)
    except RuntimeError as error:
        log.append(type(error))
        y = y * 2
    return y


@program(X)
def local_names(x: Any) -> Any:
    y, n = x + 1, 3
    found = sorted(locals())
    del n
    return y, found, sorted(locals())


@program(X)
def decorated_inside(x: Any) -> Any:
    def twice(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return fn(fn(*args, **kwargs))

        return inner

    @twice
    def add(y: Any, *, n: Any = 2) -> Any:
        return y + n

    return add(x, n=1), add.__name__


@program(X)
def a_variable_in_a_cell_deleted(x: Any) -> Any:
    def get() -> Any:
        return y  # noqa: F821

    y = x + 1
    z = get()
    del y
    try:
        get()
    except NameError as error:
        z = z * 2
    return z


@program(X)
def a_variable_in_a_cell_that_a_comprehension_hides(x: Any) -> Any:
    def get() -> Any:
        return n

    n = x * 2
    hidden = [(n, get())[0] for n in range(2)]
    made = [(lambda: (n, get()))() for n in range(2)]
    n = n + 1
    return get(), hidden, made, n


@program(X, [])
def a_generator_sent_to(x: Any, log: Any) -> Any:
    def echo() -> Iterator[Any]:
        got = None
        while True:
            got = yield (x if got is None else x * got)
            log.append(got)

    it = echo()
    y = next(it)
    z = it.send(3)
    return y + z + it.send(2)


@program(X, [1, 2])
def a_tuple_of_conditions(x: Any, items: Any) -> Any:
    a = x if items else None
    b = items and items[0]
    c = [*items, *(() if a is None else (3,))]
    return a, b, c, {**{}, "k": b}, f"{b}{c!s:>10}"


@program(X.clone().requires_grad_(), X.clone())
def gradients_flow(w: Any, x: Any) -> Any:
    y = w * x
    with torch.no_grad():
        x.add_(1)
        z = y.detach() + x
    loss = (y * z).sum()
    return loss, y.requires_grad, z.requires_grad


@program(X, torch.zeros(3))
def results_into_arguments(x: Any, out: Any) -> Any:
    torch.add(x, 1, out=out)
    y = out[1:]
    out.mul_(2)
    x.copy_(out)
    return y, x.view_as(out)


# ---- the checks

LIMIT = 40
"""In front of how many instructions a program is broken, in each of the two ways."""

ALLOWED = 0.1
"""The share of places that can't be left."""

OFTEN_REFUSED = {"maps_and_filters": "such an iterator, once begun, can't be made again"}

KNOWN = {"super_objects_alone": "what a super object is bound to is not opened as an input"}

EACH = [
    pytest.param(name, marks=pytest.mark.xfail(reason=KNOWN[name])) if name in KNOWN else name
    for name in PROGRAMS
]


@pytest.mark.parametrize("name", EACH)
def test_a_break_at_any_instruction(name: str) -> None:
    count = tried(name, Force(float("inf"), step=False)).count
    places = random.Random(0).sample(range(count), min(LIMIT, count))
    plain = [force_at(name, n, step=False) for n in places]
    stepped = [force_at(name, n, step=True) for n, force in zip(places, plain, strict=True) if force.can_step]
    refused = [force.at for force in plain + stepped if force.refused]
    if name not in OFTEN_REFUSED:
        assert len(refused) <= 2 + ALLOWED * len(plain + stepped), refused


def force_at(name: str, n: int, step: bool) -> Force:
    force = Force(n, step)
    try:
        tried(name, force)
    except BaseException as error:
        error.add_note(
            f"broken in front of instruction {n} ({force.at}), {'with' if step else 'without'} a step"
        )
        raise
    assert force.at
    return force
