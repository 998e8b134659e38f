"""Integers, floats, complex numbers, decimals and fractions."""

import math

from programs import error_of


def big_integers():
    n = 2**200
    return (
        n,
        n // 3**50,
        n % 10**9 + 7,
        (n - 1).bit_length(),
        -n >> 190,
        n & (2**64 - 1),
        str(n)[-5:],
        int(str(n)) == n,
        pow(7, 300, 10**20),
    )


def integer_methods_and_conversion():
    return [
        (255).to_bytes(2, "big"),
        int.from_bytes(b"\x01\x00", "little"),
        (10).bit_count(),
        int("ff", 16),
        int("0b101", 0),
        int(" 12 "),
        int(-3.9),
        int("1_000"),
        hex(-255),
        oct(8),
        bin(5),
        1_000,
        0xFF,
        0o17,
        0b11,
        (5).real,
        (5).as_integer_ratio(),
        (-7).__floordiv__(2),
        divmod(-7, 2),
    ]


def float_arithmetic():
    a, b = 0.1, 0.2
    return [
        a + b,
        a * 3,
        7.5 // 2,
        -7.5 // 2,
        7.5 % -2,
        2.0**0.5,
        1e308 * 10,
        -1e308 * 10,
        5e-324 / 2,
        round(2.5),
        round(3.5),
        round(2.675, 2),
        round(1234, -2),
        (1.0).is_integer(),
        (0.5).hex(),
        float.fromhex("0x1p-2"),
        0.0 == -0.0,
    ]


def infinities_and_nans():
    inf, nan = float("inf"), float("nan")
    return [
        inf > 10**400,
        -inf < 0,
        inf - inf,
        nan == nan,
        nan != nan,
        nan < 1,
        math.isnan(nan),
        inf * 0,
        max(1, nan),
        max(nan, 1),
        sorted([3, inf, -inf]),
        inf == inf + 1,
        error_of(int, inf),
        error_of(int, nan),
        inf // 1,
        5 % inf,
    ]


