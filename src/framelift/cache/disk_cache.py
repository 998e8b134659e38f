"""Takes part in compilations: looks for an entry before a frame is traced, and keeps what came of a trace.

Whatever goes wrong is a miss: the frame is captured as if there were no cache.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import time
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from framelift.cache import files
from framelift.cache.artifacts import CapturedGraph
from framelift.cache.entries import is_in_file, pack, unpack
from framelift.cache.inductor_graphs import portable_graphs
from framelift.cache.keys import PLAIN_TENSORS, key_of, parts
from framelift.cache.writing import writer
from framelift.core import policy
from framelift.core.config import config
from framelift.core.records import counters
from framelift.dispatch.backends import comes_with_framelift, eager
from framelift.dispatch.capture import Capture
from framelift.dispatch.capture_serialization import Snapshot
from framelift.dispatch.extensions import CaptureStore, RunningCompilation, Stored
from framelift.dispatch.inductor_parts import InductorParts
from framelift.dispatch.object_names import NotPortableError, original_code
from framelift.graph.kept import KeptGraph
from framelift.trace.callable_rules import has_controls

log = logging.getLogger("framelift.cache")

unseen = torch._C.DisableTorchFunction
"""Within it the program's modes and tensor classes see nothing of what is asked of tensors."""

LOOKED_AT = 16
"""How many entries of one key are looked at before a frame is captured anew."""


class DiskCache(CaptureStore):
    def is_for(self, compilation: RunningCompilation) -> bool:
        return is_cached(compilation)

    def find(self, compilation: RunningCompilation) -> Stored | None:
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
    ) -> Waiting | None:
        place = compilation.stored_as
        if place is None or compilation.was_loaded:
            return None
        if not all(map(is_torchs, capture.ops)):
            log.info(
                "%s is not kept on disk: its graph calls operators of the program's", compilation.state.what
            )
            return None
        as_captured = compilation.context.backend is eager or capture.run_as_captured is not None
        parts = compilation.parts[0] if len(compilation.parts) == 1 else None
        if capture.graph is not None and not as_captured and parts is None and kept is None:
            return None
        try:
            is_compiled = capture.graph is None or as_captured
            fn, arguments = compilation.fn, compilation.arguments
            with unseen():
                snapshots = [Snapshot(capture, fn, arguments, is_compiled)]
                if parts is not None and not is_compiled:
                    snapshots.insert(0, Snapshot(capture, fn, arguments, compiled=True))
        except NotPortableError as error:
            log.info("%s is not kept on disk: %s", compilation.state.what, error)
            return None
        graph = capture.graph if as_captured else None
        return Waiting(place, compilation.state.what, snapshots, graph, parts, kept)

    def keep(self, noted: Waiting) -> None:
        parts = noted.parts
        if parts is None:
            writer.add(noted.write)
        elif parts.is_whole:
            self.keep_compiled(noted)
        else:  # the backward graph is compiled when it is first run
            parts.when_whole = functools.partial(self.keep_compiled, noted)
            writer.add_at_exit(noted.write)

    def keep_compiled(self, noted: Waiting) -> None:
        """Made bytes at once: the program may let go of its objects soon, and compiling took far longer."""
        if noted.content is None:
            writer.attempt(noted.pack)
            writer.add(noted.write)


class Waiting:
    """An entry that is to be written."""

    def __init__(
        self,
        place: tuple[str, str],
        what: str,
        snapshots: list[Snapshot],
        graph: torch.fx.GraphModule | None,
        parts: InductorParts | None,
        kept: KeptGraph | None,
    ) -> None:
        self.place, self.what, self.graph, self.parts, self.kept = place, what, graph, parts, kept
        self.snapshots = snapshots
        """For a process that has what the backend made of the graph, and for one that does not."""
        self.content: bytes | None = None

    def write(self) -> None:
        self.pack()
        if self.content is not None:
            files.write_entry(*self.place, self.content)
            self.content = None

    def pack(self) -> None:
        """Once: later it can't be done any more, or need not be."""
        snapshots, self.snapshots = self.snapshots, []
        if snapshots:
            self.content = self.packed(snapshots)

    def packed(self, snapshots: list[Snapshot]) -> bytes:
        if self.graph is not None:
            return pack(snapshots[0], CapturedGraph(self.graph))
        if self.parts is not None and len(snapshots) == 2:
            try:
                return pack(snapshots[0], portable_graphs(self.parts))
            except NotPortableError as error:
                log.info("of %s only the capture is kept on disk: %s", self.what, error)
        if self.kept is not None:
            snapshots[-1].fields["graph"] = self.kept.made_again()
        return pack(snapshots[-1], None)


def is_cached(compilation: RunningCompilation) -> bool:
    """Whether a compilation may use what is on disk, and be kept there."""
    context = compilation.context
    if not config.cache or compilation.keeps_lines or not comes_with_framelift(context.backend):
        return False
    if (
        has_controls()
        or context.guard_filter_fn is not None
        or config.ignore_logging_functions
        or config.ignore_logger_methods
    ):
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


def is_torchs(operator: Any) -> bool:
    """Whether what a graph calls comes with torch: it is not known what others do in another process."""
    if isinstance(operator, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(operator).partition(".")[0] in NAMESPACES
    if type(operator) is types.FunctionType:
        return not policy.is_user_code(operator.__module__) or operator.__module__.startswith("framelift.")
    return True


NAMESPACES = frozenset({"aten", "prims", "mkldnn", "_c10d_functional", "quantized", "higher_order"})
"""Of operators that torch has itself."""


def hint_of(arguments: list[Any]) -> str:
    """Short, and the same for arguments that look alike: which of several entries to try first."""
    with unseen():
        looks = [
            (tuple(value.shape), str(value.dtype)) if type(value) in PLAIN_TENSORS else type(value).__name__
            for argument in arguments
            for value in parts(argument)
        ]
    return hashlib.sha256(repr(looks).encode()).hexdigest()[:12]
