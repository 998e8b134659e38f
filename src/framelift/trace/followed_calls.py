"""Calls of modules that a trace follows, to see whether they could be replayed (`replays.py`).

A call can be replayed only if nothing but torch calls came of it: it has written nothing outside (tensors
apart: writes to these are torch calls), nothing else that it made lives on but the tensors, constants and
plain containers that it returned, and it has asked nothing that depends on who called it. Whatever a trace
may keep is compared before and after (`state_of`), so what nobody has thought of here makes a call one that
is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import CellType
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING
from framelift.graph.op_memory import ATOMS, Unkeyable
from framelift.graph.origins import Activation, Origin
from framelift.graph.tape import OpenedInput, Performed
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.module_reads import CONTAINERS, Reads
from framelift.trace.scopes import contents_of
from framelift.trace.shadows import Shadow, View, attributes_of, change_of

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

CONSTANTS = ATOMS | {bytes, torch.Size}
PLAIN = frozenset({tuple, list, dict})
"""Containers of arguments and results that are made anew."""
MANY = 64
"""Where the program has put so many containers outside, no call is replayed."""


def contents(container: Any) -> list[Any]:
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def elements(made: Shadow) -> list[Any]:
    """All that what stands for a container from outside holds."""
    if made.attributes is None:
        return contents(made.shadow)
    return [*contents(made.shadow), *attributes_of(made.shadow), *attributes_of(made.shadow).values()]


def is_same_list(now: list[Any], before: list[Any]) -> bool:
    if len(now) != len(before):
        return False
    return all(map(operator.is_, now, before)) or all(map(unchanged, now, before))


# ---- what a call is given


class Arguments:
    """What a call is given, as far as it decides what the call does. Raises Unkeyable where that is not
    known: an object that the program has made may change while nobody looks."""

    __slots__ = ("containers", "contents", "key", "objects", "tensors", "world")

    def __init__(self, world: TraceWorld, key: list[Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        self.world = world
        self.key = key
        self.tensors: list[Any] = []
        self.objects: list[Source] = []
        """Where the objects from outside among them are found."""
        self.containers: list[Any] = []
        """The lists and dictionaries among them, and those within."""
        self.contents: list[list[Any]] = []
        """What these hold."""
        key.append(len(args))
        for value in args:
            self.add(value)
        for name, value in kwargs.items():
            key.append(name)
            self.add(value)

    def add(self, value: Any) -> None:
        world, key = self.world, self.key
        if type(value) is Pending:
            if value.opened is MISSING or not isinstance(value.value, torch.Tensor):
                key.append(value.source)
                self.objects.append(value.source)
                return
            value = value.opened
        cls = type(value)
        key.append(cls)
        if cls is FakeTensor:
            recorder = world.recorder
            if id(value) not in recorder.builder.body.nodes:
                raise Unkeyable
            is_input = id(value) in recorder.inputs.index_of
            place = next((n for n, other in enumerate(self.tensors) if other is value), -1)
            key += [recorder.keys.meta(value), recorder.subclasses.class_of(value), is_input, place]
            self.tensors.append(value)
        elif cls in CONSTANTS:
            key.append(repr(value) if cls is float or cls is complex else value)
        elif cls in PLAIN:
            if id(value) in world.containers.shadows:
                raise Unkeyable
            held = contents(value)
            key.append(len(held))
            for item in held:
                self.add(item)
            self.containers.append(value)
            self.contents.append(held)
        elif id(value) in world.attributes.views:
            key.append(id(value))  # an object from outside, which the trace keeps
            self.objects.append(world.attributes.views[id(value)].source)
        else:
            raise Unkeyable

    def are_unchanged(self) -> bool:
        return all(map(is_same_list, map(contents, self.containers), self.contents))

    def are_parts_of(self, source: Source) -> bool:
        """Whether something was found in the module that is given it, or is what that was found in."""
        known_of = self.world.inputs.known_of
        known = [found.source for fake in self.tensors if (found := known_of(fake))]
        if not known and not self.objects:
            return False
        around = set(source.path())
        return any(place in around or source in place.path() for place in (*known, *self.objects))


# ---- what the program has written


class Written:
    """Containers that the program has made and written to names outside: who changes one is not noticed."""

    def __init__(self) -> None:
        self.writes = View.writes
        """How often anything was written when that was looked at last."""
        self.values: list[Any] = []
        self.containers: list[Any] = []
        self.is_plain = True

    def are_plain(self, world: TraceWorld) -> bool:
        """Whether all that was written are constants, objects from outside, and plain containers of these."""
        if View.writes != self.writes:
            self.writes = View.writes
            attributes, scopes, classes = world.attributes, world.scopes, world.classes
            views = (*attributes.views.values(), *scopes.views.values(), *classes.views.values())
            written = [view for view in views if view.written or view.complete]
            self.is_plain = not any(view.complete for view in written)
            self.values = [view.values.get(name) for view in written for name in view.written]
        return self.is_plain and (not self.values or self.look(world))

    def look(self, world: TraceWorld) -> bool:
        self.containers = []
        left = list(self.values)
        while left:
            value = left.pop()
            if type(value) in PLAIN and id(value) not in world.containers.shadows:
                if not any(value is one for one in self.containers):
                    self.containers.append(value)
                    left += contents(value)
                    if len(self.containers) == MANY:
                        return False
            elif not is_fixed(world, value):
                return False
        return True

    def contents(self) -> list[list[Any]]:
        return list(map(contents, self.containers))


def is_fixed(world: TraceWorld, value: Any) -> bool:
    """Whether a value says by itself what it is: it is a constant, or from outside."""
    return type(value) in CONSTANTS or type(value) is Pending or id(value) in world.attributes.views


def has_plain_shadows(world: TraceWorld) -> bool:
    """Whether containers from outside hold nothing that would have to be looked into."""
    for made in world.containers.shadows.values():
        is_plain = type(made.shadow) in CONTAINERS and all(
            [is_fixed(world, item) for item in contents(made.shadow)]
        )
        if not is_plain and change_of(made):
            return False
    return True


# ---- what a call did


class FollowedCall:
    """A call of a module, and what came of it."""

    def __init__(
        self, world: TraceWorld, written: Written, frame: Any, module: Any, source: Source, given: Arguments
    ) -> None:
        """Before it."""
        builder = world.recorder.builder
        self.world, self.written = world, written
        self.frame: Any = frame
        self.module, self.source, self.given = module, source, given
        self.called_from = users_place(world)
        self.spoilt = builder.tape.spoilt
        self.writes, self.held = View.writes, written.contents()
        self.state = state_of(world)
        self.first_entry = len(builder.tape.entries)
        self.nodes = builder.body.graph._len
        self.inlined = world.functions.inlined_calls - 1  # its own frame is made already
        shadows = world.containers.shadows.values()
        self.shadows = [(made, elements(made)) for made in shadows]
        """What stands for containers from outside, and what that held."""
        self.cells: list[tuple[CellType, Any]] = []
        self.entries: list[Performed | OpenedInput] = []
        self.root: Activation | None = None
        """Its frame, where nodes come from."""
        self.result: Any = None
        self.reads: Reads | None = None
        """What it has read of the module; collected when another call asks."""
        self.is_collected = False

    def is_repeatable(self, result: Any) -> bool:
        """After it: whether nothing came of it but what can be repeated."""
        world, given = self.world, self.given
        tape, graph = world.recorder.builder.tape, world.recorder.builder.body.graph
        if tape.spoilt != self.spoilt or not given.are_unchanged() or not self.is_written_as_then():
            return False
        if state_of(world) != self.state or not is_plain_result(world, result, given):
            return False
        self.entries = tape.entries[self.first_entry :]
        counts = [len(one.origins) if isinstance(one, Performed) else 1 for one in self.entries]
        if graph._len - self.nodes != sum(counts):
            return False
        self.inlined = world.functions.inlined_calls - self.inlined
        self.root, self.frame = getattr(self.frame, "activation", None), None
        if not all(is_below(origin.activation, self.root) for origin in origins_of(self.entries)):
            return False
        for made in list(world.containers.shadows.values())[len(self.shadows) :]:
            if change_of(made):
                return False
            self.shadows.append((made, elements(made)))
        self.cells = [(shadow, before) for _, shadow, before in world.functions.shadow_cells.values()]
        self.result = result
        return self.is_around_unchanged() and not given.are_parts_of(self.source)

    def is_written_as_then(self) -> bool:
        """Whether nothing outside was written to since it began."""
        if View.writes != self.writes:
            return False
        now = self.written.contents()
        return len(now) == len(self.held) and all(map(is_same_list, now, self.held))

    def is_around_unchanged(self) -> bool:
        """Whether containers and closures from outside are as they were."""
        for cell, before in self.cells:
            if not unchanged(contents_of(cell), before):
                return False
        return all([is_same_list(elements(made), before) for made, before in self.shadows])


def users_place(world: TraceWorld) -> Place | None:
    """The line of the user's that the program stands in."""
    above = world.machine.frame
    while above is not None and not world.places.is_users(above.globals):
        above = above.back
    return None if above is None else above.place


