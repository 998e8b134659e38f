"""Effects on objects on both sides of breaks, and what the break sees of them."""

import torch

import framelift
from break_programs import RECORDS, Box, Slim, case, program, values

# What the break sees


@program
def break_sees_what_was_written_before():
    @framelift.disable
    def look(items, table, box, x):
        RECORDS.append((len(items), list(table), sorted(vars(box)), x.tolist()))

    def f(x, items, table, box):
        items.append(x * 2)
        table["a"] = 1
        box.value = x
        x.add_(1)
        look(items, table, box, x)
        items.pop()
        del table["a"], box.value
        x.sub_(1)
        look(items, table, box, x)
        return x * 2

    return f, [], {}, Box()


@program
def break_writes_what_is_read_after():
    @framelift.disable
    def write(items, table, box, x):
        items.append(7)
        table["a"] = 8
        box.value = 9
        x.mul_(2)

    def f(x, items, table, box):
        y = x * 2
        n = len(items) + len(table)
        write(items, table, box, x)
        return y + n + items[-1] + table["a"] + box.value, x + y, len(items)

    return f, [], {}, Box(value=0)


@program
def break_writes_to_new_objects():
    @framelift.disable
    def write(items, box):
        items.append(3)
        items[0] = None
        box.value = items
        return box

    def f(x):
        y = x * 2
        items, box = [y], Box(value=None)
        same = write(items, box)
        items.append(y + 1)
        return same is box, box.value is items, items, box

    return f


@program
def break_keeps_a_new_object():
    @framelift.disable
    def keep(where, what):
        where.append(what)

    def f(x, kept):
        items = [x * 2]
        keep(kept, items)
        items.append(x + 1)
        keep(kept, items)
        box = Box(items=items)
        keep(kept, box)
        box.last = x
        return items is kept[-2], kept[-1] is box

    return f, []


@program
def break_compares_identities():
    @framelift.disable
    def same(a, b):
        return a is b

    def f(x, items):
        y = x * 2
        alias, other = items, list(items)
        z = y
        return same(alias, items), same(other, items), same(y, z), same(x, y), same(items[0], other[0]), y + 1

    return f, [object]


@program
def break_calls_back():
    @framelift.disable
    def call(fn, *args):
        RECORDS.append("calling")
        return fn(*args)

    def f(x, log):
        y = x * 2

        def add(v):
            nonlocal y
            y = y + v
            log.append(v)
            return y

        a = call(add, 1)
        y = y * 2
        b = call(add, x)
        return a, b, y is b

    return f, []


@program
def break_sees_the_random_state():
    @framelift.disable
    def draw():
        return torch.rand(2)

    def f(x):
        a = torch.rand(3)
        b = draw()
        c = torch.rand(3) + x
        d = draw()
        return a, b, c, d, torch.randn(2)

    return f


# Attributes


@program(all)
def attributes_around_a_break(stop):
    def f(x, box):
        box.a = x * 2
        box.n += 1
        stop(x)
        box.b = box.a + box.n
        box.n += 1
        stop(x)
        del box.a
        return box.b - 1

    return f, Box(n=0)


@program
def same_attribute_is_written_many_times(stop):
    def f(x, box):
        for n in range(3):
            box.value = x * n
            stop(n)
            box.value = (box.value, n)
        old, box.value = box.value, x
        stop(x)
        return old, box.value is x

    return f, Box(value=None)


@program
def order_of_attribute_creation(stop):
    def f(x, box):
        box.z = x * 2
        stop(x)
        box.a = 1
        del box.first
        stop(x)
        box.m, box.first = 2, 3
        return list(vars(box)), box.z + 1

    return f, Box(first=0)


@program
def slots_are_written_and_deleted(stop):
    def f(x, s):
        s.a = x * 2
        stop(x)
        s.b = s.a
        del s.a
        stop(x)
        s.a = s.b + 1
        return s.a * 2, s.log

    return f, Slim(log=[])


@program
def setattr_hooks_in_order(stop):
    class Watched:
        def __init__(self):
            object.__setattr__(self, "log", [])

        def __setattr__(self, name, value):
            self.log.append(("set", name))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            self.log.append(("del", name))
            object.__delattr__(self, name)

    def f(x, w):
        w.a = x * 2
        stop(x)
        w.b = w.a + 1
        del w.a
        stop(x)
        setattr(w, "c", w.b)
        delattr(w, "b")
        return w.c, len(w.log)

    return f, Watched()


@program
def two_objects_swap_attributes(stop):
    def f(x, a, b):
        a.v, b.v = b.v, x * 2
        stop(x)
        a.v, b.v = b.v, a.v
        a.other, b.other = b, a
        stop(x)
        return a.other.other is a, a.v + 1

    return f, Box(v=1), Box(v=2)


@program
def same_object_under_two_names(stop):
    def f(x, a, b):
        a.v = x * 2
        stop(x)
        b.v = b.v + 1
        stop(x)
        return a.v is b.v, a is b, a.v - 1

    a, b = Box(v=0), Box(v=1)
    first, second, third = values()
    return case(f, calls=[(first, a, a), (second, a, b), (third, b, b)])
