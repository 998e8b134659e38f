"""Language reference: simple statements (7)."""

from __future__ import annotations

from conformance_programs import error_of, program

_count = 0
_settings = {"level": 1}


@program
def assignment_to_many_targets(x):
    a = b = [x]
    (c, d), *e = (1, 2), 3, 4
    [f, [g]] = "ab", "c"
    h, *i, j = range(5)
    *k, l = [x]  # noqa: E741
    a[0:0] = [1]
    return x + 1, a is b, c, d, e, f, g, h, i, j, k, l, b


@program(given=lambda: ([1, 2, 3], (4, 5), "ab", {"k": 1, "l": 2}))
def unpacking_what_is_given(x, a, b, c, d):
    p, *q = a
    r, s = b
    t, u = c
    v, w = d
    return x + p, q, r, s, t, u, v, w


@program
def unpacking_errors(x):
    def few():
        a, b = [1]

    def many():
        a, b = 1, 2, 3

    def starred():
        a, b, *c = [1]

    def not_iterable():
        a, b = 3

    return x + 1, error_of(few), error_of(many), error_of(starred), error_of(not_iterable)


@program
def unpacking_tensors(x):
    a, b, c = x
    d, *e = x
    return a + b, c, d, e, error_of(lambda: _two(x))


def _two(x):
    a, b = x


@program
def augmented_assignment(x):
    n, s, t, b = 7, "a", (1,), 0b1100
    n += 1
    n -= 2
    n *= 3
    n //= 2
    n %= 7
    n **= 2
    s += "b"
    s *= 2
    t += (2,)
    b >>= 1
    b <<= 2
    b |= 1
    b &= 0b1111
    b ^= 2
    f = 3.0
    f /= 2
    lists = first = [1]
    lists += [x]
    lists *= 2
    y = x
    y = y + 1
    return n, s, t, b, f, lists, first is lists, y


@program
def augmented_assignment_changes_tensors_in_place(x):
    y = x * 1
    z = y
    y += 1
    y *= 2
    return y, z is y


@program
def an_error_in_an_augmented_assignment_to_a_tuple(x):
    t = ([1],)

    def change():
        t[0] += [2]

    return x + 1, error_of(change), t


@program
def annotated_assignment(x):
    a: int = 3
    b: list[int]
    c: "nonsense" = 4  # noqa: F821

    class C:
        d: int = 5
        e: str

    return x + a + c, C.__annotations__, C.d, error_of(lambda: b)


@program
def assertions(x):
    def failing(v):
        assert v, ("message", v)

    assert x.ndim == 1, "not reached"
    return x + 1, error_of(failing, 0), error_of(failing, 1), error_of(lambda: _plain_assert())


def _plain_assert():
    assert False  # noqa: B011, PT015


@program
def passing(x):
    pass
    return x + 1


@program(given=lambda: ([1, 2, 3, 4], {"a": 1, "b": 2}))
def deleting(x, items, names):
    a, b = 1, 2
    del a, b
    if items:
        del items[0], items[1:2]
    names.pop("b", None)
    if "a" in names:
        del names["a"]
    return x + len(items), error_of(lambda: a), error_of(lambda: items[9])


@program
def deleting_what_is_not_there(x):
    def local():
        del v
        v = 1  # noqa: F841

    def item():
        del {}["a"]

    def attribute():
        del object().a

    def name():
        global _nowhere
        del _nowhere

    return x + 1, error_of(local), error_of(item), error_of(attribute), error_of(name)


@program
def returning(x):
    def nothing():
        return

    def early(n):
        for i in range(n):
            if i == 2:
                return i, x
        return "end"

    def last():
        try:
            return 1
        finally:
            seen.append("finally")

    seen = []
    return x + 1, nothing(), early(5), early(1), last(), seen


@program
def raising(x):
    def plain():
        raise ValueError

    def made():
        raise ValueError("a", 1)

    def caused():
        try:
            raise KeyError("k")
        except KeyError as error:
            raise ValueError("v") from error

    try:
        caused()
    except ValueError as error:
        cause = repr(error.__cause__), repr(error.__context__), error.__suppress_context__
    return x + 1, error_of(plain), error_of(made), cause


@program
def breaking_and_continuing(x):
    seen = []
    for i in range(6):
        if i == 1:
            continue
        if i == 4:
            break
        seen.append(i)
    else:
        seen.append("no")
    while True:
        seen.append("once")
        break
    for i in range(2):
        for j in range(3):
            if j == 1:
                break
            seen.append((i, j))
        else:
            seen.append("no")
    return x + len(seen), seen


@program
def break_and_continue_run_finally(x):
    seen = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 2:
                break
        finally:
            seen.append(i)
    return x + 1, seen


@program
def imports_inside(x):
    import math
    import os.path
    import os.path as path
    from collections import OrderedDict, abc
    from math import floor as down

    return x + down(1.5), math.pi, path is os.path, OrderedDict.__name__, abc.Sized.__name__


@program
def importing_what_is_not_there(x):
    def name():
        from math import nope  # noqa: F401

    return x + 1, error_of(name)


@program
def global_names(x):
    global _count
    before = _count
    _count += 1
    inside = _count
    _count = 0
    _settings["level"] += 0
    return x + inside, before, _settings["level"]


@program
def global_names_are_made_and_deleted(x):
    global _made
    _made = x
    found = _made
    del _made
    return found + 1, error_of(lambda: _made)


@program
def nonlocal_names(x):
    total = x

    def add(n):
        nonlocal total
        total = total + n
        return total

    def deep():
        def deeper():
            nonlocal total
            total = total * 2

        deeper()

    add(1)
    deep()
    return total, add(3)


@program
def expression_statements(x):
    seen = []
    seen.append(1)
    x + 1
    "text"
    ...
    seen.append
    lambda: seen.append(9)
    return x + len(seen)
