"""`nn.Module`s as programs use them: containers and their methods, every kind of hook, lazy modules,
parametrisations, modules made, copied, loaded and switched inside, and calls with other parameters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.ao.quantization as quantization
from check_module import check_module, plain, state_of, total, x3
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import framelift
from sameness import alike

BACKENDS = ["eager", "aot_eager"]


class Calling(nn.Module):
    """`body(parts, x)` as a forward, so that a test is that function and the modules it has."""

    def __init__(self, body: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.body(self, x)


def linear() -> nn.Linear:
    return nn.Linear(4, 4)


def layers(count: int = 3) -> Iterator[nn.Linear]:
    return (linear() for _ in range(count))


def scale(value: float = 2.0) -> nn.Parameter:
    return nn.Parameter(torch.full((4,), value))


# ---- containers


def goes_over_a_sequential(m, x):
    for layer in m.parts:
        x = layer(x)
    for layer in m.parts[1:]:
        x = layer(x)
    return m.parts[-1](x) * len(m.parts)


def goes_over_a_list_backwards(m, x):
    for n, layer in enumerate(reversed(m.parts)):
        x = layer(x) + n
    return x + sum(layer(x) for layer in m.parts[:2])


def goes_over_a_dictionary(m, x):
    for name, layer in m.parts.items():
        x = layer(x) * len(name)
    for name in m.parts:
        x = m.parts[name](x)
    return x + len(list(m.parts.values())) + ("a" in m.parts)


def goes_over_parameters(m, x):
    for n, p in enumerate(m.parts):
        x = x * p + n
    return x + m.parts[1] + m.parts[-1] + len(m.parts)


def slices_parameters(m, x):
    return x + sum(m.parts[:2])


def goes_over_named_parameters(m, x):
    for name, p in m.parts.items():
        x = x * p + len(name)
    return x + sum(m.parts.values()) + ("a" in m.parts) + len(m.parts)


def makes_containers(m, x):
    both = nn.Sequential(*m.parts)
    more = nn.ModuleList(m.parts)
    more.append(nn.ReLU())
    more.insert(0, nn.Tanh())
    more.extend([nn.Identity()])
    names = nn.ModuleDict({"first": m.parts[0]})
    names.update({"last": m.parts[-1]})
    for part in more:
        x = part(x)
    return both(x) + names["last"](x), len(more), list(names)


def pops_what_it_made(m, x):
    made = nn.ModuleDict({"a": m.parts[0], "b": nn.ReLU()})
    popped = made.pop("b")
    del made["a"]
    return popped(x), len(made)


CONTAINERS: dict[str, tuple[Callable[..., Any], Callable[[], dict[str, Any]]]] = {
    "sequential": (goes_over_a_sequential, lambda: {"parts": nn.Sequential(*layers())}),
    "list": (goes_over_a_list_backwards, lambda: {"parts": nn.ModuleList(layers())}),
    "dictionary": (
        goes_over_a_dictionary,
        lambda: {"parts": nn.ModuleDict(dict(zip("ab", layers(), strict=False)))},
    ),
    "parameter list": (
        goes_over_parameters,
        lambda: {"parts": nn.ParameterList([scale(), scale(3.0), scale(0.5)])},
    ),
    "parameter dictionary": (
        goes_over_named_parameters,
        lambda: {"parts": nn.ParameterDict({"a": scale(), "bc": scale(3.0)})},
    ),
    "made inside": (makes_containers, lambda: {"parts": nn.ModuleList(layers(2))}),
    "popped from": (pops_what_it_made, lambda: {"parts": nn.ModuleList(layers(1))}),
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_container_of_modules_is_as_eagerly(name, backend):
    body, parts = CONTAINERS[name]
    check_module(lambda: Calling(body, **parts()), x3(), backend=backend, exact=backend == "eager")


def test_a_layer_added_to_a_container_is_noticed():
    module = Calling(goes_over_a_list_backwards, parts=nn.ModuleList(layers(2)))
    compiled = framelift.compile(module, backend="eager", fullgraph=True)
    for change in (lambda: None, lambda: module.parts.append(linear()), lambda: module.parts.pop(0)):
        change()
        alike(plain(module(x3())), plain(compiled(x3())))


def test_where_torchs_own_compiler_is_in_use(monkeypatch):
    """It puts methods of its own before those that make modules."""
    for name in ("__init__", "__setstate__"):
        monkeypatch.setattr(nn.Module, name, getattr(nn.Module, name))
    monkeypatch.setattr(nn.Module, "___needs_generation_tag_patch", True, raising=False)
    torch.compile(linear(), backend="eager")(x3())
    assert "mutation_guard" in nn.Module.__init__.__module__
    for body in (goes_over_a_sequential, makes_a_layer, makes_a_stack):
        check_module(lambda body=body: Calling(body, parts=nn.Sequential(*layers())), x3())


# ---- modules made, copied and loaded inside


def makes_a_layer(m, x):
    return nn.Linear(4, 2)(x) + nn.Parameter(torch.ones(2))


def makes_a_stack(m, x):
    made = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4))
    nn.init.normal_(made[0].weight)
    return made(x), made.training


def gives_back_what_it_made(m, x):
    made = nn.Linear(4, 4)
    return made(x), made.weight, made.bias


def copies_a_layer(m, x):
    again = copy.deepcopy(m.part)
    return again(x) + m.part(x), again.weight is m.part.weight


def reads_the_state(m, x):
    state = m.part.state_dict()
    return x @ state["weight"] + state["bias"], sorted(state)


def loads_a_state(m, x):
    m.part.load_state_dict({"weight": torch.ones(4, 4), "bias": torch.zeros(4)})
    return m.part(x)


def switches_modes(m, x):
    m.part.eval()
    before = m.part(x)
    m.part.train()
    return before, m.part(x), m.part.training


def names_everything(m, x):
    names = [name for name, _ in m.named_parameters()] + [name for name, _ in m.named_modules()]
    names += [name for name, _ in m.named_children()] + [name for name, _ in m.named_buffers()]
    count = sum(p.numel() for p in m.parameters()) + len(list(m.children())) + len(list(m.modules()))
    return x * count + sum(b.sum() for b in m.buffers()), names


def calls_with_other_parameters(m, x):
    doubled = {name: p * 2 for name, p in m.part.named_parameters()}
    return torch.func.functional_call(m.part, doubled, (x,))


def applies_a_function(m, x):
    seen = []
    m.part.apply(lambda sub: seen.append(type(sub).__name__))
    return m.part(x), seen


def asks_by_name(m, x):
    return m.get_submodule("part")(x) @ m.get_parameter("part.weight") + hasattr(m, "missing")


def sets_a_parameter(m, x):
    m.part.weight = nn.Parameter(torch.eye(4))
    return m.part(x)


def adds_a_buffer(m, x):
    m.part.register_buffer("extra", x.detach() * 2)
    return m.part(x) + m.part.extra


def counts(m, x):
    m.calls = getattr(m, "calls", 0) + 1
    m.total.add_(x.detach().sum(0))
    m.last = x.detach() * 2
    return m.part(x) + m.total


def uses_one_twice(m, x):
    return m.second(m.part(x)) + m.part(m.second(x))


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], dict[str, Any]]]] = {
    "state_dict": (reads_the_state, lambda: {"part": linear()}),
    "load_state_dict": (loads_a_state, lambda: {"part": linear()}),
    "train and eval": (switches_modes, lambda: {"part": nn.Dropout(0.5)}),
    "names": (names_everything, lambda: {"part": nn.Sequential(linear(), nn.BatchNorm1d(4))}),
    "functional_call": (calls_with_other_parameters, lambda: {"part": linear()}),
    "apply": (applies_a_function, lambda: {"part": nn.Sequential(linear(), nn.ReLU())}),
    "by name": (asks_by_name, lambda: {"part": linear()}),
    "quantisation stubs": (
        lambda m, x: m.end(m.part(m.begin(x))),
        lambda: {"begin": quantization.QuantStub(), "end": quantization.DeQuantStub(), "part": linear()},
    ),
}


BREAKING: dict[str, tuple[Callable[..., Any], Callable[[], dict[str, Any]]]] = {
    "a layer made inside": (makes_a_layer, dict),
    "a stack made inside": (makes_a_stack, dict),
    "made inside and given back": (gives_back_what_it_made, dict),
    "deep copy": (copies_a_layer, lambda: {"part": linear()}),
    "a parameter set": (sets_a_parameter, lambda: {"part": linear()}),
    "a slice of parameters": (slices_parameters, lambda: {"parts": nn.ParameterList([scale(), scale(3.0)])}),
}
"""Parameters are made, or registered: `requires_grad_` and `grad_fn` may break."""


@pytest.mark.parametrize("name", BREAKING)
@pytest.mark.parametrize("backend", BACKENDS)
def test_program_that_makes_parameters(name, backend):
    body, parts = BREAKING[name]
    check_module(
        lambda: Calling(body, **parts()), x3(), backend=backend, exact=backend == "eager", fullgraph=False
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_with_modules_is_as_eagerly(name, backend):
    body, parts = PROGRAMS[name]
    check_module(lambda: Calling(body, **parts()), x3(), backend=backend, exact=backend == "eager")


def test_buffers_and_attributes_changed_in_forward():
    def make() -> nn.Module:
        module = Calling(counts, part=linear())
        module.register_buffer("total", torch.zeros(4))
        return module

    check_module(make, x3(), fullgraph=False)


def test_a_buffer_added_in_forward():
    check_module(lambda: Calling(adds_a_buffer, part=linear()), x3(), fullgraph=False)


def test_one_layer_under_two_names():
    def make() -> nn.Module:
        part = linear()
        return Calling(uses_one_twice, part=part, second=part)

    check_module(make, x3())


# ---- hooks of the other kinds


def grads_doubled(module, grad_input, grad_output):
    return tuple(g if g is None else g * 2 for g in grad_input)


def grads_halved(module, grad_output):
    return tuple(g / 2 for g in grad_output)


def adds_an_entry(module, state, prefix, metadata):
    state[prefix + "extra"] = torch.ones(1)


BACKWARD: dict[str, Callable[[Any], Any]] = {
    "backward": lambda m: m[0].register_full_backward_hook(grads_doubled),
    "backward pre": lambda m: m[0].register_full_backward_pre_hook(grads_halved),
    "backward, whole": lambda m: m.register_full_backward_hook(grads_doubled),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_a_backward_hook_runs_as_eagerly(name):
    def make() -> nn.Module:
        module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        BACKWARD[name](module)
        return module

    check_module(make, x3(), fullgraph=False)


def test_a_state_dict_hook():
    def make() -> nn.Module:
        module = Calling(lambda m, x: (m.part(x), sorted(m.part.state_dict())), part=linear())
        module.part._register_state_dict_hook(adds_an_entry)
        return module

    check_module(make, x3())


@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_a_global_hook_runs_as_eagerly(kind):
    hooks = {"forward": lambda m, args, out: out * 2, "forward_pre": lambda m, args: (args[0] + 1,)}
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = framelift.compile(module, backend="eager", fullgraph=True)
    for _ in range(2):
        alike(plain(module(x3())), plain(compiled(x3())))
        handle = getattr(nn.modules.module, f"register_module_{kind}_hook")(hooks[kind])
        try:
            alike(plain(module(x3())), plain(compiled(x3())))
        finally:
            handle.remove()


def test_a_hook_that_is_called_when_forward_raises():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    def fn(module, x):
        try:
            return module(x)
        except ValueError:
            return x * 2, list(module.seen)

    runs = []
    for callee in (fn, framelift.compile(fn, backend="eager")):
        module = Fails()
        module.seen = []
        module.register_forward_hook(lambda m, a, o: m.seen.append(len(a)), always_call=True)
        runs.append([callee(module, x3()) for _ in range(3)])
    alike(*runs)


# ---- lazy modules


@pytest.mark.parametrize("kind", [nn.LazyLinear, nn.LazyBatchNorm1d])
def test_a_lazy_module_is_whole_once_it_has_seen_an_input(kind):
    make = lambda: nn.Sequential(kind(5) if kind is nn.LazyLinear else kind(), nn.ReLU())
    runs = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = make()
        callee = framelift.compile(module, backend="eager") if compiled else module
        runs.append([plain(callee(x3())) for _ in range(3)] + [state_of(module)[:2]])
    alike(*runs)
    whole = framelift.compile(module, backend="eager", fullgraph=True)
    alike(plain(module(x3())), plain(whole(x3())))


# ---- parametrisations


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def parametrised() -> nn.Module:
    module = linear()
    parametrize.register_parametrization(module, "weight", Doubled())
    return module


def cached_parametrisation(m, x):
    with parametrize.cached():
        return m.part(x) + m.part(x)


PARAMETRISED: dict[str, Callable[[], nn.Module]] = {
    "own": parametrised,
    "weight norm": lambda: parametrizations.weight_norm(linear()),
    "spectral norm": lambda: parametrizations.spectral_norm(linear()),
    "spectral norm, eval": lambda: parametrizations.spectral_norm(linear()).eval(),
    "orthogonal": lambda: parametrizations.orthogonal(linear()),
    "old spectral norm": lambda: nn.utils.spectral_norm(linear()),
}


@pytest.mark.parametrize("name", PARAMETRISED)
def test_a_parametrisation_is_as_eagerly(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_module(PARAMETRISED[name], x3(), exact=False)


def test_the_older_weight_norm():
    """Its weight is no leaf, so that modules with it can't be copied."""
    runs = []
    for compiled in (False, True):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = nn.utils.weight_norm(linear())
        callee = framelift.compile(module, backend="eager") if compiled else module
        outs = [callee(x3()) for _ in range(3)]
        total(outs).backward()
        runs.append([plain(outs), [p.grad for p in module.parameters()]])
    alike(*runs)


