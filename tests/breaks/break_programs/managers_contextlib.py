"""Breaks inside the standard library's context managers."""

import contextlib
import io
import warnings

import torch

from break_programs import LOG, RECORDS, Manager, Notice, Trouble, case, fail, halt, modes, program, values


@program
def contextmanager_function(stop):
    @contextlib.contextmanager
    def scaled(log, by):
        log.append(f"begin {by}")
        try:
            yield by
        finally:
            log.append(f"end {by}")

    def f(x, log):
        with scaled(log, 3) as by:
            y = x * by
            stop(y)
            y = y + by
        return y - 1

    return f, []


@program
def contextmanager_function_that_breaks(stop):
    @contextlib.contextmanager
    def noisy(x):
        stop(x)
        yield stop(x * 2)
        stop(x)

    def f(x):
        with noisy(x) as y, noisy(y) as z:
            w = z + 1
        return w * 2

    return f


@program
def contextmanager_function_that_swallows(stop):
    @contextlib.contextmanager
    def swallowing(log):
        try:
            yield
        except Trouble as error:
            log.append(stop(error.code))

    def f(x, log):
        y = x * 2
        with swallowing(log):
            stop(y)
            raise Trouble("swallowed", 8)
        with swallowing(log):
            fail("swallowed", 9)
        return y + 1

    return f, []


@program
def contextmanager_as_a_decorator(stop):
    @contextlib.contextmanager
    def around(log):
        log.append("before")
        yield
        log.append("after")

    def f(x, log):
        @around(log)
        def inner(v):
            log.append(stop(v))
            return v * 2

        return inner(x) + inner(x + 1)

    return f, []


@program
def exit_stack(stop):
    def f(x, log):
        with contextlib.ExitStack() as stack:
            names = [stack.enter_context(Manager(n, log)).name for n in "ab"]
            stack.callback(log.append, "callback")
            y = x * 2
            stop(y)
            stack.push(Manager("pushed", log))
            y = y + len(names)
            stop(y)
        return y, log[-1]

    return f, []


@program
def exit_stack_with_an_exception(stop):
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.enter_context(Manager("a", log, Trouble))
            stack.enter_context(torch.no_grad())
            log.append(x * 2)
            stop(x)
            fail("through the stack")
        return torch.is_grad_enabled(), x * 3

    return case(f, [], inputs=values(grad=True))


@program
def exit_stack_is_handed_on(stop):
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "late")
            y = x * 2
            stop(y)
            kept = stack.pop_all()
        log.append("between")
        stop(y)
        kept.close()
        return y + 1

    return f, []


@program
def suppress(stop):
    def f(x, log):
        y = x * 2
        with contextlib.suppress(KeyError, Trouble):
            log.append(stop(y))
            fail("suppressed")
        with contextlib.suppress(KeyError):
            stop(y)
            {}["k"]
        return y + 1

    return f, []


@program
def nullcontext_and_closing(stop):
    class Closes:
        def close(self):
            RECORDS.append(stop("closed"))

    def f(x):
        with contextlib.nullcontext(x * 2) as y, contextlib.closing(Closes()):
            z = stop(y) + 1
        return z * 2

    return f


@program
def redirected_output():
    def f(x):
        y = x * 2
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("inside", y)
            y = y + 1
        print("outside", y.sum())
        return y, text.getvalue()

    return f


@program
def catch_warnings():
    def f(x):
        y = x * 2
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("inside", Notice)
            y = y + len(caught)
        warnings.warn("outside", Notice)
        return y, [str(w.message) for w in caught]

    return f


@program
def warnings_become_errors():
    def f(x, log):
        y = x * 2
        with warnings.catch_warnings():
            warnings.simplefilter("error", Notice)
            try:
                warnings.warn("raised", Notice)
            except Notice as error:
                log.append(str(error))
        halt(y)
        warnings.warn("not raised", Notice)
        return y + 1

    return f, []


@program
def open_file(stop):
    def f(x):
        y = x * 2
        with open("notes.txt", "w") as file:
            file.write("one\n")
            stop(y)
            file.write(f"{y.shape[0]}\n")
            y = y + 1
        with open("notes.txt") as file:
            return y, stop(file.read()), file.closed

    return f


@program
def async_manager_driven_by_hand(stop):
    class Manager:
        def __init__(self, log):
            self.log = log

        async def __aenter__(self):
            self.log.append(stop("enter"))
            return self

        async def __aexit__(self, kind, error, tb):
            self.log.append(stop(kind and kind.__name__))
            return True

    async def work(x, log):
        async with Manager(log) as m:
            y = x * 2
            stop(y)
            raise Trouble("swallowed")
        return y + len(m.log)

    def f(x, log):
        try:
            work(x, log).send(None)
        except StopIteration as end:
            return end.value * 2

    return f, []


@program
def lock_as_a_manager(stop):
    import threading

    def f(x, log):
        lock = threading.Lock()
        with lock:
            log.append(lock.locked())
            y = x * 2
            stop(y)
        return y + 1, lock.locked()

    return f, []


@program
def logging_level_in_a_manager():
    @contextlib.contextmanager
    def quiet():
        before = LOG.level
        LOG.setLevel("ERROR")
        try:
            yield
        finally:
            LOG.setLevel(before)

    def f(x):
        y = x * 2
        with quiet():
            LOG.info("not logged")
            y = y + 1
        LOG.info("logged %d", y.ndim)
        return y

    return f


@program
def managers_of_both_kinds_interleaved(stop):
    def f(x, log):
        with Manager("a", log), torch.no_grad(), Manager("b", log):
            y = x * 2
            stop(y)
            with torch.enable_grad(), Manager("c", log):
                z = x * 3
                stop(z)
                modes()
            w = z + y
            modes()
        return w, z.requires_grad, w.requires_grad

    return case(f, [], inputs=values(grad=True))
