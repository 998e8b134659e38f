"""Breaks inside loops with every kind of flow."""

import torch

from break_programs import Box, Trouble, case, halt, program, values


@program
def while_on_data():
    def f(x):
        n = 0
        while x.sum().abs() < 20:
            x = x * 2 + 1
            n += 1
        return x, n

    return f


@program
def while_on_a_number_with_a_break(stop):
    def f(x):
        n = 3
        while n:
            n -= 1
            x = stop(x) + n
        return x, n

    return f


@program
def while_else(stop):
    def f(x):
        n = 0
        while n < 3:
            n += 1
            x = x + stop(n)
        else:
            x = stop(x) * 2
        while n < 9:
            n += stop(2)
            if n > 6:
                break
        else:
            x = x * 100
        return x, n

    return f


@program
def for_else(stop):
    def f(x):
        y = x * 2
        for n in (1, 2):
            y = y + stop(n)
        else:
            y = y * stop(3)
        for n in (1, 2, 3):
            if stop(n) == 2:
                y = y - 1
                break
        else:
            y = y * 100
        return y, n

    return f


@program
def for_else_on_data():
    def f(x, log):
        for n, v in enumerate(x):
            if v < 0:
                log.append(x * n)
                break
        else:
            log.append(x + 1)
        return log[-1] * 2, n

    return f, []


@program
def continue_around_a_break(stop):
    def f(x):
        for n in range(5):
            if n == 1:
                continue
            x = x + n
            if stop(n) == 2:
                continue
            x = x * 2
            if n == 3:
                break
            stop(x)
        return x, n

    return f


@program
def nested_loops(stop):
    def f(x):
        out = []
        for a in range(3):
            y = x * a
            for b in "ab":
                for c in (1, 2):
                    if c == a:
                        stop(c)
                        break
                    y = y + c
                    stop(y)
                else:
                    continue
                out.append((a, b, y))
                if stop(b) == "b":
                    break
        return out, a, b, c

    return f


@program
def loop_variable_after_the_loop(stop):
    def f(x):
        for n, (a, *b) in enumerate([(1, 2, 3), (4, 5)]):
            x = x + stop(a)
        stop(x)
        for n in ():
            stop(n)
        return x * n, a, b

    return f


@program
def loop_variable_is_unbound_when_nothing_was_iterated(stop):
    def f(x, items):
        y = x * 2
        for n in items:
            y = y + stop(n)
        stop(y)
        try:
            return y + n
        except UnboundLocalError as error:
            return str(error), y

    a, b, c = values()
    return case(f, calls=[(a, []), (b, [1]), (c, [])])


@program
def list_grows_while_it_is_iterated(stop):
    def f(x):
        items = [1, 2]
        for n in items:
            x = x + stop(n)
            if len(items) < 5:
                items.append(n + 1)
        return x, items

    return f


@program
def list_shrinks_while_it_is_iterated(stop):
    def f(x, items):
        for n in items:
            items.remove(stop(n))
            x = x + n
        items.extend([6, 7, 8])
        return x

    return f, [1, 2, 3, 4, 5]


@program
def dictionary_changes_size_while_it_is_iterated(stop):
    def f(x, table):
        y = x * 2
        for key in table:
            y = y + stop(1)
            table[len(table)] = y
        return y

    return f, {"a": 1}


@program
def iterated_name_is_rebound(stop):
    def f(x):
        items = [1, 2, 3]
        for n in items:
            items = items[1:]
            x = x + stop(n) * len(items)
            n = None
        return x, items, n

    return f


@program
def three_hundred_breaks(stop):
    def f(x):
        for n in range(300):
            x = x + 1
            stop(n)
        return x * 2, n

    return f


@program
def more_breaks_than_the_recursion_limit():
    def f(x):
        for n in range(1200):
            x = x + 1
            halt(n)
        return x * 2

    return case(f, inputs=values()[:2])


@program
def many_breaks_in_a_while_loop():
    def f(x):
        while x.abs().sum() < 400:
            x = x + x.sign() + 0.5
        return x * 2

    return f


@program
def two_loops_share_an_iterator(stop):
    def f(x):
        numbers = iter(range(6))
        for a in numbers:
            for b in numbers:
                x = x + stop(a) * b
                if b % 2:
                    break
        return x, list(numbers)

    return f


@program
def iterator_zipped_with_itself(stop):
    def f(x):
        numbers = iter([1, 2, 3, 4, 5])
        out = []
        for a, b in zip(numbers, numbers):
            out.append(x * a + stop(b))
        return out, list(numbers)

    return f


@program
def next_by_hand(stop):
    def f(x):
        numbers = iter([1, 2, 3])
        y = x * next(numbers)
        stop(y)
        y = y + next(numbers)
        stop(y)
        last = next(numbers)
        stop(last)
        return y, last, next(numbers, "none"), list(numbers)

    return f


@program
def next_past_the_end(stop):
    def f(x, log):
        numbers = iter([1])
        y = x * next(numbers)
        stop(y)
        try:
            next(numbers)
        except StopIteration as end:
            log.append(end.args)
        return y + 1

    return f, []


@program
def return_from_the_middle_of_loops(stop):
    def f(x):
        for a in range(3):
            for b in range(3):
                x = x + stop(b)
                if a + b == 3:
                    return x, a, b

    return f


@program
def return_from_a_loop_on_data():
    def f(x):
        for n in range(5):
            x = x + 1
            if x.sum() > 6:
                return x, n
        return x, "end"

    return f


@program
def try_in_a_loop(stop):
    def f(x, log):
        for n in range(4):
            try:
                if stop(n) % 2:
                    raise Trouble("odd", n)
                x = x + 1
            except Trouble as error:
                log.append(error.code)
                if n == 3:
                    break
                continue
            finally:
                log.append(x * n)
        return x * 2

    return f, []


@program
def with_in_a_loop(stop):
    def f(x):
        out = []
        for n in range(3):
            with torch.set_grad_enabled(n % 2 == 0):
                stop(n)
                out.append((x * n, torch.is_grad_enabled()))
                if n == 1:
                    continue
        return out, torch.is_grad_enabled()

    return f


@program
def functions_made_in_a_loop(stop):
    def f(x):
        early, late = [], []
        for n in range(3):
            y = x * n
            early.append(lambda v, n=n, y=y: v + n + y)
            late.append(lambda v: v + n + y)
            stop(n)
        return [g(x) for g in early], [g(x) for g in late]

    return f


@program
def loop_with_state_outside(stop):
    def f(x, box):
        for n in range(3):
            box.history.append(x)
            x = x * 2
            box.last = x
            stop(n)
            box.count += 1
        return box.last is x, x - 1

    return f, Box(history=[], last=None, count=0)


@program
def in_place_updates_in_a_loop(stop):
    def f(x):
        y = x * 2
        w = y[:2]
        for n in range(3):
            y += 1
            stop(w)
            w *= 2
        return y, w

    return f
