"""What users say about calls of a function: kept in the graph, refused, substituted, called while capturing;
and operators of their own."""

from __future__ import annotations

import functools
import gc
import operator
import time
import weakref
from typing import Any

import pytest
import torch

import framelift
import framelift.exc
from check import capture, check, entries, why_not
from framelift.trace.callable_rules import HANDLERS

BACKENDS = ["eager", "aot_eager"]


def targets(compiled: Any) -> list[str]:
    """The names of the functions that the graphs of a compiled function call."""
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.extend(getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes)
        return graph.forward

    framelift.compile(compiled, backend=backend)(torch.ones(3))
    return seen


# ---- allow_in_graph


@framelift.allow_in_graph
def timed(x, *, by=2):
    """Asks for the time, which can't be captured."""
    return x * by if time.perf_counter() else x


def uses_allowed(x):
    return timed(x + 1, by=3) - 1


def test_an_allowed_function_is_a_node_and_is_not_looked_into():
    check(uses_allowed, torch.rand(3), calls=3)
    assert "timed" in targets(uses_allowed)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_go_through_an_allowed_function(backend):
    compiled = framelift.compile(uses_allowed, backend=backend, fullgraph=True)
    runs = []
    for callee in (uses_allowed, compiled):
        x = torch.linspace(-1, 1, 4, requires_grad=True)
        callee(x).square().sum().backward()
        runs.append(x.grad)
    assert torch.equal(*runs)


@framelift.allow_in_graph
def grown_in_place(x):
    x.add_(1)
    return x, torch.ones(2) + x.shape[0]


def test_an_allowed_function_that_changes_its_argument():
    def fn(x):
        return x * 0 + grown_in_place(x)[1].sum(), x * 2

    check(fn, torch.rand(3), calls=3)


@framelift.allow_in_graph
def noisy(x):
    return x + torch.rand_like(x)


def test_an_allowed_function_draws_the_random_numbers_of_eager():
    def fn(x):
        return noisy(x), torch.rand(2)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    runs = []
    for callee in (fn, compiled):
        torch.manual_seed(0)
        runs.append([callee(torch.zeros(2)) for _ in range(3)])
    torch.testing.assert_close(*runs, rtol=0, atol=0)


def test_an_allowed_function_without_a_result_is_called_where_the_program_calls_it():
    seen = []
    look = framelift.allow_in_graph(lambda: seen.append(torch.is_grad_enabled()))

    def fn(x):
        look()
        with torch.no_grad():
            look()
            return x + 1

    compiled = capture(fn, torch.ones(3))
    seen.clear()
    compiled(torch.ones(3))
    assert seen == [True, False]


def test_another_function_in_its_place_is_noticed():
    first, second = framelift.allow_in_graph([lambda x: x + 1, lambda x: x - 1])
    compiled = capture(lambda fn, x: fn(x) * 2)
    x = torch.rand(3)
    for fn in (first, second, first):
        assert torch.equal(compiled(fn, x), fn(x) * 2)


def test_what_is_allowed_is_not_kept_alive():
    fn = framelift.allow_in_graph(lambda x: x + 1)
    compiled = capture(lambda fn, x: fn(x) * 2, fn, torch.rand(3))
    alive = weakref.ref(fn)
    del fn
    gc.collect()
    assert alive() is None and compiled is not None


def test_what_is_no_function_can_not_be_allowed():
    with pytest.raises(TypeError, match="framelift.allow_in_graph takes a function, not a int"):
        framelift.allow_in_graph(3)


# ---- nonstrict_trace


