"""How each kind of value that a program makes is written, so that it is made again: one builder per type.

A builder gives the name of what it has made. What can be empty at first is named before its contents
are asked for (`Rebuild.variable`) and filled after that (`Rebuild.fill`), so cycles can be closed.
"""

from __future__ import annotations

import collections
import functools
import gc
import io
import itertools
import operator
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from framelift.bytecode.extend import TooLargeError
from framelift.bytecode.resume import Like, closure_of, generator_code
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import UNSET
from framelift.features.collectives.values import HELD
from framelift.features.numpy.arrays import CYTHON, Array, np, open_number
from framelift.guards.hashing import may_be_called_again
from framelift.interpreter.calls import builtin_method
from framelift.interpreter.frame_objects import traceback_of
from framelift.interpreter.generators import CREATED, SUSPENDED, Generator, Suspended
from framelift.interpreter.lookups import is_ours
from framelift.interpreter.points import NoPointError, standing_generator
from framelift.regions.building import (
    BUILDERS,
    Builder,
    builds,
    write_state,
)
from framelift.regions.containers import build_container
from framelift.trace.input_wrapping import HEAP_TYPE, OPENERS, is_ordinary, open_constant, open_singleton
from framelift.trace.shadows import container_base

if TYPE_CHECKING:
    from framelift.regions.rebuild import Rebuild

ATOMIC_BASES = (int, float, complex, str, bytes)

# ---- NumPy's


def build_array(r: Rebuild, value: Any) -> str:
    """Around the tensor's memory; what has no dimensions is a number."""
    return r.variable(f"{r.expression(value.tensor)}.numpy(){'' if value.ndim else '[()]'}")


def build_constant(r: Rebuild, value: Any) -> str:
    return r.own(value)


if Array is not None:
    builds(Array)(build_array)
    builds(CYTHON)(build_constant)


# ---- functions


@builds(types.CellType)
def build_cell(r: Rebuild, value: types.CellType) -> str:
    name = r.variable(f"{r.constant(types.CellType)}()", value)
    try:
        contents = value.cell_contents
    except ValueError:
        return name
    if contents is not UNSET:
        r.fill(value, lambda: r.say(f"{name}.cell_contents = {r.expression(contents)}"))
    return name


@builds(types.FunctionType)
def build_function(r: Rebuild, fn: types.FunctionType) -> str:
    scope = fn.__globals__
    where = r.input(r.world.inputs.root.top) if scope is r.world.frame.globals else r.constant(scope)
    closure = "None" if fn.__closure__ is None else r.tuple_of(fn.__closure__)
    parts = [r.constant(fn.__code__), where, repr(fn.__name__), "None", closure]
    name = r.variable(f"{r.constant(types.FunctionType)}({', '.join(parts)})", fn)
    r.fill(fn, lambda: fill_function(r, name, fn))
    return name


def fill_function(r: Rebuild, name: str, fn: types.FunctionType) -> None:
    new = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, fn.__closure__)
    for attribute in ("__defaults__", "__kwdefaults__", "__doc__", "__qualname__", "__module__"):
        value = getattr(fn, attribute)
        if value is not getattr(new, attribute) and value != getattr(new, attribute):
            r.say(f"{name}.{attribute} = {r.expression(value)}")
    if fn.__annotations__:
        r.say(f"{name}.__annotations__ = {r.expression(fn.__annotations__)}")
    if fn.__dict__:
        r.say(f"{name}.__dict__.update({r.dict_of(fn.__dict__.items())})")


@builds(types.MethodType)
def build_method(r: Rebuild, value: types.MethodType) -> str:
    if issubclass(type(value.__self__), Suspended):
        return r.variable(f"{r.variable(r.expression(value.__self__))}.{value.__name__}")
    if not callable(value.__func__):
        raise Break(breaks.UNREBUILDABLE, "a method of what can't be called", culprit=value)
    return r.variable(f"{r.constant(types.MethodType)}({r.listed((value.__func__, value.__self__))})")


