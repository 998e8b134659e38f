"""Every feature, in one list: importing this module registers them with the trace.

Those that are about a module which takes long to import are registered once the program has imported that.
Those that are built on torch's private operators are left out where torch does not have these: what they
would have served is then unknown, and breaks captures.
"""

from __future__ import annotations

import importlib
import sys

from framelift.core.torch_names import optional
from framelift.features import subclasses, torch_contexts, warning_filters
from framelift.features.autograd import forward as autograd_forward
from framelift.features.autograd import function as autograd_function
from framelift.features.autograd import handlers as autograd
from framelift.features.collectives import groups
from framelift.features.collectives import handlers as collectives
from framelift.features.collectives import values as collective_values
from framelift.features.hooks import module_hooks, tensor_hooks
from framelift.features.numpy import handlers as numpy
from framelift.features.numpy import values as numpy_values
from framelift.features.random import handlers as random
from framelift.rules import (
    builtins,
    called_objects,
    calls_left_out,
    classes,
    constants,
    containers,
    data_questions,
    families,
    functions,
    instances,
    iterators,
    module_calls,
    natives,
    python_twins,
    sequences,
    standard_library,
    symbolic_shapes,
    tensors,
    torch_functions,
    torch_python,
    torch_state,
)

OPTIONAL = (
    *("distributions", "nested_tensors", "optimizers", "pytrees", "storages"),
    *("higher_order.any_operator", "higher_order.checkpoint", "higher_order.control_flow"),
    *("higher_order.flex_attention", "higher_order.leaf_functions"),
    *("higher_order.nested_regions", "higher_order.operators"),
    *("higher_order.transforms", "higher_order.vmap", "higher_order.wrapping"),
)

FEATURES = (
    *(
        natives,
        called_objects,
        builtins,
        classes,
        standard_library,
        torch_functions,
        torch_python,
        torch_state,
    ),
    *(module_calls, python_twins),
    *(calls_left_out, data_questions, symbolic_shapes),
    *(constants, functions, instances, iterators, containers, sequences, tensors, families),
    *(
        autograd,
        autograd_forward,
        autograd_function,
        collective_values,
        collectives,
        groups,
        numpy,
        numpy_values,
        random,
    ),
    *(torch_contexts, subclasses, warning_filters),
    *(module_hooks, tensor_hooks),
    *filter(None, (optional(f"framelift.features.{name}") for name in OPTIONAL)),
)


def know_imported() -> None:
    """Called before a frame is traced."""
    groups.know_tensors()
    symbolic_shapes.know_questions()
    if "triton.runtime.autotuner" in sys.modules:
        importlib.import_module("framelift.features.triton_kernels").prepare()
