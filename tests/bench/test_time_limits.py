"""The bench ends when it is told to, and what it says then is of whole repetitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


class Clock:
    """Time passes only in samples."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Takes samples of ten seconds each: two subjects, two systems, three times, within so many seconds."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from bench import measure

    clock = Clock()

    def sample(job: Any, name: str, subject: str) -> dict[str, Any]:
        clock.now += 10
        return {"of": (name, subject)}

    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(measure, "in_fresh_process", sample)

    def run(seconds: float) -> Any:
        clock.now = 0.0
        monkeypatch.setattr(measure.Allowed, "until", seconds)
        return measure.take_turns(None, ["a", "b"], ["x", "y"], 3, lambda text: None)

    run.measure = measure  # type: ignore[attr-defined]
    return run


def lengths(results: Any) -> set[int]:
    return {len(runs) for by in results.values() for runs in by.values()}


def test_without_a_limit_all_is_measured(measured: Any) -> None:
    results = measured(float("inf"))
    assert lengths(results) == {3}
    assert results["b"]["y"][0] == {"of": ("y", "b")}


def test_what_does_not_fit_into_the_first_repetition_is_said_to_be_missing(measured: Any) -> None:
    results = measured(15)
    assert lengths(results) == {1}
    assert "failed" not in results["a"]["y"][0]
    assert results["b"]["y"] == [{"failed": measured.measure.NO_TIME}]
    assert measured.measure.pick(results["b"]["y"], lambda run: 1.0) is None
    assert measured.measure.failures(results) == [f"2 samples: {measured.measure.NO_TIME}"]


def test_a_later_repetition_that_does_not_fit_is_left_out_whole(measured: Any) -> None:
    assert lengths(measured(65)) == {1}
    assert lengths(measured(85)) == {2}
