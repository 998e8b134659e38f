"""Programs written from tables: methods and attributes of builtin types, expressions over values.

A row of a method's table is a receiver, arguments, and what of the result is compared (`r` unless said), all as
source text. Each method makes two programs, each of which does all of its rows:

    inside      on a receiver that the program makes: `a.method(...)`, and the operator, statement or builtin
                that stands for a special method
    outside     on a receiver that is given: the same, `list.method(a, ...)` with arguments that are given too,
                and `operator.methodcaller("method", ...)`, called by `map`

What a type has from `object` makes one program of both. An attribute is read inside, and outside: also by `getattr`, by
`operator.attrgetter`, and from its descriptor. What a row raises is part of its result, and so is what it left
of its receiver.
"""

from __future__ import annotations

import ast
import collections
import functools
import math
import operator
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance_programs import add, compiled_from


@dataclass(frozen=True)
class Row:
    receiver: str
    args: str = ""
    then: str = "r"

    @property
    def positional(self) -> int | None:
        """How many arguments there are; None if they are not given one by one."""
        call = ast.parse(f"f({self.args})", mode="eval").body
        assert isinstance(call, ast.Call)
        plain = not call.keywords and not any(isinstance(arg, ast.Starred) for arg in call.args)
        return len(call.args) if plain else None

    @property
    def takes_tensor(self) -> bool:
        return bool(re.search(r"\bx\b", self.args))


Table = dict[str, list[Row]]
Breaks = dict[tuple[str, str], str | tuple[str, ...]]
"""(method, form) -> why it breaks."""

TYPES: dict[type, set[str]] = {}
"""Type -> the names of it that its table has."""


def on(receiver: str, *args: str, then: str = "r") -> list[Row]:
    """Rows of one receiver, for several lists of arguments."""
    return [Row(receiver, text, then) for text in args or ("",)]


def of_object(receiver: str, other: str, attribute: str = "__class__") -> Table:
    """What every type has from `object`: of a type that has more, its table says so."""
    return {
        "__delattr__": on(receiver, "'nope'", "'__class__'", "1"),
        "__dir__": on(receiver, "", then="sorted(r)"),
        "__eq__": on(receiver, receiver, other, "None", "3.5"),
        "__ne__": on(receiver, receiver, other, "None"),
        "__lt__": on(receiver, other, "None"),
        "__le__": on(receiver, other, "None"),
        "__gt__": on(receiver, other, "None"),
        "__ge__": on(receiver, other, "None"),
        "__format__": on(receiver, "''", "'nope'", "1"),
        "__getattribute__": on(receiver, f"'{attribute}'", "'nope'"),
        "__getstate__": on(receiver),
        "__hash__": on(receiver),
        "__init__": on(receiver),
        "__init_subclass__": on(receiver, "", "1"),
        "__reduce__": on(receiver),
        "__reduce_ex__": on(receiver, "2", "4"),
        "__repr__": on(receiver),
        "__setattr__": on(receiver, "'nope', 1", "'__class__', 1"),
        "__sizeof__": on(receiver),
        "__str__": on(receiver),
        "__subclasshook__": on(receiver, "int"),
    }


# The forms of a call

