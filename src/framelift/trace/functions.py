"""Functions: which the trace has made, which it has followed, their cells and defaults."""

from __future__ import annotations

from types import CellType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

CODE_OF_FUNCTIONS = frozenset({"__closure__", "__globals__", "__builtins__"})

CONSTANTS = op_memory.ATOMS | {bytes}


class Functions(Part):
    """Functions from outside and inside, with what they hold."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
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
        inputs = self.world.inputs
        if self.is_made_anew(fn):
            self.world.guards.add(inputs.known[id(fn)].source, Check.IS, fn)
        if name in CODE_OF_FUNCTIONS:
            refuse(breaks.INTERNALS, f"{name} of an outside function")
        if class_attribute(FunctionType, name) is not MISSING:
            value = getattr(fn, name)
            if name == "__dict__":
                return Pending(inputs, inputs.root.constant(value, f"{fn.__qualname__}.__dict__"), value)
            if type(vars(FunctionType).get(name)) in (GetSetDescriptorType, MemberDescriptorType):
                return Pending(
                    inputs, inputs.root.constant(fn, fn.__qualname__).child(Access.NATIVE_ATTR, name), value
                )
            return value
        own = inputs.root.constant(vars(fn), f"{fn.__qualname__}")
        if name in vars(fn):
            return self.world.guards.found(own.child(Access.KEY, name), vars(fn)[name])
        self.world.guards.add(own, Check.NO_KEY, name)
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
