"""Inputs: how an outside value becomes a real object that the trace may look at.

`load(value, source)` adds the weakest guard that lets the value be used at all, and gives the object
to use: a constant itself, guarded by value; a tensor's fake, now a graph input; a builtin
container's shadow; a function, class or module itself, guarded by identity; any other instance
itself, guarded by type, its attributes being read through a view. The same outside object met twice
is one object, and that it is the same is guarded too. `Guards` has the facts that the trace relies on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.config import config
from framelift.core.sentinels import MISSING
from framelift.graph import input_fakes
from framelift.graph.dimensions import Dim
from framelift.graph.tape import OpenedInput
from framelift.guards.guard import VARIES, Guard
from framelift.guards.kinds import Access, Check
from framelift.guards.source_texts import SourceTexts
from framelift.guards.sources import Root, Source
from framelift.interpreter.pending import Pending
from framelift.trace.addresses import LEAST_ADDRESS
from framelift.trace.dynamism import Dynamism
from framelift.trace.part import Part
from framelift.trace.shadows import Shadow
from framelift.trace.type_rules import rule_of_type

FIXED = frozenset({int, float, str, bool, type(None)})
"""Types of which a value in a tuple is compared with the tuple."""


class Known:
    """An outside object that has been opened: what stands for it, and where it was found first."""

    __slots__ = ("opened", "source", "value")

    def __init__(self, value: Any, opened: Any, source: Source) -> None:
        self.value = value
        self.opened = opened
        self.source = source


class Inputs(Part):
    """The outside objects that a trace has opened."""

    def start(self) -> None:
        self.root = Root()
        self.known: dict[int, Known] = {}
        self.stand_ins: dict[int, Known] = {}
        """id of something that was made anew -> what it stands for."""
        self.held: dict[int, dict[str, tuple[torch.Tensor, Source]]] = {}
        """id of a tensor that wraps others -> those that it wraps, by name, and where they are found."""
        self.glanced: dict[Source, Any] = {}
        """What was looked at without being opened."""
        self.dynamism = Dynamism(False)
        """Which sizes and numbers are symbols."""
        self.reads_integers = False
        """Whether the integers that tensors hold are read as inputs are, with guards."""
        self.holds_integers = False
        """Whether there is a tensor that holds one."""
        self.integers_read: list[torch.Tensor] = []
        """Tensors whose integers were read."""
        self.modules: set[Source] = set()
        """Where modules were found."""
        self.numbers: dict[Source, Any] = {}
        """Source of a number -> the symbol for it."""
        self.number_inputs: dict[torch.fx.Node, Source] = {}
        self.texts = SourceTexts()
        """What the inputs of the graph are called after."""
        self.outside_marks: list[str] = []
        """Sizes that are not what marks say of them, in words."""

    def load(self, value: Any, source: Source) -> Any:
        if source.access is Access.DICT:
            return self.world.attributes.whole_dict(source, value)
        known = self.known.get(id(value))
        if known is not None:
            if known.source is not source:
                if known.source.access is Access.CONST:  # as it was guarded where it was found first
                    self.world.guards.add(source, Check.IS, value)
                else:
                    self.world.guards.add(source, Check.SAME_AS, known.source)
                self.world.recorder.ask_for(known.opened)
            return known.opened
        return rule_of_type(type(value)).wrap(self.world, value, source)

    def load_whole(self, pending: Pending) -> None:
        """Opens an attribute that is a tuple of which C looks at every element, such as a stride: where these
        are numbers and texts that do not vary, one guard says all."""
        value, source = pending.value, pending.source
        if source.access is not Access.ATTR or id(value) in self.known:
            return
        if self.dynamism.may_vary or config.dynamic_sources:
            return
        if not value or not all([type(item) in FIXED and item == item for item in value]):
            return
        if any([type(item) is int and item >= LEAST_ADDRESS for item in value]):
            return  # as an address, if it is one
        self.world.guards.add(source, Check.EQUAL, value)
        pending.opened = shadow = tuple([*value])
        self.know(value, shadow, source)
        self.world.containers.shadows[id(shadow)] = Shadow(source, value, shadow, tuple, None)

    def know(self, value: Any, opened: Any, source: Source) -> Any:
        self.known[id(value)] = Known(value, opened, source)
        return opened

    def add_tensor(
        self,
        value: torch.Tensor,
        source: Source,
        dims: dict[int, Dim] | None = None,
        strides: Iterable[int] = (),
        text: str = "",
        parts: dict[str, Any] | None = None,
        sizes: tuple[Any, ...] | None = None,
    ) -> Any:
        """A tensor from outside becomes an input of the graph, called after its source or after `text`.
        `dims`: the dimensions that are symbols; `strides`: those whose strides are; `sizes`: see
        `graph.input_fakes.add_input`."""
        recorder = self.world.recorder
        text = text or self.texts.of(source)
        fake = input_fakes.add_input(recorder, value, text, dims, strides, parts, sizes)
        tape = recorder.builder.tape
        if tape.followed:
            tape.entries.append(OpenedInput(source, fake, recorder.inputs.entries[-1].node))
        return self.know(value, fake, source)

    def note_read(self, value: Any) -> None:
        """The program has got hold of a tensor that it may use later: inputs come in this order."""
        inputs = self.world.recorder.inputs
        if id(value) not in self.known:
            inputs.read_at.setdefault(id(value), (len(inputs.entries), len(inputs.read_at)))

    def stand_in(self, value: Any, made: Any, source: Source) -> Any:
        """Something that can't change, made anew of what stands for its parts: at run time it is `value`."""
        self.stand_ins[id(made)] = Known(value, made, source)
        return self.know(value, made, source)

    def fixed(self, value: Any, source: Source) -> Any:
        """A key or set member: its identity or value is fixed by the guard on its container. It is hashed by
        what it holds, so nothing in there may be pending."""
        if issubclass(type(value), (torch.Tensor, tuple, frozenset)):
            self.world.identity.meet_table()
        return self.world.materialize.for_c(self.load(value, self.root.constant(value, f"<key of {source}>")))

    def is_opaque(self, value: Any) -> bool:
        """An outside object with state that only C sees."""
        return id(value) in self.known and rule_of_type(type(value)).opaque

    def source_of(self, value: Any) -> Source | None:
        """Where an object that is not pending can be found at run time, if it is from outside."""
        shadow = self.world.containers.shadows.get(id(value))
        if shadow is not None:
            return shadow.source
        view = self.world.attributes.views.get(id(value))
        if view is not None and not issubclass(type(value), ModuleType):
            return view.source
        known = self.known.get(id(value)) or self.stand_ins.get(id(value))
        if known is not None:
            return known.source
        if issubclass(type(value), (type, FunctionType)):
            # found on the way: through a class, say
            return None if self.world.created.has(value) else self.root.constant(value, value.__qualname__)
        return None

    def outside_values(self) -> dict[Source, Any]:
        """What was found where, of all that was opened."""
        found = {known.source: known.value for known in self.known.values()}
        found |= {view.source: view.outside for view in self.world.attributes.views.values()}
        return found | self.glanced

    def known_of(self, value: Any) -> Any:
        at = self.world.recorder.inputs.index_of.get(id(value))
        return self.known.get(id(self.world.recorder.inputs.entries[at][1] if at is not None else value))

    def varies(self, source: Source, value: int | float) -> bool:
        """Whether a number is a symbol."""
        return self.dynamism.number(source, value, self.modules)

    def symbolic_number(self, value: int | float, source: Source) -> Any:
        found = self.numbers.get(source)
        if found is None:
            self.world.guards.add(source, Check.TYPE, type(value))
            numbers = self.world.recorder.builder.numbers
            found = self.numbers[source] = numbers.add_input(value, self.texts.of(source))
            self.number_inputs[self.world.recorder.inputs.entries[-1][0]] = source
        return found

    def dims_of(self, source: Source, tensor: torch.Tensor) -> dict[int, Dim]:
        """The dimensions of a tensor that are symbols."""
        if source.access is Access.CONST:
            return {}
        found = self.dynamism.dims(source, tensor)
        for n, dim in found.items():
            if (dim.demanded or dim.unbacked) and not dim.allows(tensor.shape[n]):
                self.outside_marks.append(f"{source}.shape[{n}] is {tensor.shape[n]}, {dim.told()}")
                found[n] = dim._replace(least=None, most=None)
        return found

    def note_handed_over(self, variables: Iterable[tuple[str, Any]]) -> None:
        """What a break hands over that varies need not be found out again by the rest of the function."""
        handed_over = self.dynamism.handed_over
        for name, value in variables:
            if type(value) is Pending and value.opened is not MISSING:
                value = value.opened
            if type(value) in (torch.SymInt, torch.SymFloat) or self.world.late_texts.has(value):
                handed_over[name] = VARIES
            elif type(value) is FakeTensor:
                sizes: Any = value.shape
                if any(type(size) is not int for size in sizes):
                    handed_over[name] = tuple([s if type(s) is int else str(s.node.expr) for s in sizes])
            elif type(value) is Pending and type(value.value) is torch.Tensor:
                dims = self.dims_of(value.source, value.value)
                if dims:
                    shape = value.value.shape
                    handed_over[name] = tuple([None if n in dims else size for n, size in enumerate(shape)])
            elif type(value) is Pending and self.varies(value.source, value.value):
                handed_over[name] = VARIES

    def graph_input_source(self, node: torch.fx.Node, value: Any) -> Source:
        """Where an input of the graph is found."""
        number = self.number_inputs.get(node)
        if number is not None:
            return number
        if id(value) not in self.known:  # a plain tensor that shares the data of one with a class of its own
            inputs = self.world.recorder.inputs
            value = next(entry.value for entry in (*inputs.entries, *inputs.unused) if entry.node is node)
        return self.known[id(value)].source

    def hold(self, wrapper: torch.Tensor, name: str, inner: torch.Tensor, place: Source) -> None:
        """A tensor from outside wraps another, which is guarded where it was found."""
        self.held.setdefault(id(wrapper), {})[name] = (inner, place)

    def wrapped(self) -> Iterator[tuple[torch.Tensor, Source]]:
        """The tensors that inputs of the graph wrap, and where they are found."""
        waiting = [entry.value for entry in self.world.recorder.inputs.entries]
        while waiting:
            for inner, place in self.held.get(id(waiting.pop()), {}).values():
                waiting.append(inner)
                yield inner, place


