"""Writes the graph of a trace: inputs, calls and their results, and the nodes of symbolic numbers.

Nodes are at the level users write. What an argument may be is decided here: tensors of the trace, plain
values and containers of these; a symbolic number becomes nodes that compute it from the inputs.

A callable that an operator is given (`torch.cond`, an autograd function) becomes a graph within the graph, a
`Body`: what it uses from around it becomes its operands, each once, in the order of first use.
"""

from __future__ import annotations

import contextlib
import linecache
import operator
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import torch
import torch.fx
import torch.fx.graph_module
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break, Place
from framelift.graph import op_memory
from framelift.graph.functions import SPELLINGS
from framelift.graph.overrides import PLAIN, as_plain
from framelift.graph.symbols import SYMBOLIC, Symbols, settled
from framelift.graph.terms import TARGETS, UnknownTerm, fold, text_of

try:
    from numpy import generic

    NUMPY: tuple[Any, ...] = (generic,)
except ImportError:  # torch works without it
    NUMPY = ()

Tensor = torch.Tensor

DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""What torch takes Python's types for; a graph can't write them down."""

METHODS = {
    member: name
    for name, member in reversed(list(vars(Tensor).items()))
    if getattr(member, "__module__", None) == "torch._tensor" and callable(member)
}
"""Tensor methods that are written in Python -> how they are called; their own names may be others."""


@dataclass(eq=False)
class Body:
    """A graph within the graph."""

    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    nodes: dict[int, torch.fx.Node] = field(default_factory=dict)
    """id of a fake -> its node here."""
    terms: dict[Any, torch.fx.Node] = field(default_factory=dict)
    """Symbolic expression -> its node here."""
    modules: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    """The bodies within, by the names under which nodes refer to them."""
    operands: list[tuple[torch.fx.Node, Any, torch.fx.Node]] = field(default_factory=list)
    """Placeholder, what it stands for, and the node of that in the graph around."""
    own: list[torch.fx.Node] = field(default_factory=list)
    """Placeholders for what the operator itself hands over."""
    is_region: bool = False
    """Whether nobody differentiates or repeats it but a compiler, which knows how to."""
    takes_floats: bool = False
    """Whether a float may be an operand: torch's own operators take none."""
    placed: int = 0
    """How many placeholders it ever had."""

    def placeholder(self, after: list[torch.fx.Node]) -> torch.fx.Node:
        first = next(iter(self.graph.nodes), None)
        with self.graph.inserting_after(after[-1]) if after else self.graph.inserting_before(first):
            self.placed += 1
            return self.graph.placeholder(f"arg{self.placed - 1}_1")

    def close(self, outputs: Any, impure: set[torch.fx.Node], prune: bool) -> None:
        """Gives it its outputs; `prune` leaves out operands that nobody uses."""
        self.graph.output(outputs)
        drop_unused(self.graph, impure)
        if prune:
            for node, _, _ in self.operands:
                if not node.users:
                    self.graph.erase_node(node)
            self.operands = [operand for operand in self.operands if operand[0].users]

    def take(self, operands: list[tuple[Any, torch.fx.Node]]) -> None:
        """Has just these operands, in this order: all that it uses, and others that it does not."""
        known = {around: node for node, _, around in self.operands}
        before, taken = list(self.own), []
        for value, around in operands:
            node = known.get(around) or self.placeholder(before)
            first = next(iter(self.graph.nodes))
            if before:
                before[-1].append(node)
            elif node is not first:
                first.prepend(node)
            node.meta["example_value"] = value
            before.append(node)
            taken.append((node, value, around))
        self.operands = taken

    def module(self) -> torch.fx.GraphModule:
        """What runs it."""
        return graph_module(self.graph, self.modules)


def share_operands(bodies: list[Body]) -> list[Any]:
    """Gives bodies of one operator the same operands: what any of them uses from around, each once, in the
    order of first use. All of them stand in the same graph."""
    shared = {around: value for body in reversed(bodies) for _, value, around in body.operands}
    order = dict.fromkeys(around for body in bodies for _, _, around in body.operands)
    for body in bodies:
        body.take([(shared[around], around) for around in order])
    return [shared[around] for around in order]


