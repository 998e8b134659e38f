"""Programs whose arguments, parameters and buffers are fake tensors: exported as `torch.export` does it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import framelift
from framelift.exc import UserError


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.tied = nn.Linear(3, 2), nn.Linear(3, 2)
        self.tied.weight = self.layer.weight
        self.register_buffer("scale", torch.ones(2))
        self.constant = torch.ones(2)

    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.layer(x) * self.scale + self.constant + self.tied(more["y"])


def targets(program: Any) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("model_is_fake", [False, True])
@pytest.mark.parametrize("arguments_are_fake", [False, True])
def test_the_artifact_has_the_programs_own_tensors(model_is_fake: bool, arguments_are_fake: bool) -> None:
    fake = FakeTensorMode()
    model, given = Model(), (torch.ones(4, 3), {"y": torch.ones(4, 3)})
    with fake:
        fake_model, fake_given = Model(), (torch.ones(4, 3), {"y": torch.ones(4, 3)})
    model = fake_model if model_is_fake else model
    args = fake_given if arguments_are_fake else given
    before = {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    ours = framelift.export(model, args)
    assert {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()} == before
    torchs = torch.export.export(model, args, strict=True)
    assert targets(ours) == targets(torchs)
    for name, tensor in torchs.state_dict.items():
        assert isinstance(ours.state_dict[name], FakeTensor) == isinstance(tensor, FakeTensor)
        assert ours.state_dict[name].shape == tensor.shape
    assert isinstance(ours.example_inputs[0][0], FakeTensor) == arguments_are_fake


def test_sizes_may_vary() -> None:
    with FakeTensorMode():
        model, x, y = Model(), torch.ones(4, 3), torch.ones(4, 3)
    sizes = {"x": {0: Dim("n")}, "more": {"y": {0: Dim("n")}}}
    program = framelift.export(model, (x, {"y": y}), dynamic_shapes=sizes)
    assert len(program.range_constraints) == 1


def test_where_fake_tensors_are_made_programs_are_exported_too() -> None:
    with FakeTensorMode():
        model, x = nn.Linear(3, 2), torch.ones(4, 3)
        program = framelift.export(model, (x,))
        module, _ = framelift.export_graph(model)(x)
    assert targets(program) == [torch.ops.aten.linear.default]
    assert isinstance(module.weight, FakeTensor)


def test_what_can_not_be_done_gets_a_sentence() -> None:
    sizes = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=False).from_tensor(torch.ones(4, 3))
    with pytest.raises(UserError, match="sizes that are symbols already"):
        framelift.export(nn.Linear(3, 2), (sizes,))
    if not torch.cuda.is_available():
        with FakeTensorMode():
            elsewhere = torch.ones(4, 3, device="cuda")
        with pytest.raises(UserError, match="fake tensor on cuda:0"):
            framelift.export(nn.Linear(3, 2), (elsewhere,))


@pytest.mark.parametrize("aten", [False, True])
def test_graphs_of_programs_without_data(aten: bool) -> None:
    """Under a mode that knows no symbols, and takes no real tensors."""
    with FakeTensorMode(allow_non_fake_inputs=False):
        model, x = Model(), torch.ones(2, 3)
        model.tied.weight = model.layer.weight
        module = framelift.export_graph(model, aten_graph=aten)(x, {"y": x})[0]
    assert len(module.state_dict()) >= 3
    assert all(isinstance(value, FakeTensor) for value in module.state_dict().values())
    real = framelift.export_graph(Model(), aten_graph=aten)(torch.ones(2, 3), {"y": torch.ones(2, 3)})[0]
    assert [node.target for node in module.graph.nodes] == [node.target for node in real.graph.nodes]
