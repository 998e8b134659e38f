"""Coroutines driven by hand and by asyncio; async for, with, comprehensions and generators."""

import asyncio
import sys
import types

from programs import error_of


class _Pause:
    """Awaiting it yields `value` to whoever drives the coroutine and results in what is sent back."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield self.value
        return got


def _drive(coroutine, *answers):
    """Run a coroutine to its end; what it yielded, and its result."""
    yielded, answers = [], iter(answers)
    value = None
    try:
        while True:
            yielded.append(coroutine.send(value))
            value = next(answers, None)
    except StopIteration as e:
        return yielded, e.value


async def _numbers(n):
    for i in range(n):
        await _Pause(f"before {i}")
        yield i


class _AsyncManager:
    def __init__(self, name, *suppressed):
        self.name, self.suppressed = name, suppressed

    async def __aenter__(self):
        print("aenter", self.name, await _Pause("enter"))
        return self.name.upper()

    async def __aexit__(self, kind, error, traceback):
        print("aexit", self.name, kind and kind.__name__, error)
        await _Pause("exit")
        return kind is not None and issubclass(kind, self.suppressed)


class _AsyncCountdown:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        await _Pause(self.n)
        return self.n


def a_coroutine_driven_by_hand():
    async def f(x):
        a = await _Pause("first")
        b = await _Pause("second")
        return x, a, b

    return _drive(f(0), 1, 2)


def a_coroutine_without_await_finishes_at_once():
    async def f():
        return 5

    c = f()
    return error_of(c.send, None), error_of(c.send, None)


def coroutines_await_each_other():
    async def inner(n):
        await _Pause(n)
        if n:
            return n + await inner(n - 1)
        return 0

    async def outer():
        return await inner(3), await inner(1)

    return _drive(outer())


def a_coroutine_cannot_be_awaited_twice():
    async def inner():
        return 1

    async def outer():
        c = inner()
        await c
        await c

    return error_of(_drive, outer())


def a_coroutine_that_already_runs():
    async def outer():
        await c

    async def waits():
        await _Pause(1)

    c = outer()
    w = waits()
    w.send(None)

    async def awaits_running():
        await w

    a = awaits_running()
    results = [error_of(c.send, None), error_of(a.send, None)]
    w.close()
    return results


def awaiting_something_else():
    async def f(x):
        return await x

    class WrongAwait:
        def __await__(self):
            return 5

    class NotIterator:
        def __await__(self):
            return [1]

    return [error_of(_drive, f(x)) for x in (5, None, [], WrongAwait(), NotIterator(), (i for i in "a"))]


def throw_and_close_on_coroutines():
    async def f():
        try:
            await _Pause(1)
        except ValueError as e:
            print("caught", e)
            await _Pause(2)
        finally:
            print("finally")

    c = f()
    c.send(None)
    second = c.throw(ValueError("v"))
    c.close()
    d = f()
    d.send(None)
    return second, error_of(d.throw, KeyError("k")), error_of(c.send, None), f().close()


def an_exception_in_a_coroutine_reaches_the_awaiter():
    async def fails():
        await _Pause("working")
        raise ValueError("failed")

    async def f():
        try:
            await fails()
        except ValueError as e:
            return f"handled {e}", type(sys.exc_info()[1]).__name__

    return _drive(f())


def an_exception_in_a_coroutine_leaves_the_program():
    async def fails():
        raise LookupError("nobody caught me")

    async def f():
        try:
            await fails()
        finally:
            print("finally")

    asyncio.run(f())


def a_coroutine_raising_stop_iteration():
    async def f():
        raise StopIteration(1)

    try:
        f().send(None)
    except RuntimeError as e:
        return str(e), repr(e.__cause__)


def coroutines_send_before_start():
    async def f():
        return 1

    c = f()
    result = error_of(c.send, 5)
    c.close()
    return result


def async_with_enters_and_exits():
    async def f():
        async with _AsyncManager("a") as a, _AsyncManager("b"):
            print("body", a)
        return "end"

    return _drive(f(), "x", "y")


def async_with_suppresses_and_passes_exceptions():
    async def f():
        async with _AsyncManager("a", KeyError):
            raise KeyError("suppressed")
        async with _AsyncManager("b", KeyError):
            raise ValueError("passes")

    return error_of(_drive, f())


def async_with_left_by_return_break_and_continue():
    async def f():
        for i in range(3):
            async with _AsyncManager(f"m{i}"):
                if i == 0:
                    continue
                if i == 1:
                    break
        async with _AsyncManager("last"):
            return "from inside"

    return _drive(f())


def async_with_something_that_is_no_manager():
    class Plain:
        def __enter__(self): ...

        def __exit__(self, *exc_info): ...

    class NotAwaitable:
        def __aenter__(self):
            return 5

        def __aexit__(self, *exc_info):
            return 6

    class ExitNotAwaitable:
        async def __aenter__(self): ...

        def __aexit__(self, *exc_info):
            return 6

    async def f(x):
        async with x:
            pass

    return [error_of(_drive, f(x)) for x in (5, Plain(), NotAwaitable(), ExitNotAwaitable())]


def async_for_over_a_class():
    async def f():
        seen = []
        async for x in _AsyncCountdown(3):
            seen.append(x)
        else:
            seen.append("else")
        return seen

    return _drive(f())


def async_for_with_break_continue_and_exceptions():
    async def f():
        log = []
        async for x in _AsyncCountdown(5):
            if x == 4:
                continue
            if x == 2:
                break
            log.append(x)
        else:
            log.append("never")
        try:
            async for x in _AsyncCountdown(2):
                raise ValueError(x)
        except ValueError as e:
            log.append(e.args)
        return log

    return _drive(f())


def async_for_over_something_else():
    class NoAnext:
        def __aiter__(self):
            return self

    class WrongAnext:
        def __aiter__(self):
            return self

        def __anext__(self):
            return 5

    async def f(x):
        async for _ in x:
            pass

    return [error_of(_drive, f(x)) for x in ([1], NoAnext(), WrongAnext())]


def async_generators_iterated():
    async def f():
        return [x async for x in _numbers(3)]

    return _drive(f())


def async_comprehensions_of_every_kind():
    async def double(x):
        await _Pause(x)
        return x * 2

    async def f():
        return [
            [x async for x in _numbers(3) if x],
            sorted({x % 2 async for x in _numbers(3)}),
            {x: x * x async for x in _numbers(2)},
            [await double(x) for x in range(2)],
            [await double(x) async for x in _numbers(2)],
            [x + y async for x in _numbers(2) for y in range(2)],
            [[y async for y in _numbers(x)] for x in range(3)],
            [x async for x in (await double(i) for i in range(2))],
        ]

    return _drive(f())


def an_async_generator_expression():
    async def f():
        squares = (x * x async for x in _numbers(3) if x != 1)
        kind = type(squares).__name__
        return kind, [x async for x in squares]

    return _drive(f())


def asend_and_the_value_of_yield():
    async def echo():
        received = None
        while True:
            received = yield received
            await _Pause(f"got {received}")

    async def f():
        g = echo()
        results = [await g.asend(None), await g.asend(1), await g.asend(2), await g.__anext__()]
        await g.aclose()
        return results

    return _drive(f())


def athrow_into_an_async_generator():
    async def g():
        try:
            yield 1
        except ValueError as e:
            await _Pause("handling")
            yield f"caught {e}"
        yield 3

    async def f():
        it = g()
        await it.__anext__()
        results = [await it.athrow(ValueError("v")), await it.__anext__()]
        try:
            await it.athrow(KeyError("k"))
        except KeyError as e:
            results.append(repr(e))
        try:
            await it.__anext__()
        except StopAsyncIteration as e:
            results.append(repr(e))
        return results

    return _drive(f())


def aclose_runs_finally():
    async def g():
        try:
            yield 1
            yield 2
        finally:
            await _Pause("closing")
            print("closed")

    async def ignores():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    async def f():
        it = g()
        await it.__anext__()
        await it.aclose()
        await it.aclose()
        other = ignores()
        await other.__anext__()
        try:
            await other.aclose()
        except RuntimeError as e:
            return str(e), [x async for x in it]

    return _drive(f())


def an_async_generator_raising_stop_async_iteration():
    async def g():
        yield 1
        raise StopAsyncIteration("wrong way")

    async def f():
        return [x async for x in g()]

    try:
        _drive(f())
    except RuntimeError as e:
        return str(e), repr(e.__cause__)


def async_generators_with_try_finally_and_with():
    async def g():
        async with _AsyncManager("g") as name:
            try:
                yield name
                yield "second"
            finally:
                print("finally")

    async def f():
        seen = []
        it = g()
        async for x in it:
            seen.append(x)
            if len(seen) == 1:
                await it.aclose()
        return seen, [x async for x in g()]

    return _drive(f())


def async_generators_wrap_values_that_look_special():
    async def g():
        yield None
        yield StopAsyncIteration
        yield (1, 2)

    async def f():
        return [x if x is None or isinstance(x, tuple) else x.__name__ async for x in g()]

    return _drive(f())


def anext_and_aiter_builtins():
    async def f():
        it = aiter(_numbers(2))
        return [await anext(it), await anext(it), await anext(it, "default")]

    return _drive(f()), error_of(lambda: aiter([])), error_of(lambda: anext([]))


def generator_based_coroutines():
    @types.coroutine
    def old_style(x):
        got = yield x
        return got

    async def f():
        return await old_style(1), await old_style(2)

    return _drive(f(), "a", "b")


def attributes_of_coroutines():
    import inspect

    async def inner():
        await _Pause(1)

    async def f():
        await inner()

    c = f()
    before = inspect.getcoroutinestate(c), c.cr_await, c.__name__
    c.send(None)
    during = inspect.getcoroutinestate(c), type(c.cr_await).__name__, c.cr_await.__name__
    c.close()
    return (
        before,
        during,
        inspect.getcoroutinestate(c),
        inspect.iscoroutinefunction(f),
        inspect.iscoroutine(c),
    )


def types_of_the_async_objects():
    async def c(): ...

    async def g():
        yield

    coroutine = c()
    result = (
        type(coroutine).__name__,
        type(g()).__name__,
        hasattr(coroutine, "__iter__"),
        hasattr(coroutine, "__await__"),
    )
    not_iterable = error_of(lambda: list(coroutine)), error_of(lambda: list(g()))
    coroutine.close()
    return result, not_iterable


def asyncio_run_returns_the_result():
    async def f(x):
        await asyncio.sleep(0)
        return x * 2

    return asyncio.run(f(21))


def asyncio_gather_keeps_order():
    async def work(name, turns):
        for i in range(turns):
            print(name, i)
            await asyncio.sleep(0)
        return name

    async def main():
        return await asyncio.gather(work("a", 2), work("b", 1), work("c", 3))

    return asyncio.run(main())


def asyncio_tasks_cancellation_and_exceptions():
    async def forever():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("cancelled")
            raise

    async def fails():
        raise ValueError("task failed")

    async def main():
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        task.cancel("enough")
        results = await asyncio.gather(task, fails(), return_exceptions=True)
        return [(type(r).__name__, str(r)) for r in results], task.cancelled()

    return asyncio.run(main())


def asyncio_queue_between_producer_and_consumers():
    async def producer(queue, n):
        for i in range(n):
            await queue.put(i)
            print("put", i)
        await queue.put(None)

    async def consumer(queue):
        total = 0
        while (item := await queue.get()) is not None:
            print("got", item)
            total += item
        return total

    async def main():
        queue = asyncio.Queue(maxsize=2)
        _, total = await asyncio.gather(producer(queue, 5), consumer(queue))
        return total

    return asyncio.run(main())


def asyncio_task_group_with_failures():
    async def ok(x):
        await asyncio.sleep(0)
        return x

    async def bad(x):
        raise ValueError(x)

    async def main():
        async with asyncio.TaskGroup() as group:
            good = [group.create_task(ok(i)) for i in range(3)]
        results = [t.result() for t in good]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bad("first"))
                group.create_task(bad("second"))
        except* ValueError as eg:
            results.append(sorted(str(e) for e in eg.exceptions))
        return results

    return asyncio.run(main())


def asyncio_locks_events_and_timeouts():
    async def main():
        lock, event, log = asyncio.Lock(), asyncio.Event(), []

        async def worker(name):
            async with lock:
                log.append(f"{name} in")
                await asyncio.sleep(0)
                log.append(f"{name} out")
            if name == "a":
                event.set()

        async def waiter():
            await event.wait()
            log.append("event")

        await asyncio.gather(waiter(), worker("a"), worker("b"))
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            log.append("timeout")
        return log

    return asyncio.run(main())


def async_context_managers_from_generators():
    import contextlib

    @contextlib.asynccontextmanager
    async def connection(name):
        print("open", name)
        try:
            yield name.upper()
        except ValueError as e:
            print("rollback", e)
        finally:
            print("close", name)

    async def main():
        async with connection("db") as c:
            print("using", c)
        async with contextlib.AsyncExitStack() as stack:
            names = [await stack.enter_async_context(connection(n)) for n in "xy"]
            raise ValueError("inside")
        return names

    return asyncio.run(main())


def awaiting_in_every_kind_of_expression():
    async def v(x):
        await _Pause(x)
        return x

    async def f(*args, **kwargs):
        return args, kwargs

    async def main():
        text = f"{await v('a')}-{await v('b')!r:>5}"
        called = await f(await v(1), *[await v(2)], k=await v(3), **{"m": await v(4)})
        picked = (await v([10, 20]))[await v(1)]
        chosen = await v(5) if await v(True) else await v(6)
        compared = await v(1) < await v(2) < await v(3)
        table = {await v("k"): await v("v")}
        both = await v(0) or await v("or")
        assert await v(True)
        return text, called, picked, chosen, compared, table, both

    return _drive(main())


def await_inside_try_except_finally():
    async def f():
        log = []
        for i in range(3):
            try:
                log.append(await _Pause(i))
                if i == 1:
                    raise ValueError(i)
            except ValueError:
                log.append(await _Pause("except"))
                continue
            else:
                log.append(await _Pause("else"))
            finally:
                log.append(await _Pause("finally"))
        return log

    return _drive(f(), *"abcdefghij")


def exception_state_across_await():
    async def inner():
        seen = [type(sys.exception()).__name__]
        try:
            raise KeyError
        except KeyError:
            await _Pause(1)
            seen.append(type(sys.exception()).__name__)
        return seen

    async def f():
        try:
            raise ValueError
        except ValueError:
            seen = await inner()
            seen.append(type(sys.exception()).__name__)
        return seen

    return _drive(f())


def a_mini_event_loop():
    import heapq

    @types.coroutine
    def sleep(ticks):
        yield ticks

    async def worker(name, period, log):
        for i in range(3):
            await sleep(period)
            log.append(f"{name}{i}")
        return name

    def run(*coroutines):
        ready, results, clock = [], [], 0
        for order, c in enumerate(coroutines):
            heapq.heappush(ready, (0, order, c))
        while ready:
            clock, order, c = heapq.heappop(ready)
            try:
                heapq.heappush(ready, (clock + c.send(None), order, c))
            except StopIteration as e:
                results.append((clock, e.value))
        return results

    log = []
    return run(worker("a", 2, log), worker("b", 3, log), worker("c", 1, log)), log


def async_methods_properties_and_decorators():
    import functools

    def logged(f):
        @functools.wraps(f)
        async def wrapper(*args, **kwargs):
            print("calling", f.__name__)
            result = await f(*args, **kwargs)
            print("returned", result)
            return result

        return wrapper

    class Client:
        @logged
        async def get(self, path, *, times=1):
            await _Pause(path)
            return path * times

        @classmethod
        async def make(cls):
            await _Pause("making")
            return cls()

        @property
        async def status(self):
            return "up"

    async def main():
        client = await Client.make()
        return await client.get("/", times=3), await client.status

    return _drive(main())


def throwing_into_a_chain_of_awaits():
    async def level(n):
        try:
            if n == 0:
                await _Pause("deep")
            else:
                await level(n - 1)
        except ValueError as e:
            e.add_note(f"level {n}")
            raise
        finally:
            print("leaving", n)

    c = level(2)
    c.send(None)
    try:
        c.throw(ValueError("thrown"))
    except ValueError as e:
        return e.__notes__


def an_ended_coroutine_refuses_what_is_thrown():
    async def c():
        return 1

    it = c()
    error_of(it.send, None)
    return error_of(it.send, None), error_of(it.throw, ValueError), it.close()


def where_a_coroutine_was_made():
    async def c():
        return 1

    def made():
        return c()

    sys.set_coroutine_origin_tracking_depth(2)
    try:
        it = made()
    finally:
        sys.set_coroutine_origin_tracking_depth(0)
    it.close()
    return [name for _, _, name in it.cr_origin]


def an_iterator_whose_next_can_not_be_awaited():
    class Broken:
        def __aiter__(self):
            return self

        def __anext__(self):
            return self

        def __await__(self):
            1 / 0

    async def c():
        async for _ in Broken():
            pass

    c().send(None)


def c_awaits_a_marked_generator():
    @types.coroutine
    def marked():
        yield "suspended"
        return "value"

    class Source:
        def __aiter__(self):
            return self

        def __anext__(self):
            return marked()

    async def c():
        return await anext(Source(), "default")

    it = c()
    return it.send(None), error_of(it.send, None)
