"""Breaks inside comprehensions and generator expressions."""

import random
import zlib

import torch

import framelift
from break_programs import by_print, program


@program
def list_comprehension(stop):
    def f(x):
        y = x * 2
        out = [stop(y * n) + 1 for n in range(3)]
        return out, sum(out)

    return f


@program
def comprehensions_of_every_kind(stop):
    def f(x):
        y = x * 2
        a = {stop(n) for n in (1, 2)}
        b = {stop(k): y + stop(n) for k, n in {"a": 1, "b": 2}.items()}
        c = tuple(stop(n) for n in [y, 1])
        return a, b, c, y - 1

    return f


@program
def nested_comprehensions(stop):
    def f(x):
        y = x * 2
        return [[stop(y * a) + b for b in range(a)] for a in range(3)], [
            (a, stop(b)) for a in (1, 2) for b in (y, a) if a
        ]

    return f


@program
def comprehension_with_filters(stop):
    def f(x):
        y = x * 2
        out = [y * n for n in range(6) if stop(n) % 2 if stop(n) > 1]
        return out, [n for n in range(3) if not stop(n)]

    return f


@program
def comprehension_filtered_by_data():
    def f(x):
        kept = [v * 2 for v in x if v > 0]
        table = {n: v for n, v in enumerate(x) if not v.item() < 0}
        return kept, table, [v for v in x.tolist() if v] and x + 1

    return f


@program
def comprehension_over_a_breaking_iterable(stop):
    def f(x):
        y = x * 2
        return [n * y for n in stop([1, 2])], {n for n in stop("ab")}, y + 1

    return f


@program
def comprehension_with_walrus_and_closure(stop):
    def f(x):
        y = x * 2
        out = [last := stop(y * n) for n in (1, 2)]
        fns = [lambda v: v + n + y for n in (stop(1), 2)]
        return out, last is out[-1], [g(x) for g in fns]

    return f


@program
def generator_expression_into_sum_any_all_list(stop):
    def f(x):
        y = x * 2
        a = sum(stop(y * n) for n in range(3))
        b = any(stop(n) > 1 for n in (0, 1, 2, 3))
        c = all(stop(n) for n in (1, 0, 2))
        return a, b, c, list(stop(y) + n for n in (1, 2)), ",".join(stop(s) for s in "ab")

    return f


@program
def generator_expression_consumed_on_both_sides(stop):
    def f(x):
        numbers = (stop(x * n) for n in range(4))
        a = next(numbers) + 1
        stop(a)
        b = next(numbers) + a
        return b, list(numbers)

    return f


@program
def comprehension_that_raises(stop):
    def f(x, log):
        y = x * 2
        try:
            return [y / 1 if stop(n) < 2 else 1 // 0 for n in range(4)]
        except ZeroDivisionError as error:
            log.append(str(error))
            return y + 1

    return f, []


@program
def comprehension_in_a_class_body(stop):
    def f(x):
        class Table:
            rows = [stop(n) for n in range(3)]
            first = next(iter(rows))

        return x * len(Table.rows) + Table.first, Table.rows

    return f


@program
def dice_in_a_loop():
    def f(x):
        rolls = []
        for n in range(4):
            rolls.append(random.randint(1, 6))
            x = x + rolls[-1] * torch.rand(3)
        return x, rolls, zlib.crc32(bytes(rolls))

    return f


@program
def print_in_a_loop():
    def f(x):
        for n in range(3):
            x = x * 2
            print(n, x.sum().item())
            x = x - 1
        return x

    return f


@program
def disabled_generator_function_is_iterated():
    @framelift.disable
    def numbers(x):
        for n in range(3):
            yield x * n

    def f(x):
        y = x * 2
        for v in numbers(y):
            y = y + by_print(v)
        return y

    return f
