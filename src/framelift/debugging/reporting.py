"""What is told of a compilation while it happens: to the logs, to the debug directory, to torch's trace.

A compilation is known by its record. Texts are made only for who asked: a logger that listens, a
directory in `config.debug_dir`, or torch's structured trace (TORCH_TRACE), whose records have the names
that tlparse shows. Nothing that goes wrong here is the program's business.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime
import functools
import itertools
import json
import linecache
import logging
import os
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._guards import CompileContext, CompileId, compile_context
from torch._logging import trace_structured
from torch._logging._internal import trace_log
from torch._logging.structured import from_traceback

from framelift.core import logs
from framelift.core.breaks import Break, Place
from framelift.core.config import config
from framelift.core.policy import OWN_FILES
from framelift.core.records import CompileRecord
from framelift.core.times import compile_times
from framelift.dispatch.capture import Captured
from framelift.dispatch.recompiles import Recompilation
from framelift.guards.program import GuardProgram
from framelift.guards.shapes import origin

FILES = {
    "graph": "graph.txt",
    "breaks": "breaks.txt",
    "guards": "guards.txt",
    "recompiles": "recompiles.txt",
    "code": "code.py",
    "backward": "backward.txt",
    "record": "record.json",
}
"""What is in the folder of a compilation, as far as it has it."""


def is_wanted(note: CompileRecord, *names: str) -> bool:
    """Whether anyone asked: nothing else is to cost anything otherwise."""
    if note.folder is not None or is_traced():
        return True
    return any(logs.LOGGERS[name].isEnabledFor(logging.DEBUG) for name in names)


@contextlib.contextmanager
def harmless(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logs.ROOT.warning("%s could not be told: %s: %s", what, type(error).__name__, error)


# ---- moments of a compilation


@contextlib.contextmanager
def compilation(note: CompileRecord) -> Iterator[None]:
    """Around all of it. What torch's compilers write to the trace meanwhile gets the same number."""
    if not config.debug_dir and not is_traced():
        yield
        return
    with harmless("the beginning of a compilation"):
        if config.debug_dir:
            note.folder = str(new_folder(Path(config.debug_dir), note))
        trace("dynamo_start", lambda: {"stack": stack_of(note)}, compile_id=number_of(note))
    with compile_context(CompileContext(number_of(note))) if is_traced() else contextlib.nullcontext():
        try:
            yield
        finally:
            with harmless("the record of a compilation"):
                keep(note, "record", lambda: json.dumps(dataclasses.asdict(note), indent=2))
                trace("compilation_metrics", lambda: metrics(note))


def graph(note: CompileRecord, captured: Captured) -> None:
    """Before the backend gets it: it may be what the backend fails on."""
    module = captured.graph
    if module is not None and is_wanted(note, "graph"):
        with harmless("a graph"):
            text = functools.cache(lambda: readable(module))
            tell(note, "graph", text)
            trace("dynamo_output_graph", lambda: {"sizes": sizes(module)}, payload_fn=text)


def compiled(note: CompileRecord, captured: Captured) -> None:
    if not is_wanted(note, "guards", "code"):
        return
    program, source = captured.program, captured.region.source
    with harmless("an entry"):
        tell(note, "guards", lambda: guards_text(program))
        tell(note, "code", lambda: source)
        trace("dynamo_guards", payload_fn=lambda: guards_data(program))
        artifact("framelift_generated_code", "string", lambda: source)


def backward(note: CompileRecord, module: torch.fx.GraphModule) -> None:
    """The graph that gradients are computed with; it may come long after the rest."""
    with harmless("a backward graph"):
        keep(note, "backward", lambda: readable(module))


def broke(note: CompileRecord, found: Break, seen: bool) -> None:
    """A place that was `seen` before is told to who wants details."""
    with harmless("a break"):
        tell(note, "breaks", found.describe, logging.DEBUG if seen else logging.INFO)
        artifact("dynamo_graph_break_reason", "string", found.describe)


def recompiled(note: CompileRecord, found: Recompilation) -> None:
    """The log has been told when it was decided."""
    with harmless("a recompilation"):
        keep(note, "recompiles", lambda: str(found))
        artifact("recompile_reasons", "json", lambda: [str(failure) for failure in found.by_failure()])


def tell(note: CompileRecord, name: str, text: Callable[[], str], level: int | None = None) -> None:
    log, level = logs.LOGGERS[name], logs.LEVELS[name] if level is None else level
    if log.isEnabledFor(level):
        log.log(level, "%s (%s:%s), compilation %s\n%s", *title(note), indented(text()))
    keep(note, name, text)


def title(note: CompileRecord) -> tuple[Any, ...]:
    region = f" of {note.region}" if note.region else ""
    return note.name, note.filename, note.line, note.compile_id + region


# ---- texts


def readable(module: torch.fx.GraphModule) -> str:
    """As source, with the user's lines: nodes know which one they come from, and torch wants its text too."""
    inner = [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    traces = [(node.meta, node.meta.get("stack_trace")) for each in inner for node in each.graph.nodes]
    try:
        for meta, stack in traces:
            if stack:
                meta["stack_trace"] = f"{stack.rstrip()}\n    {line_at(stack)}"
        text: str = module.print_readable(print_output=False, include_stride=True, include_device=True)
    finally:
        for meta, stack in traces:
            if stack:
                meta["stack_trace"] = stack
    return text


def line_at(stack: str) -> str:
    found = re.search(r'File "(.*)", line (\d+)', stack)
    return linecache.getline(found[1], int(found[2])).strip() if found else ""


def guards_text(program: GuardProgram) -> str:
    lines = [f"{guard}{origin(guard.user_place)}" for guard in program.guards]
    lines += [f"{text}{origin(place)}" for text, place in program.shapes]
    return "\n".join([*lines, *map(str, program.class_guards)])


def indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.rstrip().splitlines())


