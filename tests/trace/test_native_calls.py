"""Calls of what C implements, and of the standard library, on traced values (FEATURES.md A, D3).

Each entry of a table is a program; its values come from outside, so that nothing is looked at before
the call looks at it.
"""

from __future__ import annotations

import bisect
import cmath
import collections
import collections.abc
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import heapq
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import textwrap
import time
import types
import typing
import warnings
from typing import Any

import pytest
import torch

import framelift
from check import Comparison, capture, check, compare, reasons, run


class Bound(functools.partial):
    """Calls what it was made of, whatever stands in `func`."""

    __slots__ = ("func",)

    def __init__(self, func: Any, *args: Any, **named: Any) -> None:
        self.func = f"bound to {len(args)}"


class Item:
    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def __lt__(self, other: Item) -> bool:
        return self.size < other.size

    def weight(self) -> int:
        return self.size * 10


class Key:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)

    def __repr__(self) -> str:
        return f"Key({self.n})"


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass
class Config:
    width: int = 4
    names: list[str] = dataclasses.field(default_factory=lambda: ["a", "b"])
    inner: Any = None


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int = 0


class StateOfTheClass:
    def __init__(self) -> None:
        self.a = 1

    @classmethod
    def __getstate__(cls) -> dict[str, int]:
        return {"b": 2}


class ArgumentsOfTheClass(int):
    @classmethod
    def __getnewargs__(cls) -> tuple[int]:
        return (7,)


class ReducedByTheClass:
    @staticmethod
    def __reduce__() -> tuple[Any, ...]:
        return int, ("3",)


def items() -> list[Item]:
    return [Item("b", 2), Item("a", 3), Item("c", 1)]


X = torch.arange(4.0)

