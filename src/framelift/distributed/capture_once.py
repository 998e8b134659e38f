"""One rank captures for all: with `config.capture_once` the first one traces, and hands the result over.

It is for the start of a program: what a function is compiled for first. When it is compiled again, for what
only one rank may have met, each rank captures for itself.

A capture is a graph, guards, and the source of a region. None of it is about rank 0 as such: guards are facts
about places that every rank has. So the others get it as data, put their own objects where it speaks of
classes, functions and modules, and check the guards against their own arguments. If these hold, it is theirs,
and they have traced nothing; the backend compiles on each rank.

What is the same thing on another rank is decided strictly. Classes, functions, modules, operators are known
by where they are imported from, functions also by a digest of their code, and class attributes by their class
and name; torch's state, versions and the frame's own code must be equal. What can't be known like that - an
object of the program that is compared by identity, a function made inside another, sizes that vary, a break -
is not handed over (`NotSharedError`), and each rank captures it for itself. The reason is logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framelift.core.config import config
from framelift.dispatch.capture import Captured, Contents
from framelift.distributed.serialization import NotSharedError, packed, unpacked

if TYPE_CHECKING:
    from framelift.dispatch.contexts import Record
    from framelift.distributed.agreement import Meetings

log = logging.getLogger("framelift.graph")


@dataclass
class Parcel:
    """What one rank has captured, for the others: pickled, or the reason why it is not there."""

    data: bytes = b""
    reason: str = "nothing was captured"

    def pack(self, contents: Contents) -> None:
        self.data, self.reason = b"", ""
        try:
            self.data = packed(contents)
        except NotSharedError as error:
            self.reason = str(error)
        except Exception as error:  # whatever it is, the capture itself is none the worse for it
            self.reason = f"it could not be packed ({type(error).__name__}: {error})"


# ---- handing over


PATIENCE = 5.0
"""Seconds until a rank that sees the first one do nothing about a function captures it by itself."""


def key_of(meetings: Meetings, record: Record, *options: Any) -> str:
    """The same for the same capture of the same function on all ranks."""
    name = json.dumps([record.what, *options])
    meetings.captures[name] += 1
    return f"capture {meetings.captures[name]} {name}"


@contextlib.contextmanager
def handing_over(meetings: Meetings, key: str) -> Iterator[Parcel]:
    """What is put into the parcel is there for the others afterwards, or the reason why nothing is."""
    meetings.store.set(f"{key} begun", "")
    parcel = Parcel()
    try:
        yield parcel
    finally:
        if parcel.reason:
            log.info("each rank captures for itself: %s", parcel.reason)
        data: Any = pickle.dumps((parcel.data, parcel.reason))
        meetings.store.set(key, data)


def taken(meetings: Meetings, key: str, fn: Any, arguments: list[Any]) -> Captured | None:
    """What the first rank has captured, if it holds here."""
    began = time.perf_counter()
    try:
        data, reason = pickle.loads(waited_for(meetings, key))
        if reason:
            raise NotSharedError(reason)
        captured = unpacked(data, fn, arguments)
    except NotSharedError as error:
        log.info("rank %d captures for itself: %s", meetings.rank, error)
        return None
    except Exception as error:
        why = f"it could not be unpacked ({type(error).__name__}: {error})"
        log.warning("rank %d captures for itself: %s", meetings.rank, why)
        return None
    captured.seconds = time.perf_counter() - began
    return captured


def waited_for(meetings: Meetings, key: str) -> bytes:
    began, pause = time.monotonic(), 0.0005
    while not meetings.store.check([key]):
        waited = time.monotonic() - began
        if waited > PATIENCE and not meetings.store.check([f"{key} begun"]):
            raise NotSharedError("rank 0 does not capture it")
        if waited > config.rank_agreement_timeout:
            raise NotSharedError(f"rank 0 is not done with it after {config.rank_agreement_timeout} s")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    data = meetings.store.get(key)
    if meetings.store.add(f"{key} read", 1) == meetings.size - 1:
        for part in ("", " begun", " read"):  # all have it
            meetings.store.delete_key(f"{key}{part}")
    return data
