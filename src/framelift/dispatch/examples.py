"""What a backend is given beside the graph: examples of its inputs, and torch's context of a compilation.

Where all sizes and numbers are what they are, the examples are the program's own tensors. Where some may
vary, they are fakes with the symbols of the capture for sizes, and symbols for numbers: whatever a backend
relies on then becomes a guard, while a size that it reads of a real tensor would not. A compiler of torch's
that is given real tensors finds the mode to make fakes with in the context (`torch._guards.TracingContext`).

A backend that can't work with symbols is given the program's tensors and definite numbers, all of which are
guarded.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.node import map_arg
from torch.utils._mode_utils import no_dispatch

from framelift import _guards
from framelift.dispatch.compile_contexts import Graph
from framelift.dispatch.random_states import save_rng_state
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.fakes import PLAIN_CLASSES, as_it_was_made, is_plain, nbytes, take_after
from framelift.graph.symbols import Input, InRows, Symbols, Wrapped, settled

Entry = Input | Wrapped | InRows
"""What is symbolic of an input."""


class Given(NamedTuple):
    """What is known of a graph that is compiled, and of its inputs."""

    symbols: Symbols | None = None
    mode: FakeTensorMode | None = None
    """That of the inputs, if they are fakes."""
    written: tuple[int, ...] = ()
    """Which inputs the graph writes to."""
    is_part: bool = False
    """Whether it is part of a graph that writes to inputs, of which nobody says to which."""
    is_settled: bool = False
    """Whether all symbols have their definite values."""
    knows_floats: bool = True
    """Whether a backend may rely on the values of floats that may vary."""

    @property
    def varies(self) -> bool:
        """Whether sizes or numbers may be others the next time."""
        return self.symbols is not None and not self.is_settled


class CompilerContext(TracingContext):
    """The context that torch's compilers look for. The mode, and fakes of all inputs, are made when one
    first asks for the mode: many backends never do."""

    def __init__(self, graph: Graph, inputs: list[Any], given: Given) -> None:
        self.graph, self.inputs, self.given = graph, inputs, given
        self.mode = given.mode
        self.fakes: list[Any] = []
        """What the mode gives for the inputs: it does not keep them itself."""
        self.is_over = False
        super().__init__(given.mode)

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        if self.mode is None and not self.is_over:
            self.mode = mode_for(self.given.symbols if self.given.varies else None)
            self.fakes = make_fakes(self.mode, self.graph, self.inputs, self.given)
            for node, fake in zip(placeholders(self.graph), self.fakes, strict=True):
                node.meta["example_value"] = fake
        return self.mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        self.mode = mode

    def end(self) -> None:
        """From here on no mode is made, and nothing of the program's is kept: a compiler may keep the context
        for the backward graph."""
        self.is_over = True
        self.inputs, self.fakes, self.given = [], [], Given()

    @property
    def examples(self) -> list[Any]:
        """The inputs as a backend gets them, and finds them noted in the graph."""
        if self.given.mode is None and self.given.varies:
            return self.fakes_of(self.inputs)
        if sharing(self.inputs, self.given.written):
            self.fakes_of(self.inputs)  # those that the trace has noted share no memory
        return list(self.inputs)

    def fakes_of(self, values: list[Any]) -> list[Any]:
        """What stands for these in the mode: the inputs, some of them, or fakes already."""
        mode = self.fake_mode
        assert mode is not None
        if values is self.inputs and self.given.mode is None:
            return list(self.fakes)
        fake = lambda value: mode.from_tensor(value, static_shapes=True)
        return [fake(value) if isinstance(value, torch.Tensor) else value for value in values]

    @property
    def used_aot_autograd(self) -> bool:
        """Whether AOTAutograd was at work, which leaves notes of its own."""
        return self.params_flat is not None or self.fw_metadata is not None

    @property
    def varying(self) -> list[int]:
        """Which inputs have sizes that are symbols."""
        fakes = self.inputs if self.given.mode is not None else self.fakes
        return [n for n, fake in enumerate(fakes) if isinstance(fake, torch.Tensor) and has_symbols(fake)]


SIZE = torch.ops.aten.sym_size.int
WHERE = ("stack_trace", "nn_module_stack")
"""What a node that reads a size says of where it comes from, as the tensor does."""


class SizeOf(NamedTuple):
    """A symbol that is a size of one of the inputs."""

    symbol: torch.SymInt
    input: int
    dim: int


def sizes_without_node(graph: Graph, examples: list[Any]) -> list[SizeOf]:
    """The symbols for which a compiler would look in vain: the graph uses numbers only that are made of them,
    or the operators in it do."""
    values = [*examples, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    known = {value.node.expr for value in values if type(value) is torch.SymInt}
    return [size for size in all_sizes(examples) if size.symbol.node.expr not in known]


def all_sizes(examples: list[Any]) -> list[SizeOf]:
    """The symbols that are sizes of inputs, in order, each at the first."""
    found: dict[Any, SizeOf] = {}
    for n, fake in enumerate(examples):
        sizes: Any = fake.shape if isinstance(fake, torch.Tensor) else ()
        for dim, size in enumerate(sizes):
            if type(size) is torch.SymInt and size.node.has_hint():
                expression = size.node.expr
                if expression.is_Symbol:
                    found.setdefault(expression, SizeOf(size, n, dim))
    return list(found.values())


def sizes_of_inputs(examples: list[Any]) -> list[SizeOf]:
    """The symbols that are sizes of inputs, each at the first; without those that are inputs themselves."""
    taken = {value.node.expr for value in examples if type(value) is torch.SymInt}
    return [size for size in all_sizes(examples) if size.symbol.node.expr not in taken]


def put_sizes_first(graph: Graph, sizes: list[SizeOf], examples: list[Any]) -> None:
    """Makes each of them an input, before the tensor whose size it is, as torch's own front end does: passes
    that split a graph hand on what is an input. Nodes that ask the tensor for it go."""
    inputs, known = placeholders(graph), dict[Any, torch.fx.Node]()
    for symbol, n, dim in sizes:
        tensor = inputs[n]
        with graph.graph.inserting_before(tensor):
            taken = graph.graph.placeholder(str(symbol.node.expr), torch.SymInt)
        taken.meta |= {key: tensor.meta[key] for key in WHERE if key in tensor.meta}
        taken.meta["example_value"] = taken.meta["val"] = symbol
        argument = tensor.meta.get("grapharg")
        if argument is not None:
            taken.meta["grapharg"] = argument.size(dim, symbol)
            taken._dynamo_source = taken.meta["grapharg"].source
        known[symbol.node.expr] = taken
    place = {node: n for n, node in enumerate(inputs)}
    for node in graph.graph.find_nodes(op="call_function", target=SIZE):
        tensor, dim = node.args
        size = examples[place[tensor]].shape[dim] if tensor in place else None
        if type(size) is torch.SymInt and size.node.expr in known:
            node.replace_all_uses_with(known[size.node.expr])
            graph.graph.erase_node(node)
    graph.recompile()


def with_sizes_first(values: list[Any], sizes: list[SizeOf]) -> list[Any]:
    """The inputs of a graph that takes sizes before its tensors."""
    given: list[list[Any]] = [[] for _ in values]
    for size in sizes:
        given[size.input].append(size.symbol)
    return [each for before, value in zip(given, values, strict=True) for each in (*before, value)]


def giving_sizes_first(compiled: Callable[..., Any], sizes: list[SizeOf]) -> Callable[..., Any]:
    """What was compiled of a graph that takes sizes before its tensors, to be called with its other inputs
    alone."""
    places = [(n, dim) for _, n, dim in reversed(sizes)]

    def run(*args: Any) -> Any:
        given = list(args)
        for n, dim in places:  # from behind: those before stay where they are
            given.insert(n, args[n].shape[dim])
        return compiled(*given)

    return run


def take_sizes(graph: Graph, sizes: list[SizeOf]) -> None:
    """Makes each of them an input of the graph, behind the others."""
    last = placeholders(graph)[-1]
    for symbol, _, _ in sizes:
        with graph.graph.inserting_after(last):
            last = graph.graph.placeholder(str(symbol.node.expr))
        last.meta["example_value"] = symbol
    graph.recompile()


def places_of(sizes: list[SizeOf]) -> tuple[tuple[int, int], ...]:
    """Input and dimension of each."""
    return tuple((n, dim) for _, n, dim in sizes)


def giving_sizes(compiled: Callable[..., Any], places: tuple[tuple[int, int], ...]) -> Callable[..., Any]:
    """What was compiled of a graph that takes the sizes at these places, to be called with the other inputs
    alone."""

    def run(*args: Any) -> Any:
        return compiled(*args, *[args[n].shape[dim] for n, dim in places])

    return run


def note_attributes(graph: Graph, inputs: list[Any]) -> None:
    """Puts what a program has set on the tensors that come in where tools look for it: marks, tags."""
    for node, value in zip(placeholders(graph), inputs, strict=True):
        if isinstance(value, torch.Tensor):
            node.meta["tensor_dict"] = dict(vars(value))


def has_symbols(fake: torch.Tensor) -> bool:
    sizes: Any = fake.shape
    return any(type(size) is torch.SymInt for size in sizes)


def mode_for(symbols: Symbols | None) -> FakeTensorMode:
    """A tensor that is no input has the sizes that it has: nobody guards them."""
    env = symbolic_shapes.ShapeEnv() if symbols is None else symbols.env
    return FakeTensorMode(shape_env=env, static_shapes=True)


def make_fakes(mode: FakeTensorMode, graph: Graph, inputs: list[Any], given: Given) -> list[Any]:
    """What stands for the inputs of a graph, from here on also for the mode. The fakes of the trace are not
    used: they may have been changed by what the program did."""
    entries = entries_of(graph, given.symbols)
    if given.varies:
        assert given.symbols is not None
        given.symbols.env.pending_fresh_unbacked_symbols.clear()  # of an attempt that has failed
        settle_shared(entries, inputs, given.written)
    places = Counter(map(storage_of, inputs))
    return [
        quick_fake(mode, value)
        if entry is None and type(value) is torch.nn.Parameter and is_alone(value, places)
        else make_fake(mode, entry, value, given)
        for entry, value in zip(entries, inputs, strict=True)
    ]


def is_alone(value: torch.nn.Parameter, places: Counter[int | None]) -> bool:
    """Whether a parameter has memory of its own, all of it, and nothing beside it that a fake would have."""
    if not is_plain(value) or places[storage_of(value)] != 1 or value._is_view() or not value.is_leaf:
        return False
    if value.grad is not None or value.__dict__ or (value.requires_grad and value.grad_dtype != value.dtype):
        return False
    return value.is_contiguous() and is_whole(value)


def is_whole(value: torch.Tensor) -> bool:
    return not value.storage_offset() and nbytes(value) == value.numel() * value.element_size()


def quick_fake(mode: FakeTensorMode, value: torch.nn.Parameter) -> Any:
    """What the mode gives for a parameter that is alone: it would describe it at length first."""
    with no_dispatch(), torch._C.DisableTorchFunction():
        meta = _guards.empty_meta(tuple(value.shape), value.stride(), value.dtype)
        fake = FakeTensor(mode, meta, value.device)
        fake.requires_grad_(value.requires_grad)
    take_after(fake, value)
    mode.fake_tensor_converter.set_tensor_memo(value, fake)
    return fake


def make_fake(mode: FakeTensorMode, entry: Entry | None, value: Any, given: Given) -> Any:
    if entry is not None and given.varies:
        assert given.symbols is not None
        fake = given.symbols.stand_in(mode, entry, value, given.knows_floats)
        if isinstance(value, torch.Tensor):
            mode.fake_tensor_converter.set_tensor_memo(value, fake)
        return fake
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) in PLAIN_CLASSES and value._is_view() and is_sparse(value._base):
        fake = fake_without_base(mode, value)
        mode.fake_tensor_converter.set_tensor_memo(value, fake)
        return fake
    return mode.from_tensor(value, static_shapes=True)


def is_sparse(base: torch.Tensor | None) -> bool:
    return base is not None and base.layout is not torch.strided


def fake_without_base(mode: FakeTensorMode, value: torch.Tensor) -> Any:
    """The mode makes none of the values of a sparse tensor, nor of other views of one."""
    about: Any = {"dtype": value.dtype, "device": value.device, "requires_grad": value.requires_grad}
    with mode, as_it_was_made(value):
        return torch.empty_strided(value.shape, value.stride(), **about)


def entries_of(graph: Graph, symbols: Symbols | None) -> list[Entry | None]:
    """What is symbolic of each input of a graph."""
    known: list[Entry] = [] if symbols is None else [*symbols.inputs, *symbols.wrapped, *symbols.rows]
    by_name = {entry.node.name: entry for entry in known}
    return [by_name.get(node.name) for node in placeholders(graph)]


def placeholders(graph: Graph) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def settle_all(symbols: Symbols) -> bool:
    """Whether everything could be given its definite value, on which the capture relies from here on. What
    only the data decides has none, and what is to be dynamic must not."""
    numbers = [[entry.symbol, *entry.sizes, *entry.strides] for entry in symbols.inputs]
    if any(symbols.brings_about(number) for each in numbers for number in each):
        return False
    if any(is_demanded(entry) for entry in symbols.inputs):
        return False
    for number in itertools.chain.from_iterable(numbers):
        settled(number)
    return True


def fix_numbers(graph: Graph, symbols: Symbols) -> None:
    """Numbers that are settled are constants of the graph. Floats it need not ask a tensor for."""
    for node, entry in zip(placeholders(graph), entries_of(graph, symbols), strict=True):
        if entry is not None and type(entry.real) is int:
            replace_uses(node, entry.real)
        if entry is not None and type(entry.real) is float:
            for asking in list(node.users):
                replace_uses(asking, entry.real)
                graph.graph.erase_node(asking)
    graph.recompile()


def replace_uses(node: torch.fx.Node, constant: float) -> None:
    replaced = lambda each: constant if each is node else each
    for user in list(node.users):
        user.args, user.kwargs = map_arg(user.args, replaced), map_arg(user.kwargs, replaced)


def is_demanded(entry: Input) -> bool:
    """Whether it is an error if one of the input's sizes turns out not to vary."""
    constraints = () if entry.context is None else entry.context.constraint_sizes
    return any(constraint is not None and not constraint.warn_only for constraint in constraints)