BUILTINS = {
    "sum of a map": (lambda x, xs: x + sum(map(lambda n: n * 2, xs)), [1, 2, 3]),
    "sum of a generator": (lambda x, xs: x + sum(i.size for i in xs), items()),
    "sum of tensors": (lambda x, xs: sum(xs, x), [X, X]),
    "sum with a start": (lambda x, xs, n: x + sum(xs, n), [1, 2], 5),
    "sorted": (lambda x, xs: (x + 1, sorted(xs)), [3, 1, 2]),
    "sorted by a lambda": (lambda x, xs: (x + 1, sorted(xs, key=lambda i: (i.size, i.name))), items()),
    "sorted by attrgetter": (lambda x, xs: (x + 1, sorted(xs, key=operator.attrgetter("size"))), items()),
    "sorted by itemgetter": (lambda x, xs: (x + 1, sorted(xs, key=operator.itemgetter(1))), [(1, 2), (0, 1)]),
    "sorted by methodcaller": (
        lambda x, xs: (x + 1, sorted(xs, key=operator.methodcaller("weight"))),
        items(),
    ),
    "sorted by len": (lambda x, xs: (x + 1, sorted(xs, key=len)), [[1, 2], [3]]),
    "sorted by str.lower": (lambda x, xs: (x + 1, sorted(xs, key=str.lower)), ["b", "A"]),
    "sorted by abs": (lambda x, xs: (x + 1, sorted(xs, key=abs)), [-3, 2]),
    "sorted objects": (lambda x, xs: (x + 1, [i.name for i in sorted(xs)]), items()),
    "sorted by a dict's get": (lambda x, d: (x + 1, sorted(d, key=d.get)), {"a": 2, "b": 1}),
    "sorted, reversed": (lambda x, xs, r: (x + 1, sorted(xs, reverse=r)), [1, 2], True),
    "list.sort": (lambda x, xs: (x + 1, xs.sort(key=lambda n: -n)), [1, 3, 2]),
    "list.sort of objects": (lambda x, xs: (x + 1, xs.sort()), items()),
    "max of dict values": (lambda x, d: x + max(d.values()), {"a": 1, "b": 2}),
    "max by key": (lambda x, d: (x + 1, max(d, key=d.get)), {"a": 1, "b": 2}),
    "max of objects": (lambda x, xs: (x + 1, max(xs).name, min(xs).name), items()),
    "max of two": (lambda x, a, b: x + max(a, b), 1, 2),
    "max with a default": (lambda x, xs: x + max(xs, default=7), []),
    "min by a lambda": (lambda x, xs: (x + 1, min(xs, key=lambda i: i.name)), items()),
    "all and any": (lambda x, xs: (x + 1, all(xs), any(xs)), [1, 0]),
    "any of a generator": (lambda x, xs: (x + 1, any(i.size > 2 for i in xs)), items()),
    "map over two": (lambda x, a, b: (x + 1, list(map(operator.add, a, b))), [1, 2], [3, 4]),
    "map of a class": (lambda x, xs: (x + 1, list(map(str, xs))), [1, 2]),
    "map of len": (lambda x, xs: (x + 1, list(map(len, xs))), [[1], [2, 3]]),
    "map of len over tensors": (lambda x, xs: (x + 1, list(map(len, xs))), [X, X]),
    "map of type": (lambda x, xs: (x + 1, list(map(type, xs))), [X, 1]),
    "map of getattr": (lambda x, xs, names: (x + 1, list(map(getattr, xs, names))), items(), ["name"] * 3),
    "map of a method": (lambda x, xs: (x + 1, list(map(Item.weight, xs))), items()),
    "map of a torch function": (lambda x, xs: list(map(torch.sin, xs)), [X, X]),
    "map of a partial": (lambda x, xs: (x + 1, list(map(functools.partial(pow, 2), xs))), [1, 2]),
    "filter": (lambda x, xs: (x + 1, list(filter(lambda i: i.size > 1, xs))), items()),
    "filter None": (lambda x, xs: (x + 1, list(filter(None, xs))), [0, 1, "", "a"]),
    "zip": (lambda x, a, b: (x + 1, list(zip(a, b))), [1, 2], ["a", "b"]),
    "zip, strict": (lambda x, a, b: (x + 1, list(zip(a, b, strict=True))), [1, 2], [3, 4]),
    "dict of a zip": (lambda x, a, b: (x + 1, dict(zip(a, b))), ["k", "l"], [1, 2]),
    "dict of pairs": (lambda x, xs: (x + 1, dict(xs)), [("a", 1), ("b", 2)]),
    "dict with keywords": (lambda x, d, n: (x + 1, dict(d, b=n)), {"a": 1}, 2),
    "dict.fromkeys": (lambda x, xs, n: (x + 1, dict.fromkeys(xs, n)), ["a", "b"], 0),
    "enumerate": (lambda x, xs: (x + 1, list(enumerate(xs, 1))), ["a", "b"]),
    "reversed": (lambda x, xs: (x + 1, list(reversed(xs))), [1, 2]),
    "set of a list": (lambda x, xs: (x + 1, set(xs)), [1, 1, 2]),
    "set of objects": (lambda x, xs: x + len(set(xs)), [Key(1), Key(1), Key(2)]),
    "frozenset as a key": (lambda x, xs: (x + 1, {frozenset(xs): 1}), [1, 2]),
    "tuple as a key": (lambda x, a, b: (x + 1, {(a, b): 1}[a, b]), 1, "b"),
    "set operations": (lambda x, a, b: (x + 1, a | b, a & b, a - b, a ^ b, a <= b), {1, 2}, {2, 3}),
    "set methods": (lambda x, a, xs: (x + 1, a.union(xs), a.issuperset(xs), a.isdisjoint(xs)), {1, 2}, [2]),
    "set.add": (lambda x, a, n: (x + 1, a.add(n), a.discard(1)), {1, 2}, 3),
    "in a list": (lambda x, xs, n: x + 1 if n in xs else x - 1, [1, 2], 2),
    "not in a list": (lambda x, xs, n: x + 1 if n not in xs else x - 1, [1, 2], 3),
    "in a list of objects": (lambda x, xs: x + 1 if Key(2) in xs else x - 1, [Key(1), Key(2)]),
    "in a dict of objects": (lambda x, d: x + d[Key(2)], {Key(1): 1, Key(2): 2}),
    "in a range": (lambda x, n: x + 1 if n in range(5) else x - 1, 3),
    "in a str": (lambda x, a, b: x + 1 if a in b else x - 1, "a", "cat"),
    "list.index": (lambda x, xs, n: x + xs.index(n), [5, 6], 6),
    "list.count": (lambda x, xs, n: x + xs.count(n), [5, 6, 5], 5),
    "list.remove": (lambda x, xs, n: (x + 1, xs.remove(n)), [5, 6, 5], 5),
    "list.extend": (lambda x, xs, ys: (x + 1, xs.extend(ys)), [1], (2, 3)),
    "list.extend by a generator": (lambda x, xs, ys: (x + 1, xs.extend(n + 1 for n in ys)), [1], (2, 3)),
    "list.insert": (lambda x, xs, n: (x + 1, xs.insert(0, n)), [1], 2),
    "list comparison": (lambda x, a, b: x + 1 if a < b else x - 1, [1, 2], [1, 3]),
    "list concatenation": (lambda x, a, b: (x + 1, a + b, a * 2), [1], [2]),
    "slices": (lambda x, a, n: (x + 1, a[n:], a[::-1]), [1, 2, 3], 1),
    "slice assignment": (lambda x, a, b: (x + 1, a.__setitem__(slice(0, 1), b)), [1, 2, 3], [7, 8]),
    "dict.update": (lambda x, a, b: (x + 1, a.update(b, z=1)), {"a": 1}, {"b": 2}),
    "dict union": (lambda x, a, b: (x + 1, a | b), {"a": 1}, {"b": 2}),
    "dict.items": (lambda x, d: (x + 1, [(v, k) for k, v in d.items()]), {"a": 1}),
    "dict.keys are a set": (lambda x, d, e: (x + 1, d.keys() & e.keys()), {"a": 1, "b": 2}, {"b": 3}),
    "dict.setdefault": (lambda x, d: (x + 1, d.setdefault("b", []).append(1)), {"a": 1}),
    "dict.pop": (lambda x, d: (x + 1, d.pop("a"), d.pop("z", 9)), {"a": 1}),
    "dict equality": (lambda x, a, b: x + 1 if a == b else x - 1, {"a": [1]}, {"a": [1]}),
    "isinstance with a tuple": (lambda x, n: x + 1 if isinstance(n, (str, list)) else x - 1, [1]),
    "isinstance with a union": (lambda x, n: x + 1 if isinstance(n, int | None) else x - 1, None),
    "isinstance with an outside tuple": (lambda x, n, t: x + 1 if isinstance(n, t) else x - 1, 1, (int, str)),
    "isinstance with an abc": (lambda x, n: x + 1 if isinstance(n, collections.abc.Mapping) else x - 1, {}),
    "issubclass": (lambda x, c: x + 1 if issubclass(c, Exception) else x - 1, ValueError),
    "callable": (lambda x, f: x + 1 if callable(f) else x - 1, len),
    "int and float": (lambda x, a, b: x + int(a) + float(b), "12", "1.5"),
    "round, divmod, pow": (lambda x, a, b: (x + 1, round(a, 1), divmod(a, b), pow(b, 3)), 3.14159, 2),
    "bin, hex, chr, ord": (lambda x, n, c: (x + 1, bin(n), hex(n), chr(n), ord(c)), 65, "B"),
    "hash": (lambda x, n, s: x + (hash(n) == hash(s)), 3, 3.0),
    "next with a default": (lambda x, xs: (x + 1, next(iter(xs), 5)), []),
    "iter with a sentinel": (lambda x, xs: (x + 1, list(iter(xs.pop, 1))), [1, 2, 3]),
    "unpacking": (lambda x, xs, d: (x + 1, [*xs, *d], {**d, "z": 1}), (1, 2), {"a": 1}),
    "star call": (lambda x, xs, d: (x + 1, (lambda *a, **k: (a, k))(*xs, **d)), (1, 2), {"a": 1}),
    "getattr with a default": (lambda x, o: (x + 1, getattr(o, "size"), getattr(o, "none", 5)), Item("a", 1)),
    "vars": (lambda x, o: (x + 1, sorted(vars(o))), Item("a", 1)),
    "dir of a module": (lambda x, o: (x + 1, o.size), Item("a", 1)),
    "complex numbers": (lambda x, c: (x + c.real, c.conjugate(), abs(c)), 3 + 4j),
    "bytes": (lambda x, b: (x + 1, b.hex(), b + b"!", b[0]), b"ab"),
    "bytearray": (lambda x, b: (x + 1, bytes(b)), b"ab"),
    "super without C": (lambda x, o: (x + 1, o.size), Item("a", 2)),
}

