"""Library reference: every builtin function and class (2), called with what is made inside and what is given."""

from __future__ import annotations

import collections.abc
import numbers

from conformance_programs import error_of, program
from conformance_programs._tables import add_expressions


class _Box:
    """Special methods that the builtins call."""

    size = 2

    def __init__(self, v=3):
        self.v = v

    def __abs__(self):
        return self.v

    def __bool__(self):
        return self.v != 0

    def __bytes__(self):
        return bytes(self.size)

    def __complex__(self):
        return complex(self.v, 1)

    def __float__(self):
        return float(self.v)

    def __int__(self):
        return int(self.v)

    def __index__(self):
        return int(self.v)

    def __round__(self, n=None):
        return "rounded", n

    def __divmod__(self, other):
        return "divmod", other

    def __rdivmod__(self, other):
        return "rdivmod", other

    def __pow__(self, other, modulo=None):
        return "pow", other, modulo

    def __format__(self, spec):
        return f"<{spec}>"

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, _Box) and self.v == other.v

    def __lt__(self, other):
        return self.v < other.v

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        if i >= self.size:
            raise IndexError(i)
        return self.v + i

    def __contains__(self, v):
        return v == self.v

    def __reversed__(self):
        return iter(["reversed"])

    def __dir__(self):
        return ["b", "a"]

    def __repr__(self):
        return f"_Box({self.v})"

    def __call__(self, *args, **kwargs):
        return args, kwargs


class _Plain:
    shared = 1

    def method(self):
        return self


class _Meta(type):
    def __instancecheck__(cls, value):
        return value == 3

    def __subclasscheck__(cls, sub):
        return sub is int


class _Asked(metaclass=_Meta):
    pass


def _neg(v):
    return -v


def _odd(v):
    return v % 2


def _add(a, b):
    return a + b


def _countdown(n):
    left = [n]

    def step():
        left[0] = (left[0] or n) - 1  # and round again
        return left[0]

    return step


NAMES = {
    "Box": _Box,
    "Plain": _Plain,
    "Asked": _Asked,
    "neg": _neg,
    "odd": _odd,
    "add": _add,
    "countdown": _countdown,
    "abc": collections.abc,
    "numbers": numbers,
}


def _rows(*expressions: str, **values: str) -> list[tuple[str, dict[str, str]]]:
    """Expressions over the same values, each of which has them anew."""
    return [(expression, values) for expression in expressions]


