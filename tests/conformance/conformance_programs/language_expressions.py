"""Language reference: expressions (6), section by section."""

from __future__ import annotations

import math

from conformance_programs import error_of, program
from conformance_programs._tables import add_expressions


class _Point:
    def __init__(self, x=1, y=2):
        self.x, self.y = x, y
        self.items = {}

    def __getitem__(self, key):
        return key

    def __matmul__(self, other):
        return "matmul", other

    def __rmatmul__(self, other):
        return "rmatmul", other


def _pair(*args, **kwargs):
    return args, kwargs


def _rows(*expressions: str, **values: str) -> list[tuple[str, dict[str, str]]]:
    return [(expression, values) for expression in expressions]


TABLE = {
    "6.2.2 literals": _rows("1, 0x10, 0b11, 0o7, 1_000, 1.5e3, 2j, 'a' 'b', b'a', r'\\n', ..., None, True"),
    "6.2.3 parentheses": _rows("()", "(v,)", "(v)", "v, ", "((v, v), [v])", v="[1]"),
    "6.2.5 lists": _rows("[]", "[v]", "[*v, *v]", "[x, *v]", "[*3]", v="[1, 2]"),
    "6.2.6 sets": _rows("{1, 2}", "{*v, 3}", "{v: 1}", "{*v} == {1, 2}", "{[]}", v="(1, 2)"),
    "6.2.7 dictionaries": _rows("{**v, 'b': x}", "{'a': 0, **v}", "{k: 1 for k in v}", "{**3}", "{[]: 1}", v="{'a': 1}"),
    "6.2.4 comprehensions": _rows("[e * 2 for e in v if e > 1]", "{e % 2 for e in v}", "{e: x for e in v}", "list(e + x for e in v)", "[(a, b) for a in v for b in v if a < b]", "[[e for e in v] for _ in v]", "[e for e in 3]", v="[1, 2, 3]"),
    "6.3.1 attributes": _rows("v.x", "v.x + v.y", "v.nope", "v.items.get(1, x)", v="Point()"),
    "6.3.2 subscriptions": [*_rows("v[0]", "v[-1]", "v[9]", "v['a']", "v[True]", v="[1, 2]"), *_rows("v[1, 2]", "v[...]", "v[None]", "v[v]", "v[*[1, 2], 3]", v="Point()"), *_rows("v['k']", "v['z']", "v[1]", v="{'k': [1]}"), *_rows("v[0]", v="3"), *_rows("x[0]", "x[None].shape", "x[..., 1]", "x[[0, 1]]")],
    "6.3.3 slicings": [*_rows("v[1:]", "v[:-1]", "v[::2]", "v[::-1]", "v[5:1]", "v['a':]", "v[:: 0]", v="[1, 2, 3]"), *_rows("v[1:2, ::3]", "v[:]", v="Point()"), *_rows("x[1:]", "x[:2] + x[1:]")],
    "6.3.4 calls": _rows("pair(1, *v, k=2)", "pair(*v, *v, **{'a': x})", "pair(**{'a': 1}, **{'b': 2})", "pair(**{'a': 1}, **{'a': 2})", "pair(**{1: 2})", "pair(*3)", "pair(**3)", "v()", v="[1, 2]"),
    "6.5 power": [*_rows("v ** 3", "v ** -1", "-v ** 2", "v ** 0.5", "2 ** v ** 2", "v ** 'a'", v="2"), *_rows("x ** 2", "2 ** x")],
    "6.6 unary": [*_rows("-v", "+v", "~v", "not v", "- -v", v="5"), *_rows("-v", v="'a'"), *_rows("~v", v="1.5"), *_rows("-x", "+x")],
    "6.7 arithmetic": [*_rows("v + 1, v - 1, v * 2, v / 2, v // 2, v % 3", "v // -2, v % -3", "v / 0", "v // 0", "v % 0", "v + 'a'", "v * 'ab'", v="7"), *_rows("v + 1, v // 2, v % 2.5, -v % 3", "v / 0", v="7.5"), *_rows("v @ 1", "1 @ v", v="Point()"), *_rows("v @ 1", v="3"), *_rows("x + 1, 1 - x, x / 2, x // 2, x % 2, x @ x")],
    "6.8 shifts": [*_rows("v << 3, v >> 1", "v << -1", "v >> 1.5", v="5")],
    "6.9 bits": [*_rows("v & 3, v | 8, v ^ 1", "v & True", "v & 1.5", v="5"), *_rows("v | {'b': x}", v="{'a': 1}"), *_rows("v & {1}, v | {9}, v - {1}, v ^ {1}", v="{1, 2}")],
    "6.10 comparisons": [*_rows("v < 3 < 5", "1 < v < 2", "v == 2 == 2.0", "1 < v > 0 != 7", "v < 'a'", "v is 2" if False else "v is v", v="2"), *_rows("1 in v", "3 not in v", "[] in v", "v in 3", v="[1, 2]"), *_rows("v is None, v is not None, v == None", v="None"), *_rows("v == [1, [2]]", "v < [1, [3]]", "v is v", v="[1, [2]]"), *_rows("(x > 0).shape, (x == x).dtype"), *_rows("math.nan in [v]", "v == v", "[v] == [v]", v="math.nan")],
    "6.11 booleans": [*_rows("v and 1", "v or x", "not v", "v and 1 or 2", "v or [] or {}", v="[]"), *_rows("v and x", "v or 1", "v and [] and 3", v="'a'")],
    "6.12 assignment expressions": _rows("(w := v) and w", "[w := 1, w + 1]", "[last := e for e in v][-1] == last", "(a := [x, (b := v)]) and len(a)", v="[1, 2]"),
    "6.13 conditional": _rows("1 if v else 2", "x if v is None else v", "'a' if v == 1 else 'b' if v == 2 else 'c'", v="2"),
    "6.14 lambdas": _rows("(lambda: v)()", "(lambda a, b=v, *c, d=1, **e: (a, b, c, d, e))(1, 2, 3, d=4, f=5)", "(lambda a: a + x)(v)", "(lambda: nope)()", v="3"),
    "6.15 lists": _rows("v, *v", "(*v, 1)", "[*v], (*v,), {*v}", "*v, *[x]", v="(1, 2)"),
    "6.16 order": _rows("[v.append(1) or len(v), v.append(2) or len(v), len(v)]", "{v.append(1) or len(v): v.append(2) or len(v)}", "(v.append(1) or len(v)) - (v.append(2) or len(v))", v="[]"),
    "f-strings": [*_rows("f'{v}'", "f'{v!r:>6}|{v!s}|{v!a}'", "f'{v:{8}}'", "f'{v=}'", "f'{v = !r}'", "f'{{}}{v}' f'{v}'", "f'{v:d}'", "f'{len(v):03d}'", "f'{(lambda: v)()}'", v="'é'"), *_rows("f'{v:.{2}f} {v:,}'", "f'{v:>+10.3e}'", v="1234.5"), *_rows("f'{x.shape} {x.ndim}'")],
}  # fmt: skip
NAMES = {"Point": _Point, "pair": _pair, "math": math}
add_expressions("language_expressions", TABLE, names=NAMES)


