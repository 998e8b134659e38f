"""Data model: each special method of a class (3.3), used by bytecode and by C, on instances from everywhere.

A row has the methods of a class whose instances hold a tensor as `value`, and ways of using an instance `o`.
Each use is a program, for an instance made inside and for one given; all uses of a row together are one for
a class that is made inside, one that inherits the methods, and a subclass of a builtin.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from conformance_programs import add_source


@dataclass
class Row:
    methods: str
    uses: dict[str, str]
    """An expression, or statements that assign `r`."""
    builtin: str = "list"


PRELUDE = """
import collections, copy, functools, heapq, itertools, math, operator, os, pickle, string
import torch
from conformance_programs import error_of
"""

INIT = """
def __init__(self, value):
    self.value, self.log = value, []
"""

DRIVE = """
def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value
"""

ROWS = {
    "len": Row(
        """
        def __len__(self):
            return self.value.numel()
        """,
        {
            "len": "len(o)",
            "bool": "bool(o), not o, 1 if o else 2",
            "length_hint": "operator.length_hint(o)",
            "truth": "operator.truth(o), list(filter(None, [o])) == [o], any([o]), all([o])",
            "filtered": "[type(each).__name__ for each in filter(None, [o, 0])]",
        },
    ),
    "length_hint": Row(
        """
        def __length_hint__(self):
            self.log.append("asked")
            return 7
        def __iter__(self):
            return iter([self.value])
        """,
        {
            "length_hint": "operator.length_hint(o), o.log",
            "list": "list(o), len(o.log) > 0",
            "default": "operator.length_hint(object(), 3)",
        },
        builtin="Exception",
    ),
    "bool": Row(
        """
        def __bool__(self):
            self.log.append(self.value * 2)
            return len(self.log) % 2 == 1
        """,
        {
            "if": "[1 if o else 0, 1 if o else 0], o.log",
            "and_or": "(o and 3), (o or 4)",
            "not": "not o, not o",
            "while": "r = 0\nwhile o:\n    r += 1",
            "any_all": "any([o, o]), all([o, o])",
            "filter": "len(list(filter(None, [o, o, o])))",
            "operator": "operator.truth(o), operator.not_(o), bool(o)",
            "filterfalse": "len(list(itertools.filterfalse(None, [o, o])))",
            "compress": "list(itertools.compress('abc', [o, o, o]))",
        },
    ),
    "getitem": Row(
        """
        def __getitem__(self, key):
            if isinstance(key, int) and key >= 3:
                raise IndexError(key)
            return self.value[key] if isinstance(key, int) else ("key", key)
        """,
        {
            "index": "o[1], o[-1], o[0] + o[2]",
            "slice": "o[1:2], o[::2], o[1:2, ...]",
            "key": "o['a'], o[None], o[(1, 2)], o[1, 2]",
            "for": "r = []\nfor each in o:\n    r.append(each * 2)",
            "iter": "list(iter(o)), next(iter(o))",
            "unpacked": "[*o], (lambda a, b, c: a + b - c)(*o)",
            "operator": "operator.getitem(o, 1), operator.itemgetter(0, 2)(o)",
            "sum": "sum(o), functools.reduce(operator.mul, o)",
            "zip": "list(zip(o, 'abc'))",
            "mapped": "list(map(operator.getitem, [o, o], [0, 2]))",
            "error": "error_of(lambda: o[3])",
            "enumerate": "[(n, each) for n, each in enumerate(o)]",
        },
        builtin="Exception",
    ),
    "setitem": Row(
        """
        def __setitem__(self, key, value):
            self.log.append((key, value))
            self.value = self.value + 1
        """,
        {
            "statement": "o[1] = x\no[1:2] = 3\no['a', 2] = None\nr = o.log, o.value",
            "operator": "operator.setitem(o, 'k', x), o.log",
            "unpacked": "o[0], o[1] = x, 2\nr = o.log",
            "loop": "for o['i'] in range(3):\n    pass\nr = o.log",
        },
    ),
    "delitem": Row(
        """
        def __delitem__(self, key):
            self.log.append(key)
            self.value = self.value * 2
        """,
        {
            "statement": "del o[1], o['a']\nr = o.log, o.value",
            "slice": "del o[1:]\nr = o.log",
            "operator": "operator.delitem(o, 4), o.log",
        },
    ),
    "augmented_item": Row(
        """
        def __getitem__(self, key):
            return self.value if key == 'value' else key
        def __setitem__(self, key, value):
            self.log.append((key, value))
        """,
        {"statement": "o['value'] += 1\no[3] *= 2\nr = o.log"},
        builtin="Exception",
    ),
    "iter": Row(
        """
        def __iter__(self):
            for n in range(3):
                self.log.append(n)
                yield self.value + n
        """,
        {
            "for": "r = []\nfor each in o:\n    r.append(each)",
            "list": "list(o), tuple(o), [*o]",
            "unpacked": "a, *b = o\nr = a, b",
            "sum": "sum(o)",
            "zip": "list(zip(o, [1, 2])), o.log",
            "map": "list(map(operator.neg, o))",
            "comprehension": "[each * 2 for each in o], {n: each for n, each in enumerate(o)}",
            "chain": "list(itertools.chain(o, o)), list(itertools.chain.from_iterable([o]))",
            "islice": "list(itertools.islice(o, 2)), o.log",
            "reduce": "functools.reduce(operator.add, o)",
            "deque": "collections.deque(o, 2)",
            "extend": "r = []\nr.extend(o)\nr += o",
            "stack": "torch.stack(list(o))",
            "slice_assignment": "r = [1, 2]\nr[1:1] = o",
            "star_call": "(lambda *args: len(args))(*o, *o)",
            "enumerate": "[n for n, _ in enumerate(o, 5)]",
            "accumulate": "list(itertools.accumulate(o))",
            "next": "i = iter(o)\nr = next(i), next(i), next(i), next(i, 'end')",
            "yield_from": "def g():\n    yield from o\nr = list(g())",
            "dict_fromkeys": "dict.fromkeys(map(torch.Tensor.dim, o))",
        },
        builtin="Exception",
    ),
    "iter_of_numbers": Row(
        """
        def __iter__(self):
            return iter([3, 1, 2])
        """,
        {
            "sorted": "sorted(o), sorted(o, reverse=True), min(o), max(o)",
            "set": "set(o) == {1, 2, 3}, frozenset(o), {1}.union(o), {1, 5}.isdisjoint(o)",
            "contains": "2 in o, 5 in o, operator.contains(o, 1)",
            "count_index": "operator.countOf(o, 1), operator.indexOf(o, 2)",
            "bytes": "bytes(o), bytearray(o)",
            "heap": "heapq.nsmallest(2, o), heapq.nlargest(2, o)",
            "join": "'-'.join(map(str, o))",
            "dict": "dict.fromkeys(o, x), dict(zip(o, o))",
            "product": "list(itertools.product(o, repeat=2))[:2], list(itertools.permutations(o, 2))[:2]",
            "any_all": "any(o), all(o)",
            "math": "math.prod(o), math.fsum(o), sum(o)",
            "counter": "collections.Counter(o)",
            "x": "x.view(3)[list(o)[0] - 1]",
            "reversed": "error_of(reversed, o)[0]",
        },
        builtin="Exception",
    ),
    "next": Row(
        """
        def __iter__(self):
            return self
        def __next__(self):
            if len(self.log) == 3:
                raise StopIteration
            self.log.append(self.value * len(self.log))
            return self.log[-1]
        """,
        {
            "for": "r = [each for each in o]",
            "next": "[next(o, 'end') for _ in range(4)], error_of(next, o)",
            "list": "list(o), list(o)",
            "zip": "list(zip(o, o))",
            "takewhile": "len(list(itertools.takewhile(lambda t: len(o.log) < 2, o))), o.log",
            "sum": "sum(o)",
            "reduce": "functools.reduce(torch.add, o, x)",
            "starred": "[*o, *o]",
            "tee": "[list(each) for each in itertools.tee(o)]",
        },
        builtin="Exception",
    ),
    "contains": Row(
        """
        def __contains__(self, item):
            self.log.append(self.value + 1)
            return item if isinstance(item, list) else item == 3
        """,
        {
            "in": "3 in o, 4 in o, 3 not in o, o.log",
            "truth_of_the_answer": "[] in o, [1] in o, [] not in o",
            "operator": "operator.contains(o, 3), operator.contains(o, [])",
            "filter": "list(filter(o.__contains__, [1, 3, 5]))",
        },
    ),
    "reversed": Row(
        """
        def __reversed__(self):
            return iter([self.value, 1])
        """,
        {
            "reversed": "list(reversed(o))",
            "for": "r = [each * 2 for each in reversed(o)]",
            "zip": "list(zip(reversed(o), 'ab'))",
        },
    ),
    "reversed_sequence": Row(
        """
        def __len__(self):
            return 3
        def __getitem__(self, n):
            return self.value * n
        """,
        {
            "reversed": "list(reversed(o))",
            "map": "list(map(operator.neg, reversed(o)))",
        },
        builtin="Exception",
    ),
    "missing": Row(
        """
        def __missing__(self, key):
            self.log.append(key)
            return self.value if key == 'value' else key
        """,
        {
            "item": "o['value'], o[3], o.log",
            "get": "o.get('value'), 'value' in o, o.setdefault('k', 2), o['k']",
            "format_map": "'{a} {b}'.format_map(o)",
            "operator": "operator.getitem(o, 'value'), operator.itemgetter(1, 'value')(o)",
        },
        builtin="dict",
    ),
    "call": Row(
        """
        def __call__(self, *args, **kwargs):
            self.log.append(len(args))
            return self.value + sum(args) + sum(kwargs.values())
        """,
        {
            "call": "o(), o(1), o(x, 2), o(1, a=2), o(*[1, 2], **{'k': x})",
            "map": "list(map(o, [1, 2], [3, 4])), o.log",
            "reduce": "functools.reduce(o, [1, 2, x])",
            "partial": "functools.partial(o, 1, a=2)(x)",
            "callable": "callable(o), callable(object())",
            "sorted": "sorted('cab', key=lambda c: o(ord(c)).dim())",
            "starmap": "list(itertools.starmap(o, [(1, 2), (3,)]))",
            "iter_sentinel": "len(list(zip(range(3), iter(o, None))))",
            "decorator": "g = functools.lru_cache(o)\nr = g(1), g(1), len(o.log) >= 1",
            "accumulate": "list(itertools.accumulate([1, 2, 3], o))",
            "special": "type(o).__call__(o, 1), o.__call__(2)",
        },
    ),
    "hash_and_eq": Row(
        """
        def __hash__(self):
            return 42
        def __eq__(self, other):
            self.log.append("eq")
            return isinstance(other, type(self)) or other == 42
        """,
        {
            "hash": "hash(o), hash((o, 1)) == hash((42, 1))",
            "dict": "d = {o: x}\nr = d[42], d[o], 42 in d, d.get(43)",
            "set": "s = {o, 42}\nr = len(s), 42 in s, s == {42}",
            "list": "o in [1, 42], [o].index(42), [o, 42].count(42), [42].count(o)",
            "remove": "r = [1, o]\nr.remove(42)",
            "tuple": "(1, o) == (1, 42), (o,) != (42,)",
            "is_first": "[o] == [o], o in [o], o.log",
            "ne": "o != 42, o != 1",
            "groupby": "[(k == 42, len(list(g))) for k, g in itertools.groupby([o, 42, 1])]",
            "operator": "operator.eq(o, 42), operator.ne(o, 3), operator.countOf([o, 1], 42)",
            "fromkeys": "len(dict.fromkeys([o, 42, 1])), len(collections.Counter([o, 42]))",
            "lru_cache": "functools.lru_cache(lambda a: x + 1)(o)",
        },
        builtin="Exception",
    ),
    "unhashable": Row(
        """
        def __eq__(self, other):
            return True
        """,
        {
            "hash": "error_of(hash, o), error_of(lambda: {o: 1}), error_of(lambda: {o}), type(o).__hash__",
            "eq": "o == 1, 1 == o, o != 2, o in [3], [3].index(o)",
        },
        builtin="Exception",
    ),
    "order": Row(
        """
        def __lt__(self, other):
            self.log.append("lt")
            return self.rank() < other.rank()
        def rank(self):
            return -self.value.dim()
        """,
        {
            "sorted": "a = type(o)(x[0])\nr = [each.value for each in sorted([a, o])]",
            "sort": "a = type(o)(x[0])\nb = [a, o]\nb.sort()\nr = [each.value for each in b], o.log",
            "min_max": "a = type(o)(x[0])\nr = min(a, o).value, max([a, o]).value",
            "gt_is_mirrored": "a = type(o)(x[0])\nr = a > o, o > a",
            "heapq": "a = [type(o)(x[0]), o]\nheapq.heapify(a)\nr = heapq.heappop(a).value",
            "tuples": "a = type(o)(x[0])\nr = (1, o) < (1, a), [a] < [o]",
            "le": "error_of(operator.le, o, o)[0]",
            "keyed": "a = type(o)(x[0])\nr = sorted([(a, 1), (o, 2)], key=lambda pair: pair[0])[0][1]",
        },
        builtin="Exception",
    ),
    "text": Row(
        """
        def __str__(self):
            return f"str of {tuple(self.value.shape)}"
        def __repr__(self):
            return f"repr of {tuple(self.value.shape)}"
        """,
        {
            "str": "str(o), repr(o), ascii(o)",
            "f_string": "f'{o}', f'{o!r}', f'{o!s:>30}', f'{o=}'",
            "format": "'{} {0!r}'.replace('{}', '{0}').format(o), format(o), '{:>30}'.format(str(o))",
            "percent": "'%s %r' % (o, o), '%a' % o",
            "containers": "str([o]), repr((o,)), str({'a': o}), repr({1: [o]})",
            "join": "', '.join(map(str, [o, o]))",
            "exception": "str(ValueError(o)), repr(ValueError(o, 1))",
            "template": "string.Template('$a').substitute(a=o)",
        },
    ),
    "repr_only": Row(
        """
        def __repr__(self):
            self.log.append(self.value + 1)
            return "R"
        """,
        {
            "str": "str(o), f'{o}', '%s' % o, format(o), o.log",
            "deque": "str(collections.deque([o])), str(collections.OrderedDict(a=o))",
            "partial": "'R' in repr(functools.partial(max, o))",
        },
        builtin="dict",
    ),
    "format": Row(
        """
        def __format__(self, spec):
            self.log.append(self.value * 2)
            return f"<{spec}>"
        """,
        {
            "format": "format(o), format(o, 'abc'), o.log",
            "f_string": "f'{o}', f'{o:x{1 + 1}y}', f'{o:%H:%M}'",
            "str_format": "'{:a} {0:b}'.replace('{:', '{0:').format(o), '{n:c}'.format(n=o)",
            "wrong": "error_of(format, [], 'x')[0]",
        },
    ),
    "bytes": Row(
        """
        def __bytes__(self):
            return b"abc" * self.value.dim()
        """,
        {"bytes": "bytes(o)", "percent": "b'%b' % o", "join": "b''.join(map(bytes, [o, o]))"},
        builtin="Exception",
    ),
    "fspath": Row(
        """
        def __fspath__(self):
            self.log.append(self.value + 1)
            return "/some/where.txt"
        """,
        {
            "fspath": "os.fspath(o), o.log",
            "path": "os.path.basename(o), os.path.join(o, 'x'), os.path.splitext(o)",
        },
    ),
    "index": Row(
        """
        def __index__(self):
            self.log.append(self.value + 1)
            return 2
        """,
        {
            "sequences": "[1, 2, 3][o], (4, 5, 6)[o], 'abc'[o], b'abc'[o], range(5)[o]",
            "slice": "[1, 2, 3][o:], 'abcd'[:o], [1, 2, 3][::o]",
            "range": "list(range(o)), list(range(0, 5, o))",
            "functions": "bin(o), hex(o), oct(o), chr(o), operator.index(o)",
            "conversions": "int(o), float(o), complex(o)",
            "repeat": "[1] * o, 'a' * o, o * (1,)",
            "methods": "'{:{w}}'.format(1, w=3), 'a'.center(o), [1, 2, 3].pop(o), [3].insert(o, 1)",
            "round": "round(1.2345, o), (5).to_bytes(o, 'big')",
            "math": "math.factorial(o), math.gcd(o, 4), math.comb(4, o)",
            "itertools": "list(itertools.islice('abc', o)), list(itertools.repeat(1, o))",
            "tensor": "x.view(3)[o], x.sum(o - 2 if False else 0)",
            "assignment": "r = [1, 2, 3]\nr[o] = 5\ndel r[o]",
            "deque": "d = collections.deque('abc')\nd.rotate(o)\nr = d, d[o]",
            "bytes": "bytes(o), bytearray(o), bytes([o])",
        },
        builtin="Exception",
    ),
    "conversions": Row(
        """
        def __int__(self):
            self.log.append(self.value + 1)
            return 3
        def __float__(self):
            return 2.5
        def __complex__(self):
            return 1j
        def __round__(self, digits=None):
            return "rounded", digits, self.value
        def __trunc__(self):
            return self.value
        def __floor__(self):
            return self.value - 1
        def __ceil__(self):
            return self.value + 1
        """,
        {
            "int": "int(o), o.log",
            "float": "float(o), math.sqrt(o), math.fsum([o, o]), math.isclose(o, 2.5)",
            "complex": "complex(o)",
            "round": "round(o), round(o, 2), round(o, None)",
            "math": "math.trunc(o), math.floor(o), math.ceil(o)",
            "mapped": "list(map(int, [o, o])), list(map(float, [o])), list(map(math.floor, [o]))",
            "formats": "'%d' % o, '%.2f' % o, '%x' % 3",
        },
        builtin="Exception",
    ),
    "trunc_makes_int": Row(
        """
        def __trunc__(self):
            return 4
        """,
        {"int": "math.trunc(o)", "error": "error_of(float, o)[0], error_of(complex, o)[0]"},
        builtin="Exception",
    ),
    "getattr": Row(
        """
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return name, self.value * 2
        """,
        {
            "missing": "o.a, o.value, o.log",
            "getattr": "getattr(o, 'b'), getattr(o, 'value'), getattr(o, '__c__', 5), hasattr(o, 'z')",
            "attrgetter": "operator.attrgetter('a', 'value')(o)",
            "mapped": "list(map(operator.attrgetter('q'), [o]))",
            "error": "error_of(lambda: o.__nothing__)",
            "methodcaller": "error_of(operator.methodcaller('m'), o)[0]",
            "format": "'{0.a[0]} {0.log}'.format(o)",
            "hasattr": "hasattr(o, '__len__'), hasattr(o, 'length')",
        },
    ),
    "getattribute": Row(
        """
        def __getattribute__(self, name):
            if name == "double":
                return object.__getattribute__(self, "value") * 2
            if name == "hidden":
                raise AttributeError("hidden!")
            return super().__getattribute__(name)
        """,
        {
            "read": "o.double, o.value, o.log",
            "hidden": "hasattr(o, 'hidden'), getattr(o, 'hidden', 1), error_of(lambda: o.hidden)",
            "attrgetter": "operator.attrgetter('double')(o)",
            "vars": "sorted(vars(o)), 'value' in o.__dict__",
            "getattr": "getattr(o, 'double'), list(map(getattr, [o], ['double']))",
        },
    ),
    "getattribute_then_getattr": Row(
        """
        def __getattribute__(self, name):
            if name == "gone":
                raise AttributeError(name)
            return object.__getattribute__(self, name)
        def __getattr__(self, name):
            return "fallback", name, self.value
        """,
        {"read": "o.gone, o.other, o.value", "getattr": "getattr(o, 'gone', None), hasattr(o, 'x')"},
    ),
    "setattr": Row(
        """
        def __setattr__(self, name, value):
            if name == "doubled":
                value = value * 2
            object.__setattr__(self, name, value)
        """,
        {
            "statement": "o.doubled = x\no.other = x\nr = o.doubled, o.other",
            "setattr": "setattr(o, 'doubled', 3), o.doubled",
            "augmented": "o.doubled = 1\no.doubled += 1\nr = o.doubled",
            "loop": "for o.doubled in range(3):\n    pass\nr = o.doubled",
            "with": "import contextlib\nwith contextlib.nullcontext(x) as o.doubled:\n    r = o.doubled",
            "vars": "o.doubled = 4\nr = sorted(vars(o))",
        },
    ),
    "delattr": Row(
        """
        def __delattr__(self, name):
            self.log.append(name)
            if name != "kept":
                super().__delattr__(name)
        """,
        {
            "statement": "o.a = o.kept = x\ndel o.a, o.kept\nr = o.log, hasattr(o, 'a'), o.kept",
            "delattr": "o.b = 1\ndelattr(o, 'b')\nr = o.log, error_of(delattr, o, 'c')",
        },
    ),
    "dir": Row(
        """
        def __dir__(self):
            return ["b", "a", str(self.value.dim())]
        """,
        {"dir": "dir(o)", "call": "o.__dir__()"},
    ),
    "with": Row(
        """
        def __enter__(self):
            self.log.append("in")
            return self.value
        def __exit__(self, kind, error, traceback):
            self.log.append(kind and kind.__name__)
            return kind is ValueError
        """,
        {
            "with": "with o as v:\n    r = v + 1\nr = r, o.log",
            "suppressed": "with o:\n    raise ValueError(1)\nr = o.log",
            "raised": "try:\n    with o:\n        raise KeyError(1)\nexcept KeyError as e:\n    r = str(e), o.log",
            "several": "with o as a, o as b:\n    r = a + b\nr = r, o.log",
            "return": "def g():\n    with o as v:\n        return v * 3\nr = g(), o.log",
            "break": "for n in range(3):\n    with o:\n        break\nr = n, o.log",
            "exit_stack": "import contextlib\nwith contextlib.ExitStack() as s:\n    r = s.enter_context(o)\n    1 / 1\nr = r, o.log",
        },
    ),
    "await": Row(
        """
        def __await__(self):
            self.log.append("awaited")
            return self.value * 2
            yield
        """,
        {
            "await": DRIVE + "async def g():\n    return await o + 1\nr = drive(g()), o.log",
            "twice": DRIVE + "async def g():\n    return (await o) + (await o)\nr = drive(g())",
        },
    ),
    "async_with": Row(
        """
        async def __aenter__(self):
            return self.value + 1
        async def __aexit__(self, kind, error, traceback):
            self.log.append(kind and kind.__name__)
            return True
        """,
        {
            "with": DRIVE
            + "async def g():\n    async with o as v:\n        return v * 2\nr = drive(g()), o.log",
            "raising": DRIVE
            + "async def g():\n    async with o:\n        raise KeyError\n    return x\nr = drive(g()), o.log",
        },
    ),
    "async_for": Row(
        """
        def __aiter__(self):
            return self
        async def __anext__(self):
            if len(self.log) == 3:
                raise StopAsyncIteration
            self.log.append(len(self.log))
            return self.value * len(self.log)
        """,
        {
            "for": DRIVE
            + "async def g():\n    t = []\n    async for v in o:\n        t.append(v)\n    return t\nr = drive(g())",
            "comprehension": DRIVE + "async def g():\n    return [v + 1 async for v in o]\nr = drive(g())",
            "anext": DRIVE
            + "async def g():\n    o.log.clear()\n    return await anext(o), await anext(aiter(o))\nr = drive(g())",
            "anext_default": DRIVE
            + "async def g():\n    return [await anext(o, 'end') for _ in range(5)]\nr = drive(g())",
        },
    ),
    "copy": Row(
        """
        def __copy__(self):
            return "copied", self.value
        def __deepcopy__(self, memo):
            self.log.append(len(memo))
            return "deeply", self.value
        """,
        {
            "copy": "copy.copy(o)",
            "deepcopy": "copy.deepcopy(o), copy.deepcopy([o, {'a': o}])",
            "shared": "r = copy.deepcopy([o, o])\nr = r[0] is r[1], len(o.log)",
        },
    ),
    "getstate": Row(
        """
        def __getstate__(self):
            return {"value": self.value * 2}
        def __setstate__(self, state):
            self.value, self.log = state["value"], ["restored"]
        """,
        {
            "copy": "c = copy.copy(o)\nr = c.value, c.log, c is o",
            "deepcopy": "o.value = 2\nc = copy.deepcopy([o, o])\nr = c[0].log, c[0] is c[1], c[0] is o",
            "getstate": "o.__getstate__()",
        },
    ),
    "reduce": Row(
        """
        def __reduce__(self):
            return type(self), (self.value + 1,), {"log": ["reduced"]}
        """,
        {
            "copy": "c = copy.copy(o)\nr = c.value, c.log",
            "deepcopy": "o.value = 2\nc = copy.deepcopy((o, 1))\nr = c[0].log, c[0].value",
            "reduce_ex": "o.__reduce_ex__(4)[1], o.__reduce__()[2]",
        },
    ),
    "reduce_ex": Row(
        """
        def __reduce_ex__(self, protocol):
            return type(self), (self.value * protocol,)
        """,
        {
            "copy": "copy.copy(o).value",
            "deepcopy": "o.value = 2\nr = copy.deepcopy(o).value",
            "call": "o.__reduce_ex__(2)[1]",
        },
    ),
    "getnewargs": Row(
        """
        def __new__(cls, value, *, key=1):
            self = super().__new__(cls)
            self.key = key
            return self
        def __getnewargs_ex__(self):
            return (self.value,), {"key": 5}
        """,
        {"copy": "c = copy.copy(o)\nr = c.key, c.value, c.log"},
    ),
    "getnewargs_plain": Row(
        """
        def __new__(cls, value, key=1):
            self = super().__new__(cls)
            self.first = key
            return self
        def __getnewargs__(self):
            return self.value, 7
        """,
        {"copy": "c = copy.copy(o)\nr = c.first, c.value, c.log"},
    ),
    "default_copy": Row(
        "shared = []",
        {
            "copy": "c = copy.copy(o)\nr = c is o, c.value is o.value, c.log is o.log, type(c) is type(o)",
            "deepcopied_list": "o.value = [1, 2]\nc = copy.deepcopy(o)\nr = c.value, c.value is o.value",
            "state": "sorted(o.__getstate__()), sorted(vars(o)), o.__reduce_ex__(2)[0].__name__",
        },
        builtin="dict",
    ),
    "sizeof_and_class": Row(
        """
        @property
        def __class__(self):
            return bytearray
        """,
        {
            "isinstance": "isinstance(o, bytearray), isinstance(o, str), type(o) is bytearray, o.__class__",
            "issubclass": "issubclass(type(o), bytearray)",
        },
        builtin="Exception",
    ),
    "match_args": Row(
        """
        __match_args__ = ("value", "log")
        """,
        {
            "match": "match o:\n    case type():\n        r = 0\n    case C(v, []):\n        r = v * 2",
            "keyword": "match o:\n    case C(log=[_]):\n        r = 0\n    case C(value=v):\n        r = v + 1",
            "guard": "match o:\n    case C(v) if v.dim() == 5:\n        r = 0\n    case C(v, l) if not l:\n        r = v",
            "wrong": "def g():\n    match o:\n        case C(a, b, c):\n            return a\nr = error_of(g)",
        },
    ),
    "property": Row(
        """
        @property
        def double(self):
            return self.value * 2
        @double.setter
        def double(self, value):
            self.value = value / 2
        @double.deleter
        def double(self):
            self.log.append("deleted")
        """,
        {
            "read": "o.double, getattr(o, 'double'), operator.attrgetter('double')(o)",
            "write": "o.double = x\nr = o.value, o.double",
            "augmented": "o.double += 1\nr = o.value",
            "delete": "del o.double\nr = o.log",
            "class": "type(o).double.fget(o), type(o).double.__get__(o)",
            "setattr": "setattr(o, 'double', 4), o.value, delattr(o, 'double'), o.log",
            "mapped": "list(map(getattr, [o, o], ['double', 'value']))",
        },
    ),
    "static_and_class_methods": Row(
        """
        @staticmethod
        def static(a, b=2):
            return a * b
        @classmethod
        def make(cls, value):
            return cls(value + 1)
        """,
        {
            "instance": "o.static(x), o.make(x).value",
            "class": "type(o).static(x, 3), type(o).make(x).value",
            "mapped": "list(map(o.static, [1, x])), [each.value for each in map(type(o).make, [x])]",
            "bound": "m = o.make\nr = m.__self__ is type(o), m(x).value, m.__func__(type(o), x).value",
        },
    ),
    "methods": Row(
        """
        def add(self, other=1):
            self.log.append(other)
            return self.value + other
        """,
        {
            "bound": "m = o.add\nr = m(2), m.__self__ is o, m.__func__(o, 3), m.__name__",
            "unbound": "type(o).add(o, 4), functools.partial(type(o).add, o)(5)",
            "methodcaller": "operator.methodcaller('add', 3)(o), list(map(operator.methodcaller('add'), [o]))",
            "mapped": "list(map(o.add, [1, 2])), o.log",
            "equal": "o.add == o.add, o.add is o.add, hash(o.add) == hash(o.add)",
            "kept": "o.kept = o.add\nr = o.kept(1), o.kept == o.add",
            "shadowed": "o.add = lambda: 'own'\nr = o.add()",
            "get": "type(o).add.__get__(o)(2), vars(type(o)).get('add') is None",
        },
    ),
}


def _indented(text: str, by: int = 4) -> str:
    return textwrap.indent(textwrap.dedent(text).strip(), " " * by)


def _use(use: str) -> str:
    return use if "r = " in use or "\n" in use else f"r = {use}"


def _class(row: Row, base: str = "", by: int = 0) -> str:
    text = f"class C({base}):\n{_indented(INIT)}\n{_indented(row.methods)}\n"
    return textwrap.indent(text, " " * by)


INHERITED = "class C(C):\n    pass\n"


def _program(row: Row, uses: str, origin: str) -> str:
    base = (
        row.builtin if origin == "of_a_builtin" or row.builtin == "dict" and "missing" in row.methods else ""
    )
    text = PRELUDE
    if origin == "of_a_local_class":
        text += "def f(x):\n" + _class(row, base, 4) + "    o = C(x)\n"
    else:
        text += _class(row, base) + (INHERITED if origin == "inherited" else "")
        if origin == "given":
            text += "def given():\n    return (C(torch.tensor([1.0, 2.0, 4.0])),)\ndef f(x, o):\n"
        else:
            text += "def f(x):\n    o = C(x)\n"
    return text + uses


def _each(row: Row, origin: str, use: str) -> str:
    return _program(row, f"{_indented(_use(use))}\n    return x + 1, r\n", origin)


def _together(row: Row, origin: str) -> str:
    uses = [
        f"def use{n}(o):\n{_indented(_use(use))}\n    return r" for n, use in enumerate(row.uses.values())
    ]
    made = "[" + ", ".join(f"use{n}(C(x + {n}))" for n in range(len(uses))) + "]"
    text = "\n".join(textwrap.indent(use, "    ") for use in uses)
    return _program(row, f"{text}\n    return x + 1, {made}\n", origin)


ADDRESS = "address of an abstract value"
BREAKING = {
    "model_methods::hash_and_eq_of_a_builtin": (ADDRESS, "opaque object"),
    "model_methods::unhashable_of_a_builtin": (ADDRESS, "opaque object"),
    "model_methods::methods_made_inside_equal": ADDRESS,
    "model_methods::methods_given_equal": ADDRESS,
    "model_methods::methods_of_a_local_class": (ADDRESS, "value that can't be rebuilt"),
    "model_methods::methods_inherited": ADDRESS,
}
"""Those in which the program is told a hash that depends on where an object is."""


for _name, _row in ROWS.items():
    for _title, _text in _row.uses.items():
        for _origin in ("made_inside", "given"):
            _name_of_it = f"model_methods::{_name}_{_origin}_{_title}"
            add_source(_name_of_it, _each(_row, _origin, _text), breaks=BREAKING.get(_name_of_it, ()))
    for _origin in ("of_a_local_class", "inherited", "of_a_builtin"):
        _name_of_it = f"model_methods::{_name}_{_origin}"
        add_source(_name_of_it, _together(_row, _origin), breaks=BREAKING.get(_name_of_it, ()))
