"""`framelift.compile_times`: where the time went, by phase.

The sums are over everything since `framelift.reset()`; rows for single compilations are those of which there
is still a record.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from framelift.core.errors import UserError
from framelift.core.records import CompileRecord, compile_records

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
    """A table as text, or with `repr="csv"` as CSV: a row for each phase, or, if not to `aggregate`, for each
    compilation.

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
    return [
        (name, spent.count, spent.seconds, spent.seconds / spent.count, spent.longest)
        for name, spent in ((name, found[name]) for name in PHASES if name in found)
    ]


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
    numeric = [name in NUMBERS for name in heads]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    )


NUMBERS = {"count", "seconds", "mean", "max", "line", *PHASES}
WRITERS = {"str": as_table, "csv": as_csv}


def written(cell: object) -> str:
    return f"{cell:.6f}" if isinstance(cell, float) else "" if cell is None else str(cell)
