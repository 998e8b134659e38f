"""Runs bytecode on real objects: frames, opcodes, calls, generators."""

from framelift.interpreter import opcodes as _opcodes  # fills the table of handlers
from framelift.interpreter.machine import Machine

__all__ = ["Machine"]
del _opcodes
