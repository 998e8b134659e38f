"""Operators that are given callables: each is traced as a graph within the graph (`trace/bodies.py`).

`control_flow` has `torch.cond` and loops, `vmap` and `transforms` have `torch.func`, `checkpoint` has
activation checkpoints, `flex_attention` and `nested_regions` what their names say. `wrapping` has operators
that say something about a function, `operators` those that are given another operator, `any_operator` all
that have no entry. `regions` is what those share that only call a function.
"""
