"""The programs of docs/distributed.md run, one of them as a user would start it."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import runpy
import socket
import subprocess
import sys

import pytest

from process_groups import run_on_ranks

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
STARTED = "distributed_collectives.py"
SAID = {
    "distributed_agreement.py": "1 capture for 3 sizes",
    "distributed_collectives.py": "2 ranks agree with eager",
    "distributed_ddp.py": "gradients are those of eager DDP",
    "distributed_fsdp.py": "parameters are those of eager FSDP",
    "distributed_tensors.py": "losses of 2 ranks, compiled: [",
}
"""The examples, and what they end with on rank 0."""


def play(path: str, port: int) -> str:
    """What an example prints on this rank, started as `torchrun` would."""
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(path, run_name="__main__")
    return printed.getvalue()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("name", sorted(SAID.keys() - {STARTED}))
def test_an_example_runs(name: str) -> None:
    found = run_on_ranks(play, 2, group=False, path=str(EXAMPLES / name), port=free_port())
    assert all(one.kind == "ok" for one in found), "\n".join(map(str, found))
    assert SAID[name] in found[0].result and found[1].result == ""


def test_an_example_runs_under_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(EXAMPLES / STARTED)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert SAID[STARTED] in done.stdout and "_c10d_functional.all_reduce" in done.stdout


def test_all_examples_are_known() -> None:
    assert {path.name for path in EXAMPLES.glob("distributed_*.py")} == set(SAID)
