"""Takes part in compilations: looks for an entry before a frame is traced, and keeps what came of a trace.

Whatever goes wrong is a miss: the frame is captured as if there were no cache.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from framelift.cache import files
from framelift.cache.artifacts import Artifact, CapturedGraph
from framelift.cache.entries import is_in_file, pack, unpack
from framelift.cache.keys import key_of
from framelift.cache.writing import writer
from framelift.core.config import config
from framelift.core.records import counters
from framelift.dispatch.backends import comes_with_framelift, eager
from framelift.dispatch.capture import Capture
from framelift.dispatch.capture_serialization import Snapshot
from framelift.dispatch.extensions import CaptureStore, RunningCompilation, Stored
from framelift.dispatch.object_names import NotPortableError, original_code
from framelift.graph.kept import KeptGraph

log = logging.getLogger("framelift.cache")

LOOKED_AT = 16
"""How many entries of one key are looked at before a frame is captured anew."""


class DiskCache(CaptureStore):
    def find(self, compilation: RunningCompilation) -> Stored | None:
        if not is_cached(compilation):
            return None
        began = time.perf_counter()
        try:
            context, fn, arguments = compilation.context, compilation.fn, compilation.arguments
            compilation.stored_as = key_of(context, fn, arguments), hint_of(arguments)
            found = self.first_that_holds(compilation, *compilation.stored_as)
        except NotPortableError as error:
            log.info("%s is captured: %s", compilation.state.what, error)
            return None
        except Exception:  # a mistake of the cache's is not the program's
            log.warning("the cache could not be asked about %s", compilation.state.what, exc_info=True)
            return None
        counters["cache"]["miss" if found is None else "hit"] += 1
        if found is not None:
            found.capture.seconds = time.perf_counter() - began
        return found

    def first_that_holds(self, compilation: RunningCompilation, key: str, hint: str) -> Stored | None:
        looked_at = 0
        for path, content in files.entries_for(key, hint):
            if looked_at == LOOKED_AT:
                break
            looked_at += 1
            try:
                capture, artifact = unpack(content, compilation.fn, compilation.arguments)
                compiled = None if artifact is None else artifact.load()
            except NotPortableError as error:
                log.debug("an entry for %s is passed over: %s", compilation.state.what, error)
                continue
            except Exception as error:
                log.info("an entry for %s can't be used: %s", compilation.state.what, error, exc_info=True)
                continue
            files.note_use(path)
            return Stored(capture, compiled)
        return None

    def note(
        self,
        compilation: RunningCompilation,
        capture: Capture,
        compiled: Callable[..., Any] | None,
        kept: KeptGraph | None,
    ) -> Callable[[], None] | None:
        place = compilation.stored_as
        if place is None or compilation.was_loaded:
            return None
        graph, backend = capture.graph, compilation.context.backend
        make: Callable[[], Artifact | None] = lambda: None
        if graph is not None and (backend is eager or capture.run_as_captured is not None):
            make = functools.partial(CapturedGraph, graph)
        is_compiled = graph is None or backend is eager or capture.run_as_captured is not None
        if not is_compiled and kept is None:
            return None
        try:
            snapshot = Snapshot(capture, compilation.fn, compilation.arguments, is_compiled)
        except NotPortableError as error:
            log.info("%s is not kept on disk: %s", compilation.state.what, error)
            return None
        return functools.partial(write, *place, snapshot, make, None if is_compiled else kept)

    def keep(self, noted: Callable[[], None]) -> None:
        writer.add(noted)


def write(
    key: str, hint: str, snapshot: Snapshot, make: Callable[[], Artifact | None], kept: KeptGraph | None
) -> None:
    if kept is not None:
        snapshot.fields["graph"] = kept.made_again()
    files.write_entry(key, hint, pack(snapshot, make()))


def is_cached(compilation: RunningCompilation) -> bool:
    """Whether a compilation may use what is on disk, and be kept there."""
    context = compilation.context
    if not config.cache or compilation.keeps_lines or not comes_with_framelift(context.backend):
        return False
    if context.guard_filter_fn is not None or config.ignore_logging_functions or config.ignore_logger_methods:
        return False  # functions of the program's decide what comes of it
    if (
        config.debug_dir
        or config.verify_correctness
        or config.compiled_autograd
        or config.replay_record_enabled
    ):
        return False  # all of which want to see a graph
    if config.capture_once or config.rank_agreement != "off":
        return False  # ranks have their own ways to share captures
    return is_in_file([original_code(compilation.fn.__code__)])


def hint_of(arguments: list[Any]) -> str:
    """Short, and the same for arguments that look alike: which of several entries to try first."""
    looks = [
        (tuple(value.shape), str(value.dtype)) if isinstance(value, torch.Tensor) else type(value).__name__
        for argument in arguments
        for value in parts(argument)
    ]
    return hashlib.sha256(repr(looks).encode()).hexdigest()[:12]


def parts(argument: Any) -> list[Any]:
    if type(argument) in (tuple, list):
        return list(argument)
    return list(argument.values()) if type(argument) is dict else [argument]
