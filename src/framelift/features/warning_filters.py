"""Warnings that the program gives, and the filters that decide what becomes of them.

A warning is told by the region, after the graph has run, of the place where the program stood. What the
filters around the call do with it is guarded: one that they make an error ends the trace. Within a
`catch_warnings` of the program's own the filters are the trace's: what is ignored there is nothing, what is
an error is raised, and what is recorded goes into the program's list.
"""

from __future__ import annotations

import _warnings
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import Break, refuse
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame
from framelift.trace.part import Part
from framelift.trace.type_rules import Rebuilder, type_rule

Filter = tuple[Any, ...]
"""Action, pattern of the text, category, pattern of the module, line."""
ALWAYS: Filter = ("always", None, Warning, None, 0)
"""What stands before all other filters while a trace runs: C's warnings have to be noticed."""


@dataclass(eq=False)
class Caught:
    """A `catch_warnings` that the program has entered."""

    manager: Any
    filters: list[Filter]
    log: list[Any] | None
    told: set[Any] = field(default_factory=set)
    """What was shown since the filters were changed."""


@dataclass(frozen=True)
class Spot:
    """What a warning is about."""

    filename: str
    line: int
    module: str


class Warned(Part):
    """What a trace knows of warnings."""

    def start(self) -> None:
        self.caught: list[Caught] = []
        self.is_guarded = False

    # ---- filters

    def around(self) -> list[Filter]:
        """The filters around the call, which the entry relies on from now on."""
        found = [each for each in warnings.filters if each is not ALWAYS]
        if not self.is_guarded:
            self.is_guarded = True
            self.guard(self.world.scopes.view(vars(warnings)).source.child(Access.KEY, "filters"), found)
        return found

    def guard(self, source: Source, found: list[Filter]) -> None:
        add = self.world.guards.add
        add(source, Check.TYPE, list)
        add(source, Check.LEN, len(found))
        for place, one in enumerate(found):
            at = source.child(Access.ITEM, place)
            add(at, Check.TYPE, tuple)
            add(at, Check.LEN, len(one))
            for n, part in enumerate(one):
                check = Check.EQUAL if isinstance(part, (str, int)) else Check.IS
                add(at.child(Access.ITEM, n), check, part)

    def filters(self) -> list[Filter]:
        return self.caught[-1].filters if self.caught else self.around()

    def changed(self) -> Caught:
        if not self.caught:
            refuse(breaks.EFFECT, "filters of warnings that are around the call are changed")
        self.caught[-1].told.clear()
        return self.caught[-1]

    def action(self, text: str, category: type, spot: Spot) -> str:
        for action, pattern, of, module, line in self.filters():
            if pattern is not None and not isinstance(pattern, str) and pattern.match(text) is None:
                continue
            if isinstance(pattern, str) and pattern != text:
                continue
            if module is not None and not isinstance(module, str) and module.match(spot.module) is None:
                continue
            if isinstance(module, str) and module != spot.module:
                continue
            if issubclass(category, of) and line in (0, spot.line):
                return str(action)
        return str(vars(warnings)["defaultaction"])

    def asks_for_place(self, one: Filter, category: type) -> bool:
        *_, of, module, line = one
        return issubclass(category, of) and (module is not None or line != 0)

    # ---- warnings

    @acts_for_program
    def warn(self, f: TraceFrame, message: Any, category: Any, level: int, source: Any) -> None:
        if self.world.recorder.builder.in_body:
            refuse(breaks.EFFECT, "a warning in what an operator is given to call")
        if isinstance(message, Warning):
            category, text, given = type(message), str(message), message
        else:
            category = UserWarning if category is None else category
            if type(message) is not str or not (isinstance(category, type) and issubclass(category, Warning)):
                refuse(breaks.EFFECT, "a warning that is neither a text nor a Warning")
            text, given = message, None
        at, above = frame_at(f, level)
        spot = Spot(at.code.code.co_filename, at.line or 1, at.globals.get("__name__") or "<string>")
        action = self.action(text, category, spot)
        placed = [one for one in self.filters() if above and self.asks_for_place(one, category)]
        if placed:
            if self.caught or "error" in (action, *(one[0] for one in placed)):
                refuse(breaks.EFFECT, "a warning of a caller that is not captured")
            action = "default"  # as it is told, its place is known
        if action == "ignore":
            return
        if action == "error" and self.caught:
            raise given if given is not None else category(text)
        if action == "error":
            refuse(breaks.EFFECT, f"a {category.__name__}, which is an error")
        if not self.caught:
            self.tell(text, category, spot, at, above, given)
        elif self.is_shown(action, text, category, spot, above):
            self.show(text, category, spot, given, source)

    def tell(self, text: str, category: type, spot: Spot, at: Any, above: int, given: Warning | None) -> None:
        if given is not None and (type(given).__module__ != "builtins" or given.args != (text,)):
            refuse(breaks.EFFECT, "a warning that is an object of the program's")
        if above:
            self.world.runtime_calls.note(warn_above, (text, category, above), {}, late=True)
            return
        if getattr(sys.modules.get(spot.module), "__dict__", None) is not at.globals:
            refuse(breaks.EFFECT, "a warning of a module that can't be found by its name")
        about = (text, category, spot.filename, spot.line, spot.module)
        self.world.runtime_calls.note(warn_at, about, {}, late=True)

    def is_shown(self, action: str, text: str, category: type, spot: Spot, above: int) -> bool:
        """Whether a warning was not shown before, where the program's filters want to see each once."""
        if above or action not in ("always", "default", "module"):
            refuse(breaks.EFFECT, f"a warning with the action {action!r}")
        key = text, category, spot.module, spot.line if action == "default" else 0
        if action != "always" and key in self.caught[-1].told:
            return False
        self.caught[-1].told.add(key)
        return True

    def show(self, text: str, category: type, spot: Spot, given: Warning | None, source: Any) -> None:
        log = next((block.log for block in reversed(self.caught) if block.log is not None), None)
        if log is None:
            refuse(breaks.EFFECT, "a warning that a filter of the program's shows")
        message = category(text) if given is None else given
        log.append(warnings.WarningMessage(message, category, spot.filename, spot.line, source=source))


