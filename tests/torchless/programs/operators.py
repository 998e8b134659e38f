"""Unary, binary, in-place and comparison operators, on builtins and on classes that define them."""

import operator

from programs import error_of


class _Traced:
    """Answers every operator with what was asked of it."""

    def __init__(self, name):
        self.name = name


def _left(symbol):
    return lambda self, other: f"{self.name} {symbol} {getattr(other, 'name', other)}"


def _right(symbol):
    return lambda self, other: f"{getattr(other, 'name', other)} {symbol} {self.name} (reflected)"


def _in_place(symbol):
    def operate(self, other):
        self.name = f"({self.name} {symbol}= {other})"
        return self

    return operate


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^", "matmul": "@",
}  # fmt: skip


class _Left(_Traced):
    pass


class _Right(_Traced):
    pass


class _InPlace(_Traced):
    pass


for _name, _symbol in _SYMBOLS.items():
    setattr(_Left, f"__{_name}__", _left(_symbol))
    setattr(_Right, f"__r{_name}__", _right(_symbol))
    setattr(_InPlace, f"__i{_name}__", _in_place(_symbol))


def arithmetic_of_integers():
    a, b = 17, 5
    return [a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a // b, -a % b, a // -b, a % -b]


def bit_operators_of_integers():
    a, b = 0b1100, 0b1010
    return [a & b, a | b, a ^ b, a << 2, a >> 2, ~a, -a >> 1]


def unary_operators():
    x = 3
    return [+x, -x, ~x, not x, not not x, -(-x), +True, -True, ~int(True)]


def in_place_operators_on_a_local():
    x = 10
    x += 5
    x -= 1
    x *= 3
    x //= 2
    x **= 2
    x %= 100
    x <<= 3
    x >>= 1
    x &= 0xFF
    x |= 0x100
    x ^= 0x0F
    x /= 2
    return x


def every_binary_operator_calls_its_method():
    a = _Left("a")
    return [a + 1, a - 1, a * 1, a / 1, a // 1, a % 1, a**1, a << 1, a >> 1, a & 1, a | 1, a ^ 1, a @ 1]


def every_reflected_operator_is_tried_when_the_left_side_does_not_know():
    b = _Right("b")
    return [1 + b, 1 - b, 1 * b, 1 / b, 1 // b, 1 % b, 1**b, 1 << b, 1 >> b, 1 & b, 1 | b, 1 ^ b, 1 @ b]


def every_in_place_operator_calls_its_method():
    c = _InPlace("c")
    c += 1
    c -= 2
    c *= 3
    c /= 4
    c //= 5
    c %= 6
    c **= 7
    c <<= 8
    c >>= 9
    c &= 10
    c |= 11
    c ^= 12
    c @= 13
    return c.name


def in_place_falls_back_to_the_binary_operator():
    a = _Left("a")
    a += 1
    b = 1
    b @= _Right("b")
    return a, b


def a_subclass_on_the_right_is_asked_first():
    class Base:
        def __add__(self, other):
            return "base add"

        def __radd__(self, other):
            return "base radd"

    class Derived(Base):
        def __radd__(self, other):
            return "derived radd"

    return Base() + Derived(), Derived() + Base(), Base() + Base()


def a_right_operand_of_the_same_type_is_not_asked_to_reflect():
    class Silent:
        def __add__(self, other):
            print("add")
            return NotImplemented

        def __radd__(self, other):
            print("radd")
            return "never"

    return error_of(lambda: Silent() + Silent())


def both_sides_decline():
    class Declines:
        def __sub__(self, other):
            return NotImplemented

    return error_of(lambda: Declines() - 1)


def unsupported_operands_are_named_in_the_error():
    cases = [
        lambda: 1 + "a",
        lambda: "a" + 1,
        lambda: [] - [],
        lambda: {} | [],
        lambda: None @ None,
        lambda: 2 ** "x",
        lambda: 1 << 1.0,
        lambda: -"a",
        lambda: +[],
        lambda: ~1.5,
        lambda: 1 < "a",
        lambda: None >= None,
        lambda: int <= 1,
        lambda: 1 in 2,
        lambda: divmod("a", 1),
        lambda: pow("a", 2, 3),
    ]
    return [error_of(case) for case in cases]


def unsupported_in_place_operands_are_named_in_the_error():
    def plus():
        x = 1
        x += "a"

    def shift():
        x = []
        x <<= 2

    def power():
        x = "a"
        x **= 2

    return [error_of(plus), error_of(shift), error_of(power)]


def division_by_zero():
    return [
        error_of(case)
        for case in (lambda: 1 / 0, lambda: 1 // 0, lambda: 1 % 0, lambda: 1.0 / 0, lambda: 0**-1)
    ]


def comparison_operators_of_builtins():
    a, b = 1, 2
    return [
        a < b,
        a <= b,
        a == b,
        a != b,
        a > b,
        a >= b,
        "a" < "b",
        [1, 2] < [1, 3],
        (1,) == (1.0,),
        {1} < {1, 2},
    ]


def chained_comparisons_evaluate_the_middle_once():
    calls = []

    def middle(x):
        calls.append(x)
        return x

    return (
        1 < middle(5) < 10,
        1 < middle(0) < calls.append("not reached"),
        1 < 2 < 3 != 4 == len(calls) is not None,
        calls,
    )


def comparison_methods_may_return_anything():
    class Symbolic:
        def __lt__(self, other):
            return f"lt {other}"

        def __ge__(self, other):
            return ["ge", other]

        def __eq__(self, other):
            return 0

        __hash__ = None

    s = Symbolic()
    return s < 1, 2 > s, s >= 3, 4 <= s, s == 5, s != 5, bool(s != 5)


def comparison_reflects_when_the_left_side_declines():
    class Left:
        def __lt__(self, other):
            print("left lt")
            return NotImplemented

    class Right:
        def __gt__(self, other):
            print("right gt")
            return "from the right"

    return Left() < Right()


def not_equal_is_derived_from_equal():
    class Point:
        def __init__(self, x):
            self.x = x

        def __eq__(self, other):
            print("eq")
            return self.x == other.x

    return Point(1) == Point(1), Point(1) != Point(1), Point(1) != Point(2)


def equality_defaults_to_identity():
    a, b = object(), object()
    return a == a, a == b, a != b, a is a, a is not b


def identity_of_singletons():
    return [None is None, True is not False, ... is Ellipsis, NotImplemented is NotImplemented]


def containment_uses_contains_then_iter_then_getitem():
    class Contains:
        def __contains__(self, item):
            return "yes" if item == 1 else ""

    class Iterates:
        def __iter__(self):
            return iter([1, 2, 3])

    class Indexes:
        def __getitem__(self, index):
            if index > 3:
                raise IndexError
            return index * 10

    return [
        1 in Contains(),
        2 in Contains(),
        2 not in Contains(),
        3 in Iterates(),
        4 in Iterates(),
        20 in Indexes(),
        25 not in Indexes(),
    ]


def containment_finds_by_identity_before_equality():
    nan = float("nan")
    return nan in [nan], nan == nan, [nan] == [nan], float("nan") in [nan]


def truth_uses_bool_then_len():
    class Bool:
        def __bool__(self):
            print("bool")
            return False

        def __len__(self):
            return 1

    class Len:
        def __len__(self):
            print("len")
            return 0

    class Neither:
        pass

    return [
        not Bool(),
        not Len(),
        not Neither(),
        "then" if Bool() else "else",
        Len() and 1 and True or "empty",
    ]


def truth_that_is_not_a_bool_is_an_error():
    class Wrong:
        def __bool__(self):
            return 1

    class Negative:
        def __len__(self):
            return -1

    return [
        error_of(lambda: not Wrong()),
        error_of(lambda: 1 if Wrong() else 2),
        error_of(lambda: bool(Negative())),
    ]


def boolean_operators_return_their_operands():
    return [
        0 or "b",
        "a" or 1 / 0,
        "a" and "b",
        0 and 1 / 0,
        None or [] or {},
        1 and 2 and 3,
        not (1 and 0) or 5,
    ]


def in_place_on_an_attribute_evaluates_the_object_once():
    class Box:
        value = 1

    boxes = []

    def box():
        boxes.append(Box())
        return boxes[-1]

    box().value += 10
    return len(boxes), boxes[0].value, Box.value


def in_place_on_an_item_evaluates_the_index_once():
    log = []

    def index(i):
        log.append(i)
        return i

    items = [1, 2, 3]
    items[index(1)] *= 7
    items[index(-1)] += index(0)
    return items, log


def in_place_on_a_list_inside_a_tuple_changes_it_and_raises():
    pair = ([1], 2)
    error = error_of(lambda: pair.__setitem__(0, 1))
    try:
        pair[0] += [2]
    except TypeError as e:
        return pair, str(e), error


def in_place_add_extends_the_same_list():
    a = b = [1]
    a += (2, 3)
    a *= 2
    c = b
    c = c + [9]
    return a, b, a is b, c is b


def operands_are_evaluated_left_to_right():
    def say(x):
        print(x)
        return x

    say(1) + say(2) * say(3) - say(4)
    [say(5), say(6)][say(0)]
    {say("k"): say("v")}
    say(7) < say(8) < say(9)
    target = {}
    target[say("index")] = say("value")
    return target


def power_binds_tighter_than_unary_minus_on_its_left():
    x = 2
    return -(x**2), 2**-1, -(2**2), 2**3**2, (-x) ** 2


def matrix_multiplication_by_hand():
    class Matrix:
        def __init__(self, rows):
            self.rows = rows

        def __matmul__(self, other):
            columns = list(zip(*other.rows))
            return Matrix(
                [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows]
            )

        def __imatmul__(self, other):
            self.rows = (self @ other).rows
            return self

        def __pow__(self, exponent, modulus=None):
            result = Matrix([[int(i == j) for j in range(len(self.rows))] for i in range(len(self.rows))])
            base = self
            while exponent:
                if exponent & 1:
                    result = result @ base
                base = base @ base
                exponent >>= 1
            return result

    fibonacci = Matrix([[1, 1], [1, 0]])
    m = fibonacci**10
    m @= fibonacci
    return m.rows, (fibonacci @ fibonacci).rows


def three_argument_power_calls_pow_with_the_modulus():
    class P:
        def __pow__(self, exponent, modulus=None):
            return exponent, modulus

    return pow(P(), 2), pow(P(), 2, 5), pow(3, 20, 7), pow(3, -1, 7), P() ** 9


def divmod_round_and_index_protocols():
    class N:
        def __divmod__(self, other):
            return "divmod", other

        def __rdivmod__(self, other):
            return "rdivmod", other

        def __round__(self, digits=None):
            return "round", digits

        def __index__(self):
            return 3

        def __abs__(self):
            return "abs"

        def __trunc__(self):
            return 7

        def __neg__(self):
            return "neg"

        def __pos__(self):
            return "pos"

        def __invert__(self):
            return "invert"

    n = N()
    return [
        divmod(n, 2),
        divmod(2, n),
        round(n),
        round(n, 2),
        "abcdef"[n],
        [0] * operator.index(n),
        abs(n),
        -n,
        +n,
        ~n,
        hex(n),
        bin(n),
        list(range(n)),
    ]


def sequence_repetition_and_concatenation():
    n = 3
    return ["ab" * n, n * [1, 2], (1,) * 0, [1] + [2], "a" + "b", b"a" + b"b", [[]] * -1]


def string_modulo_formats():
    name, values = "x", {"a": 1, "b": 2.5}
    return ["%s=%d" % (name, 5), "%(a)03d|%(b).2f" % values, "%r %%" % name, error_of(lambda: "%d" % name)]


def type_union_operator():
    alias = int | str | None
    return [isinstance(1, alias), isinstance(1.0, alias), str(alias), int | None == None | int]


def bool_operands_are_integers():
    t, f = True, False
    return [t + t, t & f, t | f, t ^ t, t & 1, -t, t == 1, t is True, {1: "a", True: "b"}]


def dict_and_set_operators():
    a, b = {"x": 1, "y": 2}, {"y": 3}
    merged = a | b
    a |= [("z", 9)]
    s = {1, 2, 3}
    t = {2, 3, 4}
    u = set(s)
    u &= t
    v = set(s)
    v -= t
    w = set(s)
    w ^= t
    return (
        merged,
        a,
        sorted(s | t),
        sorted(s & t),
        sorted(s - t),
        sorted(s ^ t),
        sorted(u),
        sorted(v),
        sorted(w),
    )


def vectors_with_a_full_set_of_operators():
    class Vector:
        def __init__(self, *xs):
            self.xs = xs

        def __add__(self, other):
            return Vector(*(a + b for a, b in zip(self.xs, other.xs, strict=True)))

        def __sub__(self, other):
            return self + -other

        def __neg__(self):
            return Vector(*(-x for x in self.xs))

        def __mul__(self, k):
            if isinstance(k, Vector):
                return sum(a * b for a, b in zip(self.xs, k.xs))
            if isinstance(k, (int, float)):
                return Vector(*(x * k for x in self.xs))
            return NotImplemented

        __rmul__ = __mul__

        def __eq__(self, other):
            return isinstance(other, Vector) and self.xs == other.xs

        def __repr__(self):
            return f"Vector{self.xs}"

    u, v = Vector(1, 2, 3), Vector(4, 5, 6)
    results = [u + v, u - v, 2 * u, u * 0.5, u * v, -u, u == Vector(1, 2, 3), u != v]
    return [repr(r) for r in results], error_of(lambda: u * "a"), error_of(lambda: u + Vector(1))
