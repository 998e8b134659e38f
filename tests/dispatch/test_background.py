"""Calls run as plain Python while their graph is compiled in another process, and then switch."""

import logging
import os
import subprocess
import sys
import time

import pytest
import torch

import framelift
from framelift.dispatch import backend_names, background
from tests.check import recompiles

ANSWERING = """
import json, os, sys, time
for line in sys.stdin:
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    with open(sys.argv[1]) as file:
        outcome = file.read()
    if outcome == "dies":
        os._exit(3)
    answer = {"job": json.loads(line)["job"], "outcome": outcome, "why": "because"}
    print(json.dumps(answer), flush=True)
"""
"""A process that compiles nothing, and says what it is told to say when it is told."""


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Has the other process answer, and waits until that is known. The backend is a quick one."""
    path = tmp_path / "outcome"
    monkeypatch.setattr(background, "COMMAND", ("-c", ANSWERING, str(path)))
    monkeypatch.setitem(backend_names._registered, "inductor", backend_names._registered["aot_eager"])

    def answer(outcome):
        written = path.with_suffix(".new")
        written.write_text(outcome)
        written.rename(path)
        assert framelift.wait_for_compilations(60)
        path.unlink()

    yield answer
    if background._worker is not None:
        background._worker.end()


def entries(compiled):
    return sum(len(state.entries) for state in compiled._framelift_context.code_states.values())


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framelift.reset()


def test_calls_run_plainly_until_the_graph_is_compiled(say):
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True, fullgraph=True)
    x = torch.randn(4)
    for _ in range(3):
        assert torch.equal(compiled(x), x.sin() + 1)
    assert entries(compiled) == 0
    (pending,) = framelift.pending_compilations()
    assert pending.progress == "compiling" and "<lambda>" in pending.name and pending.seconds > 0
    say("done")
    assert framelift.pending_compilations() == []
    for _ in range(3):
        assert torch.equal(compiled(x), x.sin() + 1)
    assert entries(compiled) == 1


def test_another_shape_is_compiled_the_same_way(say):
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True, dynamic=False)
    small, large = torch.randn(4), torch.randn(7)
    compiled(small)
    assert torch.equal(compiled(large), large.sin() + 1)
    assert len(framelift.pending_compilations()) == 2
    say("done")
    assert entries(compiled) == 0
    compiled(small)
    compiled(large)
    assert entries(compiled) == 2
    other = torch.randn(9)
    assert torch.equal(compiled(other), other.sin() + 1)
    assert entries(compiled) == 2


def test_sizes_that_vary_are_compiled_while_the_program_waits(say, caplog):
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True, dynamic=True)
    x = torch.randn(4)
    with caplog.at_level(logging.INFO, "framelift"):
        assert torch.equal(compiled(x), x.sin() + 1)
    assert entries(compiled) == 1
    assert "not compiled in the background" in caplog.text


def test_a_failure_is_told_once_and_plain_calls_go_on(say, caplog):
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True, fullgraph=True)
    x = torch.randn(4)
    compiled(x)
    say("failed")
    for _ in range(3):
        assert torch.equal(compiled(x), x.sin() + 1)
    assert entries(compiled) == 0 and framelift.pending_compilations() == []
    assert caplog.text.count("could not be compiled: because") == 1


def test_what_the_other_process_has_no_means_for_is_compiled_here(say):
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True, fullgraph=True)
    x = torch.randn(4)
    compiled(x)
    say("unusable")
    assert torch.equal(compiled(x), x.sin() + 1)
    assert entries(compiled) == 1


def test_a_process_that_dies_is_told_once_and_another_takes_its_place(say, caplog):
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True, dynamic=False)
    x, other = torch.randn(4), torch.randn(5)
    compiled(x)
    say("dies")
    for _ in range(3):
        assert torch.equal(compiled(x), x.sin() + 1)
    assert caplog.text.count("has ended with status 3") == 1
    assert torch.equal(compiled(other), other.sin() + 1)
    say("done")
    assert torch.equal(compiled(other), other.sin() + 1)
    assert entries(compiled) == 1


def test_training_is_as_eagerly_throughout(say):
    """Gradients, buffers that are written to, and the numbers that dropout draws."""
    torch.manual_seed(0)
    make = lambda: torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(), torch.nn.Linear(4, 1)
    )
    model, plain = make(), make()
    plain.load_state_dict(model.state_dict())
    compiled = framelift.compile(model, background=True, fullgraph=True)
    results = {}
    for name, called, module in (("compiled", compiled, model), ("plain", plain, plain)):
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        torch.manual_seed(1)
        losses = []
        for step in range(6):
            loss = called(torch.full((3, 4), float(step)) + torch.eye(3, 4)).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            if name == "compiled" and step == 2:
                say("done")
        results[name] = losses, list(module.state_dict().values()), torch.get_rng_state()
    for found, expected in zip(results["compiled"], results["plain"], strict=True):
        torch.testing.assert_close(found, expected)
    assert entries(compiled) == 1


def test_a_function_that_breaks_switches_part_by_part(say, capsys):
    def f(x, seen):
        y = x + 1
        print("here")
        seen.append(1)
        return y * 2

    compiled = framelift.compile(f, background=True)
    x, seen = torch.ones(3), []
    for _ in range(3):
        assert torch.equal(compiled(x, seen), f(x, []))
        if framelift.pending_compilations():
            say("done")
    assert len(seen) == 3
    assert capsys.readouterr().out == "here\n" * 6
    assert entries(compiled) >= 2


def test_functions_below_a_pending_frame_are_not_compiled_by_themselves(say):
    def inner(x):
        return x.cos()

    compiled = framelift.compile(lambda x: inner(x) + 1, background=True)
    for _ in range(3):
        compiled(torch.ones(3))
    assert len(framelift.pending_compilations()) == 1
    assert len(framelift.compile_records()) == 1


def test_a_frame_that_can_not_be_captured_is_an_error_at_once(say):
    def f(x):
        print(end="")
        return x + 1

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(f, background=True, fullgraph=True)(torch.ones(3))


def test_what_was_reset_meanwhile_is_compiled_anew(say):
    compiled = framelift.compile(lambda x: x + 1, background=True)
    compiled(torch.ones(3))
    framelift.reset()
    say("done")
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    say("done")
    compiled(torch.ones(3))
    assert entries(compiled) == 1 and recompiles(compiled) == 0


def test_waiting_has_a_limit(say):
    assert framelift.wait_for_compilations(0.1) is True
    framelift.compile(lambda x: x + 1, background=True)(torch.ones(3))
    assert framelift.wait_for_compilations(0.05) is False


@pytest.mark.parametrize("wrong", [{"background": 1}, {"background": True, "backend": "eager"}])
def test_what_makes_no_sense_is_an_error(wrong):
    with pytest.raises(framelift.exc.UserError, match="background"):
        framelift.compile(lambda x: x, **wrong)


PROGRAM = """
import os, sys, torch, framelift
from framelift.dispatch import background
if __name__ == "__main__":
    compiled = framelift.compile(lambda x: x.sin() + 1, background=True)
    x = torch.ones(3)
    assert torch.equal(compiled(x), x.sin() + 1)
    print(background._worker.process.pid, background._worker.folder, flush=True)
    {rest}
