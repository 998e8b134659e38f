"""Cost of a call when everything is compiled: what is paid on top of the graph.

The backend computes on its first call only and then returns that result again, so what is left is
the wrapper, the guards, finding the entry, collecting inputs and rebuilding the output.

Where a function has several entries, the calls go through all of them in turn: both systems look at the
entry first that was used last, so the one that fits is always the last one they look at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import Console
from torch import nn

from bench import models
from bench.measure import (
    Failed,
    Spread,
    Target,
    TorchCompile,
    clock,
    failures,
    geometric_mean,
    of_measured,
    pick,
    ratio,
    ready_system,
    take_turns,
)
from bench.tables import microseconds, show_failures, show_table, times

CALLED = ("one op", "two arguments", "MLP", "BERT 12", "ViT 12")
CALLED += ("ResNet 50", "EfficientNet", "Swin", "Detector")
LAYERS = (8, 32, 64)
ENTRIES = (1, 8, 32)
SYSTEMS = ["framelift", TorchCompile.name]
BATCHES = 20
BATCH_S = 0.05


@dataclass
class Call:
    """One call of a round. `prepare` is done before it, and timed with it: it must be next to nothing."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[], Any] | None = None


@dataclass
class Round:
    """A function and the calls to make of it, each with an entry of its own."""

    target: Callable[..., Any]
    calls: list[Call]


# What is called


def one_call(name: str) -> Round:
    subject = models.build(name)
    return Round(subject.target, [Call(subject.args, subject.kwargs)])


def thousand_parameters() -> Round:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(500))).eval()
    return Round(model, [Call((torch.ones(2, 4),))])


def two_hundred_globals() -> Round:
    names = [f"G{n}" for n in range(200)]
    namespace: dict[str, Any] = {"__name__": __name__} | {name: n for n, name in enumerate(names)}
    exec(f"def fn(x):\n    return x + ({' + '.join(names)})", namespace)
    return Round(namespace["fn"], [Call((torch.ones(4),))])


def by_constant(entries: int) -> Round:
    """A constant is as good as another: words, since numbers can become symbols."""

    def fn(x: torch.Tensor, word: str) -> torch.Tensor:
        return x + len(word)

    x = torch.ones(4)
    return Round(fn, [Call((x, f"word {n}")) for n in range(entries)])


