"""Texts with numbers in them that may vary, or with tensors: most are messages that nobody ever reads.

Such a text is pending: it can be stored, handed on and returned, and the region puts it together where it
lives on. What looks at it opens it, and then it is a text like any other, of definite numbers; what tensors
hold only the data decides, so that nothing can look at a text of them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.graph.op_memory import PYTHON_ATOMS
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC, settled
from framelift.guards.kinds import Check
from framelift.guards.sources import Source
from framelift.interpreter.op_operators import joined
from framelift.interpreter.pending import Pending, opened
from framelift.trace.part import Part

OF_VALUES = frozenset({format, str, repr, ascii})
JOINING = frozenset({operator.add, operator.iadd, joined})
FORMATTING = frozenset({operator.mod, operator.imod})
MAKING_TEXTS = OF_VALUES | JOINING | FORMATTING


class TextOfTensor(str):
    """Stands for what a tensor is as a text."""

    def __format__(self, spec: str) -> str:
        if spec:  # which only numbers take
            raise TypeError(spec)
        return str(self)


class TextOfNumber(TextOfTensor):
    """Stands for what a tensor without dimensions is as a text, which takes the formats of its number. Any
    number does, but where the format decides which ones are taken."""

    number: int | float | complex

    def __format__(self, spec: str) -> str:
        if spec.endswith("c"):
            raise TypeError(spec)
        return format(self.number, spec)

    def __float__(self) -> float:
        if isinstance(self.number, complex):
            raise TypeError
        return float(self.number)

    def __int__(self) -> int:
        if not isinstance(self.number, int):
            raise TypeError
        return self.number


IN_PLACE_OF_TENSORS = "tensor(...)"


def text_of(fake: FakeTensor) -> TextOfTensor:
    """What stands for the text of a tensor."""
    if fake.dim() or fake.is_meta:
        return TextOfTensor(IN_PLACE_OF_TENSORS)
    text = TextOfNumber(IN_PLACE_OF_TENSORS)
    kind = complex if fake.is_complex() else float if fake.is_floating_point() else int
    text.number = kind(1) if fake.dtype is not torch.bool else True
    return text


class LateText(NamedTuple):
    """A call that makes a text."""

    fn: Any
    operands: tuple[Any, ...]
    named: dict[str, Any]
    symbols: list[Any]
    """All that it is made of, that of other texts included: numbers, and texts that only the data decides."""


class LateTexts(Part):
    """The texts that nobody has looked at yet."""

    def start(self) -> None:
        self.made: dict[Source, LateText] = {}

    def load(self, value: str, source: Source) -> str:
        """Somebody looks at it."""
        for symbol in self.made[source].symbols:
            if type(symbol) is FakeTensor:
                raise Break(breaks.DATA_DEPENDENT_VALUE, "the text of a tensor shows its values")
            settled(opened(symbol))
        return value

    def of_data(self, value: Any) -> Any:
        """A text that was another one before, or that a step has made of data; other values as they are."""
        if type(value) is not Pending or type(value.value) is not str or value.opened is not MISSING:
            return value
        inputs = self.world.inputs
        if value.inputs is not inputs or not inputs.dynamism.was_another(value.source, value.value):
            return value
        self.world.guards.add(value.source, Check.TYPE, str)
        return self.add(str, (value,), {}, [value], value.value)

    def truth(self, text: Pending) -> bool:
        """Numbers have digits, whichever they are."""
        if any(type(symbol) is Pending for symbol in self.made[text.source].symbols):
            text.open()
        return bool(text.value)

    def add(
        self, fn: Any, operands: tuple[Any, ...], named: dict[str, Any], symbols: list[Any], text: str
    ) -> Pending:
        source = self.world.inputs.root.late_text(len(self.made))
        self.made[source] = LateText(fn, operands, named, symbols)
        return Pending(self, source, text)

    def has(self, value: Any) -> bool:
        return type(value) is Pending and value.inputs is self and value.opened is MISSING

    def operate(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """An operator that may make a text. MISSING: nothing was done."""
        if fn in (format, str) and self.has(operands[0]) and operands[1:] in ((), ("",)):
            return operands[0]
        if fn in OF_VALUES or (fn in FORMATTING and type(operands[0]) is str):
            return self.make(fn, operands)
        if fn in JOINING and all(type(text) is str or self.has(text) for text in operands):
            return self.make(joined, operands)
        return MISSING

    def call(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call that may make a text, on arguments that may have to be opened. MISSING: nothing was done."""
        operands = tuple(map(self.shown, args))
        return (
            self.operate(fn, operands) if fn in OF_VALUES and not kwargs else self.make(fn, operands, kwargs)
        )

    def make(self, fn: Any, operands: tuple[Any, ...], named: dict[str, Any] | None = None) -> Any:
        """What a function gives for operands with symbols or such texts among them. MISSING: it has to know
        them."""
        if self.world.recorder.builder.in_body:
            return MISSING
        operands = tuple(map(self.shown, operands))
        named = {name: self.shown(value) for name, value in (named or {}).items()}
        symbols = list(self.symbols_in((*operands, *named.values())))
        if not symbols or any(symbol is MISSING for symbol in symbols):
            return MISSING
        try:
            text = fn(*map(now, operands), **{name: now(value) for name, value in named.items()})
        except Exception:
            return MISSING  # it will fail where it is really done
        if any(type(symbol) is FakeTensor for symbol in symbols):
            if not all(self.has_plain_text(fn, each) for each in (*operands, *named.values())):
                return MISSING
            operands = tuple(map(self.as_it_is_now, operands))
            named = {name: self.as_it_is_now(value) for name, value in named.items()}
        return self.add(fn, operands, named, symbols, text)

    def shown(self, operand: Any) -> Any:
        """An operand as C sees it, but for texts that nobody has looked at."""
        value = operand if self.has(operand) else opened(operand)
        return tuple(map(self.shown, value)) if type(value) is tuple else value

    def has_plain_text(self, fn: Any, operand: Any) -> bool:
        """Whether the text of an operand is that of a copy of it: nothing is said of gradients, and nobody
        is asked what the text is."""
        if type(operand) is tuple:
            return all(self.has_plain_text(fn, each) for each in operand)
        recorder = self.world.recorder
        if type(operand) is not FakeTensor:
            return True
        if recorder.subclasses.are_there or recorder.modes.active or recorder.wrappers.behind:
            return False
        if isinstance(operand, torch.nn.Parameter):  # which says that it is one
            return False
        with torch._C.DisableTorchFunction():
            shows_number = fn is format and operand.dim() == 0
            return operand.layout is torch.strided and (shows_number or not operand.requires_grad)

    def as_it_is_now(self, operand: Any) -> Any:
        if type(operand) is tuple:
            return tuple(map(self.as_it_is_now, operand))
        if type(operand) is not FakeTensor:
            return operand
        call = self.world.recorder.call
        return call(torch.Tensor.clone, (call(torch.Tensor.detach, (operand,), {}),), {})

    def symbols_in(self, operands: Iterable[Any]) -> Iterable[Any]:
        """The symbols and tensors that operands are made of; MISSING for what has to be looked at."""
        for operand in operands:
            cls = type(operand)
            if cls is torch.SymInt or cls is torch.SymFloat or cls is FakeTensor:
                yield operand
            elif self.has(operand):
                yield from self.made[operand.source].symbols
            elif cls is tuple or cls is torch.Size:
                yield from self.symbols_in(operand)
            elif cls not in PYTHON_ATOMS:
                yield MISSING


def now(operand: Any) -> Any:
    """What it is while tracing; of numbers that only the data decides, any."""
    cls = type(operand)
    if cls is Pending:
        return operand.value
    if cls is FakeTensor:
        return text_of(operand)
    if cls in SYMBOLIC:
        return PYTHON_TYPES[cls](1) if operand.node.hint is None else operand.node.hint
    return cls(map(now, operand)) if cls in (tuple, torch.Size) else operand
