"""Functions and types of the standard library that a trace does itself: they keep something, or ask about
a frame, a lock or a thread that a trace has not. C, when it copies, would read attributes unseen."""

from __future__ import annotations

import _thread
import ast
import builtins
import collections
import contextlib
import contextvars
import copy
import copyreg
import dataclasses
import datetime
import functools
import inspect
import logging
import pickle
import re
import string
import sys
import types
import typing
import weakref
from collections import OrderedDict, defaultdict
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.graph.effects import DATA
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.rules.constants import guard_local_time
from framelift.rules.instances import Callbacks
from framelift.rules.torch_state import asked
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.shadows import DELETED

# ---- classes that the library writes

NAMED_TUPLE: Any = collections.namedtuple
DATACLASS: Any = vars(dataclasses)["_process_class"]


@serve(NAMED_TUPLE)
def serve_named_tuple(
    f: TraceFrame,
    /,
    typename: Any,
    field_names: Any,
    *,
    rename: Any = False,
    defaults: Any = None,
    module: Any = None,
) -> Any:
    """The library makes the class of source text, which is not interpreted."""
    typename, field_names, rename, defaults, module = map(
        f.world.materialize.for_c, (typename, field_names, rename, defaults, module)
    )
    if module is None:
        module = f.globals.get("__name__")
    made = NAMED_TUPLE(typename, field_names, rename=rename, defaults=defaults, module=module)
    options = {"defaults": tuple(made._field_defaults.values()), "module": module}
    f.world.created.recipes[made] = NAMED_TUPLE, (typename, " ".join(made._fields)), options
    return f.world.created.add_written_class(made)


@serve(DATACLASS)
def serve_dataclass(f: TraceFrame, target: Any, /, *options: Any, **named: Any) -> Any:
    """The library writes the methods as source text too, for a class that the trace has made. Which options
    there are depends on the version of Python."""
    cls = opened(target)
    if not (isinstance(cls, type) and f.world.created.has(cls)):
        return interpreted(f, DATACLASS, [target, *options], named)
    for base in cls.__mro__[1:]:
        f.world.classes.attribute(base, "__dataclass_fields__")
    for value in vars(cls).values():
        if type(value) is dataclasses.Field:
            for slot in dataclasses.Field.__slots__:
                setattr(value, slot, opened(getattr(value, slot)))
    given = {name: opened(value) for name, value in named.items()}
    return f.world.created.add_written_class(DATACLASS(cls, *map(opened, options), **given))


# ---- what makes modules, functions, references


@serve(types.ModuleType)
def serve_module(f: TraceFrame, /, name: Any, doc: Any = None) -> Any:
    return f.world.created.keep(f.world.calls.native(f, types.ModuleType, [name, doc], None))


@serve(types.FunctionType)
def serve_function(
    f: TraceFrame, /, code: Any, globals: Any, name: Any = None, argdefs: Any = None, closure: Any = None
) -> Any:
    if isinstance(closure := opened(closure), tuple):
        closure = tuple(map(opened, closure))
    made = f.world.calls.native(f, types.FunctionType, [code, globals, name, argdefs, closure], None)
    f.world.functions.made(made)
    return made


def referent(f: TraceFrame, obj: Any) -> Any:
    """As C makes a weak reference to it."""
    shown = f.world.materialize.shallow(obj)
    f.world.lifetimes.watches_tensors |= type(shown) is FakeTensor
    return shown


@serve(weakref.ref)
def serve_weak_reference(f: TraceFrame, obj: Any, callback: Any = None, /) -> Any:
    shown, callback = referent(f, obj), opened(callback)
    if callback is None:
        return f.world.created.keep(weakref.ref(shown))
    callbacks = f.world.feature(Callbacks)
    return callbacks.keep(weakref.ref(shown, callbacks.gone), callback)


@serve(weakref.KeyedRef)
def serve_keyed_reference(f: TraceFrame, obj: Any, callback: Any, key: Any) -> Any:
    callbacks = f.world.feature(Callbacks)
    made = weakref.KeyedRef(referent(f, obj), callbacks.gone, key)
    return callbacks.keep(made, opened(callback))


