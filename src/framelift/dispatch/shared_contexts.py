"""Contexts that are found again: a function compiled twice with the same options is compiled once.

What counts is the code: closures that are made anew each time, and instances of a class of modules, have the
same one. A context that no compiled function uses any more is kept for the next one: with the code, if the
backend is known by name; otherwise with the backend, in its `__dict__`, so that the collector sees what leads
to what. Neither keeps anything of the program alive.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

from framelift.bytecode.resume import Like
from framelift.core.weakly import PerCode
from framelift.dispatch.compile_contexts import Context
from framelift.regions.plan import Plan
from framelift.regions.region import Region

_lock = threading.Lock()
_known: PerCode[weakref.WeakSet[Context]] = PerCode()
"""The contexts of each code object that are still there."""
_kept: PerCode[list[Context]] = PerCode()
"""Those whose backends have names."""
_holders: weakref.WeakSet[KeptContexts]
HOLDER = "_framelift_contexts"


class KeptContexts:
    """The contexts of a backend that is a callable. It stands in the backend's `__dict__`, and is left behind
    where that is copied or pickled."""

    def __init__(self) -> None:
        self.by_code: PerCode[list[Context]] = PerCode()
        _holders.add(self)

    def __deepcopy__(self, memo: Any) -> KeptContexts:
        return KeptContexts()

    def __reduce__(self) -> Any:
        return KeptContexts, ()


_holders = weakref.WeakSet()


def shared_context(code: CodeType, wanted: Context) -> Context:
    """The context that a code object has for the same options; the one that is given if it has none yet."""
    with _lock:
        known = _known.get(code) or _known.set(code, weakref.WeakSet())
        for context in known:
            if have_same_options(context, wanted):
                return context
        known.add(wanted)
        home = keeper(wanted)
        if home is not None:
            kept = home.get(code)
            if kept is None:
                kept = home.set(code, [])
            kept.append(wanted)
        return wanted


def keeper(context: Context) -> PerCode[list[Context]] | None:
    """Who keeps a context for as long as its code lives. None: only the compiled functions that use it, since
    it leads to functions of the program's that may lead to anything."""
    if context.guard_fail_fn is not None or context.guard_filter_fn is not None:
        return None
    if isinstance(context.settings.get("backend"), str):
        return _kept
    holder: Any = context.backend
    if type(holder) is MethodType:
        holder = holder.__self__
    attributes = getattr(holder, "__dict__", None)
    if type(attributes) is not dict:
        return None
    found = attributes.get(HOLDER)
    if type(found) is not KeptContexts:
        found = attributes[HOLDER] = KeptContexts()
    return found.by_code


def keep_no_longer(context: Context, region: Region) -> None:
    """Where a region has to hold functions that are like those of the program, which lead to all that their
    globals and closures have, the context lives only as long as a compiled function uses it."""
    likes: list[Any] = [value for value in region.constants.values() if type(value) is FunctionType]
    for value in region.constants.values():
        if type(value) is MethodType and type(value.__self__) is Plan:
            likes += [frame.function for frame in value.__self__.frames if frame.function is not None]
    if all(stays(like) for like in likes):
        return
    with _lock:
        for home in (_kept, *(holder.by_code for holder in _holders)):
            for kept in home.values():
                if context in kept:
                    kept.remove(context)


def stays(like: FunctionType | Like) -> bool:
    """Whether what it leads to is there for good."""
    module = sys.modules.get(like.__globals__.get("__name__") or "")
    return not like.__closure__ and getattr(module, "__dict__", None) is like.__globals__


def have_same_options(one: Context, other: Context) -> bool:
    mine, theirs = one.settings, other.settings
    return (
        is_same(one.backend, other.backend)
        and mine.keys() == theirs.keys()
        and all(is_same(value, theirs[name]) for name, value in mine.items())
    )


def is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and (PLAIN.get(type(one)) or (lambda a, b: False))(one, other)


def have_same_items(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())


PLAIN: dict[type, Callable[[Any, Any], bool]] = {
    **dict.fromkeys((bool, int, float, str), lambda a, b: a == b),
    **dict.fromkeys((list, tuple), lambda a, b: len(a) == len(b) and all(map(is_same, a, b))),
    MethodType: lambda a, b: a.__self__ is b.__self__ and a.__func__ is b.__func__,
    dict: have_same_items,
}
"""Type -> whether two options of it are the same. Others are only themselves."""


def forget_shared() -> None:
    """From here on everything is compiled afresh."""
    with _lock:
        _known.clear()
        _kept.clear()
        for holder in list(_holders):
            holder.by_code.clear()
