"""Stopping anywhere and going on: every program of `programs/` is interpreted up to some instruction and goes
on natively from there, and what it does is compared with what it does natively from the start.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import inspect
import itertools
import random
import sys
import textwrap
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest
from catalogue import CATALOGUE, NOT_EMITTED, Program, observe

from framelift import _frame
from framelift.bytecode import resume, stack_effects
from framelift.bytecode.extend import SUSPENDING, Body
from framelift.bytecode.resume import TooLargeError, body_of, closure_of, generator_code, origin_of
from framelift.bytecode.stack_effects import NoStepError, how_it_ends, plain_name
from framelift.core import policy
from framelift.core.sentinels import MISSING
from framelift.interpreter import Machine
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import FrameView
from framelift.interpreter.generators import CLOSED, SUSPENDED, Suspended
from framelift.interpreter.machine import NOWHERE, Position, decoded, end_run
from framelift.interpreter.plain import PlainErrors, PlainFunctions, PlainWorld
from framelift.interpreter.points import chain, made_for, standing, standing_generator
from framelift.regions.plan import Activation, Plan


def give_the_hook_back() -> None:
    """To those who registered with it when they were imported."""
    hook = sys.modules.get("framelift.dispatch.frame_hook")
    _frame.set_callbacks(policy.decide, hook and hook.on_cache_miss)


class StopHere(BaseException):
    """Ends an interpreted run; the program can't catch it."""


class MadeFunctions(PlainFunctions):
    """Knows the functions that the program makes."""

    def __init__(self) -> None:
        self.known: weakref.WeakSet[FunctionType] = weakref.WeakSet()

    def made(self, fn: FunctionType) -> None:
        self.known.add(fn)

    def is_made_inside(self, fn: FunctionType) -> bool:
        return fn in self.known


class Stops(PlainErrors):
    def catchable(self, error: BaseException) -> bool:
        return not isinstance(error, StopHere)


class World(PlainWorld):
    """With `inside`, functions that the program makes are told from those that it found."""

    errors = Stops()

    def __init__(self, inside: bool = False) -> None:
        if inside:
            self.functions = MadeFunctions()


# Where a program can be stopped


@pytest.fixture(autouse=True, scope="module")
def stand_ins() -> Iterator[weakref.WeakSet[Any]]:
    """The interpreter's own generators and frames that are alive: to code that goes on natively they are not
    what they stand for."""
    with pytest.MonkeyPatch.context() as patch:
        for cls in (Suspended, FrameView):
            patch.setattr(cls, "__init__", noted(cls.__init__))
        yield STAND_INS


STAND_INS: weakref.WeakSet[Any] = weakref.WeakSet()


def noted(init: Any) -> Any:
    def __init__(self: Any, *args: Any) -> None:
        STAND_INS.add(self)
        init(self, *args)

    return __init__


class Site(NamedTuple):
    """An instruction that a run comes to."""

    at: Position
    name: str
    steps: bool
    """Whether a step function can do it."""


class Each:
    """Equal to the number of every stretch."""

    def __eq__(self, other: object) -> bool:
        return True


class Recorder(Machine):
    """Notes the instructions in front of which its outermost run can be left."""

    def __init__(self, program: Program) -> None:
        super().__init__(World())
        self.program = program
        self.stop_at = Position(Each(), 0)  # type: ignore[arg-type]
        self.stretch = 0
        self.noting: dict[int, Any] = {}
        self.sites: list[Site] = []
        self.stands_in = False
        """Whether there was anything that code which goes on natively can't have."""

    def stopping(self, ops: Any) -> Any:
        assert self.frame is not None
        if chain(self.frame)[0].func is not self.program:  # a generator that is closed when the run is over
            return ops
        self.stretch += 1
        if ops[0][0] == self.note:
            return ops
        if id(ops) not in self.noting:
            self.noting[id(ops)] = ops, [(self.note, op) for op in ops]
        return self.noting[id(ops)][1]

    def note(self, frame: Frame, op: Any) -> Any:
        if STAND_INS.data:
            self.stands_in = True
        else:
            instruction = instruction_of(frame.code.code, frame.ip)
            if instruction is not None:
                self.sites.append(Site(Position(self.stretch, frame.ip), *instruction))
        return op[0](frame, op[1])


@functools.cache
def instruction_of(code: CodeType, at: int) -> tuple[str, bool] | None:
    """Its name and whether it can be a step; None where no frame can be left."""
    body = body_of(code)
    if code.co_flags & SUSPENDING or at < body.opcodes.index(dis.opmap["RESUME"]):
        return None
    return body.name(at), can_step(body, at)


