"""What is wrong with a call of an operator: told with the operator, the function and the line."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch.func import grad
from torch.utils.checkpoint import checkpoint

import framelift
from framelift.exc import Unsupported

TOTAL = torch.zeros(3)
SEEN: list[int] = []


def speaks(y: Any) -> Any:
    print("here")
    return y + 1


def asks(y: Any) -> Any:
    return y * 2 if y.sum() > 0 else y


def remembers(y: Any) -> Any:
    SEEN.append(1)
    return y + 1


def adds(y: Any) -> Any:
    TOTAL.add_(1)
    return y + TOTAL


def positive(x: Any) -> Any:
    return x.sum() > 0


SPOKE, ASKED = 'print("here")', "y.sum() > 0"
ADDED = r"a change to a tensor from outside in {}, in line \d+: TOTAL.add_\(1\)"
KEPT = "a change to something from outside in {}"

# what is called, what is said, what stands in the line that is shown last
TABLE: dict[str, tuple[Any, str, str]] = {
    "cond: text": (
        lambda x: torch.cond("yes", torch.sin, torch.cos, (x,)),
        "torch.cond: a condition that is a str",
        "cond_op(",
    ),
    "cond: many": (
        lambda x: torch.cond(x > 0, torch.sin, torch.cos, (x,)),
        r"torch.cond: a condition of shape \(4, 3\)",
        "cond_op(",
    ),
    "cond: operand": (
        lambda x: torch.cond(positive(x), torch.sin, torch.cos, x),
        "torch.cond: a tensor instead of a tuple of operands",
        "cond_op(",
    ),
    "cond: breaks": (
        lambda x: torch.cond(positive(x), speaks, torch.cos, (x,)),
        "run-time effect: print, in true_fn of torch.cond",
        SPOKE,
    ),
    "cond: asks": (
        lambda x: torch.cond(positive(x), torch.sin, asks, (x,)),
        "data-dependent branch.*, in false_fn of torch.cond",
        ASKED,
    ),
    "cond: changes": (
        lambda x: torch.cond(positive(x), adds, torch.cos, (x,)),
        ADDED.format("true_fn of torch.cond"),
        "cond_op(",
    ),
    "cond: remembers": (
        lambda x: torch.cond(positive(x), torch.sin, remembers, (x,)),
        KEPT.format("false_fn of torch.cond"),
        "cond_op(",
    ),
    "cond: shape": (
        lambda x: torch.cond(positive(x), lambda y: y[1] + 1, torch.cos, (x,)),
        r"false_fn of torch.cond: output 0 has shape \(4, 3\), but that of true_fn has \(3,\)",
        "cond_op(",
    ),
    "cond: device": (
        lambda x: torch.cond(positive(x), lambda y: y.to("meta"), torch.cos, (x,)),
        "output 0 has device cpu, but that of true_fn has meta",
        "cond_op(",
    ),
    "cond: structure": (
        lambda x: torch.cond(positive(x), lambda y: {"a": y + 1}, lambda y: [y + 1], (x,)),
        r"false_fn of torch.cond: it gives \[\*\], but true_fn {'a': \*}",
        "cond_op(",
    ),
    "cond: alias": (
        lambda x: torch.cond(positive(x), lambda y: y.view(-1), lambda y: y.flatten() + 1, (x,)),
        "true_fn of torch.cond: output 0 shares memory with something that it is given; give a clone",
        "cond_op(",
    ),
    "loop: breaks": (
        lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (speaks(y),), (x,)),
        "print, in body_fn of while_loop",
        SPOKE,
    ),
    "loop: condition": (
        lambda x: while_loop(lambda y: y < 9, lambda y: (y + 1,), (x,)),
        r"cond_fn of while_loop: output 0 has shape \(4, 3\), but that of a condition, one boolean",
        "while_loop_op(",
    ),
    "map: breaks": (lambda x: torch_map(asks, x), "data-dependent branch.*, in f of map", ASKED),
    "map: changes": (lambda x: torch_map(adds, x), ADDED.format("f of map"), "map_impl("),
    "scan: breaks": (
        lambda x: scan(lambda c, r: (speaks(c), r * 1), x[0] * 0, x),
        "print, in combine_fn of scan",
        SPOKE,
    ),
    "strict: breaks": (lambda x: strict_mode(speaks, (x,)), "print, in callable of strict_mode", SPOKE),
    "hints: breaks": (
        lambda x: hints_wrapper(lambda y: (speaks(y),), (x,), {}, hints={}),
        "print, in body_fn of hints_wrapper",
        SPOKE,
    ),
    "hints: keywords": (
        lambda x: hints_wrapper(lambda y, k: (y * k,), (x,), {"k": 1}, hints={}),
        "hints_wrapper with keywords",
        "hints_wrapper(",
    ),
    "grad: breaks": (
        lambda x: grad(lambda y: asks(y).sum())(x),
        "data-dependent branch.*, in func of torch.func.grad",
        ASKED,
    ),
    "vmap: breaks": (lambda x: torch.vmap(speaks)(x), "print, in a function that torch.vmap maps", SPOKE),
    "vmap: in_dims": (
        lambda x: torch.vmap(torch.sin, in_dims="a")(x),
        r"torch.vmap: vmap\(sin, in_dims=a.*got: <class 'str'>",
        "vmap_impl(",
    ),
    "checkpoint: breaks": (
        lambda x: checkpoint(speaks, x, use_reentrant=False),
        "print, in a checkpointed function",
        SPOKE,
    ),
    "associative_scan: breaks": (
        lambda x: associative_scan(lambda a, b: a * asks(b), x, 0, combine_mode="generic"),
        "data-dependent branch",
        ASKED,
    ),
    "nested": (
        lambda x: torch_map(lambda r: torch.cond(positive(r), speaks, torch.cos, (r,)), x),
        "print, in true_fn of torch.cond, in f of map",
        SPOKE,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_operator_the_function_and_the_line_are_named(name: str) -> None:
    fn, message, line = TABLE[name]
    with pytest.raises(Unsupported) as raised:
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(4, 3))
    text = str(raised.value)
    assert re.search(message, text.splitlines()[1]), text
    assert f'File "{__file__}"' in text and line in text.splitlines()[-1]
    assert not SEEN and not TOTAL.any()
