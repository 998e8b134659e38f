"""While Framelift is installed, torch's own names act on it: stances, options, errors, marks, callbacks."""

from __future__ import annotations

import importlib
import inspect
import logging
import pickle
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.comptime
from torch import nn
from torch._dynamo import exc as torchs_exc

import framelift
from framelift.testing import CompileCounter

X = torch.arange(3.0)
BEFORE = {
    (module, name): getattr(module, name)
    for module, names in [
        (torch, ["compile"]),
        (torch.compiler, ["set_stance", "reset", "disable", "allow_in_graph"]),
        (torch._dynamo, ["optimize", "set_stance", "OptimizedModule", "nonstrict_trace", "reset"]),
        (torch._dynamo.comptime, ["comptime"]),
    ]
    for name in names
}


@pytest.fixture(autouse=True)
def installed() -> Any:
    framelift.reset()
    with framelift.install():
        yield
    framelift.config.reset()
    assert {where: getattr(*where) for where in BEFORE} == BEFORE


def breaking(x: torch.Tensor) -> torch.Tensor:
    print("a break")
    return x + 1


def test_stances_are_framelifts() -> None:
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x * 2, backend=counter, dynamic=False)
    with torch.compiler.set_stance("force_eager"):
        compiled(X)
    assert counter.frame_count == 0
    compiled(X)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError) as raised:
        compiled(torch.ones(5))
    text = str(raised.value)
    assert "Detected recompile when torch.compile stance is 'fail_on_recompile'" in text
    assert "tensor 'x' size mismatch at index 0. expected 3, actual 5" in text
    other = CompileCounter()
    with torch.compiler.set_stance(force_backend=other):
        compiled(X)
    assert (counter.frame_count, other.frame_count) == (1, 1)


def test_reset_forgets_what_framelift_compiled() -> None:
    compiled = torch.compile(lambda x: x * 2, backend="eager")
    compiled(X)
    torch.compiler.reset()
    assert not framelift.entries(compiled)


def test_compilations_are_numbered_from_the_beginning_after_a_reset() -> None:
    ids: list[str] = []

    def backend(graph: torch.fx.GraphModule, examples: Any) -> Any:
        ids.append(str(graph.meta["dynamo_compile_id"]))
        return graph.forward

    compiled = torch.compile(lambda x, n: x * n, backend=backend, dynamic=False)
    for _ in range(2):
        torch.compiler.reset()
        compiled(X, 1), compiled(X, 2), torch.compile(lambda x: x + 1, backend=backend)(X)
    assert ids == ["0/0", "0/1", "1/0"] * 2


def test_a_break_that_was_asked_for_says_the_message() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break(msg="not before the data is here")
        return y * 2

    with pytest.raises(torchs_exc.Unsupported, match="not before the data is here"):
        torch.compile(fn, backend="eager", fullgraph=True)(X)
    counter = CompileCounter()
    assert torch.equal(torch.compile(fn, backend=counter)(X), (X + 1) * 2) and counter.frame_count == 2


def test_an_explanation_in_the_older_form() -> None:
    with pytest.warns(FutureWarning, match="is deprecated, use explain"):
        report = torch._dynamo.explain(lambda x, n: x * n, X, n=2)
    assert report.graph_count == 1 and torch._dynamo.explain(lambda x: x + 1)(X).graph_count == 1


def test_torch_is_told_what_is_disabled() -> None:
    plain = lambda x: x + 1
    asked = torch._dynamo.is_dynamo_disable_recursive
    found = [asked(plain), asked(torch.compiler.disable(plain)), asked(torch.compiler.disable(plain, False))]
    assert found == [None, True, False]


def test_what_is_disabled_has_torchs_marks() -> None:
    disabled: Any = torch.compiler.disable(breaking, reason="prints")
    assert disabled._torchdynamo_disable and disabled._torchdynamo_disable_msg == "prints"
    assert not hasattr(breaking, "_torchdynamo_disable")
    assert torch._dynamo.eval_frame.innermost_fn(disabled) is disabled._torchdynamo_orig_callable is breaking
    framelift.uninstall()
    with pytest.raises(torchs_exc.Unsupported, match="prints"):
        torch.compile(lambda x: disabled(x) + 1, backend="eager", fullgraph=True)(X)


def test_the_signature_is_torchs() -> None:
    """Libraries look there for what `torch.compile` takes."""
    installed = inspect.signature(torch.compile)
    framelift.uninstall()
    assert installed == inspect.signature(torch.compile) and "fullgraph" in installed.parameters


def test_backends_that_are_registered_with_torch_are_listed() -> None:
    def of_this_test(graph: Any, inputs: Any) -> Any:
        return graph.forward

    registry = importlib.import_module("torch._dynamo.backends.registry")
    registry.register_backend(of_this_test)
    try:
        assert "of_this_test" in torch._dynamo.list_backends()
        assert torch.equal(torch.compile(lambda x: x + 1, backend="of_this_test")(X), X + 1)
    finally:
        for table in (registry._BACKENDS, registry._COMPILER_FNS):
            table.pop("of_this_test", None)