@serve(vars(weakref)["_remove_dead_weakref"], looks=Looks.DEEP, why="lets go of an entry")
def serve_remove_dead(f: TraceFrame, dictionary: Any, key: Any, /) -> Any:
    containers = f.world.containers
    if containers.contains(dictionary, key):
        reference = opened(containers.load(dictionary, key))
        if f.world.calls.invoke(reference) is None:
            containers.delete(dictionary, key)


@serve(contextvars.ContextVar.get)
def serve_get_variable(f: TraceFrame, variable: Any, /, *default: Any) -> Any:
    return f.world.context_variables.get(opened(variable), default)


@serve(contextvars.ContextVar.set)
def serve_set_variable(f: TraceFrame, variable: Any, value: Any, /) -> Any:
    return f.world.context_variables.set(opened(variable), value)


@serve(contextvars.ContextVar.reset)
def serve_reset_variable(f: TraceFrame, variable: Any, token: Any, /) -> Any:
    given = opened(token)
    if f.world.inputs.is_opaque(given):
        raise Break(breaks.EFFECT, "ContextVar.reset with a token from before")
    f.world.context_variables.reset(opened(variable), given)


@serve(_thread.get_ident)
def serve_get_ident(f: TraceFrame, /) -> Any:
    return f.world.addresses.of_thread(_thread.get_ident())


# ---- dates


def serve_local_time(fn: Any) -> None:
    @serve(fn)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        guard_local_time(f.world)
        return f.world.calls.native(f, fn, list(args), kwargs)


for _fn in (datetime.date.fromtimestamp, datetime.datetime.fromtimestamp, datetime.datetime.strptime):
    serve_local_time(_fn)


# ---- inspect, functools, logging, re, string

SIGNATURE: Any = vars(inspect)["_signature_from_callable"]


@serve(SIGNATURE)
def serve_signature(f: TraceFrame, obj: Any, /, **options: Any) -> Any:
    """The signature of an ordinary outside function is a fact about it; others are interpreted."""
    target: Any = opened(obj)
    fn = target.__func__ if type(target) is types.MethodType else target
    given = {name: opened(value) for name, value in options.items()}
    plain = given.get("globals") is given.get("locals") is None and not given.get("eval_str")
    if not plain or type(fn) is not types.FunctionType or not f.world.functions.fixed_signature(fn):
        return interpreted(f, SIGNATURE, [obj], options)
    return SIGNATURE(target, **given)


@serve(typing.get_type_hints)
def serve_type_hints(
    f: TraceFrame, /, obj: Any, globalns: Any = None, localns: Any = None, include_extras: Any = False
) -> Any:
    """The hints of an ordinary outside function are a fact about it; texts among them name other facts."""
    fn: Any = opened(obj)
    given = [opened(value) for value in (globalns, localns)]
    is_function = type(fn) is types.FunctionType and given == [None, None]
    about = fn
    if is_function and f.world.created.has(fn) and "__wrapped__" not in vars(fn):
        found = opened(f.world.attributes.load(fn, "__annotations__"))
        hints = {name: opened(hint) for name, hint in found.items()}
        about = types.SimpleNamespace(__annotations__=hints, __globals__=fn.__globals__)
    elif not is_function or not f.world.functions.fixed_signature(fn):
        raise Break(breaks.UNKNOWN_NATIVE, "typing.get_type_hints of no ordinary function")
    for hint in about.__annotations__.values():
        if isinstance(hint, str):
            guard_names(f, fn, ast.parse(hint, mode="eval"))
    return typing.get_type_hints(about, include_extras=opened(include_extras))


def guard_names(f: TraceFrame, fn: types.FunctionType, hint: ast.AST) -> None:
    """What the names in a hint stand for."""
    for part in ast.walk(hint):
        if isinstance(part, (ast.Name, ast.Attribute)):
            named(f, fn, part)
        elif isinstance(part, ast.Call):
            raise Break(breaks.UNKNOWN_NATIVE, f"typing.get_type_hints with {ast.unparse(part)}")


def named(f: TraceFrame, fn: types.FunctionType, part: ast.AST) -> Any:
    """What a name, or an attribute of something with a name, stands for."""
    if isinstance(part, ast.Attribute):
        return opened(f.world.attributes.load(named(f, fn, part.value), part.attr))
    if isinstance(part, ast.Name) and part.id in fn.__globals__:
        return opened(f.world.scopes.load(fn.__globals__, part.id))
    if isinstance(part, ast.Name) and part.id in vars(builtins):
        return vars(builtins)[part.id]
    raise Break(breaks.UNKNOWN_NATIVE, f"typing.get_type_hints with {ast.unparse(part)}, which is unknown")


