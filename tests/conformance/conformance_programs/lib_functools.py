"""Library: functools."""

from __future__ import annotations

import functools
import operator
import sys

import torch

from conformance_programs import error_of, program


@program
def reduce_with_and_without_initial(x):
    return functools.reduce(torch.add, [x, x, x]), functools.reduce(lambda a, b: a * b, [2, 3], x)


@program
def reduce_of_nothing(x):
    return x + 1, error_of(functools.reduce, operator.add, []), functools.reduce(operator.add, [], x)


@program
def partial_adds_arguments(x):
    def f(a, b, *rest, c=1, **more):
        return a + b * c + sum(rest) + sum(more.values())

    p = functools.partial(f, x, c=2)
    return p(1), p(1, 2), p(x, c=3), p(1, d=4), p.func is f, p.args, p.keywords


@program
def partial_of_partial(x):
    p = functools.partial(functools.partial(torch.add, x), 2, alpha=3)
    return p(), len(p.args), p.func is torch.add


@program(given=lambda: (functools.partial(torch.mul, 3),))
def a_given_partial(x, triple):
    return triple(x), list(map(triple, [x, 2]))


@program
def partial_with_attributes(x):
    p = functools.partial(torch.add, x)
    p.note = "kept"
    return p(1), p.note, vars(p)


@program
def partialmethod_binds(x):
    class Scaled:
        def __init__(self, value):
            self.value = value

        def scale(self, by, plus=0):
            return self.value * by + plus

        double = functools.partialmethod(scale, 2)
        shifted = functools.partialmethod(scale, plus=5)

    return Scaled(x).double(), Scaled(x).double(plus=1), Scaled(x).shifted(3)


class _Adjusted:
    def __init__(self, value):
        self.value = value

    def scale(self, by):
        return self.value * by

    triple = functools.partialmethod(scale, 3)

    @functools.cached_property
    def summed(self):
        return self.value.sum()

    @functools.singledispatchmethod
    def show(self, value):
        return "object"

    @show.register
    def _(self, value: int):
        return "int", self.value * value

    @show.register(list)
    def _(self, value):
        return "list", [self.show(item) for item in value]


@program(given=lambda: (_Adjusted(torch.ones(3)),))
def partialmethod_of_a_given(x, adjusted):
    return x + adjusted.triple()


@program(given=lambda: (_Adjusted(torch.ones(3)),))
def cached_property_of_a_given_is_kept(x, adjusted):
    before = "summed" in vars(adjusted)
    return x + adjusted.summed, before, "summed" in vars(adjusted)


@program
def cached_property_is_computed_once(x):
    class Lazy:
        uses = 0

        @functools.cached_property
        def value(self):
            Lazy.uses += 1
            return x * Lazy.uses

    lazy = Lazy()
    first, second = lazy.value, lazy.value
    del lazy.value
    return first is second, lazy.value, Lazy.uses


@program
def cached_property_has_its_name(x):
    class Lazy:
        @functools.cached_property
        def value(self):
            "Documentation."
            return x

    return Lazy.value.attrname, Lazy.value.__doc__, Lazy().value + 1


@program
def singledispatch_goes_by_class(x):
    @functools.singledispatch
    def show(value):
        return "object", value

    @show.register(int)
    def _(value):
        return "int", value + 1

    @show.register(list)
    @show.register(tuple)
    def _(value):
        return "sequence", [show(item) for item in value]

    @show.register(torch.Tensor)
    def _(value):
        return "tensor", value * 2

    return show(x), show(1), show([1, x, "a"]), show((True,)), show.dispatch(bool) is show.registry[int]


@program
def singledispatch_by_annotation(x):
    @functools.singledispatch
    def show(value):
        return "object", value

    @show.register
    def _(value: int):
        return "int", value + 1

    return show(x * 2), show(1)


@functools.singledispatch
def _area(value):
    return value


@_area.register
def _(value: int | float):
    return value * value


@_area.register
def _(value: torch.Tensor):
    return value.square()


