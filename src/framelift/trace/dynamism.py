"""Which sizes and numbers are symbols: those that have changed since last time, those that are marked, all.

What was captured before says what the sizes were then (`Dynamism.learn`); a dimension, or a number, that
is another one now is taken for a symbol. Where the program turns out to need one definite value all the same,
the capture is for that value, and the next one tries again: for another value the program may not need it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import torch

from framelift._guards import TensorSpec
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.config import config
from framelift.graph.dimensions import Dim
from framelift.guards.guard import STRIDE, VARIES
from framelift.guards.kinds import Access
from framelift.guards.sources import Source

PASSED = frozenset({Access.ARG, Access.ITEM, Access.KEY, Access.DEQUE_ITEM})
"""How what is passed to a function is reached, as it is or in containers."""
HELD = PASSED | {
    Access.FUNC,
    Access.CELL,
    Access.CELL_OBJECT,
    Access.CONTENTS,
    Access.ATTR,
    Access.DICT,
    Access.SLOT,
    Access.NATIVE_ATTR,
    Access.SELF,
}
"""How what a function holds is reached: its closure, and attributes of what is there or is passed. With
`dynamic=True` all numbers are symbols that are reached in these ways only, and through no module."""
LARGEST = 1 << 62
REMEMBERED = 16
"""So many compilations are asked which sizes were the same then."""


class DimRange(NamedTuple):
    """What a mark says of a dimension's size; the attributes are those that torch gives its own marks."""

    dim: int
    min: int | None
    max: int | None


class Dynamism:
    """What one function's captures know of each other."""

    def __init__(self, mode: bool | None = None) -> None:
        self.mode = mode
        """The user's word: all sizes and numbers are symbols, none are, or (None) those that change."""
        self.seen: dict[str, list[Any]] = {}
        """Source -> the values, or sizes, that earlier captures were made for."""
        self.met: list[dict[str, tuple[int, ...]]] = [{}]
        """For each compilation, the latest last: tensors and the sizes that they had, where all are symbols:
        then what captures rely on does not say which were the same."""
        self.saw_strides = False
        """Whether strides are among them."""
        self.tried: set[str] = set()
        """Sources of numbers without a definite value in this trace."""
        self.definite: set[str] = set()
        """Those of which the program needs one."""
        self.taken: set[str] = set()
        """Those of them that the latest trace was made again for."""
        self.of_no_use: set[str] = set()
        """Those that were no help as constants."""
        self.handed_over: dict[str, Any] = {}
        """Variable -> what is known of it at breaks, as in `seen`; the rest of a function begins with it."""
        self.loops: set[Any] = set()
        """The loops over sizes in which captures ended (`trace/loops.py`)."""
        self.steps_on_data: set[Any] = set()
        """The instructions where captures ended since what they give is decided by the data."""

    def learn(self, captures: Iterable[dict[str, Any]]) -> None:
        """Takes in what earlier captures rely on, each as `relied_on` says it."""
        self.seen = {}
        self.met = [*self.met[-REMEMBERED:], {}]
        for capture in captures:
            for source, found in capture.items():
                self.seen.setdefault(source, []).append(found)
        self.saw_strides = any(source.endswith(")") and ".stride(" in source for source in self.seen)

    @property
    def may_vary(self) -> bool:
        """Whether a number that has not been looked at yet may turn out to be a symbol."""
        return self.mode is not False and bool(self.mode or self.seen)

    def number(self, source: Source, value: int | float, modules: Collection[Source] = ()) -> bool:
        """Whether a number is a symbol; `modules`: where these were found."""
        if source.access is Access.CONST or not can_be_symbol(value):
            return False
        if type(value) is int and is_named(source, config.dynamic_sources):
            return True
        if self.mode is False or (config.specialize_int if type(value) is int else config.specialize_float):
            return False
        if self.mode and is_held(source, modules):
            return True
        return self.was_another(source, value)

    def was_another(self, source: Source, value: Any) -> bool:
        """Whether there was something else in a place when an earlier capture was made."""
        return any(other is VARIES or other != value for other in self.seen.get(str(source), ()))

    def has_changed(self, source: Source, value: Any) -> bool:
        """Whether a number that no symbol can stand for was another one before. What does stand for it has no
        definite value at all: where the program needs one, the trace is made again (`take_back`)."""
        if self.mode is False or str(source) in self.definite:
            return False
        changed = self.was_another(source, value)
        if changed:
            self.tried.add(str(source))
        return changed

    def take_back(self) -> bool:
        """Takes for constants what `has_changed`; gives whether there was anything."""
        self.taken, self.tried = self.tried - self.of_no_use, set()
        self.definite |= self.taken
        return bool(self.taken)

    def give_back(self) -> bool:
        """Takes them for numbers that vary again: a trace with constants has ended in the same place."""
        taken, self.taken = self.taken, set()
        self.definite -= taken
        self.of_no_use |= taken
        return bool(taken)

    def dims(self, source: Source, tensor: torch.Tensor) -> dict[int, Dim]:
        """The dimensions of a tensor that are symbols."""
        marked = marks(tensor)
        found = named_dims(source, tensor)
        if tensor.layout is torch.sparse_coo and self.mode is not False:
            self.refuse_varying(source, tensor)
        if (self.mode is False and not found) or tensor.layout is not torch.strided:
            return {n: dim for n, dim in marked.items() if dim is not None}
        if self.mode:
            self.met[-1].setdefault(str(source), tuple(tensor.shape))
        if self.mode and not found and may_vary(source, tensor):
            histories = self.histories(source, tensor)
            found = {n: Dim(history=history) for n, history in histories.items()}
        elif self.seen and not found and not is_static_parameter(tensor):
            shape, known = tensor.shape, self.seen.get(str(source), ())
            shapes = [sizes for sizes in known if type(sizes) is tuple and len(sizes) == len(shape)]
            changed = [n for n, size in enumerate(shape) if any(sizes[n] != size for sizes in shapes)]
            histories = self.histories(source, tensor) if changed else {}
            found = {n: Dim(history=histories[n]) for n in changed}
        found |= {n: dim for n, dim in marked.items() if dim is not None}
        return {n: dim for n, dim in found.items() if marked.get(n, dim) is not None}

    def refuse_varying(self, source: Source, sparse: torch.Tensor) -> None:
        """Fakes of sparse tensors have no symbols for sizes."""
        if any(sizes != tuple(sparse.shape) for sizes in self.seen.get(str(source), ())):
            refuse(breaks.DYNAMIC_OUTPUT_SHAPE, "a sparse tensor whose sizes vary")

    def strides(self, source: Source, spec: TensorSpec) -> list[int]:
        """The dimensions of a tensor whose strides follow from nothing else, and have changed."""
        if not self.saw_strides or self.mode is False:
            return []
        return [
            n
            for n, stride in spec.own_strides.items()
            if any(other != stride for other in self.seen.get(STRIDE.format(source, n), ()))
        ]

    def histories(self, source: Source, tensor: torch.Tensor) -> dict[int, tuple[Any, ...]]:
        """What sizes each dimension had in earlier captures."""
        name = str(source)
        shapes = [*self.seen.get(name, ()), *(met[name] for met in self.met[:-1] if name in met)]
        shapes = [sizes for sizes in shapes if type(sizes) is tuple and len(sizes) == tensor.dim()]
        return {n: tuple([sizes[n] for sizes in shapes]) for n in range(tensor.dim())}


