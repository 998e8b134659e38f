"""What a compiler makes of one architecture, compared with eager: forward, a training step, `generate`."""

from __future__ import annotations

import collections
import contextlib
import logging
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import nn

import framelift
from check import Comparison
from zoo.architecture import Architecture, Inputs

SAME = "yes"
CLOSE = "up to rounding"
ABSENT = "-"


@dataclass
class Graphs:
    """How often a compiler's backend was asked for a graph, and why captures ended."""

    graphs: int = 0
    breaks: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

    def backend(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward

    @property
    def whole(self) -> bool:
        return self.graphs == 1 and not self.breaks


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Of what a model gives back, in order; those of its caches are not asked for."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def loss_of(output: Any) -> torch.Tensor:
    """Something that depends on all that the model gives back."""
    parts = [t for t in tensors(output) if t.requires_grad]
    return torch.stack([t.float().pow(2).mean() / (n + 1) for n, t in enumerate(parts)]).sum()


class Outputs(Comparison):
    """Tensors as a program sees them that does not look for torch.compile's marks: transformers makes them on
    caches when it is *not* compiled."""

    def same(self, a: Any, b: Any, at: str) -> None:
        if type(a) is dict and type(b) is dict and at.endswith(".__dict__"):
            a, b = ({name: one for name, one in of.items() if name not in MARKS} for of in (a, b))
        super().same(a, b, at)

    def tensors(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        if a.is_floating_point() and a.element_size() == 1 and a.dtype is b.dtype:
            a, b = a.view(torch.uint8), b.view(torch.uint8)  # there is little that these can do
        super().tensors(a, b, at)


class Near(Outputs):
    """Up to rounding: some models compute in another order when they are told that they are compiled."""

    def tensors(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        if a.is_floating_point() and a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-6):
            b = laid_out_like(b).copy_(a).requires_grad_(b.requires_grad)
        super().tensors(a, b, at)


def laid_out_like(tensor: torch.Tensor) -> torch.Tensor:
    """A part of a larger memory, if that is what it is like."""
    if not tensor.storage_offset():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    memory = torch.empty(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=tensor.dtype)
    return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


MARKS = ("_dynamo_static_input_type", "_dynamo_unspec_dim")


def difference(compare: Callable[[], None]) -> str:
    """`SAME`, or what differs."""
    try:
        compare()
    except AssertionError as error:
        return str(error).splitlines()[0] if str(error) else "differs"
    return SAME


def seed() -> None:
    """Models draw from all three: dropout, masks of spectra, layers to leave out."""
    torch.manual_seed(2)
    random.seed(2)
    numpy.random.seed(2)


def random_state() -> tuple[Any, ...]:
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tobytes()


def run(call: Callable[..., Any], inputs: Inputs) -> tuple[Any, ...]:
    """What the call gives back, what it leaves its arguments as, and where it leaves the random numbers."""
    seed()
    return call(**inputs), inputs, random_state()


def forward(architecture: Architecture, compile: Callable[..., Any]) -> str:
    """Three calls without gradients: the model's own and two of the compiled one."""
    case = architecture.build()
    compiled = compile(case.model)
    with torch.no_grad():
        expected = run(case.model, case.inputs())
        for _ in range(2):
            found = run(compiled, case.inputs())
            said = difference(lambda found=found: Outputs().same(expected, found, "outcome"))
            if said != SAME:
                near = difference(lambda found=found: Near().same(expected, found, "outcome"))
                return CLOSE if near == SAME else said
    return SAME


def gradients(model: nn.Module, call: Callable[..., Any], inputs: Inputs) -> dict[str, Any]:
    model.zero_grad()
    seed()
    output = call(**inputs)
    loss_of(output).backward()
    found = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    buffers = {name: one.clone() for name, one in model.named_buffers()}
    return {"gradients": found, "buffers": buffers, "random": random_state()[0]}


def training(architecture: Architecture, compile: Callable[..., Any]) -> str:
    """A step in training mode, dropout included: the gradients of all parameters, what became of buffers."""
    if not architecture.trains:
        return ABSENT
    plain, other = architecture.build(), architecture.build()
    plain.model.train(), other.model.train()
    expected = gradients(plain.model, plain.model, plain.inputs())
    found = gradients(other.model, compile(other.model), other.inputs())
    return difference(
        lambda: torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7, equal_nan=True)
    )


def generation(architecture: Architecture, compile: Callable[..., Any]) -> str:
    """Tokens that follow, with the forward compiled."""
    if architecture.generates is None:
        return ABSENT
    case = architecture.build()

    def generate() -> Any:
        inputs = {name: one for name, one in case.inputs().items() if name != "decoder_input_ids"}
        seed()
        return case.model.generate(**inputs, **architecture.generates)

    expected = generate()
    case.model.forward = compile(case.model.forward)
    found = generate()
    return difference(lambda: Outputs().same(expected, found, "tokens"))


@contextlib.contextmanager
def faults() -> Iterator[list[str]]:
    """Mistakes of Framelift's own, which make it run plainly what it could not trace."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("framelift.trace.faults")
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


@dataclass
class Framelift(Graphs):
    compiled: list[Any] = field(default_factory=list)

    def compile(self, fn: Callable[..., Any], **options: Any) -> Any:
        compiled = framelift.compile(fn, backend=self.backend, **options)
        self.compiled.append(compiled)
        return compiled

    def look(self) -> None:
        for compiled in self.compiled:
            for record in compiled._framelift_context.code_states.values():
                for one in record.breaks:
                    self.breaks.append(one.reason.name)
                    self.where.append(
                        f"{one.reason.name}: {one.context} {one.stack[-1] if one.stack else ''}"
                    )


@dataclass
class TorchCompile(Graphs):
    def compile(self, fn: Callable[..., Any]) -> Any:
        torch.compiler.reset()
        return torch.compile(fn, backend=self.backend)

    def look(self) -> None:
        from torch._dynamo.utils import counters  # noqa: TID251

        for reason, count in counters["graph_break"].items():
            self.breaks += [str(reason).strip().splitlines()[0]] * count
            self.where += [str(reason)] * count


def measure(
    architecture: Architecture, systems: tuple[str, ...] = ("framelift", "torch.compile")
) -> dict[str, Any]:
    """All that the table of `docs/models.md` says of it, and where captures ended."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"name": architecture.name}
    if "framelift" in systems:
        with faults() as mistakes:
            own = Framelift()
            found["forward"] = attempt(forward, architecture, own.compile)
            own.look()
            found["framelift"] = vars(own) | {"compiled": None}
            trained, generated = Framelift(), Framelift()
            found["training"] = attempt(training, architecture, trained.compile)
            trained.look()
            found["training_breaks"] = trained.where
            found["generate"] = attempt(generation, architecture, generated.compile)
            generated.look()
            found["generate_graphs"], found["generate_breaks"] = generated.graphs, generated.where
        found["faults"] = mistakes
    if "torch.compile" in systems:
        torchs = TorchCompile()
        found["torch.compile forward"] = attempt(forward, architecture, torchs.compile)
        torchs.look()
        found["torch.compile"] = vars(torchs)
    return found


def attempt(what: Callable[..., str], *args: Any) -> str:
    try:
        return what(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:2000]


def summary(breaks: list[str]) -> str:
    counts = collections.Counter(breaks)
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())
