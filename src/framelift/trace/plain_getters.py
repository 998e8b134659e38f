"""Classes' own `__getattribute__`, run once for each attribute that they find by only looking.

Configurations of large models give some attributes other names, or look whether there is one for each layer,
in a `__getattribute__` that is run for each of the dozens of attributes that a layer reads. What such a
function finds stays the same as long as the trace writes to nothing that it has looked at, and the guards on
that are there already.

Whether one does nothing but look is seen as it runs: every instruction is looked at, and may work on strings,
numbers, None, dictionaries of strings and the object itself, and call `object.__getattribute__` and functions
that do the same (`Run.check`). Any doubt: it is run each time.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, MethodWrapperType
from typing import Any, NamedTuple

from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING, NULL, Sentinel
from framelift.interpreter.frame import Frame
from framelift.interpreter.pending import Pending, opened, unchanged
from framelift.trace.part import Part
from framelift.trace.shadows import View

ABSENT = Sentinel("ABSENT")
"""What is found where there is no attribute."""

ATOMS = frozenset({str, int, float, bool, type(None)})
CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
MADE_EACH_TIME = frozenset({MethodType, MethodWrapperType, BuiltinFunctionType, super})
"""Types of results that are another object at each call."""
PLAIN_FLAGS = 0x2A0
"""The flags of code objects of generators and their kin."""

Table = tuple[Any, Any, Any]
"""A container from outside, what stands for it, and what that held. None, None: nobody has looked into it."""


class Run:
    """One run of a `__getattribute__`: whether it only looks, and what at."""

    def __init__(self, getters: PlainGetters, obj: Any) -> None:
        self.world, self.obj = getters.world, obj
        self.is_doubtful = False
        self.absent: str | None = None
        """The name that `object.__getattribute__` has found nothing under."""
        self.tables: dict[int, Table] = {}
        self.cells: dict[int, tuple[CellType, Any]] = {}
        """Those that functions find variables of others in, and what was in there."""

    def check(self, frame: Frame) -> None:
        """Looks at the instruction that the frame is about to do."""
        if self.is_doubtful:
            return
        name = frame.code.instructions[frame.ip].opname
        if name not in ALWAYS:
            check = CHECKS.get(name)
            if check is None or not check(self, frame):
                self.is_doubtful = True

    def is_table(self, value: Any) -> bool:
        """Whether something is a container of strings and the like, which is noted."""
        raw = raw_of(value)
        if type(raw) not in CONTAINERS:
            return False
        if any([type(raw_of(each)) not in ATOMS for each in raw]):
            return False
        if id(raw) not in self.tables and type(raw) is not tuple:
            known = self.world.inputs.known.get(id(raw))
            stands = raw if type(value) is not Pending else None if known is None else known.opened
            self.tables[id(raw)] = raw, stands, held_in(stands)
        return True

    def enters(self, frame: Frame) -> bool:
        if id(frame.func) in self.world.functions.inside:
            return False
        shadows = self.world.functions.shadow_cells
        for cell in frame.func.__closure__ or ():
            stands = shadows[id(cell)][1] if id(cell) in shadows else cell
            self.cells[id(cell)] = stands, contents(stands)
        return True

    def takes_attribute(self, frame: Frame) -> bool:
        value = frame.stack[-1]
        raw = raw_of(value)
        if raw is self.obj or type(raw) is super:
            return True
        return (
            type(raw) is dict and frame.code.instructions[frame.ip].argval == "get" and self.is_table(value)
        )

    def takes_super(self, frame: Frame) -> bool:
        return raw_of(frame.stack[-3]) is super and raw_of(frame.stack[-1]) is self.obj

    def compares(self, frame: Frame) -> bool:
        return all([type(raw_of(value)) in ATOMS for value in frame.stack[-2:]])

    def contains(self, frame: Frame) -> bool:
        item, table = frame.stack[-2:]
        return type(raw_of(item)) in ATOMS and (type(raw_of(table)) is str or self.is_table(table))

    def subscripts(self, frame: Frame) -> bool:
        table, item = frame.stack[-2:]
        return type(raw_of(item)) in ATOMS and self.is_table(table)

    def asks_truth(self, frame: Frame) -> bool:
        value = frame.stack[-1]
        return type(raw_of(value)) in ATOMS or self.is_table(value)

    def calls(self, frame: Frame) -> bool:
        count = frame.code.instructions[frame.ip].arg or 0
        stack = frame.stack
        if frame.kwnames or len(stack) < count + 2:
            return False
        first, second, args = stack[-count - 2], stack[-count - 1], stack[len(stack) - count :]
        fn, bound = (first, second) if version.CALLABLE_FIRST else (second, NULL)
        if not version.CALLABLE_FIRST and first is not NULL:
            fn, bound = first, second
        return self.may_call(raw_of(fn), args if bound is NULL else [bound, *args])

    def may_call(self, fn: Any, args: list[Any]) -> bool:
        if type(fn) is MethodType:
            return self.may_call(fn.__func__, [fn.__self__, *args])
        if type(fn) is FunctionType:
            is_plain = not fn.__code__.co_flags & PLAIN_FLAGS and id(fn) not in self.world.functions.inside
            return is_plain and fn not in self.world.machine.served
        if fn is super:
            return not args
        if type(fn) is MethodWrapperType and fn.__objclass__ is object:
            fn, args = vars(object).get(fn.__name__), [fn.__self__, *args]
        if fn is object.__getattribute__ or fn is builtins.getattr or fn is builtins.hasattr:
            return len(args) > 1 and raw_of(args[0]) is self.obj and type(raw_of(args[1])) is str
        return fn is dict.get and len(args) > 1 and type(raw_of(args[1])) is str and self.is_table(args[0])


def raw_of(value: Any) -> Any:
    """What a value is, without a look at it by the trace."""
    return value.value if type(value) is Pending else value


def held_in(stands: Any) -> Any:
    """What is in a container, in order."""
    return None if stands is None else list(stands.items()) if type(stands) is dict else list(stands)


ALWAYS = frozenset(
    {"CACHE", "COPY", "IS_OP", "JUMP_FORWARD", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST"}
    | {
        "LOAD_FAST_LOAD_FAST",
        "LOAD_GLOBAL",
        "NOP",
        "POP_JUMP_FORWARD_IF_NONE",
        "POP_JUMP_FORWARD_IF_NOT_NONE",
    }
    | {
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "POP_TOP",
        "PRECALL",
        "PUSH_NULL",
        "RESUME",
        "RETURN_CONST",
    }
    | {"RETURN_VALUE", "STORE_FAST", "SWAP"}
)
"""Instructions that change nothing but variables and the stack of their frame."""

TRUTH = ("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE")
CHECKS: dict[str, Callable[[Run, Frame], bool]] = {
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), Run.takes_attribute),
    **dict.fromkeys((*TRUTH, "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "TO_BOOL"), Run.asks_truth),
    "BINARY_SUBSCR": Run.subscripts,
    "CALL": Run.calls,
    "COMPARE_OP": Run.compares,
    "CONTAINS_OP": Run.contains,
    "COPY_FREE_VARS": Run.enters,
    "LOAD_SUPER_ATTR": Run.takes_super,
}
"""Instructions that do nothing else if they are given what is checked here."""


class Answer(NamedTuple):
    """What was found of an object under a name, and what that depends on beside what views hold."""

    value: Any
    absent: str | None
    """The name under which there was nothing in the end."""
    writes: int
    """`View.writes` then."""
    tables: dict[int, Table]
    cells: dict[int, tuple[CellType, Any]]
    inlined: int
    """How many functions were run for it."""


def contents(cell: CellType) -> Any:
    try:
        return opened(cell.cell_contents)
    except ValueError:
        return MISSING


class PlainGetters(Part):
    """What the `__getattribute__` of objects from outside have found."""

    def start(self) -> None:
        self.answers: dict[tuple[int, str], Answer] = {}
        """By object, which its view keeps alive, and name."""
        self.run: Run | None = None
        self.is_stopped = False

    def stop(self) -> None:
        """From here on nobody sees what is written to namespaces."""
        self.is_stopped = True
        self.answers.clear()

    def known(self, obj: Any, name: str) -> Any:
        """What was found before, and still would be; MISSING if that is not known. Raises what is raised
        where there is no such attribute."""
        answer = self.answers.get((id(obj), name))
        if answer is None:
            return MISSING
        if not self.holds(answer):
            del self.answers[id(obj), name]
            return MISSING
        world = self.world
        if self.run is not None:
            self.run.tables.update(answer.tables)
            self.run.cells.update(answer.cells)
        world.functions.inlined_calls += answer.inlined
        if answer.absent is not None:
            return world.attributes.absent(obj, type(obj), answer.absent, False)
        return answer.value

    def holds(self, answer: Answer) -> bool:
        world = self.world
        if answer.writes != View.writes or world.classes.views or world.recorder.builder.tape.followed:
            return False
        for raw, stands, held in answer.tables.values():
            known = world.inputs.known.get(id(raw))
            if stands is None:
                if known is not None or id(raw) in world.containers.blind:
                    return False
            elif not is_same(held_in(stands), held):
                return False
        return all([contents(cell) is value for cell, value in answer.cells.values()])

    def ask(self, getattribute: FunctionType, obj: Any, name: str) -> Any:
        """What a class's own function finds."""
        world, machine = self.world, self.world.machine
        outer, look = self.run, machine.look
        if not self.may_keep(name):
            if outer is not None:
                outer.is_doubtful = True
            return world.calls.invoke(getattribute, obj, name)
        run = self.run = Run(self, obj)
        machine.look = run.check
        writes, inlined = View.writes, world.functions.inlined_calls
        found: Any = MISSING
        try:
            found = world.calls.invoke(getattribute, obj, name)
            run.absent = None
            return found
        except AttributeError:
            if run.absent is not None:
                found = ABSENT
            raise
        finally:
            self.run, machine.look = outer, look
            is_kept = not (run.is_doubtful or found is MISSING or type(found) in MADE_EACH_TIME)
            if writes != View.writes or world.may_have_symbols:
                is_kept = False
            if outer is not None:
                outer.is_doubtful = outer.is_doubtful or not is_kept
                outer.tables.update(run.tables)
                outer.cells.update(run.cells)
            if is_kept and not self.is_stopped:
                inlined = world.functions.inlined_calls - inlined
                self.answers[id(obj), name] = Answer(
                    found, run.absent, writes, run.tables, run.cells, inlined
                )

    def may_keep(self, name: str) -> bool:
        world, machine = self.world, self.world.machine
        if self.is_stopped or type(name) is not str or world.classes.views or machine.watch is not None:
            return False
        # somebody else may be looking on
        is_free = machine.look is None or (self.run is not None and machine.look == self.run.check)
        return is_free and not world.recorder.builder.tape.followed

    def noted(self, view: View, obj: Any, name: str) -> Any:
        """What `object.__getattribute__` gives."""
        generic, run = self.world.attributes.generic, self.run
        if run is None:
            return generic(view, obj, name, hook=False)
        found = self.world.classes.attribute(type(obj), name)
        kind = type(found)
        if kind is property:
            is_plain = type(found.fget) is FunctionType
        elif name == "__dict__":
            is_plain = not view.complete
        else:
            is_plain = found is MISSING or not self.world.classes.describes(kind, "__get__")
        if not is_plain or obj is not run.obj or type(obj) in self.world.created.classes:
            run.is_doubtful = True
        try:
            return generic(view, obj, name, hook=False)
        except AttributeError:
            if found is not MISSING:
                run.is_doubtful = True  # a property's, of another attribute
            run.absent = name
            raise


def is_same(now: list[Any], before: list[Any]) -> bool:
    """Whether a container holds what it held; the items of dictionaries are pairs."""
    if len(now) != len(before):
        return False
    for one, other in zip(now, before, strict=True):
        if type(one) is tuple and type(other) is tuple and len(one) == len(other) == 2:
            if one[0] is not other[0] or not unchanged(one[1], other[1]):
                return False
        elif not unchanged(one, other):
            return False
    return True