STRINGS = {
    "join": (lambda x, xs: (x + 1, ", ".join(xs)), ["a", "b"]),
    "join of a generator": (lambda x, xs: (x + 1, "-".join(i.name for i in xs)), items()),
    "join of a map": (lambda x, xs: (x + 1, "".join(map(str, xs))), [1, 2]),
    "join by an outside string": (lambda x, s, xs: (x + 1, s.join(xs)), "+", ["a", "b"]),
    "split": (lambda x, s: (x + 1, s.split(","), s.partition(",")), "a,b"),
    "replace and strip": (lambda x, s, a, b: (x + 1, s.replace(a, b).strip()), " aXb ", "X", "-"),
    "startswith a tuple": (lambda x, s, t: x + 1 if s.startswith(t) else x - 1, "abc", ("b", "a")),
    "f-string": (lambda x, s, n: (x + 1, f"{s}:{n:03d} {s!r} {n:>{n}}"), "a", 5),
    "f-string of containers": (lambda x, xs, d: (x + 1, f"{xs} {d}"), [1, "a"], {"k": (1, 2)}),
    "percent": (lambda x, s, n: (x + 1, "%s=%d" % (s, n), "%(k)s" % {"k": n}), "a", 5),
    "percent by an outside format": (lambda x, s, n: (x + 1, s % n), "<%s>", [1]),
    "format": (lambda x, s, n: (x + 1, "{0}/{name}".format(s, name=n)), "a", 5),
    "format reads attributes": (lambda x, o: (x + 1, "{0.name}".format(o)), Item("a", 1)),
    "format_map": (lambda x, d: (x + 1, "{a}".format_map(d)), {"a": 1}),
    "repr of objects": (lambda x, xs: (x + 1, repr(xs), str(xs)), [Key(1)]),
    "str of an enum": (lambda x, c: (x + 1, str(c), repr(c), f"{c}"), Colour.RED),
    "concatenation": (lambda x, a, b: (x + 1, a + b, a * 2), "a", "b"),
    "string.Template": (lambda x, s: (x + 1, string.Template("$a").substitute(a=s)), "z"),
    "textwrap": (lambda x, s: (x + 1, textwrap.dedent(s)), "  a\n  b"),
    "re.match": (lambda x, s: (x + 1, re.match(r"(\w)(\d+)", s).groups()), "a12"),
    "a compiled pattern": (lambda x, p, s: (x + 1, p.findall(s)), re.compile(r"\d"), "a1b2"),
    "re.sub with a function": (lambda x, s: (x + 1, re.sub(r"\d", lambda m: str(int(m[0]) + 1), s)), "a1b2"),
    "str methods": (lambda x, s: (x + 1, s.upper(), s.title(), s.zfill(5), s.encode()), "ab"),
    "str.translate": (lambda x, s, d: (x + 1, s.translate(d)), "ab", {97: "x"}),
    "str comparison": (lambda x, a, b: x + 1 if a < b else x - 1, "a", "b"),
    "json": (lambda x, d: (x + 1, json.dumps(d), json.loads('{"a": [1]}')), {"a": [1, None]}),
}

