"""The with statement: entering, leaving, suppressing, and failing on the way."""

import contextlib
import sys

from programs import error_of


class _Manager:
    """Prints what happens to it; suppresses the given exception types."""

    def __init__(self, name, *suppressed):
        self.name, self.suppressed = name, suppressed

    def __enter__(self):
        print("enter", self.name)
        return self.name.upper()

    def __exit__(self, kind, error, traceback):
        print("exit", self.name, kind and kind.__name__, error, traceback is not None)
        return kind is not None and issubclass(kind, self.suppressed)


def the_plain_case():
    with _Manager("a") as value:
        print("body", value)
    return value


def without_a_name():
    with _Manager("a"):
        return "returned from inside"


def several_managers_nest():
    with _Manager("a") as a, _Manager("b") as b:
        print("body", a, b)
    with (
        _Manager("c") as c,
        _Manager("d"),
    ):
        print("body", c)


def exceptions_pass_through_exit():
    def f():
        with _Manager("outer"), _Manager("inner"):
            raise ValueError("in the body")

    return error_of(f)


def a_true_result_of_exit_suppresses():
    log = []
    with _Manager("a", KeyError) as value:
        raise KeyError("k")
    log.append("went on")
    with _Manager("b", ValueError), _Manager("c", LookupError):
        [][0]
    return log, value


def an_exception_not_suppressed_leaves_the_program():
    with _Manager("a", KeyError):
        with _Manager("b"):
            raise ValueError("not a KeyError")


def an_exception_in_exit_replaces_the_first():
    class Bad:
        def __enter__(self): ...

        def __exit__(self, *exc_info):
            raise TypeError("from exit")

    try:
        with Bad():
            raise ValueError("from the body")
    except TypeError as e:
        first = str(e), repr(e.__context__)
    try:
        with Bad():
            pass
    except TypeError as e:
        return first, str(e), e.__context__


def an_exception_in_enter_means_no_exit():
    class Bad:
        def __enter__(self):
            raise ValueError("from enter")

        def __exit__(self, *exc_info):
            print("never")

    def f():
        with _Manager("outer"), Bad():
            print("never")

    return error_of(f)


def an_exception_in_the_manager_expression():
    def f():
        with _Manager("a"), _Manager(undefined):
            print("never")

    return error_of(f)


def an_exception_while_binding_the_target_calls_exit():
    def f():
        with _Manager("ab") as (a, b, c):
            print("never", a, b, c)

    return error_of(f)


def targets_of_every_kind():
    class Box:
        pass

    class Pair:
        def __enter__(self):
            return 1, [2, 3]

        def __exit__(self, *exc_info): ...

    box, items = Box(), {}
    with Pair() as (a, (b, c)), Pair() as box.attribute, Pair() as items["key"], Pair() as [d, *e]:
        pass
    return a, b, c, box.attribute, items, d, e


def leaving_by_return_break_and_continue():
    def f():
        for i in range(4):
            with _Manager(f"m{i}"):
                if i == 0:
                    continue
                if i == 1:
                    print("end of body")
                if i == 2:
                    break
        with _Manager("last"):
            return i

    return f()


def exit_sees_the_exception_and_exc_info():
    class Looks:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            self.seen = kind.__name__, str(error), sys.exc_info()[1] is error
            return True

    with Looks() as looks:
        raise ValueError("look")
    return looks.seen, sys.exc_info()


def objects_that_are_no_managers():
    class Nothing:
        pass

    class OnlyEnter:
        def __enter__(self): ...

    def use(x):
        with x:
            pass

    return error_of(use, Nothing()), error_of(use, OnlyEnter()), error_of(use, 5)


def an_async_manager_in_a_plain_with():
    class Async:
        async def __aenter__(self): ...

        async def __aexit__(self, *exc_info): ...

    with Async():
        pass


def nested_with_in_try_and_loops():
    log = []
    for i in range(3):
        try:
            with _Manager(f"m{i}"):
                try:
                    if i == 1:
                        raise ValueError(i)
                    if i == 2:
                        raise KeyError(i)
                    log.append(i)
                except ValueError:
                    log.append("inner")
                    continue
                finally:
                    log.append("finally")
        except KeyError as e:
            log.append(("outer", e.args))
    return log


def generators_as_context_managers():
    @contextlib.contextmanager
    def tag(name):
        print(f"<{name}>")
        try:
            yield name.upper()
        except ValueError as e:
            print("caught", e)
        finally:
            print(f"</{name}>")

    with tag("a") as a, tag("b") as b:
        print(a, b)
        raise ValueError("inside")
    return error_of(_raise_inside, tag("c"), KeyError("passes"))


def _raise_inside(manager, error):
    with manager:
        raise error


def a_context_manager_generator_that_does_not_stop():
    @contextlib.contextmanager
    def twice():
        yield 1
        yield 2

    @contextlib.contextmanager
    def never():
        if False:
            yield

    def use(manager):
        with manager:
            pass

    return error_of(use, twice()), error_of(use, never()), error_of(_raise_inside, twice(), ValueError("v"))


def a_context_manager_that_raises_another_exception():
    @contextlib.contextmanager
    def translate():
        try:
            yield
        except KeyError as e:
            raise ValueError("translated") from e

    with translate():
        raise KeyError("original")


def a_context_manager_as_a_decorator():
    @contextlib.contextmanager
    def around():
        print("before")
        yield
        print("after")

    @around()
    def f(x):
        print("inside", x)
        return x * 2

    return f(1), f(2)


def a_with_statement_inside_a_generator():
    def g():
        with _Manager("g") as value:
            yield value
            yield 2

    it = g()
    first = next(it)
    it.close()
    print("closed")
    return first, list(g())


def a_transaction_with_savepoints():
    class Store:
        def __init__(self):
            self.data, self.saved = {}, []

        def __enter__(self):
            self.saved.append(dict(self.data))
            return self

        def __exit__(self, kind, error, traceback):
            before = self.saved.pop()
            if kind is not None:
                self.data = before
            return kind is LookupError

        def __setitem__(self, key, value):
            if value is None:
                raise LookupError(key)
            self.data[key] = value

    store = Store()
    with store:
        store["a"] = 1
        with store as inner:
            inner["b"] = 2
            inner["c"] = None
        store["d"] = 4
    try:
        with store:
            store["e"] = 5
            raise RuntimeError("rolled back")
    except RuntimeError:
        pass
    return store.data, store.saved


def indentation_by_context_manager():
    class Writer:
        def __init__(self):
            self.lines, self.depth = [], 0

        def __call__(self, text):
            self.lines.append("  " * self.depth + text)
            return self

        def __enter__(self):
            self.depth += 1

        def __exit__(self, *exc_info):
            self.depth -= 1

    w = Writer()
    with w("def f(x):"):
        with w("if x:"):
            w("return 1")
        with w("else:"):
            w("return 2")
    print("\n".join(w.lines))
    return w.depth