@builds(types.BuiltinFunctionType, types.MethodWrapperType)
def build_builtin_method(r: Rebuild, value: Any) -> str:
    if issubclass(type(value.__self__), types.ModuleType) or value.__self__ is None:
        return r.constant(value)
    this = r.variable(r.expression(value.__self__))
    if isinstance(value, types.MethodWrapperType):
        found = value.__objclass__.__dict__[value.__name__]
    else:
        found = builtin_method(value)
    if hasattr(type(value.__self__), value.__name__) and found is getattr(
        type(value.__self__), value.__name__
    ):
        return r.variable(f"{this}.{value.__name__}")
    if type(found) in (types.MethodDescriptorType, types.WrapperDescriptorType):
        # had past a class that overrides it, by `super()` say
        return r.variable(f"{r.constant(found)}.__get__({this})")
    return r.variable(f"{this}.{value.__name__}")


@builds(property)
def build_property(r: Rebuild, value: property) -> str:
    parts: list[Any] = [value.fget, value.fset, value.fdel]
    if value.__doc__ != getattr(value.fget, "__doc__", None):
        parts.append(value.__doc__)
    return r.variable(f"{r.constant(property)}({r.listed(parts)})")


@builds(classmethod, staticmethod)
def build_wrapped(r: Rebuild, value: Any) -> str:
    cls = type(value)
    name = r.variable(f"{r.constant(cls)}({r.expression(value.__func__)})", value)
    new = vars(cls(value.__func__))
    for attribute, held in vars(value).items():  # it takes some from what it wraps
        if attribute not in new or new[attribute] is not held:
            r.say(f"{name}.{attribute} = {r.expression(held)}")
    return name


@builds(functools.partial)
def build_partial(r: Rebuild, value: functools.partial[Any]) -> str:
    """With these very keywords, which a copy shares with what it is a copy of."""
    name = r.variable(f"{r.constant(functools.partial)}({r.expression(value.func)})", value)
    r.fill(value, lambda: fill_partial(r, name, value))
    return name


@builds(types.GenericAlias)
def build_generic_alias(r: Rebuild, value: types.GenericAlias) -> str:
    made = f"{r.constant(types.GenericAlias)}({r.expression(value.__origin__)}, {r.tuple_of(value.__args__)})"
    return r.variable(f"next(iter({made}))" if value.__unpacked__ else made)


@builds(io.StringIO, io.BytesIO)
def build_stream(r: Rebuild, value: Any) -> str:
    if value.closed:
        raise Break(breaks.UNREBUILDABLE, "a stream that is closed", culprit=value)
    name = r.variable(f"{r.constant(type(value))}()", value)
    r.fill(value, lambda: r.say(f"{name}.__setstate__({r.expression(value.__getstate__())})"))
    return name


@builds(weakref.ref)
def build_weak_reference(r: Rebuild, value: weakref.ref[Any]) -> str:
    held = value()
    if held is None:
        raise Break(breaks.UNREBUILDABLE, "a weak reference to what is gone", culprit=value)
    return r.variable(f"{r.constant(weakref.ref)}({r.variable(r.expression(held))})")


def build_error_state(r: Rebuild, value: Any) -> str:
    """One of NumPy's, by what it was made of."""
    settings = r.world.arrays.error_states.get(id(value))
    if settings is None:
        raise Break(breaks.UNREBUILDABLE, "a numpy.errstate", culprit=value)
    given = ", ".join(f"{name}={how!r}" for name, how in settings.items())
    return r.variable(f"{r.constant(type(value))}({given})", value)


if np is not None:
    BUILDERS[np.errstate] = build_error_state


def fill_partial(r: Rebuild, name: str, value: functools.partial[Any]) -> None:
    r.say(f"{name}.__setstate__(({r.listed((value.func, value.args, value.keywords))}, None))")
    write_state(r, name, value)


# ---- iterators

TABLES = (dict, set, frozenset)


