"""`framelift.compile` and its neighbours: forms, options, errors, modules."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from check import captures
from framelift import _frame


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("steps", torch.zeros(()))
        self.calls = 0

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        return self.linear(x).relu() * scale


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


# ---- forms


def test_compile_takes_a_function() -> None:
    compiled = framelift.compile(double, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert captures(compiled) == 1


def test_compile_is_a_decorator() -> None:
    @framelift.compile
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @framelift.compile(backend="eager", fullgraph=True)
    def with_arguments(x: torch.Tensor) -> torch.Tensor:
        """Adds two."""
        return x + 2

    assert with_arguments(torch.zeros(1)).item() == 2
    assert with_arguments.__name__ == "with_arguments" and with_arguments.__doc__ == "Adds two."
    assert plain.__name__ == "plain"


def test_compile_decorates_a_method() -> None:
    class Scaler:
        factor = 3

        @framelift.compile(backend="eager", fullgraph=True)
        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    scaler = Scaler()
    assert scaler.scale(torch.ones(1)).item() == 3
    scaler.factor = 5
    assert scaler.scale(torch.ones(1)).item() == 5
    bound = framelift.compile(scaler.scale, backend="eager")
    assert bound(torch.ones(1)).item() == 5


def test_on_a_callable_object_and_a_partial() -> None:
    class Adder:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.n

    assert framelift.compile(Adder(4), backend="eager")(torch.zeros(1)).item() == 4
    part = functools.partial(torch.add, torch.ones(1))
    assert framelift.compile(part, backend="eager")(torch.ones(1)).item() == 2


def test_disabled_by_option() -> None:
    assert framelift.compile(double, disable=True) is double


def test_compiling_twice_uses_the_newer_options() -> None:
    first = framelift.compile(double, backend="eager")
    second = framelift.compile(first, backend="eager", fullgraph=True)
    assert second(torch.ones(1)).item() == 2
    assert captures(first) == 0 and captures(second) == 1


def test_options_do_not_mix_entries() -> None:
    ran = []

    def backend(name: str) -> Any:
        def compile_with(graph: Any, inputs: Any) -> Any:
            def run(*args: Any) -> Any:
                ran.append(name)
                return graph(*args)

            return run

        return compile_with

    one, two = (framelift.compile(double, backend=backend(name)) for name in ("one", "two"))
    x = torch.ones(1)
    one(x), two(x), one(x)
    assert ran == ["one", "two", "one"]


# ---- modules


def test_a_compiled_module_is_the_module() -> None:
    net = Net()
    compiled = framelift.compile(net, backend="eager", fullgraph=True)
    assert isinstance(compiled, Net) and isinstance(compiled, torch.nn.Module)
    assert compiled.train() is compiled and compiled.eval() is compiled and not net.training
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), net(x)) and net.calls == compiled.calls == 2
    compiled.extra = 7
    assert net.extra == 7 and compiled._orig_mod is net
    assert compiled.to(torch.float64) is compiled and compiled(x.double()).dtype is torch.float64
    compiled.load_state_dict(Net().double().state_dict())
    assert torch.equal(compiled(x.double()), net(x.double()))


def test_hooks_of_a_compiled_module_run() -> None:
    net = Net()
    compiled = framelift.compile(net, backend="eager")
    x = torch.randn(2, 3)
    before = compiled(x)
    handle = compiled.register_forward_hook(lambda module, args, out: out + 1)
    assert torch.equal(compiled(x), before + 1)
    handle.remove()
    assert torch.equal(compiled(x), before)


def test_a_compiled_module_can_be_copied_and_pickled() -> None:
    torch.manual_seed(0)
    compiled = framelift.compile(Net(), backend="eager")
    x = torch.randn(2, 3)
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        other.linear.weight.zero_()
    assert not torch.equal(other(x), compiled(x))
    restored = pickle.loads(pickle.dumps(compiled))
    assert torch.equal(restored(x), compiled(x)) and hasattr(restored, "_framelift_context")


# ---- bad input


def test_an_unknown_backend_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        framelift.exc.InvalidBackend,
        match="Invalid backend: 'nonsense'; known are: aot_eager, .*cudagraphs, eager, .*inductor",
    ):
        framelift.compile(double, backend="nonsense")


@pytest.mark.parametrize("thing", [3, "f", None.__class__, [double]])
def test_what_can_not_be_compiled_is_a_type_error(thing: Any) -> None:
    with pytest.raises(TypeError, match="framelift.compile takes a function or a module"):
        framelift.compile(thing)


def test_wrong_options_are_errors() -> None:
    with pytest.raises(framelift.exc.UserError, match="Unrecognized mode=fast, should be one of: default"):
        framelift.compile(double, mode="fast")
    with pytest.raises(framelift.exc.UserError, match="Either mode or options"):
        framelift.compile(double, mode="default", options={"max_autotune": True})
    with pytest.raises(framelift.exc.UserError, match="max_autotun,.* did you mean 'max_autotune'"):
        framelift.compile(double, options={"max_autotun": True})
    wrong_type = "Unexpected type of attr max_autotune, got str should be bool"
    with pytest.raises(framelift.exc.UserError, match=wrong_type):
        framelift.compile(double, options={"max_autotune": "yes"})
    with pytest.raises(TypeError, match="backend must be a name or a callable"):
        framelift.compile(double, backend=3)  # type: ignore[arg-type]


def test_wrong_arguments_raise_what_eager_raises() -> None:
    compiled = framelift.compile(double, backend="eager", fullgraph=True)
    for args, kwargs in [((), {}), ((1, 2), {}), ((), {"y": 1})]:
        with pytest.raises(TypeError) as eager:
            double(*args, **kwargs)
        with pytest.raises(TypeError) as ours:
            compiled(*args, **kwargs)
        assert str(ours.value) == str(eager.value)


def test_a_failing_backend_is_named_and_its_error_kept() -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise ValueError("no such target")

    with pytest.raises(
        framelift.exc.BackendCompilerFailed, match="broken' raised:\nValueError: no such target"
    ) as raised:
        framelift.compile(double, backend=broken)(torch.ones(1))
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(framelift.exc.BackendCompilerFailed, match="must return a callable"):
        framelift.compile(double, backend=lambda graph, inputs: 3)(torch.ones(1))


def test_fullgraph_says_what_where_why_and_what_to_do() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        print("side effect")
        return x

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1)

    with pytest.raises(framelift.exc.Unsupported) as raised:
        framelift.compile(outer, backend="eager", fullgraph=True)(torch.ones(1))
    text = str(raised.value)
    for part in (
        "run-time effect: print",
        "Explanation:",
        "Hint:",
        __file__,
        "inner(x + 1)",
        'print("side effect")',
    ):
        assert part in text


def test_without_fullgraph_what_can_be_captured_is(capsys: Any) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        print("once per call")
        return double(x) + 1

    compiled = framelift.compile(noisy, backend="eager")
    assert compiled(torch.ones(1)).item() == 3 and compiled(torch.ones(1)).item() == 3
    assert capsys.readouterr().out == "once per call\n" * 2
    captured = [
        [len(one.capture.ops) for one in r.entries] for r in compiled._framelift_context.code_states.values()
    ]
    assert captured == [[0], [2]]  # up to the effect, and from there on, the function that is called included


def test_an_error_of_the_program_is_the_programs_own() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.zeros(7, 7)

    def raising(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        raise KeyError("mine") from ZeroDivisionError(str(y.shape))

    x = torch.ones(2, 3)
    for fn in (wrong, raising):
        with pytest.raises(Exception) as eager:  # noqa: B017, PT011
            fn(x)
        with pytest.raises(type(eager.value)) as ours:
            framelift.compile(fn, backend="eager", fullgraph=True)(x)
        assert ours.value.args == eager.value.args
        assert ours.traceback[-1].name == fn.__name__


# ---- switches and questions


def test_reset_forgets_and_the_next_call_compiles_again() -> None:
    compiled = framelift.compile(double, backend="eager")
    compiled(torch.ones(1))
    framelift.reset()
    assert captures(compiled) == 0 and not framelift.counters
    assert compiled(torch.ones(1)).item() == 2 and captures(compiled) == 1


def test_is_compiling_is_true_while_a_function_is_captured() -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        return x + (1 if framelift.is_compiling() and torch.compiler.is_compiling() else 0)

    assert not framelift.is_compiling() and asks(torch.zeros(1)).item() == 0
    assert framelift.compile(asks, backend="eager", fullgraph=True)(torch.zeros(1)).item() == 1


def test_a_disabled_function_runs_untouched_with_all_it_calls() -> None:
    modes = []

    def helper(x: torch.Tensor) -> torch.Tensor:
        modes.append(_frame.mode())
        return x + 1

    @framelift.disable(reason="it is special")
    def special(x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return special(x) * 2

    compiled = framelift.compile(outer, backend="eager")
    assert compiled(torch.ones(1)).item() == 4 and modes == [_frame.OFF]
    with pytest.raises(framelift.exc.Unsupported, match="disabled function: .*it is special"):
        framelift.compile(outer, backend="eager", fullgraph=True)(torch.ones(1))


@pytest.mark.parametrize(
    ("mark", "mode"),
    [
        (framelift.disable, "OFF"),
        (framelift.disable(recursive=False), "captured"),
        (framelift.skip, "captured"),
        (torch.compiler.disable, "OFF"),
        (functools.partial(torch.compiler.disable, recursive=False), "captured"),
    ],
    ids=["disable", "disable, not recursive", "skip", "torch's", "torch's, not recursive"],
)
def test_markings_are_honoured(mark: Any, mode: str) -> None:
    seen: list[str] = []

    def helper(x: torch.Tensor) -> torch.Tensor:
        seen.append("captured" if framelift.is_compiling() else "OFF")
        return x + 1

    def special(x: torch.Tensor) -> torch.Tensor:
        seen.append("captured" if framelift.is_compiling() else "OFF")
        return helper(x)

    marked = mark(special)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return marked(x * 3) * 2

    compiled = framelift.compile(outer, backend="eager")
    for _ in range(2):
        seen.clear()
        assert compiled(torch.ones(1)).item() == 8
        assert seen == ["OFF", mode]
    with pytest.raises(framelift.exc.Unsupported, match="disabled function"):
        framelift.compile(outer, backend="eager", fullgraph=True)(torch.ones(1))


def test_a_break_that_torch_is_asked_for_is_one() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()  # noqa: TID251
        return x * 2

    report = framelift.explain(fn)(torch.ones(1))
    assert report.graph_count == 2 and len(report.breaks) == 1  # before and after the break


def test_a_compiled_function_inside_another_is_inlined() -> None:
    inner = framelift.compile(double, backend="eager")
    net = framelift.compile(Net(), backend="eager")
    outer = framelift.compile(lambda x: inner(x) + net(x), backend="eager", fullgraph=True)
    x = torch.ones(2, 3)
    assert torch.equal(outer(x), x * 2 + net(x))
    assert captures(outer) == 1


def test_backends_can_be_registered() -> None:
    @framelift.register_backend(name="test_api_doubling")
    def doubling(graph: Any, inputs: list[torch.Tensor]) -> Any:
        assert isinstance(graph, torch.fx.GraphModule) and all(isinstance(x, torch.Tensor) for x in inputs)
        return lambda *args: tuple(out * 2 for out in graph(*args))

    assert "test_api_doubling" in framelift.list_backends()
    assert framelift.compile(double, backend="test_api_doubling")(torch.ones(1)).item() == 4


def test_explain_shows_graphs_guards_and_generated_code() -> None:
    def fn(x: torch.Tensor, config: dict[str, int]) -> torch.Tensor:
        return x * config["factor"] + 1

    report = framelift.explain(fn)(torch.ones(2), {"factor": 3})
    assert report.graph_count == 1 and report.op_count == 2 and not report.breaks
    assert torch.equal(report.result, torch.full((2,), 4.0))
    text = str(report)
    assert (
        "config['factor'] == 3" in text and 'config["factor"]' in text and f"{Path(__file__).name}:" in text
    )
    assert "2: mul, add" in text and "def region_of_fn(" in report.sources[0]


def test_explain_shows_why_something_was_not_captured() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    report = framelift.explain(fn)(torch.ones(2))
    assert [found.reason.name for found in report.breaks] == ["data-dependent branch"]
    assert "x.sum() > 0" in str(report)


# ---- threads and re-entrancy


def test_concurrent_calls_compile_once_and_agree() -> None:
    compiled = framelift.compile(double, backend="eager", fullgraph=True)
    results: list[float] = []

    def work() -> None:
        for n in range(50):
            results.append(compiled(torch.full((1,), float(n))).item() - 2 * n)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.0] * 400 and captures(compiled) == 1
    assert not _frame.installed() and _frame.active() == 0


def test_the_hook_is_installed_only_while_a_compiled_call_runs() -> None:
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            seen.append((_frame.installed(), _frame.mode()))
            return graph(*args)

        return run

    compiled = framelift.compile(double, backend=backend)
    assert not _frame.installed()
    compiled(torch.ones(1))
    assert seen == [(True, _frame.OFF)] and not _frame.installed()


def test_past_the_recompile_limit_it_runs_as_plain_python() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    compiled = framelift.compile(fn, backend="eager", dynamic=False)
    for n in range(20):
        assert compiled(torch.ones(1), n).item() == n
    assert captures(compiled) == 8  # recompile_limit, of 20 numbers
    for n in range(20):
        assert compiled(torch.ones(1), n).item() == n


def test_what_inductor_would_be_given_runs_as_it_is() -> None:
    fn = lambda x, w: torch.nn.functional.gelu(torch.nn.functional.layer_norm(x @ w, (3,))).sum()
    found = []
    for run in (fn, framelift.compile(fn, backend="aot_eager_decomp_partition", fullgraph=True)):
        torch.manual_seed(0)
        x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
        run(x, w).backward()
        found.append(w.grad)
    torch.testing.assert_close(*found)