"""


def run_program(rest, status=0):
    source = PROGRAM.format(rest=rest)
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=240)
    assert ran.returncode == status, ran.stderr
    pid, folder, *said = ran.stdout.split()
    return int(pid), folder, said, ran.stderr


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_exit_while_something_is_compiled_leaves_nothing_behind():
    pid, folder, _, errors = run_program("")
    assert not is_running(pid) and not os.path.exists(folder) and errors == ""


def test_the_other_process_ends_with_one_that_is_killed():
    pid, *_ = run_program("os.kill(os.getpid(), 9)", status=-9)
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(pid)


FORKING = """
    if os.fork() == 0:
        assert framelift.pending_compilations() == []
        with framelift.set_stance("force_eager"):
            assert torch.equal(compiled(x), x.sin() + 1)
        sys.exit(0)
    assert os.wait()[1] == 0
    assert len(framelift.pending_compilations()) == 1
    print(background._worker.process.poll())
"""


def test_a_process_that_is_forked_leaves_the_other_one_alone():
    _, _, said, _ = run_program(FORKING.strip())
    assert said == ["None"]


REAL = """
    import torch._inductor.config
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    trained = framelift.compile(model, background=True, fullgraph=True)
    y = trained(torch.ones(3, 4)).sum()
    y.backward()
    before = [p.grad.clone() for p in model.parameters()]
    assert framelift.wait_for_compilations(200)
    model.zero_grad()
    trained(torch.ones(3, 4)).sum().backward()
    for p, grad in zip(model.parameters(), before): torch.testing.assert_close(p.grad, grad)
    from torch._dynamo.utils import counters
    print(counters["aot_autograd"]["autograd_cache_hit"], counters["aot_autograd"]["autograd_cache_miss"])
"""


def test_inductor_finds_what_the_other_process_has_compiled(tmp_path, monkeypatch):
    """Forward and backward, whatever was there before."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    _, _, said, _ = run_program(REAL.strip())
    assert said == ["1", "0"]
