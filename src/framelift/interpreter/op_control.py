"""Control flow: jumps, iteration, returning; raising, handling, exception groups, `with`."""

from __future__ import annotations

import operator
import sys
from typing import Any

from framelift import _frame
from framelift.core.sentinels import MISSING, Sentinel
from framelift.interpreter.calls import call
from framelift.interpreter.frame import Frame, Handling
from framelift.interpreter.frame_objects import traceback_of
from framelift.interpreter.generators import NO_EXCEPTION
from framelift.interpreter.machine import RERAISE as RERAISE_SIGNAL
from framelift.interpreter.machine import RETURN
from framelift.interpreter.op_calls import push_result
from framelift.interpreter.pending import opened


def LOAD_ASSERTION_ERROR(f: Frame, _: Any) -> None:
    f.stack.append(AssertionError)


def RAISE_VARARGS(f: Frame, n: int) -> Sentinel | None:
    if n == 0:
        handled = sys.exception()
        if handled is None:
            raise RuntimeError("No active exception to reraise")
        f.world.errors.raising(handled)
        f.value = handled
        return RERAISE_SIGNAL
    cause = opened(f.stack[-1]) if n == 2 else MISSING
    error = as_exception(f, opened(f.stack[-n]), "exceptions must derive from BaseException")
    f.world.errors.raising(error)
    if cause is None:
        error.__cause__ = None
    elif cause is not MISSING:
        error.__cause__ = as_exception(f, cause, "exception causes must derive from BaseException")
    raise error


def as_exception(f: Frame, value: Any, otherwise: str) -> BaseException:
    if isinstance(value, type) and issubclass(value, BaseException):
        made = f.world.operators.apply(value)
        if not isinstance(made, BaseException):
            raise TypeError(f"{NO_EXCEPTION.format(value)}, not {type(made)!r}")
        return made
    if isinstance(value, BaseException):
        return value
    raise TypeError(otherwise)


def PUSH_EXC_INFO(f: Frame, _: Any) -> None:
    error = f.stack[-1] = opened(f.stack[-1])
    before = _frame.swap_handled(error)
    if f.generator is not None:
        # a generator has handled exceptions of its own, over those of whoever resumes it
        before, f.generator.own_exception = f.generator.own_exception, error
    f.stack.insert(-1, Handling(error, before))


def POP_EXCEPT(f: Frame, _: Any) -> None:
    handling = f.stack.pop()
    handling.over = True
    before = handling.before
    if f.generator is not None:
        f.generator.own_exception = before
        before = f.generator.callers_exception if before is None else before
    _frame.swap_handled(before)


def RERAISE(f: Frame, _: Any) -> Sentinel:
    error = opened(f.stack[-1])
    f.world.errors.raising(error)
    f.stack.pop()
    f.value = error
    return RERAISE_SIGNAL


CATCHING = "catching classes that do not inherit from BaseException is not allowed"


def CHECK_EXC_MATCH(f: Frame, _: Any) -> None:
    wanted = opened(f.stack[-1])
    classes = wanted if isinstance(wanted, tuple) else (wanted,)
    if not all(isinstance(opened(c), type) and issubclass(opened(c), BaseException) for c in classes):
        raise TypeError(CATCHING)
    # exception matching is by the MRO alone: it never asks __instancecheck__
    mro = type(opened(f.stack[-2])).__mro__
    f.world.classes.guard_bases(mro[0])
    f.stack[-1] = any(opened(c) in mro for c in classes)


# ---- exception groups


def CHECK_EG_MATCH(f: Frame, _: Any) -> None:
    error, wanted = map(opened, f.stack[-2:])
    classes = tuple(opened(c) for c in wanted) if isinstance(wanted, tuple) else (wanted,)
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in classes):
        raise TypeError(CATCHING)
    if any(issubclass(c, BaseExceptionGroup) for c in classes):
        raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    f.world.classes.guard_bases(type(error))
    rest: BaseException | None
    if isinstance(error, classes):
        match = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
        rest = None
    elif isinstance(error, BaseExceptionGroup):
        match, rest = f.world.operators.apply(operator.methodcaller("split", classes), error)
    else:
        match, rest = None, error
    if match is None:
        f.stack[-2:] = [error if rest is None else rest, None]
        return
    f.stack[-2:] = [rest, match]
    next(slot for slot in reversed(f.stack) if type(slot) is Handling).error = match
    _frame.swap_handled(match)
    if f.generator is not None:
        f.generator.own_exception = match


