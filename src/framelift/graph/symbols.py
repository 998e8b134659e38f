"""Symbols: what stands for a size, or a number, that may be another one the next time.

They are torch's own `SymInt` and `SymFloat`, over one `ShapeEnv` for each trace. The program computes
with them as it would with numbers; wherever it (or torch) needs a definite value, the environment notes
a fact, and in the end all facts are guards. Symbols come from inputs: a dimension of a tensor, or a number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._guards import Source as TorchSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break, Place
from framelift.core.config import config
from framelift.graph.deferred import Deferred, printers, recording, symbolic_shapes
from framelift.graph.dimensions import Dim, kind_of
from framelift.graph.fakes import as_it_was_made, inside_storage, take_after

if TYPE_CHECKING:
    from framelift.graph import shape_environment
else:
    shape_environment = Deferred("framelift.graph.shape_environment")

SYMBOLIC: frozenset[type] = frozenset({torch.SymInt, torch.SymFloat, torch.SymBool})
PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
"""Symbolic type -> the type that the program takes it for."""


@functools.cache
def printer() -> printers.PythonPrinter:
    return printers.PythonPrinter()


class At(TorchSource):
    """One of the inputs with symbols, by its number; torch says of which part of it (`.size()[0]`), and calls
    symbols after the text."""

    def __init__(self, number: int, text: str = "") -> None:
        self.number = number
        self.text = text or f"t{number}"

    @property
    def name(self) -> str:
        return self.text

    _name_template = name

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return type(other) is At and other.number == self.number


class Read(NamedTuple):
    """Something about an input: the number itself, or a size or stride of a tensor."""

    input: int
    kind: str
    dim: int


class Input(NamedTuple):
    """An input with symbols in it, or a number that the graph computes of others, which has no node."""

    node: Any
    real: Any
    symbol: Any
    """For a number, what stands for it."""
    sizes: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    context: Any = None


class Wrapped(NamedTuple):
    """An input that wraps others, of which some have symbols in them."""

    node: torch.fx.Node
    real: Any
    sizes: tuple[Any, ...]
    parts: dict[str, Input | None]
    """The tensors that it wraps; None: one without symbols."""
    strides: tuple[Any, ...] = ()
    context: Any = None


class InRows(NamedTuple):
    """An input whose elements lie in rows, and whose sizes are symbols that are inputs themselves."""

    node: torch.fx.Node
    real: Any
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    context: Any = None


class Fact(NamedTuple):
    """What must hold: an expression in which `r0`, `r1` ... stand for what is read of the inputs."""

    text: str
    place: Place | None


class Symbols:
    """The symbols of one trace."""

    def __init__(self, where: Callable[[], Place | None]) -> None:
        self.env = shape_environment.Environment(
            where,
            allow_scalar_outputs=config.capture_scalar_outputs,
            allow_dynamic_output_shape_ops=config.capture_dynamic_output_shape_ops,
        )
        self.inputs: list[Input] = []
        self.sources: list[At] = []
        """Where torch is told that they are found."""
        self.wrapped: list[Wrapped] = []
        self.rows: list[InRows] = []
        self.reads: dict[Any, Read] = {}
        """Symbol -> what of the inputs it stands for. Those that the graph brings about stand for none."""
        self.derived: dict[int, tuple[str, tuple[Any, ...]]] = {}
        """Number of an input that is computed from others -> how that is written, and of what."""
        self.finite: set[int] = set()
        """Those of them that are finite whatever they are computed from."""
        self.places: dict[Any, Place | None] = {}
        self.nested_sizes: dict[Any, tuple[FakeTensor, int]] = {}
        """Symbol of a nested int -> the first nested tensor of this size, and in which dimension."""
        self.asks_data = False
        """Whether the graph asks an input for its value."""
        self.shape_ids: dict[str, Any] = {}
        """What marks call a size -> the size."""

    # ---- inputs

    def tensor(
        self, node: torch.fx.Node, tensor: torch.Tensor, dims: dict[int, Dim], varying: Iterable[int] = ()
    ) -> Input:
        """Symbols for some sizes of a tensor; `varying`: for which strides, where all sizes are fixed."""
        kinds = symbolic_shapes.DimDynamic
        context: Any = symbolic_shapes.StatelessSymbolicContext(
            dynamic_sizes=[kind_of(dims.get(n)) for n in range(tensor.dim())],
            dynamic_strides=[kinds.DUCK if n in varying else kinds.INFER_STRIDE for n in range(tensor.dim())],
            constraint_sizes=[dims[n].constraint() if n in dims else None for n in range(tensor.dim())],
        )
        create, at = self.env.create_symbolic_sizes_strides_storage_offset, self.next_source(node)
        self.env.histories = {n: dim.history for n, dim in dims.items() if dim.history}
        sizes, strides, _ = create(tensor, at, symbolic_context=context)
        self.env.histories = {}
        self.env.pending_fresh_unbacked_symbols.clear()  # it is known what they are
        made = Input(node, tensor, None, tuple(sizes), tuple(strides), context)
        for kind, numbers in (("size", sizes), ("stride", strides)):
            for dim, number in enumerate(numbers):
                self.note_read(number, Read(len(self.inputs), kind, dim))
        self.inputs.append(made)
        for n, marked in dims.items():
            if marked.is_marked and type(sizes[n]) is torch.SymInt:
                self.apply_mark(marked, sizes[n])
        return made

    def next_source(self, node: torch.fx.Node | None) -> At:
        """Where the next input is found: torch names its symbols after that."""
        argument = None if node is None else node.meta.get("grapharg")
        text = "" if argument is None else str(argument.source.name)
        at = At(len(self.inputs), "" if any(known.text == text for known in self.sources) else text)
        self.sources = [*self.sources[: len(self.inputs)], at]
        return at

    def apply_mark(self, dim: Dim, size: Any) -> None:
        """What marks say of a size beside its range."""
        with torch._C.DisableTorchFunction():
            if dim.hint is not None and size.node.expr.is_Symbol:
                vars(self.env).setdefault("var_to_hint_override", {})[size.node.expr] = dim.hint
            for criterion in dim.criteria:
                bool(criterion(size))  # a fact, whether it is met or not
            if not dim.unbacked:
                return
            if dim.least is not None:
                torch._check(size >= dim.least)
            if dim.most is not None:
                torch._check(size <= dim.most)
            if dim.shape_id is not None:
                torch._check(size == self.shape_ids.setdefault(dim.shape_id, size))

    def forget_latest(self) -> None:
        """The latest input has become none after all."""
        self.inputs.pop()
        self.reads = {symbol: read for symbol, read in self.reads.items() if read.input < len(self.inputs)}

    def note_read(self, number: Any, read: Read) -> None:
        if type(number) in SYMBOLIC and number.node.expr.is_Symbol:
            self.reads.setdefault(number.node.expr, read)

    def number(self, node: torch.fx.Node | None, value: int | float) -> Any:
        """A symbol for an int or a float; any value will do, 0 and 1 too."""
        at = self.next_source(node)
        symbol: Any
        varies = symbolic_shapes.DimDynamic.DYNAMIC
        if type(value) is int:
            symbol = self.env.create_unspecified_symint_and_symbol(value, at, varies)
        else:
            made = self.env.create_unspecified_symbol(value, at, varies)
            symbol = self.env.create_symfloatnode(made, hint=value, source=at)
        self.note_read(symbol, Read(len(self.inputs), "number", 0))
        self.inputs.append(Input(node, value, symbol))
        return symbol

    def derive(self, text: str, operands: tuple[Any, ...], is_finite: bool = False) -> None:
        """The latest input is computed from others: guards on it are guards on these."""
        latest = len(self.inputs) - 1
        self.derived[latest] = text, operands
        self.env.operands[self.inputs[latest].symbol.node.expr] = operands
        if is_finite:
            self.finite.add(latest)

    def of(self, symbol: Any) -> Any:
        """The number that a symbol stands for."""
        make = self.env.create_symintnode if symbol.is_integer else self.env.create_symfloatnode
        return make(symbol, hint=None)

    @contextlib.contextmanager
    def asking_data(self) -> Iterator[None]:
        """Within this, a tensor may be asked for its value, which is a symbol of its own then."""
        env: Any = self.env
        before = env.settings
        self.asks_data = True
        env.settings = dataclasses.replace(before, allow_scalar_outputs=True)
        try:
            yield
        finally:
            env.settings = before

    # ---- what only the data decides

    def brings_about(self, out: Any) -> bool:
        return type(out) in SYMBOLIC and bool(symbolic_shapes.free_unbacked_symbols(out))

    def brought_about(self, out: Any) -> Iterator[tuple[Any, Any, int | None]]:
        """Symbols in a result that stand for themselves: which, in what, and in which dimension of it."""
        if type(out) in SYMBOLIC:
            for symbol in symbolic_shapes.free_unbacked_symbols(out):
                if out.node.expr == symbol:
                    yield symbol, out, None
        elif isinstance(out, torch.Tensor):
            sizes: Any = out.shape
            for dim, size in enumerate(sizes):
                if type(size) in SYMBOLIC and size.node.expr in symbolic_shapes.free_unbacked_symbols(size):
                    yield size.node.expr, out, dim
        elif isinstance(out, (tuple, list)):
            for item in out:
                yield from self.brought_about(item)

    @property
    def has_fresh(self) -> bool:
        """Whether the last call has brought symbols about that nothing stands for yet."""
        return bool(self.env.pending_fresh_unbacked_symbols)

    def forget_fresh(self, out: Any) -> None:
        """Something stands for them now. Backends are not told which symbols those are: they have their own
        for the same, of which nothing is known but what the graph checks."""
        symbolic_shapes.compute_unbacked_bindings(self.env, out)

    def are_read(self, symbols: Iterable[Any]) -> bool:
        """Whether symbols are sizes of inputs and numbers that come in: guards are about these."""
        return all(symbol in self.reads for symbol in symbols)

    # ---- the end

    def hand_over(self) -> None:
        """The trace is over: from here on it is the backend that relies on things. It gets a plain
        environment, which can be pickled, and in which it may ask for the floats that come as tensors."""
        env: Any = self.env
        self.places = env.places
        del env.places, env.where, env.histories, env.with_history, env.operands
        env.__class__ = symbolic_shapes.ShapeEnv
        if self.asks_data or self.has_floats:
            env.settings = dataclasses.replace(env.settings, allow_scalar_outputs=True)

    def facts(self) -> tuple[list[Read], list[Fact]]:
        """All that was relied on, by the program and by the backend."""
        reads: dict[Read, int] = {}
        reference = functools.partial(self.reference, reads)
        self.drop_nested()
        (helper,) = self.env.produce_guards_verbose(
            [self.pristine(entry) for entry in self.inputs],
            self.sources[: len(self.inputs)],
            reference,
            input_contexts=[entry.context for entry in self.inputs],
            langs=("python",),
            ignore_static=False,
        )
        places = dict(self.noted(reference))
        certain = {f"not math.isnan({reference(At(n))})" for n in self.finite}
        facts = [
            Fact(text, places.get(text) or places.get(text.partition(" == ")[0]) or places.get(names(text)))
            for text in helper.exprs
            if text not in certain
        ]
        facts += [Fact(text, None) for text in self.deferred(reads)]
        listed = list(reads)
        return renumbered(listed, [fact for fact in facts if not self.is_static(fact.text, listed)])

    def drop_nested(self) -> None:
        """Nested ints are compared by what they are made of, of which there are guards: what follows from
        that is no fact about sizes."""
        if not self.nested_sizes:
            return
        values, guards, kind = self.env.backed_var_to_val, self.env.guards, symbolic_shapes.SingletonInt
        is_nested = lambda expression: any(isinstance(values.get(s), kind) for s in expression.free_symbols)
        guards[:] = [guard for guard in guards if not is_nested(guard.expr)]
        self.places = {found: place for found, place in self.places.items() if not is_nested(found)}

    def reference(self, reads: dict[Read, int], source: Any) -> str:
        """How a fact names what it is about."""
        read = read_of(source)
        if read.input not in self.derived:
            return f"r{reads.setdefault(read, len(reads))}"
        text, operands = self.derived[read.input]
        return text.format(*(self.spelled(reads, operand) for operand in operands))

    def spelled(self, reads: dict[Read, int], operand: Any) -> str:
        if type(operand) not in SYMBOLIC:
            return repr(operand) if operand >= 0 else f"({operand!r})"
        reference = functools.partial(self.reference, reads)
        printer = symbolic_shapes.ShapeGuardPythonPrinter({}, reference, self.env.var_to_sources)
        return f"({printer.doprint(operand.node._expr)})"

    def deferred(self, reads: dict[Read, int]) -> Iterator[str]:
        """What operators need of sizes that are not to be looked at while tracing."""
        for one in itertools.chain.from_iterable(self.env.deferred_runtime_asserts.values()):
            if self.are_read(one.expr.free_symbols):
                text = printer().doprint(one.expr)
                for symbol in one.expr.free_symbols:
                    number = reads.setdefault(self.reads[symbol], len(reads))
                    text = re.sub(rf"\b{symbol}\b", f"r{number}", text)
                yield text

    def noted(self, reference: Callable[[Any], str]) -> Iterator[tuple[str, Place | None]]:
        """The facts with the places that they come from, written the same way."""
        printer = symbolic_shapes.ShapeGuardPythonPrinter({}, reference, self.env.var_to_sources)
        for expression, place in reversed(self.places.items()):
            with contextlib.suppress(AssertionError, RuntimeError):  # about what only the data decides
                text = printer.doprint(expression)
                if not expression.is_Symbol:
                    yield names(text), place  # several facts about one size become a range
                yield text, place
                yield printer.doprint(self.env.simplify(expression)), place

    def is_static(self, text: str, reads: list[Read]) -> bool:
        """Whether a fact says what the guard on the tensor says: what was no symbol has its one size."""
        left, equal, right = text.partition(" == ")
        if not equal or not right.lstrip("-").isdigit() or not left[1:].isdigit():
            return False
        read = reads[int(left[1:])]
        entry = self.inputs[read.input]
        return read.kind == "offset" or (read.kind == "size" and type(entry.sizes[read.dim]) is int)

    def value(self, read: Read) -> int | float:
        """What a read gave when the trace was made."""
        real = self.inputs[read.input].real
        if read.kind == "number":
            return real
        return real.shape[read.dim] if read.kind == "size" else real.stride()[read.dim]

    def needs(self, entry: Input, dim: int) -> list[tuple[str, Place | None]]:
        """What the program asks of a dimension that was to be dynamic, in words, and where."""
        size = entry.sizes[dim]
        if type(size) is int:
            return [(f"it to be {size}", None)]
        symbol, now = size.node._expr, size.node.expr
        if now != symbol:
            return [(f"it to be {now}", self.places.get(symbol))]
        return [
            (re.sub(rf"\b{symbol}\b", "it", str(guard.expr)), self.places.get(guard.expr))
            for guard in self.env.guards
            if symbol in guard.expr.free_symbols
        ]

    def pristine(self, entry: Input) -> Any:
        """An input as it was: the program may have changed the shape of what stood for it."""
        if not isinstance(entry.real, torch.Tensor):
            return entry.symbol
        return recording.FakeTensorMeta(entry.sizes, entry.strides, 0, False)

    @property
    def has_floats(self) -> bool:
        return any(type(entry.real) is float for entry in self.inputs)

    def stand_in(
        self,
        mode: FakeTensorMode,
        entry: Input | Wrapped | InRows | None,
        given: Any,
        knows_floats: bool = True,
    ) -> Any:
        """What stands for an input while a backend compiles a graph. A float that is not known is one that
        only the data decides: a backend can't rely on it."""
        if entry is None:
            return mode.from_tensor(given, static_shapes=True)
        if isinstance(entry, InRows):
            return self.fake_in_rows(mode, entry)
        if isinstance(entry, Wrapped):
            parts = {
                name: self.stand_in(mode, part, getattr(given, name)) for name, part in entry.parts.items()
            }
            made = made_of(mode, given, parts, entry.sizes, entry.strides)
            takes_gradients = entry.strides and given.requires_grad and not made.requires_grad
            return made.requires_grad_() if takes_gradients else made
        if type(entry.real) is float:
            fake: Any = mode.from_tensor(given, static_shapes=True)
            if knows_floats or entry.symbol.node.expr.is_number:
                fake.item_memo = entry.symbol  # what `.item()` gives
            return fake
        if entry.symbol is not None:
            return entry.symbol
        fake = self.fake(mode, entry)
        return fake if fake.requires_grad else fake.requires_grad_(given.requires_grad)

    def fake(self, mode: FakeTensorMode, entry: Input) -> FakeTensor:
        """A fake of a tensor with symbols in it."""
        tensor, sizes, strides = entry.real, entry.sizes, entry.strides
        with as_it_was_made(tensor), torch._C.DisableTorchFunction():
            offset = tensor.storage_offset()
            if offset:
                meta = inside_storage(tensor, offset + spread(entry), sizes, strides)
            else:
                meta = _guards.empty_meta(sizes, strides, tensor.dtype)
            fake = FakeTensor(mode, meta, tensor.device)
            fake.requires_grad_(tensor.requires_grad)
            take_after(fake, tensor)
            return fake

    def in_rows(self, node: torch.fx.Node, tensor: torch.Tensor, sizes: tuple[Any, ...]) -> InRows:
        """A plain tensor that comes in, with sizes that are known already."""
        strides: list[Any] = [1]
        for size in sizes[:0:-1]:
            strides.insert(0, strides[0] * size)
        self.rows.append(InRows(node, tensor, sizes, tuple(strides)))
        return self.rows[-1]

    def fake_in_rows(self, mode: FakeTensorMode, entry: InRows) -> FakeTensor:
        with as_it_was_made(entry.real), torch._C.DisableTorchFunction():
            meta = _guards.empty_meta(entry.sizes, entry.strides, entry.real.dtype)
            return FakeTensor(mode, meta, entry.real.device)


