"""The frame that is traced, and where the program stands."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType, MethodWrapperType
from typing import Any

import torch
import torch.fx.traceback as fx_traceback

from framelift.bytecode import slot_names
from framelift.bytecode.resume import INNER, called_by
from framelift.core import policy
from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING
from framelift.graph.origins import Activation, CalledModule, Origin
from framelift.guards.kinds import Access
from framelift.guards.sources import STACK, Source
from framelift.interpreter.pending import Pending, opened
from framelift.trace.part import Part

CALLING = ("forward", "_call_impl", "call_with_hooks")
"""Functions whose frames belong to a call of a module: its own, torch's that calls hooks too, and what is
interpreted in its place."""
OWN_PACKAGE = __name__.partition(".")[0]


class TracedFrame(Part):
    """The outermost frame of a trace: its function, its globals, and what it was handed."""

    def start(self) -> None:
        self.function: FunctionType | None = None
        self.globals: dict[str, Any] | None = None
        self.outermost: Any = None
        """The interpreter's frame."""
        self.fresh: set[Source] = set()
        """Arguments that CPython makes for each call (`*args`, `**kwargs`): they are nobody else's."""
        self.exits: list[Pending] = []
        """What the `with` statements around a resume point call at their end, outermost first."""
        self.goes_on = False
        """Whether it is the rest of a frame, behind a break."""
        self.may_come_again = False
        """Whether it begins in a loop, so that what it is handed was advanced since the last time."""
        self.skips = False
        """Whether it asks not to be captured (`skip_frame`)."""
        self.captures_from_data = False
        """Whether the program asks, in this frame, for numbers and sizes that only the data decides."""
        self.preparation: Callable[[], Any] | None = None
        """What is to be done, for real, before the frame is traced once more."""

    def open_statements(self, code: CodeType, handed: list[Pending]) -> None:
        """Notes what the `with` statements around a resume point call at their end, outermost first."""
        called = called_by(code)
        for name, given in zip(slot_names(code), handed, strict=False):
            value = given.value
            if name == INNER and called is not None:
                places = [given.source.child(Access.ITEM, n) for n in range(len(value))]
                inner = map(Pending, [self.world.inputs] * len(value), places, value)
                self.open_statements(called.__code__, list(inner))
            elif name.startswith(STACK) and is_exit(value):
                self.exits.append(given)


def is_exit(value: Any) -> bool:
    """Whether a `with` statement has bound this method. Others may be bound to what is no function at all."""
    bound = type(value) is MethodType
    fn = value.__func__ if bound else value
    known = type(fn) is FunctionType if bound else type(fn) is MethodWrapperType
    return (known or type(fn) is BuiltinMethodType) and fn.__name__ == "__exit__"


class Places(Part):
    """Answers where the program stands, for guards, breaks and the graph's nodes."""

    def start(self) -> None:
        self.users: dict[int, bool] = {}
        """id of a globals dictionary -> whether it is the user's."""
        self.latest: Origin | None = None
        """That of the node that was recorded last."""
        self.given: list[Origin | None] = []
        """Those of the next nodes, in reverse, where a call is replayed."""
        self.annotated: dict[Any, Any] = {}
        """What the program had annotated the latest nodes with."""
        self.annotations: dict[Any, Any] = {}
        """The same, opened."""

    def here(self) -> Place | None:
        """Where the program stands."""
        frame = self.world.machine.frame if self.world.machine else None
        return None if frame is None else frame.place

    def of_fact(self) -> tuple[Place | None, Place | None]:
        """(`here()`, `in_user_code()`): thousands of guards ask for both."""
        machine = self.world.machine
        frame = machine.frame if machine else None
        if frame is None:
            return None, None
        place = frame.code.places.get(frame.ip) or frame.place
        try:
            return place, frame.users_place
        except AttributeError:  # not asked for yet
            return place, self.in_user_code()

    def in_user_code(self) -> Place | None:
        """Where the user's code stands, while the program stands in a library's."""
        frame = self.world.machine.frame if self.world.machine else None
        if frame is None:
            return None
        place: Any = getattr(frame, "users_place", MISSING)  # not set before it is asked for
        if place is MISSING:
            above = frame
            while above is not None and not self.is_users(above.globals):
                above = above.back
            place = None if above is None or above is frame else above.place
            if frame.generator is None:  # its callers stay where they are as long as it runs
                frame.users_place = place
        return place

    def is_users(self, scope: dict[str, Any]) -> bool:
        found = self.users.get(id(scope))
        if found is None:
            found = self.users[id(scope)] = policy.is_user_code(scope.get("__name__") or "")
        return found

    def origin(self) -> Origin | None:
        """Where the node comes from that is about to be recorded."""
        if self.given:
            return self.given.pop()
        machine = self.world.machine
        frame = machine.frame if machine else None
        if frame is None:
            return None
        activation = self.activation(frame)
        at, latest = frame.ip, self.latest
        if latest is not None and latest.activation is activation and latest.at == at:
            # in a loop its value was stored meanwhile; otherwise the instruction records more than one node
            latest.is_intermediate = not latest.slot_holds_value(frame.fast)
        self.latest = latest = Origin(activation, at)
        latest.annotation = self.annotation()
        return latest

    def annotation(self) -> dict[Any, Any] | None:
        """What the program has annotated the nodes with that it records, as it keeps that itself."""
        meta: Any = fx_traceback.current_meta
        seen = self.world.inputs.known.get(id(meta))
        custom = (meta if seen is None else seen.opened).get("custom")
        if not custom:
            return None
        custom = opened(custom)
        if type(custom) is not dict:
            return None
        known = self.annotated
        if custom.keys() != known.keys() or any(custom[key] is not known[key] for key in known):
            self.annotated = dict(custom)
            self.annotations = self.world.materialize.for_c(dict(custom))
        return self.annotations

    def activation(self, frame: Any) -> Activation:
        found: Activation | None = getattr(frame, "activation", None)  # not set before it is asked for
        if found is None:
            back = frame.back
            outer = None if back is None else self.activation(back)
            is_call = back is not None and frame.func.__name__ in CALLING
            module = self.called_module(frame) if is_call else None
            called_at, is_direct = (0, False) if back is None else (back.ip, frame.called_at is not None)
            found = Activation(outer, called_at, is_direct, frame.code, self.is_users(frame.globals), module)
            if frame.generator is None:  # its callers stay where they are as long as it runs
                frame.activation = found
        return found

    def called_module(self, frame: Any) -> CalledModule | None:
        """The module whose `forward` a frame runs, or whose hooks."""
        value = frame.fast[0] if frame.fast else None
        if type(value) is CellType:
            value = value.cell_contents
        source = None
        if type(value) is Pending:
            value, source = value.value, value.source
        if not isinstance(value, torch.nn.Module):
            return None
        source = source or self.world.inputs.source_of(value)
        return CalledModule(str(id(value)), self.world.inputs.texts, source, type(value))

    def stack(self) -> list[Place]:
        """Where the program stands, with its callers, outermost first; without Framelift's own functions."""
        places: list[Place] = []
        own: list[Place] = []
        frame = self.world.machine.frame if self.world.machine else None
        while frame is not None:
            is_own = (frame.globals.get("__name__") or "").partition(".")[0] == OWN_PACKAGE
            (own if is_own else places).append(frame.place)
            frame = frame.back
        return (places or own)[::-1]