def serve_type_parameter(cls: Any) -> None:
    @serve(cls)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        """The library asks whose code calls it, to know in which module it is."""
        given = [f.world.materialize.for_c(value) for value in args]
        named = {name: f.world.materialize.for_c(value) for name, value in kwargs.items()}
        made = _frame.native(cls, *given, **named)
        made.__module__ = f.globals.get("__name__", "__main__")
        return f.world.created.keep(made)


for _kind in (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple, typing.NewType):
    serve_type_parameter(_kind)


@serve(sys.getrecursionlimit)
def serve_recursion_limit(f: TraceFrame, /) -> Any:
    return asked(f, sys.getrecursionlimit, [])


@serve(inspect.unwrap)
def serve_unwrap(f: TraceFrame, /, func: Any, *, stop: Any = None) -> Any:
    return interpreted(f, unwrapped, [func], {"stop": stop})


def unwrapped(func: Any, *, stop: Any = None) -> Any:
    """`inspect.unwrap`, which also asks about the recursion limit, so as to stop at cycles."""
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
def serve_cached_property(f: TraceFrame, prop: Any, /, instance: Any, owner: Any = None) -> Any:
    """Without the lock that Python 3.11 takes: a trace has no other threads."""
    descriptor, obj = opened(prop), opened(instance)
    view = f.world.attributes.views.get(id(obj))
    if obj is None or descriptor.attrname is None:
        return interpreted(f, functools.cached_property.__get__, [prop, instance, owner], None)
    name = descriptor.attrname
    own = f.world.attributes.own(view, obj, name) if view is not None else vars(obj).get(name, DELETED)
    if own is DELETED:
        own = f.world.calls.invoke(f.world.attributes.load(descriptor, "func"), obj)
        if view is None:
            vars(obj)[name] = own
        else:
            view.write(name, own)
    return own


@serve(typing.cast)
def serve_cast(f: TraceFrame, /, typ: Any, val: Any) -> Any:
    """Nothing looks at what is given back, numbers that vary among it."""
    return val


@serve(typing.assert_type)
def serve_assert_type(f: TraceFrame, val: Any, typ: Any, /) -> Any:
    return val


@serve(logging.getLogger)
def serve_get_logger(f: TraceFrame, /, name: Any = None) -> Any:
    return interpreted(f, known_logger, [name], None)


def known_logger(name: Any = None) -> Any:
    """`logging.getLogger` of a logger that there is. To make one is an effect."""
    if not name or name == logging.root.name:
        return logging.root
    manager = logging.Logger.manager
    found = manager.loggerDict.get(name)
    return found if isinstance(found, logging.Logger) else manager.getLogger(name)


_frame.set_decision(known_logger.__code__, _frame.SKIP, _frame.INTERPRET)


@serve(logging.Logger.isEnabledFor)
def serve_is_enabled_for(f: TraceFrame, logger: Any, /, level: Any) -> Any:
    """Without the cache that loggers have: what the answer depends on is guarded."""
    of = f.world.attributes.load
    if f.world.operators.truth(of(logger, "disabled")) or opened(
        of(of(logger, "manager"), "disable")
    ) >= opened(level):
        return False
    return opened(level) >= opened(f.world.calls.invoke(of(logger, "getEffectiveLevel")))


ASKING = "debug info warning error critical exception log getEffectiveLevel"
"""Methods of loggers that are interpreted: only what they do if the level is enabled is an effect."""

for _asking in (*map(vars(logging.Logger).get, ASKING.split()), vars(logging.Manager)["disable"].fget):
    _frame.set_decision(_asking.__code__, _frame.SKIP, _frame.INTERPRET)

CACHED = functools._lru_cache_wrapper


@serve(CACHED)
def serve_cached(f: TraceFrame, /, user_function: Any, maxsize: Any, typed: Any, cache_info_type: Any) -> Any:
    """A memoising function that the trace makes is its own: it may keep what it likes."""
    made: Any = _frame.native(CACHED, *map(opened, (user_function, maxsize, typed, cache_info_type)))
    return f.world.created.keep(made)


