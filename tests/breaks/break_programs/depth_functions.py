"""Breaks in functions that the function under test calls, and in recursion."""

import functools

from break_programs import RECORDS, Trouble, halt, program

# Functions


@program(all)
def two_calls_deep(stop):
    def inner(v):
        w = v + 1
        stop(w)
        return w * 2

    def f(x):
        y = x * 2
        return inner(y) + y

    return f


@program
def six_calls_deep(stop):
    def level(n):
        if n == 0:
            return stop
        below = level(n - 1)

        def call(v):
            w = v + n
            return below(w) * w

        return call

    def f(x):
        return top(x * 2) - 1

    top = level(5)
    return f


@program
def three_calls_deep_with_effects_on_the_way(stop):
    def third(v, log):
        log.append("third")
        w = stop(v * 3)
        log.append(w)
        return w

    def second(v, log):
        log.append("second")
        w = third(v + 1, log)
        log.append("second again")
        return w + third(w, log)

    def f(x, log):
        log.append("first")
        y = second(x * 2, log)
        log.append("end")
        return y - 1

    return f, []


@program
def caller_has_a_loaded_stack(stop):
    def inner(a, b):
        return a + stop(b)

    def middle(a, b, *, c):
        return [a, inner(a, b), c, inner(b, c)]

    def f(x):
        y = x * 2
        return [y, *middle(y, x, c=1), {"k": middle(x, y, c=inner(x, 2))}, y - 1]

    return f


@program
def caller_has_a_loop_and_a_handler(stop):
    def inner(v, n):
        stop(v)
        if n == 1:
            raise Trouble("one", n)
        return v * n

    def f(x, log):
        for n in range(3):
            try:
                x = inner(x + 1, n) + x
            except Trouble as error:
                log.append(error.code)
            finally:
                log.append(x)
        return x

    return f, []


@program
def callee_raises_after_its_break(stop):
    def inner(v, log):
        log.append(v)
        stop(v)
        log.append(v + 1)
        raise Trouble("after the break")

    def f(x, log):
        y = x * 2
        inner(y, log)

    return f, []


@program
def callee_breaks_on_some_calls_only():
    def inner(v, n):
        if n % 2:
            halt(v)
        return v + n

    def f(x):
        for n in range(4):
            x = inner(x * 2, n)
        return x

    return f


@program
def callee_branches_on_data():
    def sign(v):
        if v.sum() > 0:
            return "positive", v + 1
        if v.sum() < 0:
            return "negative", v - 1
        return "zero", v

    def f(x):
        word, y = sign(x * 2)
        other, z = sign(-y)
        return word, other, z * 2

    return f


@program
def same_callee_breaks_and_is_called_again(stop):
    def inner(v, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return stop(v) + len(seen)

    def f(x):
        del inner.__defaults__[0][:]
        a = inner(x * 2)
        b = inner(a)
        return a, b, inner(inner(b))

    return f


@program
def functions_as_arguments(stop):
    def apply(fn, *args, **kwargs):
        return fn(*args, **kwargs) + 1

    def f(x):
        y = x * 2
        return apply(apply, apply, stop, y) + apply(lambda v, w: stop(v) * w, y, w=x)

    return f


@program
def decorators_with_everything(stop):
    def traced(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            RECORDS.append((fn.__name__, len(args), sorted(kwargs)))
            result = fn(*args, **kwargs)
            RECORDS.append("left")
            return result

        return wrapper

    @traced
    @traced
    def inner(a, *rest, scale=1, **others):
        stop(a)
        return a * scale + len(rest) + len(others)

    def f(x):
        y = x * 2
        return inner(y, 1, scale=2) + inner(y, k=1)

    return f


@program
def default_arguments_that_break(stop):
    def f(x):
        y = x * 2

        def inner(a, b=[stop(y)], *, c=stop(3)):  # noqa: B006
            b.append(a)
            return sum(b) * c

        return inner(x), inner(y), inner(x, [y])

    return f


@program
def closures_over_the_callers_cells(stop):
    def f(x):
        total = x * 2

        def add(v):
            nonlocal total
            total = total + v
            stop(total)
            total = total * 2
            return total

        a = add(x)
        b = add(1)
        return a, b, total, total is b

    return f


@program
def partials_of_partials(stop):
    def inner(a, b, c, d=0):
        return stop(a) + b * c - d

    def f(x):
        y = x * 2
        g = functools.partial(functools.partial(inner, y, d=1), 2)
        return g(x) + g(3, d=y)

    return f


# Recursion


@program
def direct_recursion(stop):
    def down(n, v):
        if n == 0:
            return stop(v)
        v = v + n
        r = down(n - 1, v)
        return r * 2 + v

    def f(x):
        return down(5, x * 2)

    return f


@program
def recursion_that_breaks_at_each_level(stop):
    def down(n, v, log):
        log.append(n)
        stop(v)
        r = v if n == 0 else down(n - 1, v + 1, log)
        stop(r)
        log.append(n)
        return r * 2

    def f(x, log):
        return down(4, x, log) + 1

    return f, []


@program
def mutual_recursion(stop):
    def even(n, v):
        return stop(v) if n == 0 else odd(n - 1, v * 2)

    def odd(n, v):
        w = stop(v) + 1
        return w if n == 0 else even(n - 1, w)

    def f(x):
        return even(5, x), odd(4, x)

    return f


@program
def recursion_of_the_function_under_test(stop):
    def f(x, n=3):
        y = x * n
        if n == 0:
            return stop(y) + 1
        stop(n)
        return f(y, n - 1) + y

    return f


@program
def recursion_ends_by_data():
    def f(x, n=0):
        y = x * 2
        if y.abs().sum() > 30 or n > 6:
            return y, n
        deeper, m = f(y + 1, n + 1)
        return deeper + y, m

    return f


@program
def recursion_over_a_tree(stop):
    def total(node, x):
        y = stop(x * node["value"])
        for child in node["children"]:
            y = y + total(child, x)
        node["seen"] = y
        return y

    def f(x, tree):
        return total(tree, x) + 1

    leaf = lambda value: {"value": value, "children": []}
    tree = leaf(1)
    tree["children"] = [leaf(2), {**leaf(3), "children": [leaf(4)]}]
    return f, tree


@program
def recursion_with_memo(stop):
    def fib(n, x, memo):
        if n not in memo:
            stop(n)
            memo[n] = x * n if n < 2 else fib(n - 1, x, memo) + fib(n - 2, x, memo)
        return memo[n]

    def f(x, memo):
        return fib(5, x, memo) + 1

    return f, {}
