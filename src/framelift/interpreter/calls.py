"""Calling things.

A Python function becomes a frame that the loop pushes: its arguments are bound by CPython itself
(`_frame.bind`), so a wrong call raises CPython's own TypeError. What is implemented in C is called
for real, with the hook in force, once its rule permits it. Some callables have a handler that is
called instead (`Machine.served`; those of the interpreter are in `served.py`).
"""

from __future__ import annotations

import functools
import inspect
import re
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from framelift import _frame
from framelift.core.sentinels import MISSING
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import decoded
from framelift.interpreter.pending import Pending, opened

LOOKED_UP = (BuiltinFunctionType, type, FunctionType, MethodDescriptorType, WrapperDescriptorType)


def call(f: Frame, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """The result of a call, or the Frame that will produce it."""
    if type(fn) is Pending:
        fn = fn.open()
    cls = type(fn)
    if cls is MethodType:
        return call(f, fn.__func__, [fn.__self__, *args], kwargs)
    if cls in BOUND_BY_C:
        method = unbind(fn)
        if method is not None:
            fn, args = method, [fn.__self__, *args]
            cls = type(fn)
    if cls in LOOKED_UP:
        served = f.machine.served.get(fn)
        if served is not None:
            return served(f, args, kwargs or {})
        if cls is FunctionType:
            return call_function(f, fn, args, kwargs)
        if cls is type:
            f.world.calls.creating(fn)
            if "__new__" not in fn.__dict__:
                made = call_class(f, fn, args, kwargs)
                if made is not MISSING:
                    return made
    elif cls is functools._lru_cache_wrapper:
        return f.world.calls.cached(f, fn, args, kwargs)
    elif cls is functools.partial:
        return call(f, fn.func, [*fn.args, *args], {**fn.keywords, **(kwargs or {})} or None)
    elif not f.world.calls.is_controlled(fn):
        method = f.world.classes.special(fn, "__call__")
        if type(method) is MethodType and type(method.__func__) is FunctionType:
            return call(f, method.__func__, [method.__self__, *args], kwargs)
        if type(method) is MethodWrapperType and method.__objclass__ is functools.partial:
            parts = f.world.calls.parts_of_partial(fn)
            if parts is not None:
                held, given, named = parts
                return call(f, held, [*given, *args], {**named, **(kwargs or {})} or None)
    return f.world.calls.native(f, fn, args, kwargs)


def call_unserved(f: Frame, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Makes a call as if there were no handler for it."""
    if type(fn) is FunctionType:
        return call_function(f, fn, args, kwargs or None)
    return f.world.calls.native(f, fn, args, kwargs)


BUILTINS = (BuiltinFunctionType, type(re.compile("").match))
"""The types of C functions: those that are told their class have one of their own."""
BOUND_BY_C = frozenset({*BUILTINS, MethodWrapperType})


def unbind(fn: Any) -> Any:
    """The function that a method of C is, without what it is bound to; None if it is no such method."""
    if type(fn) is MethodWrapperType:
        return fn.__objclass__.__dict__[fn.__name__]
    if type(fn) not in BUILTINS or isinstance(fn.__self__, (ModuleType, type(None))):
        return None
    if isinstance(fn.__self__, type):
        return getattr(type, fn.__name__) if fn.__name__ in METACLASS_METHODS else None
    method = builtin_method(fn)
    # pybind binds its functions to something that they are not given
    return None if method is fn else method


METACLASS_METHODS = frozenset(name for name in vars(type) if type(vars(type)[name]) is MethodDescriptorType)
"""Methods that a class has from `type`. Once bound, only the name tells them from class methods of C."""


def builtin_method(bound: BuiltinFunctionType) -> Any:
    """The descriptor of a bound method that C implements; a subclass may have overridden its name."""
    name = bound.__name__
    for base in type(bound.__self__).__mro__:
        found = base.__dict__.get(name)
        if type(found) in (MethodDescriptorType, ClassMethodDescriptorType):
            return found
    return bound


def call_function(f: Frame, fn: FunctionType, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    if not f.world.calls.interprets(fn):
        return f.world.calls.native(f, fn, args, kwargs)
    f.world.functions.entered(fn)
    code = decoded(fn.__code__)
    if kwargs is None and code.simple and len(args) == code.argcount:
        return Frame(f.machine, fn, code, args)
    bound = _frame.bind(fn, tuple(args), kwargs)
    frame = Frame(f.machine, fn, code, f.world.functions.defaults(fn, bound))
    if not code.code.co_flags & inspect.CO_OPTIMIZED:
        frame.namespace = fn.__globals__  # the code of a module
    return frame


def call_class(f: Frame, cls: type, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """An ordinary class: the object is made here and `__init__` runs as a frame of its own."""
    new = f.world.classes.attribute(cls, "__new__")
    if new is not object.__new__:
        return new_class(f, cls, args, kwargs) if new is type.__new__ else MISSING
    init = f.world.classes.attribute(cls, "__init__")
    if type(init) is not FunctionType or cls.__flags__ & ABSTRACT or not f.world.calls.interprets(init):
        return MISSING
    made = object.__new__(cls)
    frame = call_function(f, init, [made, *args], kwargs)
    frame.instead = made
    return frame


ABSTRACT = 1 << 20
"""Py_TPFLAGS_IS_ABSTRACT: instantiating raises, in words that are CPython's to choose."""


# ---- classes that are made


def new_class(f: Frame, maker: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    return f.world.calls.native(f, maker_of_class(f, maker, args), args, kwargs)


def maker_of_class(f: Frame, maker: Any, args: list[Any]) -> Any:
    """C names the module of a class after the globals of the frame that makes it: there must be one."""
    namespace = opened(args[-1]) if args else None
    if isinstance(namespace, dict) and not dict.__contains__(namespace, "__module__"):
        return from_here(f, maker)
    return maker


def from_here(f: Frame, maker: Any) -> FunctionType:
    """Calls it from a real frame that has the globals of `f`."""
    caller = FunctionType(MAKER, f.globals, closure=(CellType(maker),))
    caller.__qualname__ = maker.__qualname__
    return caller


def code_that_calls(maker: Any) -> CodeType:
    return (lambda *args, **kwargs: maker(*args, **kwargs)).__code__


MAKER = code_that_calls(None)
_frame.set_decision(MAKER, _frame.SKIP, _frame.THROUGH)