TABLE = {
    "abs": [*_rows("abs(v)", v="-3"), *_rows("abs(v)", v="-2.5"), *_rows("abs(v)", v="3+4j"), *_rows("abs(v)", v="Box()"), *_rows("abs(v)", "abs()", "abs(1, 2)", v="'a'"), *_rows("abs(x - 2)")],
    "aiter": _rows("aiter(v)", v="[1]"),
    "anext": _rows("anext(v)", v="[1]"),
    "all": [*_rows("all(v)", v="[1, [], 2]"), *_rows("all(v)", "all(e > 0 for e in v)", v="(1, 2)"), *_rows("all(v)", v="{}"), *_rows("all(v)", v="3"), *_rows("all(map(neg, v))", v="[1, 0]")],
    "any": [*_rows("any(v)", v="[0, [], 2]"), *_rows("any(v)", "any(e > 1 for e in v)", v="(1, 2)"), *_rows("any(v)", v="{}"), *_rows("any(v)", v="3"), *_rows("any(map(neg, v))", v="[0, 1, 0]")],
    "ascii": [*_rows("ascii(v)", v="'é'"), *_rows("ascii(v)", v="['é', 1]"), *_rows("ascii(v)", v="Box()")],
    "bin": [*_rows("bin(v)", v="5"), *_rows("bin(v)", v="-5"), *_rows("bin(v)", v="Box()"), *_rows("bin(v)", v="1.5")],
    "oct": [*_rows("oct(v)", v="9"), *_rows("oct(v)", v="Box()"), *_rows("oct(v)", v="'a'")],
    "hex": [*_rows("hex(v)", v="255"), *_rows("hex(v)", v="Box()"), *_rows("hex(v)", v="None")],
    "bool": [*_rows("bool(v)", v="[]"), *_rows("bool(v)", v="Box(0)"), *_rows("bool(v)", v="'a'"), *_rows("bool()", "bool(1, 2)")],
    "bytearray": [*_rows("bytearray(v)", v="3"), *_rows("bytearray(v)", v="b'ab'"), *_rows("bytearray(v)", v="[1, 2]"), *_rows("bytearray(v, 'utf-8')", "bytearray(v)", v="'é'"), *_rows("bytearray(source=v)", v="[300]")],
    "bytes": [*_rows("bytes(v)", v="3"), *_rows("bytes(v)", v="[1, 2]"), *_rows("bytes(v, encoding='utf-8')", "bytes(v)", v="'é'"), *_rows("bytes(v)", v="Box()"), *_rows("bytes(v)", v="-1")],
    "callable": [*_rows("callable(v)", v="neg"), *_rows("callable(v)", v="Box()"), *_rows("callable(v)", v="3"), *_rows("callable(v)", v="Plain")],
    "chr": [*_rows("chr(v)", v="8364"), *_rows("chr(v)", v="Box()"), *_rows("chr(v)", v="-1"), *_rows("chr(v)", v="'a'")],
    "ord": [*_rows("ord(v)", v="'€'"), *_rows("ord(v)", v="b'a'"), *_rows("ord(v)", v="'ab'"), *_rows("ord(v)", v="1")],
    "classmethod": _rows("classmethod(v).__func__(3)", "classmethod(v).__get__(None, int).__self__", v="neg"),
    "staticmethod": _rows("staticmethod(v)(3)", "staticmethod(v).__get__(None, int)(4)", v="neg"),
    "complex": [*_rows("complex(v)", "complex(v, 2)", "complex(real=v, imag=1)", v="1.5"), *_rows("complex(v)", v="'1+2j'"), *_rows("complex(v)", v="Box()"), *_rows("complex(v)", v="'a'")],
    "delattr": [*_rows("delattr(v, 'v'), vars(v)", "delattr(v, 'nope')", "delattr(v, 1)", "delattr(v)", v="Box()"), *_rows("delattr(v, 'real')", v="3")],
    "dict": [*_rows("dict(v)", "dict(v, b=x)", v="{'a': 1}"), *_rows("dict(v)", "dict(v, a=2)", v="[('a', 1)]"), *_rows("dict(zip(v, [x, x]))", v="'ab'"), *_rows("dict(v)", v="[1]"), *_rows("dict(v)", v="3"), *_rows("dict(**v)", v="{'k': 1}")],
    "dir": [*_rows("dir(v)", v="Box()"), *_rows("dir(v)[-3:]", v="Plain()"), *_rows("'method' in dir(v)", v="Plain"), *_rows("len(dir(v)) > 9", v="3"), *_rows("dir(1, 2)")],
    "divmod": [*_rows("divmod(v, 3)", "divmod(v, -3)", "divmod(v, 0)", "divmod(v, 2.5)", "divmod(v, 'a')", v="7"), *_rows("divmod(v, 1)", "divmod(1, v)", v="Box()")],
    "enumerate": [*_rows("list(enumerate(v))", "list(enumerate(v, 5))", "list(enumerate(v, start=-1))", "next(enumerate(v))", v="['a', 'b']"), *_rows("list(enumerate(v))", v="3"), *_rows("[i + e for i, e in enumerate(v)]", v="[1, 2]"), *_rows("list(enumerate([x, x]))")],
    "filter": [*_rows("list(filter(None, v))", "list(filter(odd, v))", "list(filter(lambda e: e > 1, v))", "next(filter(odd, v), 'none')", v="[0, 1, 2, 3]"), *_rows("list(filter(v, [1, 2]))", v="3"), *_rows("list(filter(str.isalpha, v))", v="'a1b'")],
    "float": [*_rows("float(v)", v="'1.5'"), *_rows("float(v)", v="7"), *_rows("float(v)", v="Box()"), *_rows("float(v)", v="'nan'"), *_rows("float(v)", v="[]"), *_rows("float(v)", v="'a'"), *_rows("float()")],
    "format": [*_rows("format(v)", "format(v, '08.3f')", "format(v, ',d')", "format(v, 's')", "format(v, 1)", v="1234"), *_rows("format(v, 'spec')", v="Box()"), *_rows("format(v, '>5')", v="'a'"), *_rows("format(v, 'x')", v="[1]")],
    "frozenset": [*_rows("frozenset(v)", v="[1, 2, 1]"), *_rows("frozenset(v)", v="'aa'"), *_rows("frozenset(v)", v="[[]]"), *_rows("frozenset(v)", v="3"), *_rows("frozenset()")],
    "getattr": [*_rows("getattr(v, 'v')", "getattr(v, 'nope', x)", "getattr(v, 'nope')", "getattr(v, 'size')", "getattr(v, 1)", "getattr(v)", "getattr(v, 'v', 1, 2)", v="Box()"), *_rows("getattr(v, 'upper')()", v="'a'"), *_rows("getattr(x, 'shape')[0]")],
    "hasattr": [*_rows("hasattr(v, 'v')", "hasattr(v, 'nope')", "hasattr(v, 1)", "hasattr(v)", v="Box()"), *_rows("hasattr(x, 'shape'), hasattr(x, 'nope')")],
    "hash": [*_rows("hash(v)", v="Box()"), *_rows("hash(v)", v="12345678901234567890"), *_rows("hash(v) == hash(1)", v="1.0"), *_rows("hash(v)", v="[]"), *_rows("hash(v) == hash((1, 'a'))", v="(1, 'a')")],
    "int": [*_rows("int(v)", "int(v, 16)", "int(v, base=8)", v="'17'"), *_rows("int(v)", v="2.9"), *_rows("int(v)", v="Box()"), *_rows("int(v)", v="'a'"), *_rows("int(v)", v="None"), *_rows("int(v)", v="b'12'"), *_rows("int()", "int('z', 36)", "int(1, 2)")],
    "isinstance": [*_rows("isinstance(v, int)", "isinstance(v, (str, int))", "isinstance(v, int | str)", "isinstance(v, numbers.Integral)", "isinstance(v, Asked)", "isinstance(v, 3)", "isinstance(v, [int])", "isinstance(v)", v="3"), *_rows("isinstance(v, abc.Sequence)", "isinstance(v, abc.Hashable)", "isinstance(v, list[int])", v="[1]"), *_rows("isinstance(v, abc.Callable)", "isinstance(v, abc.Iterable)", "isinstance(v, abc.Sized)", v="Box()"), *_rows("isinstance(x, object), isinstance(x, (int, float)), isinstance(x, abc.Sized)")],
    "issubclass": [*_rows("issubclass(v, int)", "issubclass(v, (str, int))", "issubclass(v, int | str)", "issubclass(v, numbers.Number)", "issubclass(v, Asked)", "issubclass(v, 3)", v="bool"), *_rows("issubclass(v, abc.Sized)", "issubclass(v, abc.Sequence)", v="Box"), *_rows("issubclass(v, int)", v="3")],
    "iter": [*_rows("list(iter(v))", "next(iter(v))", v="[1, 2]"), *_rows("list(iter(v))", v="Box()"), *_rows("iter(v)", v="3"), *_rows("list(iter(v, 0))", "list(iter(v, 2))", v="countdown(4)"), *_rows("iter(v, 1)", v="3"), *_rows("[e + 1 for e in iter(lambda: x, None)][:0] if False else 'lazy'"), *_rows("type(iter(v)).__name__", v="{}")],
    "len": [*_rows("len(v)", v="[1, 2]"), *_rows("len(v)", v="Box()"), *_rows("len(v)", v="'é'"), *_rows("len(v)", v="3"), *_rows("len(v)", v="{1: 2}"), *_rows("len(x)", "len()", "len(x, x)")],
    "list": [*_rows("list(v)", v="'ab'"), *_rows("list(v)", v="{'k': 1}"), *_rows("list(v)", v="Box()"), *_rows("list(v)", v="3"), *_rows("list(x)", "list()", "list((x, x))")],
    "map": [*_rows("list(map(neg, v))", "list(map(add, v, [10, 20, 30]))", "list(map(str, v))", "next(map(neg, v))", "list(map(neg))", "list(map(3, v))", "list(map(neg, 3))", v="[1, 2]"), *_rows("list(map(add, v, v))", v="[1, 'a']"), *_rows("list(map(neg, [x, x + 1]))", "sum(map(neg, [x, x]))", "list(map(getattr, [x], ['ndim']))")],
    "max": [*_rows("max(v)", "max(v, key=neg)", "max(*v)", "max(v, default=9)", v="[3, 1, 2]"), *_rows("max(v)", "max(v, default=None)", v="[]"), *_rows("max(v)", v="[1, 'a']"), *_rows("max(v, key=lambda e: e.v).v", v="[Box(1), Box(5)]"), *_rows("max(1, 2, default=3)", "max()", "max([x, x], key=lambda e: 1) is x")],
    "min": [*_rows("min(v)", "min(v, key=neg)", "min(*v)", "min(v, default=9)", v="[3, 1, 2]"), *_rows("min(v)", v="[]"), *_rows("min(v, key=len)", v="['aa', 'b']"), *_rows("min(v).v", v="[Box(5), Box(1)]")],
    "memoryview": _rows("memoryview(v).nbytes", "bytes(memoryview(v)[1:])", v="b'abc'"),
    "next": [*_rows("next(iter(v))", "next(iter(v), 9)", v="[1]"), *_rows("next(iter(v), 9)", "next(iter(v))", v="[]"), *_rows("next(v)", v="[1]"), *_rows("next(e * x for e in [2])")],
    "object": _rows("object() == object()", "type(object())", "object(1)"),
    "pow": [*_rows("pow(v, 3)", "pow(v, -1)", "pow(v, 3, 5)", "pow(v, -1, 5)", "pow(base=v, exp=2)", "pow(v, 2, mod=3)", "pow(v, 1, 0)", v="2"), *_rows("pow(v, 2, 3)", v="Box()"), *_rows("pow(v, 0.5)", v="-4"), *_rows("pow(x, 2)", "pow(2, x)")],
    "property": _rows("property(v).fget(3)", "property(v, doc='d').__doc__", v="neg"),
    "range": [*_rows("list(range(v))", "list(range(v, 10, 3))", "range(v)[-1]", "range(0, 9, v)", v="4"), *_rows("range(v)", v="Box()"), *_rows("range(v)", v="1.5"), *_rows("range(1, 2, 0)", "range()")],
    "repr": [*_rows("repr(v)", v="[1, 'a', Box()]"), *_rows("repr(v)", v="{'k': (1,)}"), *_rows("repr(v)", v="1.0"), *_rows("repr(v)", v="{1}")],
    "reversed": [*_rows("list(reversed(v))", v="[1, 2]"), *_rows("list(reversed(v))", v="Box()"), *_rows("list(reversed(v))", v="{'a': 1, 'b': 2}"), *_rows("list(reversed(v))", v="'ab'"), *_rows("reversed(v)", v="{1}"), *_rows("list(reversed([x, 1]))")],
    "round": [*_rows("round(v)", "round(v, 1)", "round(number=v, ndigits=2)", "round(v, None)", "round(v, 'a')", v="2.675"), *_rows("round(v)", "round(v, 2)", v="Box()"), *_rows("round(v, -1)", v="15"), *_rows("round(v)", v="'a'")],
    "set": [*_rows("set(v)", v="[1, 2, 1]"), *_rows("set(v)", v="{'k': 1}"), *_rows("set(v)", v="[[]]"), *_rows("set(v)", v="3"), *_rows("set()")],
    "setattr": [*_rows("setattr(v, 'v', 9), vars(v)", "setattr(v, 'new', x), vars(v)", "setattr(v, 1, 2)", "setattr(v, 'a')", v="Box()"), *_rows("setattr(v, 'real', 1)", v="3")],
    "slice": [*_rows("[1, 2, 3][slice(v)]", "slice(v, 'a', None).stop", "slice(v).indices(9)", v="2"), *_rows("slice()")],
    "sorted": [*_rows("sorted(v)", "sorted(v, reverse=True)", "sorted(v, key=neg)", "sorted(v, key=lambda e: (e % 2, e))", "sorted(v, neg)", v="[3, 1, 2]"), *_rows("sorted(v)", v="{'b': 1, 'a': 2}"), *_rows("sorted(v)", v="[1, 'a']"), *_rows("[e.v for e in sorted(v)]", v="[Box(2), Box(1)]"), *_rows("sorted(v, key=str.lower)", v="'bAc'"), *_rows("sorted([(2, x), (1, x)], key=lambda e: e[0])[0][1] is x"), *_rows("sorted(v)", v="3")],
    "str": [*_rows("str(v)", v="[1]"), *_rows("str(v)", v="Box()"), *_rows("str(v, 'utf-8')", "str(v, errors='ignore')", v="b'ab'"), *_rows("str(v, 'ascii')", v="b'\\xff'"), *_rows("str()", "str(object='a')")],
    "sum": [*_rows("sum(v)", "sum(v, 10)", "sum(v, start=x)", "sum(e * e for e in v)", v="[1, 2, 3]"), *_rows("sum(v, [])", v="[[1], [2]]"), *_rows("sum(v)", "sum(v, '')", v="['a']"), *_rows("sum(v)", v="[0.1] * 10"), *_rows("sum([x, x])", "sum([x, x], start=x)", "sum(map(neg, [x]))", "sum(e + x for e in [1, 2])")],
    "super": _rows("super(v, v(1)).__eq__(3)", "super(v, v).__name__", "super(v, 3)", "super(3)", v="bool"),
    "tuple": [*_rows("tuple(v)", v="[1, 2]"), *_rows("tuple(v)", v="Box()"), *_rows("tuple(v)", v="3"), *_rows("tuple(x)", "tuple()", "tuple([x, x])")],
    "type": [*_rows("type(v)", "type(v).__name__", v="Box()"), *_rows("type(v, (), {})().__class__.__name__", "type(v, (int,), {'k': 1})(3).k", "type(v, (3,), {})", v="'T'"), *_rows("type(x)", "type()", "type(1, 2)")],
    "vars": [*_rows("vars(v)", "dict(vars(v), w=1)", v="Box()"), *_rows("vars(v)", v="3"), *_rows("sorted(vars(v))[-1]", v="Plain")],
    "zip": [*_rows("list(zip(v, 'abc'))", "list(zip(v))", "list(zip(v, v, strict=True))", "list(zip(v, [1], strict=True))", "list(zip([1], v, strict=True))", "dict(zip(v, [x, x]))", "list(zip(*[v, v]))", v="[1, 2]"), *_rows("list(zip(v))", v="3"), *_rows("list(zip())", "[a + b for a, b in zip([x], [x])]")],
    "constants": _rows("v is None", "v is not Ellipsis", "v == True", "__debug__", "NotImplemented is v", v="None"),
    "locals": _rows("'y' in locals()", "sorted(k for k in locals() if k in ('v', 'y'))", "locals(1)", v="3"),
}  # fmt: skip