def serve_cache_method(method: Any) -> None:
    @serve(method)
    def served(f: TraceFrame, cached: Any, /) -> Any:
        if id(cached) in f.world.created.objects:
            return method(cached)
        return f.world.calls.native(f, method, [cached], None)


for _name in ("cache_info", "cache_clear"):
    serve_cache_method(vars(CACHED)[_name])


WARNS_OF_POSITION = bool(re.sub.__code__.co_flags & inspect.CO_VARARGS)
"""Whether it is deprecated to give `count` and `flags` by position (since Python 3.13)."""


def serve_substitution(fn: Any, method: Any) -> None:
    def substitute(f: TraceFrame, pattern: Any, repl: Any, string: Any, count: Any, flags: Any) -> Any:
        """A function that makes the replacements is the program's, and the hook must see that C calls it."""
        if not callable(opened(repl)):
            return f.world.calls.native(f, fn, [pattern, repl, string], {"count": count, "flags": flags})
        compiled = f.world.calls.native(f, re.compile, [pattern, flags], None)
        return f.world.calls.native(f, method, [compiled, repl, string, count], None)

    if WARNS_OF_POSITION:

        @serve(fn)
        def by_name(
            f: TraceFrame, /, pattern: Any, repl: Any, string: Any, *, count: Any = 0, flags: Any = 0
        ) -> Any:
            return substitute(f, pattern, repl, string, count, flags)

    else:

        @serve(fn)
        def by_any(
            f: TraceFrame, /, pattern: Any, repl: Any, string: Any, count: Any = 0, flags: Any = 0
        ) -> Any:
            return substitute(f, pattern, repl, string, count, flags)


serve_substitution(re.sub, re.Pattern.sub)
serve_substitution(re.subn, re.Pattern.subn)

FORMATTER = string.Formatter()
VFORMAT: Any = string.Formatter.vformat


def reads_attributes(template: str) -> bool:
    """Whether a field of a template may read an attribute; the point of `{:.2f}` is none of these."""
    try:
        fields = list(FORMATTER.parse(template))
    except ValueError:
        return False
    return any("." in (field or "") or "{" in (spec or "") for _, field, spec, _ in fields)


