"""Ordinary loops are compiled in their first steps, and never again.

Each program is made by a function that gives one step of it. Fifty steps are run; what is counted is every
attempt to compile something, whatever came of it.
"""

from __future__ import annotations

import collections
import copy
import functools
import gc
import math
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import framelift
from framelift.core.errors import FrameliftError
from framelift.testing.backends import CompileCounter

STEPS, WARM = 50, 8
"""How many steps are run, and after how many all is compiled."""
LOOPS: dict[str, tuple[Callable[[], Callable[[], Any]], int]] = {}
"""Name -> what makes the step, and how many compilations are too many."""


def compiled(fn: Any = None, **settings: Any) -> Any:
    return framelift.compile(fn, **{"backend": "eager", **settings})


def loop(most: int = 3) -> Callable[[Any], Any]:
    def add(make: Callable[[], Callable[[], Any]]) -> Any:
        LOOPS[make.__name__] = make, most
        return make

    return add


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(4, 8), nn.Linear(8, 2)
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.inner(x).relu())


# ---- training

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "AdamW of many": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1),
}
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.99),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 50),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=100),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (n + 1)),
}


def training(optimizer: str, scheduler: str, whole: bool, schedules: bool = False) -> Callable[[], Any]:
    model, x, y = Net(), torch.randn(3, 4), torch.randn(3, 2)
    chosen = OPTIMIZERS[optimizer](model.parameters())
    schedule = SCHEDULERS[scheduler](chosen)

    def backward() -> torch.Tensor:
        chosen.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    def train() -> torch.Tensor:
        loss = backward()
        chosen.step()
        if schedules:
            schedule.step()
        return loss

    run = compiled(train if whole else chosen.step)

    def step() -> None:
        if not whole:
            backward()
        run()
        if not schedules:
            schedule.step()

    return step


for _o, _s in [
    *((o, "exponential") for o in OPTIMIZERS),
    *((o, "one cycle") for o in OPTIMIZERS if o != "AdamW"),
    *(("AdamW", s) for s in SCHEDULERS),
]:
    LOOPS[f"{_o}, {_s}, the optimizer"] = functools.partial(training, _o, _s, False), 4
LOOPS["AdamW, cosine, the whole step"] = functools.partial(training, "AdamW", "cosine", True), 6
for _s in ("exponential", "cosine", "lambda"):  # the one cycle is compiled for each of its two phases
    LOOPS[f"AdamW, {_s}, all in one"] = functools.partial(training, "AdamW", _s, True, True), 10


@loop(3)
def a_power_of_a_number_that_grows() -> Callable[[], Any]:
    at = [0.0]
    run = compiled(lambda x, n: x * (1 - n**-0.8) + math.log(n) / math.sqrt(n))

    def step() -> None:
        at[0] += 1
        run(torch.ones(2), at[0])

    return step


@loop(4)
def moving_average() -> Callable[[], Any]:
    model, average, at = Net(), Net(), [0]

    @compiled
    def update(step: int) -> None:
        decay = min(0.999, (1 + step) / (10 + step))
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
                mine.mul_(decay).add_(theirs * (1 - decay))

    def step() -> None:
        at[0] += 1
        update(at[0])

    return step


@loop(4)
def gradients_of_several_batches() -> Callable[[], Any]:
    model, n = Net(), [0]
    run = compiled(model)

    def step() -> None:
        n[0] += 1
        (run(torch.randn(3, 4)).sum() / 4).backward()
        if n[0] % 4 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model.zero_grad()

    return step


@loop(4)
def training_and_evaluation_with_a_last_batch() -> Callable[[], Any]:
    model, n = Net(), [0]
    run = compiled(model)

    def step() -> Any:
        n[0] += 1
        model.train(n[0] % 2 == 0)
        with torch.set_grad_enabled(model.training):
            return run(torch.randn(5 if n[0] % 3 else 2, 4)).sum().item()

    return step


