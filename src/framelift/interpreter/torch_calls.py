"""Calls that a trace serves itself: questions whose answer must not betray that tensors are fakes,
and short cuts through torch's own Python that say the same thing in fewer steps."""

from __future__ import annotations

import _thread
import builtins
import collections
import contextlib
import copy
import copyreg
import dataclasses
import functools
import inspect
import logging
import operator
import re
import string
import types
import weakref
from typing import Any

import torch
import torch.amp.autocast_mode as autocast_mode
import torch.autograd.grad_mode as grad_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.profiler import record_function
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.interpreter.calls import SERVED, call, call_function, maker_of_class, told_what_is_wrong
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import Machine
from framelift.tensors.symbols import SYMBOLIC
from framelift.tensors.torch_state import SETTERS
from framelift.world.exposure import Address
from framelift.world.openers import IMMUTABLE_TYPE
from framelift.world.pending import Pending, opened
from framelift.world.views import DELETED

TRACED = dict(SERVED)
"""What a trace serves: all that the interpreter does anyway, and this."""


TOLD_OF_CLASSES = {"__init_subclass__": 0, "__set_name__": 1}
"""Methods that C calls while it makes a class -> which of their arguments that is."""


VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class TracingMachine(Machine):
    served = TRACED

    def enter(self, func: types.FunctionType, arguments: list[Any], namespace: Any) -> Any:
        """C called the function, so it may look into what it gets: nothing pending may be in there."""
        if not self.world.interprets(func):
            return self.world.call_native(self.frame, func, arguments, None)  # to be told that it can't be
        of_new_class = TOLD_OF_CLASSES.get(func.__name__)
        if of_new_class is not None and isinstance(arguments[of_new_class], type):
            self.world.know_class(arguments[of_new_class])  # type: ignore[attr-defined]
        if func in self.served and not func.__code__.co_flags & VARIADIC:
            return self.world.for_c(self.invoke(func, tuple(arguments), {}))
        result = self.world.for_c(super().enter(func, arguments, namespace))
        if namespace is not None and namespace is not func.__globals__:
            self.world.for_c(namespace)  # of a class, which C, or code that is not interpreted, makes of it
        return result

    def invoke(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the world makes on the program's behalf, as if the program stood at it."""
        assert self.frame is not None
        result = call(self.frame, fn, list(args), kwargs or None)
        return self.run(result) if type(result) is Frame else result


def serve(*callables: Any) -> Any:
    def register(handler: Any) -> Any:
        TRACED.update(dict.fromkeys(callables, handler))
        return handler

    return register


def interpreted(f: Frame, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """The function is not served after all."""
    return call_function(f, fn, args, kwargs or None)


# ---- types


@serve(builtins.type)
def serve_type(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return f.world.type_of(args[0])  # type: ignore[attr-defined]
    return made_class(f, builtins.type, args, kwargs)


@serve(type.__new__)
def serve_new_class(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return made_class(f, type.__new__, args, kwargs)


def made_class(f: Frame, maker: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args = [f.world.for_c(x) for x in args]
    options = {name: f.world.for_c(value) for name, value in kwargs.items()}
    made = _frame.native(maker_of_class(f, maker, args), *args, **options)
    f.world.know_class(made)  # type: ignore[attr-defined]
    return made


@serve(type.mro)
def serve_mro(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(opened(args[0]), type):
        f.world.guard_bases(opened(args[0]))
    return f.world.call_native(f, type.mro, args, kwargs)


@serve(type.__instancecheck__)
def serve_instance_check(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """By the bases, whatever a metaclass says."""
    if len(args) != 2 or kwargs:
        return told_what_is_wrong(type.__instancecheck__, args, kwargs)
    cls, value = map(opened, args)
    f.world.guard_bases(f.world.class_of(value))
    f.world.class_attribute(type(value), "__class__")
    if type(value) is FakeTensor:
        return type.__subclasscheck__(cls, f.world.class_of(value))
    return f.world.call_native(f, type.__instancecheck__, [cls, value], None)


@serve(type.__subclasscheck__)
def serve_subclass_check(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and isinstance(opened(args[1]), type):
        f.world.guard_bases(opened(args[1]))
    return f.world.call_native(f, type.__subclasscheck__, args, kwargs)


@serve(builtins.__build_class__)
def serve_build_class(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args = [*args[:2], *(f.world.for_c(base) for base in args[2:])]
    for base in args[2:]:
        if not isinstance(base, type):
            f.world.class_attribute(type(base), "__mro_entries__")
            continue
        f.world.guard_bases(base)
        f.world.class_attribute(base, "__init_subclass__")
        for name in ("__new__", "__init__", "__call__", "__prepare__", "mro"):
            f.world.class_attribute(type(base), name)
    made = f.world.call_native(f, builtins.__build_class__, args, kwargs)
    if isinstance(made, type):
        f.world.made_class(made)  # type: ignore[attr-defined]
        for value in list(vars(made).values()):
            f.world.class_attribute(type(value), "__set_name__")  # which C has called
    return made


@serve(type.__setattr__, type.__delattr__)
def serve_class_attribute(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    changed = type.__setattr__ if len(args) == 3 else type.__delattr__
    cls = opened(args[0]) if args else None
    fixed = isinstance(cls, type) and bool(cls.__flags__ & IMMUTABLE_TYPE)  # which C says then
    if isinstance(cls, type) and not fixed and not f.world.is_inside(cls):  # type: ignore[attr-defined]
        raise Break(breaks.INTERNAL, f"an attribute of the class {cls.__qualname__} is changed")
    return _frame.native(changed, *map(f.world.for_c, args), **kwargs)


@serve(types.ModuleType)
def serve_module(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.keep_made(f.world.call_native(f, types.ModuleType, args, kwargs))  # type: ignore[attr-defined]


NAMED_TUPLE: Any = collections.namedtuple
DATACLASS: Any = dataclasses._process_class  # type: ignore[attr-defined]


@serve(NAMED_TUPLE)
def serve_named_tuple(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A class made of names, by source text that is none of the trace's business."""
    options = {name: f.world.for_c(value) for name, value in kwargs.items()}
    if options.get("module") is None:
        options["module"] = f.globals.get("__name__")
    return f.world.made_class(NAMED_TUPLE(*map(f.world.for_c, args), **options))  # type: ignore[attr-defined]


@serve(DATACLASS)
def serve_dataclass(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The same, of a class that the trace has made; with slots it is made anew."""
    cls = opened(args[0]) if args else None
    if not (isinstance(cls, type) and f.world.is_inside(cls)):  # type: ignore[attr-defined]
        return interpreted(f, DATACLASS, args, kwargs)
    for base in cls.__mro__[1:]:
        f.world.class_attribute(base, "__dataclass_fields__")
    for value in vars(cls).values():
        if type(value) is dataclasses.Field:
            for slot in dataclasses.Field.__slots__:
                setattr(value, slot, opened(getattr(value, slot)))
    options = {name: opened(value) for name, value in kwargs.items()}
    return f.world.made_class(DATACLASS(*map(opened, args), **options))  # type: ignore[attr-defined]


@serve(weakref.ref)
def serve_weak_reference(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """That there is one changes nothing; what it would call when the object dies must happen at run time."""
    if len(args) != 1 or kwargs:
        return f.world.call_native(f, weakref.ref, args, kwargs)
    return f.world.keep_made(weakref.ref(f.world.glimpsed(args[0])))  # type: ignore[attr-defined]


@serve(types.FunctionType)
def serve_function(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    made = f.world.call_native(f, types.FunctionType, args, kwargs)
    f.world.made_function(made)
    return made


@serve(builtins.isinstance)
def serve_isinstance(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        return f.world.call_native(f, builtins.isinstance, args, kwargs)
    return f.world.is_instance(args[0], opened(args[1]))


@serve(builtins.callable)
def serve_callable(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1:
        f.world.class_attribute(type(opened(args[0])), "__call__")
    return f.world.call_native(f, builtins.callable, args, kwargs)


@serve(builtins.id)
def serve_id(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return f.world.call_native(f, builtins.id, args, kwargs)
    return Address(id(opened(args[0])))


@serve(_thread.get_ident)
def serve_get_ident(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Address(_thread.get_ident())


def serve_hasher(hasher: Any) -> None:
    @serve(hasher)
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        seen: dict[int, Any] = {}
        for value in args:
            f.world.shown(value, seen)  # type: ignore[attr-defined]
        f.world.fix_addresses(seen)  # type: ignore[attr-defined]
        return f.world.call_native(f, hasher, args, kwargs)


for _hasher in (builtins.hash, tuple.__hash__, frozenset.__hash__):
    serve_hasher(_hasher)


@serve(object.__hash__)
def serve_object_hash(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a `__hash__` of the program's may well use, which is none of its business either."""
    if len(args) != 1 or kwargs:
        return told_what_is_wrong(object.__hash__, args, kwargs)
    return Address(object.__hash__(opened(args[0])))


@serve(builtins.len)
def serve_len(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return told_what_is_wrong(len, args, kwargs)
    value = opened(args[0])
    if type(value) is FakeTensor:
        if not value.dim():
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    return f.world.length(value)  # type: ignore[attr-defined]


@serve(builtins.__import__)
def serve_import(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The function that an import statement calls, called by hand; with no other than absolute names."""
    given = {**dict(zip(("name", "globals", "locals", "fromlist", "level"), args, strict=False)), **kwargs}
    name, names, level = (f.world.for_c(given.get(key)) for key in ("name", "fromlist", "level"))
    if len(given) != len(args) + len(kwargs) or type(name) is not str or level:
        return f.world.call_native(f, builtins.__import__, args, kwargs)
    return f.world.import_name(name, f.globals, None, names, 0)


@serve(builtins.bool)
def serve_bool(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs or type(opened(args[0])) in (FakeTensor, *SYMBOLIC):
        return f.world.call_native(f, builtins.bool, args, kwargs)
    return f.world.truth(args[0])


@serve(list.append)
def serve_append(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and not kwargs:
        return f.world.append(args[0], args[1])
    return f.world.call_native(f, list.append, args, kwargs)


@serve(dict.get)
def serve_get(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A dictionary that nobody has looked into yet is asked for this one key."""
    if len(args) in (2, 3) and not kwargs and type(args[0]) is Pending:
        found = f.world.peek(args[0], opened(args[1]))  # type: ignore[attr-defined]
        if found is not DELETED:
            return found if found is not MISSING else args[2] if len(args) == 3 else None
    return f.world.call_native(f, dict.get, args, kwargs)


# ---- raw access to instances


@serve(object.__setattr__, types.ModuleType.__setattr__)
def serve_object_setattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 3 and not kwargs and isinstance(opened(args[1]), str):
        obj, name = opened(args[0]), opened(args[1])
        view = f.world.views.get(id(obj))  # type: ignore[attr-defined]
        if view is not None:
            return f.world.generic_store(view, obj, name, args[2])  # type: ignore[attr-defined]
        if type(obj) is FakeTensor or f.world.is_fixed(obj):  # type: ignore[attr-defined]
            return f.world.store_attr(obj, name, args[2])
        refuse_opaque(f, obj, name)
        c_takes_it = type(f.world.class_attribute(type(obj), name)) is types.GetSetDescriptorType
        value = f.world.for_c(args[2]) if c_takes_it else args[2]
        return _frame.native(object.__setattr__, obj, name, value)
    return told_what_is_wrong(object.__setattr__, args, kwargs)


@serve(object.__delattr__, types.ModuleType.__delattr__)
def serve_object_delattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(object.__delattr__, args, kwargs)
    obj, name = opened(args[0]), opened(args[1])
    view = f.world.views.get(id(obj))  # type: ignore[attr-defined]
    if view is not None:
        return f.world.generic_delete(view, obj, name)  # type: ignore[attr-defined]
    refuse_opaque(f, obj, name)
    f.world.class_attribute(type(obj), name)
    return _frame.native(object.__delattr__, obj, name)


def refuse_opaque(f: Frame, obj: Any, name: str) -> None:
    """An outside object that has no view must not be changed while it is traced."""
    if f.world.is_opaque(obj):  # type: ignore[attr-defined]
        raise Break(breaks.OPAQUE_OBJECT, f"{name} of a {type(obj).__qualname__} is changed")


@serve(object.__getattribute__)
def serve_object_getattribute(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(object.__getattribute__, args, kwargs)
    obj, name = opened(args[0]), opened(args[1])
    view = f.world.views.get(id(obj))  # type: ignore[attr-defined]
    if view is not None:
        return f.world.generic_attr(view, obj, name, hook=False)  # type: ignore[attr-defined]
    if f.world.is_opaque(obj):  # type: ignore[attr-defined]
        return f.world.opaque_attr(obj, type(obj), name)  # type: ignore[attr-defined]
    return f.world.inside_attr(obj, name)  # type: ignore[attr-defined]


def serve_member(method: Any, changed: Any) -> None:
    @serve(method)
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A slot, if the instance's class has it by this name."""
        member, obj = opened(args[0]), opened(args[1]) if len(args) > 1 else None
        if f.world.class_attribute(type(obj), member.__name__) is not member:
            return f.world.call_native(f, method, args, kwargs)
        return changed(f, [obj, member.__name__, *args[2:]], kwargs)


serve_member(types.MemberDescriptorType.__set__, serve_object_setattr)
serve_member(types.MemberDescriptorType.__delete__, serve_object_delattr)


@serve(object.__dir__, type.__dir__)
def serve_object_dir(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return told_what_is_wrong(object.__dir__, args, kwargs)
    return f.world.plain_names_of(f, opened(args[0]))  # type: ignore[attr-defined]


@serve(types.GetSetDescriptorType.__get__, types.MemberDescriptorType.__get__)
def serve_descriptor_get(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The attribute as `object.__getattribute__` finds it, if it would find it by this descriptor."""
    descriptor, obj = (opened(x) for x in args[:2]) if 1 < len(args) < 4 and not kwargs else (None, None)
    name = getattr(descriptor, "__name__", "")
    if descriptor is not None and obj is not None and not isinstance(obj, descriptor.__objclass__):
        return told_what_is_wrong(descriptor.__get__, args[1:], kwargs)
    if descriptor is None or f.world.class_attribute(type(obj), name) is not descriptor:
        return f.world.call_native(f, types.GetSetDescriptorType.__get__, args, kwargs)
    if isinstance(obj, type):
        return f.world.for_class_getset(obj, name)  # type: ignore[attr-defined]
    return serve_object_getattribute(f, [obj, name], {})


@serve(object.__reduce_ex__)
def serve_reduce_ex(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What `copy` and `pickle` ask for: C would read the instance's attributes behind the door's back."""
    obj = opened(args[0]) if args else None
    world = f.world
    if id(obj) not in world.views:  # type: ignore[attr-defined]
        return world.call_native(f, object.__reduce_ex__, args, kwargs)
    reduce = world.class_attribute(type(obj), "__reduce__")
    if type(reduce) is types.FunctionType:
        return call(f, reduce, [obj], None)
    maker, given = new_arguments(f, obj)
    getter = world.class_attribute(type(obj), "__getstate__")
    state = _frame.native(getter, obj) if type(getter) is types.FunctionType else instance_state(f, obj)
    return maker, (type(obj), *given), state, None, None


def new_arguments(f: Frame, obj: Any) -> tuple[Any, tuple[Any, ...]]:
    """What makes another instance, and of what beside the class."""
    with_keywords = f.world.class_attribute(type(obj), "__getnewargs_ex__")
    if with_keywords is not MISSING:
        args, kwargs = opened(f.world.invoke(with_keywords, obj))  # type: ignore[attr-defined]
        return copyreg.__newobj_ex__, (opened(args), opened(kwargs))  # type: ignore[attr-defined]
    arguments = f.world.class_attribute(type(obj), "__getnewargs__")
    given = () if arguments is MISSING else opened(f.world.invoke(arguments, obj))  # type: ignore[attr-defined]
    return copyreg.__newobj__, tuple(given)  # type: ignore[attr-defined]


@serve(object.__getstate__)
def serve_getstate(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    obj = opened(args[0]) if args else None
    if id(obj) not in f.world.views:  # type: ignore[attr-defined]
        return f.world.call_native(f, object.__getstate__, args, kwargs)
    return instance_state(f, obj)


def instance_state(f: Frame, obj: Any) -> Any:
    """What the instance has in its dictionary, and in slots, as C would say it."""
    own = dict(opened(f.world.load_attr(obj, "__dict__"))) if hasattr(obj, "__dict__") else {}
    slots = {}
    for name in copyreg._slotnames(type(obj)):  # type: ignore[attr-defined]
        with contextlib.suppress(AttributeError):
            slots[name] = f.world.load_attr(obj, name)
    return (own or None, slots) if slots else own or None


@serve(copyreg._slotnames)  # type: ignore[attr-defined]
def serve_slotnames(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Keeps what it finds on the class, which changes nothing for anybody."""
    return copyreg._slotnames(opened(args[0]))  # type: ignore[attr-defined]


SIGNATURE: Any = inspect._signature_from_callable  # type: ignore[attr-defined]


@serve(SIGNATURE)
def serve_signature(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The signature of an ordinary outside function is a fact about it; others are interpreted."""
    target: Any = opened(args[0]) if args else None
    fn = target.__func__ if type(target) is types.MethodType else target
    options = {name: opened(value) for name, value in kwargs.items()}
    plain = options.get("globals") is options.get("locals") is None and not options.get("eval_str")
    if not plain or type(fn) is not types.FunctionType or not f.world.fixed_signature(fn):  # type: ignore[attr-defined]
        return interpreted(f, SIGNATURE, args, kwargs)
    return SIGNATURE(target, **options)


UNWRAP = inspect.unwrap


@serve(UNWRAP)
def serve_unwrap(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
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
def serve_cached_property(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Without the lock that 3.11 has: the trace is on its own."""
    descriptor, obj = opened(args[0]), opened(args[1]) if len(args) > 1 else None
    view = f.world.views.get(id(obj))  # type: ignore[attr-defined]
    if obj is None or descriptor.attrname is None:
        return interpreted(f, functools.cached_property.__get__, args, kwargs)
    name = descriptor.attrname
    own = f.world.own_attr(view, obj, name) if view is not None else vars(obj).get(name, DELETED)  # type: ignore[attr-defined]
    if own is DELETED:
        own = f.world.invoke(f.world.load_attr(descriptor, "func"), obj)  # type: ignore[attr-defined]
        if view is None:
            vars(obj)[name] = own
        else:
            view.write(name, own)
    return own


@serve(logging.Logger.isEnabledFor)
def serve_is_enabled_for(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Without the cache that loggers have: the facts that it goes by are guarded."""
    if len(args) != 2 or kwargs:
        return f.world.call_native(f, logging.Logger.isEnabledFor, args, kwargs)
    logger, level = args
    of = f.world.load_attr
    if f.world.truth(of(logger, "disabled")) or opened(of(of(logger, "manager"), "disable")) >= opened(level):
        return False
    return opened(level) >= opened(f.world.invoke(of(logger, "getEffectiveLevel")))  # type: ignore[attr-defined]


ASKING = "debug info warning error critical exception log getEffectiveLevel"
"""Methods of loggers that ask whether anybody listens: only what they do if somebody does is an effect."""

for _asking in (*map(vars(logging.Logger).get, ASKING.split()), vars(logging.Manager)["disable"].fget):
    _frame.set_decision(_asking.__code__, _frame.SKIP, _frame.INTERPRET)


CACHED = functools._lru_cache_wrapper


@serve(CACHED)
def serve_cached(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A memoising function that the trace makes is its own: it may keep what it likes."""
    made: Any = _frame.native(CACHED, *map(opened, args), **{k: opened(v) for k, v in kwargs.items()})
    return f.world.keep_made(made)  # type: ignore[attr-defined]


def serve_cache_method(method: Any) -> None:
    @serve(method)
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and id(args[0]) in f.world.made_here:  # type: ignore[attr-defined]
            return method(*args, **kwargs)
        return f.world.call_native(f, method, args, kwargs)


for _name in ("cache_info", "cache_clear"):
    serve_cache_method(vars(CACHED)[_name])


def serve_substitution(name: str) -> None:
    method = getattr(re.Pattern, name)

    @serve(getattr(re, name))
    def served(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A function that makes the replacements is the program's, and the hook must see that C calls it."""
        fn = getattr(re, name)
        try:
            given = inspect.signature(fn).bind(*args, **kwargs)
        except TypeError:
            return told_what_is_wrong(fn, args, kwargs)
        given.apply_defaults()
        pattern, replacement, text, count, flags = given.arguments.values()
        if not callable(opened(replacement)):
            return f.world.call_native(f, fn, args, kwargs)
        compiled = f.world.call_native(f, re.compile, [pattern, flags], None)
        return f.world.call_native(f, method, [compiled, replacement, text, count], None)


serve_substitution("sub")
serve_substitution("subn")


FORMATTER = string.Formatter()
VFORMAT: Any = string.Formatter.vformat


@serve(str.format)
def serve_format(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A field such as `{0.name}` reads an attribute, which C would do behind the door's back."""
    template = opened(args[0]) if args else None
    if type(template) is str and "." in template:
        return interpreted(f, VFORMAT, [FORMATTER, template, tuple(args[1:]), kwargs], None)
    return f.world.call_native(f, str.format, args, kwargs)


# ---- torch's questions


def constant(value: Any) -> Any:
    return lambda f, args, kwargs: value


ANSWERS: dict[Any, Any] = {
    torch.compiler.is_compiling: True,
    torch.compiler.is_dynamo_compiling: True,
    torch.compiler.is_exporting: False,
    torch.jit.is_scripting: False,
    torch.jit.is_tracing: False,
    torch._C._get_tracing_state: None,
    torch._C._log_api_usage_once: None,  # counts, for torch's authors, that a feature was used
}
TRACED.update({question: constant(answer) for question, answer in ANSWERS.items()})


@serve(torch.is_tensor)
def serve_is_tensor(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.is_instance(args[0], torch.Tensor)


@serve(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary)
@serve(torch.overrides.has_torch_function_variadic)
def serve_has_torch_function(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The trace's own mode is nobody's business; that of its fakes' classes the recorder knows."""
    recorder: Any = f.world.recorder  # type: ignore[attr-defined]
    given = f.world.for_torch(args)  # type: ignore[attr-defined]
    return recorder.in_modes or bool(recorder.modes_before) or bool(recorder.overloaded(given, {}))


@serve(torch.get_default_device)
def serve_default_device(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Torch makes a tensor to find out, which here would be a fake."""
    modes = [mode for mode in _get_current_function_mode_stack() if type(mode) is DeviceContext]
    device: Any = modes[-1].device if modes else torch.device("cpu")
    if args or kwargs or (device.index is None and device.type not in ("cpu", "meta")):
        return f.world.call_native(f, torch.get_default_device, args, kwargs)
    return device


@serve(torch.nn.Module.__getattr__)
def serve_module_getattr(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    module, name = opened(args[0]), opened(args[1])
    if id(module) in f.world.views:  # type: ignore[attr-defined]
        return f.world.registered(module, name)  # type: ignore[attr-defined]
    return interpreted(f, torch.nn.Module.__getattr__, args, kwargs)


HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)


@serve(torch.nn.Module._wrapped_call_impl)
def serve_module_call(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`module(...)` without hooks is `module.forward(...)`; with hooks torch's own code is interpreted."""
    module = opened(args[0])
    world = f.world
    view = world.views.get(id(module))  # type: ignore[attr-defined]
    by_torch = functools.partial(interpreted, f, torch.nn.Module._wrapped_call_impl, args, kwargs)
    if view is None or not world.same(world.load_attr(module, "_compiled_call_impl"), None):
        return by_torch()
    scope = torch.nn.modules.module.__dict__
    own_call = world.own_attr(view, module, "_call_impl")  # type: ignore[attr-defined]
    by_class = world.class_attribute(type(module), "_call_impl")
    if own_call is not DELETED or by_class is not torch.nn.Module._call_impl:
        return by_torch()
    for name in HOOKS:
        if world.truth(world.own_attr(view, module, name)):  # type: ignore[attr-defined]
            return by_torch()
    for name in GLOBAL_HOOKS:
        hooks = world.names(scope).get(name, MISSING)
        if world.truth(world.load_global(scope, name) if hooks is MISSING else hooks):
            return by_torch()
    return call(f, world.load_attr(module, "forward"), args[1:], kwargs or None)


# ---- autocast


@serve(autocast_mode.autocast.__enter__)
def serve_enter_autocast(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    settings = tuple(opened(f.world.load_attr(manager, name)) for name in names)
    f.world.recorder.enter_context(autocast_mode._enter_autocast, manager, settings)  # type: ignore[attr-defined]
    return manager


@serve(torch.inference_mode.__enter__)
def serve_enter_inference_mode(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    settings = (opened(f.world.load_attr(manager, "mode")),)
    f.world.recorder.enter_context(grad_mode._enter_inference_mode, manager, settings)  # type: ignore[attr-defined]
    return None


@serve(autocast_mode.autocast.__exit__, torch.inference_mode.__exit__, record_function.__exit__)
def serve_exit_context(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    f.world.recorder.exit_context(opened(args[0]))  # type: ignore[attr-defined]
    return None


@serve(record_function.__enter__)
def serve_enter_range(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    f.world.recorder.enter_range(manager)  # type: ignore[attr-defined]
    return manager


@serve(torch.device.__enter__)
def serve_enter_device(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    f.world.recorder.devices_entered += 1  # type: ignore[attr-defined]
    return f.world.call_native(f, torch.device.__enter__, args, kwargs)


@serve(torch.device.__exit__)
def serve_exit_device(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not f.world.recorder.devices_entered:  # type: ignore[attr-defined]
        raise Break(breaks.EFFECT, "leaving a device that was entered outside")
    f.world.recorder.devices_entered -= 1  # type: ignore[attr-defined]
    return f.world.call_native(f, torch.device.__exit__, args, kwargs)


# ---- other switches


def serve_setter(setter: Any) -> None:
    @serve(setter)
    def throw(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            return f.world.call_native(f, setter, args, kwargs)
        return f.world.recorder.throw(setter, tuple(f.world.for_torch(args)))  # type: ignore[attr-defined]


# gradients are switched by a recorded call; a graph for a compiler does not say of what dtype new tensors are
for _setter in SETTERS.keys() - {torch._C._set_grad_enabled, torch.set_default_dtype}:
    serve_setter(_setter)


# ---- facts about symbols


@serve(torch._check)
def serve_check(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What is checked of a number that only the data decides is a fact from here on, and checked when the
    graph runs."""
    condition = opened(args[0]) if args else None
    if type(condition) is not torch.SymBool:
        return f.world.call_native(f, torch._check, args, kwargs)
    return f.world.recorder.assume(condition)  # type: ignore[attr-defined]


@serve(torch._check_is_size)
def serve_check_is_size(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    size: Any = opened(args[0]) if args else None
    if type(size) is not torch.SymInt:
        return f.world.call_native(f, torch._check_is_size, args, kwargs)
    return serve_check(f, [f.world.operate(operator.ge, size, 0)], {})


# ---- operators by their registry


def serve_operator(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    called, *rest = [f.world.for_torch(x) for x in args]  # type: ignore[attr-defined]
    recorder = f.world.recorder  # type: ignore[attr-defined]
    return recorder.call(called, tuple(rest), {k: f.world.for_torch(v) for k, v in kwargs.items()})  # type: ignore[attr-defined]


for _class in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
    TRACED[_class.__call__] = serve_operator


# ---- copies


@serve(copy.copy)
def serve_copy(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value: Any = opened(args[0]) if args else MISSING
    if type(value) in (list, dict, set):
        return value.copy()
    return interpreted(f, copy.copy, args, kwargs)
