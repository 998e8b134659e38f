"""Submodules in an artifact: each call is one when it is unflattened, with its own signature if asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framelift
from exporting.check_export import check_export, saved_and_loaded
from framelift.exc import Unsupported, UserError


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, *, scale: float) -> dict[str, torch.Tensor]:
        return {"scaled": self.layer(x) * scale, "plain": x}


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        self.parts = nn.ModuleDict({"one": Part()})
        self.last = nn.Linear(2, 2)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.parts["one"](self.first(x), scale=2.0)
        found = self.parts["one"](found["scaled"], scale=2.0)
        return self.last(found["plain"]) + self.last(found["scaled"])


X = torch.randn(4, 3)


def calls_of(program: Any) -> list[tuple[Any, ...]]:
    def argument(given: Any) -> Any:
        return getattr(given, "value", None) or given.name

    return [
        (entry.fqn, [argument(each) for each in signature.inputs], [each.name for each in signature.outputs])
        for entry in program.module_call_graph[1:]
        if (signature := entry.signature) is not None
    ]


@pytest.mark.parametrize(
    "paths", [(), ("parts.one",), ("last", "parts.one"), ("parts.one.layer", "parts.one"), ("first",)]
)
def test_signatures_are_those_of_torchs_export(paths: tuple[str, ...]) -> None:
    model = Whole()
    ours = framelift.export(model, (X,), preserve_module_call_signature=paths)
    torchs = torch.export.export(model, (X,), strict=False, preserve_module_call_signature=paths)
    assert calls_of(ours) == calls_of(torchs)
    fqns = [{entry.fqn for entry in program.module_call_graph} for program in (ours, torchs)]
    assert fqns[0] == fqns[1]
    for program in (ours, saved_and_loaded(ours)):
        assert torch.equal(program.module()(X), model(X))
        assert torch.equal(torch.export.unflatten(program)(X), model(X))
    called = [n.target for n in torch.export.unflatten(ours).graph.nodes if n.op == "call_module"]
    assert called == ["first", "parts.one", "parts.one", "last", "last"]


def test_hooks_of_the_program_go_on_working() -> None:
    model = Whole()
    model.last.register_forward_hook(lambda module, args, result: result * 3)
    program = framelift.export(model, (X,), preserve_module_call_signature=("last",))
    assert torch.equal(program.module()(X), model(X))
    assert len(model.last._forward_hooks) == 1 and not model.last._forward_pre_hooks


class Differently(Whole):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.parts["one"](self.first(x), scale=2.0)["plain"]
        return self.last(found) + self.last(input=found)


@pytest.mark.parametrize(
    ("model", "path", "said"),
    [
        (Whole(), "nowhere", "has no submodule 'nowhere'"),
        (Whole(), "", "has no submodule ''"),
        (Whole(), "unused", "does not call unused"),
        (Differently(), "last", "calls of last differ in how they are called"),
    ],
)
def test_a_signature_that_is_none_gets_a_sentence(model: nn.Module, path: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        framelift.export(model, (X,), preserve_module_call_signature=(path,))


class Sized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add = Adder()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.add(x, x.shape[0])


class Adder(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n


def test_a_size_that_varies_is_no_argument_of_a_kept_signature() -> None:
    varying = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},)}
    with pytest.raises(Unsupported, match="add with a SymInt"):
        framelift.export(Sized(), (X,), preserve_module_call_signature=("add",), **varying)
    assert torch.equal(framelift.export(Sized(), (X,), **varying).module()(X), X + 4)


class Chooses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, self.one, self.other, (x,))


def test_the_bodies_of_operators_are_no_modules_of_the_program() -> None:
    model = Chooses()
    program = check_export(model, (torch.ones(2, 3),), None, (-torch.ones(2, 3),))
    assert [entry.fqn for entry in program.module_call_graph] == ["", "one", "other"]
