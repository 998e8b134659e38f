"""Writes the source that makes a trace's values again after its graph has run.

`Rebuild.expression(value)` gives a Python expression for a value and adds the statements it needs.
What came from outside is a parameter of the region; a tensor of the graph is one of its outputs;
whatever the traced program made itself is made again: containers by displays, instances by `__new__`
and their state, functions with their cells, other builtins by the reduce protocol. An object is made
once, so what was one object stays one object; cycles are closed after the parts exist.
"""

from __future__ import annotations

import collections
import functools
import keyword
import math
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.tensors import memory
from framelift.world.door import is_ordinary
from framelift.world.operations import ITERATORS
from framelift.world.pending import Pending
from framelift.world.shadows import container_base
from framelift.world.source import Access, Source
from framelift.world.world import World

LITERALS = frozenset({int, bool, type(None), str, bytes, type(Ellipsis)})
CONSTANTS = memory.ATOMS | {bytes, range, slice, torch.Size, types.CodeType, types.ModuleType, type(NotImplemented)}


class Cyclic(Exception):
    """A container turned out to contain itself: it has to be made empty and filled later."""


class Rebuild:
    def __init__(self, world: World, cyclic: frozenset[int] = frozenset()) -> None:
        self.world = world
        self.cyclic = cyclic
        self.lines: list[str] = []
        self.inputs: dict[Source, str] = {}
        self.outputs: dict[int, FakeTensor] = {}
        self.constants: dict[str, Any] = {}
        self.constant_names: dict[int, str] = {}
        self.made: dict[int, str] = {}
        self.building: set[int] = set()
        self.count = 0

    # ---- what is there already

    def input(self, source: Source) -> str:
        if source.access is Access.CONST:
            return self.constant(source.key[1])
        name = self.inputs.get(source)
        if name is None:
            name = self.inputs[source] = f"i{len(self.inputs)}"
        return name

    def constant(self, value: Any) -> str:
        name = self.constant_names.get(id(value))
        if name is None:
            hint = getattr(value, "__name__", None) or type(value).__name__
            hint = hint if isinstance(hint, str) and hint.isidentifier() and not keyword.iskeyword(hint) else "c"
            name = self.constant_names[id(value)] = f"{hint}_{len(self.constants)}"
            self.constants[name] = value
        return name

    def output(self, fake: FakeTensor) -> str:
        self.outputs.setdefault(id(fake), fake)
        return f"g{list(self.outputs).index(id(fake))}"

    # ---- values

    def expression(self, value: Any) -> str:
        cls = type(value)
        if cls is Pending:
            return self.input(value.source)
        if cls in LITERALS:
            return repr(value)
        if cls is float:
            return repr(value) if math.isfinite(value) else self.constant(value)
        if cls is FakeTensor:
            return self.tensor(value)
        source = self.world.source_of(value)
        if source is not None:
            return self.input(source)
        if cls in CONSTANTS:
            return self.constant(value)
        name = self.made.get(id(value))
        if name is not None:
            return name
        if id(value) in self.building:
            raise Cyclic(id(value))
        return self.build(value, cls)

    def tensor(self, fake: FakeTensor) -> str:
        recorder = self.world.recorder
        at = recorder.input_of.get(id(fake))
        if at is not None:
            return self.input(self.world.known[id(recorder.inputs[at][1])].source)
        if id(fake) not in recorder.nodes:
            raise Break(breaks.UNKNOWN_TENSOR, "a result of the function")
        if recorder.class_of(fake) is not torch.Tensor:
            raise Break(breaks.UNREBUILDABLE, f"a {recorder.class_of(fake).__name__} made inside")
        return self.output(fake)

    def build(self, value: Any, cls: type) -> str:
        builder = BUILDERS.get(cls)
        if builder is None:
            builder = builder_for(cls)
        if builder is None:
            raise Break(breaks.UNREBUILDABLE, f"a {cls.__module__}.{cls.__qualname__}")
        self.building.add(id(value))
        name = builder(self, value)
        self.building.discard(id(value))
        self.made.setdefault(id(value), name)
        return self.made[id(value)]

    def variable(self, expression: str, value: Any = None) -> str:
        """A statement that names an expression; with `value`, what is being built has that name from now on."""
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {expression}")
        if value is not None:
            self.made[id(value)] = name
            self.building.discard(id(value))
        return name

    def say(self, statement: str) -> None:
        self.lines.append(statement)

    def all(self, values: Any) -> list[str]:
        return [self.expression(value) for value in values]


