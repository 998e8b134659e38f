"""Language reference: compound statements (8): if, while, for, try, with, match."""

from __future__ import annotations

import dataclasses

from conformance_programs import error_of, program


@program
def if_elif_else(x):
    def size(n):
        if n < 0:
            return "negative"
        elif n == 0:
            return "none"
        elif n < 10:
            return "few"
        else:
            return "many"

    return x + 1, [size(n) for n in (-1, 0, 5, 50)]


@program(given=lambda: ([], [1], None, "", {"k": 0}))
def truth_of_what_is_given(x, *values):
    return x + 1, ["yes" if value else "no" for value in values], [not value for value in values]


@program
def while_with_else(x):
    n, seen = 3, []
    while n:
        n -= 1
        seen.append(x * n)
    else:
        seen.append("else")
    while False:
        pass
    else:
        seen.append("at once")
    return seen


@program
def for_over_everything(x):
    seen = []
    for each in (
        [1],
        (2,),
        "c",
        b"d",
        {5: 6},
        {7},
        frozenset({8}),
        range(9, 10),
        iter([10]),
        (n for n in [11]),
    ):
        for item in each:
            seen.append(item)
    for a, (b, *c) in [(1, (2, 3, 4))]:
        seen.append((a, b, c))
    for row in x:
        seen.append(row)
    return x + len(seen), seen


@program
def the_variable_of_a_loop_stays(x):
    for i in range(3):  # noqa: B007
        pass
    for j in []:  # noqa: B007
        pass
    return x + i, error_of(lambda: j)


@program
def changing_what_is_iterated_over(x):
    items, seen = [1, 2, 3], []
    for item in items:
        seen.append(item)
        if item == 1:
            items.append(4)
            items.remove(2)

    def grow():
        names = {"a": 1}
        for name in names:
            names[name + "b"] = 2

    return x + 1, seen, items, error_of(grow)


@program(given=lambda: ({"a": 1, "b": 2}, {1, 2}, [3, 4]))
def loops_over_what_is_given(x, names, numbers, items):
    total = x
    for name, value in names.items():
        total = total + value
    for number in sorted(numbers):
        total = total * number
    for n, item in enumerate(reversed(items)):
        total = total + n * item
    return total, [k for k in names], list(zip(names, items, strict=True))


@program
def try_in_all_its_parts(x):
    def run(error):
        seen = []
        try:
            seen.append("try")
            if error:
                raise error
        except KeyError:
            seen.append("key")
        except (TypeError, ValueError) as caught:
            seen.append(type(caught).__name__)
        except Exception:
            seen.append("any")
        else:
            seen.append("else")
        finally:
            seen.append("finally")
        return seen

    return x + 1, [run(error) for error in (None, KeyError(), TypeError(), ValueError(), OSError())]


@program
def the_name_of_a_caught_error_is_gone(x):
    try:
        raise KeyError("k")
    except KeyError as error:
        text = str(error)

    def after():
        try:
            raise KeyError
        except KeyError as error:  # noqa: F841
            pass
        return error

    return x + 1, text, error_of(after)


@program
def errors_go_through_functions(x):
    def deep(n):
        if n == 0:
            raise LookupError(x.shape[0])
        return deep(n - 1)

    try:
        deep(3)
    except LookupError as error:
        return x + error.args[0]


@program
def finally_decides(x):
    def returns():
        try:
            raise KeyError
        finally:
            return "finally"  # noqa: B012

    def replaces():
        try:
            return 1
        finally:
            raise ValueError("v")

    def nested():
        seen = []
        try:
            try:
                raise KeyError("a")
            finally:
                seen.append(1)
        except KeyError:
            seen.append(2)
        finally:
            seen.append(3)
        return seen

    return x + 1, returns(), error_of(replaces), nested()


@program
def errors_within_handlers(x):
    def f():
        try:
            raise KeyError("a")
        except KeyError:
            try:
                raise ValueError("b")  # noqa: B904
            except ValueError as error:
                return repr(error.__context__), error.__cause__

    def g():
        try:
            raise KeyError("a")
        except KeyError:
            {}["missing"]

    return x + 1, f(), error_of(g)


class _Manager:
    def __init__(self, seen, swallow=False):
        self.seen, self.swallow = seen, swallow

    def __enter__(self):
        self.seen.append("enter")
        return self.seen

    def __exit__(self, kind, value, traceback):
        self.seen.append(kind and (kind.__name__, str(value), traceback is not None))
        return self.swallow


@program
def with_in_its_forms(x):
    seen = []
    with _Manager(seen) as same:
        same.append(x)
    with _Manager(seen, True):
        raise KeyError("swallowed")
    with _Manager(seen) as a, _Manager(seen) as b:
        a.append(a is b)
    with (
        _Manager(seen, True),
        _Manager(seen),
    ):
        raise ValueError("both see it")
    return x + len(seen), seen


@program
def with_lets_errors_pass(x):
    seen = []

    def f():
        with _Manager(seen):
            raise KeyError("k")

    def g():
        with _Manager(seen):
            return "returned"

    def h():
        for i in range(3):
            with _Manager(seen):
                if i == 1:
                    break
        return i

    return x + 1, error_of(f), g(), h(), seen


