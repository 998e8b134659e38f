"""Instructions are those that `dis` gives, without what is left out on purpose."""

from __future__ import annotations

import ast
import collections
import dis
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from types import CodeType, ModuleType

import pytest

from framelift.bytecode.decode import Decoded, version
from framelift.interpreter.machine import HANDLERS, decoded

LONG = "x = [" + ", ".join(f"a{n}" for n in range(300)) + "]\nwhile x:\n" + "    y = x.b + 3\n" * 300
FORMATS = "f'{a} {b!r} {c!s:>{d}} {e!a} {g:x}'"


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes(const)


def assert_same(code: CodeType) -> None:
    expected = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "CACHE")]
    found = [each for each in version.instructions(code) if each.opname not in ("EXTENDED_ARG", "CACHE")]
    value = lambda one: None if one.opname == "KW_NAMES" else one.argval  # which dis does not look up
    fields = lambda one: (*one[:3], one.offset, type(value(one)), repr(value(one)))
    assert [fields(one) for one in found] == [fields(one) for one in expected]


@pytest.mark.parametrize("module", [ast, collections, dis, inspect, re, textwrap, typing])
def test_instructions_of_the_library_are_those_of_dis(module: ModuleType) -> None:
    for code in codes(compile(inspect.getsource(module), module.__name__, "exec")):
        assert_same(code)


@pytest.mark.parametrize("source", [LONG, FORMATS])
def test_instructions_with_long_arguments_and_formats_are_those_of_dis(source: str) -> None:
    assert_same(compile(source, "a file", "exec"))


def test_places_are_those_of_dis() -> None:
    code = Decoded.find_result.__code__
    found = decoded(code)
    assert found.ops and HANDLERS
    by_offset = {each.offset: each.positions for each in dis.get_instructions(code)}
    for at, instruction in enumerate(found.instructions):
        positions = by_offset[instruction.offset]
        assert positions is not None
        line, last, column, last_column = found.position(at)
        assert (line, last, column, last_column) == tuple(positions)
