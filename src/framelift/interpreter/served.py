"""Calls that Framelift does itself: a handler has the parameters of what it stands for, after the frame."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from framelift.interpreter.frame import Frame

Handler = Callable[[Any, list[Any], dict[str, Any]], Any]
"""handler(frame, args, kwargs) -> the result of the call, or the Frame that will produce it."""


def by_signature(fn: Any, handler: Callable[..., Any]) -> Handler:
    """Calls a handler with bound arguments; what does not fit is called as if nobody served it."""
    signature = inspect.signature(handler)
    parameters = list(signature.parameters.values())[1:]
    if [parameter.name for parameter in parameters] == ["args", "kwargs"]:
        return handler
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    most = len(positional)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        most = 1 << 30
    needs_keywords = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)

    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not kwargs and least <= len(args) <= most and not needs_keywords:
            return handler(f, *args)
        try:
            signature.bind(f, *args, **kwargs)
        except TypeError:
            return f.world.calls.native(f, fn, args, kwargs)
        return handler(f, *args, **kwargs)

    return served
