"""Keys that are hashed and compared by code of the program's.

A table with such keys is hashed more often than the program does it: when its shadow is made, and when
it is made anew or written to after the graph has run. That code must not do anything but look.
"""

from __future__ import annotations

import builtins
import dis
import types
from typing import Any

from framelift.core import policy
from framelift.graph.symbols import SYMBOLIC

COMMON_KEYS = frozenset({str, int, bool, type(None), float, bytes})
QUESTIONS = (hash, isinstance, len, id, type, tuple, frozenset, str, repr, bool, int, NotImplemented)
WRITING_OPCODES = (
    "STORE_ATTR",
    "STORE_SUBSCR",
    "STORE_GLOBAL",
    "STORE_DEREF",
    "DELETE_ATTR",
    "DELETE_SUBSCR",
)


def is_hashed_with_effects(key: Any) -> bool:
    """Whether hashing a key once more could be noticed. A symbol is a number by then."""
    return type(key) not in SYMBOLIC and hashes_itself(key) and not only_looks(key)


def hashes_itself(key: Any) -> bool:
    """Whether hashing a key runs code of the program's."""
    if type(key) in COMMON_KEYS:
        return False
    if type(key) in (tuple, frozenset):
        return any(map(hashes_itself, key))
    return is_programs(type(key).__hash__)


def is_programs(method: Any) -> bool:
    """Whether a method is neither C's, nor torch's, nor the library's, nor made by that (for a dataclass)."""
    if type(method) is not types.FunctionType or method.__code__.co_filename == "<string>":
        return False
    return policy.is_user_code(policy.module_name(method))


def only_looks(key: Any) -> bool:
    """Whether hashing and comparing a key does nothing else, as far as can be told."""
    if type(key) in (tuple, frozenset):
        return all(map(only_looks, key))
    methods: list[Any] = [method for method in (type(key).__hash__, type(key).__eq__) if is_programs(method)]
    return all(map(has_no_effects, methods)) and not may_raise(type(key).__hash__)


def may_raise(method: Any) -> bool:
    """Whether a method of the program's raises where it finds its object in some state."""
    if not is_programs(method):
        return False
    return any(step.opname == "RAISE_VARARGS" for step in dis.get_instructions(method))


def may_be_called_again(method: Any) -> bool:
    """Whether the program would not notice that a method is called once more than it has called it."""
    return not is_programs(method) or (has_no_effects(method) and not may_raise(method))


def has_no_effects(fn: types.FunctionType) -> bool:
    for instruction in dis.get_instructions(fn):
        name = instruction.opname
        if name in WRITING_OPCODES or name in ("LOAD_METHOD", "LOAD_DEREF", "IMPORT_NAME"):
            return False
        if (
            name == "LOAD_ATTR"
            and dis.opmap.get("LOAD_METHOD", 256) > 255
            and instruction.arg
            and instruction.arg & 1
        ):
            return False
        if name == "LOAD_GLOBAL":
            found = fn.__globals__.get(instruction.argval, getattr(builtins, instruction.argval, None))
            if not issubclass(type(found), type) and not any(found is asks for asks in QUESTIONS):
                return False
    return True