def test_a_cached_parametrisation():
    check_module(lambda: Calling(cached_parametrisation, part=parametrised()), x3(), fullgraph=False)


# ---- other kinds of modules


class Counting(nn.Module):
    """Writes attributes through a `__setattr__` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.part = linear()
        self.writes = 0

    def __setattr__(self, name, value):
        if name != "writes" and "writes" in vars(self):
            vars(self)["writes"] += 1
        super().__setattr__(name, value)

    def forward(self, x):
        self.note = x.shape[0]
        self.note = self.note + 1
        return self.part(x) * self.writes


def test_a_module_that_sets_attributes_in_its_own_way():
    check_module(Counting, x3())


def test_a_graph_module_is_captured():
    def make() -> nn.Module:
        return torch.fx.symbolic_trace(nn.Sequential(linear(), nn.ReLU(), nn.Linear(4, 2)))

    check_module(make, x3())
    check_module(lambda: Calling(lambda m, x: m.part(x) + 1, part=make()), x3())


def test_a_tied_head_is_trained_as_eagerly():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            return self.head(self.embedding(ids)), self.head.weight is self.embedding.weight

    check_module(Tied, torch.tensor([[0, 1, 4]]))


@pytest.mark.parametrize("training", [True, False])
def test_a_transformer_is_captured(training):
    def make() -> nn.Module:
        module = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True)
        return Calling(lambda m, x: m.part(x, x), part=module).train(training)

    check_module(make, x3(1, 3, 4), calls=2, exact=False)


def test_an_encoder_without_gradients_takes_the_fast_path():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).eval()
    compiled = framelift.compile(module, backend="eager")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x3(1, 3, 4)), module(x3(1, 3, 4)))


def test_a_frozen_layer_inside():
    def fn(module, x):
        module.requires_grad_(False)
        out = module(x)
        module.requires_grad_(True)
        return out + module(x)

    compiled = framelift.compile(fn, backend="eager")
    for _ in range(3):
        torch.manual_seed(0)
        mine, theirs = linear(), None
        theirs = copy.deepcopy(mine)
        want, got = fn(mine, x3()), compiled(theirs, x3())
        total(want).backward()
        total(got).backward()
        alike([plain(want), state_of(mine)], [plain(got), state_of(theirs)])


def test_random_numbers_of_modules_made_inside():
    def fn(x):
        return nn.Linear(4, 3)(x), nn.Embedding(3, 2)(torch.tensor([1])), torch.rand(2)

    compiled = framelift.compile(fn, backend="eager")
    runs = []
    for callee in (fn, compiled):
        torch.manual_seed(3)
        runs.append([plain(callee(x3())) for _ in range(3)] + [torch.rand(2)])
    alike(*runs)


def test_dropout_of_a_module_that_is_switched_inside():
    check_module(lambda: Calling(switches_modes, part=nn.Dropout(0.3)), x3())
