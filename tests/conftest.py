"""No test may pass because Framelift ran plainly what it could not trace for a mistake of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of what happens then are marked with `faults`."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    log = logging.getLogger("framelift.world.faults")
    log.addHandler(handler)
    yield
    log.removeHandler(handler)
    assert not found or request.node.get_closest_marker("faults"), "\n".join(found)
