"""`type`, its methods, and class statements: a trace guards what they read, and keeps what they make."""

from __future__ import annotations

import builtins
import gc
from typing import Any

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.guards.kinds import Access, Check
from framelift.interpreter.calls import maker_of_class
from framelift.interpreter.lookups import is_ours
from framelift.interpreter.pending import opened
from framelift.rules.families import is_told_apart_oddly
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.machine import TraceFrame
from framelift.trace.type_rules import IMMUTABLE_TYPE


@serve(builtins.type, looks=Looks.SHALLOW, why="tells a class, or makes one")
def serve_type(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return f.world.classes.type_of(args[0])
    return made_class(f, builtins.type, args, kwargs)


@serve(type.__new__)
def serve_new_class(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
    return made_class(f, type.__new__, args, kwargs)


def made_class(f: TraceFrame, maker: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = [f.world.materialize.for_c(x) for x in args]
    options = {name: f.world.materialize.for_c(value) for name, value in kwargs.items()}
    made = _frame.native(maker_of_class(f, maker, given), *given, **options)
    f.world.created.add_class(made)
    return made


@serve(builtins.__build_class__, looks=Looks.SHALLOW, why="makes a class")
def serve_build_class(f: TraceFrame, func: Any, name: Any, /, *bases: Any, **kwargs: Any) -> Any:
    opened_bases = [f.world.materialize.for_c(base) for base in bases]
    for base in opened_bases:
        if not isinstance(base, type):
            f.world.classes.attribute(type(base), "__mro_entries__")
            continue
        f.world.classes.guard_bases(base)
        f.world.classes.attribute(base, "__init_subclass__")
        for method in ("__new__", "__init__", "__call__", "__prepare__", "mro"):
            f.world.classes.attribute(type(base), method)
    made = f.world.calls.native(f, builtins.__build_class__, [func, name, *opened_bases], kwargs)
    if isinstance(made, type):
        f.world.created.add_written_class(made)
        for value in list(vars(made).values()):
            f.world.classes.attribute(type(value), "__set_name__")  # which C has called
    return made


@serve(type.mro)
def serve_mro(f: TraceFrame, cls: Any, /) -> Any:
    if isinstance(opened(cls), type):
        f.world.classes.guard_bases(opened(cls))
    return f.world.calls.native(f, type.mro, [cls], None)


@serve(type.__instancecheck__, looks=Looks.CLASS, why="asks about a class")
def serve_instance_check(f: TraceFrame, cls: Any, instance: Any, /) -> Any:
    """`isinstance` by the bases, whatever a metaclass says."""
    cls, value = opened(cls), opened(instance)
    of = f.world.classes.class_of(value)
    f.world.classes.guard_bases(of)
    f.world.classes.attribute(type(value), "__class__")
    if of is not type(value) and issubclass(type(cls), type):  # a tensor, or a symbol
        return type.__subclasscheck__(cls, of)
    return f.world.calls.native(f, type.__instancecheck__, [cls, value], None)


@serve(type.__subclasscheck__)
def serve_subclass_check(f: TraceFrame, cls: Any, subclass: Any, /) -> Any:
    if isinstance(opened(subclass), type):
        f.world.classes.guard_bases(opened(subclass))
    return f.world.calls.native(f, type.__subclasscheck__, [cls, subclass], None)


@serve(type.__subclasses__)
def serve_subclasses(f: TraceFrame, cls: Any, /) -> Any:
    """Those of a class from outside are guarded; what the trace has made is among them, as it would be."""
    cls, world = opened(cls), f.world
    gc.collect()  # classes that earlier traces have made, and given up, lead to themselves
    found: list[type] = type.__subclasses__(cls)
    if cls.__flags__ & IMMUTABLE_TYPE or any(is_told_apart_oddly(one) for one in found):
        raise Break(breaks.UNKNOWN_NATIVE, f"the subclasses of {cls.__qualname__}")
    if not world.created.has(cls):
        outside = [one for one in found if not world.created.has(one) and not is_ours(one)]
        source = world.inputs.root.constant(cls, cls.__qualname__).child(Access.SUBCLASSES)
        world.guards.add(source, Check.LEN, len(outside))
        for place, one in enumerate(outside):
            world.guards.add(source.child(Access.ITEM, place), Check.IS, one)
    return [one for one in found if not is_ours(one)]


@serve(type.__setattr__)
def serve_class_setattr(f: TraceFrame, cls: Any, name: Any, value: Any, /) -> Any:
    refuse_outside_class(f, opened(cls))
    return _frame.native(type.__setattr__, *map(f.world.materialize.for_c, (cls, name, value)))


@serve(type.__delattr__)
def serve_class_delattr(f: TraceFrame, cls: Any, name: Any, /) -> Any:
    refuse_outside_class(f, opened(cls))
    return _frame.native(type.__delattr__, *map(f.world.materialize.for_c, (cls, name)))


def refuse_outside_class(f: TraceFrame, cls: Any) -> None:
    """A class from outside must not be changed while tracing; of a builtin one C says that it can't be."""
    if isinstance(cls, type) and not cls.__flags__ & IMMUTABLE_TYPE and not f.world.created.has(cls):
        raise Break(breaks.ATTRIBUTE_WRITE, f"an attribute of the class {cls.__qualname__} is changed")
