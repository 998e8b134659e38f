"""What a trace has read of one module, asked of another.

All that a trace relies on of a module and of what is found in it is a guard on a source below that of the
module. `reads_below` collects these as steps, from each value to those that are found in it. `Reads.found_in`
takes the same steps on another module, and gives what it finds only if every guard holds there; `Reads.say`
then adds these guards to the trace, about the other module, and opens what was opened. So the code that was
traced with the one module would have done the same with the other.
"""

from __future__ import annotations

import collections
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING
from framelift.graph.op_memory import ATOMS
from framelift.guards.guard import Guard
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.dynamism import marks
from framelift.trace.plain_calls import calls_forward
from framelift.trace.shadows import change_of, own_dictionary

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
MAPPINGS = frozenset({dict, collections.OrderedDict})
CONTAINERS = frozenset({dict, collections.OrderedDict, list, tuple})
COMPARED = ATOMS | {bytes, torch.Size}
"""Types of constants that can be compared without running code of the program's."""
KEYS = frozenset({str, int, bytes, bool, NoneType})


class Fact(NamedTuple):
    """A guard of a step."""

    check: Check
    expected: Any
    """An `Alias`, for SAME_AS."""
    place: Place | None
    caller: Place | None


class Step:
    """One value below a module, and what is relied on of it."""

    __slots__ = ("access", "facts", "is_glanced", "is_opened", "is_sighted", "key", "parent", "value")

    def __init__(self, parent: int, access: Access, key: Any, value: Any) -> None:
        self.parent = parent
        """The step that finds what this value is found in; that of the module itself is 0."""
        self.access = access
        self.key = key
        self.value = value
        """What was found in the first module."""
        self.facts: list[Fact] = []
        self.is_opened = False
        """Whether something stands for it in the trace, or a view shows it."""
        self.is_sighted = False
        self.is_glanced = False


class Found(NamedTuple):
    """What was found in another module, by step."""

    values: list[Any]
    sources: list[Source]


class Reads:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.index: dict[Source, int] = {}
        """Source below the first module -> its step."""
        self.aliases: list[tuple[int, int]] = []
        """Steps that find the same object."""

    def found_in(self, world: TraceWorld, module: Any, source: Source) -> Found | None:
        """What is found in another module; None if anything relied on does not hold there."""
        known, shadows = world.inputs.known, world.containers.shadows
        values, sources = [module], [source]
        met: set[int] = set()
        for n, step in enumerate(self.steps):
            if n:
                value = reached(values[step.parent], step.access, step.key)
                if value is MISSING:
                    return None
                values.append(value)
                sources.append(sources[step.parent].child(step.access, step.key))
            else:
                value = module
            for check, expected, _, _ in step.facts:
                if not HOLDS[check](value, expected):
                    return None
                if check is Check.CALLS_FORWARD and not world.plain_calls.has_unseen_hooks(value):
                    return None
            if step.is_opened:
                if id(value) in met:
                    return None  # two values of the first module are one in this
                met.add(id(value))
            elif type(value) not in MAPPINGS:
                continue
            before = known.get(id(value))
            if before is not None:
                if not step.is_opened or before.source is not sources[n]:
                    return None  # it is found elsewhere too
                shadow = shadows.get(id(before.opened))
                if shadow is not None and change_of(shadow):
                    return None
        if any(values[one] is not values[other] for one, other in self.aliases):
            return None
        return Found(values, sources)

    def say(self, world: TraceWorld, found: Found, callers: dict[Place | None, Place | None]) -> None:
        """Adds the guards of another module, and opens what was opened but tensors. `callers`: lines that
        called the first module -> those that call this one."""
        guards, inputs, facts = world.guards, world.inputs, world.guards.facts
        for step, value, source in zip(self.steps, found.values, found.sources, strict=True):
            for check, expected, place, caller in step.facts:
                if check is Check.SAME_AS:
                    step_there = expected.step
                    expected = expected.source if step_there is None else found.sources[step_there]
                index = (source, check, expected if check.is_keyed else None)
                if index not in facts:
                    if caller is not None:
                        caller = callers.get(caller, caller)
                    guards.put(index, Guard(source, check, expected, place, caller))
                if check is Check.CALLS_FORWARD:
                    world.plain_calls.modules[source] = value
            if step.is_sighted:
                guards.sighted[source] = None
            if step.is_glanced:
                inputs.glanced[source] = value
            if step.is_opened and type(value) not in TENSORS and id(value) not in inputs.known:
                inputs.load(value, source)


