"""What `compile` gives for a module: the same module, but that calling it runs compiled code.

It shares the module's `__dict__`: parameters, buffers, hooks, `train`/`eval` and attributes are one state,
seen through both. Its class looks everything up where the module's own class does (`CompiledKind.mro`), so it
is an instance of that; but it is not made from it: no `__init_subclass__` and no metaclass of the program is
run, and it is none of the `__subclasses__()`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import _symbolic_trace as symbolic_trace
from torch.nn.parallel import DistributedDataParallel

from framelift import _frame
from framelift.api.entrances import entrance, uncompiled
from framelift.core.weakly import PerCode
from framelift.dispatch.compile_contexts import CodeStates, Context

Call = tuple[Callable[..., Any], Context, Callable[..., Any]]
"""What to call, with what: `call_in`, the context, the module or a function that calls it."""
SLOTS = ("_orig_mod", "_framelift_call")
SLOT = types.MemberDescriptorType


class CompiledKind(type):
    """The classes of compiled modules, one for each class of modules, and what others derive from them."""

    def mro(cls) -> list[type]:
        kind = vars(cls).get("_framelift_kind")
        return type.mro(cls) if kind is None else [cls, Quiet, *kind.__mro__]


class OptimizedModuleKind(type):
    """Instances of `OptimizedModule` are the modules that `compile` gives."""

    def __instancecheck__(cls, value: object) -> bool:
        return is_compiled_module(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        return cls in kind.__mro__ or hasattr(kind, "_framelift_kind")


class OptimizedModule(metaclass=OptimizedModuleKind):
    """What a compiled module is an instance of, beside its own class: `isinstance(m, OptimizedModule)`, and
    `m._orig_mod` is the module that was compiled."""


def is_compiled_module(value: object) -> bool:
    return hasattr(type(value), "_framelift_kind")


class Quiet:
    """Stands between the class of compiled modules and the module's, whose `__init_subclass__` is not run."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass


def call_compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
    if (
        symbolic_trace._is_fx_tracing_flag
    ):  # which looks for this very module among those of the one it traces
        return call_plainly(self, *args, **kwargs)
    call_in, context, target = self._framelift_call
    return call_in(context, target, *args, **kwargs)


