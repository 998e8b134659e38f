"""The pickles that captures are saved in: only what means the same in another process goes into one.

Names stand for what both processes have (`object_names`), places for objects that have no name but are
where guards find them (`object_places`), descriptions for tensors. All else must be plain values.
"""

from __future__ import annotations

import enum
import functools
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.immutable_collections import immutable_dict, immutable_list

from framelift import _guards
from framelift.bytecode.resume import Like, Point, body_of
from framelift.core.breaks import REASONS, Break, CodeName, Place
from framelift.core.sentinels import MISSING, Sentinel
from framelift.dispatch import object_names as names
from framelift.dispatch.capture import SizeFacts
from framelift.dispatch.object_names import NotPortableError
from framelift.dispatch.object_places import CONTENTS, FoundContainer, Places, description, load_found
from framelift.graph.body import graph_module
from framelift.graph.origins import GraphArgument, InputSource, describe_nodes
from framelift.graph.symbols import Fact, Read
from framelift.graph.torch_flags import TorchState
from framelift.guards.guard import ClassGuard, Guard
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source, Variable
from framelift.interpreter.machine import Position
from framelift.regions.plan import Activation, Plan
from framelift.regions.region import Region, next_filename

# ---- parts that are taken apart, and put together again


def graph_data(module: torch.fx.GraphModule, described: bool = True) -> tuple[Any, ...]:
    """A graph as what a pickle can hold: nodes refer to each other by name. One that is only run need not be
    described."""
    if described:
        describe_nodes(module)
    nodes = [
        (n.op, n.name, n.target, n.args, n.kwargs, dict(n.meta) if described else {})
        for n in module.graph.nodes
    ]
    bodies = dict(module.named_children())
    if not all(isinstance(body, torch.fx.GraphModule) for body in bodies.values()):
        raise NotPortableError("a module within the graph")
    if any(node.op == "get_attr" and node.target not in bodies for node in module.graph.nodes):
        raise NotPortableError("an object within the graph")
    return nodes, bodies, dict(module.meta) if described else {}


class Portable:
    """A base of classes whose `__reduce__` gives only what means the same in another process."""


class RunnableGraph:
    """A graph that is to be run as it is: all that backends would look at is left out."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module


def load_graph(nodes: list[Any], bodies: dict[str, Any], meta: dict[str, Any]) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    known: dict[str, torch.fx.Node] = {}

    def placed(value: Any) -> Any:
        if type(value) is NodeName:
            return known[value.name]
        if isinstance(value, (list, tuple)):
            return type(value)(map(placed, value)) if type(value) is not torch.Size else value
        if isinstance(value, dict):
            return {key: placed(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(placed(value.start), placed(value.stop), placed(value.step))
        return value

    for op, name, target, args, kwargs, node_meta in nodes:
        node = graph.create_node(op, target, placed(tuple(args)), placed(dict(kwargs)), name)
        if node.name != name:
            raise NotPortableError(f"a node of the graph is called {node.name} here, not {name}")
        known[name] = node
        node.meta.update(node_meta)
    module = graph_module(graph, bodies)
    module.meta.update(meta)
    return module


def load_graph_argument(source: str, is_tensor: bool) -> GraphArgument:
    return GraphArgument(InputSource(source), is_tensor)


@dataclass(frozen=True)
class NodeName:
    """Stands for a node in the arguments of another."""

    name: str


def load_registrations(source: Source, check: Check, *places: Any) -> Guard:
    """The count is this process's: what was asked of classes is asked again (`capture_serialization`)."""
    return Guard(source, check, _guards.registrations(), *places)


def load_class_guard(cls: type, name: str, known: str | None) -> ClassGuard:
    return ClassGuard(cls, name, MISSING if known is None else names.load_class_attribute(cls, name, known))


def load_class_guard_on(cls: type, name: str, found: Any) -> ClassGuard:
    """`found`: an object that may be found elsewhere too."""
    if names.found_on_class(cls, name) is not found:
        raise NotPortableError(f"{cls.__qualname__}.{name} is another object here")
    return ClassGuard(cls, name, found)


