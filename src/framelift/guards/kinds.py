"""The kinds of guards, and the ways in which values are reached: one row each, with all that is said of it.

A new kind of guard is a row of `Check` and a check of the same name in `native/operations.cpp`; a new way to
reach a value is a row of `Access` and an access there. The rows take their numbers from the extension.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framelift import _guards
from framelift.core import causes
from framelift.core.causes import Cause
from framelift.core.weakly import there, weakly
from framelift.guards.value_texts import full_name, shown, shown_length, type_name, written, written_list

Keep = Callable[[Any], Any]
"""What is kept of an object once the native program has been made: entries must not keep it alive."""


class MemberName:
    """What is kept of the descriptor of a slot, which would keep its class alive."""

    def __init__(self, member: Any) -> None:
        self.__name__: str = member.__name__


# ---- checks

HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
"""Where a module keeps what its calls call beside `forward`."""
OWN_WAYS = ("_compiled_call_impl", "_call_impl", "forward")
"""Attributes of a module's own that its calls call in the place of methods of its class."""


@dataclass(frozen=True)
class OperandKind:
    """What a kind of guard compares with."""

    text: Callable[[Any], str] = str
    keep: Keep | None = None
    """None: it holds no object of the program."""


NOTHING = OperandKind()
SOURCE = OperandKind()
TENSOR_SPEC = OperandKind()
VALUE = OperandKind(written)
OBJECT = OperandKind(lambda kept: written(there(kept)), weakly)
CLASS = OperandKind(lambda kept: full_name(there(kept)), weakly)
MEMBER = OperandKind(lambda kept: repr(kept.__name__), MemberName)
LIST = OperandKind(lambda kept: written_list(map(there, kept)), lambda objects: tuple(map(weakly, objects)))
TUPLE = OperandKind(lambda kept: written(tuple(map(there, kept))), LIST.keep)


@dataclass(frozen=True, eq=False)
class CheckRow:
    text: str
    """The fact as a user writes it, with its source `s` and the operand `e`."""
    operand: OperandKind
    cause: Cause | None
    """Why something is compiled again when it fails. None: the value decides (`failures`)."""
    found: str | Callable[[Any], str] = shown
    """How the value that was found is shown, or what is said of it."""
    is_keyed: bool = False
    """Whether one source may have several of this kind, with different operands."""


class Check(enum.Enum):
    """The kinds of guards; each has a native counterpart `CHECK_<NAME>`."""

    __hash__ = object.__hash__  # Enum's own is Python code that hashes the name

    IS = CheckRow("{s} is {e}", OBJECT, None)
    IS_NOT = CheckRow("{s} is not {e}", OBJECT, causes.PRESENCE, "that it is", is_keyed=True)
    TYPE = CheckRow("type({s}) is {e}", CLASS, causes.TYPE, lambda value: type_name(type(value)))
    EQUAL = CheckRow("{s} == {e}", VALUE, None)
    LEN = CheckRow("len({s}) == {e}", VALUE, causes.LENGTH, shown_length)
    NONEMPTY = CheckRow(
        "bool({s}) is {e}", VALUE, causes.LENGTH, lambda value: f"length {shown_length(value)}"
    )
    KEYS = CheckRow(
        "list({s}) == {e}",
        LIST,
        causes.KEYS,
        lambda value: written_list(value) if type(value) is dict else shown(value),
    )
    NO_KEY = CheckRow("{e} not in {s}", OBJECT, causes.PRESENCE, "that it is", is_keyed=True)
    NO_ATTR = CheckRow("{e} not in vars({s})", VALUE, causes.PRESENCE, "that it is", is_keyed=True)
    NO_SLOT = CheckRow("not hasattr({s}, {e})", MEMBER, causes.PRESENCE, "that it has", is_keyed=True)
    ELEMENTS_IN_ORDER = CheckRow("tuple({s}) == {e}", TUPLE, causes.KEYS)
    CODE = CheckRow("{s}.__code__ is what it was", OBJECT, causes.CODE, "other code")
    EMPTY_CELL = CheckRow("{s} is empty", NOTHING, causes.PRESENCE, "a value")
    TENSOR = CheckRow("{s} is {e}", TENSOR_SPEC, None)
    LEAF = CheckRow("{s}.is_leaf is {e}", VALUE, causes.TENSOR, "that it is otherwise")
    NO_HOOKS = CheckRow("{s} has no hooks", NOTHING, causes.TENSOR, "some")
    CALLS_FORWARD = CheckRow(
        "calling {s} runs the forward of its class", NOTHING, causes.CODE, "hooks, or another forward"
    )
    OFFSET = CheckRow(
        "{s}.storage_offset() == {e}", VALUE, causes.STRIDE, lambda value: str(value.storage_offset())
    )
    NBYTES = CheckRow(
        "{s}.untyped_storage().nbytes() == {e}",
        VALUE,
        causes.TENSOR,
        lambda value: str(value.untyped_storage().nbytes()),
    )
    SAME_AS = CheckRow("{s} is {e}", SOURCE, causes.ALIASING, "another object", is_keyed=True)
    NOT_SAME_AS = CheckRow("{s} is not {e}", SOURCE, causes.ALIASING, "that it is", is_keyed=True)
    APART = CheckRow("{s} lies apart from {e}", SOURCE, causes.ALIASING, "that they overlap", is_keyed=True)

    def __init__(self, row: CheckRow) -> None:
        self.text = row.text
        self.operand = row.operand
        self.cause = row.cause
        self.found = row.found
        self.is_keyed = row.is_keyed
        self.code: int = getattr(_guards, f"CHECK_{self.name}")