add_expressions("builtins_functions", TABLE, names=NAMES)

EXERCISED = {
    "Ellipsis": "constants",
    "False": "constants",
    "None": "constants",
    "NotImplemented": "constants",
    "True": "constants",
    "__debug__": "constants",
    "__build_class__": "class statements, in language_classes",
    "__import__": "import_by_hand",
    "breakpoint": "a_breakpoint_calls_the_hook",
    "print": "printing_to_many_places",
    "input": "input_is_asked_for",
    "open": "opening_a_file",
    "compile": "source_is_run",
    "eval": "source_is_run",
    "exec": "source_is_run",
    "globals": "the_globals_as_a_dictionary",
    "id": "addresses_tell_objects_apart",
    "help": "belongs to the interactive shell",
    **dict.fromkeys(("copyright", "credits", "exit", "license", "quit"), "belongs to the interactive shell"),
    **dict.fromkeys(("__doc__", "__loader__", "__name__", "__package__", "__spec__"), "the module's own"),
}
"""Names of `builtins` that the table has not -> where they are exercised instead, or why they are not."""


@program
def import_by_hand(x):
    math = __import__("math")
    path = __import__("os.path", fromlist=["join"])
    return x + math.floor(2.5), path.join("a", "b"), __import__("os.path").__name__


