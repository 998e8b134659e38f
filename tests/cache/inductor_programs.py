"""Programs for Inductor: run by one process that compiles them and by one that finds what that has kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import framelift
from framelift.cache.writing import writer


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lines = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(self.lines(x))
        return y.softmax(-1), y.detach().sum()


def batch(seed: int = 0) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))


def inference(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = Net().eval()
    with torch.no_grad():
        return [*compiled(model)(batch()), *compiled(model)(batch(1))]


def training(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = Net()
    run = compiled(model)
    x = batch().requires_grad_()
    for n in range(2):
        result, total = run(x * (n + 1))
        assert not total.requires_grad
        (result[:, :3].t().square().sum()).backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert x.grad is not None and len(grads) == 6
    return [result.detach(), total, x.grad, *grads, *[b.clone().float() for b in model.buffers()]]


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x.cos() * 2


def writing(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    x, y = batch(), batch(1)
    version = x._version
    result = compiled(written)(x, y)
    return [x, result, torch.tensor(x._version - version)]


def attention(x: torch.Tensor, weight: torch.Tensor, scale: int) -> tuple[torch.Tensor, torch.Tensor]:
    heads = (x @ weight).view(x.shape[0], -1, 2, 4).transpose(1, 2)
    scores = (heads @ heads.transpose(-1, -2) / (x.shape[1] * scale)).softmax(-1)
    mixed = (scores @ heads).transpose(1, 2).reshape(x.shape)
    return mixed, torch.arange(x.shape[1], dtype=x.dtype) + mixed.sum()


def sequences() -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    return [torch.randn(2, length, 8, generator=made) for length in (3, 5, 4, 9)]


def varying(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    run, weight, results = compiled(attention), torch.eye(8) + 1, []
    for n, x in enumerate(sequences()):
        results += run(x, weight, n + 2)
    return results


def varying_training(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    run, weight, results = compiled(attention), (torch.eye(8) + 1).requires_grad_(), []
    for n, x in enumerate(sequences()):
        mixed, places = run(x.requires_grad_(), weight, n + 2)
        ((mixed * 0.5).sum() + places.square().mean()).backward()
        assert x.grad is not None and not any(vars(tensor) for tensor in (x, mixed))
        results += [mixed.detach(), places.detach(), x.grad]
    assert weight.grad is not None
    return [*results, weight.grad]


def varying_and_written(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    run, results = compiled(written), sequences()
    for x in list(results):
        results.append(run(x, x.flip(0)))
    return results


def optimizing(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    """State that is looked up by parameters; factors that are tensors. Torch imports TorchDynamo for it."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = compiled(optimizer.step)
    for n in range(3):
        model(batch(n)).square().sum().backward()
        step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def viewed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    hidden = y.sin()
    return y, y[1:], x[1:], x, hidden.t(), hidden.view(-1)[1:]


def views(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    """Of an input, of a result, and of what is neither: written to, they change what they are views of."""
    x = batch()
    y, part, of_input, same, turned, flat = compiled(viewed)(x)
    for view in (part, of_input, turned):
        view.add_(1)
    assert same is x
    return [y, part, of_input, x, turned, flat]


def views_in_training(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    run, x, results = compiled(viewed), batch().requires_grad_(), []
    for n in range(2):
        given = x * (n + 1)
        y, part, of_input, same, turned, flat = run(given)
        of_input.mul_(3)
        turned.mul_(2)
        assert same is given
        total = sum(view.square().sum() for view in (y, part, of_input, same, turned, flat))
        total.backward()
        results += [view.detach() for view in (y, part, of_input, same, turned, flat)]
    assert x.grad is not None
    return [*results, x.grad]


def varying_views(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    run, results = compiled(viewed), []
    for x in sequences():
        parts = run(x[0].requires_grad_())
        sum(part.square().sum() for part in parts).backward()
        assert x.grad is None
        results += [part.detach() for part in parts]
    return results


def seen_again(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((x @ y).sin() * y.cos()).exp()


def kept_for_more(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    """The backward graph is compiled for a pass that needs what was saved no longer; another keeps it."""
    run, grads = compiled(seen_again), []
    for keeps in (False, True):
        x, y = batch()[:, :4].clone().requires_grad_(), batch(1)[:, :4].clone().requires_grad_()
        total = run(x, y).sum()
        try:
            total.backward(retain_graph=keeps)
            if keeps:
                total.backward()
        except RuntimeError as error:  # torch refuses that in the process that has compiled it
            assert "donated buffers" in str(error) and "torch._inductor.config" in sys.modules
            eager = seen_again(x, y).sum() * 2
            eager.backward()
        assert x.grad is not None and y.grad is not None
        grads += [x.grad, y.grad]
    return grads


def twice(x: torch.Tensor) -> torch.Tensor:
    return x.sin().sum()


def differentiating_twice(compiled: Callable[..., Any]) -> list[torch.Tensor]:
    """Which can't be done, and is an error."""
    x = batch().requires_grad_()
    (grad,) = torch.autograd.grad(compiled(twice)(x), x, create_graph=True)
    if compiled is not as_it_is:
        assert grad.requires_grad
        try:
            grad.sum().backward()
        except RuntimeError as error:
            assert "double backward" in str(error)
        else:
            raise AssertionError("no error")
    return [grad.detach()]


PROGRAMS = [
    *(inference, training, writing, differentiating_twice),
    *(varying, varying_training, varying_and_written, views, views_in_training, varying_views),
    *(kept_for_more, optimizing),
]


def as_it_is(fn: Any) -> Any:
    return fn


def main() -> None:
    found = {}
    for program in PROGRAMS:
        framelift.counters.clear()
        expected, result = program(as_it_is), program(framelift.compile)
        equal = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, result, strict=True))
        asked = framelift.counters["cache"]
        loaded = [name for name in ("torch._inductor", "torch._dynamo") if f"{name}.config" in sys.modules]
        found[program.__name__] = (equal, asked["hit"], asked["miss"], loaded)
    writer.finish()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
