"""`framelift.compiled_autograd`: backward passes are captured and compiled, too.

Autograd's engine can hand over a backward pass instead of running it: once for each structure that it meets,
as a graph module whose nodes are the backward functions of operators, the program's hooks and autograd
functions, and the backward graphs of what a compiler has made of the forward pass. What writes that module
down is torch's; it knows nothing of who compiles it. Here that is `framelift.compile`, so hooks are
interpreted, guarded and, where they can't be captured, run between graphs like any other code.

The engine's front end lives in `torch._dynamo`, whose compiler takes no part in it, and its switches in
`torch._C._dynamo`: the engine has no other way in. Framelift uses nothing else of those packages, and imports
the front end only when this is asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
import torch.fx

from framelift.api.capture_control import allow_in_graph, call_opaque
from framelift.api.compile import compile as compile_model
from framelift.interpreter.frame import Frame
from framelift.trace.bodies import interpret
from framelift.trace.callable_rules import serve

Run = Callable[[Any, list[Any], Any, Any, Any], Any]

_latest: dict[str, Any] = {}
"""The settings by which what the engine remembers was compiled."""


@contextlib.contextmanager
def compiled_autograd(**settings: Any) -> Iterator[None]:
    """Within it, backward passes that autograd's engine runs - `backward()`, `torch.autograd.grad` - are
    captured and compiled. The settings are those of `framelift.compile`; with `disable=True` none is.

    >>> import torch, framelift
    >>> w = torch.ones(2, requires_grad=True)
    >>> with framelift.compiled_autograd(backend="eager"):
    ...     (w * 3).sum().backward()
    >>> w.grad
    tensor([3., 3.])
    """
    compile_model(front_end, **settings)  # what is wrong with them is said here
    engine = front_end()
    if settings.get("disable"):
        with engine._disable():
            yield
        return
    if settings != _latest:
        torch._C._dynamo.compiled_autograd.clear_cache()  # the engine's own, of the structures it has met
        _latest.clear()
        _latest.update(settings)
    with engine._enable(lambda graph: compiled(graph, settings)):
        yield


def front_end() -> Any:
    """What writes a backward pass down for the engine. It is torch's: it goes with the engine's C++, of which
    each version of torch has another."""
    from torch._dynamo import compiled_autograd as engine  # noqa: TID251  (part of the engine: see above)

    serve(engine.Op.__call__)(serve_backward_function)
    return engine


def serve_backward_function(f: Frame, called: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The backward function of an operator is C++; a graph holds the call, and backends trace through it."""
    world: Any = f.world
    return call_opaque(world, world.materialize.for_torch(called), list(args), kwargs)


def compiled(graph: torch.fx.GraphModule, settings: dict[str, Any]) -> Run:
    for node in graph.graph.nodes:
        if is_part_of_engine(node.target):
            allow_in_graph(node.target)
    model = compile_model(graph, **settings)

    def run(inputs: Any, sizes: list[Any], scalars: Any, hooks: Any, packed: Any) -> Any:
        # sizes come as tensors without data, which torch's compiler takes for numbers that vary
        numbers = [size.shape[1] if isinstance(size, torch.Tensor) else size for size in sizes]
        with callbacks_at_the_end():
            return model(without_views_of_leaves(inputs), numbers, scalars, hooks, packed)

    return run


class Callbacks:
    """Stands in for autograd's engine while a captured backward pass runs: what hooks ask it to call at
    the end, it would forget."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.queued: list[Callable[[], Any]] = []

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        self.queued.append(callback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


interpret(Callbacks.queue_callback)
callbacks = Callbacks(torch.autograd.Variable._execution_engine)


@contextlib.contextmanager
def callbacks_at_the_end() -> Iterator[None]:
    torch.autograd.Variable._execution_engine = callbacks  # type: ignore[assignment]
    try:
        yield
        for callback in callbacks.queued:  # one may queue another
            callback()
    finally:
        torch.autograd.Variable._execution_engine = callbacks.engine
        callbacks.queued.clear()


def without_views_of_leaves(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """A hook may change a parameter, of which a view was saved: AOTAutograd takes no leaf together with what
    is derived from it, if one of them changes. Nothing is differentiated here, so that needs no history."""
    leaves = {id(tensor) for tensor in inputs if tensor.is_leaf and tensor.requires_grad}
    return [
        tensor.detach() if tensor._is_view() and not tensor.is_leaf and id(tensor._base) in leaves else tensor
        for tensor in inputs
    ]


def is_part_of_engine(target: Any) -> bool:
    """Such as what goes before a backward graph of AOTAutograd's: functions of tensors, kept as they are."""
    front_end = "torch._dynamo.compiled_autograd"  # by its name: it need not have been imported
    return type(target) is FunctionType and target.__module__ == front_end
