"""A number that may vary goes through functions of C and is still a symbol, or there is a reason why not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from native_calls_with_numbers import SIZES, Call, all_calls, taken

import framelift
from check import captures
from sameness import alike


def compilations(calls: list[Call], sizes: tuple[int, ...] = SIZES) -> int:
    """How often a program that makes these calls is captured. It gives what it gives eagerly."""

    def program(x: torch.Tensor) -> Any:
        n = x.shape[0]
        results = []
        for call in calls:
            arguments = [make(n) for make in call.arguments]
            results.append((taken(call.function(*arguments)), arguments))
        return x + n, results

    compiled = framelift.compile(program, backend="eager", dynamic=True, isolate_recompiles=True)
    for n in sizes:
        x = torch.ones(n, 4)
        alike(program(x), compiled(x))
    return captures(compiled)


REASONS: dict[str, list[str]] = {
    "it shows the digits": [
        r"builtins\.(bin|chr|hex|oct)\(.*",
        r"builtins\.(ascii|format|repr|str)\(.*\[n, 3\].*",
        r".*\.__str__\(\)",
        r"'ab\{\}'\.(format\(.*\[n, 3\]|translate\().*",
        r".*mod(__)?\(.*\[n, 3\]\)",
        r"n\.to_bytes\(.*",
        r"\(n / 2\)\.(hex|as_integer_ratio)\(\)",
    ],
    "it hashes the number, by which a table has its place": [
        r"builtins\.(hash|set|frozenset)\(.*",
        r"collections\.Counter\(.*",
        r".*\.__hash__\(\)",
        r"\{n, 3\}\..*",
        r"\{2, 3\}\.(?!__).*",
        r"\{'a': 1\}\.(__setitem__|setdefault)\(n.*",
        r"operator\.setitem\(\{'a': 1\}, n, 2\)",
        r"\{'a': 1\}\.fromkeys\(\[n, 3\].*",
    ],
    "it makes, cuts or counts something of that length": [
        r"builtins\.(range|bytes|bytearray)\(.*",
        r"builtins\.enumerate\('ab', n\)",
        r"range\(n\)\..*",
        r"range\(20\)\.(__getitem__|index|count|__contains__\(\[).*",
        r"n\.from_bytes\(\[n, 3\]\)",
        r"'ab\{\}'\.(?!__eq__|__ne__|format|translate|maketrans)\w+\(.*n.*",
        r"itertools\.(combinations|combinations_with_replacement|permutations)\('ab', n\)",
        r"itertools\.(islice\('ab', .*n|count\(.*n).*",
        r"itertools\.repeat\(2, n\)",
        r"collections\.deque\('ab', n\)",
        r"(?!\(n / 2)[(\[d'].*\.(__mul__|__imul__|insert|rotate)\(n.*",
        r"operator\.length_hint\((2, n|n.*)\)",
        r"slice\(.*\.indices\(.*",
    ],
    "the error says which type it has": [r"itertools\.chain\('ab', 'ab', n\)"],
    "neither graphs nor regions compute it": [
        r"builtins\.complex\(.*",
        r"builtins\.(pow\(2, n, 2|round\(2, n)\)",
        r"math\.(dist|frexp|fsum|isclose|ldexp|modf|nextafter|sumprod|ulp)\(.*",
        r"math\.hypot\(n\)|math\.hypot\(.*, .*, .*|math\.lcm\((n, 2|2, n), 2\)",
        r"math\.perm\(n\)",
        r".*__pow__\(n(, 2)?\)|n\.__pow__\(2, n\)",
        r"n\.__lshift__\(n\)|operator\.i?rshift\(2, n\)",
        r"(n|\(n / 2\))\.__getnewargs__\(\)",
        r"(n|\(n / 2\))\.is_integer\(\)",
    ],
}
"""Why C needs the number itself -> the calls, as patterns."""
PATTERNS = [re.compile(pattern) for patterns in REASONS.values() for pattern in patterns]


def is_listed(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in PATTERNS)


KEPT = [call for text, call in all_calls().items() if not is_listed(text)]
LISTED = [call for text, call in all_calls().items() if is_listed(text)]
GROUPS = [KEPT[at : at + 12] for at in range(0, len(KEPT), 12)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0].text)
def test_a_symbol_stays_one(group: list[Call]) -> None:
    if compilations(group) > 1:
        alone = [call.text for call in group if compilations([call]) > 1]
        raise AssertionError(f"these need the number, and are in no list: {alone}")


@pytest.mark.parametrize("call", LISTED, ids=lambda call: call.text)
def test_what_is_listed_needs_the_number(call: Call) -> None:
    assert compilations([call], SIZES[:2]) == 2, "it keeps the symbol: take it off the list"
