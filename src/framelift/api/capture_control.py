"""What a capture does with calls of a function: keeps them in the graph, ends in front of them, leaves
them to plain Python, calls another function instead, or calls it while capturing."""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from framelift import _frame
from framelift.api.disabled_modules import disabled_module
from framelift.api.entrances import copied_function, not_captured, uncompiled
from framelift.core import breaks, policy
from framelift.core.breaks import ON_BREAK, Break
from framelift.core.errors import IncorrectUsage
from framelift.core.sentinels import MISSING
from framelift.graph.functions import describe
from framelift.graph.known_data import in_this_call
from framelift.interpreter.pending import Pending, opened
from framelift.rules.instances import rebuild_instance
from framelift.trace.callable_rules import BY_MARK, BY_NAME, control, control_of, serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.type_rules import type_rule
from framelift.trace.world import TraceWorld


def for_each(mark: Callable[[Any], Any]) -> Any:
    """The same of a list or a tuple of functions, as torch has it; what can't be called is refused."""

    @functools.wraps(mark)
    def marked(fn: Any) -> Any:
        if isinstance(fn, (list, tuple)):
            return [marked(one) for one in fn]
        if not callable(fn):
            raise TypeError(f"framelift.{mark.__name__} takes a function, not a {type(fn).__name__}")
        return mark(fn)

    return marked


IMMUTABLE_TYPE = 1 << 8
"""A class of C's, of which nothing can be set."""

# ---- in the graph, or not


@for_each
def allow_in_graph(fn: Any) -> Any:
    """Calls of the function are kept in the graph as they are: it is not looked into, only run once on fake
    tensors. It must do the same whenever it is given the same, and get all its tensors as arguments. Of a
    `torch.autograd.Function` the calls of `apply` are kept."""
    is_function = isinstance(fn, type) and issubclass(fn, torch.autograd.Function)
    target = opaque(fn, (lambda kind: kind.apply) if is_function else None)
    control(fn, lambda world, fn, args, kwargs: call_opaque(world, target, args, kwargs))
    return fn


def opaque(fn: Any, called: Callable[[Any], Any] | None = None) -> Any:
    """What stands in graphs for a function, or what `called` gives for it. It does not keep it alive; entries
    that hold it go with it."""
    alive: Any = weakref.ref(fn)

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        found = alive()
        return _frame.untouched(found if called is None else called(found), *args, **kwargs)

    made: Any = call
    del made.__wrapped__
    _frame.set_decision(made.__code__, _frame.SKIP, _frame.REFUSE)
    return made


