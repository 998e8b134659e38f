"""Names and options that whoever knows torch.compile expects, and what they do."""

from __future__ import annotations

import inspect
import math
import os
from typing import Any

import pytest
import torch

import framelift
from check import check, entries, reasons, recompiles, why_not
from framelift.core.config import OPTIONS, Option, variable

X = torch.arange(4.0)

NAMES = """compile reset disable run skip skip_frame allow_in_graph disallow_in_graph forbid_in_graph
assume_constant_result substitute_in_graph nonstrict_trace graph_break error_on_graph_break mark_dynamic
maybe_mark_dynamic mark_static mark_static_address mark_unbacked set_stance explain is_compiling comptime
list_backends register_backend config counters install uninstall verify entries CompileProfiler""".split()

ERRORS = """Unsupported BackendCompilerFailed TorchRuntimeError UserError IncorrectUsage InvalidBackend
RecompileError RecompileLimitExceeded FailOnRecompileLimitHit ConstraintViolationError
UncapturedHigherOrderOpError WrongResult""".split()

CONFIG = """recompile_limit suppress_errors capture_scalar_outputs capture_dynamic_output_shape_ops
automatic_dynamic_shapes assume_static_by_default specialize_int specialize_float verify_correctness
error_on_recompile verbose replay_record_enabled""".split()


@pytest.fixture(autouse=True)
def as_before() -> Any:
    framelift.reset()
    yield
    framelift.config.reset()
    framelift.reset()


@pytest.mark.parametrize("name", NAMES)
def test_names_can_be_imported(name: str) -> None:
    assert name in framelift.__all__ and getattr(framelift, name) is not None and name in dir(framelift)
    assert inspect.getdoc(getattr(framelift, name))


@pytest.mark.parametrize("name", ERRORS)
def test_errors_can_be_imported(name: str) -> None:
    kind = getattr(framelift.exc, name)
    assert name in framelift.exc.__all__ and issubclass(kind, framelift.exc.FrameliftError) and kind.__doc__


def test_options_have_torchs_names_and_are_documented() -> None:
    assert set(CONFIG) <= set(OPTIONS) and set(dir(framelift.config)) >= set(CONFIG)
    for name, option in OPTIONS.items():
        assert type(getattr(framelift.config, name)) is option.kind and option.meaning.endswith(".")


def test_compile_takes_torchs_arguments_and_more() -> None:
    named = list(inspect.signature(framelift.compile).parameters)
    assert named[:7] == "model fullgraph dynamic backend mode options disable".split()
    more = {"recompile_limit", "isolate_recompiles", "name", "guard_fail_fn", "guard_filter_fn"}
    assert more <= set(named)


def test_counters_have_their_groups() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        print("hello")
        return helper(x) * n

    compiled = framelift.compile(fn, backend="eager", dynamic=False)
    compiled(X, 2), compiled(X, 3)
    groups = {"frames", "stats", "graph_break", "unimplemented", "recompiles", "inline_call"}
    assert groups <= set(framelift.counters)


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


# ---- compile(name=, guard_fail_fn=, guard_filter_fn=)


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def test_a_name_is_in_records_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    framelift.set_logs("graph")
    framelift.compile(scaled, backend="eager", name="training")(X, 2)
    framelift.set_logs()
    (record,) = framelift.compile_records()
    assert record.region == "training" and record.name == "scaled"
    assert "compilation " in caplog.text and " of training" in caplog.text


def test_guards_that_fail_are_told() -> None:
    failed: list[Any] = []
    compiled = framelift.compile(scaled, backend="eager", dynamic=False, guard_fail_fn=failed.append)
    compiled(X, 2), compiled(X, 2)
    assert not failed
    compiled(X, 3), compiled(X.double(), 3)
    assert failed[0].reason == "n == 2, found 3" and failed[0].orig_code is scaled.__code__
    assert len(failed) >= 2 and "dtype" in failed[1].reason


def test_guards_can_be_thinned() -> None:
    seen: list[Any] = []

    def keeps(guards: list[Any]) -> list[bool]:
        seen.extend(guards)
        return [guard.name != "n" for guard in guards]

    compiled = framelift.compile(scaled, backend="eager", dynamic=False, guard_filter_fn=keeps)
    compiled(X, 2)
    assert torch.equal(compiled(X, 3), X * 2) and recompiles(compiled) == 0, "as was asked for"
    assert torch.equal(compiled(X.double(), 3), X.double() * 3) and recompiles(compiled) == 1
    (about_n,) = [guard for guard in seen if guard.name == "n" and guard.value == 2]
    assert (about_n.guard_type, about_n.text, about_n.is_global) == ("CONSTANT_MATCH", "n == 2", False)
    assert about_n.has_value and about_n.derived_guard_types == ("EQUALS_MATCH", "EQUAL")
    assert about_n.orig_guard.source.name == "n"


def test_a_guard_that_leads_to_another_stays() -> None:
    def fn(x: torch.Tensor, options: dict[str, list[int]]) -> torch.Tensor:
        return x * options["scale"][0]

    compiled = framelift.compile(fn, backend="eager", guard_filter_fn=lambda guards: [False] * len(guards))
    compiled(X, {"scale": [2]})
    assert torch.equal(compiled(X, {"scale": (3,)}), X * 3), "another type: the way is another one"


