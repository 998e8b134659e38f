"""Generators, iterators and coroutines that are advanced on both sides of a break."""

import itertools

from break_programs import RECORDS, Hidden, program


@program
def generator_made_before_and_drained_after(stop):
    def f(x):
        def numbers():
            for n in range(3):
                yield x * n

        g = numbers()
        stop(x)
        return list(g), next(g, "none")

    return f


@program
def generator_is_advanced_on_both_sides(stop):
    def f(x):
        def numbers():
            y = x * 2
            for n in range(5):
                y = y + n
                yield y

        g = numbers()
        a = next(g)
        b = next(g)
        stop(b)
        c = next(g)
        stop(c)
        return a, b, c, list(g)

    return f


@program
def generator_receives_on_both_sides(stop):
    def f(x):
        def total():
            sum_ = x * 0
            while True:
                got = yield sum_
                if got is None:
                    return
                sum_ = sum_ + got

        g = total()
        next(g)
        a = g.send(x)
        stop(a)
        b = g.send(1)
        stop(b)
        try:
            g.send(None)
        except StopIteration:
            return a, b

    return f


@program
def generator_is_closed_after_the_break(stop):
    def f(x, log):
        def numbers():
            try:
                yield x * 2
                yield x * 3
            finally:
                log.append("closed")

        g = numbers()
        y = next(g)
        stop(y)
        g.close()
        log.append(y)
        return y + 1

    return f, []


@program
def generator_writes_to_a_cell(stop):
    def f(x):
        count = 0

        def numbers():
            nonlocal count
            while True:
                count += 1
                yield x * count

        g = numbers()
        a = next(g)
        count += 10
        stop(a)
        b = next(g)
        return a, b, count

    return f


@program
def generator_is_returned_after_being_begun(stop):
    def f(x):
        def numbers():
            for n in range(4):
                yield x * n

        g = numbers()
        next(g)
        stop(x)
        next(g)
        return g

    return f


@program
def generator_is_stored_and_advanced_by_later_calls(stop):
    def f(x, box):
        def numbers(n):
            while True:
                n += 1
                yield x * n

        if box.numbers is None:
            box.numbers = numbers(0)
        a = next(box.numbers)
        stop(a)
        return a, next(box.numbers)

    return f, Hidden(numbers=None)


@program
def iterators_are_consumed_on_both_sides(stop):
    def f(x):
        items = iter([x, x * 2, x + 1, 4])
        pairs = zip("abc", items)
        numbered = enumerate(pairs, start=1)
        a = next(numbered)
        stop(x)
        b = next(numbered)
        stop(x)
        return a, b, list(numbered), list(items)

    return f


@program
def iterator_is_copied_by_tee(stop):
    def f(x):
        a, b = itertools.tee(x * n for n in range(4))
        first = next(a)
        stop(first)
        second = next(b)
        stop(second)
        return first is second, list(a), list(b)

    return f


@program
def lazy_map_is_evaluated_after_the_name_changed(stop):
    def f(x):
        scale = 2
        lazy = map(lambda v: v * scale, [x, x + 1])
        a = next(lazy)
        scale = 5
        stop(a)
        b = next(lazy)
        return a, b

    return f


@program
def generator_expression_closes_over_locals(stop):
    def f(x):
        n = 2
        rows = (x * n + m for m in range(4))
        a = next(rows)
        n = 3
        stop(a)
        b = next(rows)
        x = x + 100
        stop(b)
        return a, b, list(rows)

    return f


@program
def two_generators_in_step(stop):
    def f(x):
        def count(by):
            n = 0
            while n < 6:
                n += by
                yield stop(x * n) if by == 2 else x * n

        a, b = count(1), count(2)
        out = []
        for left in a:
            right = next(b, None)
            if right is None:
                break
            out.append(left + right)
            stop(left)
        return out, list(a)

    return f


@program
def iterator_over_a_list_that_changes_across_the_break(stop):
    def f(x, items):
        it = iter(items)
        a = next(it)
        items.insert(0, x * 2)
        stop(x)
        b = next(it)
        items.append(x)
        return a, b is a, list(it)[-1] is x

    return f, [1, 2]


