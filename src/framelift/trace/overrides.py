"""What a program's tensor classes and torch function modes say of torch's functions, by `__torch_function__`,
and of Python's operators, by special methods of their own. Interpreted as the program's code is.
"""

from __future__ import annotations

import itertools
import operator
from types import FunctionType, MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._device import DeviceContext

from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.symbols import SYMBOLIC
from framelift.interpreter.op_operators import METHODS
from framelift.interpreter.pending import opened
from framelift.trace.part import Part
from framelift.trace.type_rules import IMMUTABLE_TYPE

ONE_OPERAND = frozenset({operator.neg, operator.pos, operator.invert})
CONVERTING = frozenset({float, int, bool, complex, abs, round, operator.abs, operator.index})
"""Builtins that ask a special method of their name, and nothing else."""
ITERATING = frozenset(
    {list, tuple, set, frozenset, sum, max, min, sorted, any, all, zip, map, filter, enumerate}
)
ITERATING |= {iter, dict.fromkeys, list.extend, set.update}


def is_programs(cls: type) -> bool:
    """Whether it may have operators in Python."""
    return not cls.__flags__ & IMMUTABLE_TYPE and cls not in SYMBOLIC


class Overrides(Part):
    """Calls the handlers that torch would call."""

    def ask_class(self, owner: Any, func: Any, classes: tuple[type, ...], args: Any, kwargs: Any) -> Any:
        """Calls the `__torch_function__` of a tensor's class, or of an object."""
        handler = self.world.attributes.load(owner, "__torch_function__")
        return self.world.materialize.for_torch(self.world.calls.invoke(handler, func, classes, args, kwargs))

    def meet_mode(self, number: int, mode: Any) -> None:
        """A torch function mode from before the call: what it does is traced, what it reads is guarded."""
        if type(mode) is not DeviceContext:  # of which all is known
            self.check_mode(self.world.inputs.load(mode, self.world.inputs.root.mode(number)))

    def check_mode(self, mode: Any) -> Any:
        handler = self.world.attributes.load(mode, "__torch_function__")
        fn = handler.__func__ if type(handler) is MethodType else None
        if type(fn) is not FunctionType or not self.world.calls.interprets(fn):
            refuse(breaks.TORCH_STATE, f"the torch function mode {type(mode).__qualname__}")
        return handler

    def ask_mode(self, mode: Any, func: Any, args: Any, kwargs: Any, names_class: bool) -> Any:
        """Calls the `__torch_function__` of a mode. `names_class`: whether torch tells it the class of the
        first tensor, as it does for attributes and methods without arguments, though nobody asks that."""
        handler = self.check_mode(mode)
        subclasses = self.world.recorder.subclasses
        classes = tuple(subclasses.overloaded(args, kwargs or {}))
        if names_class and not classes:
            classes = (subclasses.class_of(args[0]),)
        given = (func, classes, args) if kwargs is None else (func, classes, args, kwargs)
        return self.world.materialize.for_torch(self.world.calls.invoke(handler, *given))

    def ask_modes(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that torch's Python code hands to the modes: the innermost of the program's answers, while
        it is not in force."""
        with self.world.recorder.modes.without_innermost() as mode:
            return self.ask_mode(mode, func, args, kwargs, names_class=False)

    def refuse(self, what: str, *asked: Any) -> None:
        """What a trace does itself can't be done by the class of a tensor, or by a mode, which torch asks."""
        recorder = self.world.recorder
        if recorder.modes.asks_program or recorder.subclasses.overloaded(asked, {}):
            refuse(breaks.TORCH_STATE, f"{what}, about which a __torch_function__ is asked")

    # ---- operators of the language

    def own_method(self, value: Any, name: str) -> Any:
        """A special method that a tensor has of the program's class, bound; MISSING if there is none."""
        cls = self.world.recorder.subclasses.classes.get(id(value)) if type(value) is FakeTensor else None
        if cls is None or cls in PLAIN_CLASSES:
            return MISSING
        found = self.world.classes.attribute(cls, name)
        if found is MISSING or found is self.world.classes.attribute(torch.Tensor, name):
            return MISSING
        return self.world.attributes.bound(found, value, cls, name)

    def ask_own(self, value: Any, name: str, *args: Any) -> Any:
        """What a special method of the program's gives; MISSING if its class has none."""
        if not self.world.recorder.subclasses.are_programs:
            return MISSING
        method = self.own_method(value, name)
        return MISSING if method is MISSING else opened(self.world.calls.invoke(method, *args))

    def given_to_c(self, fn: Any, args: list[Any]) -> tuple[Any, list[Any]]:
        """What a builtin gives that asks such a method, or MISSING; and the arguments for C."""
        if fn in METHODS or fn in ONE_OPERAND:
            return self.operate(fn, tuple(args)), args
        if fn in CONVERTING and args:
            return self.ask_own(args[0], f"__{fn.__name__}__", *args[1:]), args
        if fn not in ITERATING:
            return MISSING, args
        has_own = [self.own_method(arg, "__iter__") is not MISSING for arg in args]
        elements = self.world.containers.elements
        return MISSING, [elements(arg) if own else arg for arg, own in zip(args, has_own, strict=True)]

    @acts_for_program
    def operate(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """An operator on tensors whose classes have their own; MISSING where the recorder is to be asked."""
        classes = self.world.recorder.subclasses.classes
        if all(classes.get(id(one), torch.Tensor) in PLAIN_CLASSES for one in operands):
            return MISSING
        names = METHODS.get(fn)
        if names is None:
            return self.ask_own(operands[0], f"__{fn.__name__.strip('_')}__", *operands[1:])
        left, right = operands
        if all(self.own_method(*of) is MISSING for of in itertools.product(operands, names)):
            return MISSING
        answered = False
        asked = [(left, name, right) for name in names[:-1]]
        asked.insert(len(asked) - self.asks_right_first(left, right, names[-1]), (right, names[-1], left))
        for owner, name, other in asked:
            method = self.own_method(owner, name)
            if method is MISSING and type(owner) is FakeTensor:
                if not hasattr(torch.Tensor, name):
                    continue
                if owner is right or self.own_method(right, names[-1]) is MISSING:
                    return MISSING
                try:
                    return self.world.recorder.call(fn, operands, {})
                except TypeError:  # to torch it is a no
                    continue
            if method is MISSING and is_programs(type(owner)):
                method = self.world.classes.special(owner, name)
            if method is MISSING:
                continue
            found = opened(self.world.calls.invoke(method, other))
            if found is not NotImplemented:
                return found
            answered = True
        if answered and fn not in (operator.eq, operator.ne):
            fn(*map(self.without_operators, operands))  # raises what Python raises
        return (left is right) == (fn is operator.eq) if answered else MISSING

    def without_operators(self, value: Any) -> Any:
        """What has no operators, for an error that names the class of a value."""
        cls = self.world.recorder.subclasses.class_of(value) if type(value) is FakeTensor else type(value)
        return value if cls.__flags__ & IMMUTABLE_TYPE else type(cls.__name__, (), {})()

    def asks_right_first(self, left: Any, right: Any, name: str) -> bool:
        """Whether Python asks the right operand first: it is of a subclass, which has the method itself."""
        class_of = self.world.recorder.subclasses.class_of
        first, second = [class_of(one) if type(one) is FakeTensor else type(one) for one in (left, right)]
        if second is first or not issubclass(second, first):
            return False
        return self.world.classes.attribute(second, name) is not self.world.classes.attribute(first, name)
