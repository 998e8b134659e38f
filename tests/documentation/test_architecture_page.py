"""docs/architecture.md names every module, and no file that is not there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "framelift"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LAYERS = PAGE[PAGE.index("## Layers") : PAGE.index("## The frame hook")]
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", LAYERS, re.MULTILINE))


def test_every_package_has_a_row_and_every_row_a_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(ROWS) == packages


@pytest.mark.parametrize("package", ROWS)
def test_every_module_is_named(package: str) -> None:
    named = set(re.findall(r"`(\w+)\*?`", ROWS[package]))
    prefixes = tuple(re.findall(r"`(\w+_)\*`", ROWS[package]))
    modules = {path.stem for path in (SOURCE / package).rglob("*.py")} - {"__init__"}
    assert not {module for module in modules - named if not module.startswith(prefixes or ("\0",))}


def test_the_files_it_names_are_there() -> None:
    names = set(re.findall(r"`([\w/]+/\w+\.(?:py|cpp|c))`", PAGE))
    missing = {name for name in names if "3xx" not in name and not (SOURCE / name).exists()}
    assert not {name for name in missing if not (ROOT / name).exists()}