@loop()
def a_counter_of_steps() -> Callable[[], Any]:
    class Counting(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return super().forward(x)

    run = compiled(Counting())
    return lambda: run(torch.ones(2, 4))


# ---- serving and generation


@loop(4)
def a_cache_that_grows() -> Callable[[], Any]:
    run, cache = compiled(lambda cache, x: torch.cat([cache, x.unsqueeze(0)])), [torch.ones(2, 4)]

    def step() -> None:
        cache[0] = run(cache[0], torch.ones(4))

    return step


def batch_of(n: int) -> dict[str, Any]:
    return {"x": torch.ones(3), "id": f"id{n}", "n": n, "names": [f"a{n}"], "weight": n * 0.5}


@dataclass
class Batch:
    x: Any
    id: str


Named = collections.namedtuple("Named", "x id")
PASSING: dict[str, Callable[[dict[str, Any]], Any]] = {
    "unpacked": lambda b: {**b, "y": b["x"] * 2},
    "merged": lambda b: b | {"y": b["x"] * 2},
    "merged in place": lambda b: b.__ior__({"y": b["x"] * 2}),
    "copied": lambda b: (dict(b), b.copy(), copy.copy(b), b["x"] * 2),
    "updated": lambda b: (b.update(y=b["x"] * 2), b)[1],
    "comprehension": lambda b: {k: v * 2 if isinstance(v, torch.Tensor) else v for k, v in b.items()},
    "by keywords": lambda b: (lambda x, **rest: (x * 2, rest))(**b),
    "forwarded twice": lambda b: (lambda **k: (lambda x, id, **r: (x * 2, id, r))(**k))(**b),
    "in a tuple": lambda b: (b["x"] * 2, b["id"], b["names"]),
    "in a list": lambda b: [b["x"] * 2, *b.values()],
    "in a named tuple": lambda b: (Named(b["x"] * 2, b["id"]), Named(x=b["x"], id=b["id"])),
    "in a namespace": lambda b: (types.SimpleNamespace(id=b["id"]).id, b["x"] * 2),
    "for each key": lambda b: (dict.fromkeys("ab", b["id"]), b["x"] * 2),
    "filtered": lambda b: (list(filter(lambda name: name is not None, b["names"])), b["x"] * 2),
    "asked for attributes": lambda b: (hasattr(b["id"], "upper"), hasattr(b["id"], "no"), b["x"] * 2),
    "asked whether it is called": lambda b: (callable(b["id"]), callable(b["weight"]), b["x"] * 2),
    "in a dataclass": lambda b: replace(Batch(b["x"] * 2, b["id"]), x=b["x"] * 3),
}


def passing(body: Callable[[dict[str, Any]], Any]) -> Callable[[], Any]:
    run, n = compiled(body), [0]

    def step() -> Any:
        n[0] += 1
        return run(batch_of(n[0]))

    return step


for _name, _body in PASSING.items():
    LOOPS[f"a dictionary, {_name}"] = functools.partial(passing, _body), 3


# ---- compile, where it is written


@loop(1)
def compile_of_a_function_in_the_loop() -> Callable[[], Any]:
    return lambda: compiled(lambda x: x.sin())(torch.ones(2))


@loop(1)
def compile_of_a_closure_in_the_loop() -> Callable[[], Any]:
    def step() -> Any:
        model = Net()

        def run(x: torch.Tensor) -> torch.Tensor:
            return model(x)

        return compiled(run)(torch.ones(2, 4))

    return step


@loop(1)
def compile_of_a_module_in_the_loop() -> Callable[[], Any]:
    return lambda: compiled(Net())(torch.ones(2, 4))


@loop(1)
def compile_of_a_function_of_torch_in_the_loop() -> Callable[[], Any]:
    return lambda: compiled(nn.functional.gelu)(torch.ones(2, 4))


@loop(1)
def compile_with_a_backend_of_the_program_in_the_loop() -> Callable[[], Any]:
    counter = CompileCounter()

    def step() -> Any:
        result = compiled(lambda x: x.sin() + 1, backend=counter)(torch.ones(2))
        assert counter.frame_count == 1
        return result

    return step


@loop(3)
def compile_inside_a_compiled_function() -> Callable[[], Any]:
    @compiled
    def outer(x: torch.Tensor) -> torch.Tensor:
        @framelift.compile(backend="eager")
        def inner(y: torch.Tensor) -> torch.Tensor:
            return y.relu() + 1

        return inner(x) * 2

    return lambda: outer(torch.ones(2))


@loop(1)
def a_compiled_function_inside_another() -> Callable[[], Any]:
    inner = compiled(lambda x: x.sin())
    outer = compiled(lambda x: inner(x) + 1)
    return lambda: outer(torch.ones(2))


# ---- functions that are made anew in each call, and used behind a break


def wrapping(fn: Callable[..., Any]) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs) + 1

    return wrapper


