"""Programs as graph modules that are called as they are (`export_graph`), and under torch's own names."""

from __future__ import annotations

import importlib
import inspect
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import framelift
from exporting.check_export import same
from framelift import is_compiling
from framelift.exc import ConstraintViolationError, Unsupported, UserError

FOUR = torch.randn(4, 3)
TORCHS = "torch._dynamo"
"""By its name: nothing else here has to do with it."""


def program(x: Any, pair: Any, *more: Any, scale: Any = 2.0) -> Any:
    return {"sum": x + pair[0] * scale, "others": (pair[1] - more[0], x.shape[0])}


GIVEN = (FOUR, (FOUR + 1, FOUR + 2), FOUR + 3)


@pytest.mark.parametrize("aten", [False, True])
def test_a_graph_is_called_as_the_program_is(aten: bool) -> None:
    module, guards = framelift.export_graph(program, aten_graph=aten)(*GIVEN, scale=3.0)
    same(program(*GIVEN, scale=3.0), module(*GIVEN, 3.0))
    assert list(inspect.signature(module.forward).parameters) == ["x", "pair", "more_0", "scale"]
    assert guards


def test_sizes_that_happen_to_be_the_same_are_not_tied() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        more = torch.cond(x.shape[0] > 4, lambda x: x + 5, lambda x: x - 3, [x])
        return more.sum(0)

    module = framelift.export_graph(fn, aten_graph=True)(torch.ones(4, 4))[0]
    for x in (torch.ones(4, 4), torch.ones(6, 4), torch.ones(3, 5)):
        same(fn(x), module(x))


def targets(module: torch.fx.GraphModule) -> set[Any]:
    """What the program's own calls are of: the graph checks its inputs first."""
    found = {node.target for node in module.graph.nodes if node.op.startswith("call")}
    return found - {"_guards_fn", torch._assert}


def test_operators_are_those_that_were_asked_for() -> None:
    softmax = lambda x: torch.softmax(x, -1)  # noqa: E731
    assert targets(framelift.export_graph(softmax)(FOUR).graph_module) == {torch.softmax}
    aten = torch.ops.aten
    assert targets(framelift.export_graph(softmax, aten_graph=True)(FOUR)[0]) == {aten._softmax.default}
    early = framelift.export_graph(softmax, aten_graph=True, pre_dispatch=True)(FOUR)[0]
    assert targets(early) == {aten.softmax.int}
    table = torch._decomp.get_decompositions([aten._softmax])
    made = framelift.export_graph(softmax, aten_graph=True, decomposition_table=table)(FOUR)[0]
    assert aten.exp.default in targets(made)
    same(torch.softmax(FOUR, -1), made(FOUR))


def test_leaves_are_taken_and_given_if_the_signature_is_not_kept() -> None:
    module, _ = framelift.export_graph(program, same_signature=False)(*GIVEN)
    total, rest, size = module(FOUR, FOUR + 1, FOUR + 2, FOUR + 3)
    same(program(*GIVEN), {"sum": total, "others": (rest, size)})


def test_arguments_may_be_given_at_once() -> None:
    module, _ = framelift.export_graph(lambda x: x * 2, FOUR)
    same(FOUR * 2, module(FOUR))


def test_parameters_keep_their_names() -> None:
    layer = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    module, _ = framelift.export_graph(layer)(FOUR)
    assert dict(module.named_parameters()).keys() == dict(layer.named_parameters()).keys()
    same(layer(FOUR), module(FOUR))


def test_guards_say_what_is_relied_on() -> None:
    _, guards = framelift.export_graph(lambda x: x + 1 if x.shape[0] > 3 else x)(FOUR)
    assert "4 <= x.shape[0]" in map(str, guards)


def test_guards_are_about_the_program() -> None:
    _, guards = framelift.export_graph(program)(*GIVEN)
    assert not [guard for guard in map(str, guards) if "_pytree" in guard or "flatten" in guard]
    assert any("args[0] is TensorSpec" in guard for guard in map(str, guards))


def test_all_nodes_say_where_they_come_from() -> None:
    layer = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    for fn in (layer, lambda x: layer(x).sin()):
        module, _ = framelift.export_graph(fn)(FOUR)
        for node in module.graph.nodes:
            if node.op.startswith("call"):
                assert node.meta["nn_module_stack"] and node.meta["source_fn_stack"]
                assert "File " in node.stack_trace


def test_other_sizes_are_taken() -> None:
    module, _ = framelift.export_graph(lambda x: x.reshape(x.shape[0] * 3))(FOUR)
    assert module(torch.ones(7, 3)).shape == (21,)


def test_declared_sizes_are_checked() -> None:
    with pytest.raises(ConstraintViolationError, match="dynamic_shapes = "):
        framelift.export_graph(lambda x: x + torch.ones(4, 3), dynamic_shapes=({0: Dim("n")},))(FOUR)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pre_dispatch": True}, "aten_graph=True"),
        ({"decomposition_table": {}}, "aten_graph=True"),
        ({"tracing_mode": "dreamt"}, "no tracing_mode"),
    ],
)
def test_options_that_make_no_sense_get_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        framelift.export_graph(lambda x: x, **options)


def test_a_graph_can_be_exported_again() -> None:
    module, _ = framelift.export_graph(program)(*GIVEN)
    again, _ = framelift.export_graph(module)(*GIVEN)
    same(program(*GIVEN), again(*GIVEN))
    same(program(*GIVEN), framelift.export(module, GIVEN).module()(*GIVEN))


# ---- under torch's names


class Unusual(nn.Module):
    """It looks up whose code captures it, which no other capture does for it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * (2 if is_compiling() else 1)


def test_torchs_strict_export_has_framelift_capture_the_program() -> None:
    model, torchs = Unusual(), importlib.import_module(TORCHS)
    with framelift.install():
        program = torch.export.export(model, (FOUR,), dynamic_shapes=({0: Dim("n")},), strict=True)
        module, _ = torchs.export(model)(FOUR)
    same(model(torch.ones(6, 3)) * 2, program.module()(torch.ones(6, 3)))
    same(model(FOUR) * 2, module(FOUR))
    assert list(program.state_dict) == ["layer.weight", "layer.bias"]


def test_torchs_errors_are_raised_under_torchs_names() -> None:
    error = importlib.import_module(f"{TORCHS}.exc").UserError
    model, shapes = nn.Linear(3, 2), ({1: Dim("width")},)
    with framelift.install():
        with pytest.raises(error, match="Constraints violated") as caught:
            torch.export.export(model, (FOUR,), dynamic_shapes=shapes, strict=True)
        assert isinstance(caught.value, ConstraintViolationError)
        assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)
    with pytest.raises(ConstraintViolationError) as caught:
        framelift.export(model, (FOUR,), dynamic_shapes=shapes)
    assert not isinstance(caught.value, error)


def test_torchs_exports_are_torchs_again_afterwards() -> None:
    torchs = importlib.import_module(TORCHS)
    before = torchs.export, torch.export.export
    with framelift.install():
        assert torchs.export is not before[0] and torch.export.export is not before[1]
        framelift.install()
    assert (torchs.export, torch.export.export) == before
    framelift.install()
    framelift.uninstall()
    assert (torchs.export, torch.export.export) == before


def test_what_can_not_be_captured_is_an_error() -> None:
    def printing(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(Unsupported, match="data-dependent branch"):
        framelift.export_graph(printing)(FOUR)
