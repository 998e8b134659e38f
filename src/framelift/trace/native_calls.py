"""Calls of what is not interpreted: permitted, its arguments opened as far as it looks, or refused.

What C code calls back is interpreted when it is a Python function, through the frame hook. Another C
function that it calls would escape the trace: where that matters (`map(getattr, ...)`), C is given a
Python function that calls it instead (`through`).
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import types
from collections.abc import Callable
from types import FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks, policy
from framelift.core.breaks import Place, refuse
from framelift.core.config import config
from framelift.core.sentinels import MISSING
from framelift.graph.known_data import number_of
from framelift.graph.recorder import NOTHING
from framelift.graph.subclasses import REFLECTED
from framelift.graph.symbols import data_dependence
from framelift.guards.kinds import Access, Check
from framelift.interpreter.calls import unbind
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import opened
from framelift.trace.abstract_calls import KEEPING, TAKING_ABSTRACT, call_with_abstract, hands_on
from framelift.trace.addresses import Address
from framelift.trace.callable_rules import (
    BY_CODE,
    BY_TYPE,
    CallableRule,
    Looks,
    control_of,
    rule_of,
    server_of,
)
from framelift.trace.containers import ITERATED
from framelift.trace.machine import calls_back
from framelift.trace.materialize import ATOMS, Seen, SeenByTorch
from framelift.trace.part import Part
from framelift.trace.type_rules import ABSTRACT, BUILTINS, IMMUTABLE_TYPE, is_ordinary

if TYPE_CHECKING:
    pass

native = _frame.native

PASSING = frozenset({Looks.MOVES, Looks.SHALLOW})
"""How functions look at their arguments that do not look at numbers which they get in other ways."""

CALLED_AT = {itertools.accumulate: 2, itertools.groupby: 2}
"""Function that calls back -> among how many first arguments is what it calls; of others it is the first."""

C_CALLABLES = (*BUILTINS, MethodDescriptorType, WrapperDescriptorType, type)


def through(fn: Any) -> Any:
    """A Python function that calls `fn`: it is interpreted, whoever calls it."""
    return lambda *args, **kwargs: fn(*args, **kwargs)


_frame.set_decision(through(None).__code__, _frame.SKIP, _frame.INTERPRET)

SPEAKING: dict[type, Callable[[Any], bool]] = {re.RegexFlag: lambda flags: bool(flags & re.DEBUG)}
"""Type of an argument -> whether it makes a function that is pure otherwise print something."""


CONVERSIONS = frozenset({int, float})
"""What C makes numbers of tensors with, though it takes no symbol for one."""


NUMBERS_OF_OBJECTS = CONVERSIONS | {operator.index}
"""What asks an object for a number."""


def is_number(args: list[Any]) -> bool:
    """Whether the only argument is a tensor that a number can be made of, and no truth value."""
    return len(args) == 1 and type(args[0]) is FakeTensor and args[0].dtype is not torch.bool


def speaks(arg: Any) -> bool:
    found = SPEAKING.get(type(arg))
    return found is not None and found(arg)


def is_drained(rule: CallableRule, n: int, args: list[Any]) -> bool:
    """Whether a native goes over its nth argument and looks at the items."""
    if rule.drains_alone:
        return len(args) == 1
    return n in rule.drains or (rule.drains_unfiltered and n == 1 and opened(args[0]) is None)


ORIGINAL = "_torchdynamo_orig_callable"
"""Attribute of what `torch.compile` has made: what it was given."""

PARTS_OF_PARTIALS = [vars(functools.partial)[name].__get__ for name in ("func", "args", "keywords")]


class NativeCalls(Part):
    """Calls C functions, and Python functions that are not interpreted, on behalf of the program."""

    def start(self) -> None:
        self.memo: dict[Any, Any] = {}
        """What memoising functions from outside have given in the trace."""
        self.bypassed: list[tuple[Any, Place]] = []
        """Memoising functions from outside that were called, without their memory, and where."""
        self.kept: list[Any] = []
        """Functions that were made for C to call."""
        self.passes_numbers = False
        """Whether C, where it stands now, hands on what it is given by what it calls."""
        self.ran_as_it_is: str | None = None
        """A function of the program's that was not looked into, though its result is relied on."""
        self.told_compiled = False
        """Whether the program has asked whether it is compiled."""

    def tell_compiled(self) -> bool:
        self.told_compiled = True
        return True

    def invoke(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls something as the traced program would; what it gives may be pending."""
        return self.world.machine.invoke(fn, args, kwargs)

    def interprets(self, fn: types.FunctionType) -> bool:
        if control_of(fn) is not None:
            return False
        return id(fn.__code__) not in BY_CODE and policy.interprets(fn)

    def is_controlled(self, instance: Any) -> bool:
        if control_of(instance) is None:
            return False
        source = self.world.inputs.source_of(instance)
        if source is not None:
            self.world.guards.add(source, Check.IS, instance)
        return True

    def creating(self, cls: type) -> None:
        if cls.__flags__ & IMMUTABLE_TYPE:
            return
        for name in ("__new__", "__init__"):
            self.world.classes.attribute(cls, name)
        if self.world.classes.attribute(cls, "__del__") is not MISSING:
            refuse(breaks.FINALISER, cls.__qualname__)

    def native(self, frame: Any, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        world = self.world
        if type(fn) is FunctionType and (found := self.compiled_target(fn, args)) is not None:
            return self.invoke(*found, **(kwargs or {}))  # a part of the function that calls it
        tape = world.recorder.builder.tape
        controlled = control_of(fn)
        if controlled is not None:
            tape.spoil(fn)
            return controlled(world, fn, args, kwargs or {})
        if type(fn) is FunctionType and (original := policy.hidden_by_torch(fn)) is not None:
            if vars(fn).get(ORIGINAL) is original and world.inputs.source_of(fn) is not None:
                original = world.attributes.load(fn, ORIGINAL)
            return self.invoke(original, *args, **(kwargs or {}))
        served = server_of(fn, args)
        if served is not None:
            tape.spoil(fn)
            return served(world, fn, args, kwargs or {})
        unbound = unbind(fn)
        if unbound is not None:
            fn, args = unbound, [fn.__self__, *args]
        elif type(fn) in BUILTINS and fn.__name__ == "__new__" and args:
            cls = opened(args[0])  # had by an instance's own `__new__`, not by a call of its class
            if issubclass(type(cls), type):
                self.creating(cls)
        if type(fn).__hash__ is None:  # no table has it, but one may have what calls it
            method = class_attribute(type(fn), "__call__")
            if method is MISSING:
                return native(fn, *args, **(kwargs or {}))  # to be told that it can't be called
            fn, args = method, [fn, *args]
        return self.by_policy(fn, args, kwargs or {})

    def parts_of_partial(self, made: Any) -> list[Any] | None:
        """What C calls, and with what; a subclass may have other things by these names. None: it is from
        outside, where C may have been told something else in the meantime."""
        if self.world.inputs.source_of(made) is not None:
            return None
        return [read(made) for read in PARTS_OF_PARTIALS]

    def compiled_target(self, fn: FunctionType, args: list[Any]) -> list[Any] | None:
        """What a compiled function or module calls, and with what."""
        if policy.is_compiled(fn):
            cell = fn.__code__.co_freevars.index("target")
            return [self.world.functions.cells(fn)[cell].cell_contents, *args]
        if policy.calls_compiled_module(fn) and args:
            return [self.world.attributes.load(opened(args[0]), "_orig_mod"), *args[1:]]
        if policy.calls_torchs_module(fn):
            return [torch.nn.Module.__call__, *args]
        return None

    def by_policy(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        rule = rule_of(fn)
        if rule.refused is not None:
            refuse(rule.refused, rule.why)
        if kwargs and not all(isinstance(name, str) for name in kwargs):
            refuse(breaks.UNKNOWN_NATIVE, "names of arguments that are no strings")
        if rule.makes_by_new:
            return self.made_by_new(fn, args, kwargs)
        return self.permitted(fn, rule, args, kwargs)

    def made_by_new(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An instance, as `type.__call__` makes it: what is passed on need not be looked at."""
        made = opened(self.invoke(cls.__new__, cls, *args, **kwargs))
        of = type(made)
        if of is not cls and issubclass(of, cls):
            self.invoke(self.world.attributes.load(of, "__init__"), made, *args, **kwargs)
        return made

    def cached(self, frame: Any, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        """A memoising function from outside would keep fakes: what it wraps is called, once in a trace."""
        args, kwargs = [opened(x) for x in args], {k: opened(v) for k, v in (kwargs or {}).items()}
        if id(fn) in self.world.created.objects:
            identity = self.world.identity
            return native(fn, *map(identity.key, args), **{k: identity.key(v) for k, v in kwargs.items()})
        for x in (*args, *kwargs.values()):
            if type(x).__hash__ is None:
                hash(x)  # which raises what the memoising function would
        if type(fn.__wrapped__) is types.FunctionType and not policy.is_library(fn.__wrapped__):
            self.bypassed.append((fn, frame.place))
        index = self.memo_index(fn, args, kwargs)
        if index is None:
            return self.invoke(fn.__wrapped__, *args, **kwargs)
        if index not in self.memo:
            self.memo[index] = self.invoke(fn.__wrapped__, *args, **kwargs)
        return self.memo[index]

    def memo_index(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a memoising function would remember a call by; None if the program's objects are asked."""
        parameters: Any = vars(fn).get("cache_parameters", dict)()
        if parameters.get("maxsize", 1) == 0 or not all(type(x) in ATOMS for x in (*args, *kwargs.values())):
            return None
        return id(fn), functools._make_key(tuple(args), kwargs, bool(parameters.get("typed")))

    def permitted(self, fn: Any, rule: CallableRule, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = self.world
        materialize = world.materialize
        if fn in TAKING_ABSTRACT:
            args = list(args)
            if (found := call_with_abstract(world, fn, args, kwargs)) is not MISSING:
                return found
            if fn in KEEPING and len(args) > KEEPING[fn] and hands_on(opened(args[KEEPING[fn]])):
                with materialize.handing_on():
                    return self.done_by_c(fn, rule, args, kwargs)
        if fn in NUMBERS_OF_OBJECTS and len(args) == 1 and not kwargs:
            given_one = opened(args[0])
            if type(given_one) in ABSTRACT and fn in CONVERSIONS:
                args = [world.abstract(given_one).number(given_one)]
            elif (number := world.operators.given_by_method(fn, given_one)) is not MISSING:
                return number
        if world.may_have_symbols:
            if rule.with_symbols is not None:
                given = list(args)
                if (found := rule.with_symbols(world, fn, given, kwargs)) is not MISSING:
                    return found
                if any(
                    type(now) is list and hasattr(type(opened(x)), "__next__")
                    for x, now in zip(args, given, strict=False)
                ):
                    return self.permitted_after_draining(fn, rule, given, kwargs)
                args = given
            elif rule.on_symbols is not None and not kwargs:
                numbers = materialize.for_torch(args)
                if fn in CONVERSIONS and is_number(numbers):
                    known = number_of(world.recorder, numbers[0])
                    if known is not None:
                        args = numbers = [known]
                    elif config.capture_scalar_outputs:
                        args = numbers = [world.recorder.call(torch.Tensor.item, (numbers[0],), {})]
                if (found := world.derived_numbers.call(fn, numbers)) is not MISSING:
                    return found
                with torch._C.DisableTorchFunction(), data_dependence():
                    result = rule.on_symbols(numbers)
                if result is not NotImplemented:
                    return result
        return self.done_by_c(fn, rule, args, kwargs)

    @calls_back
    def permitted_after_draining(
        self, fn: Any, rule: CallableRule, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        return self.done_by_c(fn, rule, args, kwargs)

    def done_by_c(self, fn: Any, rule: CallableRule, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = self.world
        materialize = world.materialize
        looks = rule.looks
        if rule.relies_on is not None:
            rule.relies_on(world)
        if rule.hands_on and args and type(opened(args[0])) is FunctionType:
            looks = Looks.SHALLOW
        if looks is Looks.MOVES:
            args = self.moved(rule, args)
        elif looks is Looks.SHALLOW:
            args = [materialize.shallow(x, rule.passes_numbers) for x in args]
            kwargs = {k: materialize.shallow(v, rule.passes_numbers) for k, v in kwargs.items()}
        elif looks is Looks.CLASS:
            args = [opened(x) for x in args]
        elif looks is Looks.PAIRS:
            args = [materialize.shallow(x) for x in args]
            args[rule.first :] = map(self.pairs, args[rule.first :])
        elif looks is Looks.RECORDED:
            if "generator" in kwargs and type(generator := opened(kwargs["generator"])) is torch.Generator:
                others = {k: materialize.for_torch(v) for k, v in kwargs.items() if k != "generator"}
                others["generator"] = generator
                world.recorder.builder.tape.spoil(generator)
                return world.runtime_calls.of_generator(fn, materialize.for_torch(args), others)
            given = tuple([materialize.for_torch(x) for x in args])
            return world.recorder.call(fn, given, {k: materialize.for_torch(v) for k, v in kwargs.items()})
        else:
            args, kwargs = self.looked_into(fn, rule, args, kwargs)
            if type(fn) is FunctionType and policy.is_user_code(fn.__module__ or ""):
                self.ran_as_it_is = fn.__qualname__
            if type(fn) is FunctionType and any(speaks(arg) for arg in (*args, *kwargs.values())):
                refuse(breaks.EFFECT, f"{fn.__qualname__} that prints")
        if world.recorder.subclasses.are_programs:
            found, args = world.overrides.given_to_c(fn, args)
            if found is not MISSING:
                return found
        if fn in REFLECTED and len(args) == 2 and type(args[0]) is type(args[1]) is FakeTensor:
            return world.recorder.call(fn, tuple(args), {})  # of which C does not know whom to ask first
        if world.set_order.sources:
            world.set_order.check(fn, args)
        if rule.calls_back:
            args = [self.callback(x, n < CALLED_AT.get(fn, 1)) for n, x in enumerate(args)]
            kwargs = {k: self.callback(v, k in ("key", "func")) for k, v in kwargs.items()}
        if fn is issubclass and len(args) == 2 and issubclass(type(args[0]), type):
            world.classes.guard_bases(args[0])
            world.classes.guard_check(args[1], "__subclasscheck__")
        elif fn is type.mro and len(args) == 1:
            world.classes.guard_bases(args[0])
        of_abc = getattr(fn, "__module__", None) == "_abc" and bool(args) and not world.created.has(args[0])
        if of_abc and fn.__name__ == "_abc_register":
            refuse(breaks.EFFECT, f"a class is registered with {args[0].__qualname__}")
        with world.recorder.written(fn, args, kwargs) if rule.overridable else NOTHING:
            if world.may_have_symbols:
                result = self.called_with_symbols(fn, rule, args, kwargs)
            else:
                result = native(fn, *args, **kwargs) if kwargs else world.set_order.call(fn, args)
        if of_abc:
            world.classes.note_registered(fn, args, result)
        return result

    def called_with_symbols(
        self, fn: Any, rule: CallableRule, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """The call itself, where what C calls back may give symbols."""
        before = self.passes_numbers
        self.passes_numbers = rule.passes_numbers or rule.looks in PASSING
        try:
            with data_dependence():
                return native(fn, *args, **kwargs) if kwargs else self.world.set_order.call(fn, args)
        finally:
            self.passes_numbers = before

    def handed_on(self, fn: Any, *args: Any) -> Any:
        """A call by C that gives what it is given by what it calls."""
        before, self.passes_numbers = self.passes_numbers, self.world.may_have_symbols
        try:
            return native(fn, *args)
        finally:
            self.passes_numbers = before

    def moved(self, rule: CallableRule, args: list[Any]) -> list[Any]:
        """The first few arguments are looked at: a container, and an index or key."""
        args = list(args)
        world = self.world
        for n in range(min(rule.first, len(args))):
            args[n] = world.containers.index(args[0], args[n]) if n else world.materialize.shallow(args[n])
        if len(args) == 3 and type(args[1]) is slice:
            args[2] = world.materialize.shallow(args[2])
        return args

    def pairs(self, value: Any) -> Any:
        """What `dict` takes: a mapping, or an iterable of keys and values."""
        cls = type(value)
        if issubclass(cls, dict) or hasattr(cls, "keys") or not hasattr(cls, "__iter__"):
            return value
        pairs = []
        world = self.world
        for item in world.containers.elements(value):
            item = opened(item)
            pair = type(item) in (tuple, list) and len(item) == 2
            pairs.append((world.identity.key(item[0]), item[1]) if pair else world.materialize.for_c(item))
        return pairs

    def looked_into(
        self, fn: Any, rule: CallableRule, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        shown: list[Seen] = []
        prepared: list[Any] = []
        materialize = self.world.materialize
        for value in args:
            if rule.stores is not None and rule.stores == len(prepared):
                prepared.append(value)
                shown.append({})
                continue
            value = opened(value)
            seen: Seen = SeenByTorch() if rule.passes_numbers else {}
            cls = type(value)
            if cls is torch.Size or (cls not in ATOMS and not (rule.iterates and cls in ITERATED)):
                drained = is_drained(rule, len(prepared), args)
                value = materialize.iterable(value, seen) if drained else materialize.value(value, seen)
            prepared.append(value)
            shown.append(seen)
            if type(fn) is FunctionType or rule.reads_attributes:
                for each in list(seen.values()):
                    self.guard_state(each)
        show = materialize.for_torch if rule.passes_numbers else materialize.for_c
        kwargs = {k: show(v) for k, v in kwargs.items()}
        if rule.hashes:
            for seen in shown:
                self.world.identity.fix(seen)
        elif rule.compares and len(shown) > 1:
            self.world.identity.keep_apart(shown[0], shown[1])
        elif rule.shows_text or rule.formats:
            template = prepared[0] if fn is str.format and prepared else None
            formats = type(template) is str and "!" not in template
            for seen in shown:
                if fn is not str.join:  # which takes nothing but texts
                    self.world.identity.refuse_addresses(seen, format if formats else fn)
                self.world.set_order.refuse_in(seen)
        elif any(type(value) is Address for value in prepared) and not rule.compares:
            prepared[0] = Address.leaks(prepared[0])  # C takes it for any other integer
        return prepared, kwargs

    def guard_state(self, value: Any) -> None:
        """What is not interpreted reads the attributes of what it is given as it likes."""
        view = self.world.attributes.views.get(id(value))
        if view is None and is_ordinary(type(value)) and hasattr(value, "__dict__"):
            self.world.materialize.mapping(vars(value), {})
        fixed = issubclass(type(value), (type, types.ModuleType))
        if view is None or fixed or not hasattr(value, "__dict__"):
            return
        self.world.guards.add(view.source.child(Access.DICT), Check.KEYS, tuple(vars(value)))
        for name in list(vars(value)):
            opened(self.world.attributes.own(view, value, name))

    def callback(self, value: Any, is_called: bool) -> Any:
        """Something that C may call: as it is where that can't escape the trace. C's functions know nothing
        of symbols, so C does not call them; a class that is not called stays what it is."""
        cls = type(value)
        if cls in ATOMS and cls is not type:
            return value
        if cls in C_CALLABLES:
            escapes = self.world.set_order.disordered or (is_called and self.world.may_have_symbols)
            if not escapes and self.stays_inside(value, cls):
                return value
        elif cls not in BY_TYPE and cls not in (functools.partial, MethodWrapperType):
            return value
        made = through(value)
        self.world.functions.made(made)
        self.kept.append(made)
        return made

    def stays_inside(self, fn: Any, cls: type) -> bool:
        """Whether C may call another C function itself."""
        if cls in BUILTINS and not issubclass(type(fn.__self__), (types.ModuleType, type, type(None))):
            return False  # what it is bound to may hold something pending
        if cls is type and not fn.__flags__ & IMMUTABLE_TYPE:
            return False
        served = self.world.machine.served if self.world.machine is not None else {}
        rule = rule_of(fn)
        return fn not in served and rule.changes is None and rule.refused is None
