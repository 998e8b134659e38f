"""Names that stand for objects which another process has too: classes, functions, code, class attributes.

What is the same object in another process is decided strictly. Classes and functions are known by where they
are imported from, functions also by a digest of their code, and class attributes by their class and name.
What can't be known like that has no name (`NotPortableError`).
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from framelift.core.sentinels import MISSING


class NotPortableError(Exception):
    """Why something can't be saved for another process, or can't be used where it is loaded."""


# ---- naming


def is_atom(value: Any) -> bool:
    return isinstance(value, (int, float, str, bytes, type(None), bool)) or issubclass(type(value), type)


def is_imported(module: types.ModuleType) -> bool:
    return sys.modules.get(module.__name__) is module


def is_namespace(name: Any, value: dict[str, Any]) -> bool:
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and vars(module) is value


def function_name(fn: types.FunctionType) -> tuple[str, str]:
    if find_object(fn.__module__, fn.__qualname__) is not fn:
        raise NotPortableError(f"the function {fn.__qualname__} can't be imported")
    return fn.__module__, fn.__qualname__


def object_name(value: Any) -> Any:
    """A class, or a function of C, by where it is."""
    names = [(getattr(value, "__module__", None), getattr(value, "__qualname__", ""))]
    owner: Any = getattr(value, "__self__", None)
    if isinstance(owner, types.ModuleType):
        names.append((owner.__name__, value.__name__))
    if not issubclass(type(value), type):
        names += [(module, value.__name__) for module in ("torch", "torch._C._nn", "torch._C", "builtins")]
    names += [("types", name) for name, one in vars(types).items() if one is value]
    for module, name in names:
        if isinstance(module, str) and name and find_object(module, name) is value:
            return "named", module, name
    if isinstance(owner, type):
        return "bound", owner, value.__name__
    raise NotPortableError(f"{value!r:.80} can't be imported")


def code_name(code: types.CodeType) -> tuple[str, str, str]:
    """The module and the function that code is found in, and its name there."""
    outer = code.co_qualname.partition(".<locals>")[0]
    for name, module in list(sys.modules.items()):
        in_file = getattr(module, "__file__", None) == code.co_filename
        if in_file and code_in(name, outer, code.co_qualname, digest(code)) is code:
            return name, outer, code.co_qualname
    raise NotPortableError(f"the code of {code.co_qualname} can't be found again")


def digest(code: types.CodeType) -> str:
    """Of what code does: its instructions, constants and names, and those of the code within."""
    parts = [repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))]
    parts += [repr((code.co_flags, code.co_argcount, code.co_kwonlyargcount, code.co_exceptiontable))]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            parts.append(digest(constant))
        elif isinstance(constant, frozenset):
            parts.append(repr(sorted(map(repr, constant))))
        elif is_plain(constant) or constant is ... or type(constant) is complex:
            parts.append(f"{type(constant).__name__} {constant!r}")
        else:
            raise NotPortableError(f"code holds a {type(constant).__qualname__}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def describe_attribute(value: Any) -> str:
    """What is found on a class, as text that is the same in another process only if it does the same."""
    cls = type(value)
    if cls is types.FunctionType:
        return f"function {digest(value.__code__)}"
    if cls in (staticmethod, classmethod):
        return f"{cls.__name__} {describe_attribute(value.__func__)}"
    if cls is property:
        return f"property {[one and describe_attribute(one) for one in (value.fget, value.fset, value.fdel)]}"
    if cls in (types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType):
        return f"{cls.__name__} {value.__qualname__}"
    if cls in (types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.BuiltinFunctionType):
        return f"{cls.__name__} {value.__qualname__}"
    if is_plain(value):
        return f"{cls.__name__} {value!r}"
    if cls is tuple:
        return f"tuple {[describe_attribute(one) for one in value]}"
    if issubclass(cls, type):
        return f"class {value.__module__}.{value.__qualname__}"
    raise NotPortableError(f"it relies on a {cls.__module__}.{cls.__qualname__} that a class has")


def is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(part) for pair in value.items() for part in pair)
    return type(value) in (int, float, str, bytes, bool, type(None))


# ---- finding


def find_object(module: str | None, name: str) -> Any:
    """What a name stands for; MISSING if nothing."""
    try:
        at: Any = importlib.import_module(module) if module else builtins
        return functools.reduce(getattr, name.split("."), at)
    except (ImportError, AttributeError):
        return MISSING


def code_in(module: str, outer: str, qualname: str, known: str) -> types.CodeType | None:
    """The code of a function, or of one that is made inside it."""
    code = getattr(find_object(module, outer), "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    every = (code, *nested_codes(code))
    return next((one for one in every if one.co_qualname == qualname and digest(one) == known), None)


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of what is defined within."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from nested_codes(each)


def load_function(module: str, name: str, known: str) -> Any:
    fn = find_object(module, name)
    if not isinstance(fn, types.FunctionType) or digest(fn.__code__) != known:
        raise NotPortableError(f"{module}.{name} is another function here")
    return fn


def load_code(module: str, outer: str, qualname: str, known: str) -> Any:
    code = code_in(module, outer, qualname, known)
    if code is None:
        raise NotPortableError(f"the code of {qualname} is other code here")
    return code


def load_class_attribute(owner: type, name: str, known: str) -> Any:
    bases = owner.__mro__
    value: Any = next((vars(base)[name] for base in bases if name in vars(base)), MISSING)
    value = bases if name == "mro()" else value
    if value is MISSING or describe_attribute(value) != known:
        raise NotPortableError(f"{owner.__qualname__}.{name} is something else here")
    return value


def load_named(module: str, name: str) -> Any:
    value = find_object(module, name)
    if value is MISSING:
        raise NotPortableError(f"there is no {module}.{name} here")
    return value
