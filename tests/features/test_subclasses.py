"""Tensor subclasses: their `__torch_function__` is traced, and what lives on is of their class again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import Comparison, capture, recompiles


class Kept(torch.Tensor):
    """With torch's own `__torch_function__`: results are of the class too."""

    def double(self) -> torch.Tensor:
        return self * 2

    @property
    def rows(self) -> int:
        return self.shape[0]


class Logged(torch.Tensor):
    """Notes which functions were called."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append((func.__name__, [t.__name__ for t in types]))
        return super().__torch_function__(func, types, args, kwargs or {})


LOG: list[Any] = []


class Scaled(torch.Tensor):
    """Has a number of its own, and another idea of multiplication."""

    scale: float = 1.0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.mul:
            with torch._C.DisableTorchFunctionSubclass():
                out = func(*args, **kwargs) * args[0].scale
            return scaled(out, args[0].scale + 1)
        return super().__torch_function__(func, types, args, kwargs)


def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    made = x.as_subclass(Scaled)
    made.scale = scale
    return made


class Unwrapping(torch.Tensor):
    """Gives plain tensors."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, Unwrapping) else a for a in args]
        return func(*plain, **(kwargs or {}))


class Sub(Kept):
    """Derived from one that has one."""


class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Marked(torch.nn.Parameter):
    pass


def of(cls: Any, grad: bool = False, scale: float | None = None) -> torch.Tensor:
    made = torch.tensor([[1.0, -2.0], [3.0, 4.0]], requires_grad=grad).as_subclass(cls)
    if scale is not None:
        made.scale = scale
    return made


def mixed(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y, y - x, torch.cat([x, y]), torch.stack([y, x]).sum(0)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "operators": (lambda x: (x * 2 + 1, 3 - x, -x, x @ x, x > 0), lambda: (of(Kept),)),
    "functions": (lambda x: (torch.sin(x), torch.nn.functional.gelu(x), x.sum(dim=0)), lambda: (of(Kept),)),
    "methods of its own": (lambda x: (x.double(), x.rows, Kept.double(x)), lambda: (of(Kept),)),
    "facts": (
        lambda x: (x.shape, x.dtype, x.size(0), x.dim(), len(x), x.is_contiguous()),
        lambda: (of(Kept),),
    ),
    "types": (
        lambda x: (type(x) is Kept, isinstance(x + 1, Kept), isinstance(x, torch.Tensor), x.sum()),
        lambda: (of(Kept),),
    ),
    "several results": (lambda x: (x.max(dim=0), x.split(1), torch.unbind(x)), lambda: (of(Kept),)),
    "indexing": (lambda x: (x[0], x[:, 1], x[..., None]), lambda: (of(Kept),)),
    "in place": (lambda x: (x.add_(1), x.mul_(2), x), lambda: (of(Kept),)),
    "with a plain one": (mixed, lambda: (of(Kept), torch.ones(2, 2))),
    "with a subclass of it": (mixed, lambda: (of(Kept), of(Sub))),
    "logged": (lambda x: (x * 2 + x.sum(), 1 / x, x.shape[0], torch.relu(x)), lambda: (of(Logged),)),
    "a meaning of its own": (
        lambda x: (x * 2, (x * 2) * 3, x + 1, (x * 2).scale),
        lambda: (of(Scaled, scale=3.0),),
    ),
    "a class attribute": (lambda x: (x * 2, x.scale), lambda: (of(Scaled),)),
    "made inside": (lambda x: scaled(x, 2.0) * 3, lambda: (torch.ones(2),)),
    "unwrapping": (lambda x: (x + 1, torch.sin(x), x.sum()), lambda: (of(Unwrapping),)),
    "taken off": (lambda x: (x.as_subclass(torch.Tensor) * 2, x * 2), lambda: (of(Kept),)),
    "without one": (lambda x: (x * 2, type(x) is Quiet, type(x + 1)), lambda: (of(Quiet),)),
    "a parameter's": (lambda x: (x * 2, isinstance(x, Marked)), lambda: (Marked(torch.ones(3)),)),
    "attributes": (lambda x: set_and_read(x), lambda: (torch.ones(3),)),
}


def set_and_read(x: torch.Tensor) -> Any:
    y = x + 1
    y.tag = ["a", x]
    return y, y.tag, hasattr(y, "tag"), hasattr(y, "other")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_whole(name: str, backend: str) -> None:
    fn, make = PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        results = []
        for run in (fn, compiled):
            LOG.clear()
            args = make()
            results.append((run(*args), args, list(LOG)))
        with torch._C.DisableTorchFunctionSubclass():
            Comparison().same(results[0], results[1], "(result, args, log)")


