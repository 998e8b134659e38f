"""Attributes, `super`, imports."""

from __future__ import annotations

import sys
from typing import Any

from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING, NULL
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import as_seen
from framelift.interpreter.lookups import builtin_named
from framelift.interpreter.pending import opened
from framelift.interpreter.served import zero_argument_super


def LOAD_ATTR(f: Frame, name: str) -> None:
    f.stack[-1] = f.world.attributes.load(f.stack[-1], name)


def LOAD_TB_FRAME(f: Frame, name: str) -> None:
    """The frames in the tracebacks of interpreted code stand for others."""
    f.stack[-1] = as_seen(f.world.attributes.load(f.stack[-1], name))


def LOAD_METHOD(f: Frame, name: str) -> None:
    """Pushes the pair (function, self), or (NULL, attribute)."""
    f.stack[-1:] = f.world.attributes.load_method(f.stack[-1], name)


def STORE_ATTR(f: Frame, name: str) -> None:
    stack = f.stack
    f.world.attribute_writes.store(stack[-1], name, stack[-2])
    stack.pop()
    stack.pop()


def DELETE_ATTR(f: Frame, name: str) -> None:
    f.world.attribute_writes.delete(f.stack[-1], name)
    f.stack.pop()


def LOAD_SUPER_ATTR(f: Frame, argument: tuple[str, bool]) -> None:
    f.stack[-3:] = [super_attribute(f, *argument)]


def LOAD_SUPER_METHOD(f: Frame, argument: tuple[str, bool]) -> None:
    f.stack[-3:] = [NULL, super_attribute(f, *argument)]


def super_attribute(f: Frame, name: str, given: bool) -> Any:
    """An attribute of what `super` makes, with arguments if they were `given`."""
    made_by, cls, start = f.stack[-3:]
    made_by = opened(made_by)
    if made_by is super:
        made = super(opened(cls), opened(start)) if given else zero_argument_super(f)
    else:
        made = f.world.operators.apply(made_by, *((cls, start) if given else ()))
    return f.world.attributes.load(made, name)


# ---- imports


def IMPORT_NAME(f: Frame, name: str) -> None:
    from_list = opened(f.stack[-1])
    level = opened(f.stack[-2])
    f.stack[-2:] = [f.world.scopes.import_name(name, f.globals, f.namespace, from_list, level)]


def IMPORT_FROM(f: Frame, name: str) -> None:
    module = f.stack[-1]
    try:
        value = f.world.attributes.load(module, name)
    except AttributeError:
        value = NULL
    if value is NULL:
        value = submodule(opened(module), name)
    f.stack.append(value)


def submodule(module: Any, name: str) -> Any:
    package = getattr(module, "__name__", None)
    found = sys.modules.get(f"{package}.{name}")
    if found is not None:
        return found
    path = getattr(module, "__file__", None)
    initialising = getattr(getattr(module, "__spec__", None), "_initializing", False)
    if initialising:
        text = (
            f"cannot import name {name!r} from partially initialized module {package!r} "
            f"(most likely due to a circular import) ({path})"
        )
    else:
        module_name, place = package or "<unknown module name>", path or "unknown location"
        text = f"cannot import name {name!r} from {module_name!r} ({place})"
    raise ImportError(text, name=package, path=path, **version.wanted(name))


def IMPORT_STAR(f: Frame, _: Any) -> None:
    module = opened(f.stack[-1])
    names = getattr(module, "__all__", None)
    for name in [n for n in vars(module) if not n.startswith("_")] if names is None else names:
        f.namespace[name] = getattr(module, name)
    f.stack[-1:] = [None] if version.INTRINSICS_PUSH else []


def LOAD_BUILD_CLASS(f: Frame, _: Any) -> None:
    found = builtin_named(f.globals, "__build_class__")
    if found is MISSING:
        raise NameError("__build_class__ not found")
    f.stack.append(found)