def load_region(name: str, *rest: Any) -> Region:
    """Its source has a file name of its own here, as tracebacks show it."""
    return Region(name, next_filename(name.removeprefix("region_of_")), *rest)


def load_break(reason: str, context: str, stack: list[Place], is_error: bool, operator: str) -> Break:
    return Break(REASONS[reason], context, stack, is_error=is_error, operator=operator)


def load_point(code: types.CodeType, *rest: Any) -> Point:
    return Point(body_of(code), *rest)


def point_data(it: Point) -> tuple[Any, ...]:
    code = it.body.original()
    if code is None:
        raise NotPortableError("the function that it breaks in is gone")
    return code, it.at, it.unbound, it.stack, it.takes_free


def load_like(scope: dict[str, Any], name: str) -> Like:
    return Like(types.FunctionType(load_like.__code__, scope, name), closure=False)


def like_data(it: Like) -> tuple[Any, ...]:
    if it.__closure__ is not None:
        raise NotPortableError(f"it breaks in {it.__name__}, which has variables of another function")
    return it.__globals__, it.__name__


REDUCERS: dict[type, Callable[[Any], tuple[Any, tuple[Any, ...]]]] = {
    Position: lambda it: (Position, tuple(it)),
    Read: lambda it: (Read, tuple(it)),
    Fact: lambda it: (Fact, tuple(it)),
    SizeFacts: lambda it: (SizeFacts, (it.sources, it.reads, it.facts)),
    GraphArgument: lambda it: (load_graph_argument, (str(it.source.name), it.is_tensor)),
    Access: lambda it: (getattr, (Access, it.name)),
    Check: lambda it: (getattr, (Check, it.name)),
    Region: lambda it: (
        load_region,
        (it.name, it.source, it.constants, it.inputs, [], it.has_graph, it.signals_wait),
    ),
    Break: lambda it: (load_break, (it.reason.name, it.context, it.stack, it.is_error, it.operator)),
    Plan: lambda it: (Plan, (it.frames, it.step is not None)),
    Activation: lambda it: (Activation, (it.point, it.function, it.initialises)),
    Point: lambda it: (load_point, point_data(it)),
    Like: lambda it: (load_like, like_data(it)),
    RunnableGraph: lambda it: (load_graph, graph_data(it.module, described=False)),
}
"""How the parts of a capture are written: what makes them again, and of what."""


# ---- tensors


def spec_data(spec: Any, example: torch.Tensor | None) -> Any:
    """A tensor, by what is known of it; one like it is made where that is to be known again. Where sizes
    vary, the example has some."""
    if spec.type not in (torch.Tensor, torch.nn.Parameter) or spec.device is None or spec.strides is None:
        raise NotPortableError(f"it takes {spec!r:.120}")
    sizes, strides = (
        (spec.sizes, spec.strides) if example is None else (tuple(example.size()), example.stride())
    )
    free = (
        tuple([n for n, size in enumerate(spec.sizes) if size is None]),
        tuple([n for n, stride in spec.own_strides.items() if stride is None]),
    )
    data = (free, spec.type, spec.dtype, spec.device, sizes, strides, spec.requires_grad)
    made = load_spec(*data)
    same = (made.sizes, made.strides) == (spec.sizes, spec.strides)
    if not same or not spec.matches(tensor_like(*data[1:])):
        raise NotPortableError(f"it takes {spec!r:.120}")
    return "tensor", *data


def load_spec(free: tuple[tuple[int, ...], tuple[int, ...]], *data: Any) -> _guards.TensorSpec:
    """`free`: dimensions that vary, and dimensions whose strides do."""
    return _guards.TensorSpec(tensor_like(*data), *free)


def tensor_like(
    cls: Any, dtype: Any, device: Any, sizes: Any, strides: Any, requires_grad: bool
) -> torch.Tensor:
    made = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if cls is torch.nn.Parameter:
        made = torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


def fake_data(fake: FakeTensor) -> Any:
    """What a node of the graph gives, by what a backend may ask of it."""
    if fake.layout is not torch.strided or not all(type(n) is int for n in (*fake.shape, *fake.stride())):
        raise NotPortableError(f"a tensor in its graph is {fake!r:.80}")
    return "fake", fake.dtype, fake.device, tuple(fake.shape), fake.stride(), fake.requires_grad


