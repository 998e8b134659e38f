"""Operators, truth and `isinstance` on values of a trace; which operators graphs have."""

from __future__ import annotations

import collections
import contextlib
import operator
import re
import sys
from types import FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift._frame import native
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import DATA_DEPENDENT_VALUE, Break
from framelift.core.sentinels import MISSING
from framelift.graph import arithmetic, numbers_of_data
from framelift.graph.arithmetic import NUMBERS
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC, data_dependence, settled, simplest
from framelift.guards.kinds import Access, Check
from framelift.interpreter.op_operators import IN_PLACE, METHODS
from framelift.interpreter.pending import Pending, opened
from framelift.trace.callable_rules import rule_of
from framelift.trace.classes import is_checked_by_class, protocols_in
from framelift.trace.comparisons import COMPARING
from framelift.trace.containers import SIZED
from framelift.trace.late_texts import FORMATTING, MAKING_TEXTS, OF_VALUES
from framelift.trace.machine import calls_back
from framelift.trace.materialize import ATOMS, Seen, SeenByTorch
from framelift.trace.part import Part
from framelift.trace.type_rules import ABSTRACT, IMMUTABLE_TYPE, is_ordinary

GRAPH_OPERATORS = frozenset(
    {*IN_PLACE, *IN_PLACE.values()}
    | {operator.neg, operator.pos, operator.invert, operator.lt, operator.le, operator.eq, operator.ne}
    | {operator.gt, operator.ge, operator.getitem}
)
"""Operators that a graph can hold as they are."""

OF_SIZES = frozenset({len, operator.getitem, operator.add, operator.iadd, operator.eq, operator.ne})
"""Operators on sizes that leave symbols in them what they are."""

TEXT_FIELD = re.compile(r"%(\([^)]*\))?[^%a-zA-Z]*[sra]")
"""What shows a value's text, rather than its number, where `%` formats it."""

TEXTUAL = OF_VALUES | FORMATTING
"""Operators that may give a text where no operand is one yet to be made."""

SEQUENCES = (list, tuple)

JOINING = frozenset({operator.add, operator.iadd, operator.mul, operator.imul})
"""Operators that move the elements of lists and tuples without looking at them."""
MERGING = frozenset({dict.update, operator.or_, operator.ior})
"""Operations that move the values of dictionaries without looking at them."""
DICTIONARIES = (dict, collections.OrderedDict, collections.defaultdict)


ASKING: dict[Any, tuple[str, ...]] = {
    **{len: ("__len__",), bool: ("__bool__", "__len__"), operator.index: ("__index__",)},
    **{int: ("__int__",), float: ("__float__",)},
}
"""Function that gives a number -> the methods that it asks an object for it, in this order."""
KINDS: dict[Any, tuple[type, ...]] = dict.fromkeys((len, int, operator.index), (int, torch.SymInt))
KINDS |= {float: (float, torch.SymFloat), bool: (bool, torch.SymBool)}
"""Function -> the types of what a method has to give."""


class Giving:
    """An object with an answer of which C says what is wrong with it."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def give(self) -> Any:
        return self.given

    __len__ = __bool__ = __index__ = __int__ = __float__ = give


def is_of_program(value: Any) -> bool:
    """Whether a value may be of a class of the program's, with methods that C calls."""
    cls = type(value)
    return cls not in SYMBOLIC and cls is not FakeTensor and is_ordinary(cls)


