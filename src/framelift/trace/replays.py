"""Calls of modules that are replayed rather than traced again.

The second of many layers of one class runs the same code on other tensors. What a traced call did is decided
by what was read of the module and of the arguments: where another module is found to be the same in all that
was read (`module_reads.py`), and the arguments are of the same kind, the call does the same. So the torch
calls of the first one are made once more on the other tensors (`graph/tape.py`), the same guards are added
about the other module, and the result is put together as it was. What is captured is the same, down to the
lines that nodes and guards come from; the option `replay_modules` turns it off.

Which calls can be replayed is found out while they are traced (`followed_calls.py`). Any doubt: a call is
traced.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.sentinels import MISSING
from framelift.graph.op_memory import Unkeyable
from framelift.graph.origins import Activation, CalledModule, Origin
from framelift.graph.tape import OpenedInput, Performed, Repetition, Substitutes, TornTape
from framelift.guards.kinds import Access
from framelift.guards.sources import Source, is_namespace
from framelift.interpreter.calls import call
from framelift.interpreter.frame import AtReturn, Frame
from framelift.interpreter.pending import Pending
from framelift.trace.callable_rules import spoiling_handlers
from framelift.trace.followed_calls import Arguments, FollowedCall, Written, has_plain_shadows, users_place
from framelift.trace.module_reads import TENSORS, Found, Reads, reads_below
from framelift.trace.part import Part
from framelift.trace.shadows import own_dictionary

ALTERNATIVES = 4
"""So many calls are kept that have the same arguments, and found other things in their modules."""
VAIN = 3
"""After so many calls of one class and function that could not be replayed no other is followed."""


class Replays(Part):
    """The calls of modules in one trace."""

    def start(self) -> None:
        self.enabled = config.replay_modules
        self.tape = self.world.recorder.builder.tape
        self.written = Written()
        self.calls: dict[Any, list[FollowedCall]] = {}
        """By what they were given."""
        self.in_vain: dict[Any, int] = {}
        """Class and function of calls that could not be replayed -> how many there were."""
        self.tops: dict[Source, bool] = {}
        """Source of a variable -> whether it holds an object that is seen through a view."""
        self.failed = False
        """Whether a replay did not do what the call did: the trace is of no use."""

    # ---- a call

    def call(self, f: Any, module: Any, forward: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`module.forward(...)`: the result, or the frame that gives it."""
        source = self.source_of(module, forward) if self.enabled and self.is_possible() else None
        if source is None:
            return call(f, forward, args, kwargs or None)
        recorder, kind = self.world.recorder, (type(module), forward.__func__)
        with torch._C.DisableTorchFunction():
            key = [*kind, recorder.flags.state, len(recorder.contexts.entered), *shapes(module)]
            try:
                given = Arguments(self.world, key, args, kwargs)
            except Unkeyable:
                return call(f, forward, args, kwargs or None)
            calls = self.calls.setdefault(tuple(key), [])
            for done in calls:
                found = self.found_for(done, module, source, given)
                if found is not None:
                    return self.replay(f, done, found, given)
        frame = call(f, forward, args, kwargs or None)
        is_plain = type(frame) is Frame and frame.instead is MISSING and frame.func is forward.__func__
        if is_plain and len(calls) < ALTERNATIVES and self.in_vain.get(kind, 0) < VAIN:
            self.follow(frame, module, source, given, calls)
        return frame

    def is_possible(self) -> bool:
        """Whether the trace is in a state in which what it does depends on nothing else than what is asked
        here: in others all calls are traced."""
        world = self.world
        recorder, inputs = world.recorder, world.inputs
        builder, subclasses = recorder.builder, recorder.subclasses
        if builder.symbols is not None or len(builder.bodies) > 1 or not self.written.are_plain(world):
            return False
        if world.machine.invokes or recorder.modes.active or inputs.dynamism.may_vary or inputs.numbers:
            return False
        odd = (
            *(world.containers.blind, world.iterators.opened, world.context_variables.before),
            *(world.runtime_calls.made, world.addresses.hashed, world.identity.nans, world.writes.calls),
            *(world.set_order.sources, world.set_order.disordered, subclasses.overriding, subclasses.others),
            *(subclasses.attributes, subclasses.disabled, recorder.wrappers.behind, recorder.indexing),
            *(builder.check_use, builder.only_ordinary, config.dynamic_sources, config.unbacked_sources),
            *(recorder.flags.operator_flags_set, recorder.reassignments.aliases),
        )
        return not any(odd)

    def source_of(self, module: Any, forward: Any) -> Source | None:
        """Where a module from outside is found, if its own code finds what is in there only through it."""
        if type(forward) is not MethodType or forward.__self__ is not module:
            return None
        if type(forward.__func__) is not FunctionType:
            return None
        view, known = self.world.attributes.views.get(id(module)), self.world.inputs.known.get(id(module))
        if view is None or known is None or known.source is not view.source:
            return None
        return view.source if self.is_found_by_itself(view.source) else None

    def is_found_by_itself(self, source: Source) -> bool:
        """An argument of the traced function is found by nobody else. What is in a variable of another kind
        may be; but who gets at a module that way has to read something of the object in that variable, which
        is noticed (`Tape.watched`)."""
        top = source
        while top.base is not None and not top.access.is_root and not is_variable(top):
            top = top.base
        if top.access is Access.ARG:
            return True
        found = self.tops.get(top)
        if found is None:
            views = self.world.attributes.views.values()
            found = self.tops[top] = any(view.source is top for view in views)
        return found and top is not source

    def follow(
        self, frame: Any, module: Any, source: Source, given: Arguments, calls: list[FollowedCall]
    ) -> None:
        """Keeps what the frame does until it returns."""
        if not has_plain_shadows(self.world):
            return
        self.world.machine.served = spoiling_handlers()
        done = FollowedCall(self.world, self.written, frame, module, source, given)
        tape, around = self.tape, list(source.path())[1:]
        tape.followed += 1
        for place in around:
            tape.watched[place] = tape.watched.get(place, 0) + 1

        def returned(value: Any) -> None:
            tape.followed -= 1
            for place in around:
                tape.watched[place] -= 1
                if not tape.watched[place]:
                    del tape.watched[place]
            with torch._C.DisableTorchFunction():
                if self.is_possible() and done.is_repeatable(value):
                    calls.append(done)
                else:
                    kind = type(module), frame.func
                    self.in_vain[kind] = self.in_vain.get(kind, 0) + 1
            if not tape.followed:
                tape.entries = []

        frame.instead = AtReturn(returned)

    # ---- replays

    def found_for(self, done: FollowedCall, module: Any, source: Source, given: Arguments) -> Found | None:
        """What is found in a module of what a call has found in another; None: it might do something else."""
        world = self.world
        if not done.is_collected:
            done.is_collected = True
            done.reads = reads_below(world, done.module, done.source)
        if done.reads is None or not done.is_written_as_then() or not done.is_around_unchanged():
            return None
        # where the program may handle an error, a call that may fail must not come after an effect
        if world.functions.handles_errors and world.recorder.has_lasting_effect():
            return None
        if given.are_parts_of(source):
            return None
        return done.reads.found_in(world, module, source)

    def replay(self, f: Any, done: FollowedCall, found: Found, given: Arguments) -> Any:
        world, reads = self.world, done.reads
        assert reads is not None
        instead: Substitutes = {id(a): b for a, b in zip(done.given.tensors, given.tensors, strict=True)}
        origins = Origins(world.places.activation(f), f.ip, done, found)
        try:
            reads.say(world, found, {done.called_from: users_place(world)})
            self.repeat(done.entries, reads, found, instead, origins)
        except (Break, TornTape) as error:
            self.failed = True
            if isinstance(error, Break):
                raise
            raise Break(breaks.UNRESUMABLE, f"a call that was replayed: {error}") from error
        finally:
            world.places.given = []
        world.places.latest = None
        world.functions.inlined_calls += done.inlined
        return self.result(done.result, instead, reads, found)

    def repeat(
        self,
        entries: list[Performed | OpenedInput],
        reads: Reads,
        found: Found,
        instead: Substitutes,
        origins: Origins,
    ) -> None:
        """Makes the torch calls once more, and inputs of the module's tensors."""
        known, places = self.world.inputs.known, self.world.places
        opened = {one.source for one in entries if isinstance(one, OpenedInput)}
        for source, n in reads.index.items():
            step = reads.steps[n]
            if step.is_opened and type(step.value) in TENSORS and source not in opened:
                instead[id(known[id(step.value)].opened)] = self.open(found, n)
        repetition = Repetition(self.world.recorder, instead)
        for one in entries:
            if isinstance(one, Performed):
                places.given = [origins.other(origin) for origin in reversed(one.origins)]
                repetition.repeat(one)
            elif one.source in reads.index:
                places.given = [origins.other(one.origin)]
                instead[id(one.fake)] = self.open(found, reads.index[one.source])
                places.given = []

    def open(self, found: Found, n: int) -> Any:
        """What stands for a tensor of the module."""
        value, source, inputs = found.values[n], found.sources[n], self.world.inputs
        known = inputs.known.get(id(value))
        return inputs.add_tensor(value, source) if known is None else known.opened

    def result(self, value: Any, instead: Substitutes, reads: Reads, found: Found) -> Any:
        cls = type(value)
        if cls is FakeTensor:
            return instead.get(id(value), value)
        if cls is tuple or cls is list:
            return cls([self.result(item, instead, reads, found) for item in value])
        if cls is dict:
            return {name: self.result(item, instead, reads, found) for name, item in value.items()}
        if cls is Pending:
            n = reads.index.get(value.source)
            return value if n is None else Pending(self.world.inputs, found.sources[n], found.values[n])
        view = self.world.attributes.views.get(id(value))
        n = None if view is None else reads.index.get(view.source)
        return value if n is None else found.values[n]