# ---- pickles


PLAIN_TYPES = frozenset({str, int, float, bool, type(None), bytes, tuple, list})
"""Types of values that are what they hold."""
PART_TYPES = frozenset({Source, Guard, ClassGuard, Place, CodeName, Variable, *REDUCERS}) - {Plan}
"""Types of parts of a capture, of which each is written once."""

PORTABLE_TYPES = frozenset({Place, CodeName, Variable, complex, slice, range, frozenset, set, bytearray})
PORTABLE_TYPES |= {torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format, dict}
PORTABLE_TYPES |= {types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType}
PORTABLE_TYPES |= {types.GetSetDescriptorType, types.ClassMethodDescriptorType, types.NotImplementedType}
PORTABLE_TYPES |= {types.EllipsisType, immutable_list, immutable_dict}
"""Types of values that mean the same in any process, and say how they are pickled."""

MADE_BY_C = frozenset({types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType})
MADE_BY_C |= {types.GetSetDescriptorType, types.ClassMethodDescriptorType, types.BuiltinFunctionType}
"""Types of what classes have, of which the name says all."""

NAMED_TYPES = (types.BuiltinFunctionType, type(torch._C._nn.linear), type)


@dataclass(frozen=True)
class Noted:
    """What a pickler has to know of a capture (`capture_serialization.Snapshot`)."""

    fn: types.FunctionType
    code: types.CodeType
    guards: list[tuple[Guard, Any]]
    class_guards: list[tuple[ClassGuard, type, Any]]
    keys: dict[int, Any]
    constants: list[tuple[str, Any]]
    """The objects that sources begin at, with what messages call them."""
    examples: dict[int, torch.Tensor]

    def expected(self) -> dict[int, tuple[Guard, Any]]:
        return {id(guard): (guard, expected) for guard, expected in self.guards}


