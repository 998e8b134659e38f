"""What operators that are given functions have in common; the examples of docs/higher_order.md."""

from __future__ import annotations

import linecache
import pathlib
import re
import sys
import types
from typing import Any

import pytest
import torch
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.strict_mode import strict_mode
from torch.utils.checkpoint import checkpoint

import framelift
from check import entries, recompiles
from framelift.exc import Unsupported
from framelift.trace import bodies

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "higher_order.md"
EXAMPLES = re.findall(r"^## (.*?)$(?:(?!^## ).)*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S)
BACKENDS = ["eager", "aot_eager"]


@pytest.mark.parametrize("example", [pytest.param(code, id=title) for title, code in EXAMPLES])
def test_the_page_is_right(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("example_of_the_page")
    module.torch, module.framelift = torch, framelift
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bodies, "HIGHER_ORDER_OPERATORS", dict(bodies.HIGHER_ORDER_OPERATORS))
    framelift.reset()
    name = f"<an example of {PAGE.name}>"
    monkeypatch.setitem(linecache.cache, name, (len(example), None, example.splitlines(True), name))
    exec(compile(example, name, "exec", dont_inherit=True), module.__dict__)
    # what only runs plainly, since a handler of the page raises, is not right
    assert framelift.counters["frames"]["ok"] or "raises" in example or "triton" in example


def test_every_section_has_an_example() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count("\n## ") >= 9


# ---- regions


@torch.compiler.nested_compile_region
def block(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def regions(x: torch.Tensor) -> Any:
    return block(block(x)) + 1


def strict(x: torch.Tensor) -> Any:
    return strict_mode(lambda a, b: (a.sin(), b * 2), (x, x + 1))


def hinted(x: torch.Tensor) -> Any:
    return hints_wrapper(lambda a: (a.sin() * 2,), (x,), {}, hints={"level": 3})


EXPECTED = {
    regions: lambda x: (x.sin() * 2).sin() * 2 + 1,
    strict: lambda x: (x.sin(), (x + 1) * 2),
    hinted: lambda x: (x.sin() * 2,),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", EXPECTED, ids=lambda fn: fn.__name__)
def test_a_region_does_what_its_function_does(fn: Any, backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for x in (torch.arange(3.0), torch.arange(3.0) - 2):
        torch.testing.assert_close(compiled(x), EXPECTED[fn](x))
    assert recompiles(compiled) == 0


# ---- operators in operators


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_inside_of_what_an_operator_gives(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return torch.autograd.grad(y.sum(), x)[0]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for x in (torch.arange(3.0), torch.arange(3.0) - 2):
        expected = x.cos() if x.sum() > 0 else -x.sin()
        torch.testing.assert_close(compiled(x.requires_grad_()), expected)
    assert entries(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_in_a_checkpoint(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        inner = lambda y: checkpoint(lambda z: z.sin() * 2, y, use_reentrant=False).cos()
        return checkpoint(inner, x, use_reentrant=False)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    x = torch.arange(3.0).requires_grad_()
    expected, found = (torch.autograd.grad(call(x).sum(), x)[0] for call in (fn, compiled))
    torch.testing.assert_close(found, expected)
    assert entries(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_for_each_of_a_batch(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.vmap(lambda row: torch.cond(row.sum() > 3, torch.sin, torch.cos, (row,)))(x)

    x = torch.arange(6.0).reshape(2, 3)
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.stack([x[0].cos(), x[1].sin()]))


def branch(y: torch.Tensor) -> torch.Tensor:
    return torch.cond(y.sum() > 1, torch.sin, torch.cos, (y,))


REFUSED = {
    "checkpoint": (
        lambda x: checkpoint(branch, x, use_reentrant=True),
        "checkpoint() with use_reentrant=True of what calls torch.cond",
    ),
    "torch.func": (lambda x: torch.func.grad(lambda y: branch(y).sum())(x), "error of an operator"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_has_no_rule_for_is_a_break(name: str) -> None:
    fn, message = REFUSED[name]
    with pytest.raises(Unsupported, match=re.escape(message)):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))