def shapes(module: Any) -> list[Any]:
    """Those of a module's own parameters: calls of modules that differ in these need not be compared. What is
    relied on is what the guards of a call say."""
    held = (own_dictionary(module) or {}).get("_parameters")
    if type(held) is not dict:
        return []
    return [value.shape if isinstance(value, torch.Tensor) else None for value in held.values()]


def is_variable(source: Source) -> bool:
    """Whether a source is a variable that functions share."""
    if source.access is Access.CELL or source.access is Access.CONTENTS:
        return True
    return source.base is not None and is_namespace(source.base)


class Origins:
    """Where the nodes of a replayed call come from."""

    def __init__(self, outer: Activation, at: int, done: FollowedCall, found: Found) -> None:
        """`outer` is what calls the module, at its instruction `at`."""
        self.found, self.reads = found, done.reads
        self.made: dict[int, Activation] = {}
        root = done.root
        if root is not None:
            module = self.module(root.module)
            made = Activation(outer, at, root.is_direct, root.code, root.is_users, module)
            self.made[id(root)] = made

    def module(self, called: CalledModule | None) -> CalledModule | None:
        assert self.reads is not None
        n = None if called is None or called.source is None else self.reads.index.get(called.source)
        if called is None or n is None:
            return called
        return called._replace(key=str(id(self.found.values[n])), source=self.found.sources[n])

    def activation(self, one: Activation) -> Activation:
        made = self.made.get(id(one))
        if made is None:
            outer = self.activation(one.outer) if one.outer is not None else None
            module = self.module(one.module)
            made = Activation(outer, one.called_at, one.is_direct, one.code, one.is_users, module)
            self.made[id(one)] = made
        return made

    def other(self, origin: Origin | None) -> Origin | None:
        if origin is None:
            return None
        made = Origin(self.activation(origin.activation), origin.at, origin.item)
        made.is_intermediate, made.annotation = origin.is_intermediate, origin.annotation
        return made
