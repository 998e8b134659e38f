"""Calls that handlers do: what asks about the calling frame, makes classes, or looks into objects.

A handler has the parameters of the callable that it stands for, after the frame of the call. The frame, and
what the callable takes by position only, is positional-only: a keyword of the program's may have any name.
"""

from __future__ import annotations
import __future__

import builtins
import contextlib
import functools
import operator
import sys
import traceback
import typing
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from framelift.bytecode.decode import version
from framelift.core.blame import acts_for_program
from framelift.core.sentinels import MISSING, UNSET
from framelift.interpreter.calls import LOOKED_UP, call_unserved, from_here, new_class
from framelift.interpreter.coroutines import AsyncGenerator, Coroutine
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_locals import FrameLocals
from framelift.interpreter.frame_objects import FrameView, as_real, as_seen, frame_at, local_variables
from framelift.interpreter.generators import Generator
from framelift.interpreter.lookups import STAND_INS, contents_of
from framelift.interpreter.machine import Machine
from framelift.interpreter.pending import opened

Handler = Callable[[Any, list[Any], dict[str, Any]], Any]
"""handler(frame, args, kwargs) -> the result of the call, or the Frame that will produce it."""

H = TypeVar("H", bound=Callable[..., Any])

SERVED: dict[Any, Handler] = {}
"""Callable -> what does its job under the interpreter."""

Machine.served = SERVED


def serve(*callables: Any) -> Callable[[H], H]:
    """Registers the handler of callables."""

    def register(handler: H) -> H:
        acts_for_program(handler)
        for fn in callables:
            SERVED[fn] = by_signature(fn, handler)
        return handler

    return register


def by_signature(fn: Any, handler: Any) -> Handler:
    """Calls a handler with bound arguments. A call that does not fit its parameters is made without it."""

    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return handler(f, *args, **kwargs) if kwargs else handler(f, *args)
        except TypeError as error:
            # an error of the handler's own, or of what it calls, has its frame in the traceback
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
        return call_unserved(f, fn, args, kwargs)

    return served


# ---- what asks about the calling frame


@serve(super)
def serve_super(f: Frame, /, *given: Any) -> Any:
    if len(given) == 2:
        return f.world.classes.super_of(*map(opened, given))
    return super(*map(opened, given)) if given else zero_argument_super(f)


def zero_argument_super(f: Frame) -> Any:
    code = f.code.code
    if not code.co_argcount:
        raise RuntimeError("super(): no arguments")
    first = f.fast[0]
    if first is not UNSET and code.co_varnames[0] in code.co_cellvars:
        first = contents_of(first)
    if first is UNSET:
        raise RuntimeError("super(): arg[0] deleted")
    if "__class__" not in code.co_freevars:
        raise RuntimeError("super(): __class__ cell not found")
    cls = contents_of(f.fast[f.code.names.index("__class__")])
    if cls is UNSET:
        raise RuntimeError("super(): empty __class__ cell")
    return f.world.classes.super_of(opened(cls), opened(first))


@serve(builtins.locals)
def serve_locals(f: Frame, /) -> Any:
    return local_variables(f)


@serve(builtins.globals)
def serve_globals(f: Frame, /) -> Any:
    return f.world.scopes.as_value(f.globals)


@serve(builtins.vars)
def serve_vars(f: Frame, obj: Any = MISSING, /) -> Any:
    return local_variables(f) if obj is MISSING else f.world.attributes.vars_of(obj)


@serve(builtins.dir)
def serve_dir(f: Frame, obj: Any = MISSING, /) -> Any:
    if obj is not MISSING:
        return sorted(f.world.attributes.names_of(opened(obj)))
    local = local_variables(f)
    return sorted(
        local if type(local) is dict else f.world.operators.apply(operator.methodcaller("keys"), local)
    )


def serve_evaluator(evaluator: Any, mode: str) -> None:
    @serve(evaluator)
    def served(f: Frame, source: Any, scope: Any = None, namespace: Any = None, /, **options: Any) -> Any:
        if version.EVALUATORS_TAKE_NAMES:
            scope = options.pop("globals", None) if scope is None else scope
            namespace = options.pop("locals", None) if namespace is None else namespace
        source, scope, namespace = opened(source), opened(scope), opened(namespace)
        if scope is None:
            if evaluator is exec and namespace is None and not version.LOCALS_WRITE_THROUGH:
                f.executes = True
            scope = f.world.scopes.as_value(f.globals)
            namespace = local_variables(f) if namespace is None else namespace
        if isinstance(source, (str, bytes)) and type(scope) is dict:
            text = without_indent(source) if mode == "eval" else source
            given = [text, "<string>", mode, futures(f), True]
            source = f.world.calls.native(f, builtins.compile, given, None)
        return f.world.calls.native(f, evaluator, [source, scope, namespace], options)


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
def serve_compile(
    f: Frame,
    /,
    source: Any,
    filename: Any,
    mode: Any,
    flags: Any = 0,
    dont_inherit: Any = False,
    optimize: Any = -1,
    **options: Any,
) -> Any:
    dont_inherit = opened(dont_inherit)
    if not dont_inherit:
        flags = f.world.operators.apply(operator.index, opened(flags)) | futures(f)
    given = [source, filename, mode, flags, dont_inherit or True, optimize]
    return f.world.calls.native(f, builtins.compile, given, options)


