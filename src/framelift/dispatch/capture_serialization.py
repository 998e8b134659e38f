"""Captures as bytes: saved where they are made, loaded in another process.

The fields of a `Capture` say how each is kept. Those that are saved go through one strict pickler: names
stand for what both processes have (`object_names`), descriptions for tensors, and all else must be plain
values. It lets nothing through of which it does not know that it means the same there.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.immutable_collections import immutable_dict, immutable_list

from framelift import _guards
from framelift.core.breaks import CodeName, Place
from framelift.core.sentinels import MISSING, Sentinel
from framelift.dispatch import object_names as names
from framelift.dispatch.capture import KEPT, Capture
from framelift.dispatch.object_names import NotPortableError
from framelift.graph.body import graph_module
from framelift.graph.builder import as_input
from framelift.graph.origins import GraphArgument, InputSource, describe_nodes
from framelift.graph.torch_flags import TorchState
from framelift.guards.guard import ClassGuard, Guard
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source, Variable
from framelift.interpreter.machine import Position
from framelift.regions.region import Region

# ---- the whole


@dataclass(frozen=True)
class Header:
    """What has to be equal where a capture is loaded."""

    versions: list[str]
    """Of Python, of torch, and of the frame's code."""
    state: dict[str, Any]
    hashes: int | None
    """The hash of a text, if the program may depend on such: each process has its own."""


def save_capture(capture: Capture, fn: types.FunctionType) -> bytes:
    """`fn` is the function of the frame. Raises NotPortableError if it makes no sense in another process."""
    for field, value in fields_of(capture, "refused"):
        if value is not None and value != []:
            raise NotPortableError(field.metadata["reason"].format(value))
    state = capture.state.values()
    if state["torch function modes"]:
        raise NotPortableError("it is in a torch function mode")
    if not set(capture.input_sources) <= set(capture.region.inputs):
        raise NotPortableError("inputs of the graph are made by the region")
    codes = [fn.__code__, *(guard.expected for guard in capture.guards if guard.check is Check.CODE)]
    header = Header(versions(fn), state, hash("one") if any(map(asks_for_hashes, codes)) else None)
    out = io.BytesIO()
    pickler = CapturePickler(out, capture.class_guards)
    pickler.dump(header)
    pickler.dump({field.name: value for field, value in fields_of(capture, "saved")})
    return out.getvalue()


def load_capture(data: bytes, fn: types.FunctionType, arguments: list[Any]) -> Capture:
    """The capture as one of this process. Raises NotPortableError if it does not hold for these arguments."""
    state = _guards.GlobalState()
    unpickler = CaptureUnpickler(data)
    header: Header = unpickler.load()
    if header.versions != versions(fn):
        raise NotPortableError("it is of other code, or of another version of Python or torch")
    if header.state != (here := state.values()):
        name, there = next((name, value) for name, value in header.state.items() if value != here[name])
        raise NotPortableError(f"torch's state is another one: {name}: {there}, and here {here[name]}")
    if header.hashes not in (None, hash("one")):
        raise NotPortableError("it may depend on the hashes of texts, which are others here")
    capture = Capture(**unpickler.load(), state=state)
    capture.build_program()
    inputs = capture.program.native.collect(fn, arguments)
    if inputs is None:
        raise NotPortableError(f"a guard does not hold here: {capture.program.failure(fn, arguments)}")
    slots = {source: slot for slot, source in enumerate(capture.region.inputs)}
    capture.example_inputs = [as_input(inputs[slots[source]]) for source in capture.input_sources]
    for n in capture.leaf_inputs:
        capture.example_inputs[n] = capture.example_inputs[n].detach().requires_grad_()
    return capture


def fields_of(capture: Capture, how: str) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    """The fields that are kept in one way, with their values."""
    for field in dataclasses.fields(capture):
        if field.metadata[KEPT] == how:
            yield field, getattr(capture, field.name)


def versions(fn: types.FunctionType) -> list[str]:
    return [sys.version, str(torch.__version__), names.digest(fn.__code__)]


def asks_for_hashes(code: types.CodeType) -> bool:
    """Whether code may depend on the hashes of texts, as a set's order does."""
    if not {"hash", "set", "frozenset"}.isdisjoint(code.co_names):
        return True
    if any(instruction.opname in MAKING_SETS for instruction in dis.get_instructions(code)):
        return True
    return any(isinstance(constant, frozenset) for constant in code.co_consts)


MAKING_SETS = frozenset({"BUILD_SET", "SET_ADD", "SET_UPDATE"})


# ---- parts that are taken apart, and put together again


def graph_data(module: torch.fx.GraphModule) -> tuple[Any, ...]:
    """A graph as what a pickle can hold: nodes refer to each other by name."""
    describe_nodes(module)
    nodes = [(n.op, n.name, n.target, n.args, n.kwargs, dict(n.meta)) for n in module.graph.nodes]
    bodies = dict(module.named_children())
    if not all(isinstance(body, torch.fx.GraphModule) for body in bodies.values()):
        raise NotPortableError("a module within the graph")
    if any(node.op == "get_attr" and node.target not in bodies for node in module.graph.nodes):
        raise NotPortableError("an object within the graph")
    return nodes, bodies, dict(module.meta)


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


def load_class_guard(cls: type, name: str, known: str | None) -> ClassGuard:
    return ClassGuard(cls, name, MISSING if known is None else names.load_class_attribute(cls, name, known))


