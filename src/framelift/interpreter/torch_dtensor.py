"""Tensors of `torch.distributed.tensor`, and their placements. Imported when the program has that."""

from __future__ import annotations

from torch.distributed.tensor import placement_types

from framelift.interpreter.torch_distributed import serve_facts
from framelift.world.groups import know_placements

QUESTIONS = ("is_shard", "is_replicate", "is_partial", "__eq__", "__hash__")

for _class in know_placements(placement_types):
    serve_facts(*(getattr(_class, name) for name in QUESTIONS))
