"""Which interpreters Framelift runs on: what the function that decides says."""

from __future__ import annotations

import sys

import pytest

from framelift.core import versions

LEAST, MOST = versions.PYTHON


@pytest.mark.parametrize("minor", range(LEAST[1], MOST[1] + 1))
def test_supported_versions_are_not_refused(minor: int) -> None:
    assert versions.refusal((3, minor, 0), "cpython", has_gil=True) is None


def test_this_interpreter_is_not_refused() -> None:
    assert LEAST <= sys.version_info[:2] <= MOST
    versions.check_interpreter()


@pytest.mark.parametrize(
    ("version", "implementation", "has_gil", "said"),
    [
        ((3, 10), "cpython", True, "this is 3.10. Use a newer Python."),
        (
            (3, 14),
            "cpython",
            True,
            "3.14, whose instructions and frames it has not been run with yet",
        ),
        ((3, 13), "cpython", False, "this is a free-threaded build"),
        ((3, 14), "cpython", False, "this is a free-threaded build"),
        ((3, 11), "pypy", True, "this is pypy, which has no frame-evaluation hook"),
    ],
)
def test_others_are_refused_in_a_sentence(
    version: tuple[int, int], implementation: str, has_gil: bool, said: str
) -> None:
    refusal = versions.refusal(version, implementation, has_gil)
    assert refusal is not None
    assert said in refusal
    assert refusal.startswith("Framelift needs CPython 3.11 to 3.13") and refusal.endswith(".")


def test_importing_on_another_interpreter_raises_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    with pytest.raises(ImportError, match="free-threaded build"):
        versions.check_interpreter()
    monkeypatch.setattr(sys, "abiflags", "")
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    with pytest.raises(ImportError, match=r"Use python3\.13"):
        versions.check_interpreter()