class CapturePickler(pickle.Pickler):
    """Lets through only what means the same in another process."""

    def __init__(self, out: io.BytesIO, noted: Noted) -> None:
        super().__init__(out, protocol=5)
        self.noted = noted
        self.expected = noted.expected()
        self.of_classes = {id(guard): (cls, found) for guard, cls, found in noted.class_guards}
        self.known: dict[int, tuple[Any, Any]] = {}
        """id of a value -> what it is known by, and the value, so that the id stays its own."""
        self.on_classes = {
            id(found): (cls, guard.name) for guard, cls, found in noted.class_guards if found is not MISSING
        }
        self.places = Places(noted.guards)
        self.constants = {id(value): name for name, value in noted.constants}
        """id of an object that sources begin at -> what messages call it."""
        self.parts = {
            id(part): (found, name)
            for _, _, found in noted.class_guards
            for name in PARTS.get(type(found), ())
            if type(part := getattr(found, name)) is types.FunctionType
        }
        """id of a function -> the property or static method on a class that it is a part of, and which."""
        held = [value for _, value in noted.constants]
        held += [found for _, _, found in noted.class_guards] + [expected for _, expected in noted.guards]
        functions = [value for value in held if type(value) is types.FunctionType]
        self.functions = {id(fn.__code__): fn for fn in functions}
        """id of code -> the function that has it."""
        self.attributes = {id(vars(fn)): fn for fn in functions}
        """id of a function's dictionary -> the function."""
        self.modules: set[str] = set()
        """Where what is known by a name, or found on a class, is defined."""

    def persistent_id(self, value: Any) -> Any:
        """What a value is known by, if not by what it holds; asked for each time that it is met."""
        cls = type(value)
        if cls in PART_TYPES or (cls in PLAIN_TYPES and not self.is_the_programs(value, cls)):
            return None
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = (ASKED, value)
            found = self.known[id(value)] = (self.token(value), value)
        if found[0] is ASKED:
            raise NotPortableError(f"a {cls.__qualname__} is found only by way of itself")
        return found[0]

    def is_the_programs(self, value: Any, cls: type) -> bool:
        """Whether a list, or a tuple that may hold one, is an object that the program has: in another process
        it is that one's own, which regions write to and guards look into."""
        if cls not in (list, tuple) or value == ():
            return False
        place = id(value)
        if place in self.on_classes:
            return True
        is_plain = cls is tuple and names.is_plain_tuple(value)
        return not is_plain and (place in self.constants or place in self.places.by_id)

    def token(self, value: Any) -> Any:
        """(a kind that `LOADERS` or the unpickler knows, what its loader takes)"""
        cls: Any = type(value)
        if value is MISSING:
            return ("missing",)
        if value is self.noted.fn:
            return ("frame's function",)
        if cls is TorchState:
            return ("torch state",)
        if cls is FoundContainer:
            return "found", value.source, type(value.value), description(value.value)
        if cls is torch.fx.Node:
            return "node", value.name
        if cls is FakeTensor:
            return fake_data(value)
        if issubclass(cls, types.ModuleType) and names.is_imported(value):
            return "module", value.__name__
        if cls is dict and value is self.noted.fn.__globals__:
            return ("frame's globals",)
        if cls is dict and (name := value.get("__name__")) and names.is_namespace(name, value):
            return "namespace", name
        if id(value) in self.on_classes and not names.is_atom(value):
            owner, name = self.on_classes[id(value)]
            self.note_module(owner)
            return "class attribute", owner, name, names.describe_attribute(value)
        if id(value) in self.constants and (cls is tuple or not isinstance(value, Hashable)):
            return self.container_token(value)
        if cls is _guards.TensorSpec:
            return spec_data(value, self.noted.examples.get(id(value)))
        if cls is types.CodeType:
            return self.code_token(value)
        if cls is types.FunctionType:
            self.note_module(value)
            if names.has_name(value):
                return "function", value.__module__, value.__qualname__, names.digest(value.__code__)
            if value in (called := names.functions_called_in_turn(self.noted.code)):
                return "resumed", called.index(value), names.digest(value.__code__)
            if id(value) in self.parts:
                return "part", *self.parts[id(value)], names.digest(value.__code__)
            return self.place_token(value)
        if cls in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
            return "operator", str(value)
        if isinstance(value, torch._ops.HigherOrderOperator):
            return "higher-order operator", value.name()
        if cls in NAMED_TYPES or issubclass(cls, type):
            self.note_module(value)
            return names.object_name(value)
        if id(value) in self.places.by_id and not is_portable(value):
            return self.place_token(value)
        return None

    def code_token(self, code: types.CodeType) -> Any:
        original = names.original_code(code)
        if original is names.original_code(self.noted.code):
            kind = "frame's code" if code is self.noted.code else "frame's original code"
            return kind, names.digest(code)
        function = self.functions.get(id(code))
        if function is not None:
            return "code of", function, names.digest(code)
        return "code", *names.code_name(code), names.digest(code)

    def container_token(self, value: Any) -> Any:
        """Of one that is looked into itself: what it holds says nothing of which one it is."""
        if value is sys.modules:
            return ("modules",)
        function = self.attributes.get(id(value))
        if function is not None:
            return "attributes of", function
        raise NotPortableError(f"it looks into {self.constants[id(value)]}")

    def place_token(self, value: Any) -> Any:
        return "found", self.places.place_of(value), type(value), description(value)

    def note_module(self, value: Any) -> None:
        for one in value.__mro__ if isinstance(value, type) else (value,):
            name = getattr(one, "__module__", None)
            if isinstance(name, str):
                self.modules.add(name)

    def reducer_override(self, value: Any) -> Any:
        cls = type(value)
        if cls is Source:
            return Source, (value.base, value.access, self.noted.keys.get(id(value), value.key))
        if cls is Guard:
            _, expected = self.expected.get(id(value), (value, value.expected))
            if value.check is Check.IS and type(expected) in CONTENTS and expected != ():
                expected = FoundContainer(value.source, expected)
            if value.source.access is Access.REGISTRATIONS:
                return load_registrations, (value.source, value.check, value.place, value.caller)
            return Guard, (value.source, value.check, expected, value.place, value.caller)
        if cls is ClassGuard:
            owner, found = self.of_classes[id(value)]
            self.note_module(owner)
            if found is MISSING:
                return load_class_guard, (owner, value.name, None)
            if names.is_atom(found) or type(found) in MADE_BY_C or (type(found) is tuple and not found):
                return load_class_guard, (owner, value.name, names.describe_attribute(found))
            return load_class_guard_on, (owner, value.name, found)
        if cls in REDUCERS:
            return REDUCERS[cls](value)
        if issubclass(cls, torch.fx.GraphModule):
            return load_graph, graph_data(value)
        if cls is types.MethodType and type(value.__self__) is Plan:
            return getattr, (value.__self__, value.__name__)
        if cls in PORTABLE_TYPES or issubclass(cls, (type, Portable)):
            return NotImplemented
        if isinstance(value, (Sentinel, torch.Tensor)) or not isinstance(value, enum.Enum):
            raise NotPortableError(f"it holds a {cls.__module__}.{cls.__qualname__}")
        return NotImplemented


