"""RuntimeCalls: what a program does with generators of random numbers, done again each time the region runs.

A generator of the program's own - of Python, of NumPy, a `torch.Generator` - is a stream that the graph knows
nothing of. What is asked of one is noted with constants for arguments, in the order of the program, and the
region asks it before it runs the graph; what that gives is one of the graph's inputs. While tracing, a twin
of the generator answers instead, so nothing is drawn from the program's.

torch's default generator is the one that the graph draws from. It can be seeded before the graph if nothing
was drawn from it yet, or after the graph if nothing will be: whatever comes in between ends the trace.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.functions import describe, tensors_of
from framelift.graph.symbols import SYMBOLIC
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.type_rules import rule_of_type

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

DEFAULT = torch.default_generator
WIDE = 1 << 62
"""Numbers up to here can be held by a graph, and so can sums of two of them."""


@dataclass(eq=False)
class RuntimeCall:
    """A call that the region makes; its arguments are constants, what came in, or other draws."""

    source: Source
    fn: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    pure: bool = False
    """Whether it may be left out where nobody uses what it gives."""
    late: bool = False
    """Whether it comes after the graph."""


def as_scalar(number: int | float) -> torch.Tensor:
    """What a graph is given for a number that was drawn. Modes of the program's do not see it made."""
    with torch._C.DisableTorchFunction():
        return torch.scalar_tensor(number, dtype=torch.float64 if type(number) is float else torch.int64)


EXACT = frozenset({operator.add, operator.sub, operator.mul, operator.neg})
EXACT |= {operator.iadd, operator.isub, operator.imul}
QUOTIENTS = frozenset({operator.truediv, operator.itruediv})


