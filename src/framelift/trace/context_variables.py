"""Variables of the context (`contextvars`): a trace reads and sets them in a context of its own.

What a variable holds around the call is guarded when it is first asked for. One that holds something else at
the end is set by the region. Tokens are real ones, of the trace's context: they are for `reset` within the
trace, and can't live on.
"""

from __future__ import annotations

import contextvars
from typing import Any

from framelift._frame import native
from framelift.core.sentinels import MISSING
from framelift.guards.kinds import Check
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.part import Part

Variable = contextvars.ContextVar[Any]


class ContextVariables(Part):
    def start(self) -> None:
        self.context = contextvars.Context()
        self.before: dict[Variable, Any] = {}
        """Variable -> what it held around the call, or MISSING."""

    def meet(self, variable: Variable) -> None:
        if variable in self.before:
            return
        inputs, found = self.world.inputs, variable.get(MISSING)
        source = inputs.root.asked(f"{variable.name}.get()", variable.get, (MISSING,))
        if found is MISSING:
            self.world.guards.add(source, Check.IS, MISSING)
        else:
            self.world.guards.add(source, Check.IS_NOT, MISSING)
            found = Pending(inputs, source, found)
            self.context.run(variable.set, found)
        self.before[variable] = found

    def now(self, variable: Variable) -> Any:
        return self.context.run(variable.get, MISSING)

    def get(self, variable: Variable, default: tuple[Any, ...]) -> Any:
        self.meet(variable)
        found = self.now(variable)
        if found is not MISSING:
            return found
        if default:
            return default[0]
        found = native(self.context.run, variable.get)  # its own default, or an error
        source = self.world.inputs.root.asked(f"{variable.name}.get()", variable.get, ())
        return self.world.guards.found(source, found)

    def set(self, variable: Variable, value: Any) -> Any:
        self.meet(variable)
        return self.context.run(variable.set, value)

    def reset(self, variable: Variable, token: Any) -> None:
        self.meet(variable)
        native(self.context.run, variable.reset, token)

    def changes(self) -> list[tuple[Variable, Any]]:
        """The variables to set, and what to."""
        held = [(variable, self.now(variable), before) for variable, before in self.before.items()]
        return [(variable, now) for variable, now, before in held if not unchanged(now, before)]
