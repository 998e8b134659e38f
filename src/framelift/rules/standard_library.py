"""Functions of the standard library that keep something, or ask the frame or the lock that a trace has not:
served without that."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import logging
import re
import string
import types
from typing import Any

from framelift import _frame
from framelift.interpreter.calls import told_what_is_wrong
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.views import DELETED

# ---- classes that the library writes

NAMED_TUPLE: Any = collections.namedtuple
DATACLASS: Any = vars(dataclasses)["_process_class"]


@serve(NAMED_TUPLE)
def serve_named_tuple(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A class made of names, by source text that is none of the trace's business."""
    options = {name: f.world.materialize.for_c(value) for name, value in kwargs.items()}
    if options.get("module") is None:
        options["module"] = f.globals.get("__name__")
    return f.world.created.add_written_class(NAMED_TUPLE(*map(f.world.materialize.for_c, args), **options))


@serve(DATACLASS)
def serve_dataclass(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The same, of a class that the trace has made; with slots it is made anew."""
    cls = opened(args[0]) if args else None
    if not (isinstance(cls, type) and f.world.created.has(cls)):
        return interpreted(f, DATACLASS, args, kwargs)
    for base in cls.__mro__[1:]:
        f.world.classes.attribute(base, "__dataclass_fields__")
    for value in vars(cls).values():
        if type(value) is dataclasses.Field:
            for slot in dataclasses.Field.__slots__:
                setattr(value, slot, opened(getattr(value, slot)))
    options = {name: opened(value) for name, value in kwargs.items()}
    return f.world.created.add_written_class(DATACLASS(*map(opened, args), **options))


# ---- inspect, functools, logging, re, string

SIGNATURE: Any = vars(inspect)["_signature_from_callable"]


@serve(SIGNATURE)
def serve_signature(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The signature of an ordinary outside function is a fact about it; others are interpreted."""
    target: Any = opened(args[0]) if args else None
    fn = target.__func__ if type(target) is types.MethodType else target
    options = {name: opened(value) for name, value in kwargs.items()}
    plain = options.get("globals") is options.get("locals") is None and not options.get("eval_str")
    if not plain or type(fn) is not types.FunctionType or not f.world.functions.fixed_signature(fn):
        return interpreted(f, SIGNATURE, args, kwargs)
    return SIGNATURE(target, **options)


UNWRAP = inspect.unwrap


@serve(UNWRAP)
def serve_unwrap(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return interpreted(f, unwrapped, args, kwargs)


def unwrapped(func: Any, *, stop: Any = None) -> Any:
    """As `inspect.unwrap`, but for the recursion limit, which that asks about to stop at cycles."""
    start, seen = func, [func]
    while hasattr(func, "__wrapped__") and not (stop is not None and stop(func)):
        func = func.__wrapped__
        for other in seen:
            if func is other:
                raise ValueError(f"wrapper loop when unwrapping {start!r}")
        seen.append(func)
    return func


_frame.set_decision(unwrapped.__code__, _frame.SKIP, _frame.INTERPRET)


@serve(functools.cached_property.__get__)
def serve_cached_property(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Without the lock that 3.11 has: the trace is on its own."""
    descriptor, obj = opened(args[0]), opened(args[1]) if len(args) > 1 else None
    view = f.world.attributes.views.get(id(obj))
    if obj is None or descriptor.attrname is None:
        return interpreted(f, functools.cached_property.__get__, args, kwargs)
    name = descriptor.attrname
    own = f.world.attributes.own(view, obj, name) if view is not None else vars(obj).get(name, DELETED)
    if own is DELETED:
        own = f.world.calls.invoke(f.world.attributes.load(descriptor, "func"), obj)
        if view is None:
            vars(obj)[name] = own
        else:
            view.write(name, own)
    return own


@serve(logging.Logger.isEnabledFor)
def serve_is_enabled_for(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Without the cache that loggers have: the facts that it goes by are guarded."""
    if len(args) != 2 or kwargs:
        return f.world.calls.native(f, logging.Logger.isEnabledFor, args, kwargs)
    logger, level = args
    of = f.world.attributes.load
    if f.world.operators.truth(of(logger, "disabled")) or opened(
        of(of(logger, "manager"), "disable")
    ) >= opened(level):
        return False
    return opened(level) >= opened(f.world.calls.invoke(of(logger, "getEffectiveLevel")))


ASKING = "debug info warning error critical exception log getEffectiveLevel"
"""Methods of loggers that ask whether anybody listens: only what they do if somebody does is an effect."""

for _asking in (*map(vars(logging.Logger).get, ASKING.split()), vars(logging.Manager)["disable"].fget):
    _frame.set_decision(_asking.__code__, _frame.SKIP, _frame.INTERPRET)


CACHED = functools._lru_cache_wrapper


@serve(CACHED)
def serve_cached(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A memoising function that the trace makes is its own: it may keep what it likes."""
    made: Any = _frame.native(CACHED, *map(opened, args), **{k: opened(v) for k, v in kwargs.items()})
    return f.world.created.keep(made)


def serve_cache_method(method: Any) -> None:
    @serve(method)
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and id(args[0]) in f.world.created.objects:
            return method(*args, **kwargs)
        return f.world.calls.native(f, method, args, kwargs)


for _name in ("cache_info", "cache_clear"):
    serve_cache_method(vars(CACHED)[_name])


def serve_substitution(name: str) -> None:
    method = getattr(re.Pattern, name)

    @serve(getattr(re, name))
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A function that makes the replacements is the program's, and the hook must see that C calls it."""
        fn = getattr(re, name)
        try:
            given = inspect.signature(fn).bind(*args, **kwargs)
        except TypeError:
            return told_what_is_wrong(fn, args, kwargs)
        given.apply_defaults()
        pattern, replacement, text, count, flags = given.arguments.values()
        if not callable(opened(replacement)):
            return f.world.calls.native(f, fn, args, kwargs)
        compiled = f.world.calls.native(f, re.compile, [pattern, flags], None)
        return f.world.calls.native(f, method, [compiled, replacement, text, count], None)


serve_substitution("sub")
serve_substitution("subn")


FORMATTER = string.Formatter()
VFORMAT: Any = string.Formatter.vformat


@serve(str.format, formats=True)
def serve_format(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A field such as `{0.name}` reads an attribute, which C would do behind the door's back."""
    template = opened(args[0]) if args else None
    if type(template) is str and "." in template:
        return interpreted(f, VFORMAT, [FORMATTER, template, tuple(args[1:]), kwargs], None)
    return f.world.calls.native(f, str.format, args, kwargs)
