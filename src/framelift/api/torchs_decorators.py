"""What programs have of torch's compiler by its own names, though Framelift is not installed.

In captured code the decorators and blocks of `torch._dynamo` that say how to capture mean what those of
Framelift do.
"""

from __future__ import annotations

import contextlib
from typing import Any

from framelift import _frame
from framelift.api.capture_control import error_on_graph_break
from framelift.core.breaks import ON_BREAK
from framelift.interpreter.pending import opened
from framelift.rules.instances import rebuild_instance
from framelift.trace.callable_rules import BY_NAME
from framelift.trace.type_rules import type_rule
from framelift.trace.world import TraceWorld

HOME = "torch._dynamo.decorators"
DATA_OPTIONS = {"capture_scalar_outputs", "capture_dynamic_output_shape_ops"}
"""Options that count for what is being captured; others are about later, or nothing to choose."""


class AsItIs(contextlib.ContextDecorator):
    """A block, or a decorated function, that is captured as any other."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        return None


for _method in (AsItIs.__enter__, AsItIs.__exit__):
    _frame.set_decision(_method.__code__, _frame.SKIP, _frame.INTERPRET)

type_rule(AsItIs, rebuild=rebuild_instance)


def as_it_is() -> AsItIs:
    return AsItIs()


def breaking(error: bool) -> error_on_graph_break:
    return error_on_graph_break(error)


for _maker in (as_it_is, breaking):
    _frame.set_decision(_maker.__code__, _frame.SKIP, _frame.INTERPRET)


def block(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """As a block, or a decorator with or without parentheses."""
    if args and not kwargs and callable(opened(args[0])):
        return args[0]
    return world.calls.invoke(as_it_is)


def patched(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`patch_dynamo_config(name, value)`, of a mapping, or by keyword."""
    given = [world.materialize.for_c(arg) for arg in args]
    values = {name: world.materialize.for_c(value) for name, value in kwargs.items()}
    _frame.native(fn, *given, **values)  # which sets nothing yet, but says what is no such option
    if given:
        values |= {given[0]: given[1]} if isinstance(given[0], str) else dict(given[0] or {})
    note_options(world, values)
    return world.calls.invoke(as_it_is)


def note_options(world: TraceWorld, values: dict[str, Any]) -> None:
    if any(values.get(name) for name in DATA_OPTIONS):
        world.frame.captures_from_data = True


BY_NAME |= {
    **dict.fromkeys(
        (
            (HOME, name)
            for name in ("dont_skip_tracing", "disable_nested_graph_breaks", "override_cudagraphs")
        ),
        block,
    ),
    (HOME, "patch_dynamo_config"): patched,
    (HOME, "error_on_graph_break"): lambda world, fn, args, kwargs: world.calls.invoke(
        breaking, *args, **kwargs
    ),
}


# ---- blocks that were made before, such as those of decorated functions


def enter_breaking(made: Any) -> None:
    made.prev_error_on_graph_break.append(ON_BREAK.error)
    ON_BREAK.error = made.error_on_graph_break


def leave_breaking(made: Any) -> None:
    ON_BREAK.error = made.prev_error_on_graph_break.pop()


for _function in (enter_breaking, leave_breaking):
    _frame.set_decision(_function.__code__, _frame.SKIP, _frame.INTERPRET)


def enter(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    made = opened(args[0])
    if type(made).__name__.lower().startswith("errorongraphbreak"):
        world.calls.invoke(enter_breaking, args[0])
    options = getattr(getattr(made, "config_patch", None), "changes", None)
    if options:
        note_options(world, options)


def leave(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    if type(opened(args[0])).__name__.lower().startswith("errorongraphbreak"):
        world.calls.invoke(leave_breaking, args[0])


BY_NAME |= {(HOME, "__enter__"): enter, (HOME, "__exit__"): leave}
