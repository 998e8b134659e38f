"""The licence for native calls: which C functions may run on traced values, and how far they look.

C code sees what it is given, so before a call its arguments are opened: as deep as the function
looks into them, and no deeper. A function that could look into outside objects behind the door's
back, or that has an effect, has no licence; an unknown one has none either. Each entry says why.
"""

from __future__ import annotations

import collections
import datetime
import inspect
import types
from typing import Any

import torch

from framelift.core import breaks, policy
from framelift.core.per_code import PerCode
from framelift.graph.functions import LEGACY
from framelift.graph.wrappers import is_wrapper_class
from framelift.trace.call_policy_tables import (
    CLOCKS,
    DEVICES,
    EFFECTIVE,
    MOVING,
    PAIRS,
    PARALLEL,
    PURE_BUILTINS,
    PURE_MODULES,
    PURE_TYPES,
    REFUSED,
    SHALLOW,
    STATIC,
    TORCH_OPERATORS,
    TORCH_PYTHON,
    TORCH_QUERIES,
    TORCH_TOP,
    Licence,
    Looks,
    Refusal,
)


def licence_of(fn: Any) -> Licence | Refusal:
    """What may be done with a call of something that is not interpreted."""
    if type(fn) in DESCRIPTORS or (type(fn) is types.BuiltinFunctionType and is_of_module(fn)):
        return _of_c.get(fn) or _of_c.setdefault(fn, judge(fn))
    if type(fn).__weakrefoffset__ == 0:
        return judge(fn)
    return _judged.get(fn) or _judged.set(fn, judge(fn))


DESCRIPTORS = frozenset(
    {types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType}
)
_of_c: dict[Any, Licence | Refusal] = {}
_judged: PerCode[Licence | Refusal] = PerCode()


def is_of_module(fn: Any) -> bool:
    return fn.__self__ is None or issubclass(type(fn.__self__), types.ModuleType)


KINDS = frozenset(map(type, (*REFUSED, *MOVING, *PAIRS, *SHALLOW, *PURE_BUILTINS)))
"""The types of what is in the tables. Nothing else is looked up there: the program might hash it."""


def judge(fn: Any) -> Licence | Refusal:
    return (listed(fn) if type(fn) in KINDS else None) or judge_by_kind(fn)


def listed(fn: Any) -> Licence | Refusal | None:
    if fn in REFUSED:
        return REFUSED[fn]
    if fn in MOVING:
        return Licence(Looks.MOVES, "stores or hands on what it is given", MOVING[fn])
    if fn in PAIRS:
        return Licence(Looks.PAIRS, "takes keys and values", PAIRS[fn])
    if fn in SHALLOW:
        return Licence(Looks.SHALLOW, "goes over elements without looking at them")
    if fn in PURE_BUILTINS or fn in STATIC:
        return Licence(Looks.DEEP, "a pure builtin")
    return None


def judge_by_kind(fn: Any) -> Licence | Refusal:
    kind = type(fn)
    name = getattr(fn, "__module__", None) or ""
    if kind in (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType):
        return judge_method(fn)
    if issubclass(kind, type):
        return judge_class(fn)
    if kind is types.BuiltinFunctionType:
        return judge_builtin(fn, name)
    if kind is types.FunctionType:
        return judge_leaf(fn)
    if kind.__module__ in PURE_MODULES or kind in PURE_TYPES or kind is types.MethodWrapperType:
        return Licence(Looks.DEEP, "a callable of a builtin type")
    return Refusal(breaks.UNLICENSED_CALL, describe(fn))


def judge_method(fn: Any) -> Licence | Refusal:
    owner = fn.__objclass__
    if owner in PURE_TYPES or issubclass(owner, BaseException) or owner.__module__ in PURE_MODULES:
        return Licence(Looks.DEEP, f"a method of {owner.__name__}")
    if issubclass(owner, torch._C.TensorBase):
        return Licence(Looks.RECORDED, "a tensor method")
    if owner.__module__ in EFFECTIVE:
        return Refusal(breaks.EFFECT, f"{describe(fn)} ({EFFECTIVE[owner.__module__]})")
    return Refusal(breaks.UNLICENSED_CALL, describe(fn))


def judge_class(cls: type) -> Licence | Refusal:
    if cls in LEGACY:
        return Licence(Looks.RECORDED, "makes a tensor")
    if is_wrapper_class(cls):
        return Licence(Looks.RECORDED, "makes a tensor around others")
    module, name = cls.__module__, f"{cls.__module__}.{cls.__qualname__}"
    init: Any = cls.__init__  # type: ignore[misc]
    if cls.__flags__ & (1 << 9) and type(init) is types.FunctionType and policy.is_leaf(name):
        if not policy.within(module, TORCH_PYTHON):
            return Refusal(breaks.UNLICENSED_CALL, describe(cls))
        return Licence(
            Looks.DEEP, "a class of torch's: its methods are not interpreted, and see what they are given"
        )
    if cls.__flags__ & (1 << 9) and type(init) is types.FunctionType and made_without_a_look(cls):
        return Licence(Looks.MOVES, "a Python class: its methods come back through the hook", 0)
    if issubclass(cls, BaseException):
        if issubclass(cls, LOOKING_EXCEPTIONS):
            return Licence(Looks.DEEP, "looks at its arguments")
        return Licence(Looks.MOVES, "keeps its arguments", 0)
    for base in cls.__mro__[1:-1]:
        inherited = listed(base) if type(base) in KINDS else None
        if inherited is not None:
            return inherited
    if module in PURE_MODULES or cls in PURE_TYPES or any(base in PURE_TYPES for base in cls.__mro__[:-1]):
        return Licence(Looks.SHALLOW, "a builtin type")
    if cls.__flags__ & (1 << 9) and init is object.__init__ and made_without_a_look(cls):
        return Licence(Looks.MOVES, "an ordinary class", 0)
    return Refusal(breaks.UNLICENSED_CALL, describe(cls))


