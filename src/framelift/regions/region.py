"""A region: generated Python source that runs a graph and brings the program's state up to date.

Its parameters are the values that the guards' walk collects; it calls the compiled graph, makes the
values that live on, replays the writes to the outside, and returns. The source is registered with
`linecache`, so tracebacks and `explain` show it.

An operator may fail for what is in its arguments: then what the graph has done is undone, and the frame is
run as it is (`rerun.py`).
"""

from __future__ import annotations

import collections
import functools
import itertools
import linecache
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import increment_version
from torch.overrides import _push_mode

from framelift import _frame
from framelift.bytecode import slot_names
from framelift.bytecode.extend import TooLargeError
from framelift.bytecode.resume import Like, Point
from framelift.bytecode.stack_effects import NoStepError
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.core.written_functions import function_of_text
from framelift.graph.builder import as_input, is_converted
from framelift.graph.contexts import (
    enter,
    leave,
    leave_inference_modes,
    leave_statements,
    put_modes_aside,
    put_modes_back,
)
from framelift.graph.effects import set_memory
from framelift.graph.functions import describe
from framelift.graph.subclasses import overrides
from framelift.graph.torch_flags import TorchState, autocast_nesting, leave_autocast, set_flags
from framelift.guards.hashing import is_hashed_with_effects
from framelift.guards.sources import Source
from framelift.interpreter.frame import Frame
from framelift.interpreter.points import NoPointError, chain, made_for, standing
from framelift.regions.plan import Activation, Plan
from framelift.regions.rebuild import (
    Cyclic,
    Rebuild,
    asking_nobody,
    dictionary_of,
    is_plain_attribute,
)
from framelift.regions.rerun import (
    copies_of,
    drawing_again,
    has_written,
    put_back,
    run_again,
    versions_of,
    written_inputs,
)
from framelift.trace.outside_iterators import advance
from framelift.trace.shadows import DELETED, Change
from framelift.trace.world import TraceWorld
from framelift.trace.writes import Writes, raise_flags

_numbers = itertools.count()

set_grad = torch._C._set_grad_enabled


@dataclass
class Region:
    """The source and what it needs; `bind(graph)` makes the function."""

    name: str
    filename: str
    source: str
    constants: dict[str, Any]
    inputs: list[Source]
    outputs: list[Any]
    has_graph: bool
    signals_wait: bool = False
    """Whether signals must wait but for the time that the graph runs: it sets torch's modes or switches, and
    nothing must come in between two steps of that; or it begins in the middle of a frame, where a `try` or
    `with` statement may be open that would be passed over."""

    def bind(self, graph: Any) -> Callable[..., Any]:
        if self.signals_wait:
            graph = functools.partial(_frame.exposed, None, graph)
        namespace = {**self.constants, "graph": graph}
        made = function_of_text(self.source, self.name, self.filename, namespace)
        linecache.cache[self.filename] = (len(self.source), None, self.source.splitlines(True), self.filename)
        weakref.finalize(made, linecache.cache.pop, self.filename, None).atexit = False
        return functools.partial(_frame.shielded, made) if self.signals_wait else made


def next_filename(name: str) -> str:
    """What the source of one more region of a function goes by."""
    return f"<framelift region {next(_numbers)} of {name}>"


