"""The examples in docs/debugging.md: what Python says there is what it says."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "debugging.md").read_text()
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if block.startswith(">>>")]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the examples are about: examples/debugging.py, not compiled."""
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("debugging", ROOT / "examples" / "debugging.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with framelift.install(backend="eager"):
        spec.loader.exec_module(module)
    framelift.reset()
    yield {"torch": torch, "framelift": framelift, "step": module.step, "__name__": "examples"}
    framelift.reset()


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][4:40])
def test_an_example_says_what_it_says_there(block: str, names: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(block, names, "debugging.md", "debugging.md", 0)
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not told, "".join(told)