def frame_at(f: TraceFrame, level: int) -> tuple[Any, int]:
    """The frame that a warning is about, and how far above the captured ones it is."""
    frame: Any = f
    for steps in range(max(level, 1) - 1, 0, -1):
        if frame.back is None:
            return frame, steps
        frame = frame.back
    return frame, 0


def warn_at(text: str, category: type[Warning], filename: str, line: int, module: str) -> None:
    """What the region calls: `warnings.warn` of the place where the program stood."""
    found = sys.modules.get(module)
    registry = {} if found is None else vars(found).setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, filename, line, module, registry)


def warn_above(text: str, category: type[Warning], above: int) -> None:
    """The same, of a caller of the region."""
    warnings.warn(text, category, stacklevel=2 + above)


@serve(_warnings.warn)
def serve_warn(
    f: TraceFrame, /, message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None, **more: Any
) -> Any:
    message, category, level = map(opened, (message, category, stacklevel))
    if more or type(level) is not int:
        refuse(breaks.EFFECT, "warnings.warn with skip_file_prefixes")
    f.world.feature(Warned).warn(f, message, category, level, opened(source))


# ---- filters that the program sets


def serve_filter_setter(fn: Any) -> None:
    @serve(fn)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        """The library's function, with the trace's filters in the place of those around the call."""
        block = f.world.feature(Warned).changed()
        given = [f.world.materialize.for_c(value) for value in args]
        named = {name: f.world.materialize.for_c(value) for name, value in kwargs.items()}
        kept = warnings.filters
        vars(warnings)["filters"] = block.filters
        try:
            fn(*given, **named)
        finally:
            vars(warnings)["filters"] = kept
            vars(warnings)["_filters_mutated"]()


for _fn in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings):
    serve_filter_setter(_fn)


# ---- catch_warnings


@serve(warnings.catch_warnings)
def serve_catch_warnings(
    f: TraceFrame,
    /,
    *,
    record: Any = False,
    module: Any = None,
    action: Any = None,
    category: Any = Warning,
    lineno: Any = 0,
    append: Any = False,
) -> Any:
    if opened(module) is not None:
        refuse(breaks.EFFECT, "warnings.catch_warnings of another module")
    given = map(opened, (action, category, lineno, append))
    named = dict(zip(("action", "category", "lineno", "append"), given, strict=True))
    made = warnings.catch_warnings(record=opened(record), **named)
    return f.world.created.keep(made)


@serve(warnings.catch_warnings.__enter__)
def serve_enter(f: TraceFrame, self: Any, /) -> Any:
    manager, warned = opened(self), f.world.feature(Warned)
    if not f.world.created.has(manager) or is_entered(manager):
        refuse(breaks.EFFECT, "warnings.catch_warnings that was made outside, or entered twice")
    manager._entered = True
    log: list[Any] | None = [] if manager._record else None
    warned.caught.append(Caught(manager, list(warned.filters()), log))
    simple = vars(manager).get("_filter")
    if simple is not None:
        f.world.calls.invoke(warnings.simplefilter, *simple)
    return log


@serve(warnings.catch_warnings.__exit__)
def serve_exit(f: TraceFrame, self: Any, /, *raised: Any) -> Any:
    warned = f.world.feature(Warned)
    if not warned.caught or warned.caught[-1].manager is not opened(self):
        refuse(breaks.EFFECT, "leaving a warnings.catch_warnings that was entered outside")
    warned.caught.pop()


def is_entered(manager: Any) -> bool:
    return bool(manager._entered)


def entered_again(filters: list[Filter], log: list[Any] | None) -> Any:
    """What the program finds open where a trace has ended."""
    manager = warnings.catch_warnings(record=log is not None)
    manager.__enter__()
    vars(warnings)["filters"][:] = filters
    vars(warnings)["_filters_mutated"]()
    if log is not None:
        vars(warnings)["_showwarnmsg_impl"] = log.append
    return manager


def rebuild_catch_warnings(r: Rebuilder, value: Any) -> str:
    if not is_entered(value):
        return r.variable(f"{r.constant(warnings.catch_warnings)}(record={value._record})", value)
    found = next((block for block in r.world.feature(Warned).caught if block.manager is value), None)
    if found is None:
        raise Break(breaks.UNREBUILDABLE, "a warnings.catch_warnings that was left", culprit=value)
    log = "None" if found.log is None else r.expression(found.log)
    return r.variable(f"{r.own(entered_again)}({r.own(found.filters)}, {log})", value)


type_rule(warnings.catch_warnings, rebuild=rebuild_catch_warnings)
