"""The forms in which torch.compile's API is used: classes and modules, context managers, stances."""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import pickle
import subprocess
import sys
import types
from typing import Any

import numpy
import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import framelift
from framelift.testing import CompileCounter, same

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def as_before() -> Any:
    framelift.reset()
    yield
    framelift.config.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


# ---- classes, instances, modules


def test_calls_of_all_instances_of_a_class_are_compiled() -> None:
    counter = CompileCounter()

    @framelift.compile(backend=counter, fullgraph=True)
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    @framelift.compile(backend=counter)
    class Compiled(Net):
        pass

    assert isinstance(Scale(2.0), Scale) and torch.equal(Scale(2.0)(X), X * 2) and counter.frame_count == 1
    net = Compiled()
    assert torch.equal(net(X), Net.forward(net, X)) and counter.frame_count == 2


def test_forward_of_a_compiled_module_is_compiled() -> None:
    counter, module = CompileCounter(), Net()
    compiled = framelift.compile(module, backend=counter)
    assert torch.equal(compiled.forward(X), module(X)) and counter.frame_count == 1
    assert torch.equal(compiled(X), module(X)) and counter.frame_count == 1
    assert inspect.signature(compiled.forward) == inspect.signature(module.forward)


def test_what_a_program_puts_in_the_place_of_forward_may_call_it() -> None:
    """As libraries do that convert what it takes, or gives."""
    counter, module = CompileCounter(), Net()
    expected = module(X) * 2
    compiled = framelift.compile(module, backend=counter)
    forward, function = compiled.forward, compiled.forward.__func__
    compiled.forward = lambda *args: forward(*args) * 2
    assert torch.equal(compiled(X), expected) and torch.equal(compiled.forward(X), expected)
    compiled.forward = types.MethodType(lambda self, *args: function(self, *args) * 2, compiled)
    assert torch.equal(compiled(X), expected) and counter.frame_count > 0


def test_forward_of_a_compiled_module_is_part_of_a_compiled_function() -> None:
    module = framelift.compile(Net(), backend="eager")
    counter = CompileCounter()
    found = framelift.compile(lambda x: module.forward(x) + 1, backend=counter, fullgraph=True)(X)
    assert torch.equal(found, module(X) + 1) and counter.frame_count == 1


def test_a_disabled_module_stays_a_module() -> None:
    net = Net()
    disabled = framelift.disable(net)
    assert isinstance(disabled, Net) and list(disabled.state_dict()) == list(net.state_dict())
    counter = CompileCounter()
    compiled = framelift.compile(lambda x: disabled(x.sin()).cos(), backend=counter)
    assert torch.equal(compiled(X), net(X.sin()).cos()) and (counter.frame_count, counter.op_count) == (2, 2)
    for other in (copy.deepcopy(disabled), pickle.loads(pickle.dumps(disabled))):
        assert isinstance(other, Net) and torch.equal(other(X), net(X))
    with pytest.raises(framelift.exc.Unsupported, match="disabled function"):
        framelift.compile(lambda x: disabled(x), backend="eager", fullgraph=True)(X)


def test_a_disabled_class_and_a_disabled_instance_run_plainly() -> None:
    class Scale:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    disabled = framelift.disable(Scale())
    with pytest.raises(framelift.exc.Unsupported, match="disabled function"):
        framelift.compile(lambda x: disabled(x), backend="eager", fullgraph=True)(X)
    framelift.disable(Scale)
    with pytest.raises(framelift.exc.Unsupported, match="disabled function"):
        framelift.compile(lambda x: Scale()(x), backend="eager", fullgraph=True)(X)
    assert torch.equal(Scale()(X), X * 2)