OPERATORS = {
    **{f"__{name}__": f"r = a {sign} b" for name, sign in {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
        "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^", "matmul": "@",
        "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    }.items()},
    **{f"__r{name}__": f"r = b {sign} a" for name, sign in {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
        "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
    }.items()},
    **{f"__i{name}__": f"a {sign}= b; r = a" for name, sign in {
        "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^",
    }.items()},
    **{f"__{name}__": f"r = {name}(a)" for name in (
        "abs", "bool", "bytes", "complex", "dir", "float", "hash", "int", "iter", "len", "next", "repr", "reversed",
        "round", "str",
    )},
    "__ceil__": "r = math.ceil(a)",
    "__floor__": "r = math.floor(a)",
    "__trunc__": "r = math.trunc(a)",
    "__index__": "r = operator.index(a)",
    "__invert__": "r = ~a",
    "__neg__": "r = -a",
    "__pos__": "r = +a",
    "__divmod__": "r = divmod(a, b)",
    "__rdivmod__": "r = divmod(b, a)",
    "__contains__": "r = b in a",
    "__getitem__": "r = a[b]",
    "__setitem__": "a[b] = c; r = None",
    "__delitem__": "del a[b]; r = None",
    "__format__": "r = format(a, b)",
    "__getattribute__": "r = getattr(a, b)",
    "__setattr__": "r = setattr(a, b, c)",
    "__delattr__": "r = delattr(a, b)",
    "__length_hint__": "r = operator.length_hint(a)",
    "__class_getitem__": "r = type(a)[b]",
    "__instancecheck__": "r = isinstance(b, a)",
    "__subclasscheck__": "r = issubclass(b, a)",
    "__call__": "r = a()",
    "__enter__": "with a as r: pass",
}  # fmt: skip
"""Special method -> the statements that call it, of receiver `a` and arguments `b` and `c`."""

NAMES: dict[str, Any] = {
    "math": math,
    "operator": operator,
    "functools": functools,
    "methodcaller": operator.methodcaller,
    "dict_keys": type({}.keys()),
    "dict_values": type({}.values()),
    "dict_items": type({}.items()),
    "MappingProxyType": types.MappingProxyType,
    "GenericAlias": types.GenericAlias,
    "UnionType": types.UnionType,
    "ModuleType": types.ModuleType,
    "SimpleNamespace": types.SimpleNamespace,
    "deque": collections.deque,
}
"""What the rows may use, beside the builtins."""


def attempt(*statements: str) -> list[str]:
    """Statements that leave in `r` what came of it."""
    return [
        "try:",
        *(f"    {line}" for line in statements),
        "except Exception as error:",
        "    r = type(error).__name__, str(error)",
        "seen.append((r, a))",
    ]


def write(lines: list[str], parameters: list[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"def f({', '.join(['x', *parameters])}):\n    y = x + 1\n    seen = []\n{body}\n    return y * 2, seen\n"


def taken(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


class Writer:
    """The source of one program, and what is given to it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.lines: list[str] = []
        self.parameters: list[str] = []
        self.sources: list[str] = []

    def given(self, source: str) -> str:
        """The parameter that is given what the source makes."""
        self.parameters.append(f"p{len(self.parameters)}")
        self.sources.append(source)
        return self.parameters[-1]

    def say(self, row: Row, outside: bool, *statements: str) -> None:
        """Statements on a receiver `a` of its own."""
        self.lines.append(f"a = {self.given(row.receiver) if outside else row.receiver}")
        self.lines += attempt(*statements, f"r = {row.then}")

    def make(self) -> tuple[Any, Callable[[], tuple[Any, ...]]]:
        sources, names = self.sources, self.names
        made = lambda: tuple([eval(source, {**names, "taken": taken}) for source in sources])
        return compiled_from(write(self.lines, self.parameters), **names), made


def write_operator(w: Writer, name: str, row: Row, outside: bool) -> None:
    statements = OPERATORS.get(name)
    if statements is None:
        return
    operands = [operand for operand in ("b", "c") if re.search(rf"\b{operand}\b", statements)]
    if row.positional == len(operands):
        before = [f"{', '.join(operands)}, = {row.args},"] if operands else []
        w.say(row, outside, *before, *statements.split("; "))


def write_inside(w: Writer, owner: str, name: str, row: Row) -> None:
    w.say(row, False, f"r = a.{name}({row.args})")
    write_operator(w, name, row, False)


def write_outside(w: Writer, owner: str, name: str, row: Row) -> None:
    w.say(row, True, f"r = a.{name}({row.args})")
    write_operator(w, name, row, True)
    if name not in OF_CLASSES:
        given = w.given(f"taken({row.args})") if not row.takes_tensor else ""
        args = f"*{given}[0], **{given}[1]" if given else row.args
        w.say(row, True, f"r = {owner}.{name}(a, {args})")
    caller = f"methodcaller({name!r}{row.args and ', '}{row.args})"
    w.say(row, True, f"(r,) = map({caller}, [a])")


OF_CLASSES = {"__new__", "__init_subclass__", "__subclasshook__", "__class_getitem__", "fromkeys", "fromhex"}
OF_CLASSES |= {"maketrans", "from_bytes", "_from_flags"}
"""Static and class methods: by class, the receiver is not an argument."""


def read_inside(w: Writer, owner: str, name: str, row: Row) -> None:
    w.say(row, False, f"r = a.{name}")


def read_outside(w: Writer, owner: str, name: str, row: Row) -> None:
    w.say(row, True, f"r = a.{name}")
    w.say(row, True, f"r = getattr(a, {name!r}) if hasattr(a, {name!r}) else None")
    w.say(row, True, f"(r,) = map(operator.attrgetter({name!r}), [a])")
    w.say(row, True, f"r = {owner}.__dict__[{name!r}].__get__(a)")


FORMS = {"inside": (write_inside, read_inside), "outside": (write_outside, read_outside)}


def add_type(
    chapter: str,
    cls: type,
    methods: Table,
    attributes: Table | None = None,
    *,
    owner: str | None = None,
    breaks: Breaks | None = None,
    without: dict[str, str] | None = None,
    forms: tuple[str, ...] = ("inside", "outside"),
) -> None:
    """The programs of a type. Names that this version does not have are left out, and so is what is in `without`, for
    the reason that it gives."""
    owner = owner or cls.__name__
    reasons = dict(breaks or {})
    without = without or {}
    methods = {name: rows for name, rows in methods.items() if name not in without}
    assert all(methods.values()), "a name without rows"
    TYPES[cls] = {*methods, *(attributes or {}), *without}
    for n, table in enumerate((methods, attributes or {})):
        for name, rows in table.items():
            if not hasattr(cls, name):
                continue
            for form in forms:
                w = Writer(NAMES)
                for row in rows:
                    FORMS[form][n](w, owner, name, row)
                fn, given = w.make()
                add(
                    f"{chapter}::{owner}.{name} {form}", fn, given=given, breaks=reasons.pop((name, form), ())
                )
    assert not [key for key in reasons if hasattr(cls, key[0])], f"no such programs: {list(reasons)}"


# Expressions


def add_expressions(
    chapter: str,
    table: dict[str, list[tuple[str, dict[str, str]]]],
    *,
    breaks: Breaks | None = None,
    names: dict[str, Any] | None = None,
) -> None:
    """Programs of expressions over values that are made inside, or given: name -> (expression, value -> source)."""
    reasons = dict(breaks or {})
    for name, rows in table.items():
        for form in ("inside", "outside"):
            w = Writer({**NAMES, **(names or {})})
            for expression, values in rows:
                for value, source in values.items():
                    w.lines.append(f"{value} = {w.given(source) if form == 'outside' else source}")
                w.lines += [f"a = [{', '.join(values)}]", *attempt(f"r = {expression}")]
            if form == "outside" and not w.parameters:
                continue
            fn, given = w.make()
            add(f"{chapter}::{name} {form}", fn, given=given, breaks=reasons.pop((name, form), ()))
    assert not reasons, f"no such programs: {list(reasons)}"