def PREP_RERAISE_STAR(f: Frame, _: Any) -> None:
    original, results = map(opened, f.stack[-2:])
    errors = [error for error in map(opened, results) if error is not None]
    if errors and isinstance(original, BaseExceptionGroup):
        for error in (original, *errors):
            f.world.materialize.for_c(error)  # it will be looked into
    f.stack[-2:] = [to_reraise(original, errors)]


def to_reraise(original: BaseException, errors: list[BaseException]) -> BaseException | None:
    """What is left to raise after all `except*` clauses: new exceptions, and what nobody handled."""
    if not errors:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return errors[0]
    reraised = [e for e in errors if part_of(e, original)]
    raised = [e for e in errors if not part_of(e, original)]
    kept: set[int] = set()
    for error in reraised:
        kept.update(map(id, leaves(error)))
    rest = original.split(lambda e: id(e) in kept)[0] if kept else None
    if not raised:
        return rest
    if rest is not None:
        raised.append(rest)
    return raised[0] if len(raised) == 1 else BaseExceptionGroup("", raised)


def part_of(error: BaseException, original: BaseException) -> bool:
    return (
        isinstance(error, BaseExceptionGroup)
        and error.__cause__ is original.__cause__
        and error.__context__ is original.__context__
        and getattr(error, "__notes__", None) is getattr(original, "__notes__", None)
    )


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


# ---- with


def BEFORE_WITH(f: Frame, _: Any) -> Frame | None:
    return enter_context(f, "__enter__", "__exit__", "context manager protocol")


def BEFORE_ASYNC_WITH(f: Frame, _: Any) -> Frame | None:
    return enter_context(f, "__aenter__", "__aexit__", "asynchronous context manager protocol")


def enter_context(f: Frame, enter: str, leave: str, protocol: str) -> Frame | None:
    entering, leaving = context_methods(f, f.stack[-1], enter, leave, protocol)
    result = call(f, entering, [], None)
    f.stack[-1] = leaving
    return push_result(f, result)


def context_methods(f: Frame, manager: Any, enter: str, leave: str, protocol: str) -> tuple[Any, Any]:
    name = type(opened(manager)).__name__
    entering = f.world.classes.special(manager, enter)
    if entering is MISSING:
        raise TypeError(f"'{name}' object does not support the {protocol}")
    leaving = f.world.classes.special(manager, leave)
    if leaving is MISSING:
        raise TypeError(f"'{name}' object does not support the {protocol} (missed {leave} method)")
    return entering, leaving


def WITH_EXCEPT_START(f: Frame, _: Any) -> Frame | None:
    error = opened(f.stack[-1])
    return push_result(f, call(f, f.stack[-4], [type(error), error, traceback_of(error)], None))


def JUMP_FORWARD(f: Frame, target: int) -> int:
    return target


def POP_JUMP_IF_FALSE(f: Frame, target: int) -> int | None:
    value = f.stack[-1]
    jumps = value is False or (value is not True and not f.world.operators.truth(value))
    f.stack.pop()
    return target if jumps else None


def POP_JUMP_IF_TRUE(f: Frame, target: int) -> int | None:
    value = f.stack[-1]
    jumps = value is True or (value is not False and f.world.operators.truth(value))
    f.stack.pop()
    return target if jumps else None


def POP_JUMP_IF_NONE(f: Frame, target: int) -> int | None:
    jumps = f.world.identity.same(f.stack[-1], None)
    f.stack.pop()
    return target if jumps else None


def POP_JUMP_IF_NOT_NONE(f: Frame, target: int) -> int | None:
    stays = f.world.identity.same(f.stack[-1], None)
    f.stack.pop()
    return None if stays else target


def JUMP_IF_FALSE_OR_POP(f: Frame, target: int) -> int | None:
    if not f.world.operators.truth(f.stack[-1]):
        return target
    f.stack.pop()
    return None


def JUMP_IF_TRUE_OR_POP(f: Frame, target: int) -> int | None:
    if f.world.operators.truth(f.stack[-1]):
        return target
    f.stack.pop()
    return None


def GET_ITER(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.containers.iterate(f.stack[-1])


def FOR_ITER(f: Frame, end: int) -> int | None:
    item = f.world.containers.advance(f.stack[-1])
    if item is MISSING:
        f.stack.pop()
        return end
    f.stack.append(item)
    return None


def END_FOR(f: Frame, _: Any) -> None:
    del f.stack[-2:]


def RETURN_VALUE(f: Frame, _: Any) -> Sentinel:
    if f.back is not None:
        f.world.lifetimes.leaving(f)
    f.value = f.stack.pop()
    return RETURN


def RETURN_CONST(f: Frame, value: Any) -> Sentinel:
    if f.back is not None:
        f.world.lifetimes.leaving(f)
    f.value = value
    return RETURN
