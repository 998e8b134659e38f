"""Entries that are kept and found again, and files that are not to be trusted.

`framelift.reset()` forgets all that the process knows, so that what is compiled next is looked for on disk.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import framelift
from framelift.cache import files
from framelift.cache.writing import writer
from framelift.cli import main


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def outcome(fn: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Compiles a function as if in a new process, runs it, and says whether it was found on disk."""
    framelift.reset()
    options = {"backend": "eager"} | options
    expected = fn(*args)
    assert torch.equal(framelift.compile(fn, **options)(*args), expected)
    writer.flush()
    found = framelift.counters["cache"]
    return "hit" if found["hit"] and not found["miss"] else "miss"


def only_entry() -> Path:
    (path,) = [each.path for each in files.cached_files() if each.path.parent.parent.name == "captures"]
    return path


def test_what_was_captured_is_found_again() -> None:
    x = torch.ones(3)
    assert outcome(scaled, x) == "miss"
    assert outcome(scaled, x) == "hit"
    (record,) = framelift.compile_records()
    assert record.was_loaded and record.failed is None


def test_a_function_has_an_entry_for_each_kind_of_argument() -> None:
    assert outcome(scaled, torch.ones(3)) == "miss"
    assert outcome(scaled, torch.ones(3, dtype=torch.float64)) == "miss"
    assert outcome(scaled, torch.ones(2, 2)) == "miss"
    assert outcome(scaled, torch.ones(3)) == "hit"
    assert outcome(scaled, torch.ones(3, dtype=torch.float64)) == "hit"
    assert outcome(scaled, torch.ones(2, 2)) == "hit"


def test_options_and_flags_are_part_of_the_key() -> None:
    x = torch.ones(3)
    outcome(scaled, x)
    assert outcome(scaled, x, fullgraph=True) == "miss"
    assert outcome(scaled, x, dynamic=True) == "miss"
    with torch.no_grad():
        assert outcome(scaled, x) == "miss"
    with framelift.config.patch(capture_scalar_outputs=True):
        assert outcome(scaled, x) == "miss"
    assert outcome(scaled, x) == "hit"


def test_marks_and_whether_breaks_are_errors_are_part_of_the_key() -> None:
    x = torch.ones(3)
    outcome(scaled, x)
    marked, kept = torch.ones(3), torch.ones(3)
    framelift.mark_dynamic(marked, 0)
    framelift.mark_static_address(kept, guard=True)
    assert [outcome(scaled, marked), outcome(scaled, kept)] == ["miss", "miss"]
    assert [outcome(scaled, marked), outcome(scaled, x)] == ["hit", "hit"]
    outcome(broken, x)
    with framelift.error_on_graph_break(True), pytest.raises(framelift.exc.Unsupported):
        outcome(broken, x)


SEEN_BY_COMPTIME: list[str] = []


def with_comptime(x: torch.Tensor) -> torch.Tensor:
    framelift.comptime(lambda ctx: SEEN_BY_COMPTIME.append("captured"))
    return x + 1


def test_what_runs_at_capture_time_does_so_in_each_process() -> None:
    for n in range(2):
        assert outcome(with_comptime, torch.ones(3)) == "miss"
        assert len(SEEN_BY_COMPTIME) == n + 1


def test_it_can_be_turned_off() -> None:
    with framelift.config.patch(cache=False):
        outcome(scaled, torch.ones(3))
    assert not files.cached_files()


def test_a_function_without_a_file_is_not_kept() -> None:
    scope: dict[str, Any] = {}
    exec("def made(x):\n    return x + 1\n", scope)
    outcome(scope["made"], torch.ones(3))
    assert not files.cached_files()


def test_gradients_of_what_was_found() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x = torch.ones(2, 3, requires_grad=True)
    grads = []
    for _ in range(2):
        framelift.reset()
        x.grad = None
        framelift.compile(model, backend="eager")(x).sum().backward()
        writer.flush()
        assert x.grad is not None
        grads.append(x.grad.clone())
    assert framelift.counters["cache"]["hit"] and torch.equal(*grads)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("is_differentiated", [True, False], ids=["trained", "never differentiated"])
