"""Objects that the traced program makes and lets go of."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from framelift.core import breaks
from framelift.core.breaks import Break, refuse
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.op_memory import ATOMS
from framelift.guards.kinds import Access
from framelift.interpreter.lookups import RELIED_ON, has_finaliser, is_watched, leave_unwatched
from framelift.interpreter.pending import Pending, unchanged
from framelift.interpreter.points import chain
from framelift.trace.part import Part
from framelift.trace.scopes import contents_of
from framelift.trace.shadows import change_of, own_dictionary
from framelift.trace.type_rules import is_hashed_oddly

if TYPE_CHECKING:
    from framelift.interpreter.frame import Frame
    from framelift.trace.writes import Writes

leave_unwatched(torch.Tensor)  # may be large, and it is seldom a variable that keeps one alive


class Lifetimes(Part):
    """Keeps finalisers and weak references as they would be without a trace."""

    def start(self) -> None:
        self.dropped: list[Any] = []
        """Objects from outside with finalisers that variables have let go of."""
        self.watches_tensors = False
        """Whether the program has made a weak reference to a tensor."""

    @property
    def runs_finalisers(self) -> bool:
        """While the program runs; afterwards what the trace still has is only being thrown away."""
        world = self.__dict__.get("world")  # which a released trace has no more
        machine = None if world is None else world.__dict__.get("machine")
        return machine is not None and machine.__dict__.get("frame") is not None

    def finalise(self, generator: Any) -> None:
        self.run_finaliser(generator.close, "the end of a generator")

    def run_finaliser(self, run: Callable[[], Any], what: str) -> None:
        """Runs code of the program's that nobody has called, when an object is gone."""
        try:
            run()
        except BaseException as error:
            self.world.errors.lost = True  # from here an exception goes nowhere
            self.world.errors.broken = self.world.errors.broken or Break(
                breaks.EFFECT, f"{type(error).__name__} in {what}"
            )

    def dropping(self, value: Any) -> None:
        if issubclass(type(value.value), GeneratorType) and value.value.gi_suspended:
            refuse(breaks.FINALISER, "a generator that is left in the middle")
        if has_finaliser(value.value):
            # one of a frame that goes on may die here; others do at the end of the stretch, several of them
            # in another order
            is_another = self.dropped and not any(value.value is one for one in self.dropped)
            if self.is_frames_own(value) or is_another:
                refuse(breaks.FINALISER, f"a {type(value.value).__qualname__} that is dropped")
            self.dropped.append(value.value)

    def is_frames_own(self, value: Any) -> bool:
        """Whether a value from outside is one that a function which goes on was handed: its variables may be
        all that hold it. The arguments of a function that begins are held by its caller."""
        if not self.world.frame.goes_on:
            return False
        source = value.source
        while source.access is Access.ITEM and source.base is not None:
            source = source.base
        if source.access is not Access.ARG:
            return False
        return source is value.source or bool(source.key[1].inner)  # the variables of an inner frame

    def overwriting(self, value: Any, frame: Frame[Any]) -> None:
        if self.is_frames_own(value) and sum(item is value for item in (*frame.fast, *frame.stack)) == 1:
            self.dropping(value)

    def leaving(self, frame: Frame[Any]) -> None:
        if not self.world.frame.goes_on:
            return
        for value in frame.fast:
            returned = bool(frame.stack) and frame.stack[-1] is value
            if type(value) is Pending and not returned and self.is_frames_own(value):
                self.dropping(value)

    def refuse_finalisers(self, written: Writes) -> None:
        """Objects that the region takes out of where they were would be finalised in another order: several
        of them, or one among other things that are written."""
        dropped = {id(value): value for value in displaced(written) if has_finaliser(value)}
        is_one_of_many = bool(dropped) and written.count() > 1
        dropped |= {id(value): value for value in self.dropped}
        if len(dropped) > 1 or is_one_of_many:
            refuse(
                breaks.FINALISER,
                " and ".join(sorted({type(value).__qualname__ for value in dropped.values()})),
            )

    def may_have_dropped(self) -> bool:
        """Whether a change may have let go of an object: of one that holds others, or is referred to."""
        world = self.world
        if world.writes.calls or world.classes.views or world.iterators.advanced():
            return True
        if world.context_variables.changes():
            return True
        if any(name == "__setitem__" for one in world.containers.blind.values() for name, _ in one.calls):
            return True
        cells = ((shadow, before) for _, shadow, before in world.functions.shadow_cells.values())
        gone = [before for shadow, before in cells if not unchanged(contents_of(shadow), before)]
        for view in (*world.attributes.views.values(), *world.scopes.views.values()):
            own = view.outside if type(view.outside) is dict else own_dictionary(view.outside)
            changes = view.changes()
            if own is not None:
                gone += [own[name] for name, _ in changes if name in own]
            elif changes:  # it has slots only
                return True
        for change in filter(None, map(change_of, world.containers.shadows.values())):
            outside, shadow = change.shadow.outside, change.shadow.shadow
            if not issubclass(type(outside), HOLDING) or shadow is None:
                return True
            now = {id(item.value if type(item) is Pending else item) for item in items_of(shadow)}
            gone += [item for item in items_of(outside) if id(item) not in now]
        return not all(map(holds_nothing, gone))

    def is_held(self, value: Any) -> bool:
        """Whether a variable holds it, or a function that computes with it."""
        frames = chain(self.world.machine.frame)
        return any(item is value for frame in frames for item in (*frame.fast, *frame.stack))

    def may_be_missed(self, value: Any, stack: list[Any]) -> bool:
        """Whether a weak reference may be left to it, or a part that is in its memory. What would have to be
        made again is not worth it."""
        if self.watches_tensors:
            return True
        if type(value) is Pending:
            kind = type(value.value)
            return is_watched(kind) or issubclass(kind, RELIED_ON) or has_finaliser(value.value)
        if has_finaliser(value):
            return True
        if self.world.inputs.is_opaque(value) and issubclass(type(value), RELIED_ON):
            return True
        if not is_watched(type(value)):
            return False
        return weakref.getweakrefcount(value) > 0 or any(item is value for item in stack)