class Stopping:
    """The frames that a region ends in the middle of, innermost at an instruction that is to be done."""

    def __init__(self, innermost: Frame | None, step: bool = True) -> None:
        self.frames = chain(innermost)
        last = len(self.frames) - 1
        try:
            self.standings = [standing(frame, step or n < last) for n, frame in enumerate(self.frames)]
            activations = [
                Activation(found.point, surroundings(n, frame, found.point), self.made_by(n) is not MISSING)
                for n, (frame, found) in enumerate(zip(self.frames, self.standings, strict=True))
            ]
            self.plan = Plan(activations, step)
        except (NoPointError, TooLargeError, NoStepError) as error:
            raise Break(breaks.UNRESUMABLE, str(error)) from error

    def made_by(self, n: int) -> Any:
        """The new object that a frame waits for an `__init__` to initialise."""
        return made_for(self.frames[n], self.frames[n + 1]) if n + 1 < len(self.frames) else MISSING

    def values(self) -> tuple[Any, ...]:
        """All that is handed over, in one: what is shared between frames stays shared."""
        made = (self.made_by(n) for n in range(len(self.standings)))
        return tuple(
            (tuple(found.slots), tuple(found.stack), None if new is MISSING else new)
            for found, new in zip(self.standings, made, strict=True)
        )

    def variables(self) -> Iterator[tuple[str, Any]]:
        """Those of all frames, with what they hold."""
        for frame, found in zip(self.frames, self.standings, strict=True):
            yield from zip(slot_names(frame.code.code), found.slots, strict=False)  # no stack

    def written(self, world: TraceWorld, r: Rebuild, states: str) -> str:
        """What the region returns."""
        function = r.input(world.inputs.root.function(self.frames[0].func.__name__))
        return f"{r.own(self.plan.stop)}({function}, {states})"


def surroundings(level: int, frame: Frame, point: Point) -> Like | None:
    """What the plan keeps of a frame's function: where its cells are handed over, not those."""
    return Like(frame.func, closure=not point.takes_free) if level else None


def generate(
    world: TraceWorld, name: str, result: Any, switches: TorchState, stopping: Stopping | None = None
) -> Region:
    """The region that gives `result`, or stops; `switches` are torch's as the trace began."""
    writes = world.writes.collect()
    world.recorder.settle()
    late: frozenset[int] = frozenset()
    if stopping is not None:
        result = stopping.values()
    while True:
        try:
            return write(world, name, result, writes, switches, stopping, Rebuild(world, late))
        except Cyclic as found:
            late |= {found.args[0]}
        except RecursionError:
            raise Break(breaks.UNREBUILDABLE, "immutable containers nested too deeply") from None


