"""Reports of compilations while they happen: to the logs, to the debug directory, to torch's trace.

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
from framelift.core.records import CompileRecord, compile_times
from framelift.debugging import torch_logs
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import Recompilation
from framelift.dispatch.extensions import Observer, RunningCompilation
from framelift.dispatch.frame_hook import on_cache_miss
from framelift.graph.origins import describe_nodes, name_of_graph
from framelift.guards.program import GuardProgram, origin

FILES = {name: f"{name}.txt" for name in ("graph", "breaks", "guards", "recompiles", "backward")}
FILES |= {"code": "code.py", "record": "record.json"}
"""What is in the folder of a compilation, as far as it has it."""


def is_wanted(record: CompileRecord, *names: str) -> bool:
    """Whether anyone asked: nothing else is to cost anything otherwise."""
    if record.folder is not None or is_traced():
        return True
    if any(logs.LOGGERS[name].isEnabledFor(logging.DEBUG) for name in names):
        return True
    return torch_logs.is_on(*(torchs for name in names for torchs in TORCHS[name]))


TORCHS = {
    "graph": ("graph_code", "graph_code_verbose", "graph", "graph_sizes"),
    "guards": ("guards", "verbose_guards"),
    "code": ("bytecode",),
}
"""A kind of report -> the artifacts of torch's that show it."""


@contextlib.contextmanager
def harmless(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logs.ROOT.warning("%s could not be reported: %s: %s", what, type(error).__name__, error)


class Reports(Observer):
    """Reports the moments of a compilation."""

    @contextlib.contextmanager
    def around_compilation(self, compilation: RunningCompilation) -> Iterator[None]:
        """What torch's compilers write to the trace meanwhile gets the same number."""
        record, is_told = compilation.record, torch_logs.is_on(*torch_logs.ARTIFACTS)
        if not (is_told or config.debug_dir or is_traced()):
            yield
            return
        if is_told or is_traced():
            numbered: Any = compile_context(CompileContext(number_of(record)))
        else:
            numbered = contextlib.nullcontext()
        with harmless("the beginning of a compilation"):
            if config.debug_dir:
                record.folder = str(new_folder(Path(config.debug_dir), record))
            trace("dynamo_start", lambda: {"stack": stack_of(record)}, compile_id=number_of(record))
        with numbered:
            torch_logs.tell("bytecode", lambda: torch_logs.disassembled(compilation.fn.__code__))
            try:
                yield
            finally:
                with harmless("the record of a compilation"):
                    keep(record, "record", lambda: json.dumps(dataclasses.asdict(record), indent=2))
                    trace("compilation_metrics", lambda: metrics(record))

    def follow_trace(self) -> Callable[[Any], None] | None:
        return torch_logs.follower()

    def report_recompilation(self, record: CompileRecord, found: Recompilation) -> None:
        """The log has it since it was decided."""
        with harmless("a recompilation"):
            keep(record, "recompiles", lambda: str(found))
            torch_logs.tell("recompiles", lambda: recompiled_text(record, found))
            artifact("recompile_reasons", "json", lambda: [str(failure) for failure in found.by_failure()])

    def report_graph(self, record: CompileRecord, capture: Capture) -> None:
        module = capture.graph
        if module is not None:
            with harmless("calls"):
                torch_logs.tell_calls(module.graph)
        if module is not None and is_wanted(record, "graph"):
            with harmless("a graph"):
                text = functools.cache(lambda: readable(module))
                report(record, "graph", text)
                heading = lambda: f" ===== {name_of_graph(module)} ====="
                torch_logs.tell("graph_code", lambda: f"TRACED GRAPH\n{heading()}\n{text()}")
                torch_logs.tell("graph", lambda: f"TRACED GRAPH\n{heading()}\n{module.graph}")
                torch_logs.tell("graph_sizes", lambda: sizes_text(module, heading()))
                trace("dynamo_output_graph", lambda: {"sizes": sizes(module)}, payload_fn=text)

    def report_entry(self, record: CompileRecord, capture: Capture) -> None:
        if not is_wanted(record, "guards", "code"):
            return
        program, source = capture.program, capture.region.source
        with harmless("an entry"):
            report(record, "guards", lambda: guards_text(program))
            report(record, "code", lambda: source)
            torch_logs.tell("guards", lambda: f"GUARDS:\n{guards_text(program)}")
            torch_logs.tell("bytecode", lambda: f"GENERATED CODE\n{source}")
            trace("dynamo_guards", payload_fn=lambda: guards_data(program))
            artifact("framelift_generated_code", "string", lambda: source)

    def report_backward(self, record: CompileRecord, graph: torch.fx.GraphModule) -> None:
        with harmless("a backward graph"):
            keep(record, "backward", lambda: readable(graph))

    def report_break(self, record: CompileRecord, found: Break, is_known: bool) -> None:
        """A place that is known is logged for who wants details."""
        with harmless("a break"):
            text = lambda: f"{found.headline}\nGraph Break Reason: {found.describe()}"
            report(record, "breaks", text, logging.DEBUG if is_known else logging.INFO)
            torch_logs.tell("graph_breaks", lambda: f"{text()}\n\n{users_traceback(found)}")
            artifact("dynamo_graph_break_reason", "string", found.describe)


def report(record: CompileRecord, name: str, text: Callable[[], str], level: int | None = None) -> None:
    """To the logger and to the folder."""
    log, level = logs.LOGGERS[name], logs.LEVELS[name] if level is None else level
    if log.isEnabledFor(level):
        region = f" of {record.region}" if record.region else ""
        title = record.name, record.filename, record.line, record.compile_id + region
        log.log(level, "%s (%s:%s), compilation %s\n%s", *title, indented(text()))
    keep(record, name, text)


# ---- texts


def recompiled_text(record: CompileRecord, found: Recompilation) -> str:
    head = f"Recompiling function {record.name} in {record.filename}:{record.line}"
    return f"{head}\n    triggered by the following guard failure(s):\n{indented(str(found))}"


def readable(module: torch.fx.GraphModule) -> str:
    """As source, with the user's lines."""
    describe_nodes(module)
    text: str = module.print_readable(print_output=False, include_stride=True, include_device=True)
    return text


def guards_text(program: GuardProgram) -> str:
    lines = [f"{guard}{origin(guard.user_place)}" for guard in program.guards]
    lines += [f"{text}{origin(place)}" for text, place in program.shapes]
    return "\n".join([*lines, *map(str, program.class_guards)])


def indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.rstrip().splitlines())


