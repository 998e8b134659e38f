"""Captures as data: packed where they are made, unpacked on another rank.

Names stand for what both ranks have: classes, functions, modules, operators, class attributes. All else must
be plain values; `Packer` lets nothing through of which it does not know that it means the same there.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import importlib
import io
import pickle
import sys
import types
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.fx.immutable_collections import immutable_dict, immutable_list

from framelift import _guards
from framelift.core.breaks import CodeName, Place
from framelift.core.sentinels import MISSING, Sentinel
from framelift.dispatch.capture import Captured, Contents
from framelift.graph.body import graph_module
from framelift.graph.inputs import as_input
from framelift.graph.torch_flags import TorchState
from framelift.guards.guard import ClassGuard, Guard
from framelift.guards.kinds import Access, Check
from framelift.guards.program import build
from framelift.guards.sources import Source
from framelift.guards.variables import Variable
from framelift.regions.region import Region


class NotSharedError(Exception):
    """Why a capture is not handed over, or not taken."""


# ---- packing


def packed(contents: Contents) -> bytes:
    trace, region = contents.trace, contents.region
    recorder = trace.recorder
    if trace.ended_by is not None:
        raise NotSharedError(f"it breaks ({trace.ended_by.reason.name})")
    if recorder.builder.symbols is not None:
        raise NotSharedError("there are sizes or numbers in it that vary")
    if trace.state.values()["torch function modes"]:
        raise NotSharedError("it is in a torch function mode")
    if recorder.histories.leaf_inputs:
        raise NotSharedError("inputs of the graph are made leaves")
    inputs = [
        trace.world.inputs.graph_input_source(node, given) for node, given, _ in recorder.inputs.entries
    ]
    slots = {source: slot for slot, source in enumerate(region.inputs)}
    if not all(source in slots for source in inputs):
        raise NotSharedError("inputs of the graph are made by the region")
    out = io.BytesIO()
    pickler = Packer(out, contents.class_guards, trace.switches)
    pickler.dump(
        {
            "name": trace.fn.__qualname__,
            "versions": versions(trace.fn),
            "state": trace.state.values(),
            "sources": list(region.inputs),
            "guards": [(g.source, g.check.name, g.expected, g.place, g.caller) for g in contents.guards],
            "class guards": [(g.cls, g.name, on_class(g.found)) for g in contents.class_guards],
            "storages": contents.storages,
            "region": (region.name, region.filename, region.source, region.constants, region.has_graph),
            "graph": as_data(recorder.builder.body.graph, recorder.builder.body.modules)
            if region.has_graph
            else None,
            "inputs": [slots[source] for source in inputs],
            "inlined": trace.world.functions.inlined_calls,
            "hashes": hash("one") if any(map(asks_for_hashes, codes_of(trace))) else None,
        }
    )
    return out.getvalue()


def versions(fn: types.FunctionType) -> list[str]:
    return [sys.version, str(torch.__version__), digest(fn.__code__)]


def codes_of(trace: Any) -> list[types.CodeType]:
    return [trace.fn.__code__, *(fn.__code__ for fn in trace.world.functions.inlined.values())]


def asks_for_hashes(code: types.CodeType) -> bool:
    """Whether code may depend on the hashes of texts, as a set's order does: each process has its own."""
    if not {"hash", "set", "frozenset"}.isdisjoint(code.co_names):
        return True
    if any(instruction.opname in MAKING_SETS for instruction in dis.get_instructions(code)):
        return True
    return any(isinstance(constant, frozenset) for constant in code.co_consts)


MAKING_SETS = frozenset({"BUILD_SET", "SET_ADD", "SET_UPDATE"})


def as_data(graph: torch.fx.Graph, modules: dict[str, torch.fx.GraphModule]) -> Any:
    """A graph as what a pickle can hold: nodes refer to each other by name."""
    nodes = [
        (node.op, node.name, node.target, node.args, node.kwargs, node.meta.get("stack_trace"))
        for node in graph.nodes
    ]
    return nodes, {name: as_data(module.graph, bodies_of(module)) for name, module in modules.items()}


