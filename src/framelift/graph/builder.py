"""Writes the graph of a trace: calls, their arguments and their results.

Nodes are at the level users write. What an argument may be is decided here: tensors of the trace, plain
values and containers of these; a symbolic number becomes nodes that compute it from the inputs. A callable
that an operator is given becomes a graph within the graph (`GraphBody`).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from types import MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break, Place
from framelift.graph import op_memory
from framelift.graph.assertions import Assertions
from framelift.graph.body import GraphBody, named_placeholder
from framelift.graph.complex_numbers import is_its_text
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.failing_calls import FailingCalls
from framelift.graph.fakes import PLAIN_CLASSES, Fakes, is_ordinary
from framelift.graph.functions import NUMPY, SPELLINGS, describe, tensors_of
from framelift.graph.op_memory import storage
from framelift.graph.origins import ORIGIN, GraphArgument, InputSource, Origin, name_of_input
from framelift.graph.subclasses import as_plain, is_wrapper_class
from framelift.graph.symbols import SYMBOLIC, Symbols
from framelift.graph.tape import Tape
from framelift.graph.terms import NumberNodes

Tensor = torch.Tensor

GUARDED_FACTS = frozenset({"is_leaf", "storage_offset", "storage", "no_hooks"})
"""What is guarded of an input only if the program has asked for it."""


class GraphInput(NamedTuple):
    node: torch.fx.Node
    value: Any
    """What comes in."""
    stand_in: Any
    """What stands for it in the trace: a fake, a symbol, or the value itself."""


class GraphInputs:
    """The inputs of one graph, in order."""

    def __init__(self, body: GraphBody, tape: Tape) -> None:
        self.body = body
        self.tape = tape
        self.graph = body.graph
        self.entries: list[GraphInput] = []
        self.read_at: dict[int, tuple[float, int]] = {}
        """id of a tensor that a module holds -> how many inputs, and such tensors, there were when the
        program first read it. torch makes an input there, and of others where they are first used."""
        self.unused: list[GraphInput] = []
        """Those that were dropped: guards may be about their sizes."""
        self.index_of: dict[int, int] = {}
        """id of what stands for a tensor -> its place among the entries."""
        self.objects: dict[int, torch.fx.Node] = {}
        """id of an object of the program's that the graph is given as it is -> its placeholder."""
        self.facts: dict[tuple[str, int], torch.Tensor] = {}
        """What was asked that is not guarded of every input: (fact, id of the input) -> the input."""
        self.asked: dict[int, set[str]] | None = None
        """id of an input -> all that was asked of it, for those who want to know."""
        self.assumed: list[torch.Tensor] = []
        """Tensors of which the program says that they are constants."""
        self.arrays: dict[int, Any] = {}
        """id of an input that was made of a NumPy array, in the memory of which it lies -> the array."""
        self.numbers_in: dict[torch.fx.Node, Callable[[], Any]] = {}
        """Input that is made of one number -> what gives the symbol that stands for it."""

    def note_array(self, tensor: torch.Tensor, array: Any) -> None:
        self.arrays[id(tensor)] = array

    def placeholder(self, source: str, is_tensor: bool = False) -> torch.fx.Node:
        """A new one, behind all others and before all calls, for what is found at a source: it is called
        after that."""
        name = name_of_input(source).lower()
        graph = self.graph
        last = self.entries[-1].node if self.entries else None
        with (
            graph.inserting_before(next(iter(graph.nodes), None))
            if last is None
            else graph.inserting_after(last)
        ):
            node = named_placeholder(graph, name)
        node.meta["grapharg"] = GraphArgument(InputSource(source), is_tensor)
        return self.body.noted(node)

    def add(self, node: torch.fx.Node, value: Any, stand_in: Any) -> None:
        self.entries.append(GraphInput(node, value, stand_in))

    def add_tensor(self, node: torch.fx.Node, tensor: torch.Tensor, fake: Any) -> None:
        self.index_of[id(fake)] = len(self.entries)
        self.add(node, tensor, fake)

    def add_object(self, value: Any, source: str) -> None:
        node = self.objects[id(value)] = self.placeholder(source)  # which must not keep it alive
        self.add(node, value, value)

    def note_fact(self, name: str, fake: Any) -> None:
        """The program asks something about a tensor: of an input, that is guarded from now on."""
        if self.asked is not None:
            self.note_asked(name, fake, self.asked)
        if name not in GUARDED_FACTS:
            return
        self.tape.spoil(name)
        with torch._C.DisableTorchFunction():
            for _, tensor, known in map(self.entries.__getitem__, self.index_of.values()):
                # the offset of a view tells where its base begins
                same_memory = name in ("storage_offset", "storage") and storage(known) == storage(fake)
                if known is fake or same_memory:
                    self.facts[name, id(tensor)] = tensor

    def note_asked(self, name: str, fake: Any, asked: dict[int, set[str]]) -> None:
        at = self.index_of.get(id(fake))
        if at is not None:
            asked.setdefault(id(self.entries[at].value), set()).add(name)

    def have_memory_of(self, fake: Any) -> bool:
        """Whether a tensor is an input, or a view of one."""
        memory = storage(fake)
        return any(storage(self.entries[n].stand_in) == memory for n in self.index_of.values())

    def drop_unused(self) -> None:
        """What was only looked at is guarded, but no input of the graph."""
        self.unused = [entry for entry in self.entries if not entry.node.users]
        self.entries = [entry for entry in self.entries if entry.node.users]
        for entry in self.unused:
            self.graph.erase_node(entry.node)
        if self.read_at:
            self.put_in_order()

    def put_in_order(self) -> None:
        """Inputs come in the order in which the program has met them, as torch's tools know it."""
        place = {id(entry): n for n, entry in enumerate(self.entries)}
        met = lambda entry: self.read_at.get(id(entry.value), (place[id(entry)] + 0.5, 0))
        ordered = sorted(self.entries, key=met)
        if ordered != self.entries:
            for entry in reversed(ordered):
                next(iter(self.graph.nodes)).prepend(entry.node)
            self.entries = ordered


