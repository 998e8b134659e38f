"""The door: how an outside value becomes a real object that the trace may look at.

`load(value, source)` adds the weakest guard that lets the value be used at all, and gives the object
to use: a constant itself, guarded by value; a tensor's fake, now a graph input; a builtin
container's shadow; a function, class or module itself, guarded by identity; any other instance
itself, guarded by type, its attributes being read through a view. The same outside object met twice
is one object, and that it is the same is guarded too.
"""

from __future__ import annotations

import builtins
import collections
import sys
import weakref
from types import CellType, CodeType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks, policy
from framelift.core.breaks import Break, Place
from framelift.core.sentinels import MISSING
from framelift.graph.recorder import Recorder
from framelift.graph.symbols import Dim
from framelift.guards.guard import Check, ClassGuard, Guard
from framelift.guards.sources import Access, Root, Source
from framelift.interpreter.pending import Pending
from framelift.interpreter.world import RELIED_ON, PlainWorld, is_ours, is_watched, leave_unwatched
from framelift.trace import faults
from framelift.trace.dynamism import Dynamism
from framelift.trace.input_wrapping import IMMUTABLE_TYPE, is_hashed_oddly, open_opaque, opener_of
from framelift.trace.runtime_calls import Draws
from framelift.trace.shadows import Blind, Shadow
from framelift.trace.views import DELETED, View

MRO: Any = vars(type)["__mro__"]


def is_written_for(fn: FunctionType, cls: type) -> bool:
    """Whether the library has made a method for a class: for a dataclass from source text, or for a named
    tuple in a function of its own."""
    file = fn.__code__.co_filename
    return file == "<string>" or (
        file == collections.__file__ and fn.__qualname__.startswith(f"{cls.__name__}.")
    )


def is_imported(namespace: dict[str, Any], name: str) -> bool:
    return getattr(sys.modules.get(name), "__dict__", None) is namespace


