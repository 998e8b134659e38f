"""yield from: delegation of next, send, throw and close."""

import sys

from programs import error_of


def delegation_to_any_iterable():
    def g():
        yield from [1, 2]
        yield from "ab"
        yield from range(2)
        yield from {"k": 1}
        yield from (x for x in (9,))

    return list(g())


def the_value_of_yield_from_is_the_return_value():
    def inner():
        yield 1
        return "inner result"

    def outer():
        result = yield from inner()
        nothing = yield from [2]
        yield result, nothing
        return (yield from inner()), "outer"

    def outermost():
        print((yield from outer()))

    return list(outermost())


def send_goes_to_the_inner_generator():
    def inner():
        while True:
            x = yield
            if x is None:
                return "inner ended"
            print("inner got", x)

    def outer():
        result = yield from inner()
        while True:
            x = yield result
            print("outer got", x)

    g = outer()
    next(g)
    g.send(1)
    g.send(2)
    return g.send(None), g.send(3)


def send_to_an_iterator_without_send():
    def outer():
        yield from iter([1, 2, 3])

    g = outer()
    next(g)
    return error_of(g.send, "value"), error_of(next, g)


def send_to_a_custom_iterator_with_send():
    class Sender:
        def __iter__(self):
            return self

        def __next__(self):
            return "next"

        def send(self, value):
            if value == "stop":
                raise StopIteration("stopped by send")
            return f"sent {value}"

    def outer():
        return (yield from Sender())

    g = outer()
    results = [next(g), g.send(1), next(g), g.send(None)]
    return results, error_of(g.send, "stop")


def throw_goes_to_the_inner_generator():
    def inner():
        try:
            yield 1
        except ValueError as e:
            yield f"inner caught {e}"
        yield "inner goes on"

    def outer():
        try:
            yield from inner()
        except KeyError as e:
            yield f"outer caught {e!r}"

    g = outer()
    next(g)
    return g.throw(ValueError("v")), next(g), g.throw(KeyError("k")), error_of(next, g)


def throw_to_an_iterator_without_throw():
    def outer():
        try:
            yield from [1, 2]
        except ValueError as e:
            yield f"caught {e}"

    g = outer()
    next(g)
    return g.throw(ValueError("v"))


def throw_that_makes_the_inner_generator_return():
    def inner():
        try:
            yield 1
        except ValueError:
            return "returned on throw"

    def outer():
        result = yield from inner()
        yield result

    g = outer()
    next(g)
    return g.throw(ValueError)


def throwing_generator_exit_closes_the_inner_generator():
    def inner():
        try:
            yield 1
        except GeneratorExit:
            print("inner closed")
            raise

    def outer():
        try:
            yield from inner()
        except GeneratorExit:
            print("outer closed")
            yield "survived"

    g = outer()
    next(g)
    return g.throw(GeneratorExit)


def close_closes_from_the_inside_out():
    def level(n):
        try:
            if n:
                yield from level(n - 1)
            else:
                yield "deepest"
        finally:
            print("closing", n)

    g = level(3)
    first = next(g)
    g.close()
    return first


def close_when_the_inner_generator_raises():
    def inner():
        try:
            yield 1
        finally:
            raise ValueError("inner close failed")

    def outer():
        try:
            yield from inner()
        finally:
            print("outer finally", type(sys.exc_info()[1]).__name__)

    g = outer()
    next(g)
    return error_of(g.close)


def close_when_the_inner_generator_ignores_it():
    def inner():
        while True:
            try:
                yield 1
            except GeneratorExit:
                pass
            break
        yield 2

    def outer():
        yield from inner()

    g = outer()
    next(g)
    return error_of(g.close)


def close_of_a_custom_iterator():
    class Closable:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def close(self):
            print("close called")

    def outer():
        yield from Closable()

    g = outer()
    next(g)
    return g.close()