def test_gradients_go_through_subclasses() -> None:
    def gradient(run: Callable[..., Any]) -> torch.Tensor:
        leaf = torch.tensor([1.0, 2.0], requires_grad=True)
        run(leaf.as_subclass(Kept)).sum().backward()
        return leaf.grad

    fn = lambda x: (x * x).sin()
    for backend in ("eager", "aot_eager"):
        torch.testing.assert_close(
            gradient(framelift.compile(fn, backend=backend, fullgraph=True)), gradient(fn)
        )


def test_a_plain_tensor_is_another_case() -> None:
    compiled = capture(lambda x: x * 2)
    assert type(compiled(of(Kept))) is Kept
    assert type(compiled(torch.ones(2, 2))) is torch.Tensor
    assert type(compiled(of(Kept))) is Kept
    assert recompiles(compiled) == 1


def test_a_changed_attribute_is_noticed() -> None:
    compiled, fn = capture(lambda x: x * 2), lambda x: x * 2
    for scale in (2.0, 3.0, 2.0):
        found, expected = compiled(of(Scaled, scale=scale)), fn(of(Scaled, scale=scale))
        assert torch.equal(found.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
        assert found.scale == expected.scale


def test_a_changed_handler_is_noticed() -> None:
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    compiled = capture(lambda x: x * 2)
    assert compiled(of(Changing)).sum() == 12
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "changed")
    assert compiled(of(Changing)) == "changed"


def test_a_break_in_the_handler(capsys: Any) -> None:
    class Printing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.mul:
                print("mul")
            return super().__torch_function__(func, types, args, kwargs or {})

    fn = lambda x: (x + 1) * 2 - 1
    for run in (fn, capture(fn, fullgraph=False)):
        with torch._C.DisableTorchFunctionSubclass():
            x = of(Printing)
        assert type(run(x)) is Printing
        assert capsys.readouterr().out == "mul\n"


# ---- parameters and buffers of classes of the program's


class Loaded(torch.nn.Parameter):
    """A parameter with attributes and methods."""

    def __new__(cls, data: torch.Tensor, requires_grad: bool = True, extra: int = 2) -> Any:
        made = super().__new__(cls, data, requires_grad)
        made.extra = extra
        return made

    def loader(self) -> int:
        return self.extra * 2


class Labelled(torch.Tensor):
    """Hands its label on to what is computed of it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_function__(func, types, args, kwargs or {})
        labels = [arg.label for arg in args if isinstance(arg, Labelled) and hasattr(arg, "label")]
        if isinstance(out, Labelled) and labels:
            out.label = labels[0]
        return out


class Owner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Loaded(torch.ones(3), extra=5)
        labelled = torch.ones(3).as_subclass(Labelled)
        labelled.label = "buffer"
        self.register_buffer("held", labelled)

    def forward(self, x: torch.Tensor) -> Any:
        y = x * self.weight * self.weight.loader() + self.weight.extra
        z = self.held * x
        self.held.add_(1)
        facts = isinstance(self.weight, Loaded), type(self.weight) is Loaded, type(z) is Labelled
        return y, z, z.label, (z + 1).label, self.held.label, facts


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_and_buffers_of_classes(backend: str) -> None:
    modules = Owner(), Owner()
    calls = modules[0], framelift.compile(modules[1], backend=backend, fullgraph=True)
    for n in range(3):
        outcomes = []
        for module, call in zip(modules, calls, strict=True):
            if n == 2:
                module.weight.extra, module.held.label = 7, "another"
            module.zero_grad()
            y, z, *rest = call(torch.arange(3.0))
            y.sum().backward()
            outcomes.append((y.tolist(), z.tolist(), rest, module.weight.grad.tolist(), module.held.tolist()))
        assert outcomes[0] == outcomes[1]


class Asked(torch.Tensor):
    """Its handler only looks at what it is given."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return [type(x).__name__ for x in args[0]]


def test_a_dynamic_input_that_is_only_looked_at() -> None:
    given = torch.ones(3).as_subclass(Asked)

    def fn(x: Any) -> Any:
        return torch.stack([x])

    compiled = framelift.compile(fn, backend="eager", dynamic=True)
    assert compiled(given) == fn(given) == ["Asked"]


NAMES: list[str] = []


class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        NAMES.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("symbol", ["<", "<=", ">", ">=", "==", "!=", "+", "-", "/", "**"])
def test_which_operand_is_asked_first(symbol: str, swapped: bool) -> None:
    """Python asks the right one to compare itself where it is of a subclass."""
    program = eval(f"lambda x, y: x {symbol} y")

    operands = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 2.0]).as_subclass(Named)
    if swapped:
        operands = operands[::-1]  # type: ignore[assignment]
    seen = []
    for run in (program, framelift.compile(program, backend="eager")):
        NAMES.clear()
        found = run(*operands).as_subclass(torch.Tensor)
        seen.append((found.tolist(), list(NAMES)))
    assert seen[0] == seen[1]
