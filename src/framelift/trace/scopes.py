"""Names of the traced program: globals, builtins and imports; functions with their cells and defaults."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import sysconfig
import types
from types import CellType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.graph.front_end import load_symbolic_shapes
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import Pending, opened, unchanged
from framelift.trace.part import Part
from framelift.trace.shadows import DELETED, View

IMPORTER = builtins.__import__


def is_imported(namespace: dict[str, Any], name: str) -> bool:
    return getattr(sys.modules.get(name), "__dict__", None) is namespace


def may_have(module: types.ModuleType, name: str) -> bool:
    """Whether a module has a name or has code to find it, which is not run here."""
    return name in vars(module) or "__getattr__" in vars(module) or hasattr(type(module), "__getattr__")


INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
"""Where packages are installed."""
TALKING = frozenset({"this", "antigravity", "__main__", "__hello__", "__phello__", "idlelib"})
"""Modules of the standard library that do something when they are imported."""
_missing: set[str] = set()
"""Modules that could not be imported."""


def comes_with_a_library(name: str) -> bool:
    """Whether a module is one of the standard library or of an installed package, of which nobody notices
    when it is imported for the first time."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return top not in TALKING
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and (spec.origin or "").startswith(INSTALLED)


def import_ahead(name: str) -> None:
    with contextlib.suppress(Exception):  # which the program is to see where it imports the module
        importlib.import_module(name)
    if name not in sys.modules:
        _missing.add(name)


class Scopes(Part):
    """Namespaces, each seen through a view."""

    def start(self) -> None:
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
        self.world.writes.refuse_changed_dictionary(view, scope)
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
        if full not in sys.modules:
            load_symbolic_shapes()  # of which torch's Python imports something here and there
        if full not in sys.modules and level <= 1 and importer is IMPORTER:
            self.prepare_import(full)
        if level > 1 or full not in sys.modules or importer is not IMPORTER:
            refuse(breaks.NEW_IMPORT, name or "relative import")
        top = full if from_list else full.partition(".")[0]
        if not isinstance(sys.modules[full], types.ModuleType):
            refuse(breaks.OPAQUE_OBJECT, f"what sys.modules has in the place of {full}")
        packaged = hasattr(sys.modules[full], "__path__")  # only of a package other modules are looked for
        for item in from_list or () if packaged else ():
            if item != "*" and not may_have(sys.modules[full], item) and f"{full}.{item}" not in sys.modules:
                self.prepare_import(f"{full}.{item}")
                refuse(breaks.NEW_IMPORT, f"{full}.{item}")
        source = self.world.inputs.root.constant(sys.modules, "sys.modules").child(Access.KEY, top)
        return self.world.inputs.load(sys.modules[top], source)

    def prepare_import(self, name: str) -> None:
        """A module of a library's is imported for real, and the frame then traced once more."""
        if name not in _missing and comes_with_a_library(name):
            self.world.frame.preparation = functools.partial(import_ahead, name)


# ---- functions: cells, defaults and attributes


CODE_OF_FUNCTIONS = frozenset({"__closure__", "__globals__", "__builtins__"})

CONSTANTS = op_memory.ATOMS | {bytes}


