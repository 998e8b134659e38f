"""The interpreter as a guest in a process: limits, interrupts, threads and memory are as they were before."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator

import pytest

from framelift import _frame
from framelift.interpreter import Machine
from framelift.interpreter.plain import PlainErrors, PlainWorld, interpret


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert _frame.mode() == _frame.OFF
    assert _frame.active() == 0
    assert not _frame.installed()
    assert _frame.set_interceptor(None) is None
    assert sys.exception() is None


def busy() -> int:
    """A program of a bit of everything, to show that things work normally."""
    log: list[int] = []

    def numbers() -> Iterator[int]:
        try:
            yield from (1, 2, 3)
        finally:
            log.append(4)

    for n in numbers():
        try:
            if n == 3:
                raise ValueError(n)
        except ValueError as error:
            log.append(error.args[0])
    return sum(sorted([*log, *numbers()], key=lambda n: -n))


# Recursion


def endless(n: int) -> int:
    return endless(n + 1)


def endless_through_c(n: int) -> int:
    return max([n], key=lambda _: endless_through_c(n + 1))


def endless_generators(n: int) -> Iterator[int]:
    yield from endless_generators(n + 1)


@pytest.mark.parametrize("start", [endless, endless_through_c, lambda n: list(endless_generators(n))])
def test_recursion_ends_at_the_limit_and_work_goes_on(start: Callable[[int], object]) -> None:
    machine = Machine(PlainWorld())
    for _ in range(3):
        with pytest.raises(RecursionError):
            machine.call(start, 0)
        assert (machine.depth, machine.frame, machine.caller) == (0, None, None)
        assert machine.call(busy) == busy()


def test_a_program_handles_its_own_recursion_error() -> None:
    def deepest(n: int) -> int:
        try:
            return deepest(n + 1)
        except RecursionError:
            return n

    assert interpret(deepest, 0) > sys.getrecursionlimit() // 2


# Interrupts


def interrupted_at(place: Callable[[], object], log: list[str]) -> None:
    try:
        place()
    finally:
        log.append("finally")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def interrupt_in_c() -> None:
    sorted([1, 2], key=lambda _: interrupt())


def interrupt_in_a_generator() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        interrupt()

    list(numbers())


def interrupt_while_handling() -> None:
    try:
        raise ValueError
    except ValueError:
        interrupt()


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    "place", [interrupt, interrupt_in_c, interrupt_in_a_generator, interrupt_while_handling]
)
def test_an_interrupt_leaves_the_machine_as_it_was(place: Callable[[], object]) -> None:
    machine, log = Machine(PlainWorld()), []
    with pytest.raises(KeyboardInterrupt):
        machine.call(interrupted_at, place, log)
    assert log == ["finally"]
    assert (machine.depth, machine.frame, machine.caller) == (0, None, None)
    assert machine.call(busy) == busy()


class InterruptsAreNotCaught(PlainErrors):
    def catchable(self, error: BaseException) -> bool:
        return not isinstance(error, KeyboardInterrupt)


class EndedByInterrupts(PlainWorld):
    """As a trace is: one may come in the middle of an instruction, whose frame no handler can go on in."""

    errors = InterruptsAreNotCaught()


def test_an_interrupt_may_come_at_any_moment() -> None:
    def work_until(stop: list[bool]) -> int:
        rounds = 0
        while not stop:
            busy()
            rounds += 1
        return rounds

    for delay in (0.001, 0.002, 0.003, 0.005, 0.008, 0.013):
        machine = Machine(EndedByInterrupts())
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, delay, 10)  # one that comes in a finaliser is lost
            machine.call(work_until, [])
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert (machine.depth, machine.frame, machine.caller) == (0, None, None)
        assert sys.exception() is None
        assert machine.call(busy) == busy()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


# The exception being handled


def test_an_escaping_exception_leaves_the_handled_one_in_place() -> None:
    def failing() -> None:
        try:
            raise KeyError
        except KeyError:
            raise IndexError from None

    try:
        raise ValueError
    except ValueError as handled:
        with pytest.raises(IndexError):
            interpret(failing)
        assert sys.exception() is handled
        assert interpret(sys.exception) is handled
    assert interpret(sys.exception) is None


def test_a_suspended_generator_keeps_what_it_handles_to_itself() -> None:
    def handling() -> Iterator[object]:
        try:
            raise ValueError
        except ValueError:
            yield sys.exception()
            yield sys.exception()

    generator = interpret(handling)
    handled = next(generator)
    assert sys.exception() is None
    try:
        raise KeyError
    except KeyError as other:
        assert next(generator) is handled
        assert sys.exception() is other
    generator.close()
    assert sys.exception() is None


# Tracebacks


def test_a_traceback_shows_the_program_alone() -> None:
    def inner(n: int) -> float:
        return 1 / n

    def outer() -> object:
        return list(map(inner, [0]))

    def program() -> str:
        try:
            outer()
        except ZeroDivisionError:
            return traceback.format_exc()
        return ""

    assert interpret(program) == program()


def test_a_traceback_that_leaves_the_interpreter_ends_in_the_program() -> None:
    def inner() -> None:
        raise ValueError

    def outer() -> None:
        inner()

    with pytest.raises(ValueError) as caught:
        interpret(outer)
    assert [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)][-2:] == [
        "outer",
        "inner",
    ]


# Frame objects


def test_a_frame_object_follows_its_frame() -> None:
    def program() -> list[object]:
        frame = sys._getframe()
        seen = [frame.f_lineno - frame.f_code.co_firstlineno, sorted(frame.f_locals)]
        later = 1
        return [
            *seen,
            frame.f_lineno - frame.f_code.co_firstlineno,
            sorted(frame.f_locals),
            type(frame).__name__,
        ]

    assert interpret(program) == program()


def test_frames_lead_out_of_the_interpreter() -> None:
    def program() -> object:
        frame: types.FrameType | None = sys._getframe()
        names = []
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        return names

    assert interpret(program) == program()
    with pytest.raises(ValueError, match="not deep enough"):
        interpret(lambda: sys._getframe(100_000))


# Nesting and threads


def test_an_interpreted_program_may_start_the_interpreter() -> None:
    def nested(depth: int) -> int:
        return interpret(nested, depth - 1) + 1 if depth else busy()

    assert interpret(nested, 3) == busy() + 3


def test_an_error_passes_through_nested_interpreters() -> None:
    def nested(depth: int) -> None:
        if not depth:
            raise LookupError("innermost")
        interpret(nested, depth - 1)

    with pytest.raises(LookupError, match="innermost"):
        interpret(nested, 3)


def test_each_thread_has_its_own_machine() -> None:
    results: dict[int, list[int]] = {}
    together = threading.Barrier(4)

    def work(n: int) -> None:
        def program() -> int:
            together.wait()
            return sum(busy() * n for _ in range(20))

        machine = Machine(PlainWorld())
        results[n] = [machine.call(program) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [20 * n * busy()] * 3 for n in range(4)}


def test_an_interpreted_program_may_start_threads() -> None:
    def program() -> list[int]:
        results: list[int] = []
        threads = [threading.Thread(target=lambda: results.append(busy())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    assert interpret(program) == [busy()] * 3


# Memory


def failing() -> None:
    try:
        busy()
    finally:
        raise ValueError("out")


def looks_at_frames() -> object:
    def inner() -> object:
        return sys._getframe(1).f_back

    return inner()


def abandons_generators() -> int:
    def numbers() -> Iterator[int]:
        try:
            raise KeyError
        except KeyError:
            yield 1
            yield 2

    return next(numbers())


def recovers() -> str:
    try:
        failing()
    except ValueError as error:
        return str(error.__traceback__ and error)
    return ""


@pytest.mark.parametrize("program", [busy, failing, looks_at_frames, abandons_generators, recovers])
def test_many_rounds_leak_nothing(program: Callable[[], object]) -> None:
    def rounds(count: int) -> int:
        for _ in range(count):
            try:
                interpret(program)
            except ValueError:
                pass
        gc.collect()
        return len(gc.get_objects())

    before = rounds(50)
    assert rounds(2_000) - before < 50


def test_values_die_when_natively_they_would() -> None:
    class Thing:
        pass

    def program() -> list[bool]:
        def made() -> Thing:
            return Thing()

        def failing(thing: Thing) -> None:
            raise ValueError

        def yielding(thing: Thing) -> Iterator[Thing]:
            yield thing

        alive = []
        thing = made()
        ref = weakref.ref(thing)
        del thing
        alive.append(ref() is None)
        thing = made()
        ref = weakref.ref(thing)
        for other in yielding(thing):
            pass
        del thing, other
        alive.append(ref() is None)
        return alive

    gc.disable()
    try:
        assert interpret(program) == program() == [True, True]
    finally:
        gc.enable()


def test_an_exception_keeps_no_frame_of_the_interpreter_alive() -> None:
    def program() -> list[str]:
        try:
            sorted([1], key=lambda _: 1 / 0)
        except ZeroDivisionError as error:
            entries = list(traceback.walk_tb(error.__traceback__))
        return [frame.f_globals["__name__"] for frame, _ in entries]

    assert interpret(program) == program() == [__name__, __name__]