def test_what_waits_to_be_written_keeps_nothing_alive(backend: str, is_differentiated: bool) -> None:
    def dropped() -> list[weakref.ref[Any]]:
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        x = torch.ones(2, 3, requires_grad=True)
        loss = framelift.compile(lambda: model(x).sum(), backend=backend)()
        if is_differentiated:
            loss.backward()
        return [weakref.ref(it) for it in (model, x, *model.parameters())]

    dropped()  # `torch.fx.wrap` keeps the frames below, once, as torch's compilers are imported
    writer.flush()
    framelift.reset()
    gc.collect()
    gc.disable()
    try:
        assert [found() for found in dropped()] == [None] * 4
    finally:
        gc.enable()


class Noting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_programs_modes_see_nothing_of_what_the_cache_asks_of_tensors(dynamic: bool) -> None:
    compiled = framelift.compile(scaled, backend="eager", dynamic=dynamic)
    with Noting() as mode:
        for _ in range(2):
            compiled(torch.Tensor([1, 2]))
    with Noting() as plain:
        for _ in range(2):
            scaled(torch.Tensor([1, 2]))
    assert mode.seen == plain.seen


def test_what_a_compiler_has_made_is_kept_though_the_program_has_let_go_of_the_model() -> None:
    def used_once() -> None:
        framelift.reset()
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        framelift.compile(lambda x: model(x).sum(), backend="inductor")(torch.ones(2, 3)).backward()

    used_once()
    writer.flush()
    used_once()
    assert framelift.counters["cache"] == {"hit": 1}


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return (y + 1).cos()