@pytest.mark.parametrize("wrong", [lambda guards: [], lambda guards: 1 / 0])
def test_a_filter_that_makes_no_sense_is_an_error(wrong: Any) -> None:
    with pytest.raises(framelift.exc.UserError, match="guard_filter_fn"):
        framelift.compile(scaled, backend="eager", guard_filter_fn=wrong)(X, 2)


@pytest.mark.parametrize("wrong", [{"name": 3}, {"guard_fail_fn": 3}, {"guard_filter_fn": "x"}])
def test_an_argument_that_makes_no_sense_is_an_error(wrong: Any) -> None:
    with pytest.raises(framelift.exc.UserError, match="framelift.compile: "):
        framelift.compile(scaled, **wrong)


# ---- error_on_graph_break, skip_frame, mark_static_address


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_breaks_are_errors_in_a_part(backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        with framelift.error_on_graph_break(True):
            y = x.sin() + 1
        print("another")
        return y * 2

    def wrong(x: torch.Tensor) -> torch.Tensor:
        with framelift.error_on_graph_break(True):
            print("a break")
            return x + 1

    check(fn, X, calls=2, fullgraph=False, backend=backend)
    with pytest.raises(framelift.exc.Unsupported, match="error_on_graph_break"):
        framelift.compile(wrong, backend=backend)(X)
    assert not framelift.core.breaks.ON_BREAK.error


def test_breaks_are_allowed_again_within() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with framelift.error_on_graph_break(True):
            y = x + 1
            with framelift.error_on_graph_break(False):
                print("a break")
                y = y * 2
            return y + 1

    compiled = check(fn, X, calls=2, fullgraph=False)
    assert reasons(compiled) == ["run-time effect"]
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True)(X)