@program(breaks=("import of a new module", "opaque object"))
def a_module_that_is_not_there_is_looked_for(x):
    y = x + 1
    return y * 2, error_of(lambda: __import__("no_such_module_anywhere"))


@program(breaks="run-time effect")
def printing_to_many_places(x):
    y = x + 1
    print("a", 1, [2], sep="-", end="!\n", flush=True)
    return y * 2


@program(breaks=("run-time effect", "unknown native function"))
def opening_a_file(x):
    y = x + 1
    with open(__file__) as file:
        first = file.readline()
    return y * 2, first


@program(breaks=("run-time effect", "opaque object"))
def input_is_asked_for(x):
    y = x + 1
    return y * 2, error_of(input, 1, 2)


@program(breaks="run-time effect")
def a_breakpoint_calls_the_hook(x):
    import sys

    y = x + 1
    before, sys.breakpointhook = sys.breakpointhook, lambda *args: ("hooked", args)
    found = breakpoint(1)
    sys.breakpointhook = before
    return y * 2, found


@program(breaks=("run-time effect", "internals of an object"))
def source_is_run(x):
    y = x + 1
    scope: dict = {}
    exec("v = 3", scope)
    code = compile("v + 1", "<text>", "eval")
    return y * 2, scope["v"], eval(code, {"v": 4}), eval("1 + 2")


