"""Unpacking assignments and displays."""

from programs import error_of


def tuples_lists_and_nesting():
    a, b = 1, 2
    [c, d] = "xy"
    (e, (f, [g, h])) = (3, (4, [5, 6]))
    i = j = [7]
    (k,) = {8}
    return a, b, c, d, e, f, g, h, i is j, k


def swapping_and_rotating():
    a, b, c = 1, 2, 3
    a, b = b, a
    first = a, b, c
    a, b, c = c, a, b
    d, e, f, g = 1, 2, 3, 4
    d, e, f, g = g, f, e, d
    return first, (a, b, c), (d, e, f, g)


def starred_targets():
    a, *b = [1, 2, 3]
    *c, d = "xyz"
    e, *f, g = range(5)
    h, *i = (1,)
    (*j,) = {}
    k, (l, *m), *n = 1, (2, 3, 4), 5, 6
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n


def targets_are_assigned_left_to_right():
    class Box:
        def __setattr__(self, name, value):
            print("attribute", name, value)

        def __setitem__(self, key, value):
            print("item", key, value)

    box = Box()

    def get(label):
        print("target", label)
        return box

    get("a").x, get("b")["k"], *get("c").rest = (print("value") or i for i in range(4))
    i, items = 0, [10, 20]
    i, items[i] = 1, 99
    return i, items


def chained_assignment_evaluates_once_and_assigns_in_order():
    log = []

    class Log(dict):
        def __setitem__(self, key, value):
            log.append((key, value))

    d = Log()
    d["first"] = x, y = d["second"] = (1, 2)
    return log, x, y


def wrong_lengths():
    def two(v):
        a, b = v
        return a, b

    def three(v):
        a, b, c = v

    def star(v):
        a, *b, c = v
        return a, b, c

    return [
        error_of(two, (1,)),
        error_of(two, (1, 2, 3)),
        error_of(three, []),
        error_of(three, "abcd"),
        error_of(two, {}),
        error_of(star, [1]),
        error_of(star, ()),
        error_of(two, iter([1])),
        error_of(two, range(5)),
        star("ab"),
    ]


def unpacking_something_not_iterable():
    def two(v):
        a, b = v

    def star(v):
        a, *b = v

    return [
        error_of(two, 5),
        error_of(two, None),
        error_of(star, 5),
        error_of(two, lambda: 0),
        error_of(star, object),
    ]


def too_few_values_leave_the_program():
    first, second, *others, last = [1, 2]
    return first, second, others, last


def too_many_values_leave_the_program():
    first, second = "abc"
    return first, second


def unpacking_takes_only_as_much_as_it_needs_to_know():
    def g():
        for i in range(10):
            print("produced", i)
            yield i

    def two(v):
        a, b = v

    return error_of(two, g())


def an_exception_in_the_iterator_passes():
    def g():
        yield 1
        raise KeyError("in the iterator")

    def two(v):
        a, b = v

    def star(v):
        *a, b = v

    return error_of(two, g()), error_of(star, g())


def displays_with_stars():
    a, b = [1, 2], (3,)
    return [*a, *b, 4], (*a, *b), {*a, *b}, [*"ab", *range(2), *{9: 8}], (*(),), [*[*[*a]]]


def dict_displays_with_double_stars():
    a, b = {"x": 1, "y": 2}, {"y": 3}
    return {**a, **b}, {**b, **a}, {"y": 0, **a, "z": 9}, {**{}, **{1: 2}}, {**dict(q=1)}


def displays_with_stars_of_wrong_things():
    return [
        error_of(lambda: [*5]), error_of(lambda: {*None}), error_of(lambda: {**5}), error_of(lambda: {**[1]}),
        error_of(lambda: (*1.5,)), error_of(lambda: {*[[]]}),
    ]  # fmt: skip


def double_star_of_a_custom_mapping_in_a_display():
    class M:
        def keys(self):
            print("keys")
            return iter(["a", "b"])

        def __getitem__(self, key):
            print("get", key)
            return key * 2

    return {**M(), "c": 1}


def returning_and_yielding_with_stars():
    def f(*args):
        return 0, *args

    def g():
        yield *range(2), 9

    for x in *[1, 2], 3:
        pass
    return f(1, 2), list(g()), x


def subscripts_with_stars():
    class S:
        def __getitem__(self, key):
            return key

    t = (1, 2)
    return S()[*t], S()[0, *t, 3], S()[*t, *t]


def large_displays_of_constants():
    numbers = [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
    ]
    letters = {"a", "b", "c", "d"}
    table = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    x = 0
    mixed = {"a": x, "b": x + 1, "c": [x], "d": (x, x)}
    return sum(numbers), sorted(letters), table, mixed


def a_very_large_dict_display():
    source = "{" + ", ".join(f"'k{i}': x + {i}" for i in range(300)) + "}"
    d = eval(source, {"x": 1})
    return len(d), d["k0"], d["k299"]


def loop_and_argument_unpacking_together():
    records = [("ann", 3, "a", "b"), ("bob", 4), ("cyd", 5, "z")]

    def describe(name, age, *tags, sep="|"):
        return f"{name}:{age}:{sep.join(tags)}"

    return (
        [describe(*record) for record in records],
        {name: rest for name, *rest in records},
        [*zip(*[r[:2] for r in records])],
    )


def fibonacci_and_power_by_simultaneous_assignment():
    def fibonacci(n):
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        return a

    def power(x, n):
        result = 1
        while n:
            (result, n, x) = (result * x if n & 1 else result, n >> 1, x * x)
        return result

    def extended_gcd(a, b):
        (r0, r1), (s0, s1), (t0, t1) = (a, b), (1, 0), (0, 1)
        while r1:
            q = r0 // r1
            r0, r1 = r1, r0 - q * r1
            s0, s1 = s1, s0 - q * s1
            t0, t1 = t1, t0 - q * t1
        return r0, s0, t0

    return [fibonacci(n) for n in range(10)], power(3, 13), extended_gcd(240, 46)