LIBRARY = {
    "functools.reduce": (lambda x, xs: x + functools.reduce(lambda a, b: a * b, xs), [1, 2, 3]),
    "functools.reduce of an operator": (lambda x, xs: x + functools.reduce(operator.mul, xs, 1), [2, 3]),
    "functools.reduce over tensors": (lambda x, xs: functools.reduce(torch.add, xs, x), [X, X]),
    "functools.partial": (lambda x, f, n: x + functools.partial(f, n)(2), pow, 3),
    "a subclass of partial": (lambda x, f, n: (x * Bound(f, n, mod=7)(4), Bound(f).func), pow, 3),
    "a partial that is told its names": (
        lambda x, f: x + functools.update_wrapper(Bound(f, x), f)(4),
        torch.mul,
    ),
    "functools.cmp_to_key": (
        lambda x, xs: (x + 1, sorted(xs, key=functools.cmp_to_key(lambda a, b: b - a))),
        [1, 2, 3],
    ),
    "itertools.chain": (lambda x, a, b: (x + 1, list(itertools.chain(a, b))), [1], (2, 3)),
    "itertools.chain.from_iterable": (
        lambda x, a: (x + 1, list(itertools.chain.from_iterable(a))),
        [[1], [2]],
    ),
    "itertools.islice": (lambda x, a, n: (x + 1, list(itertools.islice(a, n))), [1, 2, 3], 2),
    "itertools.product": (lambda x, a, b: (x + 1, list(itertools.product(a, b))), [1, 2], "ab"),
    "itertools.groupby": (
        lambda x, a: (x + 1, [(k, list(g)) for k, g in itertools.groupby(a, lambda n: n % 2)]),
        [1, 3, 2],
    ),
    "itertools.groupby of an attribute": (
        lambda x, a: (
            x + 1,
            [(k, len(list(g))) for k, g in itertools.groupby(a, operator.attrgetter("size"))],
        ),
        items(),
    ),
    "itertools.accumulate": (lambda x, a: (x + 1, list(itertools.accumulate(a))), [1, 2, 3]),
    "itertools.accumulate of max": (lambda x, a: (x + 1, list(itertools.accumulate(a, max))), [1, 3, 2]),
    "itertools.starmap": (lambda x, a: (x + 1, list(itertools.starmap(pow, a))), [(2, 3), (3, 2)]),
    "itertools.takewhile": (
        lambda x, a: (x + 1, list(itertools.takewhile(lambda n: n < 3, a))),
        [1, 2, 3, 1],
    ),
    "itertools.zip_longest": (lambda x, a, b: (x + 1, list(itertools.zip_longest(a, b))), [1, 2], [3]),
    "itertools.combinations": (lambda x, a: (x + 1, list(itertools.combinations(a, 2))), [1, 2, 3]),
    "itertools.count": (lambda x, n: (x + 1, list(zip(itertools.count(n), "ab"))), 5),
    "itertools.repeat": (lambda x, n: (x + 1, list(itertools.repeat(n, 2))), 5),
    "itertools.tee": (lambda x, a: (x + 1, [list(i) for i in itertools.tee(a)]), [1, 2]),
    "itertools.compress": (lambda x, a, b: (x + 1, list(itertools.compress(a, b))), "abc", [1, 0, 1]),
    "itertools.pairwise": (lambda x, a: (x + 1, list(itertools.pairwise(a))), [1, 2, 3]),
    "operator functions": (
        lambda x, a, b: (x + operator.add(a, b), operator.lt(a, b), operator.neg(a)),
        1,
        2,
    ),
    "operator.itemgetter": (lambda x, d: (x + 1, operator.itemgetter("a", "b")(d)), {"a": 1, "b": 2}),
    "an outside itemgetter": (lambda x, g, d: (x + 1, g(d)), operator.itemgetter(1), [5, 6]),
    "operator.attrgetter": (lambda x, o: (x + 1, operator.attrgetter("name", "size")(o)), Item("a", 1)),
    "an outside attrgetter": (lambda x, g, o: (x + 1, g(o)), operator.attrgetter("name"), Item("a", 1)),
    "operator.methodcaller": (lambda x, o: (x + 1, operator.methodcaller("weight")(o)), Item("a", 1)),
    "operator.index": (lambda x, n: x + operator.index(n), 3),
    "operator on tensors": (lambda x, y: operator.add(x, y) + operator.mul(x, y), X),
    "math": (lambda x, a: (x + math.sqrt(a), math.floor(a), math.gcd(4, 6), math.isnan(a), math.pi), 2.25),
    "math.prod": (lambda x, xs: x + math.prod(xs), [2, 3]),
    "math.prod of a shape": (lambda x: x + math.prod(x.shape),),
    "cmath": (lambda x, c: (x + 1, cmath.phase(c)), 1j),
    "statistics": (lambda x, xs: x + statistics.mean(xs), [1, 2, 3]),
    "fractions": (lambda x, a: (x + float(a + 1), a * 2), fractions.Fraction(1, 2)),
    "decimal": (lambda x, a: (x + float(a), a + 1), decimal.Decimal("1.5")),
    "datetime": (
        lambda x, d, t: (x + d.year, d + t, d.isoformat()),
        datetime.date(2024, 1, 2),
        datetime.timedelta(3),
    ),
    "bisect": (lambda x, xs, n: x + bisect.bisect_left(xs, n), [1, 3, 5], 3),
    "heapq": (lambda x, xs: (x + 1, heapq.heappop(xs), heapq.nlargest(2, xs)), [1, 3, 5]),
    "heapq of objects": (lambda x, xs: (x + 1, heapq.heapify(xs), xs[0].name), items()),
    "collections.Counter": (lambda x, s: (x + 1, collections.Counter(s).most_common(1)), "abca"),
    "Counter arithmetic": (
        lambda x, a, b: (x + 1, a + b, a - b, a["zz"]),
        collections.Counter("aab"),
        collections.Counter("b"),
    ),
    "Counter.update": (lambda x, a, s: (x + 1, a.update(s)), collections.Counter("a"), "ab"),
    "defaultdict": (lambda x, d: (x + 1, d["new"].append(1)), collections.defaultdict(list)),
    "defaultdict of a lambda": (lambda x, d: x + d["new"], collections.defaultdict(lambda: 5)),
    "OrderedDict": (
        lambda x, d: (x + 1, d.move_to_end("a"), d.popitem(last=False)),
        collections.OrderedDict(a=1, b=2),
    ),
    "deque": (
        lambda x, d: (x + 1, d.append(4), d.popleft(), d.rotate(1)),
        collections.deque([1, 2, 3], maxlen=3),
    ),
    "ChainMap": (lambda x, d: x + d["a"] + d["b"], collections.ChainMap({"a": 1}, {"b": 2})),
    "a new ChainMap": (lambda x, a, b: x + collections.ChainMap(a, b)["b"], {"a": 1}, {"b": 2}),
    "namedtuple": (
        lambda x, p: (x + p.x, p._replace(x=5), p._asdict()),
        collections.namedtuple("P", "x y")(1, 2),
    ),
    "UserDict": (lambda x, d: (x + d["a"], d.__setitem__("b", 2)), collections.UserDict(a=1)),
    "copy.copy of a list": (lambda x, xs: (x + 1, copy.copy(xs)), [1, [2]]),
    "copy.copy of an object": (lambda x, o: (x + 1, copy.copy(o)), Item("a", [1])),
    "copy.deepcopy": (lambda x, xs: (x + 1, copy.deepcopy(xs)), {"a": [1, {2}], "b": (1, [2])}),
    "copy.deepcopy keeps sharing": (lambda x, xs: (x + 1, copy.deepcopy(xs)), [shared := [1], shared]),
    "copy.deepcopy of an object": (lambda x, o: (x + 1, copy.deepcopy(o)), Item("a", [1])),
    "copy.copy by a class's state": (lambda x, o: (x + 1, vars(copy.copy(o))), StateOfTheClass()),
    "copy.copy by a class's arguments": (lambda x, o: (x + 1, copy.copy(o)), ArgumentsOfTheClass(5)),
    "copy.copy by a static method": (lambda x, o: (x + 1, copy.copy(o)), ReducedByTheClass()),
    "copy.copy of a dataclass": (lambda x, o: (x + 1, copy.copy(o)), Config()),
    "dataclasses.replace": (lambda x, o: (x + 1, dataclasses.replace(o, width=8)), Config()),
    "dataclasses.asdict": (lambda x, o: (x + 1, dataclasses.asdict(o)), Config(inner=Config())),
    "dataclasses.astuple": (lambda x, o: (x + 1, dataclasses.astuple(o)), Config()),
    "dataclasses.fields": (lambda x, o: (x + 1, [f.name for f in dataclasses.fields(o)]), Config()),
    "a dataclass made and compared": (lambda x, n: x + (Config(n) == Config(n)), 3),
    "a frozen dataclass as a key": (lambda x, v: (x + 1, {v: 1}[Version(1, 2)]), Version(1, 2)),
    "ordered dataclasses": (lambda x, xs: (x + 1, sorted(xs)), [Version(2), Version(1)]),
    "enum by value": (lambda x, n: (x + 1, Colour(n)), 2),
    "enum by name": (lambda x, n: (x + 1, Colour[n].value), "RED"),
    "enum iteration": (lambda x: (x + 1, [c.name for c in Colour], len(Colour)),),
    "enum as a key": (lambda x, d, c: x + d[c], {Colour.RED: 1}, Colour.RED),
    "enum flags": (lambda x, p: x + 1 if Permission.READ in p else x - 1, Permission.READ | Permission.WRITE),
    "flags combined": (lambda x, p: (x + 1, p | Permission.WRITE), Permission.READ),
    "typing.cast": (lambda x, n: x + typing.cast(int, n), 3),
    "contextlib.nullcontext": (lambda x, n: with_null(x, n), 3),
    "contextlib.suppress": (lambda x, d: suppressed(x, d), {}),
    "contextlib.contextmanager": (lambda x, log: managed(x, log), []),
    "contextlib.ExitStack": (lambda x, log: stacked(x, log), []),
    "functools.wraps": (lambda x, n: wrapped(x, n), 3),
    "functools.lru_cache": (lambda x, n: x + cached(n), 3),
    "functools.singledispatch": (lambda x, n: x + kind(n), "text"),
    "functools.total_ordering": (lambda x, a, b: x + 1 if a >= b else x - 1, Version(2), Version(1)),
    "functools.cached_property": (lambda x, o: (x + o.area, o.area), None),
    "types.SimpleNamespace": (lambda x, n: (x + 1, types.SimpleNamespace(a=n)), 3),
    "types.MappingProxyType": (lambda x, d: x + types.MappingProxyType(d)["a"], {"a": 1}),
    "slice objects": (lambda x, s: (x[s], [1, 2, 3][s]), slice(1, None)),
}


