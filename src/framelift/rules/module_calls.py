"""Calls of modules: without hooks they are calls of `forward`, with others torch's own code is interpreted.

Forward hooks are often registered for one call (`handle = module.register_forward_hook(...)`, and afterwards
`handle.remove()`), with a number of their own each time, by which torch finds them. What counts is which
functions they are, and in which order: that is what is guarded.
"""

from __future__ import annotations

import collections
import functools
from types import MethodType
from typing import Any

import torch

from framelift import _frame
from framelift.core.sentinels import MISSING
from framelift.guards.kinds import HOOKS, Access, Check
from framelift.interpreter.calls import call
from framelift.interpreter.pending import Pending, opened
from framelift.rules.torch_python import initialise_before
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.plain_calls import GLOBAL_HOOKS, SCOPE
from framelift.trace.shadows import DELETED

AROUND_FORWARD = ("_forward_pre_hooks", "_forward_hooks")
FLAGS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
"""What notes of some hooks that they are called in another way."""


@serve(torch.nn.Module._wrapped_call_impl)
def serve_module_call(f: TraceFrame, called: Any, /, *args: Any, **kwargs: Any) -> Any:
    module, world = opened(called), f.world
    view = world.attributes.views.get(id(module))
    if view is not None:
        initialise_before(f, module, list(args), kwargs)
        forward = world.plain_calls.forward_of(view, module)
        if forward is not None:
            return world.replays.call(f, module, MethodType(forward, module), list(args), kwargs)
    by_torch = functools.partial(interpreted, f, torch.nn.Module._wrapped_call_impl, [called, *args], kwargs)
    if view is None or not world.identity.same(world.attributes.load(module, "_compiled_call_impl"), None):
        return by_torch()
    own_call = world.attributes.own(view, module, "_call_impl")
    by_class = world.classes.attribute(type(module), "_call_impl")
    if own_call is not DELETED or by_class is not torch.nn.Module._call_impl:
        return by_torch()
    has = {name: world.operators.truth(world.attributes.own(view, module, name)) for name in HOOKS}
    if any(there for name, there in has.items() if name not in AROUND_FORWARD):
        return by_torch()
    for name in GLOBAL_HOOKS:
        hooks = world.scopes.names(SCOPE).get(name, MISSING)
        if world.operators.truth(world.scopes.load(SCOPE, name) if hooks is MISSING else hooks):
            return by_torch()
    if not any(has.values()):
        return world.replays.call(f, module, world.attributes.load(module, "forward"), list(args), kwargs)
    if any(world.operators.truth(world.attributes.own(view, module, name)) for name in FLAGS):
        return by_torch()
    if not all(is_untouched(f, module, name) for name in AROUND_FORWARD):
        return by_torch()
    return call(f, call_with_hooks, [called, args, kwargs], None)


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is interpreted in the place of torch's code: hooks may register others while they run."""
    for hook, takes_kwargs in hooks_of(module, "_forward_pre_hooks"):
        if takes_kwargs:
            found = hook(module, args, kwargs)
            if found is not None:
                args, kwargs = found
            continue
        found = hook(module, args)
        if found is not None:
            args = found if isinstance(found, tuple) else (found,)
    result = module.forward(*args, **kwargs)
    for hook, takes_kwargs in hooks_of(module, "_forward_hooks"):
        hook_result = hook(module, args, kwargs, result) if takes_kwargs else hook(module, args, result)
        if hook_result is not None:
            result = hook_result
    return result


def hooks_of(module: Any, name: str) -> list[tuple[Any, bool]]:
    """The hooks of one kind, and whether each is given keyword arguments."""
    flagged = getattr(module, f"{name}_with_kwargs")
    return [(hook, number in flagged) for number, hook in getattr(module, name).items()]


for _function in (call_with_hooks, hooks_of):
    _frame.set_decision(_function.__code__, _frame.SKIP, _frame.INTERPRET)


@serve(hooks_of)
def serve_hooks(f: TraceFrame, module: Any, name: Any, /) -> Any:
    module, name, world = opened(module), opened(name), f.world
    if not is_untouched(f, module, name):
        return interpreted(f, hooks_of, [module, name], None)
    hooks = world.attributes.own(world.attributes.views[id(module)], module, name)
    world.guards.add(hooks.source, Check.TYPE, collections.OrderedDict)
    world.guards.add(hooks.source, Check.LEN, len(hooks.value))
    return [
        (Pending(world.inputs, hooks.source.child(Access.VALUE_AT, n), hook), False)
        for n, hook in enumerate(hooks.value.values())
    ]


def is_untouched(f: TraceFrame, module: Any, name: str) -> bool:
    """Whether nobody but torch has looked at the hooks of one kind, and so nobody at their numbers."""
    view = f.world.attributes.views.get(id(module))
    hooks = None if view is None else f.world.attributes.own(view, module, name)
    if type(hooks) is not Pending or hooks.opened is not MISSING:
        return False
    return type(hooks.value) is collections.OrderedDict and id(hooks.value) not in f.world.inputs.known
