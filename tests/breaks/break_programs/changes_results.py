"""What breaking calls return, call back, and whether things stay the same objects."""

import contextlib

import torch

import framelift
from break_programs import RECORDS, Box, Hidden, Trouble, program

# Results of breaks


@program
def result_is_of_another_kind_each_time():
    kept = Hidden(results=iter([2, 2.5, torch.ones(3), True, torch.ones(1, 3), 3]))

    @framelift.disable
    def pick():
        return next(kept.results)

    def f(x):
        y = x * 2
        a = pick()
        b = pick()
        return y * a + b, type(a), isinstance(b, torch.Tensor)

    return f


@program
def result_is_sometimes_none():
    @framelift.disable
    def found(v):
        return v + 1 if v.sum() > 0 else None

    def f(x):
        y = x * 2
        r = found(y)
        if r is None:
            return y - 1
        return r * 2

    return f


@program
def result_has_another_shape_each_time():
    @framelift.disable
    def positive(v):
        return v[v > 0]

    def f(x):
        y = x * 2
        p = positive(y)
        q = p * 2
        return q, q.shape, len(p), y + 1

    return f


@program
def result_is_an_argument():
    @framelift.disable
    def same(v):
        return v

    def f(x, items, box):
        again, thing, y = same(items), same(box), same(x)
        items.append(x * 2)
        again.append(1)
        thing.a = 1
        box.b = thing.a + 1
        y.add_(1)
        return again is items, thing is box, y is x, x * 2

    return f, [], Box()


@program
def result_is_a_part_of_an_argument():
    @framelift.disable
    def part(box):
        return box.items

    def f(x, box):
        box.items.append(x * 2)
        items = part(box)
        items.append(1)
        box.items[0] = None
        box.items = part(box) + [2]
        items.append(3)
        return items is box.items, len(items), x + 1

    return f, Box(items=[])


@program
def result_is_a_new_object_of_before():
    kept = []

    @framelift.disable
    def keep(v):
        kept.append(v)
        return kept[0]

    def f(x):
        del kept[:]
        first = [x * 2]
        a = keep(first)
        b = keep([1])
        first.append(x + 1)
        return a is first, b is a, b, len(kept)

    return f


@program
def result_is_a_view_of_a_local():
    @framelift.disable
    def head(v):
        return v[:2]

    def f(x):
        y = x * 2
        h = head(y)
        h.add_(1)
        z = y * 2
        y.zero_()
        return h, z, y

    return f


@program
def result_is_an_iterator_or_a_generator():
    @framelift.disable
    def numbers(n):
        return (i * i for i in range(n))

    @framelift.disable
    def pairs(items):
        return enumerate(items)

    def f(x):
        y = x * 2
        g, p = numbers(5), pairs("abc")
        y = y + next(g) + next(g)
        a = next(p)
        for n in g:
            y = y + n
            if n > 4:
                break
        return y, a, list(p), list(g)

    return f


@program
def result_is_a_function():
    @framelift.disable
    def make(n):
        count = 0

        def step(v):
            nonlocal count
            count += n
            return v + count

        return step

    def f(x):
        step = make(2)
        y = step(x * 2)
        other = make(3)
        return step(y), other(y), step(other(x))

    return f


@program
def result_is_a_class_or_a_module():
    @framelift.disable
    def kind(name):
        return {"box": Box, "module": torch}[name]

    def f(x):
        y = x * 2
        made = kind("box")(v=y)
        return made, kind("module").relu(made.v) + 1, type(made) is Box

    return f


@program
def results_are_equal_but_not_the_same():
    @framelift.disable
    def fresh():
        return [1]

    def f(x):
        y = x * 2
        a, b = fresh(), fresh()
        a.append(y)
        return a == b, a is b, b, len(a)

    return f


# Calls back


@program
def break_calls_the_compiled_function_again():
    def f(x, n=2):
        y = x * n
        z = again(y, n - 1) if n else y
        return z + y

    g = framelift.compile(f, backend="eager")

    @framelift.disable
    def again(y, n):
        RECORDS.append(n)
        return g(y, n)

    return f


@program
def break_calls_a_closure_that_breaks(stop):
    @framelift.disable
    def twice(fn):
        return fn() + fn()

    def f(x):
        n = 0

        def step():
            nonlocal n
            n += 1
            return stop(x) * n

        a = twice(step)
        n += 10
        return a, twice(step), n

    return f


@program
def break_drains_a_generator_that_breaks(stop):
    @framelift.disable
    def drain(rows):
        return [next(rows), next(rows)]

    def f(x):
        n = 0

        def rows():
            nonlocal n
            while True:
                n += 1
                yield stop(x * n)

        g = rows()
        first = next(g)
        middle = drain(g)
        n += 10
        return first, middle, next(g), drain(g)

    return f


@program
def break_enters_and_leaves_a_manager_of_the_function(stop):
    @framelift.disable
    def inside(manager):
        with manager as value:
            return value + 1

    def f(x, log):
        @contextlib.contextmanager
        def manager(v):
            log.append("in")
            yield stop(v)
            log.append("out")

        a = inside(manager(x * 2))
        b = inside(manager(a))
        return a, b, len(log)

    return f, []


@program
def break_throws_into_a_generator_of_the_function(stop):
    @framelift.disable
    def throw(g):
        return g.throw(Trouble("thrown", 3))

    def f(x, log):
        def rows():
            y = x * 2
            while True:
                try:
                    yield y
                except Trouble as error:
                    log.append(stop(error.code))
                    y = y + error.code

        g = rows()
        a = next(g)
        b = throw(g)
        return a, b, next(g)

    return f, []


# Identity


@program
def identity_of_immutable_locals(stop):
    def f(x):
        number, text, data, real, pair = (
            x.numel() + 10**20,
            "a" * x.numel(),
            bytes(x.numel()),
            x.numel() / 7,
            (x, 1),
        )
        others = number, text, data, real, pair
        y = x * 2
        stop(y)
        same = number is others[0], text is others[1], data is others[2], real is others[3], pair is others[4]
        return same, y + 1

    return f


@program
def identity_of_results_and_locals(stop):
    def f(x):
        items = [x * 2]
        a = stop(items)
        b = [items, a]
        c = stop(b)
        return a is items, c is b, c[0] is c[1], x + 1

    return f


@program
def identity_of_cells(stop):
    def f(x):
        y = x * 2
        a, b = (lambda: y), (lambda: y + 1)
        cell = a.__closure__[0]
        stop(y)
        same = cell is b.__closure__[0]
        cell.cell_contents = x + 5
        return same, a(), b(), y

    return f


@program
def order_of_sets(stop):
    def f(x):
        a = {8}
        a.add(0)
        a |= {16, 1}
        b = {16, 0, 8}
        b.discard(16)
        y = x * 2
        stop(y)
        a.add(24)
        return list(a), list(b), [y * n for n in b]

    return f


@program
def set_with_a_history(stop):
    def f(x, s):
        for n in (40, 8, 0, 16):
            s.add(n)
        s.discard(40)
        stop(x)
        s.add(32)
        return list(s), [x * n for n in s]

    return f, {24}
