"""Recompilations: what is said of them, `entries` and `explain`, compile records."""

from __future__ import annotations

import enum
import logging
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.core.causes import CAUSES

mod = types.ModuleType("mod")
mod.NAME = 2  # type: ignore[attr-defined]
FACTOR = 3


class Block(torch.nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("offset", torch.zeros(width))
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(x)) * self.scale + self.offset


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block() for _ in range(2)])
        self.head = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.named = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "b-c": torch.nn.Linear(4, 4)})
        self.vectors = torch.nn.ParameterList([torch.zeros(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.named["b-c"](self.named["a"](self.head(x))) + self.vectors[0]


def only_record(compiled: Any) -> Any:
    (record,) = compiled._framelift_context.code_states.values()
    return record


def reasons(fn: Callable[..., Any], *calls: tuple[Any, ...]) -> list[str]:
    """Why a function is compiled again when it is called with one after the other."""
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for args in calls:
        compiled(*args)
    return only_record(compiled).recompile_reasons


def after(model: torch.nn.Module, change: Callable[[Any], object]) -> str:
    """Why a model is compiled again after something of it has changed."""
    compiled = framelift.compile(model, backend="eager", fullgraph=True)
    x = torch.ones(2, 4)
    compiled(x)
    change(model)
    compiled(x)
    (found,) = only_record(compiled).recompile_reasons
    return found


X = torch.ones(2, 4)


# ---- guards, as the user would write them


@pytest.mark.parametrize(
    ("fn", "first", "second", "reason"),
    [
        (lambda x: x + 1, X, torch.ones(3, 4), "x.shape[0] == 2, found 3"),
        (lambda x: x + 1, X, torch.ones(2, 7), "x.shape[1] == 4, found 7"),
        (lambda x: x + 1, X, torch.ones(4), "x.dim() == 2, found 1"),
        (lambda x: x + 1, X, X.double(), "x.dtype == torch.float32, found torch.float64"),
        (lambda x: x + 1, X, torch.ones(4, 2).t(), "x.stride(0) == 4, found 1"),
        (lambda x: x + 1, X, X.to("meta"), "x.device == torch.device('cpu'), found meta"),
        (lambda x: x + 1, X, X.clone().requires_grad_(), "x.requires_grad == False, found True"),
        (
            lambda x: x + 1,
            X,
            torch.nn.Parameter(X.clone()),
            "type(x) is torch.Tensor, found torch.nn.parameter.Parameter",
        ),
        (lambda cfg: X * 2 if cfg["mode"] == "fast" else X, {"mode": "fast"}, {"mode": "slow"}, None),
        (lambda n: X * n, 3, 4, "n == 3, found 4"),
        (lambda n: X * n, 3, 3.0, "n == 3, found 3.0"),
        (lambda n: X * n, 0.5, 0.25, "n == 0.5, found 0.25"),
        (lambda flag: X * 2 if flag else X + 1, True, False, "flag == True, found False"),
        (lambda y: X * 2 if y is None else X + 1, None, 3, "y is None, found 3"),
        (lambda xs: X * len(xs), [1, 2, 3], [1, 2], "len(xs) == 3, found 2"),
        (lambda xs: X * len(xs), deque([1, 2, 3]), deque([1]), "len(xs) == 3, found 1"),
        (lambda xs: X * 2 if xs else X + 1, [], [1], "bool(xs) is False, found length 1"),
        (lambda d: X * len([*d]), {"a": 1}, {"b": 1}, "list(d) == ['a'], found ['b']"),
        (lambda d: X * (2 if "k" in d else 3), {}, {"k": 1}, "'k' not in d, found that it is"),
        (lambda d: X * (2 if "k" in d else 3), {"k": 3}, {}, "'k' in d, found no such thing"),
        (lambda d: X * d["k"], OrderedDict(k=3), {"k": 3}, "type(d) is collections.OrderedDict, found dict"),
        (
            lambda xs: X * xs[0]["n"].m,
            [{"n": types.SimpleNamespace(m=1)}],
            None,
            "xs[0]['n'].m == 1, found 2",
        ),
    ],
)
def test_a_guard_that_failed_is_written_as_the_user_would(
    fn: Any, first: Any, second: Any, reason: str | None
) -> None:
    if second is None:
        second = [{"n": types.SimpleNamespace(m=2)}]
    reason = reason or "cfg['mode'] == 'fast', found 'slow'"
    assert reasons(fn, (first,), (second,)) == [reason]


def test_globals_and_attributes_of_python_modules_have_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR * mod.NAME

    compiled = framelift.compile(fn, backend="eager")
    compiled(X)
    monkeypatch.setattr(f"{__name__}.FACTOR", 5)
    compiled(X)
    monkeypatch.setattr(mod, "NAME", 7)
    compiled(X)
    assert only_record(compiled).recompile_reasons == ["FACTOR == 3, found 5", "mod.NAME == 2, found 7"]


def test_variables_of_enclosing_functions_have_their_names() -> None:
    n = 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * n

    compiled = framelift.compile(fn, backend="eager")
    compiled(X)
    n = 3
    compiled(X)
    assert only_record(compiled).recompile_reasons == ["n == 2, found 3"]


def replace_norm(net: Any) -> None:
    net.layers[0].norm.weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float64), requires_grad=True)
    net.layers[0].norm.bias = torch.nn.Parameter(torch.ones(4, dtype=torch.float64), requires_grad=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda net: net.layers[1].drop.eval(), "self.layers[1].drop.training == True, found False"),
        (lambda net: setattr(net.layers[1], "scale", 2.0), "self.layers[1].scale == 1.0, found 2.0"),
        (
            lambda net: net.layers[0].norm.weight.requires_grad_(False),
            "self.layers[0].norm.weight.requires_grad == True, found False",
        ),
        (
            lambda net: setattr(net.layers[0], "offset", torch.zeros(1, 4)),
            "self.layers[0].offset.dim() == 1, found 2",
        ),
        (
            lambda net: net.head[0].bias.requires_grad_(False),
            "self.head[0].bias.requires_grad == True, found False",
        ),
        (
            lambda net: net.named["a"].bias.requires_grad_(False),
            "self.named.a.bias.requires_grad == True, found False",
        ),
        (
            lambda net: net.named["b-c"].bias.requires_grad_(False),
            "self.named['b-c'].bias.requires_grad == True, found False",
        ),
        (
            lambda net: net.vectors[0].requires_grad_(False),
            "self.vectors[0].requires_grad == True, found False",
        ),
    ],
)
def test_paths_in_a_model_are_those_of_the_user(change: Any, reason: str) -> None:
    torch.manual_seed(0)
    assert after(Net(), change) == reason