def can_step(body: Body, at: int) -> bool:
    try:
        how_it_ends(body, at, 0)
    except NoStepError:
        return False
    return True


def recorded(program: Program) -> Recorder:
    STAND_INS.clear()
    recorder = Recorder(program)
    observe(lambda: recorder.call(program))
    return recorder


# Stopping there


class Stopping(Machine):
    """Stops at one instruction."""

    def __init__(self, at: Position, inside: bool) -> None:
        super().__init__(World(inside))
        self.stop_at = at
        self.stop_with = StopHere()


class StoppingSomewhere(Stopping):
    """Stops at an instruction that chance chooses, from a stretch on; at one that can be done by a step."""

    def __init__(self, chance: random.Random, inside: bool, step: bool) -> None:
        super().__init__(Position(chance.randrange(1, 9), 0), inside)
        self.chance = chance
        self.step = step

    def stopping(self, ops: Any) -> Any:
        assert self.frame is not None
        code = self.frame.code.code
        origin = origin_of(code)
        body, shift = (body_of(code), 0) if origin is None else (origin.body, origin.shift)
        changed = list(ops)
        for at in range(body.opcodes.index(dis.opmap["RESUME"]), len(body.opcodes)):
            if self.chance.random() < 0.4 and (not self.step or can_step(body, at)):
                changed[shift + at] = (end_run, self.stop_with)
        return changed


class Run:
    """A run of a program that is interpreted up to each of some stops, and then runs natively."""

    def __init__(self, program: Program, stops: Iterable[Any], step: bool, inside: bool = False) -> None:
        self.program = program
        self.stops = iter(stops)
        self.step = step
        self.inside = inside
        self.count = 0
        """How often it has been stopped."""

    def __call__(self) -> object:
        code = self.program.__code__
        decision = _frame.get_decision(code)
        _frame.set_decision(code, _frame.LOOK, _frame.INTERPRET)
        _frame.set_callbacks(self.decide, self.missed)
        try:
            return _frame.call(self.program)
        finally:
            give_the_hook_back()
            _frame.set_decision(code, *decision)

    def decide(self, fn: FunctionType, code: CodeType) -> tuple[int, int]:
        run = _frame.SKIP if origin_of(code) is None else _frame.LOOK
        return run, policy.decide(fn, code)[1]

    def missed(self, fn: FunctionType, arguments: list[Any]) -> Any:
        if fn is not self.program and origin_of(fn.__code__) is None:
            return None
        machine = next(self.stops, None)
        return None if machine is None else (self.interpret, (machine, fn, arguments))

    def interpret(self, machine: Machine, fn: FunctionType, arguments: list[Any]) -> Any:
        """What the function gives, or where it stops."""
        before = _frame.set_interceptor(machine.enter)
        machine.caller = sys._getframe(1)
        try:
            return machine.run(Frame(machine, fn, decoded(fn.__code__), arguments))
        except StopHere as stopped:
            stopped.__traceback__ = None
        finally:
            machine.caller = None
            _frame.set_interceptor(before)
        self.count += 1
        machine.stop_at = NOWHERE
        return self.stop(chain(machine.stopped))

    def stop(self, frames: list[Frame]) -> _frame.Stop:
        last = len(frames) - 1
        found = [standing(frame, self.step or n < last) for n, frame in enumerate(frames)]
        made = [made_for(frame, callee) for frame, callee in zip(frames, frames[1:])] + [MISSING]
        activations = [
            Activation(at.point, frame.func, new is not MISSING)
            for at, frame, new in zip(found, frames, made, strict=True)
        ]
        states = tuple(
            (tuple(at.slots), tuple(at.stack), None if new is MISSING else new)
            for at, new in zip(found, made, strict=True)
        )
        for frame in frames:
            frame.fast, frame.stack = [], []
        return Plan(activations, self.step).stop(frames[0].func, states)


class Collecting(Run):
    """When it goes on, what nobody holds any more is gone, even in cycles."""

    def missed(self, fn: FunctionType, arguments: list[Any]) -> Any:
        gc.collect()
        return super().missed(fn, arguments)


def run_to(program: Program, site: Site, step: bool, inside: bool = False) -> Run:
    return Run(program, [Stopping(site.at, inside)], step, inside)


def compare(program: Program, run: Run, expected: object) -> None:
    assert observe(run) == expected
    assert sys.exception() is None
    assert (_frame.mode(), _frame.active()) == (_frame.OFF, 0)


# The programs

