"""What the process that ranks are forked off has loaded: all that compiling takes, so that no rank has to."""

import torch
import torch.distributed._functional_collectives
import torch.distributed.tensor.parallel

import framelift
import process_groups as process_groups

torch.set_num_threads(1)


# For a backward pass, which AOTAutograd traces, a build for CUDA starts threads; ranks would have none.
@framelift.compile(backend="eager" if torch.backends.cuda.is_built() else "aot_eager", fullgraph=True)
def compiled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, x).sum()


compiled(torch.ones(2, 2, requires_grad=True))
framelift.reset()
