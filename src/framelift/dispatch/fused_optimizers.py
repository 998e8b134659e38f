"""Fused steps of Adam, as AOTAutograd can follow them.

The last list that such a step may write to is empty unless it is AMSGrad, and AOTAutograd takes an empty list
for one that it does not follow (torch 2.13). So the step is called by another name, as an operator that
does not write to that list; as such it also works in place, without copies of all parameters.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

NAMESPACE = "framelift"
UNUSED = "Tensor(e!)[] max_exp_avg_sqs"
"""As the schema has it."""
STEPS = {torch._fused_adam_: torch.ops.aten._fused_adam_, torch._fused_adamw_: torch.ops.aten._fused_adamw_}


def name_fused_steps(module: torch.fx.GraphModule) -> None:
    """Changes a graph that AOTAutograd is to be given."""
    found = [
        step
        for function in STEPS
        for step in module.graph.find_nodes(op="call_function", target=function)
        if step.args[0] and not step.args[4]
    ]
    for step in found:
        step.target = defined(STEPS[step.target])
    if found:
        module.recompile()


@functools.cache
def defined(steps: Any) -> Any:
    name = steps.__name__
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    libraries.append(library)
    for overload in steps.overloads():
        operator = getattr(steps, overload)
        schema = str(operator._schema).replace("aten::", "")
        library.define(schema.replace(UNUSED, "Tensor[] max_exp_avg_sqs"))
        full_name = name if overload == "default" else f"{name}.{overload}"
        library.impl(full_name, operator, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{full_name}", gives_nothing, lib=library)
    return getattr(getattr(torch.ops, NAMESPACE), name)


def gives_nothing(*args: Any, **kwargs: Any) -> None:
    return None


libraries: list[torch.library.Library] = []
"""Operators are there as long as these are."""
