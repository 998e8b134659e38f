"""Inputs that are views of one memory, some written to, at other places in the next call.

Random small programs over such inputs, plainly and compiled: values, memory, which results lie where.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import framelift
from framelift.core.records import counters

READS = [
    *("{a} + {b}", "{a} * 2", "{a}.as_strided((2,), (1,), {k})", "{a}.as_strided((2,), (1,))", "{a}[1:]"),
    *("{a}.view(-1)", "{a}.detach()", "{a}[::2]", "({a}, {b})[0]", "{a}.storage_offset() + {b}"),
    *("{a}.untyped_storage().nbytes() * {b}", "torch.as_strided({a}, (1,), (1,), {k})", "{a}.clone()"),
    *("{a}._base is None", "{a}.data", "{a}.expand(2, 4)", "{a}.unfold(0, 2, 1)"),
]
WRITES = [
    *("{a}.add_(1)", "{a}[0] = 7", "{a}.mul_({b})", "{a}.copy_({b})", "{a}.data.add_(5)", "{a}[1:].sub_(1)"),
    *("{a}.as_strided((2,), (1,), {k}).zero_()", "{a}.as_strided((2,), (1,)).add_(3)", "{a}.tag = 3"),
    *("torch.add({a}, 1, out={b})", "{a}.detach().neg_()", "{a}.set_({b})", "{a}.data = {b}"),
]
Place = tuple[int, int]
"""Which memory an input lies in, and from where on."""


def program(rng: random.Random) -> tuple[str, int]:
    names = [f"x{n}" for n in range(rng.choice([2, 3, 3]))]
    lines, results = [], []
    for n in range(rng.randint(1, 4)):
        writes = rng.random() < 0.5
        text = rng.choice(WRITES if writes else READS)
        line = text.format(a=rng.choice(names), b=rng.choice(names), k=rng.randint(0, 6))
        lines.append(line if writes else f"y{n} = {line}")
        results += [] if writes else [f"y{n}"]
    lines.append("return " + "".join(f"{name}, " for name in [*results, rng.choice(names)]))
    return f"def f({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in lines), len(names)


def placed(rng: random.Random, memories: list[int]) -> list[Place]:
    return [(memory, rng.randint(0, 6)) for memory in memories]


def outcome(call: Any, places: list[Place]) -> Any:
    """Everything that can be seen of a call."""
    memory = [torch.arange(10.0) + 1, -1 - torch.arange(10.0)]
    given = [memory[n][start : start + 4] for n, start in places]
    try:
        out = call(*given)
    except Exception as error:
        return type(error).__name__, tuple(one.tolist() for one in memory)
    at = [one.untyped_storage().data_ptr() for one in memory]
    results = []
    for value in out:
        if not isinstance(value, torch.Tensor):
            results.append(value)
            continue
        where = value.untyped_storage().data_ptr()
        offset = value.storage_offset() if where in at else None
        same = [value is one for one in given]
        results.append((value.tolist(), value.stride(), where in at and at.index(where), offset, same))
    seen = [(one.tolist(), one.storage_offset(), dict(vars(one))) for one in given]
    return results, [one.tolist() for one in memory], seen


@pytest.mark.parametrize(
    "options", [{}, {"backend": "aot_eager"}, {"backend": "aot_eager", "dynamic": True}], ids=str
)
@pytest.mark.parametrize("seed", range(40))
def test_it_does_not_matter_where_inputs_lie(seed: int, options: dict[str, Any]) -> None:
    rng = random.Random(seed)
    source, count = program(rng)
    names: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<views {seed}>", "exec"), names)
    memories = [rng.randrange(2) for _ in range(count)]
    calls = [placed(rng, memories) for _ in range(3)]
    calls += [placed(rng, [rng.randrange(2) for _ in range(count)]), calls[0]]
    compiled: Any = framelift.compile(names["f"], **{"backend": "eager", **options}, isolate_recompiles=True)
    for places in calls:
        assert outcome(compiled, places) == outcome(names["f"], places), (source, places)


def test_what_lies_side_by_side_is_compiled() -> None:
    def step(a: Any, b: Any) -> Any:
        a.add_(1)
        b.mul_(2)
        return a * b

    counters.clear()
    memory, plain = torch.arange(8.0), torch.arange(8.0)
    found = framelift.compile(step, backend="aot_eager", fullgraph=True)(memory[:4], memory[4:])
    assert torch.equal(found, step(plain[:4], plain[4:])) and torch.equal(memory, plain)
    assert not counters["graphs_run_as_captured"]
