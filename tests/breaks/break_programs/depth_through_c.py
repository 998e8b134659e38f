"""Breaks in functions that C calls: keys, callbacks, special methods."""

import collections
import functools
import itertools
import math
import operator

import torch

from break_programs import RECORDS, Box, Hidden, Trouble, case, fail, fail_if, program, values


@program
def sort_key_that_breaks(stop):
    def f(x):
        y = x * 2
        items = [(3, y), (1, x), (2, y + 1)]
        items.sort(key=lambda item: stop(item[0]))
        words = sorted(["bb", "a"], key=lambda w: stop(len(w)), reverse=True)
        return [v + 1 for _, v in items], words, max(items, key=lambda item: stop(item[0]))[1]

    return f


@program
def sort_key_with_effects(stop):
    def f(x, log):
        def key(n):
            log.append(n)
            stop(n)
            log.append(x * n)
            return -n

        y = x * 2
        order = sorted([2, 3, 1], key=key)
        return order, y + len(log)

    return f, []


@program
def sort_key_on_data():
    def f(x):
        rows = [x * 2, x - 1, -x]
        return sorted(rows, key=lambda r: r.sum().item()), min(rows, key=lambda r: float(r[0])), x + 1

    return f


@program
def comparison_called_by_sort(stop):
    class Card:
        def __init__(self, n, v):
            self.n, self.v = n, v

        def __lt__(self, other):
            RECORDS.append((self.n, other.n))
            return stop(self.n) < other.n

    def f(x):
        cards = sorted([Card(2, x), Card(1, x * 2), Card(3, x + 1)])
        return [c.v + c.n for c in cards]

    return f


@program
def cmp_to_key(stop):
    def f(x):
        y = x * 2
        order = sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: stop(b) - a))
        return y * order[0], order

    return f


@program
def reduce_callback(stop):
    def f(x):
        y = x * 2
        return functools.reduce(lambda a, b: stop(a) + b, [x, y, x], y), functools.reduce(
            operator.add, [x, y]
        )

    return f


@program
def map_and_filter_callbacks(stop):
    def f(x):
        y = x * 2
        doubled = list(map(lambda v: stop(v) * 2, [x, y]))
        kept = tuple(filter(lambda n: stop(n) > 1, range(4)))
        return doubled, kept, dict(map(lambda n: (stop(n), y * n), (1, 2))), list(map(stop, [1, y]))

    return f


@program
def callback_that_raises_through_c(stop):
    def f(x, log):
        def key(n):
            log.append(n)
            stop(n)
            if n == 1:
                raise Trouble("in the key", n)
            return n

        y = x * 2
        try:
            sorted([2, 1, 3], key=key)
        except Trouble as error:
            log.append((error.code, y))
        return y + sum(map(key, [2, 3])), list(map(key, [5, 1]))

    return f, []


@program
def iteration_driven_by_c(stop):
    class Numbers:
        def __init__(self, x):
            self.x = x

        def __iter__(self):
            RECORDS.append("iter")
            for n in range(3):
                yield stop(self.x * n)

        def __len__(self):
            return stop(3)

        def __reversed__(self):
            return iter([stop(9)])

    def f(x):
        numbers = Numbers(x * 2)
        return list(numbers), sum(numbers), tuple(zip(numbers, "ab")), list(reversed(numbers)), len(numbers)

    return f


@program
def comparison_driven_by_c(stop):
    class Same:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            RECORDS.append((self.n, other.n))
            return stop(self.n == other.n)

        def __hash__(self):
            return stop(self.n)

    def f(x):
        y = x * 2
        a, b = [Same(1), Same(2)], [Same(1), Same(2)]
        return a == b, (a[0],) == (b[1],), a.index(Same(2)), {Same(1): y}[Same(1)] + 1, len({*a, *b})

    return f


@program
def subclass_hooks_driven_by_c(stop):
    class Meta(type):
        def __instancecheck__(cls, obj):
            return stop(obj) == 1

        def __subclasscheck__(cls, other):
            return stop(other) is int

    class Ones(metaclass=Meta):
        pass

    def f(x):
        y = x * 2
        return y + isinstance(1, Ones), isinstance(2, Ones), issubclass(int, Ones), y - 1

    return f


@program
def repr_driven_by_c(stop):
    class Named:
        def __init__(self, v):
            self.v = v

        def __repr__(self):
            return f"Named({stop(self.v.shape[0])})"

    def f(x):
        n = Named(x * 2)
        return repr([n, {"k": n}]), str((n,)), f"{n!r:>12}", "%r" % n, n.v + 1

    return f


@program
def default_factory_that_breaks(stop):
    def f(x):
        y = x * 2
        table = collections.defaultdict(lambda: stop([y]))
        table["a"].append(1)
        table["b"].append(y + 1)
        table["a"].append(2)
        return dict(table)

    return f


