"""What compilations came to: a record of each, the times by phase, counters.

>>> import framelift
>>> framelift.compile_records.clear()
>>> framelift.compile_records.resize(100)
>>> framelift.compile_records()
[]
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import csv
import dataclasses
import io
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from framelift.core.errors import UserError


@dataclass
class CompileRecord:
    """What one attempt to compile a frame, or a backward graph, came to."""

    kind: Literal["forward", "backward"]
    name: str
    """Of the function: `Block.forward`."""
    filename: str
    line: int | None
    """Where the function begins; for the rest of a function after a break, where that goes on."""
    backend: str = ""
    entries: int = 0
    """How many there were before."""
    recompiled_because: str | None = None
    guards: int = 0
    shape_guards: int = 0
    """Those of `guards` that fix sizes: of tensors."""
    nodes: int = 0
    ops: int = 0
    inputs: int = 0
    seconds: float = 0.0
    """In all; the other times are parts of it."""
    trace_seconds: float = 0.0
    """The trace that was kept."""
    generate_seconds: float = 0.0
    """Making guards, graph and the generated function of it, or loading what another rank has captured."""
    backend_seconds: float = 0.0
    failed: str | None = None
    """What stood in the way, if it was not compiled (or, with `ended_by`, not whole)."""
    failed_at: str | None = None
    ended_by: str | None = None
    """The break at which what was captured ends, if it was not captured to the end."""
    restarts: int = 0
    restart_reasons: list[str] = field(default_factory=list)
    seconds_lost: float = 0.0
    """What the traces took that had to be repeated."""
    compile_id: str = ""
    """Which code object, and which attempt to compile it: `3/0`. Logs and traces have it too."""
    started: float = 0.0
    """When, as `time.time()` has it."""
    region: str = ""
    """What the compiled function was called by `compile(name=...)`."""
    background: bool = False
    """Whether its graph went to another process to be compiled, and the frame ran as plain Python."""
    was_loaded: bool = False
    """Whether nothing was traced: it was found in the cache on disk."""
    folder: str | None = None
    """Where its graph, guards and code are, if there is a `config.debug_dir`."""

    def phases(self) -> dict[str, float]:
        """Seconds by the names in `PHASES`; together they are `seconds`."""
        if self.kind == "backward":
            return {"backward": self.seconds}
        if not (self.trace_seconds or self.generate_seconds):  # nothing was captured, or loaded
            return {"trace": self.seconds}
        parts = {"trace": self.trace_seconds, "repeated": self.seconds_lost}
        parts |= {"generate": self.generate_seconds, "backend": self.backend_seconds}
        return {**parts, "rest": max(0.0, self.seconds - sum(parts.values()))}

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"phases": self.phases()}


@dataclass
class Spent:
    """What one phase took, over all compilations."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        self.count, self.seconds = self.count + 1, self.seconds + seconds
        self.longest = max(self.longest, seconds)


LIMIT = 256


class CompileRecords:
    """Call it for a list, oldest first. Bounded: `resize` says how many are kept."""

    def __init__(self) -> None:
        self._kept: collections.deque[CompileRecord] = collections.deque(maxlen=LIMIT)
        self._phases: dict[str, Spent] = collections.defaultdict(Spent)
        self._lock = threading.Lock()

    def __call__(self, kind: Literal["forward", "backward"] | None = None) -> list[CompileRecord]:
        """All of them, or those of one kind."""
        if kind not in (None, "forward", "backward"):
            raise UserError(f"compile_records: kind must be 'forward' or 'backward', not {kind!r:.80}")
        with self._lock:
            return [record for record in self._kept if kind is None or record.kind == kind]

    @property
    def limit(self) -> int:
        return self._kept.maxlen or 0

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._phases.clear()

    def resize(self, limit: int) -> None:
        """Keeps the latest `limit` records from now on; 0: none."""
        if type(limit) is not int or limit < 0:
            raise UserError(f"compile_records.resize takes a number of records, not {limit!r:.80}")
        with self._lock:
            self._kept = collections.deque(self._kept, maxlen=limit)

    def add(self, record: CompileRecord) -> None:
        with self._lock:
            self._kept.append(record)
            for name, seconds in record.phases().items():
                if seconds:
                    self._phases[name].add(seconds)

    def phases(self) -> dict[str, Spent]:
        """What each phase took since the records were last cleared: of all there were, kept or not."""
        with self._lock:
            return {name: dataclasses.replace(spent) for name, spent in self._phases.items()}

    def to_dicts(self) -> list[dict[str, Any]]:
        """As plain data, oldest first."""
        return [record.to_dict() for record in self()]

    def to_jsonl(self, path: str | os.PathLike[str]) -> int:
        """Writes a line of JSON for each record; gives how many. A file that was there is replaced."""
        rows = self.to_dicts()
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return len(rows)

    def __repr__(self) -> str:
        return f"<{len(self._kept)} compile records of at most {self.limit}>"


