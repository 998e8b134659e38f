"""The README's example prints what it says, its picture and numbers are those of the pages."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import framelift
from framelift.core.versions import DISTRIBUTION

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"

sys.path.insert(0, str(DOCS))
try:
    import make_comparison
    import make_pictures
finally:
    sys.path.remove(str(DOCS))


def test_the_example_prints_what_it_says(tmp_path: Path) -> None:
    program = re.search(r"```python\n(.*?)```", README, re.S)
    printed = re.search(r"```text\n(.*?)```", README, re.S)
    assert program and printed
    script = tmp_path / "example.py"
    script.write_text(program[1])
    wide = {**os.environ, "COLUMNS": "120"}
    command = [sys.executable, str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=wide)
    assert ran.stdout.splitlines()[:2] == printed[1].splitlines()[:2], ran.stderr


def test_the_demo_and_the_benchmarks_name_what_they_measure() -> None:
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    assert f"{DISTRIBUTION} {framelift.__version__}, torch" in demo["described"](quick=True)
    command = [sys.executable, "-c", "from bench.__main__ import versions; print(versions()['framelift'])"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.strip() == framelift.__version__


def test_its_numbers_are_those_of_the_benchmarks() -> None:
    rows = dict(make_comparison.rows())
    first = rows["capturing transformers models, the first time"].split()[0]
    again = rows["the same, again after `reset`"].split()[0]
    call = rows["what a call costs when everything is compiled"].split()[0]
    text = " ".join(README.split())
    assert f"capture is {first} times as fast the first time and {again} times after `reset`" in text
    assert f"a call costs {call} of the time" in text


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("comparison.svg", make_pictures.comparison),
        ("layers.svg", make_pictures.layer_picture),
        ("call.svg", make_pictures.call_picture),
    ],
)
def test_the_pictures_show_what_the_pages_and_the_tree_say(name: str, make: Any) -> None:
    drawn = "\n".join([*make().parts, "</svg>\n"])
    assert (DOCS / "pictures" / name).read_text() == drawn, "run docs/make_pictures.py"


def test_the_reference_has_every_public_name() -> None:
    shown = set(re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    missing = [name for name in framelift.__all__ if name in framelift._HOMES and not is_shown(name, shown)]
    assert not missing


def is_shown(name: str, shown: set[str]) -> bool:
    home = framelift._HOMES[name]
    found = getattr(framelift, name)
    named = {name, getattr(found, "__name__", name), type(found).__name__}
    return home in shown or any(f"{home}.{each}" in shown for each in named)


def test_links_lead_to_files() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
        assert not [link for link in links if not (ROOT / link).exists()], page


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in changelog
    released = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", changelog)
    assert released[0][0] == framelift.__version__
    assert [day for _, day in released] == sorted((day for _, day in released), reverse=True)


def test_the_report_in_the_guide_is_what_is_printed(tmp_path: Path) -> None:
    page = (DOCS / "from_torch_compile.md").read_text()
    section = page[page.index("## Reading the report") :]
    program = re.search(r"```python\n(.*?)```", section, re.S)
    printed = re.search(r"```text\n(.*?)```", section, re.S)
    assert program and printed
    (tmp_path / "step.py").write_text(program[1])
    wide = {**os.environ, "COLUMNS": "110"}
    command = [sys.executable, "step.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=wide, cwd=tmp_path)
    lines = iter(ran.stdout.splitlines())
    assert all(line in lines for line in printed[1].splitlines()), ran.stdout + ran.stderr