def made_of(
    mode: FakeTensorMode,
    tensor: Any,
    parts: dict[str, Any],
    sizes: tuple[Any, ...],
    strides: tuple[Any, ...] = (),
) -> Any:
    """A tensor of the same class around other parts."""
    with mode, torch._C.DisableTorchFunction():
        names, context = tensor.__tensor_flatten__()
        rest = {name: getattr(tensor, name) for name in names if name not in parts}
        parts = rest | parts  # which need not all be tensors
        return type(tensor).__tensor_unflatten__(parts, context, sizes, strides or tensor.stride())


def renumbered(reads: list[Read], facts: list[Fact]) -> tuple[list[Read], list[Fact]]:
    """The same with only those reads that the facts are about."""
    used: dict[str, int] = {}
    for fact in facts:
        for name in re.findall(r"\br(\d+)\b", fact.text):
            used.setdefault(name, len(used))
    shorter = lambda text: re.sub(r"\br(\d+)\b", lambda found: f"r{used[found[1]]}", text)
    return [reads[int(name)] for name in used], [Fact(shorter(text), place) for text, place in facts]


def names(text: str) -> str:
    """What a fact is about."""
    return " ".join(sorted(set(re.findall(r"\br\d+\b", text)))) + " "


def spread(described: Any) -> Any:
    """How many elements of memory a tensor with these sizes and strides reaches over."""
    last = sum((size - 1) * stride for size, stride in zip(described.sizes, described.strides, strict=True))
    return last + 1


