"""What was captured of a frame, as a plain value: graph, guards, region, and where it ended.

`tracing.Trace` makes one. It can be saved and loaded (`capture_serialization`): each field says by its
metadata how it is kept then.
"""

from __future__ import annotations

import functools
import traceback
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.fx

from framelift import _guards
from framelift.core.breaks import Break
from framelift.core.errors import ConstraintViolationError
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.origins import describe_nodes, forget_origins
from framelift.graph.result_sources import Sources
from framelift.graph.symbols import Fact, Read, Symbols
from framelift.graph.torch_flags import Settings
from framelift.guards.guard import ClassFact, Guard
from framelift.guards.program import GuardProgram, Step, build, checkable, let_go, violations
from framelift.guards.sources import Source
from framelift.interpreter.machine import NOWHERE, Position
from framelift.interpreter.visits import Visits
from framelift.regions.region import Region

REMEDY = "Take the mark off, use maybe_mark_dynamic, or change the code so that it works for all these sizes."

Storages = tuple[tuple[int, ...], tuple[int, ...]]
"""(slots of a region's inputs, a number for the memory of each)"""

KEPT = "kept"
"""The key in a field's metadata under which it says how it is kept."""
SAVED = {KEPT: "saved"}
"""It is written, and read as it was."""
REBUILT = {KEPT: "rebuilt"}
"""It is made anew from what was saved, in the process that loads it."""
LOCAL = {KEPT: "local"}
"""It is about this process. A loaded capture has the default."""


def refused(reason: str) -> dict[str, str]:
    """A capture that has anything there is not saved. The reason is formatted with the value."""
    return {KEPT: "refused", "reason": reason}


VARYING = refused("there are sizes or numbers in it that vary")


