"""`framelift.comptime`: code that runs while a function is captured, and not at all when it runs.

    framelift.comptime(lambda ctx: ctx.print_graph())     any function of the context
    framelift.comptime.print_graph()                      the same, in short

The function sees the program's own objects where they come from outside, and tensors without data for those
of the graph.
"""

from __future__ import annotations

import builtins
import dis
import functools
import linecache
import time
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, TextIO

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.errors import ComptimeAssertionError, ComptimeError
from framelift.core.sentinels import MISSING, UNSET
from framelift.graph.body import graph_module
from framelift.graph.origins import describe_nodes
from framelift.graph.symbols import PYTHON_TYPES, settled, simplest
from framelift.interpreter.frame import Frame
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.points import chain
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame
from framelift.trace.materialize import ATOMS


class ComptimeVar:
    """A value of the traced program, with what may be asked of it while it is captured."""

    def __init__(self, world: Any, value: Any) -> None:
        self._world, self._value = world, as_known(opened(value))

    def as_proxy(self) -> Any:
        """The node of the graph that computes it; in containers of the same form."""
        builder, value = self._world.recorder.builder, self._value
        if isinstance(value, (list, tuple)):
            return type(value)(ComptimeVar(self._world, each).as_proxy() for each in value)
        if isinstance(value, FakeTensor):
            return builder.node_of(value)
        if isinstance(value, SYMBOLS):
            return value.node.expr
        raise TypeError(f"{self!r} is no part of the graph")

    def is_proxy(self) -> bool:
        """Whether it is computed by the graph."""
        return isinstance(self._value, (FakeTensor, *SYMBOLS))

    def as_fake(self) -> Any:
        """The tensor without data, or the symbol, that stands for it."""
        if not self.is_proxy():
            raise TypeError(f"{self!r} is no tensor and no symbol")
        return self._value

    def size(self, dim: int | None = None) -> Any:
        """Of a tensor."""
        shape = self.as_fake().shape
        return shape if dim is None else shape[dim]

    def python_type(self) -> type:
        kind = type(self._value)
        return torch.Tensor if kind is FakeTensor else PYTHON_TYPES.get(kind, kind)

    def is_python_constant(self) -> bool:
        return not self.is_proxy()

    def as_python_constant(self) -> Any:
        if self.is_proxy():
            raise TypeError(f"{self!r} is no constant")
        return self._value

    def is_dynamic(self) -> bool:
        """Whether it is a symbol, that is, whether other values of it are captured with this one."""
        return isinstance(self._value, SYMBOLS)

    def force_static(self) -> None:
        """From here on it is relied on that it has the value that it has."""
        if isinstance(self._value, FakeTensor):
            for size in self._value.shape:
                settled(size)
        self._value = settled(self._value)

    def __repr__(self) -> str:
        return as_text(self._value)


def as_known(value: Any) -> Any:
    """A symbol that the program has made definite is a number; nothing is decided by asking."""
    return value if type(value) is torch.SymBool else simplest(value)


SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def as_text(value: Any) -> str:
    """As it is printed: of tensors what is known of them, of containers what is in them."""
    if type(value) is Pending:
        if value.opened is not MISSING:
            return as_text(value.opened)
        return repr(value.value) if type(value.value) in ATOMS else f"<{value.source}>"
    if isinstance(value, torch.Tensor):
        return f"Tensor(shape={tuple(value.shape)}, dtype={value.dtype})"
    if type(value) is dict:
        return "{" + ", ".join(f"{as_text(key)}: {as_text(each)}" for key, each in value.items()) + "}"
    if type(value) in (list, tuple):
        inside = ", ".join(map(as_text, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
    return repr(value)


class ComptimeContext:
    """What `comptime` hands to its function: the state of the capture at this place. `stacklevel` counts the
    frames from the one that calls it outwards."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._world: Any = frame.world

    def frame_at(self, stacklevel: int) -> Frame:
        frames = list(chain(self._frame))
        if not 0 <= stacklevel < len(frames):
            raise IndexError(f"there are {len(frames)} frames, and none at stacklevel={stacklevel}")
        return frames[-1 - stacklevel]

    def parent(self) -> ComptimeContext:
        """That of the frame that has called this one."""
        return ComptimeContext(self.frame_at(1))

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        """A variable of a frame, or of those around its function."""
        frame = self.frame_at(stacklevel)
        for known, value in zip(frame.code.names, frame.fast, strict=False):
            if known == name and value is not UNSET and is_filled(value):
                return ComptimeVar(self._world, value.cell_contents if type(value) is CellType else value)
        raise KeyError(f"there is no variable {name!r} here")

    def graph(self) -> torch.fx.Graph:
        """The graph so far."""
        found: torch.fx.Graph = self._world.recorder.builder.body.graph
        return found

    def guards(self) -> list[str]:
        """What is relied on so far, as the user would write it."""
        return [str(guard) for guard in self._world.guards.facts.values()]

    def locals(self, stacklevel: int = 0) -> dict[str, Any]:
        """The variables: tensors are fakes, and what has not been looked at yet is shown by where it is."""
        frame = self.frame_at(stacklevel)
        pairs = zip(frame.code.names, frame.fast, strict=False)
        return {name: shown(value) for name, value in pairs if value is not UNSET and is_filled(value)}

    def value_stack(self, stacklevel: int = 0) -> list[Any]:
        """What lies on the interpreter's stack, the last on top."""
        return [shown(value) for value in self.frame_at(stacklevel).stack if value is not UNSET]

    def stack(self, stacklevel: int = 0) -> list[str]:
        """Where the program is, outermost first."""
        return [
            f'File "{frame.code.code.co_filename}", line {frame.line}, in {frame.code.code.co_name}'
            for frame in chain(self.frame_at(stacklevel))
        ]

    def print(self, val: Any, *, file: TextIO | None = None) -> None:
        print(repr(val) if isinstance(val, ComptimeVar) else as_text(val), file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        """The graph as the source of a function; `verbose` with where each line comes from."""
        shown = torch.fx.Graph()
        shown.graph_copy(self.graph(), {})
        describe_nodes(graph_module(shown, self._world.recorder.builder.body.modules))
        print(shown.python_code("self", verbose=verbose).src, file=file)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        print("\n".join(self.guards()), file=file)

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        frame = self.frame_at(stacklevel)
        for name, value in zip(frame.code.names, frame.fast, strict=False):
            if value is not UNSET and is_filled(value):
                print(f"{name} = {as_text(content(value))}", file=file)

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        for value in self.frame_at(stacklevel).stack:
            if value is not UNSET:
                print(f"- {as_text(content(value))}", file=file)

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Where the program is, as Python's tracebacks show it."""
        for frame, where in zip(chain(self.frame_at(stacklevel)), self.stack(stacklevel), strict=True):
            line = linecache.getline(frame.code.code.co_filename, frame.line or 0).strip()
            print(f"  {where}", *([f"    {line}"] if line else []), sep="\n", file=file)

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """The instructions of the frame's function, and the line that it stands at."""
        frame = self.frame_at(stacklevel)
        at = frame.code.instructions[frame.ip].offset
        dis.disassemble(frame.code.code, at, file=file)
        print(f"at line {frame.line}", file=file)

    def assert_static(self, val: ComptimeVar) -> None:
        """It is an error if it is a symbol."""
        if val.is_dynamic():
            raise AssertionError(f"expected static but got dynamic: {val!r} is a symbol")

    def sleep(self, sec: float) -> None:
        """Waits, for a debugger to be attached, say."""
        time.sleep(sec)

    def breakpoint(self) -> None:
        """Enters the debugger, where `ctx` is this context."""
        ctx = self  # noqa: F841 (which is looked at in there)
        builtins.breakpoint()

    def graph_break(self, msg: str = "comptime") -> None:
        """The capture ends here."""
        raise Break(breaks.ASKED_FOR, msg)


def is_filled(value: Any) -> bool:
    try:
        return type(value) is not CellType or value.cell_contents is not UNSET
    except ValueError:
        return False


def content(value: Any) -> Any:
    return value.cell_contents if type(value) is CellType else value


def shown(value: Any) -> Any:
    value = content(value)
    if type(value) is not Pending:
        return value
    return f"<{value.source}>" if value.opened is MISSING else value.opened


def comptime(fn: Callable[[ComptimeContext], Any], fallback_fn: Callable[[], Any] = lambda: None) -> None:
    """Calls the function while the calling one is captured, and not when it runs. What it raises is an error
    (`ComptimeError`): nothing of it is the program's. Where nothing is captured, `fallback_fn` is called."""
    fallback_fn()


def call(f: TraceFrame, fn: Any) -> None:
    fn = with_real_values(f.world, fn)
    f.world.calls.ran_as_it_is = "comptime"
    try:
        with torch._C.DisableTorchFunction():
            _frame.untouched(fn, ComptimeContext(f))
    except Exception as error:
        if isinstance(fn, functools.partial):
            fn = fn.args[0]
        name = getattr(fn, "__qualname__", repr(fn))
        kind = ComptimeAssertionError if isinstance(error, AssertionError) else ComptimeError
        raise kind(f"comptime: {name} raised {type(error).__name__}: {error}") from error


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


serve(comptime)(lambda f, /, fn, fallback_fn=None: call(f, opened(fn)))


def short_form(name: str, does: Callable[..., Any], gives: Callable[..., Any] = lambda *args: None) -> Any:
    """`comptime.name(...)`: calls `does(ctx, ...)` while the calling function is captured. When that runs, it
    gives what `gives` says of the arguments."""

    def short(*args: Any, **kwargs: Any) -> Any:
        return gives(*args)

    def serve_short(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        named = {key: opened(value) for key, value in kwargs.items()}
        call(f, functools.partial(with_arguments, does, args, named))
        return gives(*args)

    short.__name__, short.__doc__ = name, f"`ComptimeContext.{name}`, while the calling function is captured."
    short.__qualname__ = f"comptime.{name}"
    made: Any = FunctionType(short.__code__.replace(), short.__globals__, name, None, short.__closure__)
    functools.update_wrapper(made, short, updated=())
    del made.__wrapped__
    serve(made)(serve_short)
    return made


def with_arguments(does: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ctx: ComptimeContext) -> None:
    does(ctx, *(ComptimeVar(ctx._world, each) for each in args), **kwargs)


def plain_arguments(name: str) -> Callable[..., Any]:
    """A method that is given what the program gives, as it is."""

    def does(ctx: ComptimeContext, *args: ComptimeVar, **kwargs: Any) -> None:
        getattr(ctx, name)(*(arg.as_python_constant() for arg in args), **kwargs)

    return does


OF_VALUES = {
    "print": ComptimeContext.print,
    "assert_static": ComptimeContext.assert_static,
    "force_static": lambda ctx, val: val.force_static(),
}
"""What is given a value of the program's."""
WITHOUT_VALUES: tuple[str, ...] = (
    "print_graph",
    "print_guards",
    "print_locals",
    "print_value_stack",
    "print_bt",
    "print_disas",
)
WITHOUT_VALUES += ("graph_break", "sleep", "breakpoint")

for _name, _does in OF_VALUES.items():
    setattr(comptime, _name, short_form(_name, _does))
for _name in WITHOUT_VALUES:
    setattr(comptime, _name, short_form(_name, plain_arguments(_name)))
_and_return = short_form(
    "print_value_stack_and_return", lambda ctx, value: ctx.print_value_stack(), gives=lambda value: value
)
setattr(comptime, "print_value_stack_and_return", _and_return)  # noqa: B010 (functions have no such attribute)