class RuntimeCalls:
    def __init__(self, world: TraceWorld) -> None:
        self.world = world
        self.made: list[RuntimeCall] = []
        self.twins: dict[int, Any] = {}
        self.symbols: dict[Any, Source] = {}
        """Symbol of a number that was drawn -> the draw."""
        self.numbers: dict[Source, int | float] = {}
        """What the twins have drawn."""
        self.kept: list[Any] = []
        self.made_inside: set[int] = set()
        """ids of generators that the program makes."""

    # ---- what can be drawn, and with what

    def check_place(self) -> None:
        """The body of an operator may run at another time, or never."""
        if self.world.recorder.builder.in_body:
            raise Break(breaks.RANDOM, "numbers drawn in what an operator is given to call")

    def is_fixed(self, value: Any) -> bool:
        """Whether it is the same at the beginning of the region as it is here, and can be had there."""
        if type(value) in (tuple, list):
            return all(map(self.is_fixed, value))
        if isinstance(value, torch.Tensor):
            recorder = self.world.recorder
            at = recorder.inputs.index_of.get(id(value))
            return at is not None and id(value) not in recorder.mutations.changed
        if type(value) is int:
            return abs(value) < WIDE
        return type(value) in op_memory.ATOMS

    def twin(self, generator: Any) -> Any:
        found = self.twins.get(id(generator))
        if found is None:
            make_twin = rule_of_type(type(generator)).twin
            assert make_twin is not None
            found = self.twins[id(generator)] = make_twin(generator)
            self.kept.append(generator)
        return found

    def generators(self) -> list[Any]:
        """The program's own that the region's calls before the graph draw from, seed or set."""
        given = [
            x
            for call in self.made
            if not (call.pure or call.late)
            for x in (*call.args, *call.kwargs.values())
        ]
        found = [
            x for x in (*self.kept, *given) if x is not DEFAULT and rule_of_type(type(x)).rewind is not None
        ]
        return list({id(x): x for x in found if id(x) not in self.made_inside}.values())

    # ---- drawing

    def note(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **how: bool) -> Source:
        """The region will make this call."""
        source = self.world.inputs.root.drawn(len(self.made))
        self.made.append(RuntimeCall(source, fn, args, kwargs, **how))
        return source

    def made_generator(self, made: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A generator that the program makes; while tracing it is its own twin."""
        self.check_place()
        self.twins[id(made)] = made
        self.made_inside.add(id(made))
        return self.world.inputs.know(made, made, self.note(fn, args, kwargs))

    def tensor(
        self, example: torch.Tensor, source: Source, text: str = "", sizes: tuple[Any, ...] | None = None
    ) -> Any:
        """`text`: what the input is called after, if not after its source; `sizes`: see
        `input_fakes.add_input`."""
        return self.world.inputs.add_tensor(example, source, text=text, sizes=sizes)

    def number(self, example: int | float, source: Source) -> Any:
        """A number that may be any other the next time, so nothing can be decided by it."""
        recorder = self.world.recorder
        symbols = recorder.builder.symbolise()
        self.numbers[source] = example
        with outside_of_modes():
            scalar = as_scalar(example)
        fake = self.tensor(scalar, self.note(as_scalar, (source,), {}, pure=True))
        with symbols.asking_data():
            symbol = recorder.record_call(torch.Tensor.item, (fake,), {})  # which no mode sees
        recorder.builder.numbers.drop_if_unused(symbol)
        self.symbols[symbol.node.expr] = source
        return symbol

    def copy(self, fake: Any) -> Source:
        return self.note(torch.clone, (fake,), {})

    # ---- computing with what was drawn

    def source_of(self, value: Any) -> Source | None:
        """The draw that a number is, if it is one."""
        return self.symbols.get(value.node.expr) if type(value) in SYMBOLIC else None

    def computes(self, fn: Any, operands: tuple[Any, ...]) -> bool:
        """Whether Python can do it in the region: exactly as eager does, and without an error."""
        kinds = {type(operand) for operand in operands if self.source_of(operand) is None}
        if not any(type(operand) is torch.SymFloat for operand in operands) or not kinds <= {int, float}:
            return False
        if any(type(operand) is int and abs(operand) > WIDE for operand in operands):
            return False
        return fn in EXACT or (fn in QUOTIENTS and type(operands[1]) in (int, float) and operands[1] != 0)

    def compute(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        given = tuple(self.source_of(operand) or operand for operand in operands)
        values = [self.numbers[x] if type(x) is Source else x for x in given]
        return self.number(fn(*values), self.note(fn, given, {}, pure=True))

    # ---- torch's default generator

    def at_default(self, fn: Any, args: tuple[Any, ...]) -> None:
        """Something is done to the generator that the graph draws from."""
        self.check_place()
        late = self.world.recorder.random_numbers.set_generator()
        if late:  # the graph may write to what is given
            args = tuple(self.copy(x) if isinstance(x, torch.Tensor) else x for x in args)
        self.note(fn, args, {}, late=late)

    def state_of_default(self, fn: Any) -> Any:
        self.check_place()
        if self.world.recorder.random_numbers.drawn or self.world.recorder.random_numbers.generator_set:
            raise Break(breaks.RANDOM, "the state of torch's generator, after the graph has drawn from it")
        with outside_of_modes():
            state = DEFAULT.get_state()
        return self.tensor(state, self.note(fn, (), {}))

    def is_default(self, generator: torch.Generator) -> bool:
        """Whether it is torch's own; and that it stays that, or another one, and for which device."""
        if generator is not DEFAULT and generator.device.type != "cpu":
            raise Break(breaks.RANDOM, f"a torch.Generator of {generator.device}")
        source = self.world.inputs.known[id(generator)].source
        if source.access is not Access.CONST:
            self.world.guards.add(source, Check.IS if generator is DEFAULT else Check.IS_NOT, DEFAULT)
            self.world.guards.add(source.child(Access.NATIVE_ATTR, "device"), Check.EQUAL, generator.device)
        return generator is DEFAULT

    # ---- a torch.Generator of the program's

    def new_generator(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        given = [*args, *kwargs.values()]
        device = torch.device(given[0]) if given else torch.device("cpu")
        if len(given) > 1 or not kwargs.keys() <= {"device"} or device.type != "cpu":
            raise Break(breaks.RANDOM, f"a torch.Generator of {device}")
        return self.made_generator(torch.Generator(device), torch.Generator, (device,), {})

    def of_generator(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A torch function that draws from a generator which it is given."""
        generator = kwargs["generator"]
        kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        recorder = self.world.recorder
        if self.is_default(generator):
            return recorder.call(fn, tuple(args), kwargs)
        given = (*args, *kwargs.values())
        if fn not in FACTORIES or not all(map(self.is_fixed, given)) or tensors_of(given) or "out" in kwargs:
            raise Break(breaks.RANDOM, f"{describe(fn)} of tensors, with a torch.Generator")
        if torch.is_inference_mode_enabled() or recorder.modes.active:
            raise Break(breaks.RANDOM, f"{describe(fn)} with a torch.Generator, in a context of torch's")
        self.check_place()
        with outside_of_modes():
            example = fn(*args, **kwargs, generator=self.twin(generator))
            options = {**kwargs, "dtype": example.dtype, "generator": generator}
        return self.tensor(example, self.note(fn, tuple(args), options))


FACTORIES = frozenset({torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal})
"""Functions that make a tensor of what they draw."""


@contextlib.contextmanager
def outside_of_modes() -> Iterator[None]:
    """What is real, and not recorded."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield
