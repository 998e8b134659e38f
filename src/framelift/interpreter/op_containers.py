"""Building, unpacking and matching containers. Elements move; keys and set members are looked at."""

from __future__ import annotations

import operator
from types import FunctionType, MethodDescriptorType
from typing import Any

from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING, NULL
from framelift.interpreter.frame import Frame
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import opened


def popn(stack: list[Any], n: int) -> list[Any]:
    if not n:
        return []
    taken = stack[-n:]
    del stack[-n:]
    return taken


def BUILD_TUPLE(f: Frame, n: int) -> None:
    f.stack.append(tuple(popn(f.stack, n)))


def BUILD_LIST(f: Frame, n: int) -> None:
    f.stack.append(popn(f.stack, n))


def BUILD_SET(f: Frame, n: int) -> None:
    at = len(f.stack) - n
    built: set[Any] = set()
    for value in f.stack[at:]:
        f.world.operators.apply(set.add, built, f.world.identity.key(value))
    f.stack[at:] = [built]


def BUILD_MAP(f: Frame, n: int) -> None:
    stack = f.stack
    first = len(stack) - 2 * n
    built: dict[Any, Any] = {}
    for at in range(first, len(stack), 2):
        f.world.containers.store(built, stack[at], stack[at + 1])
    stack[first:] = [built]


def BUILD_CONST_KEY_MAP(f: Frame, n: int) -> None:
    keys = map(opened, opened(f.stack[-1]))  # pending after a break
    f.stack[-n - 1 :] = [dict(zip(keys, f.stack[-n - 1 : -1], strict=True))]


def LIST_TO_TUPLE(f: Frame, _: Any) -> None:
    f.stack[-1] = tuple(opened(f.stack[-1]))


def LIST_APPEND(f: Frame, n: int) -> None:
    target = f.stack[-n - 1]
    if type(target) is list:
        target.append(f.stack[-1])
    else:
        f.world.containers.append(target, f.stack[-1])
    f.stack.pop()


def SET_ADD(f: Frame, n: int) -> None:
    f.world.containers.add(f.stack[-n - 1], f.stack[-1])
    f.stack.pop()


def MAP_ADD(f: Frame, n: int) -> None:
    stack = f.stack
    f.world.containers.put(stack[-n - 2], stack[-2], stack[-1])
    del stack[-2:]


def LIST_EXTEND(f: Frame, n: int) -> None:
    iterable = opened(f.stack[-1])
    if not is_iterable(iterable):
        raise TypeError(f"Value after * must be an iterable, not {type(iterable).__name__}")
    opened(f.stack[-n - 1]).extend(f.world.containers.elements(iterable))
    f.stack.pop()


def is_iterable(value: Any) -> bool:
    cls = type(value)
    found = class_attribute(cls, "__iter__")  # a metaclass that answers any question is not asked
    return found is not None and (found is not MISSING or class_attribute(cls, "__getitem__") is not MISSING)


def SET_UPDATE(f: Frame, n: int) -> None:
    stack = f.stack
    value, target = opened(stack[-1]), opened(stack[-n - 1])
    if isinstance(value, (set, frozenset)) or type(value) is dict:
        # C makes room for all of them at once, which decides the order of the set
        f.world.operators.apply(set.update, target, dict.fromkeys(value) if type(value) is dict else value)
        stack.pop()
        return
    # an iterator has now given what it had: whoever does the update again must find that
    values = stack[-1] = f.world.containers.elements(value)
    for key in [f.world.identity.key(value) for value in values]:
        f.world.operators.apply(set.add, target, key)
    stack.pop()


def DICT_UPDATE(f: Frame, n: int) -> None:
    mapping = opened(f.stack[-1])
    if not is_mapping(mapping):
        raise TypeError(f"'{type(mapping).__name__}' object is not a mapping")
    f.world.operators.apply(dict.update, opened(f.stack[-n - 1]), mapping)
    f.stack.pop()


def DICT_MERGE(f: Frame, n: int) -> None:
    merge_keywords(f, n, f.stack[-n - 3])


def merge_keywords(f: Frame, n: int, callee: Any) -> None:
    """`f(**a, **b)`: like an update, but a key that is there already is the caller's mistake."""
    mapping = opened(f.stack[-1])
    target = opened(f.stack[-n - 1])
    if not is_mapping(mapping):
        name = describe_callable(opened(callee))
        raise TypeError(f"{name} argument after ** must be a mapping, not {type(mapping).__name__}")
    merged: dict[Any, Any] = {}
    keys: Any = merged
    if isinstance(mapping, dict):
        f.world.operators.apply(dict.update, merged, mapping)
    else:
        keys = f.world.containers.elements(f.world.operators.apply(operator.methodcaller("keys"), mapping))
        merged.update((key, f.world.containers.load(mapping, key)) for key in keys)
    seen = set(target)
    for key in keys:
        if key in seen:
            name = describe_callable(opened(callee))
            raise TypeError(f"{name} got multiple values for keyword argument '{key}'")
        seen.add(key)
    target.update(merged)
    f.stack.pop()


def is_mapping(value: Any) -> bool:
    return isinstance(value, dict) or class_attribute(type(value), "keys") is not MISSING


def describe_callable(fn: Any) -> str:
    """A callable's name as CPython's messages about wrong calls have it."""
    if fn is NULL:
        return "function"
    name = getattr(fn, "__qualname__", None)
    if name is None:
        return str(fn)
    module = getattr(fn, "__module__", None)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


