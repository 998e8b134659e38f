"""What a program relies on of its arguments beside sizes and the values of numbers: that nothing stands where
nothing stood, types of numbers, and what the program has asked of a tensor, such as its type or its layout.

torch's artifacts check sizes and values; these are checked with them (`ExportedProgram._guards_code`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.export

from framelift.exporting.capture import CapturedProgram
from framelift.exporting.shapes import DeclaredDynamism
from framelift.exporting.signatures import Call

OF_TYPE = frozenset(
    {"dtype", "is_floating_point", "is_complex", "is_signed", "element_size", "itemsize", "nbytes"}
)
OF_LAYOUT = frozenset({"stride", "is_contiguous"})

NUMBERS: dict[type, str] = {
    int: "not isinstance({}, (bool, float))",
    float: "not isinstance({}, (bool, int))",
}
"""Which numbers are as good as one of a type: to Python True is 1, and so is 1.0. To torch's tracers truth
values are integers, so that nothing can be asked of these."""


def checks_of_arguments(
    call: Call, program: CapturedProgram, dynamism: DeclaredDynamism
) -> Iterator[tuple[int, str]]:
    """Which leaf, and an expression that holds of it, with `{}` in its place."""
    for n, leaf in enumerate(call.leaves):
        if leaf is None:
            yield n, "{} is None"
        elif type(leaf) in NUMBERS and call.sources[n] not in dynamism.number_paths:
            yield n, NUMBERS[type(leaf)]
            if type(leaf) is float and leaf == 0:
                yield n, f"math.copysign(1, {{}}) == {math.copysign(1, leaf)}"
        elif isinstance(leaf, torch.Tensor):
            asked, varies = program.asked.get(id(leaf), frozenset()), bool(dynamism.of_tensors.get(id(leaf)))
            for text in checks_of_tensor(leaf, asked, varies):
                yield n, text


def checks_of_tensor(tensor: torch.Tensor, asked: frozenset[str], varies: bool) -> Iterator[str]:
    """`varies`: whether some of its sizes do, and so may its strides."""
    if asked & OF_TYPE:
        yield f"str({{}}.dtype) == '{tensor.dtype}'"
    if asked & OF_LAYOUT and tensor.layout is torch.strided:
        if tensor.is_contiguous():
            yield "{}.is_contiguous()"
        elif not varies:
            yield f"tuple({{}}.stride()) == {tuple(tensor.stride())}"
    if "storage_offset" in asked:
        yield f"{{}}.storage_offset() == {tensor.storage_offset()}"


def add_checks(made: torch.export.ExportedProgram, checks: Iterator[tuple[int, str]]) -> None:
    """Has the module of an artifact check them too, also when it is saved and loaded."""
    guards: Any = getattr(made, "_guards_code", None)
    if guards is not None:
        guards += [text.format(f"L['flat_args'][{leaf}]") for leaf, text in checks]
