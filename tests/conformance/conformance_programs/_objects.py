"""What programs do with an object from outside: kinds of objects, places they are found in, uses of them.

A kind says how its objects are made, and what can be done with them beside what their class tells
(`uses_of`). For each kind and place there is a program with some of the uses: with all of them where the
object is an argument; in three other places, which take turns, with a third of them each, so that more uses
come first somewhere. A use for which the kind names a reason is a program of its own, and breaks.

The third call finds another object of the kind in the place (`other`).
"""

from __future__ import annotations

import copy
import itertools
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance_programs import add


@dataclass
class Kind:
    name: str
    make: Callable[[], Any]
    other: Callable[[], Any] | None = None
    """Another object of the kind; if there is none, one that is made in the same way."""
    own: str = ""
    """What else can be done: a use for each line, or several lines under `name:`."""
    breaks: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Use, or `place` for all uses there -> for which reasons it can't be captured."""
    without: str = ""
    """Names of uses that do not apply although the class says so."""
    scope: dict[str, Any] = field(default_factory=dict)
    """Names that the uses of this kind need."""


def each(uses: str, reason: str | tuple[str, ...]) -> dict[str, Any]:
    """For `Kind.breaks`: these uses break, all for one reason."""
    return dict.fromkeys(uses.split(), reason)


# Places


class Box:
    """Something that has attributes."""


@dataclass
class Place:
    head: str
    """The beginning of the program; `v` is the object in what follows."""
    hold: Callable[[dict[str, Any], Any], tuple[Any, ...]]
    """Puts the object there: what the program is called with."""
    put: Callable[[Any, dict[str, Any], tuple[Any, ...], Any], Any]
    """Puts another one there: what the program is called with then, if that is new."""


def boxed(value: Any) -> Box:
    box = Box()
    box.value = value  # type: ignore[attr-defined]
    return box


def nested_module(value: Any) -> torch.nn.Module:
    module = torch.nn.Module()
    module.inner = torch.nn.Module()
    module.inner.value = value
    return module


def in_scope(name: str, wrap: Callable[[Any], Any] = lambda value: value) -> Callable[..., Any]:
    def hold(scope: dict[str, Any], value: Any) -> tuple[Any, ...]:
        scope[name] = wrap(value)
        return ()

    return hold


def set_cell(fn: Any, scope: dict[str, Any], given: tuple[Any, ...], value: Any) -> None:
    fn.__closure__[fn.__code__.co_freevars.index("v")].cell_contents = value


def set_item(key: Any) -> Callable[..., Any]:
    return lambda fn, scope, given, value: given[1].__setitem__(key, value)


PLACES: dict[str, Place] = {
    "argument": Place(
        "def f(x, kept, v):", lambda scope, v: (v,), lambda fn, scope, given, v: (given[0], v)
    ),
    "keyword": Place(
        "def f(x, kept, v):\n    return g(x, kept, v=v)\ndef g(x, kept, *, v):",
        lambda scope, v: (v,),
        lambda fn, scope, given, v: (given[0], v),
    ),
    "attribute": Place(
        "def f(x, kept, box):\n    v = box.value",
        lambda scope, v: (boxed(v),),
        lambda fn, scope, given, v: setattr(given[1], "value", v),
    ),
    "global": Place(
        "def f(x, kept):\n    v = VALUE",
        in_scope("VALUE"),
        lambda fn, scope, given, v: scope.update(VALUE=v),
    ),
    "closure": Place(
        "def made(v):\n  def f(x, kept):", in_scope("VALUE"), set_cell
    ),
    "class_attribute": Place(
        "def f(x, kept):\n    v = Box.value",
        in_scope("Box", lambda v: type("Box", (), {"value": v})),
        lambda fn, scope, given, v: setattr(scope["Box"], "value", v),
    ),
    "default": Place(
        "def f(x, kept, v=VALUE):",
        in_scope("VALUE"),
        lambda fn, scope, given, v: setattr(fn, "__defaults__", (v,)),
    ),
    "list_item": Place("def f(x, kept, held):\n    v = held[1]", lambda scope, v: ([0, v],), set_item(1)),
    "dict_item": Place(
        "def f(x, kept, held):\n    v = held['k']", lambda scope, v: ({"j": 0, "k": v},), set_item("k")
    ),
    "tuple_item": Place(
        "def f(x, kept, held):\n    _, v = held",
        lambda scope, v: ((0, v),),
        lambda fn, scope, given, v: (given[0], (0, v)),
    ),
    "module_attribute": Place(
        "def f(x, kept, module):\n    v = module.inner.value",
        lambda scope, v: (nested_module(v),),
        lambda fn, scope, given, v: setattr(given[1].inner, "value", v),
    ),
}  # fmt: skip


# Uses


ALWAYS = {
    "returned": "v",
    "identity": "v is None, v is not None, v is v, v is x, v is LIKE",
    "class": "type(v).__name__, isinstance(v, (int, list)), isinstance(v, type(v)), type(v) is CLASS",
    "passed": "passed_on(v, named=v)",
    "stored": "kept.last = v\nkept.all.append(v)",
    "listed": "[v, (v,), {'k': v}]",
    "truth": "bool(v), not v, 1 if v else 2",
}

BY_QUESTION: dict[Callable[[Any], Any], dict[str, str]] = {
    len: {"length": "len(v), len(v) > 1"},
    iter: {
        "iterated": "seen = []\nfor each in v:\n    seen.append(each)\nout.append(seen)",
        "unpacked": "first, *rest = v\nout.append((first, rest, [*v], passed_on(*list(v)[:1])))",
        "contained": "[each in v for each in list(v)[:2]]",
        "enumerated": "list(zip(v, range(9))), list(map(lambda each: each, v)), any(each is None for each in v)",
    },
    lambda value: value.keys() and not isinstance(value, type): {
        "keys": "list(v.keys()), list(v.items()), {**v}, [v[key] for key in v], v.get('none', 3)",
    },
}

