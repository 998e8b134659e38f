"""Library: collections and collections.abc, heapq, bisect."""

from __future__ import annotations

import bisect
import collections
import collections.abc
import heapq

import torch

from conformance_programs import add_source, error_of, program

DEQUE = {
    "append": "d.append(x)",
    "appendleft": "d.appendleft(x)",
    "clear": "d.clear()",
    "copy": "r = d.copy(), d.__copy__()",
    "count": "r = d.count(1)",
    "extend": "d.extend([x, 5])",
    "extendleft": "d.extendleft([x, 5])",
    "index": "r = d.index(2), d.index(2, 1, 3)",
    "insert": "d.insert(1, x)",
    "maxlen": "r = d.maxlen, collections.deque([x, 1, 2], maxlen=2)",
    "pop": "r = d.pop()",
    "popleft": "r = d.popleft()",
    "remove": "d.remove(2)",
    "reverse": "d.reverse()",
    "rotate": "d.rotate(1), d.rotate(-2), d.rotate(1)",
    "item": "d[0] = x\n    r = d[0], d[-1]",
    "delitem": "del d[1]",
    "operators": "r = d + d, d * 2, 2 in d, d == collections.deque([1, 2, 3]), d < collections.deque([2])",
    "in_place": "d += [x]\n    d *= 2",
    "iteration": "r = list(d), list(reversed(d)), len(d), bool(d)",
    "bounded": "d = collections.deque(d, 3)\n    d.append(x)\n    d.appendleft(5)",
    "errors": "r = error_of(d.remove, 9), error_of(collections.deque().pop), error_of(lambda: d[7])",
}
ORDERED = {
    "move_to_end": "d.move_to_end('a'), d.move_to_end('c', last=False)",
    "popitem": "r = d.popitem(), d.popitem(last=False)",
    "items": "r = list(d.items()), list(d.keys()), list(d.values()), list(reversed(d))",
    "equality": "e = collections.OrderedDict(reversed(d.items()))\n    r = d == e, d == dict(e), e == e.copy()",
    "update": "d.update(b=x, z=1)\n    d |= {'q': x}",
    "setdefault": "r = d.setdefault('a', 5), d.setdefault('n', x)",
    "delete": "del d['b']\n    d['b'] = x",
    "fromkeys": "r = collections.OrderedDict.fromkeys('ba', x)",
    "pop": "r = d.pop('a'), d.pop('none', x), error_of(d.pop, 'none')",
}
COUNTER = {
    "elements": "r = sorted(c.elements())",
    "most_common": "r = c.most_common(1), c.most_common()",
    "subtract": "c.subtract('aab')",
    "update": "c.update('abz'), c.update({'q': 3}), c.update(a=1)",
    "total": "r = c.total()",
    "missing": "r = c['none'], 'none' in c, len(c)",
    "operators": "o = collections.Counter('ab')\n    r = c + o, c - o, c & o, c | o, +c, -c",
    "comparison": "o = collections.Counter('ab')\n    r = c == o, c >= o, c < o, c <= o, c != o, c > o",
    "in_place": "o = collections.Counter('ab')\n    c += o\n    c -= o\n    c |= o\n    c &= c",
    "item": "c['a'] += 5\n    del c['b']\n    del c['never']",
    "copy": "r = c.copy(), dict(c), error_of(collections.Counter.fromkeys, 'a')",
}

for _kind, _cases, _made in (
    ("deque", DEQUE, "collections.deque([1, 2, 3])"),
    ("OrderedDict", ORDERED, "collections.OrderedDict(a=1, b=2, c=3)"),
    ("Counter", COUNTER, "collections.Counter('abracadabra')"),
):
    for _name, _body in _cases.items():
        _var = "c" if _kind == "Counter" else "d"
        _text = "import collections\nfrom conformance_programs import error_of\n"
        add_source(
            f"lib_collections::{_kind}_{_name}",
            f"{_text}def f(x):\n    r = None\n    {_var} = {_made}\n    {_body}\n    return x + 1, r, {_var}\n",
        )
        add_source(
            f"lib_collections::{_kind}_{_name}_of_a_given",
            f"{_text}def given():\n    return ({_made},)\ndef f(x, {_var}):\n    r = None\n"
            f"    {_var} = {_var}.copy() if len({_var}) != len({_made}) else {_var}\n"
            f"    {_body}\n    return x + 1, r\n",
        )


@program
def counter_of_given_pairs(x):
    counter = collections.Counter({"a": 2}, b=1)
    return x * counter["a"], counter, collections.Counter([]), repr(counter)