REDUCERS: dict[type, Callable[[Any], tuple[Any, tuple[Any, ...]]]] = {
    Header: lambda it: (Header, (it.versions, it.state, it.hashes)),
    Position: lambda it: (Position, tuple(it)),
    GraphArgument: lambda it: (load_graph_argument, (str(it.source.name), it.is_tensor)),
    Source: lambda it: (Source, (it.base, it.access, it.key)),
    Access: lambda it: (getattr, (Access, it.name)),
    Check: lambda it: (getattr, (Check, it.name)),
    Guard: lambda it: (Guard, (it.source, it.check, it.expected, it.place, it.caller)),
    ClassGuard: lambda it: (
        load_class_guard,
        (it.cls, it.name, None if it.found is MISSING else names.describe_attribute(it.found)),
    ),
    Region: lambda it: (
        Region,
        (it.name, f"{it.filename} (loaded)", it.source, it.constants, it.inputs, [], it.has_graph),
    ),
}
"""How the parts of a capture are written: what makes them again, and of what."""


# ---- tensors


def spec_data(spec: Any) -> Any:
    """A tensor, by what is known of it; one like it is made where that is to be known again."""
    data = (spec.type, spec.dtype, spec.device, spec.sizes, spec.strides, spec.requires_grad)
    if spec.type not in (torch.Tensor, torch.nn.Parameter) or not spec.matches(tensor_like(*data)):
        raise NotPortableError(f"it takes {spec!r:.120}")
    return "tensor", *data


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

PORTABLE_TYPES = frozenset({Place, CodeName, Variable, complex, slice, range, frozenset, set, bytearray})
PORTABLE_TYPES |= {torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format}
PORTABLE_TYPES |= {types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType}
PORTABLE_TYPES |= {types.GetSetDescriptorType, types.ClassMethodDescriptorType, types.NotImplementedType}
PORTABLE_TYPES |= {types.EllipsisType, immutable_list, immutable_dict}
"""Types of values that mean the same in any process, and say how they are pickled."""

NAMED_TYPES = (types.BuiltinFunctionType, type(torch._C._nn.linear), type)


class CapturePickler(pickle.Pickler):
    """Lets through only what means the same in another process."""

    def __init__(self, out: io.BytesIO, class_guards: list[ClassGuard]) -> None:
        super().__init__(out, protocol=5)
        self.known: dict[int, tuple[Any, Any]] = {}
        """id of a value -> what it is known by, and the value, so that the id stays its own."""
        self.on_classes = {id(g.found): (g.cls, g.name) for g in class_guards if g.found is not MISSING}

    def persistent_id(self, value: Any) -> Any:
        """What a value is known by, if not by what it holds; asked for each time that it is met."""
        if type(value) in PLAIN_TYPES:
            return None
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = (self.token(value), value)
        return found[0]

    def token(self, value: Any) -> Any:
        """(a kind that `LOADERS` knows, what its loader takes)"""
        cls: Any = type(value)
        if value is MISSING:
            return ("missing",)
        if cls is TorchState:
            return ("torch state",)
        if cls is torch.fx.Node:
            return "node", value.name
        if cls is FakeTensor:
            return fake_data(value)
        if issubclass(cls, types.ModuleType) and names.is_imported(value):
            return "module", value.__name__
        if cls is dict and (name := value.get("__name__")) and names.is_namespace(name, value):
            return "namespace", name
        if cls is _guards.TensorSpec:
            return spec_data(value)
        if cls is types.CodeType:
            return "code", *names.code_name(value), names.digest(value)
        if cls is types.FunctionType and id(value) not in self.on_classes:
            return "function", *names.function_name(value), names.digest(value.__code__)
        if cls in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
            return "operator", str(value)
        if isinstance(value, torch._ops.HigherOrderOperator):
            return "higher-order operator", value.name()
        if cls in NAMED_TYPES and id(value) not in self.on_classes:
            return names.object_name(value)
        if id(value) in self.on_classes and not names.is_atom(value):
            owner, name = self.on_classes[id(value)]
            return "class attribute", owner, name, names.describe_attribute(value)
        return None

    def reducer_override(self, value: Any) -> Any:
        cls = type(value)
        if cls in REDUCERS:
            return REDUCERS[cls](value)
        if issubclass(cls, torch.fx.GraphModule):
            return load_graph, graph_data(value)
        if cls in PORTABLE_TYPES or issubclass(cls, type):
            return NotImplemented
        if isinstance(value, (Sentinel, torch.Tensor)) or not isinstance(value, enum.Enum):
            raise NotPortableError(f"it holds a {cls.__module__}.{cls.__qualname__}")
        return NotImplemented


class CaptureUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.known: dict[Any, Any] = {}
        self.fakes = FakeTensorMode()

    def persistent_load(self, token: Any) -> Any:
        found = self.known.get(token)
        if found is None:
            kind, *rest = token
            found = self.known[token] = self.load_fake(*rest) if kind == "fake" else LOADERS[kind](*rest)
        return found

    def load_fake(self, dtype: Any, device: Any, sizes: Any, strides: Any, requires_grad: bool) -> Any:
        with self.fakes:
            return tensor_like(torch.Tensor, dtype, device, sizes, strides, requires_grad)


LOADERS: dict[str, Callable[..., Any]] = {
    "missing": lambda: MISSING,
    "torch state": TorchState,
    "node": NodeName,
    "module": importlib.import_module,
    "namespace": lambda name: vars(importlib.import_module(name)),
    "tensor": lambda *data: _guards.TensorSpec(tensor_like(*data)),
    "code": names.load_code,
    "function": names.load_function,
    "class attribute": names.load_class_attribute,
    "named": names.load_named,
    "bound": getattr,
    "operator": lambda name: functools.reduce(getattr, name.split("."), torch.ops),
    "higher-order operator": lambda name: getattr(torch.ops.higher_order, name),
}
"""How what is known by its name is found again."""
