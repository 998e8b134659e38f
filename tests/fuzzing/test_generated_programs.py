"""Random small programs do compiled what they do eagerly: results, exceptions, and all that they change.

A program is source text: a function over tensors, numbers, containers and objects from outside, with
branches, loops, closures, handlers, calls, and writes of every kind. It runs several times on state
of its own, plainly and compiled, and everything reachable is compared after each call.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import framelift
from sameness import alike


class Thing:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.count = 0
        self.items = [value]
        self.link: Any = None

    def bump(self, by: Any) -> Any:
        self.count += 1
        self.value = self.value + by
        return self.value

    @property
    def double(self) -> Any:
        return self.value * 2

    @double.setter
    def double(self, value: Any) -> None:
        self.value = value
        self.count -= 1


class Slim:
    __slots__ = ("count", "items", "link", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.count, self.items, self.link = value, 0, [value], None

    bump = Thing.bump
    double = Thing.double


HEADER = """
total = 1

def scale(a, by=2, *rest, sign=1):
    global total
    total = (total + by) % 11
    return a * by * sign + len(rest)

def fill(items, table, value):
    items.append(value)
    table["filled"] = value
    return len(items)

def swap(thing, other):
    thing.value, other.value = other.value, thing.value
    thing.items, other.items = other.items, thing.items
    return thing

def walk(thing, depth):
    return thing.value if depth <= 0 or thing.link is None else walk(thing.link, depth - 1)