def inner(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return y


def broken_inside(x: torch.Tensor) -> torch.Tensor:
    return inner(x + 1).cos()


@pytest.mark.parametrize("fn", [broken, broken_inside])
def test_a_function_with_a_break_and_the_rest_of_it(fn: Any) -> None:
    x = torch.ones(3)
    assert outcome(fn, x) == "miss"
    assert outcome(fn, x) == "hit"
    assert [record.was_loaded for record in framelift.compile_records()] == [True, True]
    assert framelift.counters["graph_break"]


def test_sizes_that_vary() -> None:
    def run() -> tuple[int, int]:
        framelift.reset()
        compiled = framelift.compile(scaled, backend="eager", dynamic=True)
        for n in (3, 5, 9):
            assert torch.equal(compiled(torch.arange(float(n))), scaled(torch.arange(float(n))))
        writer.flush()
        found = framelift.counters["cache"]
        return found["hit"], found["miss"]

    assert run() == (0, 1)
    assert run() == (1, 0)


# ---- files that are not as they were


def flip_last_byte(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


CHANGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "changed": (flip_last_byte, "torn, or someone has changed it"),
    "torn": (lambda path: path.write_bytes(path.read_bytes()[:100]), "torn, or someone has changed it"),
    "empty": (lambda path: path.write_bytes(b""), "torn, or someone has changed it"),
    "writable by others": (lambda path: path.chmod(0o666), "can be written by other users"),
    "in a folder that is writable by others": (
        lambda path: path.parent.chmod(0o777),
        "can be written by other users",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_may_be_anothers_is_not_unpickled(
    change: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(scaled, torch.ones(3))
    do, reason = CHANGES[change]
    do(only_entry())
    monkeypatch.setattr("framelift.cache.disk_cache.unpack", lambda *args: pytest.fail("it was unpacked"))
    with caplog.at_level(logging.WARNING, "framelift.cache"):
        assert outcome(scaled, torch.ones(3)) == "miss"
    assert reason in caplog.text


def test_what_another_user_has_signed_is_not_used(own_cache: Path) -> None:
    outcome(scaled, torch.ones(3))
    (own_cache / "secret").unlink()
    assert outcome(scaled, torch.ones(3)) == "miss"


def test_a_folder_that_can_not_be_written_changes_nothing(
    own_cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_atomically", full)
    monkeypatch.setattr(writer, "failed", False)
    with caplog.at_level(logging.WARNING, "framelift.cache"):
        assert outcome(scaled, torch.ones(3)) == "miss"
        assert outcome(broken, torch.ones(3)) == "miss"
    assert caplog.text.count("No space left") == 1


def test_writers_at_the_same_time_leave_whole_files() -> None:
    content = [bytes([n]) * 100_000 for n in range(8)]
    files.secret()

    def write(n: int) -> None:
        for _ in range(5):
            files.write_entry("key", "hint", content[n])
            files.write_entry("key", "same", content[0])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [data for _, data in files.entries_for("key", "same")]
    assert found[0] == content[0] and sorted(found[1:]) == content


def test_what_was_not_used_for_longest_is_removed() -> None:
    data = [os.urandom(400_000) for _ in range(4)]
    paths = [files.write_entry(f"key{n}", "hint", data[n]) for n in range(4)]
    for n, path in enumerate(paths):
        os.utime(path, (n, n))
    files.note_use(paths[0])
    with framelift.config.patch(cache_mebibytes=1):
        assert files.keep_within_limit() == 2
    assert [path.exists() for path in paths] == [True, False, False, True]


def test_a_secret_is_made_once() -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(files.secret())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_operators_of_the_programs_are_not_kept() -> None:
    @torch.library.custom_op("framelift_cache_tests::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)

    def calling(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = doubled(x) + 1
        return result

    outcome(calling, torch.ones(3))
    assert not files.cached_files()


def test_what_is_kept_as_one_file(own_cache: Path, tmp_path: Path) -> None:
    outcome(scaled, torch.ones(3))
    outcome(broken, torch.ones(3))
    bundle = tmp_path / "bundle"
    assert framelift.save_cache(bundle) == 3
    assert files.clear()[0] == 3
    assert outcome(broken, torch.ones(3)) == "miss"
    with framelift.config.patch(cache_dir=str(tmp_path / "other")):
        assert framelift.load_cache(bundle) == 3
        assert outcome(scaled, torch.ones(3)) == "hit"
        assert outcome(broken, torch.ones(3)) == "hit"


def test_a_bundle_that_others_can_write_is_not_loaded(tmp_path: Path) -> None:
    outcome(scaled, torch.ones(3))
    bundle = tmp_path / "bundle"
    framelift.save_cache(bundle)
    bundle.chmod(0o666)
    with pytest.raises(framelift.exc.UserError, match="can be written by other users"):
        framelift.load_cache(bundle)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    outcome(scaled, torch.ones(3))
    assert main(["cache", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["captures"] == 1
    assert main(["cache", "info"]) == 0 and "captures  1" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0 and "1 files" in capsys.readouterr().out
    assert not files.cached_files()


def drawn_before() -> int:
    return 3


vars(drawn_before)["_dynamo_marked_constant"] = True  # as torch.compiler.assume_constant_result does


def with_constant_result(x: torch.Tensor) -> torch.Tensor:
    return x * drawn_before()


def test_what_relies_on_a_function_that_ran_as_it_is_is_not_kept() -> None:
    outcome(with_constant_result, torch.ones(3))
    assert not files.cached_files()


def test_a_tool_that_counts_lines_sees_those_of_what_is_kept() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    framelift.compile(fn, backend="eager")(torch.ones(3))
    framelift.reset()
    seen = set()

    def trace(frame: Any, what: str, arg: Any) -> Any:
        if frame.f_code.co_filename == __file__ and what == "line":
            seen.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        framelift.compile(fn, backend="eager")(torch.ones(3))
    finally:
        sys.settrace(None)
    assert fn.__code__.co_firstlineno + 1 in seen


def halved(x: torch.Tensor) -> torch.Tensor:
    return x.sin().values() / 2


def test_graphs_for_nested_tensors_are_not_kept() -> None:
    """Their sizes have names in the process that made them."""
    nested = torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), torch.tensor([0, 2, 5]))
    assert [outcome(halved, nested) for _ in range(2)] == ["miss", "miss"]