@serve(sys._getframe)
def serve_getframe(f: Frame, depth: Any = 0, /) -> Any:
    found = frame_at(f, operator.index(opened(depth)))
    if found is None:
        raise ValueError("call stack is not deep enough")
    return found.view() if isinstance(found, Frame) else found


@serve(sys.setrecursionlimit)
def serve_setrecursionlimit(f: Frame, limit: Any, /) -> Any:
    f.world.calls.native(f, sys.setrecursionlimit, [limit], None)
    f.machine.limit = sys.getrecursionlimit()


@serve(TracebackType)
def serve_traceback(f: Frame, /, tb_next: Any, tb_frame: Any, tb_lasti: Any, tb_lineno: Any) -> Any:
    given = [tb_next, as_real(opened(tb_frame)), tb_lasti, tb_lineno]
    return f.world.calls.native(f, TracebackType, given, None)


def serve_frame_locals(f: Frame, frame: Any, /) -> Any:
    frame = opened(frame)
    kind = STAND_INS[FrameLocals]
    return FrameLocals(frame) if type(frame) is FrameView else f.world.calls.native(f, kind, [frame], None)


if FrameLocals in STAND_INS:
    serve(STAND_INS[FrameLocals])(serve_frame_locals)


@serve(traceback.clear_frames)
def serve_clear_frames(f: Frame, /, tb: Any) -> Any:
    at = opened(tb)
    while at is not None:
        with contextlib.suppress(RuntimeError):  # it is still running
            as_seen(at.tb_frame).clear()
        at = at.tb_next


def serve_stack(function: Any) -> None:
    """Serves a function that looks at the frames that call it, unless it is told of another one."""

    @serve(function)
    def served(caller: Frame, /, f: Any = None, *options: Any, **named: Any) -> Any:
        start = caller.view() if opened(f) is None else f
        return caller.world.calls.native(caller, function, [start, *options], named)


for name in ("print_stack", "format_stack", "extract_stack", "walk_stack"):
    serve_stack(getattr(traceback, name))


def serve_getframemodulename(f: Frame, /, depth: Any = 0) -> Any:
    found = frame_at(f, operator.index(opened(depth)))
    if isinstance(found, Frame):
        return found.func.__module__
    return None if found is None else found.f_globals.get("__name__")


if sys.version_info >= (3, 12):
    serve(sys._getframemodulename)(serve_getframemodulename)


# ---- classes


@serve(builtins.type)
def serve_type(f: Frame, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return f.world.classes.class_of(opened(args[0]))
    return new_class(f, builtins.type, list(args), kwargs)


@serve(type.__new__)
def serve_new_class(f: Frame, /, *args: Any, **kwargs: Any) -> Any:
    return new_class(f, type.__new__, list(args), kwargs)


def serve_named(maker: Any) -> None:
    """Serves what names the module of what it makes after the globals of the frame that calls it."""

    @serve(maker)
    def served(f: Frame, /, *args: Any, **kwargs: Any) -> Any:
        return f.world.calls.native(f, from_here(f, maker), list(args), kwargs)


TYPING = ("NamedTuple", "NewType", "ParamSpec", "TypeAliasType", "TypedDict", "TypeVar", "TypeVarTuple")
for name in TYPING:
    if hasattr(typing, name):
        serve_named(getattr(typing, name))


# ---- methods of generators and coroutines, on the objects of ours that stand for them


def serve_method(method: Any, ours: type) -> None:
    @serve(method)
    def served(f: Frame, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        stands_for_one = isinstance(opened(obj), ours)
        called = getattr(ours, method.__name__) if stands_for_one else method
        return f.world.calls.native(f, called, [obj, *args], kwargs)


for ours in (Generator, Coroutine, AsyncGenerator):
    for name, method in vars(STAND_INS[ours]).items():
        if type(method) in LOOKED_UP and hasattr(ours, name):
            serve_method(method, ours)


# ---- what looks into objects: a name that is no string is an error that C raises


@serve(builtins.getattr)
def serve_getattr(f: Frame, obj: Any, name: Any, default: Any = MISSING, /) -> Any:
    name = opened(name)
    if not isinstance(name, str):
        return f.world.calls.native(f, builtins.getattr, [obj, name], None)
    try:
        return f.world.attributes.load(obj, name)
    except AttributeError as error:
        if default is MISSING or not f.world.errors.catchable(error):
            raise
    return default


@serve(builtins.hasattr)
def serve_hasattr(f: Frame, obj: Any, name: Any, /) -> Any:
    name = opened(name)
    if not isinstance(name, str):
        return f.world.calls.native(f, builtins.hasattr, [obj, name], None)
    try:
        f.world.attributes.load(obj, name)
    except AttributeError as error:
        if not f.world.errors.catchable(error):
            raise
        return False
    return True


@serve(builtins.setattr)
def serve_setattr(f: Frame, obj: Any, name: Any, value: Any, /) -> Any:
    name = opened(name)
    if not isinstance(name, str):
        return f.world.calls.native(f, builtins.setattr, [obj, name, value], None)
    f.world.attribute_writes.store(obj, name, value)


@serve(builtins.delattr)
def serve_delattr(f: Frame, obj: Any, name: Any, /) -> Any:
    name = opened(name)
    if not isinstance(name, str):
        return f.world.calls.native(f, builtins.delattr, [obj, name], None)
    f.world.attribute_writes.delete(obj, name)


@serve(builtins.iter)
def serve_iter(f: Frame, obj: Any, /) -> Any:
    return f.world.containers.iterate(obj)