"""


class Writer:
    """Writes one program; `pick(n)` is the only source of chance."""

    def __init__(self, pick: Callable[[int], int]) -> None:
        self.pick = pick
        self.lines: list[str] = []
        self.names: dict[str, list[str]] = {
            "tensor": ["t", "u"],
            "int": ["n"],
            "list": ["items", "thing.items"],
            "dict": ["table"],
            "thing": ["thing", "other"],
            "function": ["(lambda a: a)"],
            "set": ["marks"],
            "queue": ["queue"],
        }
        self.fresh = 0
        self.depth = 0

    def one(self, choices: Any) -> Any:
        return choices[self.pick(len(choices))]

    def name(self, kind: str) -> str:
        return self.one(self.names[kind])

    def new(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def say(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    # ---- expressions

    def int(self) -> str:
        form = self.one(INTS)
        return form.format(
            i=self.name("int"), l=self.name("list"), d=self.name("dict"), o=self.name("thing"), k=self.pick(4)
        )

    def tensor(self) -> str:
        form = self.one(TENSORS)
        return form.format(t=self.name("tensor"), u=self.name("tensor"), v=self.value())

    def value(self) -> str:
        """A tensor or a number."""
        kind = self.pick(8)
        if kind < 3:
            return self.name("tensor")
        if kind < 5:
            return self.int()
        form = self.one(VALUES)
        return form.format(
            o=self.name("thing"),
            d=self.name("dict"),
            t=self.name("tensor"),
            f=self.name("function"),
            i=self.int(),
        )

    def condition(self) -> str:
        form = self.one(CONDITIONS)
        return form.format(
            i=self.int(), j=self.int(), l=self.name("list"), d=self.name("dict"), o=self.name("thing"),
            p=self.name("thing"), m=self.name("list"), k=self.one(KEYS), s=self.name("set"),
        )  # fmt: skip

    # ---- statements

    def block(self, size: int) -> None:
        """Names bound in a block are not used after it: it may not have run."""
        kept = {kind: list(names) for kind, names in self.names.items()}
        self.depth += 1
        for _ in range(size):
            self.statement()
        self.depth -= 1
        self.names = kept

    def statement(self) -> None:
        if self.depth < 3 and self.pick(5) == 0:
            self.one(BLOCKS)(self)
        elif self.pick(3) == 0:
            self.one(BINDINGS)(self)
        else:
            self.say(
                self.one(WRITES).format(
                    l=self.name("list"),
                    m=self.name("list"),
                    d=self.name("dict"),
                    o=self.name("thing"),
                    p=self.name("thing"),
                    v=self.value(),
                    w=self.value(),
                    i=self.int(),
                    k=self.one(KEYS),
                    j=self.one(KEYS),
                    t=self.name("tensor"),
                    s=self.name("set"),
                    q=self.name("queue"),
                    f=self.name("function"),
                )  # fmt: skip
            )

    def bind(self, kind: str, prefix: str, text: str) -> None:
        name = self.new(prefix)
        self.say(f"{name} = {text}")
        self.names[kind].append(name)

    def branch(self) -> None:
        self.say(f"if {self.condition()}:")
        self.block(1 + self.pick(3))
        if self.pick(2):
            self.say("else:")
            self.block(1 + self.pick(2))

    def loop(self) -> None:
        name = self.new("i")
        kind = self.pick(4)
        kept = list(self.names["int"])
        if kind == 0:
            self.say(f"for {name} in range({self.pick(3) + 1}):")
            self.names["int"].append(name)
        elif kind == 1:
            self.say(f"for {name}, _ in enumerate(list({self.name('list')})[:3]):")
            self.names["int"].append(name)
        elif kind == 2:
            self.say(f"for {name}, value in zip(range(2), [{self.value()}, {self.value()}]):")
            self.names["int"].append(name)
        else:
            self.say(f"for key{name} in list({self.name('dict')})[:2]:")
        self.block(1 + self.pick(2))
        if self.pick(4) == 0:
            self.depth += 1
            self.say(f"if {self.condition()}: {self.one(['break', 'continue'])}")
            self.depth -= 1
        self.names["int"] = kept

    def handler(self) -> None:
        self.say("try:")
        self.block(1 + self.pick(2))
        self.depth += 1
        self.say(self.one(["{d}['absent']", "raise KeyError('x')", "[][{i}]", "pass"]).format(
            d=self.name("dict"), i=self.pick(3)))  # fmt: skip
        self.depth -= 1
        self.say(
            self.one(["except KeyError:", "except (KeyError, IndexError) as error:", "except LookupError:"])
        )
        self.block(1 + self.pick(2))
        if self.pick(3) == 0:
            self.say("finally:")
            self.block(1)

    def closure(self) -> None:
        cell, name = self.new("c"), self.new("f")
        self.say(f"{cell} = {self.int()}")
        self.say(f"def {name}(a, k={self.pick(3)}):")
        self.depth += 1
        kept = {kind: list(names) for kind, names in self.names.items()}
        if self.pick(2):
            self.say(f"nonlocal {cell}")
            self.say(f"{cell} = ({cell} + 1) % 5")
        self.depth -= 1
        # only names of the parameters: others may be rebound, or not bound, by the time it is called
        self.names = {
            **self.names,
            "tensor": ["t", "u"],
            "int": ["n", "k"],
            "list": ["items"],
            "dict": ["table"],
        }
        self.names |= {"thing": ["thing", "other"], "function": ["(lambda a: a)"], "set": ["marks"]}
        self.block(self.pick(2))
        self.depth += 1
        self.say(f"return a + {cell} + k")
        self.depth -= 1
        self.names = kept
        self.names["function"].append(name)

    def write(self) -> str:
        self.say("global total")
        for _ in range(4 + self.pick(8)):
            self.statement()
        results = [self.one(RESULTS).format(**{
            "t": self.name("tensor"), "l": self.name("list"), "d": self.name("dict"), "o": self.name("thing"),
            "f": self.name("function"), "v": self.value(), "i": self.int(), "q": self.name("queue"),
        }) for _ in range(1 + self.pick(4))]  # fmt: skip
        self.say(f"return {', '.join(results)}, t + 1")
        return f"{HEADER}\ndef program(t, u, n, items, table, thing, other, marks, queue):\n" + "\n".join(
            self.lines
        )


def entries(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


KEYS = ["'a'", "'b'", "'c'", "1"]
INTS = entries("""
    {k}
    {i}
    ({i} + {k}) % 7
    len({l})
    len({d})
    {o}.count
    total
    ({i} - {o}.count) % 5
    -{k}