@program(breaks="internals of an object")
def the_globals_as_a_dictionary(x):
    y = x + 1
    return y * 2, globals()["_neg"] is _neg


@program
def addresses_tell_objects_apart(x):
    a, b = [x], [x]
    return x + 1, id(a) == id(a), id(a) == id(b), {id(a): 1}.get(id(a)), id(x) in {id(x)}


@program(breaks="address of an abstract value")
def an_address_as_a_number(x):
    y = x + 1
    return y * 2, id([]) > 0


@program(given=lambda: (iter([1, 2, 3]),))
def an_iterator_from_outside_is_advanced(x, it):
    y = x + 1
    return y * 2, next(it, None)


@program(given=lambda: ((n * n for n in range(9)),), breaks="iterator from before")
def a_generator_from_outside_is_advanced(x, it):
    y = x + 1
    return y * 2, next(it), sum(zip(it, [1]), ())


@program
def keys_do_tensor_work(x):
    weights = {"a": x, "b": x * 2}
    order = sorted(weights, key=lambda name: weights[name].dim())
    best = max([1, 2, 3], key=lambda n: (x * n).numel() + n)
    return [weights[name] for name in order], best, list(filter(lambda n: (x + n).ndim == n, [1, 2]))


@program
def callbacks_that_raise(x):
    def bad(v):
        raise KeyError(v)

    return (
        x + 1,
        error_of(sorted, [1, 2], key=bad),
        error_of(lambda: list(map(bad, [1]))),
        error_of(max, [3], key=bad),
    )


