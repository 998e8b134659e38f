"""Traces one frame: from a function and its bound arguments to a graph, guards and a region.

Nothing of the program is changed by it, whether it succeeds or not: writes are kept in the world,
torch's global state is put back, and what the trace made is dropped.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
import torch.fx

from framelift import _frame, _guards
from framelift.bytecode import slot_names
from framelift.codegen.region import Region, generate
from framelift.core import breaks
from framelift.core.breaks import Break, Place
from framelift.guards.program import GuardProgram, build, storage_groups
from framelift.interpreter import Machine
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import decoded
from framelift.interpreter.torch_calls import TracingMachine
from framelift.tensors.recorder import Recorder
from framelift.tensors.torch_state import TorchState
from framelift.world.guard import Check
from framelift.world.pending import Pending
from framelift.world.world import World

__all__ = ["Captured", "EscapedError", "capture"]


@dataclass
class Captured:
    """A frame that was captured whole."""

    fn_name: str
    graph: torch.fx.GraphModule | None
    example_inputs: list[torch.Tensor]
    program: GuardProgram
    region: Region
    seconds: float = 0.0
    ops: list[Any] = field(default_factory=list)

    def release(self) -> None:
        """Lets go of tensors and fakes once the backend has seen them."""
        self.example_inputs = []
        self.region.outputs = []


class EscapedError(Exception):
    """The traced program raised, and nothing in the frame caught it: the frame is to run plainly."""


def capture(fn: FunctionType, arguments: list[Any]) -> Captured:
    """Raises Break where the frame can't be captured, EscapedError where the program raises."""
    began = time.perf_counter()
    state = _guards.GlobalState()
    switches = TorchState()
    machine: Machine
    recorder = Recorder(lambda: where(machine))
    world = World(recorder)
    machine = world.machine = TracingMachine(world)
    world.frame_function, world.frame_globals = fn, fn.__globals__
    names = slot_names(fn.__code__)
    pending = [Pending(world, world.root.argument(n, names[n]), value) for n, value in enumerate(arguments)]
    packed = fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount
    world.fresh = {value.source for value in pending[packed:]}
    frame = Frame(machine, fn, decoded(fn.__code__), pending)
    with switches:
        result = run(machine, world, frame)
        try:
            region = generate(world, fn.__name__, result, switches)
        except Break as found:
            found.stack = found.stack or [Place(fn.__code__, fn.__code__.co_firstlineno)]
            raise
        program = guard_program(world, region, state)
    module = None
    if region.has_graph:
        module = torch.fx.GraphModule(torch.nn.Module(), recorder.graph, class_name="Captured")
    inputs = [tensor for _, tensor, _ in recorder.inputs]
    ops = [node.target for node in recorder.graph.nodes if node.op.startswith("call")]
    captured = Captured(fn.__qualname__, module, inputs, program, region, ops=ops)
    captured.seconds = time.perf_counter() - began
    return captured


def run(machine: Machine, world: World, frame: Frame) -> Any:
    """The frame's result, under the interpreter; the hook hands it the frames that C enters."""
    before = _frame.set_interceptor(machine.enter)
    try:
        with quiet_fakes(), world.recorder.fakes, world.recorder:
            result = _frame.untouched(machine.run, frame)
        if world.broken is not None:
            raise world.broken
        return result
    except Break as found:
        found = world.broken or found
        found.__traceback__ = None
        raise found from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if world.broken is not None:
            raise world.broken from None
        raise EscapedError(error) from error
    finally:
        _frame.set_interceptor(before)


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """An operator that fails on fakes is an error of the program's, which it gets; torch need not log it."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def where(machine: Machine) -> str:
    """The innermost place in the user's code, for a node's stack trace."""
    frame = machine.frame
    if frame is None:
        return ""
    code = frame.code.code
    return f'  File "{code.co_filename}", line {frame.line}, in {code.co_name}\n'


def guard_program(world: World, region: Region, state: Any) -> GuardProgram:
    """The guards of everything the trace read, and the walk that collects the region's inputs."""
    for fn in world.inlined.values():
        world.guard(world.root.constant(fn, fn.__qualname__), Check.CODE, fn.__code__)
    world.guard_sighted(region.inputs)
    storages = None
    recorder = world.recorder
    slots = {source: n for n, source in enumerate(region.inputs)}
    mutated = any(id(fake) in recorder.mutated for _, _, fake in recorder.inputs)
    if mutated:
        tensors = [(slots[world.known[id(tensor)].source], tensor) for _, tensor, _ in recorder.inputs]
        storages = storage_groups(tensors)
    guards = list(world.guards.values())
    return build(guards, list(world.class_guards.values()), state, region.inputs, storages)


def check_frame(fn: FunctionType) -> None:
    if fn.__code__.co_flags & 0x2A0:
        raise Break(breaks.GENERATOR_FRAME, fn.__qualname__)