def test_torchs_class_of_compiled_modules_can_be_made() -> None:
    linear = nn.Linear(3, 3)
    made: Any = torch._dynamo.OptimizedModule(linear, torch._dynamo.optimize("eager"))
    assert torch.equal(made(X), linear(X)) and made._orig_mod is linear
    assert isinstance(made, torch._dynamo.OptimizedModule)


def test_options_are_framelifts(caplog: pytest.LogCaptureFixture) -> None:
    limit = framelift.config.recompile_limit
    with torch._dynamo.config.patch(recompile_limit=3, capture_scalar_outputs=True):
        assert framelift.config.recompile_limit == 3 and framelift.config.capture_scalar_outputs
    with torch._dynamo.config.patch(cache_size_limit=2):
        assert framelift.config.recompile_limit == 2
    assert framelift.config.recompile_limit == limit
    with caplog.at_level(logging.WARNING), torch._dynamo.config.patch(numpy_default_int="int32"):
        pass
    assert "numpy_default_int is ignored: NumPy's numbers have the types" in caplog.text


def test_torchs_classes_catch_framelifts_errors() -> None:
    def raised(fn: Any, *args: Any, **settings: Any) -> BaseException:
        with pytest.raises(Exception) as found:
            torch.compile(fn, **{"backend": "eager", **settings})(*args)
        return found.value

    def failing(graph: Any, inputs: Any) -> Any:
        raise ValueError("not this one")

    broken = raised(breaking, X, fullgraph=True)
    assert isinstance(broken, torchs_exc.Unsupported) and isinstance(broken, framelift.exc.Unsupported)
    assert (
        "from user code:" in broken.msg and type(pickle.loads(pickle.dumps(broken))).__name__ == "Unsupported"
    )
    failed = raised(lambda x: x + 1, X, backend=failing)
    assert isinstance(failed, torchs_exc.BackendCompilerFailed) and type(failed.inner_exception) is ValueError
    assert str(failed).startswith("backend='failing' raised:") and "ValueError: not this one" in str(failed)
    assert isinstance(raised(lambda x: x, X, backend="nobody's"), torchs_exc.InvalidBackend)
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
        compiled(X)
        with pytest.raises(torchs_exc.RecompileError):
            compiled(torch.ones(5))
    limited = torch.compile(
        lambda x: x + 1, backend="eager", dynamic=False, fullgraph=True, recompile_limit=1
    )
    limited(X)
    with pytest.raises(torchs_exc.FailOnRecompileLimitHit):
        limited(torch.ones(5))


def test_marks_of_torchs_are_framelifts() -> None:
    def with_error(x: torch.Tensor) -> torch.Tensor:
        with torch._dynamo.error_on_graph_break(True):
            return breaking(x)

    with pytest.raises(torchs_exc.Unsupported):
        torch.compile(with_error, backend="eager")(X)

    @torch._dynamo.nonstrict_trace
    def traced(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x * 2

    assert torch.equal(torch.compile(lambda x: traced(x) + 1, backend="eager", fullgraph=True)(X), X * 2 + 1)
    counter = CompileCounter()
    assert (
        torch.equal(torch._dynamo.optimize(counter)(lambda x: x + 1)(X), X + 1) and counter.frame_count == 1
    )


def test_comptime_of_torchs_is_framelifts(capsys: pytest.CaptureFixture[str]) -> None:
    from torch._dynamo.comptime import comptime

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        comptime.print_graph()
        return y

    torch.compile(fn, backend="eager", fullgraph=True)(X)
    assert "sin" in capsys.readouterr().out


def test_libraries_know_a_compiled_module() -> None:
    net = nn.Linear(3, 3)
    compiled = torch.compile(net, backend="eager")
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule) and compiled._orig_mod is net
    assert not isinstance(net, torch._dynamo.OptimizedModule) and list(compiled.state_dict()) == [
        "weight",
        "bias",
    ]
    other = nn.Linear(3, 3)
    compiled._orig_mod = other  # as accelerate does
    assert torch.equal(compiled(X), other(X)) and list(compiled.state_dict()) == ["weight", "bias"]
    step = compiled.dynamo_ctx(lambda x: x + 1)  # as Lightning does
    assert torch.equal(step(X), X + 1)