@program
def defaultdict_makes_what_is_missing(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(1)
    e = collections.defaultdict(lambda: x * 2, {"k": 1})
    return d, e["k"], e["new"], d.default_factory is list, "zz" in d, d.get("zz")


@program(given=lambda: (collections.defaultdict(int), collections.defaultdict(list)))
def a_given_defaultdict(x, numbers, lists):
    numbers["a"] += 1
    lists[numbers["a"]].append(x)
    return x * numbers["a"], numbers["b"]


@program
def defaultdict_methods(x):
    d = collections.defaultdict(int, a=1)
    return (
        x + 1,
        d.copy(),
        d | {"b": 2},
        d.__missing__("c"),
        error_of(lambda: collections.defaultdict()[1]),
        repr(collections.defaultdict(None, a=1)),
    )


Point = collections.namedtuple("Point", "a b c", defaults=[3])


@program
def namedtuple_made_inside(x):
    p = Point(x, 2)
    return p.a + p.b + p.c, p[0], p._asdict(), p._replace(b=5), Point._make([1, x, 3]), p._fields


@program
def namedtuple_is_a_tuple(x):
    a, b, c = p = Point(x, 1, 2)
    return p, x + 1, len(p), p + (3,), p[1:], c in p[1:], p.index(2, 1), hash(Point(1, 2))


@program(given=lambda: (Point(torch.ones(3), 1),))
def namedtuple_given(x, p):
    return x + p.a * p.b, p._replace(a=x), p._field_defaults, isinstance(p, tuple)


@program
def namedtuple_class_made_inside(x):
    Pair = collections.namedtuple("Pair", ["left", "right"], rename=True)
    p = Pair(x, right=1)
    return p.left * 2, p.right, Pair.__name__, Pair._fields, error_of(lambda: Pair(1))


@program
def namedtuple_subclass_with_methods(x):
    class Scaled(Point):
        __slots__ = ()

        def total(self):
            return self.a * self.b + self.c

    return Scaled(x, 2).total(), Scaled(1, 2)._replace(a=x).total()


@program
def chain_map_looks_through(x):
    first, second = {"a": x}, {"a": 1, "b": 2}
    chained = collections.ChainMap(first, second)
    chained["c"] = 3
    child = chained.new_child({"d": x * 2})
    return chained["a"], chained["b"], first, len(child), child["d"], sorted(child), child.parents == chained


@program(given=lambda: (collections.ChainMap({}, {"a": 2}),))
def a_given_chain_map(x, chained):
    chained["n"] = chained.get("n", 0) + 1
    return x * chained["a"] * chained["n"], "z" in chained, chained.maps[1]


@program
def chain_map_methods(x):
    chained = collections.ChainMap({"a": 1}, {"b": x})
    popped = chained.pop("a"), error_of(chained.pop, "b")
    return x + 1, popped, dict(chained | {"q": 1}), chained.copy(), chained.popitem if False else 0


@program
def user_dict_list_string(x):
    class Logged(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key, (value, 1))

    d = Logged(a=x)
    d["b"] = 2
    values = collections.UserList([x, 1])
    values.append(2)
    text = collections.UserString("abc")
    return (
        d.data,
        d["a"][0] + 1,
        list(d),
        values.data,
        values + [3] == [3],
        text.upper() == "ABC",
        text[1] + "z",
    )


@program(given=lambda: (collections.UserDict(a=1), collections.UserList([1])))
def given_user_containers(x, d, values):
    d["n"] = d.get("n", 0) + 1
    values.append(d["n"])
    return x * d["n"], len(values), 1 in values


# `ByteString` warns from 3.12 on when it is asked
ABCS = sorted(set(collections.abc.__all__) - {"ByteString"})


@program
def abcs_recognise_builtins(x):
    values = [
        1,
        "a",
        b"a",
        [],
        (),
        {},
        set(),
        iter([]),
        (n for n in ()),
        len,
        {}.keys(),
        {}.items(),
        {}.values(),
    ]
    return x + 1, [[isinstance(value, getattr(collections.abc, name)) for name in ABCS] for value in values]


@program
def abcs_know_tensors(x):
    return (
        x + 1,
        isinstance(x, collections.abc.Sized),
        isinstance(x, collections.abc.Iterable),
        isinstance(x, collections.abc.Hashable),
        isinstance(x, collections.abc.Sequence),
    )


@program
def sequence_fills_in(x):
    class Rows(collections.abc.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, n):
            if n >= 3:
                raise IndexError
            return x * n

    rows = Rows()
    return list(rows), list(reversed(rows)), len(rows)


@program
def sequence_of_numbers_fills_in(x):
    class Numbers(collections.abc.MutableSequence):
        def __init__(self, items):
            self.items = list(items)

        def __len__(self):
            return len(self.items)

        def __getitem__(self, n):
            return self.items[n]

        def __setitem__(self, n, value):
            self.items[n] = value

        def __delitem__(self, n):
            del self.items[n]

        def insert(self, n, value):
            self.items.insert(n, value)

    numbers = Numbers([1, 2])
    numbers.append(3)
    numbers.extend([4, 1])
    numbers.reverse()
    numbers += [9]
    numbers.remove(2)
    return (
        x + 1,
        numbers.items,
        3 in numbers,
        numbers.index(3),
        numbers.count(1),
        numbers.pop(),
        numbers.clear(),
    )


@program
def mapping_fills_in(x):
    class Squares(collections.abc.Mapping):
        def __getitem__(self, n):
            if n > 3:
                raise KeyError(n)
            return x * n

        def __iter__(self):
            return iter(range(4))

        def __len__(self):
            return 4

    s = Squares()
    return s[2], s.get(9), s.get(1), 2 in s, list(s.keys()), list(s.values()), dict(s.items()), len({**s})


@program
def mutable_mapping_fills_in(x):
    class Store(collections.abc.MutableMapping):
        def __init__(self, **items):
            self.items_ = dict(items)

        def __getitem__(self, key):
            return self.items_[key]

        def __setitem__(self, key, value):
            self.items_[key] = value

        def __delitem__(self, key):
            del self.items_[key]

        def __iter__(self):
            return iter(self.items_)

        def __len__(self):
            return len(self.items_)

    s = Store(a=x)
    s.update({"b": 1}, c=x * 2)
    popped = s.pop("b"), s.pop("none", 0), s.setdefault("d", 4), s.popitem()
    return s.items_, popped, s == {"a": x} if False else len(s)


@program
def set_fills_in(x):
    class Few(collections.abc.Set):
        def __init__(self, items):
            self.items = list(dict.fromkeys(items))

        def __contains__(self, item):
            return item in self.items

        def __iter__(self):
            return iter(self.items)

        def __len__(self):
            return len(self.items)

    a, b = Few([1, 2]), Few([2, 3])
    return (
        x + 1,
        (a & b).items,
        (a | b).items,
        (a - b).items,
        (a ^ b).items,
        a <= b,
        a == Few([2, 1]),
        a.isdisjoint(b),
    )


@program
def subclass_hooks(x):
    class Sized:
        def __len__(self):
            return 3

    class Own:
        __hash__ = None

    return (
        x + len(Sized()),
        issubclass(Sized, collections.abc.Sized),
        issubclass(Own, collections.abc.Hashable),
        isinstance(lambda: 1, collections.abc.Callable),
    )


HEAP = {
    "heappush": "heapq.heappush(h, 0)",
    "heappop": "r = heapq.heappop(h), heapq.heappop(h)",
    "heapify": "h = [5, 3, 1]\n    heapq.heapify(h)",
    "heappushpop": "r = heapq.heappushpop(h, 2)",
    "heapreplace": "r = heapq.heapreplace(h, 9)",
    "merge": "r = list(heapq.merge([1, 4], [2, 3])), list(heapq.merge('ca', 'b', key=ord, reverse=True))",
    "nlargest": "r = heapq.nlargest(2, h), heapq.nlargest(2, ['a', 'bbb', 'cc'], key=len)",
    "nsmallest": "r = heapq.nsmallest(2, h), heapq.nsmallest(1, [(2, 'b'), (1, 'a')])",
}
for _name, _body in HEAP.items():
    _text = f"    r = None\n    {_body}\n    return x * h[0], r, h\n"
    add_source(f"lib_collections::heapq_{_name}", f"import heapq\ndef f(x):\n    h = [1, 3, 5, 4]\n{_text}")
    add_source(
        f"lib_collections::heapq_{_name}_of_a_given",
        f"import heapq\ndef given():\n    return ([1, 3, 5, 4, 7, 8, 9, 6],)\ndef f(x, h):\n{_text}",
    )


@program
def heap_of_pairs_with_tensors(x):
    heap = []
    for n in (3, 1, 2):
        heapq.heappush(heap, (n, x * n))
    return heapq.heappop(heap)[1], [n for n, _ in heapq.nlargest(2, heap, key=lambda pair: pair[0])]


BISECT = {
    "bisect": "bisect.bisect(a, 3)",
    "bisect_left": "bisect.bisect_left(a, 3), bisect.bisect_left(a, 3, lo=3)",
    "bisect_right": "bisect.bisect_right(a, 3), bisect.bisect_right(a, 9, 0, 2)",
    "insort": "bisect.insort(a, 2)",
    "insort_left": "bisect.insort_left(a, 3, key=lambda v: v)",
    "insort_right": "bisect.insort_right(a, 3)",
    "key": "bisect.bisect_left(a, 5, key=lambda v: v * 2)",
}
for _name, _body in BISECT.items():
    add_source(
        f"lib_collections::bisect_{_name}",
        f"import bisect\ndef f(x):\n    a = [1, 3, 3, 5]\n    r = {_body}\n    return x * len(a), r, a\n",
    )
    add_source(
        f"lib_collections::bisect_{_name}_of_a_given",
        "import bisect\ndef given():\n    return ([1, 3, 3, 5],)\n"
        f"def f(x, a):\n    r = {_body}\n    return x * len(a), r\n",
    )


@program
def bisect_with_a_key_that_computes(x):
    rows = [x[:1], x[:2], x]
    return bisect.bisect_left(rows, 2, key=lambda row: row.numel()), x + 1
