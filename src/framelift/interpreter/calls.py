"""Calling things.

A Python function becomes a frame that the loop pushes: its arguments are bound by CPython itself
(`_frame.bind`), so a wrong call raises CPython's own TypeError. What is implemented in C is called
for real, with the hook in force, once the world has licensed it; a few builtins that ask about
the calling frame, or look into objects, are served here instead (the SERVED table).
"""

from __future__ import annotations
import __future__

import builtins
import contextlib
import functools
import inspect
import operator
import re
import sys
import traceback
import typing
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
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

from framelift import _frame
from framelift.core.sentinels import MISSING, UNSET
from framelift.interpreter.coroutines import AsyncGenerator, Coroutine
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import as_real, as_seen, frame_at, local_variables
from framelift.interpreter.generators import Generator
from framelift.interpreter.lookups import STAND_INS
from framelift.interpreter.machine import Machine, decoded
from framelift.interpreter.pending import Pending, opened

SERVED: dict[Any, Any] = {}
"""Callable -> function(frame, args, kwargs) that does its job under the interpreter."""

Machine.served = SERVED


def serve(*callables: Any) -> Any:
    def register(handler: Any) -> Any:
        for fn in callables:
            SERVED[fn] = handler
        return handler

    return register


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
    else:
        method = f.world.classes.special(fn, "__call__")
        if type(method) is MethodType and type(method.__func__) is FunctionType:
            return call(f, method.__func__, [method.__self__, *args], kwargs)
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
    return (
        None if method is fn else method
    )  # what pybind binds its functions to is nothing that they are given


METACLASS_METHODS = frozenset(name for name in vars(type) if type(vars(type)[name]) is MethodDescriptorType)
"""What a class has from `type`: bound to it, these can't be told from class methods of C but by name."""


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


# ---- what asks about the calling frame


