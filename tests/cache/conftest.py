"""These tests have a cache, each its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import framelift
from framelift.trace import callable_rules


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "cache"
    # what other tests have said of their functions would keep captures out of it
    controls = mock.patch.dict(vars(callable_rules)["_controls"], clear=True)
    with controls, framelift.config.patch(cache=True, cache_dir=str(folder)):
        framelift.reset()
        yield folder
        framelift.reset()
