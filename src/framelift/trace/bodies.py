"""Traces a callable as a body: a graph of its own, whose operands are what it uses from around it.

The second half is what operators share that are given one or more of them, and the table of these operators.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree

from framelift import _frame, _guards
from framelift.core import breaks
from framelift.core.blame import note_handler
from framelift.core.breaks import Break
from framelift.graph.body import GraphBody, share_operands
from framelift.graph.op_memory import storage
from framelift.graph.recorder import Recorder
from framelift.graph.symbols import SYMBOLIC
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.callable_rules import serve
from framelift.trace.machine import calls_back
from framelift.trace.part import Part
from framelift.trace.shadows import change_of
from framelift.trace.world import TraceWorld

# ---- bodies


@contextlib.contextmanager
def body(
    world: TraceWorld,
    what: str,
    inputs: Sequence[Any] = (),
    *,
    callee: Any = None,
    may_write: bool = False,
    grad: bool | None = None,
    floats: bool = False,
    in_backward: bool = False,
    effects: bool = False,
) -> Iterator[GraphBody]:
    """Calls within are recorded in a body, which is to be closed; the operator gives it the `inputs`. It runs
    later, or never, or more than once: so it must change nothing from outside, nor what was made in the trace
    and can be reached from the `callee`, nor, unless it `may_write` to them, the tensors that it is given.
    One that plain Python would run here and just once may have `effects`: the trace has run it once too."""
    around = None if effects else Unchanged(world, what, callee)
    recorder = world.recorder
    with recorder.higher_order.body(grad, takes_floats=floats, in_backward=in_backward) as made:
        for value in inputs:
            recorder.builder.operator_input(value)
        yield made
        if around is not None:
            around.check()
        if not may_write:
            refuse_writes(made, what)


CHANGE = "a change to"


class Unchanged:
    """What is around a body when it begins, to be compared when it ends."""

    def __init__(self, world: TraceWorld, what: str, callee: Any = None) -> None:
        self.world = world
        self.what = what
        self.effects = effects(world)
        self.reached: dict[int, Any] = {}
        if callee is not None:
            reach(world, callee, self.reached)
        self.states = {key: state_of(found) for key, found in self.reached.items()}

    def check(self) -> None:
        for key, found in self.reached.items():
            now, before = state_of(found), self.states[key]
            if len(now) != len(before) or not all(map(is_same, now, before)):
                kind = type(found).__name__
                raise Break(breaks.EFFECT, f"{CHANGE} a {kind} from outside in {self.what}")
        if effects(self.world) != self.effects:
            raise Break(breaks.EFFECT, f"{CHANGE} something from outside in {self.what}")


def refuse_writes(made: GraphBody, what: str) -> None:
    """What is run once more must not change tensors that it is given."""
    for value in made.given:
        if id(value) in made.changed:
            place = made.changed[id(value)]
            where = f", in line {place.line}: {place.expression}" if place is not None else ""
            raise Break(breaks.EFFECT, f"{CHANGE} a tensor from outside in {what}{where}")


@contextlib.contextmanager
def breaks_named(what: str) -> Iterator[None]:
    """A break in a callable says which one it is in."""
    try:
        yield
    except Break as found:
        found.context = f"{found.context}, in {what}" if found.context else f"in {what}"
        _, of, operator = what.rpartition(" of ")
        found.body_of = found.body_of or (operator if of else "")
        raise


# ---- what a body may not change


def is_same(now: Any, before: Any) -> bool:
    return unchanged(now, before) or (type(now) is type(before) is str and now == before)


UNREACHED: tuple[type, ...] = (torch.Tensor, types.ModuleType, types.CodeType, type, Pending)
UNREACHED += (TraceWorld, Part, Recorder, torch.fx.Graph, torch.fx.Node, GraphBody, *SYMBOLIC)
"""What is looked after elsewhere."""
STATELY = (dict, bytearray)
"""What the collector may not know of, though it changes."""


def reach(world: TraceWorld, value: Any, reached: dict[int, Any]) -> None:
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, UNREACHED) or id(value) in reached or id(value) in world.attributes.views:
            continue
        if gc.is_tracked(value) or isinstance(value, STATELY):
            reached[id(value)] = value
            left += state_of(value)


def state_of(value: Any) -> list[Any]:
    """What an object refers to; of an iterator of C's also how far it is."""
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__]
    if type(value) is bytearray:
        return list(value)
    if type(value).__dictoffset__:
        _ = value.__dict__  # from here on a dict of its own, which is what it refers to then
    found = gc.get_referents(value)
    if hasattr(type(value), "__next__") and type(value).__module__ in ("builtins", "itertools"):
        found += [str(operator.length_hint(value, -1)), repr(value)]
    return found