OF_A_TRACEBACK = "finds frames in a traceback that were made for it, of which none is the one that goes on"
ODD = {
    "the_current_frame": "lists the variables of a frame, and one that nobody reads is not handed over",
    "enumerating_subclasses": "a class lives on in a variable that nobody reads, which is not handed over",
    "super_called_where_it_cannot_work": "CPython asks the code object whether there are arguments",
    "the_traceback_names_the_functions_it_went_through": "finds the recorder's in it, and comes elsewhere",
    "the_frames_of_a_traceback_have_their_variables": OF_A_TRACEBACK,
    "the_frame_of_a_traceback_is_the_one_that_runs": OF_A_TRACEBACK,
    "the_line_of_a_frame_is_where_it_first_raised": OF_A_TRACEBACK,
    "a_traceback_of_ones_own": OF_A_TRACEBACK,
    "cleared_frames_let_go_of_their_variables": OF_A_TRACEBACK,
}
if sys.version_info[:2] == (3, 12):
    C_STACK = "with a hook in force calls are limited by C's own count, which the program does not set"
    ODD["a_recursion_limit_that_the_program_sets"] = C_STACK
if sys.version_info < (3, 13):
    BESIDE = "sets names beside its variables, for the frame itself: it is not left"
    ODD["exec_in_a_function_does_not_change_its_locals"] = BESIDE
    ODD["exec_of_a_function_body"] = BESIDE
    ODD["exec_of_code_with_free_variables_is_refused"] = BESIDE
    ODD["interactive_mode_prints_expressions"] = BESIDE
    ODD["locals_is_a_copy"] = BESIDE
    ODD["locals_is_one_dictionary_or_many"] = BESIDE
    ODD["names_that_exec_sets_in_a_function"] = BESIDE
if sys.version_info >= (3, 13):
    OF_INTERPRETED = "finds the view of a frame that was interpreted, which is not the one that goes on"
    ODD["f_locals_writes_through"] = OF_INTERPRETED
    ODD["f_locals_writes_into_cells"] = OF_INTERPRETED
    ODD["the_frame_of_a_call_that_has_returned"] = OF_INTERPRETED
    ODD["f_locals_of_another_frame"] = OF_INTERPRETED
    ODD["f_locals_is_like_a_dictionary"] = OF_INTERPRETED
ODD_ONCE_COLLECTED = {"enumerating_subclasses"}
"""A class is part of a cycle."""
ODD_IN_PIECES = {"weak_references_and_finalizers", "del_runs_when_the_last_reference_goes"}
"""A frame that is interpreted has its arguments for as long as it is: they can't die earlier."""

STOPS, LONG = 5, 20_000
"""How often a program is stopped, with a step and without; once if it comes to so many instructions."""


@pytest.mark.parametrize("name", [name for name, program in CATALOGUE.items() if program.__name__ not in ODD])
def test_going_on_from_anywhere(name: str) -> None:
    program = CATALOGUE[name]
    expected = observe(program)
    chance = random.Random(program.__name__)
    found = recorded(program)
    assert found.sites
    steps = [site for site in found.sites if site.steps]
    stops = STOPS if len(found.sites) < LONG else 1
    for step, sites in ((False, found.sites), (True, steps)):
        for site in chance.sample(sites, min(stops, len(sites))):
            run = run_to(program, site, step, chance.random() < 0.5)
            compare(program, run, expected)
            assert run.count == 1
    if not found.stands_in and program.__name__ not in ODD_IN_PIECES:
        compare(program, in_pieces(program, chance, False), expected)
        compare(program, in_pieces(program, chance, True), expected)


@pytest.mark.parametrize("name", [name for name, program in CATALOGUE.items() if program.__name__ in ODD])
def test_what_is_odd_differs_somewhere(name: str) -> None:
    program = CATALOGUE[name]
    expected = observe(program)
    sites = recorded(program).sites
    kind = Collecting if program.__name__ in ODD_ONCE_COLLECTED else Run
    runs = (kind(program, [Stopping(site.at, False)], site.steps) for site in sites)
    gc.freeze()  # what was there before is not gone through each time
    differ = any(observe(run) != expected or run.count != 1 for run in runs)
    assert differ, f"not any more: {ODD[program.__name__]}"


def in_pieces(program: Program, chance: random.Random, step: bool) -> Run:
    """Stops again and again, in what goes on behind a stop too."""
    inside = chance.random() < 0.5
    return Run(program, (StoppingSomewhere(chance, inside, step) for _ in range(30)), step, inside)


# Instructions

