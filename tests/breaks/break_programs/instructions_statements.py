"""Breaks at statements: import, raise, assert, match, return, yield."""

import dataclasses
from pathlib import Path

import torch

from break_programs import RECORDS, Box, Trouble, case, fail, halt, program, values

# Imports


@program
def importing_a_new_module():
    def f(x):
        y = x * 2
        import fresh_numbers

        z = y + fresh_numbers.VALUE
        from fresh_numbers import scaled as s

        return s(z), fresh_numbers.uses

    Path("fresh_numbers.py").write_text(
        "VALUE = 3\nuses = []\nprint('imported')\ndef scaled(v):\n    uses.append(1)\n    return v * VALUE\n"
    )
    return f


@program
def importing_from_a_new_package():
    def f(x):
        y = x * 2
        import fresh_package.inner.deep as d
        from fresh_package import inner
        from fresh_package.inner import deep, one

        return y + one, d is deep, inner.deep is d, deep.two(y)

    folder = Path("fresh_package/inner")
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("one = 1\n")
    (folder / "deep.py").write_text("import torch\n\ndef two(v):\n    return torch.relu(v) * 2\n")
    return f


@program
def importing_what_is_not_there():
    def f(x, log):
        y = x * 2
        try:
            import there_is_no_such_module
        except ImportError as error:
            log.append(error.name)
        halt(y)
        try:
            from sys import no_such_name
        except ImportError as error:
            log.append(str(error)[:26])
        return y + 1

    return f, []


@program
def importing_a_module_that_raises():
    def f(x, log):
        y = x * 2
        log.append(y)
        import fresh_failure

        return y + 1

    Path("fresh_failure.py").write_text("import torch\nprint('begun')\nraise KeyError('in the module')\n")
    return f, []


@program
def known_imports_around_a_break(stop):
    def f(x):
        import math as m
        from os import path as p

        y = x * m.pi
        stop(y)
        import torch.nn.functional as functional

        return functional.relu(y) * m.e, p.join("a", "b")

    return f


# Raising and asserting


@program
def raise_with_a_breaking_argument(stop):
    def f(x, log):
        y = x * 2
        log.append(y)
        raise Trouble(stop("message"), stop(3))

    return f, []


@program
def raise_what_a_break_made(stop):
    def f(x):
        y = x * 2
        error = stop(ValueError("made before", y.shape[0]))
        y = y + 1
        raise error

    return f


@program
def raise_from_with_breaks(stop):
    def f(x, log):
        log.append(x * 2)
        raise stop(ValueError("outer")) from stop(KeyError("inner"))

    return f, []


@program
def assert_with_a_breaking_condition(stop):
    def f(x, log):
        y = x * 2
        assert stop(y.ndim) == 1
        log.append(y)
        assert stop(0), stop("the message")

    return f, []


@program
def assert_on_tensor_data():
    def f(x, log):
        y = x * 2
        log.append(y)
        try:
            assert y.sum() >= 0, f"negative: {y.sum().item()}"
        except AssertionError as error:
            log.append(str(error))
        return y + 1

    return f, []


@program
def raise_depends_on_data(stop):
    def f(x, log):
        y = x * 2
        if (y < 0).all():
            raise Trouble("all negative", int(y.sum()))
        log.append(y)
        stop(y)
        if y.sum() == 0:
            raise SystemExit(3)
        return y + 1

    return f, []


@program
def breaking_call_raises(stop):
    def f(x, log):
        y = x * 2
        log.append(y)
        stop(y)
        fail("from the call", 5)
        log.append("never")

    return f, []


# Match


@dataclasses.dataclass
class _Point:
    x: object
    y: object


@program
def match_with_breaking_subject(stop):
    def f(x):
        y = x * 2
        match stop([y, 1, 2]):
            case [a, *rest] if stop(rest):
                return a + 1, rest
            case _:
                return y

    return f


@program
def match_with_guards_on_data():
    def f(x):
        y = x * 2
        match (y, {"k": 3}):
            case (t, {"k": n}) if t.sum() > n:
                r = t + n
            case (t, {"k": n, **rest}) if t.sum() < 0:
                r = t - n, rest
            case (t, _) as pair:
                r = t * 3, len(pair)
        return r, y + 1

    return f