@program
def callbacks_that_write(x):
    seen = []

    def note(v):
        seen.append(v)
        return v

    total = sum(map(note, [x, x + 1]))
    return total, seen, list(filter(note, [0, 1])), sorted([2, 1], key=note), all(map(note, [1, 0, 1]))


@program
def iter_with_a_sentinel_over_tensors(x):
    left = [x, x + 1, None]
    return [v * 2 for v in iter(lambda: left.pop(0), None)], left


@program
def reduce_over_tensors(x):
    import functools

    return functools.reduce(lambda a, b: a * b, [x, x + 1, x + 2], 1), functools.reduce(_add, [[1], [2]])


@program
def super_in_its_forms(x):
    class A:
        def f(self, v):
            return v + 1

        @classmethod
        def g(cls):
            return cls.__name__

    class B(A):
        def f(self, v):
            return super().f(v) * 2, super(B, self).f(v)

        @classmethod
        def g(cls):
            return "B" + super().g()

    return B().f(x), B.g(), error_of(lambda: super()), super(B, B()).g()


@program
def vars_and_locals(x):
    class C:
        pass

    c = C()
    c.a, vars(c)["b"] = x, 2
    here = locals()
    return x + 1, sorted(here), vars(c), c.b, vars() == locals()


@program
def locals_kept(x):
    here = locals()
    here["beside"] = y = x + 1
    return locals() is here, [*locals()], here.get("y"), vars().get("beside")


async def _numbers():
    yield 1
    yield 2


def _run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    return "waiting"


@program
def asynchronous_iterators_by_hand(x):
    async def f():
        it = aiter(_numbers())
        return await anext(it) + x, await anext(it), await anext(it, "end")

    return _run(f())