@serve(super)
def serve_super(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        return super(*[opened(x) for x in args], **kwargs)
    return zero_argument_super(f)


def zero_argument_super(f: Frame) -> Any:
    code = f.code.code
    if not code.co_argcount:
        raise RuntimeError("super(): no arguments")
    first = f.fast[0]
    if first is UNSET:
        raise RuntimeError("super(): arg[0] deleted")
    if code.co_varnames[0] in code.co_cellvars:
        try:
            first = first.cell_contents
        except ValueError:
            first = UNSET
        if first is UNSET:
            raise RuntimeError("super(): arg[0] deleted")
    if "__class__" not in code.co_freevars:
        raise RuntimeError("super(): __class__ cell not found")
    cell = f.fast[f.code.names.index("__class__")]
    try:
        cls = cell.cell_contents
    except ValueError:
        cls = UNSET
    if cls is UNSET:
        raise RuntimeError("super(): empty __class__ cell")
    return super(opened(cls), opened(first))


@serve(builtins.locals)
def serve_locals(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        return told_what_is_wrong(builtins.locals, args, kwargs)
    return local_variables(f)


@serve(builtins.globals)
def serve_globals(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.scopes.as_value(f.globals)


@serve(builtins.vars)
def serve_vars(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        return f.world.attributes.vars_of(f, args, kwargs)
    return local_variables(f)


@serve(builtins.dir)
def serve_dir(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return sorted(f.world.attributes.names_of(f, opened(args[0])))
    if args or kwargs:
        return told_what_is_wrong(builtins.dir, args, kwargs)
    local = local_variables(f)
    return sorted(
        local if type(local) is dict else f.world.operators.apply(operator.methodcaller("keys"), local)
    )


def serve_evaluator(evaluator: Any, mode: str) -> None:
    @serve(evaluator)
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        args = [opened(x) for x in args]
        if len(args) == 1 or (len(args) > 1 and args[1] is None):
            local = args[2] if len(args) > 2 and args[2] is not None else local_variables(f)
            args = [args[0], f.world.scopes.as_value(f.globals), local]
        if args and isinstance(args[0], (str, bytes)) and type(args[1]) is dict:
            source = without_indent(args[0]) if mode == "eval" else args[0]
            arguments = [source, "<string>", mode, futures(f), True]
            args[0] = f.world.calls.native(f, builtins.compile, arguments, None)
        return f.world.calls.native(f, evaluator, args, kwargs)


def without_indent(source: str | bytes) -> str | bytes:
    return source.lstrip(" \t") if isinstance(source, str) else source.lstrip(b" \t")


serve_evaluator(builtins.eval, "eval")
serve_evaluator(builtins.exec, "exec")

FUTURES = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def futures(f: Frame) -> int:
    """The future statements in force in a frame: what it compiles inherits them."""
    return f.code.code.co_flags & FUTURES


@serve(builtins.compile)
def serve_compile(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parameters = ("source", "filename", "mode", "flags", "dont_inherit", "optimize")
    given = {**dict(zip(parameters, args, strict=False)), **kwargs}
    if len(given) == len(args) + len(kwargs) and not opened(given.get("dont_inherit")):
        given["flags"] = f.world.operators.apply(operator.index, opened(given.get("flags", 0))) | futures(f)
        args, kwargs = [], {**given, "dont_inherit": True}
    return f.world.calls.native(f, builtins.compile, args, kwargs)


@serve(sys._getframe)
def serve_getframe(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) > 1:
        return f.world.calls.native(f, sys._getframe, args, kwargs)  # to be told what is wrong
    found = frame_at(f, operator.index(opened(args[0])) if args else 0)
    if found is None:
        raise ValueError("call stack is not deep enough")
    return found.view() if isinstance(found, Frame) else found


@serve(sys.setrecursionlimit)
def serve_setrecursionlimit(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    f.world.calls.native(f, sys.setrecursionlimit, args, kwargs)
    f.machine.limit = sys.getrecursionlimit()


@serve(TracebackType)
def serve_traceback(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args = [as_real(opened(x)) for x in args]
    return f.world.calls.native(f, TracebackType, args, {name: as_real(kwargs[name]) for name in kwargs})


@serve(traceback.clear_frames)
def serve_clear_frames(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (at,) = args or kwargs.values()
    at = opened(at)
    while at is not None:
        with contextlib.suppress(RuntimeError):  # it is still running
            as_seen(at.tb_frame).clear()
        at = at.tb_next


def serve_stack(function: Any) -> None:
    """Looks at the frames that call it, unless it is told of another one."""

    @serve(function)
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and opened(args[0]) is None:
            args = [f.view(), *args[1:]]
        elif not args and opened(kwargs.get("f")) is None:
            kwargs = {**kwargs, "f": f.view()}
        return f.world.calls.native(f, function, args, kwargs)


for function in (
    traceback.print_stack,
    traceback.format_stack,
    traceback.extract_stack,
    traceback.walk_stack,
):
    serve_stack(function)


def serve_getframemodulename(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """3.12"""
    (depth,) = args or [kwargs.get("depth", 0)]
    found = frame_at(f, operator.index(opened(depth)))
    if isinstance(found, Frame):
        return found.func.__module__
    return None if found is None else found.f_globals.get("__name__")


if sys.version_info >= (3, 12):
    serve(sys._getframemodulename)(serve_getframemodulename)


# ---- classes


@serve(builtins.type)
def serve_type(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return f.world.classes.class_of(opened(args[0]))
    return new_class(f, builtins.type, args, kwargs)


@serve(type.__new__)
def serve_new_class(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return new_class(f, type.__new__, args, kwargs)


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


def serve_named(maker: Any) -> None:
    """What it makes gets its module's name from the globals of the frame that calls it."""

    @serve(maker)
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return f.world.calls.native(f, from_here(f, maker), args, kwargs)


TYPING = ("NamedTuple", "NewType", "ParamSpec", "TypeAliasType", "TypedDict", "TypeVar", "TypeVarTuple")
for name in TYPING:
    if hasattr(typing, name):
        serve_named(getattr(typing, name))


def code_that_calls(maker: Any) -> CodeType:
    return (lambda *args, **kwargs: maker(*args, **kwargs)).__code__


MAKER = code_that_calls(None)
_frame.set_decision(MAKER, _frame.SKIP, _frame.THROUGH)


# ---- methods of builtin classes, on objects of ours that stand for their instances


def serve_method(method: Any, ours: type) -> Any:
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(opened(args[0]), ours):
            return f.world.calls.native(f, getattr(ours, method.__name__), args, kwargs)
        return f.world.calls.native(f, method, args, kwargs)

    return served


for ours in (Generator, Coroutine, AsyncGenerator):
    for name, method in vars(STAND_INS[ours]).items():
        if type(method) in LOOKED_UP and hasattr(ours, name):
            serve(method)(serve_method(method, ours))


# ---- what looks into objects


def told_what_is_wrong(fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call that raises, whatever it is given in the right places."""
    return _frame.native(fn, *map(opened, args), **{name: opened(value) for name, value in kwargs.items()})


@serve(builtins.getattr)
def serve_getattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or not 2 <= len(args) <= 3 or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(builtins.getattr, args, kwargs)
    try:
        return f.world.attributes.load(args[0], opened(args[1]))
    except AttributeError:
        if len(args) == 2:
            raise
    return args[2]


@serve(builtins.hasattr)
def serve_hasattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 2 or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(builtins.hasattr, args, kwargs)
    try:
        f.world.attributes.load(args[0], opened(args[1]))
    except AttributeError:
        return False
    return True


@serve(builtins.setattr)
def serve_setattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 3 or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(builtins.setattr, args, kwargs)
    f.world.attribute_writes.store(args[0], opened(args[1]), args[2])


@serve(builtins.delattr)
def serve_delattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 2 or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(builtins.delattr, args, kwargs)
    f.world.attribute_writes.delete(args[0], opened(args[1]))


@serve(builtins.iter)
def serve_iter(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 1:
        return f.world.calls.native(f, builtins.iter, args, kwargs)
    return f.world.containers.iterate(args[0])
