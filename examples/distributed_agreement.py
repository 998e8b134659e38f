"""Ranks that would compile different things: told apart by name, or brought to agree.

torchrun --nproc-per-node 2 examples/distributed_agreement.py
"""

import torch
import torch.distributed as dist

import framelift

dist.init_process_group("gloo")
rank = dist.get_rank()


def shared(x: torch.Tensor, sine: bool) -> torch.Tensor:
    y = x.sin() if sine else x.cos()
    return y * x.size(0)


with framelift.config.patch(rank_agreement="check"):
    try:
        framelift.compile(shared, backend="eager")(torch.ones(3), rank == 0)
    except framelift.exc.RanksDisagree as error:
        if rank == 0:
            print(error)

with framelift.config.patch(rank_agreement="agree"):
    compiled = framelift.compile(shared, backend="eager", fullgraph=True)
    for extra in range(3):  # sizes differ between ranks, so they vary on all of them, from the first call on
        x = torch.ones(3 + rank + extra)
        torch.testing.assert_close(compiled(x, True), shared(x, True))
    captures = [note for note in framelift.compile_records() if note.name == "shared" and not note.failed]
    if rank == 0:
        print(f"{len(captures)} capture for {extra + 1} sizes")
dist.destroy_process_group()
