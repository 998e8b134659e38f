"""Compiled modules in programs as libraries write them: recognised, unwrapped, saved and loaded again.

The same programs with `framelift.compile` and, installed, with `torch.compile`; files are exchanged with
modules that torch's own `torch.compile` has made, in whose names `_orig_mod` stands.
"""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import FSDPModule, fully_shard

import framelift

X = torch.linspace(-1, 1, 12).reshape(4, 3)
NAMES = ["layers.0.linear.weight", "layers.0.linear.bias", "layers.0.norm.weight"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def whole(compile: Any) -> nn.Module:
    return compile(Net(), backend="eager")


def layer_by_layer(compile: Any) -> nn.Module:
    model = Net()
    for name, block in model.layers.named_children():
        model.layers.register_module(name, compile(block, backend="eager"))
    return model


def layers_and_whole(compile: Any) -> nn.Module:
    return compile(layer_by_layer(compile), backend="eager")


MAKERS = [whole, layer_by_layer, layers_and_whole]
Maker = Callable[[Any], nn.Module]


def written(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: torch.rand(value.shape).to(value.dtype) for name, value in model.state_dict().items()}


WRITTEN = {make: written(make(torch.compile)) for make in MAKERS}
"""By torch's own, before anything is installed."""
STOCK_LAYER = torch.compile(Block(), backend="eager")


@pytest.fixture(params=["framelift.compile", "installed"])
def compile(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "framelift.compile":
        yield framelift.compile
    else:
        with framelift.install():
            yield lambda *args, **kwargs: torch.compile(*args, **kwargs)


@pytest.fixture
def installed() -> Iterator[None]:
    with framelift.install():
        yield


def trained(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(X).sum().backward()
        optimizer.step()
    return optimizer


def same_results(one: nn.Module, other: nn.Module) -> bool:
    return torch.equal(one.eval()(X), other.eval()(X))


# ---- files


@pytest.mark.parametrize("make", MAKERS)
def test_files_that_torch_compile_wrote_are_loaded(compile: Any, make: Maker) -> None:
    assert any("_orig_mod" in name for name in WRITTEN[make])
    model, plain = make(compile), Net()
    found = model.load_state_dict(WRITTEN[make])
    assert not found.missing_keys and not found.unexpected_keys
    assert list(model.state_dict())[:3] == NAMES
    plain.load_state_dict({name.replace("_orig_mod.", ""): value for name, value in WRITTEN[make].items()})
    assert same_results(model, plain)


@pytest.mark.parametrize("make", MAKERS)
def test_files_go_to_and_from_a_plain_module(compile: Any, make: Maker) -> None:
    model, plain = make(compile), Net()
    trained(model)
    plain.load_state_dict(model.state_dict())
    assert same_results(model, plain)
    trained(plain)
    model.load_state_dict(plain.state_dict(), assign=True)
    assert same_results(model, plain)


def test_what_is_missing_or_not_known_is_named(compile: Any) -> None:
    state = dict(WRITTEN[whole])
    del state["_orig_mod.head.bias"]
    state |= {"_orig_mod.more": X, "head.weight": state["_orig_mod.head.weight"]}
    found = whole(compile).load_state_dict(state, strict=False)
    assert found.missing_keys == ["head.bias"]
    assert sorted(found.unexpected_keys) == ["_orig_mod.head.weight", "more"]
    assert "_orig_mod.head.weight" in state  # the caller's own


def test_a_submodule_of_that_name_keeps_it(compile: Any) -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self._orig_mod(x)

    plain = Wrapper()
    model = nn.Sequential(compile(Wrapper(), backend="eager"))
    model.load_state_dict({f"0.{name}": value for name, value in plain.state_dict().items()})
    assert list(model.state_dict()) == ["0._orig_mod.weight", "0._orig_mod.bias"]


def test_pickled_whole_and_loaded(compile: Any) -> None:
    model = whole(compile)
    trained(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert isinstance(loaded, framelift.OptimizedModule) and same_results(loaded, model)


# ---- torch.distributed.checkpoint, as torchtitan uses it


@pytest.mark.parametrize("make", MAKERS)
def test_state_of_model_and_optimizer(compile: Any, make: Maker) -> None:
    model = make(compile)
    optimizer = trained(model)
    weights, moments = copy.deepcopy(get_state_dict(model, optimizer))
    assert list(weights)[:3] == NAMES and moments["param_groups"][0]["params"][:3] == NAMES
    other = make(compile)
    optimizer_of_other = torch.optim.AdamW(other.parameters(), lr=0.1)
    set_state_dict(
        other, optimizer_of_other, model_state_dict=weights, optim_state_dict=copy.deepcopy(moments)
    )
    for each, its in ((model, optimizer), (other, optimizer_of_other)):
        its.zero_grad()
        each.train()(X).sum().backward()
        its.step()
    assert same_results(model, other)


def test_state_beside_modules_that_torch_compiled(installed: None) -> None:
    model = Net()
    model.layers[0] = STOCK_LAYER
    model.layers[1] = torch.compile(model.layers[1], backend="eager")
    assert isinstance(model.layers[0], torch._dynamo.OptimizedModule)
    assert isinstance(model.layers[1], torch._dynamo.OptimizedModule)
    assert "layers.0._orig_mod.linear.weight" in model.state_dict()
    assert set(get_model_state_dict(model)) == set(Net().state_dict())


@contextlib.contextmanager
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_compiled_layers_are_sharded(compile: Any) -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        return layer_by_layer(lambda block, **settings: block)

    with one_rank():
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        model = make()
        for name, block in model.layers.named_children():
            model.layers.register_module(name, compile(block, backend="eager"))
        for block in model.layers:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        assert isinstance(model.layers[0], FSDPModule) and isinstance(model.layers[0], Block)
        assert isinstance(model.layers[0], framelift.OptimizedModule)
        trained(model)
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    eager = make()
    trained(eager)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(state[name], value)


# ---- recognised and unwrapped


def test_unwrapped_and_wrapped_again(installed: None) -> None:
    """As accelerate takes a model out of its wrappers, and puts it back."""
    compiled = whole(torch.compile)
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    model = compiled._orig_mod
    assert type(model) is Net and not isinstance(model, torch._dynamo.eval_frame.OptimizedModule)
    other = copy.deepcopy(model)
    compiled._orig_mod = other
    assert same_results(compiled, other) and compiled._orig_mod is other


def test_models_whose_layers_are_compiled_are_found(installed: None) -> None:
    model = Net()
    outer = copy.copy(model)
    outer._modules = dict(model._modules)
    outer.layers = nn.ModuleList([torch.compile(layer, backend="eager") for layer in model.layers])
    outer.__dict__["_orig_mod"] = model
    assert any(isinstance(each, torch._dynamo.eval_frame.OptimizedModule) for each in outer.modules())
    assert same_results(outer, model) and list(outer.state_dict())[:3] == NAMES


def test_a_copy_is_loaded_through_what_was_compiled(installed: None) -> None:
    """As nnU-Net loads the parameters of its folds."""
    compiled, plain = whole(torch.compile), Net()
    model = copy.deepcopy(compiled)
    before = compiled.eval()(X)
    if isinstance(model, torch._dynamo.OptimizedModule):
        model._orig_mod.load_state_dict(plain.state_dict())
    assert same_results(model, plain) and torch.equal(compiled(X), before)


def test_a_hook_that_takes_the_prefix_off(compile: Any) -> None:
    """As torchtune and others register it for what is saved."""

    def without_prefix(module: nn.Module, state: dict[str, Any], *args: Any) -> None:
        for name in list(state):
            if name.startswith("_orig_mod."):
                state[name.removeprefix("_orig_mod.")] = state.pop(name)

    model = whole(compile)
    model._register_state_dict_hook(without_prefix)
    plain = Net()
    plain.load_state_dict(model.state_dict())
    assert same_results(model, plain)


def test_functions_are_compiled_as_the_module_is(installed: None) -> None:
    """As Lightning compiles `training_step` of a module that was compiled."""
    compiled = whole(torch.compile)
    step = compiled.dynamo_ctx(lambda x: compiled._orig_mod(x).sum())
    before = framelift.counters["stats"]["unique_graphs"]
    torch.testing.assert_close(step(X), compiled._orig_mod(X).sum())
    assert framelift.counters["stats"]["unique_graphs"] > before


def test_stages_of_a_pipeline_are_recognised(installed: None) -> None:
    from torch.distributed.pipelining import schedules

    class Stage:
        submod = whole(torch.compile)

    with pytest.raises(RuntimeError, match="not supported with stage modules that have used torch.compile"):
        schedules._check_torch_compile_compatibility([Stage()], "zero bubble")  # type: ignore[list-item]


def test_what_notebooks_offer_for_completion(compile: Any) -> None:
    class Named(Net):
        @property
        def first(self) -> nn.Module:
            return self.layers[0]

        def step(self, x: torch.Tensor) -> torch.Tensor:
            return self(x).sum()

    model = Named()
    compiled = compile(model, backend="eager")
    assert {*dir(model), "_orig_mod"} <= set(dir(compiled))
    assert all(hasattr(compiled, name) == hasattr(model, name) for name in dir(model))