@program
def with_needs_a_manager(x):
    def f():
        with 3:
            pass

    def g():
        with object():
            pass

    return x + 1, error_of(f), error_of(g)[0]


@program(given=lambda: (_Manager([]),))
def with_what_is_given(x, manager):
    with manager as seen:
        seen.append(len(seen))
    return x + len(seen)


@program
def except_star(x):
    def run(*errors):
        seen = []
        try:
            if errors:
                raise ExceptionGroup("g", list(errors))
        except* KeyError as group:
            seen.append(("key", len(group.exceptions)))
        except* (TypeError, ValueError) as group:
            seen.append(("type", [type(e).__name__ for e in group.exceptions]))
        else:
            seen.append("else")
        finally:
            seen.append("finally")
        return seen

    def left():
        try:
            raise ExceptionGroup("g", [KeyError(1), OSError(2)])
        except* KeyError:
            pass

    def single():
        try:
            raise KeyError(1)
        except* KeyError as group:
            seen.append(len(group.exceptions))
        finally:
            seen.append("done")

    seen = []
    single()
    return x + 1, run(), run(KeyError(1), TypeError(2), KeyError(3)), error_of(left), seen


@dataclasses.dataclass
class _Point:
    x: object = 1
    y: object = 2


class _Shape:
    __match_args__ = ("kind", "size")

    def __init__(self, kind, size):
        self.kind, self.size = kind, size


def _matched(value):
    match value:
        case None | True:
            return "singleton"
        case -1 | 2.5 | "text" | b"bytes":
            return "literal"
        case []:
            return "empty"
        case [one]:
            return "one", one
        case [first, *_, 99]:
            return "ends with 99", first
        case (first, second, *rest):
            return "sequence", first, second, rest
        case {"kind": kind, "n": int(n) | str(n), **rest}:
            return "mapping", kind, n, rest
        case {"only": [a, b]} if a == b:
            return "guarded", a
        case {}:
            return "any mapping"
        case _Point(x=0, y=y):
            return "on the axis", y
        case _Point(1, y) as point:
            return "point", y, point.x
        case _Shape("square", size) if size > 1:
            return "large", size
        case _Shape(kind=kind):
            return "shape", kind
        case int(n) if n > 10:
            return "large number", n
        case int() | float() as number:
            return "number", number
        case str(text):
            return "string", text
        case _:
            return "anything"


_MATCHED = {
    "singletons": lambda: [None, True, False],
    "literals": lambda: [-1, 2.5, "text", b"bytes", 2, "other"],
    "sequences": lambda: [[], [1], [1, 2, 99], (1, 2), range(3), "ab", [1, [2], 3]],
    "mappings": lambda: [{"kind": "a", "n": 1, "m": 2}, {"kind": "b", "n": "s"}, {"kind": 1, "n": 1.5}, {}],
    "guards": lambda: [{"only": [1, 1]}, {"only": [1, 2]}, 11, 9],
    "classes": lambda: [
        _Point(0, 5),
        _Point(1, 6),
        _Point(7),
        _Shape("square", 2),
        _Shape("square", 1),
        1.5,
        object,
    ],
}


@program(given=lambda: (_MATCHED["singletons"](),))
def match_singletons(x, given):
    return x + 1, [_matched(value) for value in given], [_matched(value) for value in (None, True, 0)]


@program(given=lambda: (_MATCHED["literals"](),))
def match_literals(x, given):
    return x + 1, [_matched(value) for value in given], [_matched(value) for value in (-1, "text", 5)]


@program(given=lambda: (_MATCHED["sequences"](),))
def match_sequences(x, given):
    return x + 1, [_matched(value) for value in given], _matched([x]), _matched((x, 99)), _matched([1, x, 3])


@program(given=lambda: (_MATCHED["mappings"](),))
def match_mappings(x, given):
    return x + 1, [_matched(value) for value in given], _matched({"kind": x, "n": 3, "o": x})


@program(given=lambda: (_MATCHED["guards"](),))
def match_guards(x, given):
    return x + 1, [_matched(value) for value in given], _matched({"only": (2, 2)})


@program(given=lambda: (_MATCHED["classes"](),))
def match_classes(x, given):
    return x + 1, [_matched(value) for value in given], _matched(_Point(1, x)), _matched(_Shape(x, 3))


@program
def match_binds_only_where_it_succeeds(x):
    match [1, 2]:
        case [a, 3]:
            found = "no"
        case [_, b] if b > 5:
            found = "neither"
        case [_, b]:
            found = b
    return x + found, error_of(lambda: a)


@program
def match_errors(x):
    def positional():
        match 3:
            case int(1, 2):
                pass

    def unknown():
        match object():
            case _Shape(1, 2, 3):
                pass

    def too_many():
        match _Shape("a", 1):
            case _Shape(1, 2, 3):
                pass

    return x + 1, error_of(positional), error_of(unknown), error_of(too_many)


@program
def match_on_tensors(x):
    match x:
        case [a, b, c]:
            return "sequence"
        case y if y.ndim == 1:
            return y + 1
