"""Calls of functions that a graph keeps as they are: `nonstrict_trace`, and leaf functions.

They are given the tensors and numbers that their arguments consist of; what these are made of beside them is
part of what is called.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch._guards import detect_fake_mode
from torch.nn.utils.stateless import _reparametrize_module

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.guards.kinds import Check
from framelift.interpreter.pending import opened

LEAVES = (
    *(torch.Tensor, int, float, bool, complex, str, type(None), torch.SymInt, torch.SymFloat, torch.SymBool),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator),
)
"""What the arguments and results may consist of."""


def tensors_of_modules(leaves: list[Any]) -> list[dict[str, torch.Tensor]]:
    """The parameters and buffers of each module, under all of their names. It is interpreted, so that what is
    read is guarded; a comprehension would be a function of its own."""
    found = []
    for leaf in leaves:
        if isinstance(leaf, torch.nn.Module):
            tensors: dict[str, torch.Tensor] = dict(leaf.named_parameters(remove_duplicate=False))
            tensors.update(leaf.named_buffers(remove_duplicate=False))
            for part in leaf.modules():
                if part.training:  # which the call relies on
                    continue
            found.append(tensors)
    return found


_frame.set_decision(tensors_of_modules.__code__, _frame.SKIP, _frame.INTERPRET)


def flat_arguments(
    world: Any, fn: Any, spec: Any, leaves: Any, tensors: Any, mark: str
) -> tuple[list[Any], list[ModuleArgument | None], pytree.TreeSpec]:
    """What a call in the graph is given, which arguments are modules, and how all belong together. `tensors`:
    those of the modules among the parts; `mark`: what the function is marked with."""
    for_torch = world.materialize.for_torch
    held = iter(opened(tensors))
    given: list[Any] = []
    modules: list[ModuleArgument | None] = []
    for leaf in map(opened, opened(leaves)):
        if isinstance(leaf, torch.nn.Module):
            own = opened(next(held))
            modules.append(ModuleArgument(guarded_module(world, leaf, mark), tuple(own)))
            given += map(for_torch, own.values())
        else:
            modules.append(None)
            given.append(for_torch(leaf))
    for leaf in given:
        check_leaf(leaf, "Invalid input type", f"{getattr(fn, '__qualname__', fn)} with", mark)
    return given, modules, real_spec(world, spec)


def guarded_module(world: Any, module: torch.nn.Module, mark: str) -> weakref.ref[torch.nn.Module]:
    """A module that the call is made with: another one, or one that is gone, is another capture."""
    source = world.inputs.source_of(module)
    if source is None:
        raise Break(breaks.GRAPH_ARGUMENT, f"{mark}: a module that is made in the captured code")
    world.guards.add(source, Check.IS, module)
    return weakref.ref(module)


def real_spec(world: Any, spec: Any) -> Any:
    """A description of a structure as plain Python has it; what is from outside in it is guarded."""
    spec = opened(spec)
    if world.inputs.source_of(spec) is not None or type(spec) is not pytree.TreeSpec:
        return spec  # one of torch's own, such as that of a leaf
    children = [real_spec(world, child) for child in opened(spec._children)]
    return pytree.TreeSpec(opened(spec.type), constant(world, spec._context), children)


def constant(world: Any, value: Any) -> Any:
    """What a structure's description knows beside the parts: keys, or an object that counts as a constant, of
    which another is another structure."""
    value = opened(value)
    source = world.inputs.source_of(value)
    if source is not None:
        world.guards.add(source, Check.IS, value)
        return value
    if type(value) is pytree.ConstantNode:
        return pytree.ConstantNode(constant(world, value.value))
    if type(value) in (tuple, list):
        return type(value)(constant(world, each) for each in value)
    if type(value).__module__ != "builtins" and hasattr(value, "__dict__"):
        for name, held in vars(value).items():
            vars(value)[name] = constant(world, held)
        return value
    return world.materialize.for_c(value)


def check_leaf(leaf: Any, problem: str, what: str, mark: str) -> None:
    """`problem`: what torch calls it."""
    if not isinstance(leaf, LEAVES):
        kind = type(leaf).__name__
        why = f"{what} a {kind}: its class is not registered (torch.utils._pytree.register_pytree_node)"
        problem = f"{problem} for {mark}-ed function"
        raise Break(breaks.GRAPH_ARGUMENT, f"{mark}: {problem}: {why}")


class ModuleArgument(NamedTuple):
    """A module among the parts of the arguments."""

    module: weakref.ref[torch.nn.Module]
    names: tuple[str, ...]
    """Those of its parameters and buffers, which the call is given in its place."""


class FlatCall:
    """Calls a function with the parts that its arguments consist of, and gives those of its result."""

    def __init__(
        self,
        fn: Callable[..., Any],
        spec: pytree.TreeSpec,
        modules: list[ModuleArgument | None],
        mark: str,
    ) -> None:
        self.fn, self.spec, self.modules = fn, spec, modules
        self.result: pytree.TreeSpec | None = None
        """How the result is put together."""
        self.mark = mark

    def __call__(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        with contextlib.ExitStack() as stack:
            args, kwargs = pytree.tree_unflatten(list(self.parts(leaves, stack)), self.spec)
            stack.enter_context(real_tensors_allowed(leaves))
            found, result = pytree.tree_flatten(_frame.untouched(self.fn, *args, **kwargs))
        for leaf in found:
            check_leaf(
                leaf,
                "Unsupported output type",
                f"{getattr(self.fn, '__qualname__', self.fn)} gives",
                self.mark,
            )
        if self.result is None:
            self.result = result
        elif result != self.result:
            raise RuntimeError(f"{self.fn} gives a result of another structure than when it was captured")
        return tuple(found)

    def parts(self, leaves: tuple[Any, ...], stack: contextlib.ExitStack) -> Iterator[Any]:
        """The parts of the arguments; modules have the tensors that were given until the stack is left."""
        given = iter(leaves)
        for argument in self.modules:
            if argument is None:
                yield next(given)
                continue
            module = argument.module()
            assert module is not None  # as it is guarded
            tensors = {name: next(given) for name in argument.names}
            stack.enter_context(_reparametrize_module(module, tensors))
            yield module


def as_target(call: Callable[[tuple[Any, ...]], tuple[Any, ...]], fn: Any) -> Any:
    """A function by the name of the one that is called, as graphs show it."""

    @functools.wraps(fn, updated=())
    def flat(*leaves: Any) -> tuple[Any, ...]:
        return call(leaves)

    made: Any = flat
    del made.__wrapped__
    _frame.set_decision(made.__code__, _frame.SKIP, _frame.REFUSE)
    return made


@contextlib.contextmanager
def real_tensors_allowed(leaves: Any) -> Iterator[None]:
    """Fake tensors meet those that the function finds elsewhere."""
    mode = detect_fake_mode(leaves)
    before = mode is not None and mode.allow_non_fake_inputs
    if mode is not None:
        mode.allow_non_fake_inputs = True
    try:
        yield
    finally:
        if mode is not None:
            mode.allow_non_fake_inputs = before