def write(
    world: TraceWorld,
    name: str,
    result: Any,
    writes: Writes,
    switches: TorchState,
    stopping: Stopping | None,
    r: Rebuild,
) -> Region:
    recorder = world.recorder
    replay(world, writes, r)
    returned = r.value(result)  # an iterator has its place in what a container holds by then
    changed = switches.changed()
    if recorder.contexts.unfinished:
        changed.pop(set_grad, None)  # which inference modes set too, and put back as it was before each
    for setter, args in changed.items():
        arguments = ", ".join([r.constant(setter), *map(r.expression, args)])
        r.say(f"{r.constant(asking_nobody)}({arguments})")
    for manager in recorder.contexts.ranges_left:
        r.say(f"{r.constant(leave)}({r.value(manager)})")
    if recorder.modes.changed_device:
        device = recorder.modes.default_device.device if recorder.modes.default_device is not None else None
        r.say(f"{r.constant(torch.set_default_device)}({r.expression(device)})")
    for mode in recorder.modes.open:
        r.say(f"{r.constant(_push_mode)}({r.value(mode)})")
    for context in recorder.contexts.open:
        r.say(f"{r.constant(asking_nobody)}({r.constant(set_grad)}, {context.grad_before})")
        r.say(f"{r.constant(enter)}({r.value(context.manager)})")
    if recorder.contexts.unfinished:
        r.say(f"{r.constant(asking_nobody)}({r.constant(set_grad)}, {recorder.contexts.grad_after})")
    left = [f"{r.constant(leave)}({r.value(manager)})" for manager in recorder.contexts.left]
    if stopping is not None:
        returned = stopping.written(world, r, returned)
    hook_results(r)
    outputs = [output for _, output in r.outputs.values()]
    recorder.prepare(outputs)
    flagged = [(found, r.tensor(found.fake)) for found in recorder.requires_grad.flagged.values()]
    r.write_draws()
    more = recorder.finish(outputs)
    body: list[str] = []
    first: list[str] = []
    has_graph = not recorder.builder.empty or bool(outputs)
    if has_graph:
        given = [
            r.input(world.inputs.graph_input_source(node, value))
            for node, value, _ in recorder.inputs.entries
        ]
        for _, source in world.inputs.wrapped() if recorder.mutations.of_inputs else ():
            r.input(source)  # of which it is guarded with whom they share memory
        for n, (_, value, _) in enumerate(recorder.inputs.entries):
            if is_converted(value):
                given[n] = f"{r.constant(as_input)}({given[n]})"
        call = f"graph({', '.join(given)})"
        targets = [target for target, _ in r.outputs.values()] + ["_"] * more
        run = f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {call}" if targets else call
        first, ran = running(run, name, world, switches, r, flagged)
        body += ran
        for target, output in r.outputs.values():
            if type(output) is FakeTensor and output.is_inference():
                body.append(f"{target} = {r.constant(asking_nobody)}({r.constant(as_inference)}, {target})")
            if id(output) in recorder.histories.ended:
                ended, behind = recorder.histories.ended[id(output)]
                arguments = ", ".join([r.constant(ended), target, *map(r.tensor, behind)])
                body.append(f"{target} = {r.constant(asking_nobody)}({arguments})")
            elif id(output) in recorder.histories.retained:
                body.append(f"{r.constant(asking_nobody)}({target}.retain_grad)")
    elif recorder.modes.kept < len(recorder.modes.before):
        modes = f"{r.constant(put_modes_aside)}()[:{recorder.modes.kept}]"
        body.append(f"{r.constant(put_modes_back)}({modes})")
    leaves = recorder.histories.leaf_inputs
    body[:0] = [
        f"{r.constant(asking_nobody)}({name}.requires_grad_)"
        for found, name in flagged
        if id(found.fake) in leaves
    ]
    body += [
        f"{r.constant(asking_nobody)}({name}.requires_grad_, False)"
        for found, name in flagged
        if not found.requires_grad
    ]
    body = [*first, *left, *r.reads(), *r.draws(late=False), *body, *r.draws(late=True)]
    if r.lines and r.lines[-1].startswith(f"{returned} = "):
        returned = r.lines.pop().removeprefix(f"{returned} = ")
    body += [*r.lines, f"return {returned}"]
    identifier = f"region_of_{name}" if name.isidentifier() else "region"
    text = f"def {identifier}({', '.join(r.inputs.values())}):\n" + "".join(f"    {line}\n" for line in body)
    region = Region(identifier, next_filename(name), text, r.constants, list(r.inputs), outputs, has_graph)
    contexts, function_modes = recorder.contexts, recorder.modes
    region.signals_wait = bool(
        world.frame.goes_on
        or (recorder.flags.settings_to_apply() or switches.changed())
        or (function_modes.before or function_modes.open or function_modes.changed_device)
        or (contexts.left or contexts.open or contexts.ranges_left)
    )
    return region