class Functions(Part):
    """Functions from outside and inside, with what they hold."""

    def start(self) -> None:
        self.inside: dict[int, FunctionType] = {}
        """Functions that the program has made."""
        self.inlined: dict[int, FunctionType] = {}
        """Outside functions whose code the trace has followed."""
        self.inlined_calls = 0
        self.handles_errors = False
        """Whether any code that it has followed may do something about an error."""
        self.shadow_cells: dict[int, tuple[CellType, CellType, Any]] = {}
        """id of an outside cell -> (the cell, its shadow, what that held at first)."""

    def made(self, fn: FunctionType) -> None:
        self.inside[id(fn)] = fn

    def is_made_inside(self, fn: FunctionType) -> bool:
        return id(fn) in self.inside or (self.is_made_anew(fn) and fn is not self.world.frame.function)

    def entered(self, fn: FunctionType) -> None:
        self.inlined_calls += 1
        self.handles_errors = self.handles_errors or bool(fn.__code__.co_exceptiontable)
        if id(fn) not in self.inside and not self.is_made_anew(fn):
            self.inlined[id(fn)] = fn

    def is_made_anew(self, fn: FunctionType) -> bool:
        """An outside function that is guarded by what it is made of, not by being that very one."""
        known = self.world.inputs.known.get(id(fn))
        return known is not None and known.source.access is not Access.CONST

    def source(self, fn: FunctionType) -> Source | None:
        """Where an outside function is found; None for one made by the trace."""
        if fn is self.world.frame.function:
            return self.world.inputs.root.function(fn.__name__)
        if id(fn) in self.inside:
            return None
        known = self.world.inputs.known.get(id(fn))
        return self.world.inputs.root.constant(fn, fn.__qualname__) if known is None else known.source

    def cells(self, fn: FunctionType) -> tuple[CellType, ...]:
        cells = fn.__closure__ or ()
        source = self.source(fn)
        if source is None:
            return cells
        fixed = source.root.access is Access.CONST
        return tuple([self.shadow_cell(fn, source, n, cell, fixed) for n, cell in enumerate(cells)])

    def shadow_cell(self, fn: FunctionType, source: Source, n: int, cell: CellType, fixed: bool) -> CellType:
        """What stands for a cell of a function's; `fixed`: the function is always the same one."""
        made = self.shadow_cells.get(id(cell))
        if (
            made is not None
            and fixed
            and self.world.inputs.known[id(made[1])].source.root.access is Access.CONST
        ):
            return made[1]
        contents = source.child(Access.CELL, (n, fn.__code__.co_freevars[n]))
        return self.outside_cell(cell, source.child(Access.CELL_OBJECT, n), contents)

    def outside_cell(self, cell: CellType, source: Source, contents: Source) -> CellType:
        made = self.shadow_cells.get(id(cell))
        if made is None:
            try:
                value: Any = self.world.guards.found(contents, cell.cell_contents)
                shadow = CellType(value)
            except ValueError:
                self.world.guards.add(source, Check.EMPTY_CELL, None)
                value, shadow = MISSING, CellType()
            self.shadow_cells[id(cell)] = (cell, shadow, value)
            self.world.inputs.know(shadow, shadow, source)
            return shadow
        first = self.world.inputs.known[id(made[1])].source
        if first is not source and not first.root.access is source.root.access is Access.CONST:
            self.world.guards.add(source, Check.SAME_AS, first)
        return made[1]

    def cell_source(self, cell: CellType) -> Source:
        return self.world.inputs.known[id(self.shadow_cells[id(cell)][1])].source

    def changed_cells(self) -> list[tuple[CellType, Any]]:
        cells = []
        for cell, shadow, before in self.shadow_cells.values():
            now = contents_of(shadow)
            # a pending value that nobody has opened holds MISSING too
            emptied = now is MISSING and before is not MISSING
            if emptied or not unchanged(now, before):
                cells.append((cell, now))
        return cells

    def defaults(self, fn: FunctionType, bound: list[Any]) -> list[Any]:
        """An argument that is a default of an outside function is pending, with that as its source."""
        defaults, keywords = fn.__defaults__, fn.__kwdefaults__
        if not (defaults or keywords):
            return bound
        source = self.source(fn)
        if source is None:
            return bound
        code = fn.__code__
        world = self.world
        if defaults:
            first = code.co_argcount - len(defaults)
            for n, default in enumerate(defaults):
                if bound[first + n] is default:
                    bound[first + n] = Pending(world.inputs, source.child(Access.DEFAULT, n), default)
                    # which parameter a default belongs to is counted from the end
                    world.guards.add(
                        source.child(Access.NATIVE_ATTR, "__defaults__"), Check.LEN, len(defaults)
                    )
        if keywords:
            for n in range(code.co_argcount, code.co_argcount + code.co_kwonlyargcount):
                name = code.co_varnames[n]
                if name in keywords and bound[n] is keywords[name]:
                    bound[n] = Pending(world.inputs, source.child(Access.KWDEFAULT, name), keywords[name])
        return bound

    @acts_for_program
    def attribute(self, fn: FunctionType, name: str) -> Any:
        inputs, guards = self.world.inputs, self.world.guards
        made_anew = self.is_made_anew(fn)
        if name in CODE_OF_FUNCTIONS:
            refuse(breaks.INTERNALS, f"{name} of an outside function")
        if type(vars(FunctionType).get(name)) in (GetSetDescriptorType, MemberDescriptorType):
            value = getattr(fn, name)
            if name == "__dict__" and not made_anew:
                return Pending(inputs, inputs.root.constant(value, f"{fn.__qualname__}.__dict__"), value)
            own = inputs.known[id(fn)].source if made_anew else inputs.root.constant(fn, fn.__qualname__)
            return Pending(inputs, own.child(Access.NATIVE_ATTR, name), value)
        if class_attribute(FunctionType, name) is not MISSING:
            if made_anew:
                guards.add(inputs.known[id(fn)].source, Check.IS, fn)
            return getattr(fn, name)
        whole = inputs.known.get(id(vars(fn)))
        if whole is not None and name in whole.opened:  # the program may have written to its `__dict__`
            return whole.opened[name]
        own = inputs.known[id(fn)].source if made_anew else inputs.root.constant(vars(fn), fn.__qualname__)
        if name in vars(fn) and whole is None:
            return guards.found(own.child(Access.ATTR if made_anew else Access.KEY, name), vars(fn)[name])
        guards.add(own, Check.NO_ATTR if made_anew else Check.NO_KEY, name)
        raise AttributeError(f"'function' object has no attribute '{name}'", name=name, obj=fn)

    def fixed_signature(self, fn: FunctionType) -> bool:
        """Whether all that `inspect.signature` reads of a function is constant; if so it is guarded."""
        defaults = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
        if id(fn) in self.inside or not all(type(value) in CONSTANTS for value in defaults):
            return False
        if self.is_made_anew(fn):
            self.world.guards.add(self.world.inputs.known[id(fn)].source, Check.IS, fn)
        if "__wrapped__" in vars(fn) or "__signature__" in vars(fn):
            return False
        own = self.world.inputs.root.constant(vars(fn), fn.__qualname__)
        for name in ("__wrapped__", "__signature__"):
            self.world.guards.add(own, Check.NO_KEY, name)
        place = self.world.inputs.root.constant(fn, fn.__qualname__)
        for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__code__"):
            self.world.guards.add(place.child(Access.NATIVE_ATTR, name), Check.IS, getattr(fn, name))
        return True


def contents_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