@program
def match_on_classes_and_constants(stop):
    def f(x):
        out = []
        for subject in (_Point(x * 2, 1), _Point(0, x), stop("word"), 3, None, [1, [2, x]]):
            match subject:
                case _Point(x=0, y=v):
                    out.append(stop(v) + 1)
                case _Point(v, y=1):
                    out.append(stop(v))
                case str() | None as s:
                    out.append((s, stop(x)))
                case int(n) if stop(n) == 3:
                    out.append(n)
                case [_, [2, t]]:
                    out.append(stop(t) * 2)
        return out

    return f


@program
def match_calls_properties_that_break(stop):
    class Thing:
        __match_args__ = ("first", "second")

        def __init__(self, v):
            self.v = v

        @property
        def first(self):
            RECORDS.append("first")
            return stop(self.v)

        @property
        def second(self):
            return stop(2)

    def f(x):
        match Thing(x * 2):
            case Thing(_, 3):
                return x
            case Thing(v, 2):
                return v + 1

    return f


@program
def match_of_a_number_from_data():
    def f(x):
        y = x * 2
        match int(y.sum()):
            case 12:
                y = y + 1
            case n if n < 0:
                y = y * n
            case 0 | 1:
                y = y - 5
        return y * 2

    return f


# Returning


@program
def return_of_a_breaking_expression(stop):
    def f(x):
        if x.ndim == 1:
            return stop(x * 2) + 1
        return stop(x)

    return f


@program
def return_in_branches_on_data():
    def f(x, log):
        y = x * 2
        if y.sum() > 0:
            log.append("positive")
            return
        log.append(y)
        if y.sum() < 0:
            return y, log
        return log[-1] + 1

    return f, []


@program
def return_of_what_was_passed(stop):
    def f(x, items):
        y = x * 2
        stop(y)
        return x, items, y

    return f, [1]


@program
def generator_is_drained_with_breaks(stop):
    def f(x):
        def numbers(n):
            for i in range(n):
                yield stop(x * i)
                stop(i)
            return "end"

        def all_of():
            end = yield from numbers(2)
            yield end

        return list(all_of()), sum(numbers(3)) + 1

    return f


@program
def coroutine_is_driven_by_hand(stop):
    class Wait:
        def __await__(self):
            got = yield "waiting"
            return stop(got)

    async def work(x):
        y = x * 2
        got = await Wait()
        stop(y)
        return y + got

    def f(x):
        coroutine = work(x)
        asked = coroutine.send(None)
        try:
            coroutine.send(3)
        except StopIteration as end:
            return asked, end.value * 2

    return f


@program
def conditional_definitions():
    def f(x):
        y = x * 2
        if y.sum() > 0:

            def g(v):
                return v + y
        elif y.sum() < 0:
            g = lambda v: v - y
        else:
            g = torch.relu
        halt(y)
        return g(x) + 1

    return f


@program
def while_true_with_break_on_data(stop):
    def f(x):
        n = 0
        while True:
            n += 1
            x = stop(x) + 1
            if x.sum() > 9 or n > 20:
                break
        return x * n

    return case(f, inputs=values())


@program
def star_expression_in_return_and_subscript(stop):
    def f(x):
        y = x * 2
        key = (1, stop(2))
        table = {(0, 1, 2): y}
        return *stop([y, 1]), table[0, *key], stop(3)

    return f


@program
def del_with_finalizers(stop):
    class Thing:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(f"gone {self.name}")

    log = []

    def f(x):
        a, b = Thing("a"), Thing("b")
        y = x * 2
        del a
        stop(y)
        b = Thing("c")
        stop(y)
        del b
        return y + 1

    return f


@program
def names_that_generated_code_may_use(stop):
    def f(graph, v0, i0, g0, self, resume, stack, *args, **kwargs):
        fn = frame = result = region = locals_ = cells = graph * 2
        _, __, __resume, stack0 = stop(1), 2, 3, v0
        torch_ = i0 + g0
        stop(graph)
        value = fn + frame + result + region + locals_ + cells
        return value, _, __, __resume, stack0, torch_, self, resume + 1, stack, args, kwargs

    return f, 1, 2, 3, Box(), 4, [5], 6


@program
def builtin_names_are_shadowed(stop):
    def f(x, print, len, type):
        list, iter, next, isinstance = x * 2, 1, 2, 3
        stop(list)
        tuple = list + iter
        return print, len, type, tuple, next, isinstance

    return f, 1, 2, 3
