"""Functions of C that are given numbers which may vary: what each does with symbols, without their values.

What only hands numbers on leaves them symbols (`passes_numbers`). What computes is done by the operators of
the trace, or by the region (`trace/derived_numbers.py`). What compares relies on how the comparisons came out
(`trace/comparisons.py`). All else is given definite numbers. The handlers here are asked only where there are
symbols in the trace.
"""

from __future__ import annotations

import collections
import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from framelift.core.blame import acts_for_program
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.graph import arithmetic, numbers_of_data
from framelift.graph.arithmetic import NUMBERS, has_symbols
from framelift.graph.symbols import SYMBOLIC, settled
from framelift.interpreter.op_calls import CALL
from framelift.interpreter.op_control import GET_ITER
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import rule
from framelift.trace.containers import MAPPINGS, Containers
from framelift.trace.derived_numbers import LIMITS
from framelift.trace.machine import calls_back
from framelift.trace.world import TraceWorld

Handler = Callable[[TraceWorld, Any, list[Any], dict[str, Any]], Any]
INTEGERS = (int, bool, torch.SymInt)
deque = collections.deque

# ---- operators, by the names that module `operator` and the types have for them


def applies(fn: Any) -> Handler:
    """The operator itself."""

    @acts_for_program
    def call(world: TraceWorld, called: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        args[:] = [opened(arg) for arg in args]
        return world.operators.apply(fn, *args) if not kwargs and len(args) in (1, 2) else MISSING

    return call


def applies_to_own_kind(fn: Any, kinds: tuple[type, ...], is_reflected: bool = False) -> Handler:
    """A method of a type of numbers, which takes others of that type only."""

    @acts_for_program
    def call(world: TraceWorld, called: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        args[:] = [opened(arg) for arg in args]
        if kwargs or len(args) > 2 or not has_symbols(args) or not all(type(arg) in kinds for arg in args):
            return MISSING  # with three it is a power, modulo the last
        return world.operators.apply(fn, *reversed(args) if is_reflected else args)

    return call


@acts_for_program
def compares(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method that compares what a container holds. A subclass may have its own."""
    args[:] = [opened(arg) for arg in args]
    return world.comparisons.call(fn, args) if not kwargs else MISSING


@acts_for_program
def contains(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return world.containers.contains(*args) if len(args) == 2 and not kwargs else MISSING


def is_symbol(value: Any) -> bool:
    return type(value) in SYMBOLIC


# ---- what goes over elements


def drain(world: TraceWorld, args: list[Any], at: int = 0) -> list[Any] | None:
    """The items of an argument that a function goes over, opened; an iterator becomes a list of what it
    gives. None: it is something that holds no symbols, or no iterable."""
    if len(args) <= at:
        return None
    value = args[at] = as_sequence(world, opened(args[at]))
    cls = type(value)
    if not (cls in SEQUENCES or hasattr(cls, "__next__")):
        return None
    items = [opened(item) for item in world.containers.elements(value)]
    if cls not in SEQUENCES:
        args[at] = items
    return items


def as_sequence(world: TraceWorld, value: Any) -> Any:
    """A tuple with names, or of another class that adds nothing to going over it, as a plain one."""
    cls = type(value)
    if cls in SEQUENCES or not issubclass(cls, tuple):
        return value
    is_plain = world.classes.attribute(cls, "__iter__") is vars(tuple)["__iter__"]
    return tuple.__getitem__(value, slice(None)) if is_plain else value


SEQUENCES = (list, tuple, torch.Size, deque)
CONCATENATED: list[set[type]] = [{tuple}, {list}]
"""What `sum` joins: it only moves what they hold."""
SUMS_AS_WRITTEN = sys.version_info < (3, 12)
"""Whether `sum` adds floats one by one, and does not care for what is lost by rounding."""


def folds(fn: Any, first: int) -> Handler:
    """`sum` and `math.prod`."""

    @calls_back
    @acts_for_program
    def call(world: TraceWorld, called: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        items = drain(world, args)
        if items is None or len(args) > 2 or not kwargs.keys() <= {"start"}:
            return MISSING
        start = [opened(x) for x in (*args[1:], *kwargs.values())] or [first]
        numbers = [*start, *items]
        if called is sum and len(start) == 1 and {type(x) for x in numbers} in CONCATENATED:
            return functools.reduce(functools.partial(world.operators.apply, fn), numbers)
        if len(start) > 1 or not all(type(x) in NUMBERS for x in numbers) or not has_symbols(numbers):
            return MISSING
        floats = any(type(x) in (float, torch.SymFloat) for x in numbers)
        if floats and not (SUMS_AS_WRITTEN and called is sum):
            return MISSING
        return functools.reduce(functools.partial(world.operators.apply, fn), numbers)

    return call


def decides(found: bool) -> Handler:
    """`any` and `all`, which stop where they know."""

    @calls_back
    @acts_for_program
    def call(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            return MISSING
        iterable = as_sequence(world, opened(args[0]))
        if not (type(iterable) in SEQUENCES or hasattr(type(iterable), "__next__")):
            return MISSING
        iterator = world.containers.iterate(iterable)
        while (item := world.containers.advance(iterator)) is not MISSING:
            if world.operators.truth(item) is found:
                return found
        return not found

    return call


def keys_of(world: TraceWorld, items: list[Any], key: Any) -> list[Any]:
    return items if key is None else [opened(world.calls.invoke(key, item)) for item in items]


@calls_back
@acts_for_program
def sort(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`sorted` and `list.sort`."""
    items = drain(world, args)
    given = {name: opened(value) for name, value in kwargs.items()}
    if items is None or len(args) != 1 or not given.keys() <= {"key", "reverse"}:
        return MISSING
    order = world.comparisons.choose(
        sorted,
        keys_of(world, items, given.get("key")),
        reverse=world.operators.truth(given.get("reverse", False)),
    )
    found = [items[n] for n in order]
    if fn is sorted:
        return found
    args[0][:] = found
    return None


@calls_back
@acts_for_program
def choose(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`min` and `max`."""
    if len(args) == 1:
        items = drain(world, args)
    else:
        items = args[:] = [opened(arg) for arg in args]
    if not items or not kwargs.keys() <= {"key", "default"} or ("default" in kwargs and len(args) > 1):
        return MISSING
    key = opened(kwargs.get("key"))
    if key is None:
        numbers = world.materialize.for_torch(items)
        if (found := world.derived_numbers.call(fn, numbers)) is not MISSING:
            return found
        try:
            result = (arithmetic.least if fn is min else arithmetic.largest)(
                numbers if len(items) > 1 else [items]
            )
        except Break:
            result = numbers_of_data.chosen(world.recorder.call, fn, numbers)
            if result is NotImplemented:
                raise
        if result is not NotImplemented:
            return result
        if world.comparisons.copies(items) is None:
            return MISSING
    return items[world.comparisons.choose(fn, keys_of(world, items, key))]


@acts_for_program
def accumulate(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Adds what it goes over, if it is given nothing else to do with it: the trace adds, and not C."""
    if len(args) == 1 and kwargs.get("func") is None:
        kwargs["func"] = operator.add
    return MISSING


@acts_for_program
def repeat(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`itertools.repeat`."""
    args[:] = [opened(arg) for arg in args]
    if not args or not is_symbol(args[0]) or kwargs:
        return MISSING
    return fn(args[0], *map(settled, args[1:]))


@acts_for_program
def as_text(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`str`, `format` and their kin."""
    return world.late_texts.call(fn, args, kwargs) if len(args) in (1, 2) and not kwargs else MISSING


# ---- places in containers


@acts_for_program
def looks_up(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Methods of tables that need not find what they are asked for."""
    args[:] = [opened(arg) for arg in args[:2]] + args[2:]
    may_fail = fn is dict.pop and len(args) < 3
    if kwargs or len(args) < 2 or may_fail or type(args[0]) not in TABLES:
        return MISSING
    if not world.comparisons.is_absent(args[0], args[1]):
        return MISSING
    return False if fn.__name__ == "__contains__" else args[2] if len(args) > 2 else None


TABLES = MAPPINGS | {set, frozenset}


@calls_back
@acts_for_program
def from_keys(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`dict.fromkeys`: the value is handed on."""
    if len(args) != 2 or kwargs:
        return MISSING
    return dict.fromkeys(world.calls.invoke(fn, args[0]), args[1])


@acts_for_program
def remove(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args[:] = [opened(arg) for arg in args]
    if len(args) != 2 or kwargs or type(args[0]) not in (list, deque):
        return MISSING
    copies = world.comparisons.copies(args)
    if copies is None:
        return MISSING
    if copies[1] not in copies[0]:
        fn(type(args[0])(), 0)  # which raises
    del args[0][copies[0].index(copies[1])]
    return None


# ---- functions of numbers


@acts_for_program
def divide(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`divmod`."""
    args[:] = [opened(arg) for arg in args]
    if kwargs or len(args) != 2 or not has_symbols(args) or not all(type(arg) in NUMBERS for arg in args):
        return MISSING
    if not world.operators.truth(args[1]):
        return MISSING  # which raises, in words of its own
    return world.operators.apply(operator.floordiv, *args), world.operators.apply(operator.mod, *args)


@acts_for_program
def power(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`pow`, of two numbers or modulo a third."""
    args[:] = [opened(arg) for arg in args]
    if kwargs or not has_symbols(args) or not all(type(arg) in NUMBERS for arg in args):
        return MISSING
    if len(args) == 2:
        return world.operators.apply(operator.pow, *args)
    whole = len(args) == 3 and type(args[1]) is int and 0 <= args[1] <= 2
    if not whole or not all(type(arg) in INTEGERS for arg in args) or not world.operators.truth(args[2]):
        return MISSING
    return world.operators.apply(operator.mod, world.operators.apply(operator.pow, *args[:2]), args[2])


@acts_for_program
def rounds(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`round`."""
    args[:] = [opened(arg) for arg in args]
    digits = [opened(x) for x in (*args[1:], *kwargs.values())]
    if not args or not is_symbol(args[0]) or not kwargs.keys() <= {"ndigits"} or len(digits) > 1:
        return MISSING
    if digits == [None]:
        digits = []
    if type(args[0]) is torch.SymInt and all(type(n) is int and n >= 0 for n in digits):
        return args[0]
    return world.derived_numbers.call(round, [args[0], *digits])


@acts_for_program
def folds_pairs(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`math.gcd` and `math.lcm`, of any number of integers."""
    args[:] = [opened(arg) for arg in args]
    if kwargs or not has_symbols(args) or not all(type(arg) in INTEGERS for arg in args):
        return MISSING
    found: Any = args[0] if len(args) > 1 else world.operators.apply(operator.abs, args[0])
    for arg in args[1:]:
        found = world.derived_numbers.call(fn, [found, arg]) if has_symbols([found, arg]) else fn(found, arg)
        if found is MISSING:
            return MISSING
    return found


def go_over_range(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`range`, where a loop goes over it and nobody else sees it: how many numbers there are has to be known,
    and not which."""
    args[:] = [opened(arg) for arg in args]
    if kwargs or not 0 < len(args) < 4 or not has_symbols(args) or not is_loops_own(world, fn, len(args)):
        return MISSING
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if not all(type(arg) in INTEGERS for arg in args) or not world.operators.truth(step):
        return MISSING
    assert world.machine.frame is not None
    world.loops.begin(world.machine.frame, world.machine.frame.ip)
    apply, truth = world.operators.apply, world.operators.truth
    rises = truth(apply(operator.gt, step, 0))
    low, high, by = (start, stop, step) if rises else (stop, start, apply(operator.neg, step))
    if not truth(apply(operator.gt, high, low)):
        return ()
    last = settled(apply(operator.floordiv, apply(operator.sub, apply(operator.sub, high, low), 1), by))
    if last > LONGEST_LOOP:
        return MISSING
    return tuple([apply(operator.add, start, apply(operator.mul, n, step)) for n in range(last + 1)])


LONGEST_LOOP = 1 << 16
"""The numbers of longer ones are not made before the loop begins: it may end early."""


def is_loops_own(world: TraceWorld, fn: Any, count: int) -> bool:
    """Whether the instruction that calls a function with so many arguments is followed by one that goes over
    what it gives."""
    frame = world.machine.frame
    assert frame is not None
    called = frame.stack[-count - 2 : -count] if len(frame.stack) > count else []
    is_next = frame.ip + 1 < len(frame.code.ops) and frame.code.ops[frame.ip + 1][0] is GET_ITER
    return is_next and frame.code.ops[frame.ip][0] is CALL and any(opened(value) is fn for value in called)


def is_finite(answer: bool) -> Handler:
    """`math.isfinite` and its kin: of integers, and of floats that are symbols, all are finite."""

    def call(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        args[:] = [opened(arg) for arg in args]
        return answer if len(args) == 1 and type(args[0]) is torch.SymInt else MISSING

    return call


# ---- operators, by the names that module `operator` and the types have for them

UNARY = ("neg", "pos", "abs", "invert")
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
KINDS: dict[type, tuple[type, ...]] = {int: INTEGERS, float: (float, torch.SymFloat, *INTEGERS)}

for _name in (*UNARY, *BINARY, *COMPARISONS):
    _fn = getattr(operator, _name)
    _short = _name.rstrip("_")
    if _name not in COMPARISONS:
        rule(_fn, with_symbols=applies(_fn))
    if f"i{_short}" in ("iadd", "imul", "itruediv", "ifloordiv", "imod", "ipow", "ilshift", "irshift"):
        _in_place = getattr(operator, f"i{_short}")
        rule(_in_place, with_symbols=applies(_in_place))
    for _cls, _kinds in KINDS.items():
        if f"__{_short}__" in vars(_cls):
            rule(vars(_cls)[f"__{_short}__"], with_symbols=applies_to_own_kind(_fn, _kinds))
        if f"__r{_short}__" in vars(_cls):
            rule(
                vars(_cls)[f"__r{_short}__"], with_symbols=applies_to_own_kind(_fn, _kinds, is_reflected=True)
            )
rule(operator.inv, with_symbols=applies(operator.invert))
rule(vars(int)["__divmod__"], with_symbols=divide)
rule(vars(float)["__divmod__"], with_symbols=divide)


def itself(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What gives an integer that it is given."""
    args[:] = [opened(arg) for arg in args]
    return args[0] if len(args) == 1 and type(args[0]) is torch.SymInt and not kwargs else MISSING


@acts_for_program
def is_same(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        return MISSING
    return world.identity.same(*args) is not (fn is operator.is_not)


@acts_for_program
def of_item(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    do, count = ITEMS[fn]
    return do(world.containers, *args) if len(args) == count and not kwargs else MISSING


ITEMS: dict[Any, tuple[Callable[..., Any], int]] = {
    operator.getitem: (Containers.load, 2),
    operator.setitem: (Containers.store, 3),
    operator.delitem: (Containers.delete, 2),
}


@acts_for_program
def call(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return world.calls.invoke(*args, **kwargs) if args else MISSING


@acts_for_program
def by_function(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of floats that functions ask for."""
    if len(args) != 1 or kwargs or type(opened(args[0])) is not torch.SymFloat:
        return MISSING
    return world.calls.invoke(BY_FUNCTION[fn.__name__], *args)


BY_FUNCTION: dict[str, Any] = {"__int__": int, "__float__": float, "conjugate": float}
BY_FUNCTION |= {"__floor__": math.floor, "__ceil__": math.ceil, "__trunc__": math.trunc}


@acts_for_program
def truth_of(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args[:] = [opened(arg) for arg in args]
    if len(args) != 1 or kwargs:
        return MISSING
    return world.operators.truth(args[0]) is not (fn is operator.not_)


@acts_for_program
def as_float(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or type(opened(args[0])) is not torch.SymInt:
        return MISSING
    return world.calls.invoke(float, *args)


def as_ratio(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    found = itself(world, fn, args, kwargs)
    return MISSING if found is MISSING else (found, 1)


for _name in ("__int__", "__index__", "__trunc__", "__floor__", "__ceil__", "conjugate"):
    rule(vars(int)[_name], with_symbols=itself)
rule(operator.index, with_symbols=itself)
rule(operator.is_, operator.is_not, with_symbols=is_same)
rule(*ITEMS, with_symbols=of_item)
rule(operator.concat, with_symbols=applies(operator.add))
rule(operator.iconcat, with_symbols=applies(operator.iadd))
if hasattr(operator, "call"):
    rule(operator.call, with_symbols=call)
for _name in BY_FUNCTION:
    rule(vars(float)[_name], with_symbols=by_function)
rule(int.as_integer_ratio, with_symbols=as_ratio)
rule(vars(int)["__float__"], with_symbols=as_float)
rule(vars(int)["__round__"], vars(float)["__round__"], with_symbols=rounds)
rule(vars(int)["__bool__"], vars(float)["__bool__"], operator.truth, operator.not_, with_symbols=truth_of)


@acts_for_program
def element_count(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return world.calls.invoke(math.prod, *args) if len(args) == 1 and not kwargs else MISSING


rule(torch.Size.numel, with_symbols=element_count)

# ---- module `math`

rule(math.gcd, math.lcm, with_symbols=folds_pairs)
rule(math.isfinite, with_symbols=is_finite(True))
rule(math.isnan, math.isinf, with_symbols=is_finite(False))
# what varies is computed by the region, or settled
rule(*(set(LIMITS) - {math.gcd, math.lcm}), on_symbols=lambda numbers: NotImplemented)