def test_the_state_of_torch_is_named_by_what_asks_for_it() -> None:
    compiled = framelift.compile(lambda x: x + 1, backend="eager")
    compiled(X)
    with torch.no_grad():
        compiled(X)
    with torch.autocast("cpu"):
        compiled(X)
    no_grad, autocast = only_record(compiled).recompile_reasons
    assert no_grad == "torch.is_grad_enabled() == True, found False"
    assert "torch.is_autocast_enabled('cpu') == False" in autocast


def test_which_inputs_share_memory_is_told() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    memory = torch.zeros(4)
    compiled(torch.zeros(2), torch.zeros(2))
    compiled(memory[:2], memory[:2])
    assert "shares memory" in only_record(compiled).recompile_reasons[0]


def test_a_class_that_changed_is_named() -> None:
    class Scaler:
        factor = 2

    scaler = Scaler()
    compiled = framelift.compile(lambda x: x * scaler.factor, backend="eager")
    compiled(X)
    Scaler.factor = 3
    compiled(X)
    (reason,) = only_record(compiled).recompile_reasons
    assert "Scaler.factor is what it was" in reason


def test_no_code_of_the_program_runs_to_show_a_value() -> None:
    class Loud:
        def __init__(self, n: int) -> None:
            self.n = n

        def __repr__(self) -> str:
            raise AssertionError("shown")

        __str__ = __len__ = __eq__ = __repr__  # type: ignore[assignment]
        __hash__ = object.__hash__

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("asked for")

        @property
        def __class__(self) -> Any:
            raise AssertionError("asked for")

        @__class__.setter
        def __class__(self, cls: Any) -> None: ...

    def fn(x: torch.Tensor, value: Any) -> torch.Tensor:
        return x * (3 if type(value) is Loud else 2)

    name = f"{__name__}.{Loud.__qualname__}"
    assert reasons(fn, (X, 3), (X, Loud(1))) == [f"type(value) is builtins.int, found {name}"]

    first, second = Loud(1), Loud(2)
    table = {first: 1}

    def look(x: torch.Tensor, key: Any) -> torch.Tensor:
        return x * len(list(table))

    compiled = framelift.compile(look, backend="eager")
    compiled(X, first)
    table.clear(), table.update({second: 1, "a": 2})
    assert torch.equal(compiled(X, first), X * 2)
    told = str(framelift.entries(compiled)) + str(framelift.explain(look)(X, first))
    assert "Loud object>" in told