def call_opaque(world: Any, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    for_torch = world.materialize.for_torch
    keywords = {name: for_torch(value) for name, value in kwargs.items()}
    return world.recorder.call_opaque(target, tuple(map(for_torch, args)), keywords)


@for_each
def disallow_in_graph(fn: Any) -> Any:
    """A capture ends in front of a call of the function, which is made for real. It is for functions that
    graphs hold: torch's, and those that are allowed in them; others are looked into (see `disable`)."""
    if control_of(fn) is None and type(fn) is FunctionType and policy.interprets(fn):
        raise IncorrectUsage(
            "disallow_in_graph is expected to be used on an already allowed callable (like torch.* ops), and "
            f"graphs hold no calls of {fn.__qualname__}; use framelift.disable"
        )
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


def substitute_in_graph(
    original: Any,
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable[[Any], Any]:
    """`@substitute_in_graph(fn)` above a Python function that does the same: captures look into that one. The
    two must take the same arguments, unless `skip_signature_check` is set. What is computed from constants is
    a constant in any case, so `can_constant_fold_through` changes nothing, nor does `is_embedded_type`."""
    if not callable(original) or isinstance(original, type):
        raise TypeError(f"framelift.substitute_in_graph takes a function, not a {type(original).__name__}")

    def register(substitute: Any) -> Any:
        if type(substitute) is not FunctionType:
            what = type(substitute).__name__
            raise TypeError(f"what stands in for {original!r} must be a Python function, not a {what}")
        if id(original) in _substituted:
            raise ValueError(f"there is a function that stands in for {original!r} already")
        if not skip_signature_check:
            check_signatures(original, substitute)
        serve(original)(lambda f, /, *args, **kwargs: interpreted(f, substitute, list(args), kwargs))
        _substituted[id(original)] = original
        return substitute

    return register


_substituted: dict[int, Any] = {}
"""id of a function -> the function that another one stands in for."""


def check_signatures(original: Any, substitute: Any) -> None:
    """A function of C's that does not say what it takes may take anything."""
    try:
        wanted = inspect.signature(original)
    except (TypeError, ValueError):
        return
    found = inspect.signature(substitute)
    if parameters(wanted) != parameters(found):
        raise TypeError(f"Signature mismatch between {original} and {substitute}: {wanted} != {found}")


def parameters(signature: inspect.Signature) -> list[tuple[str, Any, bool]]:
    empty = inspect.Parameter.empty
    return [(each.name, each.kind, each.default is empty) for each in signature.parameters.values()]


@for_each
def assume_constant_result(fn: Any) -> Any:
    """The function gives the same each time: it is called while capturing, and its result is a constant."""
    control(fn, call_once)
    return fn


_results: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
"""Function whose results are constants -> these: guards know them weakly."""


def call_once(world: Any, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Its arguments are what they are in the call that is being captured, tensors too."""
    inputs = world.inputs
    given = [real(world, fn, value) for value in args]
    keywords = {name: real(world, fn, value) for name, value in kwargs.items()}
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        result = _frame.untouched(fn, *given, **keywords)
    if isinstance(result, torch.Tensor):
        world.recorder.inputs.assumed.append(result)
    _results.setdefault(fn, []).append(result)
    return Pending(inputs, inputs.root.constant(result, getattr(fn, "__name__", "constant")), result)


def real(world: Any, fn: Any, value: Any) -> Any:
    """A value for a function that runs while capturing. A tensor from outside is not guarded for it: the
    program says that the result does not depend on it."""
    inputs, cls = world.inputs, type(value)
    unopened = cls is Pending and value.opened is MISSING and id(value.value) not in inputs.known
    if unopened and isinstance(value.value, torch.Tensor):
        with torch._C.DisableTorchFunction(), unset_fake_temporarily():
            return value.value if isinstance(value.value, torch.nn.Parameter) else value.value.detach()
    if cls in (list, tuple) and id(value) not in world.containers.shadows:
        return cls([real(world, fn, item) for item in value])
    if cls is dict and id(value) not in world.containers.shadows:
        return {world.materialize.for_c(key): real(world, fn, item) for key, item in value.items()}
    return without_fakes(world, fn, world.materialize.for_c(value))


def without_fakes(world: Any, fn: Any, value: Any) -> Any:
    if type(value) is FakeTensor:
        found = in_this_call(world.recorder, value)
        if found is None:
            raise Break(breaks.DATA_DEPENDENT_VALUE, f"a tensor that {describe(fn)} is given")
        return found
    if type(value) in (list, tuple):
        return type(value)([without_fakes(world, fn, item) for item in value])
    if type(value) is dict:
        return {key: without_fakes(world, fn, item) for key, item in value.items()}
    return value


BY_MARK["_dynamo_forbidden"] = refusing(breaks.FORBIDDEN)


# ---- while capturing


def graph_break(msg: str = "") -> None:
    """The capture ends here, and goes on after it; without a capture nothing happens. `explain` and the error
    with `fullgraph=True` say the message."""


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
def serve_graph_break(f: TraceFrame, /, msg: Any = "") -> None:
    raise Break(breaks.ASKED_FOR, str(opened(msg)))


def torchs_graph_break(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    raise Break(breaks.ASKED_FOR, str(opened(kwargs.get("msg", args[0] if args else ""))))


BY_NAME["torch._dynamo.decorators", "graph_break"] = torchs_graph_break  # also where it is not installed


# ---- plain Python


def disable(
    fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True
) -> Any:
    """Marks a function (or module) to run as plain Python, with everything it calls; if not `recursive`,
    what it calls is captured.

    Works as `disable(fn)`, `@disable` and `@disable(reason="...")`. What it gives is another function, and
    calls of `fn` itself are captured as before; with `wrapping=False` it is `fn` itself. A module gives a
    module that shares the state of the one given. Of a class the calls of all instances are marked. Of what
    was compiled it is what it was made of that runs.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if not callable(fn):
        raise TypeError(f"framelift.disable takes a function, not a {type(fn).__name__}")
    if isinstance(fn, type):
        return decorate_class(
            fn, disable, lambda method: disable(method, recursive, reason=reason), "__init__"
        )
    fn = uncompiled(fn)
    if isinstance(fn, torch.nn.Module):
        return disabled_module(fn, recursive, reason or "framelift.disable")
    if not wrapping:
        return marked_in_place(fn, recursive, reason)
    made: Any = untouched_by(fn, reason) if recursive else skipping(fn, reason or "framelift.disable")
    # what torch, and who asks whether something is disabled, look at
    made._torchdynamo_disable_recursive, made._torchdynamo_orig_callable = recursive, fn
    if recursive:
        made._torchdynamo_disable, made._torchdynamo_disable_msg = True, reason
        made._torchdynamo_wrapper_id = id(made)
    return made


def untouched_by(fn: Any, reason: str | None) -> Any:
    """A function that runs this one as plain Python, with everything that it calls."""

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
    return skipping(fn, reason or "framelift.skip")


def skipping(fn: Any, why: str) -> Callable[..., Any]:
    """A function that runs a copy of this one as it is; what that calls is captured."""
    method = fn if isinstance(fn, (FunctionType, MethodType)) else type(fn).__call__
    code = getattr(method, "__code__", None)
    if code is None:
        raise TypeError(f"only a Python function can be left alone without what it calls, not {fn!r:.80}")
    function: Any = method
    plain = copied_function(getattr(function, "__func__", function))
    bound = fn if method is not fn else getattr(fn, "__self__", None)
    run: Any = plain if bound is None else MethodType(plain, bound)

    @functools.wraps(fn)
    def skipped(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    return not_captured(skipped, why)


def marked_in_place(fn: Any, recursive: bool, reason: str | None) -> Any:
    """The function itself, with the marks that torch's compiler goes by too."""
    vars(fn).update(_torchdynamo_disable=True, _torchdynamo_disable_recursive=recursive)
    if reason is not None:
        vars(fn)["_torchdynamo_disable_msg"] = reason
    code = getattr(fn, "__code__", None)
    if code is not None:  # which may have been decided upon before
        _frame.set_decision(code, _frame.SKIP_ALL if recursive else _frame.SKIP, _frame.REFUSE)
    return fn


def decorate_class(kind: type, asked: Any, decorate: Callable[[Any], Any], *more: str) -> type:
    """A class whose calls of instances are decorated, and more of its methods, as far as it has them."""
    if kind.__flags__ & IMMUTABLE_TYPE:
        wrong = f"not the class {kind.__name__}"
        raise TypeError(f"framelift.{asked.__name__} takes a function or a module, {wrong}")
    for name in (call_of(kind), *more):
        if name is not None and isinstance(getattr(kind, name), FunctionType):
            setattr(kind, name, decorate(getattr(kind, name)))
    return kind


def call_of(kind: type) -> str | None:
    """The method that is called when an instance is: None if it can't be."""
    if issubclass(kind, torch.nn.Module):
        return "_call_impl"  # as modules compiled in place have it
    return "__call__" if any("__call__" in vars(base) for base in kind.__mro__) else None


def as_it_is(fn: Any = None) -> Any:
    """In the place of what torch's compiler has to be told of functions and blocks, Framelift not."""
    return contextlib.nullcontext() if fn is None else fn


serve(as_it_is)(lambda frame, /, fn=None: as_it_is(fn))


def is_compiling() -> bool:
    """True while the calling function is being captured."""
    return False


serve(is_compiling)(lambda frame, /: frame.world.calls.tell_compiled())