@serve(str.format, formats=True)
def serve_format(f: TraceFrame, template: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A field such as `{0.name}` reads an attribute, which C would do without the trace's knowing."""
    text = opened(template)
    if type(text) is str and "." in text and reads_attributes(text):
        return interpreted(f, VFORMAT, [FORMATTER, text, args, kwargs], None)
    late = f.world.late_texts.call(str.format, [text, *args], kwargs) if "[" not in str(text) else MISSING
    return f.world.calls.native(f, str.format, [template, *args], kwargs) if late is MISSING else late


@serve(copy.copy)
def serve_copy(f: TraceFrame, /, x: Any) -> Any:
    value: Any = opened(x)
    if type(value) in (list, dict, set):
        return value.copy()
    if type(value) is FakeTensor and f.world.tensors.is_bare(value):
        return f.world.recorder.call(DATA, (value,), {})
    return interpreted(f, copy.copy, [x], None)


# ---- the state of an instance


@serve(object.__reduce_ex__)
def serve_reduce_ex(f: TraceFrame, instance: Any, protocol: Any, /) -> Any:
    """What `copy` and `pickle` ask for."""
    obj, world = opened(instance), f.world
    if id(obj) not in world.attributes.views:
        return world.calls.native(f, object.__reduce_ex__, [instance, protocol], None)
    if world.classes.attribute(type(obj), "__reduce__") is not object.__reduce__:
        return call(f, world.attributes.load(obj, "__reduce__"), [], None)
    maker, given = new_arguments(f, obj)
    if world.classes.attribute(type(obj), "__getstate__") is object.__getstate__:
        state = instance_state(f, obj)
    else:
        state = answer(f, obj, "__getstate__")
    return maker, (type(obj), *given), state, None, None


@serve(types.SimpleNamespace.__reduce__)
def serve_reduce_namespace(f: TraceFrame, namespace: Any, /) -> Any:
    obj = opened(namespace)
    if id(obj) not in f.world.attributes.views:
        return f.world.calls.native(f, types.SimpleNamespace.__reduce__, [namespace], None)
    return type(obj), (), f.world.attributes.load(obj, "__dict__")


@serve(pickle.dumps)
def serve_dumps(f: TraceFrame, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Of what is only constants, and none of them twice: it tells equal strings from one that is there twice,
    which nothing guards."""
    value = f.world.materialize.for_c(obj)
    if not is_plain(value, set()):
        raise Break(breaks.UNKNOWN_NATIVE, "pickle.dumps of other things than different constants")
    given = [f.world.materialize.for_c(each) for each in args]
    options = {name: f.world.materialize.for_c(each) for name, each in kwargs.items()}
    return _frame.native(pickle.dumps, value, *given, **options)


def is_plain(value: Any, seen: set[Any]) -> bool:
    """Whether it consists of constants; `seen` are the strings, and the identities of the containers."""
    if type(value) in (type(None), bool, int, float):
        return True
    key = value if type(value) is str else id(value)
    if key in seen or type(value) not in (str, list, tuple, dict):
        return False
    seen.add(key)
    items = [each for item in value.items() for each in item] if type(value) is dict else value
    return type(value) is str or all(is_plain(each, seen) for each in items)


NEWOBJ, NEWOBJ_EX = (vars(copyreg)[name] for name in ("__newobj__", "__newobj_ex__"))
SLOTNAMES: Any = vars(copyreg)["_slotnames"]


def new_arguments(f: TraceFrame, obj: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that makes another instance, and its arguments after the class."""
    if f.world.classes.attribute(type(obj), "__getnewargs_ex__") is not MISSING:
        args, kwargs = answer(f, obj, "__getnewargs_ex__")
        return NEWOBJ_EX, (opened(args), opened(kwargs))
    has_arguments = f.world.classes.attribute(type(obj), "__getnewargs__") is not MISSING
    return NEWOBJ, tuple(answer(f, obj, "__getnewargs__")) if has_arguments else ()


def answer(f: TraceFrame, obj: Any, method: str) -> Any:
    """What a method of the object gives."""
    return opened(f.world.calls.invoke(f.world.attributes.load(obj, method)))


@serve(object.__getstate__)
def serve_getstate(f: TraceFrame, instance: Any, /) -> Any:
    obj = opened(instance)
    if id(obj) not in f.world.attributes.views:
        return f.world.calls.native(f, object.__getstate__, [instance], None)
    return instance_state(f, obj)


def instance_state(f: TraceFrame, obj: Any) -> Any:
    """What the instance has in its dictionary, and in slots, in the form of `object.__getstate__`."""
    own = dict(opened(f.world.attributes.load(obj, "__dict__"))) if hasattr(obj, "__dict__") else {}
    slots = {}
    for name in SLOTNAMES(type(obj)):
        with contextlib.suppress(AttributeError):
            slots[name] = f.world.attributes.load(obj, name)
    return (own or None, slots) if slots else own or None


@serve(SLOTNAMES)
def serve_slotnames(f: TraceFrame, /, cls: Any) -> Any:
    """It keeps what it finds on the class, which changes nothing for anybody."""
    return SLOTNAMES(opened(cls))


# ---- dictionaries of `collections`, of which C would look at what they hold


@serve(OrderedDict.copy)
def serve_ordered_copy(f: TraceFrame, /, ordered: Any) -> Any:
    if type(opened(ordered)) is not OrderedDict:  # a subclass may have its own way to set items
        return f.world.calls.native(f, OrderedDict.copy, [ordered], None)
    return f.world.calls.invoke(OrderedDict, ordered)


@serve(OrderedDict.popitem)
def serve_ordered_popitem(f: TraceFrame, /, ordered: Any, last: Any = True) -> Any:
    found, invoke = opened(ordered), f.world.calls.invoke
    if type(found) is not OrderedDict or not invoke(len, found):
        return f.world.calls.native(f, OrderedDict.popitem, [ordered, last], None)
    key = invoke(next, invoke(reversed if f.world.operators.truth(last) else iter, found))
    return key, invoke(OrderedDict.pop, found, key)


@serve(defaultdict.copy, defaultdict.__copy__)
def serve_default_copy(f: TraceFrame, /, found: Any) -> Any:
    if type(opened(found)) is not defaultdict:
        return f.world.calls.native(f, defaultdict.copy, [found], None)
    factory = f.world.attributes.load(opened(found), "default_factory")
    return f.world.calls.invoke(defaultdict, factory, found)
