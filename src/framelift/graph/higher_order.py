"""Higher-order operators: calls that are given graphs within the graph, and how such a graph is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.arguments import tensors_of
from framelift.graph.body import GraphBody
from framelift.graph.functions import describe
from framelift.graph.torch_flags import drop_redundant_setters

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder


class HigherOrder:
    """The bodies of one trace, and the operators that are given them.

    `body` is the whole protocol of recording one: calls go to it, gradients are on or off, and however it is
    left, all is as before. What it draws and writes is kept on it (`GraphBody.draws`, `changed`).
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.builder = recorder.builder

    @contextlib.contextmanager
    def body(
        self,
        grad: bool | None = None,
        takes_floats: bool = False,
        is_region: bool = False,
        in_backward: bool = False,
    ) -> Iterator[GraphBody]:
        """Calls within are recorded in a body, with gradients on or off (None: as around it)."""
        made = GraphBody(takes_floats, is_region, in_backward)
        with self.builder.nested(made), self.recorder.flags.grad_mode(grad):
            yield made

    def close(self, body: GraphBody, outputs: Any, grad: bool, prune: bool = True) -> None:
        """Gives a body its outputs. `grad`: whether it is run with gradients on; `prune` leaves out operands
        that it does not use."""
        drop_redundant_setters(body.graph, grad)
        body.close(outputs, self.builder.impure, prune)

    def call(
        self,
        func: Any,
        bodies: dict[str, torch.fx.GraphModule],
        args: tuple[Any, ...],
        settings: dict[str, Any],
    ) -> Any:
        """The result of an operator that is given bodies, which are somewhere in its arguments; recorded."""
        recorder, builder, fakes = self.recorder, self.builder, self.recorder.fakes
        if recorder.flags.operator_flags_set:
            recorder.flags.check_operator_flags(func)
        tensors = tensors_of(args)
        fakes.watch()
        with torch._C.DisableTorchFunction():
            try:
                out = self.run(func, args, settings)
            except Exception as error:
                raise Break(breaks.OPERATOR_ERROR, f"{describe(func)}: {error}") from error
            changed = bool(fakes.written) and recorder.note_changes(fakes.written, tensors)
        if fakes.drew_random:
            recorder.random_numbers.note(func)
        modules = {id(body): builder.body.add_module(name, body) for name, body in bodies.items()}
        given = tuple([self.argument(func, value, modules) for value in args])
        node = builder.add_call(func, given, out, settings, pure=not changed and not fakes.drew_random)
        if builder.symbols is not None:
            builder.numbers.bind(out, node)
        return out

    def argument(self, func: Any, value: Any, modules: dict[int, torch.fx.Node]) -> Any:
        if type(value) is tuple:
            return tuple([self.argument(func, item, modules) for item in value])
        return modules.get(id(value)) or self.builder.argument(func, value)

    def run(self, func: Any, args: Any, settings: dict[str, Any]) -> Any:
        """Operators of torch's own say what they give for fakes. Where one of these is differentiated all
        results are, of which a fake has only the look: its true history would take a graph of its own."""
        run = self.recorder.run
        if not isinstance(func, HigherOrderOperator) or FakeTensorMode not in func.python_key_table:
            return run(func, args, settings)
        with torch._C._AutoDispatchBelowAutograd():
            out = run(func, args, settings)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(args)):
            for result in tensors_of(out):
                if result.dtype.is_floating_point or result.dtype.is_complex:
                    _guards.fake_history(result)
        return out