def throw_to_a_custom_iterator():
    class Thrower:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def throw(self, *args):
            print("throw called", len(args), args[0] if isinstance(args[0], type) else repr(args[0]))
            raise StopIteration("value from throw")

    def outer():
        yield (yield from Thrower())

    g = outer()
    next(g)
    return g.throw(ValueError("v"))


def an_exception_of_the_inner_generator_passes_outside():
    def inner():
        yield 1
        raise KeyError("inner")

    def outer():
        try:
            yield from inner()
        except KeyError as e:
            yield f"handled {e}"
            raise ValueError("outer") from e

    g = outer()
    next(g)
    second = next(g)
    try:
        next(g)
    except ValueError as e:
        return second, repr(e.__cause__)


def an_exception_of_the_inner_generator_leaves_the_program():
    def inner():
        yield 1
        raise KeyError("from deep inside")

    def outer():
        yield from inner()

    return list(outer())


def yield_from_something_not_iterable():
    def g(x):
        yield from x

    async def coroutine(): ...

    c = coroutine()
    results = [error_of(list, g(5)), error_of(list, g(None)), error_of(list, g(c))]
    c.close()
    return results


def yield_from_inside_try_finally_and_with():
    class Manager:
        def __enter__(self):
            print("enter")

        def __exit__(self, kind, *rest):
            print("exit", kind and kind.__name__)
            return kind is ValueError

    def inner():
        yield 1
        raise ValueError("stop here")

    def outer():
        with Manager():
            try:
                yield from inner()
            finally:
                yield "in finally"
        yield "after with"

    return list(outer())


def gi_yieldfrom_shows_the_delegate():
    def inner():
        yield 1

    i = inner()

    def outer():
        yield from i
        yield 2

    g = outer()
    before = g.gi_yieldfrom
    next(g)
    during = g.gi_yieldfrom is i
    next(g)
    return before, during, g.gi_yieldfrom


def two_generators_sharing_one_inner_generator():
    def inner():
        yield from range(5)

    shared = inner()

    def outer(name):
        for x in iter(lambda: next(shared, None), None):
            yield name, x
            if x % 2:
                yield from shared

    a, b = outer("a"), outer("b")
    return next(a), next(b), next(a), next(b), list(b), list(a)


def recursion_through_yield_from():
    def flatten(items):
        for item in items:
            if isinstance(item, (list, tuple)):
                yield from flatten(item)
            else:
                yield item

    def hanoi(n, a, b, c):
        if n:
            yield from hanoi(n - 1, a, c, b)
            yield f"{a}{c}"
            yield from hanoi(n - 1, b, a, c)

    return list(flatten([1, [2, (3, [4, []])], [[[5]]]])), list(hanoi(3, "A", "B", "C"))


def a_parser_made_of_coroutine_generators():
    def token(kind):
        value = yield kind
        if not (value or "").startswith(kind):
            raise SyntaxError(f"wanted {kind}, got {value}")
        return value

    def pair():
        name = yield from token("name")
        yield from token("eq")
        value = yield from token("num")
        return name, int(value[3:])

    def pairs():
        result = {}
        while True:
            key, value = yield from pair()
            result[key] = value
            if (yield "more") != "comma":
                return result

    def parse(tokens):
        p = pairs()
        wanted = [next(p)]
        try:
            for t in tokens:
                wanted.append(p.send(t))
        except StopIteration as e:
            return e.value, wanted

    return parse(["name a", "eq", "num1", "comma", "name b", "eq", "num22", "end"]), error_of(parse, ["eq"])


def exception_state_across_delegation():
    def inner():
        yield type(sys.exception()).__name__
        try:
            raise KeyError
        except KeyError:
            yield type(sys.exception()).__name__
        yield type(sys.exception()).__name__

    def outer():
        try:
            raise ValueError
        except ValueError:
            yield from inner()
        yield type(sys.exception()).__name__

    return list(outer())
