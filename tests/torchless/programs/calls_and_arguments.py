"""Calling: binding of arguments in all their forms, and the errors of wrong calls."""

from programs import error_of


def _all_kinds(a, b=2, /, c=3, *rest, d, e=5, **extra):
    return a, b, c, rest, d, e, extra


def _two(a, b):
    return a, b


def positional_and_keyword_arguments():
    return _two(1, 2), _two(1, b=2), _two(a=1, b=2), _two(b=1, a=2)


def all_kinds_of_parameters():
    return [
        _all_kinds(1, d=4),
        _all_kinds(1, 20, 30, 40, 50, d=60, e=70, f=80),
        _all_kinds(1, c=9, d=4, a="goes to extra", b="too"),
    ]


def star_arguments_from_any_iterable():
    def pack(*args):
        return args

    return [pack(*[1, 2]), pack(*"ab", *range(2)), pack(0, *(), 1, *{5: 6}), pack(*(x * x for x in range(3)))]


def double_star_arguments_from_mappings():
    def pack(**kwargs):
        return kwargs

    class Mapping:
        def keys(self):
            return ["k1", "k2"]

        def __getitem__(self, key):
            return key.upper()

    return [
        pack(**{"a": 1}, b=2),
        pack(a=1, **{}, **{"c": 3}),
        pack(**Mapping()),
        pack(**{"not an identifier": 1}),
    ]


def stars_mixed_with_everything():
    args, kwargs = (2, 3), {"e": 50, "z": 26}
    return _all_kinds(1, *args, 4, *[5], d=6, **kwargs)


def arguments_are_evaluated_left_to_right():
    def say(x):
        print(x)
        return x

    def f(*args, **kwargs):
        return args, kwargs

    return f(say(1), *[say(2)], say(3), k=say(4), *[say(5)], **{"m": say(6)}, n=say(7))


def missing_arguments_are_named():
    def one(a): ...

    def two(a, b): ...

    def three(a, b, c): ...

    def keyword(*, x): ...

    def keywords(*, x, y, z): ...

    return [
        error_of(call)
        for call in (
            lambda: one(),
            lambda: two(),
            lambda: two(1),
            lambda: three(),
            lambda: three(c=1),
            lambda: keyword(),
            lambda: keywords(y=1),
            lambda: keywords(),
        )
    ]


def too_many_arguments_are_counted():
    def none(): ...

    def one(a): ...

    def default(a, b=1): ...

    def keyword(a, *, k): ...

    return [
        error_of(call)
        for call in (
            lambda: none(1),
            lambda: none(1, 2),
            lambda: one(1, 2),
            lambda: default(1, 2, 3),
            lambda: keyword(1, 2, k=3),
            lambda: keyword(1, 2),
        )
    ]


def unexpected_and_repeated_keywords():
    def f(a, b=1): ...

    return [
        error_of(call)
        for call in (
            lambda: f(1, c=2),
            lambda: f(1, a=2),
            lambda: f(1, **{"a": 2}),
            lambda: f(**{"a": 1}, **{"a": 2}),
            lambda: f(a=1, **{"a": 2}),
            lambda: f(1, **{3: 4}),
        )
    ]


def positional_only_parameters_given_by_keyword():
    def f(a, b, /, c): ...

    def g(a, /, **rest):
        return a, rest

    return (
        error_of(lambda: f(1, b=2, c=3)),
        error_of(lambda: f(a=1, b=2, c=3)),
        g(1, a=2),
        error_of(lambda: g(a=1)),
    )


def star_of_something_not_iterable():
    def f(*args, **kwargs): ...

    return [
        error_of(lambda: f(*1)),
        error_of(lambda: f(**1)),
        error_of(lambda: f(1, *None)),
        error_of(lambda: f(**[1])),
    ]


def calling_something_not_callable():
    class C:
        pass

    return [error_of(lambda: value(1, k=2)) for value in (1, "a", None, C(), [], C().__dict__)]


def wrong_calls_of_methods_name_the_qualified_function():
    class C:
        def method(self, a): ...

        @classmethod
        def of(cls, a): ...

        @staticmethod
        def free(a): ...

    c = C()
    return [
        error_of(call)
        for call in (
            lambda: c.method(),
            lambda: C.method(),
            lambda: c.method(1, 2),
            lambda: C.of(),
            lambda: C.free(1, 2),
        )
    ]


def wrong_calls_of_builtins():
    return [
        error_of(call)
        for call in (
            lambda: len(),
            lambda: len(1),
            lambda: len([], []),
            lambda: int("1", 2, 3),
            lambda: "".join(),
            lambda: [].append(1, 2),
            lambda: print(nonsense=1),
            lambda: isinstance(1, 2),
            lambda: dict(1),
            lambda: {}.get(),
            lambda: [].sort(1),
            lambda: object(1),
        )
    ]


