"""Breaks in the middle of expressions, with values waiting on the stack."""

import functools
import operator

import torch

from break_programs import RECORDS, Box, Trouble, fail_if, halt, program


def _join(*args, **kwargs):
    """A call with whatever arguments, as one value."""
    return [*args, *sorted(kwargs.items(), key=lambda item: item[0])]


def _three(a, b, c=1):
    return a + b * c


@program(all)
def in_a_nested_call(stop):
    def f(x):
        return _three(x * 2, _three(x, stop(x + 1)), x - 1)

    return f


@program
def in_nested_calls_with_keywords(stop):
    def f(x):
        return _join(x * 2, _join(stop(x), k=stop(x + 1)), a=_join(stop(1)), b=x - 1)

    return f


@program
def in_starred_calls(stop):
    def f(x):
        y = x * 2
        return _join(y, *_join(stop(y)), *[y + 1, stop(2)], **{"k": stop(y)}, **_pairs(z=stop(3)), last=y - 1)

    return f


def _pairs(**names):
    return names


@program
def in_the_callee_expression(stop):
    def f(x, table):
        y = x * 2
        return stop(table)["fn"](y + 1) + (stop(torch.add) if y.ndim else None)(y, stop(y))

    return f, {"fn": torch.relu}


@program
def in_arithmetic(stop):
    def f(x):
        y = x * 2
        return y + stop(x) * (y - stop(2)) / (1 + stop(abs(x)) ** stop(2)) - y

    return f


@program
def in_arithmetic_of_numbers(stop):
    def f(x):
        n = x.shape[0]
        m = n + stop(2) * (n - stop(1)) // stop(3) % 4 << stop(1)
        return x * m + (stop(True) + n), -stop(m), ~stop(n)

    return f


@program
def in_displays(stop):
    def f(x):
        y = x * 2
        return [y, stop(y), y + 1], {"k": stop(y), "l": [stop(1), (y, stop(2))]}, (*[stop(3)], y - 1)

    return f


@program
def in_attribute_and_item_chains(stop):
    def f(x, box):
        box.table[stop("a")].append(stop(x * 2))
        z = box.table[stop("a")][stop(-1)].mul(stop(2)).add(stop(x), alpha=stop(3))
        return z + 1

    return f, Box(table={"a": []})


@program
def in_item_stores(stop):
    def f(x, table):
        y = x * 2
        table[stop("a")][stop(0)] = stop(y)
        table[stop("a")][stop(1)] += stop(y)
        table["b"], table[stop("c")] = stop(y), y + 1
        return table["a"][0] + 1

    return f, {"a": [0, 1]}


@program
def in_attribute_stores(stop):
    def f(x, box):
        box.inner.value = stop(x) * 2
        stop(box).inner.value += stop(box.inner.value)
        stop(box.inner).other, box.same = stop(x), stop(box).inner.value
        return box.same is box.inner.value, box.same + 1

    return f, Box(inner=Box())


@program
def in_chained_comparisons(stop):
    def f(x):
        n = x.shape[0]
        y = x * 2
        if 1 < stop(n) < stop(5) <= stop(5) != stop(n):
            y = y + 1
        return y, 1 < stop(0) < stop(2), n == stop(n) in stop([n]) is not stop(None)

    return f


@program
def in_chained_comparisons_of_data():
    def f(x):
        y = x * 2
        inside = 0 < y.sum() < halt(20) <= halt(y.sum()).abs() + 20
        return y + 1 if inside else y - 1, bool(inside)

    return f


@program
def in_conditional_expressions(stop):
    def f(x):
        y = x * 2
        return _three(y, stop(y) if stop(y.ndim) else y, stop(2) if not stop(1) else y + 1), y - stop(1)

    return f


@program
def in_conditional_expressions_on_data():
    def f(x):
        y = x * 2
        return _join(y, y + 1 if y.sum() > 0 else y - 1, [y * 3 if y[0] < 0 else halt(y), y])

    return f


