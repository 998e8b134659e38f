"""The table of 3.14's instructions, and their handlers, on instructions and frames that are made here."""

from __future__ import annotations

import dis
import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

if sys.version_info < (3, 13):
    pytest.skip("the table is made from that of 3.13, which needs its dis", allow_module_level=True)

from framelift.bytecode import python314
from framelift.core.sentinels import NULL
from framelift.interpreter import op_later
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import HANDLERS, Machine, decoded
from framelift.interpreter.plain import PlainWorld


def instruction(name: str, arg: int = 0, value: Any = None) -> Any:
    return SimpleNamespace(opname=name, arg=arg, argval=value, opcode=dis.opmap.get(name, 0), offset=0)


def code_with_cell() -> Any:
    cell = 1
    return lambda: cell


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (instruction("LOAD_SMALL_INT", 7), ("LOAD_CONST", 7)),
        (instruction("LOAD_COMMON_CONSTANT", 0), ("LOAD_CONST", AssertionError)),
        (instruction("LOAD_SPECIAL", 1), ("LOAD_SPECIAL", "__exit__")),
        (instruction("BINARY_OP", 26), ("BINARY_SUBSCR", 26)),
        (instruction("FOR_ITER", 3, 10), ("FOR_ITER_KEEPING", 6)),
        (instruction("LOAD_FAST_BORROW", 0, "x"), ("LOAD_FAST", 0)),
        (instruction("LOAD_FAST_BORROW", 0, "cell"), ("LOAD_CLOSURE", 0)),
        (instruction("LOAD_FAST_BORROW_LOAD_FAST_BORROW", 0x12), ("LOAD_FAST_LOAD_FAST", (1, 2))),
        (instruction("POP_ITER"), ("POP_TOP", 0)),
        (instruction("NOT_TAKEN"), ("NOP", 0)),
        (instruction("INSTRUMENTED_NOT_TAKEN"), ("NOP", 0)),
        (instruction("CALL_FUNCTION_EX", 1), ("CALL_FUNCTION_EX_BOTH", 1)),
    ],
    ids=lambda case: getattr(case, "opname", ""),
)
def test_an_instruction_has_a_handler(given: Any, expected: tuple[str, Any]) -> None:
    found = python314.normalise(given, code_with_cell().__code__, {10: 5})
    assert found == expected
    assert found[0] in HANDLERS


def frame_with(*stack: Any) -> Frame:
    def here() -> None: ...

    frame = Frame(Machine(PlainWorld()), here, decoded(here.__code__), [])
    frame.stack = list(stack)
    return frame


class Manager:
    def __enter__(self) -> str:
        return "entered"

    def __exit__(self, *error: object) -> Any:
        return error[:2]


def test_methods_of_a_manager_are_pushed_with_null() -> None:
    manager = Manager()
    frame = frame_with(manager)
    op_later.LOAD_SPECIAL(frame, "__enter__")
    assert frame.stack[1] is NULL
    assert frame.stack[0]() == "entered"
    with pytest.raises(TypeError, match="does not support the context manager protocol"):
        op_later.LOAD_SPECIAL(frame_with(5), "__exit__")


@pytest.mark.parametrize("bound", [True, False])
def test_leaving_a_context_with_an_error(bound: bool) -> None:
    error, manager = ValueError("why"), Manager()
    pair = (manager.__exit__, NULL) if bound else (Manager.__exit__, manager)
    frame = frame_with(*pair, 3, None, error)
    pushed = op_later.WITH_EXCEPT_START_IN_TWO(frame, None)
    assert isinstance(pushed, Frame)  # a call of a function is a frame that the loop runs
    assert frame.machine.run(pushed) == (ValueError, error)


def test_an_iterator_stays_when_it_has_ended() -> None:
    frame = frame_with(iter([1]))
    assert op_later.FOR_ITER_KEEPING(frame, 9) is None
    assert frame.stack[1:] == [1]
    frame.stack.pop()
    assert op_later.FOR_ITER_KEEPING(frame, 9) == 9
    assert len(frame.stack) == 1


@pytest.mark.parametrize(("names", "expected"), [(NULL, [1, 3, 2]), ({"reverse": True}, [3, 2, 1])])
def test_calls_with_unpacked_arguments(names: Any, expected: list[int]) -> None:
    called = sorted if names is not NULL else list
    frame = frame_with(called, NULL, ([1, 3, 2],), names)
    op_later.CALL_FUNCTION_EX_BOTH(frame, 0)
    assert frame.stack == [expected]


def test_a_call_that_fails_leaves_the_frame_as_it_was() -> None:
    frame = frame_with(len, NULL, 5, NULL)
    with pytest.raises(TypeError, match="argument after"):
        op_later.CALL_FUNCTION_EX_BOTH(frame, 0)
    assert frame.stack == [len, NULL, 5, NULL]


def test_templates_are_made_of_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(Interpolation=lambda *given: given, Template=lambda *parts: parts)
    monkeypatch.setattr(importlib, "import_module", lambda name: made)
    frame = frame_with(5, "x", ">4")
    op_later.BUILD_INTERPOLATION(frame, 2 << 2 | 1)
    assert frame.stack == [(5, "x", "r", ">4")]
    frame = frame_with(("a", "b"), ("between",))
    op_later.BUILD_TEMPLATE(frame, 0)
    assert frame.stack == [("a", "between", "b")]