@program
def dictionary_iterator_across_the_break(stop):
    def f(x):
        table = {"a": x, "b": x * 2, "c": 3}
        keys, items = iter(table), iter(table.items())
        a = next(keys), next(items)
        stop(x)
        table["a"] = None
        b = next(keys), next(items)
        table["d"] = 4
        try:
            return next(keys)
        except RuntimeError as error:
            return a, b, str(error)

    return f


@program
def user_iterator_across_the_break(stop):
    class Countdown:
        def __init__(self, n, v):
            self.n, self.v = n, v

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            self.v = self.v + 1
            return self.v

    def f(x):
        c = Countdown(4, x * 2)
        a = next(c)
        stop(a)
        for b in c:
            stop(b)
            if c.n == 1:
                break
        return a, b, c.n, list(c)

    return f


@program
def coroutine_across_the_break(stop):
    class Wait:
        def __await__(self):
            RECORDS.append("wait")
            return (yield)

    async def inner(v):
        got = await Wait()
        return v * got

    async def outer(x):
        a = await inner(x)
        stop(a)
        return a + await inner(x)

    def f(x):
        c = outer(x * 2)
        c.send(None)
        stop(x)
        c.send(2)
        stop(x)
        try:
            c.send(3)
        except StopIteration as end:
            return end.value + 1

    return f


@program
def async_generator_across_the_break(stop):
    async def numbers(x):
        for n in range(3):
            stop(n)
            yield x * n

    async def collect(x):
        return [stop(v) + 1 async for v in numbers(x)]

    def f(x):
        c = collect(x * 2)
        try:
            c.send(None)
        except StopIteration as end:
            return end.value

    return f


@program
def bound_methods_of_containers_across(stop):
    def f(x):
        items, table = [], {}
        add, get, pop = items.append, table.get, items.pop
        add(x * 2)
        stop(items)
        add(x + 1)
        table["k"] = items[0]
        stop(table)
        return pop(), get("k") is items[0], items

    return f


@program
def star_arguments_are_captured_by_a_closure(stop):
    def outer(*args, **kwargs):
        def inner(v):
            return v + len(args) + sum(kwargs.values())

        stop(args)
        args = args[1:]
        kwargs["z"] = args[0]
        stop(kwargs)
        return inner

    def f(x):
        y = x * 2
        return outer(1, y, 3, k=x)(y)

    return f


@program
def walrus_in_a_comprehension_writes_a_cell(stop):
    def f(x):
        last = None
        get = lambda: last
        out = [(last := stop(x * n)) for n in range(3)]
        stop(out)
        return out[-1] is get(), last + 1

    return f


@program
def many_locals(stop):
    names = [f"v{n}" for n in range(300)]
    source = ["def f(x):"]
    source += [
        f"    {name} = x * {n}" if n % 50 == 0 else f"    {name} = {n}" for n, name in enumerate(names)
    ]
    source += ["    stop(v0)", "    v299 = v50 + v298"]
    source += ["    g = lambda: v150 + v7", "    stop(g)", "    v7 = 1000"]
    source += [f"    return [{', '.join(names)}], g()"]
    namespace = {"__name__": __name__, "stop": stop}
    exec("\n".join(source), namespace)
    return namespace["f"]


@program
def long_jumps(stop):
    filler = [f"        y = y + {n}" if n % 100 == 0 else f"        n += {n}" for n in range(400)]
    source = [
        "def f(x):",
        "    y, n = x * 2, 0",
        "    for i in range(3):",
        "        if i == 1:",
        "            continue",
    ]
    source += [
        *filler,
        "        stop(y)",
        *filler,
        "        if n > 10 ** 9:",
        "            break",
        "    return y, n, i",
    ]
    namespace = {"__name__": __name__, "stop": stop}
    exec("\n".join(source), namespace)
    return namespace["f"]


@program
def iterators_over_what_counts_how_often_it_is_asked(stop):
    class Counted:
        def __init__(self, log):
            self.log = log

        def __len__(self):
            self.log.append("len")
            return 3

        def __getitem__(self, n):
            return n

        def __iter__(self):
            self.log.append("iter")
            return self

        def __next__(self):
            return len(self.log)

    def f(x, log):
        y = x + 1
        counted = Counted(log)
        backwards, numbered = reversed(counted), enumerate(counted)
        first = next(backwards), next(numbered)
        stop(y)
        return y * 2, first, list(backwards), next(numbered), log

    return f, []