def bodies_of(module: torch.fx.GraphModule) -> dict[str, torch.fx.GraphModule]:
    found = {name: body for name, body in module.named_children()}
    if not all(isinstance(body, torch.fx.GraphModule) for body in found.values()):
        raise NotSharedError("a module within the graph")
    return found  # type: ignore[return-value]


AS_THEY_ARE = frozenset({Place, CodeName, complex, slice, range, frozenset, set, bytearray, immutable_list})
AS_THEY_ARE |= {immutable_dict, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format}
AS_THEY_ARE |= {Variable, types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType}
AS_THEY_ARE |= {types.GetSetDescriptorType, types.ClassMethodDescriptorType, types.NotImplementedType}
AS_THEY_ARE |= {types.EllipsisType}
"""Types of values that mean the same in any process, and say how they are pickled."""


VALUES = frozenset({str, int, float, bool, type(None), bytes, tuple, list})
"""Types of values that are what they hold."""


class Packer(pickle.Pickler):
    """Lets through only what means the same on another rank."""

    def __init__(self, out: Any, class_guards: list[ClassGuard], switches: TorchState) -> None:
        super().__init__(out, protocol=5)
        self.switches = switches
        self.known: dict[int, tuple[Any, Any]] = {}
        """id of a value -> what it is known by, and the value, so that the id stays its own."""
        self.on_classes = {id(g.found): (g.cls, g.name) for g in class_guards if g.found is not MISSING}

    def persistent_id(self, value: Any) -> Any:
        """What a value is known by, if not by what it holds; asked for each time that it is met."""
        if type(value) in VALUES:
            return None
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = (self.token(value), value)
        return found[0]

    def token(self, value: Any) -> Any:
        cls: Any = type(value)
        if value is MISSING:
            return ("missing",)
        if value is self.switches:
            return ("switches",)
        if cls is torch.fx.Node:
            return "node", value.name
        if issubclass(cls, types.ModuleType) and is_imported(value):
            return "module", value.__name__
        if cls is dict and (name := value.get("__name__")) and is_namespace(name, value):
            return "namespace", name
        if cls is _guards.TensorSpec:
            return spec_data(value)
        if cls is types.CodeType:
            return "code", *code_name(value), digest(value)
        if cls is types.FunctionType and id(value) not in self.on_classes:
            return "function", *function_name(value), digest(value.__code__)
        if cls in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
            return "operator", str(value)
        if isinstance(value, torch._ops.HigherOrderOperator):
            return "higher-order operator", value.name()
        if cls in NAMED and id(value) not in self.on_classes:
            return name_of(value)
        if id(value) in self.on_classes and not is_atom(value):
            owner, name = self.on_classes[id(value)]
            return "on class", owner, name, essence(value)
        return None

    def reducer_override(self, value: Any) -> Any:
        cls = type(value)
        if cls is Source:
            return Source, (value.base, value.access, value.key)
        if cls is Access:
            return getattr, (Access, value.name)
        if cls in AS_THEY_ARE or issubclass(cls, type):
            return NotImplemented
        if isinstance(value, (Sentinel, torch.Tensor)) or not isinstance(value, enum.Enum):
            raise NotSharedError(f"it holds a {cls.__module__}.{cls.__qualname__}")
        return NotImplemented


NAMED = (types.BuiltinFunctionType, type(torch._C._nn.linear), type)


def is_atom(value: Any) -> bool:
    return isinstance(value, (int, float, str, bytes, type(None), bool)) or issubclass(type(value), type)


def is_imported(module: types.ModuleType) -> bool:
    return sys.modules.get(module.__name__) is module


def is_namespace(name: Any, value: dict[str, Any]) -> bool:
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and vars(module) is value


def function_name(fn: types.FunctionType) -> tuple[str, str]:
    if found(fn.__module__, fn.__qualname__) is not fn:
        raise NotSharedError(f"the function {fn.__qualname__} can't be imported")
    return fn.__module__, fn.__qualname__


def name_of(value: Any) -> Any:
    """A class, or a function of C, by where it is."""
    names = [(getattr(value, "__module__", None), getattr(value, "__qualname__", ""))]
    owner: Any = getattr(value, "__self__", None)
    if isinstance(owner, types.ModuleType):
        names.append((owner.__name__, value.__name__))
    if not issubclass(type(value), type):
        names += [(module, value.__name__) for module in ("torch", "torch._C._nn", "torch._C", "builtins")]
    names += [("types", name) for name, one in vars(types).items() if one is value]
    for module, name in names:
        if isinstance(module, str) and name and found(module, name) is value:
            return "named", module, name
    if isinstance(owner, type):
        return "bound", owner, value.__name__
    raise NotSharedError(f"{value!r:.80} can't be imported")