BUILDERS: dict[type, Callable[[Rebuild, Any], str]] = {}


def builds(*classes: type) -> Any:
    def register(builder: Any) -> Any:
        for cls in classes:
            BUILDERS[cls] = builder
        return builder

    return register


@builds(list)
def build_list(r: Rebuild, value: list[Any]) -> str:
    if id(value) in r.cyclic:
        name = r.variable("[]", value)
        r.say(f"{name}.extend([{', '.join(r.all(value))}])")
        return name
    return r.variable(f"[{', '.join(r.all(value))}]")


@builds(tuple)
def build_tuple(r: Rebuild, value: tuple[Any, ...]) -> str:
    items = r.all(value)
    return r.variable(f"({', '.join(items)}{',' if len(items) == 1 else ''})")


@builds(dict)
def build_dict(r: Rebuild, value: dict[Any, Any]) -> str:
    if id(value) in r.cyclic:
        name = r.variable("{}", value)
        for key, item in value.items():
            r.say(f"{name}[{r.expression(key)}] = {r.expression(item)}")
        return name
    return r.variable("{" + ", ".join(f"{r.expression(k)}: {r.expression(v)}" for k, v in value.items()) + "}")


@builds(set)
def build_set(r: Rebuild, value: set[Any]) -> str:
    return r.variable(f"{r.constant(set)}([{', '.join(r.all(value))}])")


@builds(frozenset)
def build_frozenset(r: Rebuild, value: frozenset[Any]) -> str:
    return r.variable(f"{r.constant(frozenset)}([{', '.join(r.all(value))}])")


@builds(types.CellType)
def build_cell(r: Rebuild, value: types.CellType) -> str:
    name = r.variable(f"{r.constant(types.CellType)}()", value)
    try:
        contents = value.cell_contents
    except ValueError:
        return name
    r.say(f"{name}.cell_contents = {r.expression(contents)}")
    return name


@builds(types.FunctionType)
def build_function(r: Rebuild, fn: types.FunctionType) -> str:
    closure = "None" if fn.__closure__ is None else build_tuple(r, fn.__closure__)
    parts = [r.constant(fn.__code__), r.constant(fn.__globals__), repr(fn.__name__), "None", closure]
    name = r.variable(f"{r.constant(types.FunctionType)}({', '.join(parts)})", fn)
    for attribute in ("__defaults__", "__kwdefaults__", "__doc__", "__qualname__", "__module__"):
        value = getattr(fn, attribute)
        if value is not None:
            r.say(f"{name}.{attribute} = {r.expression(value)}")
    for attribute in ("__annotations__", "__dict__"):
        if getattr(fn, attribute):
            r.say(f"{name}.{attribute}.update({r.expression(dict(getattr(fn, attribute)))})")
    return name


@builds(types.MethodType)
def build_method(r: Rebuild, value: types.MethodType) -> str:
    return r.variable(f"{r.constant(types.MethodType)}({', '.join(r.all((value.__func__, value.__self__)))})")


@builds(types.BuiltinFunctionType)
def build_builtin_method(r: Rebuild, value: Any) -> str:
    if isinstance(value.__self__, types.ModuleType) or value.__self__ is None:
        return r.constant(value)
    return r.variable(f"{r.expression(value.__self__)}.{value.__name__}")


@builds(functools.partial)
def build_partial(r: Rebuild, value: functools.partial[Any]) -> str:
    args = "".join(f", {item}" for item in r.all(value.args))
    keywords = f", **{r.expression(value.keywords)}" if value.keywords else ""
    return r.variable(f"{r.constant(functools.partial)}({r.expression(value.func)}{args}{keywords})")