def read_of(source: Any) -> Read:
    """What torch means by a source: an input of ours, or a property of one."""
    if type(source) is At:
        return Read(source.number, "number", 0)
    return Read(source.base.number, KINDS[source.prop.name], source.idx or 0)


KINDS = {"SIZE": "size", "STRIDE": "stride", "STORAGE_OFFSET": "offset"}


# ---- values


def is_symbolic(value: Any) -> bool:
    """Whether a value is a symbolic number, or a size with one in it."""
    cls = type(value)
    return cls in SYMBOLIC or (cls is torch.Size and any(type(size) in SYMBOLIC for size in value))


def settled(value: Any) -> Any:
    """The definite value of a symbolic one; that it has this value is relied on from here on."""
    if type(value) is torch.Size:
        return torch.Size([settled(size) for size in value])
    plain = PYTHON_TYPES.get(type(value))
    if plain is None:
        return value
    node = value.node
    if type(node.hint) is torch.SymInt:
        raise Break(breaks.DATA_DEPENDENT_VALUE, "the size of a nested tensor where its items differ")
    with torch._C.DisableTorchFunction(), data_dependence():
        if plain is not float or node.hint is None:
            return plain(value)
        if node.hint == 0 or not math.isfinite(node.hint):
            settle_symbols(node)  # an equation says nothing of the sign, or nothing at all
        else:
            plain(value)
    return node.hint  # as Python has computed it