def as_inference(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, as a tensor that inference mode has made: AOTAutograd runs nothing in that."""
    if tensor.is_inference() or type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return tensor
    with torch.inference_mode():
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def running(
    run: str, name: str, world: TraceWorld, switches: TorchState, r: Rebuild, flagged: list[Any]
) -> tuple[list[str], list[str]]:
    """What comes before all else, and the statements that run the graph: without the modes around the call,
    which are in it already. One that raises has raised at the beginning, so to speak: its own
    `with torch.no_grad()` is undone, and so is what was written and drawn. Then the frame runs as it is, or
    the `with` statements that were open at the beginning are left."""
    recorder = world.recorder
    first: list[str] = []
    before: list[str] = []
    undo: list[str] = []
    after: list[str] = []
    late = ""
    again = recorder.can_run_again()
    if again:
        first, undo = drawing_again(world, r)
        early, late = written_inputs(world, r)
        if early:
            before.append(f"copies = {r.constant(copies_of)}({early})")
            undo.append(f"{r.constant(put_back)}(copies)")
        if late:
            before.append(f"versions = {r.constant(versions_of)}({late})")
        leaves = recorder.histories.leaf_inputs
        undo += [f"{name}.requires_grad_(False)" for found, name in flagged if id(found.fake) in leaves]
    if recorder.modes.before:
        before.append(f"modes = {r.constant(put_modes_aside)}()")
        undo.append(f"{r.constant(put_modes_back)}(modes)")
        after.append(f"{r.constant(put_modes_back)}(modes[:{recorder.modes.kept}])")
    if recorder.contexts.sets_flags:
        began = r.own(switches)
        if recorder.contexts.left:  # which switches things too
            began = "switches"
            before.append(f"{began} = {r.constant(TorchState)}()")
        if recorder.contexts.enters_inference_mode:
            undo.append(f"{r.constant(leave_inference_modes)}(error)")
        if recorder.contexts.enters_autocast:
            before.append(f"nesting = {r.constant(autocast_nesting)}()")
            undo.append(f"{r.constant(leave_autocast)}(nesting)")
        undo.append(f"{began}.restore()")
    setting = recorder.flags.settings_to_apply()
    if setting:
        before.append(f"before = {r.constant(set_flags)}({r.own(setting)})")
        undo.insert(0, f"{r.constant(set_flags)}(before)")
        after.insert(0, f"{r.constant(set_flags)}(before)")
    if recorder.contexts.left:
        undo += [f"{r.constant(enter)}({r.value(manager)})" for manager in reversed(recorder.contexts.left)]
        undo.append(f"{r.own(switches)}.restore()")
    exits = [r.input(exit.source) for exit in world.frame.exits]
    if again:
        # what a compiler rounds otherwise may fail a check that the program passes
        checks = bool(world.raising_branches.made)
        handles = world.functions.handles_errors or checks
        given = ["error", r.own(name), repr(handles), repr(checks), *exits]
        if late:
            left_by = f"{r.constant(leave_statements)}({', '.join(['error', *exits])})"
            undo.append(f"if {r.constant(has_written)}(error, versions, {late}):")
            undo += [f"    {left_by}", "    raise"]
        undo.append(f"return {r.constant(run_again)}({', '.join(given)})")
    else:
        undo += [f"{r.constant(leave_statements)}(error, {', '.join(exits)})"] if exits else []
        undo += ["raise"] if undo else []
    if not undo:
        return first, [run]
    failing = [f"    {line}" for line in undo]
    return first, [*before, "try:", f"    {run}", "except BaseException as error:", *failing, *after]


# ---- hooks


def hook_results(r: Rebuild) -> None:
    """Gives results their hooks, if the hooks can be made."""
    histories = r.world.recorder.histories
    for _, fake in [*r.outputs.values()]:
        hooks = histories.hooks_of(fake) if type(fake) is FakeTensor else []
        if hooks and all(is_made(r, histories.hook_functions[node]) for node in hooks):
            histories.hook_result(fake, hooks)
    for fake, functions in histories.hooked_results.values():
        for function in functions:
            r.say(f"{r.output(fake)}.register_hook({r.value(function)})")


def is_made(r: Rebuild, function: Any) -> bool:
    """Whether a function can live on; what was begun is thrown away with what makes it."""
    try:
        Rebuild(r.world, r.late).value(function)
    except (Break, Cyclic):
        return False
    return True


# ---- writes


def replay(world: TraceWorld, writes: Writes, r: Rebuild) -> None:
    """Statements that write to the outside. All new values are made before the first is written."""
    statements: list[str] = []
    for call in writes.calls:
        if call.before_writes and id(call.tensor) in world.recorder.builder.body.changed:
            raise Break(breaks.EFFECT, f"Tensor.{call.method} on a tensor that is written to")
        name = r.result(f"{r.tensor(call.tensor)}.{call.method}", call.args, call.result)
        statements += [f"{name}.{method}()" for method in call.then]
    for report in writes.reports:
        given = [r.value(value) for value in report.args]
        given += [f"{name}={r.value(value)}" for name, value in report.kwargs.items()]
        changed = world.recorder.builder.body.changed
        if any(id(value) in changed for value in (*report.args, *report.kwargs.values())):
            raise Break(breaks.EFFECT, f"{describe(report.fn)} of a tensor that is written to afterwards")
        statements.append(f"{r.value(report.fn)}({', '.join(given)})")
    for change in writes.containers:
        statements += container_statements(change, r)
    for view, changes in writes.attributes:
        statements += attribute_statements(r.input(view.source), type(view.outside), changes, r)
    for view, changes in writes.scopes:
        target = r.input(view.source)
        for name, value in changes:
            if value is DELETED:
                statements.append(f"{target}.pop({name!r}, None)")
            else:
                statements.append(f"{target}[{name!r}] = {r.value(value)}")
    for cell, value in writes.cells:
        target = r.input(world.functions.cell_source(cell))
        if value is MISSING:
            statements.append(f"del {target}.cell_contents")
        else:
            statements.append(f"{target}.cell_contents = {r.value(value)}")
    for view, changes in writes.classes:
        statements += [f"{r.input(view.source)}.{name} = {r.value(value)}" for name, value in changes]
    for variable, value in writes.variables:
        statements.append(f"{r.constant(variable)}.set({r.value(value)})")
    for one, steps in writes.advances:
        statements.append(f"{r.constant(advance)}({r.input(one.source)}, {steps})")
    if writes.signals:
        statements.append(f"{r.constant(raise_flags)}({', '.join(map(r.constant, writes.signals))})")
    r.lines += statements


def attribute_statements(target: str, cls: type, changes: list[tuple[str, Any]], r: Rebuild) -> list[str]:
    """Past the class's own `__setattr__` and descriptors, whose work is among the changes already."""
    statements = []
    for name, value in changes:
        slot = slot_of(cls, name)
        if value is DELETED and slot is not None:
            statements.append(f"{r.constant(discard_slot)}({r.constant(slot)}, {target})")
        elif value is DELETED:
            statements.append(f"{dictionary_of(target, cls, r)}.pop({name!r}, None)")
        elif name == "set_" and issubclass(cls, torch.Tensor):
            statements.append(f"{r.constant(set_memory)}({target}, {r.value(value)})")
        elif is_plain_attribute(cls, name) or issubclass(cls, torch.Tensor):
            if issubclass(cls, torch.Tensor) and (overrides(cls) or r.world.recorder.modes.may_ask):
                given = f"{r.constant(setattr)}, {target}, {name!r}, {r.value(value)}"
                statements.append(f"{r.constant(asking_nobody)}({given})")
            else:
                statements.append(f"{target}.{name} = {r.value(value)}")
            if id(value) in r.world.recorder.reassignments.rewritten:
                statements.append(f"{r.constant(increment_version)}({target})")
        elif slot is not None:
            statements.append(f"{r.constant(slot)}.__set__({target}, {r.value(value)})")
        else:
            held = dictionary_of(target, cls, r)
            statements.append(f"{held}[{r.expression(name)}] = {r.value(value)}")
    return statements


def slot_of(cls: type, name: str) -> Any:
    """The descriptor of a slot, if that is what a name stands for."""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return found if type(found) is types.MemberDescriptorType else None


def discard_slot(slot: Any, obj: Any) -> None:
    """What was set and deleted again may never have been there outside."""
    try:
        slot.__delete__(obj)
    except AttributeError:
        pass


def container_statements(change: Change, r: Rebuild) -> list[str]:
    made = change.shadow
    target = r.input(made.source)
    cls = type(made.outside)
    statements = []
    for method, arguments in change.calls:
        for key in arguments[:1] if made.base in HASHING else ():
            if is_hashed_with_effects(key):
                raise Break(breaks.EFFECT, f"{type(key).__qualname__}.__hash__, of a key of {made.source}")
        given = [r.value(argument) for argument in arguments]
        if cls is not made.base:  # past the methods of the subclass, whose work is among the changes already
            statements.append(f"{r.constant(made.base)}.{method}({', '.join([target, *given])})")
        elif method in SUBSCRIPTS:
            statements.append(SUBSCRIPTS[method].format(target, *given))
        else:
            statements.append(f"{target}.{method}({', '.join(given)})")
    return statements + attribute_statements(target, cls, change.attributes, r)


HASHING = frozenset({dict, set, collections.OrderedDict, collections.defaultdict})
SUBSCRIPTS = {"__setitem__": "{}[{}] = {}", "__delitem__": "del {}[{}]"}