# ---- accesses


@dataclass(frozen=True, eq=False)
class AccessRow:
    text: str
    """The value as a user writes it, with its base `b` and its key `k`."""
    is_root: bool = False
    """Whether a path begins here: the base plays no role."""
    exists: str = "{s} is there"
    """The fact that there is such a value, with its source `s`, and the key as it is written, `w`."""
    operand_at: int | None = None
    """Where in the key the operand of the native access is; None: it is the key."""
    keep: Keep | None = None
    """None: the key holds no object of the program."""
    is_native: bool = True


class Access(enum.Enum):
    """How a value is reached; each way has a native counterpart `ACCESS_<NAME>`."""

    __hash__ = object.__hash__  # Enum's own is Python code that hashes the name

    ARG = AccessRow("{k[1]}", is_root=True, operand_at=0)
    FUNC = AccessRow("{k}", is_root=True)
    GLOBALS = AccessRow("globals()", is_root=True)
    SCOPE = AccessRow("{k}")
    CONST = AccessRow("{k[0]}", is_root=True, operand_at=1, keep=lambda key: (key[0], weakly(key[1])))
    ATTR = AccessRow("{b}.{k}", exists="hasattr({b}, {k!r})")
    DICT = AccessRow("{b}.__dict__")
    KEY = AccessRow("{b}[{k}]", exists="{w} in {b}", keep=weakly)
    ITEM = AccessRow("{b}[{k}]", exists="len({b}) > {k}")
    DEQUE_ITEM = AccessRow("{b}[{k}]", exists="len({b}) > {k}")
    VALUE_AT = AccessRow("list({b}.values())[{k}]", exists="len({b}) > {k}")
    SLOT = AccessRow("{b}.{k.__name__}", keep=MemberName)
    CELL = AccessRow("{k[1]}", operand_at=0)
    CELL_OBJECT = AccessRow("{b}.__closure__[{k}]")
    CONTENTS = AccessRow("{b}.cell_contents")
    DEFAULT = AccessRow("{b}.__defaults__[{k}]")
    KWDEFAULT = AccessRow("{b}.__kwdefaults__[{k!r}]")
    SELF = AccessRow("{b}.__self__")
    METHOD_FUNC = AccessRow("{b}.__func__")
    GRAD = AccessRow("{b}.grad")
    NATIVE_ATTR = AccessRow("{b}.{k}")
    THREAD_DICT = AccessRow("{b}.__dict__")
    SUBCLASSES = AccessRow("{b}.__subclasses__()")
    REDUCED = AccessRow("{b}.__reduce__()")
    VIEWED = AccessRow("<what {b} is of>")
    REFERENT = AccessRow("{b}()")
    BYTES = AccessRow("bytes({b})")
    NUMBER = AccessRow("{b}.item()")
    REGISTRATIONS = AccessRow("abc.get_cache_token()", is_root=True)
    DECIMAL_CONTEXT = AccessRow("decimal.getcontext()", is_root=True)
    MODE = AccessRow("<torch function mode {k}>", is_root=True)
    ASKED = AccessRow("{k[0]}", is_root=True, operand_at=1)
    """What a function of C, which has no arguments but constants, answers."""
    DRAWN = AccessRow("<draw {k}>", is_root=True, is_native=False)
    """Made by the region itself, so no guard is about it."""

    def __init__(self, row: AccessRow) -> None:
        self.text = row.text
        self.is_root = row.is_root
        self.exists = row.exists
        self.operand_at = row.operand_at
        self.keep = row.keep
        self.code: int | None = getattr(_guards, f"ACCESS_{self.name}") if row.is_native else None