def is_below(activation: Activation | None, root: Activation | None) -> bool:
    while activation is not None and activation is not root:
        activation = activation.outer
    return activation is not None


def origins_of(entries: list[Performed | OpenedInput]) -> Iterator[Origin]:
    for one in entries:
        for origin in one.origins if isinstance(one, Performed) else [one.origin]:
            if origin is not None:
                yield origin


def is_plain_result(world: TraceWorld, value: Any, given: Arguments) -> bool:
    """Whether a result can be put together of other tensors."""
    if type(value) in PLAIN:
        if id(value) in world.containers.shadows or any(value is one for one in given.containers):
            return False
        return all([is_plain_result(world, item, given) for item in contents(value)])
    return type(value) is FakeTensor or is_fixed(world, value)


def state_of(world: TraceWorld) -> list[Any]:
    """All that a trace keeps, but for what is of no account here: how many things, or what."""
    recorder = world.recorder
    parts = [*vars(world).values(), *world.features.values(), *vars(recorder).values()]
    found: list[Any] = [len(world.features)]
    for part in (*parts, recorder.builder.failing, recorder.builder.body):
        of_no_account = OF_NO_ACCOUNT.get(type(part).__name__, NOTHING)
        if of_no_account is None or not hasattr(part, "__dict__"):
            continue
        for name, value in vars(part).items():
            if name not in of_no_account:
                cls = type(value)
                if cls is dict or cls is list or cls is set:
                    found.append(len(value))
                else:
                    found.append(value if cls in CONSTANTS else id(value))
    return found