def is_untraced(value: Any) -> bool:
    """An array of NumPy's that torch can't take, and that nothing stands for."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


leave_unwatched(torch.Tensor)  # may be large, and it is seldom a variable that keeps one alive


class Known:
    """An outside object that has been opened: what stands for it, and where it was found first."""

    __slots__ = ("opened", "source", "value")

    def __init__(self, value: Any, opened: Any, source: Source) -> None:
        self.value = value
        self.opened = opened
        self.source = source


class Door(PlainWorld):
    """What a trace knows of the outside."""

    @property
    def runs_finalisers(self) -> bool:  # type: ignore[override]
        """While the program runs; afterwards what the trace still has is only being thrown away."""
        machine = self.__dict__.get("machine")
        return machine is not None and machine.__dict__.get("frame") is not None

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.machine: Any = None
        """The interpreter, a layer above: where the program stands, and how the world calls its functions."""
        self.root = Root()
        self.guards: dict[Any, Guard] = {}
        self.class_guards: dict[tuple[type, str], ClassGuard] = {}
        self.found: dict[tuple[type, str], Any] = {}
        self.draws = Draws(self)
        self.arrays: Any = None
        """What is done with NumPy's."""
        self.dynamism = Dynamism(False)
        """Which sizes and numbers are symbols."""
        self.numbers: dict[Source, Any] = {}
        """Source of a number -> the symbol for it."""
        self.number_inputs: dict[torch.fx.Node, Source] = {}
        self.sighted: list[Source] = []
        """Names and keys that were found, whether or not what they hold was ever looked at."""
        self.known: dict[int, Known] = {}
        self.stand_ins: dict[int, Known] = {}
        """id of something that was made anew -> what it stands for."""
        self.shadows: dict[int, Shadow] = {}
        """id of a shadow -> its record."""
        self.blind: dict[int, Blind] = {}
        """id of an outside container -> what was added to it before anybody looked into it."""
        self.views: dict[int, View] = {}
        """id of an outside instance, module or class -> its view."""
        self.scopes: dict[int, View] = {}
        """id of a globals dictionary -> its view."""
        self.shadow_cells: dict[int, tuple[CellType, CellType, Any]] = {}
        """id of an outside cell -> (the cell, its shadow, what that held at first)."""
        self.exposed: set[type] = set()
        """Classes whose special methods C may have looked up: all of these are guarded."""
        self.inside_classes: set[type] = set()
        self.inside_functions: dict[int, FunctionType] = {}
        self.made_here: dict[int, Any] = {}
        """Other things that the trace has made, of kinds that are mostly from outside: memoising functions,
        modules, weak references."""
        self.memo: dict[Any, Any] = {}
        """What those from outside have given in the trace."""
        self.inlined: dict[int, FunctionType] = {}
        """Outside functions whose code the trace has followed."""
        self.inlined_calls = 0
        self.handles_errors = False
        """Whether any code that it has followed may do something about an error."""
        self.kept: list[Any] = []
        self.outside_sets: dict[int, Source] = {}
        self.disordered: set[int] = set()
        """Shadows of sets that may be iterated in another order than what they stand for."""
        self.fresh: set[Source] = set()
        """Arguments that CPython makes for each call (`*args`, `**kwargs`): they are nobody else's."""
        self.frame_globals: dict[str, Any] | None = None
        self.frame_function: FunctionType | None = None
        self.users: dict[int, bool] = {}
        """id of a globals dictionary -> whether it is the user's."""
        self.broken: Break | None = None
        self.operator_errors: dict[int, BaseException] = {}
        """Errors that came from operators on fakes: they are eager's but for what they say."""
        self.own_interrupts: dict[int, BaseException] = {}
        """Those KeyboardInterrupts that the program has raised itself."""
        self.catches_operator_errors = True
        """Whether the program may handle these; if not, the operators fail for real."""
        self.lost = False
        self.outermost: Any = None
        """The frame that is traced."""
        self.skips = False
        """Whether that one asks not to be captured (`skip_frame`)."""
        """Something could not be captured in a place that the program does not come to by itself."""

    # ---- guards

    def guard(self, source: Source, check: Check, expected: Any) -> None:
        if source.is_drawn or (type(expected) is Source and expected.is_drawn):
            return
        index = (source, check, expected if check in KEYED else None)
        if index not in self.guards:
            self.guards[index] = Guard(source, check, expected, self.place(), self.calling_place())

    def found_at(self, source: Source, value: Any) -> Pending:
        """The pending value of a name or key that was looked up."""
        self.sighted.append(source)
        return Pending(self, source, value)

    def guard_sighted(self, inputs: list[Source]) -> None:
        """That a lookup finds something is a fact too; most are implied by what was found there."""
        reached: set[Source | None] = {None}
        for source in [*inputs, *(guard.source for guard in self.guards.values())]:
            above: Source | None = source
            while above not in reached:
                reached.add(above)
                above = above.base  # type: ignore[union-attr]
        for source in self.sighted:
            if source not in reached:
                self.guard(source, Check.IS_NOT, MISSING)

    def place(self) -> Place | None:
        """Where the program stands."""
        frame = self.machine.frame if self.machine else None
        return None if frame is None else frame.place

    def calling_place(self) -> Place | None:
        """Where the user's code stands, while the program stands in a library's."""
        frame = self.machine.frame if self.machine else None
        if frame is None:
            return None
        place: Any = getattr(frame, "users_place", MISSING)  # not set before it is asked for
        if place is MISSING:
            above = frame
            while above is not None and not self.is_users(above.globals):
                above = above.back
            place = None if above is None or above is frame else above.place
            if frame.generator is None:  # its callers stay where they are as long as it runs
                frame.users_place = place
        return place

    def is_users(self, scope: dict[str, Any]) -> bool:
        found = self.users.get(id(scope))
        if found is None:
            found = self.users[id(scope)] = policy.is_user_code(scope.get("__name__") or "")
        return found

    def stack(self) -> list[Place]:
        """Where the program stands, with its callers, outermost first."""
        places = []
        frame = self.machine.frame if self.machine else None
        while frame is not None:
            places.append(frame.place)
            frame = frame.back
        return places[::-1]

    def plain_attribute(self, cls: type, name: str) -> Any:
        """What a class says of a name, not guarded: for classes that can't change."""
        return super().class_attribute(cls, name)

    def invoke(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls something as the traced program would; what it gives may be pending."""
        return self.machine.invoke(fn, args, kwargs)

    def class_attribute(self, cls: type, name: str) -> Any:
        index = (cls, name)
        found = self.found.get(index, DELETED)
        if found is DELETED:
            found = super().class_attribute(cls, name)
            if cls in self.inside_classes:
                self.guard_inherited(cls, name)
                return found  # not kept: the program that made the class may change it
            self.found[index] = found
            if not cls.__flags__ & IMMUTABLE_TYPE and not is_ours(cls):
                self.class_guards[index] = ClassGuard(cls, name, found)
        return found

    def guard_inherited(self, cls: type, name: str) -> None:
        """A class that the trace has made may find a name, or not, in its bases from outside."""
        for base in cls.__mro__:
            if base not in self.inside_classes:
                self.class_attribute(base, name)
            if name in base.__dict__:
                break

    # ---- opening

    def load(self, value: Any, source: Source) -> Any:
        known = self.known.get(id(value))
        if known is not None:
            if known.source is not source:
                self.guard(source, Check.SAME_AS, known.source)
            return known.opened
        return opener_of(type(value))(self, value, source)

    def know(self, value: Any, opened: Any, source: Source) -> Any:
        self.known[id(value)] = Known(value, opened, source)
        return opened

    def stand_in(self, value: Any, made: Any, source: Source) -> Any:
        """Something that can't change, made anew of what stands for its parts: at run time it is `value`."""
        self.stand_ins[id(made)] = Known(value, made, source)
        return self.know(value, made, source)

    # ---- symbols

    def symbolic_number(self, value: int | float, source: Source) -> Any:
        found = self.numbers.get(source)
        if found is None:
            self.guard(source, Check.TYPE, type(value))
            found = self.numbers[source] = self.recorder.number(value)
            self.number_inputs[self.recorder.inputs[-1][0]] = source
        return found

    def dims_of(self, source: Source, tensor: torch.Tensor) -> dict[int, Dim]:
        """The dimensions of a tensor that are symbols."""
        return {} if source.access is Access.CONST else self.dynamism.dims(source, tensor)

    def input_source(self, node: torch.fx.Node, value: Any) -> Source:
        """Where an input of the graph is found."""
        number = self.number_inputs.get(node)
        if number is not None:
            return number
        if id(value) not in self.known:  # a plain tensor that shares the data of one with a class of its own
            value = next(tensor for known, tensor, _ in self.recorder.inputs if known is node)
        return self.known[id(value)].source

    def is_inside(self, value: Any) -> bool:
        """Whether a function, class or module was made by the trace."""
        if issubclass(type(value), type):
            return value in self.inside_classes
        return id(value) in self.inside_functions or id(value) in self.made_here

    def keep_made(self, value: Any) -> Any:
        self.made_here[id(value)] = value
        return value

    def know_class(self, cls: type) -> None:
        """A class that the trace has made."""
        if is_hashed_oddly(type(cls)):
            self.refuse(breaks.OPAQUE_OBJECT, f"a class that {type(cls).__qualname__} hashes or compares")
        self.inside_classes.add(cls)

    def made_class(self, cls: Any) -> Any:
        """A class of the trace's, with all that was made for it."""
        self.know_class(cls)
        for value in vars(cls).values():
            fn = value.__func__ if type(value) in (staticmethod, classmethod) else value
            functions = [f for f in (fn, getattr(fn, "__wrapped__", None)) if type(f) is FunctionType]
            if functions and is_written_for(functions[-1], cls):
                for made in functions:
                    self.made_function(made)
        return cls

    def refuse_disorder(self, value: Any) -> None:
        """Before an operation whose result depends on the order of a set."""
        if id(value) in self.disordered:
            self.refuse(breaks.SET_ORDER, f"{self.outside_sets[id(value)]}")

    def is_opaque(self, value: Any) -> bool:
        """An outside object with state that only C sees."""
        return id(value) in self.known and (opener_of(type(value)) is open_opaque or is_untraced(value))

    def source_of(self, value: Any) -> Source | None:
        """Where an object that is not pending can be found at run time, if it is from outside."""
        shadow = self.shadows.get(id(value))
        if shadow is not None:
            return shadow.source
        view = self.views.get(id(value))
        if view is not None and not issubclass(type(value), ModuleType):
            return view.source
        known = self.known.get(id(value)) or self.stand_ins.get(id(value))
        if known is not None:
            return known.source
        if issubclass(type(value), (type, FunctionType)):
            # found on the way: through a class, say
            return None if self.is_inside(value) else self.root.constant(value, value.__qualname__)
        return None

    def guard_bases(self, cls: type) -> None:
        """What a class is derived from, in order: `isinstance` and `super` go by that."""
        if not cls.__flags__ & IMMUTABLE_TYPE and cls not in self.inside_classes and not is_ours(cls):
            self.class_guards[cls, "mro()"] = ClassGuard(cls, "mro()", MRO.__get__(cls))

    def fixed(self, value: Any, source: Source) -> Any:
        """A key or set member: its identity or value is fixed by the guard on its container. It is hashed by
        what it holds, so nothing in there may be pending."""
        return self.for_c(self.load(value, self.root.constant(value, f"<key of {source}>")))

    def refuse(self, reason: breaks.Reason, context: str) -> Any:
        raise Break(reason, context)

    def creating(self, cls: type) -> None:
        if cls.__flags__ & IMMUTABLE_TYPE:
            return
        for name in ("__new__", "__init__"):
            self.class_attribute(cls, name)
        if self.class_attribute(cls, "__del__") is not MISSING:
            self.refuse(breaks.FINALISER, cls.__qualname__)

    def dropping(self, value: Any) -> None:
        if issubclass(type(value.value), GeneratorType) and value.value.gi_suspended:
            self.refuse(breaks.FINALISER, "a generator that is left in the middle")

    def raising(self, error: BaseException) -> None:
        if id(error) in self.known:
            self.refuse(breaks.OUTSIDE_EXCEPTION, type(error).__qualname__)
        if isinstance(error, KeyboardInterrupt):
            self.own_interrupts[id(error)] = error

    def may_be_missed(self, value: Any, stack: list[Any]) -> bool:
        """Whether a weak reference may be left to it, or a part that is in its memory. What would have to be
        made again is not worth it."""
        if type(value) is Pending:
            return is_watched(type(value.value)) or issubclass(type(value.value), RELIED_ON)
        if self.is_opaque(value) and issubclass(type(value), RELIED_ON):
            return True
        if not is_watched(type(value)):
            return False
        return weakref.getweakrefcount(value) > 0 or any(item is value for item in stack)

    def catchable(self, error: BaseException) -> bool:
        if isinstance(error, Break) and self.broken is None:
            self.broken = error
            error.stack = error.stack or self.stack()
        elif self.broken is None and faults.is_own(error):
            self.broken = faults.as_break(error)
            self.broken.stack = self.stack()
        if self.broken is not None:
            return False
        if came_through(error.__traceback__, OPERATING) or tells_of_fakes(error):
            self.operator_errors[id(error)] = error
        return not self.is_users_interrupt(error)

    def is_users_interrupt(self, error: BaseException) -> bool:
        """Whether it came from the keyboard: a KeyboardInterrupt that the program raises is its own."""
        return isinstance(error, KeyboardInterrupt) and id(error) not in self.own_interrupts

    def catching(self, error: BaseException) -> None:
        if not self.catches_operator_errors:
            self.looking_at(error)

    def looking_at(self, error: BaseException) -> None:
        """Before anything but the class of an error is looked at."""
        if id(error) in self.operator_errors:
            self.refuse(breaks.OPERATOR_ERROR, type(error).__qualname__)

    def finalise(self, generator: Any) -> None:
        try:
            generator.close()
        except BaseException as error:
            self.lost = True  # from here an exception goes nowhere
            self.broken = self.broken or Break(
                breaks.EFFECT, f"{type(error).__name__} in the end of a generator"
            )

    # ---- names

    def scope(self, namespace: dict[str, Any], fn: FunctionType | None = None) -> View:
        view = self.scopes.get(id(namespace))
        if view is None:
            view = self.scopes[id(namespace)] = View(self.scope_source(namespace, fn), namespace)
        return view

    def scope_source(self, namespace: dict[str, Any], fn: FunctionType | None) -> Source:
        """A namespace that is only a function's is found there: held itself it would keep that alive."""
        if namespace is self.frame_globals:
            return self.root.top
        name = namespace.get("__name__") or "globals"
        place = None if fn is None or is_imported(namespace, name) else self.function_source(fn)
        return self.root.constant(namespace, name) if place is None else place.child(Access.SCOPE, name)

    def names(self, scope: dict[str, Any], fn: FunctionType | None = None) -> dict[str, Any]:
        return self.scope(scope, fn).values

    def load_global(self, scope: dict[str, Any], name: str) -> Any:
        view = self.scope(scope)
        found = view.get(name)
        if found is MISSING:
            found = self.from_scope(view, scope, name)
        if found is not DELETED:
            return found
        builtin = scope.get("__builtins__", builtins)
        namespace = builtin if isinstance(builtin, dict) else vars(builtin)
        if namespace is scope or name not in namespace:
            raise NameError(f"name '{name}' is not defined", name=name)
        found = self.load_global(namespace, name)
        if name not in view.written:
            view.values[name] = found
        return found

    def from_scope(self, view: View, scope: dict[str, Any], name: str) -> Any:
        """A name of a namespace, now in the view; DELETED if it is not there, which is guarded."""
        if name not in scope:
            self.guard(view.source, Check.NO_KEY, name)
            return DELETED
        found = view.values[name] = self.found_at(view.source.child(Access.KEY, name), scope[name])
        return found

    def store_global(self, scope: dict[str, Any], name: str, value: Any) -> None:
        self.scope(scope).write(name, value)

    def delete_global(self, scope: dict[str, Any], name: str) -> None:
        view = self.scope(scope)
        found = view.get(name)
        if found is MISSING:
            found = self.from_scope(view, scope, name)
        if found is DELETED:
            raise NameError(f"name '{name}' is not defined", name=name)
        view.write(name, DELETED)

    def globals_value(self, scope: dict[str, Any]) -> Any:
        return self.refuse(breaks.INTERNAL, "globals() as a value")

    # ---- cells and defaults of functions

    def function_source(self, fn: FunctionType) -> Source | None:
        """Where an outside function is found; None for one made by the trace."""
        if fn is self.frame_function:
            return self.root.function(fn.__name__)
        if id(fn) in self.inside_functions:
            return None
        known = self.known.get(id(fn))
        return self.root.constant(fn, fn.__qualname__) if known is None else known.source

    def made_function(self, fn: FunctionType) -> None:
        self.inside_functions[id(fn)] = fn

    def made_inside(self, fn: FunctionType) -> bool:
        return id(fn) in self.inside_functions or (self.is_made_anew(fn) and fn is not self.frame_function)

    def entered(self, fn: FunctionType) -> None:
        self.inlined_calls += 1
        self.handles_errors = self.handles_errors or bool(fn.__code__.co_exceptiontable)
        if id(fn) not in self.inside_functions and not self.is_made_anew(fn):
            self.inlined[id(fn)] = fn

    def is_made_anew(self, fn: FunctionType) -> bool:
        """An outside function that is guarded by what it is made of, not by being that very one."""
        known = self.known.get(id(fn))
        return known is not None and known.source.access is not Access.CONST

    def cells(self, fn: FunctionType) -> tuple[CellType, ...]:
        cells = fn.__closure__ or ()
        source = self.function_source(fn)
        if source is None:
            return cells
        fixed = source.root.access is Access.CONST
        return tuple([self.shadow_cell(fn, source, n, cell, fixed) for n, cell in enumerate(cells)])

    def shadow_cell(self, fn: FunctionType, source: Source, n: int, cell: CellType, fixed: bool) -> CellType:
        """What stands for a cell of a function's; `fixed`: the function is always the same one."""
        made = self.shadow_cells.get(id(cell))
        if made is not None and fixed and self.known[id(made[1])].source.root.access is Access.CONST:
            return made[1]
        contents = source.child(Access.CELL, (n, fn.__code__.co_freevars[n]))
        return self.outside_cell(cell, source.child(Access.CELL_OBJECT, n), contents)

    def outside_cell(self, cell: CellType, source: Source, contents: Source) -> CellType:
        made = self.shadow_cells.get(id(cell))
        if made is None:
            try:
                value: Any = self.found_at(contents, cell.cell_contents)
                shadow = CellType(value)
            except ValueError:
                self.guard(source, Check.EMPTY_CELL, None)
                value, shadow = MISSING, CellType()
            self.shadow_cells[id(cell)] = (cell, shadow, value)
            self.know(shadow, shadow, source)
            return shadow
        first = self.known[id(made[1])].source
        if first is not source and not first.root.access is source.root.access is Access.CONST:
            self.guard(source, Check.SAME_AS, first)
        return made[1]

    def defaults_of(self, fn: FunctionType, bound: list[Any]) -> list[Any]:
        """An argument that is a default of an outside function is pending, with that as its source."""
        defaults, keywords = fn.__defaults__, fn.__kwdefaults__
        if not (defaults or keywords):
            return bound
        source = self.function_source(fn)
        if source is None:
            return bound
        code = fn.__code__
        if defaults:
            first = code.co_argcount - len(defaults)
            for n, default in enumerate(defaults):
                if bound[first + n] is default:
                    bound[first + n] = Pending(self, source.child(Access.DEFAULT, n), default)
                    # which parameter a default belongs to is counted from the end
                    self.guard(source.child(Access.NATIVE_ATTR, "__defaults__"), Check.LEN, len(defaults))
        if keywords:
            for n in range(code.co_argcount, code.co_argcount + code.co_kwonlyargcount):
                name = code.co_varnames[n]
                if name in keywords and bound[n] is keywords[name]:
                    bound[n] = Pending(self, source.child(Access.KWDEFAULT, name), keywords[name])
        return bound


def tells_of_fakes(error: BaseException) -> bool:
    """Whether C names the class of what stands for a tensor, as it does where it can't add two things."""
    return any(type(arg) is str and FakeTensor.__name__ in arg for arg in error.args)


def came_through(traceback: TracebackType | None, codes: frozenset[CodeType]) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


OPERATING = frozenset({Recorder.call.__code__, Recorder.__torch_function__.__code__})
"""What an operator on fakes is called by."""

KEYED = frozenset({Check.NO_KEY, Check.NO_ATTR, Check.NO_SLOT, Check.SAME_AS, Check.NOT_SAME_AS})
"""Checks of which one source may have several."""
