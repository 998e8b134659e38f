"""What torch offers programs to ask about symbols, and to say of them: functions of its own module of this
name, `torch._check` and its kin. A condition on a number that only the data decides is a fact from where it
is said on, and the graph checks it when it runs."""

from __future__ import annotations

import functools
import operator
import sys
from types import FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.symbols import data_dependence, simplest
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.machine import TraceFrame, calls_back, interpreted

CHECKS = "checks its argument, and has no effect"

# ---- questions


def serve_question(question: Any) -> None:
    @serve(question, looks=Looks.DEEP, why="asks about a symbol")
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        given, named = f.world.materialize.for_torch([list(args), kwargs])
        with torch._C.DisableTorchFunction(), data_dependence():
            return simplest(question(*given, **named))


ABOUT_SYMBOLS = """
    statically_known_true statically_known_false guard_or_false guard_or_true has_static_value is_concrete_int
    is_concrete_float is_concrete_bool has_guarding_hint has_free_symbols has_free_unbacked_symbols
    is_nested_int sym_and sym_or sym_eq guard_bool guard_int guard_float guard_scalar optimization_hint
    guard_size_oblivious is_symbolic is_concrete hint_int size_hint
"""


def know_questions() -> None:
    """Called before each trace. A program that has not imported torch's module asks nothing of it."""
    if hasattr(sys.modules.get(symbolic_shapes.__name__), "constrain_range"):
        serve_module()


@functools.cache
def serve_module() -> None:
    for name in ABOUT_SYMBOLS.split():
        if hasattr(symbolic_shapes, name):
            question = getattr(symbolic_shapes, name)
            is_deprecated = hasattr(question, "__deprecated__")  # a wrapper warns of it
            serve_question(question.__wrapped__ if is_deprecated else question)
    serve(symbolic_shapes.expect_true, looks=Looks.DEEP, why=CHECKS)(serve_expect_true)
    serve_range(symbolic_shapes.constrain_range, None)


# ---- conditions


@serve(torch._check, looks=Looks.DEEP, why=CHECKS)
def serve_check(f: TraceFrame, /, cond: Any, message: Any = None) -> Any:
    condition = opened(cond)
    if type(condition) is not torch.SymBool:
        return f.world.calls.native(f, torch._check, [cond, told(f, condition, message)], None)
    return f.world.recorder.builder.assertions.assume(condition, text_of(opened(message)))


@calls_back
def told(f: TraceFrame, condition: Any, message: Any) -> Any:
    """What gives the text of an error, for torch's own Python to call: the program's function is called here,
    if the check fails."""
    message = opened(message)
    if condition is not False or isinstance(message, type) or not callable(message):
        return message
    calls = f.world.calls
    text = f.world.materialize.for_c(calls.invoke(str, calls.invoke(message)))
    return lambda: text


def serve_expect_true(f: TraceFrame, /, a: Any, skip: Any = 0) -> Any:
    if type(opened(a)) is not torch.SymBool:
        return f.world.calls.native(f, symbolic_shapes.expect_true, [a, skip], None)
    serve_check(f, a)
    return True


def text_of(message: Any) -> str | None:
    """What a function that only gives a text gives."""
    code = message.__code__ if type(message) is FunctionType else None
    if code is None or code.co_argcount or code.co_names or code.co_freevars or code.co_varnames:
        return None
    texts = [constant for constant in code.co_consts if constant is not None]
    return texts[0] if len(texts) == 1 and type(texts[0]) is str else None


def serve_check_with_error(check: Any) -> None:
    """Serves a check that raises an error which a graph would not raise: the frame that runs then does."""

    @serve(check, looks=Looks.DEEP, why=CHECKS)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        given = [opened(value) for value in (*args, *kwargs.values())]
        conditions = [value for value in given if type(value) is torch.SymBool]
        if not conditions:
            failed = any(value is False for value in given)
            said = [told(f, not failed, value) for value in args]
            named = {name: told(f, not failed, value) for name, value in kwargs.items()}
            return f.world.calls.native(f, check, said, named)
        if not f.world.raising_branches.assume(f, conditions[0], f"torch.{check.__name__}"):
            raise Break(breaks.DATA_DEPENDENT_BRANCH, f"torch.{check.__name__}")
        return None


for _check in (torch._check_with, torch._check_index, torch._check_value, torch._check_type):
    serve_check_with_error(_check)
serve_check_with_error(torch._check_not_implemented)


@serve(torch._check_tensor_all_with)
def serve_check_tensor_all(f: TraceFrame, /, error_type: Any, cond: Any, message: Any = None) -> Any:
    condition = opened(cond)
    if type(condition) is FakeTensor and condition.dtype is torch.bool:
        holds = f.world.recorder.call(torch._is_all_true, (condition,), {})
        if f.world.raising_branches.assume(f, holds, "torch._check_tensor_all"):
            return None
    return interpreted(f, torch._check_tensor_all_with, [error_type, cond, message], None)


@serve(torch._check_is_size)
def serve_check_is_size(f: TraceFrame, /, i: Any, message: Any = None, **options: Any) -> Any:
    size: Any = opened(i)
    if type(size) is int and not options:
        return serve_check(f, size >= 0, message)
    if type(size) is not torch.SymInt:
        return f.world.calls.native(f, torch._check_is_size, [i, message], options)
    most = opened(options.get("max"))
    serve_check(f, f.world.operators.apply(operator.ge, size, 0))
    return None if most is None else serve_check(f, f.world.operators.apply(operator.le, size, most))


# ---- ranges


def serve_range(function: Any, least: int | None) -> None:
    """`least`: how small a number may be where the program does not say."""

    @serve(function, looks=Looks.DEEP, why=CHECKS)
    def served(f: TraceFrame, /, number: Any, *args: Any, **kwargs: Any) -> Any:
        size = opened(number)
        named = dict(zip(("min", "max"), args, strict=False)) | kwargs
        low, high = (opened(named.get(name)) for name in ("min", "max"))
        if type(size) is not torch.SymInt or (least == 0 and type(high) is int and high <= 2):
            return f.world.calls.native(f, function, [number, *args], kwargs)
        low = least if low is None else low
        for compare, limit in ((operator.ge, low), (operator.le, high)):
            if limit is not None and abs(limit) < LARGEST:
                serve_check(f, f.world.operators.apply(compare, size, limit))
        return None


LARGEST = 1 << 62
for _function, _least in (
    (torch._constrain_as_size, 0),
    (torch.sym_constrain_range, None),
    (torch.sym_constrain_range_for_size, 0),
):
    serve_range(_function, _least)

CONSTRAINTS: dict[Any, Any] = {
    getattr(torch.ops.aten, name): getattr(torch, name)
    for name in ("sym_constrain_range", "sym_constrain_range_for_size")
}
CONSTRAINTS |= {packet.default: function for packet, function in CONSTRAINTS.items()}
"""Operator -> the function that does the same."""
