"""Breaks at definitions of functions and classes, and at names of every scope."""

import dataclasses
import functools
import sys
import types

import torch

import framelift
from break_programs import RECORDS, case, halt, program

# Definitions


@program
def function_defined_around_a_break(stop):
    def f(x):
        y = x * 2

        def before(v, scale=y):
            return v * scale + y

        stop(y)

        def after(v):
            return before(v) - y

        stop(y)
        return after(x), before.__defaults__[0] is y

    return f


@program
def decorators_that_break(stop):
    def twice(fn):
        stop(1)

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return stop(fn(*args, **kwargs)) * 2

        return wrapper

    def plus(n):
        stop(n)
        return lambda fn: lambda v: stop(fn(v)) + n

    def f(x):
        y = x * 2

        @twice
        @plus(stop(3))
        def inner(v):
            return v + y

        return inner(x), inner.__name__

    return f


@program
def class_defined_with_breaks_in_its_body(stop):
    def f(x):
        y = x * 2

        class Thing:
            """Made inside."""

            scale = stop(3)
            names = [stop(n) for n in range(2)]
            weight = y + 1
            stop(weight)

            def go(self, v):
                return v * self.scale + self.weight

        stop(y)
        return Thing().go(x), Thing.names, Thing.__doc__, Thing.__qualname__

    return f


@program
def class_defined_before_the_break_is_used_after(stop):
    def f(x):
        class Base:
            def __init__(self, v):
                self.v = v

            def go(self):
                return self.v * 2

        class Thing(Base):
            def go(self):
                return super().go() + 1

        t = Thing(x * 2)
        stop(t)
        u = Thing(t.v)
        return t.go() + u.go(), isinstance(t, Base), type(t) is Thing, type(t).__mro__[1] is Base

    return f


@program
def class_with_hooks_that_break(stop):
    class Meta(type):
        def __new__(meta, name, bases, names, **options):
            RECORDS.append((name, sorted(options)))
            stop(1)
            return super().__new__(meta, name, bases, names)

        def __init__(cls, name, bases, names, **options):
            super().__init__(name, bases, names)
            cls.made = stop(2)

        def __call__(cls, *args):
            stop(3)
            return super().__call__(*args)

    class Base(metaclass=Meta):
        def __init_subclass__(cls, **options):
            stop(4)

    def f(x):
        y = x * 2

        class Thing(Base, option=1):
            def __init__(self, v):
                self.v = v

        return Thing(y).v + Thing.made

    return f


@program
def dataclass_defined_inside(stop):
    def f(x):
        y = x * 2
        stop(y)

        @dataclasses.dataclass
        class Pair:
            a: torch.Tensor
            b: int = 2
            c: list = dataclasses.field(default_factory=list)

        p = Pair(y)
        stop(p.a)
        p.c.append(p.a + p.b)
        return p.c[0], dataclasses.replace(p, b=5).b, [field.name for field in dataclasses.fields(p)]

    return f


@program
def lambdas_that_break(stop):
    def f(x):
        y = x * 2
        g = lambda v, w=stop(y): stop(v) + w
        h = lambda: stop(y)
        return g(x), g(x, 1), h() + 1

    return f


@program
def annotations_in_the_function(stop):
    def f(x):
        y: torch.Tensor = x * 2
        stop(y)
        z: "Undefined"  # noqa: F821

        def inner(v: stop(int)) -> stop(str):
            return v + 1

        return inner(y), inner.__annotations__

    return f


# Names


COUNT = 0
LAST = None


@program
def global_statement_around_a_break():
    def f(x):
        global COUNT, LAST
        COUNT += 1
        y = x * COUNT
        LAST = y
        halt(y)
        COUNT += 10
        return LAST + COUNT, LAST is y

    return f


@program
def global_is_deleted_and_made_again():
    def f(x):
        global LAST
        y = x * 2
        del LAST
        halt(y)
        try:
            LAST
        except NameError as error:
            y = y + len(str(error))
        LAST = y
        return y + 1

    return f


@program
def global_is_changed_by_the_breaking_call():
    @framelift.disable
    def bump():
        global COUNT
        COUNT += 5

    def f(x):
        global COUNT
        COUNT += 1
        y = x * COUNT
        bump()
        z = y + COUNT
        COUNT *= 2
        return z, COUNT

    return f


@program
def namespace_of_its_own(stop):
    def f(x):
        global count, log
        count += 1
        log.append(x * count)
        stop(x)
        made = f"name{count}"
        globals()[made] = log[-1] + 1
        return globals()[made] * 2, len(log)

    namespace = {"__name__": __name__, "count": 0, "log": []}
    return case(types.FunctionType(f.__code__, namespace, "f", None, f.__closure__), state=namespace)


@program
def nonlocal_statement_around_a_break(stop):
    count, last = 0, None

    def f(x):
        nonlocal count, last
        count += 1
        last = x * count
        stop(x)
        count += 10
        last = last + 1
        return last * count

    return f


@program
def nonlocal_is_changed_by_the_breaking_call():
    count = 1

    @framelift.disable
    def bump():
        nonlocal count
        count += 1
        return count

    def f(x):
        nonlocal count
        y = x * count
        count += 10
        n = bump()
        z = y + count
        count += bump()
        return z, n, count

    return f


@program
def nonlocal_is_deleted(stop):
    held = None

    def f(x):
        nonlocal held
        held = x * 2
        stop(x)
        y = held + 1
        del held
        stop(y)
        try:
            return held
        except NameError as error:
            held = y
            return str(error), y

    return f


@program
def locals_and_names_after_a_break(stop):
    def f(x):
        y = x * 2
        stop(y)
        z = y + 1
        return sorted(locals()), sorted(vars()), locals()["z"] is z, f.__code__.co_name

    return f


@program
def eval_and_exec_see_the_locals(stop):
    def f(x):
        y = x * 2
        stop(y)
        z = eval("y + 1") + eval("a * 2", {"a": y})
        space = {"y": z}
        exec("w = y * 2", space)
        return space["w"] + z

    return f


@program
def frames_show_the_function():
    def f(x):
        y = x * 2
        before = sys._getframe().f_code.co_name, sys._getframe().f_lineno
        halt(y)
        frame = sys._getframe()
        z = y + 1
        return (
            before,
            frame.f_code.co_name,
            frame.f_lineno,
            sorted(frame.f_locals),
            frame.f_locals["y"] is y,
            z,
        )

    return f


@program
def frames_of_the_callers():
    def inner(v):
        w = v + 1
        halt(w)
        frame, found = sys._getframe(), []
        for _ in range(3):
            found.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
            frame = frame.f_back
        return found, w * 2

    def middle(v):
        u = v * 2
        return inner(u)

    def f(x):
        y = x * 2
        return middle(y)

    return f


@program
def code_of_a_module_shows_what_it_says_once(stop):
    def f(x):
        y = x * 2
        stop(y)
        exec(compile("{2 * n for n in (1, 2)}; [n for n in (3,)]", "<shown>", "single"), {})
        return y + 1

    return f