@program
def in_boolean_operators(stop):
    def f(x):
        y = x * 2
        return _join(y, stop(0) or y + 1, stop(y.ndim) and stop(y), (stop(None) or stop(0)) or y)

    return f


@program
def in_boolean_operators_on_data():
    def f(x):
        y = x * 2
        return _join(y, (y.sum() > 0 and y[0]) or y - 1, not (y[0] > 0 or y[1] > 0), y + 1)

    return f


@program
def in_f_strings(stop):
    def f(x):
        y = x * 2
        text = f"{y.ndim} {stop(1)} {y.shape} {stop('a'):>{stop(4)}} {stop([1])!r} {f'{stop(2)}-{y.dtype}'}"
        return text, y + 1

    return f


@program
def in_f_strings_of_data():
    def f(x):
        y = x * 2
        return _join(y, f"{y.ndim}: {y[0].item():.2f}, {(y + 1).tolist()} {y.sum():.1f}", y - 1)

    return f


@program
def in_slices(stop):
    def f(x):
        y = x * 2
        m = torch.outer(y, y)
        return m[stop(0) : stop(2), stop(1) :] + m[:2, : stop(-1)] * y[stop(None) : stop(2)]

    return f


@program
def in_comparison_with_contains(stop):
    def f(x):
        y = x * 2
        return _join(stop(1) in [1, stop(2)], stop("k") not in {"k": y}, y is stop(y), y + 1)

    return f


@program
def in_lambda_and_default(stop):
    def f(x):
        y = x * 2
        return _join(y, (lambda a, b=stop(y): a + stop(b))(stop(x)), y + 1)

    return f


@program
def in_a_walrus_inside_a_call(stop):
    def f(x):
        return _join(y := x * 2, z := stop(y) + 1, (w := stop(z)), y + z + w)

    return f


@program
def in_a_comprehension_inside_a_call(stop):
    def f(x):
        y = x * 2
        return _join(y, [stop(y * n) + y for n in range(stop(3))], {n: stop(y) for n in (stop(1), 2)}, y - 1)

    return f


@program
def in_a_generator_expression_inside_a_call(stop):
    def f(x):
        y = x * 2
        return _three(y, sum(stop(y * n) for n in range(3)), max(stop(n) for n in (1, 3, 2))) + y

    return f


@program
def in_method_calls_on_the_result_of_breaks(stop):
    def f(x):
        return stop(x * 2).add(stop(x)).mul(stop(x + 1).sum()).relu() - x.sub(stop(1))

    return f


@program
def in_calls_with_many_arguments(stop):
    def f(x):
        y = x * 2
        return _join(
            y, 1, "a", None, y + 1, 2.5, b"b", stop(y), (1, y), [y], {"k": y}, torch.float32, stop(3), y - 1
        )

    return f


@program
def in_string_methods(stop):
    def f(x):
        y = x * 2
        return "-".join(["a", stop("b"), str(stop(y.ndim))]), "%s %s" % (stop(1), y.shape), y + 1

    return f


@program
def in_a_return_of_a_long_tuple(stop):
    def f(x):
        y = x * 2
        return y, stop(1), y + 1, stop(y), (y - 1, stop(None)), [stop(y.shape)], y

    return f


@program
def in_a_raise_inside_an_expression(stop):
    def f(x, log):
        y = x * 2
        try:
            log.append(_join(y, stop(y), fail_if(y.sum() < 0, "negative"), y + 1))
        except Trouble as error:
            log.append(error.args)
            return _join(stop(y), error.code)
        return y

    return f, []


@program
def with_an_iterator_on_the_stack(stop):
    def f(x):
        y = x * 2
        for n in [1, 2, 3]:
            y = _three(y, _join(y, stop(n))[1], n) + [y, stop(x)][n % 2]
        return y

    return f


@program
def with_two_iterators_on_the_stack(stop):
    def f(x):
        y = x * 2
        for n in range(2):
            for m in (stop(n), 5):
                y = y + _three(x, stop(m), n)
        return y

    return f


