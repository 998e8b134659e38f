"""`torch.autograd.Function`: captured whole, forward and backward, equal to eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import framelift
from check import capture, copied, entries, reasons
from framelift.testing import EagerAndRecordGraphs


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Scale(Function):
    """With a context of its own, and arguments that are no tensors."""

    @staticmethod
    def forward(x: torch.Tensor, factor: float, name: str = "none") -> torch.Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return grad * ctx.factor, None, None


class Several(Function):
    """Several results, one of them not differentiable; intermediate values on the context."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.sine = torch.sin(x)
        where = (x > 0).to(torch.int64)
        ctx.mark_non_differentiable(where)
        ctx.save_for_backward(y)
        ctx.shape = x.shape
        return ctx.sine * y, where, x + y

    @staticmethod
    def backward(ctx: Any, a: torch.Tensor, b: Any, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (y,) = ctx.saved_tensors
        assert ctx.shape == a.shape
        return (1 - ctx.sine**2).sqrt() * y * a + c, ctx.sine * a + c


class Needed(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> list[Any]:
        x, y = ctx.saved_tensors
        return tuple(
            [grad * y if ctx.needs_input_grad[0] else None, grad * x if ctx.needs_input_grad[1] else None]
        )


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x.exp())
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.saved_tensors[0]


class Through(Function):
    """Gives its argument back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.neg()


class InPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 3


class Branching(Function):
    """Ordinary Python in both: loops, helpers, a module's weight, a nested function of its kind."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: list[torch.Tensor], mode: str) -> torch.Tensor:
        out = Square.apply(x)
        for weight in weights:
            out = out + weight if mode == "add" else out * weight
        ctx.weights, ctx.mode = weights, mode
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        if ctx.mode == "mul":
            for weight in ctx.weights:
                grad = grad * weight
        return grad, None, None


class Straight(Function):
    """A quantiser that lets gradients through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bits: int) -> torch.Tensor:
        scale = 2**bits - 1
        return (x * scale).round() / scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, Any]:
        return grad, None


def leaf(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1), requires_grad=True)


GLOBAL = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


class Outer(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * GLOBAL

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * GLOBAL


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "saved": (lambda x: Square.apply(x) + 1, lambda: (leaf(3),)),
    "of a result": (lambda x: Square.apply(x.sin()).cos(), lambda: (leaf(3),)),
    "setup_context": (lambda x: Scale.apply(x, 3.0, "three"), lambda: (leaf(3),)),
    "several results": (lambda x, y: Several.apply(x, y), lambda: (leaf(3), leaf(3))),
    "a result unused": (lambda x, y: Several.apply(x, y)[0], lambda: (leaf(3), leaf(3))),
    "one needs a gradient": (lambda x, y: Needed.apply(x, y), lambda: (leaf(3), torch.ones(3))),
    "twice the same": (lambda x: Needed.apply(x, x), lambda: (leaf(3),)),
    "once differentiable": (lambda x: Once.apply(x) * 2, lambda: (leaf(3),)),
    "its argument": (lambda x: Through.apply(x) * 2, lambda: (leaf(3),)),
    "in place": (lambda x: InPlace.apply(x * 1) + 1, lambda: (leaf(3),)),
    "a global tensor": (lambda x: Outer.apply(x), lambda: (leaf(3),)),
    "Python inside, add": (
        lambda x, w: Branching.apply(x, [w, w * 2], "add"),
        lambda: (leaf(3), torch.ones(3)),
    ),
    "Python inside, mul": (
        lambda x, w: Branching.apply(x, [w, w * 2], "mul"),
        lambda: (leaf(3), torch.ones(3)),
    ),
    "straight through": (lambda x: Straight.apply(torch.sigmoid(x), 4) * x, lambda: (leaf(3),)),
    "two in a row": (lambda x: Scale.apply(Square.apply(x), 2.0), lambda: (leaf(3),)),
    "no gradient needed": (lambda x: Square.apply(x) + Through.apply(x), lambda: (torch.ones(3),)),
    "under no_grad": (lambda x: under_no_grad(x), lambda: (leaf(3),)),
}


def under_no_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = Square.apply(x)
    return y + x


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, torch.Tensor)]


def outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    out = tensors_in(fn(*args))
    loss = sum((o * o).sum() for o in out if o.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    return [*(o.detach() for o in out), *(o.requires_grad for o in out), *(a.grad for a in args)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_whole(name: str, backend: str, dynamic: bool) -> None:
    fn, make = PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)
    for _ in range(2):
        GLOBAL.grad = None
        torch.testing.assert_close(outcome(compiled, make()), outcome(fn, make()))
        assert GLOBAL.grad is None


@pytest.mark.inductor
def test_inductor_compiles_a_function_with_its_own_backward() -> None:
    fn, make = PROGRAMS["straight through"]
    compiled = framelift.compile(fn, fullgraph=True)
    torch.testing.assert_close(outcome(compiled, make()), outcome(fn, make()))


def test_differentiated_twice() -> None:
    def second(fn: Callable[..., Any]) -> torch.Tensor:
        x = leaf(3)
        (grad,) = torch.autograd.grad((fn(x) ** 2).sum(), x, create_graph=True)
        return torch.autograd.grad(grad.sum(), x)[0]

    fn = PROGRAMS["saved"][0]
    torch.testing.assert_close(second(capture(fn)), second(fn))


def test_the_graph_holds_one_call() -> None:
    kept = EagerAndRecordGraphs()
    framelift.compile(PROGRAMS["saved"][0], backend=kept, fullgraph=True)(leaf(3))
    called = [node.target for node in kept.graphs[0].graph.nodes if node.op == "call_function"]
    assert [getattr(target, "__name__", None) for target in called] == ["autograd_function_apply", "add"]


def test_a_change_in_backward_is_not_made_in_forward() -> None:
    log: list[str] = []

    class Logging(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            log.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            log.append("backward")
            return grad * 2

    compiled = framelift.compile(lambda x: Logging.apply(x) + 1, backend="eager")
    x = leaf(3)
    out = compiled(x)
    assert log == ["forward"]
    out.sum().backward()
    assert log == ["forward", "backward"]
    assert "run-time effect" in reasons(compiled)


def test_a_break_in_forward_or_backward() -> None:
    class Printing(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            print("forward")
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            print("backward")
            return grad * 2

    fn = lambda x: Printing.apply(x + 1) * 2
    torch.testing.assert_close(outcome(capture(fn, fullgraph=False), (leaf(3),)), outcome(fn, (leaf(3),)))


def test_a_change_of_backward_is_noticed() -> None:
    class Changing(Function):
        factor = 2.0

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * Changing.factor

    compiled = capture(lambda x: Changing.apply(x))
    for factor in (2.0, 5.0):
        Changing.factor = factor
        x = leaf(3)
        compiled(x).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), factor))


def test_a_function_is_applied_in_a_module() -> None:
    class Quantised(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, Straight.apply(self.linear.weight, 4), self.linear.bias)

    model, x = Quantised(), torch.randn(2, 3)
    other = copied(model)
    framelift.compile(model, backend="aot_eager", fullgraph=True)(x).sum().backward()
    other(x).sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])


# ---- a backward that is compiled on its own


class Powered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: int) -> torch.Tensor:
        ctx.save_for_backward(x, None)
        ctx.by = by
        return x**by

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, nothing = ctx.saved_tensors
        if nothing is None and ctx.needs_input_grad[0]:
            return grad * ctx.by * ctx.saved_tensors[0] ** (ctx.by - 1) + 0 * x, None
        return None, None


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(y := x.exp())
        return y.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (saved,), (again,) = ctx.saved_tensors, ctx.saved_tensors
        saved.mul_(2)
        return grad * again


@pytest.mark.parametrize(("function", "given"), [(Powered, (3,)), (Doubled, ())])
def test_a_backward_is_compiled_on_its_own(
    function: Any, given: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads what the call of forward has left in C's hands."""

    def grads() -> list[Any]:
        inputs = [torch.linspace(0.5, 2, size).requires_grad_() for size in (4, 4, 6)]
        for x in inputs:
            function.apply(x, *given).sum().backward()
        return [x.grad for x in inputs]

    expected = grads()
    compiled = framelift.compile(function.backward, backend="eager", fullgraph=True)
    monkeypatch.setattr(function, "backward", staticmethod(compiled))
    assert all(map(torch.equal, grads(), expected))
    assert entries(compiled) == 2
