"""Library: operator, every function on numbers, tensors and containers."""

from __future__ import annotations

import operator

import torch

from conformance_programs import add_source, error_of, program

CALLS = {
    "abs": "operator.abs(x), operator.abs(-3)",
    "add": "operator.add(x, 1), operator.add([x], [1])",
    "and_": "operator.and_(x > 0, x < 2), operator.and_(6, 3)",
    "attrgetter": "operator.attrgetter('shape', 'dtype.is_floating_point')(x)",
    "call": "operator.call(torch.add, x, 1, alpha=2), operator.call(lambda a: a * 2, x)",
    "concat": "operator.concat([x], [1]), operator.concat('a', 'b'), operator.concat((x,), (2,))",
    "contains": "operator.contains([1, 2], 2), operator.contains({'a': x}, 'a')",
    "countOf": "operator.countOf([1, 2, 1], 1), operator.countOf('abca', 'a')",
    "delitem": "(lambda d: (operator.delitem(d, 'a'), d))({'a': x, 'b': x})",
    "eq": "operator.eq(x, x * 1), operator.eq(1, 1.0), operator.eq([1], [2])",
    "floordiv": "operator.floordiv(x, 2), operator.floordiv(7, -2)",
    "ge": "operator.ge(x, 1), operator.ge(2, 1)",
    "getitem": "operator.getitem(x, 1), operator.getitem({'a': x}, 'a'), operator.getitem([x, 1], 0)",
    "gt": "operator.gt(x, 1), operator.gt((1, 2), (1, 1))",
    "iadd": "operator.iadd(x.clone(), 1), operator.iadd([x], (1,))",
    "iand": "operator.iand(x > 0, x < 2), operator.iand({1, 2}, {2})",
    "iconcat": "operator.iconcat([x], [2])",
    "ifloordiv": "operator.ifloordiv(x.clone(), 2), operator.ifloordiv(7, 2)",
    "ilshift": "operator.ilshift(3, 2), operator.ilshift(torch.tensor([1, 2]), 1)",
    "imatmul": "operator.imatmul(x, x)",
    "imod": "operator.imod(x.clone(), 2), operator.imod('%s', 1)",
    "imul": "operator.imul(x.clone(), 2), operator.imul([x], 2)",
    "index": "operator.index(True), operator.index(x.dim())",
    "indexOf": "operator.indexOf('abc', 'c'), operator.indexOf([3, 4], 4)",
    "inv": "operator.inv(5), operator.inv(x > 0)",
    "invert": "operator.invert(5), operator.invert(x > 0)",
    "ior": "operator.ior(1, 6), operator.ior({'a': x}, {'b': 1})",
    "ipow": "operator.ipow(x.clone(), 2), operator.ipow(2, 3)",
    "irshift": "operator.irshift(8, 2)",
    "is_": "operator.is_(x, x), operator.is_(x, None)",
    "is_not": "operator.is_not(x, x), operator.is_not(x, None)",
    "isub": "operator.isub(x.clone(), 1), operator.isub({1, 2}, {1})",
    "itemgetter": "operator.itemgetter(0, 2)(x), operator.itemgetter('a')({'a': x}), operator.itemgetter(slice(1))(x)",
    "itruediv": "operator.itruediv(x.clone(), 2), operator.itruediv(1, 4)",
    "ixor": "operator.ixor(5, 3), operator.ixor({1}, {2})",
    "le": "operator.le(x, 1), operator.le('a', 'b')",
    "length_hint": "operator.length_hint([x, x]), operator.length_hint(iter([1, 2]), 9)",
    "lshift": "operator.lshift(1, 4)",
    "lt": "operator.lt(x, 1), operator.lt({1}, {1, 2})",
    "matmul": "operator.matmul(x, x)",
    "methodcaller": "operator.methodcaller('sum')(x), operator.methodcaller('add', 1, alpha=2)(x)",
    "mod": "operator.mod(x, 2), operator.mod('%d', 3)",
    "mul": "operator.mul(x, x), operator.mul([1], 2)",
    "ne": "operator.ne(x, 1), operator.ne(1, 2)",
    "neg": "operator.neg(x), operator.neg(4)",
    "not_": "operator.not_([]), operator.not_(x.dim())",
    "or_": "operator.or_(x > 0, x < 2), operator.or_({'a': 1}, {'b': x})",
    "pos": "operator.pos(x), operator.pos(True)",
    "pow": "operator.pow(x, 2), operator.pow(2, -1)",
    "rshift": "operator.rshift(16, 2)",
    "setitem": "(lambda d: (operator.setitem(d, 'k', x), d))({})",
    "sub": "operator.sub(x, 1), operator.sub({1, 2}, {2})",
    "truediv": "operator.truediv(x, 2), operator.truediv(1, 3)",
    "truth": "operator.truth([x]), operator.truth(0), operator.truth('')",
    "xor": "operator.xor(x > 0, x < 2), operator.xor(True, True)",
}

for _name, _call in CALLS.items():
    add_source(f"lib_operator::{_name}", f"import operator, torch\ndef f(x):\n    return x + 1, {_call}\n")
    _fn = f"operator.{_name}"
    _mapped = {
        "attrgetter": "map(operator.attrgetter('ndim'), [x, x])",
        "itemgetter": "map(operator.itemgetter(1), [x, x])",
        "methodcaller": "map(operator.methodcaller('neg'), [x, x])",
        "call": "map(operator.call, [torch.neg, abs], [x, -1])",
        "getitem": "map(operator.getitem, [[x], {0: 5}], [0, 0])",
        "contains": "map(operator.contains, [[1], 'ab'], [2, 'a'])",
        "is_": "map(operator.is_, [x, None], [x, x])",
        "is_not": "map(operator.is_not, [x, None], [x, x])",
    }.get(_name)
    if _mapped:
        add_source(
            f"lib_operator::{_name}_mapped",
            f"import operator, torch\ndef f(x):\n    return x + 1, list({_mapped})\n",
        )

DUNDERS = [name for name in dir(operator) if name.startswith("__") and callable(getattr(operator, name))]


@program
def dunder_names_are_the_same_functions(x):
    return operator.__add__(x, 1), operator.__neg__(x), operator.__getitem__(x, 0), operator.__and__(5, 4)


@program
def errors(x):
    return (
        x + 1,
        error_of(operator.add, 1, "a"),
        error_of(operator.getitem, [1], 5),
        error_of(operator.index, 1.5),
        error_of(operator.indexOf, [1], 2),
        error_of(operator.attrgetter("nothing"), 1),
        error_of(operator.itemgetter("k"), {}),
        error_of(operator.concat, 1, 2),
    )


class _Point:
    def __init__(self, value):
        self.value, self.inner = value, {"k": value * 2}

    def scaled(self, by=1, plus=0):
        return self.value * by + plus


@program(given=lambda: ([_Point(torch.ones(3)), _Point(torch.zeros(3))],))
def getters_on_given(x, points):
    values = list(map(operator.attrgetter("value"), points))
    inner = list(map(operator.itemgetter("k"), map(operator.attrgetter("inner"), points)))
    called = list(map(operator.methodcaller("scaled", 2, plus=1), points))
    return x + sum(values), inner, called


@program
def getters_are_kept(x):
    get, item, call = operator.attrgetter("a.b"), operator.itemgetter(1, 2), operator.methodcaller("m", 1)
    return x + 1, get, item, call


@program
def sort_by_getters(x):
    rows = [{"n": 2, "v": x}, {"n": 1, "v": x + 1}]
    return [row["v"] for row in sorted(rows, key=operator.itemgetter("n"))]
