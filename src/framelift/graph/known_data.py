"""Tensors whose data is known while tracing: those that factories make of constants, and what is computed of
them. Programs ask such tensors for numbers and lists (`torch.tensor(sizes).cumsum(0).tolist()`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from framelift.graph.functions import is_custom
from framelift.graph.op_memory import storage

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder

Tensor = torch.Tensor

ELEMENTS, CALLS = 1024, 64
"""So large a tensor, and so many calls, are worth the while."""
ASKING: frozenset[Any] = frozenset({Tensor.item, Tensor.__bool__, Tensor.__int__, Tensor.__float__})
ASKING |= {Tensor.__index__}
ASKING |= {torch.is_nonzero, Tensor.is_nonzero, torch.equal, Tensor.equal, torch.allclose, Tensor.allclose}
"""Functions that give numbers and truth values of data."""


class Unknown(Exception):
    """The data depends on inputs, on chance, or on what was in memory before."""


def data_of(recorder: Recorder, fake: Any) -> Tensor | None:
    """The data of a tensor of the trace, if it is the same in every call."""
    if type(fake) is not FakeTensor:
        return None
    node = recorder.builder.body.nodes.get(id(fake))
    if node is None or node.op == "placeholder" or any(type(size) is not int for size in fake.shape):
        return None
    done: dict[torch.fx.Node, Any] = {}
    try:
        with torch._C.DisableTorchFunction(), unset_fake_temporarily(), torch.no_grad():
            return evaluate(recorder, node, done)
    except Unknown:
        return None


def evaluate(recorder: Recorder, node: torch.fx.Node, done: dict[torch.fx.Node, Any]) -> Any:
    if node in done:
        return done[node]
    builder, expected = recorder.builder, node.meta.get("example_value")
    if node.op not in ("call_function", "call_method") or len(done) == CALLS:
        raise Unknown
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node in builder.impure or "empty" in name or is_custom(node.target):
        raise Unknown
    if type(expected) is FakeTensor:
        if storage(expected) in recorder.mutations.first_written or expected.device.type != "cpu":
            raise Unknown
        if expected.layout is not torch.strided or expected.numel() > ELEMENTS:
            raise Unknown
    fetch = lambda given: evaluate(recorder, given, done)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), fetch)
    try:
        made = getattr(args[0], name)(*args[1:], **kwargs) if node.op == "call_method" else None
        made = node.target(*args, **kwargs) if callable(node.target) else made
    except Exception as error:
        raise Unknown from error
    if type(expected) is FakeTensor and not is_like(made, expected):
        raise Unknown  # a flag of torch's was another one then
    done[node] = made
    return made


def is_like(made: Any, fake: FakeTensor) -> bool:
    return isinstance(made, Tensor) and made.dtype is fake.dtype and tuple(made.shape) == tuple(fake.shape)


def answer(recorder: Recorder, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any] | None:
    """What a function gives that asks for data, in a tuple, if it is the same in every call."""
    if func not in ASKING:
        return None
    given = [data_of(recorder, arg) if isinstance(arg, Tensor) else arg for arg in args]
    if any(arg is None for arg in given):
        return None
    with torch._C.DisableTorchFunction(), unset_fake_temporarily():
        return (func(*given, **kwargs),)


def list_of(known: Tensor) -> Any:
    with torch._C.DisableTorchFunction(), unset_fake_temporarily():
        return known.tolist()