""")
TENSORS = entries("""
    {t} + {u}
    ({t} * {v}).tanh()
    {t} - {v}
    torch.where({t} > 0, {t}, {u})
    {t}.clone()
    scale({t}, 3)
    torch.stack([{t}, {u}]).mean(0)
    {t}.reshape(-1).view(2, 3)
    {t}.sin()
    torch.cat([{t}, {u}])[:2]
    {t}
    {t}.t().contiguous().t()
    -{t}
    {t}.detach()
    scale({t}, *[1, 2], sign=-1)
""")
VALUES = entries("""
    {o}.value
    {o}.double
    {d}.get('a', 0)
    {f}({t})
    {o}.bump({i})
    scale({i}, sign=-1)
    walk({o}, 2)
    ({t}.sum() * 0)
    {d}.get('filled', {i})
    max({i}, 1)
    getattr({o}, 'extra', 1)
""")
CONDITIONS = entries("""
    {i} > {j}
    {i} == {j}
    {l}
    not {d}
    {k} in {d}
    {o} is {p}
    {l} is {m}
    {o}.link is None
    {i} in {s}
    len({l}) > 2 and {i}
    hasattr({o}, 'extra')
    isinstance({d}.get({k}), int)
    {i} % 2
""")
WRITES = entries("""
    {l}.append({v})
    {l}.insert(0, {v})
    {l}.extend([{v}, {w}])
    {l}.reverse()
    {l}[:1] = [{v}, {w}]
    {l}.pop() if {l} else None
    if {l}: {l}[0] = {v}
    del {l}[2:]
    {l}.clear()
    {l}[1:1] = {m}[:2]
    if len({l}) > 1: {l}[0], {l}[-1] = {l}[-1], {l}[0]
    fill({l}, {d}, {v})
    {l}.append({l}[:1])
    if {l}: del {l}[0]
    {l}[::2] = {l}[::2][::-1]
    {l}.sort(key=lambda _: 0)
    {l}.append({o})
    {d}[{k}] = {v}
    {d}.pop({k}, None)
    {d}.setdefault({k}, {v})
    {d}.update(a={v}, z={w})
    if {k} in {d}: del {d}[{k}]
    {d}[{k}] = {d}.pop({j}, {i})
    {d} |= {{{k}: {v}}}
    {d}['list'] = {l}
    {d}.clear()
    {d}[{k}] = ({v}, {l})
    {o}.value = {v}
    {o}.count += {i}
    {o}.items = {l}
    {o}.link = {p}
    {o}.bump({v})
    {o}.double = {v}
    {o}.value, {p}.value = {p}.value, {o}.value
    swap({o}, {p})
    setattr({o}, 'value', {v})
    {o}.items = [{v}, *{l}[:2]]
    {o}.link = Thing({v})
    {o}.items.append({o}.count)
    if type({o}) is Thing: {o}.extra = {i}
    if hasattr({o}, 'extra'): del {o}.extra
    if type({o}) is Thing: vars({o})['value'] = {v}
    if type({o}) is Thing: {o}.__dict__['extra'] = {i}
    if type({o}) is Thing: {o}.call = {f}
    {o}.link = Slim({v})
    total = (total + {i}) % 9
    {s}.add({i})
    {s}.discard({i})
    {q}.append({v})
    {q}.appendleft({i})
    if {q}: {q}.popleft()
    {q}.rotate({i} % 3)
    t = t + {v}
    {t}.add_({i})
    u.mul_(0.5)
    n = {i}
    {f}({v})
    {t}[0] = {i}
    {q}.extend({l}[:2])
    {s} |= {{{i}, 4}}
    items, queue_ = list(items), items
