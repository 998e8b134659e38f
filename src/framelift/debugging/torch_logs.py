"""torch's own logs: `TORCH_LOGS=graph_breaks,recompiles` shows Framelift's artifacts under torch's names.

torch decides which are on, from the environment or by `torch._logging.set_logs`. The loggers lie below
torch's, whose handlers print what they are told.
"""

from __future__ import annotations

import dis
import io
import linecache
import logging
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch.fx
from torch._logging import getArtifactLogger

from framelift.core.breaks import Place
from framelift.graph.origins import ORIGIN

ARTIFACTS: tuple[str, ...] = ("graph_breaks", "recompiles", "guards", "graph_code", "graph", "bytecode")
ARTIFACTS += ("graph_code_verbose", "graph_sizes", "verbose_guards", "recompiles_verbose")
ARTIFACTS += ("trace_source", "trace_call", "trace_bytecode")
"""What is told, by torch's names."""
_loggers = {name: getArtifactLogger("torch.framelift", name) for name in ARTIFACTS}


def is_on(*names: str) -> bool:
    return any(_loggers[name].isEnabledFor(logging.DEBUG) for name in names)


MORE_OF = {"graph_code": "graph_code_verbose", "guards": "verbose_guards", "recompiles": "recompiles_verbose"}
"""What torch tells more of under another name: here it is all told under either."""


def tell(name: str, text: Callable[[], str]) -> None:
    log = _loggers[name]
    if name in MORE_OF and not log.isEnabledFor(logging.DEBUG):
        log = _loggers[MORE_OF[name]]
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s", text())


def disassembled(code: CodeType) -> str:
    """The function's instructions."""
    out = io.StringIO()
    print(f"ORIGINAL BYTECODE {code.co_name} {code.co_filename} line {code.co_firstlineno}", file=out)
    dis.dis(code, file=out, depth=0)
    return out.getvalue()


# ---- while a trace goes on


def follower() -> Callable[[Any], None] | None:
    """What tells of the lines, or instructions, that a trace comes to."""
    if not is_on("trace_source", "trace_bytecode"):
        return None
    last: tuple[Any, int | None] = (None, None)

    def look(frame: Any) -> None:
        nonlocal last
        place: Place = frame.place
        if last != (frame, place.line):
            last = (frame, place.line)
            tell("trace_source", lambda: f"{headline(place, depth_of(frame))}\n    {line_of(place).strip()}")
        tell("trace_bytecode", lambda: f"TRACE {frame.code.instructions[frame.ip].opname} {len(frame.stack)}")

    return look


def headline(place: Place, depth: int) -> str:
    inlined = f" (inline depth: {depth})" if depth else ""
    name = place.code.co_qualname.replace(".<locals>", "")
    return f"TRACE starts_line {place.code.co_filename}:{place.line} in {name}{inlined}"


def depth_of(frame: Any) -> int:
    """How many frames wait for this one."""
    depth = 0
    while frame.back is not None:
        depth, frame = depth + 1, frame.back
    return depth


def line_of(place: Place) -> str:
    return "" if place.line is None else linecache.getline(place.code.co_filename, place.line).rstrip()


def tell_calls(graph: torch.fx.Graph) -> None:
    """Where in its line each call of a graph is written."""
    if not is_on("trace_call"):
        return
    for node in graph.nodes:
        origin = node.meta.get(ORIGIN)
        if node.op.startswith("call") and origin is not None:
            place = origin.activation.code.place(origin.at)
            code = place.code
            head = f"TRACE FX call {node.name} from {code.co_filename}:{place.line} in {code.co_qualname}"
            tell("trace_call", lambda: f"{head}\n{marked(place)}")  # noqa: B023 - told at once


def marked(place: Place) -> str:
    """The line, and below it which part it is about, as tracebacks show it."""
    code, (start, end) = place.code, place.columns
    columns: Any = {"end_lineno": place.end_line, "colno": start, "end_colno": end}
    summary = traceback.FrameSummary(code.co_filename, place.line, code.co_qualname, **columns)
    whole = line_of(place)
    shift = " " * (len(whole) - len(whole.lstrip()))
    _, *lines = "".join(traceback.StackSummary.from_list([summary]).format()).rstrip().split("\n")
    return "\n".join(shift + line[4:] for line in lines)