# ---- the debug directory


def write_times(run: Path) -> None:
    """What compiling took, when the process ends: it is only known then."""
    with harmless("compile times"):
        texts = compile_times(), compile_times(aggregate=False)
        (run / "compile_times.txt").write_text("\n\n".join(texts) + "\n")
        (run / "compile_times.csv").write_text(compile_times("csv", aggregate=False))


@functools.cache
def write_times_at_exit(run: Path) -> None:
    atexit.register(write_times, run)


_run = functools.cache(lambda: f"run_{datetime.datetime.now():%Y%m%d_%H%M%S}_{os.getpid()}")
os.register_at_fork(after_in_child=_run.cache_clear)


def new_folder(root: Path, record: CompileRecord) -> Path:
    """One that was not there: `mkdir` is what decides between threads and processes."""
    name = re.sub(r"[^\w.-]+", "_", record.name).strip("_")[-60:]
    for n in itertools.count():
        folder = root / _run() / (f"{record.compile_id.replace('/', '_')}_{name}" + (f"_{n}" if n else ""))
        try:
            folder.mkdir(parents=True)
            write_times_at_exit(folder.parent)
            break
        except FileExistsError:
            if not folder.is_dir():
                raise
    return folder


def keep(record: CompileRecord, name: str, text: Callable[[], str]) -> None:
    """Adds to the compilation's folder, if it has one."""
    if record.folder is not None:
        with open(Path(record.folder, FILES[name]), "a", encoding="utf-8") as file:
            file.write(text().rstrip() + "\n")


