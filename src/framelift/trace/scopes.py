"""Global names of the traced program, builtins and imports."""

from __future__ import annotations

import builtins
import sys
import types
from types import FunctionType
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import opened
from framelift.trace.part import Part
from framelift.trace.views import DELETED, View

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

IMPORTER = builtins.__import__


def is_imported(namespace: dict[str, Any], name: str) -> bool:
    return getattr(sys.modules.get(name), "__dict__", None) is namespace


def may_have(module: types.ModuleType, name: str) -> bool:
    """Whether a module has a name or has code to find it, which is not run here."""
    return name in vars(module) or "__getattr__" in vars(module) or hasattr(type(module), "__getattr__")


class Scopes(Part):
    """Namespaces, each seen through a view."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.views: dict[int, View] = {}
        """id of a globals dictionary -> its view."""

    def view(self, namespace: dict[str, Any], fn: FunctionType | None = None) -> View:
        view = self.views.get(id(namespace))
        if view is None:
            view = self.views[id(namespace)] = View(self.source(namespace, fn), namespace)
        return view

    def source(self, namespace: dict[str, Any], fn: FunctionType | None) -> Source:
        """A namespace that is only a function's is found there: held itself it would keep that alive."""
        inputs = self.world.inputs
        if namespace is self.world.frame.globals:
            return inputs.root.top
        name = namespace.get("__name__") or "globals"
        place = None if fn is None or is_imported(namespace, name) else self.world.functions.source(fn)
        return inputs.root.constant(namespace, name) if place is None else place.child(Access.SCOPE, name)

    def names(self, scope: dict[str, Any], fn: FunctionType | None = None) -> dict[str, Any]:
        return self.view(scope, fn).values

    @acts_for_program
    def load(self, scope: dict[str, Any], name: str) -> Any:
        view = self.view(scope)
        found = view.get(name)
        if found is MISSING:
            found = self.lookup(view, scope, name)
        if found is not DELETED:
            return found
        builtin = scope.get("__builtins__", builtins)
        namespace = builtin if isinstance(builtin, dict) else vars(builtin)
        if namespace is scope or name not in namespace:
            raise NameError(f"name '{name}' is not defined", name=name)
        found = self.load(namespace, name)
        if name not in view.written:
            view.values[name] = found
        return found

    def lookup(self, view: View, scope: dict[str, Any], name: str) -> Any:
        """A name of a namespace, now in the view; DELETED if it is not there, which is guarded."""
        if name not in scope:
            self.world.guards.add(view.source, Check.NO_KEY, name)
            return DELETED
        found = view.values[name] = self.world.guards.found(view.source.child(Access.KEY, name), scope[name])
        return found

    def store(self, scope: dict[str, Any], name: str, value: Any) -> None:
        self.view(scope).write(name, value)

    @acts_for_program
    def delete(self, scope: dict[str, Any], name: str) -> None:
        view = self.view(scope)
        found = view.get(name)
        if found is MISSING:
            found = self.lookup(view, scope, name)
        if found is DELETED:
            raise NameError(f"name '{name}' is not defined", name=name)
        view.write(name, DELETED)

    def as_value(self, scope: dict[str, Any]) -> Any:
        refuse(breaks.INTERNALS, "globals() as a value")

    def import_name(self, name: str, scope: Any, namespace: Any, from_list: Any, level: int) -> Any:
        full = name if not level else f"{scope.get('__package__') or ''}.{name}".rstrip(".")
        importer = opened(self.load(vars(builtins), "__import__"))
        if level > 1 or full not in sys.modules or importer is not IMPORTER:
            refuse(breaks.NEW_IMPORT, name or "relative import")
        top = full if from_list else full.partition(".")[0]
        if not isinstance(sys.modules[full], types.ModuleType):
            refuse(breaks.OPAQUE_OBJECT, f"what sys.modules has in the place of {full}")
        packaged = hasattr(sys.modules[full], "__path__")  # only of a package other modules are looked for
        for item in from_list or () if packaged else ():
            if item != "*" and not may_have(sys.modules[full], item) and f"{full}.{item}" not in sys.modules:
                refuse(breaks.NEW_IMPORT, f"{full}.{item}")
        source = self.world.inputs.root.constant(sys.modules, "sys.modules").child(Access.KEY, top)
        return self.world.inputs.load(sys.modules[top], source)