class Area:
    def __init__(self) -> None:
        self.width = 3

    @functools.cached_property
    def area(self) -> int:
        return self.width * 2


LIBRARY["functools.cached_property"] = (LIBRARY["functools.cached_property"][0], Area())


def with_null(x: Any, n: int) -> Any:
    with contextlib.nullcontext(n) as value:
        return x + value


def suppressed(x: Any, d: dict[str, int]) -> Any:
    with contextlib.suppress(KeyError):
        return x + d["none"]
    return x - 1


@contextlib.contextmanager
def logging_to(log: list[str], name: str) -> Any:
    log.append(f"enter {name}")
    try:
        yield name
    finally:
        log.append(f"exit {name}")


def managed(x: Any, log: list[str]) -> Any:
    with logging_to(log, "a") as name:
        return x + 1, name


def stacked(x: Any, log: list[str]) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(logging_to(log, "a"))
        stack.callback(log.append, "callback")
        return x + 1


def wrapped(x: Any, n: int) -> Any:
    def scaled(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(y: Any) -> Any:
            return fn(y) * n

        return inner

    @scaled
    def add_one(y: Any) -> Any:
        """Adds one."""
        return y + 1

    return add_one(x), add_one.__name__, add_one.__doc__


@functools.lru_cache
def cached(n: int) -> int:
    return n * 2


@functools.singledispatch
def kind(value: Any) -> int:
    return 0


@kind.register
def _(value: str) -> int:
    return 1


@kind.register(list)
def _(value: Any) -> int:
    return 2


PROGRAMS = BUILTINS | STRINGS | LIBRARY


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_native_call(name: str) -> None:
    fn, *args = PROGRAMS[name]
    check(fn, X, *args)


# ---- effects: not captured, and done once per call


def with_print(x: Any, xs: list[int]) -> Any:
    y = x + 1
    print("xs", xs)
    return y * 2


def with_time(x: Any, xs: list[int]) -> Any:
    return x + 1, time.time() > 0


def with_clock(x: Any, xs: list[int]) -> Any:
    return x + 1, datetime.datetime.now() > datetime.datetime(2000, 1, 1)


def with_random(x: Any, xs: list[int]) -> Any:
    random.seed(0)
    return x + random.sample(xs, 1)[0]


def with_open(x: Any, xs: list[int]) -> Any:
    with open("/dev/null") as file:
        return x + len(file.read())


def with_exec(x: Any, xs: list[int]) -> Any:
    exec("xs.append(1)")
    return x + 1


def with_iterator(x: Any, xs: list[int]) -> Any:
    return x + next(ITERATOR_MAKER(xs))


ITERATOR_MAKER = torch.compiler.disable(lambda xs: iter(xs))


def with_address(x: Any, xs: list[int]) -> Any:
    return x + 1, id([*xs]) % 2 in (0, 1)


EFFECTS = {
    with_print: ("run-time effect: print", 'print("xs", xs)'),
    with_time: ("time.time", "time.time()"),
    with_clock: ("datetime.now", "datetime.datetime.now()"),
    with_random: ("random", "random.sample(xs, 1)"),
    with_open: ("run-time effect: open", 'open("/dev/null")'),
    with_exec: ("exec", 'exec("xs.append(1)")'),
    with_iterator: ("", "ITERATOR_MAKER(xs)"),
    with_address: ("address of an abstract value", "id([*xs]) % 2"),
}


@pytest.mark.parametrize("fn", EFFECTS, ids=lambda fn: fn.__name__)
def test_an_effect_breaks_and_happens_once_per_call(fn: Any) -> None:
    check(fn, X, [1, 2], fullgraph=False, calls=3)


@pytest.mark.parametrize("fn", EFFECTS, ids=lambda fn: fn.__name__)
def test_fullgraph_says_what_and_where(fn: Any) -> None:
    reason, expression = EFFECTS[fn]
    with pytest.raises(framelift.exc.Unsupported) as caught:
        capture(fn, X, [1, 2])
    said = str(caught.value)
    assert reason in said and expression in said
    assert __file__ in said and f"in {fn.__name__}" in said
    line = next(
        n
        for n, text in enumerate(open(__file__), 1)
        if expression in text and n >= fn.__code__.co_firstlineno
    )
    assert f"line {line}" in said


class Numbers(collections.abc.Mapping[int, int]):
    def __getitem__(self, key: int) -> int:
        return key

    def __iter__(self) -> Any:
        return iter((1, 2))

    def __len__(self) -> int:
        return 2


OPAQUE = {
    "an iterator": lambda: itertools.chain([1, 2]),
    "a generator": lambda: (n for n in (1, 2)),
    "a proxy of a mapping that is none of the builtin ones": lambda: types.MappingProxyType(Numbers()),
}


@pytest.mark.parametrize("name", OPAQUE)
@pytest.mark.parametrize("use", [list, sum, sorted, max, tuple, set])
def test_state_that_only_c_sees_is_not_looked_at(name: str, use: Any) -> None:
    def f(x: Any, opaque: Any) -> Any:
        return x + 1, use(opaque)

    compiled = capture(f, fullgraph=False)
    expected, found = f(X, OPAQUE[name]()), compiled(X, OPAQUE[name]())
    assert torch.equal(expected[0], found[0]) and expected[1] == found[1]
    assert {"opaque object", "iterator from before"} & {*reasons(compiled)}


# ---- a trace that is given up has changed nothing


class Box:
    shared: list[int] = []

    def __init__(self) -> None:
        self.value = 1
        self.items = [1]

    def change(self) -> None:
        pass

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def reset_box() -> None:
    Box.shared.clear()
    Box.__annotations__.pop("new", None)
    Box.change.__dict__.clear()
    if hasattr(Box, "label"):
        del Box.label


COUNT = 0


def change_list(x: Any, o: Any) -> None:
    o["list"].append(1)
    o["list"][0] = x
    del o["list"][1]


def change_dict(x: Any, o: Any) -> None:
    o["dict"]["new"] = o["dict"].pop("a")
    o["dict"].setdefault("list", []).append(1)


def change_attributes(x: Any, o: Any) -> None:
    o["box"].value += 1
    o["box"].items.append(2)
    o["box"].new = x + 1
    del o["box"].value


def change_set_and_deque(x: Any, o: Any) -> None:
    o["set"].add(5)
    o["set"].discard(1)
    o["deque"].appendleft(0)


def change_global(x: Any, o: Any) -> None:
    global COUNT
    COUNT += 1


def change_through_c(x: Any, o: Any) -> None:
    o["list"].sort(key=lambda n: o["box"].items.append(n) or -n)
    list(map(o["list"].append, [1, 2]))
    heapq.heappush(o["list"], 0)


def change_class_container(x: Any, o: Any) -> None:
    Box.shared.append(1)


def change_class(x: Any, o: Any) -> None:
    type(o["box"]).__dict__["shared"].append(1)
    Box.change.__dict__.setdefault("seen", []).append(1)
    type(o["box"]).label = "changed"


def change_annotations(x: Any, o: Any) -> None:
    Box.__annotations__["new"] = int


def change_counter(x: Any, o: Any) -> None:
    o["counter"].update("ab")
    o["counter"]["a"] += 1


def change_default(x: Any, o: Any, log: list[int] = []) -> None:
    log.append(1)
    o["list"].append(len(log))


def change_tensor(x: Any, o: Any) -> None:
    x.add_(1)
    o["tensor"][0] = 5
    o["module"].weight.data.mul_(2)


def change_module(x: Any, o: Any) -> None:
    o["module"].calls = getattr(o["module"], "calls", 0) + 1
    o["module"].bias = None


CHANGES = [change_list, change_dict, change_attributes, change_set_and_deque, change_global, change_through_c]
CHANGES += [
    change_class,
    change_annotations,
    change_class_container,
    change_counter,
    change_default,
    change_tensor,
    change_module,
]


def things() -> dict[str, Any]:
    torch.manual_seed(0)
    return {
        "list": [3, 2],
        "dict": {"a": 1},
        "box": Box(),
        "set": {1},
        "deque": collections.deque([1]),
        "counter": collections.Counter("a"),
        "tensor": torch.ones(2),
        "module": torch.nn.Linear(2, 2),
    }


def broken_after(change: Any) -> Any:
    def f(x: Any, o: Any) -> Any:
        change(x, o)
        print("broken")
        change(x, o)
        return x + 1

    return f


@pytest.mark.parametrize("change", CHANGES, ids=lambda fn: fn.__name__)
def test_a_break_leaves_the_outside_as_it_was(change: Any) -> None:
    """With fullgraph nothing runs after the trace is given up: all must be as before."""
    global COUNT
    COUNT = 0
    reset_box()
    change_default.__defaults__[0].clear()  # type: ignore[index]
    arguments = (torch.ones(2), things())
    before = copy.deepcopy(arguments)
    with pytest.raises(framelift.exc.Unsupported):
        capture(broken_after(change), *arguments)
    check_same(before, arguments)
    assert COUNT == 0 and Box.shared == [] and not hasattr(Box, "label") and not vars(Box.change)
    assert list(Box.__annotations__) == ["shared"] and change_default.__defaults__ == ([],)


@pytest.mark.parametrize("change", CHANGES, ids=lambda fn: fn.__name__)
def test_what_a_broken_frame_changes_is_changed_once(change: Any) -> None:
    global COUNT
    outcomes = []
    for make in (lambda fn: fn, lambda fn: capture(fn, fullgraph=False)):
        COUNT = 0
        reset_box()
        change_default.__defaults__[0].clear()  # type: ignore[index]
        outcomes.append(
            (run(make(broken_after(change)), (torch.ones(2), things()), {}), COUNT, list(Box.shared))
        )
    assert outcomes[0][1:] == outcomes[1][1:]
    compare(outcomes[0][0], outcomes[1][0])


def test_what_c_warns_of_is_told_each_time_and_of_the_programs_line() -> None:
    def fn(x: torch.Tensor, pattern: str) -> Any:
        found = re.findall(pattern, "a[b")
        if NotImplemented:
            x = x + 1
        return found, x

    def told(call: Any, pattern: str) -> list[Any]:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            call(torch.ones(2), pattern)
        return [(each.category, str(each.message), each.filename, each.lineno) for each in given]

    compiled = framelift.compile(fn, backend="eager")
    assert told(compiled, "[[a]") == told(fn, "[[b]")
    assert [each[0] for each in told(compiled, "[[a]")] == [DeprecationWarning]  # `re` keeps its patterns


def test_an_interrupt_that_the_program_raises_is_its_own() -> None:
    def fn(x: torch.Tensor) -> Any:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            x = x + 1
        return x * 2

    check(fn, torch.ones(2))


def test_an_interrupt_that_leaves() -> None:
    def fn(x: torch.Tensor) -> Any:
        x.add_(1)
        raise KeyboardInterrupt("mine")

    x = torch.zeros(2)
    with pytest.raises(KeyboardInterrupt, match="mine"):
        framelift.compile(fn, backend="eager")(x)
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("change", CHANGES, ids=lambda fn: fn.__name__)
def test_an_exception_leaves_it_to_plain_python(change: Any) -> None:
    def f(x: Any, o: Any) -> Any:
        change(x, o)
        raise ValueError("out", len(o["list"]))

    global COUNT
    COUNT = 0
    reset_box()
    change_default.__defaults__[0].clear()  # type: ignore[index]
    expected = run(f, (torch.ones(2), things()), {})
    counted, COUNT = COUNT, 0
    reset_box()
    change_default.__defaults__[0].clear()  # type: ignore[index]
    compare(expected, run(capture(f, fullgraph=False), (torch.ones(2), things()), {}))
    assert counted == COUNT


def check_same(expected: Any, found: Any) -> None:
    Comparison().same(expected, found, "arguments")


# ---- what C is shown, or tells, stays what it is


TOLD: dict[str, Any] = {
    "a defaultdict's function": lambda: collections.defaultdict(made()),
    "a class method's": lambda: classmethod(made()),
    "a static method's": lambda: staticmethod(made()),
    "a bound method of C": lambda: [].append,
    "a method wrapper": lambda: [1].__add__,
    "a generator": lambda: (n for n in range(3)),
    "a partial's function": lambda: functools.partial(made()),
}


def made() -> Any:
    return lambda: 43


@pytest.mark.parametrize("make", TOLD.values(), ids=TOLD)
def test_a_text_tells_the_address_of_what_the_program_has(make: Any) -> None:
    def fn(x: torch.Tensor) -> Any:
        value = make()
        return value, repr(value), x + 1

    value, text, _ = framelift.compile(fn, backend="eager")(torch.ones(2))
    assert repr(value) == text


HASHED: dict[str, Any] = {
    "an object": lambda: object(),
    "in a tuple": lambda: (object(), 1),
    "in a frozenset": lambda: frozenset([object(), (made(), 2)]),
    "a bound method": lambda: [].append,
}


@pytest.mark.parametrize("hasher", [hash, lambda value: value.__hash__()], ids=["hash", "method"])
@pytest.mark.parametrize("make", HASHED.values(), ids=HASHED)
def test_a_hash_is_that_of_what_the_program_has(make: Any, hasher: Any) -> None:
    def fn(x: torch.Tensor) -> Any:
        value = make()
        return value, hasher(value), x + 1

    value, found, _ = framelift.compile(fn, backend="eager")(torch.ones(2))
    assert hash(value) == found


ITERATORS: dict[str, Any] = {
    "text": lambda: (repr(itertools.count(3)), f"{itertools.repeat(1, 2)!s}", "{}".format(itertools.count())),
    "an element of a list": lambda: at_index(iter([1])),
    "an element of a set": lambda: len(both_in_set(iter([1]))),
    "tee of a tee": lambda: tee_twice("abc"),
    "copied": lambda: copied(map(operator.add, [1, 2], itertools.count())),
    "an attribute": lambda: next(types.SimpleNamespace(it=itertools.count(2)).it),
}


def at_index(iterator: Any) -> int:
    return [0, iterator].index(iterator)


def both_in_set(iterator: Any) -> set[Any]:
    found = {iterator}
    found.add(iterator)
    return found


def tee_twice(text: str) -> bool:
    first, _ = itertools.tee(text)
    again, _ = itertools.tee(first)
    return first is again


def copied(iterator: Any) -> list[Any]:
    next(iterator)
    return list(copy.copy(iterator))


@pytest.mark.parametrize("use", ITERATORS.values(), ids=ITERATORS)
def test_an_iterator_that_c_is_given_stays_that_one(use: Any) -> None:
    check(lambda x: (use(), x + 1), torch.ones(2))


class Described(typing.TypedDict):
    a: int


def test_a_class_of_typing_is_made_by_each_call() -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + 1

        class More(Described):
            __annotations__ = {"b": Counting}  # noqa: RUF012

        print(end="")
        return More, y

    compiled = framelift.compile(fn, backend="eager")
    first, second = compiled(torch.ones(2))[0], compiled(torch.ones(2))[0]
    assert first.__annotations__["b"] is second.__annotations__["b"] is Counting
    assert first is not second


def test_what_typing_makes_of_another_variable_is_another() -> None:
    def fn(x: torch.Tensor, variable: Any) -> Any:
        return x + 1, list, typing.List[variable], variable | None  # noqa: UP006

    compiled = framelift.compile(fn, backend="eager")
    for _ in range(3):
        variable = typing.TypeVar("variable")
        _, _, alias, union = compiled(torch.ones(2), variable)
        assert alias.__args__ == (variable,) and union.__args__ == (variable, type(None))


class Counting:
    """A descriptor that gives a special method and counts how often it is asked."""

    asked = 0

    def __get__(self, obj: Any, owner: Any) -> Any:
        self.asked += 1
        return lambda *_: 7


def test_a_special_method_that_a_descriptor_gives_is_asked_for_once() -> None:
    counting = Counting()
    cls = type("Of", (), {"__len__": counting})

    def fn(x: torch.Tensor, value: Any) -> Any:
        return x + len(value)

    compiled = framelift.compile(fn, backend="eager")
    for n in (1, 2, 3):
        assert compiled(torch.ones(2), cls()).tolist() == [8, 8]
        assert counting.asked == n


class Base:
    prop = property(lambda self: 5)
    counted = Counting()


class Derived(Base):
    def of_instance(self) -> Any:
        return super().prop, super().counted(1)

    @classmethod
    def of_class(cls) -> Any:
        return super().prop


def test_a_descriptor_found_by_super() -> None:
    def fn(x: torch.Tensor, value: Any) -> Any:
        return x + 1, value.of_instance(), value.of_class() is Base.prop

    compiled = framelift.compile(fn, backend="eager")
    before = vars(Base)["counted"].asked
    for n in (1, 2):
        assert compiled(torch.ones(2), Derived())[1:] == ((5, 7), True)
        assert vars(Base)["counted"].asked == before + n


class Logged(types.ModuleType):
    """A module that hears of every change of its attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        types.ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        types.ModuleType.__delattr__(self, name)


def test_an_object_with_state_in_c_is_changed_once() -> None:
    def fn(x: torch.Tensor, module: Any) -> Any:
        y = x + 1
        module.count = getattr(module, "count", 0) + 1
        del module.gone
        return y

    module = Logged("logged")
    compiled = framelift.compile(fn, backend="eager")
    for n in (1, 2):
        module.gone = n
        compiled(torch.ones(2), module)
        assert module.count == n and not hasattr(module, "gone")


SHOWN: dict[str, Any] = {
    "a number of data": lambda x: "%s" % x.sum(),
    "a tensor": lambda x: "%s" % (x + 1),
    "an operator": lambda x: operator.mod("%r", x.sum()),
    "a text that is changed": lambda x: operator.imod("%s", x @ x.t()),
    "in a tuple": lambda x: "%s %r" % (x.sum(), x),
    "a method": lambda x: "%s".__mod__(x * 2),
    "a number": lambda x: "%f %d" % (x.sum(), x.sum()),
    "bytes": lambda x: b"%a" % x.sum(),
    "formatted": lambda x: f"{x.sum()} {[x + 1]} {x.sum():.3f}",
    "a table": lambda x: "%(a)s" % {"a": x.sum()},
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", SHOWN)
def test_a_text_shows_the_data_of_tensors(name: str, dynamic: bool | None) -> None:
    compiled = framelift.compile(lambda x: (SHOWN[name](x), x + 1), backend="eager", dynamic=dynamic)
    for size in (2, 3, 4):
        x = torch.arange(size * 2.0).reshape(size, 2)
        assert compiled(x)[0] == SHOWN[name](x)


def test_names_of_a_number_that_varies() -> None:
    def fn(x: torch.Tensor, n: int) -> Any:
        return dir(n) == dir(1), n.__dir__()[:2], hasattr(n, "__dict__"), dir(x.shape[0])[:3], x * n

    compiled = framelift.compile(fn, backend="eager", dynamic=True)
    for n in (2, 3, 4):
        compare(run(fn, torch.ones(n), n), run(compiled, torch.ones(n), n))