@program
def singledispatch_of_a_module(x):
    return _area(x), _area(3), _area(1.5), _area("s")


# In 3.13 it keeps what it has made in a dictionary of weak references, with a function that is called at the end.
KEPT = "unknown native function" if sys.version_info[:2] == (3, 13) else ()


@program(given=lambda: (_Adjusted(torch.ones(3)),), breaks=KEPT)
def singledispatchmethod_of_a_given(x, adjusted):
    return x + 1, adjusted.show(2), adjusted.show([1, "a"]), adjusted.show(None)


@program(breaks=KEPT)
def singledispatchmethod_inside(x):
    return _Adjusted(x).show(3), _Adjusted(x).show("a")


@program
def lru_cache_remembers(x):
    calls = []

    @functools.lru_cache(maxsize=2)
    def square(n):
        calls.append(n)
        return n * n

    found = [square(n) for n in (1, 2, 1, 3, 2, 1)]
    return x * found[1], found, calls, square.cache_info(), square.cache_parameters()


@program
def cache_remembers_tensors(x):
    @functools.cache
    def made(n):
        return x * n

    a, b = made(2), made(2)
    made.cache_clear()
    return a is b, made(2) is a, made.__wrapped__(3), made.__name__


@functools.lru_cache
def _power(n):
    return 2**n


@program
def a_cached_function_of_a_module(x):
    return x * _power(3) + _power(3)


@program
def cache_of_a_recursive_function(x):
    @functools.cache
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x * fibonacci(30), fibonacci.cache_info().misses


@program
def lru_cache_typed_and_unhashable(x):
    @functools.lru_cache(typed=True)
    def kind(value):
        return type(value).__name__

    return x + 1, kind(1), kind(1.0), kind(True), error_of(kind, []), kind.cache_info().currsize


@program
def cached_method(x):
    class Holder:
        def __init__(self, value):
            self.value, self.uses = value, 0

        @functools.cache  # noqa: B019
        def times(self, n):
            self.uses += 1
            return self.value * n

    holder = Holder(x)
    return holder.times(2), holder.times(2), holder.times(3), holder.uses


@program
def total_ordering_fills_in(x):
    @functools.total_ordering
    class Version:
        def __init__(self, major):
            self.major = major

        def __eq__(self, other):
            return self.major == other.major

        def __lt__(self, other):
            return self.major < other.major

    a, b = Version(1), Version(2)
    return a < b, a <= b, a > b, a >= b, a != b, max(a, b).major, x * sorted([b, a])[0].major


@program
def wraps_copies_what_names_a_function(x):
    def doubling(fn):
        @functools.wraps(fn)
        def inner(*args):
            return fn(*args) * 2

        return inner

    @doubling
    def named(a: int) -> int:
        "Documentation."
        return a + 1

    facts = named.__name__, named.__doc__, sorted(named.__annotations__), named.__wrapped__(x)
    return named(x), facts, functools.WRAPPER_UPDATES, functools.WRAPPER_ASSIGNMENTS[:2]


@program
def update_wrapper_of_a_callable(x):
    class Adder:
        def __call__(self, value):
            return value + 1

    def original(value):
        "Documentation."

    adder = functools.update_wrapper(Adder(), original)
    return adder(x), adder.__name__, adder.__doc__, adder.__wrapped__ is original


@program
def cmp_to_key_sorts(x):
    by_length = functools.cmp_to_key(lambda a, b: len(a) - len(b))
    compared = by_length("a") < by_length("bb"), by_length("a") == by_length("b")
    return sorted(["ccc", "a", "bb"], key=by_length), max("a", "bb", key=by_length), compared, x + 1


@program
def cmp_to_key_with_tensor_work(x):
    seen = []

    def compare(a, b):
        seen.append(a + b)
        return a.dim() - b.dim()

    return sorted([x[None], x], key=functools.cmp_to_key(compare)), len(seen)


@program
def get_cache_token_is_asked(x):
    return x + 1, functools.get_cache_token() == functools.get_cache_token()
