"""What a trace does with a call of something that it does not interpret: one entry per callable.

An entry is a `CallableRule`. It says how far C looks into the arguments, what it changes, compares, hashes
or shows of them, whether it calls back, or that it is refused, and why. `rule(sorted, ...)` adds one for a
function of C, `serve(getattr, ...)` one with a handler of Framelift's that does the job instead. What has no
entry of its own is judged by the type or the module that it belongs to (`methods_of`, `functions_of`,
`python_functions_of`), and refused if these have none either. The entries themselves are in `framelift/rules`
and `framelift/features`.
"""

from __future__ import annotations

import collections
import datetime
import enum
import inspect
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from framelift.core import breaks, policy
from framelift.core.blame import acts_for_program, note_handler
from framelift.core.breaks import Reason
from framelift.core.weakly import PerCode
from framelift.graph.functions import LEGACY
from framelift.graph.subclasses import is_wrapper_class
from framelift.interpreter.pending import opened
from framelift.interpreter.served import SERVED, Handler, by_signature

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


class Looks(enum.Enum):
    """How far a function looks into its arguments."""

    MOVES = "at the first few arguments only; the rest are stored or passed on"
    SHALLOW = "at its arguments, not into their elements"
    CLASS = "at its arguments' classes only"
    PAIRS = "at its arguments as keys and values"
    DEEP = "into containers, all the way"
    RECORDED = "a torch function: a node of the graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableRule:
    """What is known of a callable."""

    looks: Looks = Looks.DEEP
    first: int = 0
    """For MOVES: how many leading arguments are looked at. For PAIRS: how many come before the pairs."""
    refused: Reason | None = None
    """Why it is not called while tracing, if it is not."""
    why: str = ""
    """Why it may be called as it is; or what a refused one does."""
    calls_back: bool = False
    """It calls what it is given: C is given Python functions only, which come back through the hook."""
    iterates: bool = False
    """It goes over its arguments; of a dictionary it sees the keys."""
    drains: tuple[int, ...] = ()
    """Which arguments may be iterators whose items it looks at."""
    drains_alone: bool = False
    """It looks at the items of its argument if that is the only one."""
    drains_unfiltered: bool = False
    """It looks at the items of its second argument if the first is None."""
    hands_on: bool = False
    """If its first argument is a function of Python's, it hands items on to that without looking at them."""
    makes_by_new: bool = False
    """A class whose instances a `__new__` of Python's makes, and nothing else."""
    stores: int | None = None
    """Which argument is only stored, of a function that looks at the others."""
    hashes: bool = False
    """It hashes what it is given."""
    compares: bool = False
    """It gives another answer when two objects are one."""
    shows_text: bool = False
    """It gives the text of its arguments, which may show addresses and the order of sets."""
    formats: bool = False
    """It puts texts of its arguments into its first one."""
    reads_attributes: bool = False
    """It reads attributes of what it is given."""
    orderless: bool = False
    """It does not show the order of a set that it is given."""
    changes: str | None = None
    """The method of `set` by which it changes the set that it is given first."""
    on_symbols: Callable[[list[Any]], Any] | None = None
    """What does the same with symbols among its arguments; or gives NotImplemented."""
    with_symbols: Callable[[TraceWorld, Any, list[Any], dict[str, Any]], Any] | None = None
    """The same, where it takes the world of a trace. `MISSING`: nothing was done, but that the iterators
    among the arguments may have become lists."""
    relies_on: Callable[[TraceWorld], None] | None = None
    """Adds the guards of what its answer depends on beside its arguments."""
    passes_numbers: bool = False
    """It hands numbers on, or to what it calls, without looking at them: they stay symbols."""
    overridable: bool = False
    """Python of torch that tells `__torch_function__` of its calls: graphs have them as they were written."""


Facets = dict[str, Any]
KINDS: set[type] = set()
"""The types of callables that have entries. Nothing else is looked up: the program might hash it."""
_entries: dict[Any, Facets] = {}

REPEATABLE: set[Any] = {
    getattr,
    hasattr,
    iter,
    super,
    isinstance,
    issubclass,
    type,
    len,
    dict.get,
    list.append,
}
REPEATABLE |= {object.__getattribute__, types.ModuleType.__getattribute__, torch.is_tensor}
REPEATABLE |= {torch.nn.Module.__getattr__, torch.nn.Module._wrapped_call_impl, torch._C._log_api_usage_once}
REPEATABLE |= {torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, torch.compiler.is_exporting}
REPEATABLE |= {torch.jit.is_scripting, torch.jit.is_tracing, torch._C._get_tracing_state}
REPEATABLE |= {torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary}
REPEATABLE |= {torch.overrides.has_torch_function_variadic, vars(inspect)["_signature_from_callable"]}
"""Callables whose handlers look at nothing but what is given to them, and guard what they find there: calls
in which others are called are not replayed (`trace/replays.py`)."""


