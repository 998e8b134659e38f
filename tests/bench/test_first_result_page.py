"""A page with figures of several machines: each is measured when it is at hand, the others stay."""

import json
import shutil
from pathlib import Path

from bench import first_result

PAGE = Path(__file__).parents[2] / "docs" / "first_result.md"


def measured(machine, seconds):
    cpu, cores = machine.removesuffix(" cores").rsplit(", ", 1)
    parts = dict.fromkeys(first_result.PARTS, seconds)
    sample = {clock: {"parts": parts, "name": 0.1, "call": 0.2} for clock in first_result.CLOCKS}
    results = {"first result": {"BERT 4, cpu, empty": {"framelift": [sample], "torch.compile": [sample]}}}
    about = {"cpu": cpu, "cores": int(cores), "load": 0.5, "versions": {"torch": "9.9"}, "repetitions": 1}
    return {"about": about | {"clock": "wall"}, "results": results}


def saved(folder, *args):
    path = folder / "measured.json"
    path.write_text(json.dumps(measured(*args)))
    return [str(path)]


def test_the_page_keeps_what_it_tells_of_other_machines(tmp_path):
    page = tmp_path / "first_result.md"
    page.write_text(f"Before\n{first_result.BEGIN}\n{first_result.END}\nAfter\n")
    told = []
    for machine, seconds in [("One, 2 cores", 1.0), ("Another, 8 cores", 2.0), ("One, 2 cores", 3.0)]:
        first_result.write_page(saved(tmp_path, machine, seconds), tmp_path)
        told.append(first_result.kept_parts(page.read_text()))
    assert list(told[0]) == ["One, 2 cores"]
    assert list(told[1]) == list(told[2]) == ["One, 2 cores", "Another, 8 cores"]
    assert told[1]["One, 2 cores"] == told[0]["One, 2 cores"] != told[2]["One, 2 cores"]
    assert told[1]["Another, 8 cores"] == told[2]["Another, 8 cores"]
    assert "first_result_1.svg" in told[2]["One, 2 cores"]
    assert "first_result_2.svg" in told[2]["Another, 8 cores"]
    assert page.read_text().startswith("Before\n") and page.read_text().endswith("\nAfter\n")


def test_the_page_of_the_documentation_is_understood(tmp_path):
    """Measured anew on the first of its machines, nothing else changes."""
    page = tmp_path / "first_result.md"
    shutil.copy(PAGE, page)
    first, *others = first_result.kept_parts(PAGE.read_text()).items()
    assert others
    first_result.write_page(saved(tmp_path, first[0], 1.0), tmp_path)
    assert list(first_result.kept_parts(page.read_text()).items())[1:] == others
    assert page.read_text().partition(first_result.END)[2] == PAGE.read_text().partition(first_result.END)[2]
    assert [path.name for path in tmp_path.glob("*.svg")] == ["first_result_1.svg"]
