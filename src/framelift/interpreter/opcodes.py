"""The table of handlers: every opcode of CPython 3.11 to 3.14, in one module per purpose."""

from __future__ import annotations

from framelift.interpreter import (
    op_callable_first,
    op_calls,
    op_containers,
    op_control,
    op_generators,
    op_later,
    op_names,
    op_operators,
)
from framelift.interpreter.machine import HANDLERS

MODULES = (
    *(op_names, op_operators, op_containers, op_control, op_calls, op_callable_first, op_generators),
    op_later,
)

for module in MODULES:
    handlers = {name: value for name, value in vars(module).items() if name.isupper() and callable(value)}
    HANDLERS.update(handlers)
