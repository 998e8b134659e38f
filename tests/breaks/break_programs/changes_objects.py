"""Breaks after which objects are not as they were: what was known of them must not be relied on."""

import copy
import types

import torch

import framelift
from break_programs import Box, Keywords, Trouble, case, halt, program, values

# Changes to objects


@program
def length_and_contents_change():
    @framelift.disable
    def edit(items, table):
        items.extend([1, 2])
        table["new"] = table.pop("old")

    def f(x, items, table):
        n, had = len(items), "old" in table
        y = x * (n + had + 1)
        table["old"] = y
        edit(items, table)
        return y + len(items), "old" in table, table["new"] is y

    return f, [], {"old": 0}


@program
def class_of_an_object_changes():
    class Loud(Box):
        def go(self, v):
            return v * 10

    class Quiet(Box):
        def go(self, v):
            return v + 1

    @framelift.disable
    def turn(thing):
        thing.__class__ = Loud

    def f(x):
        t = Quiet(n=1)
        a = t.go(x)
        turn(t)
        b = t.go(a)
        return a, b, type(t) is Loud, t.n

    return f


@program
def method_of_a_class_changes():
    class Thing:
        def go(self, v):
            return v + 1

    @framelift.disable
    def patch(by):
        Thing.go = lambda self, v: v * by
        Thing.extra = by

    def f(x):
        t = Thing()
        a = t.go(x)
        patch(3)
        b = t.go(x)
        patch(5)
        return a, b, t.go(x) + t.extra

    return f


def _scale(v):
    return v * 2


WEIGHT = 2.0


@program
def globals_change():
    @framelift.disable
    def patch(fn, weight):
        global _scale, WEIGHT
        _scale, WEIGHT = fn, weight

    def f(x):
        a = _scale(x) * WEIGHT
        patch(lambda v: v + 1, 3.0)
        b = _scale(x) * WEIGHT
        patch(torch.relu, torch.ones(3))
        return a, b, _scale(x) * WEIGHT

    return f


@program
def builtin_is_hidden_by_a_global():
    @framelift.disable
    def hide():
        globals()["len"] = lambda v: 100

    @framelift.disable
    def show():
        del globals()["len"]

    def f(x):
        a = x * len("ab")
        hide()
        b = x * len("ab")
        show()
        return a, b, x * len("ab")

    return f


@program
def defaults_of_functions_change():
    def scaled(v, by=2, *, plus=0):
        return v * by + plus

    @framelift.disable
    def patch(by):
        scaled.__defaults__ = (by,)
        scaled.__kwdefaults__ = {"plus": by}

    def f(x, n=1):
        a = scaled(x)
        patch(n + 3)
        f.__defaults__ = (n + 1,)
        return a, scaled(x), n

    return f


@program
def code_of_a_function_changes():
    def f(x):
        def g(v):
            return v + 1

        def h(v):
            return v * 5

        a = g(x)
        halt(a)
        g.__code__ = h.__code__
        halt(a)
        return a, g(x)

    return f


@program
def attributes_appear_and_vanish():
    @framelift.disable
    def edit(box, n):
        if n % 2:
            box.extra = n
            del box.base
        else:
            box.base = n
            box.__dict__.pop("extra", None)

    def f(x, box):
        y = x * box.base
        edit(box, 1)
        z = y + box.extra + hasattr(box, "base")
        edit(box, 2)
        return z * box.base, hasattr(box, "extra")

    return f, Box(base=3)


@program
def list_that_is_being_iterated_changes():
    items = []

    @framelift.disable
    def edit(n):
        if n == 1:
            items.append(7)
        elif n == 2:
            items.pop(0)

    def f(x):
        items[:] = [1, 2, 3]
        y = x * 2
        for n in items:
            y = y + n
            edit(n)
        return y, items

    return f


@program
def dictionary_that_is_being_iterated_changes():
    table = {}

    @framelift.disable
    def edit():
        table[len(table)] = 1

    def f(x):
        table.clear()
        table["a"] = x * 2
        y = x
        for key, value in table.items():
            y = y + value
            edit()
        return y

    return f