def test_callbacks_and_counters_of_torchs_are_used() -> None:
    handler = torch._dynamo.callback.callback_handler
    seen: list[str] = []
    start, end = (lambda args: seen.append("start")), (lambda args: seen.append("end"))
    handler.register_start_callback(start), handler.register_end_callback(end)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    try:
        torch.compile(lambda x: x.sin() + 5, backend="eager")(X)
    finally:
        handler.remove_start_callback(start), handler.remove_end_callback(end)
    assert seen == ["start", "end"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1


def test_torchs_metrics_tell_of_compilations() -> None:
    utils = torch._dynamo.utils

    def fails(graph: Any, inputs: Any) -> Any:
        raise ValueError("not today")

    with framelift.install():
        utils.clear_compilation_metrics()
        with pytest.raises(torchs_exc.BackendCompilerFailed):
            torch.compile(lambda x: x + 1, backend=fails)(torch.ones(2))
        compiled = torch.compile(lambda x, n: torch.ops.aten.sin(x) * n, backend="eager")
        compiled(torch.ones(2), 1.5)
        compiled(torch.ones(2), "a" == "b")
        failed, first, second = utils.get_compilation_metrics()
    assert (failed.fail_type, first.fail_type) == ("BackendCompilerFailed", None)
    assert "not today" in failed.fail_reason
    assert (first.cache_size, second.cache_size, second.accumulated_cache_size) == (0, 1, 1)
    assert first.graph_op_count == 2


def test_counters_go_on_counting_when_they_are_reset() -> None:
    counters = torch._dynamo.utils.counters
    with framelift.install():
        for _ in range(3):
            framelift.reset()
            counters.clear()
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
            assert counters["stats"]["unique_graphs"] == 1


def test_torch_compile_imported_by_name_before(monkeypatch: pytest.MonkeyPatch) -> None:
    torchs = BEFORE[torch, "compile"]
    compiled = torchs(lambda x: x * 2, backend="eager", fullgraph=True, dynamic=True)
    assert torch.equal(compiled(X), X * 2)
    assert len(framelift.entries(compiled)) == 1 and compiled._framelift_context.fullgraph
    given: list[Any] = []

    def backend(graph: Any, inputs: Any, **settings: Any) -> Any:
        given.append(settings)
        return graph.forward

    torchs(lambda x: x * 3, backend=backend, options={"level": 1})(X)
    assert given == [{"options": {"level": 1}}]
    options = torchs(lambda x: x * 4, options={"max_autotune": True})._framelift_context.options
    assert options == {"max_autotune": True}
    with pytest.raises(framelift.exc.UserError, match="shapes_spec is not offered"):
        torchs(lambda x: x, backend="eager", shapes_spec={"x": None})


@pytest.mark.parametrize("name", ["dont_skip_tracing", "disable_nested_graph_breaks"])
def test_what_framelift_need_not_be_told(name: str) -> None:
    asked = getattr(torch._dynamo, name)

    @asked
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def fn(x: torch.Tensor) -> torch.Tensor:
        with asked():
            y = asked(inner)(x)
        return y * 2

    assert torch.equal(torch.compile(fn, backend="eager", fullgraph=True)(X), (X + 1) * 2)


def test_what_stops_in_a_function_of_an_operator() -> None:
    def printing(x: torch.Tensor) -> torch.Tensor:
        print("not here")
        return x + 1

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 9, printing, torch.cos, (x,))

    def torn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 9, lambda y: (y, y), torch.cos, (x,))

    for wrong in (fn, torn):
        with pytest.raises(
            torchs_exc.UncapturedHigherOrderOpError, match="Higher Order Operator: torch.cond"
        ):
            torch.compile(wrong, backend="eager", fullgraph=True)(X)


def test_the_last_reason_is_told_when_a_limit_is_reached(caplog: pytest.LogCaptureFixture) -> None:
    compiled = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False, recompile_limit=2)
    for n in range(4):
        compiled(X, n)
    assert caplog.text.count("hit config.recompile_limit") == 1
    assert "last reason: n == 1, found 2" in caplog.text and 'TORCH_LOGS="recompiles"' in caplog.text


def test_hooks_in_a_captured_graph_go_through_torchs_compiled_autograd() -> None:
    from torch._dynamo import compiled_autograd

    def fn(w: torch.Tensor) -> torch.Tensor:
        out = w * 3
        for hook in (doubled, doubled):
            out.register_hook(hook)
        return out

    def doubled(grad: torch.Tensor) -> torch.Tensor:
        return grad * 2

    w = torch.ones(3, requires_grad=True)
    with compiled_autograd._enable(torch.compile(backend="eager", fullgraph=True)):
        torch.compile(fn, backend=lambda graph, _: graph.forward, fullgraph=True)(w).sum().backward()
    assert torch.equal(w.grad, torch.full((3,), 3.0 * 2 * 2))


def test_torchs_backend_that_explains_is_told_why_graphs_end() -> None:
    from torch._dynamo.backends.debugging import ExplainWithBackend

    backend = ExplainWithBackend("eager")
    compiled = torch.compile(lambda x: breaking(x * 2) + 1, backend=backend)
    assert torch.equal(compiled(X), X * 2 + 2)
    told = backend.output()
    assert (told.graph_count, told.graph_break_count, told.op_count) == (2, 1, 3)
    (reason,) = told.break_reasons
    assert "print" in reason.reason and [frame.name for frame in reason.user_stack][-1] == "breaking"
