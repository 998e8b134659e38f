"""No test may pass because Framelift ran plainly what it could not trace for a mistake of its own.

Of the large catalogues a part is run; with `make test-thorough` all of them.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
from collections.abc import Iterator

import pytest
import torch

os.environ.setdefault("FRAMELIFT_CACHE", "0")  # what a run compiles is not to depend on the runs before it

SAMPLED = {
    "tests/breaks/test_break_programs.py": 2,
    "tests/mutations/test_mutations.py::test_mutation[": 2,
    "tests/breaks/test_forced_breaks.py": 3,
    "tests/dispatch/test_backend_inputs.py::test_later_sizes_and_numbers": 4,
    "tests/dispatch/test_lifetime.py::test_a_function_keeps_no_model_alive": 2,
    "tests/graph/test_op_memory.py::test_an_operator_remembered_is_the_operator_run": 2,
    "tests/rules/test_native_calls_with_symbols.py::test_a_symbol_stays_one": 2,
    "tests/rules/test_native_calls_with_symbols.py::test_what_is_listed_needs_the_number": 6,
    "tests/trace/test_number_arithmetic.py::test_numbers_that_are_symbols": 90,
    "tests/trace/test_number_arithmetic.py::test_with_aot_autograd": 400,
    "tests/torchless/test_resume_functions.py::test_going_on_from_anywhere": 2,
}
"""Tests -> which part of them is run: one of so many, always the same."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("FRAMELIFT_THOROUGH") or any("::" in arg for arg in config.args):
        return
    left = [item for item in items if not is_in_sample(item.nodeid)]
    items[:] = [item for item in items if is_in_sample(item.nodeid)]
    config.hook.pytest_deselected(items=left)


def is_in_sample(nodeid: str) -> bool:
    one_of = next((n for start, n in SAMPLED.items() if nodeid.startswith(start)), 1)
    name = nodeid.partition("::")[2]  # without the file, so that one that is moved keeps its sample
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest()) % one_of == 0


@pytest.fixture(autouse=True, scope="module")
def little_to_collect() -> None:
    """What was there before is none of the collector's business: tests that call it would take ten times as
    long in a process that has run many others."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_locks_of_loggers() -> Iterator[None]:
    """What a signal's handler raises between `acquire` and the `try` behind it leaves `logging` a lock that
    nobody releases, within torch's compilers or the tests' own tools; other threads would wait forever."""
    yield
    for known in list(vars(logging)["_handlerList"]):
        lock = getattr(known(), "lock", None)
        while lock is not None and lock._is_owned():
            lock.release()


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of what happens then are marked with `faults`."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    log = logging.getLogger("framelift.trace.faults")
    log.addHandler(handler)
    yield
    log.removeHandler(handler)
    assert not found or request.node.get_closest_marker("faults"), "\n".join(found)


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    """The functions that a test defines have the same code each time that it is run."""
    if "framelift.dispatch.shared_contexts" in sys.modules:
        sys.modules["framelift.dispatch.shared_contexts"].forget_shared()


@pytest.fixture(autouse=True)
def torch_is_left_as_it_was() -> Iterator[None]:
    """A test that leaves a switch thrown fails itself, and not those that come after it."""
    yield
    found = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_default_device().type
    if found != (torch.float32, True, "cpu"):
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        torch.set_default_device(None)
        pytest.fail(f"left behind: {found}")
    nesting = torch.autocast_increment_nesting() - 1
    for _ in range(nesting + 1):
        torch.autocast_decrement_nesting()
    assert not nesting, f"left behind: {nesting} times in autocast"
    handled = sys.exception()
    assert handled is None, f"left behind, as if it were being handled: {handled!r}"