class EndOfGraph(NamedTuple):
    """Why a graph goes no further, as backends ask that know torch's (`compile_subgraph_reason`)."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool


@dataclass
class SizeFacts:
    """What must hold of sizes and numbers that vary, once the backend has added its own."""

    sources: list[Source]
    reads: list[Read]
    facts: list[tuple[Fact, list[Step]]]


@dataclass
class Capture:
    """A frame that was captured, whole or up to a break."""

    fn_name: str = field(metadata=SAVED)
    graph: torch.fx.GraphModule | None = field(metadata=SAVED)
    guards: list[Guard] = field(metadata=SAVED)
    class_guards: list[ClassFact] = field(metadata=SAVED)
    storages: Storages | None = field(metadata=SAVED)
    """Which inputs of the region share memory, where that matters."""
    region: Region = field(metadata=SAVED)
    input_sources: list[Source] = field(metadata=SAVED)
    """Where the graph's inputs are found."""
    state: _guards.GlobalState = field(metadata=REBUILT)
    """torch's global state as the trace began."""
    example_inputs: list[Any] = field(default_factory=list, metadata=REBUILT)
    leaf_inputs: list[int] = field(default_factory=list, metadata=SAVED)
    """Inputs of the graph that the region makes leaves before it runs the graph."""
    written_inputs: tuple[int, ...] = field(default=(), metadata=SAVED)
    """Inputs that the graph writes to."""
    result_sources: Sources | None = field(default=None, metadata=SAVED)
    """Which inputs of the graph each of its results comes of, where that is not all of them."""
    ops: list[Any] = field(default_factory=list, metadata=SAVED)
    ended_by: Break | None = field(default=None, metadata=refused("it breaks ({.reason.name})"))
    """Why it goes no further, if it does not."""
    ended_at: Position = field(default=NOWHERE, metadata=SAVED)
    """In front of which instruction that is."""
    run_as_captured: str | None = field(default=None, metadata=SAVED)
    """Why no backend is asked to compile the graph, if none is."""
    symbols: Symbols | None = field(default=None, metadata=VARYING)
    """Sizes and numbers that may be others the next time, if any."""
    symbol_sources: list[Source] = field(default_factory=list, metadata=VARYING)
    left: list[Any] = field(
        default_factory=list, metadata=refused("it leaves contexts that were entered before")
    )
    """Contexts of torch's that the region leaves before it runs the graph."""
    sizes: SizeFacts | None = field(default=None, metadata=SAVED)
    setting: Settings = field(default_factory=list, metadata=SAVED)
    """Flags of torch's that the region sets for the graph."""
    ran_as_it_is: str | None = field(
        default=None, metadata=refused("it relies on what {} gave, which was not looked into")
    )
    is_hashed: bool = field(default=False, metadata=SAVED)
    """Whether it may depend on hashes that are others in another process."""
    registered: list[tuple[Any, Any, bool]] = field(default_factory=list, metadata=LOCAL)
    """What abstract base classes have said of classes: (the one, the other, whether it is one), weakly.
    Guards go by the count of registrations, which says nothing in another process: there they are asked."""
    inlined_calls: int = field(default=0, metadata=SAVED)
    is_better_than_frame: bool = field(default=False, metadata=SAVED)
    """Whether to run the frame itself would be worse even where there is no graph: it would call operators
    whose results nobody uses, or the program was told that it is compiled."""
    lines: set[tuple[str, int]] | None = field(default=None, metadata=SAVED)
    """Where the program was when something was captured, if `explain` asked: (file, line)."""
    visits: list[Visits] = field(default_factory=list, metadata=LOCAL)
    """The same for a tool that counts lines, frame by frame."""
    input_names: dict[str, str] = field(default_factory=dict, metadata=SAVED)
    """What the program calls the graph's inputs, if `explain` asked: `l_x_` is `x`."""
    seconds: float = field(default=0.0, metadata=LOCAL)
    trace_seconds: float = field(default=0.0, metadata=LOCAL)
    """Of these, what the run took that was kept."""
    restarts: int = field(default=0, metadata=LOCAL)
    restart_reasons: list[str] = field(default_factory=list, metadata=LOCAL)
    seconds_lost: float = field(default=0.0, metadata=LOCAL)
    """What the runs took that had to be repeated."""

    program: GuardProgram = field(init=False, metadata=REBUILT)
    """The guards, as the native program that checks them."""

    def end_of_graph(self) -> EndOfGraph:
        found = self.ended_by
        if found is None:
            return EndOfGraph("return_value", [], graph_break=False)
        stack = [
            traceback.FrameSummary(place.code.co_filename, place.line or 0, place.code.co_qualname)
            for place in found.stack
        ]
        return EndOfGraph(found.one_line, stack, graph_break=True)

    def build_program(self) -> None:
        inputs, storages = self.region.inputs, self.storages
        self.program = build(self.guards, self.class_guards, self.state, inputs, storages)

    def guard_sizes(self) -> None:
        """Guards the facts about sizes, once the backend has added its own."""
        if self.symbols is not None:
            try:
                reads, facts = self.symbols.facts()
            except symbolic_shapes.ConstraintViolationError as error:
                why = violations(self.symbols, self.symbol_sources) or str(error)
                raise as_torchs(ConstraintViolationError)(f"{self.fn_name}: {why}\n{REMEDY}") from None
            self.sizes = SizeFacts(self.symbol_sources, reads, checkable(reads, facts, self.symbols))
            self.guard_known_sizes()

    def guard_known_sizes(self) -> None:
        if self.sizes is not None:
            self.program.set_shapes(self.sizes.sources, self.sizes.reads, self.sizes.facts)

    def release(self) -> None:
        """Lets go of the program's objects, tensors and fakes, once the backend has seen them. It can't be
        saved any more."""
        let_go(self.guards, self.class_guards, list(self.program.index))
        self.example_inputs, self.left, self.input_sources = [], [], []
        self.region.outputs = []
        if self.graph is not None:
            (forget_origins if self.lines is None else describe_nodes)(self.graph)
        self.symbols = None


@functools.cache
def as_torchs(error: type[ConstraintViolationError]) -> type[ConstraintViolationError]:
    """The same error for programs that catch torch's, whose class is imported with symbols only."""
    both = (error, symbolic_shapes.ConstraintViolationError)
    names = {"__module__": error.__module__, "__doc__": error.__doc__}
    return type(error.__name__, both, names | {"__reduce__": lambda self: (error, self.args)})