# ---- torch's structured trace


def is_traced() -> bool:
    """Whether TORCH_TRACE is set. Without it torch has a handler too, until it is first asked to write."""
    return any(getattr(handler, "root_dir", None) is not None for handler in trace_log.handlers)


def trace(name: str, metadata: Callable[[], dict[str, Any]] = dict, **rest: Any) -> None:
    if is_traced():
        trace_structured(name, metadata, **rest)


def number_of(record: CompileRecord) -> CompileId:
    frame, _, attempt = record.compile_id.partition("/")
    return CompileId(frame_id=int(frame), frame_compile_id=int(attempt))


def artifact(name: str, encoding: str, payload: Callable[[], Any]) -> None:
    trace("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=payload)


def summary_of(filename: str, line: int | None, name: str) -> traceback.FrameSummary:
    return traceback.FrameSummary(filename, line or 0, name)


def stack_of(record: CompileRecord) -> list[dict[str, Any]]:
    """Who called, without Framelift's own frames and what they call, and the function."""
    return from_traceback([*callers(), summary_of(record.filename, record.line, record.name)])


def callers() -> list[traceback.FrameSummary]:
    """Who called the function that is compiled."""
    frames = (frame for frame, _ in traceback.walk_stack(None))
    hook = next((frame for frame in frames if frame.f_code is on_cache_miss.__code__), None)
    own = OWN_FILES + os.sep
    return [frame for frame in traceback.extract_stack(hook) if not frame.filename.startswith(own)]


def sizes(module: torch.fx.GraphModule) -> dict[str, list[int | str]]:
    """Of the graph's tensors, by the names of their nodes."""
    found = ((node.name, node.meta.get("example_value")) for node in module.graph.nodes)
    return {name: shape_of(value) for name, value in found if isinstance(value, torch.Tensor)}


def users_traceback(found: Break) -> str:
    """How the program came to a break: who called the function, and what it was in."""
    names = [place.code.co_qualname.rpartition(".")[2] for place in found.stack]
    named = zip(found.stack, names, strict=True)
    places = [summary_of(place.code.co_filename, place.line, name) for place, name in named]
    return "".join(["User code traceback:\n", *traceback.format_list([*callers(), *places])])


def sizes_text(module: torch.fx.GraphModule, heading: str) -> str:
    lines = [f"{name}: ({', '.join(map(str, shape))})" for name, shape in sizes(module).items()]
    return "\n".join(["TRACED GRAPH TENSOR SIZES", heading, *lines])


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


def metrics(record: CompileRecord) -> dict[str, Any]:
    """The record under the names that torch's own metrics have."""
    failed_at = re.match(r'File "(.*)", line (\d+)', record.failed_at or "")
    frame = record.compile_id.partition("/")[0]
    return {
        "compile_id": record.compile_id,
        "frame_key": str(int(frame) + 1) if frame.isdigit() else None,
        "is_forward": record.kind == "forward",
        "has_guarded_code": record.failed_as is None,
        "co_name": record.name.rpartition(".")[2],
        "co_filename": record.filename,
        "co_firstlineno": record.line or 0,
        "cache_size": record.entries,
        "accumulated_cache_size": record.accumulated_entries,
        "guard_count": record.guards,
        "shape_env_guard_count": record.shape_guards,
        "graph_op_count": record.ops,
        "graph_node_count": record.nodes,
        "graph_input_count": record.inputs,
        "start_time": record.started,
        "entire_frame_compile_time_s": record.seconds,
        "backend_compile_time_s": record.backend_seconds,
        "fail_type": record.failed_as,
        "fail_reason": record.failed and record.failed.removeprefix(f"{record.failed_as}: "),
        "fail_user_frame_filename": failed_at and failed_at[1],
        "fail_user_frame_lineno": failed_at and int(failed_at[2]),
        "non_compliant_ops": record.non_compliant_ops,
        "compliant_custom_ops": record.compliant_custom_ops,
        "restart_reasons": record.restart_reasons,
        "dynamo_time_before_restart_s": record.seconds_lost,
    }
