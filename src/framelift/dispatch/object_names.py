"""Names that stand for objects which another process has too: classes, functions, code, class attributes.

What is the same object in another process is decided strictly. Classes and functions are known by where they
are imported from, functions also by a digest of their code, and class attributes by their class and name.
What can't be known like that has no name (`NotPortableError`).
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import hashlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from framelift.bytecode.resume import Callee, called_by, origin_of
from framelift.core import policy
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


def has_name(fn: types.FunctionType) -> bool:
    """Whether a function is found where it is defined."""
    return find_function(fn.__module__, fn.__qualname__) is fn


def original_code(code: types.CodeType) -> types.CodeType:
    """That of the function of which it is the rest, if it is a resume function's."""
    origin = origin_of(code)
    return code if origin is None else origin.body.original() or code


def functions_called_in_turn(code: types.CodeType) -> list[types.FunctionType]:
    """The resume functions of inner frames, where code is a resume function's: it calls the first, and each
    calls the next."""
    found: list[types.FunctionType] = []
    while (inner := called_by(code)) is not None:
        found.append(inner)
        code = inner.__code__
    return found


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
            return "named", module, name, own_name(value)
    if isinstance(owner, type):
        return "bound", owner, value.__name__
    if type(sys.modules.get(value.__module__)) is value:
        return "class of", value.__module__
    raise NotPortableError(f"{value!r:.80} can't be imported")


def own_name(value: Any) -> str:
    """What a class, or a function of C, says that it is: a program may have put another in its place."""
    owner: Any = getattr(value, "__self__", None)
    of = owner.__name__ if isinstance(owner, types.ModuleType) else type(owner).__qualname__
    module = getattr(value, "__module__", None)
    return f"{type(value).__qualname__} {module}.{getattr(value, '__qualname__', '')} of {of}"


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
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    parts += [repr((code.co_flags, *counts, code.co_exceptiontable))]
    parts += map(describe_constant, code.co_consts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def describe_constant(constant: Any) -> str:
    """Of code, such that others have another description."""
    cls = type(constant)
    if cls is types.CodeType:
        return digest(constant)
    if cls is Callee and (called := constant()) is not None:
        return digest(called.__code__)
    if cls is frozenset:
        return f"frozenset {sorted(map(describe_constant, constant))}"
    if cls is tuple:
        return f"tuple {list(map(describe_constant, constant))}"
    if is_plain(constant) or constant is ... or cls in (complex, slice):
        return f"{cls.__name__} {constant!r}"
    raise NotPortableError(f"code holds a {cls.__qualname__}")


def describe_attribute(value: Any) -> str:
    """What is found on a class, as text that is the same in another process only if it does the same."""
    cls = type(value)
    if cls is types.FunctionType:
        return f"function {digest(value.__code__)}"
    if cls in (staticmethod, classmethod):
        return f"{cls.__name__} {describe_attribute(value.__func__)}"
    if cls is property:
        return f"property {[one and describe_attribute(one) for one in (value.fget, value.fset, value.fdel)]}"
    if cls is enum.property:
        return f"enum.property {value.name} {value.fget and describe_attribute(value.fget)}"
    if cls is TUPLE_GETTER:
        return f"field {value.__reduce__()[1][0]}"
    if cls is functools.cached_property:
        return f"cached_property {value.attrname} {describe_attribute(value.func)}"
    if cls in (types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType):
        return f"{cls.__name__} {value.__qualname__}"
    if cls in (types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.BuiltinFunctionType):
        return f"{cls.__name__} {value.__qualname__}"
    if cls in (dict, list, set):  # guards say what is relied on of these
        return cls.__name__
    if is_plain(value):
        return f"{cls.__name__} {value!r}"
    if cls is tuple:
        return f"tuple {[describe_attribute(one) for one in value]}"
    if issubclass(cls, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if issubclass(cls, enum.Enum):
        return f"member {cls.__module__}.{cls.__qualname__}.{value._name_} {describe_constant(value._value_)}"
    if is_known_by_guards(cls):
        return f"instance of {cls.__module__}.{cls.__qualname__}"
    raise NotPortableError(f"it relies on a {cls.__module__}.{cls.__qualname__} that a class has")


def is_known_by_guards(cls: type) -> bool:
    """Whether of an instance nothing is relied on but its class and what guards say: a trace reads its
    attributes, where of other classes it may know more than that."""
    bases = [base for base in cls.__mro__ if base not in PLAIN_BASES]
    return bool(bases) and all(policy.is_user_code(base.__module__) for base in bases)


TUPLE_GETTER: Any = type(vars(collections.namedtuple("Pair", "one other"))["one"])
"""Of the fields of named tuples."""

PLAIN_BASES = (object, torch.nn.Module)
"""Classes that are not the program's, of which a trace reads attributes, and relies on nothing else."""


def is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(part) for pair in value.items() for part in pair)
    return type(value) in (int, float, str, bytes, bool, type(None))


def is_plain_tuple(value: tuple[Any, ...]) -> bool:
    """Whether a tuple holds nothing that can change."""
    return all(is_plain_tuple(part) if type(part) is tuple else is_atom(part) for part in value)


# ---- finding


def find_object(module: str | None, name: str) -> Any:
    """What a name stands for; MISSING if nothing."""
    try:
        at: Any = importlib.import_module(module) if module else builtins
        return functools.reduce(getattr, name.split("."), at)
    except (ImportError, AttributeError):
        return MISSING


def find_function(module: str | None, name: str) -> Any:
    """The same, and of a class method what it calls."""
    found = find_object(module, name)
    return found.__func__ if type(found) is types.MethodType else found


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
    fn = find_function(module, name)
    if not isinstance(fn, types.FunctionType) or digest(fn.__code__) != known:
        raise NotPortableError(f"{module}.{name} is another function here")
    return fn


def load_code(module: str, outer: str, qualname: str, known: str) -> Any:
    code = code_in(module, outer, qualname, known)
    if code is None:
        raise NotPortableError(f"the code of {qualname} is other code here")
    return code


def load_code_of(fn: Any, known: str) -> Any:
    if digest(fn.__code__) != known:
        raise NotPortableError(f"the code of {fn.__qualname__} is other code here")
    return fn.__code__


def load_part(owner: Any, name: str, known: str) -> Any:
    fn = getattr(owner, name)
    if digest(fn.__code__) != known:
        raise NotPortableError(f"{fn.__qualname__} is another function here")
    return fn


def load_resumed(code: types.CodeType, n: int, known: str) -> Any:
    called = functions_called_in_turn(code)
    if n >= len(called) or digest(called[n].__code__) != known:
        raise NotPortableError("the rest of an inner frame is another one here")
    return called[n]


def load_class_attribute(owner: type, name: str, known: str) -> Any:
    value = found_on_class(owner, name)
    if value is MISSING or describe_attribute(value) != known:
        raise NotPortableError(f"{owner.__qualname__}.{name} is something else here")
    return value


def found_on_class(owner: type, name: str) -> Any:
    bases = owner.__mro__
    if name == "mro()":
        return bases
    return next((vars(base)[name] for base in bases if name in vars(base)), MISSING)


def load_named(module: str, name: str, known: str) -> Any:
    value = find_object(module, name)
    if value is MISSING or own_name(value) != known:
        raise NotPortableError(f"{module}.{name} is something else here")
    return value