def can_be_symbol(value: Any) -> bool:
    """Whether torch's expressions have numbers of this kind, and of this size."""
    if type(value) not in (int, float) or not -LARGEST < value < LARGEST:
        return False  # a NaN is not in between either
    return type(value) is int or value != 0  # they have one zero, Python has two


def named_dims(source: Source, tensor: torch.Tensor) -> dict[int, Dim]:
    """Symbols for all dimensions of a tensor that an option names."""
    if is_named(source, config.dynamic_sources):
        return dict.fromkeys(range(tensor.dim()), Dim())
    if is_named(source, config.unbacked_sources):
        return dict.fromkeys(range(tensor.dim()), Dim(unbacked=True))
    return {}


def may_vary(source: Source, tensor: torch.Tensor) -> bool:
    """Whether sizes of a tensor are symbols where all are."""
    if isinstance(tensor, torch.nn.Parameter):
        return not is_static_parameter(tensor)
    return not config.force_nn_module_property_static_shapes or is_passed(source)


def is_static_parameter(tensor: torch.Tensor) -> bool:
    """Whether it is one whose sizes are no symbols unless the program marks them."""
    return config.force_parameter_static_shapes and isinstance(tensor, torch.nn.Parameter)


def is_named(source: Source, names: str) -> bool:
    """Whether an option names a source: `x`, `self.table`, as torch has it `L['x']`, or by a pattern."""
    if not names:
        return False
    text = str(source)
    patterns = (LOCAL.sub(r"\1", name.strip()) for name in names.split(","))
    return any(text == pattern or fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


LOCAL = re.compile(r"L\[['\"](\w+)['\"]\]")


def is_held(source: Source, modules: Collection[Source]) -> bool:
    """Whether a number is passed, or is state of the function's that belongs to no module."""
    place: Source | None = source
    while place is not None and place.access in HELD and place not in modules:
        if place.access.is_root:
            return True
        place = place.base
    return False


def is_passed(source: Source) -> bool:
    """Whether a value is an argument, or in containers of arguments."""
    place: Source | None = source
    while place is not None and place.access in PASSED:
        if place.access is Access.ARG:
            return True
        place = place.base
    return False


def marks(tensor: torch.Tensor) -> dict[int, Dim | None]:
    """What `mark_dynamic` and the like have said of a tensor, ours or torch's; None: the size is fixed."""
    held = tensor.__dict__
    if not held:
        return {}
    found: dict[int, Dim | None] = {}
    for name in ("_dynamo_propagated_dynamic_indices", "_dynamo_weak_dynamic_indices"):
        found |= {dim: Dim() for dim in held.get(name, ())}
    for dim in held.get("_dynamo_dynamic_indices", ()):
        found[dim] = Dim(demanded=not config.allow_ignore_mark_dynamic)
    for asked in held.get("_dynamo_dynamic_range", ()):
        found[asked.dim] = Dim(not config.allow_ignore_mark_dynamic, asked.min, asked.max)
    bounds, shape_ids = held.get("_dynamo_unbacked_bounds", {}), held.get("_dynamo_shape_ids", {})
    for name in ("_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"):
        for dim in held.get(name, ()):
            least, most = bounds.get(dim, (None, None))
            found[dim] = Dim("strict" in name, least, most, unbacked=True, shape_id=shape_ids.get(dim))
    for dim, hint in held.get("_dynamo_hint_overrides", {}).items():
        if (known := found.get(dim)) is not None:
            found[dim] = known._replace(hint=hint)
    for dim, criteria in held.get("_specialize_on", {}).items():
        if (known := found.get(dim)) is not None and criteria and not known.unbacked:
            found[dim] = known._replace(criteria=tuple(criteria), demanded=False)
    for dim in held.get("_dynamo_static_indices", ()):
        found[dim] = None
    return found
