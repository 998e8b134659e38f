"""Copies, and what objects are copied and pickled by: C would read attributes without the trace's knowing."""

from __future__ import annotations

import contextlib
import copy
import copyreg
import types
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.sentinels import MISSING
from framelift.graph.effects import DATA
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, interpreted


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