# ---- the debug directory


def report_times(run: Path) -> None:
    """What compiling took, when the process ends: it is only known then."""
    with harmless("compile times"):
        texts = compile_times(), compile_times(aggregate=False)
        (run / "compile_times.txt").write_text("\n\n".join(texts) + "\n")
        (run / "compile_times.csv").write_text(compile_times("csv", aggregate=False))


@functools.cache
def report_at_exit(run: Path) -> None:
    atexit.register(report_times, run)


_run = functools.cache(lambda: f"run_{datetime.datetime.now():%Y%m%d_%H%M%S}_{os.getpid()}")
os.register_at_fork(after_in_child=_run.cache_clear)


def new_folder(root: Path, note: CompileRecord) -> Path:
    """One that was not there: `mkdir` is what decides between threads and processes."""
    name = re.sub(r"[^\w.-]+", "_", note.name).strip("_")[-60:]
    for n in itertools.count():
        folder = root / _run() / (f"{note.compile_id.replace('/', '_')}_{name}" + (f"_{n}" if n else ""))
        try:
            folder.mkdir(parents=True)
            report_at_exit(folder.parent)
            break
        except FileExistsError:
            if not folder.is_dir():
                raise
    return folder


def keep(note: CompileRecord, name: str, text: Callable[[], str]) -> None:
    """Adds to the compilation's folder, if it has one."""
    if note.folder is not None:
        with open(Path(note.folder, FILES[name]), "a", encoding="utf-8") as file:
            file.write(text().rstrip() + "\n")


# ---- torch's structured trace


def is_traced() -> bool:
    """Whether TORCH_TRACE is set. Without it torch has a handler too, until it is first asked to write."""
    return any(getattr(handler, "root_dir", None) is not None for handler in trace_log.handlers)


def trace(name: str, metadata: Callable[[], dict[str, Any]] = dict, **rest: Any) -> None:
    if is_traced():
        trace_structured(name, metadata, **rest)


def number_of(note: CompileRecord) -> CompileId:
    frame, _, attempt = note.compile_id.partition("/")
    return CompileId(frame_id=int(frame), frame_compile_id=int(attempt))


def artifact(name: str, encoding: str, payload: Callable[[], Any]) -> None:
    trace("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=payload)


def summary_of(filename: str, line: int | None, name: str) -> traceback.FrameSummary:
    return traceback.FrameSummary(filename, line or 0, name)


def stack_of(note: CompileRecord) -> list[dict[str, Any]]:
    """Who called, without Framelift's own frames and what they call, and the function."""
    frames = traceback.extract_stack()
    own = [n for n, frame in enumerate(frames) if is_own(frame.filename) and frame.name == "missed"]
    callers = [frame for frame in frames[: own[-1] if own else None] if not is_own(frame.filename)]
    return from_traceback([*callers, summary_of(note.filename, note.line, note.name)])


def is_own(filename: str) -> bool:
    return filename.startswith(OWN_FILES + os.sep)


def sizes(module: torch.fx.GraphModule) -> dict[str, list[int | str]]:
    """Of the graph's tensors, by the names of their nodes."""
    found = ((node.name, node.meta.get("example_value")) for node in module.graph.nodes)
    return {name: shape_of(value) for name, value in found if isinstance(value, torch.Tensor)}


def shape_of(tensor: torch.Tensor) -> list[int | str]:
    return [size if type(size) is int else str(size) for size in tensor.shape]


def guards_data(program: GuardProgram) -> list[dict[str, Any]]:
    facts: list[tuple[str, Place | None]] = [(str(guard), guard.user_place) for guard in program.guards]
    facts += [*program.shapes, *((str(guard), None) for guard in program.class_guards)]
    return [{"code": text, "stack": None, "user_stack": stack_at(place)} for text, place in facts]


def stack_at(place: Place | None) -> list[dict[str, Any]] | None:
    if place is None:
        return None
    return from_traceback([summary_of(place.code.co_filename, place.line, place.code.co_qualname)])


def metrics(note: CompileRecord) -> dict[str, Any]:
    """The record under the names that torch's own metrics have."""
    failed_at = re.match(r'File "(.*)", line (\d+)', note.failed_at or "")
    return {
        "compile_id": note.compile_id,
        "co_name": note.name,
        "co_filename": note.filename,
        "co_firstlineno": note.line or 0,
        "cache_size": note.entries,
        "accumulated_cache_size": note.entries,
        "guard_count": note.guards,
        "shape_env_guard_count": note.shape_guards,
        "graph_op_count": note.ops,
        "graph_node_count": note.nodes,
        "graph_input_count": note.inputs,
        "start_time": note.started,
        "entire_frame_compile_time_s": note.seconds,
        "backend_compile_time_s": note.backend_seconds,
        "fail_type": note.failed.partition(":")[0] if note.failed else None,
        "fail_reason": note.failed,
        "fail_user_frame_filename": failed_at and failed_at[1],
        "fail_user_frame_lineno": failed_at and int(failed_at[2]),
        "non_compliant_ops": [],
        "compliant_custom_ops": [],
        "restart_reasons": note.restart_reasons,
        "dynamo_time_before_restart_s": note.seconds_lost,
    }