def build_iterator_of_hashed(r: Rebuild, value: Any) -> str:
    """Over a dictionary or set: the reduce protocol would make a list's iterator of it."""
    begin = HASHED[type(value)]
    ended: Any = set() if begin is iterate_set else {}
    held = next((held for held in gc.get_referents(value) if issubclass(type(held), TABLES)), ended)
    passed = len(held) - operator.length_hint(value)
    if not is_alike(value, itertools.islice(begin(held), passed, None)):
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__name__} over what has changed", culprit=value)
    name = r.variable(f"{r.constant(begin)}({r.variable(r.expression(held))})", value)
    if passed:
        r.say(f"{r.constant(next)}({r.constant(itertools.islice)}({name}, {passed - 1}, {passed}))")
    return name


def is_alike(iterator: Any, other: Iterator[Any]) -> bool:
    """Whether two iterators over hash tables have the same before them.

    One that will fail because the table's size is not what it was when it began has not.
    """
    try:
        left = iterator.__reduce__()[1][0]
    except RuntimeError:
        return False
    if type(iterator) is type(iter({}.items())):
        left, other = itertools.chain(*left), itertools.chain(*other)
    return all(one is another for one, another in itertools.zip_longest(left, other, fillvalue=UNSET))


def iterate_set(held: Any) -> Iterator[Any]:
    return (set if isinstance(held, set) else frozenset).__iter__(held)


def iterate_values(held: dict[Any, Any]) -> Iterator[Any]:
    return iter(dict.values(held))


def iterate_items(held: dict[Any, Any]) -> Iterator[Any]:
    return iter(dict.items(held))


HASHED: dict[type, Callable[[Any], Iterator[Any]]] = {
    type(iter({})): dict.__iter__,
    type(iter({}.values())): iterate_values,
    type(iter({}.items())): iterate_items,
    type(iter(set())): iterate_set,
}
"""The iterators over hash tables: how they begin, whatever a subclass says."""
for _cls in HASHED:
    BUILDERS[_cls] = build_iterator_of_hashed

LIVE: frozenset[type] = frozenset(
    map(type, (iter(collections.OrderedDict()), reversed({}), reversed({}.values()), reversed({}.items())))
)
"""Iterators that notice a change too, but do not say where they are."""


@builds(Generator)
def build_generator(r: Rebuild, value: Generator) -> str:
    """One that stands where this one does; its frame goes on from there."""
    if value.state not in (CREATED, SUSPENDED):
        raise Break(breaks.UNREBUILDABLE, "a generator that has ended", culprit=value)
    started = value.state is SUSPENDED
    frame = value.frame
    try:
        found = standing_generator(frame, started)
        code = generator_code(found.point, started)
    except (NoPointError, TooLargeError) as error:
        raise Break(breaks.UNREBUILDABLE, "a generator", culprit=value) from error
    like = Like(frame.func, closure=not found.point.takes_free)
    made = types.FunctionType(code, frame.globals, value.__name__, None, closure_of(code, like))
    name = r.variable(f"{r.own(made)}({r.listed([*found.slots, *found.stack])})", value)
    if started:
        r.say(f"{r.constant(next)}({name})")
    return name


# ---- instances


ASKED = ("__iter__", "__len__")
"""What an iterator asks those that it goes over as it is made."""