@program
def with_a_handler_and_an_iterator_on_the_stack(stop):
    def f(x, log):
        for n in range(3):
            try:
                raise Trouble("x", n)
            except Trouble as error:
                log.append(_join(x * n, stop(error.code), x + n))
                for m in (1, 2):
                    log.append(m * stop(x))
        return x * 2

    return f, []


@program
def with_a_manager_on_the_stack(stop):
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = _three(y, _join(y, stop(y))[1], torch.is_grad_enabled())
        return _join(z, stop(1), torch.is_grad_enabled(), y)

    return f


@program
def the_same_value_several_times_on_the_stack(stop):
    def f(x):
        y = x * 2
        items = [1]
        r = _join(y, items, y, stop(items), items, [y, stop(items)], items)
        items.append(y + 1)
        return r, r[1] is r[3] is r[4]

    return f


@program
def value_on_the_stack_is_changed_by_the_break(stop):
    def f(x):
        items, y = [], x * 2
        r = _join(items, y, items.append(stop(y)), y.add_(stop(1)), items, y)
        return r, r[1] is y

    return f


@program
def name_is_rebound_while_its_value_waits(stop):
    def f(x):
        y = x * 2
        old = y
        r = _join(y, (y := stop(y + 1)), y, (y := stop(3)), y)
        return r, r[0] is old

    return f


@program
def unbound_names_while_values_wait(stop):
    def f(x):
        r = _join(x * 2, stop(x), [stop(1)])
        later = x + 1
        return r, later

    return f


@program
def partial_application_on_the_stack(stop):
    def f(x):
        y = x * 2
        return functools.partial(_three, y, c=stop(2))(stop(x)) + functools.reduce(
            operator.add, [y, stop(y)], stop(x)
        )

    return f


@program
def super_call_on_the_stack(stop):
    class Base:
        def go(self, a, b):
            return a - b

    class Thing(Base):
        def go(self, a, b):
            return super().go(stop(a), super(Thing, self).go(a, stop(b))) + stop(1)

    def f(x):
        return Thing().go(x * 2, x + 1) * 2

    return f


@program
def class_construction_on_the_stack(stop):
    def f(x):
        y = x * 2
        box = Box(a=stop(y), b=Box(c=[stop(1), y + 1]), d=y)
        return box, box.a is box.d

    return f


@program
def evaluation_order_in_the_middle(stop):
    def say(word):
        RECORDS.append(word)
        return stop(len(word))

    def f(x):
        y = x * 2
        r = say("a") + say("bb") * say("ccc") - [say("d"), y][0] + {say("e"): say("f")}[1]
        return y * r, say("g") if say("") else say("h"), say("i") < say("jj") < say("k")

    return f


@program
def deep_nesting(stop):
    def f(x):
        y = x * 2
        return _join(
            1, _join(2, _join(3, _join(4, _join(5, [6, {"k": (7, stop(y), y + 1)}], y), 4), 3), y), y - 1
        )

    return f


@program
def deep_arithmetic(stop):
    def f(x):
        y = x * 2
        return y + (
            y - (y * (y + (x - (y * (x + (y - (x * (y + stop(x) * 2) + 1) - 2) * 3) + 4) - 5) * 6) + 7) - 8
        )

    return f


@program
def tensor_and_number_of_the_same_data_on_the_stack():
    def f(x):
        y = x * 2
        return _join(
            y, y.sum().item(), y + 1, y.sum().item() * y, len(y.nonzero()), y.tolist(), y[int(y.argmax())]
        )

    return f


@program
def print_in_the_middle(stop):
    def f(x):
        y = x * 2
        return _join(y, print("one", y.ndim), y + 1, print("two", stop(y)), [print(x)], y - 1)

    return f


@program
def await_and_yield_in_the_middle(stop):
    def numbers(x):
        got = [x, (yield stop(x * 2)), x + 1, (yield stop(got_before := 1)), got_before]
        yield got

    def f(x):
        g = numbers(x)
        return [next(g), g.send(stop(5)), g.send(x + 3)]

    return f
