"""The Python language: every program of `programs/` is run natively and interpreted, and compared.

The catalogue itself is checked too: its programs are deterministic, and together they enter code that
contains every opcode, and every meaning of the opcodes that carry one in their operand, that this version's
compiler can emit.
"""

from __future__ import annotations

import dis
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import CodeType, FrameType

import pytest
from catalogue import CATALOGUE, NOT_EMITTED, PROGRAMS, Program, each_program, observe

# The programs


@pytest.fixture(scope="module")
def interpret() -> Callable[..., object]:
    from framelift.interpreter.plain import interpret

    return interpret


def test_programs_are_interpreted(interpret: Callable[..., object]) -> None:
    def program() -> list[str]:
        return [entry.filename for entry in inspect.stack()]

    assert interpret(program) == program()


@each_program
def test_interpreted_as_natively(program: Program, interpret: Callable[..., object]) -> None:
    native = observe(program)
    assert observe(lambda: interpret(program)) == native


# The catalogue


@each_program
def test_program_is_deterministic(program: Program) -> None:
    assert observe(program) == observe(program)


def test_programs_do_not_depend_on_the_hash_seed() -> None:
    first, second = (native_outcomes_under(seed) for seed in ("1", "2"))
    assert {name for name in CATALOGUE if first[name] != second[name]} == set()


def native_outcomes_under(hash_seed: str) -> dict[str, str]:
    """Each program's native outcome, from a process with that hash seed (this file run as a script)."""
    run = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def without_set_order(description: object) -> str:
    if isinstance(description, frozenset):
        return "{" + ", ".join(sorted(map(without_set_order, description))) + "}"
    if isinstance(description, tuple):
        return "(" + ", ".join(map(without_set_order, description)) + ")"
    return repr(description)


def test_program_names_are_unique() -> None:
    names = [name.partition("::")[2] for name in CATALOGUE]
    assert sorted(names) == sorted(set(names))


# Opcode coverage

BINARY_OPERATORS = {symbol for _, symbol in dis._nb_ops}

OPERANDS: dict[str, set[object]] = {
    "BINARY_OP": BINARY_OPERATORS,
    "COMPARE_OP": {"<", "<=", "==", "!=", ">", ">="},
    "IS_OP": {0, 1},
    "CONTAINS_OP": {0, 1},
    "RAISE_VARARGS": {0, 1, 2},
    "CALL_FUNCTION_EX": {0, 1},
    "BUILD_SLICE": {2, 3},
    "RESUME": {0, 1, 2, 3},
    "FORMAT_VALUE": {(conversion, spec) for conversion in (None, str, repr, ascii) for spec in (False, True)},
    "CONVERT_VALUE": {1, 2, 3},
    "MAKE_FUNCTION": {0, 1, 2, 4, 8},
    "SET_FUNCTION_ATTRIBUTE": {1, 2, 4, 8},
    "GET_AWAITABLE": {0, 1, 2},
}
if "SET_FUNCTION_ATTRIBUTE" in dis.opmap:
    del OPERANDS["MAKE_FUNCTION"]
OPERANDS = {name: operands for name, operands in OPERANDS.items() if name in dis.opmap}
if sys.version_info >= (3, 12):
    import opcode

    NOT_EMITTED_INTRINSICS = {"INTRINSIC_1_INVALID", "INTRINSIC_2_INVALID"}
    OPERANDS["CALL_INTRINSIC_1"] = set(opcode._intrinsic_1_descs) - NOT_EMITTED_INTRINSICS
    OPERANDS["CALL_INTRINSIC_2"] = set(opcode._intrinsic_2_descs) - NOT_EMITTED_INTRINSICS


def meaning(instruction: dis.Instruction) -> object:
    """What the operand of `instruction` says, in the words of the `OPERANDS` table."""
    name = instruction.opname
    if name == "COMPARE_OP":
        return instruction.argrepr.removeprefix("bool(").removesuffix(")")
    if name == "FORMAT_VALUE":
        return instruction.argval
    if name in ("BINARY_OP", "CALL_INTRINSIC_1", "CALL_INTRINSIC_2"):
        return instruction.argrepr
    return instruction.arg


@pytest.fixture(scope="module")
def instructions() -> list[dis.Instruction]:
    """The instructions of all code that programs enter: functions, class bodies, source they compile."""
    entered: set[CodeType] = set()

    def enter(frame: FrameType, event: str, arg: object) -> None:
        entered.add(frame.f_code)

    previous = sys.gettrace()
    for program in CATALOGUE.values():
        sys.settrace(enter)
        try:
            observe(program)
        finally:
            sys.settrace(previous)
    ours = (code for code in entered if code.co_filename.startswith((str(PROGRAMS), "<")))
    return [instruction for code in ours for instruction in dis.get_instructions(code)]


def test_programs_contain_every_opcode(instructions: list[dis.Instruction]) -> None:
    contained = {instruction.opname for instruction in instructions}
    assert set(dis.opmap) - contained == set(NOT_EMITTED)


@pytest.mark.parametrize("name", OPERANDS)
def test_programs_contain_every_operand(name: str, instructions: list[dis.Instruction]) -> None:
    contained = {meaning(instruction) for instruction in instructions if instruction.opname == name}
    assert OPERANDS[name] - contained == set()


if __name__ == "__main__":
    outcomes = {name: observe(program) for name, program in CATALOGUE.items()}
    json.dump(
        {name: without_set_order((o.value, o.printed, o.raised)) for name, o in outcomes.items()},
        sys.stdout,
    )