compile_records = CompileRecords()

compiling: contextvars.ContextVar[CompileRecord | None] = contextvars.ContextVar("compiling", default=None)
"""The record of what a backend is compiling now, for what it compiles later on its behalf."""


Phase = Literal["trace", "backend", "backward", "done"]
Listener = Callable[[CompileRecord, Phase], None]

_listener: Listener | None = None
"""Is told what is being compiled at the moment, to show it."""


def report_phase(record: CompileRecord, phase: Phase) -> None:
    """A phase begins; `done` is the end of the last one. What goes wrong with showing it stops nothing."""
    if _listener is not None:
        with contextlib.suppress(Exception):
            _listener(record, phase)


def set_listener(listener: Listener) -> None:
    """Who is told if nobody else listens."""
    global _listener
    _listener = listener


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """One listener at a time, for all threads."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


PHASES = {
    "trace": "running functions under the interpreter, as far as that was of use",
    "repeated": "traces that had to be repeated",
    "generate": "guards, graph and the generated function",
    "backend": "the backend, for forward graphs",
    "backward": "the backend, for backward graphs",
    "rest": "the remainder: checking the guards once, installing, and what is told",
}

Row = tuple[Any, ...]
TOTALS = ("phase", "count", "seconds", "mean", "max")
SINGLE = ("compile_id", "kind", "name", "file", "line", *PHASES, "seconds")


def compile_times(repr: str = "str", aggregate: bool = True) -> str:
    """Where the time went since `framelift.reset()`. A table as text, or with `repr="csv"` as CSV: a row for
    each phase, or, if not to `aggregate`, for each compilation of which there is still a record.

    >>> import framelift
    >>> framelift.reset()
    >>> framelift.compile_times("csv")
    'phase,count,seconds,mean,max\\n'
    """
    if repr not in WRITERS:
        raise UserError(f"compile_times: repr must be one of {', '.join(WRITERS)}, not {repr!r:.80}")
    heads, rows = (TOTALS, totals()) if aggregate else (SINGLE, map(single, compile_records()))
    return WRITERS[repr](heads, rows)


def totals() -> list[Row]:
    found = compile_records.phases()
    spent = [(name, found[name]) for name in PHASES if name in found]
    return [(name, own.count, own.seconds, own.seconds / own.count, own.longest) for name, own in spent]


def single(record: CompileRecord) -> Row:
    phases = record.phases()
    place = (record.compile_id, record.kind, record.name, record.filename, record.line)
    return (*place, *(phases.get(name, 0.0) for name in PHASES), record.seconds)


def as_csv(heads: Row, rows: Iterable[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([heads, *([written(cell) for cell in row] for row in rows)])
    return text.getvalue()


def as_table(heads: Row, rows: Iterable[Row]) -> str:
    """Columns as wide as they must be, numbers to the right."""
    cells = [list(map(str, heads)), *([written(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    adjusts = [str.rjust if name in NUMBERS else str.ljust for name in heads]
    columns = [[adjust(row[n], widths[n]) for row in cells] for n, adjust in enumerate(adjusts)]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


NUMBERS = {"count", "seconds", "mean", "max", "line", *PHASES}
WRITERS = {"str": as_table, "csv": as_csv}


def written(cell: object) -> str:
    return f"{cell:.6f}" if isinstance(cell, float) else "" if cell is None else str(cell)


counters: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
"""What happened: group -> name -> how often.

- `frames`: frames that were to be captured, `total`, and of these `ok`
- `stats`: `unique_graphs`, and `calls_captured` in them
- `graph_break`: why captures ended, each place in a program once
- `unimplemented`: the same, each time
- `recompiles`: functions that were compiled again, and the guard that had failed
- `inline_call`: calls of Python functions that are part of the caller's graph, `inlined`
- `restarts`: `traces` that had to be repeated
- `backend_failures`: graphs that a backend could not compile, by the backend's name
"""
