"""All that traces serve: importing this fills the table."""

from framelift.interpreter import (
    torch_calls,
    torch_contexts,
    torch_optimizers,
    torch_subclasses,
    traced_library,
    traced_objects,
)
from framelift.interpreter.tracing import TRACED, TracingMachine

__all__ = ["TRACED", "TracingMachine"]
del torch_calls, torch_contexts, torch_optimizers, torch_subclasses, traced_library, traced_objects
