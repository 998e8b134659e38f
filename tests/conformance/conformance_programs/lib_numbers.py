"""Library: statistics, fractions, decimal, datetime, calendar, random, numbers, colorsys, graphlib."""

from __future__ import annotations

import datetime
import decimal
import fractions
import numbers
import random
import sys
import time

import torch

from conformance_programs import add_source, error_of, program

PURE = {
    "statistics": {
        "mean": "statistics.mean(s), statistics.fmean(s), statistics.fmean([1, 2], weights=[1, 3])",
        "geometric_mean": "statistics.geometric_mean([1, 2, 4]), statistics.harmonic_mean([2.5, 3, 10])",
        "median": "statistics.median(s), statistics.median_low(s), statistics.median_high(s), statistics.median_grouped(s)",
        "mode": "statistics.mode('aab'), statistics.multimode('aabb')",
        "stdev": "statistics.stdev(s), statistics.pstdev(s), statistics.variance(s), statistics.pvariance(s)",
        "quantiles": "statistics.quantiles(s, n=4)",
        "correlation": "statistics.correlation([1, 2, 3], [1, 2, 4]), statistics.covariance([1, 2, 3], [1, 2, 4])",
        "linear_regression": "statistics.linear_regression([1, 2, 3], [2, 4, 6])",
        "NormalDist": "statistics.NormalDist(0, 1).cdf(n), statistics.NormalDist(1, 2) + 3, "
        "statistics.NormalDist.from_samples([1, 2, 3]).mean",
        "StatisticsError": "error_of(statistics.mean, []), issubclass(statistics.StatisticsError, ValueError)",
        "of_fractions": "statistics.mean([fractions.Fraction(1, 3), 1]), statistics.mean([decimal.Decimal('0.1'), 1])",
    },
    "fractions": {
        "made": "fractions.Fraction(n, 6), fractions.Fraction('3/7'), fractions.Fraction(0.5), fractions.Fraction('1.5')",
        "arithmetic": "[op(fractions.Fraction(1, 2), fractions.Fraction(n, 4)) for op in (operator.add, operator.sub, "
        "operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow)]",
        "mixed": "fractions.Fraction(1, 2) + 1, 1 - fractions.Fraction(1, n), fractions.Fraction(1, 2) * 0.5",
        "compared": "fractions.Fraction(1, 2) < 0.6, fractions.Fraction(2, 4) == 0.5, hash(fractions.Fraction(1, 2))",
        "rounding": "round(fractions.Fraction(7, 2)), math.floor(fractions.Fraction(-1, 2)), int(fractions.Fraction(7, 2))",
        "parts": "fractions.Fraction(6, 4).numerator, fractions.Fraction(3.14).limit_denominator(100), "
        "fractions.Fraction(1, 3).as_integer_ratio(), str(fractions.Fraction(1, 3)), fractions.Fraction.from_float(0.25)",
        "errors": "error_of(fractions.Fraction, 1, 0), error_of(fractions.Fraction, 'x')",
    },
    "decimal": {
        "made": "decimal.Decimal('1.10'), decimal.Decimal(n), decimal.Decimal(0.5), decimal.Decimal((0, (1, 2), -1))",
        "arithmetic": "decimal.Decimal('1.1') + decimal.Decimal(n), decimal.Decimal(1) / decimal.Decimal(3), "
        "decimal.Decimal(7) // 2, decimal.Decimal(-7) % 3, decimal.Decimal(2) ** n, abs(decimal.Decimal(-1))",
        "compared": "decimal.Decimal('1.0') == 1, decimal.Decimal('0.1') < 0.2, max(decimal.Decimal(1), decimal.Decimal(2))",
        "methods": "decimal.Decimal('2').sqrt(), decimal.Decimal('1.25').quantize(decimal.Decimal('0.1')), "
        "decimal.Decimal('10').log10(), decimal.Decimal('1.50').normalize(), decimal.Decimal('1.5').as_tuple()",
        "rounding": "decimal.Decimal('2.5').to_integral_value(decimal.ROUND_HALF_UP), round(decimal.Decimal('2.675'), 2)",
        "text": "str(decimal.Decimal('1E+3')), format(decimal.Decimal('1.5'), '.3f'), repr(decimal.Decimal(1))",
    },
    "datetime": {
        "date": "datetime.date(2024, 2, 29).isoformat(), datetime.date(2024, 1, n).weekday(), "
        "datetime.date.fromisoformat('2024-01-02'), datetime.date(2024, 1, 1).replace(month=n), datetime.date.fromordinal(5)",
        "datetime": "datetime.datetime(2024, 1, 2, n, 4).isoformat(), datetime.datetime(2024, 1, 2).strftime('%Y/%m'), "
        "datetime.datetime.fromisoformat('2024-01-02T03:04:05+00:00'), datetime.datetime(2024, 1, 1).timetuple()[:3]",
        "strptime": "datetime.datetime.strptime('2024-01-02', '%Y-%m-%d')",
        "time": "datetime.time(1, 2, n).isoformat(), datetime.time.fromisoformat('04:05'), datetime.time(1) < datetime.time(2)",
        "timedelta": "datetime.timedelta(days=n, hours=1).total_seconds(), datetime.timedelta(1) * 2 - datetime.timedelta(1), "
        "abs(datetime.timedelta(-1)), divmod(datetime.timedelta(5), datetime.timedelta(2)), str(datetime.timedelta(seconds=90))",
        "arithmetic": "datetime.date(2024, 1, 31) + datetime.timedelta(n), datetime.datetime(2024, 1, 2) - datetime.datetime(2024, 1, 1)",
        "timezone": "datetime.timezone.utc, datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc).utcoffset(), "
        "datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc).astimezone(datetime.timezone(datetime.timedelta(hours=n)))",
        "errors": "error_of(datetime.date, 2024, 13, 1), error_of(datetime.date.fromisoformat, 'x')",
    },
    "calendar": {
        "functions": "calendar.isleap(2024), calendar.monthrange(2024, 2), calendar.leapdays(2000, 2020), calendar.weekday(2024, 1, n)",
        "Calendar": "list(calendar.Calendar().itermonthdays(2024, 2))[:5], calendar.Calendar(6).monthdayscalendar(2024, 2)[0]",
        "names": "calendar.timegm((2024, 1, 1, 0, 0, 0)), calendar.TextCalendar().formatmonth(2024, 2)[:10]",
    },
    "colorsys": {
        "conversions": "colorsys.rgb_to_hsv(0.2, 0.4, 0.6), colorsys.hsv_to_rgb(0.5, 0.5, 1), "
        "colorsys.rgb_to_hls(0.2, 0.4, 0.4), colorsys.hls_to_rgb(0.5, 0.3, 0.3), colorsys.rgb_to_yiq(1, 0, 0), colorsys.yiq_to_rgb(1, 0, 0)",
    },
    "graphlib": {
        "static_order": "list(graphlib.TopologicalSorter({'d': {'b'}, 'b': {'a'}}).static_order())",
        "cycle": "error_of(lambda: list(graphlib.TopologicalSorter({'a': ['b'], 'b': ['a']}).static_order()))[0]",
        "steps": "s = graphlib.TopologicalSorter()\n    s.add('b', 'a')\n    s.prepare()\n    r = s.is_active(), s.get_ready(), "
        "s.done('a'), s.get_ready()",
    },
    "numbers": {
        "tower": "[isinstance(1, t) for t in (numbers.Number, numbers.Integral, numbers.Real, numbers.Complex, numbers.Rational)], "
        "isinstance(1.5, numbers.Rational), isinstance(decimal.Decimal(1), numbers.Number), isinstance(x, numbers.Number)",
    },
}
_IMPORTS = "import " + ", ".join((*PURE, "math", "operator"))
if sys.version_info >= (3, 13):
    PURE["statistics"]["kde"] = (
        "statistics.kde([1, 2, 4], h=0.5)(n), statistics.kde([1, 2], 1, 'cosine', cumulative=True)(1)"
    )
    PURE["statistics"]["kde_random"] = "error_of(statistics.kde_random, [], 1)"