def holds_nothing(value: Any) -> bool:
    """Whether an object from outside that is let go of lets nothing else go, and nobody notices."""
    if type(value) in PLAIN_CLASSES:
        return not own_dictionary(value) and value.grad_fn is None and not weakref.getweakrefcount(value)
    return type(value) in ATOMS


HOLDING = (list, dict, set, collections.deque)


def displaced(written: Writes) -> Iterator[Any]:
    """The objects from outside that are no more where they were once a region has written."""
    for view, changes in written.names():
        outside = view.outside
        is_class = issubclass(type(outside), type)
        own = (
            outside if type(outside) is dict else vars(outside) if is_class else own_dictionary(outside) or {}
        )
        yield from [own[name] for name, _ in changes if name in own]
    for change in written.containers:
        outside, shadow = change.shadow.outside, change.shadow.shadow
        if not issubclass(type(outside), HOLDING) or shadow is None:
            continue
        before, now = (items_of(outside), items_of(shadow)) if change.calls else ((), ())
        kept = {id(item.value if type(item) is Pending else item) for item in now}
        yield from [item for item in before if id(item) not in kept]


def items_of(container: Any) -> list[Any]:
    """What it holds, with no key hashed, and past methods of a subclass."""
    base: Any = next(base for base in HOLDING if issubclass(type(container), base))
    return list(base.values(container) if base is dict else base.__iter__(container))


def is_written_for(fn: FunctionType, cls: type) -> bool:
    """Whether the library has made a method for a class: for a dataclass from source text, or for a named
    tuple in a function of its own."""
    file = fn.__code__.co_filename
    own = fn.__qualname__.startswith(f"{cls.__name__}.")
    return file == "<string>" or (file == collections.__file__ and own)


class Created(Part):
    """Classes, and objects such as memoising functions, modules and weak references."""

    def start(self) -> None:
        self.classes: set[type] = set()
        self.recipes: dict[type, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}
        """Classes that a call makes again: the function, and its arguments."""
        self.objects: dict[int, Any] = {}

    def has(self, value: Any) -> bool:
        """Whether a function, class or module was made by the trace."""
        if issubclass(type(value), type):
            return value in self.classes
        return id(value) in self.world.functions.inside or id(value) in self.objects

    def keep(self, value: Any) -> Any:
        self.objects[id(value)] = value
        return value

    def add_class(self, cls: type) -> None:
        """A class that the trace has made."""
        if is_hashed_oddly(type(cls)):
            refuse(breaks.OPAQUE_OBJECT, f"a class that {type(cls).__qualname__} hashes or compares")
        self.classes.add(cls)

    def add_written_class(self, cls: Any) -> Any:
        """A class of the trace's, with all that was made for it."""
        self.add_class(cls)
        for value in vars(cls).values():
            fn = value.__func__ if type(value) in (staticmethod, classmethod) else value
            functions = [f for f in (fn, getattr(fn, "__wrapped__", None)) if type(f) is FunctionType]
            if functions and is_written_for(functions[-1], cls):
                for made in functions:
                    self.world.functions.made(made)
        return cls
