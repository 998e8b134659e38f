"""What Inductor has compiled runs in another process, as there, and without Inductor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WITHOUT_INDUCTOR = ["inference", "training", "writing", "differentiating_twice"]
WITHOUT_INDUCTOR += ["varying", "varying_training", "varying_and_written"]
WITHOUT_INDUCTOR += ["views", "views_in_training", "varying_views", "kept_for_more"]
PROGRAMS = [*WITHOUT_INDUCTOR, "optimizing"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    cache = tmp_path_factory.mktemp("cache")
    environment = os.environ | {"FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    found = []
    for _ in range(2):
        command = [sys.executable, str(Path(__file__).with_name("inductor_programs.py"))]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
        assert ran.returncode == 0, ran.stderr
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_compiled_is_found(name: str, outcomes: list[dict[str, Any]]) -> None:
    first, second = (run[name] for run in outcomes)
    assert first[0] and second[0], "not as eagerly"
    assert (first[1], first[2] > 0) == (0, True)
    assert (second[1] > 0, second[2]) == (True, 0)


def test_nothing_of_torchs_compilers_is_imported(outcomes: list[dict[str, Any]]) -> None:
    for name in WITHOUT_INDUCTOR:
        assert outcomes[1][name][3] == [], name
