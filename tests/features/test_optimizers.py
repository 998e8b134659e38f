"""Optimizers and schedulers: a compiled `step`, and training steps around it, do what eager ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import framelift
from check import capture, entries, reasons, why_not

BREAKING = {"ASGD", "RAdam", "Adafactor"}
"""Optimizers that ask a tensor for its value, even in compiled code, unless they are `capturable`."""

FUSED_WHOLE = {"Adam", "AdamW"}
"""Of the fused steps, torch can run these on fakes, if the learning rate is a number."""

OTHERWISE = {"SparseAdam": "of sparse gradients", "LBFGS": "needs a closure"}

NAMES = sorted(
    name
    for name, cls in vars(torch.optim).items()
    if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"foreach": True},
    {"foreach": True, "lr": "a tensor", "maximize": True},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"amsgrad": True},
    {"maximize": True},
    {"lr": "a tensor"},
    {"fused": True},
    {"fused": True, "lr": "a tensor", "weight_decay": 0.1},
    {"fused": True, "amsgrad": True},
]


def made(name: str, options: dict[str, Any]) -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
    torch.manual_seed(0)
    params = [torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)]
    for param in params:
        param.grad = torch.randn_like(param)
    if options.get("lr") == "a tensor":
        options = {**options, "lr": torch.tensor(0.01)}
    return getattr(torch.optim, name)(params, **options), params


def accepted() -> list[tuple[str, dict[str, Any]]]:
    """Optimizers with those options that they take, on this machine."""
    found = []
    for name in NAMES:
        for options in OPTIONS if name not in OTHERWISE else ():
            try:
                made(name, options)[0].step()
            except (TypeError, RuntimeError, ValueError):
                continue
            found.append((name, options))
    return found


def state_of(optimizer: torch.optim.Optimizer, params: list[torch.Tensor]) -> list[Any]:
    return [[param.detach(), dict(optimizer.state[param])] for param in params]


def step(optimizer: torch.optim.Optimizer) -> Any:
    return optimizer.step()


@pytest.mark.parametrize(("name", "options"), accepted(), ids=lambda value: str(value))
def test_three_steps_are_as_eagerly(name: str, options: dict[str, Any]) -> None:
    asks = name in BREAKING and not (name == "ASGD" and "foreach" in options)
    whole = not asks and not (name == "Rprop" and "lr" in options)
    whole = whole and ("fused" not in options or (name in FUSED_WHOLE and "lr" not in options))
    optimizer, params = made(name, options)
    other, others = made(name, options)
    compiled = capture(step, fullgraph=whole)
    for _ in range(3):
        optimizer.step()
        compiled(other)
        torch.testing.assert_close(state_of(other, others), state_of(optimizer, params))
    if asks:
        assert {"data-dependent value", "data-dependent branch"} & set(reasons(compiled))


def test_every_optimizer_is_tested() -> None:
    assert {name for name, _ in accepted()} | set(OTHERWISE) == set(NAMES)


@pytest.mark.inductor
@pytest.mark.parametrize(("name", "fused"), [("SGD", False), ("AdamW", False), ("AdamW", True)])
def test_inductor_compiles_steps(name: str, fused: bool) -> None:
    options = {"lr": 0.1, "fused": fused}
    are_as_eagerly(name, options, framelift.compile(step, fullgraph=True))


@pytest.mark.parametrize(("name", "options"), accepted(), ids=lambda value: str(value))
def test_autograds_compiler_follows_steps(name: str, options: dict[str, Any]) -> None:
    are_as_eagerly(name, options, framelift.compile(step, backend="aot_eager"))


def are_as_eagerly(name: str, options: dict[str, Any], compiled: Callable[..., Any]) -> None:
    optimizer, params = made(name, options)
    other, others = made(name, options)
    for _ in range(3):
        optimizer.step()
        compiled(other)
        torch.testing.assert_close(state_of(other, others), state_of(optimizer, params))


def test_a_step_is_captured_once_for_its_state_and_once_more() -> None:
    optimizer, _ = made("Adam", {})
    compiled = capture(step)
    for _ in range(5):
        compiled(optimizer)
    record = next(iter(compiled._framelift_context.code_states.values()))
    assert len(record.entries) == 2  # without state, then with it


def test_a_changed_learning_rate_is_noticed() -> None:
    optimizer, params = made("SGD", {"lr": 0.1})
    other, others = made("SGD", {"lr": 0.1})
    compiled = capture(step)
    for lr in (0.1, 0.5, 0.25):
        optimizer.param_groups[0]["lr"] = other.param_groups[0]["lr"] = lr
        optimizer.step()
        compiled(other)
        torch.testing.assert_close(others, params)


def test_parameter_groups_have_their_own_options() -> None:
    def make() -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
        torch.manual_seed(0)
        params = [torch.randn(3, requires_grad=True) for _ in range(3)]
        for param in params[:2]:
            param.grad = torch.randn(3)
        groups = [{"params": params[:1], "lr": 0.1}, {"params": params[1:], "weight_decay": 0.3}]
        return torch.optim.AdamW(groups, lr=0.01), params

    optimizer, params = make()
    other, others = make()
    compiled = capture(step)
    for _ in range(3):
        optimizer.step()
        compiled(other)
    torch.testing.assert_close(others, params)


def test_zero_grad_does_what_it_does_eagerly() -> None:
    for to_none in (True, False):
        optimizer, params = made("SGD", {"lr": 0.1})
        capture(lambda o, to_none=to_none: o.zero_grad(set_to_none=to_none), fullgraph=False)(optimizer)
        assert all((p.grad is None) if to_none else not p.grad.any() for p in params)


def test_hooks_of_a_step() -> None:
    log: list[str] = []
    optimizer, params = made("SGD", {"lr": 0.1})
    optimizer.register_step_pre_hook(lambda *_: log.append("before"))
    optimizer.register_step_post_hook(lambda *_: log.append("after"))
    capture(step)(optimizer)
    assert log == ["before", "after"]


def model_and_optimizer(
    make: Callable[[Any], torch.optim.Optimizer],
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    return model, make(model.parameters())


def training_step(
    model: Any, optimizer: Any, scheduler: Any, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    return loss.detach()


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
    "LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "SequentialLR": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.ConstantLR(o), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
        milestones=[2],
    ),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_a_training_step(optimizer: str, scheduler: str, backend: str) -> None:
    results = []
    for compile in (lambda fn: fn, lambda fn: framelift.compile(fn, backend=backend)):
        fn = compile(training_step)
        model, made_optimizer = model_and_optimizer(lambda p: getattr(torch.optim, optimizer)(p, lr=0.1))
        made_scheduler = SCHEDULERS[scheduler](made_optimizer)
        generator = torch.Generator().manual_seed(1)
        losses = []
        for _ in range(4):
            x, y = torch.randn(5, 4, generator=generator), torch.randn(5, 1, generator=generator)
            losses.append(fn(model, made_optimizer, made_scheduler, x, y))
        results.append((losses, list(model.parameters()), made_scheduler.get_last_lr()))
    torch.testing.assert_close(results[1], results[0])


lr_scheduler: Any = torch.optim.lr_scheduler
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **{name: (lambda epoch: 0.9**epoch,) for name in ("LambdaLR", "MultiplicativeLR")},
    **{"StepLR": (2,), "MultiStepLR": ([1, 3],), "ExponentialLR": (0.9,), "CosineAnnealingLR": (5,)},
    **{"CyclicLR": (0.01, 0.1, 2), "OneCycleLR": (0.1, 10), "CosineAnnealingWarmRestarts": (2,)},
}
BETWEEN = [
    name
    for name, cls in vars(lr_scheduler).items()
    if isinstance(cls, type) and issubclass(cls, lr_scheduler.LRScheduler) and name[0] != "_"
]


def scheduler_of(name: str, optimizer: Any) -> Any:
    if name in ("SequentialLR", "ChainedScheduler"):
        parts = [lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)]
        return (
            lr_scheduler.ChainedScheduler(parts)
            if name == "ChainedScheduler"
            else lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
        )
    return getattr(lr_scheduler, name)(optimizer, *ARGUMENTS.get(name, ()))


@pytest.mark.parametrize("name", [name for name in BETWEEN if name not in ("LRScheduler", "SWALR")])
def test_a_scheduler_between_the_steps(name: str) -> None:
    """A learning rate that changes is one more capture, in which it is a number that may be any other."""
    results = []
    compiled = capture(step)
    for run in (step, compiled):
        optimizer, params = made("SGD", {"lr": 0.1, "momentum": 0.9})
        scheduler = scheduler_of(name, optimizer)
        for loss in (1.0, 2.0, 3.0, 4.0, 5.0):
            run(optimizer)
            scheduler.step(*([loss] if name == "ReduceLROnPlateau" else []))
        results.append((params, optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    assert why_not(compiled) is None and 0 < entries(compiled) <= 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_factor_that_is_a_tensor(backend: str) -> None:
    """Eager code asks it for its value: with the eager backend the result is the same to the last bit."""

    def f(x: Any, y: Any, z: Any, t: Any) -> Any:
        x.add_(y, alpha=t).addcmul_(y, z, value=t)
        torch._foreach_add_([x], [z], alpha=t)
        return torch.addcdiv(x, y, z, value=t), y.sub(z, alpha=t), x.half().add_(y.half(), alpha=t)

    def outcome(run: Any) -> Any:
        torch.manual_seed(0)
        x, y, z = (torch.randn(100) for _ in range(3))
        return run(x, y, z, torch.tensor(0.1)), x

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    exactly = {"rtol": 0.0, "atol": 0.0} if backend == "eager" else {"rtol": 1e-2, "atol": 1e-4}
    torch.testing.assert_close(outcome(compiled), outcome(f), **exactly)
    assert why_not(compiled) is None and entries(compiled) == 1


def test_sparse_gradients_and_line_searches() -> None:
    """Both look at data: of which elements there are, and of how far to go."""

    def sparse() -> Any:
        embedding = torch.nn.Embedding(4, 2, sparse=True)
        torch.nn.init.constant_(embedding.weight, 1.0)
        return torch.optim.SparseAdam(list(embedding.parameters())), embedding, embedding.weight

    def searching() -> Any:
        weight = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        return torch.optim.LBFGS([weight], max_iter=3, line_search_fn="strong_wolfe"), weight.mul, weight

    def fit(optimizer: Any, model: Any, x: Any) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 4).sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    for make, x in ((sparse, torch.tensor([1, 3])), (searching, torch.tensor(2.0))):
        results = []
        compiled = capture(fit, fullgraph=False)
        for run in (fit, compiled):
            optimizer, model, weight = make()
            losses = [run(optimizer, model, x) for _ in range(3)]
            results.append((losses, weight.detach()))
        torch.testing.assert_close(results[1], results[0])
        assert reasons(compiled)


def test_a_step_with_a_closure_is_as_eagerly() -> None:
    def fit(optimizer: Any, p: torch.Tensor) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    for cls in (torch.optim.LBFGS, torch.optim.SGD):
        p, q = (torch.tensor([1.0, -2.0], requires_grad=True) for _ in range(2))
        optimizer, other = cls([p], lr=0.1), cls([q], lr=0.1)
        compiled = capture(fit, fullgraph=False)
        for _ in range(3):
            torch.testing.assert_close(compiled(other, q), fit(optimizer, p))
        torch.testing.assert_close(p, q)


def test_what_torchs_compiler_keeps_from_itself_is_captured_all_the_same() -> None:
    hidden = torch.compiler.disable(torch.optim.SGD._init_group)
    with mock.patch.object(torch.optim.SGD, "_init_group", hidden):
        optimizer, params = made("SGD", {"momentum": 0.9})
        expected, plain = made("SGD", {"momentum": 0.9})
        compiled = capture(lambda optimizer: optimizer.step())
        for _ in range(2):
            compiled(optimizer)
            expected.step()
        torch.testing.assert_close([p.detach() for p in params], [p.detach() for p in plain])