def complex_numbers():
    z = 3 + 4j
    return [
        z + 1,
        z * z,
        z / 2,
        abs(z),
        z.conjugate(),
        z.real,
        z.imag,
        z**2,
        -z,
        z == 3 + 4j,
        complex("1+2j"),
        error_of(lambda: z < z),
        error_of(lambda: z // 1),
        error_of(int, z),
        1j**2,
    ]


def mixed_types_are_promoted():
    return [
        type(x).__name__
        for x in (
            1 + 1,
            1 + 1.0,
            1.0 + 1j,
            True + 1,
            True + 0.5,
            1 / 1,
            4 // 2.0,
            2**-1,
            2**0.5,
            (-8) ** (1 / 3),
            round(1.5),
            round(1.5, 1),
            10 % 3.0,
        )
    ]


def comparison_between_types():
    return [
        1 == 1.0,
        1 == True,
        0.1 + 0.2 == 0.3,
        2**53 == 2.0**53,
        2**53 + 1 == 2.0**53,
        1 < 1.5 < 2,
        hash(1) == hash(1.0) == hash(True),
        1 == 1 + 0j,
        "1" == 1,
        10**400 > 1e308,
    ]


def math_functions():
    return [
        math.sqrt(2),
        math.gcd(12, 18, 27),
        math.lcm(4, 6),
        math.factorial(10),
        math.comb(5, 2),
        math.perm(5, 2),
        math.isqrt(17),
        math.floor(-1.5),
        math.ceil(-1.5),
        math.trunc(-1.5),
        math.hypot(3, 4),
        math.copysign(1, -0.0),
        math.fsum([0.1] * 10),
        math.prod([1, 2, 3]),
        math.isclose(0.1 + 0.2, 0.3),
        math.modf(1.25),
        math.frexp(8.0),
        math.dist((0, 0), (3, 4)),
        error_of(math.sqrt, -1),
        error_of(math.log, 0),
        error_of(math.factorial, -1),
        error_of(math.factorial, 2.5),
    ]


def math_calls_user_methods():
    class Number:
        def __floor__(self):
            return "floor"

        def __ceil__(self):
            return "ceil"

        def __trunc__(self):
            return "trunc"

        def __float__(self):
            return 4.0

    n = Number()
    return math.floor(n), math.ceil(n), math.trunc(n), math.sqrt(n), error_of(math.gcd, n)


def decimals_and_fractions():
    from decimal import Decimal, getcontext, localcontext
    from fractions import Fraction

    with localcontext() as c:
        c.prec = 5
        third = Decimal(1) / 3
    f = Fraction(1, 3) + Fraction(1, 6)
    return [
        str(third),
        str(Decimal("0.1") + Decimal("0.2")),
        str(f),
        float(f),
        f == 0.5,
        str(Fraction("0.125")),
        error_of(lambda: Decimal(1) / 0),
        error_of(lambda: Fraction(1, 0)),
        getcontext().prec >= 5,
        str(sum([Fraction(1, n) for n in range(1, 5)])),
    ]


def own_number_classes_join_the_tower():
    class Mod7:
        def __init__(self, n):
            self.n = n % 7

        def _of(self, other):
            if isinstance(other, Mod7):
                return other.n
            if isinstance(other, int):
                return other
            return NotImplemented

        def __add__(self, other):
            n = self._of(other)
            return n if n is NotImplemented else Mod7(self.n + n)

        __radd__ = __add__

        def __sub__(self, other):
            return Mod7(self.n - self._of(other))

        def __rsub__(self, other):
            return Mod7(self._of(other) - self.n)

        def __truediv__(self, other):
            return self * Mod7(self._of(other)) ** -1

        def __rtruediv__(self, other):
            return Mod7(other) / self

        def __mul__(self, other):
            return Mod7(self.n * self._of(other))

        def __pow__(self, e):
            return Mod7(pow(self.n, e, 7))

        def __eq__(self, other):
            return self.n == self._of(other)

        def __hash__(self):
            return hash(self.n)

        def __int__(self):
            return self.n

        def __repr__(self):
            return f"{self.n}m7"

    a, b = Mod7(3), Mod7(5)
    return (
        repr(
            [a + b, a - b, 1 - a, a / b, 1 / a, a * 4, a**100, a == 3, int(b), sum([a, b]), {a: 1}[Mod7(10)]]
        ),
        error_of(lambda: a + "x"),
        error_of(lambda: a + 1.5),
    )


def int_and_float_subclasses():
    class Meters(int):
        def __add__(self, other):
            return Meters(int(self) + int(other))

        def __repr__(self):
            return f"{int(self)}m"

    class Percent(float):
        def __str__(self):
            return f"{float(self):.0%}"

    a = Meters(5)
    return (
        repr(a + 3),
        repr(3 + a),
        type(a * 2).__name__,
        f"{Percent(0.25)!s}",
        Percent(0.5) + 1,
        isinstance(a, int),
        a == 5,
        [0] * Meters(2),
        hash(a) == hash(5),
    )


def random_with_a_seed():
    import random

    r = random.Random(42)
    items = list(range(8))
    r.shuffle(items)
    return [
        r.random(),
        r.randint(1, 100),
        r.choice("abc"),
        r.sample(range(50), 3),
        items,
        r.choices([1, 2], weights=[1, 9], k=3),
        round(r.gauss(0, 1), 6),
    ]


def a_linear_congruential_generator_and_statistics():
    import statistics

    def lcg(seed, a=1664525, c=1013904223, m=2**32):
        while True:
            seed = (a * seed + c) % m
            yield seed / m

    g = lcg(1)
    xs = [round(next(g), 4) for _ in range(20)]
    return statistics.mean([1, 2, 3, 4]), statistics.median([3, 1, 2]), round(statistics.stdev(xs), 6), xs[:3]


def newton_bisection_and_integration():
    def newton(f, df, x, tolerance=1e-12):
        for steps in range(100):
            step = f(x) / df(x)
            x -= step
            if abs(step) < tolerance:
                return x, steps
        raise ArithmeticError("no convergence")

    def bisect(f, low, high):
        while high - low > 1e-10:
            middle = (low + high) / 2
            low, high = (middle, high) if f(low) * f(middle) > 0 else (low, middle)
        return low

    def simpson(f, a, b, n=100):
        h = (b - a) / n
        return h / 3 * sum(f(a + i * h) * (1 if i in (0, n) else 4 if i % 2 else 2) for i in range(n + 1))

    return (
        newton(lambda x: x * x - 2, lambda x: 2 * x, 1.0),
        round(bisect(math.cos, 1, 2), 8),
        round(simpson(math.sin, 0, math.pi), 8),
        error_of(newton, lambda x: x * x + 1, lambda x: 2 * x, 1),
    )


def number_bases_and_roman_numerals():
    def to_base(n, base):
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"
        if n < 0:
            return "-" + to_base(-n, base)
        out = ""
        while True:
            n, r = divmod(n, base)
            out = digits[r] + out
            if not n:
                return out

    def roman(n):
        out = []
        for value, letters in (
            (1000, "M"),
            (900, "CM"),
            (500, "D"),
            (400, "CD"),
            (100, "C"),
            (90, "XC"),
            (50, "L"),
            (40, "XL"),
            (10, "X"),
            (9, "IX"),
            (5, "V"),
            (4, "IV"),
            (1, "I"),
        ):
            count, n = divmod(n, value)
            out.append(letters * count)
        return "".join(out)

    return (
        [to_base(n, b) for n, b in ((255, 16), (-10, 2), (0, 7), (35, 36))],
        [roman(n) for n in (1994, 2024, 4, 3999)],
        int(to_base(12345, 7), 7),
    )