WITHOUT_STEP = {
    "moves": "LOAD_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR STORE_FAST DELETE_FAST LOAD_CLOSURE "
    "LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST "
    "STORE_DEREF DELETE_DEREF PUSH_NULL SWAP COPY NOP END_FOR",
    "jumps": "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT",
    "begins": "RESUME MAKE_CELL COPY_FREE_VARS",
    "returns": "RETURN_VALUE RETURN_CONST",
    "prefix": "EXTENDED_ARG KW_NAMES PRECALL",
    "handles": "PUSH_EXC_INFO POP_EXCEPT",
    "suspends": "RETURN_GENERATOR YIELD_VALUE SEND END_SEND CLEANUP_THROW GET_YIELD_FROM_ITER ASYNC_GEN_WRAP",
    "awaits": "GET_AWAITABLE GET_AITER GET_ANEXT END_ASYNC_FOR BEFORE_ASYNC_WITH",
    "namespace": "LOAD_NAME STORE_NAME DELETE_NAME LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF LOAD_LOCALS "
    "LOAD_FROM_DICT_OR_GLOBALS SETUP_ANNOTATIONS",
}
"""Why no step function does them; class bodies, generators and coroutines are not stopped in."""

STEPPED = {*stack_effects.TAKES, *stack_effects.ENDINGS, "CHECK_EG_MATCH"}
NOT_IN_FUNCTIONS = {"IMPORT_STAR": "modules", "PRINT_EXPR": "interactive"}


def test_every_instruction_is_known() -> None:
    others = {name for names in WITHOUT_STEP.values() for name in names.split()}
    assert STEPPED.isdisjoint(others)
    emitted = {plain_name(name) for name in dis.opmap} - set(NOT_EMITTED)
    assert emitted <= STEPPED | others


def test_every_instruction_is_stepped() -> None:
    emitted = {plain_name(name) for name in dis.opmap} - set(NOT_EMITTED)
    left = (STEPPED & emitted) - set(NOT_IN_FUNCTIONS)
    for program in CATALOGUE.values():
        if program.__name__ in ODD or left.isdisjoint(names_in(program.__code__)):
            continue
        expected = observe(program)
        for site in recorded(program).sites:
            if site.steps and plain_name(site.name) in left:
                compare(program, run_to(program, site, True), expected)
                left.remove(plain_name(site.name))
    assert not left


def names_in(code: CodeType) -> set[str]:
    """The instructions of a function and of those within it."""
    found = {plain_name(instruction.opname) for instruction in dis.get_instructions(code)}
    return found.union(*(names_in(const) for const in code.co_consts if isinstance(const, CodeType)))


# What a program can see of its frames


def check_everywhere(program: Program, look: Callable[[Program], object] = observe) -> None:
    """Stopped at any of its instructions, with a step and without, the program does what it does natively."""
    expected = look(program)
    sites = recorded(program).sites
    assert sites
    for site, step, inside in itertools.product(sites, (False, True), (False, True)):
        if site.steps or not step:
            assert look(run_to(program, site, step, inside)) == expected, (site, step, inside)
            assert sys.exception() is None


class Refusing:
    def __init__(self, n: int) -> None:
        self.n = 1 // n


def constructed(n: int = 0) -> object:
    try:
        return Refusing(n)
    except ZeroDivisionError as error:
        return str(error)


def test_what_a_class_raises_is_handled_however_often_it_is_called() -> None:
    """CPython specialises its call, and on 3.13 looks for the handler of what stands in front of it then."""
    (site,) = [site for site in recorded(constructed).sites if site.steps and site.name.startswith("CALL")][
        :1
    ]
    (frame,) = frames_at(constructed, site)
    step = FunctionType(resume.step_code(standing(frame, True).point, 0), globals())
    outcomes = [step(0, None, Refusing, 0) for _ in range(20)]
    assert {(type(given[0]), outcome) for given, _, outcome in outcomes} == {
        (ZeroDivisionError, resume.RAISED)
    }


