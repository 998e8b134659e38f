"""`set_stance` and `run`: using what is compiled, without compiling more.

What `set_stance` changes holds while the program runs, so a call of it in a compiled function is a break.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from framelift.api.capture_control import not_captured
from framelift.core import breaks
from framelift.core import stance as stances
from framelift.core.breaks import Break
from framelift.core.errors import UserError
from framelift.dispatch.compile_contexts import Backend
from framelift.dispatch.stand_ins import aot_eager_at_first, forcing
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.bodies import interpret
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame


class set_stance:
    """What compiled functions do from now on about what is not compiled: see `STANCES` in `core.stance`.

    As a function it holds until the next one; as a context manager for the block, as a decorator for each
    call of the function. It is one for all threads. With `force_backend` every compiled function uses that
    backend meanwhile, whatever it was compiled with.

    >>> import torch, framelift
    >>> double = framelift.compile(lambda x: x * 2, backend="eager")
    >>> with framelift.set_stance("force_eager"):
    ...     double(torch.ones(1))
    tensor([2.])
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Backend | None = None,
    ) -> None:
        if skip_guard_eval_unsafe:
            raise UserError(
                "skip_guard_eval_unsafe is not offered: an entry is used only where its guards hold. "
                "To compile nothing any more, use the stance 'fail_on_recompile' or 'eager_on_recompile'."
            )
        if not isinstance(stance, str) or stance not in stances.STANCES:
            raise UserError(f"there is no stance {stance!r:.80}; known are: {', '.join(stances.STANCES)}")
        if force_backend is not None and stance != "default":
            raise UserError(f"force_backend goes with the stance 'default', not with {stance!r}")
        redirect = None if force_backend is None else forcing(force_backend)
        if stance == "aot_eager_then_compile":
            redirect = aot_eager_at_first
        self.stance = stances.Taken(str(stance), redirect)
        self.before = stances.put(self.stance)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        stances.put(self.before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: the stance is taken when the function is called, not here."""
        stances.put(self.before)
        if not callable(fn):
            raise TypeError(f"framelift.set_stance decorates a function, not a {type(fn).__name__}")
        taken = self.stance

        @functools.wraps(fn)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = stances.put(taken)
            try:
                return fn(*args, **kwargs)
            finally:
                stances.put(before)

        return not_captured(with_stance, "framelift.set_stance")


def run(fn: Any = None) -> Any:
    """A compiled function or module that uses what has been compiled for it and compiles nothing more:
    where no entry fits, plain Python runs. In this thread and for the time of the call; so also for what any
    other function calls. In a compiled function it is a part of that. Without one, a decorator."""
    if fn is None:
        return run
    if not callable(fn):
        raise TypeError(f"framelift.run takes a function, not a {type(fn).__name__}")

    def runs_only(*args: Any, **kwargs: Any) -> Any:
        return call_only(fn, args, kwargs)

    if hasattr(fn, "__name__"):
        functools.update_wrapper(runs_only, fn)
    interpret(runs_only)
    return runs_only


def call_only(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with stances.running_only():
        return fn(*args, **kwargs)


@serve(call_only)
def serve_call_only(f: TraceFrame, /, fn: Any, args: Any, kwargs: Any) -> Any:
    return call(f, opened(fn), list(opened(args)), dict(opened(kwargs)))


def refuse(frame: Any, /, *args: Any, **kwargs: Any) -> Any:
    raise Break(breaks.EFFECT, "framelift.set_stance, which changes how everything runs from there on")


for _entrance in (set_stance, set_stance.__enter__, set_stance.__exit__, set_stance.__call__):
    serve(_entrance)(refuse)