LOOKING_EXCEPTIONS = (BaseExceptionGroup, OSError, UnicodeError, SyntaxError)
LEAVING_TO_INIT = frozenset(
    {object, list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict}
)
"""Types whose `__new__` does nothing with its arguments."""


def made_without_a_look(cls: type) -> bool:
    """Whether C's `__new__`, where that is what makes the instances, does not look at its arguments."""
    new: Any = cls.__new__
    maker = getattr(new, "__self__", None)
    if not isinstance(maker, type):
        return True  # Python's, which comes back through the hook
    if issubclass(maker, BaseException):
        return not issubclass(maker, LOOKING_EXCEPTIONS)
    return maker in LEAVING_TO_INIT


def judge_builtin(fn: Any, module: str) -> Licence | Refusal:
    if fn in TORCH_QUERIES:
        return Licence(Looks.DEEP, "asks about torch's state, which is guarded")
    if fn is torch._C._set_grad_enabled:
        return Licence(Looks.RECORDED, "a switch that the graph holds")
    owner = fn.__self__
    if module == "torch" and not issubclass(type(owner), types.ModuleType):
        return Licence(Looks.RECORDED, "a torch operator")
    if module in TORCH_OPERATORS:
        return Licence(Looks.RECORDED, "a torch operator")
    if module == "_abc" or fn in (callable, isinstance):
        return Licence(Looks.CLASS, "class registrations, which are read as facts")
    if module in PURE_MODULES:
        return Licence(Looks.DEEP, PURE_MODULES[module])
    if module in EFFECTIVE:
        return Refusal(breaks.EFFECT, f"{describe(fn)} ({EFFECTIVE[module]})")
    if issubclass(type(owner), type):
        if issubclass(owner, datetime.date) and fn.__name__ in CLOCKS:
            return Refusal(breaks.EFFECT, f"{owner.__qualname__}.{fn.__name__}")
        # a class method of C, had through a subclass that may have one of its own by that name
        method = types.ClassMethodDescriptorType
        owner = next((base for base in owner.__mro__ if type(vars(base).get(fn.__name__)) is method), owner)
    if issubclass(type(owner), type) and owner in PURE_TYPES:
        return Licence(Looks.DEEP, f"a method of {owner.__name__}")
    return Refusal(breaks.UNLICENSED_CALL, describe(fn))


def why_disabled(fn: types.FunctionType) -> str | None:
    """Why a function is marked to run as plain Python; None if it is not."""
    marks = vars(fn)
    if "_framelift_disable" in marks:
        return marks["_framelift_disable"]
    if marks.get("_torchdynamo_disable"):
        return str(marks.get("_torchdynamo_disable_msg") or "torch.compiler.disable")
    return None


GENERATORS = ("framelift.interpreter.generators", "framelift.interpreter.coroutines")


def judge_leaf(fn: Any) -> Licence | Refusal:
    disabled = why_disabled(fn)
    if disabled is not None:
        return Refusal(breaks.DISABLED, f"{describe(fn)} ({disabled})")
    if policy.gives_a_constant(fn):
        return Licence(Looks.DEEP, "the program says that its result is always the same")
    module = policy.module_name(fn)
    top = module.partition(".")[0]
    if fn.__code__.co_flags & inspect.CO_GENERATOR:
        # a context that switches something, left open where the trace ends
        return Refusal(breaks.EFFECT, describe(fn))
    if fn in TORCH_TOP or fn in TORCH_QUERIES or policy.within(module, TORCH_PYTHON):
        return Licence(Looks.DEEP, "torch's functional API; the recorder sees what it does")
    if policy.within(module, DEVICES):
        return Refusal(breaks.EFFECT, describe(fn))
    for part, does in PARALLEL.items():
        if policy.within(module, (part,)):
            return Refusal(breaks.EFFECT, f"{describe(fn)} ({does})")
    if policy.within(module, ("torch.distributed",)):
        return Refusal(breaks.DISTRIBUTED, describe(fn))
    if top in ("re", "sre_compile", "sre_parse", "typing", "_strptime"):
        return Licence(Looks.DEEP, "pure, with a cache of its own")
    if top in policy.EFFECTS:
        return Refusal(breaks.EFFECT, describe(fn))
    if module in GENERATORS:
        return Licence(Looks.MOVES, "a generator of the trace: what it is sent is handed on", 1)
    return Refusal(breaks.UNLICENSED_CALL, describe(fn))


def describe(fn: Any) -> str:
    module = getattr(fn, "__module__", None)
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__qualname__
    return f"{module}.{name}" if module and module != "builtins" else str(name)
