"""Breaks at calls of every form, and at the building of their arguments."""

import functools
import marshal
import math
import operator
import random
import time
from pathlib import Path

import torch

import framelift
from break_programs import LOG, RECORDS, Box, Keywords, case, change, halt, program, values

# Calls


@program(all)
def in_a_call_with_a_positional_argument(stop):
    def f(x):
        y = x * 2
        z = stop(y)
        return z + y

    return f


@program
def call_that_takes_nothing():
    def f(x):
        y = x.sin()
        r = halt()
        return y + 1, r

    return f


@program
def call_with_keywords():
    @framelift.disable
    def weigh(a, *, by, plus=0):
        return a * by + plus

    def f(x):
        y = x + 1
        z = weigh(y, by=2, plus=x)
        w = weigh(by=x, a=3)
        return z - y + w

    return f


@program
def call_with_star_arguments():
    def f(x):
        parts = [x * 2, x + 1]
        a = add(*parts)
        b = add(x, *(p * 2 for p in parts[:1]))
        return a + b + parts[0]

    @framelift.disable
    def add(a, b):
        return a + b

    return f


@program
def call_with_double_star_arguments():
    @framelift.disable
    def add(a, b=0, **rest):
        return a + b, sorted(rest)

    def f(x):
        options = {"b": x * 2, "note": "n"}
        first, names = add(x, **options)
        second, more = add(**{"a": first}, **options, extra=1)
        return first, second * 2, names, more, options

    return f


@program
def call_with_everything_at_once():
    @framelift.disable
    def all_of_it(a, b, /, c, *rest, d, **others):
        return a + b + c + sum(rest) + d, others

    def f(x):
        y = x * 3
        r, others = all_of_it(x, *[y, 1], *(2, 3), d=y, **{"k": y})
        return r * 2, others["k"] is y

    return f


@program
def method_of_an_instance(stop):
    class Thing:
        def go(self, v):
            self.count = getattr(self, "count", 0) + 1
            return stop(v) * self.count

    def f(x):
        t = Thing()
        y = t.go(x + 1)
        return t.go(y) + t.count

    return f


@program
def method_that_is_disabled():
    def f(x, box):
        y = x * 2
        box.total = box.add(y) + box.add(y + 1)
        return box.total - y

    return f, _Adder()


class _Adder:
    def __init__(self):
        self.seen = []

    @framelift.disable
    def add(self, v):
        self.seen.append(v)
        return v + len(self.seen)


@program
def bound_method_kept_in_a_local():
    def f(x, adder):
        add = adder.add
        y = add(x * 2)
        z = add(y + 1)
        return z * 2, add.__self__ is adder

    return f, _Adder()


@program
def bound_builtin_kept_in_a_local():
    def f(x, log):
        note = log.append
        note(x * 2)
        length = len(marshal.dumps("abc"))
        note(x + 1)
        note(length)
        return x - 1

    return f, []


@program
def class_whose_construction_breaks(stop):
    class Thing:
        def __init__(self, v):
            self.v = stop(v * 2)
            self.w = self.v + 1

    def f(x):
        t = Thing(x + 1)
        return t.w - x, t.v

    return f


@program
def class_whose_new_breaks(stop):
    class Thing:
        def __new__(cls, v):
            made = super().__new__(cls)
            made.v = stop(v + 1)
            return made

        def __init__(self, v):
            self.w = self.v * v

    def f(x):
        t = Thing(x * 2)
        return t.v + t.w

    return f


@program
def partial_of_a_breaking_function():
    weigh = functools.partial(framelift.disable(lambda a, b, c=0: a * b + c), 2, c=5)

    def f(x):
        y = x.cos()
        return weigh(y) + y

    return f


@program
def partial_made_before_the_break(stop):
    def f(x):
        y = x * 2
        add = functools.partial(torch.add, y, alpha=2)
        stop(y)
        return add(x), add.keywords, add.args[0] is y

    return f


@program
def callable_instance(stop):
    class Caller:
        def __init__(self):
            self.calls = 0

        def __call__(self, v, by=1):
            self.calls += 1
            return stop(v) * by

    def f(x, caller):
        y = caller(x + 1)
        return caller(y, by=3) - caller.calls

    return f, Caller()


@program
def builtin_that_is_unknown():
    def f(x):
        y = x * 2
        n = len(marshal.dumps("abc")) % 7
        m = marshal.loads(marshal.dumps(5))
        return y * n + m

    return f


@program
def builtin_with_a_data_dependent_argument():
    def f(x):
        y = x * 2
        n = round(y.sum().item(), 1)
        m = max(y.tolist())
        k = math.floor(y[0])
        return y * n + m - k, divmod(n, 2)

    return f


@program
def print_with_every_option():
    def f(x):
        y = x + 1
        print("y", y, sep=": ", end="|")
        z = y * 2
        print(*[z, "z"], sep="\n", flush=True)
        print()
        return z - y

    return f


@program
def clock_around_the_work():
    def f(x):
        began = time.perf_counter()
        y = x * 2
        taken = time.perf_counter() - began
        z = y + 1
        return z, taken >= 0, isinstance(taken, float)

    return f


@program
def dice():
    def f(x):
        y = x * random.random()
        z = y + random.randint(1, 6)
        items = [z, y, x]
        random.shuffle(items)
        return items, random.choice(items) * torch.rand(3)

    return f


