"""One rank captures for all: with `config.capture_once` the first one traces, and hands the result over.

It is for the start of a program: what a function is compiled for first. When it is compiled again, for what
only one rank may have met, each rank captures for itself.

A capture is a graph, guards, and the source of a region. None of it is about rank 0 as such: guards are facts
about places that every rank has. So the others get it as data (`dispatch.capture_serialization`), put their
own objects where it speaks of classes, functions and modules, and check the guards against their own
arguments. If these hold, it is theirs, and they have traced nothing; the backend compiles on each rank.

What makes no sense on another rank - an object in C that is compared by identity, sizes that vary, a break -
is not handed over (`NotPortableError`), and each rank captures it
for itself. The reason is logged.
"""

from __future__ import annotations

import json
import logging
import pickle
import time
from typing import Any

from framelift.core.config import config
from framelift.dispatch.capture import Capture
from framelift.dispatch.capture_serialization import load_capture, save_capture
from framelift.dispatch.extensions import Outcome, RunningCompilation
from framelift.dispatch.object_names import NotPortableError
from framelift.distributed.rank_channel import LONGEST, SHORTEST, RankChannel

log = logging.getLogger("framelift.graph")

PATIENCE = 5.0
"""Seconds until a rank that sees the first one do nothing about a function captures it by itself."""


def capture_for_all(channel: RankChannel, compilation: RunningCompilation) -> Outcome:
    """The first rank captures. The others take what it gives them if that holds, or else capture, too."""
    key = capture_key(channel, compilation)
    if channel.rank:
        return receive_capture(channel, key, compilation) or compilation.trace()
    channel.store.set(f"{key} begun", "")
    data, reason = b"", "nothing was captured"
    try:
        outcome = compilation.trace()
        if isinstance(outcome, Capture):
            data, reason = serialize(outcome, compilation)
        return outcome
    finally:
        if reason:
            log.info("each rank captures for itself: %s", reason)
        message: Any = pickle.dumps((data, reason))
        channel.store.set(key, message)


def capture_key(channel: RankChannel, compilation: RunningCompilation) -> str:
    """The same for the same capture of the same function on all ranks."""
    context = compilation.context
    name = json.dumps([compilation.state.what, context.dynamic, context.fullgraph])
    channel.captures[name] += 1
    return f"capture {channel.captures[name]} {name}"


def serialize(capture: Capture, compilation: RunningCompilation) -> tuple[bytes, str]:
    """(the capture, or nothing; why there is nothing, or nothing)"""
    try:
        return save_capture(capture, compilation.fn, compilation.arguments), ""
    except NotPortableError as error:
        return b"", str(error)
    except Exception as error:  # whatever it is, the capture itself is none the worse for it
        return b"", f"it could not be packed ({type(error).__name__}: {error})"


def receive_capture(channel: RankChannel, key: str, compilation: RunningCompilation) -> Capture | None:
    """What the first rank has captured, if it holds here."""
    began = time.perf_counter()
    try:
        data, reason = pickle.loads(wait_for_capture(channel, key))
        if reason:
            raise NotPortableError(reason)
        capture = load_capture(data, compilation.fn, compilation.arguments)
        if compilation.keeps_lines and capture.lines is None:
            raise NotPortableError("rank 0 does not explain which lines are captured")
    except NotPortableError as error:
        log.info("rank %d captures for itself: %s", channel.rank, error)
        return None
    except Exception as error:
        why = f"it could not be unpacked ({type(error).__name__}: {error})"
        log.warning("rank %d captures for itself: %s", channel.rank, why)
        return None
    capture.seconds = time.perf_counter() - began
    return capture


def wait_for_capture(channel: RankChannel, key: str) -> bytes:
    began, pause = time.monotonic(), SHORTEST
    while not channel.store.check([key]):
        waited = time.monotonic() - began
        if waited > PATIENCE and not channel.store.check([f"{key} begun"]):
            raise NotPortableError("rank 0 does not capture it")
        if waited > config.rank_agreement_timeout:
            raise NotPortableError(f"rank 0 is not done with it after {config.rank_agreement_timeout} s")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)
    data = channel.store.get(key)
    if channel.store.add(f"{key} read", 1) == channel.size - 1:
        for part in ("", " begun", " read"):  # all have it
            channel.store.delete_key(f"{key}{part}")
    return data