def marked(fn: Callable[..., Any]) -> Any:
    made: Any = lambda x: fn(x)  # noqa: E731
    made.scale, made.text = 2.0, "text"
    return made


def double(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x * by


USES: dict[str, tuple[Callable[[], Any], Callable[[Any, torch.Tensor], Any]]] = {
    "a decorated one": (lambda: wrapping(double), lambda fn, x: fn(x)),
    "one decorated again": (lambda: wrapping(double), lambda fn, x: wrapping(fn)(x)),
    "its names": (lambda: wrapping(double), lambda fn, x: x + len(fn.__name__ + fn.__qualname__)),
    "what it wraps": (lambda: wrapping(double), lambda fn, x: fn.__wrapped__(x)),
    "an attribute": (lambda: marked(double), lambda fn, x: fn(x) * fn.scale),
    "no attribute": (lambda: marked(double), lambda fn, x: fn(x) * getattr(fn, "nothing", 3)),
    "its dictionary": (lambda: marked(double), lambda fn, x: fn(x) * len(vars(fn))),
    "a partial": (lambda: functools.partial(wrapping(double), by=3), lambda fn, x: fn(x)),
    "in a list": (lambda: [wrapping(double), marked(double)], lambda fns, x: [fn(x) for fn in fns]),
    "a disabled one": (lambda: framelift.disable(double), lambda fn, x: fn(x) + 1),
    "a skipped one": (lambda: framelift.disable(double, recursive=False), lambda fn, x: fn(x) + 1),
    "one that torch disables": (lambda: torch.compiler.disable(double), lambda fn, x: fn(x) + 1),
    "a disabled one made anew": (lambda: framelift.disable(lambda x: x + 1), lambda fn, x: fn(x) + 1),
}


def used_behind_a_break(made: Callable[[], Any], used: Callable[[Any, torch.Tensor], Any]) -> Any:
    def body(x: torch.Tensor) -> Any:
        fn = made()
        framelift.graph_break()
        return used(fn, x)

    run = compiled(body)

    def step() -> None:
        torch.testing.assert_close(run(torch.ones(2)), body(torch.ones(2)))

    return step


for _name, _parts in USES.items():
    LOOPS[f"a function made anew, {_name}"] = functools.partial(used_behind_a_break, *_parts), 6


def test_the_marks_of_a_function_that_is_made_anew_are_looked_at() -> None:
    def made(**marks: Any) -> Any:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return x + framelift.is_compiling()

        vars(fn).update(marks)
        return fn

    run = compiled(lambda fn, x: fn(x) * 2)
    assert run(made(), torch.zeros(1)).item() == 2
    with pytest.raises(FrameliftError):
        run(made(_dynamo_forbidden=True), torch.zeros(1))
    assert run(made(), torch.zeros(1)).item() == 2
    for n in range(2):  # what is read of one that is passed in is guarded
        read = compiled(lambda fn, x: (fn.__name__, getattr(fn, "size", None), x + 1)[:2])
        for fn in (made(), made(size=n), made(size=n + 1), marked(double)):
            assert read(fn, torch.ones(1)) == (fn.__name__, getattr(fn, "size", None))


def test_a_frame_whose_operators_nobody_needs_calls_none() -> None:
    """Neither itself nor in what it calls, of which nothing is compiled."""
    log: list[Any] = []

    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    def fn(x: torch.Tensor) -> int:
        unused = square(square(x)).sum()
        log.append(x.shape[0])
        del unused
        return x.shape[0] + 1

    counter = CompileCounter()
    run = compiled(fn, backend=counter)
    for n in range(5):
        x = torch.ones(3)
        with torch.profiler.profile() as profile:
            assert run(x) == 4
        called = {event.name for event in profile.events() if event.name.startswith("aten::")}
        assert n == 0 or not called
    assert log == [3] * 5 and not counter.frame_count


def test_what_is_told_that_it_is_compiled_runs_as_that_in_each_call() -> None:
    found: list[str] = []

    def fn(x: Any) -> Any:
        found.append("compiled" if torch.compiler.is_compiling() else "plain")
        return x

    for whole in (False, True):
        run = compiled(fn, fullgraph=whole)
        for _ in range(6):
            run(torch.ones(1))
        assert found == ["compiled"] * 6
        found.clear()


def test_what_is_written_to_the_dictionary_of_a_function_is_an_attribute() -> None:
    def body(x: torch.Tensor) -> Any:
        fn = wrapping(double)
        framelift.graph_break()
        fn.__dict__["scale"] = 3
        found = x * fn.scale
        del fn.__dict__["__wrapped__"]
        return found, hasattr(fn, "__wrapped__"), list(vars(fn))

    found = compiled(body)(torch.ones(2))
    assert (found[0].tolist(), *found[1:]) == ([3, 3], False, ["scale"])


@loop(1)
def equal_layers_one_by_one() -> Callable[[], Any]:
    layers = [compiled(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)) for _ in range(12)]
    x = torch.ones(1, 3, 4, requires_grad=True)
    return lambda: functools.reduce(lambda y, layer: layer(y), layers, x)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_compiled_in_its_first_steps(name: str) -> None:
    make, most = LOOPS[name]
    step = make()
    framelift.compile_records.clear()
    for _ in range(WARM):
        step()
    warm = len(framelift.compile_records())
    for _ in range(STEPS - WARM):
        step()
    assert len(framelift.compile_records()) == warm <= most


