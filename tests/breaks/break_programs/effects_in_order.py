"""The order of effects, breaks, finalizers and errors."""

import functools
import re
import weakref

import torch

from break_programs import Box, Trouble, case, fail, fail_if, program, values


@program
def effects_and_prints_interleaved():
    def f(x, log, box):
        print("begin", len(log))
        log.append(x * 2)
        print("appended", len(log), log[-1].sum().item())
        box.n = len(log)
        print("set", box.n)
        del log[0]
        print("deleted", len(log), box.n)
        return x + box.n

    return f, [1], Box()


@program
def everything_in_one_function(stop):
    state = {"calls": 0}

    def f(x, box, log):
        state["calls"] += 1
        for n in range(2):
            try:
                with torch.no_grad():
                    y = x * n + state["calls"]
                    stop(y)
                    box.last = y
                if stop(n):
                    raise Trouble("n", n)
                log.append(lambda v: v + y)
            except Trouble as error:
                log.append(error.code)
                stop(box)
            finally:
                log.append([stop(g(x) if callable(g) else g) for g in log[:1]])
        return box.last is y, y + 1

    return f, Box(last=None), []


@program
def exception_leaves_after_some_effects():
    def f(x, log, table, w):
        log.append(x * 2)
        w.add_(1)
        fail_if(x.sum() < 0, "first")
        table["x"] = log[-1]
        w.mul_(2)
        fail_if(x.sum() == 0, "second")
        del table["x"]
        return w + 1

    return f, [], {}, torch.zeros(3)


@program
def finalizers_run_in_order(stop):
    class Thing:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(f"gone {self.name}")

    log = []

    def f(x):
        a = Thing("a")
        y = x * 2
        a = Thing("b")
        stop(y)
        a = None
        log.append("end")
        return y + 1

    return f


@program
def weak_references_across_a_break(stop):
    class Thing:
        pass

    def f(x, alive):
        t = Thing()
        t.v = x * 2
        ref = weakref.ref(t)
        stop(x)
        alive.append(ref() is t)
        y = t.v + 1
        del t
        stop(x)
        alive.append(ref() is None)
        return y

    return f, []


@program
def weak_dictionary_across_a_break(stop):
    def f(x, boxes):
        table = weakref.WeakKeyDictionary()
        for box in boxes:
            table[box] = x * box.n
        stop(x)
        values = weakref.WeakValueDictionary(a=boxes[0])
        stop(x)
        return [table[box] + 1 for box in boxes], values["a"] is boxes[0], len(table)

    return f, [Box(n=1), Box(n=2)]


@program
def break_raises_between_effects():
    def f(x, log):
        log.append(x * 2)
        try:
            log.append("before")
            log.append(fail("between"))
        except Trouble:
            log.append("handled")
        log.append(x + 1)
        return len(log)

    return f, []


@program
def effects_through_partial_and_bound_methods(stop):
    def f(x, log, table):
        note = functools.partial(log.append)
        put = functools.partial(table.__setitem__, "k")
        note(x * 2)
        put(1)
        stop(x)
        note(x + 1)
        put(log[-1])
        return table["k"] is log[-1]

    return f, [], {}


@program
def environment_and_files(stop):
    import os

    def f(x):
        os.environ["BREAK_PROGRAMS"] = "1"
        y = x * 2
        stop(y)
        value = os.environ.pop("BREAK_PROGRAMS")
        with open("effects.txt", "a") as file:
            print(value, y.shape, file=file)
        return y + int(value)

    return f


@program
def delayed_effects_of_generators(stop):
    def f(x, log):
        def writer():
            while True:
                got = yield
                log.append(got)

        w = writer()
        next(w)
        w.send(x * 2)
        stop(x)
        w.send(x + 1)
        stop(log)
        w.close()
        return log[-1] * 2

    return f, []


@program
def argument_lists_and_their_tensors(stop):
    def f(tensors):
        tensors[0] = tensors[0] * 2
        tensors.append(tensors[0] + 1)
        stop(tensors)
        tensors[1].add_(1)
        tensors.reverse()
        return tensors[0] is tensors[-1], sum(tensors)

    return case(f, calls=[([x, x.clone()],) for x in values()])


@program
def a_pattern_that_is_shown_as_it_is_compiled(stop):
    def f(x):
        y = x * 2
        pattern = re.compile("a|b+", re.DEBUG)
        stop(y)
        return pattern.findall("abb"), y + 1

    return f


@program
def objects_with_a_finaliser_that_count_themselves(stop):
    class Counted:
        count = 0

        def __new__(cls):
            cls.count += 1
            return object.__new__(cls)

        def __del__(self):
            type(self).count -= 1

    def f(x):
        y = x * 2
        one = Counted()
        stop(y)
        several = [one, *(Counted() for _ in range(3))]
        stop(y)
        return Counted.count, len(several), y + 1

    return f
