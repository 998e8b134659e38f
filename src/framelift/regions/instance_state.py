"""How a region sets the attributes and slots of an instance."""

from __future__ import annotations

import keyword
from typing import Any

from framelift.trace.shadows import slots_of
from framelift.trace.type_rules import Rebuilder
from framelift.trace.views import GETATTRIBUTE, own_dictionary


def write_state(r: Rebuilder, name: str, value: Any) -> None:
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


def dictionary_of(name: str, cls: type, r: Rebuilder) -> str:
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