def build_reduced(r: Rebuild, value: Any) -> str:
    """Through `__reduce__`: callable, arguments, state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # itertools say they will lose it in 3.14
        reduced = value.__reduce__()
    if not isinstance(reduced, tuple) or len(reduced) > 3:
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__}", culprit=value)
    r.kept.append(reduced)
    maker, args, *state = reduced
    for name in ASKED:
        if not all(may_be_called_again(getattr(type(arg), name, None)) for arg in args):
            raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__} that asks {name}", culprit=value)
    name = r.variable(f"{r.constant(maker)}({r.listed(args)})", value)
    if state and state[0] is not None:
        r.fill(value, lambda: r.say(f"{name}.__setstate__({r.expression(state[0])})"))
    return name


for _cls in (operator.attrgetter, operator.itemgetter, operator.methodcaller):
    BUILDERS[_cls] = build_reduced


def builtin_base(cls: type) -> type:
    """The class whose `__new__` allocates an instance, past those that Python code may define."""
    return next(base for base in cls.__mro__ if not base.__flags__ & HEAP_TYPE)


def build_instance(r: Rebuild, value: Any) -> str:
    try:
        allocate: Any = builtin_base(type(value)).__new__
        allocate(type(value))
    except TypeError:
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__}", culprit=value) from None
    name = r.variable(f"{r.constant(builtin_base(type(value)))}.__new__({r.constant(type(value))})", value)
    r.fill(value, lambda: write_state(r, name, value))
    return name


def build_atom(r: Rebuild, value: Any) -> str:
    """An instance of a subclass of a number or text."""
    base = next(base for base in type(value).__mro__ if base in ATOMIC_BASES)
    plain = base(*vars(base)["__getnewargs__"](value))
    name = r.variable(f"{r.constant(base)}.__new__({r.constant(type(value))}, {r.expression(plain)})", value)
    r.fill(value, lambda: write_state(r, name, value))
    return name


def build_exception(r: Rebuild, value: BaseException) -> str:
    r.world.errors.looking_at(value)
    base = builtin_base(type(value))
    args = value.args
    if isinstance(value, BaseExceptionGroup):
        args = (value.message, list(value.exceptions))  # the arguments may have changed since
    name = r.variable(f"{r.constant(base)}.__new__({r.listed((type(value), *args))})", value)
    if args is not value.args or base is MemoryError:  # whose `__new__` does not look at them
        r.fill(value, lambda: r.say(f"{name}.args = {r.tuple_of(value.args)}"))
    r.fill(value, lambda: fill_exception(r, name, value))
    return name


def fill_exception(r: Rebuild, name: str, value: BaseException) -> None:
    for base in type(value).__mro__:
        if base is object or base.__flags__ & HEAP_TYPE:
            continue
        for attribute, member in vars(base).items():  # such as StopIteration.value
            if type(member) is types.MemberDescriptorType and not attribute.startswith("__"):
                held = member.__get__(value)
                if held is not None and is_writable(member, value):
                    r.say(f"{name}.{attribute} = {r.expression(held)}")
    for attribute in ("__cause__", "__context__"):
        if getattr(value, attribute) is not None:
            r.say(f"{name}.{attribute} = {r.expression(getattr(value, attribute))}")
    if traceback_of(value) is not None:
        # of the interpreter's making, and without the variables of its frames
        r.say(f"{name}.__traceback__ = {r.constant(traceback_of(value))}")
    if value.__suppress_context__ is not (value.__cause__ is not None):
        r.say(f"{name}.__suppress_context__ = {value.__suppress_context__}")
    write_state(r, name, value)


def is_writable(member: Any, value: Any) -> bool:
    try:
        member.__set__(value, member.__get__(value))
    except AttributeError:
        return False
    return True


TYPES: Any = typing._BaseGenericAlias  # type: ignore[attr-defined]
"""Such as `Optional[int]`: `typing` makes each once, and keeps it."""


def builder_for(cls: type) -> Builder | None:
    if OPENERS.get(cls) in (open_constant, open_singleton, open_number) or issubclass(cls, TYPES):
        return build_constant
    if cls in HELD:
        return build_constant
    if issubclass(cls, (type, types.ModuleType)) or is_ours(cls):
        return None
    if issubclass(cls, BaseException):
        return build_exception
    if container_base(cls) is not None:
        return build_container
    if cls.__module__ in ("builtins", "itertools") and {"__next__", "__reduce__"} <= vars(cls).keys():
        return build_reduced if cls not in LIVE else None
    if is_ordinary(cls):
        return build_instance
    if issubclass(cls, ATOMIC_BASES) and cls.__flags__ & HEAP_TYPE:
        return build_atom
    return None
