"""What a captured program does to tensors from outside that no artifact can do, though a graph holds it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.fx

from framelift.core.errors import Unsupported
from framelift.exporting.capture import CapturedProgram, ProgramInput
from framelift.exporting.signatures import Call
from framelift.graph.op_memory import storage

LAID_OUT_ANEW = frozenset(
    (
        *("as_strided_", "rename_", "resize_", "resize_as_", "set_", "set_data", "squeeze_", "swapaxes_"),
        *("swapdims_", "t_", "transpose_", "unsqueeze_"),
    )
)
"""Methods that leave a tensor with another layout: what comes in is the caller's, and keeps its own."""


def refuse(call: Call, program: CapturedProgram) -> None:
    of_caller = {id(leaf) for leaf in call.leaves if isinstance(leaf, torch.Tensor)}
    names = dict(zip(call.sources, call.paths, strict=True))

    def name(given: ProgramInput) -> str:
        text = str(given.source)
        return names.get(text, text.removeprefix("target."))

    inputs = {each.node: each for each in program.inputs}
    for node in program.graph.nodes:
        method = getattr(node.target, "__name__", node.target)
        given = inputs.get(node.args[0]) if node.args and isinstance(node.args[0], torch.fx.Node) else None
        if method in LAID_OUT_ANEW and given is not None:
            raise Unsupported(
                f"{call.name} can't be exported: {method} gives {name(given)}, which comes from outside, "
                "another shape or memory.\n"
                f"  Hint: work with a copy or a view of it, as {name(given)}.view_as({name(given)})."
            )
    state = [each for each in program.inputs if id(each.value) not in of_caller and is_dense(each.value)]
    for written, other in overlapping(program, state):
        raise Unsupported(
            f"{call.name} can't be exported: it changes {name(written)}, in the memory of which "
            f"{name(other)} lies too. In an artifact each has memory of its own.\n"
            f"  Hint: keep one of them, and make the other of it where the program needs it."
        )


def overlapping(
    program: CapturedProgram, state: list[ProgramInput]
) -> Iterator[tuple[ProgramInput, ProgramInput]]:
    """Tensors of the program's own of which one is changed, and another is looked at."""
    assigned = {id(each.buffer) for each in program.assignments}
    for written in state:
        if written.node in program.written or id(written.value) in assigned:
            for other in state:
                if other.value is not written.value and share(written.value, other.value):
                    yield written, other


def is_dense(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def share(one: torch.Tensor, other: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        if storage(one) != storage(other) or not one.numel() or not other.numel():
            return False
        (a, b), (c, d) = extent(one), extent(other)
        return a < d and c < b


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Where its memory begins and ends, in bytes."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = int(tensor.storage_offset())
    return first * tensor.itemsize, int(first + reach + 1) * tensor.itemsize