def scaled_by(parts, x):
    print("looked at", end="")
    return {"out": x * parts["scale"], "sum": [x.sum()]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_that_is_traced_by_aot_alone(backend):
    traced = framelift.nonstrict_trace(scaled_by)

    def fn(x):
        out = traced({"scale": x + 1}, x)
        return out["out"] + out["sum"][0]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for value in (1.0, 2.0):
        runs = []
        for callee in (fn, compiled):
            x = torch.full((3,), value, requires_grad=True)
            out = callee(x)
            out.sum().backward()
            runs.append((out.detach(), x.grad))
        torch.testing.assert_close(*runs)


# ---- disallow_in_graph and forbid_in_graph


def plainly(x):
    return x * 2


def test_a_disallowed_function_is_called_for_real():
    disallowed = framelift.disallow_in_graph(framelift.allow_in_graph(lambda x: plainly(x)))

    def fn(x):
        return disallowed(x + 1) - 1

    compiled = check(fn, torch.rand(3), calls=3, fullgraph=False)
    found = [b.reason.name for r in compiled._framelift_context.code_states.values() for b in r.breaks]
    assert found == ["disabled function"]
    with pytest.raises(framelift.exc.Unsupported, match="disabled function"):
        capture(fn, torch.rand(3))


def test_what_no_graph_holds_can_not_be_disallowed():
    with pytest.raises(framelift.exc.IncorrectUsage, match="already allowed callable"):
        framelift.disallow_in_graph(plainly)


def test_a_function_of_torch_may_be_disallowed():
    from framelift.trace import callable_rules

    framelift.disallow_in_graph(torch.special.bessel_j0)
    try:
        compiled = check(lambda x: torch.special.bessel_j0(x) + 1, torch.rand(3), fullgraph=False)
        assert any(r.breaks for r in compiled._framelift_context.code_states.values())
    finally:
        del callable_rules._controls[id(torch.special.bessel_j0)]


def test_a_forbidden_function_is_an_error_wherever_it_is_captured():
    forbidden = framelift.forbid_in_graph(lambda x: x + 1)

    def fn(x):
        return forbidden(x) * 2

    assert torch.equal(fn(torch.ones(2)), torch.full((2,), 4.0))
    with pytest.raises(framelift.exc.Unsupported, match="forbidden function"):
        capture(fn, torch.rand(3), fullgraph=False)


def test_torchs_mark_for_it_counts():
    def fn(x):
        return marked(x) * 2

    def marked(x):
        return x + 1

    marked._dynamo_forbidden = True
    with pytest.raises(framelift.exc.Unsupported, match="forbidden function"):
        capture(fn, torch.rand(3), fullgraph=False)


# ---- substitute_in_graph


def test_marks_that_were_copied_disable_nothing():
    """As from `functools.wraps` of what torch keeps from its compiler: that itself is not looked into."""

    def torchs(fn):
        def disabled(*args):
            return fn(*args)

        vars(disabled).update(
            _torchdynamo_disable=True, _torchdynamo_orig_callable=fn, _torchdynamo_wrapper_id=id(disabled)
        )
        return disabled

    def around(fn):
        @functools.wraps(fn)
        def wrapper(x):
            return fn(x * 2) - 1

        return wrapper

    double, kept = around(torch.neg), around(torchs(torch.abs))
    mine = lambda x: kept(x) + double(x)  # noqa: E731
    x = torch.tensor([-1.0, 2.0])
    compiled = framelift.compile(mine, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x), mine(x))
    whole = framelift.compile(lambda x: double(x), backend="eager", fullgraph=True)
    assert torch.equal(whole(x), double(x))  # which has its code in common with the other one
    assert entries(compiled) == 1


def test_a_wrapper_of_what_is_to_be_scripted_while_traced_is_called():
    scripted = torch.jit.script_if_tracing(lambda x: x + 1)

    @functools.wraps(scripted)
    def wrapper(x):
        return scripted(x) * 2

    compiled = capture(lambda x: wrapper(x) + scripted(x))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))


