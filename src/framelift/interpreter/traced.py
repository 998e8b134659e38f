"""All that traces serve: importing this fills the table."""

from framelift.interpreter import (
    random_numbers,
    torch_autograd,
    torch_calls,
    torch_collectives,
    torch_contexts,
    torch_distributed,
    torch_numpy,
    torch_optimizers,
    torch_subclasses,
    traced_library,
    traced_objects,
)
from framelift.interpreter.tracing import CALLING_BACK, TRACED, TracingMachine

__all__ = ["CALLING_BACK", "TRACED", "TracingMachine"]
del random_numbers, torch_autograd, torch_calls, torch_contexts, torch_numpy, torch_optimizers
del torch_collectives, torch_distributed, torch_subclasses, traced_library, traced_objects