class GraphWriter:
    """The graph of one trace. `where()` gives the stack trace for a new node, `place()` where that is."""

    def __init__(self, where: Callable[[], str], place: Callable[[], Place | None]) -> None:
        super().__init__()
        self.where = where
        self.place = place
        self.bodies = [Body()]
        """The graph itself, and those within which calls are being recorded, outermost first."""
        self.at(self.bodies[0])
        self.kept: list[Any] = []
        """Every fake that was ever known, so that ids stay theirs."""
        self.inputs: list[tuple[torch.fx.Node, Any, Any]] = []
        """Node, what comes in, and what stands for it: tensors, numbers that are symbols, some objects."""
        self.objects: dict[int, torch.fx.Node] = {}
        """id of an object of the program's that the graph is given as it is -> its placeholder."""
        self.impure: set[torch.fx.Node] = set()
        """Nodes that are kept even if nobody uses what they give."""
        self.only_once = False
        """Whether the graph does something that must not be done twice, beside drawing and writing."""
        self.classes: dict[int, type] = {}
        self.displaced: set[int] = set()
        """Inputs that require grad, and lie in other memory by now."""
        self.calls = 0
        self.moved: dict[torch.fx.Node, torch.fx.Node] = {}
        """Node of a body that was dissolved -> the node that does the same in the graph around."""
        self.regions: dict[Any, str] = {}
        """What a nested compile region does -> the name that all calls of it go by."""
        self.symbols: Symbols | None = None
        """Made when there is something for them to stand for."""

    # ---- bodies

    def at(self, body: Body) -> None:
        """Calls are recorded in this one from here on."""
        self.graph, self.nodes, self.terms, self.modules = body.graph, body.nodes, body.terms, body.modules

    @contextlib.contextmanager
    def body(self, takes_floats: bool = False) -> Iterator[Body]:
        made = Body(takes_floats=takes_floats)
        self.bodies.append(made)
        self.at(made)
        try:
            yield made
        finally:
            self.bodies.pop()
            self.at(self.bodies[-1])

    @contextlib.contextmanager
    def outermost(self) -> Iterator[None]:
        """Inputs are the whole graph's."""
        self.at(self.bodies[0])
        try:
            yield
        finally:
            self.at(self.bodies[-1])

    def node_of(self, fake: FakeTensor) -> torch.fx.Node | None:
        """The node of a tensor in the graph being written; None if the tensor is unknown."""
        found = self.nodes.get(id(fake))
        if found is None and len(self.bodies) > 1:
            found = self.lifted(fake, len(self.bodies) - 1)
        return found

    def lifted(self, fake: FakeTensor, depth: int) -> torch.fx.Node | None:
        """A tensor from around a body becomes an operand of it."""
        body = self.bodies[depth]
        found = body.nodes.get(id(fake))
        if found is None and depth:
            self.check_displaced("an operator", fake)
            around = self.lifted(fake, depth - 1)
            if around is not None:
                found = body.nodes[id(fake)] = self.operand(body, fake, around)
        return found

    def check_displaced(self, func: Any, fake: FakeTensor) -> None:
        """Breaks if a call would be differentiated up to what is not in its place any more."""

    def operand(self, body: Body, value: Any, around: torch.fx.Node) -> torch.fx.Node:
        made = body.placeholder([*body.own, *(node for node, _, _ in body.operands)])
        made.meta["example_value"] = value
        body.operands.append((made, value, around))
        return made

    def handed(self, fake: Any) -> Any:
        """A tensor, or a symbol of its own, that the operator itself hands to the body being written."""
        body = self.bodies[-1]
        node = body.placeholder(body.own)
        body.own.append(node)
        node.meta["example_value"] = fake
        if type(fake) in SYMBOLIC:
            self.terms[fake.node.expr] = node
        else:
            self.know(fake, node)
        return fake

    def dissolve(self, body: Body) -> None:
        """What a body does is done by the graph around it, in which calls are recorded again."""
        there = {node: around for node, _, around in body.operands}
        for node in body.graph.nodes:
            if node.op == "get_attr":
                there[node] = self.add_module("body", body.modules[str(node.target)])
            elif node.op != "placeholder":
                there[node] = self.graph.node_copy(node, there.__getitem__)
                if node in self.impure:
                    self.impure.add(there[node])
        self.moved.update(there)
        self.nodes.update({key: there[node] for key, node in body.nodes.items() if key not in self.nodes})
        self.terms.update({term: there[node] for term, node in body.terms.items() if term not in self.terms})

    def add_module(self, name: str, module: torch.fx.GraphModule) -> torch.fx.Node:
        """A body, as an argument of a call."""
        name = f"{name}_{len(self.modules)}"
        self.modules[name] = module
        return self.graph.create_node("get_attr", name)

    # ---- inputs

    def placeholder(self) -> torch.fx.Node:
        graph = self.bodies[0].graph
        with graph.inserting_after(self.inputs[-1][0] if self.inputs else None):
            return graph.placeholder(f"arg{len(self.inputs)}_1")

    def know(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        self.nodes[id(fake)] = node
        self.kept.append(fake)

    def class_of(self, fake: FakeTensor) -> type:
        found = self.classes.get(id(fake))
        if found is None:
            return torch.nn.Parameter if getattr(fake, "_is_param", False) else torch.Tensor
        return found

    # ---- nodes

    def record(
        self,
        func: Any,
        args: Any,
        kwargs: dict[str, Any],
        out: Any,
        pure: bool,
    ) -> None:
        if pure and type(out) is FakeTensor and id(out) in self.nodes:
            return  # the function gave back its argument
        node = self.node(func, args, kwargs)
        node.meta["stack_trace"] = self.where()
        self.calls += 1
        if not pure:
            self.impure.add(node)
        self.name_outputs(out, node)
        if self.symbols is not None:
            self.bind(out, node)

    def bind(self, out: Any, node: torch.fx.Node) -> None:
        """Symbols for what only the data decides come from the node that looks at it."""
        assert self.symbols is not None
        for symbol, part, dim in self.symbols.brought_about(out):
            if symbol not in self.terms:
                found = node if part is out else self.nodes[id(part)]
                if dim is not None:
                    found = self.add_node("call_function", PROPERTIES["size"], (found, dim))
                self.terms[symbol] = found
        bindings = self.symbols.bindings(out)
        if bindings:
            node.meta["unbacked_bindings"] = bindings
            node.meta["example_value"] = out

    def name_outputs(self, out: Any, node: torch.fx.Node) -> None:
        if type(out) is FakeTensor:
            node.meta["example_value"] = out
            self.know(out, node)
        elif isinstance(out, (tuple, list)):
            for n, item in enumerate(out):
                self.name_item(item, node, n)
        elif isinstance(out, dict):
            for key, item in out.items():
                self.name_item(item, node, key)

    def name_item(self, item: Any, node: torch.fx.Node, key: Any) -> None:
        cls = type(item)
        if cls in SYMBOLIC and self.symbols is not None and self.symbols.brings_about(item):
            self.know(item, self.add_node("call_function", operator.getitem, (node, key)))
        if (cls is FakeTensor and id(item) not in self.nodes) or isinstance(item, (tuple, list, dict)):
            made = self.add_node("call_function", operator.getitem, (node, key))
            made.meta["stack_trace"] = node.meta["stack_trace"]
            self.name_outputs(item, made)

    def node(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.fx.Node:
        arguments = tuple([self.argument(func, a) for a in args])
        keywords = {k: self.argument(func, v) for k, v in kwargs.items()} if kwargs else {}
        cls = type(func)
        if cls is MethodDescriptorType or cls is WrapperDescriptorType:
            name = func.__name__
            spelled = SPELLINGS.get(name)
            if spelled is not None and not keywords and len(arguments) <= 3:
                return self.add_node("call_function", spelled, arguments)
            if arguments and getattr(Tensor, name, None) is func:
                return self.add_node("call_method", name, arguments, keywords)
        elif cls is MethodWrapperType:
            return self.add_node("call_function", getattr, (arguments[0], func.__self__.__name__))
        elif getattr(func, "__module__", None) == "torch._tensor":
            name = METHODS.get(func, "")
            spelled = SPELLINGS.get(name)
            if spelled is not None and not keywords and len(arguments) <= 3:
                return self.add_node("call_function", spelled, arguments)
            if name:
                return self.add_node("call_method", name, arguments, keywords)
        return self.add_node("call_function", func, arguments, keywords)

    def add_node(
        self, op: str, target: Any, args: Any, kwargs: dict[str, Any] | None = None
    ) -> torch.fx.Node:
        """As `Graph.create_node` does it, which given the arguments at once would search them for symbolic
        numbers, and given no name would derive it anew; that is two thirds of its time."""
        name = target if op == "call_method" else getattr(target, "__name__", "")
        node = self.graph.create_node(op, target, name=name if name.islower() and name[0] != "_" else None)
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        return node

    def argument(self, func: Any, value: Any) -> Any:
        cls = type(value)
        if cls is FakeTensor:
            node = self.node_of(value)
            if node is None:
                raise Break(breaks.UNKNOWN_TENSOR, describe(func))
            if self.displaced:
                self.check_displaced(func, value)
            return node
        if cls in op_memory.ATOMS or cls is bytes:
            return value
        if self.objects and id(value) in self.objects:
            return self.objects[id(value)]
        if cls is tuple or cls is list:
            return cls([self.argument(func, v) for v in value])
        if cls is torch.Size:
            return tuple([self.argument(func, size) for size in value])
        if cls in SYMBOLIC:
            return self.term(value)
        if cls is slice:
            return slice(*[self.argument(func, v) for v in (value.start, value.stop, value.step)])
        if cls is dict:
            return {k: self.argument(func, v) for k, v in value.items()}
        if cls is range:
            return list(value)
        if isinstance(value, torch.Tensor):
            raise Break(breaks.UNKNOWN_TENSOR, describe(func))
        if isinstance(value, tuple):
            return tuple([self.argument(func, v) for v in value])
        if isinstance(value, NUMPY) and value.dtype.kind in "iuf":
            return value.item()
        for plain in (int, float, str):
            if isinstance(value, plain):  # of a subclass, such as an enumeration's
                make: Any = plain.__new__
                return make(plain, value)
        if cls is type and value in DTYPES:
            return DTYPES[value]
        if callable(value) and type(value).__name__ in ("builtin_function_or_method", "type", "OpOverload"):
            return value
        raise Break(breaks.GRAPH_ARGUMENT, f"{describe(func)} with a {cls.__name__}")

    # ---- symbols

    def symbolise(self) -> Symbols:
        if self.symbols is None:
            self.symbols = Symbols(self.place)
        return self.symbols

    def take(self, value: Any) -> bool:
        """Whether an object that is no tensor, and that backends know, is an input of the graph now."""
        if id(value) not in self.objects:
            if len(self.bodies) > 1:
                return False
            node = self.objects[id(value)] = self.placeholder()  # which must not keep it alive
            self.inputs.append((node, value, value))
        return True

    def number(self, value: int | float) -> Any:
        """A number becomes a placeholder."""
        node = self.placeholder()
        with torch._C.DisableTorchFunction():
            symbol = self.symbolise().number(node, value)
        self.inputs.append((node, value, symbol))
        with self.outermost():
            if type(value) is float:
                with self.graph.inserting_after(node):
                    node = self.add_node("call_method", "item", (node,))
            self.terms[symbol.node.expr] = node
        node.meta["example_value"] = symbol
        return symbol

    def assume(self, condition: Any) -> None:
        """A condition on symbols holds from here on; the graph makes sure of it."""
        with torch._C.DisableTorchFunction():
            torch._check(condition)
        node = self.add_node("call_function", torch._check, (self.term(condition),))
        node.meta["stack_trace"] = self.where()
        self.impure.add(node)

    def term(self, value: Any) -> Any:
        """A symbolic number as an argument of a call: nodes that compute it from the inputs."""
        expression = value.node.expr
        found = self.terms.get(expression)
        if found is None:
            names = {str(symbol): symbol for symbol in expression.free_symbols}
            try:
                found = fold(text_of(expression), lambda n: n, lambda n: self.symbol(names[n]), self.apply)
            except UnknownTerm:
                return settled(value)
            if isinstance(found, torch.fx.Node):
                self.terms[expression] = found
                found.meta["example_value"] = value
        return found

    def apply(self, operation: str, operands: list[Any]) -> Any:
        target = TARGETS.get(operation)
        if target is None:
            raise UnknownTerm(operation)
        if not any(isinstance(operand, torch.fx.Node) for operand in operands):
            return target(*operands)
        return self.add_node("call_function", target, tuple(operands))

    def symbol(self, symbol: Any) -> torch.fx.Node:
        """The node that gives the value of a symbol. It is right behind the inputs: later on the program
        may change the shape of one."""
        return self.symbol_at(symbol, len(self.bodies) - 1)

    def symbol_at(self, symbol: Any, depth: int) -> torch.fx.Node:
        assert self.symbols is not None
        body = self.bodies[depth]
        found = body.terms.get(symbol)
        if found is not None:
            return found
        if depth:
            if not symbol.is_integer and not all(one.takes_floats for one in self.bodies[1 : depth + 1]):
                raise UnknownTerm(str(symbol))
            value: Any = self.symbols.of(symbol)
            found = self.operand(body, value, self.symbol_at(symbol, depth - 1))
        else:
            read = self.symbols.reads.get(symbol)
            if read is None:
                raise UnknownTerm(str(symbol))
            with self.outermost(), self.graph.inserting_after(self.inputs[-1][0]):
                tensor = self.symbols.inputs[read.input].node
                found = self.add_node("call_function", PROPERTIES[read.kind], (tensor, read.dim))
        body.terms[symbol] = found
        return found

    # ---- the end

    def finish(self, outputs: list[Any]) -> None:
        """Closes the graph: gives it its outputs and drops what nobody uses."""
        self.graph.output(
            tuple(self.output_of(out) if type(out) is FakeTensor else self.symbol(out) for out in outputs)
        )
        drop_unused(self.graph, self.impure)
        for node, _, _ in self.inputs:
            if not node.users:
                self.graph.erase_node(node)  # only looked at: guarded, but no input of the graph
        self.inputs = [found for found in self.inputs if found[0].users]

    def output_of(self, fake: FakeTensor) -> torch.fx.Node:
        return self.nodes[id(fake)]

    @property
    def empty(self) -> bool:
        return not any(node.op.startswith("call") for node in self.graph.nodes)


def drop_unused(graph: torch.fx.Graph, impure: set[torch.fx.Node]) -> None:
    for node in reversed(list(graph.nodes)):
        if not (node.op in ("placeholder", "output") or node.users or node in impure):
            graph.erase_node(node)


def graph_module(graph: torch.fx.Graph, modules: dict[str, torch.fx.GraphModule]) -> torch.fx.GraphModule:
    """Its source, which torch registers for tracebacks, goes when it goes."""
    made = torch.fx.GraphModule(modules, graph, class_name="Captured")
    code = type(made).forward.__code__
    weakref.finalize(code, forget_source, code.co_filename).atexit = False
    return made


def forget_source(filename: str) -> None:
    linecache.cache.pop(filename, None)
    torch.fx.graph_module._loader.eval_cache.pop(filename, None)


def as_input(value: Any) -> Any:
    """What a graph is given for an input: code generators know no floats that vary, but tensors."""
    if type(value) is float:
        return torch.scalar_tensor(value, dtype=torch.float64)
    return as_plain(value) if is_converted(value) else value


def is_converted(value: Any) -> bool:
    """Whether a graph is given something else than what came in."""
    return type(value) is float or (isinstance(value, Tensor) and type(value) not in PLAIN)


PROPERTIES = {
    "size": torch.ops.aten.sym_size.int,
    "stride": torch.ops.aten.sym_stride.int,
    "offset": torch.ops.aten.sym_storage_offset.default,
}


def describe(func: Any) -> str:
    if type(func) is MethodWrapperType:
        return f"Tensor.{func.__self__.__name__}"  # type: ignore[attr-defined]
    if type(func) in (MethodDescriptorType, WrapperDescriptorType):
        return f"Tensor.{func.__name__}"
    module = getattr(func, "__module__", None)
    name = getattr(func, "__name__", None) or repr(func)
    return f"{module}.{name}" if module else name
