"""Objects of C's that are called: what they read of others, or call, is done by the trace."""

from __future__ import annotations

import functools
import operator
import typing
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.bytecode.resume import origin_of
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.weakly import PerCode
from framelift.graph.functions import describe
from framelift.guards.kinds import Access
from framelift.interpreter.pending import Pending, opened
from framelift.trace.callable_rules import BY_CODE, BY_TYPE
from framelift.trace.world import TraceWorld

native = _frame.native


def call_attrgetter(world: TraceWorld, getter: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return native(getter, *args, **kwargs)  # to be told what is wrong
    found = []
    for path in getter.__reduce__()[1]:
        value = args[0]
        for name in path.split("."):
            value = world.attributes.load(value, name)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def call_methodcaller(world: TraceWorld, caller: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return native(caller, *args, **kwargs)
    made, given = caller.__reduce__()
    name, *given = (*made.args, *given) if type(made) is functools.partial else given
    keywords = made.keywords if type(made) is functools.partial else {}
    return world.calls.invoke(world.attributes.load(args[0], name), *given, **keywords)


def call_itemgetter(world: TraceWorld, getter: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return native(getter, *args, **kwargs)
    found = [world.containers.load(args[0], key) for key in getter.__reduce__()[1]]
    return found[0] if len(found) == 1 else tuple(found)


def call_reference(world: TraceWorld, reference: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What it refers to, unless the program may have let go of that meanwhile, so that it is no more."""
    source = world.inputs.source_of(reference)
    if source is None or args or kwargs:
        found = native(reference, *args, **kwargs)
        if type(found) is FakeTensor and not world.lifetimes.is_held(found):
            refuse(breaks.OPAQUE_OBJECT, "a weak reference to a tensor that may be gone")  # graphs keep fakes
        return found
    resumed = world.frame.function is not None and origin_of(world.frame.function.__code__) is not None
    if resumed or world.lifetimes.may_have_dropped():
        refuse(breaks.OPAQUE_OBJECT, "a weak reference, after changes that may have ended it")
    return world.guards.found(source.child(Access.REFERENT), reference())


def call_torchs_class(world: TraceWorld, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if cls is torch.Generator:
        materialize = world.materialize
        return world.runtime_calls.new_generator(materialize.for_c(args), materialize.for_c(kwargs))
    return world.calls.by_policy(cls, args, kwargs)


_named: PerCode[Any] = PerCode()


def named_function(scripted: Any) -> Any:
    """What stands in graphs for a function of TorchScript's, which has no name of Python's."""
    found = _named.get(scripted)
    if found is None:
        alive: Any = weakref.ref(scripted)

        def traced_function(*args: Any, **kwargs: Any) -> Any:
            return alive()(*args, **kwargs)

        _frame.set_decision(traced_function.__code__, _frame.SKIP, _frame.LEAF)
        found = _named.set(scripted, traced_function)
    return found


def call_scripted(world: TraceWorld, scripted: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The function that TorchScript compiled. One that it traced goes the way that was seen: the graph has
    it as it is."""
    function = vars(scripted).get("_torchdynamo_inline")
    compiled = torch.jit._state._try_get_jit_cached_function(function) if function is not None else None
    if compiled is None or compiled.qualified_name != scripted.qualified_name:
        for_torch = world.materialize.for_torch
        named = {name: for_torch(value) for name, value in kwargs.items()}
        return world.recorder.call_opaque(named_function(scripted), tuple(map(for_torch, args)), named)
    target = Pending(world.inputs, world.inputs.root.constant(function, function.__name__), function)
    return world.calls.invoke(target, *args, **kwargs)


UNBOUND: type = type(torch._C.Graph.nodes)


def call_unbound(world: TraceWorld, method: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method that torch's C++ defines, as its class has it. That which calls what TorchScript compiled is
    called by tools that put a function of their own in its place."""
    if method.__name__ == "__call__" and args and issubclass(type(opened(args[0])), torch.jit.ScriptFunction):
        return call_scripted(world, opened(args[0]), args[1:], kwargs)
    refuse(breaks.UNKNOWN_NATIVE, describe(method))


# ---- functions with a cache that is none of the trace's business


FIND_IMPL: Any = vars(functools)["_find_impl"]


def find_implementation(cls: type, registry: dict[type, Any]) -> Any:
    return registry[cls] if cls in registry else FIND_IMPL(cls, registry)


_frame.set_decision(find_implementation.__code__, _frame.SKIP, _frame.INTERPRET)

DISPATCH = functools.singledispatch(find_implementation).dispatch.__code__


def call_dispatch(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The function that `functools.singledispatch` finds."""
    registry = world.functions.cells(fn)[DISPATCH.co_freevars.index("registry")].cell_contents
    return world.calls.invoke(find_implementation, *args, registry)


BY_CODE[id(DISPATCH)] = call_dispatch
BY_TYPE.update(
    {
        operator.attrgetter: call_attrgetter,
        operator.methodcaller: call_methodcaller,
        operator.itemgetter: call_itemgetter,
        weakref.ref: call_reference,
        weakref.KeyedRef: call_reference,
        typing.NewType: lambda world, fn, args, kwargs: fn(*args, **kwargs),
        torch.jit.ScriptFunction: call_scripted,
        UNBOUND: call_unbound,
    }
)

if type(torch.Generator) is not type:  # as in some versions of torch
    BY_TYPE[type(torch.Generator)] = call_torchs_class
