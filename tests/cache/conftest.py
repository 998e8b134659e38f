"""These tests have a cache, each its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import framelift


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "cache"
    with framelift.config.patch(cache=True, cache_dir=str(folder)):
        framelift.reset()
        yield folder
        framelift.reset()
