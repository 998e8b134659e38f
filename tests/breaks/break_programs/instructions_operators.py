"""Breaks at operators, comparisons, formatting, unpacking and displays."""

import operator

import torch

from break_programs import RECORDS, Box, case, halt, program, values


class _Value:
    """A number or tensor of its own class: every operator calls `stop`, and says which it was."""

    def __init__(self, raw, stop):
        self.raw, self.stop = raw, stop

    def __bool__(self):
        RECORDS.append("bool")
        self.stop(1)
        return bool(torch.as_tensor(self.raw).sum() != 0)

    def __format__(self, spec):
        return f"<{self.stop(spec)}>"

    def __repr__(self):
        self.stop(1)
        return "value"


def _raw(value):
    return value.raw if isinstance(value, _Value) else value


def _operator_method(name):
    def method(self, *others):
        RECORDS.append(name)
        apply = getattr(operator, name.replace("r", "", 1) if name in REFLECTED else name)
        operands = [self.raw, *map(_raw, others)]
        return _Value(self.stop(apply(*reversed(operands) if name in REFLECTED else operands)), self.stop)

    return method


REFLECTED = ("__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rpow__")
OPERATORS = (
    *("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__matmul__"),
    *("__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__neg__", "__pos__", "__invert__"),
    *("__abs__", "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__", *REFLECTED),
    *("__iadd__", "__isub__", "__imul__", "__itruediv__"),
)
for _name in OPERATORS:
    setattr(_Value, _name, _operator_method(_name))
_Value.__hash__ = None


