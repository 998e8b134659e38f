"""Dates that depend on the time zone are computed again when it changes."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator
from datetime import date, timezone
from datetime import datetime as moment
from typing import Any

import pytest
import torch

import framelift
from check import compare, run

NOON = moment(2020, 1, 1, 12)
PROGRAMS = {
    "of a number": lambda: moment.fromtimestamp(0).isoformat(),
    "a day of a number": lambda: date.fromtimestamp(80000).isoformat(),
    "to a number": lambda: moment(2020, 1, 1).timestamp(),
    "from outside": lambda: NOON.timestamp(),
    "with a zone": lambda: moment(2020, 1, 1).astimezone().isoformat(),
    "the name of the zone": lambda: moment(2020, 1, 1, tzinfo=timezone.utc).astimezone().strftime("%Z"),
    "as text": lambda: moment(2020, 1, 1).strftime("%s"),
    "formatted": lambda: f"{NOON:%s} {format(NOON, '%s')} " + "{:%s}".format(NOON),
    "parsed": lambda: moment.strptime("JST 2020", "%Z %Y").isoformat(),
    "with a zone of its own": lambda: moment(2020, 1, 1, tzinfo=timezone.utc).timestamp(),
    "the clock's": lambda: time.localtime(0).tm_hour,
    "an interval": lambda: (NOON - datetime.timedelta(hours=3)).hour,
}


@pytest.fixture(autouse=True)
def zone() -> Iterator[None]:
    before = os.environ.get("TZ")
    yield
    os.environ.pop("TZ", None)
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_time_zone_may_change_between_calls(name: str) -> None:
    program: Any = PROGRAMS[name]
    fn = lambda x: (x + 1, program())
    compiled = framelift.compile(fn, backend="eager")
    for zone in ("UTC", "UTC", "Asia/Tokyo", "America/New_York", "UTC"):
        os.environ["TZ"] = zone
        time.tzset()
        compare(run(fn, (torch.ones(1),), {}), run(compiled, (torch.ones(1),), {}))
