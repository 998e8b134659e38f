"""`torch.cond`, `while_loop`, `map`, `scan`, `associative_scan`: their functions are graphs in the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators_in_python import Plain, Torch
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

import framelift
from check import entries, reasons, recompiles, why_not
from framelift.exc import UncapturedHigherOrderOpError, Unsupported
from framelift.testing import EagerAndRecordGraphs

BACKENDS = ["eager", "aot_eager"]
WEIGHT = torch.linspace(-1, 1, 3)


def rows(n: int = 4) -> torch.Tensor:
    return torch.arange(3.0 * n).reshape(n, 3) / 7


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)
        for n, parameter in enumerate(self.parameters()):
            torch.nn.init.constant_(parameter, 0.1 * (n + 1))

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) * 2

    def forward(self, choose: Any, x: torch.Tensor) -> Any:
        return choose(x.sum() > 0, self.scaled, self.second, (x,))


MODULE = Branches()


# ---- cond


def two_branches(op: Any, x: Any) -> Any:
    return op.cond(x.sum() > 0, lambda x: x.sin() * WEIGHT, lambda x: x.cos() + x, (x,))


def closures(op: Any, x: Any) -> Any:
    scale, shift = x.mean(), x.sum()
    return op.cond(x.max() > 0, lambda: x * scale, lambda: x - shift)


def several_operands(op: Any, x: Any) -> Any:
    return op.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: b - 3 * a, (x, x + 1))


def structures(op: Any, x: Any) -> Any:
    def positive(given: Any) -> Any:
        return {"a": given["p"] + 1, "b": (given["q"][0] * 2, 7, None)}

    def negative(given: Any) -> Any:
        return {"a": given["p"] - 1, "b": (given["q"][0] * 3, 7, None)}

    return op.cond(x.sum() > 0, positive, negative, ({"p": x, "q": [x * 2]},))


def nested(op: Any, x: Any) -> Any:
    def inner(y: Any) -> Any:
        return op.cond(y.mean() > 1, lambda y: y * 2 + x, lambda y: y - WEIGHT, (y,))

    return op.cond(x.sum() > 0, inner, lambda y: y.cos() * x, (x + 1,))


def partials(op: Any, x: Any) -> Any:
    def shifted(by: Any, x: Any, times: int) -> Any:
        return x * times + by

    first, second = (functools.partial(shifted, x.mean(), times=n) for n in (2, 3))
    return op.cond(x.sum() > 0, first, second, (x,))


def modules(op: Any, x: Any) -> Any:
    return MODULE(op.cond, x)


def numbers(op: Any, x: Any) -> Any:
    return op.cond(x.dim() > 1, lambda x: x + 1, lambda x: x.undefined, (x,))


def of_a_size(op: Any, x: Any) -> Any:
    return op.cond(x.shape[0] > 3, lambda x: x + 1, lambda x: x - 1, (x,))


def changes_of_its_own(op: Any, x: Any) -> Any:
    def positive(x: Any) -> Any:
        y = x * 2
        y.add_(1)
        found = [y]
        found.append(x.sin())
        return sum(found)

    return op.cond(x.sum() > 0, positive, lambda x: x - 1, (x,))


def without_gradients(op: Any, x: Any) -> Any:
    def positive(x: Any) -> Any:
        with torch.no_grad():
            scale = x.mean()
        return x * scale

    return op.cond(x.sum() > 0, positive, lambda x: x - 1, (x,))


def twice(op: Any, x: Any) -> Any:
    y = op.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    return op.cond(y.sum() > 0, torch.exp, torch.tanh, (y,))


def used_afterwards(op: Any, x: Any) -> Any:
    y = op.cond(x.sum() > 0, lambda x: x.reshape(-1) * 2, lambda x: x.flatten() + 1, (x,))
    y.add_(1)
    return y.view(-1, 3) + y.shape[0]


def numbers_as_operands(op: Any, x: Any) -> Any:
    return op.cond(x.sum() > 0, lambda x, n: x * n, lambda x, n: x - n, (x, x.shape[0]))


def made_inside(op: Any, x: Any) -> Any:
    ones, zeros = lambda x: torch.ones(x.shape[0]), lambda x: x.new_zeros(x.shape[0])
    return op.cond(x.sum() > 0, ones, zeros, (x,)) + x[:, 0]


# ---- while_loop


def counting(op: Any, x: Any) -> Any:
    start = torch.zeros((), dtype=torch.int64)
    return op.while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * WEIGHT + 1), (start, x))


def until_large(op: Any, x: Any) -> Any:
    limit = x.abs().max() * 8 + 1
    return op.while_loop(lambda y: y.abs().sum() < limit, lambda y: (y * 2 + 0.25,), (x,))


def never(op: Any, x: Any) -> Any:
    return op.while_loop(lambda y: y.sum() > y.sum(), lambda y: (y + 1,), (x,))


def branch_in_loop(op: Any, x: Any) -> Any:
    def step(n: Any, y: Any) -> Any:
        return n + 1, op.cond(y.sum() > 0, lambda y: y - WEIGHT, lambda y: y + 2, (y,))

    return op.while_loop(lambda n, y: n < 3, step, (torch.zeros((), dtype=torch.int64), x))


# ---- map


def mapped(op: Any, x: Any) -> Any:
    return op.map(lambda row: row.sin() * WEIGHT, x)


def mapped_structures(op: Any, x: Any) -> Any:
    return op.map(lambda both, by: (both[0] * by, {"b": both[1] + both[0]}), [x, x * 2], WEIGHT)


def mapped_closure(op: Any, x: Any) -> Any:
    scale = x.mean()
    return op.map(lambda row: row.sum() * scale + row, x.t())


def branch_in_map(op: Any, x: Any) -> Any:
    return op.map(lambda row: op.cond(row.sum() > 1, torch.sin, torch.cos, (row,)), x)


# ---- scan


def running_sum(op: Any, x: Any) -> Any:
    return op.scan(lambda carry, row: (carry + row, carry * row), x[0] * 2, x)


def scanned_structures(op: Any, x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return {"s": carry["s"] + row[0] * WEIGHT}, (carry["s"] * 2, row[1].sum())

    return op.scan(step, {"s": x[0] * 0}, (x, x + 1))


def from_behind(op: Any, x: Any) -> Any:
    return op.scan(lambda carry, row: (carry * 0.5 + row, carry + row), x.mean(1) * 0, x, dim=1, reverse=True)


# ---- associative_scan


def products(op: Any, x: Any) -> Any:
    return op.associative_scan(lambda a, b: a * b, x + 1, 0, combine_mode="generic")


def pairs(op: Any, x: Any) -> Any:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return op.associative_scan(combine, (x, x + 1), 1, reverse=True, combine_mode="generic")


COND = [two_branches, closures, several_operands, structures, nested, partials, modules, numbers, of_a_size]
COND += [changes_of_its_own, without_gradients, twice, used_afterwards]
COND += [numbers_as_operands, made_inside]
LOOPS = [counting, until_large, never, branch_in_loop]
OVER = [
    mapped,
    mapped_structures,
    mapped_closure,
    branch_in_map,
    running_sum,
    scanned_structures,
    from_behind,
]
OVER += [products, pairs]
PROGRAMS = COND + LOOPS + OVER
NAMED = {"ids": lambda fn: fn.__name__}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, **NAMED)
def test_one_graph_for_both_ways(program: Callable[..., Any], backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return program(Torch, x)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    with torch.no_grad():
        for x in (rows(), rows() - 1, -rows()):
            torch.testing.assert_close(compiled(x), program(Plain, x))
    assert recompiles(compiled) == 0 and why_not(compiled) is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [one for one in PROGRAMS if one is not never], **NAMED)
def test_gradients_are_those_of_plain_python(program: Callable[..., Any], backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return program(Torch, x)

    def gradients(out: Any, x: torch.Tensor) -> Any:
        tensors = [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        loss = sum((t * torch.arange(t.numel()).reshape(t.shape)).sum() for t in tensors if t.requires_grad)
        wanted = [x, *MODULE.parameters()] if program is modules else [x]
        grads = torch.autograd.grad(loss, wanted, allow_unused=True)
        return [torch.zeros(()) if g is None or not g.any() else g for g in grads]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for x in (rows(), rows() - 1):
        x.requires_grad_()
        torch.testing.assert_close(gradients(compiled(x), x), gradients(program(Plain, x), x))
    assert recompiles(compiled) == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, **NAMED)
def test_sizes_may_vary(program: Callable[..., Any], backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return program(Torch, x)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for x in (rows(5), rows(6) - 1, rows(7)):
            torch.testing.assert_close(compiled(x), program(Plain, x))
    halving = program in (products, pairs)  # how often, and so the graph, depends on the size
    assert 1 <= entries(compiled) <= (3 if halving else 2)


@pytest.mark.parametrize("program", [two_branches, counting, running_sum], **NAMED)
def test_inductor_takes_it(program: Callable[..., Any]) -> None:
    compiled = framelift.compile(lambda x: program(Torch, x), fullgraph=True)
    for x in (rows(), -rows()):
        torch.testing.assert_close(compiled(x), program(Plain, x))
    assert recompiles(compiled) == 0


def lower_precision(op: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return op.cond(x.sum() > 0, lambda x: x @ x.t(), lambda x: x @ x.t() + 1, (x,))


def lower_precision_inside(op: Any, x: Any) -> Any:
    def product(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.t()

    return op.cond(x.sum() > 0, product, lambda x: (x @ x.t()).bfloat16(), (x,))


def inference(op: Any, x: Any) -> Any:
    with torch.inference_mode():
        return two_branches(op, x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [lower_precision, lower_precision_inside, inference], **NAMED)
def test_contexts_around_and_inside(program: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(lambda x: program(Torch, x), backend=backend, fullgraph=True)
    for x in (rows(), -rows()):
        torch.testing.assert_close(compiled(x), program(Plain, x))
    assert recompiles(compiled) == 0


def test_the_rule_for_elementwise_functions() -> None:
    def fn(x: torch.Tensor) -> Any:
        return associative_scan_op(lambda a, b: a * b + WEIGHT * 0, [x], ())

    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(rows() + 1), (rows() + 1).cumprod(0))


def test_operands_are_lifted_once_and_in_order() -> None:
    kept = EagerAndRecordGraphs()

    def fn(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a * y + y, lambda a: z - y * a * x, (x,))

    framelift.compile(fn, backend=kept, fullgraph=True)(rows(), rows() + 1, rows() + 2)
    (node,) = [node for node in kept.graphs[0].graph.nodes if node.target is torch.ops.higher_order.cond]
    assert len(node.args[3]) == len(set(node.args[3])) == 3
    for branch in node.args[1:3]:
        body = getattr(kept.graphs[0], branch.target)
        assert len([one for one in body.graph.nodes if one.op == "placeholder"]) == 3


def test_random_numbers_are_those_of_the_branch_that_runs() -> None:
    def fn(x: torch.Tensor) -> Any:
        drawn = torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x - 1, (x,))
        return drawn, torch.rand(2)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for x in (rows(), -rows()):
        torch.manual_seed(3)
        expected = (x + torch.rand(3) if x.sum() > 0 else x - 1), torch.rand(2)
        torch.manual_seed(3)
        torch.testing.assert_close(compiled(x), expected)


# ---- what can't be


SEEN: list[int] = []
TOTAL = torch.zeros(3)
LEAF = torch.ones(3, requires_grad=True)


def with_branches(true_fn: Any, false_fn: Any) -> Any:
    return lambda x: torch.cond(x.sum() > 0, true_fn, false_fn, (x,))


def remembers(x: torch.Tensor) -> Any:
    seen: list[int] = []
    out = torch.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: x - 1, (x,))
    return out, seen


def counts(x: torch.Tensor) -> Any:
    n = 0

    def step(y: Any) -> Any:
        nonlocal n
        n += 1
        return (y + 1,)

    return while_loop(lambda y: y.sum() < 50, step, (x,)), n


def advances(x: torch.Tensor) -> Any:
    factors = iter([2, 3, 4])
    return torch_map(lambda row: row * next(factors), x)


def one_more(x: Any) -> Any:
    return x + 1


LINE = next(n for n, line in enumerate(open(__file__), 1) if line.endswith("# LINE is here\n"))
ERRORS: dict[str, tuple[Any, str]] = {
    "dtype": (with_branches(one_more, lambda x: x.double()), "false_fn of torch.cond: output 0 has dtype"),
    "shape": (with_branches(one_more, lambda x: x[0] + 1), "false_fn of torch.cond: output 0 has shape"),
    "strides": (with_branches(one_more, lambda x: x.t().contiguous().t() * 1), "output 0 has strides"),
    "structure": (with_branches(one_more, lambda x: (x + 1,)), "false_fn of torch.cond: it gives"),
    "second output": (
        with_branches(lambda x: (x + 1, x * 2), lambda x: (x + 1, x.int())),
        "output 1 has dtype",
    ),
    "number": (with_branches(lambda x: (x + 1, 1.0), lambda x: (x + 1, 2.0)), "output 1 has the value 2.0"),
    "alias": (with_branches(one_more, lambda x: x), "false_fn of torch.cond: output 0 shares memory"),
    "view": (with_branches(lambda x: x.t(), lambda x: x.t() + 1), "true_fn of torch.cond: output 0 shares"),
    "same twice": (
        with_branches(lambda x: [x + 1] * 2, lambda x: [x, x]),
        "output 1 shares memory with",
    ),
    "mutation": (
        with_branches(lambda x: x.add_(1) + 1, one_more),
        "a tensor from outside in true_fn",
    ),
    "mutation given back": (
        with_branches(lambda x: x.add_(1), one_more),
        "a tensor from outside in true_fn",
    ),
    "global": (
        with_branches(lambda x: (SEEN.append(1), x + 1)[1], one_more),
        "a change to something from outside",
    ),
    "buffer": (with_branches(lambda x: x + TOTAL.add_(1), one_more), "a change to a tensor from outside"),
    "local list": (remembers, "a change to a list from outside in true_fn of torch.cond"),
    "local variable": (counts, "a change to a cell from outside in body_fn of while_loop"),
    "iterator": (advances, "a change to a list_iterator from outside in f of map"),
    "condition's shape": (lambda x: torch.cond(x > 0, one_more, one_more, (x,)), "a condition of shape"),
    "operands": (lambda x: torch.cond(x.sum() > 0, one_more, one_more, x), "instead of a tuple of operands"),
    "value asked for": (
        with_branches(lambda x: x * 2 if x.sum() > 0 else x, one_more),
        "data-dependent branch",
    ),
    "random, differentiated": (
        lambda x: torch.cond(
            x.sum() > 0, lambda y: y * torch.rand(3), one_more, (x * WEIGHT.clone().requires_grad_(),)
        ),
        "true_fn of torch.cond, which is differentiated",
    ),
    "integers, differentiated": (
        lambda x: torch.cond(
            x.sum() > 0, lambda y: (y + 1, y.argmax()), lambda y: (-y, y.argmin()), (x * LEAF,)
        ),
        "true_fn of torch.cond: output 1 is of dtype torch.int64, where others are differentiated",
    ),
    "carried dtype": (
        lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y.double(),), (x,)),
        "body_fn of while_loop: output 0 has dtype torch.float64, but that of what is carried has",
    ),
    "carried shape": (
        lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y[1:] * 2,), (x,)),
        "body_fn of while_loop: output 0 has shape (3, 3), but that of what is carried has (4, 3)",
    ),
    "carried count": (
        lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y + 1, y + 2), (x,)),
        "body_fn of while_loop: it gives [*, *], but what is carried [*]",
    ),
    "carried mutation": (  # LINE is here
        lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y.add_(1) * 1,), (x,)),
        f"a change to a tensor from outside in body_fn of while_loop, in line {LINE + 1}: y.add_(1)",
    ),
    "carried number": (
        lambda x: while_loop(lambda y, n: y.sum() < 9, lambda y, n: (y + n, n * 2), (x, 1.0)),
        "while_loop: carried input 1 is a float, not a tensor or an int",
    ),
    "no condition": (
        lambda x: while_loop(lambda y: y.sum(), lambda y: (y + 1,), (x,)),
        "cond_fn of while_loop: output 0 has dtype torch.float32",
    ),
    "mapped number": (
        lambda x: torch_map(lambda row: (row + 1, 3), x),
        "map: result 1 is a int",
    ),
    "mapped alias": (lambda x: torch_map(lambda row: row, x), "f of map: output 0 shares memory"),
    "scan's pair": (
        lambda x: scan(lambda c, r: c + r, x[0] + 0, x),
        "it must give a pair",
    ),
    "scan's carry": (
        lambda x: scan(lambda c, r: ((c + r).double(), c * r), x[0] + 0, x),
        "combine_fn of scan: output 0 has dtype torch.float64, but that of init has torch.float32",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_says_what_is_wrong_and_where(name: str) -> None:
    fn, message = ERRORS[name]
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    with pytest.raises(Unsupported) as raised:
        compiled(rows())
    assert message in str(raised.value)
    assert __file__ in str(raised.value)
    assert not SEEN and not TOTAL.any()


CHANGES = (
    "mutation",
    "mutation given back",
    "global",
    "buffer",
    "local list",
    "local variable",
    "iterator",
    "carried mutation",
)


@pytest.mark.parametrize("name", CHANGES)
def test_a_function_that_changes_something_is_an_error_as_it_is_in_plain_torch(name: str) -> None:
    fn, message = ERRORS[name]
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        with pytest.raises(UncapturedHigherOrderOpError, match="Higher Order Operator: ") as raised:
            compiled(rows())
        assert message in str(raised.value)
        assert not SEEN and not TOTAL.any()
    torch.compiler.reset()
    with pytest.raises(RuntimeError) as plainly:
        fn(rows())
    assert type(plainly.value).__name__ == "UncapturedHigherOrderOpError"


NOT_CAPTURED: dict[str, Any] = {
    "shape": lambda x: x + 1,
    "number": lambda x: (x + 1, 1.0),
    "value asked for": lambda x: x * 2 if x.sum() > 0 else x,
    "same twice": lambda x: [x + 1] * 2,
}


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_what_is_not_captured_is_run_as_plain_python(name: str) -> None:
    compiled = framelift.compile(ERRORS[name][0], backend="eager")
    torch.testing.assert_close(compiled(rows()), NOT_CAPTURED[name](rows()))
    assert reasons(compiled)


def test_a_branch_that_changes_is_noticed() -> None:
    class Chosen:
        branch = staticmethod(torch.sin)
        factor = 2

    def fn(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: Chosen.branch(x) * Chosen.factor, torch.cos, (x,))

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(rows()), rows().sin() * 2)
    Chosen.factor = 3
    torch.testing.assert_close(compiled(rows()), rows().sin() * 3)
    Chosen.branch = staticmethod(torch.tanh)
    torch.testing.assert_close(compiled(rows()), rows().tanh() * 3)
    assert entries(compiled) == 3  # at first, and after each of two changes


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_branch_that_draws_is_differentiated_as_eagerly(backend: str) -> None:
    def fn(x):
        return torch.cond(x.sum() > 0, lambda y: {"a": y * torch.rand_like(y)}, lambda y: {"a": y * 2}, (x,))[
            "a"
        ]

    outcomes = []
    for call in (fn, framelift.compile(fn, backend=backend)):
        torch.manual_seed(0)
        x = torch.ones(3, requires_grad=True)
        out = call(x)
        out.sum().backward()
        outcomes.append((out, x.grad))
    torch.testing.assert_close(*outcomes)
