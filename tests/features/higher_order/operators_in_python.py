"""The operators of control flow: as torch has them, and in plain Python."""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree


class Plain:
    """What the operators do, in plain Python."""

    @staticmethod
    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        return true_fn(*operands) if pred else false_fn(*operands)

    @staticmethod
    def while_loop(cond_fn: Any, body_fn: Any, carried: Any) -> Any:
        while cond_fn(*carried):
            carried = body_fn(*carried)
        return carried

    @staticmethod
    def map(f: Any, xs: Any, *args: Any) -> Any:
        leaves, spec = pytree.tree_flatten(xs)
        results = [f(pytree.tree_unflatten(one, spec), *args) for one in zip(*leaves, strict=True)]
        return pytree.tree_map(lambda *parts: torch.stack(parts), *results)

    @staticmethod
    def scan(combine_fn: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
        leaves, spec = pytree.tree_flatten(xs)
        rounds = list(zip(*(leaf.movedim(dim, 0) for leaf in leaves), strict=True))
        outputs = []
        for one in reversed(rounds) if reverse else rounds:
            init, out = combine_fn(init, pytree.tree_unflatten(one, spec))
            outputs.append(out)
        outputs = outputs[::-1] if reverse else outputs
        along = (
            dim if torch.__version__ >= (2, 13) else 0
        )  # torch 2.11 stacks along the first whatever is asked
        return init, pytree.tree_map(lambda *parts: torch.stack(parts, along), *outputs)

    @staticmethod
    def associative_scan(combine_fn: Any, xs: Any, dim: int, reverse: bool = False, **mode: Any) -> Any:
        def combine(left: Any, right: Any) -> Any:
            found = combine_fn(left, right)
            return found, found

        leaves, spec = pytree.tree_flatten(xs)
        parts = [leaf.movedim(dim, 0).flip(0) if reverse else leaf.movedim(dim, 0) for leaf in leaves]
        start = pytree.tree_unflatten([part[0] for part in parts], spec)
        _, rest = Plain.scan(combine, start, pytree.tree_unflatten([part[1:] for part in parts], spec))
        joined = [
            torch.cat([part[:1], more]) for part, more in zip(parts, pytree.tree_leaves(rest), strict=True)
        ]
        joined = [(part.flip(0) if reverse else part).movedim(0, dim) for part in joined]
        return pytree.tree_unflatten(joined, spec)


class Torch:
    cond = staticmethod(torch.cond)
    while_loop = staticmethod(while_loop)
    map = staticmethod(torch_map)
    scan = staticmethod(scan)
    associative_scan = staticmethod(associative_scan)