# ---- unpacking


def UNPACK_SEQUENCE(f: Frame, n: int) -> None:
    value = opened(f.stack[-1])
    if type(value) in (tuple, list):
        values = value
        if len(values) > n:
            raise ValueError(f"too many values to unpack (expected {n})")
    else:
        iterator = unpacking(f, value)
        values = []
        while len(values) < n:
            item = f.world.containers.advance(iterator)
            if item is MISSING:
                break
            values.append(item)
        else:
            if f.world.containers.advance(iterator) is not MISSING:
                raise ValueError(f"too many values to unpack (expected {n})")
    if len(values) < n:
        raise ValueError(f"not enough values to unpack (expected {n}, got {len(values)})")
    f.stack[-1:] = values[::-1]


def UNPACK_EX(f: Frame, counts: int) -> None:
    before, after = counts & 0xFF, counts >> 8
    iterator = unpacking(f, opened(f.stack[-1]))
    values: list[Any] = []
    while len(values) < before:
        item = f.world.containers.advance(iterator)
        if item is MISSING:
            least = f"at least {before + after}" if after else f"at least {before}"
            raise ValueError(f"not enough values to unpack (expected {least}, got {len(values)})")
        values.append(item)
    rest = f.world.containers.elements(iterator)
    if len(rest) < after:
        got = before + len(rest)
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {got})")
    cut = len(rest) - after
    f.stack[-1:] = [*values, rest[:cut], *rest[cut:]][::-1]


def unpacking(f: Frame, value: Any) -> Any:
    if not is_iterable(value):
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object")
    return f.world.containers.iterate(value)


# ---- patterns


SEQUENCE, MAPPING, SELF = 1 << 5, 1 << 6, 1 << 22
"""Py_TPFLAGS_SEQUENCE, Py_TPFLAGS_MAPPING, _Py_TPFLAGS_MATCH_SELF."""


def GET_LEN(f: Frame, _: Any) -> None:
    f.stack.append(f.world.operators.apply(len, opened(f.stack[-1])))


def MATCH_SEQUENCE(f: Frame, _: Any) -> None:
    value = f.stack[-1] = opened(f.stack[-1])
    f.stack.append(bool(type(value).__flags__ & SEQUENCE))


def MATCH_MAPPING(f: Frame, _: Any) -> None:
    value = f.stack[-1] = opened(f.stack[-1])
    f.stack.append(bool(type(value).__flags__ & MAPPING))


def MATCH_KEYS(f: Frame, _: Any) -> None:
    keys = opened(f.stack[-1])  # pending after a break
    subject = opened(f.stack[-2])
    seen: set[Any] = set()
    values: list[Any] | None = []
    for key in keys:
        key = f.world.identity.key(key)
        if key in seen:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
        seen.add(key)
    getter = mapping_getter(f, subject) if keys else ()
    for key in keys:
        value = f.world.operators.apply(*getter, f.world.identity.key(key), MISSING)
        if value is MISSING:
            values = None
            break
        values.append(value)  # type: ignore[union-attr]
    f.stack.append(None if values is None else tuple(values))


def mapping_getter(f: Frame, subject: Any) -> tuple[Any, ...]:
    """What a key is looked up with: the method and its owner, or something that needs none."""
    found = f.world.classes.attribute(type(subject), "get")
    if type(found) in (FunctionType, MethodDescriptorType):
        return found, subject
    return (f.world.attributes.load(subject, "get"),)


def MATCH_CLASS(f: Frame, count: int) -> None:
    subject, cls, names = f.stack[-3:]
    cls, names = opened(cls), tuple(map(opened, opened(names)))
    f.stack[-3:] = [matched_attributes(f, opened(subject), cls, count, names)]


def matched_attributes(
    f: Frame, subject: Any, cls: Any, count: int, names: tuple[str, ...]
) -> tuple[Any, ...] | None:
    if not isinstance(cls, type):
        raise TypeError(version.NOT_A_CLASS_PATTERN)
    if not f.world.operators.is_instance(subject, cls):
        return None
    values = []
    seen: set[str] = set()

    def attribute(name: str) -> Any:
        if name in seen:
            raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {name!r}")
        seen.add(name)
        try:
            return f.world.attributes.load(subject, name)
        except AttributeError as error:
            if not f.world.errors.catchable(error):
                raise
            return MISSING

    if count:
        f.world.classes.attribute(cls, "__match_args__")
        match_args = getattr(cls, "__match_args__", MISSING)
        match_self = match_args is MISSING and bool(cls.__flags__ & SELF)
        if match_args is MISSING:
            match_args = ()
        if type(match_args) is not tuple:
            raise TypeError(
                f"{cls.__name__}.__match_args__ must be a tuple (got {type(match_args).__name__})"
            )
        allowed = 1 if match_self else len(match_args)
        if allowed < count:
            plural = "" if allowed == 1 else "s"
            raise TypeError(
                f"{cls.__name__}() accepts {allowed} positional sub-pattern{plural} ({count} given)"
            )
        if match_self:
            values.append(subject)
        else:
            for name in match_args[:count]:
                if not isinstance(name, str):
                    raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")
                values.append(attribute(name))
                if values[-1] is MISSING:
                    return None
    for name in names:
        values.append(attribute(name))
        if values[-1] is MISSING:
            return None
    return tuple(values)
