"""Cells that live on both sides of a break."""

import torch

import framelift
from break_programs import case, halt, program, values


@program(all)
def function_made_before_and_called_after(stop):
    def f(x):
        y = x * 2

        def add(v):
            return v + y

        stop(y)
        return add(x) - 1

    return f


@program
def cell_is_written_before_and_after(stop):
    def f(x):
        y = x * 2
        get = lambda: y
        stop(y)
        a = get()
        y = y + 1
        stop(y)
        b = get()
        y = None
        return a, b, get()

    return f


@program
def cell_is_shared_by_several_functions(stop):
    def f(x):
        total = x * 2

        def get():
            return total

        def add(v):
            nonlocal total
            total = total + v

        def reset():
            nonlocal total
            total = x

        add(1)
        stop(total)
        add(x)
        a = get()
        stop(a)
        reset()
        total = total * 3
        return a, get(), total is get()

    return f


@program
def cell_is_written_by_the_breaking_function():
    def f(x):
        total = x * 2

        @framelift.disable
        def bump():
            nonlocal total
            total = total + 1
            return total

        a = bump()
        total = total * 2
        b = bump()
        return a, b, total is b

    return f


@program
def cell_is_written_from_both_sides_in_a_loop(stop):
    def f(x):
        n = 0

        def step(v):
            nonlocal n
            n += 1
            return stop(v) * n

        for _ in range(3):
            x = step(x)
            n += 10
        return x, n

    return f


@program
def argument_is_a_cell(stop):
    def f(x, n):
        def scaled(v):
            return v * n + x

        a = scaled(x)
        n += 1
        stop(a)
        b = scaled(a)
        x = None
        stop(b)
        n = 5
        x = a
        return b, scaled(b)

    return f, 2


@program
def unbound_cell_is_filled_after(stop):
    def f(x):
        get = lambda: later
        y = x * 2
        stop(y)
        try:
            get()
        except NameError as error:
            y = y + len(str(error))
        later = y
        stop(y)
        return get() is y, y

    return f


@program
def cell_is_deleted(stop):
    def f(x):
        y = x * 2
        get = lambda: y
        kept = y
        del y
        stop(kept)
        try:
            return get()
        except NameError as error:
            y = kept + 1
            return str(error), get()

    return f


@program
def cells_are_bound_on_some_paths_only():
    def f(x):
        get = lambda: y
        if x.sum() > 0:
            y = x * 2
        halt(x)
        try:
            return get() + 1
        except NameError as error:
            return str(error), x - 1

    return f


@program
def locals_are_bound_on_some_paths_only(stop):
    def f(x, flag):
        if flag:
            y = x * 2
        stop(x)
        z = x + 1
        if not flag:
            y = z
        stop(z)
        return y - 1

    a, b, c = values()
    return case(f, calls=[(a, True), (b, False), (c, True)])


@program
def unbound_local_after_the_break(stop):
    def f(x, flag):
        y = x * 2
        if flag:
            del y
        stop(x)
        return y + 1

    a, b, c = values()
    return case(f, calls=[(a, False), (b, True), (c, False)])


@program
def nested_cells_three_deep(stop):
    def f(x):
        a = x * 2

        def middle():
            b = a + 1

            def inner():
                nonlocal a, b
                b = b * 2
                stop(b)
                a = a + b
                return a

            r = inner()
            stop(r)
            return r + b, inner

        r, inner = middle()
        stop(a)
        return r, a, inner()

    return f


@program
def free_variables_of_the_function_under_test(stop):
    weight, seen = torch.ones(3), []

    def f(x):
        nonlocal weight
        seen.append(x * weight)
        weight = weight + 1
        stop(x)
        y = x * weight
        weight = y.detach()
        return y, len(seen)

    return f


@program
def free_variable_is_shared_with_another_function(stop):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return count

    def f(x):
        nonlocal count
        y = x * bump()
        stop(y)
        count += 10
        return y + bump(), count

    return f


@program
def cell_of_the_class(stop):
    def f(x):
        class Thing:
            def name(self):
                return __class__.__name__

            def go(self, v):
                stop(v)
                return v * 2, __class__ is type(self)

        t = Thing()
        y = x + 1
        stop(y)
        return t.go(y), t.name()

    return f


@program
def cells_hold_containers(stop):
    def f(x):
        items, table = [x * 2], {"k": x}

        def put(v):
            items.append(v)
            table[len(items)] = v

        put(x + 1)
        stop(x)
        put(items[0])
        items.append(None)
        stop(items)
        put(3)
        return items, table, items[0] is items[2]

    return f


@program
def cell_is_empty_now_and_then(stop):
    def f(x, log, counts):
        for cell in range(counts.pop()):
            log.append((lambda: cell)())
        stop(x)
        log.append("cell" in locals())
        return x * 2

    return f, [], [0, 0, 1]
