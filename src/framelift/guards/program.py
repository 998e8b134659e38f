"""Compiles guards into a native program: a flat walk over the sources, shared prefixes once.

The same walk yields the region's inputs. `GuardProgram.failure` says which fact did not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from framelift import _guards
from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING
from framelift.graph.symbols import Fact, Read
from framelift.guards import failures
from framelift.guards.failures import Failure
from framelift.guards.guard import ClassGuard, Guard, relied_on
from framelift.guards.kinds import Access, Check
from framelift.guards.shapes import READS, NamedRead, Step, in_words, named
from framelift.guards.sources import Source
from framelift.guards.value_texts import full_name


@dataclass
class GuardProgram:
    """The guards of one entry, as data and as the native program."""

    guards: list[Guard]
    class_guards: list[ClassGuard]
    state: _guards.GlobalState
    native: Any = None
    by_node: list[tuple[Source, list[Guard]]] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    """The names of the classes on which something was looked up, as the native program has them."""
    index: dict[Source, int] = field(default_factory=dict)
    shapes: list[tuple[str, Place | None]] = field(default_factory=list)
    """Facts about sizes and numbers, in words, and where they come from."""
    shape_reads: list[NamedRead] = field(default_factory=list)
    """The sizes and numbers that all of them together are about."""
    shape_reads_of: list[list[int]] = field(default_factory=list)
    """Which of these each of them is about."""

    @functools.cached_property
    def relied_on(self) -> dict[str, Any]:
        """The sizes and numbers that it holds for: each later capture asks for them."""
        return relied_on(self.guards)

    def steps(self) -> dict[Source, int]:
        """What the native walk does for each guarded source: reaching it, as far as no source before it has
        been reached the same way, and checking it. Each step is about as long as another."""
        reached: set[Source] = set()
        found: dict[Source, int] = {}
        for source, guards in self.by_node:
            if guards:
                path: Source | None = source
                while path is not None and path in self.index and path not in reached:
                    reached.add(path)
                    found[source] = found.get(source, 0) + 1
                    path = None if path.access.is_root else path.base
                found[source] = found.get(source, 0) + len(guards)
        return found

    def set_shapes(
        self, sources: list[Source], reads: list[Read], facts: list[tuple[Fact, list[Step]]]
    ) -> None:
        """Adds what must hold of sizes and numbers."""
        self.native.set_shapes(
            [(self.index[sources[read.input]], READS[read.kind].code, read.dim) for read in reads],
            [tuple(steps) for _, steps in facts],
        )
        self.shapes = [(in_words(fact.text, sources, reads), fact.place) for fact, _ in facts]
        self.shape_reads = [named(read, sources) for read in reads]
        self.shape_reads_of = [sorted({n for name, n in steps if name == "read"}) for _, steps in facts]

    def failure(self, fn: Any, args: Sequence[Any]) -> Failure | None:
        """What does not hold for these arguments, with what was found; None when all holds."""
        failed = self.native.check(fn, args)
        if failed is None:
            return None
        match failed.kind:
            case _guards.FAILED_ACCESS:
                return failures.of_access(self.by_node[failed.position][0], self.guards)
            case _guards.FAILED_CHECK:
                return failures.of_guard(self.by_node[failed.position][1][failed.check], failed.found)
            case _guards.FAILED_STATE:
                return failures.of_state(failed.found)
            case _guards.FAILED_CLASS:
                return failures.of_class(self.classes[failed.position], failed.found)
            case _guards.FAILED_STORAGE:
                return failures.of_memory(self.holder_of(args, failed.found))
            case _guards.FAILED_SHAPE:
                return self.shape_failure(failed.position, failed.found)
        raise AssertionError(f"no such kind of failure: {failed}")

    def shape_failure(self, index: int, values: Sequence[int | float] | None) -> Failure:
        fact, place = self.shapes[index]
        if values is None:
            return failures.of_shape(fact, place, None)
        about = [(self.shape_reads[n], values[n]) for n in self.shape_reads_of[index]]
        return failures.of_shape(fact, place, about)

    def holder_of(self, args: Sequence[Any], tensor: Any) -> Source | None:
        """The argument that a tensor is, if it is one."""
        for guard in self.guards:
            source = guard.source
            if source.access is Access.ARG and args[source.operand] is tensor:
                return source
        return None


def build(
    guards: list[Guard],
    class_guards: list[ClassGuard],
    state: _guards.GlobalState,
    inputs: list[Source],
    storages: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> GuardProgram:
    program = GuardProgram(guards, class_guards, state)
    index: dict[Source, int] = {}
    nodes: list[list[Any]] = []

    def place(source: Source) -> int:
        at = index.get(source)
        if at is None:
            base = source.base
            parent = _guards.FRAME if source.access.is_root or base is None else place(base)
            at = index[source] = len(nodes)
            nodes.append([parent, source.access.code, source.operand, [], _guards.NO_INPUT])
            program.by_node.append((source, []))
        return at

    for guard in sorted(
        guards, key=lambda guard: guard.check is not Check.TENSOR or guard.source.access is not Access.ARG
    ):
        at = place(guard.source)
        expected = guard.expected
        if guard.check in (Check.SAME_AS, Check.NOT_SAME_AS):
            other = place(expected)
            if other > at:
                at, other = other, at
            expected = other
        nodes[at][3].append((guard.check.code, expected))
        program.by_node[at][1].append(guard)
    for slot, source in enumerate(inputs):
        nodes[place(source)][4] = slot
    by_class: dict[type, list[tuple[str, Any]]] = {}
    for fact in class_guards:
        found = _guards.MISSING if fact.found is MISSING else fact.found
        by_class.setdefault(fact.cls, []).append((fact.name, found))
    program.classes = list(map(full_name, by_class))
    native_nodes = [tuple(node) for node in nodes]
    program.native = _guards.Program(native_nodes, len(inputs), state, list(by_class.items()), storages)
    program.index = dict(index)
    index.clear()  # `place` leads to itself, and these would wait for the collector with it
    nodes.clear()
    return program


def let_go(guards: list[Guard], class_guards: list[ClassGuard], sources: list[Source]) -> None:
    """Entries are kept, with their guards; what the program had when they were made must not be. What is let
    go can still be read, but not saved or built again."""
    for guard in guards:
        guard.let_go()
    for fact in class_guards:
        fact.let_go()
    for source in sources:
        source.let_go()
        if source.access.is_root and source.base is not None:  # others have theirs among the sources
            source.base.let_go()


def storage_groups(tensors: list[tuple[int, torch.Tensor]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which input slots hold tensors that share memory: (slots, group of each)."""
    groups: dict[int, int] = {}
    slots, numbers = [], []
    for slot, tensor in tensors:
        slots.append(slot)
        numbers.append(groups.setdefault(tensor.untyped_storage()._cdata, len(groups)))
    return tuple(slots), tuple(numbers)
