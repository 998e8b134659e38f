"""What other packages add to a compilation: observers, ranks that agree, steps around the backend.

`cache`, `debugging` and `distributed` implement these interfaces and add themselves to `extensions`; nothing
in this package knows of them. `api.extensions` lists who does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple, Protocol

from torch._subclasses.fake_tensor import FakeTensorMode

from framelift.core.breaks import Break
from framelift.core.records import CompileRecord
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import CodeState, Context, Graph, Recompilation
from framelift.dispatch.inductor_parts import InductorParts
from framelift.dispatch.tracing import Ending
from framelift.graph.kept import KeptGraph

Outcome = Capture | Break | None
"""What became of a trace. None: the program raised, and the frame runs plainly."""


class RunningCompilation(Protocol):
    """What an extension may use of a `compilation.Compilation`."""

    context: Context
    state: CodeState
    fn: FunctionType
    arguments: list[Any]
    record: CompileRecord
    keeps_lines: bool
    """Whether `explain` wants to know which lines are captured."""

    was_loaded: bool
    """Whether what it works with was found in the store."""
    stored_as: tuple[str, str] | None
    """Where the store would have it."""
    parts: list[InductorParts]
    """What Inductor has made of the graph, if it has, and the store may want it."""

    def trace(self, end: Ending | None = None) -> Outcome: ...


class Observer:
    """Is told what happens in compilations. A subclass overrides what it wants to know."""

    def around_compilation(self, compilation: RunningCompilation) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def follow_trace(self) -> Callable[[Any], None] | None:
        """What is to be shown the frame in front of each instruction of a trace, if anything is."""
        return None

    def report_recompilation(self, record: CompileRecord, found: Recompilation) -> None:
        """Before the frame is captured again."""

    def report_graph(self, record: CompileRecord, capture: Capture) -> None:
        """Before the backend gets the graph, which may be what it fails on."""

    def report_entry(self, record: CompileRecord, capture: Capture) -> None:
        """When the entry is in use."""

    def report_backward(self, record: CompileRecord, graph: Graph) -> None:
        """Before the backend gets the graph of a backward pass; that may be long after the rest."""

    def report_break(self, record: CompileRecord, found: Break, is_known: bool) -> None:
        """`is_known`: there was a break at this place before."""


class Ranks:
    """What the processes of a distributed program do together. This one is alone."""

    def meet_on_each_call(self) -> bool:
        """Whether each call is looked at together, so that the hook may not use entries by itself."""
        return False

    def all_have_entry(self, state: CodeState, found: bool) -> bool:
        """Whether an entry that fits may be used, if this rank has found one."""
        return found

    def announce_failures(self) -> contextlib.AbstractContextManager[None]:
        """What is raised in the block on one rank is raised on all."""
        return contextlib.nullcontext()

    def capture(self, compilation: RunningCompilation) -> Outcome:
        """What this rank does with the frame."""
        return compilation.trace()

    def wait_for_backends(self, state: CodeState) -> None:
        """Until the backends of all ranks are done."""


class Stored(NamedTuple):
    """What was captured and compiled before, and holds for a frame."""

    capture: Capture
    compiled: Callable[..., Any] | None
    """What runs the graph. None: there is no graph, or the backend has to compile it."""


class CaptureStore:
    """Where captures are kept beyond the process. This one keeps nothing."""

    def is_for(self, compilation: RunningCompilation) -> bool:
        """Whether it may have something for a compilation."""
        return False

    def find(self, compilation: RunningCompilation) -> Stored | None:
        """What holds for a frame that is to be compiled, if that may be."""
        return None

    def note(
        self,
        compilation: RunningCompilation,
        capture: Capture,
        compiled: Callable[..., Any] | None,
        kept: KeptGraph | None,
    ) -> Any:
        """What is to be kept of a capture, while it knows all of the program's objects; None: nothing."""
        return None

    def keep(self, noted: Any) -> None:
        """Keeps it: it is in use by now."""


GraphCompiler = Callable[[Graph, list[Any], FakeTensorMode | None], Callable[..., Any]]
"""Compiles a graph for inputs. Given a mode, the inputs are fakes of that."""
GraphCompilerWrapper = Callable[[GraphCompiler, RunningCompilation, Capture], GraphCompiler]
"""Makes of what compiles the graph of a capture something that does more."""


@dataclass
class Extensions:
    """All there are."""

    ranks: Ranks = field(default_factory=Ranks)
    store: CaptureStore = field(default_factory=CaptureStore)
    observers: list[Observer] = field(default_factory=list)
    """Each is within those before it."""
    graph_compiler_wrappers: list[GraphCompilerWrapper] = field(default_factory=list)
    """Each is around those before it; the backend is innermost."""


extensions = Extensions()