class Operators(Part):
    @acts_for_program
    def apply(self, fn: Any, *operands: Any) -> Any:
        tensors = symbols = False
        world = self.world
        for operand in operands:
            cls = type(operand)
            if cls is FakeTensor:
                tensors = True
            elif cls in SYMBOLIC or (cls is torch.Size and world.recorder.builder.symbols is not None):
                symbols = True
            elif cls not in ATOMS:
                break
        else:
            if symbols and not tensors:
                return self.compute(fn, operands)
            if tensors and fn in FORMATTING and type(operands[0]) in (str, bytes):
                return self.apply_native(fn, operands)
            if tensors and fn in OF_VALUES:
                text = world.late_texts.operate(fn, operands)
                return native(fn, *operands) if text is MISSING else text
            if tensors and fn in GRAPH_OPERATORS:
                if world.recorder.subclasses.are_programs:
                    found = world.overrides.operate(fn, operands)
                    if found is not MISSING:
                        return found
                if fn in IN_PLACE and type(operands[0]) is not FakeTensor:
                    fn = IN_PLACE[fn]  # `number += tensor` changes no tensor
                return world.recorder.call(fn, operands, {})
            # what is called with nothing may be the program's: a class, a bound method
            return fn(*operands) if operands and not tensors else native(fn, *operands)
        for operand in operands:
            if type(operand) in ABSTRACT:
                return world.abstract(operand).operate(fn, operands)
        if world.recorder.subclasses.are_programs and fn in METHODS:
            found = world.overrides.operate(fn, operands)
            if found is not MISSING:
                return found
        if fn in JOINING and type(operands[0]) in SEQUENCES and type(operands[1]) in (*SEQUENCES, int):
            return fn(*operands)
        if fn in MERGING and all(type(operand) in DICTIONARIES for operand in operands):
            return fn(*operands)
        if fn in JOINING and all(type(operand) in (*SEQUENCES, torch.Size) for operand in operands):
            return fn(*map(world.materialize.for_torch, operands))  # a size takes numbers, and symbols, only
        if world.recorder.builder.symbols is not None and fn in METHODS:
            plain = [self.as_builtin(fn, operand) for operand in operands]
            if any(now is not before for now, before in zip(plain, operands, strict=True)):
                return self.apply(fn, *plain)
        return self.apply_native(fn, operands)

    def as_builtin(self, fn: Any, operand: Any) -> Any:
        """A number or tuple of a class that leaves the operator to `int` or `tuple`: as one of these."""
        cls = type(operand)
        base = int if issubclass(cls, int) else tuple if issubclass(cls, tuple) else cls
        if cls is base or cls is bool or cls is torch.Size:
            return operand
        methods = [(name, vars(base).get(name, MISSING)) for name in METHODS[fn]]
        if any(self.world.classes.attribute(cls, name) is not own for name, own in methods):
            return operand
        return int.__pos__(operand) if base is int else tuple.__getitem__(operand, slice(None))

    def apply_unopened(self, fn: Any, *operands: Any) -> Any:
        late_texts = self.world.late_texts
        if self.world.inputs.dynamism.seen and fn in MAKING_TEXTS:
            operands = tuple(map(late_texts.of_data, operands))
        if late_texts.made and any(map(late_texts.has, operands)):
            operands = tuple([x if late_texts.has(x) else opened(x) for x in operands])
            if (text := late_texts.operate(fn, operands)) is not MISSING:
                return text
        return self.apply(fn, *map(opened, operands))

    @acts_for_program
    def compute(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """An operator on numbers, or sizes, some of which are symbols."""
        if fn in TEXTUAL and (text := self.world.late_texts.operate(fn, operands)) is not MISSING:
            return text
        if self.world.runtime_calls.computes(fn, operands):
            return self.world.runtime_calls.compute(fn, operands)
        derived = self.world.derived_numbers.compute(fn, operands)
        if derived is not MISSING:
            return derived
        if all(type(operand) in NUMBERS for operand in operands):
            return self.compute_numbers(fn, operands)
        if fn in OF_SIZES:
            # an operator that sizes do not have is one that tuples may have all the same
            missing = contextlib.suppress(TypeError, NotImplementedError)
            with missing, torch._C.DisableTorchFunction(), data_dependence():
                return simplest(fn(*operands))
        if fn in COMPARING:
            found = self.world.comparisons.with_constant(fn, operands)
            found = self.world.comparisons.call(fn, list(operands)) if found is MISSING else found
            if found is not MISSING:
                return found
        return fn(*map(settled, operands))

    def compute_numbers(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        try:
            return arithmetic.compute(IN_PLACE.get(fn, fn), operands, fn)
        except Break as found:
            if found.reason is not DATA_DEPENDENT_VALUE:
                raise
            computed = numbers_of_data.computed(self.world.recorder.call, fn, operands, self.is_assumed)
            if computed is NotImplemented:
                raise
            return computed

    def is_assumed(self, condition: Any) -> bool:
        """Whether the graph checks that a divisor is not zero."""
        frame = self.world.machine.frame
        return self.world.raising_branches.assume(frame, condition, "float division by zero")

    def apply_native(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """C does it: it is shown what it looks at."""
        if fn in TEXTUAL and (text := self.world.late_texts.operate(fn, operands)) is not MISSING:
            return text
        if fn in COMPARING and self.world.recorder.builder.symbols is not None:
            found = self.world.comparisons.call(fn, list(operands))
            if found is not MISSING:
                return found
        if fn in JOINING and self.world.recorder.builder.symbols is not None and len(operands) == 2:
            left, right = operands
            if fn is operator.iadd and type(left) is list:
                left.extend(self.world.containers.elements(right))
                return left
            if fn is not operator.add and type(left) is int and type(right) in SEQUENCES:
                return right * left
        keeps_symbols = self.is_done_by_methods(operands)
        shown: list[Seen] = [SeenByTorch() if keeps_symbols else {} for _ in operands]
        prepared = list(map(self.world.materialize.value, operands, shown))
        if self.world.set_order.sources:
            self.world.set_order.check(fn, prepared)
        rule = rule_of(fn)
        if rule.compares:
            self.world.identity.keep_apart(shown[0], shown[1])
        elif rule.shows_text or (
            fn is operator.mod and type(prepared[0]) is str and TEXT_FIELD.search(prepared[0])
        ):
            for seen in shown:
                self.world.identity.refuse_addresses(seen, fn)
                self.world.set_order.refuse_in(seen)
        return self.world.set_order.call(fn, prepared)

    def is_done_by_methods(self, operands: tuple[Any, ...]) -> bool:
        """Whether an operand is a number that varies, and the other one the program's own object: C hands the
        number on to what its class has for the operator."""
        if self.world.recorder.builder.symbols is None or len(operands) != 2:
            return False
        left, right = operands if type(operands[0]) in SYMBOLIC else operands[::-1]
        return type(left) in NUMBERS and is_of_program(right)

    @acts_for_program
    def length(self, value: Any) -> int:
        if type(value) in SIZED:
            return len(value)
        if type(value) in ABSTRACT:
            return self.world.abstract(value).length(value)
        given = self.given_by_method(len, value)
        return native(len, self.world.materialize.shallow(value)) if given is MISSING else given

    def is_length(self, given: Any) -> bool:
        if type(given) is int:
            return 0 <= given <= sys.maxsize
        return self.truth(self.apply(operator.ge, given, 0))

    @calls_back
    @acts_for_program
    def given_by_method(self, fn: Any, value: Any) -> Any:
        """What a method of the program's class gives where a function of C asks it for a number, which may be
        one that varies. MISSING: C asks."""
        world = self.world
        if not world.may_have_symbols or not is_of_program(value):
            return MISSING
        methods = (world.classes.attribute(type(value), name) for name in ASKING[fn])
        method = next((found for found in methods if found is not MISSING), MISSING)
        if type(method) is not FunctionType:
            return MISSING
        given = opened(world.calls.invoke(method, value))
        if type(given) in KINDS[fn] and (fn is not len or self.is_length(given)):
            return given
        return fn(type(type(value).__name__, (Giving,), {})(world.materialize.for_c(given)))

    @acts_for_program
    def truth(self, value: Any) -> bool:
        if type(value) is Pending:
            if self.world.late_texts.has(value):
                return self.world.late_texts.truth(value)
            raw, inputs = value.value, self.world.inputs
            unknown = value.opened is MISSING
            if unknown:
                inputs.glanced[value.source] = raw
                unknown = not (id(raw) in inputs.known or id(raw) in self.world.containers.blind)
            if unknown and type(raw) in SIZED and value.source.access is not Access.DICT:
                self.world.guards.add(value.source, Check.TYPE, type(raw))
                self.world.guards.add(value.source, Check.NONEMPTY, bool(raw))
                return bool(raw)
            value = value.open()
        cls = type(value)
        if cls is FakeTensor:
            own = self.world.overrides.ask_own(value, "__bool__")
            if own is not MISSING:
                return self.truth(own)
            expected = self.world.raising_branches.truth(value, value)
            if expected is not None:
                return expected
            return self.truth_of_tensor(value)
        if cls in SYMBOLIC:
            return self.truth_of_symbol(value)
        if cls in ATOMS or cls in SIZED:
            return bool(value)
        if cls in ABSTRACT:
            return self.world.abstract(value).truth(value)
        asked = [name for name in ASKING[bool] if self.world.classes.attribute(cls, name) is not MISSING]
        if not asked:
            return True
        given = self.given_by_method(bool if asked[0] == "__bool__" else len, value)
        if given is not MISSING:
            return self.truth_of_symbol(given) if type(given) in SYMBOLIC else bool(given)
        return native(bool, self.world.materialize.shallow(value))

    def negated(self, value: Any) -> Any:
        """`not value`: of a number that only the data decides it is one too."""
        if type(value) in SYMBOLIC and symbolic_shapes.free_unbacked_symbols(value):
            with torch._C.DisableTorchFunction():
                return torch.sym_not(value if type(value) is torch.SymBool else value != 0)
        return not self.truth(value)

    def truth_of_tensor(self, value: FakeTensor) -> bool:
        try:
            return bool(self.world.recorder.call(torch.Tensor.__bool__, (value,), {}))
        except Break as found:
            if found.reason is breaks.DATA_DEPENDENT_VALUE:  # the number was captured, and is then asked
                found.reason, found.context = breaks.DATA_DEPENDENT_BRANCH, "Tensor.__bool__"
            raise

    def truth_of_symbol(self, value: Any) -> bool:
        condition = value if type(value) is torch.SymBool else value != 0
        try:
            return bool(settled(condition))
        except Break:
            expected = self.world.raising_branches.truth_of_number(value, condition)
            if expected is None:
                raise
            return expected

    def is_constant(self, value: Any, types: frozenset[Any] = ATOMS) -> bool:
        """Whether a value that nobody has looked at is a constant; its type is guarded then."""
        if type(value) is not Pending or value.opened is not MISSING:
            return False
        if type(value.value) not in types or value.value is None:
            return False
        self.world.guards.add(value.source, Check.TYPE, type(value.value))
        return True

    def is_instance(self, value: Any, cls: Any) -> bool:
        cls = self.world.materialize.for_c(cls)
        if is_checked_by_class(cls) and self.is_constant(value):
            self.world.classes.guard_check(cls, "__instancecheck__")
            return native(isinstance, value.value, cls)
        value = opened(value)
        if type(value) in SYMBOLIC:
            value = PYTHON_TYPES[type(value)]()
        if type(value) is FakeTensor:  # which the program's tensor is not
            self.world.classes.guard_check(cls, "__instancecheck__")
            return self.world.tensors.is_instance(value, cls)
        if type(value) is cls:
            return True  # nobody is asked
        self.world.classes.guard_check(cls, "__instancecheck__")
        if type(value) in ABSTRACT:
            return native(issubclass, self.world.abstract(value).class_of(value), cls)
        if not type(value).__flags__ & IMMUTABLE_TYPE:
            self.world.classes.guard_bases(type(value))
            self.world.classes.attribute(type(value), "__class__")
        for protocol in protocols_in(cls):
            self.world.classes.guard_protocol(value, protocol)
        return native(isinstance, value, cls)