def wrong_calls_of_classes():
    class Empty:
        pass

    class OneArgument:
        def __init__(self, a): ...

    class Returns:
        def __init__(self):
            return 5

    return [
        error_of(call)
        for call in (
            lambda: Empty(1),
            lambda: Empty(a=1),
            lambda: OneArgument(),
            lambda: OneArgument(1, 2),
            lambda: Returns(),
        )
    ]


def defaults_are_evaluated_once_at_definition():
    def say(x):
        print("evaluated", x)
        return x

    def f(a, b=say([]), *, c=say({})):
        b.append(a)
        c[a] = len(c)
        return list(b), dict(c)

    print("defined")
    return f(1), f(2), f(3, []), f(4, c={})


def defaults_can_be_replaced_from_outside():
    def f(a=1, *, b=2):
        return a, b

    before = f()
    f.__defaults__ = (10,)
    f.__kwdefaults__ = {"b": 20}
    after = f()
    f.__defaults__ = None
    return before, after, error_of(f)


def star_parameters_are_fresh_containers():
    def f(*args, **kwargs):
        kwargs["new"] = True
        return args, kwargs

    original = {"a": 1}
    given = (1, 2)
    args, kwargs = f(*given, **original)
    return args, kwargs, original, f(**original)[1] is original


def keyword_arguments_keep_their_order():
    def f(**kwargs):
        return list(kwargs)

    return f(z=1, a=2, m=3), f(**{"y": 1}, b=2, **{"x": 3})


def instances_with_call_are_callable():
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, *args, scale=1, **kwargs):
            return self.n + sum(args) * scale + len(kwargs)

    add = Adder(10)
    return add(), add(1, 2), add(1, scale=5), add(*[1, 1], **{"scale": 2, "q": 0}), callable(add)


def bound_methods_are_values():
    class Counter:
        def __init__(self):
            self.n = 0

        def up(self, by=1):
            self.n += by
            return self.n

    c = Counter()
    up = c.up
    up()
    up(by=5)
    return c.n, up.__self__ is c, up.__func__ is Counter.up, c.up == c.up, Counter.up(c, 10), up.__name__


def calls_with_many_arguments():
    def f(*args, **kwargs):
        return sum(args), sum(kwargs.values())

    return f(
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
        a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9, j=10, k=11, l=12, m=13,
    )  # fmt: skip


def call_results_can_be_called_at_once():
    def curry(a):
        return lambda b: lambda c: lambda *d: (a, b, c, d)

    return curry(1)(2)(c=3)(4, 5)


def an_exception_while_evaluating_arguments_prevents_the_call():
    def f(*args):
        print("called")

    def boom():
        raise ValueError("in an argument")

    try:
        f(print("first"), boom(), print("last"))
    except ValueError as e:
        return str(e)


def a_double_star_mapping_that_fails_in_getitem():
    class Bad:
        def keys(self):
            return ["a", "b"]

        def __getitem__(self, key):
            if key == "b":
                raise LookupError("no " + key)
            return 1

    return error_of(lambda: dict(**Bad()))


def dispatch_table_of_functions_with_different_signatures():
    def area_circle(r, *, pi=3):
        return pi * r * r

    def area_box(w, h=None):
        return w * (h if h is not None else w)

    table = {"circle": area_circle, "box": area_box, "point": lambda: 0}
    jobs = [
        ("circle", (2,), {}),
        ("circle", (2,), {"pi": 4}),
        ("box", (3,), {}),
        ("box", (3, 4), {}),
        ("point", (), {}),
        ("point", (1,), {}),
        ("line", (), {}),
    ]
    results = []
    for name, args, kwargs in jobs:
        try:
            results.append(table[name](*args, **kwargs))
        except KeyError as e:
            results.append(f"unknown {e}")
        except TypeError as e:
            results.append(str(e))
    return results


def a_missing_argument_leaves_the_program():
    def needs(first, second, *, third):
        return first, second, third

    return needs(1)


def an_unexpected_keyword_leaves_the_program():
    def takes(first):
        return first

    return takes(1, frist=2)


def the_wrong_number_of_arguments_in_a_nested_call():
    class Shape:
        def __init__(self, w, h):
            self.size = (w, h)

    def build(*sizes):
        return [Shape(*size) for size in sizes]

    return build((1, 2), (3, 4, 5))


def method_calls_with_keywords_and_stars():
    class C:
        def m(self, *args, **kwargs):
            return args, kwargs

    c = C()
    pair, options = (1, 2), {"x": 1}
    return c.m(a=1), c.m(*pair), c.m(**options), c.m(0, *pair, y=2, **options), c.m(1, 2, k=3)


def a_mapping_that_has_a_keyword_twice():
    class Twice:
        def keys(self):
            return ["x", "x"]

        def __getitem__(self, key):
            return 1

    def f(**kwargs):
        return kwargs

    return f(a=1, **Twice())


def names_that_are_no_strings():
    def pack(**kwargs):
        return kwargs

    names = {1: 2}
    return [
        error_of(lambda: pack(**names)),
        error_of(lambda: dict(**names)),
        error_of(lambda: int(**names)),
        error_of(lambda: {}.update(**names)),
    ]
