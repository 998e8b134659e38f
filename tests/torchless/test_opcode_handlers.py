"""Handlers do all of an instruction or nothing: a break in it leaves the frame as it was before.

Breaks are made to happen in the programs of `programs/`: at operations spread over each of them, and at every
kind of operation that any handler does.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import inspect
import operator
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from catalogue import CATALOGUE, Program, each_program, observe

import framelift.interpreter.machine
from framelift import _frame
from framelift.bytecode.resume import LastInstruction
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.weakly import PerCode
from framelift.interpreter import Machine
from framelift.interpreter.frame import Frame, Handling
from framelift.interpreter.machine import HANDLERS
from framelift.interpreter.pending import Pending
from framelift.interpreter.plain import PlainWorld, interpret

SAMPLES, AMONG = 5, 2_000
"""How many of a program's first operations break, one at a time."""


# The world that breaks


@dataclass(frozen=True)
class Site:
    """What an operation is done for: it is the `nth` of that handler, or of the outermost call ("")."""

    handler: str
    nth: int
    operation: str


class Breaking(PlainWorld):
    """Operation number `at` breaks."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.sites: list[Site] = []
        self.at_work = [["", 0]]
        """The handlers that are, innermost last, with the number of their operations so far."""
        self.left: list[Left] = []
        for name, part in vars(PlainWorld).items():
            if not name.startswith("_"):
                setattr(self, name, CountedPart(self, part))

    def count(self, operation: str) -> None:
        innermost = self.at_work[-1]
        innermost[1] += 1
        self.sites.append(Site(*innermost, operation))
        if len(self.sites) == self.at:
            raise Break(breaks.EFFECT)


class CountedPart:
    """A part of a world, of which each operation is counted."""

    runs_finalisers = False

    def __init__(self, world: Breaking, part: Any) -> None:
        self.world, self.part = world, part

    def catchable(self, error: BaseException) -> bool:
        return not isinstance(error, Break)

    def catching(self, error: BaseException) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def counting(*args: Any) -> Any:
            self.world.count(name)
            return getattr(self.part, name)(*args)

        return counting


# Watching handlers


@dataclass
class State:
    stack: list[Any]
    fast: list[Any]
    kwnames: tuple[str, ...]
    ip: int


def state(f: Frame) -> State:
    return State(list(f.stack), list(f.fast), f.kwnames, f.ip)


@dataclass
class Left:
    """A handler that a break went through."""

    handler: str
    frame: Frame
    before: State
    after: State


def watched(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    def watching(f: Frame, argument: Any) -> Any:
        world = f.world
        if not isinstance(world, Breaking):
            return handler(f, argument)
        before = state(f)
        world.at_work.append([name, 0])
        try:
            return handler(f, argument)
        except Break:
            world.left.append(Left(name, f, before, state(f)))
            raise
        finally:
            world.at_work.pop()

    return watching


@pytest.fixture(autouse=True)
def handlers_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = {name: watched(name, handler) for name, handler in HANDLERS.items()}
    monkeypatch.setattr(framelift.interpreter.machine, "HANDLERS", handlers)
    monkeypatch.setattr(framelift.interpreter.machine, "_decoded", PerCode())


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""What programs have half made when they break complains when it dies."""


@pytest.fixture(scope="module", autouse=True)
def what_is_half_made_dies_here() -> Iterator[None]:
    yield
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda _: None)
        gc.collect()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert (_frame.mode(), _frame.active(), _frame.installed()) == (_frame.OFF, 0, False)
    assert sys.exception() is None


@contextlib.contextmanager
def process_kept(scope: dict[str, Any]) -> Iterator[None]:
    """A program that breaks does not get to where it would clean up."""
    kept = [(namespace, dict(namespace)) for namespace in (scope, sys.modules)]
    stdin, hooks = sys.stdin, sys.get_asyncgen_hooks()
    interrupt = signal.getsignal(signal.SIGINT)
    gc.disable()  # what a collection calls would be looked at, too
    with warnings.catch_warnings():
        yield
    gc.enable()
    for namespace, before in kept:
        namespace.clear()
        namespace.update(before)
    sys.stdin = stdin
    sys.set_asyncgen_hooks(*hooks)
    asyncio._set_running_loop(None)
    asyncio.mixins._global_lock = threading.Lock()  # or whoever waits for what was left locked waits forever
    signal.signal(signal.SIGINT, interrupt)


def run(program: Program, at: int) -> Breaking:
    world = Breaking(at)
    with process_kept(program.__globals__):
        contextvars.copy_context().run(observe, lambda: Machine(world).call(program))
    return world


@functools.cache
def sites(program: Program) -> list[Site]:
    run(program, AMONG)  # fills what caches it uses
    return run(program, AMONG).sites


# The property

ITERATING = {"CALL_FUNCTION_EX", "CALL_FUNCTION_EX_FIRST", "SET_UPDATE"}
"""They replace an iterable by what it gave: an iterator would not give it to whoever goes on from here."""

SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Frames that are cleared when an error leaves them."""


def check_left_as_before(left: Left) -> None:
    before, after = left.before, left.after
    assert (after.ip, after.kwnames) == (before.ip, before.kwnames), left.handler
    assert identical(after.fast, before.fast), left.handler
    assert identical(after.stack, expected_stack(left)), left.handler
    if not left.frame.code.code.co_flags & SUSPENDING:
        assert identical(left.frame.stack, after.stack), left.handler


def identical(left: list[Any], right: list[Any]) -> bool:
    return [id(value) for value in left] == [id(value) for value in right]


def expected_stack(left: Left) -> list[Any]:
    stack, after = list(left.before.stack), left.after.stack
    if left.handler in ITERATING and len(stack) == len(after):
        argument = left.frame.code.ops[left.before.ip][1]
        at = -2 if left.handler.startswith("CALL_FUNCTION_EX") and argument & 1 else -1
        stack[at] = after[at] if type(after[at]) in (list, tuple) else stack[at]
    return stack


def check_break(program: Program, at: int) -> Breaking:
    world = run(program, at)
    for left in world.left:
        check_left_as_before(left)
    return world


@each_program
def test_a_break_leaves_the_frame_as_it_was(program: Program) -> None:
    count = len(sites(program))
    for at in {1 + count * n // SAMPLES for n in range(SAMPLES)}:
        check_break(program, at)


def test_a_break_in_any_operation_of_any_handler_leaves_the_frame_as_it_was() -> None:
    """What is in caches, and when the collector runs, changes what there is to do: an operation that a
    program does not come to again is looked for in the others, and in all of them once more."""
    seen: set[Site] = set()
    broken: set[Site] = set()
    for turn in range(2):
        for program in CATALOGUE.values() if turn == 0 or seen != broken else ():
            for at, site in enumerate(sites.__wrapped__(program), 1):
                deep = site.nth > 4  # how far a set is gone over depends on hashes
                if site.handler and not deep and site not in broken:
                    seen.add(site)
                    if check_break(program, at).left:
                        broken.add(site)
    assert seen == broken


class Closed:
    """Where a pending value comes from that can't be opened."""

    def load(self, value: object, source: object) -> None:
        raise Break(breaks.OPAQUE_OBJECT)


def raises(x: Any) -> None:
    raise x


def raises_from(x: Any) -> None:
    raise ValueError from x


def catches(x: Any) -> None:
    try:
        raise ValueError
    except x:
        pass


def catches_groups(x: Any) -> None:
    try:
        raise ValueError
    except* x:
        pass


def unpacks(x: Any) -> None:
    a, b = x


def unpacks_a_rest(x: Any) -> None:
    a, *b = x


def stores_a_slice(x: Any) -> None:
    [1, 2][x:2] = [3]


def matches_a_class(x: Any) -> None:
    match 1:
        case x():
            pass


def matches_a_sequence(x: Any) -> None:
    match x:
        case [1, 2]:
            pass


def enters(x: Any) -> None:
    with x:
        pass


OPENING = [
    lambda x: x + 1,
    lambda x: 1 + x,
    lambda x: -x,
    lambda x: x < 1,
    lambda x: 1 < x,
    lambda x: f"{x}",
    lambda x: f"{1:{x}}",
    lambda x: [1][x:2],
    lambda x: [1][1:2:x],
    lambda x: [*x],
    lambda x: {*x},
    lambda x: {**x},
    lambda x: max(*x),
    lambda x: dict(**x),
    lambda x: x(1, 2),
    lambda x: x(1, key=2),
    lambda x: max(1, 2, key=x(1)),
    lambda x: (yield from x),
    raises,
    raises_from,
    catches,
    catches_groups,
    unpacks,
    unpacks_a_rest,
    stores_a_slice,
    matches_a_class,
    matches_a_sequence,
    enters,
]


@pytest.mark.parametrize("program", OPENING)
def test_a_value_that_cannot_be_opened_leaves_the_frame_as_it_was(program: Callable[..., object]) -> None:
    pending = Pending(Closed(), None, None)  # type: ignore[arg-type]
    drain = list if inspect.isgeneratorfunction(program) else lambda value: value
    world = run(lambda: drain(program(pending)), AMONG)
    assert world.left
    for left in world.left:
        check_left_as_before(left)


# What an iterator gave, and names of arguments


def breaking_in(program: Program, operation: str) -> Left:
    """The innermost handler when the program's last such operation breaks."""
    last = [at for at, site in enumerate(run(program, AMONG).sites, 1) if site.operation == operation][-1]
    return run(program, last).left[0]


def test_a_call_that_breaks_finds_the_arguments_an_iterator_gave() -> None:
    left = breaking_in(lambda: max(*iter([1, 3, 2])), "native")
    assert left.handler.startswith("CALL_FUNCTION_EX")
    assert left.after.stack[-1] == (1, 3, 2)


def test_an_update_that_breaks_finds_the_elements_an_iterator_gave() -> None:
    left = breaking_in(lambda: {0, *iter([1, 2])}, "apply")
    assert (left.handler, left.after.stack[-1]) == ("SET_UPDATE", [1, 2])


