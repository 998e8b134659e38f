"""How often a compiler compiles a model that is called with many sizes, and whether results are eager's.

Which sizes may vary is found by trying: sizes that are equal in the arguments of an architecture are taken
for the same thing (tokens, samples, pixels), and vary together if the model itself runs with another one.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import framelift
from zoo.architecture import Architecture, Case, Inputs
from zoo.measure import SAME, Framelift, Graphs, Near, Outputs, TorchCompile, difference, faults, run

CALLS = 20
BATCH = 0
"""Stands for the first dimension of all tensors; another number for all other dimensions of that size."""
ATTEMPTS = 8
"""For one more set of sizes that the model takes."""
NO_LIMIT = 64

Sizes = dict[int, int]
"""What varies -> how large it is."""


def tensors_of(inputs: Inputs) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):
            yield name, value


def resized(inputs: Inputs, sizes: Sizes) -> Inputs:
    """What is there is repeated, or cut."""
    made = dict(inputs)
    for name, tensor in tensors_of(inputs):
        for dim, size in enumerate(tensor.shape):
            wanted = sizes.get(size if dim else BATCH)
            if wanted is not None and wanted != size:
                made[name] = made[name].index_select(dim, torch.arange(wanted) % size)
    return made


def takes(model: nn.Module, inputs: Inputs) -> bool:
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception:
        return False
    return True


def varying(case: Case) -> Sizes:
    """What may vary, with the size that it has."""
    found: Sizes = {}
    shapes = [tensor.shape for _, tensor in tensors_of(case.inputs()) if tensor.dim()]
    if len({shape[0] for shape in shapes}) == 1:
        found[BATCH] = shapes[0][0]
    found |= {size: size for shape in shapes for size in shape[1:] if size > 1}
    return {
        what: size
        for what, size in found.items()
        if takes(case.model, resized(case.inputs(), {what: other(size)}))
    }


def other(size: int) -> int:
    return size + (size if size >= 16 else 1)


def drawn(case: Case, calls: int = CALLS) -> list[Sizes]:
    """As many sets of sizes, the architecture's own first."""
    draw = random.Random(case.model.__class__.__name__)
    found = [varying(case)]
    for _ in range((calls - 1) * ATTEMPTS if found[0] else 0):
        sizes = {what: one_of(draw, what, size) for what, size in found[0].items()}
        if takes(case.model, resized(case.inputs(), sizes)):
            found.append(sizes)
        if len(found) == calls:
            break
    return found


def one_of(draw: random.Random, what: int, size: int) -> int:
    if what == BATCH:
        return draw.randint(1, 6)
    step = 8 if size % 8 == 0 else 1
    return draw.randrange(max(step, size // 2 // step * step), 2 * size + 1, step)


def compilations(
    case: Case, compile: Callable[..., Any], graphs: Graphs, draws: list[Sizes]
) -> dict[str, Any]:
    """At how many of the calls something was compiled, how many graphs that were, and what differed."""
    compiled = compile(case.model)
    at, wrong = [], []
    for number, sizes in enumerate(draws):
        before = graphs.graphs
        with torch.no_grad():
            expected = run(case.model, resized(case.inputs(), sizes))
            found = run(compiled, resized(case.inputs(), sizes))
        if graphs.graphs > before:
            at.append(number)
        for comparison in (Outputs(), Near()):
            said = difference(lambda: comparison.same(expected, found, "outcome"))  # noqa: B023 - called at once
            if said == SAME:
                break
        else:
            wrong.append(f"{sizes}: {said}")
    return {"at": at, "graphs": graphs.graphs, "wrong": wrong}


def measure_sizes(
    architecture: Architecture, systems: tuple[str, ...] = ("framelift", "torch.compile")
) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    case = architecture.build()
    draws = drawn(case)
    found: dict[str, Any] = {"name": architecture.name, "sizes": list(draws[0].values()), "calls": len(draws)}
    if "framelift" in systems:
        own = Framelift()
        with faults() as mistakes, framelift.config.patch(recompile_limit=NO_LIMIT):
            found["framelift"] = compilations(case, own.compile, own, draws)
        own.look()
        found |= {"faults": mistakes, "breaks": own.where}
        if len(found["framelift"]["at"]) > 2:
            found["entries"] = [str(framelift.entries(one)) for one in own.compiled]
    if "torch.compile" in systems:
        import torch._dynamo.config as settings  # noqa: TID251

        torchs = TorchCompile()
        with settings.patch(recompile_limit=NO_LIMIT, accumulated_recompile_limit=4 * NO_LIMIT):
            found["torch.compile"] = compilations(case, torchs.compile, torchs, draws)
    return found
