"""`examples/broken_model.py`: whoever follows the report comes from five problems to one graph.

The fixes are those that docs/fixing_a_model.md shows (docs/make_walk.py): each belongs to one problem, which
the report must name, with the line and what to do, before it is applied; afterwards it is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.core.breaks import REASONS
from framelift.core.causes import CAUSES

ROOT = Path(__file__).parents[2]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


walk = load(ROOT / "docs" / "make_walk.py")
STAGES = list(walk.stages())


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of each stage: what `framelift explain --json` says. One process for all, without pytest in it."""
    folder = tmp_path_factory.mktemp("walk")
    for n, source in enumerate(STAGES):
        (folder / f"stage{n}.py").write_text(source)
    environment = os.environ | {"PYTHONPATH": str(Path(framelift.__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(len(STAGES))],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads((folder / f"stage{n}.json").read_text()) for n in range(len(STAGES))]


RUN = """
import contextlib, io, sys
import framelift
from framelift.cli import main
for n in range(int(sys.argv[1])):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["explain", "--json", "--html", f"stage{n}.html", f"stage{n}.py"]) == 0
    open(f"stage{n}.json", "w").write(out.getvalue())
    framelift.reset()
"""


def problems(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What there is to do: breaks by their reason, recompilations by their cause."""
    found = {each["name"]: each for each in report["break_reasons"]}
    for again in report["recompilations"]:
        for failure in again["failures"]:
            found.setdefault(failure["cause"], failure)
    return found


@pytest.mark.parametrize("n", range(len(walk.FIXES)), ids=[fix.problem for fix in walk.FIXES])
def test_the_report_names_the_problem_and_the_fix_removes_it(n: int, reports: list[dict[str, Any]]) -> None:
    fix, before, after = walk.FIXES[n], reports[n], reports[n + 1]
    problem = problems(before)[fix.problem]
    at = problem["at"]
    assert fix.expression in at["expression"]
    assert STAGES[n].splitlines()[at["line"] - 1].strip() == at["text"].strip(), "the line is the file's"
    known = (REASONS if fix.problem in REASONS else CAUSES)[fix.problem]
    assert problem["hint"] and problem["hint"].split("`")[0] == known.hint.split("`")[0]
    assert not [
        one for one in problems(after).values() if one["at"] and fix.expression in one["at"]["expression"]
    ]
    assert len(problems(after)) < len(problems(before))
    breaks = len(before["break_reasons"]), len(after["break_reasons"])
    recompilations = len(before["recompilations"]), len(after["recompilations"])
    assert breaks[1] <= breaks[0] and recompilations[1] <= recompilations[0]
    assert breaks[1] < breaks[0] or recompilations[1] < recompilations[0]


def test_five_different_problems_are_there_at_first(reports: list[dict[str, Any]]) -> None:
    assert {fix.problem for fix in walk.FIXES} <= set(problems(reports[0])) and len(walk.FIXES) == 5
    assert reports[0]["graph_count"] > 5


def test_the_end_is_one_graph_and_one_entry(reports: list[dict[str, Any]]) -> None:
    end = reports[-1]
    assert problems(end) == {} and end["skipped"] == {}
    assert end["graph_count"] == 1 and [len(code["entries"]) for code in end["entries"]] == [1]
    assert end["entries"][0]["entries"][0]["hits"] == 3, "of four calls"
    (function,) = end["source"]
    assert [line["mark"] for line in function["lines"]] == [
        None,
        *["captured"] * (len(function["lines"]) - 1),
    ]


def test_each_stage_computes_what_eager_does(tmp_path: Path) -> None:
    """The mended model is the same model; compiled it gives what eager gives."""
    results = []
    for n in (0, len(STAGES) - 1):
        (tmp_path / f"model{n}.py").write_text(STAGES[n])
        module = load(tmp_path / f"model{n}.py")
        torch.manual_seed(0)
        model = module.Denoiser()
        x = torch.randn(8, 16)
        for _ in range(3):
            x = model(x).detach()
        results.append(x)
    torch.testing.assert_close(*results)
    torch.manual_seed(0)
    compiled = framelift.compile(module.Denoiser(), backend="eager", fullgraph=True)
    x = torch.randn(8, 16)
    for _ in range(3):
        x = compiled(x).detach()
    assert torch.equal(x, results[-1])


def test_the_page_in_the_docs_shows_these_fixes() -> None:
    text = (ROOT / "docs" / "fixing_a_model.md").read_text()
    for fix, before, after in zip(walk.FIXES, STAGES, STAGES[1:]):
        assert f"```diff\n{walk.diff(before, after)}\n```" in text, "run docs/make_walk.py"
    assert STAGES[0][STAGES[0].index("class Denoiser") :] in text
