"""An activation of a Python function that the interpreter runs: real stack, locals and cells."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic

from framelift.bytecode import Decoded
from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING, UNSET
from framelift.interpreter.frame_objects import FrameView
from framelift.interpreter.world import W

if TYPE_CHECKING:
    from framelift.interpreter.generators import Suspended
    from framelift.interpreter.machine import Machine


class Handling:
    """On the stack while `error` is being handled: what was being handled `before`."""

    __slots__ = ("before", "error", "over")

    def __init__(self, error: BaseException, before: BaseException | None) -> None:
        self.error = error
        self.before = before
        self.over = False
        """It is handled, or has gone on; only the place on the stack is still there."""


class AtReturn:
    """Somebody who is told what a frame returns."""

    __slots__ = ("tell",)

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self.tell = tell


class Frame(Generic[W]):
    """`fast` holds the slots as CPython lays them out: arguments, locals, cells, free variables."""

    owner: weakref.ref[Suspended]
    added: dict[Any, Any]
    """What somebody has set in `f_locals` that is no variable; before 3.13 what `locals()` gives."""
    executes: bool
    """Code of `exec` sets names there; not from 3.13 on."""

    __slots__ = (
        *(
            "activation",
            "added",
            "back",
            "called_at",
            "code",
            "executes",
            "fast",
            "func",
            "generator",
            "globals",
            "instead",
            "ip",
        ),
        *("kwnames", "machine", "names", "namespace", "original", "owner", "stack", "users_place", "value"),
        *("viewed", "world"),
    )

    def __init__(self, machine: Machine[W], func: FunctionType, code: Decoded, arguments: list[Any]) -> None:
        self.machine = machine
        self.world: W = machine.world
        self.func = func
        self.code = code
        self.original = code.code  # which the function may be given another for while it runs
        missing = code.n_fast - len(arguments)
        self.fast = arguments + [UNSET] * missing if missing else arguments
        self.stack: list[Any] = []
        self.ip = 0
        self.globals = func.__globals__
        self.names = machine.world.scopes.names(self.globals, func)
        self.namespace: Any = None
        """Where a class body or `exec` keeps its names; None in functions."""
        self.kwnames: tuple[str, ...] = ()
        self.back: Frame[W] | None = None
        self.called_at: Any = None
        """Where its caller stood, for a frame of the outermost run."""
        self.generator: Suspended | None = None
        """Whose frame it is, while it runs; a weak reference in `owner` is there at other times too."""
        self.instead: Any = MISSING
        """What the caller gets in place of the returned value (the object, for an `__init__`); or an
        `AtReturn`."""
        self.value: Any = None
        """What the frame returned, yielded or re-raises, beside the signal that says which."""

    @property
    def line(self) -> int | None:
        return self.code.position(self.ip)[0]

    @property
    def place(self) -> Place:
        """Where the frame stands, down to the columns."""
        found = self.code.places.get(self.ip)
        if found is None:
            found = self.code.places[self.ip] = self.code.place(self.ip)
        return found

    def view(self) -> FrameView:
        """What the program sees of the frame; the same object as long as it holds on to it."""
        viewed = getattr(self, "viewed", None)  # not set by __init__, which runs for every call
        view: FrameView | None = viewed and viewed()
        if view is None:
            view = FrameView(self)
            self.viewed = weakref.ref(view)
        return view

    def __repr__(self) -> str:
        return f"<frame {self.code.code.co_qualname} line {self.line}>"