def call_plainly(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._framelift_kind.__call__(self, *args, **kwargs)


def compiled_forward(forward: types.FunctionType) -> Callable[..., Any]:
    """What `compiled.forward(x)` does: the call is compiled, as torch does it. Where the program has put
    something in the place of `forward`, which calls what was there, that is the module's: the compiled call
    comes to it."""
    fx = symbolic_trace

    def call_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if fx._is_fx_tracing_flag or "forward" in self.__dict__:
            return forward(self, *args, **kwargs)
        call_in, context, target = self._framelift_call
        return call_in(context, target, *args, **kwargs)

    _frame.set_decision(call_forward.__code__, _frame.SKIP, _frame.REFUSE)
    # TorchScript compiles the text of `forward`, whose names it looks up there
    code, cells = call_forward.__code__, call_forward.__closure__
    made = types.FunctionType(code, forward.__globals__, forward.__name__, None, cells)
    functools.update_wrapper(made, forward)
    vars(made)["_framelift_calls_module"] = made.__code__
    vars(made)["_torchdynamo_inline"] = forward
    return made


def set_attribute(self: Any, name: str, value: Any) -> None:
    """`_orig_mod` is what libraries put another module in; everything else is the module's."""
    if name != "_orig_mod":
        self._framelift_kind.__setattr__(self, name, value)
    elif value is not self._orig_mod:
        call_in, context, _ = self._framelift_call
        object.__setattr__(self, "_orig_mod", value)
        object.__setattr__(self, "_framelift_call", (call_in, context, entrance(value)))
        object.__setattr__(self, "__dict__", value.__dict__)


def compile_alike(self: Any) -> Callable[[Any], Any]:
    """Compiles another function with the options of a module."""
    return lambda fn: restored(fn, self._framelift_call[1].settings)


def load_from_state_dict(self: Any, state: dict[str, Any], prefix: str, *args: Any) -> None:
    """Part of `load_state_dict`, of this module and those in it. In a file that was written of a module that
    `torch.compile` gave, names have `_orig_mod` where it was; they are the module's own."""
    wrapped = f"{prefix}_orig_mod."
    if "_orig_mod" not in self._modules:
        for name in [name for name in state if name.startswith(wrapped)]:
            own = prefix + name[len(wrapped) :]
            if own not in state:
                state[own] = state.pop(name)
    self._framelift_kind._load_from_state_dict(self, state, prefix, *args)


NAMESPACE = {
    "_load_from_state_dict": load_from_state_dict,
    "__call__": call_compiled,
    "__setattr__": set_attribute,
    "dynamo_ctx": property(compile_alike),
    "_framelift_context": property(lambda self: self._framelift_call[1]),
    "__dir__": lambda self: [*dir(self._orig_mod), "_orig_mod", "dynamo_ctx"],
    "__reduce_ex__": lambda self, protocol: (restored, (self._orig_mod, self._framelift_call[1].settings)),
    "__deepcopy__": lambda self, memo: copied(self, copy.deepcopy(self._orig_mod, memo)),
    "__copy__": lambda self: copied(self, copy.copy(self._orig_mod)),
}

OWN_PROPERTIES = [name for name, value in NAMESPACE.items() if isinstance(value, property)]
"""What `torch.jit.script` is not to look at."""
_kinds: PerCode[weakref.ref[type]] = PerCode()
"""Class of modules -> that of its compiled ones, if there are any."""


def compiled_kind(kind: type) -> type:
    known = _kinds.get(kind)
    found = None if known is None else known()
    if found is not None:
        return found
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    names |= {**NAMESPACE, "__slots__": SLOTS, "_framelift_kind": kind}
    names["__jit_unused_properties__"] = [*getattr(kind, "__jit_unused_properties__", ()), *OWN_PROPERTIES]
    names |= {name: through_module(name) for name in slots_of(kind)}
    if issubclass(kind, torch.nn.Module) and kind.forward is DistributedDataParallel.forward:
        names |= DATA_PARALLEL
    elif isinstance(forward := getattr(kind, "forward", None), types.FunctionType):
        names["forward"] = compiled_forward(forward)
    made: type
    try:
        made = type.__new__(CompiledKind, kind.__name__, (torch.nn.Module,), dict(names))
    except TypeError:  # instances of the kind are laid out otherwise than those of other modules
        made = type.__new__(type(kind), kind.__name__, (Quiet, kind), names)
    _kinds.set(kind, weakref.ref(made))
    return made


def slots_of(kind: type) -> list[str]:
    """The attributes of instances that are not in their `__dict__`."""
    found = [name for base in kind.__mro__ for name, value in vars(base).items() if type(value) is SLOT]
    return [name for name in found if name not in SLOTS]


def through_module(name: str) -> property:
    """An attribute that only the module itself can have."""
    return property(
        lambda self: getattr(self._orig_mod, name),
        lambda self, value: setattr(self._orig_mod, name, value),
        lambda self: delattr(self._orig_mod, name),
    )


def compiled_module(
    module: torch.nn.Module, target: Callable[..., Any], context: Context, call_in: Callable[..., Any]
) -> torch.nn.Module:
    if isinstance(module, DistributedDataParallel):
        call_in, target = _frame.call_in, entrance(uncompiled(module.module))
    made: torch.nn.Module = object.__new__(compiled_kind(type(module)))
    made.__dict__ = module.__dict__
    object.__setattr__(made, "_orig_mod", module)  # past the module's own way to set attributes
    object.__setattr__(made, "_framelift_call", (call_in, context, target))
    return made


def copied(compiled: Any, module: torch.nn.Module) -> torch.nn.Module:
    call_in, context, _ = compiled._framelift_call
    context = of_copy(context)
    made = compiled_module(module, entrance(module), context, call_in)
    context.users.set(made, None)
    return made


def of_copy(context: Context) -> Context:
    """A copy of a module shares the entries, unless each compiled module was to have its own."""
    if not context.isolate_recompiles:
        return context
    return dataclasses.replace(context, code_states=CodeStates(), broken_places=set(), users=PerCode())


def restored(module: Any, settings: dict[str, Any]) -> Any:
    """A compiled module that comes out of a pickle."""
    from framelift.api.compile import compile  # which makes these

    return compile(module, **settings)


# ---- DistributedDataParallel: its own work can't be captured, that of its module is compiled


def call_data_parallel(self: Any, *args: Any, **kwargs: Any) -> Any:
    return type(self._orig_mod).__call__(self, *args, **kwargs)


def run_data_parallel_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    call_in, context, target = self._framelift_call
    with self._inside_ddp_forward():
        return call_in(context, target, *args, **kwargs)


DATA_PARALLEL = {"__call__": call_data_parallel, "_run_ddp_forward": run_data_parallel_forward}
for _call in (call_compiled, call_data_parallel):
    vars(_call)["_framelift_calls_module"] = _call.__code__
# torch.compile compiles the module itself, and Framelift has no part in it
vars(call_compiled)["_torchdynamo_inline"] = call_plainly