NOTHING: frozenset[str] = frozenset()

OF_NO_ACCOUNT: dict[str, frozenset[str] | None] = {
    "Replays": None,
    "PlainCalls": None,
    "TracingMachine": None,
    "Tape": None,
    "Guards": frozenset({"facts", "by_source", "aliases", "sighted"}),
    "Inputs": frozenset({"known", "glanced", "stand_ins"}),
    "Attributes": frozenset({"views", "own_first", "supers", "registries"}),
    "Scopes": frozenset({"views"}),
    "Containers": frozenset({"shadows"}),
    "Classes": frozenset({"guards", "found"}),
    "Functions": frozenset({"inlined", "inlined_calls", "shadow_cells", "handles_errors", "inside"}),
    "Places": frozenset({"users", "latest", "given"}),
    "Materialize": frozenset({"exposed"}),
    "NativeCalls": frozenset({"kept"}),
    "GraphBuilder": frozenset({"kept", "impure", "calls"}),
    "GraphInputs": frozenset({"entries", "index_of", "read_at"}),
    "Keys": frozenset({"metas", "read"}),
    "Subclasses": frozenset({"classes"}),
    "Recorder": frozenset({"remembered"}),
    "Mutations": frozenset({"changed", "in_storage", "indexed", "marked", "remembered", "first_written"}),
    "FailingCalls": frozenset({"nodes", "drawing", "writes", "last"}),
    "GraphBody": frozenset({"nodes", "draws", "changed"}),
    "Fakes": frozenset({"written", "drew_random", "may_fail", "warned", "template"}),
}
"""Part of a trace -> what it keeps that a replay adds to as a trace would, that is asked about here in other
ways, or that nobody looks back at; None: all of it."""
