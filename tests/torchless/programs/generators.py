"""Generators: the whole protocol."""

import inspect
import sys

from programs import error_of


def _count(n):
    for i in range(n):
        yield i
    return "done"


def a_generator_is_lazy():
    def g():
        print("started")
        yield 1
        print("resumed")
        yield 2
        print("finished")

    it = g()
    print("made")
    return [next(it), next(it), next(it, "stopped"), next(it, "still stopped")]


def generators_in_every_consumer():
    return [
        list(_count(3)),
        tuple(_count(3)),
        sum(_count(4)),
        max(_count(5)),
        [*_count(2)],
        dict(zip("ab", _count(2))),
        "".join(str(i) for i in _count(3)),
        sorted(_count(3), reverse=True),
        2 in _count(3),
        9 in _count(3),
        any(_count(2)),
        all(_count(2)),
    ]


def the_return_value_arrives_in_stop_iteration():
    it = _count(1)
    next(it)
    try:
        next(it)
    except StopIteration as e:
        return e.value, e.args


def an_exhausted_generator_stays_exhausted():
    it = _count(1)
    list(it)
    return [error_of(next, it), error_of(next, it), list(it)]


def send_delivers_the_value_of_yield():
    def echo():
        received = yield "ready"
        while received is not None:
            received = yield received * 2
        return "end"

    it = echo()
    results = [next(it), it.send(1), it.send("a"), it.send([1])]
    try:
        it.send(None)
    except StopIteration as e:
        results.append(e.value)
    return results


def send_to_a_generator_that_has_not_started():
    it = _count(3)
    return error_of(it.send, 1), it.send(None), it.send(5), error_of(it.send)


def a_running_average():
    def average():
        total, count, value = 0, 0, None
        while True:
            value = yield value
            total += value
            count += 1
            value = total / count

    it = average()
    next(it)
    return [it.send(x) for x in (10, 20, 60)]


def yield_as_an_expression_in_every_place():
    def g():
        x = [(yield 1), (yield 2)]
        y = (yield 3) + (yield 4)
        print(f"{(yield 5)}", (yield 6))
        d = {(yield 7): (yield 8)}
        z = (yield 9) if (yield 10) else (yield 11)
        return x, y, d, z, (yield)

    it = g()
    seen = [next(it)]
    try:
        for i in range(100, 120):
            seen.append(it.send(i))
    except StopIteration as e:
        return seen, e.value


def throw_raises_at_the_yield():
    def g():
        try:
            yield 1
        except ValueError as e:
            yield f"caught {e}"
        yield 3

    it = g()
    next(it)
    return it.throw(ValueError("boom")), next(it), error_of(it.throw, KeyError("out")), error_of(next, it)


def throw_in_all_its_forms():
    def g():
        while True:
            try:
                yield "waiting"
            except Exception as e:
                print(type(e).__name__, e.args)

    it = g()
    next(it)
    it.throw(ValueError)
    it.throw(ValueError("instance"))
    return error_of(it.throw, 5), error_of(it.throw, int), it.throw(KeyError(1, 2))


def throw_into_a_generator_that_has_not_started():
    def g():
        print("never")
        yield 1

    it = g()
    return error_of(it.throw, ValueError("early")), error_of(next, it)


def throw_into_a_finished_generator():
    it = _count(0)
    list(it)
    return error_of(it.throw, ValueError("late"))


def a_thrown_exception_that_leaves_the_program():
    it = _count(3)
    next(it)
    it.throw(RuntimeError("thrown in"))


def close_raises_generator_exit():
    def g():
        try:
            yield 1
            yield 2
        except GeneratorExit:
            print("closing")
            raise
        finally:
            print("finally")

    it = g()
    next(it)
    return it.close(), it.close(), error_of(next, it), g().close()


def close_when_the_generator_returns_or_swallows():
    def swallows():
        try:
            yield 1
        except GeneratorExit:
            return 5

    def raises():
        try:
            yield 1
        finally:
            raise KeyError("on close")

    def yields():
        try:
            yield 1
        except GeneratorExit:
            yield "not allowed"

    results = []
    for g in (swallows, raises, yields):
        it = g()
        next(it)
        outcome = error_of(it.close)
        results.append(outcome if outcome[0] != "no error" else "closed")
    return results


def finally_runs_when_a_generator_is_dropped():
    def g():
        try:
            yield 1
        finally:
            print("cleaned up")

    it = g()
    next(it)
    del it
    print("after del")
    for x in g():
        break
    return x


def yield_inside_finally():
    def g():
        try:
            yield "try"
            raise ValueError("inside")
        finally:
            yield "finally"
            print("end of finally")

    it = g()
    return next(it), next(it), error_of(next, it)


def yield_inside_except():
    def g():
        try:
            raise ValueError("kept")
        except ValueError as e:
            got = yield "in except"
            yield str(e), got, type(sys.exc_info()[1]).__name__
            try:
                raise
            except ValueError as again:
                yield again is e

    it = g()
    return next(it), it.send("sent"), next(it), sys.exc_info()