def inner(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    return inner(x) * 2


def test_what_was_compiled_is_disabled_as_what_it_was_made_of() -> None:
    counter = CompileCounter()
    compiled = framelift.compile(lambda x: x + 1, backend=counter)
    module = framelift.compile(torch.nn.Linear(3, 3), backend=counter)
    x = torch.ones(3)
    for recursive in (True, False):
        assert torch.equal(framelift.disable(compiled, recursive)(x), x + 1)
        assert torch.equal(framelift.disable(module, recursive)(x), module._orig_mod(x))
    assert counter.frame_count == 0
    compiled(x), module(x)
    assert counter.frame_count == 2


def test_disabling_without_what_is_called_leaves_the_function_as_it_is() -> None:
    counter = CompileCounter()
    alone = framelift.disable(outer, recursive=False)
    framelift.compile(lambda x: alone(x).sin(), backend=counter)(X)
    assert (counter.frame_count, counter.op_count) == (2, 2)  # what `inner` does, and `sin`
    whole = CompileCounter()
    framelift.compile(lambda x: outer(x).sin(), backend=whole, fullgraph=True)(X)
    assert (whole.frame_count, whole.op_count) == (1, 3)


# ---- optimize, run


def test_optimize_in_a_block_compiles_what_is_called_there() -> None:
    counter = CompileCounter()
    with (
        pytest.raises(framelift.exc.IncorrectUsage, match="used with a context manager"),
        framelift.optimize(),
    ):
        pass
    with framelift.config.patch(raise_on_ctx_manager_usage=False):
        with framelift.optimize(counter):
            assert torch.equal(outer(X), X * 2 + 2)
        assert counter.frame_count == 1
        outer(X)
        with contextlib.suppress(KeyError), framelift.optimize(counter):
            raise KeyError
        torch.sin(X), outer(X.double())
    assert counter.frame_count == 1, "nothing is compiled outside of the block"


def test_run_is_a_decorator_factory() -> None:
    compiled = framelift.compile(outer, backend="eager")
    assert torch.equal(framelift.run()(compiled)(X), outer(X)) and not framelift.entries(compiled)


# ---- stances


@pytest.mark.parametrize("name", ["eager_then_compile", "aot_eager_then_compile"])
def test_the_first_call_says_which_sizes_vary(name: str) -> None:
    counter = CompileCounter()
    compiled = framelift.compile(lambda x: x.sin() * x.shape[0], backend=counter)
    counts = []
    with framelift.set_stance(name):
        for size in (2, 3, 4, 5):
            x = torch.rand(size)
            torch.testing.assert_close(compiled(x), x.sin() * size)
            counts.append(counter.frame_count)
    assert counts == [0, 1, 1, 1]


def test_a_forced_backend_is_used_by_all_and_only_meanwhile() -> None:
    own, forced = CompileCounter(), CompileCounter()
    one, other = (framelift.compile(fn, backend=own) for fn in (inner, outer))
    for _ in range(2):
        with framelift.set_stance(force_backend=forced):
            one(X), other(X)
    assert (own.frame_count, forced.frame_count) == (0, 2)
    one(X)
    assert (own.frame_count, forced.frame_count) == (1, 2)
    with pytest.raises(framelift.exc.UserError, match="force_backend goes with the stance 'default'"):
        framelift.set_stance("force_eager", force_backend="eager")


# ---- functions in the graph


class Pair:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


class Setting:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and other.n == self.n

    def __hash__(self) -> int:
        return hash(self.n)


pytree.register_pytree_node(Pair, lambda pair: ((pair.x, pair.y), None), lambda parts, _: Pair(*parts))
pytree.register_constant(Setting)
WEIGHT = torch.full((3,), 5.0)


@framelift.nonstrict_trace
def combined(pair: Pair, setting: Setting) -> Pair:
    framelift.graph_break()
    return Pair(pair.x * setting.n, pair.y * WEIGHT)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nonstrict_functions_take_and_give_registered_classes(backend: str) -> None:
    def fn(x: torch.Tensor, pair: Pair, setting: Setting) -> torch.Tensor:
        made = combined(Pair(x, x + 1), setting)
        again = combined(pair, setting)
        return made.x + made.y + again.x + again.y

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in (2, 3):
        for pair in (Pair(X, X + 1), Pair(X * 2, 4)):
            torch.testing.assert_close(compiled(X, pair, Setting(n)), fn(X, pair, Setting(n)))


def test_nonstrict_functions_are_differentiated() -> None:
    x = X.clone().requires_grad_()
    compiled = framelift.compile(
        lambda x: combined(Pair(x, x), Setting(2)).x, backend="aot_eager", fullgraph=True
    )
    compiled(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))