def traceback_of(run: Program) -> list[tuple[object, ...]]:
    """The functions that an exception came through, from `program` on, and where they stood."""
    with pytest.raises(Exception) as raised:
        run()
    stack = traceback.TracebackException.from_exception(raised.value).stack
    entries = [
        (e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in stack if e.filename == __file__
    ]
    return entries[[name for name, *_ in entries].index("program") :]


def fails(x: int) -> float:
    values = [x, x + 1]
    return (values[0] +
            values[1] / x)  # fmt: skip


def calls(x: int) -> float:
    return 1 + fails(x) + 1


class Entered:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        calls(1)


def test_tracebacks_are_those_of_the_function() -> None:
    def program() -> object:
        before = [1, 2, 3]
        before.append(4)
        raise ValueError(
            before,
        )

    check_everywhere(program, traceback_of)

    def program() -> object:
        total = calls(1)
        return total + calls(0)

    check_everywhere(program, traceback_of)


def test_tracebacks_of_exceptions_that_were_handled_before() -> None:
    def program() -> object:
        try:
            calls(0)
        except TypeError:
            pass
        finally:
            calls(1)

    check_everywhere(program, traceback_of)

    def program() -> object:
        with Entered():
            for n in (2, 1, 0):
                calls(n)

    check_everywhere(program, traceback_of)

    def program() -> object:
        try:
            calls(0)
        except ZeroDivisionError as error:
            raise KeyError(calls(1)) from error

    check_everywhere(program, traceback_of)
    check_everywhere(program, lambda run: traceback_of(lambda: reraise_cause(run)))


def reraise_cause(run: Program) -> None:
    try:
        run()
    except KeyError as error:
        cause = error.__cause__
    assert cause is not None
    raise cause


def test_locals_are_those_of_the_function() -> None:
    def program() -> object:
        a = 1
        b = [a]
        shared = 2
        later: int

        def inner(free: int = 3) -> dict[str, object]:
            own = shared + a
            found = dict(locals())
            del own
            return found, sorted(locals())

        first = dict(locals())
        del first["inner"]
        b.append(inner()[0])
        del b
        later = 5
        return first, inner(), sorted(locals()), eval("a + later"), sorted(vars()), dir()

    check_everywhere(program)


def test_cells_are_shared_with_functions_made_before() -> None:
    def program() -> object:
        count = 0
        unset: int

        def add(n: int) -> int:
            nonlocal count
            count += n
            return count

        def get() -> int:
            return unset

        def both() -> tuple[int, int]:
            return add(1), get()

        add(1)
        count *= 10
        try:
            get()
        except NameError as error:
            failed = str(error)
        unset = count
        functions = [lambda: (n, count) for n in range(2)]
        return add(5), both(), failed, count, [f() for f in functions], (lambda: add(count))()

    check_everywhere(program)


def test_the_code_shows_itself_as_the_original() -> None:
    def program() -> object:
        """With a docstring."""
        a = 1
        b = (lambda: a)()
        return a + b

    for n, site in enumerate(recorded(program).sites):
        for frame in frames_at(program, site, bool(n % 2)):
            point = standing(frame, True).point
            assert_same(frame.func, resume.resume_code(point))
            if can_step(point.body, point.at):
                assert_same(frame.func, resume.step_code(point, 0))


def frames_at(program: Program, site: Site, inside: bool = False) -> list[Frame]:
    machine = Stopping(site.at, inside)
    with pytest.raises(StopHere):
        machine.call(program)
    return chain(machine.stopped)


def assert_same(original: FunctionType, code: CodeType) -> None:
    for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_freevars", "co_cellvars"):
        assert getattr(original.__code__, name) == getattr(code, name)
    made = FunctionType(code, globals(), closure=closure_of(code, original))
    assert inspect.getsource(original) == inspect.getsource(made)
    assert (original.__name__, original.__qualname__) == (made.__name__, made.__qualname__)
    assert original.__doc__ == made.__doc__


def lines_of(run: Program) -> list[tuple[str, str, int]]:
    """What a tracer is told of this file's functions, from the one named `program` on."""
    told: list[tuple[str, str, int]] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != __file__ or not (told or frame.f_code.co_name == "program"):
            return None
        if frame.f_code.co_name in ("program", "fails", "calls"):
            told.append((event, frame.f_code.co_name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return told


def test_lines_that_a_tracer_is_told_of() -> None:
    def program() -> object:
        total = 0.0
        for n in (1, 2):
            total += calls(n)
        try:
            calls(0)
        except ZeroDivisionError:
            total = -1
        return total

    native = lines_of(program)
    for site in recorded(program).sites:
        depth = len(frames_at(program, site))
        if site.name == "RESUME" or (depth > 1 and REPEATS_LINES):
            continue
        told = lines_of(run_to(program, site, False))
        begins = max(n for n, event in enumerate(told) if event[:2] == ("call", "program"))
        *restored, here = told[begins : begins + 2 * depth]
        after = told[begins + 2 * depth :]
        assert after == native[-len(after) :]
        assert here == [event for event in native[: -len(after)] if event[:2] == here[:2]][-1]


REPEATS_LINES = sys.version_info < (3, 12)
"""A tracer is told once more of the line that a frame was waiting in, since the rest of it lies behind."""


# Large functions


def made(source: str) -> Any:
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(textwrap.dedent(source), namespace)
    return namespace["program"]


@pytest.mark.parametrize("count", [240, 300])
def test_functions_of_many_variables(count: int) -> None:
    """Slots above 255 need an EXTENDED_ARG."""
    lines = "; ".join(f"v{n} = {n} + free" for n in range(count))
    program = made(f"""
    def program():
        free = 1

        def get(a):
            nonlocal free
            {lines}
            cell = v{count - 1}
            free += 1
            return [free, (lambda: cell + free)(), a + sum((v0, v{count - 1}), free)]

        return get(3), get(free)
    """)
    chance = random.Random(count)
    sites = recorded(program).sites
    for site, step in itertools.product(chance.sample(sites, 60), (False, True)):
        if site.steps or not step:
            compare(program, run_to(program, site, step, chance.random() < 0.5), observe(program))


def test_a_free_variable_that_has_no_room() -> None:
    """Behind the values on the stack its slot would be above 255, and it has no EXTENDED_ARG."""
    names = ", ".join(f"v{n} := {n}" for n in range(254))
    program = made(f"""
    def program():
        free = 1

        def get():
            x = [{names}]
            return [free, [free, [free, x[0]]]]

        return get()
    """)
    refused = 0
    for site in recorded(program).sites:
        try:
            frames = frames_at(program, site)
            resume.resume_code(standing(frames[-1], False).point)
        except TooLargeError:
            refused += 1
        else:
            if len(frames) > 1:
                compare(program, run_to(program, site, False), observe(program))
    assert 0 < refused < len(recorded(program).sites)


def test_jumps_over_long_stretches() -> None:
    lines = "; ".join(f"total = total + (n if n % {k + 2} else -{k})" for k in range(200))
    program = made(f"""
    def program():
        total = 0
        for n in range(3):
            if n == 1:
                continue
            try:
                if n == 2:
                    {lines}
                    raise ValueError
                else:
                    {lines}
            except ValueError:
                {lines}
            total = total + 1
        return total
    """)
    assert dis.opmap["EXTENDED_ARG"] in program.__code__.co_code[::2]
    chance = random.Random(0)
    for site, step in itertools.product(chance.sample(recorded(program).sites, 60), (False, True)):
        if site.steps or not step:
            compare(program, run_to(program, site, step), observe(program))


# One function after the other


def call_replaced(replacements: dict[Any, Callable[..., Any]], *call: Any) -> Any:
    """Calls the first function with the others; frames of some functions are replaced by something."""

    def decide(fn: FunctionType, code: CodeType) -> tuple[int, int]:
        return (_frame.LOOK if fn in replacements else _frame.SKIP), _frame.LEAF

    def missed(fn: FunctionType, arguments: list[Any]) -> Any:
        return (replacements[fn], tuple(arguments)) if fn in replacements else None

    _frame.set_callbacks(decide, missed)
    try:
        return _frame.call(*call)
    finally:
        give_the_hook_back()
        for fn in replacements:
            _frame.clear(fn.__code__)
        assert (_frame.mode(), _frame.active()) == (_frame.OFF, 0)


def replaced(argument: object = None) -> Any:
    raise AssertionError("it runs")


class Thing:
    pass


def test_a_loop_of_stops_needs_no_stack() -> None:
    depths = set()

    def region(n: int) -> Any:
        depths.add(len(inspect.getouterframes(sys._getframe(), 0)) if n % 5000 == 0 else 0)
        return "done" if n == 50_000 else _frame.Stop(add, (n,), lambda result: (replaced, (result,)))

    def add(n: int) -> int:
        return n + 1

    assert call_replaced({replaced: region}, replaced, 0) == "done"
    assert len(depths) == 2


def test_a_stop_without_a_step() -> None:
    seen = []

    def then(result: object) -> Any:
        seen.append(result)
        return sum, ((1, 2),)

    assert call_replaced({replaced: lambda _: _frame.Stop(None, (), then)}, replaced) == 3
    assert seen == [None]


def test_a_region_that_has_done_nothing() -> None:
    """The frame runs as it is, and nothing below it is replaced."""
    seen: list[Any] = []

    def again(returned: Any) -> Any:
        return lambda *args: _frame.again(returned)

    def outer(x: int, *more: int) -> tuple[int, ...]:
        x = inner(x) + 1
        return (x, *more)

    def inner(x: int) -> int:
        if x > 5:
            raise ValueError(x)
        return x * 2

    regions = {outer: again(lambda: seen.append("returned")), inner: lambda x: 100}
    assert call_replaced(regions, outer, 3, 4) == (7, 4)
    assert seen == ["returned"]
    with pytest.raises(ValueError, match="6"):
        call_replaced(regions, outer, 6)
    assert seen == ["returned"]


def test_a_region_that_has_done_nothing_and_minds() -> None:
    def returned() -> None:
        raise KeyError("it should not have")

    def outer(x: int) -> int:
        return x

    with pytest.raises(KeyError, match="it should not have"):
        call_replaced({outer: lambda *args: _frame.again(returned)}, outer, 1)
    with pytest.raises(TypeError):
        _frame.again()  # type: ignore[call-arg]


def test_stops_within_each_other() -> None:
    """What a step or a resumed function calls may stop itself."""

    def other(n: int) -> int:
        raise AssertionError

    def region(n: int) -> Any:
        return _frame.Stop(resumed, (n,), lambda result: (resumed, (result,)))

    def region_of_other(n: int) -> Any:
        return _frame.Stop(None, (), lambda _: (resumed, (n,))) if n < 3 else n

    def resumed(n: int) -> int:
        return other(n + 1)

    assert call_replaced({replaced: region, other: region_of_other}, replaced, 0) == 4


def test_what_is_handed_over_is_let_go() -> None:
    def lets_go(thing: Thing) -> bool:
        known = weakref.ref(thing)
        del thing
        return known() is None

    def then(result: object) -> Any:
        assert result is True
        return lets_go, (Thing(),)

    assert call_replaced({replaced: lambda _: _frame.Stop(lets_go, (Thing(),), then)}, replaced)


def test_values_of_the_stopped_frame_are_let_go() -> None:
    def program() -> object:
        thing, other = Thing(), Thing()
        seen = [weakref.ref(thing), weakref.ref(other)]
        seen.append(weakref.ref(Thing()))
        del thing
        gone = [known() is None for known in seen]
        other = [other]
        other.pop()
        return gone, [known() is None for known in seen]

    check_everywhere(program)


@pytest.mark.parametrize(
    "arguments",
    [(), (None,), (None, ()), (None, [], len), (None, None, len), (len, 3, len), (None, (), len, len)],
)
def test_a_stop_is_made_of_three(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        _frame.Stop(*arguments)


def test_a_stop_has_nothing_else() -> None:
    with pytest.raises(TypeError, match="no keyword arguments"):
        _frame.Stop(None, (), then=len)
    with pytest.raises(AttributeError):
        _frame.Stop(None, (), len).step = len
    with pytest.raises(TypeError):
        type("Sub", (_frame.Stop,), {})


def test_a_stop_may_be_garbage() -> None:
    thing = Thing()
    known = weakref.ref(thing)
    thing.stop = _frame.Stop(None, (thing,), [thing].append)
    del thing
    gc.collect()
    assert known() is None


FAILURES: dict[str, tuple[Any, Any]] = {
    "then gives nothing": (None, lambda _: None),
    "then gives a number": (None, lambda _: 3),
    "then gives a function alone": (None, lambda _: (len,)),
    "then gives a list of arguments": (None, lambda _: (len, [()])),
    "then gives a list": (None, lambda _: [len, ((),)]),
    "then gives too much": (None, lambda _: (len, ((),), None)),
    "then can't be called": (None, 3),
    "then wants more": (None, lambda _, more: None),
    "the step can't be called": (3, lambda _: (len, ((),))),
    "the step wants less": (lambda: None, lambda _: (len, ((),))),
    "what goes on can't be called": (None, lambda _: (3, ())),
    "what goes on wants less": (None, lambda _: (lambda: None, (3,))),
}


@pytest.mark.parametrize("step, then", FAILURES.values(), ids=FAILURES)
def test_wrong_stops_are_type_errors(step: Any, then: Any) -> None:
    thing = Thing()
    known = weakref.ref(thing)
    stops = [_frame.Stop(step, (thing,), then)]
    del thing
    with pytest.raises(TypeError) as raised:
        call_replaced({replaced: lambda _: stops.pop()}, replaced)
    raised.value.__traceback__ = None
    assert known() is None


def test_exceptions_in_each_part_are_the_frames() -> None:
    def fail(*args: object) -> Any:
        raise KeyError(len(args))

    def caught(step: Any, then: Any) -> object:
        with pytest.raises(KeyError) as raised:
            call_replaced({replaced: lambda _: _frame.Stop(step, (1, 2), then)}, replaced)
        return raised.value.args[0]

    assert caught(fail, len) == 2
    assert caught(None, fail) == 1
    assert caught(None, lambda _: (fail, (1, 2, 3))) == 3


def test_rounds_of_stops_leave_nothing_behind() -> None:
    sentinel = Thing()

    def program() -> object:
        mine = [sentinel]
        cell = mine

        def inner(value: object) -> object:
            try:
                raise KeyError(value)
            except KeyError as error:
                return [error.args[0], cell, len(mine)]

        return inner(mine)[0][0] is sentinel

    sites = recorded(program).sites
    runs = [(site, step) for site in sites for step in (False, True) if site.steps or not step]

    def a_round() -> None:
        for site, step in runs:
            assert run_to(program, site, step)() is True
        gc.collect()

    a_round()
    a_round()
    before = sys.getrefcount(sentinel), sys.getrefcount(program), len(gc.get_objects())
    for _ in range(5):
        a_round()
    after = sys.getrefcount(sentinel), sys.getrefcount(program), len(gc.get_objects())
    assert after[:2] == before[:2]
    assert after[2] - before[2] < len(runs)


# Generators


def counts() -> Iterator[object]:
    for n in range(3):
        got = yield n
        print("got", got)
    return "counted"


def cleans_up() -> Iterator[object]:
    try:
        yield 1
        try:
            yield 2
        except ValueError as error:
            yield str(error)
            raise KeyError from error
        finally:
            print("inner")
            yield 3
    finally:
        print("outer", sys.exc_info()[0])


def handles() -> Iterator[object]:
    try:
        raise KeyError(1)
    except KeyError as error:
        yield error.args
        try:
            raise ValueError(2)
        except ValueError as other:
            yield other.args, repr(other.__context__)
            yield repr(sys.exception())
        yield repr(sys.exception())
    yield repr(sys.exception())


def delegates() -> Iterator[object]:
    first = yield from counts()
    yield first
    try:
        yield from cleans_up()
    except KeyError:
        yield "caught"
    return (yield from [4, 5])


def ignores_the_end() -> Iterator[object]:
    for n in range(4):
        try:
            yield n
        except GeneratorExit:
            yield "not yet"


def with_cells(start: int = 10) -> Iterator[object]:
    total = start

    def add(n: int) -> int:
        nonlocal total
        total += n
        return total

    with contextlib.suppress(ValueError):
        while True:
            yield add((yield total) or 1), [total + n for n in range(2)]


def raises_stop() -> Iterator[object]:
    yield 1
    raise StopIteration(2)


def closing_over() -> Any:
    shared = [0]

    def generator() -> Iterator[object]:
        while len(shared) < 4:
            shared.append((yield shared[-1]))

    return generator


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "next": next,
    "send": lambda generator: generator.send(7),
    "throw": lambda generator: generator.throw(ValueError("thrown")),
    "throw an end": lambda generator: generator.throw(StopIteration(3)),
    "throw an exit": lambda generator: generator.throw(GeneratorExit),
    "close": lambda generator: generator.close(),
    "iterate": lambda generator: list(itertools.islice(generator, 9)),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize(
    "function",
    [counts, cleans_up, handles, delegates, ignores_the_end, with_cells, raises_stop, closing_over],
)
def test_generators_are_made_again(function: Any, operation: Callable[[Any], object]) -> None:
    function_of = function if function is closing_over else lambda: function
    for yields in range(7):
        native = observe(lambda: used(advanced(function_of()(), yields), operation))
        for inside in (False, True):
            machine = Machine(World(inside))

            def again() -> Any:
                generator = advanced(machine.call(machine.call(function_of)), yields)
                return generator if generator.state is CLOSED else made_again(generator)

            assert observe(lambda: used(again(), operation)) == native, (yields, inside)


def advanced(generator: Any, yields: int) -> Any:
    for _ in range(yields):
        next(generator, None)
    return generator


def made_again(generator: Suspended) -> Any:
    """A real generator that stands where the interpreter's does, which is over."""
    started = generator.state is SUSPENDED
    frame = generator.frame
    found = standing_generator(frame, started)
    code = generator_code(found.point, started)
    function = FunctionType(code, frame.globals, generator.__name__, None, closure_of(code, frame.func))
    stack = [made_again(value) if isinstance(value, Suspended) else value for value in found.stack]
    made = function(*found.slots, *stack)
    if started:
        next(made)
    generator.state = CLOSED
    return made


def used(generator: Any, operation: Callable[[Any], object]) -> object:
    """All that there is to see of a generator."""
    seen: list[object] = []
    for do in (operation, next, operation, next, OPERATIONS["iterate"]):
        seen.append((inspect.getgeneratorstate(generator), generator.__name__, generator.__qualname__))
        seen.append((generator.gi_frame and generator.gi_frame.f_lineno, generator.gi_yieldfrom is None))
        try:
            seen.append(do(generator))
        except BaseException as error:
            seen.append((type(error).__name__, str(error), repr(error.__context__), repr(error.__cause__)))
    return seen