def the_handled_exception_of_the_caller_is_seen_inside():
    def g():
        while True:
            yield sys.exc_info()[0] and sys.exc_info()[0].__name__

    it = g()
    seen = [next(it)]
    try:
        raise ValueError
    except ValueError:
        seen.append(next(it))
        try:
            raise KeyError
        except KeyError:
            seen.append(next(it))
        seen.append(next(it))
    seen.append(next(it))
    return seen


def the_handled_exception_of_the_generator_is_not_seen_outside():
    def g():
        try:
            raise ValueError
        except ValueError:
            yield 1
            yield 2

    it = g()
    next(it)
    seen = [sys.exc_info()[0]]
    try:
        raise KeyError
    except KeyError:
        next(it)
        seen.append(sys.exc_info()[0].__name__)
    return seen


def the_context_of_an_exception_raised_in_a_generator():
    def g():
        yield 1
        raise KeyError("inside")

    it = g()
    next(it)
    try:
        raise ValueError("outside")
    except ValueError:
        try:
            next(it)
        except KeyError as e:
            return repr(e.__context__)


def a_bare_raise_in_a_generator_uses_the_callers_exception():
    def g():
        yield 1
        raise

    it = g()
    next(it)
    try:
        raise ValueError("of the caller")
    except ValueError:
        return error_of(next, it)


def stop_iteration_inside_a_generator_becomes_runtime_error():
    def g():
        yield 1
        raise StopIteration("wrong way")

    def h():
        yield next(iter([]))

    it = g()
    next(it)
    try:
        next(it)
    except RuntimeError as e:
        return str(e), repr(e.__cause__), error_of(list, h())


def a_stop_iteration_error_leaves_the_program():
    def first(items):
        yield next(iter(items))

    return [x for items in ([1], []) for x in first(items)]


def a_generator_cannot_resume_itself():
    def g():
        try:
            next(it)
        except ValueError as e:
            yield str(e)
        yield error_of(it.send, 1)
        yield error_of(it.throw, KeyError)
        yield error_of(it.close)

    it = g()
    return list(it)


def a_generator_already_executing_leaves_the_program():
    def g():
        yield from it

    it = g()
    return next(it)


def an_exception_in_a_generator_ends_it():
    def g():
        yield 1
        1 / 0
        yield 2

    it = g()
    return next(it), error_of(next, it), error_of(next, it), list(it)


def attributes_of_generators():
    it = _count(3)
    states = [inspect.getgeneratorstate(it)]
    next(it)
    states.append(inspect.getgeneratorstate(it))
    code = it.gi_code.co_name, it.gi_running, it.gi_yieldfrom
    it.close()
    states.append(inspect.getgeneratorstate(it))
    return (
        states,
        code,
        it.__name__,
        it.__qualname__,
        iter(it) is it,
        inspect.isgenerator(it),
        inspect.isgeneratorfunction(_count),
    )


def the_type_of_a_generator():
    import types
    from collections.abc import Generator, Iterator

    it = _count(1)
    return (
        type(it) is types.GeneratorType,
        isinstance(it, Generator),
        isinstance(it, Iterator),
        type(it).__name__,
    )


def generator_expressions_are_generators():
    it = (x * x for x in range(3))
    return next(it), list(it), type(it).__name__, it.__name__, sum(x for x in [1, 2]), error_of(next, it)


def the_first_iterable_of_a_generator_expression_is_evaluated_at_once():
    def say(x):
        print("evaluated", x)
        return [1, 2]

    it = (x + y for x in say("first") for y in say("second"))
    print("made")
    return list(it), error_of(lambda: (x for x in 5))


def generator_methods():
    class Tree:
        def __init__(self, value, *children):
            self.value, self.children = value, children

        def __iter__(self):
            yield self.value
            for child in self.children:
                yield from child

        def leaves(self):
            if not self.children:
                yield self
            for child in self.children:
                yield from child.leaves()

    t = Tree(1, Tree(2, Tree(3)), Tree(4))
    return list(t), [leaf.value for leaf in t.leaves()], sum(t)


def infinite_generators_with_islice():
    from itertools import islice, takewhile

    def naturals(n=0):
        while True:
            yield n
            n += 1

    def primes():
        found = []
        for n in naturals(2):
            if all(n % p for p in found):
                found.append(n)
                yield n

    return list(islice(primes(), 8)), list(takewhile(lambda x: x < 5, naturals()))


def a_pipeline_of_generators():
    def read(lines):
        for line in lines:
            print("read", line)
            yield line

    def strip(lines):
        for line in lines:
            if line := line.partition("#")[0].strip():
                yield line

    def parse(lines):
        for line in lines:
            key, _, value = line.partition("=")
            yield key.strip(), int(value) if value.strip().isdigit() else value.strip()

    def until(pairs, stop):
        for pair in pairs:
            if pair[0] == stop:
                return
            yield pair

    text = ["# comment", "a = 1", "  b=two # x", "", "end=", "c = 3"]
    return dict(until(parse(strip(read(text))), "end"))


def two_generators_in_turns():
    def round_robin(*iterables):
        active = [iter(i) for i in iterables]
        while active:
            for it in list(active):
                try:
                    yield next(it)
                except StopIteration:
                    active.remove(it)

    return list(round_robin("abc", _count(2), (x for x in "z")))