class Unregistered:
    x = X


def test_a_class_that_is_not_registered_breaks() -> None:
    traced = framelift.nonstrict_trace(lambda thing: thing.x)
    with pytest.raises(framelift.exc.Unsupported, match="its class is not registered"):
        framelift.compile(lambda net: traced(net), backend="eager", fullgraph=True)(Unregistered())


def test_an_autograd_function_may_be_allowed_in_the_graph() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            framelift.graph_break()
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * 2 * ctx.saved_tensors[0]

    framelift.allow_in_graph(Square)
    x = X.clone().requires_grad_()
    framelift.compile(lambda x: Square.apply(x), backend="aot_eager", fullgraph=True)(x).sum().backward()
    assert torch.equal(x.grad, X * 2)


def test_a_substitute_takes_the_same_arguments_once() -> None:
    def original(x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return x * n

    with pytest.raises(TypeError, match="Signature mismatch between"):
        framelift.substitute_in_graph(original)(lambda x: x)
    framelift.substitute_in_graph(original)(lambda x, n=1: x * n + 1)
    with pytest.raises(ValueError, match="stands in for"):
        framelift.substitute_in_graph(original)(lambda x, n=1: x)
    assert torch.equal(framelift.compile(lambda x: original(x), backend="eager")(X), X + 1)


# ---- guards


FILTERS = {  # how often a function is compiled whose module's attribute, then a global, change
    "skip_guard_on_all_nn_modules_unsafe": (1, 2),
    "skip_guard_on_inbuilt_nn_modules_unsafe": (2, 3),
    "skip_guard_on_globals_unsafe": (2, 2),
    "skip_all_guards_unsafe": (1, 1),
    "keep_tensor_guards_unsafe": (1, 1),
}
FACTOR = 1


@pytest.mark.parametrize("name", FILTERS)
def test_torchs_filters_say_which_guards_to_keep(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaled(Net):
        scale = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * self.scale * FACTOR

    net, counter = Scaled(), CompileCounter()
    net.scale = 2
    settings = {"options": {"guard_filter_fn": getattr(torch.compiler, name)}, "dynamic": False}
    compiled = framelift.compile(net, backend=counter, **settings)
    compiled(X)
    net.scale = 3
    compiled(X)
    first = counter.frame_count
    monkeypatch.setattr("test_forms.FACTOR", 2)
    compiled(X)
    assert (first, counter.frame_count) == FILTERS[name]


def test_a_guard_that_fails_is_told_in_torchs_words() -> None:
    told: list[Any] = []
    compiled = framelift.compile(inner, backend="eager", dynamic=False, guard_fail_fn=told.append)
    compiled(X), compiled(torch.ones(2, 2)), compiled(torch.ones(2, 5))
    assert "tensor 'x' rank mismatch. expected 1, actual 2" in told[0].reason
    assert "tensor 'x' size mismatch at index 1. expected 2, actual 5" in told[1].reason


# ---- finding out


def test_callbacks_are_called_around_each_compilation() -> None:
    seen: list[Any] = []

    def begins(args: Any) -> None:
        seen.append(("begins", args.compile_id))

    @framelift.on_compile_end
    def ends(args: Any) -> None:
        seen.append(("ends", args.compile_id))
        raise ValueError("which is logged")

    framelift.on_compile_start(begins)
    try:
        framelift.compile(inner, backend="eager")(X)
    finally:
        framelift.remove_callback(begins), framelift.remove_callback(ends)
    assert [what for what, _ in seen] == ["begins", "ends"] and seen[0][1] == seen[1][1]
    framelift.compile(outer, backend="eager")(X)
    assert len(seen) == 2


@pytest.mark.parametrize("when", ["compile", "runtime"])
def test_what_a_backend_fails_on_is_found(when: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return ((x.sin() + 1).relu() * 2).cos()

    (failure,) = framelift.minimise(fn, backend=f"relu_{when}_error_TESTING_ONLY")(X)
    assert failure.op == "Tensor.relu" and failure.calls == 1
    assert failure.script is not None and "relu" in failure.script.text
    assert framelift.minimise(fn, backend="eager")(X) == []


def test_a_profiler_in_a_block_sees_all_recompilations() -> None:
    with framelift.CompileProfiler() as profiler:
        compiled = framelift.compile(inner, backend=profiler, dynamic=False)
        for size in range(2, 14):
            compiled(torch.ones(size))
    metrics = profiler.get_metrics()
    assert profiler.frame_count == 12 and not metrics["graph_breaks"]
    assert [len(failed) for failed in metrics["guard_failures"].values()] == [sum(range(1, 12))]
    assert framelift.config.recompile_limit == 8


def test_calls_of_logging_functions_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("test_forms")

    def fn(x: torch.Tensor) -> torch.Tensor:
        print("not printed")
        log.warning("not logged")
        return x + 1

    ignored = {"ignore_logging_functions": {print}, "ignore_logger_methods": {logging.Logger.warning}}
    with framelift.config.patch(ignored):
        assert torch.equal(framelift.compile(fn, backend="eager", fullgraph=True)(X), X + 1)
    assert capsys.readouterr().out == ""
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True, isolate_recompiles=True)(X)


def test_results_are_compared_with_all_of_torchs_parameters() -> None:
    told: list[Any] = []
    mask = torch.arange(200) > 1
    other = mask.clone()
    other[-1] = False
    assert same(mask, other, use_iou_for_bool=True) and not same(mask, other)
    assert not same(X, X + 1, None, False, 0.1, log_error=lambda *args: told.append(args)) and told
    assert same(numpy.float64(2), 2.0, relax_numpy_equality=True)


def test_an_explanation_is_a_page_in_a_notebook() -> None:
    shown = framelift.explain(inner)(X)._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "inner" in shown


def test_torchs_compiler_is_not_loaded_to_compile_something() -> None:
    program = "import framelift, sys, torch; framelift.compile(torch.sin, backend='eager'); "
    program += "print('torch._dynamo' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


class Numbered(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.n


class Fixed(Numbered):
    pass


@pytest.mark.parametrize(("kind", "captures"), [(Numbered, 2), (Fixed, 5)])
def test_numbers_of_modules_of_a_static_class_do_not_vary(kind: type[Numbered], captures: int) -> None:
    assert framelift.mark_static(Fixed) is Fixed
    module, counter = kind(), framelift.testing.CompileCounter()
    compiled: Any = framelift.compile(module, backend=counter)
    for n in range(2, 7):
        module.n = n
        assert compiled(torch.ones(1)).item() == n
    assert counter.frame_count == captures


@pytest.mark.parametrize("wrong", [3, int])
def test_what_is_neither_a_tensor_nor_a_class_of_modules_is_not_static(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a tensor or a class of modules"):
        framelift.mark_static(wrong)


def test_a_class_whose_instances_are_not_called_stays_as_it_is() -> None:
    class Plain:
        def __init__(self, n: int) -> None:
            self.n = n

    before = dict(vars(Plain))
    assert framelift.compile(Plain, backend="eager") is Plain and dict(vars(Plain)) == before


def test_instances_of_a_disabled_class_are_made_plainly() -> None:
    seen = []

    @framelift.disable
    class Made:
        def __init__(self, n: int) -> None:
            seen.append(framelift.is_compiling())
            self.n = n

    found = framelift.compile(lambda x: x.sin() * Made(2).n, backend="eager")(torch.zeros(1))
    assert found.item() == 0 and seen == [False]