def test_a_substitute_is_looked_into(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(HANDLERS, operator.concat, None)  # what is registered is gone after the test

    @framelift.substitute_in_graph(operator.concat)
    def concat(a, b, /):
        return [*a, *b]

    def fn(x):
        return sum(operator.concat([x, 1], [x * 2]))

    check(fn, torch.rand(3), calls=3)


# ---- assume_constant_result

calls: list[int] = []


@framelift.assume_constant_result
def setting(name):
    calls.append(1)
    return {"scale": 3, "table": torch.arange(3.0)}[name]


def test_a_constant_is_asked_for_once():
    def fn(x):
        return x * setting("scale") + setting("table")

    compiled = capture(fn)
    calls.clear()
    for value in (1.0, 2.0, 3.0):
        x = torch.full((3,), value)
        assert torch.equal(compiled(x), x * 3 + torch.arange(3.0))
    assert len(calls) == 2


def test_torchs_mark_for_constants_counts():
    seen = []

    def constant():
        seen.append(1)
        return 5

    constant._dynamo_marked_constant = True
    compiled = capture(lambda x: x * constant())
    assert [compiled(torch.ones(1)).item() for _ in range(3)] == [5, 5, 5] and len(seen) == 1


def test_what_gives_a_constant_is_given_tensors_with_their_data():
    @framelift.assume_constant_result
    def places(x, more):
        return torch.nonzero(x + more[0] + more[1]["bias"])

    @framelift.assume_constant_result
    def sign(x):
        return None if x.item() < 0 else x

    def fn(x, scale):
        y = x.relu() * 2
        found = places(y, [x, {"bias": y}])
        known = sign(scale)
        return (y if known is None else y * known), found, places(y, (x, {"bias": x}))

    x = torch.tensor([1.0, 0.0, 2.0])
    check(fn, x, torch.tensor(-3.0))
    check(fn, x, torch.tensor(3.0))


def test_what_gives_a_constant_does_not_see_half_of_what_was_written():
    @framelift.assume_constant_result
    def total(x):
        return x.sum().item()

    def fn(x):
        x.add_(1)
        return x * total(x)

    with pytest.raises(framelift.exc.Unsupported, match="total"):
        capture(fn, fullgraph=True)(torch.ones(2))


def test_tensors_that_are_assumed_constant_may_be_branched_on():
    @framelift.assume_constant_result
    def limit(y):
        return y

    class Limited(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.limit = torch.nn.Parameter(torch.tensor(0.3))

        def forward(self, x):
            return torch.cat([x, x]) if limit(self.limit) * 2 < 1 else x

    check(Limited(), torch.ones(2))


# ---- comptime and graph_break


def test_code_that_runs_while_capturing(capsys):
    def look(ctx):
        ctx.print_graph()
        ctx.print_locals()
        ctx.print_guards()
        ctx.print_bt()

    def fn(x):
        y = x.sin()
        framelift.comptime(look)
        return y + 1

    compiled = capture(fn)
    compiled(torch.ones(2))
    printed = capsys.readouterr().out
    assert "sin" in printed and "y = " in printed and " fn\n    framelift.comptime(look)\n" in printed
    compiled(torch.ones(2))
    assert not capsys.readouterr().out


def test_what_is_called_where_nothing_is_captured():
    calls = []

    def fn(x):
        framelift.comptime(lambda ctx: calls.append("captured"), lambda: calls.append("plain"))
        return x + 1

    fn(torch.ones(2))
    compiled = capture(fn)
    compiled(torch.ones(2)), compiled(torch.ones(2))
    assert calls == ["plain", "captured"]


def test_the_graph_and_the_instructions_as_source(capsys):
    def fn(x):
        y = x.sin()
        framelift.comptime.print_graph()
        framelift.comptime.print_disas()
        return y + 1

    capture(fn)(torch.ones(2))
    printed = capsys.readouterr().out
    assert printed.lstrip().startswith("def forward(self") and '"f32[2]" = l_x_.sin()' in printed
    assert "in fn, code: y = x.sin()" in printed
    (here,) = [line for line in printed.splitlines() if "-->" in line]
    before = here.split("-->")[1].split()  # the offset, which Python 3.13 leaves out, and the name
    assert any(word.startswith(("CALL", "PRECALL")) for word in before[:2])


def test_all_that_can_be_printed_while_capturing(capsys):
    def inner(x, n):
        framelift.comptime.print_bt()
        framelift.comptime.print_locals()
        framelift.comptime.print_guards()
        framelift.comptime.print_graph()
        return x + (n, framelift.comptime.print_value_stack())[0]

    def fn(x, n):
        return inner(x.sin(), n) * 2

    compiled = capture(fn, torch.ones(2), 3)
    printed = capsys.readouterr().out
    assert 0 < printed.index(", in fn\n") < printed.index(", in inner\n")
    assert "x = Tensor(shape=(2,), dtype=torch.float32)\nn = 3\n" in printed
    assert "x is TensorSpec(" in printed and "l_x_.sin()" in printed
    assert "- Tensor(shape=" in printed and "- 3\n" in printed
    assert why_not(compiled) is None
    compiled(torch.ones(2), 3), fn(torch.ones(2), 3)
    assert not capsys.readouterr().out


def test_what_a_function_at_capture_time_finds_is_real():
    seen, scale = [], 2

    def fn(x, options):
        y = x * scale
        made = [1, 2]
        framelift.comptime(lambda ctx: seen.append((scale, options, made, sorted(ctx.locals()), y)))
        return y + len(options)

    options = {"a": 1}
    compiled = capture(fn, torch.ones(2), options)
    compiled(torch.ones(2), options)
    ((*found, names, y),) = seen
    assert found == [2, options, [1, 2]] and names == ["made", "options", "scale", "seen", "x", "y"]
    assert type(y).__name__ == "FakeTensor" and found[1] is options
    assert why_not(compiled) is None and entries(compiled) == 1


def test_a_size_that_was_made_definite_is_static_at_capture_time():
    def fn(x, y):
        framelift.mark_static(x, 0)
        framelift.comptime.assert_static(x.size(0))
        framelift.comptime(lambda ctx: seen.append(ctx.get_local("y").size(0)))
        return x + 1

    seen = []
    framelift.compile(fn, backend="eager", dynamic=True, fullgraph=True)(torch.ones(12, 3), torch.ones(7))
    assert [type(size) for size in seen] == [torch.SymInt]


def test_an_error_at_capture_time_is_the_users():
    def fails(ctx):
        raise KeyError("no")

    def fn(x):
        framelift.comptime(fails)
        return x + 1

    with pytest.raises(framelift.exc.UserError, match="fails raised KeyError: 'no'"):
        framelift.compile(fn, backend="eager")(torch.ones(2))
    assert fn(torch.ones(1)) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda: framelift.graph_break(),
        lambda: framelift.comptime(broken),
        lambda: framelift.comptime.graph_break(),
        lambda: framelift.comptime(lambda ctx: ctx.graph_break("here")),
    ],
)
def test_a_break_that_is_asked_for(ask):
    def fn(x):
        y = x + 1
        ask()
        return y * 2

    compiled = check(fn, torch.rand(3), calls=3, fullgraph=False)
    found = [b.reason.name for r in compiled._framelift_context.code_states.values() for b in r.breaks]
    assert found == ["break that was asked for"]