def test_members_of_an_enumeration_and_keys_are_written_out() -> None:
    class Mode(enum.Enum):
        FAST = 1
        SLOW = 2

    def fn(x: torch.Tensor, mode: Mode, table: dict[Any, int]) -> torch.Tensor:
        return x * (2 if mode is Mode.FAST else 3) * table[7]

    first, second = reasons(fn, (X, Mode.FAST, {7: 2}), (X, Mode.SLOW, {7: 2}), (X, Mode.SLOW, {7: 3}))
    assert first.endswith("Mode.FAST, found " + f"{Mode.__qualname__}.SLOW") and "mode is" in first
    assert second == "table[7] == 2, found 3"


# ---- resumed functions


class Inner:
    def forward(self, x: torch.Tensor, idx: int) -> torch.Tensor:
        held = [idx]
        print("effect")
        return x * idx + (lambda: held)()[0]


def outer(inner: Inner, x: torch.Tensor, n: int) -> torch.Tensor:
    return inner.forward(x, n) + n


def records_of(compiled: Any) -> list[Any]:
    return list(compiled._framelift_context.code_states.values())


def test_variables_of_resumed_inner_frames_have_their_names_and_functions() -> None:
    compiled = framelift.compile(outer, backend="eager")
    for n in (1, 2, 3):
        assert torch.equal(compiled(Inner(), X, n), X * n + n + n)
    rest = [record for record in records_of(compiled) if record.resumed is not None]
    told = [reason for record in rest for reason in record.recompile_reasons]
    assert "idx == 1 (in Inner.forward), found 2" in told
    for record in rest:
        for again in record.recompiles:
            assert "Inner.forward" in str(again) and ".inner" not in str(again)


def test_the_variable_of_a_loop_has_its_name_in_the_next_round() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for n in range(3):
            x = x * n + 1
            print("effect")
        return x

    compiled = framelift.compile(fn, backend="eager")
    compiled(X)
    told = [reason for record in records_of(compiled) for reason in record.recompile_reasons]
    assert told and all(reason.startswith("n == ") for reason in told), told


def test_variables_in_cells_have_their_names_after_a_break() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        print("effect")
        return (lambda: x * n)()

    compiled = framelift.compile(fn, backend="eager")
    compiled(X, 1), compiled(X, 2)
    told = [reason for record in records_of(compiled) for reason in record.recompile_reasons]
    assert told == ["n == 1, found 2"]


# ---- what is said about it


def test_each_recompilation_is_logged_with_every_entry_and_the_users_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    compiled = framelift.compile(fn, backend="eager")
    with caplog.at_level(logging.INFO, logger="framelift.recompiles"):
        compiled(X, 1)
        assert not caplog.records
        compiled(X, 2)
        compiled(torch.ones(3, 4), 2)
    first, second = [record.getMessage() for record in caplog.records]
    line = fn.__code__.co_firstlineno
    assert first.splitlines() == [
        f"{fn.__qualname__} ({__file__}:{line}) is compiled again; it has 1 of at most 8 entries",
        "  entry 0: n == 1, found 2",
        f"    relied on at {__file__}:{line + 1}: x * n",
    ]
    assert "  entries 1, 0: x.shape[0] == 2, found 3" in second
    assert framelift.counters["recompiles"][f"{fn.__qualname__}: n == 1, found 2"] == 1


def test_a_guard_from_within_a_library_is_told_with_the_users_line() -> None:
    net = Block()
    compiled = framelift.compile(net, backend="eager")
    compiled(X)
    net.drop.eval()
    compiled(X)
    (again,) = only_record(compiled).recompiles
    assert again.reason.where.startswith(f"{__file__}:") and "self.drop(self.norm(x))" in again.reason.where


