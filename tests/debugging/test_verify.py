"""`verify`: a wrong result is found, down to the operation, and shown by a script; a right one passes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.debugging.bisecting import Parts, first_true
from framelift.testing import same

Graph = torch.fx.GraphModule


def calls(graph: Graph, name: str) -> list[torch.fx.Node]:
    found = [node for node in graph.graph.nodes if node.op.startswith("call")]
    return [node for node in found if getattr(node.target, "__name__", node.target) == name]


def wrong_sine(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Takes a sine for a cosine."""
    for node in calls(graph, "sin"):
        node.target = "cos"
    graph.recompile()
    return graph.forward


def wrong_gradient(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Right results, and no gradients behind a sine."""
    for node in calls(graph, "sin"):
        with graph.graph.inserting_after(node):
            made = graph.graph.call_method("detach", (node,))
            node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
    graph.recompile()
    return graph.forward


def wrong_write(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Leaves out what is added in place."""
    for node in calls(graph, "add_"):
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
    graph.recompile()
    return graph.forward


def wrong_together(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Wrong only where a product and a sum meet."""
    if calls(graph, "mul") and calls(graph, "add"):
        return lambda *given: [t + 1 for t in graph(*given)]
    return graph.forward


def program(x: torch.Tensor) -> torch.Tensor:
    y = x.exp() * 2
    print("hello")
    z = (y + 1).relu()
    for _ in range(3):
        z = z * 0.5
    a = z.sin() - 2
    return a.sum(0) * y


X = torch.linspace(-1, 1, 12).reshape(3, 4)


def run_script(path: Path, capsys: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    return int(left.value.code), capsys.readouterr().out  # type: ignore[arg-type]


# ---- wrong ones


def test_a_wrong_result_is_traced_to_its_operation_and_shown_by_a_script(tmp_path: Path, capsys: Any) -> None:
    report = framelift.verify(program, backend=wrong_sine)(X)
    assert not report.ok and report.difference is not None and report.graphs == 2
    wrong = report.wrong
    assert wrong is not None and wrong.number == 1 and wrong.op == "Tensor.sin"
    line = program.__code__.co_firstlineno + 6
    assert wrong.place == f'File "{__file__}", line {line}, in program'
    assert wrong.culprit is not None and len(calls(wrong.culprit.graph, "sin")) == 1
    assert sum(node.op.startswith("call") for node in wrong.culprit.graph.graph.nodes) == 1
    assert "first wrong operation: Tensor.sin" in str(report) and "1 call(s)" in str(report)
    with pytest.raises(framelift.exc.WrongResult, match="first wrong operation"):
        report.check()
    path = report.save_script(tmp_path / "new")
    assert path is not None and [each.name for each in path.parent.iterdir()] == ["repro.py"], (
        "inputs are seeded"
    )
    code, said = run_script(path, capsys)
    assert code == 1 and "Graph: compiled, it does something else" in said
    path.write_text(path.read_text().replace("backend=wrong_sine", "backend='eager'"))
    code, said = run_script(path, capsys)
    assert code == 0 and "does what it does otherwise" in said


def test_inputs_that_matter_are_saved_with_the_script(tmp_path: Path, capsys: Any) -> None:
    def fn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return (x.where(x > 100, 0.0)).sin() + n

    report = framelift.verify(fn, backend=wrong_sometimes)(torch.full((2,), 200.0), torch.ones(2))
    path = report.save_script(tmp_path)
    assert path is not None and (tmp_path / "inputs.pt").exists(), "no random numbers will do"
    assert run_script(path, capsys)[0] == 1


def wrong_sometimes(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Wrong for large numbers."""
    if not calls(graph, "sin"):
        return graph.forward

    def run(*given: Any) -> Any:
        large = any(isinstance(x, torch.Tensor) and bool((x > 100).any()) for x in given)
        return [t + large for t in graph(*given)]

    return run


def test_a_wrong_gradient_is_found() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin().sum() + x.sum()

    x = X.clone().requires_grad_()
    report = framelift.verify(fn, backend=wrong_gradient)(x)
    assert str(report.difference).startswith("gradients[0]: 12 of 12 elements differ")
    assert report.wrong is not None and report.wrong.op == "Tensor.sin" and x.grad is None
    assert framelift.verify(fn, backend=wrong_gradient)(X).ok, "without gradients there is nothing wrong"


def test_a_wrong_write_to_an_input_is_found() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        x.add_(1)
        return x[0] * 3

    x = X.clone()
    report = framelift.verify(fn, backend=wrong_write)(x)
    assert report.wrong is not None and report.wrong.op == "Tensor.add_" and torch.equal(x, X)
    found = framelift.verify(fn, backend=wrong_write)(X.flatten()[2:])
    assert found.wrong is not None and found.wrong.op == "Tensor.add_"


def test_a_part_that_takes_more_than_one_operation_is_kept_whole() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.relu() * 3
        return ((y.sin() + 1).cos() - 5).abs()

    wrong = framelift.verify(fn, backend=wrong_together)(X).wrong
    assert wrong is not None and wrong.op == "_operator.add" and wrong.culprit is not None
    ops = [node.name for node in wrong.culprit.graph.graph.nodes if node.op.startswith("call")]
    assert ops == ["y", "sin", "add"]  # a node is called as the variable it is stored in


def test_operations_with_several_results_and_numbers_can_be_cut_at() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a, b = x.split(2, dim=1)
        values, where = a.max(dim=0)
        return (values.sin() + where).sum() + b.sin().sum()

    wrong = framelift.verify(fn, backend=wrong_sine)(X).wrong
    assert wrong is not None and wrong.op == "Tensor.sin" and wrong.culprit is not None
    assert len(calls(wrong.culprit.graph, "sin")) == 1


def test_the_first_wrong_graph_is_the_one_that_is_told() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for n in range(3):
            x = x.sin() + n if n else x + 1
            framelift.graph_break()
        return x

    report = framelift.verify(fn, backend=wrong_sine)(X)
    assert report.wrong is not None and report.wrong.number == 1


def test_bodies_of_operators_are_in_the_script(tmp_path: Path, capsys: Any) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > -100, lambda x: x.sin() + 1, lambda x: x.cos(), (x.cos(),)).sin()

    report = framelift.verify(fn, backend=wrong_sine)(X)
    assert report.wrong is not None and report.wrong.op == "Tensor.sin"

    report = framelift.verify(fn, backend=wrong_body)(X)
    assert report.wrong is not None and report.wrong.op == "torch.ops.higher_order.cond"
    path = report.save_script(tmp_path)
    assert path is not None and run_script(path, capsys)[0] == 1


def wrong_body(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    for body in graph.children():
        if isinstance(body, Graph):
            wrong_sine(body, [])
    return graph.forward


def test_a_capture_that_is_wrong_is_told_apart() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor(3.0) if framelift.is_compiling() else x + 1

    report = framelift.verify(fn, backend="eager")(X)
    assert (
        not report.ok
        and report.wrong is None
        and "what was captured is not what the program does" in str(report)
    )


def test_a_function_that_is_not_compiled_is_no_wrong_result() -> None:
    def failing(graph: Graph, inputs: list[Any]) -> Any:
        raise ValueError("no")

    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.verify(program, backend=failing)(X)
    with pytest.raises(framelift.exc.Unsupported):
        framelift.verify(program, backend="eager", fullgraph=True)(X)


# ---- right ones


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.calls = nn.Buffer(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return nn.functional.dropout(self.norm(self.linear(x)), 0.5, self.training)


def autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    return y.float() @ x


RIGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "random numbers": (lambda x: torch.dropout(x, 0.5, True) + torch.rand(4), (X,)),
    "a write to an input": (lambda x, y: x.add_(y).sin_() + y, (X.clone(), X.t().contiguous().t())),
    "half precision": (lambda x: (x @ x.t()).softmax(0) * 100, (torch.randn(64, 64).half(),)),
    "a sum of many": (lambda x: x.exp().sum(0).log() * 1000, (torch.randn(5000, 3, requires_grad=True),)),
    "numbers that are none": (lambda x: (x - 2).log() / 0, (X,)),
    "memory that nobody has filled": (lambda x: torch.empty(1000), (X,)),
    "nothing but integers": (lambda n: n.cumsum(0) % 7, (torch.arange(10),)),
    "autocast": (autocast, (X.t()[:3, :3].clone().requires_grad_(),)),
    "precision that the program names": (
        lambda x: ((x.float() @ x.to(torch.float32).t()).to(dtype=torch.bfloat16) * 3).float(),
        (torch.randn(40, 40, dtype=torch.bfloat16),),
    ),
    "a view that is returned": (lambda x: (x[1:], x.t()), (X,)),
    "gradients inside": (
        lambda x: torch.autograd.grad((x.sin() * 2).sum(), x)[0],
        (X.clone().requires_grad_(),),
    ),
    "an error": (lambda x: x @ x, (X,)),
    "a model": (Net(), (X,)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_what_is_right(name: str, backend: str) -> None:
    fn, args = RIGHT[name]
    state = torch.get_rng_state()
    report = framelift.verify(fn, backend=backend)(*args)
    assert report.ok, str(report)
    assert report.graphs == (name != "an error") and "does what it does otherwise" in str(report)
    torch.set_rng_state(state)


@pytest.mark.inductor
def test_nothing_is_said_of_what_inductor_does_right() -> None:
    net = Net()
    report = framelift.verify(net)(torch.randn(16, 4))
    assert report.ok, str(report)
    assert report.checked == report.graphs == 1 and net.calls == 1, "only one of the two runs is left"


def test_a_model_has_run_once_afterwards() -> None:
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    torch.manual_seed(0)
    report = framelift.verify(net, backend="aot_eager")(X)
    torch.manual_seed(0)
    assert same(other(X), report.result) and same(other, net)


STATE = {"calls": 0, "total": torch.zeros(())}
HISTORY: list[int] = []


def test_what_a_function_changes_besides_its_arguments_is_put_back() -> None:
    count, kept, holder = 0, torch.zeros(3), type("Holder", (), {})()
    holder.seen = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        kept.add_(1)
        STATE["calls"] += 1
        STATE["total"].add_(x.sum())
        HISTORY.append(len(HISTORY))
        holder.seen.append(count)
        return x * count + kept.sum() + STATE["calls"] + STATE["total"] + len(HISTORY)

    report = framelift.verify(fn, backend="eager")(torch.ones(3))
    assert report.ok, str(report)
    assert (count, STATE["calls"], HISTORY, holder.seen) == (1, 1, [0], [1]) and kept.eq(1).all()
    assert STATE["total"] == 3


def test_a_step_of_an_optimizer_is_right() -> None:
    net = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(2):
        report = framelift.verify(step, backend="aot_eager")(X)
        assert report.ok, str(report)
    assert optimizer.state[net.weight]["step"] == 2


def test_a_script_stands_on_its_own(tmp_path: Path) -> None:
    backend = tmp_path / "program.py"
    backend.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(Path(framelift.__file__).parents[1])}
    for path in (backend, tmp_path / "repro.py"):
        ran = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path
        )
        assert ran.returncode == 1 and "first wrong operation: Tensor.sin" in ran.stdout, ran.stderr


SCRIPT = """
import torch, framelift

def wrong(graph, inputs):
    for node in graph.graph.nodes:
        if node.target == "sin":
            node.target = "cos"
    graph.recompile()
    return graph.forward

if __name__ == "__main__":
    report = framelift.verify(lambda x: x.exp().sin() + 1, backend=wrong)(torch.ones(3))
    print(report)
    report.save_script(".")
    raise SystemExit(not report.ok)
"""


def test_coarse_numbers_hide_nothing_that_is_wrong() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return autocast(x).sin() + 1

    wrong = framelift.verify(fn, backend=wrong_sine)(X[:3, :3]).wrong
    assert wrong is not None and wrong.op == "Tensor.sin"


# ---- config.verify_correctness


def test_what_is_wrong_is_an_error_when_it_runs(tmp_path: Path) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).sin() * 2

    with framelift.config.patch(verify_correctness=True, debug_dir=str(tmp_path)):
        right = framelift.compile(fn, backend="aot_eager")
        assert torch.equal(right(X), fn(X))
        compiled = framelift.compile(fn, backend=wrong_sine)
        with pytest.raises(framelift.exc.WrongResult, match=r"first wrong operation: Tensor.sin") as caught:
            compiled(X)
    (script,) = tmp_path.glob("run_*/*/wrong/repro.py")
    assert f"python {script} shows it" in str(caught.value)
    framelift.reset()
    assert torch.equal(framelift.compile(fn, backend=wrong_sine)(X), (X + 1).cos() * 2), "nobody asked"


# ---- the parts of a graph


def test_the_first_of_many() -> None:
    for answer in range(8):
        assert first_true(lambda n, answer=answer: n >= answer, 0, 7) == answer


def test_parts_of_a_graph_give_what_the_graph_gives() -> None:
    keeping = framelift.testing.EagerAndRecordGraphs()

    def fn(x: torch.Tensor) -> Any:
        y = x * 2
        y.add_(1)
        a, b = y.split(2, dim=1)
        a.mul_(3)
        return y.sum(0), a.max(dim=1).values + b.sum()

    expected = framelift.compile(fn, backend=keeping, fullgraph=True)(X)
    (graph,) = keeping.graphs
    parts = Parts(graph, [X.clone()])
    whole = [parts.part(begin, len(parts) - 1) for begin in range(len(parts))]
    assert sum(part is not None for part in whole) >= len(parts) // 2
    for part in filter(None, whole):
        found = part[0](*part[1])
        assert any(same(expected[1], each) for each in found)
