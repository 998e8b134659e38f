"""Artifacts in the hands of torch's own tools."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

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
    module = model()
    made = torch.onnx.export(exported(module), dynamo=True)
    assert made is not None and len(made.model.graph.outputs) == 1
    if importlib.util.find_spec("onnxruntime"):
        same([module(torch.ones(9, 3))], list(made(torch.ones(9, 3))))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.layer = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.mark.parametrize("size", [2, 8, 32])
def test_which_kernels_a_machine_has_limits_no_size(size: int) -> None:
    module, sizes = Images().eval(), ({0: Dim("batch", min=2, max=64)},)
    program = framelift.export(module, (torch.randn(size, 3, 8, 8),), dynamic_shapes=sizes)
    for other in (2, 15, 16, 64):
        x = torch.randn(other, 3, 8, 8)
        same(module(x), program.module()(x))


@pytest.mark.slow
def test_torchao_quantises_an_artifact() -> None:
    quantize = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", exc_type=ImportError)
    x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    module, x = Images().eval(), torch.randn(2, 3, 8, 8)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = quantize.prepare_pt2e(framelift.export(module, (x,)).module(), quantizer)
    prepared(x)
    converted = quantize.convert_pt2e(prepared)
    assert sum("quantize" in str(node.target) for node in converted.graph.nodes) == 6
    torch.testing.assert_close(converted(x), module(x), rtol=0.1, atol=0.05)


@pytest.mark.slow
def test_executorch_lowers_an_artifact_and_runs_it(tmp_path: Path) -> None:
    exir = pytest.importorskip("executorch.exir", exc_type=ImportError)
    runtime = pytest.importorskip("executorch.runtime", exc_type=ImportError)
    module, sizes = Images().eval(), ({0: Dim("batch", min=2, max=16)},)
    program = framelift.export(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes=sizes)
    file = tmp_path / "images.pte"
    file.write_bytes(exir.to_edge(program).to_executorch().buffer)
    method = runtime.Runtime.get().load_program(str(file)).load_method("forward")
    for size in (2, 5, 16):
        x = torch.randn(size, 3, 8, 8)
        same([module(x)], method.execute([x]))


class Around(torch.nn.Module):
    """A program with the module of an artifact in it."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x + 1) - 1


@pytest.mark.parametrize("sizes", [None, ({0: Dim("rows")},)], ids=["one size", "sizes that vary"])
def test_the_module_of_an_artifact_is_captured_with_what_calls_it(sizes: Any) -> None:
    x, other = torch.randn(4, 3), torch.randn(7, 3)
    model = Around(torch.export.export(module := torch.nn.Linear(3, 2), (x,), dynamic_shapes=sizes).module())
    program = framelift.export(model, (x,), dynamic_shapes=sizes)
    same(module(x + 1) - 1, program.module()(x))
    compiled = framelift.compile(model, backend="eager", fullgraph=True)
    same(module(x + 1) - 1, compiled(x))
    if sizes is not None:
        same(module(other + 1) - 1, program.module()(other))
        same(module(other + 1) - 1, compiled(other))
