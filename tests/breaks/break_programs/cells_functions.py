"""Functions and classes made on one side of a break and used on the other."""

import functools

import torch

from break_programs import Box, case, program


@program
def function_calls_itself_through_its_cell(stop):
    def f(x):
        def down(n, v):
            return v if n == 0 else down(n - 1, stop(v) + n)

        y = x * 2
        stop(y)
        return down(3, y)

    return f


@program
def functions_call_each_other_through_cells(stop):
    def f(x):
        def even(n):
            return x * n if n == 0 else odd(n - 1) + 1

        stop(x)

        def odd(n):
            return x if n == 0 else even(n - 1) * 2

        stop(x)
        return even(4), odd(3)

    return f


@program
def lambdas_in_a_list(stop):
    def f(x):
        steps = [lambda v: v + 1, lambda v: stop(v) * 2, torch.relu, lambda v, k=x: v - k]
        for step in steps:
            x = step(x)
            stop(x)
        return x, len(steps)

    return f


@program
def late_and_early_binding(stop):
    def f(x):
        late = [lambda: x * n for n in range(3)]
        early = [lambda n=n: x * n for n in range(3)]
        stop(x)
        x = x + 1
        return [g() for g in late], [g() for g in early]

    return f


@program
def default_values_are_kept(stop):
    def f(x):
        y, items = x * 2, []

        def add(v, w=y, *, into=items):
            into.append(v + w)
            return into

        add(1)
        stop(y)
        y = None
        add(2)
        stop(y)
        return add(3) is items, items, add.__defaults__, add.__kwdefaults__

    return f


@program
def attributes_of_an_inner_function(stop):
    def f(x):
        def g(v):
            g.calls += 1
            return v * g.calls

        g.calls, g.weight = 0, x * 2
        stop(x)
        a = g(x)
        stop(a)
        return a + g(g.weight), g.calls, vars(g)

    return f


@program
def functions_are_returned(stop):
    def f(x):
        y = x * 2
        count = 0

        def g(v):
            nonlocal count
            count += 1
            return v + y * count

        stop(y)
        y = y + 1
        return g, lambda: count

    def used(pair):
        g, count = pair
        return g(1), g(2), count()

    return case(f, then=used)


@program
def function_returned_before_a_break_elsewhere(stop):
    def f(x, kept):
        y = x * 2
        kept.append(lambda v: stop(v) + y)
        stop(y)
        y = y - 1
        return [g(x) for g in kept]

    return f, []


@program
def returned_function_shares_its_cell_with_a_stored_one(stop):
    def f(x, box):
        value = x * 2

        def put(v):
            nonlocal value
            value = v

        box.put = put
        stop(value)
        return lambda: value

    def used(get):
        return get(), get.__closure__[0].cell_contents is get()

    return case(f, Box(put=None), then=used)


@program
def stored_functions_are_called_in_later_calls(stop):
    def f(x, box):
        if box.step is not None:
            x = box.step(x)
        scale = x.shape[0]

        def step(v):
            nonlocal scale
            scale += 1
            return stop(v) * scale

        stop(x)
        box.step = step
        return step(x) + 1

    return f, Box(step=None)


@program
def partial_and_bound_methods_across(stop):
    class Thing:
        def __init__(self, v):
            self.v = v

        def go(self, w, *, by=1):
            return self.v * by + w

    def f(x):
        t = Thing(x * 2)
        go, part = t.go, functools.partial(t.go, by=3)
        stop(t)
        t.v = t.v + 1
        stop(go)
        return go(x), part(1), go.__self__ is t, part.func.__self__ is t

    return f


@program
def decorated_inner_functions(stop):
    def counted(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            wrapper.calls += 1
            return fn(*args)

        wrapper.calls = 0
        return wrapper

    def f(x):
        @counted
        def double(v):
            return v * 2

        a = double(x)
        stop(a)
        b = double(a)
        stop(double)
        return a, b, double.calls, double.__name__, double.__wrapped__(x)

    return f


@program
def class_with_methods_made_before(stop):
    def f(x):
        scale = x * 2

        class Thing:
            made = []

            def __init__(self, v):
                self.v = v
                self.made.append(self)

            def go(self):
                return self.v * scale

            @property
            def double(self):
                return self.go() * 2

            @classmethod
            def count(cls):
                return len(cls.made)

        t = Thing(x)
        stop(t)
        scale = scale + 1
        u = Thing(t.go())
        stop(u)
        return t.double, u.go(), Thing.count(), t in Thing.made

    return f


@program
def recursion_with_an_accumulator_in_a_cell(stop):
    def f(x):
        seen = []

        def walk(n):
            seen.append(x * n)
            if n:
                stop(n)
                walk(n - 1)
                seen.append(n)

        walk(3)
        stop(x)
        return seen

    return f


@program
def y_combinator(stop):
    def f(x):
        fix = lambda g: (lambda h: h(h))(lambda h: g(lambda n: h(h)(n)))
        power = fix(lambda again: lambda n: stop(x) if n == 0 else again(n - 1) * 2)
        return power(3) + 1

    return f
