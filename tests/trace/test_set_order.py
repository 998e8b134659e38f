"""Sets are iterated in eager's order, which depends on all that was ever done to them."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import framelift
from framelift.trace.callable_rules import rule_of

OPERATIONS = """
    s.add({n}) ; s.discard({n}) ; s.remove({n}) if {n} in s else None ; s.clear() ; s.update({s}, {l})
    s |= {s} ; s -= {s} ; s ^= {s} ; s |= other ; s.update(dict.fromkeys({l})) ; s.__init__({l})
    s.update(n * 3 for n in {l}) ; s.difference_update({l}) ; s.symmetric_difference_update({l})
    s.intersection_update({s}.union(range(0, 200, 2))) ; list(map(s.add, {l})) ; set.add(s, {n})
    s = {s} ; s = s.copy() ; s = set(s) ; s = {{*s, *{s}}} ; s = {{n * 2 for n in {l}}} ; s = s | {s}
    log.append(list(s)) ; log.append(list({s} | other)) ; stop() ; stop()
"""


@framelift.disable
def stop() -> None:
    pass


@st.composite
def programs(draw: Any) -> tuple[str, list[int]]:
    """What to do to the set `s`, and what that is made of."""
    number = st.one_of(st.integers(0, 11), st.integers(0, 299), st.sampled_from(range(0, 256, 8)))
    numbers = st.lists(number, min_size=1, max_size=8)
    operations = st.sampled_from([text for text in re.split("[;\\n]", OPERATIONS) if text.strip()])
    lines = [
        text.strip().format(n=draw(number), s=f"{{{str(draw(numbers))[1:-1]}}}", l=draw(numbers))
        for text in draw(st.lists(operations, min_size=2, max_size=8))
    ]
    body = "\n    ".join([*lines, "stop()", "log.append(list(s))", "return x + 1, s"])
    return f"def f(x, s, other, log):\n    {body}\n", draw(numbers)


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_sets_have_eagers_order_whatever_was_done_to_them(program: tuple[str, list[int]]) -> None:
    source, start = program
    scope: dict[str, Any] = {"stop": stop}
    exec(source, scope)
    found = []
    for fn in (scope["f"], framelift.compile(scope["f"], backend="eager")):
        s, other, log = set(start) - {*start[::3]}, {8, 16, *start[:4]}, []
        for call in range(2):
            _, result = fn(torch.ones(1), s, other, log)
            for table in (s, result):
                table.update((77, 1000 + call, 8 * call))  # where it lands depends on the history too
                log.append(list(table))
        found.append(log)
    framelift.reset()
    assert found[0] == found[1], source


def test_all_that_changes_a_set_is_known() -> None:
    for name, method in vars(set).items():
        for operands in ((), (5,), (1,), ({5, 1},), ([5, 1],)):
            s = {1, 2}
            with contextlib.suppress(TypeError, KeyError, AttributeError):
                method(s, *operands)
            assert s == {1, 2} or rule_of(method).changes, name
