"""`framelift.comptime`: code that runs while a function is captured, and not at all when it runs.

    framelift.comptime(lambda ctx: ctx.print_graph())     any function of the context
    framelift.comptime.print_graph()                      the same, in short

The function sees the program's own objects where they come from outside, and tensors without data for those
of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.errors import UserError
from framelift.core.sentinels import MISSING, UNSET
from framelift.interpreter.frame import Frame
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.points import chain
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame


class ComptimeContext:
    """What `comptime` hands to its function: the state of the capture at this place."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._world: Any = frame.world

    def graph(self) -> torch.fx.Graph:
        """The graph so far."""
        found: torch.fx.Graph = self._world.recorder.builder.body.graph
        return found

    def guards(self) -> list[str]:
        """What is relied on so far, as the user would write it."""
        return [str(guard) for guard in self._world.guards.facts.values()]

    def locals(self) -> dict[str, Any]:
        """The variables: tensors are fakes, and what has not been looked at yet is shown by where it is."""
        pairs = zip(self._frame.code.names, self._frame.fast, strict=False)
        return {name: shown(value) for name, value in pairs if value is not UNSET and is_filled(value)}

    def value_stack(self) -> list[Any]:
        """What lies on the interpreter's stack, the last on top."""
        return [shown(value) for value in self._frame.stack if value is not UNSET]

    def stack(self) -> list[str]:
        """Where the program is, outermost first."""
        return [
            f'File "{frame.code.code.co_filename}", line {frame.line}, in {frame.code.code.co_qualname}'
            for frame in chain(self._frame)
        ]

    def print_graph(self) -> None:
        print(self.graph())

    def print_guards(self) -> None:
        print("\n".join(self.guards()))

    def print_locals(self) -> None:
        for name, value in self.locals().items():
            print(f"{name} = {value}")

    def print_value_stack(self) -> None:
        for value in self.value_stack():
            print(f"- {value}")

    def print_bt(self) -> None:
        print("\n".join(self.stack()))

    def graph_break(self, reason: str = "comptime") -> None:
        """The capture ends here."""
        raise Break(breaks.ASKED_FOR, reason)


def is_filled(value: Any) -> bool:
    try:
        return type(value) is not CellType or value.cell_contents is not UNSET
    except ValueError:
        return False


def shown(value: Any) -> Any:
    if type(value) is CellType:
        value = value.cell_contents
    if type(value) is not Pending:
        return value
    return f"<{value.source}>" if value.opened is MISSING else value.opened


def comptime(fn: Callable[[ComptimeContext], Any]) -> None:
    """Calls the function while the calling one is captured, and not at all when it runs. What it raises is
    an error (`UserError`): nothing of it is the program's."""


def call(f: TraceFrame, fn: Any) -> None:
    fn = with_real_values(f.world, fn)
    try:
        with torch._C.DisableTorchFunction():
            _frame.untouched(fn, ComptimeContext(f))
    except Exception as error:
        name = getattr(fn, "__qualname__", repr(fn))
        raise UserError(f"comptime: {name} raised {type(error).__name__}: {error}") from error


def with_real_values(world: Any, fn: Any) -> Any:
    """A function that was made in the traced program finds what the trace has there; this one, what is."""
    if type(fn) is not FunctionType or not fn.__closure__:
        return fn
    opened_cell = lambda cell: CellType(real(world, cell.cell_contents)) if is_filled(cell) else cell
    cells = tuple(map(opened_cell, fn.__closure__))
    defaults = fn.__defaults__ and tuple(real(world, value) for value in fn.__defaults__)
    made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, defaults, cells)
    made.__kwdefaults__, made.__qualname__ = fn.__kwdefaults__, fn.__qualname__
    return made


def real(world: Any, value: Any) -> Any:
    """An object from outside itself, but for tensors that are part of the graph."""
    if type(value) is Pending:
        known = value.opened
        return known if type(known) is FakeTensor else value.value
    shadow = world.containers.shadows.get(id(value))
    return value if shadow is None else shadow.outside


serve(comptime)(lambda f, /, fn: call(f, opened(fn)))

SHORT = ("print_graph", "print_guards", "print_locals", "print_value_stack", "print_bt", "graph_break")
"""What the context can do that is also there as `comptime.print_graph()`."""


def shortened(name: str) -> Callable[[], None]:
    method = getattr(ComptimeContext, name)

    def short() -> None:
        pass

    serve(short)(lambda f, /: call(f, method))
    short.__name__, short.__doc__ = name, f"`ComptimeContext.{name}`, while the calling function is captured."
    short.__qualname__ = f"comptime.{name}"
    return short


for _name in SHORT:
    setattr(comptime, _name, shortened(_name))