@program
def arithmetic_operators_that_break(stop):
    def f(x):
        v = _Value(x * 2, stop)
        w = v + x - v * 2
        u = 3 - w / 2 + 1.5
        return u.raw + x, (v**2).raw, (2 * v % 3).raw, (v // 2).raw

    return f


@program
def bitwise_operators_that_break(stop):
    def f(x):
        v = _Value(x.int() + 5, stop)
        return (v & 3).raw, (v | 8).raw, (v ^ 1).raw, (v << 1 >> 2).raw, (~v).raw + x

    return f


@program
def unary_operators_that_break(stop):
    def f(x):
        v = _Value(x * 2, stop)
        y = (-v).raw + (+v).raw + abs(v).raw
        return y * 2, not v, not not v

    return f


@program
def matrix_product_that_breaks(stop):
    def f(x):
        v = _Value(x * 2, stop)
        return (v @ x).raw + x.sum(), (v @ _Value(x, stop)).raw

    return f


@program
def in_place_operators_that_break(stop):
    def f(x):
        y = x * 2
        v = kept = _Value(y, stop)
        v += x
        v -= 1
        v *= 2
        v /= 4
        return v.raw, kept.raw is y, y + 1

    return f


@program
def in_place_operator_on_a_tensor_with_a_breaking_operand(stop):
    def f(x):
        y = x * 2
        w = y
        y += stop(x)
        y *= stop(2)
        return w is y, y + 1

    return f


@program
def comparisons_that_break(stop):
    def f(x):
        v = _Value(x.sum() * 2, stop)
        return [(v < 1).raw, (v >= 1).raw, (v == 2).raw, (v != 2).raw, (1 > v).raw], x + 1

    return f


@program
def comparison_used_as_a_condition(stop):
    def f(x):
        y = x * 2
        if _Value(y.sum(), stop) > 1:
            y = y + 1
        elif _Value(y.sum(), stop) == 0:
            y = y * 5
        return y - 1

    return f


@program
def chained_comparison_that_breaks(stop):
    def f(x):
        v = _Value(x.sum(), stop)
        y = x * 2
        if -1 < v < 1:
            return y
        return y + 1 if 0 <= v != 3 <= 10 else y - 1

    return f


@program
def chained_comparison_of_tensor_data():
    def f(x):
        y = x * 2
        if -1 < y.sum() < 1:
            return y + 1
        return y - 1 if y[0] < y[1] < y[2] else y * 3

    return f


@program
def equality_called_by_contains(stop):
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            RECORDS.append((self.n, getattr(other, "n", None)))
            return stop(self.n) == other.n

        def __hash__(self):
            return 1

    def f(x):
        y = x * 2
        keys = [Key(1), Key(2)]
        table = {Key(1): y, Key(2): y + 1}
        found = Key(2) in keys, keys.index(Key(2)), keys.count(Key(1))
        return table[Key(2)] * 2, found

    return f


@program
def hash_that_breaks(stop):
    class Key:
        def __hash__(self):
            return stop(7)

    def f(x):
        key = Key()
        table = {key: x * 2}
        table[Key()] = 3
        return table[key] + 1, len({key, Key(), key}), key in table

    return f


@program
def conversions_that_break(stop):
    class Number:
        def __index__(self):
            return stop(2)

        def __int__(self):
            return stop(3)

        def __float__(self):
            return stop(1.5)

        def __len__(self):
            return stop(4)

        def __str__(self):
            return stop("number")

    def f(x):
        n, y = Number(), x * 2
        z = y * int(n) + float(n) + len(n)
        return z, str(n), [10, 20, 30][n], list(range(n)), y[n]

    return f


@program
def f_string_with_breaking_values(stop):
    def f(x):
        v = _Value(x * 2, stop)
        y = v.raw + 1
        text = f"a {v} b {v:>{stop(5)}} c {v!r:>8} {stop('d')!a} {y.shape}"
        return text, y * 2

    return f


@program
def f_string_of_tensor_data():
    def f(x):
        y = x * 2
        text = f"{y} {y.sum():.2f} {y[0].item():+.1f} {y.shape=}"
        return text, y + 1

    return f


@program
def string_formatting_methods(stop):
    def f(x):
        v = _Value(x * 2, stop)
        y = v.raw + 1
        return "%s and %r %d" % (v, v, stop(3)), "{0:x} {k}".format(v, k=stop(1)), y * 2, str([v])

    return f


@program
def printing_in_the_middle_of_a_format():
    def say(v):
        print("say", v)
        return v

    def f(x):
        y = x * 2
        text = f"{say(1)}-{y.ndim}-{say(2):>{say(3)}}-{say(y.numel())}"
        return text, y + 1

    return f


# Unpacking


class _Sequence:
    """An iterable whose start, steps and end break."""

    def __init__(self, items, stop):
        self.items, self.stop = items, stop

    def __iter__(self):
        self.stop(len(self.items))
        return _SequenceIterator(iter(self.items), self.stop)


class _SequenceIterator:
    def __init__(self, items, stop):
        self.items, self.stop = items, stop

    def __iter__(self):
        return self

    def __next__(self):
        return self.stop(next(self.items))


@program
def unpacking_that_breaks(stop):
    def f(x):
        a, b = _Sequence([x * 2, x + 1], stop)
        [c, (d, e)] = _Sequence([a, _Sequence([b, 1], stop)], stop)
        return a + b + c, d * e

    return f


@program
def starred_unpacking_that_breaks(stop):
    def f(x):
        y = x * 2
        first, *middle, last = _Sequence([y, 1, 2, y + 1], stop)
        *rest, (a, *b) = [y, 3, _Sequence([y, 4, 5], stop)]
        return first + last, middle, rest, a * 2, b

    return f


@program
def unpacking_too_few_or_too_many(stop):
    def f(x, log):
        y = x * 2
        for n in (1, 3):
            try:
                a, b = _Sequence([y] * n, stop)
            except ValueError as error:
                log.append(str(error))
        return y + 1, len(log)

    return f, []


@program
def tensor_is_unpacked_around_a_break(stop):
    def f(x):
        a, b, c = x * 2
        stop(a)
        d, *e = stop(x + 1)
        return a + b + c + d, e

    return f


@program
def unpacking_into_attributes_and_items(stop):
    def f(x, box, items):
        box.a, items[0], (box.b, *items[1]) = _Sequence([x * 2, x + 1, stop([x, 1, 2])], stop)
        return box.a + items[0] + box.b

    return f, Box(), [None, None]


@program
def rotating_and_swapping(stop):
    def f(x):
        a, b, c = x * 2, x + 1, x - 1
        a, b = b, stop(a)
        a, b, c = stop(c), a, b
        a, b, c, d = c, stop(b), a, x
        return a, b, c, d

    return f


# Displays


@program
def displays_with_breaking_elements(stop):
    def f(x):
        y = x * 2
        made = [y, stop(1), y + 1], (stop(2), y), {"a": stop(y), stop("b"): y - 1}, {1, stop(3)}
        return made, made[0][0] is made[1][1]

    return f


@program
def displays_that_unpack(stop):
    def f(x):
        y = x * 2
        items = [*stop([y, 1]), y + 1, *_Sequence([2, 3], stop)]
        table = {"a": y, **stop({"b": y + 1}), "c": stop(4), **{"a": 5}}
        return items, (*items[:1], stop(6)), table, {*stop((1, 2)), 3}

    return f


@program
def dictionary_display_evaluates_in_order(stop):
    def say(word):
        RECORDS.append(word)
        return stop(word)

    def f(x):
        y = x * 2
        return {say("k1"): say("v1"), say("k2"): y, **{say("k3"): y + 1}, say("k1"): say("again")}

    return f


@program
def large_display_with_a_break_at_its_end(stop):
    def f(x):
        y = x * 2
        return [y, 1, 2, 3, 4, 5, 6, 7, 8, 9, y + 1, 11, 12, 13, 14, 15, 16, 17, 18, 19, stop(y), y - 1]

    return f


@program
def nested_displays(stop):
    def f(x):
        y = x * 2
        made = {"a": [(y, [stop(y)]), {"b": (stop(1), {stop(2)}, y + 1)}]}
        return made["a"][0][0] is made["a"][0][1][0], made

    return f


# Conditions


@program
def and_or_with_breaks(stop):
    def f(x):
        y = x * 2
        a = stop(y.ndim) and stop(0) or stop(y)
        b = stop(None) or (stop(1) and y + 1)
        return a + b, not stop(0), stop(0) or stop("") or stop(())

    return f


@program
def and_or_on_tensor_data():
    def f(x):
        y = x * 2
        flag = (y > 0).all() or (y < 0).all()
        both = y.sum() and y[0] and y + 1
        return y + 1 if flag else y - 1, both, not y.sum(), bool(flag and y.any())

    return f


@program
def any_and_all_on_tensor_data():
    def f(x):
        y = x * 2
        if any(v > 1 for v in y):
            y = y + 1
        if all(v < 0 for v in y) or all(y == 0):
            y = y * 3
        return y - 1, any(y), max(y), min(y, key=lambda v: v.abs()), sum(y)

    return f


@program
def conditional_expressions_with_breaks(stop):
    def f(x):
        y = x * 2
        a = stop(y) if stop(1) else y
        b = (y + 1 if stop(0) else stop(y - 1)) if stop(y.ndim) else stop(None)
        return a + b

    return f


@program
def conditional_expression_on_tensor_data():
    def f(x):
        y = x * 2
        z = (y + 1) if y.sum() > 0 else (y - 1) if y.sum() < 0 else y
        return z * (2 if z[0] > 0 else 3)

    return f


@program
def walrus_around_a_break(stop):
    def f(x):
        if (y := stop(x * 2)) is not None and (n := y.shape[0]) > 2:
            y = y + n
        z = [w := stop(y), w + 1, (w := w - 1)]
        return z, w

    return f


@program
def branch_on_data_in_every_form():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        elif (y < 0).any():
            y = y - 1
        else:
            y = y * 5
        while y.sum() > 3:
            y = y - 1
        assert y.sum() <= 3, "too large"
        return y if not y[0] else y + 2

    return f


@program
def branches_that_bind_different_names():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            a = y + 1
        elif y.sum() < 0:
            b = y - 1
        halt(y)
        try:
            return a * 2
        except UnboundLocalError:
            pass
        try:
            return b * 3
        except UnboundLocalError as error:
            return str(error), y

    return f


@program
def numbers_read_from_tensors():
    def f(x):
        n = int(x.sum())
        y = x * n + float(x[0])
        m = y.sum().item()
        z = y / (abs(m) + 1)
        k = len(z.nonzero())
        return z * k, n, m, k, round(z.max().item(), 2), complex(x[1]), [bool(v) for v in x]

    return f


@program
def numbers_read_from_tensors_are_used_as_sizes():
    def f(x, n):
        k = n.item()
        y = x * k
        z = torch.zeros(k) + k
        halt(z)
        return z.sum() + y, list(range(k)), "ab" * k

    numbers = [torch.tensor(n) for n in (2, 0, 3)]
    return case(f, calls=list(zip(values(), numbers, strict=True)))