@program
def writing_and_reading_a_file():
    def f(x):
        y = x * 2
        path = Path("values.txt")
        path.write_text(str(y.sum().item()))
        with open(path, "a") as file:
            file.write(" and more")
            z = y + 1
            file.write(f" {z[0].item()}")
        return z, path.read_text()

    return f


@program
def logging_levels():
    def f(x):
        y = x * 2
        LOG.info("y has %d values", y.numel())
        LOG.debug("not shown %s", y)
        z = y - 1
        LOG.warning("sum %.1f", z.sum())
        return z

    return f


@program
def operator_functions():
    def f(x, box):
        y = operator.mul(x, 2)
        a = operator.methodcaller("add", y)(box)
        b = operator.attrgetter("seen")(box)
        return operator.itemgetter(-1)(b) + a

    return f, _Adder()


@program
def result_of_a_call_is_called(stop):
    def outer(v):
        w = stop(v + 1)

        def inner(u):
            return stop(u * w)

        return inner

    def f(x):
        return outer(x)(x * 2) + outer(x + 1)(x)

    return f


@program
def breaking_call_that_changes_its_argument():
    def f(x):
        y = x * 2
        w = y[1:]
        z = change(y)
        return z is y, y + 1, w * 2

    return f


@program
def breaking_call_whose_result_is_dropped(stop):
    def f(x, log):
        y = x * 2
        stop(y)
        log.append(y)
        stop(y + 1)
        stop(None)
        return y - 1

    return f, []


@program
def the_first_and_the_last_instruction_break(stop):
    def f(x):
        stop(x)
        y = x * 2
        z = y + 1
        return stop(z)

    return f


@program
def nothing_after_the_break(stop):
    def f(x, log):
        log.append(x * 2)
        stop(x)

    return f, []


@program
def two_breaks_with_nothing_between(stop):
    def f(x):
        y = x * 2
        stop(stop(y))
        stop(y), stop(y)
        return y + 1

    return f


# Arguments


@program
def every_kind_of_parameter(stop):
    def f(a, b=2, /, c=3, *rest, d, e=5, **others):
        y = a * b + c
        stop(y)
        z = y * d + e
        stop(z)
        return z + sum(rest), sorted(others), others

    a, b, c = values()
    return case(
        f,
        calls=[
            (a, Keywords(d=1)),
            (b, 4, b, 1.5, 2, Keywords(d=b, e=6, z=a, y=None)),
            (c, 1, Keywords(c=2, d=c, k=[c])),
        ],
    )


@program
def rest_and_others_are_changed_around_the_break(stop):
    def f(x, *rest, **others):
        others["y"] = x * 2
        rest = rest + (x,)
        stop(x)
        others["y"] += 1
        del others["k"]
        stop(x)
        return rest, others

    return case(f, calls=[(x, n, Keywords(k=n)) for n, x in enumerate(values())])


@program
def parameters_are_reassigned_and_deleted(stop):
    def f(x, n, m):
        x = x * n
        del n
        stop(x)
        m, x = x + 1, m
        n = stop(m) * 2
        del m
        return n, x

    return f, 2, 3


@program
def default_values_are_evaluated_with_breaks(stop):
    def f(x):
        y = x * 2

        def inner(a, b=stop(y), *, c=stop(y + 1)):
            return a + b * c

        return inner(x) + inner(x, c=1)

    return f


@program
def mutable_default_grows(stop):
    def f(x, seen=[]):  # noqa: B006
        seen.append(x * 2)
        stop(x)
        seen.append(len(seen))
        return seen[0] + 1

    copy = lambda: type(f)(f.__code__, f.__globals__, "f", ([],), f.__closure__)
    return copy()


@program
def keyword_only_defaults_survive(stop):
    def f(x, *, scale=2.0, shift=None):
        y = x * scale
        stop(y)
        return y if shift is None else y + shift

    a, b, c = values()
    return case(f, calls=[(a,), (b, Keywords(scale=3.0)), (c, Keywords(shift=c))])


@program
def lambda_is_the_function_under_test():
    return lambda x: (x * 2, halt(x + 1), x - 1)


@program
def compiled_method(stop):
    class Model:
        def __init__(self):
            self.calls, self.last = 0, None

        def step(self, x):
            self.calls += 1
            self.last = x * self.calls
            stop(self.last)
            self.calls += 10
            return self.last + 1

    model = Model()
    return case(model.step, inputs=values(), state=model.__dict__)


@program
def compiled_partial(stop):
    def f(scale, x, *, plus):
        y = x * scale
        stop(y)
        return y + plus

    return functools.partial(f, 2.0, plus=1)


@program
def arguments_are_mutated_before_the_break_and_read_after(stop):
    def f(x, items, table, box):
        items.append(x * 2)
        table["n"] = len(items)
        box.value = items[-1]
        stop(x)
        return items[-1] is box.value, table["n"] + len(items), box.value + 1

    return f, [], {}, Box(value=None)


@program
def evaluation_order_of_arguments(stop):
    def say(word, value):
        RECORDS.append(word)
        return value

    def f(x):
        r = _collect(
            say("a", x * 2),
            *say("rest", [stop(x)]),
            k=say("k", stop(x + 1)),
            **say("others", {"z": 1}),
        )
        return r, x - 1

    return f


def _collect(*args, **kwargs):
    return args, kwargs
