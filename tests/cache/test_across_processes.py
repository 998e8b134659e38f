"""What one process has kept, another uses: where nothing has changed, and only there.

Processes run all of `changed_programs`: one that keeps what it captures, one that finds it, and one after
each program was changed in one place; the same without looking at the files of the program, which leaves it
to the guards. Each compares with eager.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .changed_programs import HEAD, PROGRAMS

CHILD = """
import importlib, json, sys
import torch, framelift
import framelift.cache.entries
from framelift.cache.writing import writer

def as_it_is(fn, **options):
    return fn

def compiled(fn, **options):
    return framelift.compile(fn, backend="eager", **options)

if sys.argv[2] == "guards only":  # files may be what they like
    framelift.cache.entries.source_digest = lambda name: None
found = []
for n in range(int(sys.argv[1])):
    program = importlib.import_module(f"program{n}")
    framelift.counters.clear()
    expected, result = program.run(as_it_is), program.run(compiled)
    asked = framelift.counters["cache"]
    is_equal = torch.equal(expected, result) and expected.dtype == result.dtype
    found.append((is_equal, asked["hit"], asked["miss"]))
writer.flush()
print(json.dumps(found))
"""


SEEN_BY_FILE_ONLY = frozenset()


def write_programs(folder: Path) -> None:
    for n, program in enumerate(PROGRAMS.values()):
        (folder / f"program{n}.py").write_text(HEAD.format(helper=f"helper{n}") + program.main)
        (folder / f"helper{n}.py").write_text(program.helper)
        (folder / f"unused{n}.py").write_text("value = 1\n")


def change_programs(folder: Path) -> None:
    for n, program in enumerate(PROGRAMS.values()):
        which, before, after = program.change
        path = folder / f"{'program' if which == 'main' else which}{n}.py"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))


def run_child(folder: Path, cache: Path, seed: str, mode: str = "") -> list[Any]:
    environment = os.environ | {
        "FRAMELIFT_CACHE": "1",
        "FRAMELIFT_CACHE_DIR": str(cache),
        "PYTHONHASHSEED": seed,
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])
    command = [sys.executable, "-c", CHILD, str(len(PROGRAMS)), mode]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    found: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Program -> (equal to eager, hits, misses) in each of the processes."""
    folder, cache = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("cache")
    cache.chmod(0o700)
    write_programs(folder)
    other_cache = tmp_path_factory.mktemp("cache")
    runs = [run_child(folder, cache, "1"), run_child(folder, cache, "2")]
    run_child(folder, other_cache, "1", "guards only")
    change_programs(folder)
    runs += [run_child(folder, cache, "3"), run_child(folder, other_cache, "3", "guards only")]
    return dict(zip(PROGRAMS, zip(*runs, strict=True), strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_between_two_processes(name: str, outcomes: dict[str, list[Any]]) -> None:
    first, second, changed, changed_without_net = outcomes[name]
    assert all(equal for equal, _, _ in (first, second, changed)), "not as eagerly"
    if name not in SEEN_BY_FILE_ONLY:
        assert changed_without_net[0], "not as eagerly, as far as guards know"
    assert first[1] == 0 and first[2] > 0
    if name == "the order of a set of texts":
        assert second[1] == 0, "texts have other hashes there"
        return
    assert (second[1] > 0, second[2]) == (True, 0), "it was not found again"
    if PROGRAMS[name].noticed:
        assert changed[2] > 0, "the change was not noticed"
    else:
        assert changed[2] == 0, "there was nothing to notice"