""")
BINDINGS = [
    lambda w: w.bind("tensor", "t", w.tensor()),
    lambda w: w.bind("tensor", "t", w.tensor()),
    lambda w: w.bind("int", "n", w.int()),
    lambda w: w.bind("list", "l", f"[{w.value()}, {w.value()}]"),
    lambda w: w.bind("list", "l", w.name("list")),
    lambda w: w.bind("list", "l", f"[{w.value()} for i_ in range({w.pick(3)})]"),
    lambda w: w.bind("list", "l", f"[e_ for e_ in {w.name('list')} if {w.condition()}]"),
    lambda w: w.bind("list", "l", f"list({w.name('dict')}.values())"),
    lambda w: w.bind("dict", "d", f"{{'a': {w.value()}, 'b': {w.value()}}}"),
    lambda w: w.bind("dict", "d", w.name("dict")),
    lambda w: w.bind("dict", "d", f"dict({w.name('dict')})"),
    lambda w: w.bind("thing", "o", f"Thing({w.value()})"),
    lambda w: w.bind("thing", "o", f"Slim({w.value()})"),
    lambda w: w.bind("thing", "o", w.name("thing")),
    lambda w: w.bind("function", "f", f"lambda a, k={w.int()}: a + k"),
    lambda w: w.bind("function", "f", f"{w.name('thing')}.bump"),
    lambda w: w.closure(),
]
BLOCKS = [Writer.branch, Writer.branch, Writer.loop, Writer.handler]
RESULTS = entries("""
    {t}
    {l}
    {d}
    {o}
    ({t}, {l})
    [{v}, {i}]
    {{'r': {v}}}
    {o}.items
    {f}
    iter({l})
    {q}
    {l}[:2]
    {o}.value
    {o}.link
    {d}.get('list')
""")


def outside() -> list[Any]:
    """The state that a program starts from."""
    t = torch.linspace(-1, 1, 6).reshape(2, 3)
    thing, other = Thing(t * 2), Slim(3)
    thing.link = other
    items = [1, t, 2.5]
    table = {"a": 1, "b": t + 1, "list": items}
    return [t, t + 0.5, 3, items, table, thing, other, {1, 2}, collections.deque([1, 2], 5)]


ARRANGEMENTS: list[Callable[[list[Any]], Any]] = [
    lambda state: None,
    lambda state: None,
    lambda state: setattr(state[THING], "items", state[ITEMS]),
    lambda state: state.__setitem__(OTHER, state[THING]),
    lambda state: state.__setitem__(1, state[0]),
    lambda state: state[TABLE].update(a=state[THING], b=state[TABLE]),
]
"""What is done to the state before each call: things that were apart become one."""
ITEMS, TABLE, THING, OTHER = 3, 4, 5, 6


def run(call: Callable[..., Any], state: list[Any], scope: dict[str, Any]) -> Any:
    try:
        result = call(*state)
    except Exception as error:
        result = type(error), error.args
    return result, state, scope["total"]


def check_program(source: str, fullgraph: bool = False) -> None:
    code = compile(source, "<program>", "exec")
    scopes: list[dict[str, Any]] = []
    for _ in range(2):
        scope = {"torch": torch, "Thing": Thing, "Slim": Slim, "__name__": "generated"}
        exec(code, scope)
        scopes.append(scope)
    plain, compiled = (
        scopes[0]["program"],
        framelift.compile(scopes[1]["program"], backend="eager", fullgraph=fullgraph),
    )
    states = outside(), outside()
    for arrange in ARRANGEMENTS:
        arrange(states[0]), arrange(states[1])
        alike(run(plain, states[0], scopes[0]), run(compiled, states[1], scopes[1]))
    compiled._framelift_context.forget()


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_generated_program(chance: random.Random) -> None:
    check_program(Writer(lambda n: chance.randrange(n)).write())
