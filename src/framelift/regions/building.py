"""What all builders share: the table of them, and how the state of an instance is written."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.trace.shadows import slots_of
from framelift.trace.views import GETATTRIBUTE, own_dictionary

if TYPE_CHECKING:
    from framelift.regions.rebuild import Rebuild

LITERALS = frozenset({int, bool, type(None), str, bytes, type(Ellipsis)})
"""Types whose values are written as they are."""
Builder = Callable[["Rebuild", Any], str]
BUILDERS: dict[type, Builder] = {}
"""Exact type -> what writes an instance of it; other types are judged by `builder_for`."""


def builds(*classes: type) -> Callable[[Builder], Builder]:
    def register(builder: Builder) -> Builder:
        for cls in classes:
            BUILDERS[cls] = builder
        return builder

    return register


def write_state(r: Rebuild, name: str, value: Any) -> None:
    """Instance attributes and slots."""
    cls = type(value)
    own = own_dictionary(value)
    if own:
        if all(is_plain_attribute(cls, key) for key in own):
            for key, item in own.items():
                r.say(f"{name}.{key} = {r.expression(item)}")
        else:
            r.say(f"{dictionary_of(name, cls, r)}.update({r.dict_of(own.items())})")
    for slot in slots_of(cls):
        try:
            held = slot.__get__(value)
        except AttributeError:
            continue
        r.say(f"{r.constant(slot)}.__set__({name}, {r.expression(held)})")


def dictionary_of(name: str, cls: type, r: Rebuild) -> str:
    """What an instance holds, past a `__getattribute__` of the program's."""
    if cls.__getattribute__ is GETATTRIBUTE:
        return f"{name}.__dict__"
    return f"{r.constant(object)}.__getattribute__({name}, '__dict__')"


def is_plain_attribute(cls: type, name: Any) -> bool:
    """Whether `instance.name = value` does nothing but set that key of the instance's dictionary."""
    setter: Any = cls.__setattr__
    if setter is not object.__setattr__ or not isinstance(name, str) or not is_name(name):
        return False
    found = [base.__dict__[name] for base in cls.__mro__ if name in base.__dict__]
    return not any(hasattr(type(member), "__set__") for member in found)


def is_name(text: str) -> bool:
    # the parser would normalise other letters, and find another name than was meant
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)
