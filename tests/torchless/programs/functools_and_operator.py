"""functools and operator, calling back into Python functions."""

import functools
import operator

from programs import error_of


def partial_functions():
    def f(a, b, *rest, k=0, **kwargs):
        return a, b, rest, k, kwargs

    p = functools.partial(f, 1, k=5)
    q = functools.partial(p, 2, z=3)
    return (
        p(2),
        p(2, 3, k=6),
        q(),
        q(9, k=0),
        p.args,
        p.keywords,
        p.func is f,
        error_of(p),
        functools.partial(int, base=2)("101"),
    )


def partial_methods():
    class Cell:
        def __init__(self):
            self.alive = False

        def set_state(self, state):
            self.alive = state
            return self

        set_alive = functools.partialmethod(set_state, True)

    return Cell().set_alive().alive, Cell().set_state(False).alive


def reduce_with_and_without_initial():
    return (
        functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]),
        functools.reduce(lambda a, b: a + [b], "ab", []),
        functools.reduce(operator.add, [], 7),
        error_of(lambda: functools.reduce(operator.add, [])),
    )


def wraps_copies_the_identity():
    def decorate(f):
        @functools.wraps(f)
        def wrapper(*args):
            return "wrapped", f(*args)

        return wrapper

    @decorate
    def original(x):
        """Docs."""
        return x

    return original(1), original.__name__, original.__doc__, original.__wrapped__(2)


def lru_cache_counts():
    calls = []

    @functools.lru_cache(maxsize=2)
    def square(x):
        calls.append(x)
        return x * x

    results = [square(x) for x in (1, 2, 1, 3, 2, 3)]
    info = square.cache_info()
    square.cache_clear()
    return results, calls, tuple(info), tuple(square.cache_info()), error_of(square, [])


def cache_on_a_recursive_function():
    @functools.cache
    def paths(x, y):
        return 1 if 0 in (x, y) else paths(x - 1, y) + paths(x, y - 1)

    return paths(10, 10), paths.cache_info().currsize, paths.cache_info().misses


def a_cached_function_that_raises_is_called_again():
    calls = []

    @functools.cache
    def f(x):
        calls.append(x)
        if len(calls) < 3:
            raise ValueError(f"call {len(calls)}")
        return x

    return error_of(f, 1), error_of(f, 1), f(1), f(1), calls


def cached_property():
    class C:
        def __init__(self):
            self.computed = 0

        @functools.cached_property
        def value(self):
            self.computed += 1
            return self.computed * 10

    c = C()
    first = c.value, c.value, c.computed
    del c.value
    return first, c.value, sorted(vars(c))


def total_ordering():
    @functools.total_ordering
    class Version:
        def __init__(self, text):
            self.parts = tuple(map(int, text.split(".")))

        def __eq__(self, other):
            return self.parts == other.parts

        def __lt__(self, other):
            return self.parts < other.parts

    a, b = Version("1.2"), Version("1.10")
    return [a < b, a <= b, a > b, a >= b, a == b, a != b, [v.parts for v in sorted([b, a])], max(a, b).parts]


def cmp_to_key():
    def compare(a, b):
        return (len(a) > len(b)) - (len(a) < len(b)) or (a < b) - (a > b)

    return sorted(["bb", "a", "ccc", "c", "aa"], key=functools.cmp_to_key(compare))


def single_dispatch():
    @functools.singledispatch
    def show(x):
        return f"object {x}"

    @show.register
    def _(x: int):
        return f"int {x}"

    @show.register(list)
    @show.register(tuple)
    def _(x):
        return "[" + ", ".join(map(show, x)) + "]"

    @show.register
    def _(x: str | None):
        return f"text {x!r}"

    return show(1), show([1, "a", (2.5, None)]), show(True), show({}), show.dispatch(bool)(3)


def single_dispatch_methods():
    class Formatter:
        @functools.singledispatchmethod
        def format(self, x):
            raise NotImplementedError(type(x).__name__)

        @format.register
        def _(self, x: int):
            return f"{x:04d}"

        @format.register
        def _(self, x: float):
            return f"{x:.3f}"

    f = Formatter()
    return f.format(5), f.format(2.5), error_of(f.format, "s")


def operator_functions():
    class P:
        x = 1

        def __init__(self):
            self.y = self

        def m(self, a, k=0):
            return a, k

    p = P()
    return [
        operator.itemgetter(1)([1, 2]),
        operator.itemgetter(0, -1)("abc"),
        operator.attrgetter("x")(p),
        operator.attrgetter("y.y.x", "x")(p),
        operator.methodcaller("m", 5, k=6)(p),
        operator.add(1, 2),
        operator.contains([1], 1),
        operator.truth([]),
        operator.is_(None, None),
        operator.getitem({"k": 1}, "k"),
        operator.iadd([1], [2]),
        operator.not_(0),
        operator.index(True),
        operator.countOf([1, 1], 1),
        error_of(operator.itemgetter(5), [1]),
        error_of(operator.attrgetter("zz"), p),
    ]


def operator_calls_user_methods():
    class N:
        def __matmul__(self, other):
            return "matmul", other

        def __lt__(self, other):
            return "lt", other

        def __contains__(self, x):
            return x == 1

        def __index__(self):
            return 12

        def __setitem__(self, k, v):
            print("set", k, v)

        def __concat__(self, other):
            return "concat"

    n = N()
    operator.setitem(n, 1, 2)
    return (
        operator.matmul(n, 1),
        operator.lt(n, 2),
        operator.contains(n, 1),
        operator.index(n),
        operator.mod("%d", 5),
    )


def composing_and_currying():
    def compose(*fs):
        return functools.reduce(lambda f, g: lambda x: f(g(x)), fs)

    def curry(f, n=None):
        n = n or f.__code__.co_argcount
        return f if n <= 1 else lambda x: curry(functools.partial(f, x), n - 1)

    return compose(str, lambda x: x + 1, abs)(-5), curry(lambda a, b, c: (a, b, c))(1)(2)(3)


def a_memoize_with_expiry_by_calls():
    def expiring(uses):
        def decorate(f):
            store = {}

            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                key = args, tuple(sorted(kwargs.items()))
                value, left = store.get(key, (None, 0))
                if not left:
                    value, left = f(*args, **kwargs), uses
                store[key] = value, left - 1
                return value

            return wrapper

        return decorate

    log = []

    @expiring(2)
    def slow(x, *, y=0):
        log.append((x, y))
        return x + y

    return [slow(1), slow(1), slow(1), slow(1, y=2), slow(1)], log, slow.__name__


def a_pipeline_with_operator_and_functools():
    rows = [
        {"name": "ann", "dept": "x", "pay": 5},
        {"name": "bob", "dept": "y", "pay": 7},
        {"name": "cyd", "dept": "x", "pay": 9},
    ]
    from itertools import groupby

    by = operator.itemgetter("dept")
    totals = {
        k: functools.reduce(lambda t, r: t + r["pay"], g, 0) for k, g in groupby(sorted(rows, key=by), by)
    }
    return (
        totals,
        max(rows, key=operator.itemgetter("pay"))["name"],
        list(map(operator.itemgetter("name", "pay"), rows)),
    )
