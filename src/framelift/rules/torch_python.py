"""torch's own Python, where it is interpreted but for a step: numbers that torch gives out, what C does for
`torch.fx`, and functions of TorchScript's."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import immutable_collections
from torch.fx.node import Node, map_aggregate, map_arg
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.pending import opened
from framelift.rules.torch_state import asked
from framelift.trace.callable_rules import Looks, functions_of, rule, serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.type_rules import Rebuilder, type_rule

# ---- handles of hooks


class HookNumber(int):
    """The number of a hook that the program registers. Which one it is, is known when the region runs."""


def next_hook_number() -> int:
    number: int = RemovableHandle.next_id
    RemovableHandle.next_id += 1
    return number


def rebuild_hook_number(r: Rebuilder, value: HookNumber) -> str:
    return r.variable(f"{r.own(next_hook_number)}()", value)


type_rule(HookNumber, rebuild=rebuild_hook_number)

MANY = 1 << 40
"""Where the numbers begin that stand for those of hooks: no hook from outside has one of them."""


@serve(RemovableHandle)
def serve_handle(f: TraceFrame, /, hooks_dict: Any, *, extra_dict: Any = None) -> Any:
    """torch counts the handles that it has made, in an attribute of their class."""
    made = object.__new__(RemovableHandle)
    world = f.world
    made.hooks_dict_ref = world.calls.invoke(weakref.ref, hooks_dict)
    made.id = HookNumber(MANY + id(made))
    made.extra_dict_ref = ()
    extra = opened(extra_dict)
    if extra is not None:
        extras = (extra,) if isinstance(extra, dict) else tuple(map(opened, extra))
        made.extra_dict_ref = tuple(world.calls.invoke(weakref.ref, each) for each in extras)
    return world.created.keep(made)


# ---- torch.fx


def mapped(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`map_aggregate`, which is C's."""
    if isinstance(a, tuple):
        items = mapped_items(a, fn)
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_collections.immutable_list(mapped_items(a, fn))
    if isinstance(a, dict):
        made: dict[Any, Any] = immutable_collections.immutable_dict()
        for key, item in a.items():
            dict.__setitem__(made, key, mapped(item, fn))
        return made
    if isinstance(a, slice):
        return slice(mapped(a.start, fn), mapped(a.stop, fn), mapped(a.step, fn))
    return fn(a)


def mapped_items(items: Any, fn: Callable[[Any], Any]) -> list[Any]:
    made = []
    for item in items:
        made.append(mapped(item, fn))
    return made


def mapped_nodes(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`map_arg`."""
    return mapped(a, only_nodes(fn))


def only_nodes(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda item: fn(item) if isinstance(item, Node) else item


for _fn in (mapped, mapped_items, mapped_nodes, only_nodes, only_nodes(id)):
    _frame.set_decision(_fn.__code__, _frame.SKIP, _frame.INTERPRET)


@serve(map_aggregate)
def serve_map_aggregate(f: TraceFrame, /, a: Any, fn: Any) -> Any:
    return interpreted(f, mapped, [a, fn], None)


@serve(map_arg)
def serve_map_arg(f: TraceFrame, /, a: Any, fn: Any) -> Any:
    return interpreted(f, mapped_nodes, [a, fn], None)


@serve(vars(torch.fx._symbolic_trace)["is_fx_tracing_warning"].__wrapped__)
def serve_tracing_warning(f: TraceFrame, /) -> Any:
    """It tells torch's users, once, of a better question."""


# ---- lazy modules


def initialise_before(f: TraceFrame, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Ends the trace, to begin once more when the module has its parameters: it makes them, for real, of the
    shapes that its first input has. Nothing that the program does may come before that."""
    world = f.world
    if not isinstance(module, LazyModuleMixin) or "_initialize_hook" not in vars(module) or module in FAILED:
        return
    drawn = world.recorder.random_numbers.drawn or world.runtime_calls.made
    if world.recorder.builder.in_body or drawn or world.writes.any_so_far():
        return
    given = pytree.tree_map_only(FakeTensor, as_meta, world.materialize.for_torch((args, kwargs)))
    world.frame.preparation = functools.partial(initialise, module, *given)
    raise Break(breaks.TENSOR_KIND, "the parameters of a lazy module")


def as_meta(fake: FakeTensor) -> torch.Tensor:
    return torch.empty_strided(
        tuple(map(int, fake.shape)), tuple(map(int, fake.stride())), dtype=fake.dtype, device="meta"
    )


def initialise(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
    try:
        module._infer_parameters(module, tuple(args), dict(kwargs))
    except Exception:  # which the program is to see where it calls the module
        FAILED.add(module)


# where it is called outside of all traces: parameters are made once, and nothing of that is worth a graph
_frame.set_decision(LazyModuleMixin._infer_parameters.__code__, _frame.SKIP_ALL, _frame.INTERPRET)

FAILED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Lazy modules that can't make their parameters of the shapes of their inputs alone."""


# ---- questions that C answers


@serve(type(torch.autograd.Variable._execution_engine).is_checkpoint_valid)
def serve_is_checkpoint_valid(f: TraceFrame, engine: Any, /) -> Any:
    """Whether the backward pass that runs in this thread, if one does, gives all gradients."""
    return asked(f, opened(engine).is_checkpoint_valid, [])


functions_of("torch._C._cpu", why="asks what the processor can do")
rule(
    *(getattr(torch._C, name) for name in ("_accelerator_getAccelerator",) if hasattr(torch._C, name)),
    looks=Looks.DEEP,
    why="asks how torch was built",
)