EQUAL = {"equal": "v == v, v != v, v == 5, v == LIKE, v in [0, v], [LIKE].count(v), (v,) == (LIKE,)"}
HASHED = {"hashed": "{v: 1}[v], v in {v}, len({v, LIKE}), hash(v) == hash(v), {LIKE: 2}.get(v)"}
TEXT = {"text": "repr(v), str(v), f'{v} {v!r:>5}', '%s' % (v,), '{}'.format(v)"}
ORDERED = {"ordered": "v < LIKE, v >= v, sorted([LIKE, v]), max(v, LIKE)"}
COPIED = {"copied": "copy.copy(v)", "deeply_copied": "copy.deepcopy(v), copy.deepcopy([v, v])"}


def works(call: Callable[..., Any], *args: Any) -> bool:
    try:
        call(*args)
    except Exception:
        return False
    return True


def uses_of(kind: Kind) -> dict[str, str]:
    """What can be done with objects of a kind: name -> source."""
    value, like = kind.make(), kind.make()
    cls = type(value)
    uses = dict(ALWAYS)
    for question, more in BY_QUESTION.items():
        if not hasattr(cls, "__next__") and works(question, kind.make()):
            uses |= more
    if cls.__eq__ is not object.__eq__:
        uses |= EQUAL
    if works(hash, value) and cls.__hash__ is not object.__hash__:
        uses |= HASHED
    if works(lambda: value < like):
        uses |= ORDERED
    if cls.__repr__ is not object.__repr__ and " at 0x" not in repr(value):
        uses |= TEXT
    if works(copy.deepcopy, value) and works(copy.copy, value):
        uses |= COPIED
    uses |= own_uses(kind.own)
    return {name: use for name, use in uses.items() if name not in kind.without.split()}


def own_uses(text: str) -> dict[str, str]:
    """`name: source` in each line; the source may be in the lines below instead."""
    uses: dict[str, str] = {}
    name = ""
    for line in filter(str.strip, text.splitlines()):
        head = HEAD.fullmatch(line)
        if head is not None:
            name = head[1]
            uses[name] = head[2] or ""
        else:
            uses[name] += "\n" + line
    return {name: textwrap.dedent(use).strip() for name, use in uses.items()}


HEAD = re.compile(r"\s*(?!else|try|finally)(\w+):(?: (.*)|)")


def written(use: str) -> str:
    """An expression, of which the value is seen; or statements."""
    try:
        compile(use.strip(), "use", "eval")
    except SyntaxError:
        return use
    return f"out.append(({use.strip()}))"


def passed_on(value: Any, named: Any = None) -> Any:
    return value is None, value, named


# Programs


def source_of(place: Place, uses: list[str]) -> str:
    depth = "    " if not place.head.startswith("def made") else "      "
    body = "\n".join(["y = x + 1", "out = []", *map(written, uses), "return y * len(out), out"])
    end = "\n  return f\nf = made(VALUE)" if place.head.startswith("def made") else ""
    return f"{place.head}\n{textwrap.indent(body, depth)}{end}\n"


def maker(kind: Kind, place: Place, uses: list[str], module: str) -> Callable[[], Any]:
    source = source_of(place, uses)
    code = compile(source, f"<{kind.name}>", "exec")

    def make() -> Any:
        value, kept = kind.make(), Box()
        kept.all, kept.held = [], [value]  # type: ignore[attr-defined]
        scope: dict[str, Any] = {
            **{"__name__": module, "torch": torch, "copy": copy, "passed_on": passed_on},
            **{"LIKE": kind.make(), "CLASS": type(value), **kind.scope},
        }
        given = (kept, *place.hold(scope, value))
        exec(code, scope)
        fn = scope["f"]

        def then(n: int, *given: Any) -> Any:
            if n == 1:
                another = (kind.other or kind.make)()
                kept.held.append(another)  # type: ignore[attr-defined]
                return place.put(fn, scope, given, another)
            return None

        return fn, given, then

    make.source = source  # type: ignore[attr-defined]
    return make


def chapter(*kinds: Kind) -> None:
    """Adds the programs of some kinds to the chapter that calls this."""
    module = sys._getframe(1).f_globals["__name__"]
    for kind in kinds:
        uses = uses_of(kind)
        unknown = set(kind.breaks) - set(uses) - set(PLACES) - {"anywhere"}
        assert not unknown, f"{kind.name} has no {unknown}"
        for name, why in kind.breaks.items():
            if name in uses:
                enter(module, kind, "argument", name, [uses[name]], why)
        whole = [use for name, use in uses.items() if name not in kind.breaks]
        for n, place in places_for(kind):
            some = whole if n == 0 else [use for at, use in enumerate(whole) if (at + n) % 3 == 0]
            why = kind.breaks.get(place, kind.breaks.get("anywhere", ()))
            enter(module, kind, place, "", some or whole[:1], why)


def places_for(kind: Kind) -> list[tuple[int, str]]:
    """An argument, and a few others in turn."""
    first, *others = enumerate(PLACES)
    turn = next(_turns)
    return [first, *(others[(3 * turn + n) % len(others)] for n in range(3))]


_turns = itertools.count()


def enter(module: str, kind: Kind, place: str, use: str, uses: list[str], why: str | tuple[str, ...]) -> None:
    make = maker(kind, PLACES[place], uses, module)
    name = f"{module.rpartition('.')[2]}::{kind.name}.{place}{'.' + use if use else ''}"
    add(name, make, each=make, breaks=why)
