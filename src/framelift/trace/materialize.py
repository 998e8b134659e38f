"""Materializes values before C code looks at them.

C sees what it is given, so before it looks at a value that is opened, and so is all it holds, in
place: opening is no change. The special methods that C may find on a class are guarded here too.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.graph.symbols import SYMBOLIC, settled
from framelift.interpreter.pending import Pending, opened
from framelift.trace.part import Part
from framelift.trace.type_rules import ABSTRACT, IMMUTABLE_TYPE, RULES, is_iterator, rule_of_type

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

ATOMS = op_memory.ATOMS | {bytes, range, type(NotImplemented), torch.Size, type, types.ModuleType}
"""Types whose values hold nothing that could be pending."""

Seen = dict[int, Any]
"""What one native call is shown, by id."""


class SeenByTorch(dict[int, Any]):
    """What a torch function is shown: it takes symbols for numbers. To other C code they would be objects, as
    they are to what only hands them on."""


class Materialize(Part):
    """Opens what C code is about to look at, as deep as it looks."""

    def start(self) -> None:
        self.exposed: set[type] = set()
        """Classes whose special methods C may have looked up: all of these are guarded."""
        self.hands_on = False
        """Whether C only keeps what the program's functions give it."""

    @contextlib.contextmanager
    def handing_on(self) -> Iterator[None]:
        before, self.hands_on = self.hands_on, True
        try:
            yield
        finally:
            self.hands_on = before

    def for_c(self, value: Any) -> Any:
        """A value that C code may look into, opened all the way down."""
        return self.value(value, {})

    def for_torch(self, value: Any) -> Any:
        """The same for a torch function, which takes symbols."""
        return self.value(value, SeenByTorch())

    def for_caller(self, run: Callable[[], Any], is_handed_on: bool = False) -> Any:
        """What C is given by code of the program's that it has called, and may hand on in any case."""
        calls = self.world.calls
        passes_numbers, calls.passes_numbers = calls.passes_numbers, False
        hands_on, self.hands_on = self.hands_on, False
        try:
            result = run()
        finally:
            calls.passes_numbers, self.hands_on = passes_numbers, hands_on
        if hands_on and type(result) in ABSTRACT:
            return result
        if is_handed_on:
            passes_numbers = self.world.recorder.builder.symbols is not None
        return self.for_torch(result) if passes_numbers else self.for_c(result)

    def value(self, value: Any, seen: Seen) -> Any:
        cls = type(value)
        if cls is Pending:
            if value.opened is MISSING and type(value.value) is tuple:
                self.world.inputs.load_whole(value)
            value = value.open()
            cls = type(value)
        if cls in ATOMS or id(value) in seen:
            symbolic = cls is torch.Size and self.world.recorder.builder.symbols is not None
            return settled(value) if symbolic and type(seen) is not SeenByTorch else value
        if cls in SYMBOLIC:
            return value if type(seen) is SeenByTorch else settled(value)
        seen[id(value)] = value
        if cls is FakeTensor:
            return value
        rule = RULES.get(cls) or rule_of_type(cls)
        return rule.materialize(self.world, value, seen)

    def mapping(self, value: Any, seen: Seen) -> Any:
        """The values of a dictionary, each where it is."""
        for key, item in list(dict.items(value)):
            now = self.value(item, seen)
            if now is not item:
                dict.__setitem__(value, key, now)
        return value

    def iterable(self, value: Any, seen: Seen) -> Any:
        """An argument that C goes over: of an iterator each item is opened when C comes to it. C gets another
        iterator then, so it must be one that neither it nor the program gets to see again."""
        value = opened(value)
        if not is_iterator(type(value)):
            return self.value(value, seen)
        self.guard_special_methods(value, type(value))
        passes_numbers = type(seen) is SeenByTorch
        return opening(self.world, value, self.for_torch if passes_numbers else self.for_c)

    def shallow(self, value: Any, passes_numbers: bool = False) -> Any:
        """A value that C goes over without looking at its elements."""
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        if cls in SYMBOLIC:
            return value if passes_numbers else settled(value)
        if cls not in ATOMS and cls is not FakeTensor:
            self.guard_special_methods(value, cls)
        return value

    def guard_special_methods(self, value: Any, cls: type) -> None:
        """C may look the special methods of the value's class up."""
        if cls in ABSTRACT:
            self.world.abstract(value).refuse_in_c(value)
        if self.world.inputs.is_opaque(value):
            reason = breaks.OUTSIDE_ITERATOR if is_iterator(cls) else breaks.OPAQUE_OBJECT
            refuse(reason, f"a {cls.__module__}.{cls.__qualname__} in a native operation")
        if not cls.__flags__ & IMMUTABLE_TYPE and cls not in self.exposed:
            self.exposed.add(cls)
            self.world.classes.specials_of_c(cls)
            if getattr(cls, "__torch_function__", None) is not None and not issubclass(cls, torch.Tensor):
                self.world.recorder.subclasses.others.add(cls)


def opening(world: TraceWorld, iterator: Any, show: Callable[[Any], Any]) -> Iterator[Any]:
    """Hands an iterator's items to C code, opened one by one."""
    while (item := world.containers.advance(iterator)) is not MISSING:
        yield show(item)