for _module, _cases in PURE.items():
    for _name, _use in _cases.items():
        _use = _use if "r = " in _use else f"r = ({_use})"
        add_source(
            f"lib_numbers::{_module}_{_name}",
            f"{_IMPORTS}\nfrom conformance_programs import error_of\n"
            f"def f(x):\n    n, s = x.numel(), [3, 1.5, 2, 8]\n    {_use}\n    return x * n, r\n",
        )


@program(breaks=("unknown native function", "attribute that can't be set"))
def a_decimal_context_of_its_own(x):
    with decimal.localcontext() as context:
        context.prec = 5
        inside = decimal.Decimal(1) / 3
    return x + 1, inside, decimal.Decimal(1) / 3


@program
def a_decimal_context_object(x):
    context = decimal.Context(prec=4, rounding=decimal.ROUND_DOWN)
    return x + 1, context.divide(decimal.Decimal(2), decimal.Decimal(3)), context.create_decimal("1.23456")


@program
def decimal_traps(x):
    return x + 1, error_of(lambda: decimal.Decimal(1) / 0)[0], error_of(decimal.Decimal, "x")[0]


@program(given=lambda: (fractions.Fraction(1, 3), decimal.Decimal("0.5"), datetime.date(2024, 1, 1)))
def given_numbers_and_dates(x, fraction, number, day):
    return x * float(number), fraction * 3, number + 1, day.year, day + datetime.timedelta(1)


@program
def a_number_class(x):
    class Money(numbers.Number):
        def __init__(self, amount):
            self.amount = amount

        def __add__(self, other):
            return Money(self.amount + other.amount)

    total = Money(x) + Money(x)
    return total.amount, isinstance(total, numbers.Number)


@program
def fractions_of_a_subclass(x):
    class Ratio(fractions.Fraction):
        def __str__(self):
            return f"{self.numerator}:{self.denominator}"

    return x + 1, str(Ratio(2, 4)), Ratio(1, 2) + 1


@program(breaks="run-time effect")
def random_numbers_are_drawn_as_eagerly(x):
    random.seed(5)
    y = x * random.random()
    return y + random.randint(1, 10), random.choice("abc"), random.sample(range(10), 3)


@program(given=lambda: (random.Random(7),))
def a_given_random_generator(x, generator):
    return x * generator.random(), generator.randrange(5)


@program(breaks="run-time effect")
def shuffling_a_list(x):
    random.seed(3)
    cards = [1, 2, 3, 4]
    random.shuffle(cards)
    return x * cards[0], cards, random.uniform(0, 1), random.gauss(0, 1)


@program(breaks="run-time effect")
def clocks_are_asked_each_time(x):
    y = x + 1
    before = datetime.datetime.now()
    return y * 2, datetime.datetime.now() >= before


@program(breaks="run-time effect")
def time_is_asked_each_time(x):
    y = x + 1
    return y * 2, time.time() > 0, time.perf_counter() > 0


@program(given=lambda: (torch.tensor(3),), breaks="data-dependent value")
def a_statistic_of_tensor_values(x, n):
    return x + 1, fractions.Fraction(n.item(), 2)