def test_modules_of_one_class_are_told_apart_by_the_lines_that_call_them() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Sequential(torch.nn.Dropout(0.5))
            self.b = torch.nn.Sequential(torch.nn.Dropout(0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x)
            return self.b(x)

    two = Two()
    compiled = framelift.compile(two, backend="eager")
    compiled(X)
    two.b.eval(), compiled(X)
    two.b.train(), two.a.eval(), compiled(X)
    first, second = only_record(compiled).recompiles
    assert first.reason.where.endswith(": self.b(x)")
    assert [failure.where.rpartition(": ")[2] for _, failure in second.failures] == ["self.a(x)", "self.a(x)"]


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ([torch.ones(n) for n in range(2, 6)], "tensor size"),
        (
            [torch.ones(2, dtype=d) for d in (torch.float32, torch.float64, torch.int32, torch.int64)],
            "tensor properties",
        ),
        ([1, 2, 3, 4], "integer"),
        ([1.5, 2.5, 3.5, 4.5], "float"),
        (["a", "b", "c", "d"], "flag"),
        ([[0] * n for n in range(4)], "length of a container"),
        ([{str(n): 0} for n in range(4)], "contents of a container"),
        ([torch.sin, torch.cos, torch.tan, torch.exp], "identity of an object"),
        ([1, 1.0, "1", (1,)], "type"),
    ],
)
def test_a_kind_of_cause_that_keeps_coming_back_is_told_with_what_to_do(
    values: list[Any], cause: str
) -> None:
    def fn(value: Any) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value + 1
        if isinstance(value, dict):
            return X * len([*value])
        if cause == "type":
            return X * (2 if isinstance(value, int) else 3)
        if callable(value):
            return value(X)
        return X * len(value) if isinstance(value, (list, str)) else X * value

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for value in values:
        compiled(value)
    first, second, third = only_record(compiled).recompiles
    assert first.suggestion is None and second.suggestion is None
    assert third.suggestion is not None and third.suggestion.cause is CAUSES[cause]
    why, what_to_do = third.lines()[-2:]
    assert why.startswith(f"Why so often ({cause}, 3 times)") and what_to_do.startswith("What to do: ")
    assert "{" not in what_to_do


def test_every_cause_has_a_name_an_explanation_and_a_hint() -> None:
    for name, cause in CAUSES.items():
        assert cause.name == name and cause.explanation and cause.hint.format(subject="x")


# ---- entries and explain