def broken(ctx):
    ctx.graph_break()


# ---- operators of the user's own


@torch.library.custom_op("framelift_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by)


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


scaled.register_autograd(
    lambda ctx, grad: (grad * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@torch.library.custom_op("framelift_tests::grown", mutates_args={"x"})
def grown(x: torch.Tensor, by: int) -> None:
    x.numpy()[:] += by


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_custom_operator(backend):
    def fn(x):
        return scaled(x * 2, 3.0) + torch.ops.framelift_tests.scaled(x, 2.0)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        runs = []
        for callee in (fn, compiled):
            x = torch.linspace(-1, 1, 4, requires_grad=True)
            out = callee(x)
            out.sum().backward()
            runs.append((out.detach(), x.grad))
        torch.testing.assert_close(*runs, rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_custom_operator_that_changes_its_argument(backend):
    def fn(x):
        y = x * 2
        grown(x, 1)
        grown(y, 3)
        return x + y

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    mine, theirs = torch.ones(3), torch.ones(3)
    for _ in range(3):
        assert torch.equal(fn(mine), compiled(theirs))
        assert torch.equal(mine, theirs)


def test_a_custom_operator_without_a_fake_breaks():
    @torch.library.custom_op("framelift_tests::unknown", mutates_args=())
    def unknown(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    check(lambda x: unknown(x + 1) * 2, torch.rand(3), calls=2, fullgraph=False)
