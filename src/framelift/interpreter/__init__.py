"""Runs bytecode on real objects: frames, opcodes, calls, generators."""

from framelift.core.blame import all_act_for_program
from framelift.interpreter import calls, coroutines, frame_objects, generators, machine, opcodes, served
from framelift.interpreter.machine import Machine

__all__ = ["Machine"]

for module in (*opcodes.MODULES, calls, coroutines, frame_objects, generators, machine, served):
    all_act_for_program(module)
