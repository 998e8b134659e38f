"""`nonstrict_trace`: calls that are kept in the graph, and of which AOTAutograd sees the operators.

A graph holds a call with the tensors and numbers that the arguments consist of. What these are made of beside
them - containers, instances of classes that are registered with torch's pytrees, modules - is part of what is
called, and so is how the results are put together. Parameters and buffers of modules are given to the call.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.utils._pytree as pytree

from framelift import _frame
from framelift.api.capture_control import is_compiling
from framelift.features.higher_order.flat_calls import (
    FlatCall,
    as_target,
    flat_arguments,
    tensors_of_modules,
)
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame


def nonstrict_trace(traceable_fn: Any) -> Any:
    """A function of its own whose calls are kept in the graph; AOTAutograd looks into it, and captures
    nothing but the operators. Arguments and results may be tensors, numbers, texts, and containers and
    instances of them whose classes are registered with `torch.utils._pytree`; arguments may be modules too.
    Tensors that it finds elsewhere (globals, closures) are constants.

    >>> import torch, framelift
    >>> @framelift.nonstrict_trace
    ... def scale(pair):
    ...     return {"scaled": pair[0] * pair[1]}
    >>> framelift.compile(lambda x: scale((x, 3))["scaled"], backend="eager", fullgraph=True)(torch.ones(1))
    tensor([3.])
    """
    if not callable(traceable_fn):
        raise TypeError(f"framelift.nonstrict_trace takes a function, not a {type(traceable_fn).__name__}")

    @functools.wraps(traceable_fn)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if not is_compiling():
            return traceable_fn(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        found, result = call_flat(traceable_fn, spec, leaves, tensors_of_modules(leaves))
        return pytree.tree_unflatten(found, result)

    made: Any = traced
    _frame.set_decision(made.__code__, _frame.SKIP, _frame.INTERPRET)
    return made


def call_flat(
    fn: Any, spec: pytree.TreeSpec, leaves: list[Any], tensors: list[dict[str, torch.Tensor]]
) -> tuple[list[Any], pytree.TreeSpec]:
    """Calls a function with the parts of its arguments; gives those of its result, and how they belong
    together. `tensors` are those of the modules among the parts."""
    call = FlatCall(fn, spec, [None] * len(leaves), "nonstrict_trace")
    found = list(call(tuple(leaves)))
    assert call.result is not None
    return found, call.result


@serve(call_flat)
def serve_call_flat(
    f: TraceFrame, /, fn: Any, spec: Any, leaves: Any, tensors: Any
) -> tuple[list[Any], pytree.TreeSpec]:
    world: Any = f.world
    fn, mark = opened(fn), "nonstrict_trace"
    given, modules, shape = flat_arguments(world, fn, spec, leaves, tensors, mark)
    call = FlatCall(fn, shape, modules, mark)
    found = world.recorder.call_opaque(as_target(call, fn), tuple(given), {})
    assert call.result is not None
    return list(found), call.result
