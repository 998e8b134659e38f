"""What a capture does with calls of a function: keeps them in the graph, ends in front of them, leaves
them to plain Python, calls another function instead, or calls it while capturing."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import ON_BREAK, Break
from framelift.interpreter.pending import Pending, opened
from framelift.rules.instances import rebuild_instance
from framelift.trace.callable_rules import BY_MARK, control, serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.type_rules import type_rule


def for_each(mark: Callable[[Any], Any]) -> Any:
    """The same of a list or a tuple of functions, as torch has it; what can't be called is refused."""

    @functools.wraps(mark)
    def marked(fn: Any) -> Any:
        if isinstance(fn, (list, tuple)):
            return [marked(one) for one in fn]
        if not callable(fn) or not (hasattr(fn, "__code__") or hasattr(fn, "__self__")):
            raise TypeError(f"framelift.{mark.__name__} takes a function, not a {type(fn).__name__}")
        return mark(fn)

    return marked


# ---- in the graph, or not


@for_each
def allow_in_graph(fn: Any) -> Any:
    """Calls of the function are kept in the graph as they are: it is not looked into, only run once on fake
    tensors. It must do the same whenever it is given the same, and get all its tensors as arguments."""
    target = opaque(fn)
    control(fn, lambda world, fn, args, kwargs: call_opaque(world, target, args, kwargs))
    return fn


def opaque(fn: Any) -> Any:
    """What stands in graphs for a function. It does not keep it alive; entries that hold it go with it."""
    alive: Any = weakref.ref(fn)

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return _frame.untouched(alive(), *args, **kwargs)

    made: Any = call
    del made.__wrapped__
    _frame.set_decision(made.__code__, _frame.SKIP, _frame.REFUSE)
    return made


def call_opaque(world: Any, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    for_torch = world.materialize.for_torch
    keywords = {name: for_torch(value) for name, value in kwargs.items()}
    return world.recorder.call_opaque(target, tuple(map(for_torch, args)), keywords)


def nonstrict_trace(fn: Any) -> Any:
    """A function of its own whose calls are kept in the graph; AOTAutograd looks into it, and captures
    nothing but the operators."""

    @functools.wraps(fn)
    def traced(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return allow_in_graph(traced)


@for_each
def disallow_in_graph(fn: Any) -> Any:
    """A capture ends in front of a call of the function, which is made for real."""
    control(fn, refusing(breaks.DISABLED))
    return fn


@for_each
def forbid_in_graph(fn: Any) -> Any:
    """The function must not be called where anything is captured: that is an error of the program's."""
    control(fn, refusing(breaks.FORBIDDEN))
    return fn


def refusing(reason: breaks.Reason) -> Any:
    def refuse(world: Any, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        raise Break(reason, getattr(fn, "__qualname__", repr(fn)))

    return refuse


# ---- another function, or a constant


def substitute_in_graph(original: Any) -> Callable[[Any], Any]:
    """`@substitute_in_graph(fn)` above a Python function that does the same: captures look into that one."""
    if not callable(original):
        raise TypeError(f"framelift.substitute_in_graph takes a function, not a {type(original).__name__}")

    def register(substitute: Any) -> Any:
        serve(original)(lambda f, /, *args, **kwargs: interpreted(f, substitute, list(args), kwargs))
        return substitute

    return register


@for_each
def assume_constant_result(fn: Any) -> Any:
    """The function gives the same each time: it is called while capturing, and its result is a constant."""
    control(fn, call_once)
    return fn


_results: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
"""Function whose results are constants -> these: guards know them weakly."""


def call_once(world: Any, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    for_c, inputs = world.materialize.for_c, world.inputs
    keywords = {name: for_c(value) for name, value in kwargs.items()}
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        result = _frame.untouched(fn, *map(for_c, args), **keywords)
    _results.setdefault(fn, []).append(result)
    return Pending(inputs, inputs.root.constant(result, getattr(fn, "__name__", "constant")), result)


BY_MARK["_dynamo_forbidden"] = refusing(breaks.FORBIDDEN)


# ---- while capturing


def graph_break(reason: str = "") -> None:
    """The capture ends here, and goes on after it; without a capture nothing happens."""


def skip_frame(msg: str = "") -> None:
    """The function that calls it runs as plain Python, and what that calls is captured on its own."""


class error_on_graph_break:
    """In a block, or a decorated function, breaks are errors (True) or not (False), as with `fullgraph` but
    for a part of what is compiled. With `fullgraph=True` they are errors everywhere. It counts when something
    is captured: what is there already is not captured again for it.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     print("this may break")
    ...     with framelift.error_on_graph_break(True):
    ...         return x.sin() + 1
    >>> f(torch.zeros(2))
    this may break
    tensor([1., 1.])
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        if error_on_graph_break is not True and error_on_graph_break is not False:
            raise TypeError("error_on_graph_break takes True or False")
        self.error = error_on_graph_break
        self.before: list[bool] = []

    def __enter__(self) -> None:
        self.before.append(ON_BREAK.error)
        ON_BREAK.error = self.error

    def __exit__(self, *raised: object) -> None:
        ON_BREAK.error = self.before.pop()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        made: Any = within
        _frame.set_decision(made.__code__, _frame.LOOK, _frame.INTERPRET)
        return made


for _method in (error_on_graph_break.__init__, error_on_graph_break.__enter__, error_on_graph_break.__exit__):
    _frame.set_decision(_method.__code__, _frame.SKIP, _frame.INTERPRET)

type_rule(error_on_graph_break, rebuild=rebuild_instance)


@serve(skip_frame)
def serve_skip_frame(f: TraceFrame, /, msg: Any = "") -> None:
    world: Any = f.world
    world.frame.skips = f is world.frame.outermost
    raise Break(breaks.SKIPPED, str(opened(msg)))


@serve(graph_break)
def serve_graph_break(f: TraceFrame, /, reason: Any = "") -> None:
    raise Break(breaks.ASKED_FOR, str(opened(reason)))


# ---- plain Python


def disable(fn: Any = None, *, recursive: bool = True, reason: str | None = None) -> Any:
    """Marks a function (or module) to run as plain Python, with everything it calls; if not `recursive`,
    what it calls is captured.

    Works as `disable(fn)`, `@disable` and `@disable(reason="...")`.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise TypeError(f"framelift.disable takes a function, not a {type(fn).__name__}")
    if not recursive:
        return skip(fn, reason=reason)

    @functools.wraps(fn)
    def untouched(*args: Any, **kwargs: Any) -> Any:
        return _frame.untouched(fn, *args, **kwargs)

    return not_captured(untouched, reason or "framelift.disable")


def skip(fn: Any = None, *, reason: str | None = None) -> Any:
    """Marks a function to run as plain Python itself; the functions that it calls are captured."""
    if fn is None:
        return functools.partial(skip, reason=reason)
    code = getattr(fn, "__code__", None)
    if code is None:
        raise TypeError(f"framelift.skip takes a Python function, not a {type(fn).__name__}")
    _frame.set_decision(code, _frame.SKIP, _frame.REFUSE)

    @functools.wraps(fn)
    def skipped(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return not_captured(skipped, reason or "framelift.skip")


def not_captured(wrapper: Any, why: str) -> Callable[..., Any]:
    """A call of it in a compiled function is a break."""
    _frame.set_decision(wrapper.__code__, _frame.SKIP, _frame.REFUSE)
    wrapper._framelift_disable = why
    return wrapper


def is_compiling() -> bool:
    """True while the calling function is being captured."""
    return False


serve(is_compiling)(lambda frame, /: True)
