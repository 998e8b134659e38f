"""Structural pattern matching."""

from __future__ import annotations

from types import FunctionType, MethodDescriptorType
from typing import Any

from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING
from framelift.interpreter.frame import Frame
from framelift.interpreter.pending import opened

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
    keys = f.stack[-1]
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
    cls = opened(cls)
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
        except AttributeError:
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