@loop()
def parameters_that_are_given() -> Callable[[], Any]:
    model = Net()
    run = compiled(lambda given, x: torch.func.functional_call(model, given, (x,)))
    return lambda: run({k: v.detach().clone() for k, v in model.named_parameters()}, torch.ones(2, 4))


# ---- modules


def test_the_class_of_a_compiled_module_is_not_made_from_the_modules() -> None:
    made: list[type] = []

    class Final(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], names: dict[str, Any], **given: Any) -> Any:
            if any(isinstance(base, Final) for base in bases):
                raise TypeError("final")
            return super().__new__(mcs, name, bases, names, **given)

    class Registered(Net, metaclass=Final):
        def __init_subclass__(cls, *, key: str) -> None:
            made.append(cls)

        def __len__(self) -> int:
            return 3

    module = Registered()
    run = compiled(module)
    x = torch.ones(2, 4)
    assert torch.equal(run(x), module(x)) and len(run) == 3
    assert isinstance(run, Registered) and issubclass(type(run), Registered)
    assert not made and not Registered.__subclasses__()
    Registered.__call__  # noqa: B018
    Registered.extra = lambda self: self.steps + 1  # type: ignore[attr-defined]
    assert run.extra() == 1


def test_what_torchscript_has_compiled_is_left_as_it_is() -> None:
    module = torch.jit.trace(Net(), torch.ones(2, 4))
    run = compiled(module)
    assert torch.equal(run(torch.ones(2, 4)), module(torch.ones(2, 4)))


def test_what_a_backend_has_made_of_a_backward_pass_is_left_as_it_is() -> None:
    """Also where a program that breaks calls it while a compiled function runs."""
    framelift.compile_records.clear()
    model = Net()

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        print(end="")
        loss.backward()
        return loss

    run = compiled(step, backend="aot_eager")
    for _ in range(2):
        run(torch.ones(2, 4))
    assert {record.name.rpartition(".")[2] for record in framelift.compile_records()} == {"step"}


# ---- lifetime


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("kind", ["module", "function", "method", "raising"])
def test_tensors_go_with_their_last_reference(kind: str, breaks: bool, trains: bool) -> None:
    class Local(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            if breaks:
                print(end="")
            if kind == "raising":
                raise ValueError
            return y * 2

    def go() -> list[weakref.ref[Any]]:
        model, x = Local(), torch.ones(2, 4)
        run = compiled({"function": lambda x: model(x), "method": model.forward}.get(kind, model))
        for _ in range(2):
            try:
                out = run(x)
                if trains:
                    out.sum().backward()
            except ValueError:
                out = torch.ones(1)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert kind == "raising" or bool(grads) is trains
        return [weakref.ref(found) for found in (x, out, *model.parameters(), *grads)]

    gc.collect()
    gc.disable()
    try:
        assert [found() for found in go() if found() is not None] == []
    finally:
        gc.enable()