def by_rank_and_flag(entries: int) -> Round:
    """An MLP on inputs with different numbers of dimensions, first as in training and then as in use."""
    dropout = nn.Dropout()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), dropout, nn.Linear(128, 128), nn.ReLU())
    half = max(1, entries // 2)
    inputs = [torch.randn(*[1] * rank, 64) for rank in range(half)]
    calls = [Call((x,)) for x in inputs] + [Call((x,)) for x in inputs[: entries - half]]
    if entries > 1:
        for call, flag in ((calls[0], True), (calls[half], False)):
            call.prepare = functools.partial(object.__setattr__, dropout, "training", flag)
    return Round(model, calls)


SINGLE: dict[str, Callable[[], Round]] = {
    **{name: (lambda name=name: one_call(name)) for name in CALLED},
    "MLP with dropout": lambda: by_rank_and_flag(1),
    **{f"Llama {layers}": (lambda layers=layers: one_call(f"Llama {layers}")) for layers in LAYERS},
    "1,000 parameters": thousand_parameters,
    "200 globals": two_hundred_globals,
}
KINDS: dict[str, Callable[[int], Round]] = {"function": by_constant, "MLP": by_rank_and_flag}


def several(kind: str, entries: int) -> str:
    return f"{kind}, last of {entries}"


SEVERAL: dict[str, Callable[[], Round]] = {
    several(kind, entries): (lambda make=make, entries=entries: make(entries))
    for kind, make in KINDS.items()
    for entries in ENTRIES
}
SUBJECTS = SINGLE | SEVERAL


# Measuring


def recorded_result(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    result = None

    def run(*args: Any) -> Any:
        nonlocal result
        if result is None:
            result = gm.forward(*args)
        return result

    return run


def allow_many_entries() -> None:
    import torch._dynamo

    import framelift

    framelift.config.recompile_limit = torch._dynamo.config.recompile_limit = max(ENTRIES)


def sample(system_name: str, subject_name: str, **options: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    subject = SUBJECTS[subject_name]()
    allow_many_entries()
    graphs: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(gm)
        return recorded_result(gm)

    compiled = ready_system(system_name).compile(subject.target, backend, **options)

    def rounds(count: int) -> float:
        """The seconds for one call."""
        calls = [(call.prepare, call.args, call.kwargs) for call in subject.calls]
        start = clock()
        for _ in range(count):
            for prepare, args, kwargs in calls:
                if prepare is not None:
                    prepare()
                compiled(*args, **kwargs)
        return (clock() - start) / (count * len(calls))

    rounds(20)
    if len(graphs) != len(subject.calls):
        raise Failed(f"{len(graphs)} graphs were captured instead of {len(subject.calls)}")
    count = max(10, int(BATCH_S / (rounds(10) * len(subject.calls))))
    # The least of several batches: whatever else the machine does can only add.
    return {"call": min(rounds(count) for _ in range(BATCHES)), "calls": count * BATCHES * len(subject.calls)}


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {"overhead": take_turns(sample, list(SUBJECTS), SYSTEMS, repetitions, say)}


# Numbers


def cost(results: dict[str, Any], subject: str, system: str) -> Spread | None:
    return pick(results["overhead"][subject][system], lambda run: run["call"])


def share(results: dict[str, Any], subject: str) -> Spread | None:
    mine, reference = (cost(results, subject, system) for system in SYSTEMS)
    return ratio(mine, reference)


def shares(results: dict[str, Any]) -> list[Spread | None]:
    return [share(results, subject) for subject in SUBJECTS]


def worst(results: dict[str, Any]) -> float | None:
    return max((found.median for found in shares(results) if found), default=None)


def slope(results: dict[str, Any], system: str) -> Spread | None:
    """Seconds for each layer more, by least squares."""
    columns = [cost(results, f"Llama {layers}", system) for layers in LAYERS]
    if None in columns:
        return None
    middle = sum(LAYERS) / len(LAYERS)
    spread = sum((layers - middle) ** 2 for layers in LAYERS)
    rows = zip(*(column.values for column in columns if column), strict=True)
    return Spread(
        tuple(
            sum((layers - middle) * at for layers, at in zip(LAYERS, row, strict=True)) / spread
            for row in rows
        )
    )


def growth(results: dict[str, Any], kind: str, system: str) -> Spread | None:
    """How many times longer the call takes that finds the last of many entries than that which has one."""
    last, first = (cost(results, several(kind, entries), system) for entries in (max(ENTRIES), min(ENTRIES)))
    return ratio(last, first)


def summary(results: dict[str, Any]) -> Iterator[list[str]]:
    found = shares(results)
    yield [of_measured("geometric mean", found), "", "", times(geometric_mean(found), digits=2)]
    slopes = [slope(results, system) for system in SYSTEMS]
    yield ["each layer more", *map(microseconds, slopes), times(ratio(*slopes), digits=2)]
    for kind in KINDS:
        cells = [times(growth(results, kind, system)) for system in SYSTEMS]
        yield [f"{kind}, {max(ENTRIES)} entries", *cells, ""]


def show(console: Console, results: dict[str, Any]) -> None:
    rows = [
        [
            subject,
            *(microseconds(cost(results, subject, system)) for system in SYSTEMS),
            times(share(results, subject), digits=2),
        ]
        for subject in SUBJECTS
    ]
    footer = list(summary(results))
    title = "A call when everything is compiled"
    columns = ["", *SYSTEMS, "framelift / torch.compile"]
    show_table(console, title, columns, rows + footer, footer=len(footer))
    show_failures(console, failures(results["overhead"]))


def targets(results: dict[str, Any]) -> list[Target]:
    found = shares(results)
    mean, name = geometric_mean(found), of_measured("cost of a call, of torch.compile's", found)
    slopes = ratio(*(slope(results, system) for system in SYSTEMS))
    grown = [growth(results, kind, "framelift") for kind in KINDS]
    most = None if None in grown else max(found.median for found in grown if found)
    return [
        Target(name, 1 / 8, mean.median if mean else None, at_most=True),
        Target(of_measured("cost of a call, the worst", found), 1 / 5, worst(results), at_most=True),
        Target("cost of each layer more", 1 / 4, slopes.median if slopes else None, at_most=True),
        Target(f"finding the last of {max(ENTRIES)} entries", max(ENTRIES) / 4, most, at_most=True),
    ]