@program
def keyword_dictionary_changes():
    @framelift.disable
    def edit(table):
        table["by"] = table["by"] + 1

    def scaled(v, by):
        return v * by

    def f(x, **options):
        a = scaled(x, **options)
        edit(options)
        return a, scaled(x, **options), options

    return case(f, calls=[(x, Keywords(by=n)) for n, x in enumerate(values())])


@program
def cells_change():
    def f(x):
        y, n = x * 2, 1

        @framelift.disable
        def edit():
            nonlocal y, n
            y = y.view(1, 3)
            n = "text" if n == 1 else 2.5

        a = y + n
        edit()
        b = y * len(n)
        edit()
        return a, b, y + n, y.shape

    return f


# Recompiling


@program
def more_recompilations_than_the_limit(stop):
    def f(x, n):
        y = x * n
        stop(y)
        z = y + n
        stop(z)
        return z * n

    x = values()[0]
    return case(f, calls=[(x + n, n) for n in range(12)])


@program
def both_ways_at_every_branch():
    def f(x, flag):
        y = x * 2 if flag else x * 3
        if y.sum() > 0:
            y = y + 1
        if flag:
            halt(y)
            y = y * 2
        if y[0] < 0:
            y = -y
        return y if not flag else y - 1

    return case(f, calls=[(x, flag) for flag in (True, False) for x in values()])


@program
def names_are_bound_one_after_the_other(stop):
    def f(x):
        for n in range(3):
            if n:
                x = x + previous
                stop(previous)
                del previous
            previous = x * n
            stop(n)
        return x, previous

    return f


@program
def fails_first_and_works_later():
    tries = []

    @framelift.disable
    def flaky(v):
        tries.append(1)
        if len(tries) == 1:
            raise Trouble("the first time")
        return v * 2

    def f(x, log):
        y = x + 1
        log.append(y)
        z = flaky(y)
        log.append(z)
        return z - 1

    return f, []


@program
def same_code_different_functions(stop):
    def make(n):
        def step(v):
            w = v * n
            stop(w)
            return w + n

        return step

    def f(x):
        a, b = make(2), make(3)
        y = a(b(x))
        stop(y)
        return b(a(y)), a.__code__ is b.__code__

    return f


@program
def copies_with_breaks_inside(stop):
    class Thing:
        def __init__(self, v):
            self.v = v

        def __copy__(self):
            return Thing(stop(self.v) + 1)

        def __deepcopy__(self, memo):
            return Thing(stop(copy.deepcopy(self.v, memo)) * 2)

        def __getstate__(self):
            return stop({"v": self.v})

    def f(x):
        t = Thing(x * 2)
        shallow, deep = copy.copy(t), copy.deepcopy([t, t])
        return shallow.v, deep[0].v, deep[0] is deep[1]

    return f


@program
def attributes_of_a_module_by_function(stop):
    module = types.ModuleType("lazy")
    module.__getattr__ = lambda name: stop(len(name))

    def f(x, m):
        y = x * m.abc
        m.abc = 5
        return y + m.abc, m.other, y - 1

    return f, module


@program
def class_subscripts_and_prepared_namespaces(stop):
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return {"prepared": stop(3)}

    class Typed(metaclass=Meta):
        def __class_getitem__(cls, item):
            return stop(item)

    def f(x):
        y = x * Typed[2]

        class Other(metaclass=Meta):
            doubled = prepared * 2

        return y + Other.doubled, Other.prepared, y - 1

    return f


@program
def compiled_generator_function(stop):
    def f(x):
        y = x * 2
        yield y
        stop(y)
        yield y + 1

    return case(f, then=list)


@program
def compiled_coroutine_function(stop):
    async def f(x):
        y = x * 2
        stop(y)
        return y + 1

    def driven(coroutine):
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        finally:
            coroutine.close()

    return case(lambda x: driven(f(x)))