PARTS: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    **dict.fromkeys((staticmethod, classmethod), ("__func__",)),
    functools.cached_property: ("func",),
}
"""What is found on a class -> its attributes that are functions."""

ASKED = object()
"""In the place of what a value is known by, while that is looked for."""


def is_portable(value: Any) -> bool:
    return type(value) in PORTABLE_TYPES or type(value) in REDUCERS or isinstance(value, enum.Enum)


class CaptureUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, fn: types.FunctionType, arguments: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.fn, self.arguments = fn, arguments
        self.known: dict[Any, Any] = {}
        self.identities: list[Any] = []
        """What is known by its identity."""

    @functools.cached_property
    def fakes(self) -> FakeTensorMode:
        return FakeTensorMode()

    def persistent_load(self, token: Any) -> Any:
        found = self.known.get(token)
        if found is None:
            kind, *rest = token
            found = self.known[token] = self.load_token(kind, *rest)
            if kind in IDENTITIES:
                self.identities.append(found)
        return found

    def load_token(self, kind: str, *rest: Any) -> Any:
        match kind:
            case "found":
                return load_found(self.fn, self.arguments, *rest)
            case "fake":
                return self.load_fake(*rest)
            case "resumed":
                return names.load_resumed(self.fn.__code__, *rest)
            case "frame's function":
                return self.fn
            case "frame's globals":
                return self.fn.__globals__
            case "frame's code" | "frame's original code":
                code = self.fn.__code__ if kind == "frame's code" else names.original_code(self.fn.__code__)
                if names.digest(code) != rest[0]:
                    raise NotPortableError("it is of other code")
                return code
        return LOADERS[kind](*rest)

    def load_fake(self, dtype: Any, device: Any, sizes: Any, strides: Any, requires_grad: bool) -> Any:
        with self.fakes:
            return tensor_like(torch.Tensor, dtype, device, sizes, strides, requires_grad)

    def check_identities(self) -> None:
        """What were different objects must be different ones here: the capture may know that they are."""
        if len({id(value) for value in self.identities}) != len(self.identities):
            raise NotPortableError("two of the objects that it is about are one here")


IDENTITIES = frozenset({"found", "function", "class attribute", "named", "module", "namespace"})
"""Kinds of what is compared by identity."""


LOADERS: dict[str, Callable[..., Any]] = {
    "missing": lambda: MISSING,
    "modules": lambda: sys.modules,
    "attributes of": vars,
    "torch state": TorchState,
    "node": NodeName,
    "module": importlib.import_module,
    "namespace": lambda name: vars(importlib.import_module(name)),
    "tensor": load_spec,
    "code": names.load_code,
    "code of": names.load_code_of,
    "part": names.load_part,
    "class of": lambda module: type(importlib.import_module(module)),
    "function": names.load_function,
    "class attribute": names.load_class_attribute,
    "named": names.load_named,
    "bound": getattr,
    "operator": lambda name: functools.reduce(getattr, name.split("."), torch.ops),
    "higher-order operator": lambda name: getattr(torch.ops.higher_order, name),
}
"""How what is known by its name is found again."""
