"""Artifacts in the hands of torch's own tools."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.export.passes import move_to_device_pass

import framelift
from exporting.check_export import same


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.BatchNorm1d(8)).eval()


def exported(module: nn.Module) -> torch.export.ExportedProgram:
    sizes = ({0: Dim("batch", min=2, max=64)},)
    return framelift.export(module, (torch.randn(4, 3),), dynamic_shapes=sizes)


def test_torchs_verifier_and_passes_take_an_artifact() -> None:
    module = model()
    program = exported(module)
    program.validate()
    moved = move_to_device_pass(program, "cpu")
    same(module(torch.ones(7, 3)), moved.module()(torch.ones(7, 3)))


def test_an_artifact_can_be_exported_again() -> None:
    module = model()
    given = (torch.randn(4, 3),)
    again = torch.export.export(exported(module).module(), given, strict=False)
    same(module(*given), again.module()(*given))


@pytest.mark.slow
@pytest.mark.inductor
def test_an_artifact_is_packaged_by_aot_inductor_and_run(tmp_path: Path) -> None:
    module = model()
    path = str(tmp_path / "model.pt2")
    package = torch._inductor.aoti_compile_and_package(exported(module), package_path=path)
    same(module(torch.ones(9, 3)), torch._inductor.aoti_load_package(package)(torch.ones(9, 3)))


def test_an_artifact_becomes_an_onnx_program() -> None:
    pytest.importorskip("onnxscript", reason="torch's ONNX exporter needs it")
    made = torch.onnx.export(exported(model()), dynamo=True)
    assert len(made.model.graph.outputs) == 1
