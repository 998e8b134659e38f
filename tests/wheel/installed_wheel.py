"""What `make wheel-test` asks of a wheel that is installed in an empty environment: it works."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import torch

import framelift
from framelift import _frame, _guards
from framelift.core.versions import DISTRIBUTION


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        for layer in self.layers:
            x = torch.relu(layer(x)) + self.calls
        return x


def test_it_is_the_wheel_that_is_tested() -> None:
    assert Path(framelift.__file__).is_relative_to(sys.prefix)
    assert Path(_frame.__file__).is_relative_to(sys.prefix)


def test_the_guards_were_built_when_they_were_needed() -> None:
    assert "cache" in Path(str(_guards.__file__)).parts
    assert f"torch-{torch.__version__}" in Path(str(_guards.__file__)).name


def test_a_module_is_captured_whole_and_does_what_it_does_eagerly() -> None:
    torch.manual_seed(0)
    model, other = Layers(), Layers()
    other.load_state_dict(model.state_dict())
    compiled = framelift.compile(other, backend="eager", fullgraph=True)
    for size in (2, 3, 4):
        x = torch.randn(size, 8)
        assert torch.equal(model(x), compiled(x))
    assert other.calls == 3


def test_versions_files_and_the_command_are_there() -> None:
    assert metadata.version(DISTRIBUTION) == framelift.__version__
    about = metadata.metadata(DISTRIBUTION)
    assert "Typing :: Typed" in about.get_all("Classifier") and "# Framelift" in str(about.get_payload())
    names = {file.name for file in resources.files("framelift").iterdir()}
    assert {"py.typed", "_frame.pyi", "_guards.pyi"} <= names
    report = {file.name for file in resources.files("framelift.report").iterdir()}
    assert {"page.html.jinja", "page.css", "page.js"} <= report
    command = [str(Path(sys.executable).parent / "framelift"), "--version"]
    assert (
        subprocess.run(command, capture_output=True, text=True).stdout
        == f"framelift {framelift.__version__}\n"
    )


def test_the_report_is_a_page() -> None:
    page = framelift.explain(lambda x: x + 1)(torch.ones(2)).to_html()
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