class Guards(Part):
    """Collects guards as values are looked at. A fact is added once, with the line that needed it first."""

    def start(self) -> None:
        self.facts: dict[Any, Guard] = {}
        self.by_source: dict[Source, list[Guard]] = {}
        self.aliases: list[Guard] = []
        """Those that say that two sources are one object, or are not."""
        self.sighted: dict[Source, None] = {}
        """Names and keys that were found, whether or not what they hold was ever looked at."""

    def add(self, source: Source, check: Check, expected: Any) -> None:
        is_alias = type(expected) is Source
        if source.is_drawn or (is_alias and expected.is_drawn):
            return
        index = (source, check, expected if check.is_keyed else None)
        if index in self.facts:
            return
        place, caller = self.world.places.of_fact()
        guard = self.facts[index] = Guard(source, check, expected, place, caller)
        held = self.by_source.get(source)
        if held is None:
            self.by_source[source] = [guard]
        else:
            held.append(guard)
        if is_alias:
            self.aliases.append(guard)

    def put(self, index: Any, guard: Guard) -> None:
        """One that is known not to be there yet."""
        self.facts[index] = guard
        self.by_source.setdefault(guard.source, []).append(guard)
        if type(guard.expected) is Source:
            self.aliases.append(guard)

    def found(self, source: Source, value: Any) -> Pending:
        """The pending value of a name or key that was looked up."""
        self.sighted[source] = None
        return Pending(self.world.inputs, source, value)

    def add_sighted(self, inputs: list[Source]) -> None:
        """That a lookup finds something is a fact too; most are implied by what was found there."""
        reached: set[Source | None] = {None}
        for source in [*inputs, *self.by_source]:
            above: Source | None = source
            while above not in reached:
                reached.add(above)
                above = above.base  # type: ignore[union-attr]
        for source in self.sighted:
            if source not in reached:
                self.add(source, Check.IS_NOT, MISSING)