def test_breaks_are_errors_in_a_decorated_function_and_around_a_call() -> None:
    @framelift.error_on_graph_break(True)
    def inner(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        return x

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 1

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(outer, backend="eager")(X)
    assert torch.equal(outer(X), X + 1), "without a capture nothing happens"

    def fn(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        return x + 1

    with framelift.error_on_graph_break(True), pytest.raises(framelift.exc.Unsupported):
        framelift.compile(fn, backend="eager")(X)
    assert torch.equal(framelift.compile(fn, backend="eager")(X), X + 1)
    with pytest.raises(TypeError, match="True or False"):
        framelift.error_on_graph_break(3)  # type: ignore[arg-type]


def plain(x: torch.Tensor) -> torch.Tensor:
    framelift.skip_frame("it is better so")
    return helper(x) * 2


def test_a_frame_that_asks_to_be_skipped_is() -> None:
    compiled = check(plain, X, calls=2, fullgraph=False)
    assert entries(compiled) == 0 and "skipped frame: it is better so" in (why_not(compiled) or "")
    assert len(compiled._framelift_context.code_states) == 2, "what it calls is captured"
    with pytest.raises(framelift.exc.Unsupported, match="skipped frame"):
        framelift.compile(plain, backend="eager", fullgraph=True)(X)


@pytest.mark.parametrize(
    "outer",
    [
        lambda x: plain(x + 1) + 1,
        lambda x: sum(map(plain, [x, x + 1])) * 3,
        lambda x: [plain(x + n) for n in range(2)],
    ],
    ids=["called", "called by C", "in a loop"],
)
def test_only_the_frame_that_asks_is_skipped(outer: Any) -> None:
    compiled = check(outer, X, calls=2, fullgraph=False)
    assert "skipped frame" in reasons(compiled) and "disabled function" in reasons(compiled)
    assert why_not(compiled) is None or "skip" not in (why_not(compiled) or "")


def test_a_tensor_at_a_static_address() -> None:
    weight, other = torch.ones(4), torch.full((4,), 2.0)
    framelift.mark_static_address(weight, guard=True)

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w

    compiled = framelift.compile(fn, backend="eager")
    compiled(X, weight), compiled(X, weight)
    assert recompiles(compiled) == 0
    framelift.mark_static_address(other)
    assert torch.equal(compiled(X, other), X * 2) and recompiles(compiled) == 1
    assert torch.equal(compiled(X, torch.full((4,), 3.0)), X * 3) and recompiles(compiled) == 1
    with pytest.raises(TypeError, match="takes a tensor"):
        framelift.mark_static_address(3)  # type: ignore[arg-type]


# ---- options


def test_sizes_may_vary_from_the_beginning() -> None:
    with framelift.config.patch(assume_static_by_default=False):
        compiled = framelift.compile(scaled, backend="eager")
        for size in (3, 4, 5):
            assert torch.equal(compiled(torch.ones(size), size), torch.full((size,), float(size)))
        assert recompiles(compiled) == 0


@pytest.mark.parametrize(
    "option, values", [("specialize_int", (2, 3, 4)), ("specialize_float", (0.5, 1.5, 2.5, 3.5))]
)
def test_numbers_are_constants_if_wanted(option: str, values: tuple[Any, ...]) -> None:
    usual, fixed = (framelift.compile(scaled, backend="eager", name=name) for name in ("usual", "fixed"))
    for n in values:
        assert torch.equal(usual(X, n), X * n)
        with framelift.config.patch(**{option: True}):
            assert torch.equal(fixed(X, n), X * n)
    assert entries(fixed) == len(values) > entries(usual)


def test_a_backend_that_fails_need_not_stop_the_program(caplog: pytest.LogCaptureFixture) -> None:
    def failing(graph: Any, inputs: Any) -> Any:
        raise ValueError("no")

    with framelift.config.patch(suppress_errors=True):
        compiled = framelift.compile(helper, backend=failing)
        assert torch.equal(compiled(X), X.sin()) and torch.equal(compiled(X), X.sin())
        assert "runs as plain Python (config.suppress_errors)" in caplog.text
        assert framelift.counters["backend_failures"].total() == 1
        assert "ValueError: no" in (why_not(compiled) or "")
        with pytest.raises(framelift.exc.BackendCompilerFailed):
            framelift.compile(helper, backend=failing, fullgraph=True)(X)


def test_messages_say_where_in_framelift_if_wanted() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        return x + 1

    for verbose in (False, True):
        with framelift.config.patch(verbose=verbose):
            with pytest.raises(framelift.exc.Unsupported) as caught:
                framelift.compile(fn, backend="eager", fullgraph=True)(X)
            assert ("Where in Framelift:" in str(caught.value)) is verbose


def test_options_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"RECOMPILE_LIMIT": "3", "VERBOSE": "yes", "SUPPRESS_ERRORS": "0"}.items():
        monkeypatch.setenv(f"FRAMELIFT_{name}", text)
    framelift.config.reset()
    config = framelift.config
    assert (config.recompile_limit, config.verbose, config.suppress_errors) == (3, True, False)
    for name, text in {"RECOMPILE_LIMIT": "many", "VERBOSE": "2"}.items():
        with monkeypatch.context() as patched:
            patched.setenv(f"FRAMELIFT_{name}", text)
            with pytest.raises(framelift.exc.UserError, match=f"FRAMELIFT_{name}={text}: it must be"):
                config.reset()
    monkeypatch.setenv("FRAMELIFT_RECOMPILE_LIMIT", "0")
    with pytest.raises(framelift.exc.UserError, match="at least 1"):
        config.reset()
    monkeypatch.undo()


def given_and_read(option: Option) -> list[tuple[str, Any]]:
    """What may stand in an environment variable, and the value that comes of it."""
    if option.kind is bool:
        return [("1", True), ("off", False), (" Yes ", True)]
    if option.kind is int:
        return [(str(option.least or 0), option.least or 0), ("17", 17)]
    if option.kind is frozenset:
        return [("builtins.print, math.sin", frozenset({print, math.sin})), ("", frozenset())]
    if option.choices:
        return [(word, word) for word in option.choices]
    if option.is_folder:
        return [("somewhere", os.path.abspath("somewhere")), ("/tmp/there", "/tmp/there"), ("", "")]
    return [("a name", "a name"), ("", "")]


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_can_be_given_by_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, value in given_and_read(OPTIONS[name]):
        monkeypatch.setenv(variable(name), text)
        framelift.config.reset()
        assert getattr(framelift.config, name) == value
    if OPTIONS[name].kind is not str or OPTIONS[name].choices:
        monkeypatch.setenv(variable(name), "nonsense")
        with pytest.raises(framelift.exc.UserError, match=f"{variable(name)}=nonsense: "):
            framelift.config.reset()
    monkeypatch.undo()


def test_an_option_can_be_patched_for_a_function_and_a_typo_is_told() -> None:
    @framelift.config.patch(recompile_limit=2)
    def limit() -> int:
        return framelift.config.recompile_limit

    assert limit() == 2 and framelift.config.recompile_limit == 8
    with pytest.raises(framelift.exc.UserError, match="did you mean 'recompile_limit'"):
        framelift.config.recompile_limits = 3


def test_guards_have_torchs_names() -> None:
    found: dict[str, tuple[str, str]] = {}

    def keeps(guards: list[Any]) -> list[bool]:
        found.update({guard.name: (guard.guard_type, guard.derived_guard_types[0]) for guard in guards})
        return [True] * len(guards)

    def fn(x: Any, n: Any, flag: Any, nothing: Any, kind: Any, text: Any) -> Any:
        if flag and nothing is None and text == "a":
            x = x * n
        return x + 1 if kind is int else x

    framelift.compile(fn, backend="eager", guard_filter_fn=keeps)(X, 2, True, None, int, "a")
    constant = "CONSTANT_MATCH"
    assert found["n"] == found["text"] == (constant, "EQUALS_MATCH")
    assert found["flag"] == (constant, "BOOL_MATCH") and found["nothing"] == (constant, "NONE_MATCH")
    assert found["x"] == ("TENSOR_MATCH", "TENSOR_MATCH") and found["kind"] == ("ID_MATCH", "ID_MATCH")