def as_input(value: Any) -> Any:
    """What a graph is given for an input: code generators know no floats that vary, but tensors."""
    if type(value) is float:
        with torch._C.DisableTorchFunction():  # modes of the program's do not see it
            return torch.scalar_tensor(value, dtype=torch.float64)
    return as_plain(value) if is_converted(value) else value


def is_converted(value: Any) -> bool:
    """Whether a graph is given something else than what came in. A tensor that wraps others is given as it
    is: whatever is done to it, its class gets to see."""
    cls = type(value)
    if cls is float:
        return True
    return isinstance(value, Tensor) and cls not in PLAIN_CLASSES and not is_wrapper_class(cls)


def refuse_others(func: Any, tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        if not is_ordinary(tensor):
            kind = tensor.dtype if tensor.layout is torch.strided else tensor.layout
            raise Break(breaks.BACKEND_REFUSES, f"{describe(func)} with a tensor of {kind}")


def is_dense(value: Any) -> bool:
    """Whether a tensor is laid out as new ones are, to the last stride."""
    if type(value) is not FakeTensor or value.layout is not torch.strided:
        return type(value) is not FakeTensor
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if not symbolic_shapes.statically_known_true(stride == expected):
            return False
        expected *= size if type(size) is not int else max(size, 1)
    return True


DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""What torch takes Python's types for; a graph can't write them down."""

METHODS = {
    member: name
    for name, member in reversed(list(vars(Tensor).items()))
    if getattr(member, "__module__", None) == "torch._tensor" and callable(member)
}
"""Tensor methods that are written in Python -> how they are called; their own names may be others."""


class GraphBuilder:
    """The graph of one trace. `where()` gives the origin of a new node, `place()` where that is.

    `record` adds a call by its values, `add_call` one by nodes; both go to `body`, the graph that is being
    written: the whole one, or one within it while `nested` is active.
    """

    def __init__(
        self, fakes: Fakes, where: Callable[[], Origin | None], place: Callable[[], Place | None]
    ) -> None:
        self.fakes = fakes
        self.where = where
        self.place = place
        self.body = GraphBody(where=where)
        """The graph in which calls are recorded now."""
        self.tape = Tape()
        self.bodies = [self.body]
        """The whole graph, and those within which calls are being recorded, outermost first."""
        self.inputs = GraphInputs(self.body, self.tape)
        self.numbers = NumberNodes(self)
        self.assertions = Assertions(self)
        self.symbols: Symbols | None = None
        """Made when there is something for them to stand for."""
        self.keeps_conditions = False
        """Whether comparisons of sizes stay symbols until the program asks how they came out."""
        self.computes_numbers = False
        """Whether the graph computes what Python computes of numbers that vary, and not the region."""
        self.kept: list[Any] = []
        """Every fake that was ever known, so that ids stay theirs."""
        self.impure: set[torch.fx.Node] = set()
        """Nodes that are kept even if nobody uses what they give."""
        self.failing = FailingCalls(self)
        self.calls = 0
        self.moved: dict[torch.fx.Node, torch.fx.Node] = {}
        """Node of a body that was dissolved -> the node that does the same in the graph around."""
        self.region_names: dict[Any, str] = {}
        """What a nested compile region does -> the name that all calls of it go by."""
        self.check_use: Callable[[Any, FakeTensor], None] | None = None
        """Called with each function and tensor that it uses, once some tensors may not be used by all."""
        self.only_ordinary = False
        """Whether the backend has refused tensors of some layout or type: operators on such tensors break."""

    # ---- bodies

    @contextlib.contextmanager
    def nested(self, body: GraphBody) -> Iterator[None]:
        """Calls are recorded in this body. The one around it does what it does."""
        around = self.body
        self.bodies.append(body)
        self.body = body
        try:
            yield
        finally:
            self.bodies.pop()
            self.body = around
            around.draws |= body.draws
            around.changed.update(body.changed)

    @property
    def in_body(self) -> bool:
        """Whether calls are recorded in a graph within the graph."""
        return len(self.bodies) > 1

    @property
    def in_backward(self) -> bool:
        """Whether what is being traced runs when gradients are computed, and not before."""
        return any(body.in_backward for body in self.bodies)

    def node_of(self, fake: FakeTensor) -> torch.fx.Node | None:
        """The node of a tensor in the graph being written; None if the tensor is unknown."""
        found = self.body.nodes.get(id(fake))
        if found is None and len(self.bodies) > 1:
            found = self.node_at(fake, len(self.bodies) - 1)
        return found

    def node_at(self, fake: FakeTensor, depth: int) -> torch.fx.Node | None:
        """A tensor from around a body becomes an operand of it."""
        body = self.bodies[depth]
        found = body.nodes.get(id(fake))
        if found is None and depth:
            if self.check_use is not None:
                self.check_use("an operator", fake)
            outer = self.node_at(fake, depth - 1)
            if outer is not None:
                found = body.nodes[id(fake)] = body.add_operand(fake, outer)
        return found

    def operator_input(self, value: Any) -> Any:
        """A tensor, or a symbol of its own, that the operator itself gives to the body being written."""
        body = self.body
        node = body.placeholder(body.operator_inputs)
        body.operator_inputs.append(node)
        node.meta["example_value"] = value
        if type(value) in SYMBOLIC:
            body.terms[value.node.expr] = node
        else:
            self.know(value, node)
        return value

    def dissolve(self, body: GraphBody) -> None:
        """What a body does is done by the graph around it, in which calls are recorded again."""
        there, into = {operand.node: operand.outer for operand in body.operands}, self.body
        for node in body.graph.nodes:
            if node.op == "get_attr":
                name = str(node.target).rpartition("_")[0]
                there[node] = into.add_module(name, body.modules[str(node.target)])
            elif node.op != "placeholder":
                there[node] = into.graph.node_copy(node, there.__getitem__)
                if node in self.impure:
                    self.impure.add(there[node])
                self.failing.copy(node, there[node])
        self.moved.update(there)
        into.nodes.update({key: there[node] for key, node in body.nodes.items() if key not in into.nodes})
        into.terms.update({term: there[node] for term, node in body.terms.items() if term not in into.terms})

    # ---- inputs

    def add_object(self, value: Any, source: str) -> bool:
        """Whether an object that is no tensor, and that backends know, is an input of the graph now."""
        if id(value) not in self.inputs.objects:
            if self.in_body:
                return False
            self.inputs.add_object(value, source)
        return True

    def symbolise(self) -> Symbols:
        """The symbols of the trace, which from here on fakes may have for sizes."""
        if self.symbols is None:
            self.symbols = Symbols(self.place)
            self.symbols.env.keeps_conditions = self.keeps_conditions
            self.fakes.use_symbols(self.symbols.env)
        return self.symbols

    def know(self, fake: Any, node: torch.fx.Node) -> None:
        self.body.nodes[id(fake)] = node
        self.kept.append(fake)

    # ---- nodes

    def record(
        self,
        func: Any,
        args: Any,
        kwargs: dict[str, Any],
        out: Any,
        pure: bool,
        fails: bool = False,
        written: Iterable[Any] = (),
        draws: bool = False,
    ) -> None:
        """A call, by its values; one that is not `pure`, or may fail, is kept though nobody may use its
        result. `written`: the tensors that it has written to; `draws`: it has drawn random numbers."""
        if pure and type(out) is FakeTensor and id(out) in self.body.nodes:
            return  # the function gave back its argument
        if self.only_ordinary:
            refuse_others(func, tensors_of((args, kwargs, out)))
            if self.symbols is not None and any(self.symbols.brought_about(out)):
                raise Break(breaks.BACKEND_REFUSES, f"{describe(func)}: a number that only the data decides")
        if fails:
            self.failing.check(func)
            self.failing.check_data(func, args, kwargs)
        symbols = self.symbols
        if symbols is not None:
            self.assertions.catch_up(symbols)
        node = self.note_call(self.node(func, args, kwargs), out, pure)
        if fails:
            self.failing.add(node)
        if draws:
            self.failing.drawing.add(node)
        if written:
            self.failing.writes[node] = list(written)
        if symbols is not None:
            self.numbers.bind(out, node)
            self.assertions.catch_up(symbols)

    def add_call(
        self, target: Any, args: Any, out: Any, kwargs: dict[str, Any] | None = None, pure: bool = True
    ) -> torch.fx.Node:
        """A call, by its nodes, and the values that come of it."""
        node = self.note_call(self.body.add_node("call_function", target, args, kwargs), out, pure)
        if type(out) is tuple and len(out) == 1:  # operators give tuples, of which the program sees the one
            for item in node.users:
                if ORIGIN in item.meta:
                    item.meta[ORIGIN].item = None
        return node

    def note_call(self, node: torch.fx.Node, out: Any, pure: bool = True) -> torch.fx.Node:
        """A node calls what the program has called; gives the node."""
        origin = node.meta.get(ORIGIN)
        if origin is not None:
            origin.value = out
        self.calls += 1
        if not pure:
            self.impure.add(node)
        self.name_outputs(out, node)
        return node

    def add_effect(self, target: Any, args: tuple[Any, ...]) -> torch.fx.Node:
        """A call that matters for what it does, and is no operator."""
        node = self.body.add_node("call_function", target, args)
        self.impure.add(node)
        return node

    def remove(self, node: torch.fx.Node) -> None:
        """Takes back a node that nobody uses."""
        self.impure.discard(node)
        node.graph.erase_node(node)

    def name_outputs(self, out: Any, node: torch.fx.Node) -> None:
        if type(out) is FakeTensor:
            node.meta["example_value"] = out
            self.know(out, node)
        elif isinstance(out, (tuple, list)):
            node.meta["example_value"] = tuple(out) if isinstance(out, tuple) else list(out)
            for n, item in enumerate(out):
                self.name_item(item, node, n)
        elif isinstance(out, dict):
            node.meta["example_value"] = dict(out)
            for key, item in out.items():
                self.name_item(item, node, key)

    def name_item(self, item: Any, node: torch.fx.Node, key: Any) -> None:
        cls, body = type(item), self.body
        if cls in SYMBOLIC and self.symbols is not None and self.symbols.brings_about(item):
            self.know(item, body.add_node("call_function", operator.getitem, (node, key)))
        if (cls is FakeTensor and id(item) not in body.nodes) or isinstance(item, (tuple, list, dict)):
            made = body.add_node("call_function", operator.getitem, (node, key))
            origin = node.meta.get(ORIGIN)
            if origin is not None:
                made.meta[ORIGIN] = origin.of_item(key)
            self.name_outputs(item, made)

    def node(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.fx.Node:
        """A call as the program spells it."""
        arguments = tuple([self.argument(func, a) for a in args])
        keywords = {k: self.argument(func, v) for k, v in kwargs.items()} if kwargs else {}
        add_node, cls = self.body.add_node, type(func)
        if cls is MethodDescriptorType or cls is WrapperDescriptorType:
            name = func.__name__
            spelled = SPELLINGS.get(name)
            if spelled is not None and not keywords and len(arguments) <= 3:
                return add_node("call_function", spelled, arguments)
            if arguments and getattr(Tensor, name, None) is func:
                return add_node("call_method", name, arguments, keywords)
        elif cls is MethodWrapperType:
            return add_node("call_function", getattr, (arguments[0], func.__self__.__name__))
        elif getattr(func, "__module__", None) == "torch._tensor":
            name = METHODS.get(func, "")
            spelled = SPELLINGS.get(name)
            if spelled is not None and not keywords and len(arguments) <= 3:
                return add_node("call_function", spelled, arguments)
            if name:
                return add_node("call_method", name, arguments, keywords)
        return add_node("call_function", func, arguments, keywords)

    def argument(self, func: Any, value: Any) -> Any:
        """A value as an argument of a call in the graph."""
        cls = type(value)
        if cls is FakeTensor:
            node = self.node_of(value)
            if node is None:
                raise Break(breaks.UNKNOWN_TENSOR, describe(func))
            if self.check_use is not None:
                self.check_use(func, value)
            return node
        if cls in op_memory.ATOMS or cls is bytes:
            if cls is complex and not is_its_text(value):
                return self.body.add_node("call_function", complex, (value.real, value.imag))
            return value
        if self.inputs.objects and id(value) in self.inputs.objects:
            return self.inputs.objects[id(value)]
        if cls is tuple or cls is list:
            return cls([self.argument(func, v) for v in value])
        if cls is torch.Size:
            return tuple([self.argument(func, size) for size in value])
        if cls in SYMBOLIC:
            return self.numbers.term(value)
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

    def check_strides(self, fake: FakeTensor, dim: int | None = None) -> None:
        """Breaks where the program asks for a stride that only the operator itself knows: in a dimension of
        one element any would do, and fakes may have others there unless all comes of dense tensors."""
        sizes: Any = fake.shape if dim is None else fake.shape[dim : dim + 1 or None]
        if all(type(size) is not int or size > 1 for size in sizes) or self.inputs.have_memory_of(fake):
            return
        node = self.node_of(fake)
        if node is None:
            return
        seen, waiting = {node}, list(node.all_input_nodes)
        while waiting:
            above = waiting.pop()
            if above not in seen:
                seen.add(above)
                waiting += above.all_input_nodes
                if not is_dense(above.meta.get("example_value")):
                    raise Break(breaks.TENSOR_STATE, "the stride of a dimension of one element, or of none")

    # ---- the end

    def finish(self, outputs: tuple[torch.fx.Node, ...]) -> int:
        """Closes the graph: gives it its outputs and drops what nobody uses. Gives how many more outputs it
        has, which keep calls in the graph that may fail or draw."""
        if self.symbols is not None:
            self.assertions.catch_up(self.symbols)
            self.numbers.put_constants()
        more = self.failing.witnesses(outputs)
        self.body.close((*outputs, *more), self.impure, prune=False)
        self.inputs.drop_unused()
        return len(more)

    @property
    def empty(self) -> bool:
        return not any(node.op.startswith("call") for node in self.body.graph.nodes)
