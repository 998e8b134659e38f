"""Locals of every plain kind that live across a break."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import math
import operator
import re
import types
import typing
import weakref

import torch

from break_programs import Box, Slim, Trouble, case, halt, matrices, program, values


class _Colour(enum.Enum):
    RED = 1
    BLUE = 2


class _Flags(enum.IntFlag):
    A = 1
    B = 2


class _Pair(typing.NamedTuple):
    first: object
    second: object = None


@dataclasses.dataclass
class _Data:
    a: object
    b: int = 2
    c: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Frozen:
    a: object
    b: int = 2


@dataclasses.dataclass(slots=True)
class _Slotted:
    a: object
    b: int = 2


# Constants


@program(all)
def numbers_and_strings(stop):
    def f(x):
        n, r, c, s, b, t, e, nothing = 3, 2.5, 1 + 2j, "text", b"bytes", True, ..., None
        big, zero, nan = 10**30, -0.0, math.nan
        y = x * n
        stop(y)
        return y + r, c, s + "!", b, t, e, nothing, big + 1, zero, nan

    return f


@program
def constants_from_outside(stop):
    def f(x, n, s, t):
        a, b, c = n, s, t
        y = x * 2
        stop(y)
        return y * a, b, c, (a, b)

    a, b, c = values()
    return case(f, calls=[(a, 1, "s", (1, 2)), (b, 2.5, None, ()), (c, True, "t", (None,))])


@program
def ranges_slices_and_sizes(stop):
    def f(m):
        r, s, size = range(0, 6, 2), slice(1, None), m.shape
        y = m * 2
        stop(y)
        return y[s] + len(r), list(r), s, size, size[0], type(size)

    return case(f, inputs=matrices())


@program
def torch_constants(stop):
    def f(x):
        dtype, device, layout, form = x.dtype, x.device, x.layout, torch.contiguous_format
        y = x.to(torch.float64)
        stop(y)
        return (
            y.to(dtype),
            device,
            layout,
            form,
            torch.finfo(dtype).eps,
            torch.zeros(2, dtype=dtype, device=device),
        )

    return f


@program
def numbers_of_other_kinds(stop):
    def f(x):
        d, q = decimal.Decimal("1.5"), fractions.Fraction(1, 3)
        day, later = datetime.date(2024, 1, 2), datetime.timedelta(days=3)
        y = x * 2
        stop(y)
        return y * float(d), q + 1, day + later, d * 2

    return f


@program
def enums_and_flags(stop):
    def f(x):
        colour, flags = _Colour.RED, _Flags.A | _Flags.B
        y = x * colour.value
        stop(y)
        return y + flags, colour is _Colour.RED, colour, flags & _Flags.A, _Colour["BLUE"]

    return f


# Containers


@program
def lists_tuples_and_dictionaries(stop):
    def f(x):
        items, pair, table = [x * 2, 1], (x, "a"), {"k": x + 1, 2: None}
        stop(x)
        items.append(pair)
        table["items"] = items
        return items, pair, table, table["items"] is items

    return f


@program
def nested_containers_with_sharing(stop):
    def f(x):
        inner = [x * 2]
        outer = {"a": inner, "b": [inner, (inner,)], "c": {"d": inner}}
        stop(x)
        inner.append(1)
        return outer, outer["b"][1][0] is outer["c"]["d"]

    return f


@program
def empty_containers(stop):
    def f(x):
        a, b, c, d, e = [], {}, set(), (), ""
        y = x * 2
        stop(y)
        a.append(y)
        b[1] = a
        c.add(2)
        return a, b, c, d, e

    return f


@program
def sets_and_frozen_sets(stop):
    def f(x):
        s, fs, bs = {3, 1, 2}, frozenset("ab"), {b"a", None}
        y = x * len(s)
        stop(y)
        s.add(9)
        return s, fs, bs, y + 1, 1 in s, fs | {"c"}

    return f


@program
def collections_of_the_library(stop):
    def f(x):
        queue = collections.deque([x * 2, 1], maxlen=3)
        groups = collections.defaultdict(list, a=[x])
        counts = collections.Counter("aab")
        order = collections.OrderedDict(z=1, a=x)
        chain = collections.ChainMap({"k": x}, {"l": 2})
        stop(x)
        queue.append(groups["b"])
        counts["a"] += 1
        order.move_to_end("z")
        chain["m"] = chain["l"]
        return queue, groups, counts, order, dict(chain), queue.maxlen

    return f


@program
def named_tuples_and_dataclasses(stop):
    def f(x):
        pair, data = _Pair(x * 2), _Data(x, c=[1])
        frozen, slotted = _Frozen(x + 1), _Slotted(x - 1)
        stop(x)
        data.c.append(pair.first)
        slotted.b = frozen.b + 1
        other = dataclasses.replace(frozen, b=7)
        return pair, data, frozen, slotted, other, pair._replace(second=3), data.c[1] is pair.first

    return f


@program
def instances_with_cycles(stop):
    def f(x):
        a, b, s = Box(v=x * 2), Box(v=x), Slim()
        a.b, b.a, a.self, s.a, s.b = b, a, a, s, a
        stop(a)
        b.v = a.v + 1
        return a, s, a.b.a.self is a, s.a is s

    return f


@program
def subclasses_of_builtins(stop):
    class Items(list):
        def total(self):
            return sum(self[1:], self[0])

    class Table(dict):
        def __getattr__(self, name):
            return self[name]

    class Name(str):
        pass

    class Number(int):
        def __add__(self, other):
            return Number(int(self) + int(other))

    def f(x):
        items, table, name, number = Items([x, x * 2]), Table(k=x), Name("n"), Number(3)
        items.note = name
        stop(x)
        items.append(table.k)
        return items.total(), type(name), items.note is name, type(number + 1), table

    return f


@program
def views_of_dictionaries(stop):
    def f(x):
        table = {"a": x * 2, "b": 1}
        keys, vals, items = table.keys(), table.values(), table.items()
        stop(x)
        table["c"] = x
        return list(keys), list(vals), list(items), len(keys), "c" in keys

    return f


@program
def mapping_proxy_and_memoryview(stop):
    def f(x):
        table, data = {"a": x * 2}, bytearray(b"abc")
        proxy, view = types.MappingProxyType(table), memoryview(data)
        stop(x)
        table["b"] = 2
        data[0] = 122
        return proxy["a"] + proxy["b"], view[0], bytes(view), data

    return f


# Callables


@program
def modules_classes_and_functions(stop):
    def f(x):
        m, fm, cls, fn, bm = math, torch.nn.functional, _Data, torch.relu, x.sum
        op, mth, sm = operator.add, "".join, str.upper
        y = fn(x) * m.pi
        stop(y)
        return fm.relu(y), cls(y).b, bm(), op(y, 1), mth(["a", "b"]), sm("c")

    return f


@program
def bound_methods_and_partials(stop):
    def f(x, box):
        box.scale = 3
        method = types.MethodType(lambda self, v: v * self.scale, box)
        part = functools.partial(torch.add, x, alpha=2)
        getter, caller = operator.attrgetter("scale"), operator.methodcaller("mul", 2)
        stop(x)
        box.scale = 4
        return method(x), part(1), getter(box), caller(x)

    return f, Box()


@program
def static_and_class_methods_as_values(stop):
    class Thing:
        @staticmethod
        def a(v):
            return v * 2

        @classmethod
        def b(cls, v):
            return cls.a(v) + 1

    def f(x):
        a, b, unbound = Thing.a, Thing.b, Thing.__dict__["a"]
        stop(x)
        return a(x), b(x), unbound.__func__ is a, b.__self__ is Thing

    return f


@program
def compiled_patterns_and_matches(stop):
    def f(x):
        pattern = re.compile(r"(\d+)")
        found = pattern.search("a12")
        y = x * int(found[1])
        stop(y)
        return y + 1, found.group(), pattern.findall("1 2"), found.span()

    return f


@program
def exceptions_as_values(stop):
    def f(x):
        error = Trouble("kept", 2)
        error.tensor = x * 2
        try:
            1 // 0
        except ZeroDivisionError as caught:
            other = caught
        error.__cause__ = other
        stop(x)
        return error.tensor + error.code, error, other, error.__cause__ is other

    return f


@program
def tracebacks_as_values(stop):
    def f(x):
        y = x * 2
        try:
            raise Trouble("x")
        except Trouble as error:
            tb = error.__traceback__
        stop(y)
        return tb.tb_lineno - tb.tb_frame.f_code.co_firstlineno, tb.tb_frame.f_code.co_name, y + 1

    return f


# All at once


@program
def everything_lives_across(stop):
    def f(x, box, *rest, flag=True, **others):
        a, b, c = x * 2, [x], {"k": box}
        it, gen, fn = iter([1, 2]), (n for n in range(3)), lambda v: v + a
        next(it), next(gen)
        s, n, none = "s", 7, None
        with torch.no_grad():
            for m in range(2):
                try:
                    if m:
                        raise Trouble("m", m)
                    b.append(fn(x))
                except Trouble as error:
                    kept = error
                    b.append(stop(error.code))
                stop(b)
        box.last = b
        return a, b, c["k"] is box, list(it), list(gen), fn(1), s, n, none, rest, flag, others, kept.code

    return f, Box(), 1, "two"


@program
def nothing_lives_across(stop):
    def f(x):
        stop(None)
        stop(None)
        return x * 2

    return f


@program
def unused_locals_live_too(stop):
    def f(x):
        unused, items = x * 2, [x]
        also = {"k": unused}
        stop(x)
        found = sorted(locals())
        return found, locals()["unused"] + 1, locals()["also"]["k"] is unused

    return f


@program
def values_that_cannot_be_copied(stop):
    def f(x):
        import threading

        lock, thing = threading.Lock(), object()
        same = thing
        file = open("kept.txt", "w+")
        y = x * 2
        stop(y)
        with lock:
            file.write("text")
        file.seek(0)
        text = file.read()
        file.close()
        return y + 1, text, same is thing, lock.locked()

    return f


@program
def values_that_came_from_the_break():
    import zlib

    def f(x):
        y = x * 2
        squeeze = zlib.compressobj()
        data = squeeze.compress(b"abc" * 10)
        z = y + 1
        data += squeeze.flush()
        n = y.sum().item()
        return z * n, zlib.decompress(data), type(n)

    return f


@program
def classes_made_by_calls(stop):
    def f(x):
        stop(x)
        Made = type("Made", (Box,), {"double": lambda self: self.v * 2})
        Pair = collections.namedtuple("Pair", "a b")
        m, p = Made(v=x), Pair(x, 2)
        stop(m)
        return m.double(), p.a + p.b, p._fields, isinstance(m, Box)

    return f


@program
def class_made_by_a_call_in_a_try():
    def f(x):
        try:
            Made = type("Made", (Box,), {})
        except TypeError:
            return x * 3
        m = Made(v=x * 2)
        halt(m)
        return m.v + 1

    return f


@program
def type_objects_and_generic_aliases(stop):
    def f(x):
        alias, union, any_, var = list[int], int | None, typing.Any, typing.TypeVar("T")
        y = x * 2
        stop(y)
        return y + len(alias.__args__), isinstance(None, union), alias([1]), var.__name__, any_ is typing.Any

    return f


@program
def shapes_are_kept_while_the_tensor_changes(stop):
    def f(x):
        shape, n = x.shape, x.numel()
        y = torch.cat([x, x])
        stop(y)
        y = y.view(2, *shape)
        return y * n, shape, y.shape, halt(y.shape)

    return case(f, inputs=[values()[0], torch.ones(2), torch.ones(4)])


@program
def dtypes_and_ranks_change_between_calls(stop):
    def f(x):
        y = x * 2
        stop(y)
        z = y + x
        stop(z)
        return z.sum(), z.dtype, z.shape

    inputs = [
        values()[0],
        torch.ones(2, 2),
        torch.tensor(3),
        torch.ones(3, dtype=torch.float64),
        values(grad=True)[0],
    ]
    return case(f, inputs=inputs)


@program
def kinds_of_arguments_change_between_calls(stop):
    def f(x, n):
        y = x * 2 if n is None else x * n
        stop(y)
        return y + (n if isinstance(n, (int, torch.Tensor)) else 1), n

    x = values()[0]
    return case(f, calls=[(x, n) for n in (None, 2, 3.5, x, "a" == "a", 2)])


@program
def weak_references_to_what_no_variable_is_read_of_again(stop):
    class Thing:
        def __init__(self, n):
            self.n = n

    def watched(y, log):
        thing = Thing(y)
        seen = weakref.ref(thing)
        stop(y)
        log.append(seen() is not None)
        return seen

    def f(x, log):
        y = x * 2
        thing, table = Thing(1), weakref.WeakValueDictionary()
        table[1] = thing
        proxy = weakref.proxy(thing)
        seen = watched(y, log)
        stop(y)
        return proxy.n, len(table), seen() is None, y + 1

    return f, []


@program
def a_dead_weak_reference_is_called(stop):
    class Thing:
        pass

    def f(x):
        thing = Thing()
        seen = weakref.ref(thing)
        stop(x)
        del thing
        y = x + 1
        return seen(), y * 2

    return f


@program
def subclasses_of_iterators_and_numbers(stop):
    class Mapped(map):
        pass

    class Cycled(itertools.cycle):
        def __init__(self, items, name):
            self.name = name

    class Pairs(dict):
        pass

    class Complex(complex):
        pass

    def f(x, items, pairs):
        y = x * 2
        mapped, cycled = Mapped(str, items), Cycled(items, name="again")
        number, table = Complex(1, 2), Pairs(pairs)
        stop(y)
        return list(mapped), [next(cycled) for _ in items], cycled.name, number + 0, table, y + 1

    return f, [1, 2], [("a", 1), ("b", 2)]