@program
def operands_are_evaluated_left_to_right(x):
    seen = []

    def note(v):
        seen.append(v)
        return v

    note(1) + note(2) * note(3)
    {note("k"): note("v")}
    [note(4), note(5)][note(0)]
    note([0, 0])[note(1)] = note(6)
    note(7) if note(8) else note(9)
    _pair(note("a"), *note(["b"]), c=note("c"), **note({"d": 1}))
    note(1) < note(3) < note(2) < note(9)
    return x + len(seen), seen


@program
def short_circuits_do_not_evaluate(x):
    def bad():
        raise KeyError

    return (
        x + 1,
        0 and bad(),
        1 or bad(),
        1 if True else bad(),
        2 < 1 < bad() if False else 0,
        error_of(lambda: 1 and bad()),
    )


@program
def comprehensions_have_a_scope_of_their_own(x):
    e = "outer"
    made = [e for e in range(3)]
    fs = [lambda: e for e in range(3)]
    nested = [[e + f for f in range(2)] for e in range(2)]
    return x + 1, e, made, [f() for f in fs], nested, {e: e for e in "ab"}, [x + e for e in range(2)]


@program
def the_first_iterable_is_evaluated_outside(x):
    class C:
        n = 3
        made = [i for i in range(n)]

    return x + 1, C.made, error_of(lambda: type("D", (), {})().n)


@program
def a_walrus_in_a_comprehension_binds_outside(x):
    found = any((hit := n) > 1 for n in range(5))
    total = 0
    sums = [total := total + v for v in (1, 2, 3)]
    return x + hit, found, sums, total


@program
def unpacking_in_calls_and_displays(x):
    args, more = (1, x), {"k": 2}
    return x + 1, _pair(*args, 3, *[], **more, m=4), [*args, *more], {**more, "k": 5}, (*"ab", *args)


@program
def conditions_on_shapes(x):
    return x + 1 if x.shape[0] == 3 else x - 1, "a" if x.ndim < 2 <= len(x) else "b"


@program(breaks="data-dependent branch")
def conditions_on_values(x):
    y = x + 1
    return y * 2 if y.sum() > 0 else y * 3


@program(breaks="data-dependent value")
def numbers_of_tensors(x):
    y = x + 1
    n = int(y.sum())
    return y * n


@program
def await_in_expressions(x):
    async def one(v):
        return v + 1

    async def f():
        return await one(await one(x)), [await one(n) for n in range(2)], {n: await one(n) for n in (1, 2)}

    try:
        f().send(None)
    except StopIteration as stop:
        return stop.value


@program(given=lambda: (_Point(),))
def augmented_assignment_to_attributes_and_items(x, p):
    p.x += 1
    p.items.setdefault("n", []).append(p.x)
    p.items["m"] = p.items.get("m", 0) + 2
    p.items["m"] *= 3
    p.last = x
    return x + p.x, dict(p.items)
