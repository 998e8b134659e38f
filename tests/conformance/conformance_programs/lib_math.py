"""Library: math and cmath, every function and constant; numbers come from shapes, given values and constants."""

from __future__ import annotations

import cmath
import math

import torch

from conformance_programs import add_source, error_of, program

ARGUMENTS = {
    "comb": "5, n", "copysign": "n, -0.0", "dist": "[1, n], [4, 5]", "factorial": "n", "fmod": "-7.5, n",
    "atan2": "1, n", "frexp": "n * 1.25", "fsum": "[0.1] * 10", "gcd": "12, 6 * n", "hypot": "n, 4, 12",
    "isclose": "n, 3 + 1e-10", "isqrt": "n * 5", "lcm": "4, n", "ldexp": "0.5, n", "log": "8, n",
    "nextafter": "1.0, n", "perm": "5, n", "pow": "2.0, n", "prod": "[1, n, 3], start=2",
    "remainder": "7, n", "modf": "n + 0.25", "acos": "n / 4", "asin": "n / 4", "atanh": "n / 4",
    "acosh": "n + 1", "fma": "2, n, 1", "sumprod": "[1, n], [3, 4]", "trunc": "n + 0.5",
    "floor": "-n - 0.5", "ceil": "n + 0.5", "fabs": "-n", "erf": "n / 5", "gamma": "n + 0.5",
}  # fmt: skip
COMPLEX_ARGUMENTS = {
    "isclose": "n + 1j, n + 1.0000000001j", "rect": "n, 0.5", "log": "n + 1j, 2", "polar": "n + 4j",
    "phase": "n - 1j", "isfinite": "n + 1j", "isinf": "complex(n, math.inf)", "isnan": "complex(math.nan, n)",
}  # fmt: skip

for _name in dir(math):
    if _name.startswith("_"):
        continue
    _use = f"math.{_name}({ARGUMENTS.get(_name, 'n')})" if callable(getattr(math, _name)) else f"math.{_name}"
    add_source(
        f"lib_math::{_name}",
        f"import math\ndef f(x):\n    n = x.numel()\n    v = {_use}\n"
        "    return (x * v if type(v) in (int, float) and v == v and abs(v) < 1e9 else x + 1), v\n",
    )
for _name in dir(cmath):
    if _name.startswith("_"):
        continue
    _given = COMPLEX_ARGUMENTS.get(_name, "complex(n, 0.5)")
    _use = f"cmath.{_name}({_given})" if callable(getattr(cmath, _name)) else f"cmath.{_name}"
    add_source(
        f"lib_math::cmath_{_name}",
        f"import cmath, math\ndef f(x):\n    n = x.numel()\n    return x + 1, {_use}\n",
    )


@program(given=lambda: (2.5, 3))
def of_given_numbers(x, a, b):
    return x * math.sqrt(a) + math.floor(a) * math.pow(a, b), math.hypot(a, b), math.gcd(b, 9)


@program
def errors(x):
    return (
        x + 1,
        error_of(math.sqrt, -1),
        error_of(math.log, 0),
        error_of(math.factorial, -1),
        error_of(math.floor, math.inf),
        error_of(math.exp, 1e5),
        error_of(math.gcd, 1.5),
        error_of(math.sqrt, "a"),
        error_of(cmath.log, 0),
    )


@program(breaks="data-dependent value")
def a_tensors_value_is_not_known(x):
    return x + math.sqrt(x.abs().sum())


@program
def infinities_and_nan(x):
    return x.clamp(-math.inf, math.inf), math.isnan(math.nan), math.inf - math.inf, -math.inf


@program(given=lambda: (torch.nn.Parameter(torch.ones(4, 4)),))
def an_initialisation_bound(x, weight):
    fan = weight.shape[1]
    return x * (math.sqrt(6.0) / math.sqrt(fan)), 1 / math.sqrt(weight.size(0)) if fan else 0
