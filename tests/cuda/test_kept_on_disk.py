"""What one process has captured and compiled for a CUDA device, another uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PROGRAMS = ["inference", "training", "mixed_precision", "writing", "views", "breaking", "attending"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of the process that compiles, and of the one that comes after it."""
    folders = {
        variable: str(tmp_path_factory.mktemp("kept"))
        for variable in ("FRAMELIFT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    }
    environment = os.environ | folders | {"FRAMELIFT_CACHE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(__file__).with_name("programs_kept_on_disk.py")), "cuda"]
    found = []
    for _ in range(2):
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
        assert ran.returncode == 0, ran.stderr
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_compiled_is_found(name: str, outcomes: list[dict[str, Any]]) -> None:
    first, second = (run[name] for run in outcomes)
    assert first[0] and second[0], "not as eagerly"
    assert (first[1], first[2] > 0) == (0, True)
    assert (second[1] > 0, second[2]) == (True, 0), "it was captured again"
    assert second[3] == 0, "Inductor compiled a graph again"
    assert second[4] == pytest.approx(first[4], rel=1e-4, abs=1e-4)