def build_reduced(r: Rebuild, value: Any) -> str:
    """Through `__reduce_ex__`: callable, arguments, state."""
    reduced = value.__reduce_ex__(2)
    if not isinstance(reduced, tuple) or len(reduced) > 3:
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__}")
    made, args, *state = reduced
    name = r.variable(f"{r.constant(made)}({', '.join(r.all(args))})", value)
    if state and state[0] is not None:
        r.say(f"{name}.__setstate__({r.expression(state[0])})")
    return name


def build_container(r: Rebuild, value: Any) -> str:
    """A subclass of a builtin container, made without running its `__init__`."""
    cls = type(value)
    base = container_base(cls)
    assert base is not None
    if issubclass(base, tuple):
        items = r.all(tuple.__iter__(value))
        listed = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if hasattr(cls, "n_sequence_fields"):
            return r.variable(f"{r.constant(cls)}({listed})")
        name = r.variable(f"{r.constant(tuple)}.__new__({r.constant(cls)}, {listed})", value)
    elif base is collections.defaultdict:
        name = r.variable(f"{r.constant(base)}.__new__({r.constant(cls)})", value)
        r.say(f"{name}.default_factory = {r.expression(value.default_factory)}")
    elif base is collections.deque:
        name = r.variable(f"{r.constant(base)}.__new__({r.constant(cls)})", value)
        r.say(f"{r.constant(base)}.__init__({name}, (), {value.maxlen!r})")
    elif base is frozenset:
        name = r.variable(f"{r.constant(base)}.__new__({r.constant(cls)}, [{', '.join(r.all(value))}])", value)
    else:
        name = r.variable(f"{r.constant(base)}.__new__({r.constant(cls)})", value)
    fill_container(r, base, name, value)
    state(r, name, value, cls)
    return name


def fill_container(r: Rebuild, base: type, name: str, value: Any) -> None:
    if issubclass(base, dict):
        for key in base.__iter__(value):
            item = r.expression(dict.__getitem__(value, key))
            r.say(f"{r.constant(base)}.__setitem__({name}, {r.expression(key)}, {item})")
    elif base in (list, collections.deque):
        r.say(f"{r.constant(base)}.extend({name}, [{', '.join(r.all(base.__iter__(value)))}])")
    elif base is set:
        r.say(f"{r.constant(set)}.update({name}, [{', '.join(r.all(set.__iter__(value)))}])")


def build_instance(r: Rebuild, value: Any) -> str:
    cls = type(value)
    name = r.variable(f"{r.constant(object)}.__new__({r.constant(cls)})", value)
    state(r, name, value, cls)
    return name


def build_exception(r: Rebuild, value: BaseException) -> str:
    cls = type(value)
    name = r.variable(f"{r.constant(cls)}.__new__({r.constant(cls)}{''.join(', ' + a for a in r.all(value.args))})", value)
    for attribute in ("__cause__", "__context__"):
        if getattr(value, attribute) is not None:
            r.say(f"{name}.{attribute} = {r.expression(getattr(value, attribute))}")
    if value.__suppress_context__:
        r.say(f"{name}.__suppress_context__ = True")
    state(r, name, value, cls)
    return name


def state(r: Rebuild, name: str, value: Any, cls: type) -> None:
    """Instance attributes and slots."""
    own = getattr(value, "__dict__", None)
    if own:
        r.say(f"{name}.__dict__.update({r.expression(dict(own))})")
    for base in cls.__mro__:
        for slot in vars(base).values():
            if type(slot) is types.MemberDescriptorType and base.__flags__ & (1 << 9):
                try:
                    held = slot.__get__(value)
                except AttributeError:
                    continue
                r.say(f"{r.constant(slot)}.__set__({name}, {r.expression(held)})")


def builder_for(cls: type) -> Callable[[Rebuild, Any], str] | None:
    if issubclass(cls, (type, types.ModuleType)):
        return None
    if issubclass(cls, BaseException):
        return build_exception
    if container_base(cls) is not None:
        return build_container
    if cls in ITERATORS or cls.__module__ == "itertools":
        return build_reduced
    if cls.__module__ == "framelift.interpreter.generators":
        return None
    if is_ordinary(cls):
        return build_instance
    return None