def a_scheduler_of_generators():
    from collections import deque

    def task(name, steps):
        for i in range(steps):
            message = yield f"{name}{i}"
            if message:
                print(name, "got", message)
        return name.upper()

    def run(tasks):
        queue, log, results = deque((t, None) for t in tasks), [], []
        while queue:
            current, message = queue.popleft()
            try:
                said = current.send(message)
            except StopIteration as stop:
                results.append(stop.value)
            else:
                log.append(said)
                queue.append((current, f"ack {said}" if said.endswith("1") else None))
        return log, results

    return run([task("a", 3), task("b", 1), task("c", 2)])


def a_state_machine_as_a_generator():
    def machine():
        state, transitions = (
            "idle",
            {("idle", "start"): "running", ("running", "pause"): "paused", ("paused", "start"): "running"},
        )
        while state != "stopped":
            try:
                event = yield state
                if event == "stop":
                    state = "stopped"
                else:
                    state = transitions[state, event]
            except KeyError as e:
                print("ignored", e.args[0])
            except InterruptedError:
                state = "idle"
        return "bye"

    m = machine()
    states = [next(m)]
    for event in ("start", "jump", "pause", "start"):
        states.append(m.send(event))
    states.append(m.throw(InterruptedError()))
    try:
        m.send("stop")
    except StopIteration as e:
        return states, e.value


def permutations_by_recursive_generators():
    def permutations(items):
        if len(items) <= 1:
            yield tuple(items)
            return
        for i, item in enumerate(items):
            for rest in permutations(items[:i] + items[i + 1 :]):
                yield (item, *rest)

    return list(permutations([1, 2, 3]))


def tree_walking_with_an_explicit_stack():
    def walk(tree):
        stack = [(tree, 0)]
        while stack:
            node, depth = stack.pop()
            match node:
                case [first, *rest]:
                    stack.extend((child, depth + 1) for child in reversed([first, *rest]))
                case []:
                    yield "empty", depth
                case leaf:
                    yield leaf, depth

    return list(walk([1, [2, [], [3]], 4]))


def unpacking_and_partial_consumption():
    it = _count(10)
    a, b = next(it), next(it)
    c, *_, d = [next(it) for _ in range(4)]
    x, y, *rest = it
    return a, b, c, d, x, y, rest, error_of(_unpack_two, _count(3))


def _unpack_two(iterable):
    a, b = iterable
    return a, b


def generators_with_arguments_of_all_kinds():
    def g(a, b=2, *args, c, **kwargs):
        yield a
        yield b
        yield args
        b = yield c
        yield kwargs, b

    it = g(1, c=3, d=4)
    values = [next(it) for _ in range(4)]
    return values, it.send("new b"), error_of(g), list(g(1, 2, 3, 4, c=5))


def arguments_of_a_generator_function_are_checked_at_the_call():
    def g(a):
        yield a

    return g()


def a_generator_modifying_a_list_while_iterating():
    items = [1, 2, 3]

    def grow():
        for x in items:
            if len(items) < 6:
                items.append(x * 10)
            yield x

    return list(grow()), items


def a_thrown_exception_is_chained_to_the_one_being_handled():
    def g():
        try:
            raise KeyError("a")
        except KeyError:
            yield 1

    it = g()
    next(it)
    it.throw(ValueError)


def a_generator_that_has_not_begun_is_in_the_traceback_of_what_is_thrown():
    try:
        _count(1).throw(ValueError("early"))
    except ValueError as e:
        return e.__traceback__.tb_next.tb_frame.f_code.co_name


def a_stop_iteration_thrown_before_the_beginning():
    _count(1).throw(StopIteration(3))


def a_class_that_makes_no_exception_is_thrown_as_an_error():
    class Odd(Exception):
        def __new__(cls):
            return 7

    def g():
        try:
            yield 1
        except TypeError as e:
            yield str(e).rpartition(".")[2]

    it = g()
    next(it)
    return it.throw(Odd)


def the_outer_generator_calls_the_inner_one_that_is_thrown_into():
    def inner():
        try:
            yield 1
        except ValueError:
            yield sys._getframe().f_back.f_code.co_name

    def outer():
        yield from inner()

    it = outer()
    next(it)
    return it.throw(ValueError)


def attributes_of_a_generator_that_cannot_be_set():
    it = _count(1)
    errors = []
    for name in ("gi_running", "gi_frame", "extra"):
        try:
            setattr(it, name, 1)
        except AttributeError as e:
            errors.append(str(e))
    return errors


def methods_found_on_the_class_of_a_generator():
    it = _count(3)
    cls = type(it)
    return cls.__next__(it), cls.send(it, None), cls.__iter__(it) is it, cls.close(it), error_of(next, it)


def a_broken_close_of_what_is_delegated_to():
    class Broken:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def __getattr__(self, name):
            raise ZeroDivisionError

    def g():
        yield from Broken()

    it = g()
    next(it)
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: print(args.exc_type.__name__)
    try:
        it.close()
    finally:
        sys.unraisablehook = hook
