"""What another process has changed before its first call is noticed: all that the mutations change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ONE_OF = 1 if os.environ.get("FRAMELIFT_THOROUGH") else 4
"""How many programs there are for each that is run."""
MUTATIONS = str(Path(__file__).parents[1] / "mutations")


def run_child(mode: str, folder: Path, cache: Path) -> dict[str, Any]:
    environment = os.environ | {"FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join([MUTATIONS, *sys.path])
    script = str(Path(__file__).with_name("changed_before_the_call.py"))
    command = [sys.executable, script, mode, str(folder), str(ONE_OF)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_changes_of_all_that_is_read(tmp_path: Path) -> None:
    programs, cache = tmp_path / "programs", tmp_path / "cache"
    for folder in (programs, cache):
        folder.mkdir(mode=0o700)
    kept = run_child("keep", programs, cache)
    found = run_child("find", programs, cache)
    assert kept["different"] == found["different"] == []
    assert found["hits"] > found["calls"] / 4, "hardly anything of what was kept is found"