@contextlib.contextmanager
def no_changes(operator: str) -> Iterator[None]:
    """Torch itself captures the functions of an operator when that is called plainly, and raises an error if
    one changes something: so it is one here, and no break behind which the program would go on."""
    try:
        yield
    except Break as found:
        if found.reason is breaks.EFFECT and found.context.startswith(CHANGE):
            found.operator = operator
        raise


def effects(world: TraceWorld) -> list[Any]:
    """What would be written to the outside, by the identity of what is written."""
    changes = [change for change in map(change_of, list(world.containers.shadows.values())) if change]
    found: list[Any] = []
    for change in changes:
        calls = [(method, *map(id, given)) for method, given in change.calls]
        found.append((id(change.shadow), calls, named(change.attributes)))
    found += [(id(blind), len(blind.calls)) for blind in world.containers.blind.values()]
    views = (*world.attributes.views.values(), *world.scopes.views.values(), *world.classes.views.values())
    found += [(id(view), named(written)) for view in views if (written := view.changes())]
    found += [(id(cell), id(now)) for cell, now in world.functions.changed_cells()]
    found += [(id(call), tuple(call.then)) for call in world.writes.calls]
    found += [(id(variable), id(now)) for variable, now in world.context_variables.changes()]
    found += [(id(one), steps) for one, steps in world.iterators.advanced()]
    return found


def named(changes: list[tuple[str, Any]]) -> list[tuple[str, int]]:
    return [(name, id(value)) for name, value in changes]


# ---- operators