def test_a_set_takes_new_elements_only_when_all_are_ready() -> None:
    left = breaking_in(lambda: {0, *iter([1, 2])}, "key")
    assert (left.handler, left.after.stack[-2]) == ("SET_UPDATE", {0})


def test_the_names_of_arguments_outlast_a_break() -> None:
    left = breaking_in(lambda: max([1], key=operator.neg), "native")
    on_stack = left.handler == "CALL_KW_FIRST"
    assert left.handler in ("CALL", "CALL_KW_FIRST")
    assert (left.after.stack[-1] if on_stack else left.after.kwnames) == ("key",)


def test_the_names_of_arguments_are_forgotten_when_the_call_raises() -> None:
    def keyword(a: int, b: int = 2) -> tuple[int, int]:
        return a, b

    def program() -> list[object]:
        seen: list[object] = []
        for call in (lambda: int("1", base=99), lambda: keyword(1, c=2), lambda: keyword(1, b=1 // 0)):
            try:
                call()
            except Exception as error:
                seen.append(type(error))
            try:
                keyword(1, a=2)
            except TypeError:
                seen.append(keyword(3, 4))
        return seen

    assert interpret(program) == program()


# What the stack says about exceptions


@dataclass
class Seen:
    marks: list[Any]
    errors: list[BaseException]
    """Those of the marks, then."""
    handled: BaseException | None
    frame: Frame


def seen_by(program: Callable[[Callable[..., None]], object]) -> list[Seen]:
    """The marks on the stack of `program` each time that it calls its argument."""
    machine, seen = Machine(PlainWorld()), []

    def look(*_: Any) -> None:
        frame = machine.frame
        assert frame is not None
        marks = [slot for slot in frame.stack if isinstance(slot, (Handling, LastInstruction))]
        errors = [mark.error for mark in marks if type(mark) is Handling]
        seen.append(Seen(marks, errors, sys.exception(), frame))

    _frame.set_decision(look.__code__, _frame.SKIP, _frame.LEAF)
    machine.call(program, look)
    return seen


def test_the_stack_tells_which_exception_is_handled() -> None:
    def program(look: Callable[[], None]) -> None:
        look()
        try:
            raise ValueError
        except ValueError:
            look()
        look()

    before, during, after = seen_by(program)
    (handling,) = during.marks
    assert type(handling) is Handling
    assert type(handling.error) is ValueError
    assert handling.error is during.handled
    assert handling.before is None
    assert before.marks == after.marks == []
    assert before.handled is after.handled is None


def test_the_stack_tells_what_was_handled_before() -> None:
    def program(look: Callable[[], None]) -> None:
        try:
            raise ValueError
        except ValueError:
            try:
                raise KeyError
            except KeyError:
                look()
            look()

    inside, outside = seen_by(program)
    outer, inner = inside.marks
    assert inner.error is inside.handled
    assert inner.before is outer.error is outside.handled
    assert outside.marks == [outer]


def test_a_function_called_in_a_handler_has_marks_of_its_own() -> None:
    def program(look: Callable[[], None]) -> None:
        def inner() -> None:
            look()
            try:
                raise KeyError
            except KeyError:
                look()

        try:
            raise ValueError
        except ValueError:
            inner()

    first, second = seen_by(program)
    assert first.marks == []
    (handling,) = second.marks
    assert handling.before is first.handled
    assert type(first.handled) is ValueError


def test_a_generator_handles_over_what_it_handles_itself() -> None:
    def program(look: Callable[[], None]) -> None:
        def generator() -> Iterator[None]:
            try:
                raise KeyError
            except KeyError:
                look()
                yield

        try:
            raise ValueError
        except ValueError:
            list(generator())

    (seen,) = seen_by(program)
    (handling,) = [mark for mark in seen.marks if type(mark) is Handling]
    assert handling.error is seen.handled
    assert handling.before is None


def test_the_mark_follows_the_part_of_a_group_that_is_handled() -> None:
    def program(look: Callable[[], None]) -> None:
        try:
            raise KeyError
        except KeyError:
            try:
                raise ExceptionGroup("", [ValueError(1), TypeError(2), OSError(3)])
            except* ValueError:
                look()
            except* (TypeError, OSError):
                look()

    for seen, kinds in zip(seen_by(program), [[ValueError], [TypeError, OSError]], strict=True):
        outer, group = seen.errors
        assert group is seen.handled
        assert [type(error) for error in group.exceptions] == kinds
        assert type(outer) is KeyError


def test_the_stack_tells_where_an_exception_came_from() -> None:
    def program(look: Callable[..., None]) -> None:
        class Manager:
            def __enter__(self) -> None:
                pass

            __exit__ = staticmethod(look)

        try:
            with Manager():
                raise ValueError
        except ValueError:
            pass

    (seen,) = seen_by(program)
    last, handling = seen.marks
    assert type(last) is LastInstruction
    assert seen.frame.code.instructions[last].opname == "RAISE_VARARGS"
    assert handling.error is seen.handled
