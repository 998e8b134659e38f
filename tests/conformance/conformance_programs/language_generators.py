"""Language reference: generators, coroutines and asynchronous generators (6.2.9, 8.9)."""

from __future__ import annotations

from conformance_programs import error_of, program


def _count(n):
    for i in range(n):
        yield i
    return "done"


def _echo():
    received = []
    while len(received) < 3:
        received.append((yield len(received)))
    return received


def _run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    return "waiting"


@program
def generators_are_consumed_by_everything(x):
    a, *b = _count(3)
    return (
        x + sum(_count(4)), list(_count(2)), tuple(_count(2)), max(_count(3)), [*_count(2)], a, b,
        dict(zip("ab", _count(2), strict=True)), 1 in _count(3), sorted(_count(3), reverse=True), "".join(map(str, _count(3))),
    )  # fmt: skip


@program
def yielding_tensors(x):
    def rows():
        y = x
        for n in range(3):
            y = y * 2
            yield n, y

    return [y + n for n, y in rows()], dict(rows())


@program
def sending(x):
    g = _echo()
    seen = [next(g), g.send("a"), g.send(x)]
    try:
        g.send("c")
    except StopIteration as stop:
        seen.append(stop.value)
    return x + 1, seen, error_of(next, g), error_of(_echo().send, 1)


@program
def throwing(x):
    def guarded():
        while True:
            try:
                yield "ready"
            except ValueError as error:
                yield "caught", str(error)

    g = guarded()
    seen = [next(g), g.throw(ValueError("v")), next(g), error_of(g.throw, KeyError("k")), error_of(next, g)]
    fresh = _count(1)
    return x + 1, seen, error_of(fresh.throw, KeyError("early")), list(fresh)


@program
def closing(x):
    seen = []

    def careful():
        try:
            yield 1
        except GeneratorExit:
            seen.append("exit")
            raise
        finally:
            seen.append("finally")

    def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    g, s = careful(), stubborn()
    next(g), next(s)
    g.close()
    g.close()
    return x + 1, seen, list(g), error_of(s.close)


@program
def the_value_that_a_generator_returns(x):
    def outer():
        got = yield from _count(2)
        yield got
        return x

    def last(g):
        while True:
            try:
                next(g)
            except StopIteration as stop:
                return stop.value

    return x + 1, last(_count(2)), last(outer()), list(outer())


@program
def yield_from_passes_on(x):
    def outer():
        return (yield from _echo())

    g = outer()
    seen = [next(g), g.send(1), g.send(2)]
    try:
        g.send(3)
    except StopIteration as stop:
        seen.append(stop.value)

    def over(items):
        yield from items

    return x + 1, seen, list(over("ab")), list(over({1: 2})), list(over(over([x])))


@program
def a_generator_in_the_middle_is_returned(x):
    g = _count(5)
    next(g)
    next(g)
    return x + 1, g


@program
def a_generator_expression_is_returned(x):
    return x + 1, (n * 2 for n in [1, 2, 3])


@program
def what_a_generator_says_of_itself(x):
    g = _count(2)
    before = g.gi_running, g.gi_frame is None, g.gi_yieldfrom, g.__name__, g.__qualname__
    next(g)
    return x + 1, before, iter(g) is g, list(g), g.gi_frame


@program
def stop_iteration_in_a_generator_is_an_error(x):
    def bad():
        yield 1
        raise StopIteration

    return x + 1, error_of(list, bad())


@program
def generators_keep_their_own_errors(x):
    def f():
        try:
            raise KeyError("inner")
        except KeyError as error:
            yield str(error)
            yield error.args

    try:
        raise ValueError("outer")
    except ValueError as error:
        return x + 1, list(f()), str(error)


@program
def recursive_generators(x):
    def walk(tree):
        for each in tree:
            if isinstance(each, list):
                yield from walk(each)
            else:
                yield each

    return x + 1, list(walk([1, [2, [3, [4]], 5]]))


@program
def infinite_generators(x):
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    import itertools

    return x + 1, list(itertools.islice(naturals(), 3)), list(zip(naturals(), "ab", strict=False))


@program(given=lambda: (_count(9),), breaks=("iterator from before", "object with a finaliser"))
def a_generator_that_is_given(x, g):
    y = x + 1
    for n in g:
        y = y + n
        break
    return y


@program
def coroutines(x):
    async def one(v):
        return v + 1

    async def two():
        a = await one(x)
        try:
            await fails()
        except KeyError as error:
            b = str(error)
        return a, b

    async def fails():
        raise KeyError("k")

    return _run(two())


class _Ready:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        return self.value
        yield


@program
def awaiting_by_hand(x):
    async def f():
        return await _Ready(x) + 1

    class Wrong:
        def __await__(self):
            return 3

    async def g():
        await Wrong()

    async def h():
        await 3

    return _run(f()), error_of(_run, g()), error_of(_run, h())


class _Managed:
    def __init__(self, seen):
        self.seen = seen

    async def __aenter__(self):
        self.seen.append("enter")
        return self

    async def __aexit__(self, *error):
        self.seen.append(error[0] and error[0].__name__)
        return True


class _Items:
    def __init__(self, items):
        self.items = list(items)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.items:
            raise StopAsyncIteration
        return self.items.pop(0)


@program
def async_with_and_for(x):
    seen = []

    async def f():
        async with _Managed(seen) as manager:
            seen.append(manager.seen is seen)
        async with _Managed(seen):
            raise KeyError
        async for item in _Items([x, 2]):
            seen.append(item)
        else:
            seen.append("else")
        return [i async for i in _Items("ab") if i != "a"], {i: 1 async for i in _Items([1])}

    return x + 1, _run(f()), seen


async def _numbers(n):
    try:
        for i in range(n):
            yield i
    finally:
        pass


@program
def asynchronous_generators(x):
    async def f():
        seen = []
        async for i in _numbers(3):
            seen.append(x * i)
        return seen, [i async for i in _numbers(2)], [i + j async for i in _numbers(2) for j in (10, 20)]

    return _run(f())


@program
def asynchronous_generators_are_sent_to(x):
    async def echo():
        got = yield 1
        yield got

    async def f():
        g = echo()
        first = await g.asend(None)
        second = await g.asend(x)
        await g.aclose()
        h = echo()
        await h.asend(None)
        try:
            await h.athrow(KeyError("k"))
        except KeyError as error:
            thrown = str(error)
        return first, second, thrown

    return x + 1, _run(f())