def settle_symbols(node: Any) -> None:
    """Whatever an expression is made of has the value that it has now, and what that is computed from."""
    env = node.shape_env
    for symbol in node.expr.free_symbols:
        for operand in getattr(env, "operands", {}).get(symbol, ()):
            settled(operand)
        if symbol.is_integer:
            int(env.create_symintnode(symbol, hint=None))
        else:
            float(env.create_symfloatnode(symbol, hint=None))


def condition_of(error: Exception) -> Any:
    """What could not be decided."""
    return getattr(error, "cond", error)


def data_errors() -> tuple[type[Exception], ...]:
    """What torch raises where only the data decides. Before anyone has imported its module, nothing."""
    module: Any = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    found = getattr(module, "GuardOnDataDependentSymNode", None)
    return () if found is None else (found,)


@contextlib.contextmanager
def data_dependence() -> Iterator[None]:
    """What only the data decides can't be decided while tracing."""
    try:
        yield
    except data_errors() as error:
        raise Break(breaks.DATA_DEPENDENT_VALUE, f"the value of {condition_of(error)}") from error


def simplest(value: Any) -> Any:
    """A symbolic result as the program should see it: a number if it is a fixed one, a bool if it can be
    told."""
    cls = type(value)
    if cls is torch.SymInt:
        known = value.node.maybe_as_int()
        return value if known is None else known
    if cls is torch.SymFloat and value.node.expr.is_number:
        return value.node.maybe_as_float() if value.node.hint is None else value.node.hint
    if cls is torch.SymBool and not stays_condition(value):
        return settled(value)
    return value


def stays_condition(value: torch.SymBool) -> bool:
    """Whether only the data decides it, or it is to be decided where the program asks."""
    if symbolic_shapes.free_unbacked_symbols(value):
        return True
    if not is_of_artifact(value):
        return False
    env: Any = value.node.shape_env
    return env._maybe_evaluate_static(value.node.expr) is None


def is_of_artifact(value: Any) -> bool:
    """Whether a number is one of a graph that Python runs node by node: there is no region, a graph raises
    what Python raises, and integers have any width."""
    env = value.node.shape_env
    return env is not None and env.keeps_conditions
