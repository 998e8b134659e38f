"""Imports of modules that nobody has imported yet: those of libraries are imported ahead, for real."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from check import capture, reasons, why_not
from framelift.trace import scopes

TEXT = "print('imported')\nVALUE = 3\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With modules that say when they are imported."""
    (tmp_path / "package_for_imports").mkdir()
    for name in ("module_for_imports", "package_for_imports/__init__", "package_for_imports/part"):
        (tmp_path / f"{name}.py").write_text(TEXT)
    (tmp_path / "broken_for_imports.py").write_text("raise ValueError('broken')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if "for_imports" in name]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scopes, "INSTALLED", (str(folder),))
    return folder


def of_a_module(x):
    import module_for_imports

    return x * module_for_imports.VALUE


def of_a_part(x):
    from package_for_imports import part

    return x * part.VALUE


def of_a_broken_one(x):
    try:
        import broken_for_imports
    except ValueError as error:
        return x + len(str(error))
    return broken_for_imports


def of_a_missing_one(x):
    try:
        import missing_for_imports
    except ImportError as error:
        return x + len(str(error))
    return missing_for_imports


@pytest.mark.parametrize("fn", [of_a_module, of_a_part])
def test_a_librarys_module_is_imported_once(fn: Any, installed: Path, capsys: Any) -> None:
    compiled = capture(fn)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert capsys.readouterr().out.count("imported") == (1 if fn is of_a_module else 2)
    assert why_not(compiled) is None and not reasons(compiled)


def test_one_of_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x):
        import colorsys

        return x * colorsys.rgb_to_hsv(1, 0, 0)[2]

    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("fn", [of_a_broken_one, of_a_missing_one])
def test_one_that_can_not_be_imported(fn: Any, installed: Path) -> None:
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == fn(torch.ones(2)).tolist()
    assert "import of a new module" in reasons(compiled)


def test_the_programs_own_are_imported_where_it_says(folder: Path, capsys: Any) -> None:
    def fn(x):
        print("before")
        import module_for_imports

        print("after")
        return x * module_for_imports.VALUE

    compiled = framelift.compile(fn, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert capsys.readouterr().out.split() == ["before", "imported", "after"]
    assert "import of a new module" in reasons(compiled)