@program
def lru_cache_around_a_break(stop):
    @functools.lru_cache
    def square(n):
        RECORDS.append(n)
        return stop(n) ** 2

    def f(x):
        y = x * square(2)
        return y + square(3) + square(2), square.cache_info()[:2]

    return f


@program
def singledispatch_around_a_break(stop):
    @functools.singledispatch
    def describe(v):
        return stop("other")

    @describe.register
    def _(v: int):
        return stop(v) + 1

    @describe.register
    def _(v: torch.Tensor):
        return stop(v) * 2

    def f(x, kept):
        return kept.describe(x + 1), kept.describe(3), kept.describe("word")

    return f, Hidden(describe=describe)  # its cache is nobody's business


@program
def generators_that_delegate(stop):
    def leaf(x):
        got = yield stop(x * 2)
        RECORDS.append(got)
        return stop(x + 1)

    def middle(x):
        a = yield from leaf(x)
        b = yield from leaf(a)
        yield from [a, b]
        return b

    def f(x):
        g = middle(x)
        out = [next(g), g.send(1)]
        stop(x)
        try:
            while True:
                out.append(g.send(2))
        except StopIteration as end:
            out.append(end.value * 3)
        return out

    return f


@program
def generator_pipeline(stop):
    def source(x):
        for n in range(4):
            RECORDS.append(n)
            yield x * n

    def doubled(rows):
        for row in rows:
            yield stop(row) * 2

    def every_other(rows):
        return itertools.islice(rows, 0, None, 2)

    def f(x):
        total = x
        for row in every_other(doubled(source(x))):
            total = total + stop(row)
        return total

    return f


@program
def special_methods_in_a_chain(stop):
    class Vector:
        def __init__(self, *parts):
            self.parts = parts

        def __iter__(self):
            return iter(self.parts)

        def __add__(self, other):
            return Vector(*(stop(a) + b for a, b in zip(self, other)))

        def __mul__(self, by):
            return Vector(*[p * stop(by) for p in self])

        def __abs__(self):
            return math.sqrt(sum(stop(2) for _ in self))

        __rmul__ = __mul__

    def f(x):
        v = Vector(x, x * 2)
        w = 2 * (v + v * 3)
        a, b = w
        return a, b + abs(w)

    return f


@program
def effects_of_a_broken_callee_happen_once(stop):
    def note(v, box):
        box.count += 1
        box.items.append(v * box.count)
        stop(v)
        box.count += 1
        return box.items[-1]

    def f(x, box):
        a = note(x, box)
        b = [note(v, box) for v in (a, x)]
        c = list(map(lambda v: note(v, box), b))
        return a, b, c, box.count

    return f, Box(count=0, items=[])


@program
def in_place_effects_of_a_broken_callee_happen_once(stop):
    def bump(t):
        t.add_(1)
        stop(t)
        t.mul_(2)
        return t

    def f(x):
        y = x.clone()
        bump(bump(y))
        for t in map(bump, [y, x]):
            t.sub_(1)
        return y, x

    return f


@program
def callee_fails_on_data_three_deep():
    def check(v):
        fail_if(v.sum() < 0, "negative sum")
        return v + 1

    class Checked:
        def __init__(self, v):
            self.v = check(v)

    def f(x, log):
        try:
            log.append([Checked(v).v for v in (x * 2, x)])
        except Trouble as error:
            log.append(error)
        return x - 1

    return f, []


@program
def nobody_catches_three_deep():
    class Opens:
        def __enter__(self):
            RECORDS.append("enter")
            return self

        def __exit__(self, *error):
            RECORDS.append("exit")

    def inner(v):
        with Opens():
            return fail("deep", v.ndim)

    def f(x, log):
        log.append(x * 2)
        return [inner(v) for v in (x, x + 1)]

    return f, []


@program
def compiled_function_calls_a_compiled_function(stop):
    import framelift

    @framelift.compile(backend="eager")
    def inner(v):
        w = v * 2
        stop(w)
        return w + 1

    def f(x):
        y = inner(x + 1)
        return inner(y) - x

    return f


@program
def autograd_function_with_a_break(stop):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            ctx.save_for_backward(v)
            return stop(v) * 2

        @staticmethod
        def backward(ctx, grad):
            (v,) = ctx.saved_tensors
            RECORDS.append("backward")
            return stop(grad) * 2 + v * 0

    def f(x):
        y = Double.apply(x + 1)
        y.sum().backward()
        return y.detach() + 1

    return case(f, inputs=values(grad=True))


@program
def tensor_subclass_with_torch_function(stop):
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            RECORDS.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x):
        y = x.as_subclass(Logged) * 2
        stop(1)
        z = y + 1
        return z.as_subclass(torch.Tensor)

    return f