def reached(value: Any, access: Access, key: Any) -> Any:
    """What is found in a value, without running code of the program's; MISSING if nothing."""
    if access is Access.ATTR:
        own = own_dictionary(value)
        return MISSING if own is None else own.get(key, MISSING)
    if access is Access.KEY and type(value) in MAPPINGS:
        return value.get(key, MISSING)
    if access is Access.ITEM and (type(value) is tuple or type(value) is list):
        return value[key] if key < len(value) else MISSING
    return MISSING


def is_equal(value: Any, expected: Any) -> bool:
    if type(value) is not type(expected) or value != expected:
        return False
    return type(value) is not float or repr(value) == repr(expected)


def has_keys(value: Any, expected: Any) -> bool:
    if type(value) not in MAPPINGS or len(value) != len(expected):
        return False
    return all(
        type(mine) is type(other) and mine == other for mine, other in zip(value, expected, strict=True)
    )


def lacks_attribute(value: Any, name: str) -> bool:
    own = own_dictionary(value)
    return own is not None and name not in own


def is_like(value: Any, spec: Any) -> bool:
    if type(value) not in TENSORS or not spec.matches(value):
        return False
    held = value.__dict__
    return not held or ("_dynamo_static_input_type" not in held and not marks(value))


class Alias(NamedTuple):
    """Another source that holds the same object."""

    value: Any
    source: Source
    step: int | None
    """The step that finds it, if it is below the module. Else a module has it in common with others."""


def is_same(value: Any, other: Alias) -> bool:
    return other.step is not None or value is other.value


HOLDS: dict[Check, Any] = {
    Check.IS: lambda value, expected: value is expected,
    Check.IS_NOT: lambda value, expected: value is not expected,
    Check.TYPE: lambda value, expected: type(value) is expected,
    Check.EQUAL: is_equal,
    Check.LEN: lambda value, expected: type(value) in CONTAINERS and len(value) == expected,
    Check.NONEMPTY: lambda value, expected: type(value) in CONTAINERS and bool(value) is expected,
    Check.KEYS: has_keys,
    Check.NO_KEY: lambda value, key: type(value) in MAPPINGS and key not in value,
    Check.NO_ATTR: lacks_attribute,
    Check.TENSOR: is_like,
    Check.SAME_AS: is_same,
    Check.CALLS_FORWARD: lambda value, _: calls_forward(value),
}
"""Kind of guard -> whether it holds of a value. What is not here makes a module one of a kind."""


def reads_below(world: TraceWorld, module: Any, source: Source) -> Reads | None:
    """What a trace has read of a module so far; None if another module can't be asked for the same."""
    reads = Reads()
    steps, index = reads.steps, reads.index
    steps.append(Step(0, source.access, source.key, module))
    index[source] = 0
    waiting = [source]
    while waiting:
        above = waiting.pop()
        parent = index[above]
        for below in above.children.values():
            value = reached(steps[parent].value, below.access, below.key)
            if value is MISSING or (below.access is Access.KEY and type(below.key) not in KEYS):
                return None
            index[below] = len(steps)
            steps.append(Step(parent, below.access, below.key, value))
            waiting.append(below)
    around = set(source.path()) - {source}
    for guard in world.guards.aliases:
        if guard.source not in index and (guard.expected in index or guard.expected in around):
            return None  # what is below the module, or around it, has another name
    for place, n in index.items():
        if not note_step(world, reads, place, steps[n], around):
            return None
    return reads


def note_step(world: TraceWorld, reads: Reads, place: Source, step: Step, around: set[Source]) -> bool:
    """Notes what is relied on of a value; whether that can be asked of another."""
    inputs, value = world.inputs, step.value
    for guard in world.guards.by_source.get(place, ()):
        check, expected = guard.check, guard.expected
        if check not in HOLDS or (check is Check.EQUAL and type(expected) not in COMPARED):
            return False
        if check is Check.KEYS and not all(type(key) in KEYS for key in expected):
            return False
        if check is Check.NO_KEY and type(expected) not in KEYS:
            return False
        if check is Check.SAME_AS:
            if expected in around:
                return False
            inside = reads.index.get(expected)
            if inside is not None:
                reads.aliases.append((reads.index[place], inside))
            expected = Alias(value, expected, inside)
        step.facts.append(Fact(check, expected, guard.place, guard.caller))
    step.is_sighted = place in world.guards.sighted
    step.is_glanced = place in inputs.glanced
    known = inputs.known.get(id(value))
    if known is None or known.source is not place:
        return True
    step.is_opened = True
    view = world.attributes.views.get(id(value))
    if view is not None:
        return view.source is place and not view.complete
    return type(value) in CONTAINERS or type(value) in TENSORS