def captures(*operators: Any) -> Any:
    """Registers how a trace captures calls of an operator that is given callables:
    `handler(world, *args, **kwargs)` gets the arguments as the program gave them, and gives the result.

    An operator is a function, or one of torch's `HigherOrderOperator`s. A handler usually calls `traced` for
    each callable, then `record`; see docs/higher_order.md.
    """

    def register(handler: Any) -> Any:
        calls_back(handler)
        note_handler(handler)

        def serve_operator(f: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                if f.world.recorder.modes.asks_program:  # and those are not there in the bodies
                    return f.world.overrides.ask_modes(called, args, kwargs)
                return handler(f.world, *args, **kwargs)
            except Break as found:
                entries = f.world.recorder.inputs.entries
                with torch._C.DisableTorchFunction():
                    requiring = any(getattr(entry.stand_in, "requires_grad", False) for entry in entries)
                found.of_differentiated_operator = torch.is_grad_enabled() and requiring
                raise

        for one in operators:
            HIGHER_ORDER_OPERATORS[one] = handler
            if isinstance(one, HigherOrderOperator):
                serve(type(one).__call__)(serve_operator)
            else:
                serve(one)(lambda f, /, *args, **kwargs: handler(f.world, *args, **kwargs))
        return handler

    return register


def interpret(*functions: Any) -> None:
    """Functions of torch's that a trace interprets, and those that they make."""
    codes = [function.__code__ for function in functions]
    while codes:
        code = codes.pop()
        _frame.set_decision(code, _frame.SKIP, _frame.INTERPRET)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


HIGHER_ORDER_OPERATORS: dict[Any, Any] = {}
"""Operator -> its handler."""


@dataclass(eq=False)
class Traced:
    """A callable that was traced as a body, and what it gives."""

    operator: str
    role: str
    """What the operator calls it: "true_fn"."""
    body: GraphBody
    leaves: list[Any]
    """Tensors, numbers and what else is in its result."""
    spec: pytree.TreeSpec

    @property
    def tensors(self) -> list[Any]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    @property
    def name(self) -> str:
        return f"{self.role} of {self.operator}"

    def flat(self, part: Any) -> Traced:
        """A part of its result, as a list of what is in there."""
        leaves = pytree.tree_leaves(part)
        return replace(self, leaves=leaves, spec=pytree.tree_structure(leaves))

    def result(self, tensors: Iterable[Any]) -> Any:
        """The same, with other tensors."""
        found = iter(tensors)
        leaves = [next(found) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        return pytree.tree_unflatten(leaves, self.spec)


def traced(
    world: TraceWorld,
    operator: str,
    role: str,
    fn: Any,
    args: Sequence[Any],
    inputs: Sequence[Any] = (),
    grad: bool | None = None,
    bare: bool = False,
    aliases: bool = False,
    numbers: bool = False,
    floats: bool = False,
    once: bool = False,
    in_backward: bool = False,
    effects: bool = False,
) -> Traced:
    """Calls `fn(*args)` as a body that gives the tensors of its result; the operator gives it the `inputs`,
    and all others that it uses are operands. It may not change anything that it is given. The graph of a
    `bare` one gives the one tensor, and not a tuple of it; with `numbers` it gives these too. What an
    operator of our own runs may use `floats` from around it that vary; what is run `once`, gradients or not,
    may draw random numbers; what runs `in_backward` runs when gradients are computed; what is called just
    once, and here, may have `effects`."""
    recorder, what = world.recorder, f"{role} of {operator}"
    grad = torch.is_grad_enabled() if grad is None else grad
    settings: dict[str, Any] = {"grad": grad, "floats": floats, "in_backward": in_backward}
    settings["effects"] = effects
    with body(world, what, inputs, callee=(fn, args), **settings) as made:
        with breaks_named(what):
            out = world.materialize.for_torch(world.calls.invoke(fn, *args))
        found = Traced(operator, role, made, *pytree.tree_flatten(out))
        outputs = recorder.builder.argument(fn, tuple(found.leaves if numbers else found.tensors))
        recorder.higher_order.close(made, outputs[0] if bare and outputs else outputs, grad)
        drawn_again = made.draws and not once and differentiated(made)
    if not aliases:  # after what it changes was looked at, which is an error
        refuse_aliases(found)
    if drawn_again:  # torch runs a body again for its gradients, which would draw other numbers
        raise Break(breaks.RANDOM, f"{what}, which is differentiated")
    return found


def differentiated(made: GraphBody) -> bool:
    with torch._C.DisableTorchFunction():
        requiring = any(isinstance(value, torch.Tensor) and value.requires_grad for value in made.given)
        return torch.is_grad_enabled() and requiring


def fresh(recorder: Recorder, tensor: Any, sizes: Any = None, requires_grad: bool | None = None) -> Any:
    """Another dense tensor that looks the same, to be given to a body. Nothing else knows it: what a body
    leaves behind of it can't be used outside."""
    with torch._C.DisableTorchFunction(), recorder.fakes:
        sizes = tensor.shape if sizes is None else sizes
        made = torch.empty(sizes, dtype=tensor.dtype, device=tensor.device)
        if tensor.requires_grad if requires_grad is None else requires_grad:
            _guards.fake_history(made)
    return made


def refuse_aliases(found: Traced) -> None:
    """Torch takes no body that gives back what it was given, or a view of it, or the same tensor twice."""
    given = [value for value in found.body.given if isinstance(value, torch.Tensor)]
    with torch._C.DisableTorchFunction():
        seen = {storage(value): "something that it is given" for value in given}
        places = [storage(tensor) for tensor in found.tensors]
    for n, place in enumerate(places):
        before = seen.setdefault(place, f"output {n}")
        if before != f"output {n}":
            raise disagree(found, f"output {n} shares memory with {before}; give a clone of it")


def disagree(found: Traced, problem: str) -> Break:
    _, of, operator = found.name.rpartition(" of ")
    return Break(breaks.BODIES, f"{found.name}: {problem}", body_of=operator if of else "")


def agree(one: Traced, leaves: list[Any], other: str, spec: pytree.TreeSpec | None = None) -> None:
    """What a callable gives must look like what `other` gives, in everything that code after it relies on."""
    spec = pytree.tree_structure(leaves) if spec is None else spec
    if one.spec != spec:
        raise disagree(one, f"it gives {structure(one.spec)}, but {other} {structure(spec)}")
    with torch._C.DisableTorchFunction():
        for n, (found, expected) in enumerate(zip(one.leaves, leaves, strict=True)):
            for name, has, should in differences(found, expected):
                raise disagree(one, f"output {n} has {name} {has}, but that of {other} has {should}")


def differences(found: Any, expected: Any) -> Iterator[tuple[str, Any, Any]]:
    if not (isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor)):
        if type(found) is not type(expected):
            yield "type", type(found).__name__, type(expected).__name__
        elif found != expected:
            yield "the value", found, expected
        return
    for name in ("dtype", "device", "layout", "shape"):
        has, should = getattr(found, name), getattr(expected, name)
        if has != should:
            yield name, describe_value(has), describe_value(should)
    if found.layout is torch.strided and found.stride() != expected.stride():
        yield "strides", found.stride(), expected.stride()


def describe_value(value: Any) -> Any:
    return tuple(value) if isinstance(value, torch.Size) else value


def structure(spec: pytree.TreeSpec) -> str:
    return str(pytree.tree_unflatten(["*"] * spec.num_leaves, spec)).replace("'*'", "*")


def record(world: TraceWorld, operator: Any, bodies: list[Traced], arrange: Any, **settings: Any) -> Any:
    """Adds the operator to the graph, on `arrange(modules, operands)`; gives what it gives for fakes."""
    operands = share_operands([one.body for one in bodies])
    modules = [one.body.module() for one in bodies]
    names = {one.role: module for one, module in zip(bodies, modules, strict=True)}
    out = world.recorder.higher_order.call(operator, names, arrange(modules, tuple(operands)), settings)
    return list(out)