def found(module: str | None, name: str) -> Any:
    """What a name stands for; MISSING if nothing."""
    try:
        at: Any = importlib.import_module(module) if module else builtins
        return functools.reduce(getattr, name.split("."), at)
    except (ImportError, AttributeError):
        return MISSING


def code_name(code: types.CodeType) -> tuple[str, str, str]:
    """The module and the function that code is found in, and its name there."""
    outer = code.co_qualname.partition(".<locals>")[0]
    for name, module in list(sys.modules.items()):
        in_file = getattr(module, "__file__", None) == code.co_filename
        if in_file and code_in(name, outer, code.co_qualname, digest(code)) is code:
            return name, outer, code.co_qualname
    raise NotSharedError(f"the code of {code.co_qualname} can't be found again")


def code_in(module: str, outer: str, qualname: str, known: str) -> types.CodeType | None:
    """The code of a function, or of one that is made inside it."""
    todo = [getattr(found(module, outer), "__code__", None)]
    while todo:
        code = todo.pop()
        if isinstance(code, types.CodeType):
            if code.co_qualname == qualname and digest(code) == known:
                return code
            todo += code.co_consts
    return None


def digest(code: types.CodeType) -> str:
    """Of what code does: its instructions, constants and names, and those of the code within."""
    parts = [repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))]
    parts += [repr((code.co_flags, code.co_argcount, code.co_kwonlyargcount, code.co_exceptiontable))]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            parts.append(digest(constant))
        elif isinstance(constant, frozenset):
            parts.append(repr(sorted(map(repr, constant))))
        elif is_plain(constant) or constant is ... or type(constant) is complex:
            parts.append(f"{type(constant).__name__} {constant!r}")
        else:
            raise NotSharedError(f"code holds a {type(constant).__qualname__}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def on_class(value: Any) -> str | None:
    """What a class has under a name; None: nothing."""
    return None if value is MISSING else essence(value)


def essence(value: Any) -> str:
    """What is found on a class, as text that is the same on another rank only if it does the same."""
    cls = type(value)
    if cls is types.FunctionType:
        return f"function {digest(value.__code__)}"
    if cls in (staticmethod, classmethod):
        return f"{cls.__name__} {essence(value.__func__)}"
    if cls is property:
        return f"property {[one and essence(one) for one in (value.fget, value.fset, value.fdel)]}"
    if cls in (types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType):
        return f"{cls.__name__} {value.__qualname__}"
    if cls in (types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.BuiltinFunctionType):
        return f"{cls.__name__} {value.__qualname__}"
    if is_plain(value):
        return f"{cls.__name__} {value!r}"
    if cls is tuple:
        return f"tuple {[essence(one) for one in value]}"
    if issubclass(cls, type):
        return f"class {value.__module__}.{value.__qualname__}"
    raise NotSharedError(f"it relies on a {cls.__module__}.{cls.__qualname__} that a class has")


def is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(part) for pair in value.items() for part in pair)
    return type(value) in (int, float, str, bytes, bool, type(None))


def spec_data(spec: Any) -> Any:
    """A tensor, by what is known of it; one like it is made where that is to be known again."""
    data = (spec.type, spec.dtype, spec.device, spec.sizes, spec.strides, spec.requires_grad)
    if spec.type not in (torch.Tensor, torch.nn.Parameter) or not spec.matches(tensor_like(*data)):
        raise NotSharedError(f"it takes {spec!r:.120}")
    return "tensor", *data


def tensor_like(
    cls: Any, dtype: Any, device: Any, sizes: Any, strides: Any, requires_grad: bool
) -> torch.Tensor:
    made = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if cls is torch.nn.Parameter:
        made = torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


# ---- unpacking