def settle_shared(entries: list[Entry | None], inputs: list[Any], written: tuple[int, ...]) -> None:
    """Inputs that share memory with one that is written to have the sizes that they have: a compiler is to
    know how they lie to each other, and memory whose own size varies can't be told to it."""
    for n in sharing(inputs, written):
        entry, entries[n] = entries[n], None
        if entry is not None:
            for number in (*entry.sizes, *entry.strides):
                settled(number)


def sharing(inputs: list[Any], written: tuple[int, ...]) -> list[int]:
    """Which inputs lie in the same memory as another one, of which one is written to."""
    if not written:
        return []
    places = [storage_of(value) for value in inputs]
    held = Counter(places)
    shared = {places[n] for n in written if held[places[n]] > 1} - {None}
    return [n for n, place in enumerate(places) if place in shared]


def storage_of(value: Any) -> int | None:
    """Where a dense tensor lies."""
    if type(value) in PLAIN_CLASSES and value.layout is torch.strided:
        return value.untyped_storage()._cdata
    return None


# ---- what a backend leaves as it was


@contextlib.contextmanager
def nothing_changed(inputs: list[Any], written: tuple[int, ...]) -> Iterator[None]:
    """A backend may run the graph to see what it does. The program's numbers are drawn, and its tensors
    written to, when it runs."""
    changeable = [inputs[n] for n in written if type(inputs[n]) in PLAIN_CLASSES]
    restore = save_rng_state()
    freed = [tensor.untyped_storage() for tensor in changeable if is_freed(tensor)]
    changeable = [tensor for tensor in changeable if not is_freed(tensor)]
    before = [(tensor, version(tensor), tensor.detach().clone()) for tensor in changeable]
    try:
        yield
    finally:
        restore()
        for storage in freed:
            storage.resize_(0)
        for tensor, known, values in before:
            if known is None or tensor._version != known or not torch.equal(tensor, values):
                with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
                    tensor.copy_(values)
                if known is not None:
                    torch._C._autograd._unsafe_set_version_counter((tensor,), (known,))


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the program has taken a tensor's memory away, to give it some later."""
    strided = tensor.layout is torch.strided
    return strided and tensor.numel() > 0 and tensor.untyped_storage().nbytes() == 0


def version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was written to; nobody counts that of inference tensors."""
    return None if tensor.is_inference() else tensor._version
