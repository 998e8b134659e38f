"""Functions that give numbers, lists and truth values of a tensor's data.

Where the program only checks what they give there is no need for it, as in `assert torch.equal(a, b)`, or
`if (scale <= 0).any().item(): raise ...`. What the call gives goes straight into a branch of which one side
raises, so it is a tensor that the graph asserts (`trace/raising_branches.py`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.config import config
from framelift.core.sentinels import MISSING
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.known_data import data_of, list_of
from framelift.graph.recorder import Recorder
from framelift.graph.symbols import settled
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame

Tensor = torch.Tensor


@serve(Tensor.item)
def serve_item(f: TraceFrame, tensor: Any, /) -> Any:
    value = opened(tensor)
    branches = f.world.raising_branches
    if type(value) is FakeTensor and not config.capture_scalar_outputs:
        expected = branches.truth_of_result(f, Tensor.item, lambda: value)
        if expected is not None:
            return expected
        compared = branches.compared_number(f, Tensor.item, value)
        if compared is not None:
            return compared
    return f.world.calls.native(f, Tensor.item, [tensor], None)


# ---- lists and other numbers


@serve(Tensor.tolist)
def serve_tolist(f: TraceFrame, tensor: Any, /) -> Any:
    """Of data that is known, a list; otherwise one of numbers that only the data decides, if these may be
    captured."""
    value, recorder = opened(tensor), f.world.recorder
    if type(value) is FakeTensor and is_plain(recorder, value):
        known = data_of(recorder, value)
        if known is not None:
            return list_of(known)
        # a list has as many items as it has: sizes that vary are fixed
        if config.capture_scalar_outputs and math.prod(map(settled, value.shape)) <= LISTED:
            return numbers_in(recorder, value)
    return f.world.calls.native(f, Tensor.tolist, [tensor], None)


LISTED = 64
"""So many numbers of a tensor are captured one by one."""


def numbers_in(recorder: Recorder, tensor: FakeTensor) -> Any:
    if not tensor.dim():
        return recorder.call(Tensor.item, (tensor,), {})
    parts = [recorder.call(operator.getitem, (tensor, n), {}) for n in range(tensor.shape[0])]
    return [numbers_in(recorder, part) for part in parts]


def is_plain(recorder: Recorder, tensor: FakeTensor) -> bool:
    """Whether no class or mode of the program's is asked what a method gives."""
    return not recorder.modes.active and recorder.subclasses.class_of(tensor) in PLAIN_CLASSES


# ---- checks


def equal(a: Any, b: Any) -> Any:
    """A tensor that is true only if `torch.equal` is; MISSING: it takes no data to know."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return MISSING
    return torch.eq(a, b).all()


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).all()


QUESTIONS: dict[Any, Callable[..., Any]] = {
    torch.equal: equal,
    Tensor.equal: equal,
    torch.allclose: allclose,
    Tensor.allclose: allclose,
    torch.is_nonzero: lambda tensor: tensor,
    Tensor.is_nonzero: lambda tensor: tensor,
}
"""Function that gives a truth value of data -> one that gives it as a tensor."""


def serve_question(question: Any, as_tensor: Callable[..., Any]) -> None:
    @serve(question)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        def answer() -> Any:
            given, named = f.world.materialize.for_torch([list(args), kwargs])
            return as_tensor(*given, **named)

        expected = f.world.raising_branches.truth_of_result(f, question, answer)
        return f.world.calls.native(f, question, list(args), kwargs) if expected is None else expected


for _question, _as_tensor in QUESTIONS.items():
    serve_question(_question, _as_tensor)
