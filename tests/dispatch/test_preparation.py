"""What Inductor needs to know of a machine is found out in another process, once, beside the program."""

import os
import subprocess
import sys
import time

import pytest
import torch

import framelift
from framelift.dispatch import preparation

WAITING = "import time; time.sleep(600)"
MARKING = "import sys, pathlib; pathlib.Path(sys.argv[1]).touch()"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A list of the processes that were started, which do nothing but wait."""
    processes = []
    start = preparation.start
    monkeypatch.setattr(preparation, "COMMAND", ("-c", WAITING))
    monkeypatch.setattr(preparation, "start", lambda mark: processes.append(start(mark)) or processes[-1])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(torch.version, "cuda", None)
    preparation.prepare_machine.cache_clear()
    with framelift.config.patch(prepare=True, cache=True, cache_dir=str(tmp_path / "cache")):
        yield processes
    preparation.prepare_machine.cache_clear()
    for process in processes:
        process.kill()
        process.wait()


def in_another_process():
    preparation.prepare_machine.cache_clear()
    framelift.compile(lambda x: x + 1)


def test_the_first_compile_with_inductor_starts_it(started):
    framelift.compile(lambda x: x + 1, backend="eager")
    assert not started
    framelift.compile(lambda x: x + 1)
    framelift.compile(lambda x: x + 2)
    assert len(started) == 1


def test_while_one_is_at_it_others_are_not(started):
    in_another_process()
    in_another_process()
    assert len(started) == 1


def test_a_machine_that_is_ready_stays_so(started, monkeypatch):
    monkeypatch.setattr(preparation, "COMMAND", ("-c", MARKING))
    in_another_process()
    assert started[0].wait() == 0
    preparation.mark_of_machine().with_suffix(preparation.CLAIMED).unlink()
    in_another_process()
    assert len(started) == 1


def test_one_who_died_at_it_is_not_waited_for(started):
    in_another_process()
    claimed = preparation.mark_of_machine().with_suffix(preparation.CLAIMED)
    long_ago = time.time() - preparation.STALE - 1
    os.utime(claimed, (long_ago, long_ago))
    in_another_process()
    assert len(started) == 2


@pytest.mark.parametrize("option", ["prepare", "cache"])
def test_an_option_turns_it_off(started, option):
    with framelift.config.patch({option: False}):
        in_another_process()
    assert not started


def test_one_processor_is_the_programs(started, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    in_another_process()
    assert not started


def test_a_folder_that_can_not_be_written_stops_nothing(started, tmp_path):
    (tmp_path / "file").touch()
    with framelift.config.patch(cache_dir=str(tmp_path / "file" / "cache")):
        in_another_process()
    assert not started


PROGRAM = """
import os, sys, torch
from framelift.dispatch import preparation
import framelift
preparation.COMMAND = ("-c", {waiting!r})
os.sched_getaffinity = lambda pid: {{0, 1}}
torch.version.cuda = None
framelift.compile(lambda x: x + 1)
process = preparation.prepare_machine()
print(process.pid, preparation.mark_of_machine().with_suffix(preparation.CLAIMED), flush=True)
{rest}
"""


def run_program(rest, tmp_path):
    source = PROGRAM.format(waiting=WAITING, rest=rest)
    environment = {**os.environ, "FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(tmp_path)}
    environment["FRAMELIFT_PREPARE"] = "1"
    command = [sys.executable, "-c", source]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    pid, claimed, *said = ran.stdout.split()
    return int(pid), claimed, said


def test_an_exit_meanwhile_leaves_nothing_behind(tmp_path):
    pid, claimed, _ = run_program("", tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not os.path.exists(claimed)


def test_a_process_that_is_forked_leaves_it_alone(tmp_path):
    rest = "if os.fork() == 0: sys.exit(0)\nassert os.wait()[1] == 0\nprint(process.poll())"
    assert run_program(rest, tmp_path)[2] == ["None"]


def test_what_is_made_ready_is_kept(tmp_path):
    """By the real thing, which compiles with Inductor."""
    kept = tmp_path / "cache"
    folders = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TMPDIR": "temporary"}
    paths = {variable: str(tmp_path / name) for variable, name in folders.items()}
    for path in (*paths.values(), kept, kept / preparation.FOLDER):
        os.makedirs(path, mode=0o700)
    environment = {**os.environ, **paths, "FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(kept)}
    mark = kept / preparation.FOLDER / "mark"
    command = [sys.executable, "-m", "framelift.dispatch.preparation", str(mark)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr
    assert mark.exists()
    headers = list((tmp_path / "temporary").glob("**/precompiled_headers/**/*.gch"))
    assert headers or sys.platform != "linux"