class Unpacker(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.known: dict[Any, Any] = {}

    def persistent_load(self, told: Any) -> Any:
        found = self.known.get(told)
        if found is None:
            kind, *rest = told
            found = self.known[told] = LOADERS[kind](*rest)
        return found


def load_function(module: str, name: str, known: str) -> Any:
    fn = found(module, name)
    if not isinstance(fn, types.FunctionType) or digest(fn.__code__) != known:
        raise NotSharedError(f"{module}.{name} is another function here")
    return fn


def load_code(module: str, outer: str, qualname: str, known: str) -> Any:
    code = code_in(module, outer, qualname, known)
    if code is None:
        raise NotSharedError(f"the code of {qualname} is other code here")
    return code


def load_on_class(owner: type, name: str, known: str) -> Any:
    bases = owner.__mro__
    value: Any = next((vars(base)[name] for base in bases if name in vars(base)), MISSING)
    value = bases if name == "mro()" else value
    if value is MISSING or essence(value) != known:
        raise NotSharedError(f"{owner.__qualname__}.{name} is something else here")
    return value


def load_named(module: str, name: str) -> Any:
    value = found(module, name)
    if value is MISSING:
        raise NotSharedError(f"there is no {module}.{name} here")
    return value


def load_operator(name: str) -> Any:
    return functools.reduce(getattr, name.split("."), torch.ops)


def load_higher_order(name: str) -> Any:
    return getattr(torch.ops.higher_order, name)


@dataclass(frozen=True)
class NodeName:
    """Stands for a node in the arguments of another."""

    name: str


LOADERS: dict[str, Any] = {
    "missing": lambda: MISSING,
    "switches": TorchState,
    "node": NodeName,
    "module": importlib.import_module,
    "namespace": lambda name: vars(importlib.import_module(name)),
    "tensor": lambda *data: _guards.TensorSpec(tensor_like(*data)),
    "code": load_code,
    "function": load_function,
    "on class": load_on_class,
    "named": load_named,
    "bound": getattr,
    "operator": load_operator,
    "higher-order operator": load_higher_order,
}
"""How what is known by its name is found again."""


def unpacked(data: bytes, fn: Any, arguments: list[Any]) -> Captured:
    """The capture as one of this rank; NotSharedError if its guards do not hold for these arguments."""
    state = _guards.GlobalState()
    told = Unpacker(data).load()
    if told["versions"] != versions(fn):
        raise NotSharedError("it is of other code, or of another version of Python or torch")
    if told["state"] != (here := state.values()):
        other = next(name for name, value in told["state"].items() if value != here[name])
        other = f"{other}: {told['state'][other]}, and here {here[other]}"
        raise NotSharedError(f"torch's state is another one: {other}")
    if told["hashes"] not in (None, hash("one")):
        raise NotSharedError("it may depend on the hashes of texts, which are others here")
    guards = [Guard(source, Check[check], *rest) for source, check, *rest in told["guards"]]
    class_guards = [
        ClassGuard(cls, name, MISSING if known is None else load_on_class(cls, name, known))
        for cls, name, known in told["class guards"]
    ]
    program = build(guards, class_guards, state, told["sources"], told["storages"])
    inputs = program.native.collect(fn, arguments)
    if inputs is None:
        raise NotSharedError(f"a guard does not hold here: {program.failure(fn, arguments)}")
    name, filename, source, constants, has_graph = told["region"]
    region = Region(name, f"{filename} of rank 0", source, constants, told["sources"], [], has_graph)
    graph = None if told["graph"] is None else as_graph(*told["graph"])
    examples = [as_input(inputs[slot]) for slot in told["inputs"]]
    ops = [] if graph is None else [n.target for n in graph.graph.nodes if n.op.startswith("call")]
    captured = Captured(told["name"], graph, examples, program, region, ops=ops)
    captured.inlined_calls = told["inlined"]
    return captured


def as_graph(nodes: list[Any], bodies: dict[str, Any]) -> torch.fx.GraphModule:
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

    for op, name, target, args, kwargs, trace in nodes:
        node = graph.create_node(op, target, placed(tuple(args)), placed(dict(kwargs)), name)
        if node.name != name:
            raise NotSharedError(f"a node of the graph is called {node.name} here, not {name}")
        known[name] = node
        if trace is not None:
            node.meta["stack_trace"] = trace
    return graph_module(graph, {name: as_graph(*body) for name, body in bodies.items()})
