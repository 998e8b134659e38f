"""What programs do with texts of sizes that vary: results, errors and objects are eager's at each size."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import json
import pickle
import re
import string
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from sameness import alike

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(fn: Any) -> Any:
    PROGRAMS[fn.__name__] = fn
    return fn


class Box:
    pass


@dataclasses.dataclass
class D:
    name: str
    n: int = 0


NT = collections.namedtuple("NT", "a b")


@program
def gen(x):
    def g():
        yield f"{x.shape[0]}"
        yield f"b{x.shape[0]}"

    return list(g()), x + 1


@program
def closure(x):
    t = f"{x.shape[0]}"

    def inner():
        return t + "!"

    return inner(), x + 1


@program
def nonloc(x):
    t = ""

    def inner():
        nonlocal t
        t += f"{x.shape[0]}"

    inner()
    inner()
    return t, x + 1


@program
def default(x):
    def inner(a=f"{x.shape[0]}"):
        return a

    return inner(), x + 1


@program
def kwnames(x):
    def inner(**k):
        return k

    return inner(**{f"k{x.shape[0]}": 1}), x + 1


@program
def exc(x):
    try:
        raise ValueError(f"bad {x.shape[0]}", x.shape[0])
    except ValueError as e:
        return e.args, str(e), x + 1


@program
def exc2(x):
    e = ValueError(f"bad {x.shape[0]}")
    return e.args[0], x + 1


@program
def keyerr(x):
    try:
        return {}[f"{x.shape[0]}"]
    except KeyError as e:
        return repr(e), x


@program
def sorts(x):
    l = [f"{x.shape[0]}", "7", "5"]
    l.sort()
    return l, max(l), x + 1


@program
def sets(x):
    s = {f"{x.shape[0]}", "7"}
    return len(s), x + 1


@program
def isin(x):
    return f"{x.shape[0]}" in ["5", "7"], f"{x.shape[0]}" in "5 7", "1" in f"{x.shape[0]}", x + 1


@program
def eq(x):
    a, b = f"{x.shape[0]}", f"{x.shape[0]}"
    return a == b, a != b + "", a < "6", x + 1


@program
def js(x):
    return json.dumps({"a": f"{x.shape[0]}"}), x + 1


@program
def intern(x):
    return sys.intern(f"{x.shape[0]}"), x + 1


@program
def einsum(x):
    e = f"i{'j' * (x.dim() - 1)}->i"
    return torch.einsum(e, x), f"{x.shape[0]}{e}"


@program
def dcl(x):
    d = D(f"{x.shape[0]}", x.shape[0])
    return d, dataclasses.asdict(d), x + 1


@program
def dcl_repr(x):
    return repr(D(f"{x.shape[0]}", 3)), x + 1


@program
def nt(x):
    return NT(f"{x.shape[0]}", 1)._replace(b=f"<{x.shape[0]}>"), x + 1


@program
def partial(x):
    return functools.partial(str.upper, f"a{x.shape[0]}")(), x + 1


@program
def mtch(x):
    match f"{x.shape[0]}":
        case "5":
            return x * 2
        case "7":
            return x * 3
        case t:
            return x, t


@program
def toint(x):
    return x * int(f"{x.shape[0]}"), float(f"{x.shape[0]}")


@program
def enc(x):
    return f"{x.shape[0]}".encode(), x + 1


@program
def hsh(x):
    return hash(f"{x.shape[0]}") == hash(str(x.shape[0])), x + 1


@program
def rx(x):
    return re.sub(r"\d", "d", f"{x.shape[0]}"), x + 1


@program
def idx(x):
    return f"{x.shape[0]}"[0], f"{x.shape[0]}"[-1:], x + 1


@program
def mul(x):
    return f"{x.shape[0]}" * 2, x + 1


@program
def mod_text(x):
    return f"%d {x.shape[0]}" % 3, f"{x.shape[0]} %s" % "a", x + 1


@program
def fmt_text(x):
    return (f"{{}} {x.shape[0]}").format(3), x + 1


@program
def join(x):
    return ", ".join(f"{s}" for s in x.shape), "".join([f"{x.shape[0]}"]), x + 1


@program
def attr(x):
    b = Box()
    b.t = f"{x.shape[0]}"
    b.t += "x"
    b.l = [b.t]
    b.l.append(b.t)
    return b.t, b.l, vars(b), x + 1


@program
def clsattr(x):
    class C:
        t = f"{x.shape[0]}"

    return C.t, C().t, x + 1


@program
def deep(x):
    return copy.deepcopy([f"{x.shape[0]}"]), copy.copy(f"{x.shape[0]}"), x + 1


@program
def pick(x):
    return pickle.loads(pickle.dumps(f"{x.shape[0]}")), x + 1


@program
def unpack(x):
    a, *b = f"{x.shape[0]:03d}"
    return a, b, x + 1


@program
def it(x):
    return [c for c in f"{x.shape[0]}"], list(f"{x.shape[0]}"), dict(enumerate(f"{x.shape[0]}")), x + 1


@program
def cond(x):
    t = f"{x.shape[0]}" or "none"
    return t and "yes", not t, bool(t), x + 1


@program
def types_(x):
    t = f"{x.shape[0]}"
    return (
        type(t),
        type(t) is str,
        isinstance(t, (int, str)),
        callable(t),
        hasattr(t, "upper"),
        t.__class__,
        x + 1,
    )


@program
def ident(x):
    t = f"{x.shape[0]}"
    u = t
    return t is u, t is None, t is not None, x + 1


@program
def glob(x):
    global LAST
    LAST = f"{x.shape[0]}"
    return LAST + "", x + 1


@program
def nested_spec(x):
    return f"{x.sum().dim():>{x.shape[0]}}", f"{x.shape[0]:>{x.shape[1]}}", x + 1


@program
def neg(x):
    return (
        f"{-x.shape[0]}",
        f"{x.shape[0] / 3:.3f}",
        f"{x.shape[0] // 2:b}",
        f"{x.shape[0]:x}",
        f"{x.shape[0]!r:>4}",
        f"{x.shape[0]=}",
        x + 1,
    )


@program
def boolean(x):
    return f"{x.shape[0] > 6}", str(x.shape[0] == 7), f"{bool(x.shape[0])}", x + 1


@program
def brk(x):
    t = f"{x.shape[0]}"
    u = [t, {"k": t}]
    framelift.graph_break()
    u.append(t + "z")
    return u, t, x + 1


@program
def with_(x):
    with contextlib.suppress(ValueError):
        t = f"{x.shape[0]}"
        raise ValueError(t)
    return t, x + 1


@program
def strmeth(x):
    return (
        str.upper(f"a{x.shape[0]}"),
        "{0}-{0}-{a}".format(x.shape[0], a=f"{x.shape[0]}"),
        str.format("{}", x.shape[0]),
        "%(n)d" % {"n": x.shape[0]},
        x + 1,
    )


@program
def strtype(x):
    return (
        str(f"{x.shape[0]}"),
        str(x.shape),
        repr(tuple(x.shape)),
        str([x.shape[0]]),
        str((x.shape[0], (x.shape[1],))),
        ascii(x.shape[0]),
        format(x.shape[0], "05d"),
        x + 1,
    )


@program
def tmpl(x):
    return string.Template("$n").substitute(n=x.shape[0]), textwrap.dedent(f" {x.shape[0]}"), x + 1


@program
def augment(x):
    l = ["a"]
    l[0] += f"{x.shape[0]}"
    d = {"k": "v"}
    d["k"] += f"{x.shape[0]}"
    return l, d, x + 1


@program
def lam(x):
    return (lambda t: t)(f"{x.shape[0]}"), [t + "?" for t in (f"{x.shape[0]}",)], x + 1


@program
def intup(x):
    return ("a", f"{x.shape[0]}") == ("a", "7"), ("a", f"{x.shape[0]}")[1], x + 1


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_uses_of_texts(name: str, dynamic: bool | None) -> None:
    fn = PROGRAMS[name]
    compiled = framelift.compile(fn, backend="eager", dynamic=dynamic)
    for n in (5, 6, 7, 12, 3):
        x = torch.randn(n, 4)
        alike(outcome(fn, x), outcome(compiled, x))


def outcome(fn: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return fn(x)
    except Exception as error:
        return type(error), str(error)
