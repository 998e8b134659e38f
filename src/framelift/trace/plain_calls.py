"""Calls of modules that do nothing but call the `forward` of their class.

`module(x)` is `module.forward(x)` where a module has no hooks and no attribute of its own in the place of a
method: one guard says so (`Check.CALLS_FORWARD`), in place of one for each attribute. A module of which the
program has looked at any of these attributes is left to who serves calls of modules.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import torch

from framelift.core.sentinels import MISSING
from framelift.guards.kinds import HOOKS, OWN_WAYS, Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.trace.part import Part
from framelift.trace.shadows import View, own_dictionary

LOOKED_AT = frozenset({*HOOKS, *OWN_WAYS})
GLOBAL_HOOKS = tuple(f"_global{name}" for name in HOOKS)
SCOPE: dict[str, Any] = vars(torch.nn.modules.module)


def calls_forward(module: Any) -> bool:
    """What the guard says."""
    own = own_dictionary(module)
    return own is not None and has_no_hooks(own)


def has_no_hooks(own: Mapping[str, Any], *looked_at: Mapping[int, Any]) -> bool:
    """Whether a module with these attributes has no hooks, and no method of its own. `looked_at`: by id, what
    may have changed since."""
    for name in HOOKS:
        hooks = own.get(name)
        if type(hooks) is not collections.OrderedDict or hooks:
            return False
        for known in looked_at:
            if id(hooks) in known:
                return False
    return not any([name in own for name in OWN_WAYS])


class PlainCalls(Part):
    def start(self) -> None:
        self.modules: dict[Source, Any] = {}
        """Modules of which it is guarded that calling them is calling `forward`."""
        self.forwards: dict[type, FunctionType | None] = {}
        """Class -> its `forward`, if that is what calls of its instances run; None: they may run more."""
        self.without_hooks: tuple[int, list[Pending]] | None = None
        """When there were no hooks for all modules, as `View.writes` counts it, and where they would be."""

    def forward_of(self, view: View, module: Any) -> FunctionType | None:
        """What a call of a module from outside runs, guarded; None: that has to be found out step by step."""
        forward = self.forward_of_class(type(module))
        if forward is None or not self.is_unseen(view, module) or self.has_global_hooks():
            return None
        tape = self.world.recorder.builder.tape
        if tape.watched and view.source in tape.watched:
            tape.spoil(view.source)
        self.modules[view.source] = module
        self.world.guards.add(view.source, Check.CALLS_FORWARD, None)
        return forward

    def forward_of_class(self, cls: type) -> FunctionType | None:
        classes = self.world.classes
        if classes.views:  # the program sets attributes of classes
            return None
        if cls not in self.forwards:
            self.forwards[cls] = self.find_forward(cls)
        return self.forwards[cls]

    def find_forward(self, cls: type) -> FunctionType | None:
        attribute = self.world.classes.attribute
        if type(attribute(cls, "__getattribute__")) is FunctionType:
            return None
        if attribute(cls, "_compiled_call_impl") is not None:
            return None
        if attribute(cls, "_call_impl") is not torch.nn.Module._call_impl:
            return None
        forward = attribute(cls, "forward")
        return forward if type(forward) is FunctionType else None

    def is_unseen(self, view: View, module: Any) -> bool:
        """Whether the module is as it was when the trace began, and calls its class's `forward`."""
        if view.complete or not LOOKED_AT.isdisjoint(view.values) or not LOOKED_AT.isdisjoint(view.written):
            return False
        return self.has_unseen_hooks(module)

    def has_unseen_hooks(self, module: Any) -> bool:
        """The same, if it has been looked at by its names only."""
        own, known = own_dictionary(module), self.world.inputs.known
        if own is None or id(own) in known:
            return False
        return has_no_hooks(own, known, self.world.containers.blind)

    def has_global_hooks(self) -> bool:
        """Whether there are hooks for all modules, or somebody has looked for them."""
        if self.without_hooks is not None:
            writes, places = self.without_hooks
            if writes == View.writes and all([self.is_untouched(place) for place in places]):
                return False
        world = self.world
        names = world.scopes.names(SCOPE)
        places = [names.get(name) or world.scopes.load(SCOPE, name) for name in GLOBAL_HOOKS]
        if not all([self.is_untouched(place) for place in places]) or any(map(world.operators.truth, places)):
            return True
        self.without_hooks = View.writes, places
        return False

    def is_untouched(self, place: Any) -> bool:
        """Whether nobody has looked into a dictionary of hooks."""
        if type(place) is not Pending or place.opened is not MISSING:
            return False
        key = id(place.value)
        return key not in self.world.inputs.known and key not in self.world.containers.blind

    def hooks(self) -> Iterator[tuple[Source, Any]]:
        """The dictionaries of hooks of which it is guarded that they are empty, and where they are found."""
        for source, module in self.modules.items():
            own: Any = own_dictionary(module)
            for name in HOOKS:
                yield source.child(Access.ATTR, name), own[name]