def spoiling(fn: Any, handler: Handler) -> Handler:
    """The handler of a callable, which says that it was called."""
    if fn in REPEATABLE:
        return handler

    def served(f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        f.world.recorder.builder.tape.spoil(fn)
        return handler(f, args, kwargs)

    return served


HANDLERS: dict[Any, Handler] = dict(SERVED)
"""Callable -> what does its job in a trace: all that the interpreter serves anyway, and more."""

_spoiling_handlers: dict[Any, Handler] = {}


def spoiling_handlers() -> dict[Any, Handler]:
    """The same for traces that replay calls; others do not pay for it."""
    for fn in HANDLERS.keys() - _spoiling_handlers.keys():
        _spoiling_handlers[fn] = spoiling(fn, HANDLERS[fn])
    return _spoiling_handlers


def rule(*callables: Any, **facets: Any) -> None:
    """Adds the entry of each callable. Facets that it does not name are as for any of its kind."""
    for fn in callables:
        assert fn not in _entries, f"{describe(fn)} has two entries"
        _entries[fn] = facets
        KINDS.add(type(fn))
        if type(fn) is types.FunctionType and is_complete(facets):
            policy.keep(fn)


def is_complete(facets: Facets) -> bool:
    """Whether they say what is done with a call, without what is known of its kind."""
    return "looks" in facets or "refused" in facets


def serve(*callables: Any, **facets: Any) -> Callable[[Callable[..., Any]], Any]:
    """Adds the entries of callables whose job a handler does: it is called as they are, with the frame first.

    A call that does not fit the handler's parameters is made without it: it raises what Python raises, if the
    facets permit it.
    """

    def register(handler: Callable[..., Any]) -> Any:
        note_handler(handler)
        acts_for_program(handler)
        for fn in callables:
            HANDLERS[fn] = by_signature(fn, handler)
            if facets:
                rule(fn, **facets)
        return handler

    return register


# ---- what has no entry of its own, by what it belongs to

METHOD_RULES: dict[type, Facets] = {}
"""Builtin types whose methods, and other callables of which type they are, look at nothing but arguments."""
MODULE_RULES: dict[str, Facets] = {}
"""Modules of C functions."""
PYTHON_MODULES: list[tuple[tuple[str, ...], Facets]] = []
"""Modules of Python functions that are not interpreted, with all below them; the first that fits counts."""

PYTHON_CLASSES: set[str] = set()
"""Those of them whose classes may be instantiated: their methods see what they are given."""


def methods_of(*types: type, **facets: Any) -> None:
    for cls in types:
        METHOD_RULES[cls] = facets
        for member in vars(cls).values():
            if type(member) is staticmethod:  # which is told nothing of the type, such as `str.maketrans`
                _entries.setdefault(member.__func__, {"looks": Looks.DEEP, **facets})
                KINDS.add(type(member.__func__))


def functions_of(*modules: str, **facets: Any) -> None:
    for module in modules:
        MODULE_RULES[module] = facets


def python_functions_of(*modules: str, classes: bool = False, **facets: Any) -> None:
    PYTHON_MODULES.append((modules, facets))
    policy.keep_whole(*modules)
    if classes:
        PYTHON_CLASSES.update(modules)


# ---- callables that are found by something else than themselves

Server = Callable[["TraceWorld", Any, list[Any], dict[str, Any]], Any]
"""function(world, fn, args, kwargs) -> what the call gives."""

BY_TYPE: dict[type, Server] = {}
"""Type of a callable -> what is done instead of calling it."""
BY_CODE: dict[int, Server] = {}
"""id of a code object -> what is done instead of interpreting a function that has it."""
BY_BASE: dict[type, Server] = {}
"""Class -> what is done instead of calling an instance of it, where a `__call__` that is not interpreted
would be called."""
BY_MARK: dict[str, Server] = {}
"""Attribute that torch or Framelift sets on a function -> what is done instead of calling it."""
BY_NAME: dict[tuple[str, str], Server] = {}
"""Module and name of what belongs to torch's own compiler, which is not imported for its sake -> the same."""
_controls: dict[int, Server] = {}
"""id of a function that the user has said something about -> the same, for as long as it lives."""


def control(fn: Any, server: Server | None) -> None:
    """What users say is to be done with calls of a function; they say so by `api/capture_control.py`. None:
    nothing any more."""
    if server is None:
        _controls.pop(id(fn), None)
        return
    if id(fn) not in _controls:
        weakref.finalize(fn, _controls.pop, id(fn), None)
    _controls[id(fn)] = server


def has_controls() -> bool:
    """Whether users have said of any function what is to be done with its calls."""
    return bool(_controls)


def control_of(fn: Any) -> Server | None:
    """What users, or torch's marks, say is to be done with calls of a function."""
    found = _controls.get(id(fn))
    if found is None and type(fn) is types.FunctionType and fn.__dict__:
        found = next((what for mark, what in BY_MARK.items() if mark in fn.__dict__), None)
    if found is None and type(fn) in (types.FunctionType, type):
        return BY_NAME.get((fn.__module__, fn.__name__))
    return found


def server_of(fn: Any, args: list[Any]) -> Server | None:
    found = BY_TYPE.get(type(fn))
    if found is None and type(fn) is types.FunctionType:
        found = BY_CODE.get(id(fn.__code__))
        if found is None and fn.__name__ == "__call__" and args:
            bases = type(opened(args[0])).__mro__
            return next((BY_BASE[base] for base in bases if base in BY_BASE), None)
    return found


# ---- the rule of any callable


def rule_of(fn: Any) -> CallableRule:
    """What is to be done with a call of something that is neither interpreted nor served."""
    if type(fn) in DESCRIPTORS or (type(fn) is types.BuiltinFunctionType and is_of_module(fn)):
        return _of_c.get(fn) or _of_c.setdefault(fn, judge(fn))
    if type(fn).__weakrefoffset__ == 0:
        return judge(fn)
    return _judged.get(fn) or _judged.set(fn, judge(fn))


DESCRIPTORS = frozenset(
    {types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType}
)
_of_c: dict[Any, CallableRule] = {}
_judged: PerCode[CallableRule] = PerCode()


def is_of_module(fn: Any) -> bool:
    return fn.__self__ is None or issubclass(type(fn.__self__), types.ModuleType)


def judge(fn: Any) -> CallableRule:
    entry = _entries.get(fn) if type(fn) in KINDS else None
    if entry is None:
        return judge_by_kind(fn)
    return CallableRule(**entry) if is_complete(entry) else replace(judge_by_kind(fn), **entry)


def refusal(fn: Any, reason: Reason = breaks.UNKNOWN_NATIVE, does: str = "") -> CallableRule:
    return CallableRule(refused=reason, why=f"{describe(fn)} ({does})" if does else describe(fn))


def ruled(fn: Any, facets: Facets) -> CallableRule:
    """The rule of something by that of its type or module."""
    if "refused" in facets:
        return refusal(fn, facets["refused"], facets.get("why", ""))
    return CallableRule(**facets)


def judge_by_kind(fn: Any) -> CallableRule:
    kind = type(fn)
    if kind in DESCRIPTORS:
        return judge_method(fn)
    if issubclass(kind, type):
        return judge_class(fn)
    if kind is types.BuiltinFunctionType:
        return judge_builtin(fn, getattr(fn, "__module__", None) or "")
    if kind is types.FunctionType:
        return judge_python_function(fn)
    if kind in METHOD_RULES or may_run(kind.__module__) or kind is types.MethodWrapperType:
        return CallableRule(why="a callable of a builtin type")
    return refusal(fn)


def may_run(module: str) -> bool:
    """Whether functions of a module are called as they are."""
    return module in MODULE_RULES and "refused" not in MODULE_RULES[module]


def judge_method(fn: Any) -> CallableRule:
    owner = fn.__objclass__
    if owner in METHOD_RULES:
        return CallableRule(**METHOD_RULES[owner])
    if issubclass(owner, BaseException):
        return CallableRule(why="a method of an exception")
    if issubclass(owner, torch._C.TensorBase):
        return CallableRule(looks=Looks.RECORDED, why="a tensor method")
    if owner.__module__ in MODULE_RULES:
        return ruled(fn, MODULE_RULES[owner.__module__])
    return refusal(fn)


HEAP_TYPE = 1 << 9


def judge_class(cls: type) -> CallableRule:
    if cls in LEGACY:
        return CallableRule(looks=Looks.RECORDED, why="makes a tensor")
    if is_wrapper_class(cls):
        return CallableRule(looks=Looks.RECORDED, why="makes a tensor around others")
    init: Any = cls.__init__  # type: ignore[misc]
    in_python = bool(cls.__flags__ & HEAP_TYPE)
    if in_python and type(init) is types.FunctionType:
        if policy.is_leaf(f"{cls.__module__}.{cls.__qualname__}"):
            may_be_made = policy.within(cls.__module__, tuple(PYTHON_CLASSES))
            return CallableRule(why="a class whose methods run as they are") if may_be_made else refusal(cls)
        if made_without_a_look(cls):
            return CallableRule(looks=Looks.MOVES, why="a Python class: the hook sees its methods")
    if in_python and is_made_by_new(cls):
        return CallableRule(makes_by_new=True, why="a Python class: `__new__` is interpreted")
    if issubclass(cls, BaseException):
        looks = Looks.DEEP if issubclass(cls, LOOKING_EXCEPTIONS) else Looks.MOVES
        return CallableRule(looks=looks, why="an exception")
    for base in cls.__mro__[1:-1]:
        inherited = _entries.get(base, {}) if type(base) in KINDS else {}
        if "looks" in inherited or "refused" in inherited:
            facets = {name: inherited[name] for name in INHERITED if name in inherited}
            new: Any = cls.__new__
            return CallableRule(**facets, passes_numbers=type(new) is types.FunctionType)
    if may_run(cls.__module__) and "looks" in MODULE_RULES[cls.__module__]:
        return CallableRule(**MODULE_RULES[cls.__module__])
    if may_run(cls.__module__) or any(base in METHOD_RULES for base in (cls, *cls.__mro__[:-1])):
        return CallableRule(looks=Looks.SHALLOW, why="a builtin type")
    if in_python and init is object.__init__ and made_without_a_look(cls):
        return CallableRule(looks=Looks.MOVES, why="an ordinary class")
    return refusal(cls)


def is_made_by_new(cls: type) -> bool:
    """Whether C does nothing but call a function of Python's when an instance is made."""
    if type(cls).__call__ is not type.__call__ or cls.__init__ is not object.__init__:  # type: ignore[misc]
        return False
    new: Any = cls.__new__
    return type(new) is types.FunctionType and not policy.is_leaf(f"{cls.__module__}.{cls.__qualname__}")


INHERITED = ("looks", "first", "refused", "why")
"""What a subclass has of the entry of its base."""
LOOKING_EXCEPTIONS = (BaseExceptionGroup, OSError, UnicodeError, SyntaxError)
LEAVING_TO_INIT = frozenset(
    {object, list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict}
)
"""Types whose `__new__` does nothing with its arguments."""


def made_without_a_look(cls: type) -> bool:
    """Whether C's `__new__`, where that is what makes the instances, does not look at its arguments."""
    new: Any = cls.__new__
    maker = getattr(new, "__self__", None)
    if not isinstance(maker, type):
        return True  # Python's, which comes back through the hook
    if issubclass(maker, BaseException):
        return not issubclass(maker, LOOKING_EXCEPTIONS)
    return maker in LEAVING_TO_INIT


CLOCKS = frozenset({"now", "utcnow", "today"})
"""Class methods of dates that ask what time it is."""


def judge_builtin(fn: Any, module: str) -> CallableRule:
    owner = fn.__self__
    if module == "torch" and not issubclass(type(owner), types.ModuleType):
        return CallableRule(looks=Looks.RECORDED, why="a torch operator")
    if module in MODULE_RULES:
        return ruled(fn, MODULE_RULES[module])
    if not issubclass(type(owner), type):
        return refusal(fn)
    if issubclass(owner, datetime.date) and fn.__name__ in CLOCKS:
        return CallableRule(refused=breaks.EFFECT, why=f"{owner.__qualname__}.{fn.__name__}")
    # a class method of C, had through a subclass that may have one of its own by that name
    method = types.ClassMethodDescriptorType
    owner = next((base for base in owner.__mro__ if type(vars(base).get(fn.__name__)) is method), owner)
    return CallableRule(**METHOD_RULES[owner]) if owner in METHOD_RULES else refusal(fn)


def why_disabled(fn: types.FunctionType) -> str | None:
    """Why a function is marked to run as plain Python; None if it is not."""
    marks = vars(fn)
    if "_framelift_disable" in marks:
        return marks["_framelift_disable"]
    if policy.is_disabled_by_mark(fn):
        return str(marks.get("_torchdynamo_disable_msg") or "torch.compiler.disable")
    return None


def judge_python_function(fn: Any) -> CallableRule:
    disabled = why_disabled(fn)
    if disabled is not None:
        return refusal(fn, breaks.DISABLED, disabled)
    if policy.gives_a_constant(fn):
        return CallableRule(why="the program says that its result is always the same")
    if fn.__code__.co_flags & inspect.CO_GENERATOR:
        # a context that switches something, left open where the trace ends
        return refusal(fn, breaks.EFFECT)
    facets = python_rule(policy.module_name(fn))
    return refusal(fn) if facets is None else ruled(fn, facets)


def python_rule(module: str) -> Facets | None:
    return next((facets for modules, facets in PYTHON_MODULES if policy.within(module, modules)), None)


PYBIND = "pybind11_detail_function_record"
"""How the qualified names of pybind's functions begin, which are bound to a record of its own."""


def describe(fn: Any) -> str:
    module, *names = [getattr(fn, name, None) for name in ("__module__", "__qualname__", "__name__")]
    # an object of the program's may have anything by these names
    name = next((name for name in names if name and isinstance(name, str)), type(fn).__qualname__)
    if name.startswith(PYBIND):
        name = fn.__name__
    return f"{module}.{name}" if module and isinstance(module, str) and module != "builtins" else str(name)