def test_entries_are_listed_with_what_tells_them_apart() -> None:
    def fn(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x * 2 if mode == "fast" else x + 1

    compiled = framelift.compile(fn, backend="eager")
    assert str(framelift.entries(compiled)) == "nothing has been compiled"
    compiled(X, "fast"), compiled(X, "slow"), compiled(X, "slow"), compiled(torch.ones(3), "fast")
    with torch.no_grad():
        compiled(X, "fast")
    (found,) = framelift.entries(compiled)
    expects = [entry.expects for entry in found.entries]
    assert [entry.hits for entry in found.entries] == [0, 1, 0, 0]
    assert expects[1][0] == "mode == 'slow'"
    assert expects[2][0] == "x.dim() == 1" or "x.shape[0] == 3" in expects[2]
    assert expects[3][0] == "torch.is_grad_enabled() == False"
    assert all(entry.guards > 1 for entry in found.entries)
    assert [entry.because for entry in found.entries][:2] == [None, "mode == 'fast', found 'slow'"]
    text = str(framelift.entries(compiled))
    assert "4 entries" in text and "    made because mode == 'fast', found 'slow'" in text


def test_explain_lists_the_entries_of_each_code_object() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for n in range(3):
            x = x * n
            print("effect")
        return x

    report = framelift.explain(fn)(X)
    assert [len(one.entries) for one in report.code_entries] == [1, 1, 2]
    text = str(report)
    assert "the rest of" in text and "made because" in text and "n == 1, found 2" in text


def test_entries_wants_a_compiled_function() -> None:
    with pytest.raises(framelift.exc.UserError, match="takes what framelift.compile gave, not a function"):
        framelift.entries(test_entries_wants_a_compiled_function)


# ---- compile records


@pytest.fixture(autouse=True)
def records() -> Any:
    framelift.reset()
    limit = framelift.compile_records.limit
    framelift.config.automatic_dynamic_shapes = False  # each size and number is an entry of its own
    yield
    framelift.config.reset()
    framelift.compile_records.resize(limit)
    framelift.compile_records.clear()


def test_a_record_is_kept_of_each_compilation() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return (x * n).sin()

    compiled = framelift.compile(fn, backend="eager")
    compiled(X, 2), compiled(X, 2), compiled(X, 3)
    first, second = framelift.compile_records()
    assert (first.kind, first.name, first.filename) == ("forward", fn.__qualname__, __file__)
    assert first.line == fn.__code__.co_firstlineno and first.backend == "eager"
    assert (first.entries, second.entries) == (0, 1)
    assert (first.recompiled_because, second.recompiled_because) == (None, "n == 2, found 3")
    assert (first.nodes, first.ops, first.inputs, first.shape_guards) == (4, 2, 1, 0) and first.guards > 1
    assert 0 < first.backend_seconds < first.seconds and first.failed is None
    assert not first.restarts and first.restart_reasons == [] and first.seconds_lost == 0


def test_what_failed_is_recorded_and_where() -> None:
    def breaks(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    def raises(x: torch.Tensor) -> torch.Tensor:
        raise KeyError(x + 1)

    def backend(graph: Any, inputs: Any) -> Any:
        raise ValueError("no such target")

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(breaks, backend="eager", fullgraph=True)(X)
    with pytest.raises(KeyError):
        framelift.compile(raises, backend="eager")(X)
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(lambda x: x + 1, backend=backend)(X)
    framelift.compile(breaks, backend="eager")(X)
    broken, raising, failing, ended, rest = framelift.compile_records()
    assert broken.failed.startswith("data-dependent branch")
    assert f'{__file__}", line {breaks.__code__.co_firstlineno + 1}' in broken.failed_at
    assert raising.failed == "the program raised KeyError" and raising.nodes == 0
    assert "ValueError: no such target" in failing.failed and failing.nodes == 3
    assert ended.failed is None and ended.ended_by.startswith("data-dependent branch")
    assert rest.line == breaks.__code__.co_firstlineno + 1 and rest.failed is None


def test_restarts_are_recorded_with_their_reasons() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return sorted([y, y * 2], key=lambda value: print("effect") or 1)[0]

    framelift.compile(fn, backend="eager")(X)
    first = framelift.compile_records()[0]
    assert first.restarts == 1 and first.restart_reasons == ["run-time effect"]
    assert 0 < first.seconds_lost < first.seconds


def test_backward_graphs_have_records_of_their_own() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin()

    x = X.clone().requires_grad_()
    framelift.compile(fn, backend="aot_eager")(x).sum().backward()
    (backward,) = framelift.compile_records("backward")
    (forward,) = framelift.compile_records("forward")
    assert (backward.name, backward.line) == (forward.name, forward.line)
    assert backward.ops > 0 and backward.inputs > 0 and backward.seconds > 0


def test_records_are_bounded_and_can_be_cleared_and_resized() -> None:
    compiled = framelift.compile(lambda x, n: x * n, backend="eager")
    for n in range(5):
        compiled(X, n)
    assert len(framelift.compile_records()) == 5
    framelift.compile_records.resize(2)
    assert [record.entries for record in framelift.compile_records()] == [3, 4]
    compiled(X, 5)
    assert [record.entries for record in framelift.compile_records()] == [4, 5]
    assert repr(framelift.compile_records) == "<2 compile records of at most 2>"
    framelift.compile_records.clear()
    assert framelift.compile_records() == []
    framelift.compile_records.resize(0)
    compiled(X, 6)
    assert framelift.compile_records() == []


@pytest.mark.parametrize("limit", [-1, 1.5, "3", None, True])
def test_a_wrong_number_of_records_is_an_error(limit: Any) -> None:
    with pytest.raises(framelift.exc.UserError, match="takes a number of records"):
        framelift.compile_records.resize(limit)
    with pytest.raises(framelift.exc.UserError, match="'forward' or 'backward'"):
        framelift.compile_records("sideways")  # type: ignore[arg-type]


def test_numbers_with_more_digits_than_python_writes_down() -> None:
    compiled = framelift.compile(lambda x, n: x * 2 if n > 3 else x, backend="eager")
    for n in (2**60000, 2**60001, 1):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * (2 if n > 3 else 1))
